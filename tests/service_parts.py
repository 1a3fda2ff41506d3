"""Recommenders for the tests of the service."""

import os
from pathlib import Path

import numpy as np

from tribit import BinaryMatrixCompletion, Observations, Recommender
from tribit.data.reading import Reading

FIXED = {"gammas": (1, 0, 0), "rank": 2, "l2": 1.0, "l2_intercept": 1.0, "l2_implicit": 2.0}
FIXED |= {"implicit_features": True, "radius": None, "n_jobs": 1, "random_state": 0}
SHAPE = (40, 25)


def simulated(seed=0):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((SHAPE[0], 2)), rng.standard_normal((SHAPE[1], 2))
    labels = np.where(rng.random(SHAPE) < 1 / (1 + np.exp(-2 * U @ V.T)), 1, -1)
    return np.where(rng.random(SHAPE) < 0.4, labels, 0)


def fitted(seed=0, *, ids=True, **options):
    A = simulated(seed)
    i, j = np.nonzero(A)
    names = {
        False: (None, None),
        True: ([f"r{n}" for n in range(SHAPE[0])], [f"c{n}" for n in range(SHAPE[1])]),
        "numbers": (range(100, 100 + SHAPE[0]), range(200, 200 + SHAPE[1])),
    }[ids]
    seen = Observations(i, j, A[i, j], SHAPE, *names)
    recommender = Recommender(BinaryMatrixCompletion(**FIXED), random_state=0, **options).fit(seen)
    recommender.reading_ = Reading(row="user", column="item", value="stars", like_at=4)
    return recommender


def replace_file(path: Path, content: bytes) -> None:
    """Put other bytes in the place of a file, by a rename."""
    other = path.with_suffix(".new")
    other.write_bytes(content)
    os.replace(other, path)  # noqa: PTH105
