"""Sources of tables: a file or standard input, how it is packed and encoded, and the columns that were read of it."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import tempfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tribit.data.axis import AnyArray, Positions
from tribit.data.files import checked_path
from tribit.data.limits import LARGEST, RECORD, Lines, byte_limit, check_size
from tribit.errors import InvalidInputError, parameter, printable, quoted

PathLike: TypeAlias = str | os.PathLike[str]
LineNumbers: TypeAlias = npt.NDArray[np.int64] | None

#: Path of standard input and output.
STANDARD = "-"
#: Marks at the start of a text that tell its encoding. The longer ones first: one of UTF-32 begins with one of UTF-16.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
#: First bytes of what gzip wrote.
GZIPPED = b"\x1f\x8b"
#: Whole numbers up to here are floats without loss.
EXACT = 2.0**53
#: Bytes of standard input that are copied at a time.
CHUNK = 2**20


class TextColumn:
    """A column of texts: the distinct ones in order of first appearance, and the number of that of each record.

    It reads as an array of str. Whatever depends on the text alone is done once for each distinct text.
    """

    __slots__ = ("codes", "distinct")
    codes: Positions
    distinct: AnyArray

    def __init__(self, codes: AnyArray, distinct: Iterable[str]) -> None:
        texts = np.array(list(distinct), dtype=object)
        first = np.full(texts.size, codes.size)
        first[codes[::-1]] = np.arange(codes.size)[::-1]
        self.codes, self.distinct = codes.astype(np.int64, copy=False), texts
        if texts.size and (first[-1] == codes.size or (first[1:] <= first[:-1]).any()):
            order = np.argsort(first, kind="stable")
            order = order[: np.count_nonzero(first < codes.size)]
            number = np.empty(texts.size, dtype=np.int64)
            number[order] = np.arange(order.size)
            self.codes, self.distinct = number[codes], texts[order]

    @classmethod
    def of(cls, texts: TextColumn | Iterable[str]) -> TextColumn:
        """Return a column as it is, or the column of an array or a list of str."""
        if isinstance(texts, TextColumn):
            return texts
        column = ColumnBuilder()
        for text in texts:
            column.append(text)
        return column.finish()

    @property
    def size(self) -> int:
        """Number of records."""
        return self.codes.size

    @property
    def counts(self) -> Positions:
        """Number of records of each distinct text."""
        return np.bincount(self.codes, minlength=self.distinct.size)

    def take(self, places: AnyArray) -> TextColumn:
        """Return the texts at some positions."""
        return TextColumn(self.codes[places], self.distinct)

    def spread(self, values: Sequence[Any], dtype: npt.DTypeLike) -> AnyArray:
        """Return the value of each record, given one for each distinct text."""
        return np.array(values, dtype=dtype)[self.codes]

    def first(self, wrong: Sequence[bool]) -> int:
        """Return the first record of a text that is wrong, one of which is."""
        return int(np.argmax(self.codes == int(np.argmax(wrong))))

    def tolist(self) -> list[str]:
        """Return the texts."""
        return cast("list[str]", self.distinct[self.codes].tolist())

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __getitem__(self, place: Any) -> Any:
        return self.distinct[self.codes[place]]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        texts = self.distinct[self.codes]
        return texts if dtype is None else texts.astype(dtype)


class ColumnBuilder:
    """The texts of a column so far, stripped of white space around them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._parts: list[AnyArray] = []
        self._single = array("q")

    def append(self, text: str) -> None:
        """Add a text, which has no white space around it."""
        self._single.append(self.numbers.setdefault(text, len(self.numbers)))

    def number(self, distinct: Iterable[str | None]) -> Positions:
        """Return the numbers of some texts, which need not be stripped; what is missing is empty."""
        numbers = self.numbers
        stripped = [text.strip() if text else "" for text in distinct]
        return np.array([numbers.setdefault(text, len(numbers)) for text in stripped], np.int64)

    def extend(self, numbers: AnyArray) -> None:
        """Add many texts by their numbers."""
        self._parts += [np.array(self._single, dtype=np.int64), numbers]
        self._single = array("q")

    def finish(self) -> TextColumn:
        """Return the column."""
        self.extend(np.empty(0, dtype=np.int64))
        return TextColumn(np.concatenate(self._parts), self.numbers)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of text read from a file, the line on which each record ends if the format has lines, and what to tell.

    ``columns`` may be given as arrays of str. ``notes`` has a sentence for each thing that was guessed.
    """

    name: str
    columns: Mapping[str, TextColumn]
    lines: LineNumbers = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = {name: TextColumn.of(texts) for name, texts in self.columns.items()}
        object.__setattr__(self, "columns", columns)

    def where(self, position: int) -> str:
        """Say where a record stands in the file."""
        if self.lines is None:
            return f"row {position} of {self.name}"
        return f"line {self.lines[position]} of {self.name}"

    def ids(self, column: str) -> AnyArray:
        """Return a column of ids, none of them empty."""
        ids = self.columns[column]
        empty = [text == "" for text in ids.distinct]
        if any(empty):
            raise InvalidInputError(
                f"{self.where(ids.first(empty))}: the id in column {quoted(column)} is empty; "
                "fill it in or remove the record."
            )
        return np.asarray(ids)

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """Return a column as floats."""
        texts = self.columns[column]
        wrong = [not reads_as_number(text) for text in texts.distinct]
        if any(wrong):
            position = texts.first(wrong)
            raise InvalidInputError(
                f"{self.where(position)}: the value {quoted(texts[position])} in column "
                f"{quoted(column)} is not a number; correct it, or choose another "
                f"{parameter('value')} column."
            )
        return texts.spread([float(text) for text in texts.distinct], np.float64)


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read a table from: its path, what messages call it, and how much of it is read.

    Parameters
    ----------
    path : Path
        The file; for standard input a copy.
    name : str
        What messages call it.
    gzipped : bool
        Whether it has to be unpacked.
    limit : int
        The most bytes to read, counted when unpacked.
    least : int
        The bytes that a line counts for at least.
    delimiter, encoding : str, optional
        Those of a text; told by the text without.
    decimal : str
        The decimal mark of its numbers.
    """

    path: Path
    name: str
    gzipped: bool
    limit: int
    least: int = 0
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."

    @contextmanager
    def lines(self) -> Iterator[Lines]:
        """Open the lines of a text, limited; what cannot be read or decoded is told in one sentence."""
        if not self.gzipped:  # known before it is read
            check_size(self.path.stat().st_size, self.limit, self.name)
        try:
            with self._binary() as raw:
                encoding = self.encoding or _told_encoding(raw)
                # The line ends as they are: csv has its own rules for those inside quotes.
                with io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
                    yield Lines(text, self.name, self.limit, self.least)
        except UnicodeError as error:
            raise InvalidInputError(self._undecodable(error)) from error
        except (EOFError, zlib.error, OSError) as error:
            raise InvalidInputError(
                f"{self.name} could not be read ({printable(str(error))}); "
                "check that it is complete and readable."
            ) from error

    @contextmanager
    def _binary(self) -> Iterator[BinaryIO]:
        with self.path.open("rb") as raw:
            if not self.gzipped:
                yield raw
                return
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield cast(BinaryIO, unpacked)

    def _undecodable(self, error: UnicodeError) -> str:
        near = ""
        if isinstance(error, UnicodeDecodeError):
            near = f", near byte {error.object[error.start]:#04x}"
        if self.encoding is None:
            advice = f"save it as UTF-8, or say what it is with {parameter('encoding')} (latin-1 or cp1252, say)"
        else:
            advice = f"correct {parameter('encoding')}, or leave it out for UTF-8"
        return f"{self.name} is not {_shown(self.encoding)} text{near}; {advice}."


