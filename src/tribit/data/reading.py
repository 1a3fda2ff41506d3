"""Rules by which a table in a file becomes entries of a matrix: given or guessed, and kept for later files."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, Unpack

from tribit.checks import check_field
from tribit.data.axis import AnyArray, Where
from tribit.data.ingest import entries_from_ids
from tribit.data.labels import Labels, TextColumn, label_cells
from tribit.data.observations import Observations
from tribit.data.records import long_cells, wide_cells, without_missing
from tribit.data.rules import RuleOptions, TableRules, one_of
from tribit.data.sources import STANDARD, PathLike
from tribit.data.tables import check_delimiter, check_encoding, check_format, open_source
from tribit.data.times import Times, times_of_cells
from tribit.data.weights import Floats, check_scale_is_used
from tribit.data.zeros import Holder
from tribit.errors import InvalidInputError, parameter, quoted

Layout: TypeAlias = Literal["long", "wide"]

logger = logging.getLogger(__name__)


class Rules(RuleOptions, total=False):
    """Rules of :class:`Reading` by name."""

    delimiter: str | None
    encoding: str | None
    layout: Layout
    format: str | None


@dataclass(frozen=True)
class Reading(TableRules):
    """The rules by which a table in a file becomes entries; a rule that is None is guessed, with a note.

    Beside those of :class:`~tribit.data.rules.TableRules`, of which ``row``, ``column`` and ``value`` may be numbers
    from 0 where a text has no header; a table of two or three columns needs no names, as their order decides.

    Parameters
    ----------
    delimiter : str, optional
        That of a text: some characters, or one of tab, comma, semicolon, pipe and space (any white space).
    encoding : str, optional
        That of a text; by default UTF-8, or as a byte order mark says.
    layout : {"long", "wide"}, default="long"
        One entry in each record, or one row in each record: its id, and a cell for each column of the matrix, empty
        where unobserved.
    format : str, optional
        The ending of the format (``"csv"``), for a file whose name has another.

    Examples
    --------
    >>> Reading(row="user", column="item", value="opinion", like="yes", dislike=["no", "never"]).dislike
    ('no', 'never')
    """

    delimiter: str | None = field(
        default=None, metadata={"help": "Delimiter of text: ; or | or tab, comma, space [guessed]."}
    )
    encoding: str | None = field(
        default=None,
        metadata={"help": "Encoding of text: latin-1, cp1252 [UTF-8, or by its byte order mark]."},
    )
    layout: Layout = field(
        default="long",
        metadata={
            "help": "long, an entry in each record; or wide, a row: its id and a cell for each column, empty if unseen."
        },
    )
    format: str | None = field(
        default=None,
        metadata={"help": "Format, if the name of the file has another ending: csv, jsonl, mtx."},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, check in FILE_CHECKS.items():
            if getattr(self, name) is not None:
                check_field(self, name, check)
        if self.decimal is not None and self.decimal == self.delimiter:
            raise InvalidInputError(
                f"{parameter('decimal')} and {parameter('delimiter')} are both {quoted(self.decimal)}; correct one."
            )
        names = ("column", "value", "weight", "time")
        if self.layout == "wide" and any(getattr(self, name) is not None for name in names):
            raise InvalidInputError(
                f"{', '.join(map(parameter, names[:-1]))} and {parameter(names[-1])} are for tables with an entry in "
                "each record; leave them out for a wide one, whose header has the columns."
            )
        check_scale_is_used(self.weight_scale, weighted=self.weight is not None or self.settled)

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
        return _read_records(self, path, max_size, valued=True)

    def pairs(self, path: PathLike, *, max_size: int | None = None) -> Records:
        """Return the ids of a file alone, one pair in each record; its values, if there are any, are not read."""
        plain = self if self.layout == "long" else replace(self, layout="long", row=None)
        return _read_records(plain, path, max_size, valued=False)


@dataclass(frozen=True, eq=False)
class Records:
    r"""Pairs of ids as a file has them, as text, with their labels if these were read.

    ``where`` returns the place of a record for messages; ``names`` are the columns of row ids, column ids and values;
    ``reading`` has the rules, with the guesses; ``weights`` and ``times`` are None where no column has any.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tribit.data.reading import Reading
    >>> path = Path("ratings.csv")
    >>> _ = path.write_text("user,film,stars\nann,Alien,5\nann,Brazil,2\n")
    >>> records = Reading(row="user", column="film", value="stars", like_at=4).records(path)
    >>> list(records.columns), records.labels.tolist()
    (['Alien', 'Brazil'], [1, -1])
    """

    rows: TextColumn | AnyArray
    columns: TextColumn | AnyArray
    labels: Labels | None
    where: Where
    name: str
    names: tuple[str, str, str | None]
    reading: Reading
    weights: Floats | None = None
    times: Times | None = None

    def observations(self) -> Observations:
        """Return the entries of a matrix, ids in order of first appearance; without labels every pair is a like."""
        return Observations.from_checked(
            entries_from_ids(
                self.rows,
                self.columns,
                self.labels,
                self.reading,
                self.where,
                self.weights,
                self.times,
            )
        )


def _read_records(rules: Reading, path: PathLike, max_size: int | None, *, valued: bool) -> Records:
    """Return the ids of a file, with labels if it is ``valued``, and the rules by which they were read."""
    text = {name: getattr(rules, name) for name in ("delimiter", "encoding", "decimal")}
    with open_source(path, max_size=max_size, format=rules.format, **text) as (form, source):
        if rules.layout == "wide" and not form.is_matrix:
            cells = wide_cells(rules, form, source)
        else:
            cells = long_cells(rules, form, source, valued=valued)
    cells = without_missing(cells, rules.missing)
    labels = None
    if valued:
        holder: Holder = (
            "sparse" if form.is_matrix else "dense" if rules.layout == "wide" else "long"
        )
        cells, labels = label_cells(cells, rules, holder)
    cells, times = times_of_cells(cells)
    for note in cells.notes:
        logger.info(note)
    weights = cells.weight_numbers(rules.weight_scale, cells.rules.get("decimal") or rules.mark)
    # The format of a stream is not that of the files that come later.
    ending = None if os.fspath(path) == STANDARD else rules.format
    reading = replace(rules, **cells.rules, format=ending, notes=cells.notes, settled=True)
    return Records(
        cells.rows,
        cells.columns,
        labels,
        cells.where,
        cells.source,
        cells.names,
        reading,
        weights,
        times,
    )


def observations_from_file(
    path: PathLike,
    *,
    max_size: int | None = None,
    **rules: Unpack[Rules],
) -> Observations:
    r"""Read observations from a file.

    Guesses are logged (``logging``, level INFO), and are in ``Reading(...).records(path).reading``.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`tribit.data.tables.read_table` reads.
    max_size : int, optional
        The most bytes to read, counted when unpacked; in a parquet file each cell counts as 8 at least. By default
        200 times the size of the file, but no less than 32 MiB and no more than 4 GiB.
    **rules
        ``row``, ``column``, ``value``, ``weight``, ``time``, ``weight_scale``, ``like_at``, ``dislike_at``, ``like``,
        ``dislike``, ``zeros``, ``missing``, ``duplicates``, ``delimiter``, ``decimal``, ``encoding``,
        ``layout`` and ``format``, as in :class:`Reading`, which keeps them for further files.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tribit.data.reading import observations_from_file
    >>> path = Path("ratings.csv")
    >>> _ = path.write_text("user,film,stars\nann,Alien,5\nann,Brazil,2\nbob,Alien,4\n")
    >>> observations_from_file(path, row="user", column="film", value="stars", like_at=4)
    Observations(2 x 2, 3 observed (75.0%), 2 likes, 1 dislike)
    """
    return Reading(**rules).read(path, max_size=max_size)


#: Check of each rule of files, where it is given.
FILE_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "delimiter": check_delimiter,
    "encoding": check_encoding,
    "layout": one_of(Layout),
    "format": check_format,
}
