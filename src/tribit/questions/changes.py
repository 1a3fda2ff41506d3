"""Changes of a recommender: new rows and columns, and new entries."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.data.axis import Axis
from tribit.data.observations import Observations
from tribit.data.reading import Records
from tribit.errors import InvalidInputError
from tribit.folding import entries_at_known, fold_in, update
from tribit.folding.new_rows import AXES, PRIORS
from tribit.questions.base import OMIT, Change, Changed, option
from tribit.questions.kinds import (
    Entries,
    Table,
    Texts,
    find,
    ids_of_axis_type,
    new_entries,
    unknown_id,
    unknown_option,
    warn_of_unknown,
)

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True, eq=False)
class FoldIn(Change):
    """Return a copy with new rows (or columns) added, everything else fixed.

    Like :meth:`BinaryMatrixCompletion.fold_in`, with the penalty for new rows as the default. The ranker of the fit
    ranks new rows; after new columns it is fitted again.
    """

    entries: Entries | None = option(
        None, "Entries of the new rows, in known columns; None where features alone are known."
    )
    axis: str = option("rows", "Whether rows or columns are new.", choices=AXES)
    row_features: Table | None = option(None, "Features of the new rows.")
    column_features: Table | None = option(None, "Features of the new columns.")
    prior: str = option("new", "Penalty for the new rows.", choices=tuple(PRIORS))
    unknown: str = unknown_option(of="columns of the entries")

    def apply(self, recommender: Changed) -> Changed:
        """Return the changed copy."""
        given = None
        if self.entries is not None:
            given = new_entries(recommender, self.entries)
            given = entries_at_known(given, recommender.axes_, self.unknown, self.axis)
        known = recommender.with_rho()
        fitted = fold_in(
            known.model_.fitted_,
            given,
            axis=self.axis,
            prior=self.prior,
            row_features=self.row_features,
            column_features=self.column_features,
            n_jobs=known.model_.n_jobs,
        )
        return known.replace(fitted=fitted, entries=given, new=AXES.index(self.axis))


@dataclass(frozen=True, eq=False)
class Update(Change):
    """Return a copy updated with new entries; see :meth:`BinaryMatrixCompletion.update`.

    The ranker is fitted again.
    """

    entries: Entries = option(
        MISSING, "Entries observed after the fit; a new label replaces the old one."
    )
    row_features: Table | None = option(None, "Features of new rows.")
    column_features: Table | None = option(None, "Features of new columns.")

    def apply(self, recommender: Changed) -> Changed:
        """Return the changed copy."""
        seen = recommender.require_entries(
            "an update solves again for rows and columns from all their entries"
        )
        given = new_entries(recommender, self.entries)
        known = recommender.with_rho()
        fitted = update(
            known.model_.fitted_,
            given,
            seen,
            row_features=self.row_features,
            column_features=self.column_features,
            n_jobs=known.model_.n_jobs,
        )
        return known.replace(fitted=fitted, entries=given)


@dataclass(frozen=True, eq=False)
class Incorporate(Change):
    """Return a copy with the entries of a table, and with the rows and columns of tables of features.

    Entries of new rows are folded in, with all else fixed; with entries of known rows among them they are an
    update. New rows and columns without entries are folded in by their features. Features of known ones are left out,
    as the fit had them.
    """

    entries: Entries | None = option(
        None,
        "Table of entries observed after the fit, for example those of new rows.",
        flag="--new",
    )
    row_features: Table | None = option(
        None, "Table of features of new rows, with or without entries, as in the fit."
    )
    column_features: Table | None = option(None, "Table of features of new columns, as in the fit.")
    new_columns: str = option(
        "add",
        "New columns of the entries without features: add, warn (and leave them out if all rows are new) or error.",
        choices=("add", "warn", "error"),
        command=OMIT,
    )

    def apply(self, recommender: Changed) -> Changed:
        """Return the changed copy."""
        if self.entries is None and self.row_features is None and self.column_features is None:
            return recommender
        for axis in recommender.axes_:
            if axis.ids is None:
                raise InvalidInputError(
                    f"The model has no {axis.name} ids to recognise new {axis.name}s of a table by; fit it on a table, "
                    "or on Observations with ids."
                )
        tables = [
            _with_ids(table, axis)
            for table, axis in zip(
                (self.row_features, self.column_features), recommender.axes_, strict=True
            )
        ]
        if self.entries is not None:
            recommender = _with_entries(recommender, self.entries, tables, self.new_columns)
        for side, table in enumerate(tables):
            others = _unknown_records(table, recommender.axes_[side])
            if others is not None:
                name = ("row_features", "column_features")[side]
                recommender = recommender.fold_in(axis=AXES[side], **{name: others})
        return recommender

    def rows(self, recommender: FittedRecommender) -> Texts | None:
        """Return the rows that the tables add or have entries of; None without any."""
        found: list[str] = []
        if isinstance(self.entries, Records):
            found += dict.fromkeys(self.entries.rows.tolist())
        if isinstance(self.row_features, dict):
            axis = recommender.axes_.rows
            ids = [str(each) for each in next(iter(self.row_features.values())).tolist()]
            places = find(axis, Texts(tuple(ids)), unknown_is_error=False)
            found += [text for text, at in zip(ids, places.tolist(), strict=True) if at < 0]
        return Texts(tuple(dict.fromkeys(found))) if found else None


def _with_entries(
    recommender: Changed, entries: object, tables: list[Any], new_columns: str
) -> Changed:
    given: Observations = new_entries(recommender, entries)
    axes = recommender.axes_
    known = [
        ours.match(theirs, "the table has", "give ids") >= 0
        for ours, theirs in zip(axes, given.axes, strict=True)
    ]
    strangers = [*given.axes.columns.names(np.flatnonzero(~known[1]))]
    if tables[1] is not None:
        described = set(map(str, next(iter(tables[1].values()))))
        strangers = [each for each in strangers if str(each) not in described]
    if strangers and new_columns == "error":
        raise unknown_id(axes.columns, strangers[0], recommender.headings[1])
    if strangers and new_columns == "warn":
        if not known[0].any() and tables[1] is None:
            return recommender.fold_in(entries_at_known(given, axes), row_features=tables[0])
        warn_of_unknown(recommender, 1, strangers, "added from the new entries")
    if not known[0].any() and known[1].all():
        return recommender.fold_in(given, row_features=tables[0])
    return recommender.update(given, row_features=tables[0], column_features=tables[1])


def _with_ids(table: object, axis: Axis) -> Any:
    """Return a table of features with its ids in the type of the model's."""
    if not isinstance(table, dict):
        return table
    first = next(iter(table))
    return {**table, first: ids_of_axis_type(axis, table[first])}


def _unknown_records(table: Any, axis: Axis) -> Any:
    """Return the records with unknown ids; None if there are none."""
    if table is None:
        return None
    ids = next(iter(table.values()))
    texts = Texts(tuple(str(each) for each in ids.tolist()))
    new = find(axis, texts, unknown_is_error=False) < 0
    return {name: values[new] for name, values in table.items()} if new.any() else None
