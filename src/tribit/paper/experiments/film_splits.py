"""MovieLens ratings of Experiment 3: their splits, their stars, and a hash that tells one file from another."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tribit.datasets import movielens100k
from tribit.datasets.ratings import Ratings, Split
from tribit.errors import InvalidInputError


@lru_cache(maxsize=2)
def load_split(data: Path | None, split: int) -> Split:
    """Return the ratings' split of that number, a twentieth each for test and validation."""
    ratings = ratings_of(data)
    if len(ratings) < 20:
        raise InvalidInputError(
            f"{len(ratings)} ratings are too few for the paper's split into training, validation and test."
        )
    held_out = len(ratings) // 20
    return ratings.split(split, test=held_out, validation=held_out)


def fingerprint(ratings: Ratings) -> str:
    """Return a hash of who rated what how, in whatever order the file had it."""
    order = np.lexsort((ratings.items, ratings.users))
    whole = hashlib.sha256()
    for values in (ratings.users, ratings.items, ratings.ratings):
        whole.update(np.ascontiguousarray(values[order]).tobytes())
    return whole.hexdigest()[:16]


@lru_cache(maxsize=1)
def ratings_of(data: Path | None) -> Ratings:
    """Return the ratings in a folder, read once."""
    return movielens100k(data)


@lru_cache(maxsize=1)
def stars(data: Path | None) -> NDArray[np.int8]:
    """Return every rating in its cell; a small table, of which single cells are looked up."""
    ratings = ratings_of(data)
    table = np.zeros(ratings.shape, dtype=np.int8)
    users = np.searchsorted(np.asarray(ratings.user_ids), ratings.users)
    items = np.searchsorted(np.asarray(ratings.item_ids), ratings.items)
    table[users, items] = ratings.ratings
    return table
