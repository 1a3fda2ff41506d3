"""Columns of text read from files: the file or standard input, its lines, limits of size, and the columns.

A small file can unpack to more than any memory holds. Reading is limited by the size of the file, so that a harmful
table is refused in a sentence; ``max_size`` (``--max-size``) raises the limit for a table that is known.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tribit.checks import check_count
from tribit.data.files import checked_path
from tribit.data.labels import TextColumn
from tribit.errors import InvalidInputError, listed, parameter, printable, quoted

PathLike: TypeAlias = str | os.PathLike[str]
LineNumbers: TypeAlias = npt.NDArray[np.int64] | None

#: Path of standard input and output.
STANDARD = "-"
#: Encoding by the mark at the start of a text. The longer marks first: one of UTF-32 begins with one of UTF-16.
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
#: First bytes of a gzip file.
GZIP_START = b"\x1f\x8b"
#: Bytes of standard input copied at a time.
COPY_BYTES = 2**20
#: Default limit of the bytes of a table: 4 GiB, some 100 million ratings.
MAX_BYTES = 2**32
#: Largest ratio of unpacked to packed size. Tables of ratings have 3 to 10 with gzip, very repetitive ones 20 to 50,
#: and files made to fill a memory 1,032, the maximum of gzip.
MAX_UNPACKED_RATIO = 200
#: Bytes that any file may unpack to: the ids of a tiny table may well repeat.
MIN_BYTE_LIMIT = 2**25
#: Bytes counted for a short line by default: the memory that its record takes.
MIN_LINE_BYTES = 40
#: Characters of a record of one or several lines: a header of a million columns has some ten million.
MAX_RECORD_CHARACTERS = 2**24
#: Blank lines in a row.
MAX_BLANK_LINES = 2**20
#: Characters of a block of lines: enough that the cost of a block is negligible, few beside the memory of a table.
BLOCK_CHARACTERS = 2**22
#: Characters of a field of text, as the csv module has it.
MAX_FIELD_CHARACTERS = 2**17
NEWLINE = ord("\n")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of text read from a file, and the line on which each record ends if the format has lines.

    ``columns`` may be given as arrays of str. ``notes`` has a sentence for each guess.
    """

    name: str
    columns: Mapping[str, TextColumn]
    lines: LineNumbers = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = {name: TextColumn.of(texts) for name, texts in self.columns.items()}
        object.__setattr__(self, "columns", columns)

    def where(self, position: int) -> str:
        """Return the place of a record in the file, for messages."""
        if self.lines is None:
            return f"row {position} of {self.name}"
        return f"line {self.lines[position]} of {self.name}"


def column_place(header: list[str], column: str, name: str) -> int:
    """Return where the file called ``name`` has a column, which must be there once."""
    if header.count(column) != 1:
        problem = "has two columns" if column in header else "has no column"
        raise InvalidInputError(
            f"{name} {problem} {quoted(column)}; choose one of its columns: {listed(header)}."
        )
    return header.index(column)


