"""The exact pass over every entry, tile by tile, the link applied in place to each tile.

A tile of 256 x 1024 entries stays in the caches between its three matrix products. Observed corrections are added to
the tile, so that the same products carry them and the dense term.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tribit.backends.base import Backend, GramCache, Places, RowModels
from tribit.backends.layout import RowLayout, place_type, stable_order
from tribit.backends.losses import WeightedLoss
from tribit.backends.sparse import squares
from tribit.errors import InvalidInputError
from tribit.model.risks import ExpectedLabels, Imputation

Array = NDArray[np.floating[Any]]
#: Rows of a panel of like length, the columns of their entries, and the roots of the bounds of these.
RootBatch = tuple[Places, Places, Array]

#: Most unknowns of a row for which a sparse product with all ``q_a q_b`` is faster than products of batches of rows. An
#: entry took 6 and 15 ns by the two with 11 unknowns (MovieLens-100k), with 17 both as long, and a sweep over 2.2
#: million entries took .28 s less by batches with 33.
MAX_PRODUCT_UNKNOWNS = 16


class BoundedCurvature:
    """Bounds ``w_ij`` of the curvature of the observed entries, and ``sum_j w_ij q_j q_j'`` of the rows of a panel.

    The derived arrays take as much memory as the entries, and are made at their first use.
    """

    def __init__(
        self, rows: Places, columns: Places, bounds: Array, shape: tuple[int, int], height: int
    ) -> None:
        self.rows, self.columns, self.bounds = rows, columns, bounds
        self.shape, self.height = shape, height
        self._matrices: list[csr_array] | None = None
        self._batches: list[list[RootBatch]] | None = None
        self._lock = threading.Lock()

    def of_panel(self, number: int, against: GramCache, free: int) -> Array:
        """Return the sum of each row of a panel, over the first ``free`` columns of Q."""
        if free <= MAX_PRODUCT_UNKNOWNS and (products := against.products(free)).kept is not None:
            with self._lock:
                if self._matrices is None:
                    self._matrices = self._by_panel()
                matrix = self._matrices[number]
            return products.unpack(matrix @ products.kept)
        with self._lock:
            if self._batches is None:
                self._batches = self._in_batches()
            batches = self._batches[number]
        found = np.zeros((min(self.height, self.shape[0] - number * self.height), free, free))
        Q = against.columns(free)
        for rows, columns, roots in batches:
            found[rows] = squares(np.take(Q, columns, axis=0), roots)
        return found

    def _by_panel(self) -> list[csr_array]:
        """Return the bounds of each panel as a sparse matrix."""
        whole = csr_array((self.bounds, (self.rows, self.columns)), shape=self.shape)
        whole.eliminate_zeros()
        starts = range(0, self.shape[0], self.height)
        return [whole[start : start + self.height] for start in starts]

    def _in_batches(self) -> list[list[RootBatch]]:
        """Return the rows of each panel in batches; entries whose bound is 0 are left out."""
        kept = np.flatnonzero(self.bounds)
        panels = self.rows[kept] // self.height
        starts = range(0, self.shape[0], self.height)
        ends = np.cumsum(np.bincount(panels, minlength=len(starts)))
        by_panel = np.split(kept[stable_order(panels)], ends[:-1])
        found = []
        for start, here in zip(starts, by_panel, strict=True):
            shape = min(self.height, self.shape[0] - start), self.shape[1]
            layout = RowLayout(self.rows[here] - start, self.columns[here], shape)
            roots = np.append(np.sqrt(self.bounds[here]), self.bounds.dtype.type(0))  # 0: padding
            held = (each for each in layout.batches if each.columns.size)
            found.append([(each.rows, each.columns, roots[each.entries]) for each in held])
        return found


#: Rows and columns of a tile: a buffer of it takes 1 MB in single precision, and a thread has four. Threads wait for
#: the interpreter's lock between operations, so that these must not be short: with 256 columns an entry took 1.3 ns on
#: one thread and 1.2 on two (10 factors), and with 1024 columns 1.3 and .75.
HEIGHT, WIDTH = 256, 1024
#: Panels whose gradients in Q are summed before they are handed back: fewer, larger partial sums.
PANELS_PER_SUM = 8


class TileLayout:
    """The observed entries of one orientation, in the order in which the tiles are visited."""

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.shape, self.rows, self.columns = shape, rows, columns
        self.tiles = -(-shape[1] // WIDTH)
        panels = -(-shape[0] // HEIGHT)
        tile = (rows // HEIGHT).astype(place_type(panels * self.tiles))
        tile *= self.tiles
        tile += columns // WIDTH
        self.order = order = stable_order(tile)
        counts = np.bincount(tile, minlength=panels * self.tiles)
        del tile
        self.offsets: list[int] = np.concatenate([[0], np.cumsum(counts)]).tolist()
        #: rows and columns in their tile, which fit 16 bits
        self.local_rows = (rows % HEIGHT).astype(np.uint16)[order]
        self.local_columns = (columns % WIDTH).astype(np.uint16)[order]


class _TiledSide:
    """The observed entries of one orientation with their weights."""

    def __init__(
        self, layout: TileLayout, weights: tuple[Array, Array], bounds: Array | None
    ) -> None:
        self.shape = layout.shape
        self.tiles, self.offsets = layout.tiles, layout.offsets
        self.local_rows, self.local_columns = layout.local_rows, layout.local_columns
        #: expected labels of every entry, where the risk imputes them
        self.expected_labels: ExpectedLabels | None = None
        order = layout.order
        a, b = weights
        # Under the logistic link the first weight is g_PN for every entry: one number then serves all.
        self.one_weight = bool(a.size) and bool(np.all(a == a[0]))
        self.a: Array = a[:1].copy() if self.one_weight else a[order]
        self.b: Array = b[order]
        #: bounds of the curvature of the observed entries, where the loss has any
        self.bounds = (
            None
            if bounds is None
            else BoundedCurvature(layout.rows, layout.columns, bounds, layout.shape, HEIGHT)
        )


class TilePanel:
    """Up to 256 rows of P against all of Q."""

    def __init__(self, backend: TileBackend, number: int, against: GramCache) -> None:
        self.backend, self.number, self.against = backend, number, against
        self.rows = slice(number * HEIGHT, min((number + 1) * HEIGHT, backend.shape[0]))
        self.height = self.rows.stop - self.rows.start

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64."""
        return self._visit(P, free=0, value=True).values

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:
        """Return a quadratic model of each row in its first ``free`` columns."""
        if exact or not self.backend.has_bounds:
            return self._visit(P, free=free, value=value, curvature=True)
        bounds, against = self.backend.side.bounds, self.against
        assert bounds is not None
        model = self._visit(P, free=free, value=value)
        # The bound of the dense term is the same for every row; observed entries add theirs.
        curvatures = bounds.of_panel(self.number, against, free)
        curvatures += self.backend.loss.dense_bound * against.squares(free)
        return replace(model, curvatures=curvatures)

    def gradient(self, P: Array, columns: Array, *, value: bool) -> tuple[float, Array]:
        """Return the panel's value and gradient in P, and add ``first_out' P`` to ``columns``."""
        model = self._visit(P, free=P.shape[1], value=value, columns=columns)
        return float(np.sum(model.values)), model.gradients

    def _visit(
        self,
        P: Array,
        *,
        free: int,
        value: bool,
        curvature: bool = False,
        columns: Array | None = None,
    ) -> RowModels:
        """Visit the panel's tiles once and return the requested sums in float64."""
        backend, loss, against = self.backend, self.backend.loss, self.against
        side, Q = backend.side, against.Q
        scaled = P * backend.dtype.type(loss.scale)
        products = against.products(free) if curvature else None
        values = np.full(P.shape[0], 0.0 if value else np.nan)
        first = np.zeros((P.shape[0], free))
        packed = np.zeros((P.shape[0], products.width if products else 0))
        slack = 0.0
        offsets = side.offsets[self.number * side.tiles : (self.number + 1) * side.tiles + 1]
        seen = np.empty(offsets[-1] - offsets[0], dtype=backend.dtype)
        width = 0
        for tile, (block, Q_tile) in enumerate(backend.blocks(Q)):
            if Q_tile.shape[0] != width:  # the first tile, and the last where it is narrower
                width = Q_tile.shape[0]
                z, out, second, spare = backend.buffers(P.shape[0], width)
                flat = z.reshape(-1)
            np.matmul(scaled, Q_tile.T, out=z)
            here = slice(offsets[tile], offsets[tile + 1])
            cells = side.local_rows[here] * np.intp(width) + side.local_columns[here]
            x = flat[cells] if value or loss.needs_predictor else None
            expected = (
                None
                if side.expected_labels is None
                else side.expected_labels.tile(self.rows, block)
            )
            loss.apply(z, out if value else None, second if curvature else None, spare, expected)
            if value:
                seen[here.start - offsets[0] : here.stop - offsets[0]] = x
                # Not out @ ones, which keeps the interpreter's lock.
                values += np.dot(out, backend.ones[:width])
            if not free:
                continue
            if columns is None:
                slack += loss.slack(flat, expected)
            a = side.a if side.one_weight else side.a[here]
            flat[cells], bend = loss.correct_in_tile(flat[cells], x, a, side.b[here], curvature)
            first += z @ Q_tile[:, :free]
            if columns is not None:
                columns[block] += z.T @ P
            if products is not None and bend is not None:
                # Only a curvature that is nowhere negative keeps each row's model convex.
                bent = second.reshape(-1)
                bent[cells] = np.maximum(bent[cells] + bend, 0)
                packed += second @ products.block(block)
        if value:
            values = loss.unit * (values + loss.value_constant * Q.shape[0])
            values += loss.value_linear * (scaled.astype(np.float64) @ against.column_sums)
            entries = slice(offsets[0], offsets[-1])
            a = side.a if side.one_weight else side.a[entries]
            corrections = loss.correct_value(seen, a, side.b[entries])
            values += np.bincount(side.local_rows[entries], corrections, minlength=P.shape[0])
        first *= loss.unit * loss.slope
        first += loss.first_constant * against.column_sums[:free]
        packed *= loss.unit * loss.slope**2
        curvatures = packed if products is None else products.unpack(packed)
        return RowModels(values, first, curvatures, 1.0 - slack / (P.shape[0] * Q.shape[0]))


