"""Blocks of rows: the work of one call of a kernel, and of one thread at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Entries and rows in a block: enough that the call itself costs nothing, and few enough that threads end together.
ENTRIES, ROWS = 32768, 1024


def cut(indptr: NDArray[np.integer[Any]]) -> list[tuple[int, int]]:
    """Cut rows into blocks: they do not depend on threads."""
    blocks, start, n_rows = [], 0, indptr.size - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + ENTRIES, side="right")) - 1
        stop = min(max(stop, start + 1), start + ROWS, n_rows)
        blocks.append((start, stop))
        start = stop
    return blocks
