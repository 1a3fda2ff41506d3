"""The rows of one factor, the other fixed: many small trust-region problems at once, each inside its own ball.

    p_i = argmin  g_i' (p - p0_i) + (p - p0_i)' H_i (p - p0_i) / 2   subject to  |p[:k]| <= norm

:func:`half_sweep` moves every row of a factor once, by the minimiser of a quadratic model of the row's own objective.
Alternating Newton is two half-sweeps by turns; new rows are folded in by half-sweeps with the columns fixed. The last
coordinate, where there is one more than k, is the row's intercept: it is outside the ball, possibly inside an interval
of its own, and eliminated first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tribit.backends.base import Backend, Panel

Array = NDArray[np.floating[Any]]

#: Steps for the multiplier of a ball (trust region) within one call, the ratio to the radius that is near enough, and
#: the share of rows that must be. Multipliers are warm starts of the next call, and become exact as the fit converges.
MULTIPLIER_STEPS = 4
CLOSE, MOST = 1.15, 0.9


#: Armijo constant of the rows' backtracking line searches, and their most halvings.
ENOUGH = 1e-4
HALVINGS = 12
#: Mean curvature, as a share of its bound, above which the bound serves as the curvature.
TIGHT = 0.3


@dataclass(frozen=True)
class RowProblem:
    """The penalty and the constraint of each row ``(u_i, a_i)``, the same for all rows.

    Attributes
    ----------
    k : int
        Number of factors; the ball restricts these.
    intercept : bool
        Whether column k of P is the row's intercept, and free.
    l2, l2_intercept : float
        Weights of the ridge on the factors and on the intercept.
    norm : float
        Radius of the ball, possibly infinite.
    bound : float
        Largest absolute value of the intercept, possibly infinite.
    """

    k: int
    intercept: bool = False
    l2: float = 0.0
    l2_intercept: float = 0.0
    norm: float = np.inf
    bound: float = np.inf

    @property
    def free(self) -> int:
        """The number of unknowns of a row, the first columns of P."""
        return self.k + self.intercept

    @cached_property
    def ridge(self) -> Array:
        """The weight of the ridge on each unknown of a row."""
        ridge = np.full(self.free, self.l2)
        ridge[self.k :] = self.l2_intercept
        return ridge


@dataclass
class RowState:
    """The warm start that a half-sweep leaves to the next one over the same rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    multipliers : array of shape (n_rows,)
        Those of the rows' balls.
    tightness : float
        Mean curvature as a share of its bound.
    """

    n_rows: int
    multipliers: Array = field(init=False)
    tightness: float = 1.0

    def __post_init__(self) -> None:
        self.multipliers = np.zeros(self.n_rows)


class HalfSweep(NamedTuple):
    """The moved rows, what their models promise to gain, and the rows' total objective before the move."""

    P: Array
    gain: float
    value: float


def half_sweep(
    backend: Backend, P: Array, Q: Array, problem: RowProblem, state: RowState, *, value: bool
) -> HalfSweep:
    """Return ``P`` with every row moved to the minimiser of a quadratic model of its own objective, Q fixed.

    While the bound of the curvature is near its mean value the models use it: they lie above the objective, so that
    their minimisers need no search. Otherwise they use the curvature itself, and each row has a backtracking line
    search on its own objective. The value is NaN unless asked for, and ``state`` is brought up to date.
    """
    exact = not (backend.bounded and state.tightness >= TIGHT)
    free, ridge = problem.free, problem.ridge
    rounding = float(np.finfo(backend.dtype).eps)
    moved = P.copy()

    def move(panel: Panel) -> tuple[float, float, float]:
        here = P[panel.rows]
        old = here[:, :free]
        model = panel.models(here.astype(backend.dtype), free, exact=exact, value=value or exact)
        values = model.values + 0.5 * old**2 @ ridge
        gradients = model.gradients + ridge * old
        minima = minimise_in_balls(
            gradients,
            model.curvatures,
            old,
            state.multipliers[panel.rows],
            ridge=ridge,
            k=problem.k,
            norm=problem.norm,
            rounding=rounding,
            bound=problem.bound,
        )
        state.multipliers[panel.rows] = minima.multipliers
        new = here.copy()
        new[:, :free] = minima.minimisers
        if exact:
            # Differences below the rounding error of a row's sum decide nothing.
            noise = rounding * (np.abs(values) + backend.shape[1])
            new = _search(panel, here, new, values, gradients, ridge, noise, backend.dtype)
        moved[panel.rows] = new
        share = panel.height / P.shape[0]
        return float(np.sum(minima.gains)), float(np.sum(values)), share * model.tightness

    gains, values, tightness = zip(*backend.map_panels(move, Q), strict=True)
    state.tightness = float(sum(tightness))
    return HalfSweep(moved, float(sum(gains)), float(sum(values)))


