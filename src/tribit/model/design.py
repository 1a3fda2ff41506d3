"""Designs: sparse linear maps from coefficients to the factors of rows, ``U = p + S_1 z_1 + S_2 z_2 + ...``.

A :class:`Block` is one S with the ridge of its coefficients; a :class:`Design` has all blocks of one side. The features
in S are made by :mod:`tribit.model.features`. The mask, which implicit features are made of, is a :class:`ScaledMask`:
``diag(s) O`` follows from the indices of O and one number a row. Both sides, both orientations, every ridge and every
``activity_floor`` share the indices; entries are computed in the dtype of a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from tribit.arrays import full_beside, namespace

if TYPE_CHECKING:
    from tribit.data.observations import Observations

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]

#: Number of entries up to which values are cached in every dtype. Above it only those of the last dtype are: a fit in
#: single precision needs double precision only at its start and end, and 20 million entries in both take a gigabyte.
MAX_ENTRIES_IN_EVERY_DTYPE = 2**21


class Pattern(NamedTuple):
    """Positions of the entries of a sparse matrix by rows, as in SciPy's CSR format."""

    offsets: Places
    columns: Places


@dataclass(frozen=True, eq=False)
class ScaledMask:
    """``M = diag(s) O`` with O a 0/1 matrix, and its transpose.

    Attributes
    ----------
    by_rows, by_columns : Pattern
        Positions of the entries of O and of its transpose.
    scale : array of shape (n,)
        s.
    """

    by_rows: Pattern
    by_columns: Pattern
    scale: Array
    _kept: dict[tuple[str, bool], sp.csr_array] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of M."""
        return self.by_rows.offsets.size - 1, self.by_columns.offsets.size - 1

    @property
    def nnz(self) -> int:
        """Number of entries of M, named as in SciPy."""
        return int(self.by_rows.columns.size)

    def matrix(self, dtype: DTypeLike) -> sp.csr_array:
        """Return M in a dtype."""
        return self._in(np.dtype(dtype), turned=False)

    def transposed(self, dtype: DTypeLike) -> sp.csr_array:
        """Return ``M'`` in a dtype."""
        return self._in(np.dtype(dtype), turned=True)

    def _in(self, dtype: np.dtype[Any], *, turned: bool) -> sp.csr_array:
        found = self._kept.get((dtype.name, turned))
        if found is not None:
            return found
        offsets, columns = self.by_columns if turned else self.by_rows
        if columns.size > MAX_ENTRIES_IN_EVERY_DTYPE:
            for name, way in list(self._kept):
                if name != dtype.name:
                    self._kept.pop((name, way), None)  # another thread may have removed it
        scale = self.scale.astype(dtype)
        entries = scale[columns] if turned else np.repeat(scale, np.diff(offsets))
        shape = self.shape[::-1] if turned else self.shape
        found = sp.csr_array((entries, columns, offsets), shape=shape)
        self._kept[dtype.name, turned] = found
        return found


def scaled_masks(observations: Observations) -> tuple[ScaledMask, ScaledMask]:
    """Return the masks of rows and of columns, each row divided by the square root of its number of entries."""
    counts = observations.counts
    kind = np.int32 if max(*observations.shape, observations.n_observed) < 2**31 else np.int64
    offsets = np.append(0, np.cumsum(counts[0])).astype(kind)
    # One byte an entry: only the positions are transposed.
    ones = np.ones(observations.n_observed, dtype=np.int8)
    own = sp.csr_array((ones, observations.columns.astype(kind), offsets), shape=observations.shape)
    turned = own.T.tocsr()
    by_rows, by_columns = Pattern(own.indptr, own.indices), Pattern(turned.indptr, turned.indices)
    rows, columns = (1.0 / np.sqrt(np.maximum(each, 1)) for each in counts)
    return ScaledMask(by_rows, by_columns, rows), ScaledMask(by_columns, by_rows, columns)


@dataclass(frozen=True, eq=False)
class Block:
    """Features of rows, ``S = M + h m'``, and the ridge of their shared coefficients.

    Attributes
    ----------
    matrix : sparse array or ScaledMask of shape (n, n_features)
        M.
    shift, means : array of shape (n,), (n_features,)
        h and m: a correction of rank one, such as centring, which keeps M sparse.
    l2 : float
        Weight of the ridge on the coefficients, including those of intercepts.
    """

    matrix: Any
    shift: Array
    means: Array
    l2: float
    #: Cache of results that do not depend on the ridge.
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.matrix.shape[1])

    def _in(self, dtype: DTypeLike) -> _Numbers | _MaskNumbers:
        """Return the features, and their transpose, in a dtype."""
        name = np.dtype(dtype).name
        if name not in self.kept:
            vectors = self.shift.astype(dtype), self.means.astype(dtype)
            if isinstance(self.matrix, ScaledMask):
                self.kept[name] = _MaskNumbers(self.matrix, *vectors)
            else:
                matrix = self.matrix.astype(dtype)
                self.kept[name] = _Numbers(matrix, matrix.T.tocsr(), *vectors)
        found: _Numbers | _MaskNumbers = self.kept[name]
        return found

    def times(self, coefficients: Array) -> Array:
        """Return ``S z`` for coefficients of shape (n_features,) or (n_features, k), in their dtype."""
        own = self._in(coefficients.dtype)
        return self._product(own.matrix, coefficients, own.shift, own.means @ coefficients)

    def transposed_times(self, gradient: Array) -> Array:
        """Return ``S' g``."""
        own = self._in(gradient.dtype)
        return self._product(own.transposed, gradient, own.means, own.shift @ gradient)

    def _product(self, matrix: sp.csr_array, dense: Array, shift: Array, base: Array) -> Array:
        """Return ``M z + h b'``, or the same of the transpose."""
        return np.asarray(matrix @ dense + _outer(shift, base))

    def squares_times(self, curvatures: Array) -> Array:
        """Return ``(S * S)' c``: the curvature in each coefficient, given that in each row."""
        own = self._in(curvatures.dtype)
        bent = curvatures * (own.shift if curvatures.ndim == 1 else own.shift[:, None])
        crossed = own.transposed @ bent
        crossed *= 2.0 * (own.means if crossed.ndim == 1 else own.means[:, None])
        squares = _outer(own.means**2, own.shift**2 @ curvatures)
        return np.asarray(own.transposed.power(2) @ curvatures + crossed + squares)


