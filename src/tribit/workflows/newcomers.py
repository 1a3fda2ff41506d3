"""Bundles that know what came after the fit: new entries, and features of new rows and columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tribit.data.axis import AnyArray, Axis
from tribit.data.observations import Observations
from tribit.data.tables import read_table
from tribit.errors import InvalidInputError
from tribit.recommender import Recommender
from tribit.workflows.bundles import PathLike, positions_of, reading_of, typed

Features = dict[str, AnyArray]


class WithNew(NamedTuple):
    """A bundle that knows more, the new entries where there are any, and the ids of the rows that came."""

    bundle: Recommender
    entries: Observations | None
    rows: list[str]


def features_of(path: PathLike | None, max_size: int | None = None) -> Features | None:
    """Return a table of features by the names of its columns, ids in the first; None for none."""
    return None if path is None else dict(read_table(path, max_size=max_size).columns)


def with_new(
    bundle: Recommender,
    new: PathLike | None = None,
    *,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    max_size: int | None = None,
    **rules: Any,
) -> WithNew:
    """Return a bundle that knows the entries of a table, and rows and columns by their features.

    New rows with entries in known columns are folded in, which leaves all else as it is; other entries are an update
    (:meth:`tribit.Recommender.update`). Rows and columns of the features that have no entries and are not known yet
    are folded in by their features; features of known ones are left out, as they were part of the fit.

    Parameters
    ----------
    bundle : Recommender
        A bundle with ids.
    new : str or path-like, optional
        A table of entries that came after the fit.
    row_features, column_features : str or path-like, optional
        Tables of features, as those of the fit, ids in the first column.
    max_size : int, optional
        The most bytes to read of each.
    **rules
        Of :class:`tribit.data.reading.Reading`, where the table of entries differs from that of the fit.
    """
    if new is None and row_features is None and column_features is None:
        return WithNew(bundle, None, [])
    axes = bundle.model_._axes
    for axis in axes:
        if axis.ids is None:
            raise InvalidInputError(
                f"The model has no {axis.name} ids, so that a table cannot say which {axis.name}s are new; fit it on a "
                "table, or on Observations with ids."
            )
    tables = [
        _with_ids(features_of(path, max_size), axis)
        for path, axis in zip((row_features, column_features), axes, strict=True)
    ]
    entries, rows = None, []
    if new is not None:
        bundle, entries = _with_entries(bundle, new, tables, max_size, rules)
        rows = [str(name) for name in entries.axes.rows.names(np.unique(entries.rows)).tolist()]
    for side, table in enumerate(tables):
        others = _unknown(table, bundle.model_._axes[side])
        if others is not None:
            if side:
                bundle = bundle.fold_in(axis="columns", column_features=others)
            else:
                bundle = bundle.fold_in(row_features=others)
                rows += map(str, next(iter(others.values())).tolist())
    return WithNew(bundle, entries, rows)


def _with_entries(
    bundle: Recommender,
    path: PathLike,
    tables: list[Features | None],
    max_size: int | None,
    rules: dict[str, Any],
) -> tuple[Recommender, Observations]:
    records = reading_of(bundle, **rules).records(path, max_size=max_size)
    axes = bundle.model_._axes
    named = replace(
        records,
        rows=typed(axes.rows, records.rows),
        columns=typed(axes.columns, records.columns),
    )
    given = named.observations()
    known = [
        ours.match(theirs, "the table has", "give ids") >= 0
        for ours, theirs in zip(axes, given.axes, strict=True)
    ]
    if not known[0].any() and known[1].all():
        return bundle.fold_in(given, row_features=tables[0]), given
    return bundle.update(given, row_features=tables[0], column_features=tables[1]), given


def _with_ids(table: Features | None, axis: Axis) -> Features | None:
    """Return a table of features whose ids are of the model's kind."""
    if table is None:
        return None
    first = next(iter(table))
    return {**table, first: typed(axis, table[first])}


def _unknown(table: Features | None, axis: Axis) -> Features | None:
    """Return the records of ids that the model does not know; None where there are none."""
    if table is None:
        return None
    ids = next(iter(table.values()))
    new = positions_of(axis, np.array([str(each) for each in ids.tolist()], dtype=object)) < 0
    return {name: values[new] for name, values in table.items()} if new.any() else None
