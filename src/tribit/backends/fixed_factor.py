"""A factor that stays as it is during a pass, with the sums and products of its columns."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

#: Most bytes of products of columns that are kept for a whole pass: ``k (k + 1) / 2`` numbers for each column of X, and
#: larger ones are made as needed.
PRODUCTS_BYTES = 64 * 2**20


class FixedFactor:
    """A factor Q that stays as it is during a pass, and what is derived from it once for all panels."""

    def __init__(self, Q: Array, dtype: np.dtype[Any]) -> None:
        self.Q = np.ascontiguousarray(Q, dtype=dtype)
        self.column_sums: Array = np.sum(self.Q, axis=0, dtype=np.float64)
        self._products: dict[int, ColumnProducts] = {}
        self._lock = threading.Lock()

    def products(self, free: int) -> ColumnProducts:
        """Return the products of the first ``free`` columns, made by the first thread that asks."""
        with self._lock:
            if free not in self._products:
                self._products[free] = ColumnProducts(self.Q, free)
            return self._products[free]

    @cached_property
    def _squares(self) -> Array:
        return np.asarray(self.Q.T.astype(np.float64) @ self.Q)

    def squares(self, free: int) -> Array:
        """Return ``sum_j q_j q_j'`` of the first ``free`` columns."""
        return self._squares[:free, :free]


class ColumnProducts:
    """``q_a q_b`` for every pair ``a <= b`` of the first columns of Q: rows of packed ``q q'``."""

    def __init__(self, Q: Array, free: int) -> None:
        self.Q = Q[:, :free]
        self.pairs = np.triu_indices(free)
        self.width = self.pairs[0].size
        kept = Q.shape[0] * self.width * Q.itemsize <= PRODUCTS_BYTES
        self.kept = self._of(self.Q) if kept else None

    def block(self, columns: slice) -> Array:
        """Return the products for a run of columns of X."""
        return self._of(self.Q[columns]) if self.kept is None else self.kept[columns]

    def unpacked(self, packed: Array) -> Array:
        """Return symmetric matrices from their upper triangles, by rows."""
        free = self.Q.shape[1]
        full = np.empty((packed.shape[0], free, free))
        left, right = self.pairs
        full[:, left, right] = packed
        full[:, right, left] = packed
        return full

    def _of(self, Q: Array) -> Array:
        left, right = self.pairs
        # Not Q[:, left], whose rows are not together in memory: every product would copy it.
        products = np.take(Q, left, axis=1)
        products *= np.take(Q, right, axis=1)
        return products