class _Numbers(NamedTuple):
    """The arrays of a block in one dtype."""

    matrix: sp.csr_array
    transposed: sp.csr_array
    shift: Array
    means: Array


class _MaskNumbers(NamedTuple):
    """The arrays of a mask's block in one dtype; its entries are computed from the mask."""

    mask: ScaledMask
    shift: Array
    means: Array

    @property
    def matrix(self) -> sp.csr_array:
        return self.mask.matrix(self.shift.dtype)

    @property
    def transposed(self) -> sp.csr_array:
        return self.mask.transposed(self.shift.dtype)


@dataclass(frozen=True, eq=False)
class Design:
    """The matrix ``[I, S_1, S_2, ...]`` of one side, which maps coefficients to factors of rows.

    Attributes
    ----------
    size : int
        Number of rows.
    blocks : tuple of Block
        Their features.
    """

    size: int
    blocks: tuple[Block, ...] = ()
    #: Cache of results that do not depend on the ridges.
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    def with_ridges(self, weights: Sequence[float]) -> Design:
        """Return the design with other ridge weights of its blocks."""
        pairs = zip(self.blocks, weights, strict=True)
        return replace(self, blocks=tuple(replace(block, l2=l2) for block, l2 in pairs))

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients: one for each row and one for each feature."""
        return self.size + sum(block.width for block in self.blocks)

    def shared_terms(self, coefficients: Array) -> Array:
        """Return the contribution of features to each row, ``S_1 z_1 + S_2 z_2 + ...``, given all z."""
        total, at = None, 0
        for block in self.blocks:
            part = block.times(coefficients[at : at + block.width])
            total = part if total is None else total + part
            at += block.width
        if total is not None:
            return total
        shape = (self.size, *coefficients.shape[1:])
        zeros = namespace(coefficients).zeros
        return zeros(shape, dtype=coefficients.dtype, device=coefficients.device)  # type: ignore[no-any-return]

    def predict(self, Z: Array) -> Array:
        """Return ``(1, features) Z`` of each row: a linear prediction."""
        return np.asarray(Z[0] + self.shared_terms(Z[1:]))

    def dense(self) -> Array:
        """Return ``(1, features)`` of each row."""
        identity = np.eye(self.n_coefficients - self.size)
        return np.hstack([np.ones((self.size, 1)), self.shared_terms(identity)])

    def combine(self, coefficients: Array) -> Array:
        """Return ``p + S_1 z_1 + S_2 z_2 + ...``."""
        total = self.shared_terms(coefficients[self.size :])
        total += coefficients[: self.size]
        return total

    def pull_back(self, gradient: Array) -> Array:
        """Return the gradient in the coefficients, given that in the factors."""
        return _concatenate(gradient, *(each.transposed_times(gradient) for each in self.blocks))

    def pull_back_squares(self, curvatures: Array) -> Array:
        """Return the curvature in each coefficient, given that in the factors."""
        return _concatenate(curvatures, *(each.squares_times(curvatures) for each in self.blocks))

    def initial_coefficients(self, own: Array) -> Array:
        """Return coefficients that combine to the given factors, with the coefficients of the features at 0."""
        zeros = (full_beside((each.width, *own.shape[1:]), 0.0, own) for each in self.blocks)
        return _concatenate(own, *zeros)

    def ridge(self, l2: float) -> Array:
        """Return the weight of the ridge on each coefficient; ``l2`` is that of the own coefficients."""
        return np.concatenate(
            [np.full(self.size, l2), *(np.full(each.width, each.l2) for each in self.blocks)]
        )


def _concatenate(*parts: Array) -> Array:
    """Return the concatenation of arrays of NumPy or of a device."""
    return namespace(parts[0]).concat(parts)  # type: ignore[no-any-return]


def _outer(left: Array, right: Any) -> Array:
    """Return ``left right'``, or ``left`` times a number."""
    return np.asarray(left * right if np.ndim(right) == 0 else np.outer(left, right))
