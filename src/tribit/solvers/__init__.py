"""Solvers: how the objective is brought down inside the constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tribit.checks import check_choice
from tribit.errors import InvalidTypeError, parameter
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.registries import Entry, LazyRegistry, lazily
from tribit.solvers.loop import Callback, Iteration, SolverResult, Stopping

if TYPE_CHECKING:
    from tribit.solvers.bounded import AugmentedLagrangian
    from tribit.solvers.lbfgs import LBFGS
    from tribit.solvers.newton import Newton
    from tribit.solvers.projected_gradient import ProjectedGradient

__all__ = [
    "LBFGS",
    "SOLVERS",
    "AugmentedLagrangian",
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
    problem, None where it can (:func:`tribit.solvers.refusals.refusal_of`), ``least_rank``, the least rank that a
    search may choose for it, and ``searchable``, whether it is fast enough for the many fits of a search. One that
    has none of them is given any problem, except implicit features that the user did not ask for.
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


#: Solvers by name, imported when they are used.
SOLVERS = LazyRegistry(
    {
        "newton": Entry("tribit.solvers.newton:Newton"),
        "lbfgs": Entry("tribit.solvers.lbfgs:LBFGS"),
        "augmented_lagrangian": Entry("tribit.solvers.bounded:AugmentedLagrangian"),
        "projected_gradient": Entry("tribit.solvers.projected_gradient:ProjectedGradient"),
    }
)
__getattr__ = lazily(
    __name__,
    LBFGS="tribit.solvers.lbfgs",
    AugmentedLagrangian="tribit.solvers.bounded",
    Newton="tribit.solvers.newton",
    ProjectedGradient="tribit.solvers.projected_gradient",
)


def as_solver(solver: Any) -> Solver:
    """Return the solver itself, or the one of that name with its default options."""
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, SOLVERS)]()  # type: ignore[no-any-return]
    if isinstance(solver, type) or not hasattr(solver, "minimise"):
        raise InvalidTypeError(
            f"{parameter('solver')} must be one of {', '.join(SOLVERS)} or a solver object; got "
            f"{type(solver).__name__}."
        )
    return solver  # type: ignore[no-any-return]
