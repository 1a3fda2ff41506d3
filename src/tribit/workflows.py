"""From a user's file to an answer: what the command line runs, one function for each command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.completion import BinaryMatrixCompletion
from tribit.errors import InvalidInputError
from tribit.files import check_different
from tribit.finders import LikeFinder
from tribit.ids import Positions, Where
from tribit.ingest import Duplicates, Entries, as_labels, merge_duplicates
from tribit.metrics import Evaluation, evaluate
from tribit.observations import Observations
from tribit.storage import load
from tribit.tables import Table, observations_from_file, read_table, write_table

#: Columns that predictions add to the two of ids.
ANSWERS = ("probability", "label")
#: Columns that lists add to them.
PLACES = ("place", "score")
PathLike = str | os.PathLike[str]


def fit_file(
    path: PathLike,
    *,
    row: str,
    column: str,
    value: str | None = None,
    duplicates: Duplicates = "error",
    **parameters: Any,
) -> BinaryMatrixCompletion:
    """Fit a model on a table with one observed entry in each line.

    Parameters
    ----------
    path : str or path-like
        A CSV or TSV file (plain or .gz) or a parquet file.
    row, column : str
        Names of the columns of ids; or numbers from 0 for a text file without a header.
    value : str, optional
        The column of +1 and -1, or of ratings (then pass ``like_at``); without it every pair is a like.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`Observations.from_pairs`.
    **parameters
        Of :class:`BinaryMatrixCompletion`.

    Returns
    -------
    BinaryMatrixCompletion
        The fitted model; ``names_`` holds the three column names.
    """
    model = BinaryMatrixCompletion(**parameters)
    observations = observations_from_file(
        path, row=row, column=column, value=value, like_at=model.like_at, duplicates=duplicates
    )
    model.fit(observations)
    # As the columns were sought: a place may come as a number.
    model.names_ = (str(row), str(column), None if value is None else str(value))
    return model


def predict_file(
    model_path: PathLike,
    pairs: PathLike,
    out: PathLike,
    *,
    row: str | None = None,
    column: str | None = None,
    skip_unknown: bool = False,
) -> Prediction:
    """Write the probability of a like and the predicted sign for each pair of ids in a table.

    Parameters
    ----------
    model_path : str or path-like
        A saved model.
    pairs : str or path-like
        A table with the model's row and column ids.
    out : str or path-like
        The table to write: the two id columns, ``probability`` and ``label`` (+1 or -1).
    row, column : str, optional
        Names of the id columns; those the model was fitted with by default.
    skip_unknown : bool, default=False
        Leave out pairs with an id that the model does not know, instead of refusing the table.

    Returns
    -------
    Prediction
        Numbers of pairs written and left out.
    """
    check_different(pairs, out)
    model = load(model_path)
    row, column, _ = _names(model, row, column, None)
    if clash := {row, column} & set(ANSWERS):
        raise InvalidInputError(
            f"The id column {clash.pop()!r} has the name of an answer ({', '.join(ANSWERS)}); rename it."
        )
    table = read_table(pairs, [row, column])
    i, j, kept = _positions(model, table, row, column, skip_unknown)
    x = model._factors().at(i, j)
    probability = model._probability(x)
    columns = {
        row: table.ids(row)[kept],
        column: table.ids(column)[kept],
        "probability": probability,
        "label": np.where(probability >= 0.5, 1, -1),
    }
    write_table(out, columns)
    return Prediction(n_pairs=int(np.sum(kept)), n_skipped=int(np.sum(~kept)))


def evaluate_file(
    model_path: PathLike,
    test: PathLike,
    *,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    like_at: float | None = None,
    duplicates: Duplicates = "error",
    skip_unknown: bool = False,
) -> Evaluation:
    """Compare a saved model with a table of observed entries that it was not fitted on.

    The parameters are those of :func:`fit_file`; names and ``like_at`` default to those the model was fitted
    with. With ``skip_unknown`` entries with an id that the model does not know
    are left out, instead of refusing the table.
    """
    model = load(model_path)
    row, column, value = _names(model, row, column, value)
    seen, n_skipped = _entries(
        model, test, row, column, value, like_at, duplicates, skip_unknown=skip_unknown
    )
    return replace(evaluate(model, seen), n_skipped=n_skipped)


def recommend_file(
    model_path: PathLike,
    seen: PathLike,
    out: PathLike,
    *,
    n: int = 10,
    avoid_dislikes: float = 1.0,
    only: Sequence[str] | None = None,
    finder: bool = True,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    like_at: float | None = None,
    duplicates: Duplicates = "error",
    skip_unknown: bool = False,
) -> Lists:
    """Write the best columns for each row, best first, none of which it has seen.

    Parameters
    ----------
    model_path : str or path-like
        A saved model.
    seen : str or path-like
        A table of observed entries, such as the one the model was fitted on: they are left out of the lists, and tell
        a :class:`tribit.finders.LikeFinder` what rows come to.
    out : str or path-like
        The table to write: row id, column id, ``place`` (from 1) and ``score``.
    n : int, default=10
        Length of a list.
    avoid_dislikes : float, default=1.0
        As in :meth:`tribit.factor_model.FactorModel.recommend`.
    only : list of str, optional
        Row ids to make lists for; every row by default.
    finder : bool, default=True
        Whether to rank by expected likes less expected dislikes; else by the probability of a like.
    row, column, value, like_at, duplicates, skip_unknown
        As in :func:`evaluate_file`.
    """
    check_different(seen, out)
    model = load(model_path)
    row, column, value = _names(model, row, column, value)
    if clash := {row, column} & set(PLACES):
        raise InvalidInputError(
            f"The id column {clash.pop()!r} has the name of an answer ({', '.join(PLACES)}); rename it."
        )
    entries, n_skipped = _entries(
        model, seen, row, column, value, like_at, duplicates, skip_unknown=skip_unknown
    )
    lists = model.recommend(
        _asked(model, only),
        n,
        exclude_seen=entries,
        avoid_dislikes=avoid_dislikes,
        finder=LikeFinder(random_state=0).fit(entries) if finder else None,
    )
    rows, columns, scores = lists.pairs()
    places = np.nonzero(lists.shown)[1] + 1
    write_table(out, {row: rows, column: columns, "place": places, "score": scores})
    return Lists(len(lists), int(rows.size), entries.n_observed, n_skipped)


@dataclass(frozen=True)
class Prediction:
    """How many pairs were written, and how many were left out because an id is unknown."""

    n_pairs: int
    n_skipped: int


@dataclass(frozen=True)
class Lists:
    """How many rows have lists, the columns listed, the entries seen, and the records left out."""

    n_rows: int
    n_pairs: int
    n_seen: int
    n_skipped: int


def _asked(model: BinaryMatrixCompletion, only: Sequence[str] | None) -> Any:
    """Return the rows asked for as the model names them; ids on a command line are text."""
    ids = model.row_ids_
    known = range(model.row_factors_.shape[0]) if ids is None else ids.tolist()
    if only is None:
        return list(known)
    by_text = {str(key): key for key in known}
    for name in only:
        if name not in by_text:
            raise InvalidInputError(
                f"The row id {name!r} is not one the model was fitted on; check --for."
            )
    return [by_text[name] for name in only]


def _entries(
    model: BinaryMatrixCompletion,
    path: PathLike,
    row: str,
    column: str,
    value: str | None,
    like_at: float | None,
    duplicates: Duplicates,
    *,
    skip_unknown: bool,
) -> tuple[Observations, int]:
    """Return a table's entries in the model's own rows and columns, and how many were left out."""
    table = read_table(path, [row, column] if value is None else [row, column, value])
    i, j, kept = _positions(model, table, row, column, skip_unknown)
    if not kept.any():
        raise InvalidInputError(
            f"No entry of {table.name} has a row id and a column id that the model knows; "
            "check --row and --column."
        )
    labels = (
        np.ones(i.size)
        if value is None
        else as_labels(
            table.numbers(value)[kept],
            model.like_at if like_at is None else like_at,
            _kept_where(table, kept),
        )
    )
    shape = model.row_factors_.shape[0], model.column_factors_.shape[0]
    ids = model.row_ids_, model.column_ids_
    entries = Entries(i, j, labels.astype(np.int8), shape, *ids)
    merged = merge_duplicates(entries, duplicates, _kept_where(table, kept))
    return Observations(*merged), int(np.sum(~kept))


def _names(
    model: BinaryMatrixCompletion, row: str | None, column: str | None, value: str | None
) -> tuple[str, str, str | None]:
    """Return the column names given, or those the model was fitted with."""
    fitted = model.names_ or (None, None, None)
    row, column = row or fitted[0], column or fitted[1]
    if row is None or column is None:
        raise InvalidInputError(
            "The model was not fitted from a file, so it knows no column names: pass --row and --column."
        )
    return row, column, value or fitted[2]


def _positions(
    model: BinaryMatrixCompletion, table: Table, row: str, column: str, skip_unknown: bool
) -> tuple[Positions, Positions, NDArray[np.bool_]]:
    """Return the model's positions of the table's ids, and which records have two that it knows."""
    kept = np.ones(table.ids(row).size, dtype=bool)
    sides = []
    for name, ids, size in (
        (row, model.row_ids_, model.row_factors_.shape[0]),
        (column, model.column_ids_, model.column_factors_.shape[0]),
    ):
        # A file's ids are text; the model may have been fitted on numbers, or on bare positions.
        known = {str(key): place for place, key in enumerate(range(size) if ids is None else ids)}
        places = np.array([known.get(key, -1) for key in table.ids(name)], dtype=np.int64)
        unknown = np.flatnonzero(places < 0)
        if unknown.size and not skip_unknown:
            first = int(unknown[0])
            raise InvalidInputError(
                f"{table.where(first)}: the id {table.ids(name)[first]!r} in column {name!r} is not one the model "
                "was fitted on; remove such records, or leave them out with --skip-unknown."
            )
        kept &= places >= 0
        sides.append(places)
    return sides[0][kept], sides[1][kept], kept


def _kept_where(table: Table, kept: NDArray[np.bool_]) -> Where:
    places = np.flatnonzero(kept)
    return lambda position: table.where(int(places[position]))
