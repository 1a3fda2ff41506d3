"""Rules by which a table in a file becomes entries of a matrix: given or guessed, and kept for later files."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack, get_args

from tribit.checks import check_choice, check_field, is_number, is_whole
from tribit.data.axis import AnyArray, Where
from tribit.data.ingest import Duplicates, entries_from_ids
from tribit.data.labels import Labels, TextColumn, Words, check_like_at, normalise_word, number_text
from tribit.data.observations import Observations
from tribit.data.records import label_cells, long_cells, wide_cells, without_missing
from tribit.data.sources import STANDARD, PathLike
from tribit.data.tables import check_delimiter, check_encoding, check_format, open_source
from tribit.errors import InvalidInputError, InvalidTypeError, parameter, quoted

Missing: TypeAlias = Literal["error", "skip"]
Layout: TypeAlias = Literal["long", "wide"]
Zeros: TypeAlias = Literal["seen", "unseen"]

logger = logging.getLogger(__name__)


class Rules(TypedDict, total=False):
    """Rules of :class:`Reading` by name."""

    row: str | None
    column: str | None
    value: str | None
    like_at: float | None
    like: str | Sequence[str] | None
    dislike: str | Sequence[str] | None
    delimiter: str | None
    decimal: str
    encoding: str | None
    missing: Missing
    duplicates: Duplicates
    layout: Layout
    zeros: Zeros | None
    format: str | None


def _rule(default: object, help: str) -> Any:  # noqa: A002 - as of an option
    """Return a field with the help text of the option that the command line makes of it."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Reading:
    """The rules by which a table becomes entries; a rule that is None is guessed from the file, with a note.

    Parameters
    ----------
    row, column, value : str, optional
        Names, or numbers from 0 where a text has no header, of the columns of row ids, column ids and values. Without
        a value every pair is a like. A table of two or three columns needs no names: their order decides.
    like_at : float, optional
        Values are ratings: from this one up a like.
    like, dislike : str or sequence of str, optional
        Words, or numbers, that are a like and a dislike; case does not matter. Without them yes and no, true and false,
        like and dislike, + and -, 1 and 0 are understood where exactly these two occur.
    delimiter : str, optional
        That of a text: some characters, or one of tab, comma, semicolon, pipe and space (any white space).
    decimal : {".", ","}, default="."
        Decimal mark of the values.
    encoding : str, optional
        That of a text; by default UTF-8, or as a byte order mark says.
    missing : {"error", "skip"}, default="error"
        Whether records without an id or a value (empty, NA, NaN, null, ?) are refused or left out.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`Observations.from_pairs`.
    layout : {"long", "wide"}, default="long"
        One entry in each record, or one row in each record: its id, and a cell for each column of the matrix, empty
        where unobserved.
    zeros : {"seen", "unseen"}, optional
        Whether a 0 is a value or says that the entry is unobserved. By default it is unobserved in a matrix file, and
        in a wide table without an empty cell.
    format : str, optional
        The ending of the format (``"csv"``), for a file whose name has another.
    notes : tuple of str
        A sentence for each rule that was guessed; not compared.

    Examples
    --------
    >>> Reading(row="user", column="item", value="opinion", like="yes", dislike=["no", "never"]).dislike
    ('no', 'never')
    """

    row: str | None = _rule(
        None, "Column of row ids, or its number from 0 without header [the first of two or three]."
    )
    column: str | None = _rule(None, "Column of column ids, or its number [the second].")
    value: str | None = _rule(
        None, "Column of +1/-1, ratings or words, or its number [without it all are likes]."
    )
    like_at: float | None = _rule(None, "Threshold of ratings: the smallest that is a like.")
    like: Words | None = _rule(
        None, "Values that are a like: yes,true [guessed: 1, yes, true, like, +]."
    )
    dislike: Words | None = _rule(
        None, "Values that are a dislike: no,false [guessed: 0, no, false, dislike, -]."
    )
    delimiter: str | None = _rule(None, "Delimiter of text: ; or | or tab, comma, space [guessed].")
    decimal: str = _rule(".", "Decimal mark of values: . or ,")
    encoding: str | None = _rule(
        None, "Encoding of text: latin-1, cp1252 [UTF-8, or by its byte order mark]."
    )
    missing: Missing = _rule(
        "error", "Records without an id or value (empty, NA, NaN, null, ?): error or skip."
    )
    duplicates: Duplicates = _rule("error", "Repeated pairs: error, first, last or majority.")
    layout: Layout = _rule(
        "long",
        "long, an entry in each record; or wide, a row: its id, then a cell for each column, empty if unseen.",
    )
    zeros: Zeros | None = _rule(
        None,
        "Meaning of a 0: seen or unseen [unseen in a matrix and in a wide table without an empty cell].",
    )
    format: str | None = _rule(
        None, "Format, if the name of the file has another ending: csv, jsonl, mtx."
    )
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            if getattr(self, name) is not None:
                check_field(self, name, check)
        if self.like_at is not None and (self.like or self.dislike):
            raise InvalidInputError(
                f"{parameter('like_at')} is for ratings, {parameter('like')} and {parameter('dislike')} are for words; "
                "pass one or the other."
            )
        words = (
            {normalise_word(word, self.decimal) for word in given or ()}
            for given in (self.like, self.dislike)
        )
        if both := set.intersection(*words):
            raise InvalidInputError(
                f"{parameter('like')} and {parameter('dislike')} share {quoted(min(both))}; give each word one meaning."
            )
        if self.decimal == self.delimiter:
            raise InvalidInputError(
                f"{parameter('decimal')} and {parameter('delimiter')} are both {quoted(self.decimal)}; correct one."
            )
        if self.layout == "wide" and (self.column is not None or self.value is not None):
            raise InvalidInputError(
                f"{parameter('column')} and {parameter('value')} are for tables with an entry in each record; leave "
                "them out for a wide one, whose header has the columns."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the rules as plain values."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in plain.items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Return the rules that :meth:`to_json` wrote, checked again."""
        if unknown := set(plain) - {each.name for each in fields(cls)}:
            raise InvalidInputError(
                f"{quoted(min(unknown))} is no rule of reading; it may be of a later version."
            )
        return cls(**plain)

    def read(self, path: PathLike, *, max_size: int | None = None) -> Observations:
        """Return the entries of a file, or of standard input (``-``).

        Parameters
        ----------
        path : str or path-like
            A file that :func:`tribit.data.tables.read_table` reads.
        max_size : int, optional
            As in :func:`observations_from_file`.
        """
        return self.records(path, max_size=max_size).observations()

    def records(self, path: PathLike, *, max_size: int | None = None) -> Records:
        """Return the ids and labels of a file, with the rules by which they were read.

        These rules keep guesses of the columns and of the words for likes, but not of the delimiter and encoding: the
        next file may have others.
        """
        return self._records(path, max_size, valued=True)

    def pairs(self, path: PathLike, *, max_size: int | None = None) -> Records:
        """Return the ids of a file alone, one pair in each record; its values, if there are any, are not read."""
        plain = self if self.layout == "long" else replace(self, layout="long", row=None)
        return plain._records(path, max_size, valued=False)

    def _records(self, path: PathLike, max_size: int | None, *, valued: bool) -> Records:
        text = {name: getattr(self, name) for name in ("delimiter", "encoding", "decimal")}
        with open_source(path, max_size=max_size, format=self.format, **text) as (form, source):
            if self.layout == "wide" and not form.is_matrix:
                cells = wide_cells(self, form, source)
            else:
                cells = long_cells(self, form, source, valued=valued)
        cells = without_missing(cells, self.missing)
        labels = None
        if valued:
            cells, labels = label_cells(cells, self, is_matrix=form.is_matrix)
        for note in cells.notes:
            logger.info(note)
        # The format of a stream is not that of the files that come later.
        ending = None if os.fspath(path) == STANDARD else self.format
        reading = replace(self, **cells.rules, format=ending, notes=cells.notes)
        return Records(
            cells.rows, cells.columns, labels, cells.where, cells.source, cells.names, reading
        )


@dataclass(frozen=True, eq=False)
class Records:
    """Pairs of ids as a file has them, as text, with their labels if these were read.

    ``where`` returns the place of a record for messages; ``names`` are the columns of row ids, column ids and values;
    ``reading`` has the rules, with the guesses.
    """

    rows: TextColumn | AnyArray
    columns: TextColumn | AnyArray
    labels: Labels | None
    where: Where
    name: str
    names: tuple[str, str, str | None]
    reading: Reading

    def observations(self) -> Observations:
        """Return the entries of a matrix, ids in order of first appearance; without labels every pair is a like."""
        entries = entries_from_ids(
            self.rows,
            self.columns,
            self.labels,
            like_at=None,
            duplicates=self.reading.duplicates,
            where=self.where,
        )
        return Observations.from_checked(entries)


def observations_from_file(
    path: PathLike,
    *,
    max_size: int | None = None,
    **rules: Unpack[Rules],
) -> Observations:
    """Read observations from a file.

    Guesses are logged (``logging``, level INFO), and are in ``Reading(...).records(path).reading``.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`tribit.data.tables.read_table` reads.
    max_size : int, optional
        The most bytes to read, counted when unpacked; in a parquet file each cell counts as 8 at least. By default
        200 times the size of the file, but no less than 32 MiB and no more than 4 GiB.
    **rules
        ``row``, ``column``, ``value``, ``like_at``, ``like``, ``dislike``, ``delimiter``, ``decimal``, ``encoding``,
        ``missing``, ``duplicates``, ``layout``, ``zeros`` and ``format``, as in :class:`Reading`, which keeps them for
        further files.
    """
    return Reading(**rules).read(path, max_size=max_size)  # type: ignore[arg-type]


def _check_column(name: str, value: object) -> str:
    """Return the name of a column; a place may come as a number."""
    if isinstance(value, str) or is_whole(value):
        return str(value)
    raise InvalidTypeError(
        f"{parameter(name)} must be the name of a column, or its number from 0; got {quoted(value)}."
    )


def _check_words(name: str, value: object) -> Words:
    words = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    texts = tuple(_word(word).strip() for word in words)
    if not texts or not all(texts):
        raise InvalidInputError(
            f"{parameter(name)} must be a word, or several; got {quoted(value)}."
        )
    return texts


def _word(word: Any) -> str:
    if isinstance(word, bool):
        return str(word).lower()
    return number_text(word) if is_number(word) else word if isinstance(word, str) else ""


def _check_bar(name: str, value: object) -> Any:  # noqa: ARG001 - the sentence has the name
    check_like_at(value)
    return value


def _choice(kind: object) -> Callable[[str, Any], str]:
    return lambda name, value: check_choice(name, value, get_args(kind))


#: Check of each rule, where it is given.
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "row": _check_column,
    "column": _check_column,
    "value": _check_column,
    "like_at": _check_bar,
    "like": _check_words,
    "dislike": _check_words,
    "delimiter": check_delimiter,
    "decimal": lambda name, value: check_choice(name, value, (".", ",")),
    "encoding": check_encoding,
    "missing": _choice(Missing),
    "duplicates": _choice(Duplicates),
    "layout": _choice(Layout),
    "zeros": _choice(Zeros),
    "format": check_format,
    "notes": lambda _, value: tuple(map(str, value)),
}
