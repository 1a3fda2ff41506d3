"""Limits of reading: bytes of a file when unpacked, and characters of a line.

A small file can unpack to more than any memory holds. What is read of one is limited by its own size, so that a table
someone sent can be refused in a sentence; whoever knows the table raises the limit (``max_size``, ``--max-size``).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple, TextIO, TypeVar

import numpy as np
import numpy.typing as npt

from tribit.checks import check_count
from tribit.errors import InvalidInputError, parameter

#: Bytes read of a table when nothing else is said: 4 GiB, some 100 million ratings.
LARGEST = 2**32
#: Times its own size that a file may unpack to. Tables of ratings reach 3 to 10 with gzip, and very repetitive ones 20
#: to 50; gzip cannot do more than 1,032, which is what files made to fill a memory reach.
RATIO = 200
#: Bytes that any file may unpack to: the ratio of a small file says little, as the ids of a tiny table may well repeat.
FLOOR = 2**25
#: Bytes that a line counts for at least where no limit is given: so much its record takes in memory, however short.
RECORD = 40
#: Characters of a line, and of a record of several lines: a header of a million columns has some ten million.
LINE = 2**24
#: Blank lines in a row.
BLANK = 2**20
#: Characters that are read at a time where lines are taken many at once: enough that the cost of a block does not show,
#: few beside what a table takes in memory.
BLOCK = 2**22
#: Characters of a field of text, as the csv module has it.
FIELD = 2**17
NEWLINE = ord("\n")

T = TypeVar("T")


def byte_limit(packed: int, max_size: int | None) -> int:
    """Return how many bytes a file of ``packed`` bytes may unpack to."""
    if max_size is None:
        return min(LARGEST, max(FLOOR, RATIO * packed))
    return check_count("max_size", max_size)


def check_size(size: int, limit: int, name: str) -> None:
    """Refuse a file that holds more bytes than are to be read."""
    if size > limit:
        raise InvalidInputError(
            f"{name} holds more than {in_units(limit)} when unpacked; if it is what you expect, raise the limit "
            f"(in bytes) with {parameter('max_size')}."
        )


def in_units(size: int) -> str:
    """Return a number of bytes in the largest unit of which it is at least one.

    Examples
    --------
    >>> in_units(2**32), in_units(3 * 2**19), in_units(10)
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
    """The lines of a text, of which neither one line nor the whole (``limit`` bytes of UTF-8) may be too long.

    A line counts for ``least`` bytes at least. Whoever reads says where a record ends: characters since then are
    counted, so that a record of many lines is limited too.
    """

    def __init__(self, text: TextIO, name: str, limit: int | None, least: int = 0) -> None:
        self.text, self.name, self.limit, self.least = text, name, limit, least
        self.number = 0
        self.pending = 0
        self._last = 0
        self._size = 0
        self._taken = 0, 0, ""  # what was read before the last block, and its text
        self._again = io.StringIO()
        self._n_again = 0

    def __iter__(self) -> Iterator[str]:
        # Asked for by length: a plain loop would hold a line of any length before it is seen.
        again = iter(partial(self._again.readline, LINE + 1), "")
        for line in chain(again, iter(partial(self.text.readline, LINE + 1), "")):
            self.number += 1
            self.pending += len(line)
            if self.pending > LINE:
                raise InvalidInputError(
                    f"line {self.number} of {self.name}: the record has more than {LINE} characters; "
                    "check that the file is a table of text with a record on each line."
                )
            self._count(max(self.least, _n_bytes(line)))
            yield line

    def block(self) -> Block | None:
        r"""Return many lines at once; None at the end, and where they need a closer look: iteration goes on with them.

        They do where a line is very long or empty, ends in a bare ``\r`` or has half of a surrogate pair.
        """
        text = self.text.read(BLOCK)
        text += self.text.readline(LINE + 1)
        self._taken = self._size, self.number, text
        plain = text.replace("\r\n", "\n") if "\r" in text else text
        plain = plain if plain.endswith("\n") else plain + "\n"
        data = plain.encode(errors="replace")
        lengths = line_lengths(data)
        odd = "\r" in plain or _has_surrogates(plain)
        if odd or int(lengths.min()) < 2 or int(lengths.max()) > FIELD:
            self.give_back()
            return None
        if self.least:
            self._count(int(np.maximum(lengths + ("\r" in text), self.least).sum()))
        else:
            self._count(_n_bytes(text))
        self.number += lengths.size
        self.end_record()
        return Block(plain, data, lengths.size, self.number - lengths.size)

    def give_back(self) -> None:
        """Let the next iteration begin with the lines of the last block."""
        self._size, self.number, text = self._taken
        self._again, self._n_again = io.StringIO(text, newline=""), len(text)

    def collect(
        self,
        add_block: Callable[[Block], bool],
        records: Callable[[], Iterator[T]],
        add: Callable[[T], None],
    ) -> None:
        """Hand over the lines that are left: blocks, and the records of blocks that are not taken one by one."""
        left = True
        while left:
            block = self.block()
            if block is not None:
                if add_block(block):
                    continue
                self.give_back()
            left = False
            for record in records():
                add(record)
                left = True
                if self._again.tell() >= self._n_again:
                    break

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
        if self.number - self._last > BLANK:
            raise InvalidInputError(
                f"{self.name} has {BLANK} blank lines after line {self._last}; remove them, or check that it is a "
                "table."
            )

    def records(self) -> Iterator[str]:
        """Yield the lines where each is a record."""
        for line in self:
            self.end_record()
            yield line


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


def _n_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
