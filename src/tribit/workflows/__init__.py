"""Functions behind the command line, one for each command: from a user's file to an answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from tribit._moved import renamed_keywords
from tribit.completion import BinaryMatrixCompletion
from tribit.data.files import check_different
from tribit.data.ingest import Duplicates
from tribit.data.reading import Reading
from tribit.data.tables import read_table, write_table
from tribit.errors import InvalidInputError, parameter
from tribit.metrics.entries import Evaluation, evaluate
from tribit.quoting import quoted
from tribit.recommend import CandidateRanker
from tribit.storage import load
from tribit.workflows.model_tables import asked_rows, column_names, known_entries, known_positions

#: Rules of reading that :func:`fit_file` takes by their names, besides those in its signature and the model's.
RULES = tuple(
    each.name
    for each in fields(Reading)
    if each.name not in {"row", "column", "value", "duplicates", "like_at", "notes"}
)
#: Columns that predictions add to the two of ids.
ANSWERS = ("probability", "label")
#: Columns that lists add to them.
PLACES = ("place", "score")
PathLike = str | os.PathLike[str]


def fit_file(
    path: PathLike,
    *,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    duplicates: Duplicates = "error",
    max_size: int | None = None,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    **parameters: Any,
) -> BinaryMatrixCompletion:
    """Fit a model on a table of observed entries.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`tribit.data.tables.read_table` reads.
    row, column : str, optional
        Names of the columns of ids; or numbers from 0 for a text file without a header. A table of two or three columns
        needs none, nor does a wide table or a matrix.
    value : str, optional
        The column of +1 and -1, or of ratings (then pass ``like_at``); without it every pair is a like.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`Observations.from_pairs`.
    max_size : int, optional
        The most bytes to read; see :func:`tribit.data.tables.observations_from_file`.
    row_features, column_features : str or path-like, optional
        Tables of what is known of rows and of columns, ids in the first column. Tags are separated by ``|``.
    **parameters
        Of :class:`BinaryMatrixCompletion`, and the other rules of :class:`tribit.data.reading.Reading` (``like``,
        ``dislike``, ``delimiter``, ``decimal``, ``encoding``, ``missing``, ``layout``, ``zeros``, ``format``).

    Returns
    -------
    BinaryMatrixCompletion
        The fitted model; ``names_`` holds the three column names, ``reading_`` the rules by which the table was read.
    """
    rules = {name: parameters.pop(name) for name in RULES if name in parameters}
    model = BinaryMatrixCompletion(**parameters)
    rules |= {"row": row, "column": column, "value": value, "duplicates": duplicates}
    records = Reading(**rules, like_at=model.like_at).records(path, max_size=max_size)
    observations = records.observations()
    tables = (
        None if path is None else read_table(path, max_size=max_size).columns
        for path in (row_features, column_features)
    )
    of_rows, of_columns = tables
    model.fit(observations, row_features=of_rows, column_features=of_columns)
    model.names_, model.reading_ = records.names, records.reading
    return model


def predict_file(
    model_path: PathLike,
    pairs: PathLike,
    out: PathLike,
    *,
    row: str | None = None,
    column: str | None = None,
    skip_unknown: bool = False,
    max_size: int | None = None,
    escape_formulas: bool | None = None,
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
        Leave out pairs with an id that the model does not know, instead of refusing the table; one must be left.
    max_size : int, optional
        The most bytes to read of the pairs; see :func:`tribit.data.tables.observations_from_file`.
    escape_formulas : bool, optional
        Whether to put an apostrophe before ids that a spreadsheet would run as formulas: those that begin with ``=``,
        ``+``, ``-``, ``@`` or white space and are no numbers. The ids written are then not those of the model any more,
        so that it is off by default; a CSV or TSV file with such ids has a warning, unless this is False.

    Returns
    -------
    Prediction
        Numbers of pairs written and left out.
    """
    for source in (model_path, pairs):
        check_different(source, out)
    model = load(model_path)
    row, column, _ = column_names(model, row, column, None)
    if clash := {row, column} & set(ANSWERS):
        raise InvalidInputError(
            f"The id column {quoted(clash.pop())} has the name of an answer ({', '.join(ANSWERS)}); rename it."
        )
    table = read_table(pairs, [row, column], max_size=max_size)
    i, j, kept = known_positions(model, table, row, column, skip_unknown)
    x = model._factors().at(i, j)
    probability = model._probability(x)
    columns = {
        row: table.ids(row)[kept],
        column: table.ids(column)[kept],
        "probability": probability,
        "label": np.where(probability >= 0.5, 1, -1),
    }
    write_table(out, columns, escape_formulas=escape_formulas)
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
    max_size: int | None = None,
) -> Evaluation:
    """Compare a saved model with a table of observed entries that it was not fitted on.

    The parameters are those of :func:`fit_file`; names and ``like_at`` default to those the model was fitted
    with. With ``skip_unknown`` entries with an id that the model does not know
    are left out, instead of refusing the table.
    """
    model = load(model_path)
    row, column, value = column_names(model, row, column, value)
    seen, n_skipped = known_entries(
        model,
        test,
        row,
        column,
        value,
        like_at,
        duplicates,
        skip_unknown=skip_unknown,
        max_size=max_size,
    )
    return replace(evaluate(model, seen), n_skipped=n_skipped)


