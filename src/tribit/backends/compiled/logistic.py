"""The logistic link at the entries of a row, in loops that become vector instructions on any processor.

With ``z = s x / 2`` and ``e = exp(-2 |z|)``: ``tanh |z| = (1 - e) / (1 + e)``, ``1 - tanh^2 z = 4 e / (1 + e)^2`` and
``log(2 cosh z) = |z| + log(1 + e)``, as in :class:`tribit.backends.losses.LogisticLoss`. All in double precision, from
predictors of any.
"""

from __future__ import annotations

import math

import numpy as np

from tribit.backends.compiled.jit import kernel

#: ``1 / log 2``, and ``log 2`` as a number with zeros at its end, so that small multiples are exact, and the rest.
PER_LOG2 = 1.4426950408889634
LOG2_HIGH = 6.93147180369123816490e-01
LOG2_LOW = 1.90821492927058770002e-10
#: ``1.5 * 2^52``: added to a number of moderate size it leaves the nearest whole number in the last bits.
ROUNDER = 6755399441055744.0
#: Largest ``|z|`` in an exponential: ``exp(-700)`` is still a normal number.
MAX_SIZE = 350.0


@kernel()
def decay(z):
    """Return ``exp(-2 |z|)``, to the last bit or two: NaN where z is."""
    size = abs(z)
    y = -2.0 * (MAX_SIZE if size > MAX_SIZE else size)
    shifted = np.float64(y * PER_LOG2 + ROUNDER)
    power = shifted - ROUNDER
    # y = power log 2 + r with |r| <= log(2) / 2, where 13 terms of the series are enough.
    r = (y - power * LOG2_HIGH) - power * LOG2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    # 2^power: its exponent, from the last bits of the shifted number, put where a double has it.
    return p * np.int64((shifted.view(np.int64) + 1023) << 52).view(np.float64)


@kernel()
def log_one_plus(e):
    """Return ``log(1 + e)`` for e from 0 to 1, as ``2 artanh(e / (2 + e))``: 16 terms of that series are enough."""
    s = e / (2.0 + e)
    t = s * s
    p = 1.0 / 31.0
    p = p * t + 1.0 / 29.0
    p = p * t + 1.0 / 27.0
    p = p * t + 1.0 / 25.0
    p = p * t + 1.0 / 23.0
    p = p * t + 1.0 / 21.0
    p = p * t + 1.0 / 19.0
    p = p * t + 1.0 / 17.0
    p = p * t + 1.0 / 15.0
    p = p * t + 1.0 / 13.0
    p = p * t + 1.0 / 11.0
    p = p * t + 1.0 / 9.0
    p = p * t + 1.0 / 7.0
    p = p * t + 1.0 / 5.0
    p = p * t + 1.0 / 3.0
    return 2.0 * s * (p * t + 1.0)


#: The same constants in single precision, and the coefficients of both series: Numba would take other literals for
#: doubles.
ONE, TWO, PER_LOG2_SINGLE = np.float32(1.0), np.float32(2.0), np.float32(PER_LOG2)
LOG2_HIGH_SINGLE, LOG2_LOW_SINGLE = np.float32(0.693359375), np.float32(-2.12194440e-4)
ROUNDER_SINGLE, MAX_SIZE_SINGLE = np.float32(12582912.0), np.float32(43.0)
HALF, SIXTH, F4, F5 = np.float32(0.5), np.float32(1 / 6), np.float32(1 / 24), np.float32(1 / 120)
F6, F7 = np.float32(1 / 720), np.float32(1 / 5040)
O3, O5, O7 = np.float32(1 / 3), np.float32(1 / 5), np.float32(1 / 7)
O9, O11, O13 = np.float32(1 / 9), np.float32(1 / 11), np.float32(1 / 13)


@kernel()
def decay_single(z):
    """Return ``exp(-2 |z|)`` in single precision, by 8 terms of the series; NaN where z is."""
    size = abs(z)
    y = -TWO * (MAX_SIZE_SINGLE if size > MAX_SIZE_SINGLE else size)
    shifted = np.float32(y * PER_LOG2_SINGLE + ROUNDER_SINGLE)
    power = shifted - ROUNDER_SINGLE
    r = (y - power * LOG2_HIGH_SINGLE) - power * LOG2_LOW_SINGLE
    p = F7 * r + F6
    p = p * r + F5
    p = p * r + F4
    p = p * r + SIXTH
    p = p * r + HALF
    p = p * r + ONE
    p = p * r + ONE
    return p * np.int32(np.int32(shifted.view(np.int32) + np.int32(127)) << np.int32(23)).view(
        np.float32
    )


@kernel()
def log_one_plus_single(e):
    """Return ``log(1 + e)`` for e from 0 to 1 in single precision, by 7 terms of the series."""
    s = e / (TWO + e)
    t = s * s
    p = O13 * t + O11
    p = p * t + O9
    p = p * t + O7
    p = p * t + O5
    p = p * t + O3
    return TWO * s * (p * t + ONE)


@kernel()
def derivatives(z, n, weights, start, first, bends, found):
    """Fill in ``a t - b`` and the root of ``max(a (1 - t^2), 0)``, with ``t = tanh z``, and the losses.

    For n entries from ``start`` on; a and b are the two rows of the weights.
    """
    for i in range(n):
        x, a, b = z[i], weights[0, start + i], weights[1, start + i]
        e = decay(x)
        share = 1.0 / (1.0 + e)
        t = (1.0 - e) * share
        first[i] = a * (-t if x < 0.0 else t) - b
        curvature = a * (4.0 * e * share * share)
        bends[i] = math.sqrt(0.0 if curvature < 0.0 else curvature)
        found[i] = a * (abs(x) + log_one_plus(e)) - b * x


@kernel()
def losses(z, n, weights, start, found):
    """Fill in ``a log(2 cosh z) - b z``."""
    for i in range(n):
        x = z[i]
        found[i] = weights[0, start + i] * (abs(x) + log_one_plus(decay(x)))
        found[i] -= weights[1, start + i] * x


@kernel(any_order=True)
def total(numbers, n):
    """Return the sum of the first n numbers."""
    found = 0.0
    for i in range(n):
        found += numbers[i]
    return found
