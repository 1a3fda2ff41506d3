"""Files of ratings as their publishers lay them out, in a folder or in a .zip; errors name the line."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.data.sources import Lines, byte_limit, column_place, size_in_units
from tribit.errors import InvalidInputError, printable, quoted

PathLike: TypeAlias = str | os.PathLike[str]
Whole: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

COLUMNS = ("user", "item", "rating", "timestamp")
RECORD = np.dtype(
    [("user", np.int64), ("item", np.int64), ("rating", np.float64), ("timestamp", np.int64)]
)


class Scale(NamedTuple):
    """The ratings there are: ``low`` to ``high`` by ``step``."""

    low: float
    high: float
    step: float

    def has(self, ratings: Any) -> Any:
        """Say which are on the scale; NaN is not."""
        return (ratings >= self.low) & (ratings <= self.high) & (ratings % self.step == 0)


class RatingFormat(NamedTuple):
    """Format of a file of ratings; without a header its columns are user, item, rating, timestamp."""

    file: str
    delimiter: str
    header: tuple[str, str, str, str] | None
    scale: Scale


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file on disk, or in a .zip on disk."""

    path: Path
    member: str | None = None

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        name = printable(self.path.name)
        return name if self.member is None else f"{printable(self.member)} in {name}"

    @contextmanager
    def open(self) -> Iterator[Iterator[str]]:
        """Open the lines of the text; what cannot be read or unpacked is told in one sentence."""
        try:
            if self.member is None:
                # Bytes that are no text become a mark, which the line's check refuses.
                with self.path.open(encoding="utf-8-sig", errors="replace") as text:
                    yield Lines(text, self.name, None).records()
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as raw:
                    member = archive.getinfo(self.member)
                    if member.file_size > byte_limit(member.compress_size, None):
                        raise InvalidInputError(
                            f"{self.name} would unpack to {size_in_units(member.file_size)}, more than any ratings do; "
                            "get it again."
                        )
                    text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace")
                    yield Lines(text, self.name, None).records()
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise InvalidInputError(
                f"{self.name} could not be read ({printable(str(error))}); it is damaged or closed to you: "
                "get it again."
            ) from error

    def triplets(self) -> tuple[Whole, Whole, Whole, tuple[int, int]]:
        """Read a line of sizes (rows, columns, entries), then a row, a column and +1 or -1 on each."""

        def check(fields: list[str]) -> str | None:
            row, column, label = (int(field) for field in fields)
            if not (0 <= row < n_rows and 0 <= column < n_columns):
                return f"row {row}, column {column} is outside the {n_rows} x {n_columns} of line 1"
            return None if label in (-1, 1) else f"the vote {label} is neither +1 nor -1"

        with self.open() as text:
            first = next(text, "").split()
            if len(first) != 3 or not all(size.isdecimal() and len(size) < 19 for size in first):
                raise InvalidInputError(
                    f"Line 1 of {self.name} is not three sizes (rows, columns, entries); get the file again."
                )
            n_rows, n_columns, n_entries = (int(size) for size in first)
            values: list[list[str]] = []
            for number, line in enumerate(text, start=2):
                fields = line.split()
                if fields:
                    _check_line(fields, 3, check, f"line {number} of {self.name}")
                    values.append(fields)
        if len(values) != n_entries or not values:
            raise InvalidInputError(
                f"{self.name} has {len(values)} entries where its first line says {n_entries}; "
                "get the file again."
            )
        rows, columns, labels = np.array(values, dtype=np.int64).T
        return rows, columns, labels, (n_rows, n_columns)


def find(path: PathLike, folder: str, file: str, advice: str) -> TextFile:
    """Find ``file`` in a folder, in its ``folder`` or ``folder.zip``, or in a .zip."""
    home = Path(path)
    if not home.exists():
        raise InvalidInputError(f"There is no folder or file {quoted(str(path))}; {advice}.")
    if home.is_dir():
        for place in (home / file, home / folder / file):
            if place.is_file():
                return TextFile(place)
        archive = home / f"{folder}.zip"
        if not archive.is_file():
            raise InvalidInputError(
                f"{quoted(str(path))} has neither {file} nor {folder}/{file}; {advice}."
            )
        home = archive
    if home.name == file:
        return TextFile(home)
    try:
        with zipfile.ZipFile(home) as opened:
            members = opened.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidInputError(
            f"{quoted(str(home))} is not a .zip that can be read ({printable(str(error))}); "
            f"it is damaged or another file: {advice}."
        ) from error
    for wanted in (f"{folder}/{file}", file):
        if wanted in members:
            return TextFile(home, wanted)
    raise InvalidInputError(
        f"{quoted(str(home))} has neither {folder}/{file} nor {file} inside; {advice}."
    )