@renamed_keywords(finder="ranker")
def recommend_file(
    model_path: PathLike,
    seen: PathLike,
    out: PathLike,
    *,
    n: int = 10,
    avoid_dislikes: float = 1.0,
    only: Sequence[str] | None = None,
    ranker: bool = True,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    like_at: float | None = None,
    duplicates: Duplicates = "error",
    skip_unknown: bool = False,
    max_size: int | None = None,
    escape_formulas: bool | None = None,
) -> Lists:
    """Write the best columns for each row, best first, none of which it has seen.

    Parameters
    ----------
    model_path : str or path-like
        A saved model.
    seen : str or path-like
        A table of observed entries, such as the one the model was fitted on: they are left out of the lists, and tell
        a :class:`tribit.recommend.CandidateRanker` which entries rows observe.
    out : str or path-like
        The table to write: row id, column id, ``place`` (from 1) and ``score``.
    n : int, default=10
        Length of a list, at most the number of columns.
    avoid_dislikes : float, default=1.0
        As in :meth:`tribit.factor_model.FactorModel.recommend`.
    only : list of str, optional
        Row ids to make lists for; every row by default.
    ranker : bool, default=True
        Whether to rank by expected likes less expected dislikes; else by the probability of a like.
    row, column, value, like_at, duplicates, skip_unknown, max_size
        As in :func:`evaluate_file`.
    escape_formulas : bool, optional
        As in :func:`predict_file`.
    """
    for source in (model_path, seen):
        check_different(source, out)
    model = load(model_path)
    row, column, value = column_names(model, row, column, value)
    if clash := {row, column} & set(PLACES):
        raise InvalidInputError(
            f"The id column {quoted(clash.pop())} has the name of an answer ({', '.join(PLACES)}); rename it."
        )
    entries, n_skipped = known_entries(
        model,
        seen,
        row,
        column,
        value,
        like_at,
        duplicates,
        skip_unknown=skip_unknown,
        max_size=max_size,
    )
    lists = model.recommend(
        asked_rows(model, only),
        n,
        exclude_seen=entries,
        avoid_dislikes=avoid_dislikes,
        ranker=CandidateRanker(random_state=0).fit(entries) if ranker else None,
    )
    rows, columns, scores = lists.pairs()
    if not rows.size:
        raise InvalidInputError(
            "The rows asked for have seen every column, so that no list is left to write; ask for others "
            f"({parameter('only')})."
        )
    places = np.nonzero(lists.shown)[1] + 1
    written = {row: rows, column: columns, "place": places, "score": scores}
    write_table(out, written, escape_formulas=escape_formulas)
    return Lists(len(lists), int(rows.size), entries.n_observed, n_skipped)


@dataclass(frozen=True)
class Prediction:
    """Numbers of pairs that were written, and that were left out because an id is unknown."""

    n_pairs: int
    n_skipped: int


@dataclass(frozen=True)
class Lists:
    """Numbers of rows with lists, of columns listed, of entries seen, and of records left out."""

    n_rows: int
    n_pairs: int
    n_seen: int
    n_skipped: int
