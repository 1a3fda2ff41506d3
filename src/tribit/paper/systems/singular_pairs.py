"""The largest singular values of a sparse matrix and their vectors, with the same bits in every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import single_threaded_blas
from tribit.randomness import generator

Array = NDArray[np.floating[Any]]

#: Matrices with a side up to this are decomposed whole: quicker than iterating, and no case is too small for it.
WHOLE = 64
#: Entries of a matrix that is made dense for that; of a longer one only the square of its short side is.
DENSE = 1 << 22
#: Vectors of a Lanczos space beyond twice those asked for; how often it is restarted at most; when it is settled.
SPARE, RESTARTS, SETTLED = 30, 500, 1e-11
#: Share of a vector outside a space below which it is rounding.
ROUNDING = 1e-12


@single_threaded_blas()
def top_singular_pairs(
    G: sp.csr_array, count: int, *, exact: int | None = None, floor: float = 0.0
) -> tuple[Array, Array, Array]:
    """Return the ``count`` largest singular values of a sparse matrix and their vectors, as columns.

    Only the first ``exact`` pairs (all, by default) are waited for, and of these only what is not plainly below
    ``floor``; the others are about right.
    """
    side = min(G.shape)
    count = min(count, side)
    size = 2 * count + SPARE
    short = side <= max(WHOLE, 2 * size)
    if short and G.shape[0] * G.shape[1] <= DENSE:
        left, sizes, right = np.linalg.svd(G.toarray(), full_matrices=False)
        return left[:, :count], sizes[:count], right[:count].T
    if G.shape[0] < G.shape[1]:
        right, sizes, left = top_singular_pairs(G.T.tocsr(), count, exact=exact, floor=floor)
        return left, sizes, right
    transposed = G.T.tocsr()
    if short:
        V = np.linalg.eigh((transposed @ G).toarray())[1][:, : -count - 1 : -1]
    else:
        waited = count if exact is None else exact
        V = _top_vectors(lambda v: transposed @ (G @ v), (side, size), count, waited, floor**2)
    # Of G itself, not of its square: half the digits of small singular values would be gone.
    left, sizes, small = np.linalg.svd(G @ V, full_matrices=False)
    return left, sizes, V @ small.T


def _top_vectors(
    apply: Callable[[Array], Array],
    shape: tuple[int, int],
    count: int,
    waited: int,
    floor: float,
) -> Array:
    """Return eigenvectors of the ``count`` largest eigenvalues of a positive operator.

    Lanczos' method, restarted with its best vectors: Wu and Simon (2000), Thick-restart Lanczos method for large
    symmetric eigenvalue problems. Unlike ARPACK's, the bits are the same in every run, at low rank too.
    """
    # Any start will do that is not orthogonal to the answer: a fixed draw.
    draws = generator(0)
    basis, T = np.zeros(shape), np.zeros((shape[1], shape[1]))
    following: Array = draws.standard_normal(shape[0])
    first = 0
    for _ in range(RESTARTS):
        for j in range(first, shape[1]):
            known = basis[:, :j]
            length = np.linalg.norm(following)
            following = following - known @ (known.T @ following)
            if np.linalg.norm(following) <= ROUNDING * max(length, T[0, 0]):
                # The space is invariant; equal eigenvalues may have vectors outside it.
                following = draws.standard_normal(shape[0])
                following -= known @ (known.T @ following)
                following -= known @ (known.T @ following)
            basis[:, j] = following / np.linalg.norm(following)
            following = apply(basis[:, j])
            T[: j + 1, j] = T[j, : j + 1] = basis[:, : j + 1].T @ following
            following = following - basis[:, : j + 1] @ T[: j + 1, j]
        values, vectors = np.linalg.eigh(T)
        values, vectors = values[::-1], vectors[:, ::-1]
        wrong = np.linalg.norm(following) * np.abs(vectors[-1, :waited])
        first = count + (shape[1] - count) // 2
        basis[:, :first] = basis @ vectors[:, :first]
        T[:] = 0.0
        T[np.arange(first), np.arange(first)] = values[:first]
        if np.all((wrong <= SETTLED * values[0]) | (values[:waited] + wrong < floor)):
            break
    return basis[:, :count]
