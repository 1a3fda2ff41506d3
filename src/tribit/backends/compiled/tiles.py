"""Sums over sampled tiles under the logistic link, as in :class:`tribit.backends.sampled.SampledBlock`.

Products are in the type of the factors, the link and the sums over tiles in double precision. A tile of Q is copied
with its columns together, so that loops over the cells of a row become vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from tribit.backends.compiled.jit import kernel
from tribit.backends.compiled.logistic import (
    HALF,
    ONE,
    TWO,
    decay,
    decay_single,
    log_one_plus,
    log_one_plus_single,
)

LOG2, LOG2_SINGLE, ZERO = math.log(2.0), np.float32(math.log(2.0)), np.float32(0.0)


@kernel(any_order=True)
def terms_double(z, n, low, high, square, first):
    """Fill in ``h'`` of n cells and return the sums of ``h`` and ``h''``; ``square`` is that beyond the interval."""
    value = bend = 0.0
    for i in range(n):
        x = z[i]
        at = low if x < low else (high if x > high else x)
        beyond = x - at if x != at else 0.0  # not a difference of infinities
        e = decay(at)
        share = 1.0 / (1.0 + e)
        t = (1.0 - e) * share
        t = -t if at < 0.0 else t
        first[i] = t + square * beyond
        bend += 4.0 * e * share * share
        value += (abs(at) + log_one_plus(e) - LOG2) + beyond * (t + 0.5 * square * beyond)
    return value, bend


@kernel(any_order=True)
def terms_single(z, n, low, high, square, first):
    """Do the same in single precision."""
    value = bend = ZERO
    low, high, square = np.float32(low), np.float32(high), np.float32(square)
    for i in range(n):
        x = np.float32(z[i])
        at = low if x < low else (high if x > high else x)
        beyond = x - at if x != at else ZERO
        e = decay_single(at)
        share = ONE / (ONE + e)
        t = (ONE - e) * share
        t = -t if at < ZERO else t
        first[i] = t + square * beyond
        bend += TWO * TWO * e * share * share
        value += (abs(at) + log_one_plus_single(e) - LOG2_SINGLE) + beyond * (
            t + HALF * square * beyond
        )
    return np.float64(value), np.float64(bend)


@kernel()
def cell_terms(z, n, low, high, square, first):
    """Do the same in the precision of z, to sums in double."""
    if z.itemsize == 4:
        return terms_single(z, n, low, high, square, first)
    return terms_double(z, n, low, high, square, first)


@kernel()
def copy_tile(Q, start, n, q):
    """Copy n rows of Q from ``start`` on to the columns of q."""
    for e in range(n):
        for j in range(q.shape[0]):
            q[j, e] = Q[start + e, j]


@kernel()
def products(P, row, q, n, z):
    """Fill in the products of a row of P with n columns of q."""
    m, none = q.shape[0], q.dtype.type(0.0)
    for e in range(n):
        z[e] = none
    j = 0
    # Four columns of P in one loop: z is read and written a quarter as often.
    while j + 4 <= m:
        p0, p1, p2, p3 = P[row, j], P[row, j + 1], P[row, j + 2], P[row, j + 3]
        for e in range(n):
            z[e] += p0 * q[j, e] + p1 * q[j + 1, e] + p2 * q[j + 2, e] + p3 * q[j + 3, e]
        j += 4
    while j < m:
        p0 = P[row, j]
        for e in range(n):
            z[e] += p0 * q[j, e]
        j += 1


@kernel(any_order=True)
def add_products(q, first, n, weight, gradients, row):
    """Add a multiple of the products of the rows of q with n numbers to a row of the gradients."""
    m, none = q.shape[0], q.dtype.type(0.0)
    j = 0
    while j + 4 <= m:
        s0 = s1 = s2 = s3 = none
        for e in range(n):
            x = first[e]
            s0 += x * q[j, e]
            s1 += x * q[j + 1, e]
            s2 += x * q[j + 2, e]
            s3 += x * q[j + 3, e]
        gradients[row, j] += weight * s0
        gradients[row, j + 1] += weight * s1
        gradients[row, j + 2] += weight * s2
        gradients[row, j + 3] += weight * s3
        j += 4
    while j < m:
        s0 = none
        for e in range(n):
            s0 += first[e] * q[j, e]
        gradients[row, j] += weight * s0
        j += 1


@kernel()
def tile_sums(starts, widths, weights, low, high, square, Q, P, values, gradients, curvatures):
    """Add the weighted sums of ``h``, ``h' q`` and ``h''`` over the cells of the tiles, for each row of P."""
    most = max(widths.max(), 1)
    q = np.empty((Q.shape[1], most), Q.dtype)
    z, first = np.empty(most, Q.dtype), np.empty(most, Q.dtype)
    for tile in range(starts.size):
        n = widths[tile]
        copy_tile(Q, starts[tile], n, q)
        for i in range(P.shape[0]):
            products(P, i, q, n, z)
            value, bend = cell_terms(z, n, low[tile], high[tile], square[tile], first)
            values[i] += weights[tile] * value
            curvatures[i] += weights[tile] * bend
            add_products(q, first, n, weights[tile], gradients, i)
