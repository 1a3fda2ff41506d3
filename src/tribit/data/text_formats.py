"""Tables of text with a record on each line: delimited text (CSV, TSV and their like) and JSON lines.

pyarrow reads large blocks of plain lines; Python reads the others one by one, and its errors name the line.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.labels import MAX_EXACT_INTEGER, ColumnBuilder, number_text
from tribit.data.sources import (
    BLOCK_CHARACTERS,
    Block,
    Lines,
    Source,
    Table,
    column_places,
)
from tribit.errors import InvalidInputError, printable, quoted

if TYPE_CHECKING:
    import pyarrow as pa

Content = TypeVar("Content")
Record: TypeAlias = tuple[int, Content]
#: Codes and distinct texts of each column.
CodedColumns: TypeAlias = list[tuple[AnyArray, list[str | None]]]

#: White space of any length as a delimiter.
WHITE_SPACE = " "
#: Delimiters that are tried, in this order where all fit equally well; "::" is that of MovieLens' larger files.
DELIMITERS = ("\t", ",", ";", "|", "::", WHITE_SPACE)
#: Comma that is no decimal mark.
COMMA_BESIDE_TEXT = re.compile(r"(?<![0-9]),|,(?![0-9])")
#: Words for delimiters in messages, and on the command line.
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": WHITE_SPACE}
#: Records from which the delimiter is guessed: a header and some more, so that a mark inside a name does not decide.
SAMPLE_RECORDS = 20
#: Size from which blocks are read by pyarrow: its import takes as long as reading so many bytes by Python.
MIN_BLOCK_BYTES = 2**19
#: Control character that replaces a delimiter of more than one byte, which pyarrow does not split at.
UNIT_SEPARATOR = "\x1f"
#: White space that is not one space between two fields, in a text of ASCII.
OTHER_SPACE = ("  ", " \n", "\n ", "\t", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f")


class _TextRecords(ABC, Generic[Content]):
    """The wanted columns of the records read so far, and the line on which each record ends."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self.name = name
        self.texts = {column: ColumnBuilder() for column in columns}
        self.lines = array("q")

    @abstractmethod
    def records(self, lines: Lines) -> Iterator[Record[Content]]:
        """Yield the last line and the content of each record that is not blank."""

    @abstractmethod
    def add(self, line: int, content: Content) -> None:
        """Add a record that ends on a line."""

    @abstractmethod
    def block_columns(self, block: Block) -> CodedColumns | None:
        """Return the columns of a block; None where a line is no plain record."""

    def collect(self, lines: Lines) -> None:
        """Add the remaining lines: large blocks of plain records in a tenth of the time, others one by one."""
        left = True
        while left:
            block = lines.block()
            if block is not None:
                if len(block.data) >= MIN_BLOCK_BYTES and self._add_block(block):
                    continue
                lines.give_back()
            left = False
            for record in self.records(lines):
                self.add(*record)
                left = True
                if lines.is_block_done:
                    break

    def _add_block(self, block: Block) -> bool:
        columns = self.block_columns(block)
        if columns is None:
            return False
        for builder, (codes, texts) in zip(self.texts.values(), columns, strict=True):
            builder.extend(builder.number(texts)[codes])
        numbers = np.arange(block.before + 1, block.before + 1 + block.size, dtype=np.int64)
        self.lines.frombytes(numbers.tobytes())
        return True

    def table(self, columns: Sequence[str], notes: tuple[str, ...] = ()) -> Table:
        """Return some columns of the records."""
        found = {column: self.texts[column].finish() for column in columns}
        return Table(self.name, found, np.array(self.lines, dtype=np.int64), notes)


# Delimited text


def read_delimited(
    source: Source, wanted: list[str] | None, promised: Sequence[str] = DELIMITERS
) -> Table:
    """Return the wanted columns, or all, as text.

    ``promised`` has the delimiters of the ending of the name: the first is that of an empty text, and a note says where
    the text has another.
    """
    delimiter = source.delimiter
    notes: tuple[str, ...] = ()
    if delimiter is None:
        delimiter = guess_delimiter(source, wanted, promised)
        if delimiter not in promised:
            notes = (f"{source.name}: the delimiter is {delimiter_name(delimiter)} (guessed).",)
    with source.lines() as lines:
        return _collect(lines, delimiter, wanted, notes)


def first_record(source: Source, promised: Sequence[str]) -> list[str]:
    """Return the fields of the first record, which may be the names of the columns."""
    delimiter = source.delimiter or guess_delimiter(source, None, promised)
    with source.lines() as lines:
        return next((fields for _, fields in _delimited_records(lines, delimiter)), [])


def delimiter_name(delimiter: str) -> str:
    """Return a delimiter as a message names it."""
    return {"\t": "a tab", WHITE_SPACE: "white space"}.get(delimiter, delimiter)


