"""The base class of objectives in factors: what solvers ask of one beyond its value and gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.model.constraints import Ridge
from tribit.model.factors import Factors

Array = NDArray[np.floating[Any]]


class Smooth(ABC):
    """A differentiable function of factors; the defaults are those of one without intercepts and features."""

    #: Whether rows share unknowns.
    shares_unknowns: bool = False
    #: Whether intercepts are unknowns, their largest absolute value, and the ridge on those of rows and columns.
    intercept: bool = False
    intercept_bound: float = np.inf
    intercept_ridge: Ridge = Ridge(0.0)
    #: A typical second derivative of the loss of one entry.
    curvature: float = 1.0
    #: The entries that count (:class:`~tribit.data.observations.Entries`).
    observations: Any

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The shape of X."""

    @property
    @abstractmethod
    def size(self) -> float:
        """Scale of the objective, to which ``tol`` is relative."""

    @abstractmethod
    def value(self, factors: Factors) -> float:
        """Return F."""

    @abstractmethod
    def gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:
        """Return F and its gradient, laid out as the factors are."""

    def in_float64(self) -> Self:
        """Return the same objective in float64 arithmetic."""
        return self

    def entry_counts(self) -> tuple[Array, Array]:
        """Return the number of entries that count in each row and in each column."""
        rows, columns = self.observations.counts
        return rows.astype(np.float64), columns.astype(np.float64)