def _search(
    panel: Panel,
    here: Array,
    target: Array,
    values: Array,
    gradients: Array,
    ridge: Array,
    noise: Array,
    dtype: np.dtype[Any],
) -> Array:
    """Backtrack each row's own step until its objective falls enough (Armijo); a row that never does stays."""
    free = gradients.shape[1]
    direction = target - here
    slope = np.minimum(np.einsum("ij,ij->i", gradients, direction[:, :free]), 0.0)
    step = np.ones(here.shape[0])
    for _ in range(HALVINGS):
        trial = here + step[:, None] * direction
        reached = panel.values(trial.astype(dtype))
        reached += 0.5 * trial[:, :free] ** 2 @ ridge
        # Written so that a NaN is a failure.
        failed = ~(reached <= values + ENOUGH * step * slope + noise) & (step > 0)
        if not failed.any():
            return trial
        step[failed] *= 0.5
    step[failed] = 0.0
    return np.asarray(here + step[:, None] * direction)


@dataclass(frozen=True)
class RowMinima:
    """The minimisers, what each model promises to gain (at least 0), and the balls' multipliers."""

    minimisers: Array
    gains: Array
    multipliers: Array


def minimise_in_balls(
    gradient: Array,
    curvatures: Array,
    current: Array,
    multipliers: Array,
    *,
    ridge: float | Array,
    k: int,
    norm: float,
    rounding: float,
    bound: float = np.inf,
) -> RowMinima:
    """Return the minimisers, one a row.

    Parameters
    ----------
    gradient, current : array of shape (n, m)
        ``g_i`` and ``p0_i``; m is k or k + 1.
    curvatures : array of shape (n, m, m)
        Positive semi-definite matrices; ``H_i`` is such a matrix plus ``diag(ridge)``.
    multipliers : array of shape (n,)
        First guesses, 0 or those of a similar problem: good ones save most of the work.
    ridge : float or array of shape (m,)
        Added to every diagonal entry, or to each its own.
    k : int
        How many coordinates the ball restricts.
    norm : float
        Radius of the ball, possibly infinite.
    rounding : float
        Relative error of the curvatures: directions flatter than that are given that much curvature.
    bound : float
        Largest absolute value of the last coordinate where there is one more than k.
    """
    m = gradient.shape[1]
    diagonal = np.arange(m)
    # Keeps a direction that is flat, or made flat by rounding, solvable: p then moves little along it.
    lift = 4.0 * rounding * np.trace(curvatures, axis1=1, axis2=2) + 1e-12
    H = curvatures.copy()
    H[:, diagonal, diagonal] += ridge + lift[:, None]
    if np.isinf(norm) and (m == k or np.isinf(bound)):
        step = -np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
        gains = -0.5 * np.einsum("na,na->n", gradient, step)
        worse = ~(gains >= 0.0)
        step[worse], gains[worse] = 0.0, 0.0
        return RowMinima(current + step, gains, multipliers)
    return _constrained(gradient, H, current, multipliers, k, norm, bound)


