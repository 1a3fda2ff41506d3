"""Estimated sums over all entries, where these are too many to visit: a quadratic exactly, the rest from a sample.

On every entry the risk has the dense term ``h(x) = nu l(x, +1) + pu l(x, -1)``. With a quadratic ``c(x)`` near it

    sum_ij h(x_ij)  =  sum_ij c(x_ij)  +  sum_ij [h(x_ij) - c(x_ij)]

the first sum is exact through Gram matrices, and the second is estimated from sampled tiles, each weighted by the
inverse of its probability (:mod:`tribit.backends.tile_sample`). Value and gradients are unbiased, and they belong to
one function: the sample and the quadratics stay fixed until :meth:`SampledBackend.refit_control_variates` renews them
(sample average approximation). Observed corrections are exact. A pass costs the observed entries, a sample in
proportion to their number, and ``(d1 + d2) k^2``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.backends.base import Backend, GramCache, Panel, Places, RowModels
from tribit.backends.compiled import kernels_for
from tribit.backends.layout import Batch, cut, place_type, stable_order
from tribit.backends.losses import LogisticLoss, WeightedLoss
from tribit.backends.sparse import SparseBackend, SparsePanel
from tribit.backends.tile_sample import (
    Blocks,
    ControlVariates,
    Tiles,
    draw_tiles,
    fit_control_variates,
    tile_probabilities,
    tiles_per_block,
)
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]


#: Blocks of rows in a panel: models of rows are minimised together, and few at a time cost more than their arithmetic
#: (a sweep over 20,000 x 20,000 took 1.58, 1.10, 1.01 and 1.00 s of CPU with 1, 4, 8 and 16).
PANEL_BLOCKS = 16
#: Blocks of columns whose Gram matrices are computed together.
RUN_BLOCKS = 64


class SampledLayout:
    """The observed entries of one orientation, by panels of blocks; each panel in batches of rows of like length."""

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.shape, self.n_entries = shape, rows.size
        counts = np.bincount(rows, minlength=shape[0])
        self.rows = Blocks(counts)
        self.columns = Blocks(np.bincount(columns, minlength=shape[1]))
        place = place_type(*shape, rows.size + 1)
        order = stable_order(self.rows.places[rows]).astype(place)
        lengths = counts[self.rows.order]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        at = self.columns.places[columns].astype(place)
        self.batches: list[Batch] = []
        #: Where the batches of each panel begin; one more for the end.
        self.batch_ends = [0]
        self.panel_rows = PANEL_BLOCKS * self.rows.block
        self.n_panels = -(-self.rows.size // self.panel_rows)
        for number in range(self.n_panels):
            here = self.inside(number)
            # The longest rows come first, and those without entries last: they need no batch.
            filled = here.start + int(np.count_nonzero(lengths[here]))
            for low, high in cut(lengths[here.start : filled][::-1]):
                start, stop = filled - high, filled - low
                steps = np.arange(lengths[start])
                inside = steps < lengths[start:stop, None]
                entries = np.full(inside.shape, rows.size, dtype=place)
                entries[inside] = order[offsets[start] : offsets[stop]]
                own = np.zeros(inside.shape, dtype=place)
                own[inside] = at[entries[inside]]
                self.batches.append(Batch(np.arange(start, stop), own, entries))
            self.batch_ends.append(len(self.batches))

    def inside(self, number: int) -> slice:
        """Return the places of the rows of a panel."""
        start = number * self.panel_rows
        return slice(start, min(start + self.panel_rows, self.rows.size))


@dataclass(frozen=True, eq=False)
class Sample:
    """The sampled tiles of one orientation, and the control variates that their sums correct."""

    tiles: Tiles
    controls: ControlVariates


class SampledSide:
    """The observed entries of one orientation with their weights, and the sample."""

    def __init__(self, layout: SampledLayout, weights: tuple[Array, Array]) -> None:
        self.layout, self.shape = layout, layout.shape
        self.rows, self.columns = layout.rows, layout.columns
        # As the pass over observed entries wants them: one more entry, of weight 0, stands for the padding.
        self.batches, self.n_entries = layout.batches, layout.n_entries
        a, b = (np.append(each, each.dtype.type(0)) for each in weights)
        self.weights = [(a[batch.entries], b[batch.entries]) for batch in layout.batches]
        self.sample: Sample

    def with_sample(self, sample: Sample) -> SampledSide:
        """Return the same entries with another sample."""
        again = copy(self)
        again.sample = sample
        return again

    def astype(self, dtype: np.dtype[Any]) -> SampledSide:
        """Return the same in another type."""
        again = copy(self)
        again.weights = [(a.astype(dtype), b.astype(dtype)) for a, b in self.weights]
        return again


class SortedFactor(GramCache):
    """A fixed factor in the order of its blocks, with the sums and Gram matrices of each block and each class."""

    def __init__(self, Q: Array, dtype: np.dtype[Any], blocks: Blocks) -> None:
        super().__init__(np.take(np.asarray(Q, dtype=dtype), blocks.order, axis=0), dtype)
        starts = range(0, blocks.size, RUN_BLOCKS * blocks.block)
        parts = [
            _sums_and_grams(self.Q[start : start + RUN_BLOCKS * blocks.block], blocks.block)
            for start in starts
        ]
        self.block_sums, self.block_grams = map(np.concatenate, zip(*parts, strict=True))
        self.sums, self.grams = (
            np.add.reduceat(each, blocks.ends[:-1], axis=0)
            for each in (self.block_sums, self.block_grams)
        )


def _sums_and_grams(Q: Array, height: int) -> tuple[Array, Array]:
    """Return ``sum_j q_j`` and ``sum_j q_j q_j'`` of each block of rows, in float64."""
    blocks = np.zeros((-(-Q.shape[0] // height), height, Q.shape[1]))
    blocks.reshape(-1, Q.shape[1])[: Q.shape[0]] = Q
    return blocks.sum(axis=1), blocks.transpose(0, 2, 1) @ blocks


class SampledBlock:
    """The dense term of one block of rows against all of Q."""

    def __init__(self, backend: SampledBackend, number: int, against: SortedFactor) -> None:
        self.backend, self.against, side = backend, against, backend.side
        #: Blocks of columns of the tiles, their widths, and the weights of the tiles.
        self.columns, self.weights = side.sample.tiles.of(number)
        self.widths = side.columns.widths[self.columns]
        self._class, self._classes = side.rows.classes[number], side.columns.classes[self.columns]

    def values(self, P: Array) -> Array:
        """Return the estimated dense term of each row in float64."""
        scaled = self._scaled(P)
        return self._total(scaled.astype(np.float64), self._tile_values(scaled))

    def sums(self, P: Array, *, value: bool, bend: bool) -> tuple[Array, Array, Array]:
        """Return values (NaN unless requested), gradients and ratios of curvatures of the rows."""
        loss, against = self.backend.loss, self.against
        scaled = self._scaled(P)
        wide = scaled.astype(np.float64)
        totals, gradients, bends = self._tile_sums(scaled, value=value, bend=bend)
        _, linear, square = self._control
        gradients += linear + wide @ square
        gradients *= loss.unit * loss.slope
        gradients += loss.first_constant * against.column_sums
        values = np.full(P.shape[0], np.nan) if totals is None else self._total(wide, totals)
        ratios = np.ones(P.shape[0])
        if bends is not None and self.weights.size:
            mean = self._of_tiles(self.backend.side.sample.controls.bend)
            ratios = np.maximum(bends, 0) / (mean @ (self.weights * self.widths))
        return values, gradients, ratios

    def _scaled(self, P: Array) -> Array:
        return np.asarray(P * self.backend.dtype.type(self.backend.loss.scale))

    def _tile_values(self, scaled: Array) -> Array:
        """Return the weighted sums of ``h`` over the cells of the tiles, for rows ``scale P``."""
        _, terms, _ = self._terms(scaled, value=True, bend=False)
        assert terms is not None
        return (terms @ self._column_weights).astype(np.float64)

    def _tile_sums(
        self, scaled: Array, *, value: bool, bend: bool
    ) -> tuple[Array | None, Array, Array | None]:
        """Return the same sums of ``h``, of ``h' q`` and of ``h''``: the first and last None unless requested."""
        first, terms, second = self._terms(scaled, value=value, bend=bend)
        weights = self._column_weights
        totals, bends = (
            None if each is None else (each @ weights).astype(np.float64)
            for each in (terms, second)
        )
        first *= weights
        return totals, (first @ self._columns_of_tiles).astype(np.float64), bends

    def _terms(
        self, scaled: Array, *, value: bool, bend: bool
    ) -> tuple[Array, Array | None, Array | None]:
        """Return ``h'``, ``h`` and ``h''`` at each cell of the tiles, these if requested."""
        z, first_buffer, second_buffer, spare, last = self.backend.buffers(
            scaled.shape[0], self._columns_of_tiles.shape[0]
        )
        np.matmul(scaled, self._columns_of_tiles.T, out=z)
        beyond = self._cut(z, last)
        out, second = first_buffer if value else None, second_buffer if bend else None
        self.backend.loss.apply(z, out, second, spare)
        if beyond is not None:
            square = self._of_tiles(self.backend.side.sample.controls.square)
            continued = self._by_column(square).astype(z.dtype) * beyond
            if out is not None:
                out += beyond * (z + 0.5 * continued)
            z += continued
        return z, out, second

    def _total(self, P: Array, totals: Array) -> Array:
        """Return the value of each row from the sums over its cells, for ``P`` scaled and in float64."""
        loss, (constant, linear, square) = self.backend.loss, self._control
        values = totals + constant
        values += np.einsum("ia,ia->i", P, 0.5 * (P @ square) + linear)
        values = loss.unit * (values + loss.value_constant * self.against.Q.shape[0])
        return np.asarray(values + loss.value_linear * (P @ self.against.column_sums))

    def curvature(self, free: int) -> Array:
        """Return the curvature of a row of mean curvature.

        It is that of all columns, each at the mean curvature of its class: that of the sample has an error that makes
        fits take twice the iterations. A block without a tile, as in very large tables, has its quadratic.
        """
        loss, controls = self.backend.loss, self.backend.side.sample.controls
        bend = (controls.bend if self.weights.size else controls.square)[self._class]
        shape = np.einsum("c,cab->ab", bend, self.against.grams[:, :free, :free])
        return np.asarray(shape * (loss.unit * loss.slope**2))

    @cached_property
    def _control(self) -> tuple[float, Array, Array]:
        """The part of the quadratics over all entries that the sample lacks: constant, linear and square, in ``z``."""
        controls, against = self.backend.side.sample.controls, self.against
        c0, c1, c2 = (
            part[self._class] for part in (controls.constant, controls.linear, controls.square)
        )
        w0, w1, w2 = (self.weights * part[self._classes] for part in (c0, c1, c2))
        sizes = np.diff(self.backend.side.columns.place_ends)
        linear = c1 @ against.sums - w1 @ against.block_sums[self.columns]
        k = linear.size
        square = c2 @ against.grams.reshape(-1, k * k)
        square -= w2 @ against.block_grams[self.columns].reshape(-1, k * k)
        return float(c0 @ sizes - w0 @ self.widths), linear, square.reshape(k, k)

    @cached_property
    def _columns_of_tiles(self) -> Array:
        """The rows of Q of the columns of the tiles."""
        starts = self.columns * self.backend.side.columns.block
        ends = np.cumsum(self.widths)
        places = np.repeat(starts - ends + self.widths, self.widths) + np.arange(self.widths.sum())
        return np.asarray(np.take(self.against.Q, places, axis=0))

    @cached_property
    def _column_weights(self) -> Array:
        return self._by_column(self.weights).astype(self.backend.dtype)

    def _of_tiles(self, of_classes: Array) -> Array:
        """Return a number of each pair of classes for each tile."""
        return np.asarray(of_classes[self._class, self._classes])

    def _by_column(self, of_tiles: Array) -> Array:
        """Return a number of each tile for each of its columns."""
        return np.repeat(of_tiles, self.widths)

    def _cut(self, z: Array, beyond: Array) -> Array | None:
        """Clip ``z`` to the interval of the link's own values, and return the excess; None where there is none."""
        low, high, highest_low, lowest_high = self._interval
        if not z.size or (z.min() >= highest_low and z.max() <= lowest_high):
            return None
        np.minimum(np.maximum(z, low, out=beyond), high, out=beyond)
        np.subtract(z, beyond, out=beyond)
        z -= beyond
        return beyond

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """Ends of the interval of each tile: those with probability 1 need no correction, and have no end."""
        controls, rare = self.backend.side.sample.controls, self.weights > 1
        low, high = self._of_tiles(controls.low), self._of_tiles(controls.high)
        return np.where(rare, low, -np.inf), np.where(rare, high, np.inf)

    @cached_property
    def _interval(self) -> tuple[Array, Array, float, float]:
        """Ends of the interval of each column of the sample, and of their intersection."""
        low, high = (self._by_column(end).astype(self.backend.dtype) for end in self._ends)
        return low, high, low.max(initial=-np.inf), high.min(initial=np.inf)


class SampledPanel:
    """The rows of some blocks against all of Q: observed entries, and the dense term of each block."""

    def __init__(self, backend: SampledBackend, number: int, against: SortedFactor) -> None:
        self.backend, self.against, side = backend, against, backend.side
        inside = side.layout.inside(number)
        self.rows: Places = side.rows.order[inside]
        self.height = self.rows.size
        self._start = inside.start
        self._batches = range(*side.layout.batch_ends[number : number + 2])
        size = side.rows.block
        first, last = inside.start // size, -(-inside.stop // size)
        self._blocks = [backend.block_type(backend, block, against) for block in range(first, last)]
        #: The last rows of ``values``, and their values: of the dense term and of the observed entries.
        self._known: tuple[Array, Array, Array] | None = None

    def _dense_blocks(self) -> Iterator[tuple[slice, SampledBlock]]:
        """Yield each block with its rows in the panel."""
        size = self.backend.side.rows.block
        for place, block in enumerate(self._blocks):
            yield slice(place * size, min((place + 1) * size, self.height)), block

    def _observed_batches(self) -> Iterator[tuple[slice, int]]:
        """Yield the numbers of the batches of observed entries, with their rows in the panel."""
        for place in self._batches:
            rows = self.backend.side.batches[place].rows
            yield slice(rows[0] - self._start, rows[-1] + 1 - self._start), place

    def _batch(self, place: int) -> SparsePanel:
        """Return a batch of observed entries; each is done with before the next is made."""
        return SparsePanel(self.backend.observed, place, self.against)

    def values(self, P: Array) -> Array:
        """Return the estimated risk of each row in float64."""
        dense: Array = np.zeros(self.height)
        observed: Array = np.zeros(self.height)
        if self._known is None:
            moved = np.ones(self.height, dtype=bool)
        else:
            # A line search shortens the steps of few rows: blocks and batches without them are as they were.
            before, dense, observed = self._known
            moved = np.any(before != P, axis=1)
        for rows, block in self._dense_blocks():
            if moved[rows].any():
                dense[rows] = block.values(P[rows])
        for rows, place in self._observed_batches():
            if moved[rows].any():
                observed[rows] = self._batch(place).values(P[rows])
        self._known = P.copy(), dense, observed
        return dense + observed

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:  # noqa: ARG002
        """Return value, gradient and curvature of each row.

        The curvature of the dense term is that of all columns at the mean curvature of each class, times the row's own
        mean curvature relative to it: one matrix for all rows of a block.
        """
        values, gradients = np.empty(self.height), np.empty((self.height, free))
        curvatures = np.empty((self.height, free, free))
        for rows, block in self._dense_blocks():
            values[rows], slopes, ratios = block.sums(P[rows], value=value, bend=True)
            gradients[rows] = slopes[:, :free]
            np.multiply(ratios[:, None, None], block.curvature(free), out=curvatures[rows])
        for rows, place in self._observed_batches():
            model = self._batch(place).models(P[rows], free, exact=True, value=value)
            gradients[rows] += model.gradients
            curvatures[rows] += model.matrices()
            if value:
                values[rows] += model.values
        return RowModels(values, gradients, curvatures)

    def gradient(self, P: Array, *, value: bool) -> tuple[float, Array]:
        """Return the value of the panel (0 unless ``value``) and its gradient in P."""
        loss, total, gradients = self.backend.loss, 0.0, np.empty(P.shape)
        for rows, block in self._dense_blocks():
            values, gradients[rows], _ = block.sums(P[rows], value=value, bend=False)
            total += float(np.sum(values)) if value else 0.0
        for rows, place in self._observed_batches():
            part, _, sums = self._batch(place).first(P[rows], value=value)
            total += part
            gradients[rows] += sums * (loss.unit * loss.slope)
        return total, gradients


#: Error of the quadratics (``ControlVariates.error``) up to which the sample is as large as the entries ask for, and
#: most multiples of that for larger ones, in proportion to the square. Mixtures in a ball have .2 to .27, models of the
#: mask .3 to .8 (synthetic tables, 5,000 x 5,000 to 20,000 x 40,000), and these need a larger sample.
REFERENCE_ERROR, MAX_ENLARGEMENT = 0.3, 4.0
#: Entries sampled for each pair of classes to fit the quadratics, independent of the sample that they correct.
PILOT_ENTRIES = 256


class SampledBackend(Backend):
    """Unbiased estimates of sums over all entries, from a sample that is fixed between stages.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> BinaryMatrixCompletion((0, 1, 0), backend="sampled").get_params()["backend"]
    'sampled'
    """

    side: SampledSide
    other: SampledSide
    has_bounds = False
    takes_all = True
    estimates = True
    layout = SampledLayout

    def __init__(
        self,
        side: SampledSide,
        other: SampledSide,
        loss: WeightedLoss,
        dtype: np.dtype[Any],
        n_jobs: int,
    ) -> None:
        super().__init__(side, other, loss, dtype, n_jobs)
        #: The observed corrections alone.
        self.observed = SparseBackend(side, other, loss, dtype, n_jobs)
        self.seed, self.enlargement = 0, 1
        self._local = threading.local()

    @cached_property
    def block_type(self) -> type[SampledBlock]:
        """Blocks by compiled kernels where these serve, else by NumPy."""
        if type(self.loss) is LogisticLoss and kernels_for(self.side.n_entries):
            from tribit.backends.compiled.sampled import CompiledSampledBlock  # noqa: PLC0415

            return CompiledSampledBlock
        return SampledBlock

    @classmethod
    def build(cls, *args: Any, **options: Any) -> Self:
        """Return the backend with a sample for ``X = 0``."""
        return super().build(*args, **options).with_seed(0)

    @classmethod
    def takes(cls, risk: Risk) -> bool:
        """Return whether unobserved entries count, all with the same weights."""
        return super().takes(risk) and risk.imputed is None

    @classmethod
    def arrange(
        cls,
        layout: SampledLayout,
        weights: tuple[Array, Array],
        bounds: Array | None,  # noqa: ARG003 - no bound is known of an estimate
    ) -> SampledSide:
        """Put the weights of the observed entries in order."""
        return SampledSide(layout, weights)

    def with_seed(self, seed: int) -> Self:
        """Return the backend with a sample of its own; the quadratics are those at ``X = 0``."""
        again = copy(self)
        again.seed = seed
        again.draw_sample(*(np.zeros((size, 1)) for size in self.shape))
        return again

    def resample(self) -> Self:
        """Return the backend with another sample."""
        return self.with_seed(self.seed + 1)

    def double_sample(self) -> Self | None:
        """Return the backend with twice as many tiles from the next stage on; None where all are in the sample."""
        tiles = self.side.sample.tiles.columns.size
        if tiles >= self.side.rows.n_blocks * self.side.columns.n_blocks:
            return None
        again = copy(self)
        again.enlargement = 2 * self.enlargement
        return again

    def refit_control_variates(self, P: Array, Q: Array) -> Self:
        """Return the backend with quadratics fitted to the spread of ``P Q'``, and with tiles sampled for them."""
        again = copy(self)
        again.draw_sample(P, Q)
        return again

    def draw_sample(self, P: Array, Q: Array) -> None:
        """Fit the quadratics to the spread of ``P Q'``, and sample tiles for them."""
        rows, columns = self.side.rows, self.side.columns
        draws = np.random.Generator(np.random.PCG64(self.seed))
        pairs = np.broadcast_shapes((rows.n_classes, 1, 1), (1, columns.n_classes, 1))
        left = np.stack([rows.draw(PILOT_ENTRIES, draws) for _ in range(pairs[1])], axis=1)
        right = np.stack([columns.draw(PILOT_ENTRIES, draws) for _ in range(pairs[0])])
        z = self.loss.scale * np.einsum("rcna,rcna->rcn", P[left], Q[right])
        controls = fit_control_variates(self.loss, z)
        wanted = tiles_per_block(rows, columns, self.side.n_entries, P.shape[1])
        wanted *= float(np.clip((controls.error / REFERENCE_ERROR) ** 2, 1.0, MAX_ENLARGEMENT))
        chances = tile_probabilities(rows, columns, controls.spread, self.enlargement * wanted)
        # Along the blocks of the longer side, each of which meets one at least; the others meet more.
        if rows.n_blocks >= columns.n_blocks:
            tiles = draw_tiles(rows, columns, chances, draws)
        else:
            tiles = draw_tiles(columns, rows, chances.T, draws).transposed(rows.n_blocks)
        self.side = self.side.with_sample(Sample(tiles, controls))
        flipped = Sample(tiles.transposed(columns.n_blocks), controls.transposed)
        self.other = self.other.with_sample(flipped)

    def astype(self, dtype: str) -> Self:
        """Return the same estimates in another type of arithmetic."""
        kind = np.dtype(dtype)
        again = type(self)(
            self.side.astype(kind), self.other.astype(kind), self.loss, kind, self.n_jobs
        )
        again.seed, again.enlargement = self.seed, self.enlargement
        return again

    @property
    def n_panels(self) -> int:
        """The number of runs of blocks of rows."""
        return self.side.layout.n_panels

    def panel(self, number: int, against: GramCache) -> SampledPanel:
        """Return a run of blocks of rows against a fixed Q, in the order of its blocks."""
        if not isinstance(against, SortedFactor):
            raise TypeError("the sampled backend needs its own kind of fixed factor")
        return SampledPanel(self, number, against)

    def buffers(self, height: int, width: int) -> list[Array]:
        """Return this thread's five buffers for the tiles of a block."""
        store = getattr(self._local, "store", None)
        if store is None or store.shape[1] < height * width:
            store = self._local.store = np.empty((5, height * width), dtype=self.dtype)
        return [buffer[: height * width].reshape(height, width) for buffer in store]

    def gram_cache(self, Q: Array) -> SortedFactor:
        """Return Q in the order of its blocks, with a cache of the values that panels derive from it."""
        return SortedFactor(Q, self.dtype, self.side.columns)

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the estimated risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        total, in_P = self.half_gradient(P, Q, value=value)
        _, in_Q = self.transposed.half_gradient(Q, P, value=False)
        return (total if value else float("nan")), in_P, in_Q

    def half_gradient(self, P: Array, Q: Array, *, value: bool) -> tuple[float, Array]:
        """Return the estimated risk and its gradient in P."""
        P = np.asarray(P, dtype=self.dtype)
        in_P = np.empty(P.shape)

        def run(panel: Panel) -> float:
            assert isinstance(panel, SampledPanel)
            part, in_P[panel.rows] = panel.gradient(P[panel.rows], value=value)
            return part

        return sum(self.map_panels(run, Q), 0.0), in_P
