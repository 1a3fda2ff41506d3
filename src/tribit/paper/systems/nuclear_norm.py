"""The smallest nuclear norm among the matrices that agree with the measured entries."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_not_negative
from tribit.data.measurements import Measurements
from tribit.errors import InvalidInputError, warn
from tribit.model.completed import MAX_DENSE_CELLS
from tribit.model.factors import Factors
from tribit.paper.systems.base import MeasuredSystem, ObservedEntries, check_share
from tribit.paper.systems.singular_values import top_singular_pairs
from tribit.solvers.loop import Stopping

Array = NDArray[np.float64]


#: Over-relaxation: 1.5 to 1.8 helps, 2 may diverge.
RELAXATION = 1.6
#: Iterations between changes of the penalty, and the last that may change it: a fixed penalty converges.
ADAPT_INTERVAL, ADAPT_ITERATIONS = 5, 200
#: Largest penalty times largest singular value. The Gram matrix squares singular values, so that those below 1e-8 of
#: the largest are rounding; the threshold, 1 / penalty, must be above them.
MAX_PENALTY = 1e6


@dataclass(eq=False, repr=False)
class NuclearNormCompletion(MeasuredSystem):
    """Complete a matrix by the least sum of singular values that agrees with the measured entries.

    Solves

        minimise |X|_*  subject to  |P_Omega(X - A)|_F <= budget

    with ``P_Omega`` the measured entries: Candès and Recht (2009), Exact matrix completion via convex optimization
    (``budget=0``); Candès and Plan (2010), Matrix completion with noise. Where few entries of a matrix M of low rank
    are enough for the first to recover M exactly, the second has, when the noise of the measured entries has norm
    at most ``budget``,

        |X - M|_F <= 4 sqrt((2 + p) min(d1, d2) / p) budget + 2 budget

    with ``p`` the measured share. Solved by the alternating direction method of multipliers, with the singular values
    from the Gram matrix of the smaller side. Works on dense d1 x d2 arrays; for larger matrices see
    :class:`~tribit.paper.systems.conditional_gradient.ConditionalGradientCompletion`.

    Parameters
    ----------
    budget : float, default=0.0
        Bound on the norm of the errors at the measured entries: 0 for measurements without noise, about
        ``sigma sqrt(n)`` for n measurements with noise of standard deviation sigma. At ``|P_Omega(A)|_F`` and
        above X is 0, and the factors have no columns.
    budget_share : float or None, default=None
        The budget as a share of ``|P_Omega(A)|_F``, from 0 to 1, in place of ``budget``. Likes and dislikes are
        noisy: the true ``P(like) = p`` has the share ``sqrt(mean of 4 p (1 - p))``, 0.85 for p of 0.76 or 0.24.
    tol : float, default=1e-5
        Stop when ``X`` is this near to the set of matrices that agree, as a share of its norm, and its multipliers
        change by no more than this share.
    max_iter : int, default=1000
        Most iterations.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V with ``X = U V'``; rank is the number of singular values of X above 0.
    objective_ : float
        ``|X|_*``.
    gap_ : float
        ``objective_ - gap_`` is at most the minimum, by the value of a point of the dual problem. X keeps the
        budget within ``tol`` only, so that ``objective_`` may be below the minimum, and ``gap_`` below 0, by as much.
    residual_ : float
        ``|P_Omega(X - A)|_F``; above ``budget_`` by about ``tol |X|_F`` at most.
    budget_ : float
        The budget that was used.
    n_iter_, converged_ :
        As in :class:`~tribit.paper.systems.AlternatingLeastSquares`.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems.nuclear_norm import NuclearNormCompletion
    >>> A = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 2.0])
    >>> A[3, 3] = np.nan
    >>> round(float(NuclearNormCompletion().fit(A).decision_function(3, 3)[0]), 3)
    8.0
    """

    budget: float = 0.0
    _: KW_ONLY
    budget_share: float | None = None
    tol: float = 1e-5
    max_iter: int = 1000

    def _fit(self, measured: Measurements) -> None:
        stopping = Stopping(self.max_iter, self.tol)
        budget = check_not_negative("budget", self.budget)
        share = check_share(self.budget_share, budget)
        rows, columns = measured.shape
        if rows * columns > MAX_DENSE_CELLS:
            raise InvalidInputError(
                f"The matrix has {rows} x {columns} entries, too many for the dense arrays of this method: use "
                "ConditionalGradientCompletion."
            )
        norm = float(np.linalg.norm(measured.values))
        self.budget_ = budget if share is None else share * norm
        solution = minimise(measured, self.budget_, stopping)
        self._set_scores(solution.factors, measured)
        self.objective_, self.gap_ = solution.objective, solution.gap
        self.n_iter_, self.converged_ = solution.n_iter, solution.converged
        errors = solution.factors.at(measured.rows, measured.columns) - measured.values
        self.residual_ = float(np.linalg.norm(errors))
        if not self.converged_:
            warn(
                f"The fit stopped after max_iter = {self.max_iter} iterations, before tol = {self.tol:g} was reached: "
                "raise max_iter, tol or the budget.",
                ConvergenceWarning,
            )


@dataclass(frozen=True)
class NuclearMinimum:
    """Factors of X, its nuclear norm, and how far that may be above the minimum."""

    factors: Factors
    objective: float
    gap: float
    n_iter: int
    converged: bool


@single_threaded_blas()
def minimise(measurements: Measurements, budget: float, stopping: Stopping) -> NuclearMinimum:
    """Return ``argmin |X|_*`` subject to ``|P_Omega(X - A)|_F <= budget``.

    Alternates over ``X`` and ``Z`` with ``X = Z``, multipliers ``Y`` and a penalty: X by singular value thresholding
    of ``Z - Y / penalty``, Z as the nearest matrix to ``X + Y / penalty`` that keeps the budget. Z changes the
    measured entries alone, so Y is 0 at all others, and ``-Y / max(|Y|, 1)``, in the spectral norm, is a point of the
    dual problem ``max <A, Y> - budget |Y|_F`` over ``|Y| <= 1``.
    """
    at, a = (measurements.rows, measurements.columns), measurements.values
    entries = ObservedEntries(*at, measurements.shape)
    if float(np.linalg.norm(a)) <= budget or not a.any():
        empty = np.zeros((measurements.shape[0], 0)), np.zeros((measurements.shape[1], 0))
        return NuclearMinimum(Factors.of(*empty), 0.0, 0.0, 0, converged=True)
    largest = _spectral_norm(entries, a)
    penalty = 1.25 / largest
    Z = np.zeros(measurements.shape)
    Z[at] = a
    multipliers = np.zeros(a.size)
    for iteration in range(1, stopping.max_iter + 1):
        W = Z.copy()
        W[at] -= multipliers / penalty
        U, V = shrink_singular_values(W, 1.0 / penalty)
        X = U @ V.T
        previous, Z = Z, RELAXATION * X + (1.0 - RELAXATION) * Z
        target = Z[at] + multipliers / penalty
        error = target - a
        distance = float(np.linalg.norm(error))
        Z[at] = a + error * (min(budget / distance, 1.0) if distance else 0.0)
        multipliers = penalty * (target - Z[at])
        primal = _ratio(np.linalg.norm(X - Z), np.linalg.norm(Z))
        dual = _ratio(penalty * np.linalg.norm(Z - previous), np.linalg.norm(multipliers))
        if max(primal, dual) <= stopping.tol:
            break
        if iteration % ADAPT_INTERVAL == 0 and iteration <= ADAPT_ITERATIONS:
            penalty = min(_balance_penalty(penalty, primal, dual), MAX_PENALTY / largest)
    objective = float(np.vdot(U, U))
    norm = float(np.linalg.norm(multipliers))
    bound = -(float(np.vdot(a, multipliers)) + budget * norm)
    lower = bound / max(_spectral_norm(entries, multipliers), 1.0) if norm else 0.0
    converged = max(primal, dual) <= stopping.tol
    return NuclearMinimum(
        Factors.of(U, V), objective, objective - max(lower, 0.0), iteration, converged
    )


def shrink_singular_values(W: Array, threshold: float) -> tuple[Array, Array]:
    """Return balanced factors of ``argmin threshold |X|_* + |X - W|_F^2 / 2``: singular values shrunk, cut at 0."""
    if W.shape[0] < W.shape[1]:
        V, U = shrink_singular_values(W.T, threshold)
        return U, V
    values, right = eigh(W.T @ W, subset_by_value=(threshold**2, np.inf), check_finite=False)
    values, right = values[::-1], right[:, ::-1]
    sizes = np.sqrt(values)
    root = np.sqrt(sizes - threshold)
    return (W @ right) * (root / sizes), right * root


def _balance_penalty(penalty: float, primal: float, dual: float) -> float:
    """Return the penalty moved, by a factor of 2 at most, to where both residuals fall alike."""
    factor = np.sqrt(_ratio(primal, dual))
    return penalty if 0.5 < factor < 2.0 else penalty * float(np.clip(factor, 0.5, 2.0))


def _ratio(part: Any, whole: Any) -> float:
    return float(part) / max(float(whole), float(np.finfo(float).tiny))


def _spectral_norm(entries: ObservedEntries, values: Array) -> float:
    return float(top_singular_pairs(entries.matrix(values), 1)[1][0])