@contextmanager
def located(path: PathLike, max_size: int | None) -> Iterator[tuple[Path, str, int]]:
    """Yield a file that is there, what messages call it, and the most bytes to read; standard input is copied first."""
    if not is_standard(path):
        source = existing(path)
        yield source, printable(source.name), byte_limit(source.stat().st_size, max_size)
        return
    name = "standard input"
    most = LARGEST if max_size is None else byte_limit(0, max_size)
    with tempfile.TemporaryDirectory(prefix="tribit-") as folder:
        copy = Path(folder) / "input"
        size = 0
        with copy.open("wb") as file:
            while chunk := sys.stdin.buffer.read(CHUNK):
                size += len(chunk)
                check_size(size, most, name)
                file.write(chunk)
        yield copy, name, byte_limit(size, max_size)


def is_standard(path: object) -> bool:
    """Return whether a path stands for standard input or output."""
    return isinstance(path, str | os.PathLike) and os.fspath(path) == STANDARD


def existing(path: PathLike) -> Path:
    """Return the path of a file that is there, or say why it cannot be read."""
    source = checked_path(path)
    if not source.exists():
        raise InvalidInputError(f"There is no file {quoted(os.fspath(path))}; check the path.")
    if not source.is_file():
        raise InvalidInputError(f"{quoted(os.fspath(path))} is not a file; name a file.")
    return source


def least_bytes(max_size: int | None) -> int:
    """Return the bytes that a line counts for at least: what its record takes, unless a limit was asked for."""
    return RECORD if max_size is None else 0


def number_text(number: float) -> str:
    """Return a number as text, so that 7.0 and 7 are one id."""
    if isinstance(number, float) and number.is_integer() and abs(number) <= EXACT:
        number = int(number)
    return repr(number)


def reads_as_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _told_encoding(raw: BinaryIO) -> str:
    """Return the encoding that the mark before a text tells; without one, or with that of UTF-8, it is UTF-8."""
    start = raw.peek(4)[:4]  # type: ignore[attr-defined]  # buffered and gzipped files have it
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), "utf-8-sig")


def _shown(encoding: str | None) -> str:
    return "UTF-8" if encoding is None else printable(encoding)
