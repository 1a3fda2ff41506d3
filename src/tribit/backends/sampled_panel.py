"""A run of blocks of rows of the sampled backend: values, gradients and models of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.base import Places, RowModels
from tribit.backends.sampled_block import SampledBlock
from tribit.backends.sampled_entries import SortedFactor
from tribit.backends.sparse import SparsePanel

if TYPE_CHECKING:
    from tribit.backends.sampled import SampledBackend

Array = NDArray[np.floating[Any]]


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
        self._blocks = [SampledBlock(backend, block, against) for block in range(first, last)]
        #: Rows whose values were asked for last, and these: of the dense term and of the observed entries.
        self._known: tuple[Array, Array, Array] | None = None

    def _dense(self) -> Iterator[tuple[slice, SampledBlock]]:
        """Yield each block with its rows in the panel."""
        size = self.backend.side.rows.block
        for place, block in enumerate(self._blocks):
            yield slice(place * size, min((place + 1) * size, self.height)), block

    def _observed(self) -> Iterator[tuple[slice, int]]:
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
        for rows, block in self._dense():
            if moved[rows].any():
                dense[rows] = block.values(P[rows])
        for rows, place in self._observed():
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
        for rows, block in self._dense():
            values[rows], slopes, ratios = block.sums(P[rows], value=value, bend=True)
            gradients[rows] = slopes[:, :free]
            np.multiply(ratios[:, None, None], block.curvature(free), out=curvatures[rows])
        for rows, place in self._observed():
            model = self._batch(place).models(P[rows], free, exact=True, value=value)
            gradients[rows] += model.gradients
            curvatures[rows] += model.matrices()
            if value:
                values[rows] += model.values
        return RowModels(values, gradients, curvatures)

    def gradient(self, P: Array, *, value: bool) -> tuple[float, Array]:
        """Return the value of the panel (0 unless ``value``) and its gradient in P."""
        loss, total, gradients = self.backend.loss, 0.0, np.empty(P.shape)
        for rows, block in self._dense():
            values, gradients[rows], _ = block.sums(P[rows], value=value, bend=False)
            total += float(np.sum(values)) if value else 0.0
        for rows, place in self._observed():
            part, _, sums = self._batch(place).first(P[rows], value=value)
            total += part
            gradients[rows] += sums * (loss.unit * loss.slope)
        return total, gradients
