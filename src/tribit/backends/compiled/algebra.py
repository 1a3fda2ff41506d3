"""Compiled linear algebra: products of sparse and dense matrices, and small symmetric systems."""

from __future__ import annotations

import math

import numpy as np

from tribit.backends.compiled.jit import kernel


@kernel()
def sparse_times(start, stop, indptr, columns, data, first, B, shift, base, out):
    """Fill in rows ``start`` to ``stop`` of ``S B + shift base'``.

    Parameters
    ----------
    indptr, columns, data : arrays
        S, as in a CSR matrix; ``data`` begins with entry ``first``.
    B, out : arrays of shape (n_columns, m), (n_rows, m)
        The other factor, and the product.
    shift, base : arrays of shape (n_rows,), (m,)
        Added to the product; nothing where they are empty.
    """
    m = B.shape[1]
    for i in range(start, stop):
        if base.size:
            for j in range(m):
                out[i, j] = shift[i] * base[j]
        else:
            for j in range(m):
                out[i, j] = 0.0
        e, end = indptr[i], indptr[i + 1]
        # Four entries in one loop: a row of the product is read and written a quarter as often.
        while e + 4 <= end:
            c0, c1, c2, c3 = columns[e], columns[e + 1], columns[e + 2], columns[e + 3]
            d = e - first
            x0, x1, x2, x3 = data[d], data[d + 1], data[d + 2], data[d + 3]
            for j in range(m):
                out[i, j] += x0 * B[c0, j] + x1 * B[c1, j] + x2 * B[c2, j] + x3 * B[c3, j]
            e += 4
        while e < end:
            c, x = columns[e], data[e - first]
            for j in range(m):
                out[i, j] += x * B[c, j]
            e += 1


#: Lifts of the diagonal, each ten times the one before, after which a matrix is no longer taken for a positive one.
MAX_LIFTS = 12


@kernel(any_order=True)
def cholesky(L, m):
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


@kernel(any_order=True)
def substitute(L, m, x):
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


@kernel()
def solve(H, L, x, lift):
    """Overwrite ``x`` by ``H^-1 x``, with L for the factor; a matrix that rounding made indefinite is lifted.

    Where H holds a NaN, x is NaN.
    """
    m = x.size
    for turn in range(MAX_LIFTS):
        for i in range(m):
            for j in range(i + 1):
                L[i, j] = H[i, j]
            if turn:
                L[i, i] += lift * 10.0**turn
        if cholesky(L, m):
            substitute(L, m, x)
            return
    x[:] = np.nan
