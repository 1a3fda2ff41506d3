"""The exact pass over every entry, tile by tile, the link applied in place to each tile.

A tile of 256 x 256 entries stays in a core's second-level cache between its three matrix products, and the
place of an observed entry in it fits 16 bits. Observed corrections are added to the tile itself, so that the
same products that carry the dense term carry them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.kernels.common import FixedFactor, Kernel
from tribit.kernels.forms import Form
from tribit.observations import Observations

Array = NDArray[np.floating[Any]]

TILE = 256
#: Panels whose gradients in Q are summed before they are handed back: fewer, larger partial sums.
GROUP = 8


class _Side:
    """The observed entries of one orientation, in the order in which the tiles are visited."""

    def __init__(
        self,
        rows: NDArray[np.integer[Any]],
        columns: NDArray[np.integer[Any]],
        plus: Array,
        minus: Array,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
    ) -> None:
        self.shape = shape
        self.tiles = -(-shape[1] // TILE)
        panels = -(-shape[0] // TILE)
        tile = (rows // TILE) * self.tiles + columns // TILE
        order = np.argsort(tile, kind="stable")
        counts = np.bincount(tile, minlength=panels * self.tiles)
        self.offsets: list[int] = np.concatenate([[0], np.cumsum(counts)]).tolist()
        left = (columns[order] // TILE) * TILE
        width = np.minimum(shape[1] - left, TILE)
        place = (rows[order] % TILE) * width + (columns[order] - left)
        self.cells = place.astype(np.uint16)
        self.local_rows = (rows[order] % TILE).astype(np.uint16)
        self.plus = plus[order].astype(dtype)
        self.minus = minus[order].astype(dtype)


class TilePanel:
    """Up to 256 rows of P against all of Q."""

    def __init__(self, kernel: TileKernel, number: int, against: FixedFactor) -> None:
        self.kernel, self.number, self.against = kernel, number, against
        self.rows = slice(number * TILE, min((number + 1) * TILE, kernel.shape[0]))

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64."""
        return self._sweep(P, value=True, free=0, curvature=False)[0]

    def models(self, P: Array, free: int) -> tuple[Array, Array, Array]:
        """Return value, gradient and packed curvature of each row in its first ``free`` columns."""
        return self._sweep(P, value=True, free=free, curvature=True)

    def gradient(self, P: Array, columns: Array, *, value: bool) -> tuple[float, Array]:
        """Return the panel's value and gradient in P, and add ``first_out' P`` to ``columns``."""
        values, first, _ = self._sweep(
            P, value=value, free=P.shape[1], curvature=False, columns=columns
        )
        return float(np.sum(values)), first

    def _sweep(
        self, P: Array, *, value: bool, free: int, curvature: bool, columns: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Visit the panel's tiles once and sum what is asked for in float64."""
        kernel, form, against = self.kernel, self.kernel.form, self.against
        side, Q = kernel.side, against.Q
        scaled = P * kernel.dtype.type(form.scale)
        products = against.products(free) if curvature else None
        values = np.zeros(P.shape[0])
        first = np.zeros((P.shape[0], free))
        packed = np.zeros((P.shape[0], products.width if products else 0))
        offsets = side.offsets[self.number * side.tiles : (self.number + 1) * side.tiles + 1]
        seen = np.empty(offsets[-1] - offsets[0], dtype=kernel.dtype)
        for tile in range(side.tiles):
            block = slice(tile * TILE, min((tile + 1) * TILE, Q.shape[0]))
            here = slice(offsets[tile], offsets[tile + 1])
            z, out, second, spare = kernel.buffers(P.shape[0], block.stop - block.start)
            np.matmul(scaled, Q[block].T, out=z)
            cells = side.cells[here].astype(np.intp)
            x = z.reshape(-1)[cells]
            form.apply(z, out if value else None, second if curvature else None, spare)
            if value:
                seen[here.start - offsets[0] : here.stop - offsets[0]] = x
                values += out @ kernel.ones[: out.shape[1]]
            if free:
                add, bend = form.correct(x, side.plus[here], side.minus[here], curvature)
                z.reshape(-1)[cells] += add
                first += z @ Q[block, :free]
            if columns is not None:
                columns[block] += z.T @ P
            if products:
                # Only a curvature that is nowhere negative keeps each row's model convex.
                flat = second.reshape(-1)
                flat[cells] = np.maximum(flat[cells] + bend, 0)
                packed += second @ products.block(block)
        if value:
            values = form.unit * (values + form.value_constant * Q.shape[0])
            values += form.value_linear * (scaled.astype(np.float64) @ against.column_sums)
            entries = slice(offsets[0], offsets[-1])
            corrections = form.correct_value(seen, side.plus[entries], side.minus[entries])
            values += np.bincount(side.local_rows[entries], corrections, minlength=P.shape[0])
        first *= form.unit * form.slope
        first += form.first_constant * against.column_sums[:free]
        packed *= form.unit * form.slope**2
        return values, first, packed


class TileKernel(Kernel):
    """Sums over all entries: the risk's dense term and its observed corrections, by tiles."""

    def __init__(
        self, side: _Side, other: _Side, form: Form, dtype: np.dtype[Any], n_jobs: int
    ) -> None:
        self.side, self.other, self.form = side, other, form
        self.shape, self.dtype, self.n_jobs = side.shape, dtype, n_jobs
        self.ones = np.ones(TILE, dtype=dtype)
        self._local = threading.local()

    @classmethod
    def build(
        cls,
        observations: Observations,
        form: Form,
        plus: Array,
        minus: Array,
        *,
        dtype: str,
        n_jobs: int,
    ) -> Self:
        """Sort the observed entries by tile, once for each orientation."""
        kind = np.dtype(dtype)
        rows, columns, (d1, d2) = observations.rows, observations.columns, observations.shape
        side = _Side(rows, columns, plus, minus, (d1, d2), kind)
        other = _Side(columns, rows, plus, minus, (d2, d1), kind)
        return cls(side, other, form, kind, n_jobs)

    @property
    def transposed(self) -> TileKernel:
        """The same risk with the roles of P and Q exchanged."""
        return TileKernel(self.other, self.side, self.form, self.dtype, self.n_jobs)

    def panels(self, Q: Array) -> Sequence[TilePanel]:
        """Return panels of 256 rows against a fixed Q."""
        against = FixedFactor(Q, self.dtype)
        return [TilePanel(self, number, against) for number in range(-(-self.shape[0] // TILE))]

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        P = np.ascontiguousarray(P, dtype=self.dtype)
        panels = self.panels(Q)
        in_P = np.empty(P.shape)
        in_Q = np.zeros((self.shape[1], P.shape[1]))
        groups = [panels[start : start + GROUP] for start in range(0, len(panels), GROUP)]

        def run(group: Sequence[TilePanel]) -> tuple[float, Array]:
            columns = np.zeros(in_Q.shape)
            total = 0.0
            for panel in group:
                part, in_P[panel.rows] = panel.gradient(P[panel.rows], columns, value=value)
                total += part
            return total, columns

        total = 0.0
        for part, columns in self.map(run, groups):
            total += part
            in_Q += columns
        in_Q *= self.form.unit * self.form.slope
        in_Q += self.form.first_constant * np.sum(P, axis=0, dtype=np.float64)
        return (total if value else float("nan")), in_P, in_Q

    def buffers(self, height: int, width: int) -> list[Array]:
        """Return this thread's four tile buffers, cut to a tile's size."""
        store = getattr(self._local, "store", None)
        if store is None:
            store = self._local.store = np.empty((4, TILE * TILE), dtype=self.dtype)
        return [buffer[: height * width].reshape(height, width) for buffer in store]
