"""Kinds of values that Python, the command line and HTTP write differently: ids, pairs, entries, tables of features.

Python passes arrays, frames and observations. The command line passes text and paths; a table is read by the rules for
the table of the fit. HTTP passes JSON. Texts and records have ids as text, so that 7 and "7" are the same id.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np

from tribit.data.axis import AnyArray, Axis, Positions, as_list, quoted_id
from tribit.data.ingest import Checked, merge_duplicates
from tribit.data.labels import TextColumn
from tribit.data.observations import Observations, read_entries
from tribit.data.reading import Reading, Records
from tribit.data.records import DEFAULT_NAMES
from tribit.data.tables import read_table
from tribit.data.times import times_at
from tribit.data.weights import weights_at
from tribit.errors import (
    InvalidInputError,
    UnknownIdError,
    UnknownIdWarning,
    parameter,
    quoted,
    warn,
    where_possible,
)
from tribit.folding.new_rows import entries_at_known, place_entries
from tribit.questions.base import option

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True)
class Kind:
    """A kind of value, with a description for docstrings."""

    name: str
    words: str


IDS = Kind("ids", "array-like or a single value")
ENTRIES = Kind("entries", "Observations, sparse matrix or array")
PAIRS = Kind("pairs", "tuple (rows, columns), list of tuples (row, column), array or data frame")
TABLE = Kind("table", "data frame, sparse matrix or array")
Ids: TypeAlias = Annotated[Any, IDS]
Entries: TypeAlias = Annotated[Any, ENTRIES]
Pairs: TypeAlias = Annotated[Any, PAIRS]
Table: TypeAlias = Annotated[Any, TABLE]


def kind_of(hint: object) -> Kind | None:
    """Return the kind in the type of a field; None for a plain value."""
    found = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Kind)]
    for part in getattr(hint, "__args__", ()):
        found += [kind for kind in [kind_of(part)] if kind is not None]
    return found[0] if found else None


@dataclass(frozen=True)
class Texts:
    """Ids as text."""

    values: tuple[str, ...]

    def split(self, axis: Axis) -> Texts:
        """Return the ids with a list such as ``196,197`` split at its commas; a known id is no list.

        Ids with commas are quoted as in CSV; without quotes, parts that together are a known id are one id.
        """
        found: list[str] = []
        for each in self.values:
            found += [each] if each in axis.by_text or "," not in each else _split_list(each, axis)
        return Texts(tuple(found))


def _split_list(text: str, axis: Axis) -> list[str]:
    """Return the ids of a list with commas between them, some of which may have commas."""
    pieces, found, start = text.split(","), list[str](), 0
    if any(piece.lstrip().startswith('"') for piece in pieces):
        lines = csv.reader(io.StringIO(text), skipinitialspace=True)
        return [field.strip() for line in lines for field in line if field.strip()]
    known = axis.by_text
    longest = 1 + max((each.count(",") for each in known), default=0)
    while start < len(pieces):
        ends = range(min(start + longest, len(pieces)), start, -1)
        end = next((end for end in ends if ",".join(pieces[start:end]).strip() in known), start + 1)
        found.append(",".join(pieces[start:end]).strip())
        start = end
    found = [each for each in found if each]
    return found if len(found) > 1 else [text]


#: Treatments of an id that the model was not fitted on.
UNKNOWN = ("popularity", "skip", "error")


def unknown_option(popularity: str = "", of: str = "ids", choices: Sequence[str] = UNKNOWN) -> Any:
    """Return the field for the treatment of ids that the model was not fitted on, the same in every face.

    By default no id refuses the answer for the others, and none goes unnoticed: unknown ids are answered by
    popularity, or left out where nothing can be said of them, with an :class:`~tribit.UnknownIdWarning`.

    Parameters
    ----------
    popularity : str
        The answer for an unknown id; "" if there is none, and ids are left out by default.
    of : str
        The ids that may be unknown.
    choices : sequence of str
        Treatments; without an answer for an unknown id, "popularity" is none of them.
    """
    means = {"popularity": popularity, "skip": "left out", "error": ""}
    choices = [each for each in choices if popularity or each != "popularity"]
    words = [f"{each} ({means[each]})" if means[each] else each for each in choices]
    about = f"Unknown {of}: {', '.join(words[:-1])} or {words[-1]}."
    return option(choices[0], about, choices=tuple(choices))


def find_or_warn(
    recommender: FittedRecommender, side: int, ids: object, unknown: str, answered: str = ""
) -> Positions:
    """Return positions of row (``side`` 0) or column (1) ids; -1 for an unknown one, with a warning.

    An unknown id is an error if ``unknown`` is "error", and if none of the ids is known and ``answered``, which
    says what becomes of it, is "".
    """
    axis = recommender.axes_[side]
    places = find(axis, ids, unknown_is_error=unknown == "error" and not isinstance(ids, Texts))
    lost = np.flatnonzero(places < 0)
    if lost.size:
        strangers = distinct_at(ids, lost)
        if unknown == "error" or (lost.size == places.size and not answered):
            raise unknown_id(axis, strangers[0], recommender.headings[side])
        warn_of_unknown(recommender, side, strangers, answered or "left out")
    return places


def distinct_at(ids: object, places: Positions) -> list[Any]:
    """Return the distinct ids at some places of a list, in its order."""
    given = ids.values if isinstance(ids, Texts) else _as_ids(as_list(ids)).tolist()
    return list(dict.fromkeys(given[at] for at in places.tolist()))


def warn_of_unknown(
    recommender: FittedRecommender, side: int, strangers: Sequence[Any], answered: str
) -> None:
    """Warn of distinct ids that the model was not fitted on, and say how they are answered.

    An id of the model's in another type, such as 7 for "7", is an error, and a position without ids.
    """
    axis, name = recommender.axes_[side], recommender.headings[side]
    if axis.ids is None:
        raise UnknownIdError(
            f"The model has no {axis.name} {quoted(strangers[0])}: its {axis.name}s are 0 to {axis.size - 1}."
        )
    for each in strangers:
        if str(each) in axis.by_text:
            raise unknown_id(axis, each, name)
    n, first = len(strangers), quoted(strangers[0])
    some = f"the {name} {first}" if n == 1 else f"{n} {name} ids, such as {first}"
    hint = axis.suggestion(strangers[0])
    warn(
        UnknownIdWarning(
            f"The model was not fitted on {some}{hint and f' ({hint})'}: {'it is' if n == 1 else 'they are'} "
            f"{answered}{where_possible(' ({} refuses unknown ids)', 'unknown', 'error')}."
        )
    )


def find(axis: Axis, ids: object, *, unknown_is_error: bool = True) -> Positions:
    """Return positions of ids; -1 for an unknown id if that is no error."""
    if isinstance(ids, Texts):
        known = axis.by_text
        places = np.array([known.get(text, -1) for text in ids.values], dtype=np.int64)
        if unknown_is_error and (places < 0).any():
            raise unknown_id(axis, ids.values[int(np.argmax(places < 0))])
        return places
    if unknown_is_error or axis.ids is None:
        return axis.find(as_list(ids))
    wanted = as_list(ids)
    return axis.match(Axis(axis.name, len(wanted), _as_ids(wanted)), "the list has", "give ids")


def unknown_id(axis: Axis, text: object, heading: str = "") -> UnknownIdError:
    """Return the error for an unknown id, which names the column of the table that has such ids."""
    name = heading if heading and heading != axis.name else f"{axis.name} id"
    return UnknownIdError(
        f"The model was not fitted on the {name} {quoted(text)}; "
        f"{axis.suggestion(text) or f'pass one such as {quoted_id(axis.ids, 0)}.'}"
    )


def axis_of_strangers(axis: Axis, strangers: Sequence[Any]) -> Axis:
    """Return the axis of ids that the model was not fitted on, numbers in text as numbers if the model's ids are."""
    assert axis.ids is not None
    numbers = axis.ids.dtype.kind in "iu"
    ids = [
        int(each)
        if numbers and isinstance(each, str) and re.fullmatch("0|[1-9][0-9]*", each)
        else each
        for each in strangers
    ]
    return Axis(axis.name, len(ids), np.fromiter(ids, dtype=object, count=len(ids)))


