"""Sparse matrices whose rows are on workers, and the designs with implicit features made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.cluster import parts
from tribit.cluster.calls import Cluster, Future
from tribit.data.axis import Positions
from tribit.data.observations import Observations
from tribit.model.design import Block, Design
from tribit.model.factors import Factors
from tribit.model.features import Activity, Features

if TYPE_CHECKING:
    from tribit.cluster.observations import PartitionedObservations

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class PartMatrix:
    """``M = diag(r) O diag(c)`` with some rows of O in each partition, or ``M'``.

    Attributes
    ----------
    cluster : Cluster
        The workers.
    held : list of futures
        The rows of O of each partition as a sparse array.
    rows : list of array
        Which rows these are.
    of : tuple of two ints
        The shape of M.
    turned : bool
        Whether this is the transpose, ``M'``.
    scales : pair of arrays or None
        r and c; None for 1.
    """

    cluster: Cluster
    held: Sequence[Future]
    rows: Sequence[Positions]
    of: tuple[int, int]
    turned: bool = False
    scales: tuple[Array | None, Array | None] = (None, None)
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns, of ``M'`` where it is the transpose."""
        return self.of[::-1] if self.turned else self.of

    @property
    def T(self) -> PartMatrix:  # noqa: N802 - as NumPy and SciPy call it
        """The transpose."""
        return replace(self, turned=not self.turned)

    def tocsr(self) -> PartMatrix:
        """Return the matrix: both products go by its rows."""
        return self

    def astype(self, dtype: object) -> PartMatrix:  # noqa: ARG002
        """Return the matrix: its products are in float64."""
        return self

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(self.times(None, V)[1] if self.turned else self.times(V, None)[0])

    def times(self, V: Array | None, U: Array | None) -> tuple[Any, Any]:
        """Return ``M V`` and ``M' U`` in one pass, None for an argument that is None."""
        r, c = self.scales
        of_V, of_U = self._pass(_scale_rows(c, V), _scale_rows(r, U))
        return _scale_rows(r, of_V), _scale_rows(c, of_U)

    def _pass(self, V: Array | None, U: Array | None) -> tuple[Any, Any]:
        """Return ``O V`` and ``O' U``."""
        cut = [None if U is None else U[rows] for rows in self.rows]
        found = self.cluster.map(parts.times, self.held, cut, V=V)
        if U is None:
            by_rows, columns = [own for own, _ in self.cluster.results(found)], None
        else:
            width = U.size // U.shape[0]
            by_rows, columns = self.cluster.own_and_total(found, 8 * self.of[1] * width)
        if V is None:
            return None, columns
        whole = np.zeros((self.of[0], *V.shape[1:]))
        for rows, own in zip(self.rows, by_rows, strict=True):
            whole[rows] = own
        return whole, columns

    def toarray(self) -> Array:
        """Return a matrix of very few rows or columns as an array."""
        if self.shape[1] <= self.shape[0]:
            return self @ np.eye(self.shape[1])
        return (self.T @ np.eye(self.shape[0])).T

    def matvec(self, v: Array) -> Array:
        """Return ``M v``; with this and ``rmatvec`` it is a linear operator to SciPy."""
        return self @ np.ravel(v)

    def rmatvec(self, u: Array) -> Array:
        """Return ``M' u``."""
        return self.T @ np.ravel(u)


def _scale_rows(scale: Array | None, given: Array | None) -> Array | None:
    """Return an array with its rows scaled."""
    if scale is None or given is None:
        return given
    return np.asarray(scale * given if given.ndim == 1 else scale[:, None] * given)


