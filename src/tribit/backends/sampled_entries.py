"""Observed entries by blocks of rows, a sample of tiles with its control variates, and factors in the order of blocks.

What :mod:`tribit.backends.sampled` sums over.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends import sparse
from tribit.backends.activity_strata import Blocks, Tiles
from tribit.backends.base import Places
from tribit.backends.control_variates import ControlVariates
from tribit.backends.gram_cache import GramCache
from tribit.backends.layout import stable_order

Array = NDArray[np.floating[Any]]


#: Blocks of rows in a panel: models of rows are minimised together, and few at a time cost more than their arithmetic
#: (a sweep over 20,000 x 20,000 took 1.58, 1.10, 1.01 and 1.00 s of CPU with 1, 4, 8 and 16).
TOGETHER = 16


class SampledLayout:
    """The observed entries of one orientation, by panels of blocks; each panel in batches of rows of like length."""

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.shape, self.n_entries = shape, rows.size
        counts = np.bincount(rows, minlength=shape[0])
        self.rows = Blocks(counts)
        self.columns = Blocks(np.bincount(columns, minlength=shape[1]))
        place = np.int32 if max(*shape, rows.size + 1) < 2**31 else np.int64
        order = stable_order(self.rows.places[rows]).astype(place)
        lengths = counts[self.rows.order]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        at = self.columns.places[columns].astype(place)
        self.batches: list[sparse.Batch] = []
        #: Where the batches of each panel begin; one more for the end.
        self.batch_ends = [0]
        self.panel_rows = TOGETHER * self.rows.block
        self.n_panels = -(-self.rows.size // self.panel_rows)
        for number in range(self.n_panels):
            here = self.inside(number)
            # The longest rows come first, and those without entries last: they need no batch.
            filled = here.start + int(np.count_nonzero(lengths[here]))
            for low, high in sparse.cut(lengths[here.start : filled][::-1]):
                start, stop = filled - high, filled - low
                steps = np.arange(lengths[start])
                inside = steps < lengths[start:stop, None]
                entries = np.full(inside.shape, rows.size, dtype=place)
                entries[inside] = order[offsets[start] : offsets[stop]]
                own = np.zeros(inside.shape, dtype=place)
                own[inside] = at[entries[inside]]
                self.batches.append(sparse.Batch(np.arange(start, stop), own, entries))
            self.batch_ends.append(len(self.batches))

    def inside(self, number: int) -> slice:
        """Return the places of the rows of a panel."""
        start = number * self.panel_rows
        return slice(start, min(start + self.panel_rows, self.rows.size))


@dataclass(frozen=True, eq=False)
class Sample:
    """The tiles that were drawn, in one orientation, and the quadratics that their sums correct."""

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
    """A fixed factor in the order of its blocks, with the sums and Gram matrices of each class."""

    def __init__(self, Q: Array, dtype: np.dtype[Any], blocks: Blocks) -> None:
        super().__init__(np.take(np.asarray(Q, dtype=dtype), blocks.order, axis=0), dtype)
        ends = zip(blocks.place_ends, blocks.place_ends[1:], strict=False)
        parts = [self.Q[start:stop] for start, stop in ends]
        self.sums = np.stack([np.sum(part, axis=0, dtype=np.float64) for part in parts])
        self.grams = np.stack([gram(part) for part in parts])


def gram(Q: Array, weights: Array | None = None) -> Array:
    """Return ``sum_j w_j q_j q_j'`` in float64, by runs of rows."""
    total = np.zeros((Q.shape[1], Q.shape[1]))
    for start in range(0, Q.shape[0], 4096):
        q = Q[start : start + 4096].astype(np.float64)
        total += q.T @ (q if weights is None else q * weights[start : start + 4096, None])
    return total