def known_ids(axis: Axis, texts: AnyArray | TextColumn) -> tuple[AnyArray, Positions]:
    """Return ids of a file, known ones as the model has them, and their positions, -1 for an unknown id."""
    places = find(axis, Texts(tuple(texts.tolist())), unknown_is_error=False)
    ids = np.array(texts, dtype=object)
    ids[places >= 0] = axis.names(places[places >= 0])
    return ids, places


def ids_of_axis_type(axis: Axis, texts: AnyArray | TextColumn) -> AnyArray:
    """Return ids of a file in the type of the axis, which may have numbers for ids."""
    ids, places = known_ids(axis, texts)
    if axis.ids is not None and axis.ids.dtype.kind in "iu":
        for at in np.flatnonzero(places < 0).tolist():
            if not texts[at].isdecimal() or str(int(texts[at])) != texts[at]:
                raise InvalidInputError(
                    f"The {axis.name} id {quoted(texts[at])} is no number, unlike the ids of the model; pass a number."
                )
            ids[at] = int(texts[at])
        return ids.astype(axis.ids.dtype)
    return ids


@dataclass(frozen=True, eq=False)
class LocatedRecords:
    """Positions of records in the rows and columns of a model.

    Attributes
    ----------
    rows, columns : array of int
        Positions of the records that are kept, -1 for an unknown id.
    kept : array of bool
        Mask of the records that are kept.
    """

    rows: Positions
    columns: Positions
    kept: AnyArray


