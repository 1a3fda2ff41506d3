"""Bounds of what the observed entries of a row add to its curvature, for panels of some rows each."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tribit.backends.base import Places
from tribit.backends.gram_cache import GramCache
from tribit.backends.layout import stable_order
from tribit.backends.sparse import RowLayout, squares

Array = NDArray[np.floating[Any]]
#: Rows of a panel of like length, the columns of their entries, and the roots of the bounds of these.
Batch = tuple[Places, Places, Array]

#: Most unknowns of a row for which a sparse product with all ``q_a q_b`` is faster than products of batches of rows. An
#: entry took 6 and 15 ns by the two with 11 unknowns (MovieLens-100k), with 17 both as long, and a sweep over 2.2
#: million entries took .28 s less by batches with 33.
FEW = 16


class BoundedCurvature:
    """Bounds ``w_ij`` of the curvature of the observed entries, and ``sum_j w_ij q_j q_j'`` of the rows of a panel.

    What is derived from the entries takes as much memory as they do, and is made when it is first asked for.
    """

    def __init__(
        self, rows: Places, columns: Places, bounds: Array, shape: tuple[int, int], height: int
    ) -> None:
        self.rows, self.columns, self.bounds = rows, columns, bounds
        self.shape, self.height = shape, height
        self._matrices: list[csr_array] | None = None
        self._batches: list[list[Batch]] | None = None
        self._lock = threading.Lock()

    def of_panel(self, number: int, against: GramCache, free: int) -> Array:
        """Return the sum of each row of a panel, over the first ``free`` columns of Q."""
        if free <= FEW and (products := against.products(free)).kept is not None:
            with self._lock:
                if self._matrices is None:
                    self._matrices = self._by_panel()
                matrix = self._matrices[number]
            return products.unpacked(matrix @ products.kept)
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

    def _in_batches(self) -> list[list[Batch]]:
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
