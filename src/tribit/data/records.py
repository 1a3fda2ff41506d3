"""Records of a table as cells of a matrix: row id, column id and the text of a value, by the rules of a Reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tribit.data.axis import first_true
from tribit.data.frames import is_id_heading
from tribit.data.labels import (
    MISSING,
    TableCells,
    TextColumn,
    TextValues,
    are_missing,
    as_number,
    normalise_word,
)
from tribit.data.sources import Source
from tribit.data.tables import Format, read_source
from tribit.data.text_formats import are_places
from tribit.errors import InvalidInputError, listed, parameter, quoted

if TYPE_CHECKING:
    from tribit.data.reading import Reading


#: Names of the columns of a wide table or a matrix; of lists and predictions where the columns of the fit have numbers.
DEFAULT_NAMES = ("row", "column", "value")


def names_of_own_file(
    names: tuple[str, str, str | None], first: Sequence[str]
) -> tuple[str, str, str | None]:
    """Return the columns to read; of a file that tribit wrote by name, where they were given by number.

    Lists have the rows' ids first, wherever the table of the fit had them.
    """
    value = names[2]
    if not are_places([name for name in names if name is not None]):
        return names
    if not set(DEFAULT_NAMES[:2]) <= set(first) or (value is not None and int(value) >= len(first)):
        return names
    return DEFAULT_NAMES[0], DEFAULT_NAMES[1], None if value is None else first[int(value)]


def is_heading(
    rows: TextColumn, columns: TextColumn, values: TextValues | None, words: set[str]
) -> bool:
    """Return whether the first record of a text is its heading.

    Its value is no number, no given word and not missing where the next one is a number or such a word; without values
    both ids are usual headings, and no other record has them.
    """
    if rows.size < 2:
        return False
    if values is None:
        return all(is_id_heading(ids[0]) and ids.counts[0] == 1 for ids in (rows, columns))
    first, rest = values.texts[0], values._replace(texts=values.texts.take(np.arange(1, rows.size)))

    def is_value(text: str) -> bool:
        known = values.number(text) is not None
        return normalise_word(text, values.decimal) in words if words else known

    if first in MISSING or values.number(first) is not None or is_value(first):
        return False
    return is_value(rest.texts[0]) or (not words and rest.known_pair() is not None)


def long_cells(
    rules: Reading, form: Format, source: Source, *, valued: bool, timed: bool = False
) -> TableCells:
    """Return a cell for each record; values, weights and times are read where ``valued``, times where ``timed``."""
    names, notes = _names(rules, form, source)
    row, column, value = names
    value, weight = (value, rules.weight) if valued else (None, None)
    time = rules.time if valued or timed else None
    named = (row, column, value, weight, time)
    wanted = list(dict.fromkeys(name for name in named if name is not None))
    table = read_source(form, source, wanted)
    settled = {}
    if not form.is_matrix:  # whose names are no user's, so that another file will have others
        # Where numbers were given, the next file may have no heading.
        settled = {
            "row": rules.row or row,
            "column": rules.column or column,
            "value": rules.value or names[2],
        }
    texts = None if value is None else table.columns[value]
    cells = TableCells(
        table.columns[row],
        table.columns[column],
        texts,
        table.where,
        table.name,
        names,
        settled,
        (*table.notes, *notes),
        None if form.is_matrix else names[2],
        weights=None if weight is None else table.columns[weight],
        weight_column=weight,
        times=None if time is None else table.columns[time],
        time_column=time,
    )
    return _without_heading(cells, rules) if form.first_record and are_places(wanted) else cells


def _without_heading(cells: TableCells, rules: Reading) -> TableCells:
    """Return the cells of a text whose columns were given by number, without its first record if that is a heading."""
    words = {
        normalise_word(word, rules.mark)
        for given in (rules.like, rules.dislike)
        for word in given or ()
    }
    values = None if cells.texts is None else cells.values(rules.mark)
    if not is_heading(cells.rows, cells.columns, values, words):
        return cells
    heading = listed([cells.rows[0], cells.columns[0]])
    rest = cells.at(np.arange(cells.rows.size) > 0)
    return rest.with_note(
        f"{cells.source}: the first record ({heading} ...) is a heading (guessed)."
    )


def wide_cells(rules: Reading, form: Format, source: Source) -> TableCells:
    """Return the filled cells of a table with a row of the matrix in each record."""
    table = read_source(form, source, None)
    header = list(table.columns)
    row = rules.row
    if row is not None and row.isdecimal() and row not in header and int(row) < len(header):
        row = header[int(row)]
    row = header[0] if row is None else row
    others = [name for name in header if name != row]
    if row not in header or not others:
        raise InvalidInputError(
            f"{table.name} has no column {quoted(row)} of row ids and others of values; choose one of its columns with "
            f"{parameter('row')}: {listed(header)}."
        )
    filled = np.stack([~are_missing(table.columns[name]) for name in others], axis=1)
    i, j = np.nonzero(filled)
    texts = np.stack([np.asarray(table.columns[name]) for name in others], axis=1)[i, j]

    def where(position: int) -> str:
        return f"{table.where(int(i[position]))}, column {quoted(others[int(j[position])])}"

    return TableCells(
        table.columns[row].take(i),
        TextColumn(j, others),
        TextColumn.of(texts),
        where,
        table.name,
        (row or DEFAULT_NAMES[0], DEFAULT_NAMES[1], DEFAULT_NAMES[2]),
        {"row": row},
        table.notes,
        filled=bool(filled.all()),
    )


def without_missing(cells: TableCells, missing: str) -> TableCells:
    """Return the cells with both ids and a value; any other is an error, or with "skip" left out."""
    lost = np.zeros(cells.rows.size, dtype=bool)
    for texts, column, role in zip(
        (cells.rows, cells.columns, cells.texts, cells.weights, cells.times),
        (*cells.names[:2], None, cells.weight_column, cells.time_column),
        ("id", "id", "value", "weight", "time"),
        strict=True,
    ):
        if texts is None:
            continue
        # An id may well be NA; none is empty.
        these = are_missing(texts, {""} if missing == "error" and column is not None else MISSING)
        if missing == "error" and (position := first_true(these)) is not None:
            if column is None:
                within = cells.values(".").within()
                what = f"the value {quoted(texts[position])}{within} is missing"
            else:
                what = f"the {role} in column {quoted(column)} is empty"
            raise InvalidInputError(
                f"{cells.where(position)}: {what}; fill it in, or leave such records out with "
                f"{parameter('missing', 'skip')}."
            )
        lost |= these
    n_lost = int(np.count_nonzero(lost))
    if missing == "error":
        for texts, column in zip((cells.rows, cells.columns), cells.names[:2], strict=True):
            words = [text for text in texts.distinct if text in MISSING]
            if words:
                cells = cells.with_note(
                    f"{cells.source}: {listed(words)} in column {quoted(column)} is an id (guessed)."
                )
    if not n_lost:
        return cells
    if n_lost == lost.size:
        raise InvalidInputError(
            f"Each record of {cells.source} lacks an id or a value, so that none is left; check {parameter('row')}, "
            f"{parameter('column')} and {parameter('value')}."
        )
    records = "record was" if n_lost == 1 else "records were"
    note = f"{cells.source}: {n_lost} {records} left out, without an id or a value."
    return cells.at(~lost).with_note(note)


def _is_number(text: str) -> bool:
    return any(as_number(text, mark) is not None for mark in ".,")


def _names(
    rules: Reading, form: Format, source: Source
) -> tuple[tuple[str, str, str | None], tuple[str, ...]]:
    """Return the names of the columns of ids and values, and a note where the order of the columns decides."""
    first_record = None
    if rules.row is not None and rules.column is not None:
        names = rules.row, rules.column, rules.value
        if form.first_record is not None and are_places([rules.row, rules.column]):
            names = names_of_own_file(names, form.first_record(source))
        return names, ()
    if form.first_record is not None:
        first_record = form.first_record(source)
    header = first_record or list(read_source(form, source, None).columns)
    names_given = (rules.row, rules.column, rules.value, rules.weight, rules.time)
    given = any(name is not None for name in names_given)
    places = [str(place) for place in range(len(header))]
    # A first record that has numbers in it is no header.
    without = first_record is not None and header != places and any(map(_is_number, header))
    if given or not 2 <= len(header) <= 3:
        has = "no header, and the first record is" if without else "the columns"
        numbers = ", by numbers from 0 up" if without else ""
        raise InvalidInputError(
            f"{source.name} has {has} {listed(header) or '(none)'}; say which columns hold the ids of rows and of "
            f"columns with {parameter('row')} and {parameter('column')}, and the values with {parameter('value')}"
            f"{numbers}."
        )
    if form.is_matrix:
        return (header[0], header[1], header[2] if len(header) == 3 else None), ()
    if without:
        header = places
    names = header[0], header[1], header[2] if len(header) == 3 else None
    values = "" if names[2] is None else f", values in {quoted(names[2])}"
    why = "there is no header, and they come in this order" if without else "in this order"
    note = f"{source.name}: row ids are in column {quoted(names[0])}, column ids in {quoted(names[1])}{values} ({why})."
    return names, (note,)
