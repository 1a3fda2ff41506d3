"""From a folder of parquet files, or a file, to a bundle that the workers of a cluster have fitted."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from tribit.cluster import connected, from_parquet
from tribit.data.reading import Reading
from tribit.errors import InvalidInputError, parameter
from tribit.recommender import Recommender

#: Rules of reading that dask knows of a folder of parquet files.
RULES = ("row", "column", "value", "like_at", "duplicates")


def fit_on_cluster(
    recommender: Recommender,
    path: str | os.PathLike[str],
    reading: Reading,
    scheduler: str,
    features: dict[str, Any],
    *,
    max_size: int | None = None,
) -> Recommender:
    """Return the recommender, fitted on the workers of the scheduler at an address.

    Parameters
    ----------
    recommender : Recommender
        Not fitted.
    path : str or path-like
        A folder of parquet files (or an address such as ``s3://bucket/folder``), which the workers read; or a file,
        which is read here and cut into partitions.
    reading : Reading
        The rules by which it is read.
    scheduler : str
        The address.
    features : dict
        Tables of features of rows and of columns, on this machine, or None.
    max_size : int, optional
        The most bytes to read of a file.
    """
    there = "://" in os.fspath(path) or Path(path).is_dir()
    if there:
        _check_rules(reading)
    with connected(scheduler) as client:  # first: a file may take minutes to read
        if there:
            X: Any = from_parquet(path, client, **{name: getattr(reading, name) for name in RULES})
        else:
            records = reading.records(path, max_size=max_size)
            reading = records.reading
            X = records.observations()
        recommender.fit(X, client=client, **features)
    recommender.reading_ = reading
    return recommender


def _check_rules(reading: Reading) -> None:
    """Refuse rules that a folder of parquet files is not read by, rather than to leave them out."""
    for each in fields(reading):
        if each.name not in (*RULES, "notes") and getattr(reading, each.name) != each.default:
            raise InvalidInputError(
                f"{parameter(each.name)} is not known for a folder of parquet files, whose values are +1 and -1 or "
                f"ratings: leave it out."
            )
    if reading.row is None or reading.column is None:
        raise InvalidInputError(
            f"A folder of parquet files needs {parameter('row')} and {parameter('column')}, the names of its columns "
            "of ids."
        )
