"""Split of a table of text into a training and a test file, each with some of its lines as they are."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tribit.data.files import atomic_path, check_different, text_writer
from tribit.data.labels import TableCells
from tribit.data.reading import Reading
from tribit.data.records import long_cells
from tribit.data.sources import PathLike, Source, is_standard
from tribit.data.tables import Format, format_of, open_source, read_source
from tribit.data.text_formats import are_places
from tribit.data.times import SplitBy, Times, split_mask, times_of_cells
from tribit.errors import InvalidInputError, either, quoted
from tribit.randomness import RandomState

__all__ = ["SplitTable", "split_table"]

logger = logging.getLogger(__name__)

#: Files of a line, as bits: a heading is in both.
TRAIN, TEST, BOTH = 1, 2, 3


class SplitTable(NamedTuple):
    """Numbers of records of a training and of a test file, and of pairs that have several records."""

    n_train: int
    n_test: int
    n_repeated: int


def split_table(
    path: PathLike,
    out: tuple[PathLike, PathLike],
    *,
    test: float = 0.1,
    random_state: RandomState = 0,
    reading: Reading | None = None,
    max_size: int | None = None,
    by: SplitBy = "random",
    last: int | None = None,
) -> SplitTable:
    """Write a part of the records of a table, random or the latest, to a test file, and the others to a training file.

    Lines are copied as they are, in their order; both files have the heading. All records of a pair of ids are in the
    same file, so that no test entry is a training entry.

    Parameters
    ----------
    path : str or path-like
        Text with an entry in each record: CSV, TSV or their like, or JSON lines; ``-`` for standard input.
    out : pair of str or path-like
        Training file and test file, which may end in ``.gz``.
    test : float or int, default=0.1
        Share or number of the pairs in the test file.
    random_state : int, Generator, RandomState or None, default=0
        Seed.
    reading : Reading, optional
        Rules for the columns of ids and of times, the delimiter, the encoding and the format.
    max_size : int, optional
        As in :func:`tribit.data.reading.observations_from_file`.
    by, last
        As in :meth:`tribit.Observations.split`. The time of a pair is that of its latest record.

    Returns
    -------
    SplitTable
        Numbers of records.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tribit.data.splitting import split_table
    >>> from tribit.simulate import tables
    >>> folder = Path()
    >>> tables.ratings(random_state=0).to_csv(folder / "all.csv", index=False)
    >>> parts = (folder / "train.csv", folder / "test.csv")
    >>> _ = split_table(folder / "all.csv", parts, test=0.1)
    >>> [len(path.read_text().splitlines()) for path in parts]
    [2613, 291]
    """
    rules = Reading() if reading is None else reading
    _check_paths(path, out)
    text = {name: getattr(rules, name) for name in ("delimiter", "encoding", "decimal")}
    with open_source(path, max_size=max_size, format=rules.format, **text) as (form, source):
        _check_formats(form, source, out, rules)
        cells = long_cells(rules, form, source, valued=False, timed=by == "time")
        cells, times = times_of_cells(cells)
        for note in cells.notes:
            logger.info(note)
        pairs = cells.rows.codes * cells.columns.distinct.size + cells.columns.codes
        _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
        latest = None if times is None else _latest_of_pairs(times, pair, first.size)
        mask = split_mask(cells.rows.codes[first], latest, test, random_state, by, last)
        held_out = mask[pair]
        _write(source, _files_of_lines(held_out, form, source, cells), out)
    n_test = int(np.count_nonzero(held_out))
    n_repeated = int(np.count_nonzero(np.bincount(pair) > 1))
    return SplitTable(held_out.size - n_test, n_test, n_repeated)


def _latest_of_pairs(times: Times, pair: npt.NDArray[np.int64], n_pairs: int) -> Times:
    """Return the latest time of the records of each pair."""
    order = np.lexsort((times, pair))
    ends = np.cumsum(np.bincount(pair, minlength=n_pairs)) - 1
    return times[order[ends]]


def _check_paths(path: PathLike, out: tuple[PathLike, PathLike]) -> None:
    if Path(out[0]).resolve() == Path(out[1]).resolve():
        raise InvalidInputError(
            f"{quoted(str(out[0]))} is both the training and the test file; name two."
        )
    for each in out:
        if not is_standard(path):
            check_different(path, each)


def _check_formats(
    form: Format, source: Source, out: tuple[PathLike, PathLike], rules: Reading
) -> None:
    """Refuse tables whose lines are not entries, and files to write with another format."""
    if rules.layout == "wide" or form.is_matrix or not form.is_text:
        raise InvalidInputError(
            f"{source.name} does not have an entry on each line; hold out entries of the matrix with "
            f"{either('Observations.split', 'tribit fit --hold-out')}."
        )
    for each in out:
        theirs = format_of(each)
        alike = (theirs.first_record is None) == (form.first_record is None)
        if not alike or theirs.is_matrix or not theirs.is_text:
            raise InvalidInputError(
                f"{quoted(str(each))} has the ending of another format than {source.name}, whose lines are copied; "
                "give it the same ending."
            )


def _files_of_lines(
    held_out: npt.NDArray[np.bool_], form: Format, source: Source, cells: TableCells
) -> npt.NDArray[np.int8]:
    """Return the file of each line; both for those of the heading."""
    ends = read_source(form, source, list(cells.names[:2])).lines
    assert ends is not None  # a text
    # The heading of a table may be a record where the columns were given by number.
    ends = ends[ends.size - held_out.size :]
    found = np.zeros(int(ends[-1]), dtype=np.int8)
    start = _last_line_of_heading(form, source, cells, ends)
    found[:start] = BOTH
    files = np.where(held_out, TEST, TRAIN)
    found[start:] = np.repeat(files, np.diff(ends, prepend=start))
    return found


def _last_line_of_heading(
    form: Format, source: Source, cells: TableCells, ends: npt.NDArray[np.int64]
) -> int:
    """Return the number of lines up to the end of the heading; 0 without one."""
    if form.first_record is None:
        return 0
    every = read_source(form, source, ["0"]).lines  # by number, so that a heading is a record
    assert every is not None
    if every.size > ends.size:
        return int(every[-ends.size - 1])
    # A heading that numbers its columns is none of the records.
    first = form.first_record(source)
    numbered = first == [str(place) for place in range(len(first))]
    return int(ends[0]) - 1 if numbered and are_places(list(cells.names[:2])) else 0


def _write(source: Source, files: npt.NDArray[np.int8], out: tuple[PathLike, PathLike]) -> None:
    """Copy each line to its file."""
    with ExitStack() as stack, source.lines() as lines:
        encoding = lines.text.encoding
        texts = [
            stack.enter_context(
                text_writer(
                    stack.enter_context(atomic_path(each)),
                    gzipped=str(each).lower().endswith(".gz"),
                    encoding=encoding,
                )
            )
            for each in out
        ]
        for line, file in zip(lines.records(), files.tolist(), strict=False):
            for text, bit in zip(texts, (TRAIN, TEST), strict=True):
                if file & bit:
                    text.write(line)
