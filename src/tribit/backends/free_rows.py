"""Rows without bounds, the other factor fixed: each at the minimum of its own objective, by Newton's method.

    p_i = argmin  sum over the entries j of row i of l(q_j' p + o_j, y_ij)  +  (p - c_i)' R (p - c_i) / 2

with R diagonal and positive. A row with fewer entries than unknowns moves along the few ``R^-1 q_j`` of its entries:
``p_i = c_i + R^-1 sum_j alpha_j q_j``, with as many unknowns as it has entries, unless R is next to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.balls import STEADY, lift
from tribit.backends.rows import ENOUGH, HALVINGS
from tribit.backends.sparse import Batch, RowLayout
from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.data.observations import Observations
from tribit.model.links import Link

Array = NDArray[np.floating[Any]]

#: Most steps, and the gain, as a share of a row's objective, at which a step is the last. Newton's method squares the
#: error in each step: what is left after that one is below the rounding of single precision.
STEPS, GAIN = 50, 1e-7


def free_rows(
    entries: Observations,
    Q: Array,
    offsets: Array,
    centre: Array,
    ridge: Array,
    link: Link,
    n_jobs: int = 1,
) -> Array:
    """Return ``p_i`` of each row, in the type of Q; a row without entries is at its centre.

    Parameters
    ----------
    entries : Observations
        The labels.
    Q, offsets : array of shape (n_columns, m), (n_columns,)
        ``q_j`` and ``o_j``.
    centre : array of shape (n_rows, m)
        ``c_i``.
    ridge : array of shape (m,)
        The diagonal of R, above 0.
    """
    found = centre.astype(Q.dtype)
    layout = RowLayout(entries.rows, entries.columns, entries.shape)
    # One more label stands for the padding.
    labels = np.append(entries.labels, 0)
    ridge, offsets = ridge.astype(Q.dtype), offsets.astype(Q.dtype)

    def move(batch: Batch) -> None:
        problem = _Rows(labels[batch.entries], Q[batch.columns], offsets[batch.columns], link)
        narrow = batch.columns.shape[1] < Q.shape[1]
        minimised = _by_entries if narrow and problem.is_steady(ridge) else _by_unknowns
        found[batch.rows] = minimised(problem, found[batch.rows], ridge)

    with single_threaded_blas():
        for _ in ordered_map(move, [each for each in layout.batches if each.columns.size], n_jobs):
            pass
    return found


class _Rows:
    """Rows of like length: the losses of their entries at ``x = o + step``, and what is known of their columns."""

    def __init__(self, labels: NDArray[np.int8], q: Array, offsets: Array, link: Link) -> None:
        self.likes, self.dislikes = (np.flatnonzero(labels == label) for label in (1, -1))
        self.q, self.offsets, self.link = q, offsets, link
        if self.likes.size + self.dislikes.size < labels.size:
            self.q *= (labels != 0)[:, :, None]

    def at(self, p: Array) -> Array:
        """Return x at the entries, given all of each row."""
        return np.asarray(_times(self.q, p) + self.offsets)

    def is_steady(self, ridge: Array) -> bool:
        """Return whether the ridge is well above the rounding of what the entries add, were all of them at 0."""
        origin = np.zeros(1, dtype=self.q.dtype)
        second = max(float(self.link.second(origin, label)[0]) for label in (1, -1))
        largest = np.max(np.einsum("nla,nla->n", self.q, self.q), initial=0.0)
        return bool(np.min(ridge) >= STEADY * second * largest)

    def loss(self, x: Array) -> Array:
        """Return the sum over the entries of each row."""
        return np.asarray(np.sum(self._by_label(self.link.loss, x), axis=1))

    def first(self, x: Array) -> Array:
        """Return the first derivative at each entry."""
        return self._by_label(self.link.first, x)

    def second(self, x: Array) -> Array:
        """Return the second derivative at each entry; 0 where a link that is not convex has a negative one."""
        return np.maximum(self._by_label(self.link.second, x), 0)

    def _by_label(self, function: Any, x: Array) -> Array:
        """Return a function of x and the label at each entry, 0 at the padding."""
        values = np.zeros_like(x)
        values.flat[self.likes] = function(x.take(self.likes), 1)
        values.flat[self.dislikes] = function(x.take(self.dislikes), -1)
        return values


def _by_unknowns(rows: _Rows, centre: Array, ridge: Array) -> Array:
    """Return the minimisers, by steps ``(R + Q' W Q)^-1`` of the gradient."""
    q, away = rows.q, np.zeros_like(centre)
    x = rows.at(centre)
    values = rows.loss(x)
    diagonal, rounding = np.arange(ridge.size), float(np.finfo(q.dtype).eps)
    for _ in range(STEPS):
        gradient = _times(q.transpose(0, 2, 1), rows.first(x)) + ridge * away
        # One array on both sides: the product is symmetric, and costs half.
        bent = q * np.sqrt(rows.second(x))[:, :, None]
        curvature = np.matmul(bent.transpose(0, 2, 1), bent)
        trace = np.trace(curvature, axis1=1, axis2=2)
        curvature[:, diagonal, diagonal] += ridge + lift(trace, rounding)[:, None]
        step = -np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        along, slope = _times(q, step), _dots(gradient, step)
        pulled = ridge * step
        t, new = _searched(rows, x, along, (ridge * away, away, step, pulled), values, slope)
        away, x = away + t * step, x + t * along
        if _near(slope, values):
            break
        values = new
    return np.asarray(centre + away)


def _by_entries(rows: _Rows, centre: Array, ridge: Array) -> Array:
    """Return the minimisers, by steps ``(I + W K)^-1`` of ``alpha + l'`` with ``K = Q R^-1 Q'``."""
    q, x = rows.q, rows.at(centre)
    K = np.matmul(q / ridge, q.transpose(0, 2, 1))
    identity = np.eye(K.shape[1], dtype=K.dtype)
    alpha, weighed = np.zeros_like(x), np.zeros_like(x)  # weighed: K alpha
    values = rows.loss(x)
    for _ in range(STEPS):
        gradient = alpha + rows.first(x)
        matrix = identity + rows.second(x)[:, :, None] * K
        step = -np.linalg.solve(matrix, gradient[:, :, None])[:, :, 0]
        along = _times(K, step)
        slope = _dots(gradient, along)
        t, new = _searched(rows, x, along, (weighed, alpha, step, along), values, slope)
        alpha, weighed, x = alpha + t * step, weighed + t * along, x + t * along
        if _near(slope, values):
            break
        values = new
    return np.asarray(centre + _times(q.transpose(0, 2, 1), alpha) / ridge)


def _searched(
    rows: _Rows,
    x: Array,
    along: Array,
    forms: tuple[Array, Array, Array, Array],
    values: Array,
    slope: Array,
) -> tuple[Array, Array]:
    """Return the length of each row's step, halved until its objective falls enough (Armijo), and the objective there.

    ``forms`` are R a, a, s and R s of a step from a to ``a + t s``: the ridge there is a polynomial in t.
    """
    pulled, away, step, step_pulled = forms
    constant, linear = 0.5 * _dots(pulled, away), _dots(pulled, step)
    square = 0.5 * _dots(step, step_pulled)
    # Differences below the rounding of a row's sum decide nothing.
    noise = 10 * np.finfo(values.dtype).eps * (1 + np.abs(values))
    t = np.ones_like(values)
    for _ in range(HALVINGS):
        new = rows.loss(x + t[:, None] * along) + constant + t * (linear + t * square)
        # Written so that a NaN is a failure.
        failed = ~(new <= values + ENOUGH * t * slope + noise)
        if not failed.any():
            return t[:, None], new
        t[failed] *= 0.5
    t[failed] = 0.0
    return t[:, None], np.where(failed, values, new)


def _dots(left: Array, right: Array) -> Array:
    """Return the inner product of each row of one with that of the other."""
    return np.asarray(np.einsum("ij,ij->i", left, right))


def _near(slope: Array, values: Array) -> bool:
    return bool(np.all(-0.5 * slope <= GAIN * np.maximum(values, 1)))


def _times(matrices: Array, vectors: Array) -> Array:
    """Return the products of a stack of matrices with one vector each."""
    # OpenBLAS multiplies what its buffers held before and throws it away, which may raise a flag where all is right.
    with np.errstate(invalid="ignore"):
        return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0])
