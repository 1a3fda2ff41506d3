"""Columns in text with a delimiter: CSV, TSV and their like."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from typing import IO, Any, TypeAlias

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.files import column_places
from tribit.data.limits import BLOCK, Block, Lines
from tribit.data.sources import ColumnBuilder, Source, Table
from tribit.errors import InvalidInputError, printable

Record: TypeAlias = tuple[int, list[str]]

#: White space of any length as a delimiter.
SPACE = " "
#: Delimiters that are looked for, in this order where nothing else tells; "::" is that of MovieLens' larger files.
DELIMITERS = ("\t", ",", ";", "|", "::", SPACE)
#: Words for delimiters in messages, and on the command line.
NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": SPACE}
#: Records from which the delimiter is guessed: a header and some more, so that a mark inside a name does not decide.
SAMPLE = 20
#: Control character that replaces a delimiter of more than one byte, which pyarrow does not split at.
SEPARATOR = "\x1f"
#: White space that is not one space between two fields, in a text of ASCII.
OTHER_SPACE = ("  ", " \n", "\n ", "\t", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f")


def read(source: Source, wanted: list[str] | None, promised: Sequence[str] = DELIMITERS) -> Table:
    """Return the wanted columns, or all, as text.

    ``promised`` has the delimiters that the ending of the name stands for: the first where the text tells none, and a
    note where it tells another.
    """
    delimiter = source.delimiter
    notes: tuple[str, ...] = ()
    if delimiter is None:
        delimiter = guess_delimiter(source, wanted, promised)
        if delimiter not in promised:
            notes = (f"{source.name}: the delimiter is {delimiter_name(delimiter)} (guessed).",)
    with source.lines() as lines:
        return _collect(lines, delimiter, wanted, notes)


def header(source: Source, promised: Sequence[str]) -> list[str]:
    """Return the fields of the first record, which may be the names of the columns."""
    delimiter = source.delimiter or guess_delimiter(source, None, promised)
    with source.lines() as lines:
        return next((fields for _, fields in _records(lines, delimiter)), [])


def write(text: IO[str], arrays: dict[str, AnyArray], delimiter: str) -> None:
    """Write columns of equal length."""
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(arrays)
    writer.writerows(zip(*(values.tolist() for values in arrays.values()), strict=True))


def delimiter_name(delimiter: str) -> str:
    """Return a delimiter as a message names it."""
    return {"\t": "a tab", SPACE: "white space"}.get(delimiter, delimiter)


def guess_delimiter(source: Source, wanted: list[str] | None, promised: Sequence[str]) -> str:
    """Return the delimiter under which the first records are most like the table that is asked for.

    That is, the first line has the wanted columns; then, all have the same number of fields, two at least; then, the
    ending of the name promises it.
    """
    sample = _sample(source)
    if not sample:
        return promised[0]
    order = list(dict.fromkeys([*promised, *DELIMITERS]))
    if source.decimal == "," and "," in order:
        order.remove(",")  # between digits it is more likely a decimal mark
        order.append(",")

    def likeness(delimiter: str) -> tuple[bool, bool]:
        records = [_fields(line, delimiter) for line in sample]
        widths = {len(fields) for fields in records}
        return _has(records[0], wanted), len(widths) == 1 and widths.pop() > 1

    return max(order, key=likeness)  # the first of those that are most alike


def _sample(source: Source) -> list[str]:
    """Return the first lines that are not blank."""
    sample: list[str] = []
    with source.lines() as lines:
        for line in lines:
            if line.strip():
                sample.append(line)
                lines.end_record()
            else:
                lines.skip_blank()
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
    again: Record | None = None
    if wanted and are_places(wanted):
        given = dict(zip(map(str, range(len(header))), header, strict=True))
        header = list(given)
        # A first line that numbers its columns ("0,1,2") is a header all the same.
        if [given[column] for column in wanted if column in given] != wanted:
            again = number, list(given.values())
    kept = _Kept(column_places(header, wanted, lines.name), len(header), lines.name)
    if again is not None:
        kept.add(*again)
    lines.collect(
        lambda block: kept.add_block(block, delimiter),
        lambda: _records(lines, delimiter),
        lambda record: kept.add(*record),
    )
    return kept.table(notes)


class _Kept:
    """The wanted columns of the records so far."""

    def __init__(self, places: dict[str, int], width: int, name: str) -> None:
        self.places, self.width, self.name = places, width, name
        self.texts = {column: ColumnBuilder() for column in places}
        self.lines = array("q")

    def add(self, line: int, fields: list[str]) -> None:
        """Add a record that ends on a line."""
        if len(fields) != self.width:
            raise InvalidInputError(
                f"line {line} of {self.name} has {len(fields)} fields where the first has "
                f"{self.width}; correct it, and quote fields that hold the delimiter."
            )
        for column, place in self.places.items():
            self.texts[column].append(fields[place])
        self.lines.append(line)

    def add_block(self, block: Block, delimiter: str) -> bool:
        """Add lines at once, in a tenth of the time; False, and nothing, where one is no plain record."""
        columns = _columns(block, delimiter, self.width, list(self.places.values()))
        if columns is None:
            return False
        # A record of which every field is empty is left out, as csv's are.
        empty = np.ones(block.size, dtype=bool)
        distinct = [column.dictionary.to_pylist() for column in columns]
        for column, texts in zip(columns, distinct, strict=True):
            blank = np.array([not text or text.isspace() for text in texts])
            if not blank.any():
                break
            empty &= blank[column.indices.to_numpy()]
        else:
            if empty.any():
                return False
        for builder, column, texts in zip(self.texts.values(), columns, distinct, strict=True):
            builder.extend(builder.number(texts)[column.indices.to_numpy()])
        numbers = np.arange(block.before + 1, block.before + 1 + block.size, dtype=np.int64)
        self.lines.frombytes(numbers.tobytes())
        return True

    def table(self, notes: tuple[str, ...]) -> Table:
        """Return the columns."""
        columns = {column: texts.finish() for column, texts in self.texts.items()}
        return Table(self.name, columns, np.array(self.lines, dtype=np.int64), notes)


def _columns(block: Block, delimiter: str, width: int, places: list[int]) -> list[Any] | None:
    """Return some columns of lines as dictionary arrays of pyarrow; None where a line is no plain record.

    csv is stricter with quotes than pyarrow, so that only fields that are quoted as a whole on one line are plain.
    """
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second, which help should not wait for
    import pyarrow.csv as arrow_csv  # noqa: PLC0415

    prepared = _with_one_byte(block, delimiter)
    if prepared is None or block.text.startswith("\ufeff"):  # which pyarrow would leave out
        return None
    data, mark = prepared
    quotes = len(delimiter) == 1 and delimiter != SPACE and b'"' in data
    if quotes and not _quotes_are_plain(data, mark):
        return None
    names = list(map(str, range(width)))
    wanted = [names[place] for place in places]
    text = pa.dictionary(pa.int32(), pa.string())
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(data),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(data), column_names=names),
            arrow_csv.ParseOptions(
                delimiter=mark, quote_char='"' if quotes else False, ignore_empty_lines=False
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, text),
                strings_can_be_null=False,
                include_columns=wanted,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:  # a ragged line
        return None
    if table.num_rows != block.size:
        return None
    return [column.combine_chunks() for column in table.columns]


def _with_one_byte(block: Block, delimiter: str) -> tuple[bytes, str] | None:
    """Return lines as UTF-8 with a delimiter of one byte; None where there is no such delimiter."""
    if delimiter == SPACE:
        text = block.text
        if text.isascii() and text[0] != SPACE and not any(mark in text for mark in OTHER_SPACE):
            return block.data, SPACE
        return "\n".join(SPACE.join(line.split()) for line in text.split("\n")).encode(), SPACE
    if len(delimiter.encode()) == 1:
        return block.data, delimiter
    if SEPARATOR in block.text or (len(delimiter) == 1 and '"' in block.text):
        return None
    return block.text.replace(delimiter, SEPARATOR).encode(), SEPARATOR


def _quotes_are_plain(data: bytes, delimiter: str) -> bool:
    """Return whether each quoted field is quoted as a whole, on one line."""
    marks = np.frombuffer(data, np.uint8)
    at = np.flatnonzero(marks == ord('"'))
    ends = np.searchsorted(at, np.flatnonzero(marks == ord("\n")))
    if (ends % 2).any():
        return False
    around = np.zeros(256, dtype=bool)
    around[[ord(delimiter), ord("\n"), ord('"')]] = True
    before, after = marks[at[::2] - 1], marks[at[1::2] + 1]  # the last of all is a line end
    return bool(around[before].all() and around[after].all())


def _records(lines: Lines, delimiter: str) -> Iterator[Record]:
    """Yield the line number and the stripped fields of each record; blank lines are skipped."""
    for fields in _split(lines, delimiter):
        if any(fields):
            lines.end_record()
            yield lines.number, fields
        else:
            lines.skip_blank()


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
