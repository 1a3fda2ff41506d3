"""Columns in text with a delimiter: CSV, TSV and their like."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import IO, TypeAlias

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.files import column_places
from tribit.data.limits import BLOCK, Lines
from tribit.data.sources import Source, Table
from tribit.errors import InvalidInputError
from tribit.quoting import printable

Record: TypeAlias = tuple[int, list[str]]

#: White space of any length as a delimiter.
SPACE = " "
#: Delimiters that are looked for, in this order where nothing else tells; "::" is that of MovieLens' larger files.
DELIMITERS = ("\t", ",", ";", "|", "::", SPACE)
#: Words for delimiters in messages, and on the command line.
NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": SPACE}
#: Records from which the delimiter is guessed: a header and some more, so that a mark inside a name does not decide.
SAMPLE = 20


def read(source: Source, wanted: list[str] | None, promised: Sequence[str] = DELIMITERS) -> Table:
    """Return the wanted columns, or all, as arrays of str.

    ``promised`` has the delimiters that the ending of the name stands for: the first where the text tells none, and a
    note where it tells another.
    """
    delimiter = source.delimiter
    notes: tuple[str, ...] = ()
    if delimiter is None:
        delimiter = guessed(source, wanted, promised)
        if delimiter not in promised:
            notes = (f"{source.name}: the delimiter is {shown(delimiter)} (guessed).",)
    with source.lines() as lines:
        return _collect(lines, delimiter, wanted, notes)


def header(source: Source, promised: Sequence[str]) -> list[str]:
    """Return the fields of the first record, which may be the names of the columns."""
    delimiter = source.delimiter or guessed(source, None, promised)
    with source.lines() as lines:
        return next((fields for _, fields in _records(lines, delimiter)), [])


def write(text: IO[str], arrays: dict[str, AnyArray], delimiter: str) -> None:
    """Write columns of equal length."""
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(arrays)
    writer.writerows(zip(*(values.tolist() for values in arrays.values()), strict=True))


def shown(delimiter: str) -> str:
    """Return a delimiter as a message names it."""
    return {"\t": "a tab", SPACE: "white space"}.get(delimiter, delimiter)


def guessed(source: Source, wanted: list[str] | None, promised: Sequence[str]) -> str:
    """Return the delimiter under which the first records are most like the table that is asked for.

    That is, the first line has the wanted columns; then, all have the same number of fields, two at least; then, the
    ending of the name promises it.
    """
    sample = _sample(source)
    if not sample:
        return promised[0]
    order = list(dict.fromkeys([*promised, *DELIMITERS]))
    if (
        source.decimal == "," and "," in order
    ):  # a comma between digits is more likely a decimal mark
        order.remove(",")
        order.append(",")

    def likeness(delimiter: str) -> tuple[bool, bool]:
        records = [_fields(line, delimiter) for line in sample]
        widths = {len(fields) for fields in records}
        return _has(records[0], wanted), len(widths) == 1 and widths.pop() > 1

    return max(order, key=likeness)  # the first of those that are most alike


def _sample(source: Source) -> list[str]:
    """Return the first lines that are not blank."""
    sample: list[str] = []
    last = 0
    with source.lines() as lines:
        for line in lines:
            if line.strip():
                sample.append(line)
                lines.pending, last = 0, lines.number
            else:
                lines.skip_blank(last)
            if len(sample) == SAMPLE or sum(map(len, sample)) > BLOCK:
                break
    return sample


def _has(header: list[str], wanted: list[str] | None) -> bool:
    if not wanted:
        return len(header) > 1
    if are_places(wanted):
        return max(map(int, wanted)) < len(header)
    return set(wanted) <= set(header)


def are_places(columns: list[str]) -> bool:
    """Return whether columns are numbers from 0, as of a text without a header."""
    return bool(columns) and all(column.isdecimal() and len(column) < 10 for column in columns)


def _fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of one line, as far as one line tells them."""
    if delimiter == SPACE:
        return line.split()
    if len(delimiter) > 1 or '"' not in line:
        return [field.strip() for field in line.split(delimiter)]
    try:
        found = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return [line]
    return [field.strip() for field in found]


