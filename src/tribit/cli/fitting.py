"""A recommender from a user's table: read here, or by the workers of a cluster."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from tribit.completion import BinaryMatrixCompletion
from tribit.data.reading import Reading
from tribit.errors import InvalidInputError, parameter
from tribit.model.spec import AUTO
from tribit.questions.kinds import features_from
from tribit.recommender import Recommender

PathLike: TypeAlias = str | os.PathLike[str]

#: Rules of reading that are no parameters of the model.
RULES = tuple(each.name for each in fields(Reading) if each.name not in {"like_at", "notes"})


#: Rules of reading that dask knows of a folder of parquet files.
PARQUET_RULES = ("row", "column", "value", "like_at", "duplicates")


def fit_file(
    path: PathLike,
    *,
    max_size: int | None = None,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    ranker: Any = AUTO,
    keep_seen: bool = True,
    scheduler: str | None = None,
    **parameters: Any,
) -> Recommender:
    """Fit a recommender on a table of observed entries.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`tribit.data.tables.read_table` reads.
    max_size : int, optional
        The most bytes to read; see :func:`tribit.data.tables.observations_from_file`.
    row_features, column_features : str or path-like, optional
        Tables of what is known of rows and of columns, ids in the first column. Tags are separated by ``|``.
    ranker, keep_seen
        Of :class:`tribit.Recommender`.
    scheduler : str, optional
        The address of a dask scheduler, on whose workers to fit. The path may then be a folder of parquet files, which
        the workers read; such a bundle has no ranker and keeps no entries.
    **parameters
        Of :class:`BinaryMatrixCompletion`, and the rules of :class:`tribit.data.reading.Reading`.

    Returns
    -------
    Recommender
        With ``reading_``, the rules by which the table was read, its column names among them.
    """
    rules = {name: parameters.pop(name) for name in RULES if name in parameters}
    model = BinaryMatrixCompletion(**parameters)
    reading = Reading(**rules, like_at=model.like_at)
    recommender = Recommender(
        model, ranker=ranker, keep_seen=keep_seen, random_state=model.random_state
    )
    of_rows, of_columns = (
        features_from(table, max_size) for table in (row_features, column_features)
    )
    features = {"row_features": of_rows, "column_features": of_columns}
    if scheduler is None:
        records = reading.records(path, max_size=max_size)
        recommender.fit(records.observations(), **features)
        recommender.reading_ = records.reading
        return recommender
    return fit_on_cluster(recommender, path, reading, scheduler, features, max_size=max_size)


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
    from tribit.cluster import connected, from_parquet  # noqa: PLC0415 - an extra

    there = "://" in os.fspath(path) or Path(path).is_dir()
    if there:
        _check_rules(reading)
    with connected(scheduler) as client:  # first: a file may take minutes to read
        if there:
            X: Any = from_parquet(
                path, client, **{name: getattr(reading, name) for name in PARQUET_RULES}
            )
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
        if (
            each.name not in (*PARQUET_RULES, "notes")
            and getattr(reading, each.name) != each.default
        ):
            raise InvalidInputError(
                f"{parameter(each.name)} is not known for a folder of parquet files, whose values are +1 and -1 or "
                f"ratings: leave it out."
            )
    if reading.row is None or reading.column is None:
        raise InvalidInputError(
            f"A folder of parquet files needs {parameter('row')} and {parameter('column')}, the names of its columns "
            "of ids."
        )
