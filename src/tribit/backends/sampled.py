"""Sums over all entries where these are too many to visit: a quadratic exactly, the rest from a sample of tiles.

On every entry the risk has the dense term ``h(x) = nu l(x, +1) + pu l(x, -1)``. With a quadratic ``c(x)`` near it

    sum_ij h(x_ij)  =  sum_ij c(x_ij)  +  sum_ij [h(x_ij) - c(x_ij)]

the first sum is exact through Gram matrices (:mod:`tribit.backends.controls`), and the second is estimated from tiles
drawn with known probabilities (:mod:`tribit.backends.blocks`), each weighted by the inverse of its own. Value and
gradients are unbiased, and they are those of one function: the sample and the quadratics stay as they are until
:meth:`SampledBackend.staged` draws and fits them anew (sample average approximation). Observed corrections are exact. A
pass costs the observed entries, a sample of fixed size for each row and column, and ``(d1 + d2) k^2``.
"""

from __future__ import annotations

import threading
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.backends.base import Backend, FixedFactor, Panel, Places, RowModels
from tribit.backends.blocks import BLOCK, LEAST, TILES, Blocks, Tiles, draw_tiles, probabilities
from tribit.backends.controls import Controls, fit_controls
from tribit.backends.forms import Form
from tribit.backends.layout import stable_order
from tribit.backends.sparse import ENTRIES, Batch, SparseBackend, SparsePanel
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]

#: Entries drawn for each pair of classes to fit the quadratics on, apart from the sample that they correct.
PILOT = 256


class SampledLayout:
    """The observed entries of one orientation, by blocks of rows; each block in batches of rows of like length."""

    block = BLOCK

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.shape, self.n_entries = shape, rows.size
        counts = np.bincount(rows, minlength=shape[0])
        self.rows = Blocks(counts, self.block)
        self.columns = Blocks(np.bincount(columns, minlength=shape[1]), self.block)
        place = np.int32 if max(*shape, rows.size + 1) < 2**31 else np.int64
        order = stable_order(self.rows.places[rows]).astype(place)
        lengths = counts[self.rows.order]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        at = self.columns.places[columns].astype(place)
        self.batches: list[Batch] = []
        #: Where the batches of each block begin; one more for the end.
        self.batch_ends = [0]
        for number in range(self.rows.n_blocks):
            here = self.rows.inside(number)
            for start, stop in _cut(lengths[here], here.start):
                steps = np.arange(lengths[start])
                inside = steps < lengths[start:stop, None]
                entries = np.full(inside.shape, rows.size, dtype=place)
                entries[inside] = order[offsets[start] : offsets[stop]]
                own = np.zeros(inside.shape, dtype=place)
                own[inside] = at[entries[inside]]
                self.batches.append(Batch(np.arange(start, stop), own, entries))
            self.batch_ends.append(len(self.batches))


