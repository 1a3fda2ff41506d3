"""Designs: the sparse linear maps from coefficients to the factors of rows, ``U = p + S_1 z_1 + S_2 z_2 + ...``.

A :class:`Block` is one S with the ridge of its coefficients, and a :class:`Design` all of one side;
:mod:`tribit.model.features` says what S is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.arrays import filled, namespace
from tribit.model.masks import ScaledMask

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Block:
    """Features of rows, and the ridge of the coefficients that rows share through them: ``S = M + h m'``.

    Attributes
    ----------
    matrix : sparse array or ScaledMask of shape (n, n_features)
        M.
    shift, means : array of shape (n,), (n_features,)
        h and m: a correction of rank one, such as centring, that leaves M sparse.
    l2 : float
        Weight of the ridge on the coefficients, those of intercepts too.
    """

    matrix: Any
    shift: Array
    means: Array
    l2: float
    #: Results derived from the features, the same for every ridge.
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.matrix.shape[1])

    def _in(self, dtype: Any) -> _Numbers | _MaskNumbers:
        """Return the features in the type of the arithmetic, and transposed too."""
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
        """Return ``S z`` for coefficients of shape (n_features,) or (n_features, k), in their type."""
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
        """Return ``(S * S)' c``: the curvature of each part, given that of each row."""
        own = self._in(curvatures.dtype)
        bent = curvatures * (own.shift if curvatures.ndim == 1 else own.shift[:, None])
        crossed = own.transposed @ bent
        crossed *= 2.0 * (own.means if crossed.ndim == 1 else own.means[:, None])
        squares = _outer(own.means**2, own.shift**2 @ curvatures)
        return np.asarray(own.transposed.power(2) @ curvatures + crossed + squares)


class _Numbers(NamedTuple):
    """The numbers of a block in one type."""

    matrix: sp.csr_array
    transposed: sp.csr_array
    shift: Array
    means: Array


class _MaskNumbers(NamedTuple):
    """The numbers of a block of a mask in one type; those of its entries are made from it."""

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
    """The matrix ``[I, S_1, S_2, ...]`` of one side: from coefficients to factors of rows.

    Attributes
    ----------
    size : int
        Number of rows.
    blocks : tuple of Block
        Their features.
    """

    size: int
    blocks: tuple[Block, ...] = ()
    #: Results derived from the features of all blocks, the same for every ridge.
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    def with_ridges(self, weights: Sequence[float]) -> Design:
        """Return the design with other ridge weights of its blocks."""
        pairs = zip(self.blocks, weights, strict=True)
        return replace(self, blocks=tuple(replace(block, l2=l2) for block, l2 in pairs))

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients: one for each row and one for each feature."""
        return self.size + sum(block.width for block in self.blocks)

    def shared(self, coefficients: Array) -> Array:
        """Return what features add to the own part of each row, ``S_1 z_1 + S_2 z_2 + ...``, given all z."""
        zeros = namespace(coefficients).zeros
        total = zeros(
            (self.size, *coefficients.shape[1:]),
            dtype=coefficients.dtype,
            device=coefficients.device,
        )
        at = 0
        for block in self.blocks:
            total += block.times(coefficients[at : at + block.width])
            at += block.width
        return total  # type: ignore[no-any-return]

    def mapped(self, Z: Array) -> Array:
        """Return ``(1, features) Z`` of each row."""
        return np.asarray(Z[0] + self.shared(Z[1:]))

    def dense(self) -> Array:
        """Return ``(1, features)`` of each row."""
        identity = np.eye(self.n_coefficients - self.size)
        return np.hstack([np.ones((self.size, 1)), self.shared(identity)])

    def combine(self, coefficients: Array) -> Array:
        """Return ``p + S_1 z_1 + S_2 z_2 + ...``."""
        return coefficients[: self.size] + self.shared(coefficients[self.size :])

    def pull_back(self, gradient: Array) -> Array:
        """Return the gradient in the coefficients, given that in the factors."""
        return _joined(gradient, *(each.transposed_times(gradient) for each in self.blocks))

    def pull_back_squares(self, curvatures: Array) -> Array:
        """Return the curvature in each coefficient, given that in the factors."""
        return _joined(curvatures, *(each.squares_times(curvatures) for each in self.blocks))

    def begin(self, own: Array) -> Array:
        """Return coefficients that combine to the given factors, with the coefficients of the features at 0."""
        zeros = (filled((each.width, *own.shape[1:]), 0.0, own) for each in self.blocks)
        return _joined(own, *zeros)

    def ridge(self, l2: float) -> Array:
        """Return the weight of the ridge on each coefficient; ``l2`` is that of the own coefficients."""
        return np.concatenate(
            [np.full(self.size, l2), *(np.full(each.width, each.l2) for each in self.blocks)]
        )


def _joined(*parts: Array) -> Array:
    """Return arrays one below the other."""
    joined: Array = namespace(parts[0]).concat(parts)
    return joined


def _outer(left: Array, right: Any) -> Array:
    """Return ``left right'``, or ``left`` times a number."""
    return np.asarray(left * right if np.ndim(right) == 0 else np.outer(left, right))
