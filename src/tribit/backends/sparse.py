"""The pass over the observed entries alone: all there is when the risk gives the others no weight.

Entries are kept by rows and by columns; sums over a row are sparse matrix products with factors of Q.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tribit.backends.base import ColumnProducts, FixedFactor, Kernel, Places, RowModels

Array = NDArray[np.floating[Any]]

#: A panel ends after about this many entries (their factors stay in cache) or this many rows.
ENTRIES = 16384
ROWS = 1024


class RowLayout:
    """The observed entries of one orientation, by rows, cut into panels."""

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.order = np.lexsort((columns, rows))
        counts = np.bincount(rows, minlength=shape[0])
        self.offsets = np.concatenate([[0], np.cumsum(counts)])
        # 32-bit places where they fit: half the memory traffic of every gather.
        place = np.int32 if max(*shape, rows.size) < 2**31 else np.int64
        self.columns: Places = columns[self.order].astype(place)
        self.rows: Places = rows[self.order].astype(place)
        self.panels = _cut(self.offsets)


class _Side:
    """The observed entries of one orientation with their weights."""

    def __init__(self, layout: RowLayout, weights: tuple[Array, Array]) -> None:
        self.shape, self.panels = layout.shape, layout.panels
        self.order, self.offsets = layout.order, layout.offsets
        self.rows, self.columns = layout.rows, layout.columns
        self.weights = weights[0][self.order], weights[1][self.order]

    def weights_of(self, entries: slice) -> tuple[Array, Array]:
        """Return the correction weights of a run of entries."""
        return self.weights[0][entries], self.weights[1][entries]

    def matrix(self, rows: slice, weights: Array) -> csr_array:
        """Return the observed entries of some rows as a sparse matrix with the given weights."""
        offsets = self.offsets[rows.start : rows.stop + 1]
        columns = self.columns[offsets[0] : offsets[-1]]
        shape = (rows.stop - rows.start, self.shape[1])
        return csr_array((weights, columns, offsets - offsets[0]), shape=shape)


def _cut(offsets: NDArray[np.integer[Any]]) -> list[slice]:
    """Cut the rows into panels of about ``ENTRIES`` entries and at most ``ROWS`` rows."""
    panels: list[slice] = []
    start, last = 0, offsets.size - 1
    while start < last:
        full = int(np.searchsorted(offsets, offsets[start] + ENTRIES, side="right")) - 1
        stop = min(max(full, start + 1), start + ROWS, last)
        panels.append(slice(start, stop))
        start = stop
    return panels


class SparsePanel:
    """Some rows of P against all of Q, at the observed entries only."""

    def __init__(self, kernel: SparseKernel, rows: slice, against: FixedFactor) -> None:
        self.kernel, self.rows, self.against = kernel, rows, against
        offsets = kernel.side.offsets
        self.entries = slice(int(offsets[rows.start]), int(offsets[rows.stop]))

    def predictors(self, P: Array) -> Array:
        """Return ``z = scale x`` at the panel's entries."""
        side = self.kernel.side
        left = np.take(P, side.rows[self.entries] - self.rows.start, axis=0)
        right = np.take(self.against.Q, side.columns[self.entries], axis=0)
        z = np.einsum("ij,ij->i", left, right)
        z *= self.kernel.dtype.type(self.kernel.form.scale)
        return np.asarray(z)

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64."""
        return self._row_sums(self.predictors(P))

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:  # noqa: ARG002
        """Return value, gradient and exact curvature of each row: bounds would cost as much."""
        z = self.predictors(P)
        first, second = self._corrections(z, curvature=True)
        products = self.against.products(free)
        form, side = self.kernel.form, self.kernel.side
        gradient = side.matrix(self.rows, first) @ products.Q
        bend = np.maximum(0.0 if second is None else second, 0).astype(first.dtype)
        if products.kept is not None:
            packed = side.matrix(self.rows, bend) @ products.kept
        else:
            packed = self._row_by_row(bend, products)
        return RowModels(
            self._row_sums(z),
            gradient.astype(np.float64) * (form.unit * form.slope),
            packed.astype(np.float64) * (form.unit * form.slope**2),
        )

    def first(self, P: Array, *, value: bool) -> tuple[float, Array]:
        """Return the panel's value and ``first_out`` at its entries."""
        z = self.predictors(P)
        total = float(np.sum(self._row_sums(z))) if value else 0.0
        return total, self._corrections(z, curvature=False)[0]

    def _row_by_row(self, bend: Array, products: ColumnProducts) -> Array:
        """Return packed curvatures one row at a time: for ranks whose products would not fit memory."""
        side = self.kernel.side
        packed = np.empty((self.rows.stop - self.rows.start, products.width), dtype=bend.dtype)
        for local, row in enumerate(range(self.rows.start, self.rows.stop)):
            entries = slice(int(side.offsets[row]), int(side.offsets[row + 1]))
            Q = products.Q[side.columns[entries]]
            weights = bend[entries.start - self.entries.start : entries.stop - self.entries.start]
            packed[local] = ((Q.T * weights) @ Q)[products.pairs]
        return packed

    def _corrections(self, z: Array, *, curvature: bool) -> tuple[Array, Array | None]:
        side = self.kernel.side
        return self.kernel.form.correct(z, *side.weights_of(self.entries), curvature)

    def _row_sums(self, z: Array) -> Array:
        side = self.kernel.side
        values = self.kernel.form.correct_value(z, *side.weights_of(self.entries))
        local = side.rows[self.entries] - self.rows.start
        return np.asarray(
            np.bincount(local, values, minlength=self.rows.stop - self.rows.start), dtype=np.float64
        )


class SparseKernel(Kernel):
    """Sums over the observed entries, for risks that give the unobserved ones no weight."""

    side: _Side
    other: _Side
    bounded = False

    layout = RowLayout

    @classmethod
    def arrange(
        cls,
        layout: RowLayout,
        weights: tuple[Array, Array],
        bounds: Array | None,  # noqa: ARG003 - exact curvatures cost as little
    ) -> _Side:
        """Put the weights of the observed entries in order."""
        return _Side(layout, weights)

    def panels(self, Q: Array) -> Sequence[SparsePanel]:
        """Return panels of rows, cut by their number of entries, against a fixed Q."""
        against = FixedFactor(Q, self.dtype)
        return [SparsePanel(self, rows, against) for rows in self.side.panels]

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        P = np.ascontiguousarray(P, dtype=self.dtype)
        Q = np.ascontiguousarray(Q, dtype=self.dtype)
        derivatives = np.empty(self.side.rows.size, dtype=self.dtype)

        def by_rows(panel: SparsePanel) -> tuple[float, Array]:
            total, first = panel.first(P[panel.rows], value=value)
            derivatives[self.side.order[panel.entries]] = first
            return total, self.side.matrix(panel.rows, first) @ Q

        def by_columns(rows: slice) -> Array:
            entries = slice(int(self.other.offsets[rows.start]), int(self.other.offsets[rows.stop]))
            first = derivatives[self.other.order[entries]]
            return np.asarray(self.other.matrix(rows, first) @ P)

        totals, in_P = zip(*self.map(by_rows, self.panels(Q)), strict=True)
        in_Q = list(self.map(by_columns, self.other.panels))
        unit = self.form.unit * self.form.slope
        return (
            float(sum(totals)) if value else float("nan"),
            np.concatenate(in_P).astype(np.float64) * unit,
            np.concatenate(in_Q).astype(np.float64) * unit,
        )
