"""Data that systems are compared on, each in two parts: what is fitted on, and what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tribit.data.observations import Observations
from tribit.datasets import coat, movielens100k, senate
from tribit.errors import InvalidInputError, parameter
from tribit.model.links import Logistic
from tribit.simulate import low_rank_target, observe, quantise

#: The entries to fit on, and those to predict.
Parts: TypeAlias = tuple[Observations, Observations]

#: Share of the Senate's votes, and of the unseen drawn entries, that are predicted; and of the training entries of
#: any data, on which a system chooses.
HELD_OUT = 0.1


@lru_cache(maxsize=4)
def load(name: str, folder: Path | None, seed: int) -> Parts:
    """Return the parts of a data set."""
    if name not in DATA:
        raise InvalidInputError(
            f"{parameter('on')} must be some of {', '.join(DATA)}; got {name!r}."
        )
    return DATA[name](folder, seed)


def present(folder: Path | None) -> list[str]:
    """Return the names of the data that a folder has; without one the drawn data alone."""
    if folder is None:
        return ["synthetic"]
    if not Path(folder).is_dir():
        raise InvalidInputError(
            f"There is no folder {str(folder)!r}; say where ml-100k, senate and coat are ({parameter('path')})."
        )
    return ["synthetic", *(name for name in list(DATA)[1:] if (Path(folder) / name).exists())]


def _synthetic(_: Path | None, seed: int) -> Parts:
    draws = np.random.Generator(np.random.PCG64([seed, 4]))
    M = low_rank_target((300, 300), 5, alpha=1.0, random_state=draws)
    Y = quantise(M, Logistic(7.0), random_state=draws)
    seen = observe(Y, 0.7, random_state=draws)
    hidden = np.ones(Y.shape, dtype=bool)
    hidden[seen.rows, seen.columns] = False
    rows, columns = np.nonzero(hidden & (draws.random(Y.shape) < HELD_OUT))
    return seen, Observations.from_pairs(rows, columns, Y[rows, columns], shape=Y.shape)


def _films(folder: Path | None, seed: int) -> Parts:
    part = movielens100k(folder).split(seed)
    return part.train, part.test


def _votes(folder: Path | None, seed: int) -> Parts:
    return senate(_given(folder)).split(HELD_OUT, random_state=seed)


def _coats(folder: Path | None, _: int) -> Parts:
    parts = coat(_given(folder))
    return parts.train.observations(), parts.test.observations()


def _given(folder: Path | None) -> Path:
    if folder is None:
        raise InvalidInputError(
            f"These data have no download: say where they are ({parameter('path')})."
        )
    return folder


#: Data that the systems are compared on: drawn ones, ratings, votes, and ratings of items drawn at random.
DATA: dict[str, Callable[[Path | None, int], Parts]] = {
    "synthetic": _synthetic,
    "ml-100k": _films,
    "senate": _votes,
    "coat": _coats,
}