def locate_records(
    recommender: FittedRecommender, records: Records, unknown: str, answered: str = ""
) -> LocatedRecords:
    """Return positions of records; one with an unknown id is an "error", left out ("skip") or kept ("popularity").

    ``answered`` says in a warning what becomes of such records; there is none without it.
    """
    axes = recommender.axes_
    sides = []
    for name, axis, ids in zip(records.names, axes, (records.rows, records.columns), strict=False):
        places = find(axis, Texts(tuple(ids.tolist())), unknown_is_error=False)
        lost = np.flatnonzero(places < 0)
        if lost.size and unknown == "error":
            first = int(lost[0])
            raise InvalidInputError(
                f"{records.where(first)}: the model was not fitted on the id {quoted(ids[first])} in column "
                f"{quoted(name)}; remove such records, or leave them out with {parameter('unknown', 'skip')}."
            )
        sides.append(places)
    known = np.array([places >= 0 for places in sides])
    if not known.any() or (unknown == "skip" and not known.all(axis=0).any()):
        which = "and" if unknown == "skip" else "or"
        raise InvalidInputError(
            f"No entry of {records.name} has a row id {which} a column id that the model knows; "
            f"check {parameter('row')} and {parameter('column')}."
        )
    for side, (places, ids) in enumerate(zip(sides, (records.rows, records.columns), strict=True)):
        if answered and (strangers := list(dict.fromkeys(ids[places < 0].tolist()))):
            warn_of_unknown(recommender, side, strangers, answered)
    kept = np.all(known, axis=0) if unknown == "skip" else np.ones(known.shape[1], dtype=bool)
    return LocatedRecords(sides[0][kept], sides[1][kept], kept)


