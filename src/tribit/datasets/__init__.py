"""Ratings that people gave: MovieLens (a local copy, or a download that is checked), Coat, Senate votes.

Nothing of the data comes with tribit. MovieLens is for research, may not be redistributed, and asks for a
citation: :data:`MOVIELENS_LICENCE`, also ``Ratings.licence`` and one line in the log.
"""

from __future__ import annotations

import importlib
import logging
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tribit.data.observations import Observations
from tribit.datasets.ratings import (
    PathLike,
    RatingFormat,
    Ratings,
    Scale,
    Split,
    TextFile,
    find,
    read_matrix,
    read_ratings,
)
from tribit.errors import InvalidInputError, parameter

__all__ = ["Coat", "Ratings", "Split", "coat", "movielens", "movielens100k", "senate"]

logger = logging.getLogger(__name__)

MOVIELENS_LICENCE = (
    "MovieLens data are for research use and may not be redistributed; cite F. M. Harper and J. A. Konstan "
    "(2015), The MovieLens Datasets: History and Context, ACM TiiS 5(4), 19."
)
COAT_LICENCE = (
    "Coat states no licence for its data; cite T. Schnabel, A. Swaminathan, A. Singh, N. Chandak and "
    "T. Joachims (2016), Recommendations as Treatments, ICML."
)
ADDRESS = "https://files.grouplens.org/datasets/movielens/{name}.zip"
STARS, HALF_STARS = Scale(1.0, 5.0, 1.0), Scale(0.5, 5.0, 0.5)


class _Release(NamedTuple):
    layout: RatingFormat
    sha256: str


