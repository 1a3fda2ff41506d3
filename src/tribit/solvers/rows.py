"""Many small quadratic problems at once, each inside its own ball.

    p_i = argmin  g_i' (p - p0_i) + (p - p0_i)' (H_i + l2 I) (p - p0_i) / 2   subject to  |p[:k]| <= norm

One for each row of a factor. The last coordinate, where there is one more than k, is the row's intercept: it
has no ball and is eliminated first. Arrays are laid out with the problems last, so that each step of a
factorisation is one operation on all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

#: Above this size LAPACK, called once for each problem, is faster than steps over all problems at once.
LAPACK_FROM = 24
#: Steps for the multiplier of the ball; the last is scaled onto the sphere, so a few are enough.
MULTIPLIER_STEPS = 6


def minimise_in_balls(
    gradient: Array, packed: Array, current: Array, *, l2: float, k: int, norm: float
) -> Array:
    """Return the minimisers, one a row.

    Parameters
    ----------
    gradient, current : array of shape (n, m)
        ``g_i`` and ``p0_i``; m is k or k + 1.
    packed : array of shape (n, m (m + 1) / 2)
        Upper triangles of the ``H_i``, by rows; each positive semi-definite.
    l2 : float
        Added to every diagonal entry.
    k : int
        How many coordinates the ball restricts.
    norm : float
        Radius of the ball, possibly infinite.
    """
    n, m = gradient.shape
    H = np.empty((m, m, n))
    left, right = np.triu_indices(m)
    H[left, right] = packed.T
    H[right, left] = H[left, right]
    diagonal = np.arange(m)
    # Keeps a flat direction solvable; the minimiser then stays where it is along it.
    H[diagonal, diagonal] += l2 + 1e-9 * np.trace(H) / m + 1e-12
    p0 = np.ascontiguousarray(current.T)
    target = np.einsum("abn,bn->an", H, p0) - gradient.T
    if m == k:
        return _in_balls(H, target, norm).T
    pivot, cross = H[k, k], H[:k, k]
    reduced = H[:k, :k] - cross[:, None] * (cross / pivot)[None, :]
    p = _in_balls(reduced, target[:k] - cross * (target[k] / pivot), norm)
    last = (target[k] - np.einsum("an,an->n", cross, p)) / pivot
    return np.vstack([p, last]).T


def _in_balls(H: Array, target: Array, norm: float) -> Array:
    """Return ``argmin p' H p / 2 - target' p`` subject to ``|p| <= norm``, for each problem."""
    p = solve(H, target)
    length = np.sqrt(np.einsum("an,an->n", p, p))
    outside = np.flatnonzero(length > norm)
    if outside.size == 0:
        return p
    # On the sphere (H + t I) p = target for some t > 0. Newton's method on 1 / |p(t)| = 1 / norm approaches
    # t from below and never passes it (More and Sorensen 1983).
    H, target = H[:, :, outside], target[:, outside]
    diagonal = np.arange(H.shape[0])
    q, length = p[:, outside], length[outside]
    for _ in range(MULTIPLIER_STEPS):
        slope = np.einsum("an,an->n", q, solve(H, q))
        H[diagonal, diagonal] += length**2 * (length / norm - 1.0) / slope
        q = solve(H, target)
        length = np.sqrt(np.einsum("an,an->n", q, q))
        if np.all(length <= norm * 1.001):
            break
    p[:, outside] = q * np.minimum(norm / length, 1.0)
    return p


def solve(H: Array, b: Array) -> Array:
    """Return ``x`` with ``H x = b`` for each positive definite H of shape (k, k), problems last."""
    k = H.shape[0]
    if k >= LAPACK_FROM:
        matrices, sides = np.moveaxis(H, 2, 0), b.T[:, :, None]
        return np.ascontiguousarray(np.linalg.solve(matrices, sides)[:, :, 0].T)
    L = H.copy()
    x = b.copy()
    for j in range(k):
        # The reduced matrix stays positive definite but for rounding: the floor keeps its root real.
        np.sqrt(np.maximum(L[j, j], 1e-300), out=L[j, j])
        L[j + 1 :, j] /= L[j, j]
        L[j + 1 :, j + 1 :] -= L[j + 1 :, j][:, None] * L[j + 1 :, j][None, :]
        x[j] /= L[j, j]
        x[j + 1 :] -= L[j + 1 :, j] * x[j]
    for j in range(k - 1, -1, -1):
        x[j] -= np.einsum("an,an->n", L[j + 1 :, j], x[j + 1 :])
        x[j] /= L[j, j]
    return x