def guess_delimiter(source: Source, wanted: list[str] | None, promised: Sequence[str]) -> str:
    """Return the delimiter under which the first records are most like the wanted table.

    That is, the first line has the wanted columns; then, all have the same number of fields, two at least; then, the
    ending of the name promises it.
    """
    sample = _sample(source)
    if not sample:
        return promised[0]
    order = list(dict.fromkeys([*promised, *DELIMITERS]))
    semicolons = all(";" in line for line in sample)
    within_numbers = semicolons and not any(map(COMMA_BESIDE_TEXT.search, sample))
    if (source.decimal == "," or within_numbers) and "," in order:
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
        for line in lines.filled_records():
            sample.append(line)
            if len(sample) == SAMPLE_RECORDS or sum(map(len, sample)) > BLOCK_CHARACTERS:
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
    """Return the fields of one line alone."""
    if delimiter == WHITE_SPACE:
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
    first = next(_delimited_records(lines, delimiter), None)
    if first is None:
        raise InvalidInputError(f"{lines.name} is empty; give it at least one record.")
    number, header = first
    again: list[str] | None = None
    if wanted and are_places(wanted):
        given = dict(zip(map(str, range(len(header))), header, strict=True))
        header = list(given)
        # A first line that numbers its columns ("0,1,2") is a header all the same.
        if [given[column] for column in wanted if column in given] != wanted:
            again = list(given.values())
    places = column_places(header, wanted, lines.name)
    records = _DelimitedRecords(lines.name, places, len(header), delimiter)
    if again is not None:
        records.add(number, again)
    records.collect(lines)
    return records.table(list(places), notes)


class _DelimitedRecords(_TextRecords[list[str]]):
    """Records of delimited text; ``places`` has the wanted columns, ``width`` is the number of fields."""

    def __init__(self, name: str, places: dict[str, int], width: int, delimiter: str) -> None:
        super().__init__(name, list(places))
        self.places, self.width, self.delimiter = places, width, delimiter

    def records(self, lines: Lines) -> Iterator[Record[list[str]]]:
        return _delimited_records(lines, self.delimiter)

    def add(self, line: int, content: list[str]) -> None:
        if len(content) != self.width:
            raise InvalidInputError(
                f"line {line} of {self.name} has {len(content)} fields where the first has "
                f"{self.width}; correct it, and quote fields that hold the delimiter."
            )
        for column, place in self.places.items():
            self.texts[column].append(content[place])
        self.lines.append(line)

    def block_columns(self, block: Block) -> CodedColumns | None:
        found = _delimited_columns(block, self.delimiter, self.width, list(self.places.values()))
        if found is None:
            return None
        columns = [(column.indices.to_numpy(), column.dictionary.to_pylist()) for column in found]
        # A record without any text is left out, as csv's are: the lines are then read one by one.
        empty = np.ones(block.size, dtype=bool)
        for codes, texts in columns:
            blank = np.array([not text or text.isspace() for text in texts])
            if not blank.any():
                return columns
            empty &= blank[codes]
        return None if empty.any() else columns


def _delimited_columns(
    block: Block, delimiter: str, width: int, places: list[int]
) -> list[pa.DictionaryArray] | None:
    """Return some columns of lines as dictionary arrays of pyarrow; None where a line is no plain record.

    csv is stricter with quotes than pyarrow, so that only fields that are quoted as a whole on one line are plain.
    """
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second, which help should not wait for
    import pyarrow.csv as arrow_csv  # noqa: PLC0415

    prepared = _with_one_byte(block, delimiter)
    if prepared is None or block.text.startswith("\ufeff"):  # which pyarrow would leave out
        return None
    data, mark = prepared
    quotes = len(delimiter) == 1 and delimiter != WHITE_SPACE and b'"' in data
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
    if delimiter == WHITE_SPACE:
        text = block.text
        if (
            text.isascii()
            and text[0] != WHITE_SPACE
            and not any(mark in text for mark in OTHER_SPACE)
        ):
            return block.data, WHITE_SPACE
        return "\n".join(
            WHITE_SPACE.join(line.split()) for line in text.split("\n")
        ).encode(), WHITE_SPACE
    if len(delimiter.encode()) == 1:
        return block.data, delimiter
    if UNIT_SEPARATOR in block.text or (len(delimiter) == 1 and '"' in block.text):
        return None
    return block.text.replace(delimiter, UNIT_SEPARATOR).encode(), UNIT_SEPARATOR


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


def _delimited_records(lines: Lines, delimiter: str) -> Iterator[Record[list[str]]]:
    """Yield the line number and the stripped fields of each record; blank lines are skipped."""
    for fields in _split(lines, delimiter):
        if any(fields):
            lines.end_record()
            yield lines.number, fields
        else:
            lines.skip_blank()


