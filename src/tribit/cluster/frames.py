"""Tables of ids in dask data frames and in folders of parquet files, read by the workers.

Two passes over the source. The first collects the ids on this machine, in the order of their first appearance. The
second makes partitions, each with all entries of some rows. A source whose partitions already have whole rows is read
again; otherwise dask's shuffle brings rows together. All of these tasks stay in the graph, so that a lost partition is
made again from its source.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np

from tribit.cluster.calls import Cluster, Future
from tribit.cluster.observations import PartitionedObservations
from tribit.cluster.parts import Partition
from tribit.data.axis import (
    AnyArray,
    Axes,
    Axis,
    Positions,
    check_ids,
    eager_frame,
    factorize,
    frame_column,
)
from tribit.data.frames import text_column
from tribit.data.ingest import Checked, check_shape, merge_duplicates
from tribit.data.labels import Duplicates, TextColumn, TextValues, label_numbers
from tribit.data.rules import TableRules
from tribit.errors import (
    InvalidInputError,
    InvalidTypeError,
    TribitError,
    listed,
    parameter,
    printable,
    quoted,
)


class LabelRules(TypedDict, total=False):
    """Rules of :class:`~tribit.data.rules.TableRules` by which values become labels."""

    like_at: float | None
    dislike_at: float | None
    like: Any
    dislike: Any


def is_dask_frame(X: object) -> bool:
    """Return whether X is a data frame of dask, without importing it."""
    return any(
        each.__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "to_delayed")
        for each in type(X).__mro__
    )


def from_frame(
    frame: Any,
    client: object,
    *,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    duplicates: Duplicates = "error",
    **rules: Unpack[LabelRules],
) -> PartitionedObservations:
    """Return the entries of a dask data frame with one observed entry in each row.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table. Nothing is shuffled where all entries of a row are in one partition.
    client : distributed.Client
        The cluster.
    row, column : str, optional
        Names of the columns of ids, numbered as they first appear; by default the first two of two or three columns.
    value : str, optional
        Name of the column of +1 and -1, of ratings, or of words; without it every pair is a like.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`tribit.Observations.from_pairs`.
    **rules
        ``like_at``, ``dislike_at``, ``like`` and ``dislike``, as in :class:`tribit.data.rules.TableRules`. Words are
        not guessed.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> from distributed import Client
    >>> from tribit.cluster import from_frame
    >>> from tribit.simulate import tables
    >>> frame = dd.from_pandas(tables.ratings(random_state=0), npartitions=2)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     from_frame(frame, client, row="user", column="item", value="stars", like_at=4).shape
    (150, 80)
    """
    names = _names([str(each) for each in frame.columns], row, column, value)
    given = [name for name in LabelRules.__annotations__ if rules.get(name) is not None]
    if names[2] is None and given:
        raise InvalidInputError(
            f"{parameter(given[0])} needs {parameter('value')}, the name of the column that holds the ratings."
        )
    frame, cluster = frame[[name for name in names if name is not None]], Cluster(client)
    with _readable():
        like_at = rules.get("like_at")
        if names[2] is not None and given and given != ["like_at"]:
            frame = _with_labels(frame, cluster, names[2], TableRules(**rules))
            like_at = None
        return _make_partitions(frame, cluster, names, like_at, duplicates)


def _with_labels(frame: Any, cluster: Cluster, name: str, rules: TableRules) -> Any:
    """Return a frame with +1 and -1 as values, without the rows whose value is neither."""
    found = cluster.map(_texts, _futures(cluster, frame), name=name)
    texts = cluster.results(cluster.reduce(_unite_texts, found))
    if texts:  # the words must occur, and one value at least must be a like or a dislike
        values = TextValues(TextColumn.of(texts), _row, "the frame", name)
        if not values.labels(rules, holder="long", has_missing=True)[0].any():
            raise InvalidInputError(
                f"No value{values.within()} of the frame is a like or a dislike; check {parameter('like_at')}."
            )
    types = {**frame.dtypes.to_dict(), name: np.dtype(np.int64)}
    return frame.map_partitions(_labelled_rows, name, replace(rules, settled=True), meta=types)


def _texts(frame: object, name: str) -> list[str]:
    """Return the distinct values of a partition, as text."""
    values = frame_column(eager_frame(frame), name, "value", _row)
    return list(text_column(values).distinct) if values.size else []


def _unite_texts(found: list[list[str]]) -> list[str]:
    return list(dict.fromkeys(text for texts in found for text in texts))


def _labelled_rows(frame: Any, name: str, rules: TableRules) -> Any:
    """Return the rows of a partition with a like or a dislike, with their labels as values."""
    values = frame_column(eager_frame(frame), name, "value", _row)
    if not values.size:
        return frame.assign(**{name: 0})
    texts = TextValues(text_column(values), _row, "the frame", name)
    labels = texts.labels(rules, holder="long", has_missing=True)[0].astype(np.int64)
    return frame.assign(**{name: labels})[labels != 0]


def _make_partitions(
    frame: Any,
    cluster: Cluster,
    names: tuple[str, str, str | None],
    like_at: float | None,
    duplicates: Duplicates,
) -> PartitionedObservations:
    source = _futures(cluster, frame)
    if names[2] is not None:
        _check_types(cluster.results(cluster.map(_type, source, name=names[2])), names[2])
    found = cluster.map(_ids, source, names=names[:2])
    axes, n_found = _axes(cluster, found)
    if n_found > axes.rows.size:  # some rows are in several partitions
        shuffled = frame.shuffle(on=names[0], shuffle_method="tasks")
        source = _futures(cluster, shuffled)
        found = cluster.map(_ids, source, names=names[:2])
    own = cluster.results(cluster.map(_rows, found))
    places = [np.sort(axes.rows.find(ids)) if ids.size else np.zeros(0, np.int64) for ids in own]
    kept = [number for number, rows in enumerate(places) if rows.size]
    made = cluster.map(
        _part,
        [source[number] for number in kept],
        [axes.rows.names(places[number]) for number in kept],
        [places[number] for number in kept],
        column_ids=axes.columns.ids,
        n_rows=axes.rows.size,
        names=names,
        like_at=like_at,
        duplicates=duplicates,
    )
    return PartitionedObservations(cluster, made, [places[number] for number in kept], axes)


@contextmanager
def _readable() -> Iterator[None]:
    """Raise one sentence where a worker could not read its part of a table."""
    try:
        yield
    except TribitError:
        raise
    except (OSError, ValueError, TypeError, LookupError, NotImplementedError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise InvalidInputError(
            f"A worker could not read its share of the table ({type(error).__name__}: {printable(reason)}); check that "
            "every worker can read each file, that none is damaged, and that all have the same columns."
        ) from error


def from_parquet(
    path: str | os.PathLike[str], client: Any, **options: Any
) -> PartitionedObservations:
    """Return the entries of a folder of parquet files (or of one), which every worker must be able to read.

    Parameters
    ----------
    path : str or path-like
        The folder; also an address that dask knows, such as ``s3://bucket/folder``.
    client : distributed.Client
        The cluster.
    **options
        Of :func:`from_frame`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from distributed import Client
    >>> from tribit.cluster import from_parquet
    >>> from tribit.simulate import tables
    >>> path = Path("ratings.parquet")
    >>> tables.ratings(random_state=0).to_parquet(path)
    >>> names = {"row": "user", "column": "item", "value": "stars", "like_at": 4}
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     from_parquet(path, client, **names).shape
    (150, 80)
    """
    if importlib.util.find_spec("dask.dataframe") is None or not _has("pandas", "pyarrow"):
        raise InvalidInputError(
            'Parquet files on a cluster need dask, pandas and pyarrow; run pip install "tribit[dask]".'
        )
    frames, path = importlib.import_module("dask.dataframe"), os.fspath(path)
    try:
        frame = frames.read_parquet(path)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{quoted(path)} could not be read as parquet files; give a folder of them that this machine and every "
            "worker can read."
        ) from error
    return from_frame(frame, client, **options)


def _has(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


def _names(
    columns: list[str], row: str | None, column: str | None, value: str | None
) -> tuple[str, str, str | None]:
    """Return the names of the columns of ids and values, by default the first three."""
    given = {"row": row, "column": column, "value": value}
    for role, name in given.items():
        if name is not None and name not in columns:
            raise InvalidInputError(
                f"The frame has no column {quoted(name)}, given as {parameter(role)}; choose one of its columns: "
                f"{listed(columns)}."
            )
    if row is not None and column is not None:
        return row, column, value
    if row is not None or column is not None or value is not None or not 2 <= len(columns) <= 3:
        raise InvalidInputError(
            f"The frame has the columns {listed(columns)}; name those of row ids and column ids with "
            f"{parameter('row')} and {parameter('column')}, and that of labels or ratings with {parameter('value')}."
        )
    return columns[0], columns[1], (columns[2] if len(columns) == 3 else None)


def _futures(cluster: Cluster, frame: Any) -> list[Future]:
    """Return futures of the partitions of a frame; the tasks behind them stay in the graph."""
    found: list[Future] = cluster.client.compute(frame.to_delayed())
    return found


def _axes(cluster: Cluster, found: Sequence[Future]) -> tuple[Axes, int]:
    """Return the ids of all partitions, and the sum of their numbers of rows."""
    counts = cluster.map(_n_rows, found)
    ids, sizes = cluster.results([cluster.reduce(_unite_ids, found), counts])
    if not ids[0].size:
        raise InvalidInputError("No entry is observed; give at least one row of data.")
    shape = check_shape((ids[0].size, ids[1].size))
    return Axes(Axis("row", shape[0], ids[0]), Axis("column", shape[1], ids[1])), int(sum(sizes))


def _type(frame: object, name: str) -> str:
    """Return the type of the values of a partition; "" for no rows."""
    native = eager_frame(frame)
    values = frame_column(native, name, "value", _row)
    return str(values.dtype) if values.size else ""


def _check_types(types: Sequence[str], name: str) -> None:
    """Refuse values that are not numbers, and booleans mixed with numbers."""
    filled = sorted({each for each in types if each})
    odd = [each for each in filled if np.dtype(each).kind not in "biuf"]
    if odd:
        raise InvalidTypeError(
            f"Column {quoted(name)}, given as {parameter('value')}, has the type {odd[0]} in a partition of the frame; "
            "give numbers."
        )
    if len({np.dtype(each).kind == "b" for each in filled}) > 1:
        raise InvalidTypeError(
            f"Column {quoted(name)}, given as {parameter('value')}, holds booleans in one partition of the frame and "
            "numbers in another; give it one type."
        )


def _row(position: int) -> str:
    """Return the place of a row, for error messages."""
    return f"row {position} of a partition of the frame"


def _ids(frame: object, names: tuple[str, str]) -> tuple[AnyArray, AnyArray]:
    """Return the distinct ids of rows and of columns of a partition, in the order of their first appearance."""
    native = eager_frame(frame)
    rows, columns = (
        factorize(frame_column(native, name, role, _row), _row)[1]
        for name, role in zip(names, ("row", "column"), strict=True)
    )
    return rows, columns


def _rows(ids: tuple[AnyArray, AnyArray]) -> AnyArray:
    return ids[0]


def _n_rows(ids: tuple[AnyArray, AnyArray]) -> int:
    return int(ids[0].size)


def _unite_ids(found: list[tuple[AnyArray, AnyArray]]) -> tuple[AnyArray, AnyArray]:
    """Return the distinct ids of several partitions, in the order of these."""
    rows, columns = (
        _distinct(list(each), what)
        for each, what in zip(zip(*found, strict=True), ("row", "column"), strict=True)
    )
    return rows, columns


def _distinct(ids: list[AnyArray], what: str) -> AnyArray:
    filled = [each for each in ids if each.size]
    if not filled:
        return ids[0]
    if len({"i" if each.dtype.kind == "u" else each.dtype.kind for each in filled}) > 1:
        types = sorted({"text" if each.dtype.kind in "OUT" else str(each.dtype) for each in filled})
        raise InvalidTypeError(
            f"The {what} ids are {types[0]} in one partition of the frame and {types[1]} in another; give their column "
            "one type."
        )
    if {each.dtype.kind for each in filled} == {"i", "u"}:  # which NumPy would join as floats
        filled = [each.astype(np.int64) for each in filled]
    return check_ids(factorize(np.concatenate(filled), _row)[1], f"The column of {what} ids")


def _part(
    frame: object,
    row_ids: AnyArray,
    rows: Positions,
    *,
    column_ids: AnyArray,
    n_rows: int,
    names: tuple[str, str, str | None],
    like_at: float | None,
    duplicates: Duplicates,
) -> Partition:
    """Return the entries of a partition that holds all entries of its rows."""
    native = eager_frame(frame)
    axes = Axes.of((row_ids.size, column_ids.size), row_ids, column_ids)
    i = axes.rows.find(frame_column(native, names[0], "row", _row))
    j = axes.columns.find(frame_column(native, names[1], "column", _row))
    given = np.ones(i.size, np.int8)
    if names[2] is not None:
        given = frame_column(native, names[2], "value", _row)
    labels = label_numbers(given, TableRules(like_at=like_at), None, _row)
    checked = merge_duplicates(Checked(i, j, labels, axes), duplicates, _row)
    return Partition.of(
        checked.rows, checked.columns, checked.values, rows, (n_rows, column_ids.size)
    )
