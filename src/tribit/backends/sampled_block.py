"""The dense term of a block of rows of the sampled backend: its quadratic, and the tiles that it was drawn."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.sampled_entries import SortedFactor, gram

if TYPE_CHECKING:
    from tribit.backends.sampled import SampledBackend

Array = NDArray[np.floating[Any]]


class SampledBlock:
    """The dense term of one block of rows against all of Q."""

    def __init__(self, backend: SampledBackend, number: int, against: SortedFactor) -> None:
        self.backend, self.against, side = backend, against, backend.side
        columns, weights = side.sample.tiles.of(number)
        widths = side.columns.widths[columns]
        starts = columns * side.columns.block
        places = np.repeat(starts - np.cumsum(widths) + widths, widths) + np.arange(widths.sum())
        self.Q: Array = np.take(against.Q, places, axis=0)
        self.weights: Array = np.repeat(weights, widths).astype(backend.dtype)
        self._class, self._classes = side.rows.classes[number], side.columns.classes[columns]
        self._widths = widths

    def values(self, P: Array) -> Array:
        """Return the estimated dense term of each row in float64."""
        scaled, _, terms, _ = self._terms(P, value=True, bend=False)
        return self._total(scaled.astype(np.float64), terms)

    def sums(self, P: Array, *, value: bool, bend: bool) -> tuple[Array, Array, Array]:
        """Return values (NaN unless asked for), gradients and ratios of curvatures of the rows."""
        loss, against = self.backend.loss, self.against
        scaled, first, terms, second = self._terms(P, value=value, bend=bend)
        wide = scaled.astype(np.float64)
        values = self._total(wide, terms)
        _, linear, square = self._control
        first *= self.weights
        gradients = (first @ self.Q).astype(np.float64)
        gradients += linear + wide @ square
        gradients *= loss.unit * loss.slope
        gradients += loss.first_constant * against.column_sums
        ratios = np.ones(P.shape[0])
        if second is not None and self.weights.size:
            mean = self._by_column(self.backend.side.sample.controls.bend[self._class])
            ratios = np.maximum(second @ self.weights, 0).astype(np.float64) / (mean @ self.weights)
        return values, gradients, ratios

    def _terms(
        self, P: Array, *, value: bool, bend: bool
    ) -> tuple[Array, Array, Array | None, Array | None]:
        """Return ``scale P``, and at each cell of the tiles ``h'``, ``h`` and ``h''``, these if asked for."""
        scaled = P * self.backend.dtype.type(self.backend.loss.scale)
        z, first_buffer, second_buffer, spare, last = self.backend.buffers(
            P.shape[0], self.Q.shape[0]
        )
        np.matmul(scaled, self.Q.T, out=z)
        beyond = self._cut(z, last)
        out, second = first_buffer if value else None, second_buffer if bend else None
        self.backend.loss.apply(z, out, second, spare)
        if beyond is not None:
            square = self.backend.side.sample.controls.square[self._class]
            continued = self._by_column(square).astype(z.dtype) * beyond
            if out is not None:
                out += beyond * (z + 0.5 * continued)
            z += continued
        return scaled, z, out, second

    def _total(self, P: Array, terms: Array | None) -> Array:
        """Return the value of each row from those at its cells, for ``P`` scaled and in float64; NaN without them."""
        if terms is None:
            return np.full(P.shape[0], np.nan)
        loss, (constant, linear, square) = self.backend.loss, self._control
        values = (terms @ self.weights).astype(np.float64) + constant
        values += np.einsum("ia,ia->i", P, 0.5 * (P @ square) + linear)
        values = loss.unit * (values + loss.value_constant * self.against.Q.shape[0])
        return np.asarray(values + loss.value_linear * (P @ self.against.column_sums))

    def curvature(self, free: int) -> Array:
        """Return the curvature of a row of mean curvature.

        It is that of all columns, each at the mean curvature of its class: that of the sample has an error that makes
        fits take twice the iterations. A block without a tile, of which very large tables have some, has its quadratic.
        """
        loss, controls = self.backend.loss, self.backend.side.sample.controls
        bend = (controls.bend if self.weights.size else controls.square)[self._class]
        shape = np.einsum("c,cab->ab", bend, self.against.grams[:, :free, :free])
        return np.asarray(shape * (loss.unit * loss.slope**2))

    @cached_property
    def _control(self) -> tuple[float, Array, Array]:
        """The part of the quadratics over all entries that the sample lacks: constant, linear and square, in ``z``."""
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

    def _cut(self, z: Array, beyond: Array) -> Array | None:
        """Cut ``z`` to the interval in which the link is its own, and return what was cut off; None for nothing."""
        low, high, highest_low, lowest_high = self._interval
        if not z.size or (z.min() >= highest_low and z.max() <= lowest_high):
            return None
        np.minimum(np.maximum(z, low, out=beyond), high, out=beyond)
        np.subtract(z, beyond, out=beyond)
        z -= beyond
        return beyond

    @cached_property
    def _interval(self) -> tuple[Array, Array, float, float]:
        """Ends of the interval of each column of the sample, and of what is inside all of them.

        Tiles that are in every sample have nothing to correct: their interval has no end.
        """
        controls, dtype = self.backend.side.sample.controls, self.backend.dtype
        ends = (self._by_column(end[self._class]) for end in (controls.low, controls.high))
        rare = self.weights > 1
        low, high = (
            np.where(rare, end, far).astype(dtype)
            for end, far in zip(ends, (-np.inf, np.inf), strict=True)
        )
        return low, high, low.max(initial=-np.inf), high.min(initial=np.inf)
