"""Minimisers of many small quadratic problems at once, each inside its own ball (trust-region problems).

    p_i = argmin  g_i' (p - p0_i) + (p - p0_i)' H_i (p - p0_i) / 2   subject to  |p[:k]| <= norm

Where there are k + 1 coordinates the last is a row's intercept. It is outside the ball, possibly inside an interval of
its own, and eliminated first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

#: Steps for the multiplier of a ball (trust region) within one call, the ratio to the radius that is near enough, and
#: the share of rows that must be. Multipliers are warm starts of the next call, and become exact as the fit converges.
MULTIPLIER_STEPS = 4
RADIUS_RATIO, DONE_SHARE = 1.15, 0.9


#: Least ridge, as a share of the curvature, at which the few entries of a row are solved for in its place: below it the
#: difference that this takes loses digits.
MIN_RIDGE_SHARE = 1e-6


@dataclass(frozen=True)
class RowProblem:
    """The penalty and the constraint of each row ``(u_i, a_i)``.

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
    prior_mean : array of shape (n_rows, free) or None
        Prior means of the rows, such as the predictions of features; None for 0.
    relative_l2 : array of shape (n_rows,) or None
        The ridge on the factors of each row, relative to ``l2``; None for 1.

    Examples
    --------
    >>> from tribit.backends.rows import RowProblem
    >>> RowProblem(k=10, intercept=True, l2=2.0).k
    10
    """

    k: int
    intercept: bool = False
    l2: float = 0.0
    l2_intercept: float = 0.0
    norm: float = np.inf
    bound: float = np.inf
    prior_mean: Array | None = None
    relative_l2: Array | None = None

    @property
    def free(self) -> int:
        """The number of unknowns of a row, the first columns of P."""
        return self.k + self.intercept

    @cached_property
    def ridge(self) -> Array:
        """The weight of the ridge on each unknown of a row, of shape (free,) where it is the same for all rows."""
        ridge = np.full(self.free, self.l2)
        if self.relative_l2 is not None:
            ridge = ridge * self.relative_l2[:, None]
        ridge[..., self.k :] = self.l2_intercept
        return ridge

    @property
    def has_bounds(self) -> bool:
        """Whether a ball or a bound of the intercept restricts the rows."""
        return bool(np.isfinite(self.norm) or (self.intercept and np.isfinite(self.bound)))

    def select(self, rows: slice | NDArray[np.integer[Any]]) -> RowProblem:
        """Return the problem of some rows."""
        mean, relative = (
            None if each is None else each[rows] for each in (self.prior_mean, self.relative_l2)
        )
        if mean is None and relative is None:
            return self
        return replace(self, prior_mean=mean, relative_l2=relative)

    def deviation(self, P: Array) -> Array:
        """Return how far the rows are from their prior means."""
        here = P[:, : self.free]
        return here if self.prior_mean is None else np.asarray(here - self.prior_mean)

    def penalty(self, P: Array) -> Array:
        """Return the ridge penalty of each row."""
        squares = self.deviation(P) ** 2
        if self.relative_l2 is None:
            return np.asarray(0.5 * squares @ self.ridge)
        return np.asarray(0.5 * np.einsum("ij,ij->i", squares, self.ridge))


@dataclass(frozen=True)
class Roots:
    """Curvatures of rows with fewer entries than unknowns, ``B_i' B_i``.

    Attributes
    ----------
    roots : array of shape (n, length, m)
        ``B_i``.
    """

    roots: Array

    def matrices(self) -> Array:
        """Return the curvatures, one matrix of size m x m a row."""
        return np.asarray(np.matmul(self.roots.transpose(0, 2, 1), self.roots))


@dataclass(frozen=True)
class RowMinima:
    """The minimisers, the predicted gains (at least 0), and the balls' multipliers."""

    minimisers: Array
    gains: Array
    multipliers: Array


