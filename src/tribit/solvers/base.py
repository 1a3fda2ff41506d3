"""The base class of solvers: what a solver declares, asked before the work begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np

from tribit.errors import InvalidInputError, parameter
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.solvers.loop import SolverResult, Stopping


class StatedProblem(Protocol):
    """What a solver asks of a problem before it begins: a ModelSpec or an objective."""

    @property
    def shares_unknowns(self) -> bool:
        """Whether rows share unknowns through features."""
        ...

    @property
    def intercept_bound(self) -> float:
        """Largest absolute value of a row or column intercept."""
        ...


class Solver(ABC):
    """Minimises an objective inside constraints.

    A subclass has :meth:`minimise` and declares what differs from these defaults. One that declares nothing is given
    any problem, except features that the user did not ask for.
    """

    #: Iterations where the user names no number.
    max_iter: ClassVar[int] = 1000
    #: Whether unknowns may be arrays of a device.
    any_arrays: ClassVar[bool] = False
    #: Whether it is fast enough for the many fits of a search.
    searchable: ClassVar[bool] = True
    #: Least rank that a search may choose for it.
    least_rank: ClassVar[int] = 0
    #: Whether a search may try features with it: rows that share unknowns.
    searches_features: ClassVar[bool] = False

    def refusal(self, model: StatedProblem, constraints: list[Constraint]) -> str | None:  # noqa: ARG002
        """Return in one sentence why it cannot keep a problem; None where it can."""
        return None

    @abstractmethod
    def minimise(
        self,
        objective: Any,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,
    ) -> SolverResult:
        """Return the point where the solver stopped, and why."""

    def check_supported(self, model: StatedProblem, constraints: list[Constraint]) -> None:
        """Raise what the solver says against the problem."""
        reason = self.refusal(model, constraints)
        if reason is not None:
            raise InvalidInputError(reason)


def refuse_shared_unknowns(name: str, model: StatedProblem) -> str | None:
    """Return the refusal of a solver that moves rows one by one, where implicit features make rows share unknowns."""
    if not model.shares_unknowns:
        return None
    return (
        f"{parameter('implicit_features', True)} makes rows share unknowns, and the {name} solver cannot move these: "
        f"use {parameter('solver', 'lbfgs')}."
    )
