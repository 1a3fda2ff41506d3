"""Factors: the unknowns of the model, ``x_ij = u_i . v_j + b + a_i + c_j``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tribit.arrays import dots, full_beside, is_numpy, namespace, to_numpy
from tribit.display import Summarised

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, repr=False)
class Factors(Summarised):
    """Row factors U, column factors V and the intercepts: one number, one a row, one a column.

    Without intercepts these are 0 and arrays of zeros. During a fit on a device all are arrays of the device
    (:mod:`tribit.arrays`).

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.fitted_.members[0].factors.row_factors.shape
    (2, 1)
    """

    row_factors: Array
    column_factors: Array
    intercept: float
    row_intercepts: Array
    column_intercepts: Array

    def facts(self) -> dict[str, str]:
        """Return shape and rank."""
        return {
            "rows x columns": f"{len(self.row_factors)} x {len(self.column_factors)}",
            "rank": str(self.rank),
        }

    @classmethod
    def of(cls, row_factors: Array, column_factors: Array, intercept: float = 0.0) -> Factors:
        """Return factors with no row or column intercepts."""
        rows, columns = (full_beside(F.shape[:1], 0.0, F) for F in (row_factors, column_factors))
        return cls(row_factors, column_factors, intercept, rows, columns)

    @property
    def rank(self) -> int:
        """The number of latent factors."""
        return int(self.row_factors.shape[1])

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """U, V, and the intercepts of rows and of columns: all but the one intercept."""
        return self.row_factors, self.column_factors, self.row_intercepts, self.column_intercepts

    def map_arrays(self, function: Callable[[Array], Array]) -> Factors:
        """Return the factors with a function applied to each array, and the same one intercept."""
        U, V, a, c = map(function, self.arrays)
        return Factors(U, V, self.intercept, a, c)

    def truncate(self, rank: int) -> Factors:
        """Return the first ``rank`` latent factors, with the same intercepts."""
        U, V = self.row_factors[:, :rank], self.column_factors[:, :rank]
        return replace(self, row_factors=U, column_factors=V)

    @property
    def transposed(self) -> Factors:
        """The same model of the transposed matrix."""
        return Factors(
            self.column_factors,
            self.row_factors,
            self.intercept,
            self.column_intercepts,
            self.row_intercepts,
        )

    @property
    def has_intercepts(self) -> bool:
        """Whether any intercept differs from 0."""
        return bool(self.intercept or self.row_intercepts.any() or self.column_intercepts.any())

    def product_factors(self) -> tuple[Array, Array]:
        """Return ``P = [U, a, 1]`` and ``Q = [V, 1, b + c]``, whose product ``P Q'`` is ``x``, intercepts included."""
        U, V, xp = self.row_factors, self.column_factors, namespace(self.row_factors)
        ones = [full_beside((F.shape[0], 1), 1.0, F) for F in (U, V)]
        P = xp.concat([U, self.row_intercepts[:, None], ones[0]], axis=1)
        level = ones[1] * self.intercept + self.column_intercepts[:, None]
        return P, xp.concat([V, ones[1], level], axis=1)

    def flat(self, dtype: DTypeLike = np.float64) -> NDArray[np.floating[Any]]:
        """Return all unknowns in one vector: of a dtype in NumPy, of their own on a device."""
        U, V, xp = self.row_factors, self.column_factors, namespace(self.row_factors)
        one: Any = self.intercept  # an array of the device after `from_flat` there
        one = full_beside((1,), one, U) if isinstance(one, float | int) else xp.reshape(one, (1,))
        parts = [xp.reshape(U, (-1,)), xp.reshape(V, (-1,)), one]
        parts += [self.row_intercepts, self.column_intercepts]
        return np.concatenate(parts, dtype=dtype) if xp is np else xp.concat(parts)

    def from_flat(self, x: NDArray[np.floating[Any]]) -> Factors:
        """Return a vector as factors of the same shapes; their arrays are views of it."""
        (d1, k), d2 = self.row_factors.shape, self.column_factors.shape[0]
        ends = np.cumsum([0, d1 * k, d2 * k, 1, d1, d2]).tolist()
        U, V, b, a, c = (x[start:stop] for start, stop in pairwise(ends))
        # The intercept stays on the device: reading it would wait for all computations there.
        one = float(b[0]) if is_numpy(x) else b[0]
        return Factors(U.reshape((d1, k)), V.reshape((d2, k)), one, a, c)

    def plus(self, weight: float, other: Factors) -> Factors:
        """Return ``self + weight other``."""
        return Factors(
            self.row_factors + weight * other.row_factors,
            self.column_factors + weight * other.column_factors,
            self.intercept + weight * other.intercept,
            self.row_intercepts + weight * other.row_intercepts,
            self.column_intercepts + weight * other.column_intercepts,
        )

    def minus(self, other: Factors) -> Factors:
        """Return ``self - other``."""
        return self.plus(-1.0, other)

    @staticmethod
    def mean_of(members: Sequence[Factors], weights: Sequence[float] | None = None) -> Factors:
        """Return the model whose ``x`` is the weighted mean of the members' ``x``; its rank is the sum of their ranks.

        ``U = [sqrt(w_1) U_1, ..., sqrt(w_m) U_m]`` for weights that sum to 1, V alike, and the means of the intercepts.
        Coefficients of features have such a mean too, as factors are linear in them.
        """
        if len(members) == 1:
            return members[0]
        relative = [1.0] * len(members) if weights is None else [float(each) for each in weights]
        total = sum(relative)
        scales = [1.0 / np.sqrt(total / each) for each in relative]

        def stack(arrays: Sequence[Array]) -> Array:
            pairs = zip(arrays, scales, strict=True)
            return np.hstack([each * each.dtype.type(scale) for each, scale in pairs])

        def mean(values: Sequence[Any]) -> Any:
            terms = [w * each for each, w in zip(values, relative, strict=True)]
            return np.sum(terms, axis=0) / total

        U, V, a, c = zip(*(each.arrays for each in members), strict=True)
        b = float(mean([each.intercept for each in members]))
        return Factors(stack(U), stack(V), b, mean(a), mean(c))

    def dot(self, other: Factors) -> float:
        """Return the inner product over all unknowns."""
        U, V, a, c = dots(*zip(self.arrays, other.arrays, strict=True))
        return float(U + V + self.intercept * other.intercept + a + c)

    def centre_intercepts(self) -> Factors:
        """Return the same X with the means of row and column intercepts moved into the one, which lowers the ridge."""
        mean = namespace(self.row_intercepts).mean
        rows, columns = float(mean(self.row_intercepts)), float(mean(self.column_intercepts))
        return replace(
            self,
            intercept=self.intercept + rows + columns,
            row_intercepts=self.row_intercepts - rows,
            column_intercepts=self.column_intercepts - columns,
        )

    def clip_intercepts(self, bound: float) -> Factors:
        """Return the factors with row and column intercepts clipped to ``[-bound, bound]``."""
        clip = namespace(self.row_intercepts).clip
        return replace(
            self,
            row_intercepts=clip(self.row_intercepts, -bound, bound),
            column_intercepts=clip(self.column_intercepts, -bound, bound),
        )

    def at(self, rows: NDArray[np.integer[Any]], columns: NDArray[np.integer[Any]]) -> Array:
        """Return ``x`` at the given positions, in float64."""
        U, V = self.row_factors[rows], self.column_factors[columns]
        x = np.einsum("ij,ij->i", U, V, dtype=np.float64)
        return np.asarray(
            x + self.intercept + self.row_intercepts[rows] + self.column_intercepts[columns]
        )

    def block(self, rows: Any, columns: Any) -> Array:
        """Return ``x`` of some rows at some columns, positions or slices, as a dense block in float64."""
        U, V = (
            part[places].astype(np.float64)
            for part, places in ((self.row_factors, rows), (self.column_factors, columns))
        )
        x = U @ V.T
        x += self.row_intercepts[rows][:, None]
        x += self.column_intercepts[columns]
        x += self.intercept
        return np.asarray(x)

    def to_numpy(self) -> Factors:
        """Return factors of a device as arrays of NumPy in float64; arrays of NumPy as they are."""
        if is_numpy(self.row_factors):
            return self
        found = self.map_arrays(lambda part: to_numpy(part).astype(np.float64))
        return replace(found, intercept=float(self.intercept))

    def astype(self, dtype: str | type[np.floating[Any]] | np.dtype[Any]) -> Factors:
        """Return the factors in another dtype; factors of a device keep that of its backend."""
        if not is_numpy(self.row_factors):
            return self
        found = self.map_arrays(lambda part: part.astype(dtype))
        return replace(found, intercept=float(np.dtype(dtype).type(self.intercept)))