def solve_ball_constrained_rows(
    gradient: Array,
    curvatures: Array | Roots,
    current: Array,
    multipliers: Array,
    problem: RowProblem,
    rounding: float,
) -> RowMinima:
    """Return the minimisers, one a row.

    Parameters
    ----------
    gradient, current : array of shape (n, m)
        ``g_i`` and ``p0_i``; m is ``problem.free``.
    curvatures : array of shape (n, m, m), or Roots
        Positive semi-definite matrices; ``H_i`` is such a matrix plus the row's ``diag(problem.ridge)``.
    multipliers : array of shape (n,)
        First guesses, 0 or those of a similar problem: good ones save most of the work.
    problem : RowProblem
        The ridge of these rows, the ball and the bound of the intercept.
    rounding : float
        Relative error of the curvatures: directions flatter than that are given that much curvature.
    """
    ridge = problem.ridge
    if isinstance(curvatures, Roots):
        trace = np.einsum("nla,nla->n", curvatures.roots, curvatures.roots)
        if not problem.has_bounds and np.min(ridge) >= MIN_RIDGE_SHARE * np.max(trace, initial=0.0):
            lifted = ridge + lift(trace, rounding)[:, None]
            step = _by_entries(gradient, curvatures.roots, np.broadcast_to(lifted, gradient.shape))
            return _unconstrained_minima(gradient, current, step, multipliers)
        curvatures = curvatures.matrices()
    diagonal = np.arange(problem.free)
    trace = np.trace(curvatures, axis1=1, axis2=2)
    H = curvatures.copy()
    H[:, diagonal, diagonal] += ridge + lift(trace, rounding)[:, None]
    if not problem.has_bounds:
        step = -np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
        return _unconstrained_minima(gradient, current, step, multipliers)
    return _constrained_minima(gradient, H, current, multipliers, problem)


def lift(trace: Array, rounding: float) -> Array:
    """Return the shift of the diagonal that keeps flat directions solvable: p moves little along these."""
    return np.asarray(4.0 * rounding * trace + 1e-12)


def _by_entries(gradient: Array, roots: Array, ridge: Array) -> Array:
    """Return ``-(D + B' B)^-1 g`` by systems of as many unknowns as a row has entries (Woodbury)."""
    step = -gradient / ridge
    if not roots.shape[1]:
        return step
    scaled = roots / ridge[:, None, :]
    inner = np.matmul(scaled, roots.transpose(0, 2, 1))
    places = np.arange(roots.shape[1])
    inner[:, places, places] += 1.0
    weights = np.linalg.solve(inner, np.matmul(roots, step[:, :, None]))
    return np.asarray(step - np.matmul(scaled.transpose(0, 2, 1), weights)[:, :, 0])


def _unconstrained_minima(
    gradient: Array, current: Array, step: Array, multipliers: Array
) -> RowMinima:
    """Return the minimisers without bounds; a row whose step predicts no gain stays."""
    gains = -0.5 * np.einsum("na,na->n", gradient, step)
    worse = ~(gains >= 0.0)
    step[worse], gains[worse] = 0.0, 0.0
    return RowMinima(current + step, gains, multipliers)


def _constrained_minima(
    gradient: Array,
    matrices: Array,
    current: Array,
    multipliers: Array,
    problem: RowProblem,
) -> RowMinima:
    """Return the minimisers inside the balls; arrays have the problems last, so that one operation serves them all."""
    n, m = gradient.shape
    k, norm, bound = problem.k, problem.norm, problem.bound
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
        on_sphere = (length <= norm * RADIUS_RATIO) & (length >= norm / RADIUS_RATIO)
        p[:, rest] = q * np.where(inside, 1.0, norm / np.maximum(length, 1e-300))
        if inside.all():
            break
        bent = _forward(L, q)
        slope = np.maximum(np.einsum("an,an->n", bent, bent), 1e-300)
        change = np.where(inside, 0.0, length**2 * (length / norm - 1.0) / slope)
        t[rest] = np.maximum(t[rest] + change, 0.0)
        # Newton's method may step to t = 0 from a first guess that was too large; then p(0) decides.
        done = inside | on_sphere
        if np.mean(done) >= DONE_SHARE:
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


def multiply_stacks(left: Array, right: Array) -> Array:
    """Return the products of two stacks of matrices.

    OpenBLAS multiplies stale values of its buffers and discards them: sometimes that raises the flag of an invalid
    operation, and a warning, where every number is right.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(np.matmul(left, right))
