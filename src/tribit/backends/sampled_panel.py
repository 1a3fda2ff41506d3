"""A block of rows of the sampled backend: values, gradients and models of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.base import Places, RowModels
from tribit.backends.sampled_entries import SortedFactor, gram
from tribit.backends.sparse import SparsePanel

if TYPE_CHECKING:
    from tribit.backends.sampled import SampledBackend

Array = NDArray[np.floating[Any]]


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
        mean curvature relative to it: one matrix for all rows of the block. A block without a tile, of which very large
        tables have some, has its quadratic alone.
        """
        form = self.backend.form
        values, gradients, ratios = self._sampled(P, value=value, bend=True)
        gradients = gradients[:, :free].copy()
        shape = gram(self.Q, self._bend) if self.weights.size else self._control[2]
        shape = shape[:free, :free]
        curvatures = ratios[:, None, None] * (shape * (form.unit * form.slope**2))
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
        z, first_buffer, second_buffer, spare, last = self.backend.buffers(
            P.shape[0], self.Q.shape[0]
        )
        np.matmul(scaled, self.Q.T, out=z)
        beyond = self._cut(z, last)
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
        ratios = np.ones(P.shape[0])
        if second is not None and self.weights.size:
            ratios = np.maximum(second @ self.weights, 0).astype(np.float64) / np.sum(self._bend)
        return values, first, ratios

    def _cut(self, z: Array, beyond: Array) -> Array | None:
        """Cut ``z`` to the interval in which the link is its own, and return what was cut off; None for nothing.

        Tiles that are in every sample have nothing to correct, and are left as they are.
        """
        low, high = self._interval
        np.minimum(np.maximum(z, low, out=beyond), high, out=beyond)
        np.subtract(z, beyond, out=beyond)
        if not beyond.size or beyond.min() == 0 == beyond.max():
            return None
        z -= beyond
        return beyond

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