def read_ratings(source: TextFile, layout: RatingFormat) -> tuple[Whole, Whole, Floats, Whole]:
    """Return users, items, ratings and timestamps, or say what is wrong on which line."""
    places, skipped = [0, 1, 2, 3], 0
    if layout.header is not None:
        with source.open() as text:
            header = [name.strip() for name in next(text, "").split(layout.delimiter)]
        places, skipped = [column_place(header, name, source.name) for name in layout.header], 1
    try:
        with source.open() as text, warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # an id like 1.0, to older NumPy
            warnings.simplefilter("ignore", UserWarning)  # no data: told below
            lines: Any = islice(text, skipped, None)
            if len(layout.delimiter) > 1:
                lines = (line.replace(layout.delimiter, "\t") for line in lines)
            short = layout.delimiter if len(layout.delimiter) == 1 else "\t"
            options: dict[str, Any] = {"delimiter": short, "comments": None, "ndmin": 1}
            table = np.loadtxt(lines, RECORD, usecols=places, **options)
    except (ValueError, DeprecationWarning) as error:
        if isinstance(error, InvalidInputError):
            raise
        table = None
    if table is None or not layout.scale.has(table["rating"]).all():
        _explain(source, layout, places, skipped)
    elif table.size:
        users, items, ratings, times = (np.ascontiguousarray(table[name]) for name in COLUMNS)
        return users, items, ratings, times
    raise InvalidInputError(f"{source.name} has no ratings; get the file again.")


def read_matrix(source: TextFile, scale: Scale) -> Floats:
    """Read a dense matrix of ratings as text, a row on each line, 0 where there is none."""

    def check(fields: list[str]) -> str | None:
        for field in fields:
            if float(field) != 0 and not scale.has(float(field)):
                return f"the rating {float(field):g} is neither 0 nor from {scale.low:g} to {scale.high:g}"
        return None

    rows: list[list[str]] = []
    with source.open() as text:
        for number, line in enumerate(text, start=1):
            fields = line.split()
            if fields:
                where = f"line {number} of {source.name}"
                _check_line(fields, len(rows[0]) if rows else len(fields), check, where)
                rows.append(fields)
    if not rows:
        raise InvalidInputError(f"{source.name} has no ratings; get the file again.")
    return np.array(rows, dtype=np.float64)


def _explain(source: TextFile, layout: RatingFormat, places: list[int], skipped: int) -> None:
    """Say which line is the first that cannot be used: slowly, when it is known that there is one."""
    scale = layout.scale

    def check(fields: list[str]) -> str | None:
        user, item, rating, time = (fields[place] for place in places)
        for name, field in (("user", user), ("item", item), ("timestamp", time)):
            if not field.strip().lstrip("-").isdecimal():
                return f"the {name} {quoted(field)} is not a whole number"
        if not scale.has(float(rating)):
            steps = f"{scale.low:g} to {scale.high:g} in steps of {scale.step:g}"
            return f"the rating {float(rating):g} is not one of {steps}"
        return None

    width = 4
    with source.open() as text:
        for number, line in enumerate(text, start=1):
            fields = line.rstrip("\r\n").split(layout.delimiter)
            if number <= skipped:
                width = len(fields)
            elif line.strip():
                _check_line(fields, width, check, f"line {number} of {source.name}")
    raise InvalidInputError(f"{source.name} could not be read as ratings; get the file again.")


def _check_line(
    fields: list[str], width: int, check: Callable[[list[str]], str | None], where: str
) -> None:
    if len(fields) != width:
        problem: str | None = f"{len(fields)} fields where {width} were expected"
    else:
        try:
            problem = check(fields)
        except ValueError:
            problem = "a field is not a number"
    if problem:
        raise InvalidInputError(
            f"{where[0].upper()}{where[1:]}: {problem}; the line is cut off or damaged: get the file again."
        )
