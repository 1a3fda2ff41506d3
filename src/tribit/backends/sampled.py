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
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.backends import blocks
from tribit.backends.base import Backend, FixedFactor, Panel, Places, RowModels
from tribit.backends.blocks import draw_tiles, probabilities
from tribit.backends.controls import fit_controls
from tribit.backends.forms import Form
from tribit.backends.sampled_entries import Sample, SampledLayout, SampledSide, SortedFactor, gram
from tribit.backends.sparse import SparseBackend, SparsePanel
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]

#: Entries drawn for each pair of classes to fit the quadratics on, apart from the sample that they correct.
PILOT = 256


class SampledPanel:
    """A block of rows against all of Q: observed entries, the tiles it was drawn, and its quadratic."""

    def __init__(self, backend: SampledBackend, number: int, against: SortedFactor) -> None:
        self.backend, self.against, side = backend, against, backend.side
        inside = side.rows.inside(number)
        self.rows: Places = side.rows.order[inside]
        self.height = self.rows.size
        self._start = inside.start
        self._batches = range(*side.layout.batch_ends[number : number + 2])
        columns, weights = side.sample.tiles.of(number)
        widths = side.columns.widths[columns]
        starts = columns * side.columns.block
        places = np.repeat(starts - np.cumsum(widths) + widths, widths) + np.arange(widths.sum())
        self.Q: Array = np.take(against.Q, places, axis=0)
        self.weights: Array = np.repeat(weights, widths).astype(backend.dtype)
        self._class, self._classes = side.rows.classes[number], side.columns.classes[columns]
        self._widths = widths

    def _observed(self) -> Iterator[tuple[slice, SparsePanel]]:
        """Yield the observed entries, some rows of the block at a time: each is done with before the next is made."""
        for place in self._batches:
            rows = self.backend.side.batches[place].rows
            here = slice(rows[0] - self._start, rows[-1] + 1 - self._start)
            yield here, SparsePanel(self.backend.observed, place, self.against)

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
        square = np.einsum("c,cab->ab", c2, self.against.grams) - gram(self.Q, w2)
        return float(c0 @ sizes - np.sum(w0)), c1 @ self.against.sums - w1 @ self.Q, square

    def _by_column(self, of_classes: Array) -> Array:
        """Return a number of each class of columns for each column of the sample."""
        return np.repeat(of_classes[self._classes], self._widths)

    def values(self, P: Array) -> Array:
        """Return the estimated risk of each row in float64."""
        values = self._sampled(P, value=True, bend=False)[0]
        for rows, panel in self._observed():
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
        shape = gram(q, self._bend) * (form.unit * form.slope**2)
        curvatures = ratios[:, None, None] * shape
        for rows, panel in self._observed():
            model = panel.models(P[rows], free, exact=True, value=value)
            gradients[rows] += model.gradients
            curvatures[rows] += model.matrices()
            if value:
                values[rows] += model.values
        return RowModels(values, gradients, curvatures)

    def gradient(self, P: Array, *, value: bool) -> tuple[float, Array]:
        """Return the value of the block (0 unless ``value``) and its gradient in P."""
        form = self.backend.form
        values, gradients, _ = self._sampled(P, value=value, bend=False)
        total = float(np.sum(values)) if value else 0.0
        for rows, panel in self._observed():
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
            square = self.backend.side.sample.controls.square[self._class]
            continued = self._by_column(square).astype(z.dtype) * beyond
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
        """Cut ``z`` to the interval in which the link is its own, and return what was cut off; None for nothing.

        Tiles that are in every sample have nothing to correct, and are left as they are.
        """
        low, high = self._interval
        beyond = z - np.clip(z, low, high)
        if not beyond.any():
            return None
        z -= beyond
        return np.asarray(beyond)

    @cached_property
    def _interval(self) -> tuple[Array, Array]:
        """Ends of the interval of each column of the sample; none for tiles that are in every sample."""
        controls = self.backend.side.sample.controls
        low, high = (self._by_column(ends[self._class]) for ends in (controls.low, controls.high))
        rare = self.weights > 1
        dtype = self.backend.dtype
        return np.where(rare, low, -np.inf).astype(dtype), np.where(rare, high, np.inf).astype(
            dtype
        )

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
        self.observed = SparseBackend(side, other, form, dtype, n_jobs)
        self.seed, self.tiles = 0, blocks.TILES
        self._local = threading.local()

    @classmethod
    def build(cls, *args: Any, **options: Any) -> Self:
        """Return the backend with a sample for ``X = 0``."""
        return super().build(*args, **options).drawn(0)

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

    def redrawn(self) -> Self:
        """Return the backend with another sample."""
        return self.drawn(self.seed + 1)

    def enlarged(self) -> Self | None:
        """Return the backend with twice as many tiles from the next stage on; None where all were drawn."""
        tiles = self.side.sample.tiles.columns.size
        if tiles >= self.side.rows.n_blocks * self.side.columns.n_blocks:
            return None
        again = copy(self)
        again.tiles = 2 * self.tiles
        return again

    def staged(self, P: Array, Q: Array) -> Self:
        """Return the backend with quadratics fitted to the spread of ``P Q'``, and with tiles drawn for them."""
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
        # A row needs as many more columns as it has unknowns.
        wanted = max(self.tiles, P.shape[1])
        chances = probabilities(rows, columns, controls.spread, wanted)
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
        again.seed, again.tiles = self.seed, self.tiles
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
