"""Universal singular value thresholding, and the largest singular values of a sparse matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_positive
from tribit.data.measurements import Measurements
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.paper.systems.base import Linear, MeasuredSystem
from tribit.randomness import generator

Array = NDArray[np.floating[Any]]

#: Number of triplets computed first; doubled until the last is below the threshold.
FIRST_COUNT = 8


@dataclass(eq=False, repr=False)
class UniversalSingularValueThresholding(MeasuredSystem):
    """Complete a matrix by the singular values of its observed part that exceed those of noise.

    With values scaled to [-1, 1], zeros where nothing was observed, ``p`` the observed share and
    ``n = max(d1, d2)``,

        X = clip( (1 / p) sum of s_k u_k v_k' over k with s_k >= (2 + eta) sqrt(n p), -1, 1 )

    scaled back (Chatterjee 2015, Matrix estimation by universal singular value thresholding). ``(1 / p)`` times the
    zero-filled matrix has the mean M where entries are observed at random alike, and its noise has singular values
    below about ``2 sqrt(n / p)``, so that there is no hyperparameter. For M of rank r the mean squared error of an
    entry is at most a constant times ``sqrt(r / (min(d1, d2) p))`` (his bound for matrices of low rank). With less than
    about one entry for each row and column single entries pass the threshold: slow, and no estimate.

    Parameters
    ----------
    eta : float, default=0.01
        How far above the edge of the noise a singular value must be; his theory wants ``0 < eta < 1``.
    bounds : tuple of two floats or None, default=None
        The least and the largest value that an entry can have. None for (-1, 1) where every value is inside, else
        the least and the largest value that was measured.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V with ``X = clip(U V' + intercept)``; predictions apply the clip.
    intercept_ : float
        The middle of the bounds.
    singular_values_ : array of shape (rank,)
        Those of the scaled and zero-filled matrix that were kept.
    threshold_ : float
        ``(2 + eta) sqrt(n p)``.
    bounds_ : tuple of two floats
        The bounds that were used.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems.singular_values import UniversalSingularValueThresholding
    >>> likes = np.outer(np.repeat([1, -1], 20), np.repeat([1, -1], 15))
    >>> model = UniversalSingularValueThresholding().fit(likes)
    >>> model.singular_values_.size, model.predict([0, 0], [0, 29]).tolist()
    (1, [1, -1])
    """

    eta: float = 0.01
    _: KW_ONLY
    bounds: tuple[float, float] | None = None

    def _fit(self, measured: Measurements) -> None:
        eta = check_positive("eta", self.eta)
        low, high = _bounds(self.bounds, measured.values)
        # Halves first: the sum and the difference of two large bounds can overflow.
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        scaled = sp.csr_array(
            ((measured.values - middle) / half, (measured.rows, measured.columns)),
            shape=measured.shape,
        )
        share = measured.density
        self.threshold_ = (2.0 + eta) * float(np.sqrt(max(measured.shape) * share))
        left, sizes, right = triplets_above(scaled, self.threshold_)
        root = np.sqrt(sizes * (half / share))
        self.singular_values_, self.bounds_ = sizes, (low, high)
        factors = Factors.of(left * root, right * root, middle)
        self._set_scores(factors, measured, self.bounds_)

    def _link(self) -> Link:
        return Linear(*self.bounds_)


def triplets_above(matrix: sp.csr_array, threshold: float) -> tuple[Array, Array, Array]:
    """Return the singular values of a sparse matrix from ``threshold`` up, with left and right vectors as columns."""
    # The squares of the singular values sum to the squared norm, which bounds the number above the threshold.
    most = min(int(np.sum(matrix.data**2) / threshold**2 * (1.0 + 1e-9)), *matrix.shape)
    if most == 0:
        return np.zeros((matrix.shape[0], 0)), np.zeros(0), np.zeros((matrix.shape[1], 0))
    count = min(FIRST_COUNT, most)
    while True:
        left, sizes, right = top_singular_pairs(matrix, count, floor=threshold)
        if count == most or sizes[-1] < threshold:
            kept = sizes >= threshold
            return left[:, kept], sizes[kept], right[:, kept]
        count = min(2 * count, most)


def _bounds(bounds: Any, values: Array) -> tuple[float, float]:
    """Return the bounds, checked against the measured values."""
    least, largest = float(np.min(values)), float(np.max(values))
    if bounds is None:
        if least >= -1.0 and largest <= 1.0:
            return -1.0, 1.0
        if least == largest:
            raise InvalidInputError(
                f"Every measured value is {least:g}, which gives no bounds: pass bounds=(low, high)."
            )
        return least, largest
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"bounds must be two numbers, low and high; got {bounds!r}."
        ) from None
    if not -np.inf < low < high < np.inf:
        raise InvalidInputError(
            f"bounds must be finite, the first below the second; got {bounds!r}."
        )
    if least < low or largest > high:
        wrong = least if least < low else largest
        raise InvalidInputError(
            f"The measured value {wrong:g} is outside the bounds ({low:g}, {high:g}): widen them."
        )
    return low, high


#: Matrices with a side up to this are decomposed densely, which is faster than iterating.
MAX_DENSE_SIDE = 64
#: Largest matrix that is made dense; a longer one is reduced to the Gram matrix of its short side.
MAX_DENSE_ENTRIES = 1 << 22
#: Vectors of a Lanczos space beyond twice the wanted number; most restarts; relative error at convergence.
SPARE_VECTORS, MAX_RESTARTS, SETTLED_SHARE = 30, 500, 1e-11
#: A vector with a smaller share outside a space counts as inside.
ROUNDING_SHARE = 1e-12


@single_threaded_blas()
def top_singular_pairs(
    G: sp.csr_array, count: int, *, exact: int | None = None, floor: float = 0.0
) -> tuple[Array, Array, Array]:
    """Return the ``count`` largest singular values of a sparse matrix and their vectors, as columns.

    Only the first ``exact`` pairs (all, by default) converge, except those clearly below ``floor``; the others are
    approximate.
    """
    side = min(G.shape)
    count = min(count, side)
    size = 2 * count + SPARE_VECTORS
    short = side <= max(MAX_DENSE_SIDE, 2 * size)
    if short and G.shape[0] * G.shape[1] <= MAX_DENSE_ENTRIES:
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
    # Of G, not of its square, which would lose half the digits of small singular values.
    left, sizes, small = np.linalg.svd(G @ V, full_matrices=False)
    return left, sizes, V @ small.T


def _top_vectors(
    apply: Callable[[Array], Array], shape: tuple[int, int], count: int, waited: int, floor: float
) -> Array:
    """Return eigenvectors of the ``count`` largest eigenvalues of a positive operator.

    Lanczos' method, restarted with its best vectors: Wu and Simon (2000), Thick-restart Lanczos method for large
    symmetric eigenvalue problems. Unlike ARPACK's, the bits are the same in every run, even at low rank.
    """
    # Any start that is not orthogonal to the result: a fixed sample.
    draws = generator(0)
    basis, T = np.zeros(shape), np.zeros((shape[1], shape[1]))
    following: Array = draws.standard_normal(shape[0])
    first = 0
    for _ in range(MAX_RESTARTS):
        for j in range(first, shape[1]):
            known = basis[:, :j]
            length = np.linalg.norm(following)
            following = following - known @ (known.T @ following)
            if np.linalg.norm(following) <= ROUNDING_SHARE * max(length, T[0, 0]):
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
        if np.all((wrong <= SETTLED_SHARE * values[0]) | (values[:waited] + wrong < floor)):
            break
    return basis[:, :count]
