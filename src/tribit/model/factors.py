"""Factors: the unknowns of the model, ``x_ij = u_i . v_j + b + a_i + c_j``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Factors:
    """Row factors U, column factors V and the intercepts: one number, one a row, one a column.

    Without intercepts the three are 0 and arrays of zeros.
    """

    row_factors: Array
    column_factors: Array
    intercept: float
    row_intercepts: Array
    column_intercepts: Array

    @classmethod
    def of(cls, row_factors: Array, column_factors: Array, intercept: float = 0.0) -> Factors:
        """Return factors with no row or column intercepts."""
        rows, columns = np.zeros(row_factors.shape[0]), np.zeros(column_factors.shape[0])
        return cls(row_factors, column_factors, intercept, rows, columns)

    @property
    def rank(self) -> int:
        """The number of columns of each factor."""
        return int(self.row_factors.shape[1])

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

    def augmented(self) -> tuple[Array, Array]:
        """Return ``P = [U, a, 1]`` and ``Q = [V, 1, b + c]``, so that ``x = P Q'`` intercepts and all."""
        ones = np.ones((self.row_factors.shape[0], 1)), np.ones((self.column_factors.shape[0], 1))
        P = np.hstack([self.row_factors, self.row_intercepts[:, None], ones[0]])
        Q = np.hstack(
            [
                self.column_factors,
                ones[1],
                ones[1] * self.intercept + self.column_intercepts[:, None],
            ]
        )
        return P, Q

    def flat(self) -> NDArray[np.float64]:
        """Return all unknowns in one vector."""
        return np.concatenate(
            [
                np.ravel(self.row_factors),
                np.ravel(self.column_factors),
                [self.intercept],
                self.row_intercepts,
                self.column_intercepts,
            ],
            dtype=np.float64,
        )

    def shaped(self, x: NDArray[np.float64]) -> Factors:
        """Return a vector as factors of the same shapes; their arrays are views of it."""
        parts = (self.row_factors, self.column_factors, np.zeros(1), self.row_intercepts)
        U, V, b, a, c = np.split(x, np.cumsum([part.size for part in parts]))
        shapes = self.row_factors.shape, self.column_factors.shape
        return Factors(U.reshape(shapes[0]), V.reshape(shapes[1]), float(b[0]), a, c)

    def plus(self, weight: float, other: Factors) -> Factors:
        """Return ``self + weight other``, part by part."""
        return Factors(
            self.row_factors + weight * other.row_factors,
            self.column_factors + weight * other.column_factors,
            self.intercept + weight * other.intercept,
            self.row_intercepts + weight * other.row_intercepts,
            self.column_intercepts + weight * other.column_intercepts,
        )

    def minus(self, other: Factors) -> Factors:
        """Return ``self - other``, part by part."""
        return self.plus(-1.0, other)

    @staticmethod
    def mean_of(members: Sequence[Factors]) -> Factors:
        """Return the model whose entries are the means of the members' entries, of as many columns as all of them.

        ``U = [U_1, ..., U_m] / sqrt(m)``, V alike, and the means of the intercepts. The parts of implicit features
        have such a mean too, as factors are linear in them.
        """
        if len(members) == 1:
            return members[0]
        scale = 1.0 / np.sqrt(len(members))

        def stacked(name: str) -> Array:
            columns = np.hstack([getattr(each, name) for each in members])
            return np.asarray(columns * columns.dtype.type(scale))

        def mean(name: str) -> Any:
            return np.mean([getattr(each, name) for each in members], axis=0)

        return Factors(
            stacked("row_factors"),
            stacked("column_factors"),
            float(mean("intercept")),
            mean("row_intercepts"),
            mean("column_intercepts"),
        )

    def dot(self, other: Factors) -> float:
        """Return the inner product over all parts."""
        return float(
            np.vdot(self.row_factors, other.row_factors)
            + np.vdot(self.column_factors, other.column_factors)
            + self.intercept * other.intercept
            + np.vdot(self.row_intercepts, other.row_intercepts)
            + np.vdot(self.column_intercepts, other.column_intercepts)
        )

    def centred(self) -> Factors:
        """Move the means of the row and column intercepts into the one number: X stays, the ridge shrinks."""
        rows, columns = float(np.mean(self.row_intercepts)), float(np.mean(self.column_intercepts))
        return replace(
            self,
            intercept=self.intercept + rows + columns,
            row_intercepts=self.row_intercepts - rows,
            column_intercepts=self.column_intercepts - columns,
        )

    def clipped_intercepts(self, bound: float) -> Factors:
        """Bring every row and column intercept into ``[-bound, bound]``."""
        return replace(
            self,
            row_intercepts=np.clip(self.row_intercepts, -bound, bound),
            column_intercepts=np.clip(self.column_intercepts, -bound, bound),
        )

    def at(self, rows: NDArray[np.integer[Any]], columns: NDArray[np.integer[Any]]) -> Array:
        """Return ``x`` at the given positions, in float64."""
        x = np.einsum(
            "ij,ij->i",
            self.row_factors[rows],
            self.column_factors[columns],
            dtype=np.float64,
        )
        return np.asarray(
            x + self.intercept + self.row_intercepts[rows] + self.column_intercepts[columns]
        )

    def astype(self, dtype: Any) -> Factors:
        """Return the factors in another floating-point type."""
        return Factors(
            self.row_factors.astype(dtype),
            self.column_factors.astype(dtype),
            float(np.dtype(dtype).type(self.intercept)),
            self.row_intercepts.astype(dtype),
            self.column_intercepts.astype(dtype),
        )