def _constrained(
    gradient: Array,
    matrices: Array,
    current: Array,
    multipliers: Array,
    k: int,
    norm: float,
    bound: float,
) -> RowMinima:
    """Return the minimisers inside the balls; arrays have the problems last, so that one operation serves them all."""
    n, m = gradient.shape
    H = _problems_last(m, n)
    H[...] = matrices.transpose(1, 2, 0)
    p0, g = np.ascontiguousarray(current.T), gradient.T
    target = np.einsum("abn,bn->an", H, p0) - g
    if m == k:
        p, multipliers = _in_balls(H, target, multipliers, norm)
    else:
        guesses = multipliers
        pivot, cross = H[k, k], H[:k, k]
        reduced = H[:k, :k] - cross[:, None] * (cross / pivot)[None, :]
        p, multipliers = _in_balls(
            reduced, target[:k] - cross * (target[k] / pivot), multipliers, norm
        )
        last = (target[k] - np.einsum("an,an->n", cross, p)) / pivot
        over = np.flatnonzero(np.abs(last) > bound)
        if over.size:
            # The minimum over the rest is convex in the last coordinate, so that it belongs at the bound it crossed.
            last[over] = np.sign(last[over]) * bound
            p[:, over], multipliers[over] = _in_balls(
                H[:k, :k, over],
                target[:k, over] - cross[:, over] * last[over],
                guesses[over],
                norm,
            )
        p = np.vstack([p, last])
    d = p - p0
    bent = np.einsum("abn,bn->an", H, d)
    gains = -np.einsum("an,an->n", d, g + 0.5 * bent)
    # A multiplier that is still inexact can promise a loss; such a row stays. So does one that is not a number.
    worse = ~(gains >= 0.0)
    p[:, worse] = p0[:, worse]
    gains[worse] = 0.0
    return RowMinima(p.T, gains, multipliers)


def _in_balls(H: Array, target: Array, multipliers: Array, norm: float) -> tuple[Array, Array]:
    """Return ``argmin p' H p / 2 - target' p`` subject to ``|p| <= norm``, and the multipliers.

    On the sphere ``(H + t I) p = target`` for some ``t > 0``; ``t`` solves ``1 / |p(t)| = 1 / norm`` by Newton's
    method, to which that form is nearly linear (More and Sorensen 1983).
    """
    t = multipliers.copy()
    p = np.empty_like(target)
    diagonal = np.arange(H.shape[0])
    rest = np.arange(H.shape[2])
    for _ in range(MULTIPLIER_STEPS):
        shifted = _problems_last(H.shape[0], rest.size)
        shifted[...] = H if rest.size == H.shape[2] else H[:, :, rest]
        shifted[diagonal, diagonal] += t[rest]
        L = _cholesky(shifted)
        half = _forward(L, target[:, rest])
        q = _backward(L, half)
        length = np.sqrt(np.einsum("an,an->n", q, q))
        inside = (t[rest] == 0.0) & (length <= norm)
        on_sphere = (length <= norm * CLOSE) & (length >= norm / CLOSE)
        p[:, rest] = q * np.where(inside, 1.0, norm / np.maximum(length, 1e-300))
        if inside.all():
            break
        bent = _forward(L, q)
        slope = np.maximum(np.einsum("an,an->n", bent, bent), 1e-300)
        change = np.where(inside, 0.0, length**2 * (length / norm - 1.0) / slope)
        t[rest] = np.maximum(t[rest] + change, 0.0)
        # Newton's method may step to t = 0 from a first guess that was too large; then p(0) decides.
        done = inside | on_sphere
        if np.mean(done) >= MOST:
            break
        rest = rest[~done]
    return p, t


def _problems_last(m: int, n: int) -> Array:
    """Return room for n matrices of size m x m, problems last.

    A little wider than n: the entries of one matrix, n numbers apart, would share a few lines of the cache where
    n is a power of two, as it is for a full panel.
    """
    return np.empty((m, m, n + 8))[:, :, :n]


def _cholesky(H: Array) -> Array:
    """Return L with ``L L' = H`` for each problem; a matrix that rounding made indefinite is lifted."""
    matrices = np.moveaxis(H, 2, 0)
    lift = 0.0
    while True:
        try:
            L = _problems_last(H.shape[0], H.shape[2])
            L[...] = np.moveaxis(np.linalg.cholesky(matrices), 0, 2)
            return L
        except np.linalg.LinAlgError:
            if not np.all(np.isfinite(H)):
                raise
            lift = max(10.0 * lift, 1e-7)
            scale = lift * np.trace(H) + lift
            matrices = np.moveaxis(H + np.eye(H.shape[0])[:, :, None] * scale, 2, 0)


def _forward(L: Array, b: Array) -> Array:
    """Return ``x`` with ``L x = b``."""
    x = b.copy()
    for j in range(x.shape[0]):
        x[j] /= L[j, j]
        x[j + 1 :] -= L[j + 1 :, j] * x[j]
    return x


def _backward(L: Array, b: Array) -> Array:
    """Return ``x`` with ``L' x = b``."""
    x = b.copy()
    for j in range(x.shape[0] - 1, -1, -1):
        x[j] /= L[j, j]
        x[:j] -= L[j, :j] * x[j]
    return x
