"""Positions of new rows and entries: what is new, what is known already, and all of it in one matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axes, Axis, Positions, check_new
from tribit.data.ingest import Checked
from tribit.data.observations import Observations


def new_of(ours: Axis, theirs: Axis) -> Axis:
    """Return the rows there that are not here; without ids those beyond the last one here."""
    if ours.ids is None or theirs.ids is None:
        if ours.ids is not theirs.ids:
            check_new(ours, theirs)
        return Axis(ours.name, max(theirs.size - ours.size, 0))
    new = ours.match(theirs, "the new entries have", "give the same ids") < 0
    return Axis(ours.name, int(np.count_nonzero(new)), theirs.ids[new])


def placed(
    entries: Observations, rows: Positions, columns: Positions, of_rows: Axis, of_columns: Axis
) -> Observations:
    """Return entries at other positions, in another matrix."""
    order = np.lexsort((columns, rows))
    axes = Axes(of_rows, of_columns)
    return Observations.from_checked(
        Checked(rows[order], columns[order], entries.labels[order], axes)
    )


def merged(
    old: tuple[Positions, Positions],
    old_labels: NDArray[np.int8],
    new: tuple[Positions, ...],
    new_labels: NDArray[np.int8],
    axes: Axes,
) -> Observations:
    """Return all entries; of one that is in both the new label counts."""
    rows, columns = (np.concatenate(pair) for pair in zip(new, old, strict=True))
    labels = np.concatenate([new_labels, old_labels])
    # The first of equal ones is kept, and new ones come first.
    _, first = np.unique(rows * axes.columns.size + columns, return_index=True)
    return Observations.from_checked(Checked(rows[first], columns[first], labels[first], axes))


def rows_of(entries: Observations, places: Positions) -> Observations:
    """Return the entries of some rows, as a matrix of these rows."""
    number = np.full(entries.shape[0], -1)
    number[places] = np.arange(places.size)
    here = number[entries.rows] >= 0
    axes = Axes(Axis(entries.axes.rows.name, places.size), entries.axes.columns)
    return Observations.from_checked(
        Checked(number[entries.rows[here]], entries.columns[here], entries.labels[here], axes)
    )


def without_entries(rows: Axis, columns: Axis) -> Observations:
    """Return a matrix of which nothing was observed."""
    none = np.zeros(0, dtype=np.int64)
    return Observations.from_checked(
        Checked(none, none, np.zeros(0, dtype=np.int8), Axes(rows, columns))
    )


def all_entries(
    old: Observations, given: Observations | None, axes: Axes, new: int | None = None
) -> Observations:
    """Return old and given entries in the axes of a model that knows both; the given label of an entry counts.

    Without ids, given ones have the model's positions, but those of the axis ``new`` (0 for rows, 1 for columns) count
    from the first one that the old entries do not have.
    """
    places = old.rows, old.columns
    if given is None:
        return placed(old, *places, *axes)
    theirs = []
    for number, (axis, before, side, at) in enumerate(
        zip(axes, old.axes, given.axes, (given.rows, given.columns), strict=True)
    ):
        if axis.ids is None:
            theirs.append(at + before.size if number == new else at)
        else:
            theirs.append(axis.match(side, "the new entries have", "give the same ids")[at])
    return merged(places, old.labels, tuple(theirs), given.labels, axes)