def _collect(
    lines: Lines, delimiter: str, wanted: list[str] | None, notes: tuple[str, ...]
) -> Table:
    first = next(_records(lines, delimiter), None)
    if first is None:
        raise InvalidInputError(f"{lines.name} is empty; give it at least one record.")
    number, header = first
    again: list[Record] = []
    if wanted and are_places(wanted):
        given = dict(zip(map(str, range(len(header))), header, strict=True))
        header = list(given)
        # A first line that numbers its columns ("0,1,2") is a header all the same.
        if [given[column] for column in wanted if column in given] != wanted:
            again = [(number, list(given.values()))]
    places = column_places(header, wanted, lines.name)
    kept = _Kept(places, len(header), lines.name)
    kept.add(again)
    while block := lines.block():
        if not kept.add_block(block, delimiter, lines.number - len(block)):
            lines.give_back()
            block = None
            break
    if block is None:
        kept.add(_records(lines, delimiter))
    return kept.table(notes)


class _Kept:
    """The wanted columns of the records so far."""

    def __init__(self, places: dict[str, int], width: int, name: str) -> None:
        self.places, self.width, self.name = places, width, name
        self.cells: dict[str, list[str]] = {column: [] for column in places}
        self.lines = array("q")
        self.shared: dict[
            str, str
        ] = {}  # one object per distinct string: ids repeat millions of times

    def add(self, records: Iterable[Record]) -> None:
        """Add records one by one."""
        for line, fields in records:
            if len(fields) != self.width:
                raise InvalidInputError(
                    f"line {line} of {self.name} has {len(fields)} fields where the first has "
                    f"{self.width}; correct it, and quote fields that hold the delimiter."
                )
            for column, place in self.places.items():
                self.cells[column].append(self.shared.setdefault(fields[place], fields[place]))
            self.lines.append(line)

    def add_block(self, block: list[str], delimiter: str, before: int) -> bool:
        """Add lines without quotes at once, in a third of the time; False, and nothing, where one is no full record."""
        columns = _columns(block, delimiter, self.width, list(self.places.values()))
        if columns is None:
            return False
        texts = {
            name: list(map(str.strip, column))
            for name, column in zip(self.places, columns, strict=True)
        }
        # A record of which every field is empty is left out, as csv's are.
        if all("" in column for column in texts.values()) and not all(
            line.replace(delimiter, "").strip() for line in block
        ):
            return False
        for column, values in texts.items():
            self.cells[column].extend(map(self.shared.setdefault, values, values))
        self.lines.extend(range(before + 1, before + 1 + len(block)))
        return True

    def table(self, notes: tuple[str, ...]) -> Table:
        """Return the columns as arrays."""
        columns = {column: np.array(texts, dtype=object) for column, texts in self.cells.items()}
        return Table(self.name, columns, np.array(self.lines, dtype=np.int64), notes)


def _columns(
    block: list[str], delimiter: str, width: int, places: list[int]
) -> list[Sequence[str]] | None:
    """Return some columns of lines that all have as many fields; None where they have not."""
    joined = delimiter.join(block)
    counted = set(map(str.count, block, repeat(delimiter))) == {width - 1}
    # At the end of a line and the start of the next a longer delimiter could be found where none is.
    if counted and len(delimiter) == 1:
        flat = joined.split(delimiter)
        if delimiter != SPACE or flat == joined.split():
            return [flat[place::width] for place in places]
    elif delimiter != SPACE and not counted:
        return None
    split = [line.split(None if delimiter == SPACE else delimiter) for line in block]
    if set(map(len, split)) != {width}:
        return None
    return [[fields[place] for fields in split] for place in places]


def _records(lines: Lines, delimiter: str) -> Iterator[Record]:
    """Yield the line number and the stripped fields of each record; blank lines are skipped."""
    last = lines.number
    for fields in _split(lines, delimiter):
        if any(fields):
            lines.pending, last = 0, lines.number
            yield last, fields
        else:
            lines.skip_blank(last)


def _split(lines: Lines, delimiter: str) -> Iterator[list[str]]:
    if len(delimiter) > 1 or delimiter == SPACE:
        # csv has delimiters of one character, and would read two spaces as an empty field between them.
        for line in lines:
            yield _fields(line, delimiter)
        return
    # Strict, or a quote left open would swallow the rest of the file into one field.
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        for fields in reader:
            yield list(map(str.strip, fields))
    except csv.Error as error:
        raise InvalidInputError(
            f"line {lines.number} of {lines.name}: the record is malformed ({printable(str(error))}); "
            "correct its quotes and delimiters."
        ) from error
