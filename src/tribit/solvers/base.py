"""The base class of solvers: class attributes that declare a solver's capabilities, and the check of a problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from tribit.errors import InvalidInputError, parameter
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.solvers.loop import SolverResult, Stopping

if TYPE_CHECKING:
    from tribit.backends.objective import Objective


class StatedProblem(Protocol):
    """Properties of a problem that decide whether a solver supports it: of a ModelSpec or an objective."""

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

    A subclass defines :meth:`minimise` and overrides the defaults that differ. With the defaults it receives any
    problem, except features that the search alone would add.

    Examples
    --------
    >>> from tribit import Newton
    >>> from tribit.solvers import Solver
    >>> isinstance(Newton(), Solver)
    True
    """

    #: Default ``max_iter``.
    max_iter: ClassVar[int] = 1000
    #: Whether unknowns may be arrays of a device.
    any_arrays: ClassVar[bool] = False
    #: Whether it is fast enough for the many fits of a search.
    searchable: ClassVar[bool] = True
    #: Least rank that a search may choose for it.
    min_rank: ClassVar[int] = 0
    #: Whether a search may try features with it: rows that share unknowns.
    searches_features: ClassVar[bool] = False

    def refusal(self, model: StatedProblem, constraints: list[Constraint]) -> str | None:  # noqa: ARG002
        """Return in one sentence why the solver does not support a problem; None where it does."""
        return None

    @abstractmethod
    def minimise(
        self,
        objective: Objective,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,
    ) -> SolverResult:
        """Return the point where the solver stopped, and the reason."""

    def check_supported(self, model: StatedProblem, constraints: list[Constraint]) -> None:
        """Raise the refusal of a problem that the solver does not support."""
        reason = self.refusal(model, constraints)
        if reason is not None:
            raise InvalidInputError(reason)


def refuse_shared_unknowns(name: str, model: StatedProblem) -> str | None:
    """Return the refusal of features, which make rows share unknowns, by a solver that moves single rows."""
    if not model.shares_unknowns:
        return None
    return (
        f"{parameter('implicit_features', True)} makes rows share unknowns, and the {name} solver cannot move these: "
        f"use {parameter('solver', 'lbfgs')}."
    )
