"""The completed table: every cell of some rows and columns, with the observed labels in their places."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.answers import (
    MAX_PRINTED_RECORDS,
    Answer,
    pandas,
    skipped_remark,
    text_table,
    with_ids,
)
from tribit.data.axis import AnyArray, Positions, first_true, quoted_id
from tribit.data.files import checked_path
from tribit.data.observations import Observations
from tribit.data.parquet import CELL_BYTES, ROW_GROUP_BYTES
from tribit.data.tables import write_blocks
from tribit.errors import InvalidInputError, TribitWarning, parameter, quoted, warn
from tribit.model.completed import VALUES, CompletedCells, check_dense
from tribit.progress import steps_bar
from tribit.questions.base import Question, option
from tribit.questions.kinds import Entries, Ids, find_or_warn, known_entries, unknown_option
from tribit.questions.predict import BASES

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

#: Cells of a wide and of a long table that are computed and written at a time: some 100 MB with ids and texts.
WIDE_BLOCK_CELLS, LONG_BLOCK_CELLS = 2**21, 2**18
#: Most column chunks of a parquet file, whose description is in memory until the end: 1.5 kB for each.
MAX_COLUMN_CHUNKS = 100_000
#: Most columns of a wide table that are printed.
MAX_PRINTED_COLUMNS = 12
#: Bases of cells that are no predictions.
OBSERVED, NONE = "observed", "none"


@dataclass(frozen=True, eq=False, repr=False)
class Completed(Answer):
    """A completed table; its values are computed when they are read, some rows at a time.

    Attributes
    ----------
    cells : CompletedCells
        The values of the cells, by position.
    rows, columns : array of int
        Positions of the rows and columns.
    informed : (array of bool, array of bool)
        Whether each row, and each column, has entries or features.
    marked : bool
        Whether a cell without information on its row or its column is empty (NaN).
    long : bool
        Whether the table has one record for each cell, with its basis.
    n_skipped : int
        Number of entries to keep that were left out for their unknown ids.
    names : (str, str)
        Headings of row and column ids.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> completed = Recommender(random_state=0).fit(A).complete()
    >>> completed.to_array()[1]  # two likes, a prediction, a dislike
    array([1.       , 1.       , 0.7445481, 0.       ])
    """

    cells: CompletedCells
    rows: Positions
    columns: Positions
    informed: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    marked: bool = True
    long: bool = False
    n_skipped: int = 0
    names: tuple[str, str] = ("row", "column")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.size, self.columns.size

    @property
    def row_ids(self) -> AnyArray:
        """Ids of the rows; positions without ids."""
        return self.cells.scores.axes.rows.names(self.rows)

    @property
    def column_ids(self) -> AnyArray:
        """Ids of the columns; positions without ids."""
        return self.cells.scores.axes.columns.names(self.columns)

    @property
    def is_partly_empty(self) -> bool:
        """Whether some cells are empty."""
        return self.marked and not all(side.all() for side in self.informed)

    def to_array(self) -> NDArray[np.floating[Any]]:
        """Return the values as a dense matrix, NaN for an empty cell."""
        check_dense(self.shape, "write it to a file, or choose some rows and columns")
        return self._values(slice(None))

    def table(self) -> dict[str, AnyArray]:
        """Return the full table, wide or long."""
        check_dense(self.shape, "write it to a file, or choose some rows and columns")
        return self._table(slice(None))

    def to_frame(self) -> Any:
        """Return a pandas data frame: of a wide table with row ids as the index and column ids as the columns."""
        if self.long:
            return super().to_frame()
        pd = pandas()
        ids = zip((self.row_ids, self.column_ids), self.names, strict=True)
        index, columns = (pd.Index(each, name=name) for each, name in ids)
        return pd.DataFrame(self._signs(self.to_array()), index, columns)

    def blocks(self) -> Iterator[dict[str, AnyArray]]:
        """Return the table some rows at a time."""
        return map(self._table, self._parts())

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        escape_formulas: bool | None = None,
        verbose: int = 0,
    ) -> None:
        """Write the table to a file some rows at a time, in the format of its name; ``verbose=1`` shows a bar."""
        n_rows, n_columns = self.shape
        n_groups = -(-n_rows * n_columns * CELL_BYTES // ROW_GROUP_BYTES)
        chunks = 0 if self.long else n_groups * n_columns
        if checked_path(path).suffix.lower() == ".parquet" and chunks > MAX_COLUMN_CHUNKS:
            raise InvalidInputError(
                f"A parquet file of {n_columns} columns in {n_groups} row groups is slow to write and to "
                f"read: write one record for each cell ({parameter('long', True)}), or .csv."
            )
        with steps_bar("writing", len(self._parts()), shown=verbose > 0) as advance:
            write_blocks(path, _advancing(self.blocks(), advance), escape_formulas=escape_formulas)

    def facts(self) -> dict[str, str]:
        """Return the size, and the numbers of observed and of empty cells."""
        found = {"cells": f"{self.shape[0]} x {self.shape[1]}"}
        if self.cells.labels is not None:
            kept = self.cells.observed_labels(self.rows, self.columns).nnz
            found["observed"] = f"{kept}{skipped_remark(self.n_skipped)}"
        if not all(side.all() for side in self.informed):
            rows, columns = (int(np.count_nonzero(~side)) for side in self.informed)
            state = "empty" if self.marked else "predicted from the other side alone"
            found["without entries"] = f"{rows} of the rows, {columns} of the columns ({state})"
        return found

    def shown_table(self, most: int) -> dict[str, AnyArray]:
        """Return the first records, of a wide table with its first columns."""
        if self.long:
            n_rows = -(-most // max(1, self.columns.size))
            return {name: each[:most] for name, each in self._table(slice(n_rows)).items()}
        return self._table(slice(most), slice(MAX_PRINTED_COLUMNS))

    def text(self, most: int | None = None) -> str:
        """Return the first records and the size of the table."""
        table = self.shown_table(MAX_PRINTED_RECORDS if most is None else most)
        n_rows, n_columns = self.shape
        whole = n_rows * n_columns if self.long else n_rows
        printed = len(next(iter(table.values())))
        text = text_table(table)
        if printed < whole or (len(table) < 1 + n_columns and not self.long):
            text += f"\n... {n_rows} x {n_columns} cells"
        return text

    def _parts(self) -> list[slice]:
        """Return the rows of each block."""
        n_cells = LONG_BLOCK_CELLS if self.long else WIDE_BLOCK_CELLS
        step = max(1, n_cells // max(1, self.columns.size))
        return [slice(start, start + step) for start in range(0, self.rows.size, step)]

    def _values(self, part: slice, among: slice = slice(None)) -> NDArray[np.floating[Any]]:
        """Return the values of some of the rows and of the columns."""
        values = self.cells.block(self.rows[part], self.columns[among])
        if self.is_partly_empty:
            values[~self.informed[0][part]] = np.nan
            values[:, ~self.informed[1][among]] = np.nan
        return values

    def _table(self, part: slice, among: slice = slice(None)) -> dict[str, AnyArray]:
        """Return some of the rows as a wide or long table."""
        values = self._signs(self._values(part, among))
        names, axes = self.names, self.cells.scores.axes
        ids = axes.rows.names(self.rows[part])
        if not self.long:
            headings = [names[0], *map(str, self.column_ids[among].tolist())]
            _check_distinct(headings)
            return dict(zip(headings, [ids, *values.T], strict=True))
        of_rows, of_columns = self.informed[0][part], self.informed[1]
        basis = BASES[np.ix_(of_rows.astype(int), of_columns.astype(int))]
        if self.marked:
            basis[~np.logical_and.outer(of_rows, of_columns)] = NONE
        if self.cells.labels is not None:
            basis[self.cells.observed_labels(self.rows[part], self.columns).coords] = OBSERVED
        pairs = np.repeat(ids, self.columns.size), np.tile(self.column_ids, ids.size)
        found = {self.cells.what: values.ravel(), "basis": basis.ravel()}
        return with_ids(names, pairs, found)

    def _signs(self, values: NDArray[np.floating[Any]]) -> AnyArray:
        """Return signs as whole numbers where no cell is empty."""
        whole = self.cells.what == "sign" and not self.is_partly_empty
        return values.astype(np.int8) if whole else values


@dataclass(frozen=True, eq=False, kw_only=True)
class Complete(Question[Completed]):
    """Return the completed table: the observed entries, and a prediction of every other cell.

    A row or column that has neither entries nor features is left empty, with a warning: a prediction for it would rest
    on the other side alone. Its :class:`~tribit.questions.complete.Completed` table has the ids of the fit.
    """

    rows: Ids | None = option(None, "Rows; with --new the rows of that table [every row].")
    columns: Ids | None = option(None, "Columns [every column].")
    observed: str = option(
        "keep",
        "Observed entries: keep them, a like as 1 and a dislike as 0 (-1 among signs), or predict them too.",
        choices=("keep", "predict"),
    )
    what: str = option(
        "probability",
        "Value of a cell: probability of a like, sign (+1 or -1) or score (x).",
        choices=VALUES,
    )
    threshold: float | None = option(
        None, "Probability from which on a sign is +1 [0.5].", gt=0, lt=1
    )
    seen: Entries | None = option(
        None, "The entries of the fit, if the model keeps none.", flag="--data"
    )
    without_entries: str = option(
        "mark",
        "Rows or columns without entries and features: mark (empty cells), popularity (the other side alone), error.",
        choices=("mark", "popularity", "error"),
    )
    long: bool = option(False, "Return one record for each cell, with its basis.")
    unknown: str = unknown_option()

    def answer(self, recommender: FittedRecommender) -> Completed:
        """Return the completed table."""
        fitted = recommender.model_.fitted_
        if self.threshold is not None and self.what != "sign":
            raise InvalidInputError(
                f"{parameter('threshold')} is for signs: pass {parameter('what', 'sign')} too, or leave it out."
            )
        if self.what == "sign" and self.threshold is None and not fitted.means_like:
            raise InvalidInputError(
                f"The model predicts the probability of {fitted.meaning}, where a sign has no natural threshold: pass "
                f"{parameter('threshold')}, or {parameter('what', 'probability')}."
            )
        seen, n_skipped = self._entries(recommender)
        labels = None
        if self.observed == "keep":
            assert seen is not None
            labels = seen.to_sparse()
        cells = CompletedCells(fitted.scores, self.what, labels, self.threshold or 0.5)
        rows, columns = (
            self._places(recommender, side, ids)
            for side, ids in enumerate((self.rows, self.columns))
        )
        known = recommender.have_information_
        if self.seen is not None and seen is not None:
            known = fitted.have_information(seen)
        informed = known[0][rows], known[1][columns]
        if not (informed[0].all() and informed[1].all()):
            self._report(recommender, (rows, columns), informed)
        return Completed(
            cells,
            rows,
            columns,
            informed,
            self.without_entries == "mark",
            self.long,
            n_skipped,
            recommender.headings,
        )

    def _places(self, recommender: FittedRecommender, side: int, ids: object) -> Positions:
        """Return the positions of the known ones of some rows (``side`` 0) or columns (1); None for all."""
        if ids is None:
            return np.arange(recommender.shape_[side])
        places = find_or_warn(recommender, side, ids, self.unknown)
        return places[places >= 0]

    def _entries(self, recommender: FittedRecommender) -> tuple[Observations | None, int]:
        """Return the observed entries, None if they are unknown and not needed, and the number left out."""
        if self.seen is not None:
            return known_entries(recommender, self.seen, "skip")
        given = f"pass {parameter('seen')}, the entries of the fit"
        if self.observed == "keep":
            advice = f"{given}, or {parameter('observed', 'predict')}"
            return recommender.require_entries("observed cells keep their labels", advice=advice), 0
        if self.without_entries == "error":
            return recommender.require_entries("rows without any are an error", advice=given), 0
        if recommender.seen_ is None and self.without_entries == "mark":
            warn(
                TribitWarning(
                    f"The file keeps no entries, so that rows and columns without any are predicted too: {given}, to "
                    "find them."
                )
            )
        return recommender.seen_, 0

    def _report(
        self,
        recommender: FittedRecommender,
        places: tuple[Positions, Positions],
        informed: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    ) -> None:
        """Raise an error or a warning about rows and columns without information."""
        counts, examples = [], []
        names = recommender.headings
        for axis, name, at, side in zip(recommender.axes_, names, places, informed, strict=True):
            if (first := first_true(~side)) is not None:
                n = int(np.count_nonzero(~side))
                counts.append(f"{n} {axis.name}{'s' if n > 1 else ''}")
                examples.append(f"the {name} {quoted_id(axis.ids, at[first])}")
        start = (
            f"There are no entries and no features of {' and '.join(counts)}, such as {examples[0]}"
        )
        if self.without_entries == "error":
            raise InvalidInputError(
                f"{start}: leave them out, or pass {parameter('without_entries', 'mark')} for empty cells."
            )
        if self.without_entries == "mark":
            popularity = parameter("without_entries", "popularity")
            warn(
                TribitWarning(
                    f"{start}: their cells are empty; {popularity} predicts them from the other side alone."
                )
            )


def _check_distinct(headings: list[str]) -> None:
    """Refuse two columns of the same heading."""
    if len(set(headings)) < len(headings):
        again = next(name for name in headings if headings.count(name) > 1)
        raise InvalidInputError(
            f"Two columns of the wide table have the heading {quoted(again)}: choose each column once, rename it, or "
            f"pass {parameter('long', True)}."
        )


def _advancing(
    blocks: Iterator[dict[str, AnyArray]], advance: Callable[[], None]
) -> Iterator[dict[str, AnyArray]]:
    """Yield blocks, and advance a bar after each."""
    for block in blocks:
        yield block
        advance()
