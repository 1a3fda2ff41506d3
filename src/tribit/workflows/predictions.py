"""Probabilities and signs for the pairs of a table, and how good they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.tables import write_table
from tribit.evaluation import Evaluation
from tribit.recommender.facts import says_like
from tribit.workflows.answer_tables import check_headings, check_out, headings
from tribit.workflows.bundles import PathLike, known_entries, opened, placed, reading_of
from tribit.workflows.newcomers import with_new

#: Columns that predictions add to the two of ids.
ANSWERS = ("probability", "label", "basis")


@dataclass(frozen=True, eq=False)
class Prediction:
    """Numbers of pairs that were answered, left out, and answered without knowing both ids; and the table."""

    n_pairs: int
    n_skipped: int
    n_unknown: int
    table: dict[str, AnyArray]


def predict_file(
    model_path: PathLike,
    pairs: PathLike,
    out: PathLike | None,
    *,
    unknown: str = "answer",
    new: PathLike | None = None,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    max_size: int | None = None,
    escape_formulas: bool | None = None,
    **rules: Any,
) -> Prediction:
    """Write the probability of a like and the predicted sign for each pair of ids in a table.

    Parameters
    ----------
    model_path : str or path-like
        A bundle, or a model alone.
    pairs : str or path-like
        A table with row and column ids.
    out : str, path-like or None
        The table to write: the two id columns, ``probability``, ``label`` (+1 or -1; not where one label was observed
        alone, and probabilities are of something else) and ``basis``, which says what the answer rests on: the model;
        the column (or row) alone, where the model does not know the row (or column); or the average, where it knows
        neither. None writes nothing.
    unknown : {"answer", "skip", "error"}, default="answer"
        What to do with ids that the model does not know: answer by what is known of the other, leave the pair out, or
        refuse the table. One pair at least must be known.
    new : str or path-like, optional
        A table of entries that came after the fit, of new rows and columns or of known ones.
    row_features, column_features : str or path-like, optional
        Tables of features of new rows and columns, as those of the fit, ids in the first column; these need no entries.
    max_size : int, optional
        The most bytes to read of a table; see :func:`tribit.data.tables.observations_from_file`.
    escape_formulas : bool, optional
        Whether to put an apostrophe before ids that a spreadsheet would run as formulas: those that begin with ``=``,
        ``+``, ``-``, ``@`` or white space and are no numbers. The ids written are then not those of the model any more,
        so that it is off by default; a CSV or TSV file with such ids has a warning, unless this is False.
    **rules
        Of :class:`tribit.data.reading.Reading`, where the tables differ from that of the fit.
    """
    check_out(out, model_path, pairs, new, row_features, column_features)
    features = {"row_features": row_features, "column_features": column_features}
    bundle, _, _ = with_new(opened(model_path), new, **features, max_size=max_size, **rules)
    records = reading_of(bundle, **rules).pairs(pairs, max_size=max_size)
    found = placed(bundle, records, unknown)
    probability = bundle.model_._probability(found.factors.at(found.rows, found.columns))
    row, column = headings(records.names)
    answers: dict[str, AnyArray] = {"probability": probability, "basis": found.bases}
    if says_like(bundle.model_):
        answers["label"] = np.where(probability >= 0.5, 1, -1)
    answers = {name: answers[name] for name in ANSWERS if name in answers}
    check_headings((row, column), ANSWERS)
    table = {row: records.rows[found.kept], column: records.columns[found.kept], **answers}
    if out is not None:
        write_table(out, table, escape_formulas=escape_formulas)
    return Prediction(
        n_pairs=int(np.sum(found.kept)),
        n_skipped=int(np.sum(~found.kept)),
        n_unknown=int(np.sum(~found.known.all(axis=0))),
        table=table,
    )


def evaluate_file(
    model_path: PathLike,
    test: PathLike,
    *,
    unknown: str = "error",
    max_size: int | None = None,
    **rules: Any,
) -> Evaluation:
    """Compare a bundle with a table of observed entries that it was not fitted on.

    Parameters
    ----------
    model_path : str or path-like
        A bundle, or a model alone, which has no baselines beside.
    test : str or path-like
        The table.
    unknown : {"error", "skip"}, default="error"
        Whether a table with ids that the model does not know is refused, or such records left out.
    max_size : int, optional
        As in :func:`predict_file`.
    **rules
        Of :class:`tribit.data.reading.Reading`, where the table differs from that of the fit.
    """
    bundle = opened(model_path)
    records = reading_of(bundle, **rules).records(test, max_size=max_size)
    seen, n_skipped = known_entries(bundle, records, unknown)
    return replace(bundle.evaluate(seen), n_skipped=n_skipped)
