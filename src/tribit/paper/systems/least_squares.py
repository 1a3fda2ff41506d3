"""Least squares on measured entries: alternating row solves, and inside a max-norm ball."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from tribit.backends.objective import Smooth
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_not_negative
from tribit.data.measurements import Measurements
from tribit.model.constraints import Constraint, EntryBound, MaxNorm
from tribit.model.factors import Factors
from tribit.paper.systems.base import MeasuredSystem, ObservedEntries, check_rank
from tribit.randomness import generator
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
from tribit.solvers.loop import Step, Stopping, run

Array = NDArray[np.floating[Any]]


#: Largest size of the normal equations that are solved together.
BATCH_NUMBERS = 1 << 22
#: Size of the random part of a start, relative to the rest: no column of the factors may start at 0.
NOISE_SHARE = 0.1
#: Rows of the start below this share of its largest entry count as 0.
ROUNDING_SHARE = 1e-10


@dataclass(eq=False, repr=False)
class AlternatingLeastSquares(MeasuredSystem):
    """Minimise alternately over U and V ``sum over measured entries of (a_ij - u_i' v_j)^2 + l2 (|U|^2 + |V|^2)``.

    With V fixed each row of U has a linear problem of its own, which is solved exactly, and the other way round.
    Koren, Bell and Volinsky (2009), "Matrix factorization techniques for recommender systems"; the start, the leading
    singular vectors of the measured entries divided by their share, is that of Jain, Netrapalli and Sanghavi (2013),
    "Low-rank matrix completion using alternating minimization", who prove exact recovery for l2 = 0.

    Parameters
    ----------
    rank : int, default=10
        Number of latent factors.
    l2 : float, default=1.0
        Ridge penalty. The default has the weight of one entry of size 1: it keeps rows with fewer than ``rank`` entries
        well-posed. Noisy data such as likes need more (about 5 to 20), exact data none; with 0, a row with too few
        entries gets about the solution of least norm.
    max_iter : int, default=100
        Most sweeps over rows and columns.
    tol : float, default=1e-4
        Converged: a sweep lowers the objective by at most this share of its value at ``X = 0``.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the search for singular vectors.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V.
    objective_ : float
        The objective above at the solution.
    n_iter_ : int
        Sweeps done.
    converged_ : bool
        Whether ``tol`` was reached.
    stop_reason_ : str
        Why the fit stopped.
    history_ : list of Iteration
        Objective and its decrease, by sweep.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems import AlternatingLeastSquares
    >>> A = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 2.0])
    >>> A[3, 3] = np.nan
    >>> model = AlternatingLeastSquares(rank=1, l2=0.0, tol=1e-9, random_state=0).fit(A)
    >>> round(float(model.decision_function(3, 3)[0]), 3)
    8.0
    """

    rank: int = 10
    _: KW_ONLY
    l2: float = 1.0
    max_iter: int = 100
    tol: float = 1e-4
    random_state: Any = None

    def _fit(self, measured: Measurements) -> None:
        rank = check_rank("rank", self.rank, min(measured.shape))
        l2 = check_not_negative("l2", self.l2)
        stopping = Stopping(self.max_iter, self.tol)
        loss = SquaredErrors(measured)
        by_rows = measured.to_sparse()
        by_columns = by_rows.T.tocsr()

        def value(factors: Factors) -> float:
            U, V = factors.row_factors, factors.column_factors
            return loss.value(factors) + l2 * float(np.vdot(U, U) + np.vdot(V, V))

        def sweep(factors: Factors) -> Step:
            V = _solve_rows(by_columns, factors.row_factors, l2)
            U = _solve_rows(by_rows, V, l2)
            moved = Factors.of(U, V)
            before, after = value(factors), value(moved)
            return Step(factors, before, before - after, moved)

        with single_threaded_blas():
            draws = generator(self.random_state)
            left = _move_off_zero(leading_factors(measured, rank, draws)[0], by_rows, draws)
            # The paper's start is U alone: the first V is the best for it.
            start = Factors.of(left, _solve_rows(by_columns, left, l2))
            result = run(sweep, start, value, stopping, loss.size)
        self._store_result(result, measured)


@dataclass(eq=False, repr=False)
class MaxNormLeastSquares(MeasuredSystem):
    """Minimise ``sum over measured entries of (x_ij - a_ij)^2`` over ``|X|_max <= radius, |X|_inf <= alpha``.

    Foygel and Srebro (2011), "Concentration-based guarantees for low-rank matrix reconstruction"; Cai and Zhou (2016),
    "Matrix completion via max-norm constrained optimization", where entries may be measured with unequal
    probabilities ``Pi`` and the error is judged in the norm ``|X|_Pi^2 = sum Pi_ij x_ij^2``. Solved in factor form by
    :class:`tribit.solvers.AugmentedLagrangian`: the bound on entries is kept exactly.

    Parameters
    ----------
    radius : float, default=1.0
        Bound on the max norm of X, and on the squared norm of every row of the factors.
    alpha : float or None, default=None
        Largest absolute value of an entry of X. None, or at least ``radius``: the ball alone.
    rank : int, default=10
        Number of latent factors. With ``n_rows + n_columns``, the most, they represent every X in the ball.
    max_iter : int, default=2000
        Most gradient steps.
    tol : float, default=5e-3
        Stop when the bounds of the minimum from above and below differ by at most this share of the loss at
        ``X = 0`` and a step gains a ten-thousandth of that.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the small random part of the start.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V with ``X = U V'``, inside every bound.
    objective_ : float
        The loss at the solution.
    n_iter_, converged_, stop_reason_, history_ :
        As in :class:`AlternatingLeastSquares`.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems import MaxNormLeastSquares
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = MaxNormLeastSquares(radius=1.0, alpha=0.8, rank=8, random_state=0).fit(A)
    >>> model.predict([0, 3], [2, 3])
    array([-1,  1], dtype=int8)
    >>> bool(np.abs(model.complete("score")).max() <= 0.8)
    True
    """

    radius: float = 1.0
    _: KW_ONLY
    alpha: float | None = None
    rank: int = 10
    max_iter: int = 2000
    tol: float = 5e-3
    random_state: Any = None

    def _fit(self, measured: Measurements) -> None:
        rank = check_rank("rank", self.rank, sum(measured.shape))
        constraints: list[Constraint] = [MaxNorm(self.radius)]
        if self.alpha is not None:
            constraints.append(EntryBound(self.alpha))
        stopping = Stopping(self.max_iter, self.tol)
        draws = generator(self.random_state)
        loss = SquaredErrors(measured)
        start = _start_inside(measured, constraints, rank, draws)
        solver = AugmentedLagrangian(loss.curvature)
        self._store_result(solver.minimise(loss, constraints, start, stopping, draws), measured)


def _solve_rows(A: csr_array, V: Array, l2: float) -> Array:
    """Return ``argmin_U sum over stored entries of (a_ij - u_i' v_j)^2 + l2 |U|^2``, by batches of rows."""
    k = V.shape[1]
    left, right = np.triu_indices(k)
    products = V[:, left] * V[:, right]
    pattern = csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
    out = np.empty((A.shape[0], k))
    batch = max(1, BATCH_NUMBERS // k**2)
    for first in range(0, A.shape[0], batch):
        rows = slice(first, first + batch)
        packed = pattern[rows] @ products
        H = np.empty((packed.shape[0], k, k))
        H[:, left, right] = packed
        H[:, right, left] = packed
        # Keeps a row with too few entries and l2 = 0 from being singular; an empty row stays 0.
        least = 4.0 * np.finfo(float).eps * np.trace(H, axis1=1, axis2=2)
        diagonal = np.arange(k)
        H[:, diagonal, diagonal] += (l2 + least + np.finfo(float).tiny)[:, None]
        out[rows] = np.linalg.solve(H, (A[rows] @ V)[:, :, None])[:, :, 0]
    return out


def _move_off_zero(left: Array, A: csr_array, draws: np.random.Generator) -> Array:
    """Return the start with random rows in place of those that are 0 up to rounding but have entries.

    A row of exact zeros never moves and one of rounding errors does, so that the bits of the singular vectors, which
    depend on memory alignment, would decide.
    """
    largest = float(np.max(np.abs(left), initial=0.0))
    still = np.all(np.abs(left) <= ROUNDING_SHARE * largest, axis=1) & (np.diff(A.indptr) > 0)
    if still.any():
        left = left.copy()
        left[still] = (
            NOISE_SHARE * largest * draws.standard_normal((int(still.sum()), left.shape[1]))
        )
    return left


def _start_inside(
    measured: Measurements, constraints: list[Constraint], rank: int, draws: np.random.Generator
) -> Factors:
    """Return factors along the leading singular vectors, with small noise in every column, inside the bounds."""
    found = leading_factors(measured, min(rank, *measured.shape), draws)
    sides = []
    for side in found:
        # 0 where every value is 0: then X = 0 is the minimum.
        size = float(np.sqrt(np.mean(side**2)))
        whole = NOISE_SHARE * size * draws.standard_normal((side.shape[0], rank))
        whole[:, : side.shape[1]] += side
        sides.append(whole)
    pair: tuple[Array, Array] = sides[0], sides[1]
    for constraint in constraints:
        pair = constraint.project(*pair)
    return Factors.of(*pair)


class SquaredErrors(Smooth):
    """``F(U, V) = sum over measured entries of (u_i' v_j - a_ij)^2``, with its gradient."""

    observations: Measurements
    curvature = 2.0  #: of one entry

    def __init__(self, measurements: Measurements) -> None:
        self.observations = measurements
        self.entries = ObservedEntries(measurements.rows, measurements.columns, measurements.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of X."""
        return self.observations.shape

    @cached_property
    def size(self) -> float:
        """The loss at ``X = 0``, to which ``tol`` is relative; 1 where it is 0."""
        return float(np.vdot(self.observations.values, self.observations.values)) or 1.0

    def value(self, factors: Factors) -> float:
        """Return F."""
        residuals = self._residuals(factors)
        return float(np.vdot(residuals, residuals))

    def gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:  # noqa: ARG002
        """Return F and its gradient, laid out as the factors are."""
        residuals = self._residuals(factors)
        slopes = self.entries.matrix(2.0 * residuals)
        U, V = factors.row_factors, factors.column_factors
        return float(np.vdot(residuals, residuals)), Factors.of(slopes @ V, slopes.T @ U)

    def _residuals(self, factors: Factors) -> Array:
        x = self.entries.of_product(factors.row_factors, factors.column_factors)
        return np.asarray(x - self.observations.values)


def leading_factors(
    measured: Measurements, rank: int, draws: np.random.Generator
) -> tuple[Array, Array]:
    """Return the leading singular vectors of the entries over their share, times roots of singular values."""
    if not np.any(measured.values):  # no singular vectors to search for
        width = min(rank, *measured.shape)
        return np.zeros((measured.shape[0], width)), np.zeros((measured.shape[1], width))
    A = measured.to_sparse() / measured.density
    if rank < min(A.shape):
        left, values, right = svds(A, k=rank, v0=draws.standard_normal(min(A.shape)))
    else:  # the smaller side of A is at most the rank
        left, values, right = np.linalg.svd(A.toarray(), full_matrices=False)
    roots = np.sqrt(np.maximum(values, 0.0))
    return left * roots, right.T * roots