def known_entries(
    recommender: FittedRecommender, given: object, unknown: str
) -> tuple[Observations, int]:
    """Return the entries of known rows and columns, and the number of records that are left out."""
    axes = recommender.axes_
    if not isinstance(given, Records):
        entries = read_entries(recommender, given)
        rows, columns = axes.places(entries, "the entries have")
        here = np.flatnonzero((rows >= 0) & (columns >= 0))
        kept = place_entries(entries.take(here), rows[here], columns[here], *axes)
        return kept, len(entries) - here.size
    found = locate_records(recommender, given, unknown)
    labels = np.ones(given.rows.size, np.int8) if given.labels is None else given.labels
    own = labels[found.kept].astype(np.int8)
    weights, times = weights_at(given.weights, found.kept), times_at(given.times, found.kept)
    counted = slice(None) if weights is None else weights > 0
    at = np.flatnonzero(found.kept)[counted]
    checked = Checked(found.rows, found.columns, own, axes, None, weights, times).at(counted)
    merged = merge_duplicates(checked, given.reading.duplicates, lambda n: given.where(int(at[n])))
    return Observations.from_checked(merged), int(np.sum(~found.kept))


def held_out_entries(recommender: FittedRecommender, given: object, unknown: str) -> Observations:
    """Return test entries, which may have unknown ids unless that is an error."""
    if not isinstance(given, Records):
        return read_entries(recommender, given)
    locate_records(recommender, given, unknown)  # refuses a file of another table
    axes = recommender.axes_
    if unknown == "error" or axes.rows.ids is None or axes.columns.ids is None:
        return known_entries(recommender, given, "error")[0]
    named_alike = replace(
        given,
        rows=known_ids(axes.rows, given.rows)[0],
        columns=known_ids(axes.columns, given.columns)[0],
    )
    return named_alike.observations()


def new_entries(recommender: FittedRecommender, given: object) -> Observations:
    """Return entries with known and new ids, weighted as in the fit; ids of records get the type of the model's."""
    if not isinstance(given, Records):
        return recommender.weigh(read_entries(recommender, given))
    axes = recommender.axes_
    named_alike = replace(
        given,
        rows=ids_of_axis_type(axes.rows, given.rows),
        columns=ids_of_axis_type(axes.columns, given.columns),
    )
    return recommender.weigh(named_alike.observations())


def entries_of_new_rows(
    recommender: FittedRecommender, given: object, unknown: str
) -> Observations:
    """Return entries of new rows in known columns; a known row is an error, and an unknown column as it is treated."""
    found, axis = new_entries(recommender, given), recommender.axes_.rows
    found = entries_at_known(found, recommender.axes_, "error" if unknown == "error" else "skip")
    if axis.ids is not None and found.axes.rows.ids is not None:
        for each in found.axes.rows.ids.tolist():
            if str(each) in axis.by_text:
                raise InvalidInputError(
                    f"The {axis.name} {quoted(each)} is not new to the model: pass entries of new {axis.name}s."
                )
    return found


def reading_for(recommender: FittedRecommender, **rules: Any) -> Reading:
    """Return the rules for reading the table of the fit, with some of them replaced."""
    kept = recommender.reading_
    given = {name: value for name, value in rules.items() if value is not None}
    if kept.layout == "wide" and given.keys() & {"column", "value"}:
        # Only a long table has such columns.
        given = {"layout": "long", **given}
    if given.get("layout") == "wide":
        given = {"column": None, "value": None, "weight": None, "time": None, **given}
    # Words for likes replace a threshold, and a threshold replaces words.
    if given.keys() & {"like", "dislike"}:
        given = {"like_at": None, **given}
    elif "like_at" in given:
        given |= {"like": None, "dislike": None}
    return replace(kept, notes=(), **given)


def features_from(path: str | os.PathLike[str] | None, max_size: int | None = None) -> Any:
    """Return a table of features as columns by name, ids first; None for no table."""
    if path is None:
        return None
    table = read_table(path, max_size=max_size)
    return {name: np.asarray(texts) for name, texts in table.columns.items()}


def _as_ids(wanted: Any) -> AnyArray:
    return wanted if isinstance(wanted, np.ndarray) else np.fromiter(wanted, dtype=object)


def headings(names: Sequence[str | None]) -> tuple[str, str]:
    """Return headings of id columns; a column number is replaced by the default name."""
    row, column = (
        default if name is None or name.isdecimal() else name
        for name, default in zip(names, DEFAULT_NAMES[:2], strict=False)
    )
    return row, column
