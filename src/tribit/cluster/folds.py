"""Folds of entries by a hash: each entry's fold is known where it is, so that nothing has to be shuffled or sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.cluster.parts import Partition
from tribit.randomness import hashed_fold_numbers


def split(part: Partition, *, n: int, number: int, seed: int) -> Partition:
    """Return a partition without the entries of a fold."""
    kept = ~_chosen(part, n, number, seed)
    entries = part.entries
    return Partition.of(
        entries.rows[kept],
        entries.columns[kept],
        entries.labels[kept],
        part.rows,
        (part.n_rows, entries.shape[1]),
    )


def in_fold(part: Partition, *, n: int, number: int, seed: int) -> tuple[Any, Any, Any]:
    """Return rows, columns and labels of the entries of a fold, where they stand in the whole."""
    chosen = _chosen(part, n, number, seed)
    entries = part.entries
    return part.rows[entries.rows[chosen]], entries.columns[chosen], entries.labels[chosen]


def _chosen(part: Partition, n: int, number: int, seed: int) -> NDArray[np.bool_]:
    rows = part.rows[part.entries.rows]
    return np.asarray(hashed_fold_numbers(rows, part.entries.columns, n, seed) == number)
