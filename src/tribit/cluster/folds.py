"""Folds of entries by a hash: each entry's fold is known where it is, so that nothing has to be shuffled or sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.cluster.parts import Part


def hashed_fold_numbers(
    rows: NDArray[np.integer[Any]], columns: NDArray[np.integer[Any]], n: int, seed: int
) -> NDArray[np.int64]:
    """Return one of ``n`` fold numbers for each entry: SplitMix64 of its row, of that and its column, of the seed."""
    state = _mixed(np.full(1, seed, dtype=np.uint64))
    state = _mixed(state ^ rows.astype(np.uint64))
    state = _mixed(state ^ columns.astype(np.uint64))
    return (state % np.uint64(n)).astype(np.int64)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the output function of SplitMix64 (Steele, Lea and Flood 2014), one step on."""
    with np.errstate(over="ignore"):
        z = state + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def split(part: Part, *, n: int, number: int, seed: int) -> Part:
    """Return a partition without the entries of a fold."""
    kept = ~_chosen(part, n, number, seed)
    entries = part.entries
    return Part.of(
        entries.rows[kept],
        entries.columns[kept],
        entries.labels[kept],
        part.rows,
        (part.n_rows, entries.shape[1]),
    )


def in_fold(part: Part, *, n: int, number: int, seed: int) -> tuple[Any, Any, Any]:
    """Return rows, columns and labels of the entries of a fold, where they stand in the whole."""
    chosen = _chosen(part, n, number, seed)
    entries = part.entries
    return part.rows[entries.rows[chosen]], entries.columns[chosen], entries.labels[chosen]


def _chosen(part: Part, n: int, number: int, seed: int) -> NDArray[np.bool_]:
    rows = part.rows[part.entries.rows]
    return np.asarray(hashed_fold_numbers(rows, part.entries.columns, n, seed) == number)
