"""Data of the benchmarks: MovieLens-100k if given, else a simulated table of its size."""

import os
from pathlib import Path

import numpy as np

from tribit import Observations

#: Folder that holds ml-100k/u.data (make bench DATA=...).
FOLDER = os.environ.get("TRIBIT_DATA", "")


def movielens() -> tuple[str, Observations]:
    """Return a name and 90,000 training entries: ratings from 4 up are likes."""
    path = Path(FOLDER) / "ml-100k" / "u.data"
    if FOLDER and path.is_file():
        users, items, ratings, _ = np.loadtxt(path, dtype=np.int64).T
        order = np.lexsort((items, users))
        kept = order[np.random.default_rng(0).permutation(order.size)[10_000:]]
        seen = Observations.from_ratings(
            users[kept] - 1, items[kept] - 1, ratings[kept], like_at=4, shape=(943, 1682)
        )
        return "ML-100k", seen
    return "ML-100k look-alike", skewed((943, 1682), 90_000)


def skewed(shape: tuple[int, int], count: int, seed: int = 0) -> Observations:
    """Simulate entries with the popularity of real tables (log-normal margins) and a low-rank taste."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.lognormal(0, 1, shape[0]), rng.lognormal(0, 1.3, shape[1])
    rows, columns = np.cumsum(rows / rows.sum()), np.cumsum(columns / columns.sum())
    keys = np.empty(0, dtype=np.int64)
    while keys.size < count:
        i = np.minimum(np.searchsorted(rows, rng.random(2 * count)), shape[0] - 1)
        j = np.minimum(np.searchsorted(columns, rng.random(2 * count)), shape[1] - 1)
        keys = np.unique(np.concatenate([keys, i * shape[1] + j]))
    i, j = np.divmod(rng.permutation(keys)[:count], shape[1])
    U, V = rng.standard_normal((shape[0], 4)), rng.standard_normal((shape[1], 4))
    x = 0.5 * np.einsum("ij,ij->i", U[i], V[j]) + 0.3 + 0.7 * rng.standard_normal(shape[0])[i]
    labels = np.where(rng.random(count) < 1 / (1 + np.exp(-x)), 1, -1)
    return Observations.from_pairs(i, j, labels, shape=shape)


def exposed(shape: tuple[int, int], count: int, seed: int = 0, rank: int = 6) -> Observations:
    """Simulate self-selected entries: rows choose columns by taste and popularity, and like them by the same taste.

    Activity and popularity are log-normal; a row samples its columns without replacement.
    """
    rng = np.random.default_rng(seed)
    activity, popularity = rng.lognormal(0, 1, shape[0]), rng.normal(0, 1.5, shape[1])
    sizes = np.clip((count * activity / activity.sum()).round().astype(int), 5, shape[1] // 3)
    U = rng.standard_normal((shape[0], rank)).astype(np.float32)
    V = rng.standard_normal((shape[1], rank)).astype(np.float32) / np.sqrt(2)
    mild, good = rng.normal(0, 0.5, shape[0]), rng.normal(0, 0.6, shape[1])
    columns, labels = [], []
    for row, size in enumerate(sizes):
        taste = V @ U[row]
        # The largest of Gumbel variables around log-weights are a sample in proportion to the weights.
        chosen = np.argpartition(-(taste + popularity + rng.gumbel(size=shape[1])), size)[:size]
        x = 0.6 * taste + 0.2 + mild[row] + good + 0.2 * popularity
        columns.append(np.sort(chosen))
        labels.append(np.where(rng.random(size) < 1 / (1 + np.exp(-x[columns[-1]])), 1, -1))
    rows = np.repeat(np.arange(shape[0]), sizes)
    return Observations.from_pairs(
        rows, np.concatenate(columns), np.concatenate(labels), shape=shape
    )