def column_places(header: list[str], wanted: list[str] | None, name: str) -> dict[str, int]:
    """Return where the file called ``name`` has the wanted columns, or all; each must be there once."""
    if wanted:
        return {column: column_place(header, column, name) for column in wanted}
    places = {column: place for place, column in enumerate(header)}
    # With a name twice, the place of its first is not the one that was kept.
    for place, column in enumerate(header):
        if places[column] != place:
            column_place(header, column, name)
    return places


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read a table from, with its name in messages and its limits.

    Parameters
    ----------
    path : Path
        The file; for standard input a copy.
    name : str
        Its name in messages.
    gzipped : bool
        Whether it has to be unpacked.
    limit : int
        The most bytes to read, counted when unpacked.
    min_line_bytes : int
        Bytes counted for a shorter line.
    delimiter, encoding : str, optional
        Those of a text; guessed by default.
    decimal : str
        The decimal mark of its numbers.
    """

    path: Path
    name: str
    gzipped: bool
    limit: int
    min_line_bytes: int = 0
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."

    @contextmanager
    def lines(self) -> Iterator[Lines]:
        """Open the lines of a text, limited; a text that cannot be read or decoded is an error of one sentence."""
        if not self.gzipped:  # known before it is read
            check_size(self.path.stat().st_size, self.limit, self.name)
        try:
            with self._binary() as raw:
                encoding = self.encoding or _encoding_by_mark(raw)
                # The line ends as they are: csv has its own rules for those inside quotes.
                with io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
                    yield Lines(text, self.name, self.limit, self.min_line_bytes)
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
            advice = (
                f"save it as UTF-8, or give its {parameter('encoding')} (latin-1 or cp1252, say)"
            )
        else:
            advice = f"correct {parameter('encoding')}, or leave it out for UTF-8"
        encoding = "UTF-8" if self.encoding is None else printable(self.encoding)
        return f"{self.name} is not {encoding} text{near}; {advice}."


@contextmanager
def local_copy(path: PathLike, max_size: int | None) -> Iterator[tuple[Path, str, int]]:
    """Yield the path, the name in messages and the limit of bytes of a file; standard input is copied first."""
    if not is_standard(path):
        source = existing_file(path)
        yield source, printable(source.name), byte_limit(source.stat().st_size, max_size)
        return
    name = "standard input"
    most = MAX_BYTES if max_size is None else byte_limit(0, max_size)
    with tempfile.TemporaryDirectory(prefix="tribit-") as folder:
        copy = Path(folder) / "input"
        size = 0
        with copy.open("wb") as file:
            while chunk := sys.stdin.buffer.read(COPY_BYTES):
                size += len(chunk)
                check_size(size, most, name)
                file.write(chunk)
        yield copy, name, byte_limit(size, max_size)


def is_standard(path: object) -> bool:
    """Return whether a path stands for standard input or output."""
    return isinstance(path, str | os.PathLike) and os.fspath(path) == STANDARD


def existing_file(path: PathLike) -> Path:
    """Return the path of a file that is there, or say why it cannot be read."""
    source = checked_path(path)
    if not source.exists():
        raise InvalidInputError(f"There is no file {quoted(os.fspath(path))}; check the path.")
    if not source.is_file():
        raise InvalidInputError(f"{quoted(os.fspath(path))} is not a file; name a file.")
    return source


def _encoding_by_mark(raw: BinaryIO) -> str:
    """Return the encoding of the byte order mark before a text; UTF-8 without one."""
    start = raw.peek(4)[:4]  # type: ignore[attr-defined]  # buffered and gzipped files have it
    return next(
        (name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), "utf-8"
    )


def byte_limit(packed: int, max_size: int | None) -> int:
    """Return how many bytes a file of ``packed`` bytes may unpack to."""
    if max_size is None:
        return min(MAX_BYTES, max(MIN_BYTE_LIMIT, MAX_UNPACKED_RATIO * packed))
    return check_count("max_size", max_size)


def check_size(size: int, limit: int, name: str) -> None:
    """Raise an error where a file holds more bytes than its limit."""
    if size > limit:
        raise InvalidInputError(
            f"{name} holds more than {size_in_units(limit)} when unpacked; if it is what you expect, raise the limit "
            f"(in bytes) with {parameter('max_size')}."
        )


def size_in_units(size: int) -> str:
    """Return a number of bytes in the largest unit that is no larger.

    Examples
    --------
    >>> size_in_units(2**32), size_in_units(3 * 2**19), size_in_units(10)
    ('4 GiB', '1.5 MiB', '10 bytes')
    """
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 2**power:
            return f"{size / 2**power:.4g} {unit}"
    return f"{size} bytes"


class Block(NamedTuple):
    r"""Many lines at once: their text, in which each ends in ``\n``, as str and as UTF-8.

    ``size`` is the number of lines, ``before`` that of the lines before them.
    """

    text: str
    data: bytes
    size: int
    before: int


class Lines:
    """The lines of a text, limited in length, and in number by ``limit`` bytes of UTF-8.

    A line counts for ``min_line_bytes`` at least. A reader calls :meth:`end_record` after each record, so that a record
    of many lines is limited too.
    """

    def __init__(self, text: TextIO, name: str, limit: int | None, min_line_bytes: int = 0) -> None:
        self.text, self.name, self.limit = text, name, limit
        self.min_line_bytes = min_line_bytes
        self.number = 0
        self.pending = 0
        self._last = 0
        self._size = 0
        self._before = 0, 0, ""  # bytes and lines before the last block, and its text
        self._again = io.StringIO()
        self._n_again = 0

    def __iter__(self) -> Iterator[str]:
        # By length: a plain loop would hold a line of any length before it is checked.
        again = iter(partial(self._again.readline, MAX_RECORD_CHARACTERS + 1), "")
        for line in chain(again, iter(partial(self.text.readline, MAX_RECORD_CHARACTERS + 1), "")):
            self.number += 1
            self.pending += len(line)
            if self.pending > MAX_RECORD_CHARACTERS:
                raise InvalidInputError(
                    f"line {self.number} of {self.name}: the record has more than {MAX_RECORD_CHARACTERS} characters; "
                    "check that the file is a table of text with a record on each line."
                )
            self._count(max(self.min_line_bytes, _utf8_size(line)))
            yield line

    def block(self) -> Block | None:
        r"""Return many lines at once; None at the end, and where they must be read one by one, by iteration.

        That is where a line is very long or empty, ends in a bare ``\r`` or has half of a surrogate pair.
        """
        text = self.text.read(BLOCK_CHARACTERS)
        text += self.text.readline(MAX_RECORD_CHARACTERS + 1)
        self._before = self._size, self.number, text
        plain = text.replace("\r\n", "\n") if "\r" in text else text
        plain = plain if plain.endswith("\n") else plain + "\n"
        data = plain.encode(errors="replace")
        lengths = line_lengths(data)
        odd = "\r" in plain or _has_surrogates(plain)
        if odd or int(lengths.min()) < 2 or int(lengths.max()) > MAX_FIELD_CHARACTERS:
            self.give_back()
            return None
        if self.min_line_bytes:
            self._count(int(np.maximum(lengths + ("\r" in text), self.min_line_bytes).sum()))
        else:
            self._count(_utf8_size(text))
        self.number += lengths.size
        self.end_record()
        return Block(plain, data, lengths.size, self.number - lengths.size)

    def give_back(self) -> None:
        """Let the next iteration begin with the lines of the last block."""
        self._size, self.number, text = self._before
        self._again, self._n_again = io.StringIO(text, newline=""), len(text)

    @property
    def is_block_done(self) -> bool:
        """Whether iteration is past the lines of the last block."""
        return self._again.tell() >= self._n_again

    def _count(self, size: int) -> None:
        self._size += size
        if self.limit is not None:
            check_size(self._size, self.limit, self.name)

    def end_record(self) -> None:
        """Begin to count the characters of the next record, and the blank lines before it."""
        self.pending, self._last = 0, self.number

    def skip_blank(self) -> None:
        """Go on after a blank line."""
        self.pending = 0
        if self.number - self._last > MAX_BLANK_LINES:
            raise InvalidInputError(
                f"{self.name} has {MAX_BLANK_LINES} blank lines after line {self._last}; remove them, or check that it "
                "is a table."
            )

    def records(self) -> Iterator[str]:
        """Yield the lines where each is a record."""
        for line in self:
            self.end_record()
            yield line

    def filled_records(self) -> Iterator[str]:
        """Yield the lines that are not blank, where each is a record."""
        for line in self:
            if line.strip():
                self.end_record()
                yield line
            else:
                self.skip_blank()


def line_lengths(data: bytes) -> npt.NDArray[np.int64]:
    r"""Return the bytes of each line, its ``\n`` included."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE)
    return np.diff(ends, prepend=-1)


def _has_surrogates(text: str) -> bool:
    """Return whether a text has half of a surrogate pair, which some encodings allow and UTF-8 does not."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
