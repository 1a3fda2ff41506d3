"""Solvers: how the objective is brought down inside the constraints."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.solvers.lbfgs import LBFGS
from tribit.solvers.loop import Callback, Iteration, SolverResult, Stopping
from tribit.solvers.newton import Newton
from tribit.solvers.projected_gradient import ProjectedGradient

__all__ = [
    "LBFGS",
    "SOLVERS",
    "Callback",
    "Iteration",
    "Newton",
    "ProjectedGradient",
    "Solver",
    "SolverResult",
    "Stopping",
    "as_solver",
]


class Solver(Protocol):
    """Minimises an objective inside constraints.

    A solver may also have a method ``refusal(model, constraints)``, which returns in one sentence why it cannot keep a
    problem, None where it can (:func:`tribit.solvers.refusals.refusal_of`), and ``least_rank``, the least rank that a
    search may choose for it. One that has neither is given any problem, but for mask features that nobody asked for.
    """

    max_iter: int

    def minimise(
        self,
        objective: Any,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,
    ) -> SolverResult:
        """Return the point where the solver stopped, and why."""
        ...


SOLVERS: dict[str, type[Any]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "projected_gradient": ProjectedGradient,
}


def as_solver(solver: Any) -> Solver:
    """Return the solver itself, or the one of that name with its default options."""
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise InvalidInputError(
                f"There is no solver {solver!r}; use one of {', '.join(SOLVERS)}."
            )
        return SOLVERS[solver]()  # type: ignore[no-any-return]
    if isinstance(solver, type) or not hasattr(solver, "minimise"):
        raise InvalidTypeError(
            f"solver must be one of {', '.join(SOLVERS)} or a solver object; got {type(solver).__name__}."
        )
    return solver  # type: ignore[no-any-return]
