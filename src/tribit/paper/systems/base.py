"""Shared parts of the systems: base classes, the link of least squares, observed entries, results of solvers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tribit.checks import check_not_negative, check_whole
from tribit.data.measurements import Measurements, as_measurements
from tribit.data.observations import read_entries
from tribit.data.rules import TableRules
from tribit.errors import InvalidInputError, warn
from tribit.factor_model import FactorModel
from tribit.model.links import Label, Link
from tribit.solvers.loop import OUT_OF_ITERATIONS, SolverResult

Array = NDArray[np.floating[Any]]
Places = NDArray[np.int64]

#: Smallest distance of a probability from 0 and 1, also for estimates outside [low, high].
MIN_PROBABILITY = 1e-3
#: Numbers gathered at a time from a factor, so that they stay in cache.
GATHERED_NUMBERS = 2**15


@dataclass(frozen=True)
class Linear(Link):
    """``f(x) = (x - low) / (high - low)``, kept within [0.001, 0.999].

    With labels -1 and +1 least squares estimates the mean label, so ``f(x) = (1 + x) / 2``. ``Linear(0, 1)`` is the
    ``f(x) = x`` of Hsieh et al. (2015).

    Parameters
    ----------
    low, high : float
        The entries at which a like is impossible and certain.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems import Linear
    >>> Linear().probability(np.array([-1.0, 0.0, 0.5]))
    array([0.001, 0.5  , 0.75 ])
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidInputError(f"low must be below high; got {self.low!r} and {self.high!r}.")

    def probability(self, x: Array) -> Array:  # noqa: D102
        share = (x - self.low) * (1.0 / (self.high - self.low))
        return np.asarray(np.clip(share, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY))

    def loss(self, x: Array, y: Label) -> Array:  # noqa: D102
        likely = self.probability(x)
        return np.asarray(-np.log(likely if y > 0 else 1.0 - likely))

    def first(self, x: Array, y: Label) -> Array:  # noqa: D102
        likely = self.probability(x)
        inside = (likely > MIN_PROBABILITY) & (likely < 1.0 - MIN_PROBABILITY)
        slope = 1.0 / (self.high - self.low)
        return np.asarray(np.where(inside, -slope / likely if y > 0 else slope / (1.0 - likely), 0))

    def second(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray(self.first(x, y) ** 2)


class System(FactorModel):
    """An estimator of likes and dislikes; a subclass fits its factors in ``_fit``."""

    def fit(self, X: object, y: object = None) -> Self:  # noqa: ARG002
        """Fit the model.

        Parameters
        ----------
        X : Observations, Measurements, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1) and dislikes (-1), or real values for a method of least squares; 0, NaN and entries that are not
            stored are unobserved.
        y : ignored
            Present for scikit-learn's interface.
        """
        self._fit(self._read(X))
        return self

    @property
    def reading_(self) -> TableRules:
        """The rules for matrices: 0 is unobserved, as in the literature."""
        return TableRules(like_at=getattr(self, "like_at", None), zeros="unobserved")

    def _read(self, X: object) -> Any:
        return read_entries(self, X)

    def _fit(self, data: Any) -> None:
        raise NotImplementedError

    def _store_result(self, result: SolverResult, seen: Any) -> None:
        """Store the result of a solver, and warn where it stopped early."""
        self._set_scores(result.factors, seen)
        self.objective_, self.n_iter_ = result.objective, result.n_iter
        self.converged_, self.stop_reason_ = result.converged, result.stop_reason
        self.history_ = result.history
        if not result.converged:
            raise_it = "; raise max_iter or tol" if result.stop_reason == OUT_OF_ITERATIONS else ""
            warn(
                f"The fit stopped before it converged: {result.stop_reason}{raise_it}.",
                ConvergenceWarning,
            )


class MeasuredSystem(System):
    """A system of measured values, to which labels are the values +1 and -1: ``P(like) = (1 + x) / 2``."""

    def _read(self, X: object) -> Measurements:
        return as_measurements(X)

    def _link(self) -> Link:
        return Linear()


@dataclass(frozen=True, eq=False)
class ObservedEntries:
    """Positions of the observed entries of a matrix, in row-major order."""

    rows: Places
    columns: Places
    shape: tuple[int, int]

    @cached_property
    def _row_starts(self) -> Places:
        counts = np.bincount(self.rows, minlength=self.shape[0])
        return np.concatenate([[0], np.cumsum(counts)])

    def of_product(self, U: Array, V: Array) -> Array:
        """Return the observed entries of ``U V'``."""
        x = np.empty(self.rows.size)
        length = max(GATHERED_NUMBERS // max(U.shape[1], 1), 1)
        for start in range(0, x.size, length):
            part = slice(start, start + length)
            left, right = (
                np.take(U, self.rows[part], axis=0),
                np.take(V, self.columns[part], axis=0),
            )
            x[part] = np.einsum("ij,ij->i", left, right)
        return x

    def matrix(self, values: Array) -> sp.csr_array:
        """Return the sparse matrix with these values at the observed entries."""
        return sp.csr_array((values, self.columns, self._row_starts), shape=self.shape)


def lower_to_sum(sizes: Array, total: float) -> Array:
    """Return ``argmin |s - sizes|^2`` over ``s >= 0``, ``sum(s) = total``, of falling ``sizes`` with a larger sum."""
    excess = (np.cumsum(sizes) - total) / np.arange(1, sizes.size + 1)
    # Sizes stay positive above the shrinkage that they imply.
    return np.asarray(np.maximum(sizes - excess[np.flatnonzero(sizes > excess)[-1]], 0.0))


def check_rank(name: str, value: object, most: int) -> int:
    """Return a number of latent factors, from 1 to ``most``."""
    columns = check_whole(name, value)
    if not 1 <= columns <= most:
        raise InvalidInputError(
            f"{name} must be from 1 to {most} for a matrix of this shape; got {value}."
        )
    return columns


def check_share(share: Any, budget: float) -> float | None:
    """Return ``budget_share``, a number from 0 to 1 in place of a budget, or None."""
    if share is None:
        return None
    if check_not_negative("budget_share", share) > 1.0:
        raise InvalidInputError(f"budget_share must be from 0 to 1; got {share!r}.")
    if budget:
        raise InvalidInputError(
            f"Give budget or budget_share, not both; got {budget!r} and {share!r}."
        )
    return float(share)
