"""From a user's file to an answer: what the command line runs, one function for each command."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.completion import BinaryMatrixCompletion
from tribit.errors import InvalidInputError
from tribit.files import check_different
from tribit.ids import Positions, Where
from tribit.ingest import Duplicates, Entries, as_labels, merge_duplicates
from tribit.metrics import Evaluation, evaluate
from tribit.observations import Observations
from tribit.storage import load
from tribit.tables import Table, observations_from_file, read_table, write_table

#: Columns that predictions add to the two of ids.
ANSWERS = ("probability", "label")
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
    model.names_ = (row, column, value)
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
    table = read_table(test, [row, column] if value is None else [row, column, value])
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
    seen = Observations(*merge_duplicates(entries, duplicates, _kept_where(table, kept)))
    return replace(evaluate(model, seen), n_skipped=int(np.sum(~kept)))


@dataclass(frozen=True)
class Prediction:
    """How many pairs were written, and how many were left out because an id is unknown."""

    n_pairs: int
    n_skipped: int


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