def _cut(lengths: Places, first: int) -> list[tuple[int, int]]:
    """Cut the rows of a block, longest first, into runs of about ``ENTRIES`` entries; rows without any are left out."""
    cuts, start = [], 0
    filled = int(np.count_nonzero(lengths))
    while start < filled:
        stop = min(filled, start + max(1, ENTRIES // int(lengths[start])))
        cuts.append((first + start, first + stop))
        start = stop
    return cuts


@dataclass(frozen=True, eq=False)
class Sample:
    """The tiles that were drawn, in one orientation, and the quadratics that their sums correct."""

    tiles: Tiles
    controls: Controls


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


class SortedFactor(FixedFactor):
    """A fixed factor in the order of its blocks, with the sums and Gram matrices of each class."""

    def __init__(self, Q: Array, dtype: np.dtype[Any], blocks: Blocks) -> None:
        super().__init__(np.take(np.asarray(Q, dtype=dtype), blocks.order, axis=0), dtype)
        ends = zip(blocks.place_ends, blocks.place_ends[1:], strict=False)
        parts = [self.Q[start:stop] for start, stop in ends]
        self.sums = np.stack([np.sum(part, axis=0, dtype=np.float64) for part in parts])
        self.grams = np.stack([_gram(part) for part in parts])


def _gram(Q: Array, weights: Array | None = None) -> Array:
    """Return ``sum_j w_j q_j q_j'`` in float64, by runs of rows."""
    total = np.zeros((Q.shape[1], Q.shape[1]))
    for start in range(0, Q.shape[0], 4096):
        q = Q[start : start + 4096].astype(np.float64)
        total += q.T @ (q if weights is None else q * weights[start : start + 4096, None])
    return total


class SampledPanel:
    """A block of rows against all of Q: observed entries, the tiles it was drawn, and its quadratic."""

    def __init__(self, backend: SampledBackend, number: int, against: SortedFactor) -> None:
        self.backend, self.against, side = backend, against, backend.side
        inside = side.rows.inside(number)
        self.rows: Places = side.rows.order[inside]
        self.height = self.rows.size
        ends = side.layout.batch_ends
        self.observed = [
            (
                slice(batch.rows[0] - inside.start, batch.rows[-1] + 1 - inside.start),
                SparsePanel(backend.observed, place, against),
            )
            for place, batch in enumerate(
                side.batches[ends[number] : ends[number + 1]], ends[number]
            )
        ]
        columns, weights = side.sample.tiles.of(number)
        widths = side.columns.widths[columns]
        starts = columns * side.columns.block
        places = np.repeat(starts - np.cumsum(widths) + widths, widths) + np.arange(widths.sum())
        self.Q: Array = np.take(against.Q, places, axis=0)
        self.weights: Array = np.repeat(weights, widths).astype(backend.dtype)
        self._class, self._classes = side.rows.classes[number], side.columns.classes[columns]
        self._widths = widths
        controls = side.sample.controls
        low, high, square = (
            self._by_column(part[self._class]).astype(backend.dtype)
            for part in (controls.low, controls.high, controls.square)
        )
        self._interval, self._square = (low, high), square

    @cached_property
    def _control(self) -> tuple[float, Array, Array]:
        """What the sample lacks of the quadratics over all entries: constant, linear and square part, in ``z``."""
        sample, kind = self.backend.side.sample, self._class
        c0, c1, c2 = (
            part[kind]
            for part in (sample.controls.constant, sample.controls.linear, sample.controls.square)
        )
        w0, w1, w2 = (
            self.weights.astype(np.float64) * self._by_column(part) for part in (c0, c1, c2)
        )
        sizes = np.diff(self.backend.side.columns.place_ends)
        square = np.einsum("c,cab->ab", c2, self.against.grams) - _gram(self.Q, w2)
        return float(c0 @ sizes - np.sum(w0)), c1 @ self.against.sums - w1 @ self.Q, square

    def _by_column(self, of_classes: Array) -> Array:
        """Return a number of each class of columns for each column of the sample."""
        return np.repeat(of_classes[self._classes], self._widths)

    def values(self, P: Array) -> Array:
        """Return the estimated risk of each row in float64."""
        values = self._sampled(P, value=True, bend=False)[0]
        for rows, panel in self.observed:
            values[rows] += panel.values(P[rows])
        return values

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:  # noqa: ARG002
        """Return value, gradient and curvature of each row.

        The curvature of the dense term is that of the sample at the mean curvature of each class, times the row's own
        mean curvature relative to it: one matrix for all rows of the block.
        """
        form = self.backend.form
        values, gradients, ratios = self._sampled(P, value=value, bend=True)
        gradients = gradients[:, :free].copy()
        q = self.Q[:, :free]
        shape = _gram(q, self._bend) * (form.unit * form.slope**2)
        curvatures = ratios[:, None, None] * shape
        for rows, panel in self.observed:
            model = panel.models(P[rows], free, exact=True, value=value)
            gradients[rows] += model.gradients
            curvatures[rows] += model.curvatures
            if value:
                values[rows] += model.values
        return RowModels(values, gradients, curvatures)

    def gradient(self, P: Array, *, value: bool) -> tuple[float, Array]:
        """Return the value of the block (0 unless ``value``) and its gradient in P."""
        form = self.backend.form
        values, gradients, _ = self._sampled(P, value=value, bend=False)
        total = float(np.sum(values)) if value else 0.0
        for rows, panel in self.observed:
            part, _, sums = panel.first(P[rows], value=value)
            total += part
            gradients[rows] += sums * (form.unit * form.slope)
        return total, gradients

    def _sampled(self, P: Array, *, value: bool, bend: bool) -> tuple[Array, Array, Array]:
        """Return values, gradients and ratios of curvatures of the dense term."""
        form, against, dtype = self.backend.form, self.against, self.backend.dtype
        scaled = P * dtype.type(form.scale)
        z, first_buffer, second_buffer, spare = self.backend.buffers(P.shape[0], self.Q.shape[0])
        np.matmul(scaled, self.Q.T, out=z)
        beyond = self._cut(z)
        out, second = first_buffer if value else None, second_buffer if bend else None
        form.apply(z, out, second, spare)
        if beyond is not None:
            continued = self._square * beyond
            if out is not None:
                out += beyond * (z + 0.5 * continued)
            z += continued
        constant, linear, square = self._control
        wide = scaled.astype(np.float64)
        bent = wide @ square
        values = np.full(P.shape[0], np.nan)
        if out is not None:
            values = (out @ self.weights).astype(np.float64) + constant
            values += np.einsum("ia,ia->i", wide, 0.5 * bent + linear)
            values = form.unit * (values + form.value_constant * against.Q.shape[0])
            values += form.value_linear * (wide @ against.column_sums)
        z *= self.weights
        first = (z @ self.Q).astype(np.float64)
        first += linear + bent
        first *= form.unit * form.slope
        first += form.first_constant * against.column_sums
        ratios = np.zeros(0)
        if second is not None:
            ratios = np.maximum(second @ self.weights, 0).astype(np.float64) / np.sum(self._bend)
        return values, first, ratios

    def _cut(self, z: Array) -> Array | None:
        """Cut ``z`` to the intervals of its columns, and return what was cut off; None where nothing was."""
        low, high = self._interval
        if z.max(initial=-np.inf) <= high.min(initial=np.inf) and z.min(initial=np.inf) >= low.max(
            initial=-np.inf
        ):
            return None
        beyond = z - np.clip(z, low, high)
        if not beyond.any():
            return None
        z -= beyond
        return beyond

    @property
    def _bend(self) -> Array:
        """Weights of the columns of the sample times the mean curvature of their classes."""
        bend = self.backend.side.sample.controls.bend[self._class]
        return self.weights.astype(np.float64) * self._by_column(bend)


class SampledBackend(Backend):
    """Unbiased estimates of sums over all entries, from a sample that is fixed between stages."""

    side: SampledSide
    other: SampledSide
    bounded = False
    estimates = True
    layout = SampledLayout

    def __init__(
        self, side: SampledSide, other: SampledSide, form: Form, dtype: np.dtype[Any], n_jobs: int
    ) -> None:
        super().__init__(side, other, form, dtype, n_jobs)
        #: The observed corrections alone.
        self.observed = SparseBackend(side, other, form, dtype, n_jobs)  # type: ignore[arg-type]
        self.seed, self.tiles, self.least = 0, float(TILES), float(LEAST)
        self._local = threading.local()
        if not hasattr(side, "sample"):
            nothing = [np.zeros((size, 1)) for size in side.shape]
            self._draw(*nothing)

    @classmethod
    def takes(cls, risk: Risk) -> bool:
        """Return whether unobserved entries count, all with the same weights."""
        return bool(risk.unobserved) and risk.imputed is None

    @classmethod
    def arrange(
        cls,
        layout: SampledLayout,
        weights: tuple[Array, Array],
        bounds: Array | None,  # noqa: ARG003 - no bound is known of an estimate
    ) -> SampledSide:
        """Put the weights of the observed entries in order."""
        return SampledSide(layout, weights)

    def drawn(self, seed: int) -> Self:
        """Return the backend with a sample of its own; the quadratics are those at ``X = 0``."""
        again = copy(self)
        again.seed = seed
        again._draw(*(np.zeros((size, 1)) for size in self.shape))
        return again

    def staged(self, P: Array, Q: Array) -> Self:
        """Return the backend with the quadratics fitted to the spread of ``P Q'``, and with the tiles drawn for them."""
        again = copy(self)
        again._draw(P, Q)
        return again

    def _draw(self, P: Array, Q: Array) -> None:
        rows, columns = self.side.rows, self.side.columns
        draws = np.random.Generator(np.random.PCG64(self.seed))
        pairs = np.broadcast_shapes((rows.n_classes, 1, 1), (1, columns.n_classes, 1))
        left = np.stack([rows.draw(PILOT, draws) for _ in range(pairs[1])], axis=1)
        right = np.stack([columns.draw(PILOT, draws) for _ in range(pairs[0])])
        z = self.form.scale * np.einsum("rcna,rcna->rcn", P[left], Q[right])
        controls = fit_controls(self.form, z)
        chances = probabilities(rows, columns, controls.spread, self.tiles, self.least)
        tiles = draw_tiles(rows, columns, chances, draws)
        self.side = self.side.with_sample(Sample(tiles, controls))
        flipped = Sample(tiles.transposed(columns.n_blocks), controls.transposed)
        self.other = self.other.with_sample(flipped)

    def astype(self, dtype: str) -> Self:
        """Return the same estimates in another type of arithmetic."""
        kind = np.dtype(dtype)
        again = type(self)(
            self.side.astype(kind), self.other.astype(kind), self.form, kind, self.n_jobs
        )
        again.seed, again.tiles, again.least = self.seed, self.tiles, self.least
        return again

    @property
    def n_panels(self) -> int:
        """The number of blocks of rows."""
        return self.side.rows.n_blocks

    def panel(self, number: int, against: FixedFactor) -> SampledPanel:
        """Return a block of rows against a fixed Q, in the order of its blocks."""
        if not isinstance(against, SortedFactor):
            raise TypeError("the sampled backend needs its own kind of fixed factor")
        return SampledPanel(self, number, against)

    def buffers(self, height: int, width: int) -> list[Array]:
        """Return this thread's four buffers for the tiles of a block."""
        store = getattr(self._local, "store", None)
        if store is None or store.shape[1] < height * width:
            store = self._local.store = np.empty((4, height * width), dtype=self.dtype)
        return [buffer[: height * width].reshape(height, width) for buffer in store]

    def fixed(self, Q: Array) -> SortedFactor:
        """Return Q in the order of its blocks, with what panels derive from it once for a pass."""
        return SortedFactor(Q, self.dtype, self.side.columns)

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the estimated risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        total, in_P = self._half(P, Q, value=value)
        _, in_Q = self.transposed._half(Q, P, value=False)
        return (total if value else float("nan")), in_P, in_Q

    def _half(self, P: Array, Q: Array, *, value: bool) -> tuple[float, Array]:
        P = np.asarray(P, dtype=self.dtype)
        in_P = np.empty(P.shape)

        def run(panel: Panel) -> float:
            assert isinstance(panel, SampledPanel)
            part, in_P[panel.rows] = panel.gradient(P[panel.rows], value=value)
            return part

        return sum(self.map_panels(run, Q), 0.0), in_P
