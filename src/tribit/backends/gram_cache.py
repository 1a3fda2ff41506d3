"""A factor that stays as it is during a pass, with the sums and products of its columns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Made = TypeVar("Made")

#: Most bytes of products of columns that are kept for a whole pass: ``k (k + 1) / 2`` numbers for each column of X, and
#: larger ones are made as needed.
PRODUCTS_BYTES = 64 * 2**20


class GramCache:
    """A factor Q that stays as it is during a pass, and what is derived from it once for all panels."""

    def __init__(self, Q: Array, dtype: np.dtype[Any]) -> None:
        self.Q = np.ascontiguousarray(Q, dtype=dtype)
        self.column_sums: Array = np.sum(self.Q, axis=0, dtype=np.float64)
        self._made: dict[tuple[Callable[..., Any], int], Any] = {}
        self._lock = threading.Lock()

    def columns(self, free: int) -> Array:
        """Return the first ``free`` columns, together in memory: what gathers rows of a part of Q copies all of it."""
        return self._once(_columns, free)

    def squares(self, free: int) -> Array:
        """Return ``sum_j q_j q_j'`` of the first ``free`` columns, in float64."""
        return self._once(_squares, free)

    def products(self, free: int) -> ColumnProducts:
        """Return the products of the first ``free`` columns."""
        return self._once(ColumnProducts, free)

    def _once(self, make: Callable[[Array, int], Made], free: int) -> Made:
        """Return what is made of the first columns, by the first thread that asks for it."""
        with self._lock:
            if (make, free) not in self._made:
                self._made[make, free] = make(self.Q, free)
            found: Made = self._made[make, free]
            return found


def _columns(Q: Array, free: int) -> Array:
    return np.ascontiguousarray(Q[:, :free])


def _squares(Q: Array, free: int) -> Array:
    return np.asarray(Q[:, :free].T.astype(np.float64) @ Q[:, :free])


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
