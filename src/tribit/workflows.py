"""From a user's file to an answer: what the command line runs, one function for each command."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.completion import BinaryMatrixCompletion
from tribit.errors import InvalidInputError
from tribit.ids import Positions
from tribit.ingest import Duplicates
from tribit.metrics import Evaluation, evaluate
from tribit.observations import Observations
from tribit.storage import load
from tribit.tables import observations_from_file, pairs_from_file, write_table

PathLike = str | os.PathLike[str]
Names = tuple[str | None, str | None, str | None]


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
) -> int:
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

    Returns
    -------
    int
        Number of pairs.
    """
    model = load(model_path)
    row, column, _ = _names(model, row, column, None)
    rows, columns = pairs_from_file(pairs, row=row, column=column)
    i = _known(rows, model.row_ids_)
    j = _known(columns, model.column_ids_)
    probability = model.predict_proba(i, j)
    label = np.where(probability >= 0.5, 1, -1)
    write_table(out, {row: rows, column: columns, "probability": probability, "label": label})
    return int(label.size)


def evaluate_file(
    model_path: PathLike,
    test: PathLike,
    *,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    duplicates: Duplicates = "error",
) -> Evaluation:
    """Compare a saved model with a table of observed entries that it was not fitted on.

    The parameters are those of :func:`fit_file`; names default to those the model was fitted with, and ratings
    are split at the model's own ``like_at``.
    """
    model = load(model_path)
    row, column, value = _names(model, row, column, value)
    seen = observations_from_file(
        test, row=row, column=column, value=value, like_at=model.like_at, duplicates=duplicates
    )
    row_ids, column_ids = (
        _known(seen.row_ids, model.row_ids_),
        _known(seen.column_ids, model.column_ids_),
    )
    if model.row_ids_ is None or model.column_ids_ is None:
        # The model knows positions only: the file's ids are those.
        rows, columns = np.asarray(row_ids)[seen.rows], np.asarray(column_ids)[seen.columns]
        shape = model.row_factors_.shape[0], model.column_factors_.shape[0]
        return evaluate(model, Observations.from_pairs(rows, columns, seen.labels, shape=shape))
    return evaluate(
        model,
        Observations.from_pairs(
            seen.rows, seen.columns, seen.labels, row_ids=row_ids, column_ids=column_ids
        ),
    )


def _names(
    model: BinaryMatrixCompletion, row: str | None, column: str | None, value: str | None
) -> tuple[str, str, str | None]:
    """Return the column names given, or those the model was fitted with."""
    fitted: Names = getattr(model, "names_", None) or (None, None, None)
    row, column = row or fitted[0], column or fitted[1]
    if row is None or column is None:
        raise InvalidInputError(
            "The model was not fitted from a file, so it knows no column names: pass --row and --column."
        )
    return row, column, value or fitted[2]


def _known(ids: Any, known: NDArray[Any] | None) -> NDArray[Any] | Positions:
    """Return a file's ids, which are text, as the model has them: whole numbers where it has those."""
    texts = np.asarray(ids)
    if known is not None and known.dtype.kind not in "iu":
        return texts
    try:
        return texts.astype(np.int64)
    except (ValueError, OverflowError):
        # They stay text, and the look-up names the first that is unknown.
        return texts
