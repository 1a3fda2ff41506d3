"""Small symmetric systems, one after the other."""

from __future__ import annotations

import math

import numpy as np

from tribit.backends.compiled.jit import compiled

#: Lifts of the diagonal, each ten times the one before, after which a matrix is no longer taken for a positive one.
LIFTS = 12


@compiled(any_order=True)
def factorised(L, m):
    """Overwrite the lower triangle of a matrix by its Cholesky factor; return whether it is positive definite."""
    for j in range(m):
        pivot = L[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        if not pivot > 0.0:
            return False
        root = math.sqrt(pivot)
        L[j, j] = root
        share = 1.0 / root
        i = j + 1
        while i + 4 <= m:  # four rows in one loop: row j is read a quarter as often
            s0 = s1 = s2 = s3 = 0.0
            for k in range(j):
                x = L[j, k]
                s0 += L[i, k] * x
                s1 += L[i + 1, k] * x
                s2 += L[i + 2, k] * x
                s3 += L[i + 3, k] * x
            L[i, j] = (L[i, j] - s0) * share
            L[i + 1, j] = (L[i + 1, j] - s1) * share
            L[i + 2, j] = (L[i + 2, j] - s2) * share
            L[i + 3, j] = (L[i + 3, j] - s3) * share
            i += 4
        while i < m:
            s = L[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = s * share
            i += 1
    return True


@compiled(any_order=True)
def substituted(L, m, x):
    """Overwrite ``x`` by ``(L L')^-1 x``."""
    for i in range(m):
        s = x[i]
        for k in range(i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]
    for i in range(m - 1, -1, -1):
        s = x[i] / L[i, i]
        x[i] = s
        for k in range(i):
            x[k] -= L[i, k] * s


@compiled()
def solved(H, L, x, lift):
    """Overwrite ``x`` by ``H^-1 x``, with L for the factor; a matrix that rounding made indefinite is lifted.

    Where H holds a NaN, x is NaN.
    """
    m = x.size
    for turn in range(LIFTS):
        for i in range(m):
            for j in range(i + 1):
                L[i, j] = H[i, j]
            if turn:
                L[i, i] += lift * 10.0**turn
        if factorised(L, m):
            substituted(L, m, x)
            return
    x[:] = np.nan