@dataclass(frozen=True, eq=False)
class MaskFeatures(Features):
    """The designs ``[I, S, S_2, ...]`` and ``[I, T, T_2, ...]`` with implicit features S and T, the mask O on workers.

        S = D_r O + h_r m_r',    T = D_c O' + h_c m_c'

    with D the inverse roots of the numbers of entries (:class:`~tribit.model.features.Activity`). A product with S
    needs ``O z`` and one with T needs ``O' w``, which one pass over the partitions gives together. Side features, the
    blocks behind them, are on this machine.
    """

    @property
    def mask(self) -> PartMatrix:
        """O."""
        scaled: PartMatrix = self.rows.blocks[0].matrix
        return replace(scaled, scales=(None, None))

    @property
    def scales(self) -> tuple[Array, Array]:
        """The diagonals of ``D_r`` and ``D_c``."""
        return self.rows.blocks[0].matrix.scales[0], self.columns.blocks[0].matrix.scales[1]

    def combine(self, coefficients: Factors) -> Factors:
        """Return the factors ``U = p + S z + S_2 z_2 + ...`` and V, with intercepts alike."""
        (p, z), (q, w) = (
            (own + _behind(design).shared_terms(behind), shared)
            for design, (own, shared, behind) in zip(
                (self.rows, self.columns), self._cut(coefficients), strict=True
            )
        )
        of_z, of_w = self.mask.times(z, w)
        rows, columns = self.rows.blocks[0], self.columns.blocks[0]
        U = p + self.scales[0][:, None] * of_z + np.outer(rows.shift, rows.means @ z)
        V = q + self.scales[1][:, None] * of_w + np.outer(columns.shift, columns.means @ w)
        return _factors(U, V, coefficients.intercept)

    def pull_back(self, gradient: Factors) -> Factors:
        """Return the gradient in the coefficients, ``[I, S, S_2, ...]' dF/dU`` for the rows."""
        return self._pull_back_both(gradient, self._transposed_products, Design.pull_back)

    def pull_back_squares(self, curvatures: Factors) -> Factors:
        """Return the curvature in each coefficient, given that in each factor."""
        return self._pull_back_both(curvatures, self._squared_products, Design.pull_back_squares)

    def _pull_back_both(
        self,
        given: Factors,
        of_mask: Callable[[Array, Array], tuple[Array, Array]],
        of_side: Callable[[Design, Array], Array],
    ) -> Factors:
        U, V = _with_intercepts(given)
        in_z, in_w = of_mask(U, V)
        in_rows, in_columns = (
            of_side(_behind(design), each)[design.size :]
            for design, each in ((self.rows, U), (self.columns, V))
        )
        rows, columns = np.vstack([U, in_z, in_rows]), np.vstack([V, in_w, in_columns])
        return _factors(rows, columns, given.intercept)

    def _transposed_products(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Return ``S' U`` and ``T' V``."""
        of_V, of_U = self.mask.times(self.scales[1][:, None] * V, self.scales[0][:, None] * U)
        rows, columns = self.rows.blocks[0], self.columns.blocks[0]
        return (
            of_U + np.outer(rows.means, rows.shift @ U),
            of_V + np.outer(columns.means, columns.shift @ V),
        )

    def _squared_products(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Return ``(S * S)' U`` and ``(T * T)' V``; the mask is 0 and 1, so that its squares are itself."""
        n = U.shape[1]
        sides = []
        for scale, block, given in zip(
            self.scales, (self.rows.blocks[0], self.columns.blocks[0]), (U, V), strict=True
        ):
            bent = (scale * block.shift)[:, None] * given
            sides.append(np.hstack([scale[:, None] ** 2 * given, bent]))
        of_V, of_U = self.mask.times(sides[1], sides[0])
        found = []
        for block, both, given in zip(
            (self.rows.blocks[0], self.columns.blocks[0]), (of_U, of_V), (U, V), strict=True
        ):
            means = block.means[:, None]
            squares = np.outer(block.means**2, block.shift**2 @ given)
            found.append(both[:, :n] + 2.0 * means * both[:, n:] + squares)
        return found[0], found[1]

    def _cut(self, coefficients: Factors) -> list[tuple[Array, Array, Array]]:
        """Return for each side its own coefficients, those of implicit and of side features, intercepts as a column."""
        return [
            (each[:size], each[size : size + width], each[size + width :])
            for each, size, width in zip(
                _with_intercepts(coefficients),
                (self.rows.size, self.columns.size),
                (self.rows.blocks[0].width, self.columns.blocks[0].width),
                strict=True,
            )
        ]


def _behind(design: Design) -> Design:
    """Return a design without its implicit features."""
    return Design(design.size, design.blocks[1:])


def blocks_of_mask(
    observations: PartitionedObservations, activities: tuple[Activity, Activity]
) -> tuple[Block, Block]:
    """Return the implicit features of rows and columns of a table on workers, without a penalty."""
    mask = observations.matrix(_ones)
    counts = observations.counts
    r, c = (1.0 / np.sqrt(np.maximum(each, 1)) for each in counts)
    scaled = replace(mask, scales=(r, None)), replace(mask, scales=(None, c)).T
    rows, columns = (
        Block(each, activity.shift(own), activity.popularity, 0.0)
        for activity, each, own in zip(activities, scaled, counts, strict=True)
    )
    return rows, columns


def _ones(entries: Observations, _: object) -> Array:
    return np.ones(len(entries))


def _with_intercepts(given: Factors) -> tuple[Array, Array]:
    """Return the factors of both sides with their intercepts as a last column."""
    return (
        np.column_stack([given.row_factors, given.row_intercepts]),
        np.column_stack([given.column_factors, given.column_intercepts]),
    )


def _factors(U: Array, V: Array, intercept: float) -> Factors:
    return Factors(U[:, :-1], V[:, :-1], intercept, U[:, -1], V[:, -1])
