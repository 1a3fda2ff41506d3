"""Ratings with the ids of users and items, their standard split, and the files of their publishers.

A file is in a folder or in a .zip. An error names the line.
"""

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

from tribit.checks import is_whole
from tribit.data.observations import Observations
from tribit.data.sources import Lines, byte_limit, column_place, size_in_units
from tribit.errors import InvalidInputError, printable, quoted
from tribit.randomness import generator

PathLike: TypeAlias = str | os.PathLike[str]
Whole: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

COLUMNS = ("user", "item", "rating", "timestamp")
RECORD = np.dtype(
    [("user", np.int64), ("item", np.int64), ("rating", np.float64), ("timestamp", np.int64)]
)


class Split(NamedTuple):
    """Disjoint parts of the same ratings, all of the same shape and ids.

    Examples
    --------
    >>> from tribit.datasets import movielens100k
    >>> train, validation, test = movielens100k("folder").split(0)  # doctest: +SKIP
    """

    train: Observations
    validation: Observations
    test: Observations


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ratings:
    """A table of ratings: users, items, values and times, one element of each array for each rating.

    Parameters
    ----------
    users, items : array of int
        The data's own ids.
    ratings : array of float
        Stars.
    timestamps : array of int or None
        Seconds since 1970, where the data have them.
    name : str
        Which data these are.
    licence : str
        The terms of use, and what to cite.
    like_at : float, default=4.0
        The smallest rating that is a like, unless a method is given another.
    user_ids, item_ids : array of int, optional
        Every user and every item, in increasing order; by default those with a rating.

    Examples
    --------
    >>> from tribit.datasets import movielens100k
    >>> ratings = movielens100k("folder")  # doctest: +SKIP
    >>> ratings.observations().n_observed  # doctest: +SKIP
    100000
    """

    users: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    ratings: npt.NDArray[np.float64]
    timestamps: npt.NDArray[np.int64] | None
    name: str
    licence: str
    like_at: float = 4.0
    user_ids: npt.NDArray[np.int64] | None = None
    item_ids: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for ids, every in (("user_ids", self.users), ("item_ids", self.items)):
            if getattr(self, ids) is None:
                object.__setattr__(self, ids, np.unique(every))
        for name in ("users", "items", "ratings", "timestamps", "user_ids", "item_ids"):
            values = getattr(self, name)
            if values is not None:
                values.flags.writeable = False

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items."""
        return np.asarray(self.user_ids).size, np.asarray(self.item_ids).size

    def observations(self, like_at: float | None = None) -> Observations:
        """Return a like for every rating from ``like_at`` up, a dislike for every other.

        Parameters
        ----------
        like_at : float, optional
            By default the ``like_at`` of these ratings.

        Returns
        -------
        Observations
            Users as rows and items as columns, in the order of their ids, which are kept.
        """
        return Observations.from_ratings(
            np.searchsorted(np.asarray(self.user_ids), self.users),
            np.searchsorted(np.asarray(self.item_ids), self.items),
            self.ratings,
            like_at=self.like_at if like_at is None else like_at,
            row_ids=self.user_ids,
            column_ids=self.item_ids,
        )

    def split(
        self,
        seed: int,
        test: int = 5000,
        validation: int = 5000,
        *,
        like_at: float | None = None,
    ) -> Split:
        """Hold out a test and a validation part, the same on every machine.

        The ratings are sorted by (user, item) and permuted by ``numpy.random.default_rng(seed)``; the first
        ``test`` of them are the test part, the next ``validation`` the validation part.

        Parameters
        ----------
        seed : int
            Which split.
        test, validation : int, default=5000
            How many ratings to hold out for each.
        like_at : float, optional
            As in :meth:`observations`.

        Returns
        -------
        Split
            ``train``, ``validation`` and ``test``, each with the shape and ids of the whole.
        """
        counts: dict[str, Any] = {"test": test, "validation": validation}
        for name, count in counts.items():
            if not is_whole(count) or count < 1:
                raise InvalidInputError(
                    f"{name} must be a number of ratings, at least 1; got {count!r}."
                )
        n = self.ratings.size
        if test + validation >= n:
            raise InvalidInputError(
                f"test={test} and validation={validation} leave none of the {n} ratings for training; "
                "lower them."
            )
        # Row-major order of sorted ids is the order by (user, item).
        whole = self.observations(like_at)
        order = generator(seed).permutation(n)
        held_out = test + validation
        return Split(
            whole.take(order[held_out:]), whole.take(order[test:held_out]), whole.take(order[:test])
        )

    def __len__(self) -> int:
        return int(self.ratings.size)

    def __repr__(self) -> str:
        return f"Ratings({self.name}, {self.shape[0]} users x {self.shape[1]} items, {len(self)} ratings)"


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
        """Open the lines of the text; a file that cannot be read or unpacked is an error of one sentence."""
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
    """Return users, items, ratings and timestamps; an error names the wrong line."""
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
    """Raise an error that names the first wrong line: slowly, when there is known to be one."""
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