def _split(lines: Lines, delimiter: str) -> Iterator[list[str]]:
    if len(delimiter) > 1 or delimiter == WHITE_SPACE:
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


# JSON lines


def read_json_lines(source: Source, wanted: list[str] | None) -> Table:
    """Return the wanted columns, or all, as text; a value that is null or missing is empty."""
    records = _JsonRecords(source.name, wanted)
    with source.lines() as lines:
        records.collect(lines)
    if not records.lines:
        raise InvalidInputError(f"{source.name} is empty; give it at least one record.")
    return records.table(list(column_places(list(records.keys), wanted, source.name)))


class _JsonRecords(_TextRecords[str]):
    """Records of JSON lines, and the keys found so far, in order."""

    def __init__(self, name: str, wanted: list[str] | None) -> None:
        super().__init__(name, wanted or ())
        self.wanted = wanted
        self.keys: dict[str, None] = {}

    def records(self, lines: Lines) -> Iterator[Record[str]]:
        return ((lines.number, line) for line in lines.filled_records())

    def add(self, line: int, content: str) -> None:
        where = f"line {line} of {self.name}"
        record = _parse_record(content, where)
        self.keys.update(dict.fromkeys(record))
        if self.wanted is None:
            for column in record.keys() - self.texts.keys():
                self.texts[column] = builder = ColumnBuilder()
                builder.extend(np.repeat(builder.number([""]), len(self.lines)))
        for column, texts in self.texts.items():
            texts.append(_value_text(record.get(column), column, where))
        self.lines.append(line)

    def block_columns(self, block: Block) -> CodedColumns | None:
        found = _json_columns(block, self.wanted)
        if found is None:
            return None
        self.keys.update(dict.fromkeys(self.texts))
        columns: CodedColumns = []
        for column, values in zip(self.texts, found, strict=True):
            distinct = values.dictionary.to_pylist()
            texts = [_value_text(value, column, self.name) for value in distinct]
            codes = values.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
            columns.append((codes, [*texts, None]))
        return columns


def _json_columns(block: Block, wanted: list[str] | None) -> list[pa.DictionaryArray] | None:
    """Return some columns of lines as dictionary arrays of pyarrow; None where it may not read them as Python does."""
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second, which help should not wait for
    import pyarrow.json as arrow_json  # noqa: PLC0415

    # With these marks no object goes on over two lines, so that as many objects as lines are one on each.
    data = block.data
    if not wanted or not data.startswith(b"{") or data.count(b"}\n{") != block.size - 1:
        return None
    kinds = {str: pa.string(), bool: pa.bool_(), int: pa.float64(), float: pa.float64()}
    try:
        first = json.loads(data[: data.index(b"\n")])
        schema = pa.schema([(column, kinds[type(first.get(column))]) for column in wanted])
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data)),
            arrow_json.ParseOptions(schema, unexpected_field_behavior="ignore"),
        )
    except (
        pa.ArrowException,
        ValueError,
        RecursionError,
        KeyError,
    ):  # KeyError: another kind of value
        return None
    columns = [table.column(column).combine_chunks() for column in wanted]
    if table.num_rows != block.size or not all(map(_is_exact, columns)):
        return None
    return [column.dictionary_encode() for column in columns]


def _is_exact(column: pa.Array) -> bool:
    """Return whether all values of a column are as Python reads them: a large whole number may not be a float."""
    if str(column.type) != "double":
        return bool(column.null_count < len(column))
    values = np.abs(column.to_numpy(zero_copy_only=False))
    return bool(
        np.count_nonzero(values <= MAX_EXACT_INTEGER) == len(column) - column.null_count > 0
    )


def _parse_record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    # RecursionError: ten thousand brackets; ValueError: no JSON, or a number of too many digits.
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{where}: the record is no JSON ({printable(str(error))}); write one object on each line, such as "
            '{"user": "u1", "item": "i7", "rating": 4}.'
        ) from error
    if not isinstance(record, dict):
        raise InvalidInputError(
            f"{where}: the record is {_json_type(record)} and not an object; write one object on each line, such as "
            """{"user": "u1", "item": "i7", "rating": 4}, of an array with: jq -c '.[]' table.json > table.jsonl."""
        )
    return record


def _value_text(value: object, column: str, where: str) -> str:
    """Return a value as a CSV file would have it."""
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number_text(value)
    raise InvalidInputError(
        f"{where}: {quoted(column)} holds {_json_type(value)}; choose a column of texts, numbers or booleans."
    )


def _json_type(value: object) -> str:
    kinds = {list: "a list", dict: "an object", str: "a text", type(None): "null"}
    return kinds.get(type(value), "a number or boolean")