class TileBackend(Backend):
    """Sums over all entries: the risk's dense term and its observed corrections, by tiles.

    Examples
    --------
    >>> from tribit import Logistic, Observations, pu
    >>> from tribit.backends import make_backend
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> type(make_backend(seen, Logistic(), pu(0.3), dtype="float64", n_jobs=1)).__name__
    'TileBackend'
    """

    side: _TiledSide
    other: _TiledSide
    takes_all = True

    def __init__(
        self,
        side: _TiledSide,
        other: _TiledSide,
        loss: WeightedLoss,
        dtype: np.dtype[Any],
        n_jobs: int,
    ) -> None:
        if loss.dense_bound == 0.0:
            raise InvalidInputError(
                "Tiles visit every entry, and this risk gives the unobserved ones no weight: use the sparse backend."
            )
        super().__init__(side, other, loss, dtype, n_jobs)
        self.ones = np.ones(WIDTH, dtype=dtype)
        self._local = threading.local()

    layout = TileLayout

    @classmethod
    def arrange(
        cls, layout: TileLayout, weights: tuple[Array, Array], bounds: Array | None
    ) -> _TiledSide:
        """Put the weights of the observed entries in order."""
        return _TiledSide(layout, weights, bounds)

    def impute(self, imputation: Imputation) -> Self:
        """Return the backend with a model's probabilities in the dense term, for a loss that expects them."""
        self.side.expected_labels, self.other.expected_labels = imputation.expected_labels(
            self.dtype
        )
        return self

    @property
    def has_bounds(self) -> bool:
        """Whether the loss knows upper bounds of the curvature."""
        return self.loss.has_bounds

    @property
    def n_panels(self) -> int:
        """The number of panels of 256 rows."""
        return -(-self.shape[0] // HEIGHT)

    def panel(self, number: int, against: GramCache) -> TilePanel:
        """Return 256 rows against a fixed Q."""
        return TilePanel(self, number, against)

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        P = np.ascontiguousarray(P, dtype=self.dtype)
        against = GramCache(Q, self.dtype)
        panels = [self.panel(number, against) for number in range(self.n_panels)]
        in_P = np.empty(P.shape)
        in_Q = np.zeros((self.shape[1], P.shape[1]))
        groups = [
            panels[start : start + PANELS_PER_SUM]
            for start in range(0, len(panels), PANELS_PER_SUM)
        ]

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
        in_Q *= self.loss.unit * self.loss.slope
        in_Q += self.loss.first_constant * np.sum(P, axis=0, dtype=np.float64)
        return (total if value else float("nan")), in_P, in_Q

    @staticmethod
    def blocks(Q: Array) -> list[tuple[slice, Array]]:
        """Return the columns of each tile and the rows of Q that belong to them."""
        starts = range(0, Q.shape[0], WIDTH)
        return [(slice(i, i + WIDTH), Q[i : i + WIDTH]) for i in starts]

    def buffers(self, height: int, width: int) -> list[Array]:
        """Return this thread's four tile buffers, cut to a tile's size."""
        store = getattr(self._local, "store", None)
        if store is None:
            cells = HEIGHT * min(WIDTH, self.shape[1])
            store = self._local.store = np.empty((4, cells), dtype=self.dtype)
        return [buffer[: height * width].reshape(height, width) for buffer in store]