# The hashes are those of the archives at ADDRESS, as several independent projects record them.
_RELEASES = {
    "ml-100k": _Release(
        RatingFormat("u.data", "\t", None, STARS),
        "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    ),
    "ml-1m": _Release(
        RatingFormat("ratings.dat", "::", None, STARS),
        "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    ),
    "ml-20m": _Release(
        RatingFormat("ratings.csv", ",", ("userId", "movieId", "rating", "timestamp"), HALF_STARS),
        "96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3",
    ),
    "ml-25m": _Release(
        RatingFormat("ratings.csv", ",", ("userId", "movieId", "rating", "timestamp"), HALF_STARS),
        "8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa",
    ),
}


class Coat(NamedTuple):
    """Ratings of coats: self-selected ratings, and ratings of items chosen at random.

    Examples
    --------
    >>> from tribit.datasets import coat
    >>> train, test = coat("folder")  # doctest: +SKIP
    >>> test.observations().shape  # doctest: +SKIP
    (290, 300)
    """

    train: Ratings
    test: Ratings


def movielens(
    path: PathLike | None = None, *, name: str = "ml-100k", like_at: float = 4
) -> Ratings:
    """Read a MovieLens release, from a local copy or from GroupLens.

    Research use only, no redistribution; cite Harper and Konstan (2015), *The MovieLens Datasets*.

    Parameters
    ----------
    path : str or path-like, optional
        The release's folder, a folder that holds it (or its .zip), or the .zip. Without it the .zip is
        fetched once from files.grouplens.org, checked against its known SHA-256 and kept in the user's
        cache (this needs pooch: ``pip install "tribit[data]"``).
    name : {"ml-100k", "ml-1m", "ml-20m", "ml-25m"}
        Which release.
    like_at : float, default=4
        The smallest rating that is a like.

    Returns
    -------
    Ratings
        In the order of the file.

    Examples
    --------
    >>> from tribit.datasets import movielens
    >>> movielens("folder", name="ml-1m").split(0).train  # doctest: +SKIP
    """
    if name not in _RELEASES:
        raise InvalidInputError(
            f"There is no MovieLens release {name!r}; use one of {', '.join(_RELEASES)}."
        )
    layout, sha256 = _RELEASES[name]
    home = _download(name, sha256) if path is None else path
    users, items, ratings, times = read_ratings(_find(home, name, layout.file), layout)
    _tell(MOVIELENS_LICENCE)
    return Ratings(users, items, ratings, times, name, MOVIELENS_LICENCE, float(like_at))


def movielens100k(path: PathLike | None = None) -> Ratings:
    """Read MovieLens 100k: 943 users, 1682 films, 100,000 ratings; see :func:`movielens`.

    Examples
    --------
    >>> from tribit.datasets import movielens100k
    >>> movielens100k("folder").split(10).train  # doctest: +SKIP
    Observations(943 x 1682, 90000 observed (5.7%), 49831 likes, 40169 dislikes)
    """
    return movielens(path, name="ml-100k")


def coat(path: PathLike, *, like_at: float = 4) -> Coat:
    """Read Coat: 290 users, 300 items, ratings of self-chosen and of random items.

    Parameters
    ----------
    path : str or path-like
        The folder with ``train.ascii`` and ``test.ascii`` (a rating for each user and item, 0 for none), a
        folder that holds it as ``coat``, or a .zip of it.
    like_at : float, default=4
        The smallest rating that is a like.

    Returns
    -------
    Coat
        ``train`` (self-chosen) and ``test`` (random), of the same shape; users and items count from 0.

    Examples
    --------
    >>> from tribit.datasets import coat
    >>> data = coat("folder")  # doctest: +SKIP
    >>> data.train.observations().shape  # doctest: +SKIP
    (290, 300)
    """
    parts = [
        (part, read_matrix(_find(path, "coat", f"{part}.ascii"), STARS)) for part in Coat._fields
    ]
    shapes = [matrix.shape for _, matrix in parts]
    if shapes[0] != shapes[1]:
        raise InvalidInputError(
            f"The shapes of train.ascii and test.ascii differ, {shapes[0]} and {shapes[1]}; get both again."
        )
    _tell(COAT_LICENCE)
    return Coat(*(_from_matrix(f"coat {part}", matrix, float(like_at)) for part, matrix in parts))


def senate(path: PathLike) -> Observations:
    """Read votes of the US Senate: 145 senators, 1056 votes, +1 for yea and -1 for nay.

    Parameters
    ----------
    path : str or path-like
        The folder with ``senate1to10.txt`` (a line with the numbers of rows, columns and entries, then a
        row, a column and +1 or -1 on each), a folder that holds it as ``senate``, or a .zip of it.

    Returns
    -------
    Observations
        Senators as rows and votes as columns.

    Examples
    --------
    >>> from tribit.datasets import senate
    >>> senate("folder").shape  # doctest: +SKIP
    (145, 1056)
    """
    source = _find(path, "senate", "senate1to10.txt")
    rows, columns, labels, shape = source.triplets()
    return Observations.from_pairs(rows, columns, labels, shape=shape)


def _from_matrix(name: str, matrix: npt.NDArray[np.float64], like_at: float) -> Ratings:
    users, items = np.nonzero(matrix)
    ids = (np.arange(size, dtype=np.int64) for size in matrix.shape)
    return Ratings(users, items, matrix[users, items], None, name, COAT_LICENCE, like_at, *ids)


def _find(path: PathLike, name: str, file: str) -> TextFile:
    advice = (
        f"get {name}.zip from {ADDRESS.format(name=name)} and pass its place as {parameter('path')}"
        if name in _RELEASES
        else ""
    )
    return find(path, name, file, advice or f"check {parameter('path')}")


@cache
def _tell(licence: str) -> None:
    """Log the terms of use, once in a process."""
    logger.info(licence)


def _download(name: str, sha256: str) -> Path:
    address = ADDRESS.format(name=name)
    try:
        pooch: Any = importlib.import_module("pooch")
    except ImportError as error:
        raise InvalidInputError(
            'Downloading needs pooch, which is not installed; run pip install "tribit[data]", or get '
            f"{address} yourself and pass its place as {parameter('path')}."
        ) from error
    folder = Path(pooch.os_cache("tribit"))
    try:
        known = f"sha256:{sha256}"
        return Path(pooch.retrieve(address, known_hash=known, fname=f"{name}.zip", path=folder))
    except ValueError as error:
        raise InvalidInputError(
            f"The file from {address} is not the known {name} (its SHA-256 differs), so it was not "
            f"kept; try again, or get it yourself and pass its place as {parameter('path')}."
        ) from error
    except OSError as error:
        raise InvalidInputError(
            f"{address} could not be fetched ({type(error).__name__}); get it on a machine with a network, "
            f"then put it into {folder} or pass its place as {parameter('path')}."
        ) from error
