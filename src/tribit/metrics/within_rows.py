"""Order of the held-out entries of each row: how far the likes come before the dislikes.

    NDCG of a row = sum_{places p of likes} 1 / log2(p + 1)  /  sum_{p <= number of likes} 1 / log2(p + 1)

over the row's own held-out entries, ordered by score (Jarvelin and Kekalainen 2002). It needs no judgement of cells of
which nothing is known, and says nothing of whether a row would find them. Rows with one label alone are in order
whatever the scores, and do not count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ndcg_of_rows"]

Array = NDArray[np.floating[Any]]


def ndcg_of_rows(rows: NDArray[np.integer[Any]], x: Array, labels: NDArray[Any]) -> Array:
    """Return the NDCG of each row that has likes and dislikes, in the order of rows; equal scores in the order given.

    Examples
    --------
    >>> import numpy as np
    >>> ndcg_of_rows(np.zeros(2, dtype=int), np.array([1.0, 2.0]), np.array([1, -1])).round(3)
    array([0.631])
    """
    order = np.lexsort((-x, rows))
    rows, likes = rows[order], labels[order] > 0
    _, first, which = np.unique(rows, return_index=True, return_inverse=True)
    place = np.arange(rows.size) - first[which]
    n_likes, n = np.bincount(which, likes).astype(int), np.bincount(which)
    found = np.bincount(which, likes / np.log2(place + 2.0))
    both = (n_likes > 0) & (n_likes < n)
    ideal = np.cumsum(1.0 / np.log2(np.arange(np.max(n, initial=1)) + 2.0))
    return np.asarray(found[both] / ideal[n_likes[both] - 1])
