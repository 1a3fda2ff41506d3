"""Parts that fits in factor form share: the sum of squared errors, a start, a check, and what a solver found."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds
from sklearn.exceptions import ConvergenceWarning

from tribit.checks import check_whole
from tribit.data.observations import Measurements
from tribit.errors import InvalidInputError, warn
from tribit.factor_model import FactorModel
from tribit.model.factors import Factors
from tribit.solvers.loop import OUT_OF_ITERATIONS, SolverResult

Array = NDArray[np.floating[Any]]

BLOCK = 1 << 15  #: measured entries whose products are formed together


class SquaredErrors:
    """``F(U, V) = sum over measured entries of (u_i' v_j - a_ij)^2``, with its gradient.

    Parameters
    ----------
    measurements : Measurements
        The entries ``a_ij``.
    """

    curvature = 2.0  #: of one entry

    def __init__(self, measurements: Measurements) -> None:
        self.observations = measurements
        self.rows, self.columns = measurements.rows, measurements.columns
        self._offsets = np.concatenate([[0], np.cumsum(measurements.counts[0])])

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of X."""
        return self.observations.shape

    @cached_property
    def size(self) -> float:
        """The loss at ``X = 0`` (1 where that is 0): what ``tol`` is relative to."""
        return float(np.vdot(self.observations.values, self.observations.values)) or 1.0

    def value(self, factors: Factors) -> float:
        """Return F."""
        residuals = self.residuals(factors)
        return float(np.vdot(residuals, residuals))

    def gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:  # noqa: ARG002
        """Return F and its gradient, laid out as the factors are."""
        residuals = self.residuals(factors)
        slopes = self.matrix(2.0 * residuals)
        U, V = factors.row_factors, factors.column_factors
        return float(np.vdot(residuals, residuals)), Factors.of(slopes @ V, slopes.T @ U)

    def residuals(self, factors: Factors) -> Array:
        """Return ``x - a`` at the measured entries."""
        U, V = factors.row_factors, factors.column_factors
        out = -self.observations.values
        for first in range(0, out.size, BLOCK):
            here = slice(first, first + BLOCK)
            out[here] += np.einsum("ij,ij->i", U[self.rows[here]], V[self.columns[here]])
        return np.asarray(out)

    def matrix(self, values: Array) -> csr_array:
        """Return a sparse matrix with these values at the measured entries."""
        return csr_array((values, self.columns, self._offsets), shape=self.shape)


def leading(measured: Measurements, rank: int, draws: np.random.Generator) -> tuple[Array, Array]:
    """Return leading singular vectors, times roots of values, of the entries divided by their share."""
    if not np.any(measured.values):  # the search for singular vectors would have nowhere to go
        width = min(rank, *measured.shape)
        return np.zeros((measured.shape[0], width)), np.zeros((measured.shape[1], width))
    A = measured.to_sparse() / measured.density
    if rank < min(A.shape):
        left, values, right = svds(A, k=rank, v0=draws.standard_normal(min(A.shape)))
    else:  # A has at most so many rows or columns, and is small
        left, values, right = np.linalg.svd(A.toarray(), full_matrices=False)
    roots = np.sqrt(np.maximum(values, 0.0))
    return left * roots, right.T * roots


def check_columns(name: str, value: Any, most: int) -> int:
    """Return a number of columns from 1 to ``most``, or say that it is not one."""
    columns = check_whole(name, value)
    if not 1 <= columns <= most:
        raise InvalidInputError(
            f"{name} must be from 1 to {most} for a matrix of this shape; got {value}."
        )
    return columns


def set_result(model: FactorModel, result: SolverResult, seen: Any) -> None:
    """Give a model what a solver found, and warn where it stopped early."""
    model._set_scores(result.factors, seen)
    model.objective_, model.n_iter_ = result.objective, result.n_iter
    model.converged_, model.stop_reason_ = result.converged, result.stop_reason
    model.history_ = result.history
    if not result.converged:
        raise_it = "; raise max_iter or tol" if result.stop_reason == OUT_OF_ITERATIONS else ""
        warn(
            f"The fit stopped before it converged: {result.stop_reason}{raise_it}.",
            ConvergenceWarning,
        )
