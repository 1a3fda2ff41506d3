"""Answers of a bundle to a user's files: predictions, lists, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit._moved import renamed_keywords
from tribit.data.axis import AnyArray, named
from tribit.data.files import check_different
from tribit.data.headings import NAMES
from tribit.data.tables import write_table
from tribit.errors import InvalidInputError, parameter
from tribit.evaluation import Evaluation
from tribit.explain.explanation import Explanation
from tribit.quoting import quoted
from tribit.recommend import CandidateRanker
from tribit.recommend.lists import Recommendations
from tribit.recommender.facts import says_like
from tribit.workflows.bundles import (
    PathLike,
    known_entries,
    opened,
    placed,
    positions_of,
    reading_of,
    with_rows,
)
from tribit.workflows.newcomers import with_new

#: Columns that predictions add to the two of ids, and those that lists do.
ANSWERS = ("probability", "label", "basis")
PLACES = (
    "place",
    "score",
    "probability",
    "lower",
    "upper",
    "expected_likes",
    "expected_dislikes",
    "basis",
)
#: What lists of a row rest on.
LISTS_BASES = ("model", "popularity")
#: Standard input and output.
STREAM = "-"


def predict_file(
    model_path: PathLike,
    pairs: PathLike,
    out: PathLike | None,
    *,
    unknown: str = "answer",
    new: PathLike | None = None,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    skip_unknown: bool = False,
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
    skip_unknown : bool, default=False
        The same as ``unknown="skip"``.
    max_size : int, optional
        The most bytes to read of a table; see :func:`tribit.data.tables.observations_from_file`.
    escape_formulas : bool, optional
        Whether to put an apostrophe before ids that a spreadsheet would run as formulas: those that begin with ``=``,
        ``+``, ``-``, ``@`` or white space and are no numbers. The ids written are then not those of the model any more,
        so that it is off by default; a CSV or TSV file with such ids has a warning, unless this is False.
    **rules
        Of :class:`tribit.data.reading.Reading`, where the tables differ from that of the fit.
    """
    _check_out(out, model_path, pairs, new, row_features, column_features)
    features = {"row_features": row_features, "column_features": column_features}
    bundle, _, _ = with_new(opened(model_path), new, **features, max_size=max_size, **rules)
    records = reading_of(bundle, **rules).pairs(pairs, max_size=max_size)
    found = placed(bundle, records, "skip" if skip_unknown else unknown)
    probability = bundle.model_._probability(found.factors.at(found.rows, found.columns))
    row, column = _written(records.names)
    answers: dict[str, AnyArray] = {"probability": probability, "basis": found.bases}
    if says_like(bundle.model_):
        answers["label"] = np.where(probability >= 0.5, 1, -1)
    answers = {name: answers[name] for name in ANSWERS if name in answers}
    _check_names((row, column), ANSWERS)
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
    skip_unknown: bool = False,
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
    skip_unknown : bool, default=False
        The same as ``unknown="skip"``.
    max_size : int, optional
        As in :func:`predict_file`.
    **rules
        Of :class:`tribit.data.reading.Reading`, where the table differs from that of the fit.
    """
    bundle = opened(model_path)
    records = reading_of(bundle, **rules).records(test, max_size=max_size)
    seen, n_skipped = known_entries(bundle, records, "skip" if skip_unknown else unknown)
    return replace(bundle.evaluate(seen), n_skipped=n_skipped)


@renamed_keywords(finder="ranker")
def recommend_file(
    model_path: PathLike,
    seen: PathLike | None = None,
    out: PathLike | None = None,
    *,
    n: int = 10,
    avoid_dislikes: float = 1.0,
    only: Sequence[str] | None = None,
    new: PathLike | None = None,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    ranker: bool = True,
    level: float | None = 0.9,
    unknown: str = "skip",
    skip_unknown: bool = False,
    max_size: int | None = None,
    escape_formulas: bool | None = None,
    **rules: Any,
) -> Lists:
    """Write the best columns for each row, best first, none of which it has seen.

    Parameters
    ----------
    model_path : str or path-like
        A bundle. It keeps what was seen, unless it was fitted without.
    seen : str or path-like, optional
        A table of entries to leave out in the place of those that the bundle keeps.
    out : str, path-like or None
        The table to write: row id, column id, ``place`` (from 1), ``score``, ``probability`` of a like with the
        ``lower`` and ``upper`` end of its interval, ``expected_likes`` and ``expected_dislikes``, and ``basis``: the
        model, or popularity for a row of which nothing is known. None writes nothing.
    n : int, default=10
        Length of a list, at most the number of columns.
    avoid_dislikes : float, default=1.0
        As in :meth:`tribit.Recommender.recommend`.
    only : list of str, optional
        Row ids to make lists for; every row by default, or those that ``new`` and ``row_features`` bring.
    new, row_features, column_features : str or path-like, optional
        As in :func:`predict_file`.
    ranker : bool, default=True
        Whether to rank by expected likes less expected dislikes; else by the probability of a like.
    level : float or None, default=0.9
        Posterior probability of the intervals; None for none.
    unknown, skip_unknown
        Whether entries of ``seen`` with ids that the model does not know are left out ("skip") or refused ("error").
    max_size, escape_formulas, **rules
        As in :func:`predict_file`.
    """
    _check_out(out, model_path, seen, new, row_features, column_features)
    features = {"row_features": row_features, "column_features": column_features}
    bundle, given, came = with_new(opened(model_path), new, **features, max_size=max_size, **rules)
    n_skipped = 0
    exclude: Any = True
    if only is None and came:
        only = came
    if given is not None and bundle.seen_ is None:
        exclude = given
    if seen is not None:
        records = reading_of(bundle, **rules).records(seen, max_size=max_size)
        exclude, n_skipped = known_entries(bundle, records, "skip" if skip_unknown else unknown)
        if ranker and bundle.ranker_ is None and bundle._ranker_arrays is None:
            # A model alone has none, and here are the entries to learn one from.
            bundle.ranker_ = CandidateRanker(random_state=0).fit(exclude)
    bundle, is_cold = with_rows(bundle, only)
    lists = bundle.recommend(
        None if only is None else _asked(bundle, only),
        n,
        exclude_seen=exclude,
        avoid_dislikes=avoid_dislikes,
        level=level,
        ranker=ranker,
    )
    if not lists.shown.any():
        raise InvalidInputError(
            "The rows asked for have seen every column, so that no list is left to write; ask for others "
            f"({parameter('only')})."
        )
    row, column = _names_of(bundle, rules)
    _check_names((row, column), PLACES)
    table = lists.table(row, column)
    counts = np.count_nonzero(lists.shown, axis=1)
    table["basis"] = np.repeat(np.array(LISTS_BASES)[is_cold.astype(int)], counts)
    if out is not None:
        write_table(out, table, escape_formulas=escape_formulas)
    return Lists(len(lists), int(counts.sum()), n_skipped, int(is_cold.sum()), table, lists)


def _asked(bundle: Any, only: Sequence[str]) -> AnyArray:
    """Return rows as the model names them; ids on a command line are text."""
    axis = bundle.model_._axes.rows
    places = positions_of(axis, np.array(list(only), dtype=object))
    return np.asarray(axis.names(places))


def _names_of(bundle: Any, rules: Any) -> tuple[str, str]:
    """Return the names of the id columns to write."""
    reading = reading_of(bundle, **rules)
    return _written((reading.row, reading.column))


def _written(names: Sequence[str | None]) -> tuple[str, str]:
    """Return names of id columns to write; a number is no heading that a later command would know again."""
    row, column = (
        default if name is None or name.isdecimal() else name
        for name, default in zip(names, NAMES[:2], strict=False)
    )
    return row, column


def _check_names(names: tuple[str, str], answers: Any) -> None:
    if clash := set(names) & set(answers):
        raise InvalidInputError(
            f"The id column {quoted(clash.pop())} has the name of an answer ({', '.join(answers)}); rename it."
        )


def _check_out(out: PathLike | None, *sources: PathLike | None) -> None:
    """Refuse to write over a file that is read; a stream is none."""
    for source in sources:
        if out is not None and source is not None and STREAM not in (str(source), str(out)):
            check_different(source, out)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Numbers of pairs that were answered, left out, and answered without knowing both ids; and the table."""

    n_pairs: int
    n_skipped: int
    n_unknown: int
    table: dict[str, AnyArray]


@dataclass(frozen=True, eq=False)
class Lists:
    """Numbers of rows with lists, of columns listed, of records left out, of rows without an entry; and the table."""

    n_rows: int
    n_pairs: int
    n_skipped: int
    n_unknown: int
    table: dict[str, AnyArray]
    lists: Recommendations

    @property
    def dislikes_per_like(self) -> float | None:
        """Dislikes to be expected of all lists for one like; None without a ranker."""
        if self.lists.likes is None or self.lists.dislikes is None:
            return None
        likes = float(np.nansum(self.lists.likes))
        return float(np.nansum(self.lists.dislikes)) / likes if likes > 0 else None


def explain_ids(model_path: PathLike, row: str, column: str) -> tuple[Explanation, str | None]:
    """Return which entries of a row pulled the score of a column up or down; ids are text, as a file has them.

    And what probabilities are of, where it is not a like.
    """
    bundle = opened(model_path)
    ids = (_known_id(bundle, side, name) for side, name in enumerate((row, column)))
    search = bundle.model_.search_
    meaning = None if search is None or says_like(bundle.model_) else str(search.meaning)
    return bundle.explain(*ids), meaning


def similar_ids(
    model_path: PathLike, *, row: str | None = None, column: str | None = None, n: int = 10
) -> dict[str, AnyArray]:
    """Return a table of the rows (or columns) that are most alike to one, and their similarities."""
    if (row is None) == (column is None):
        raise InvalidInputError(f"Pass either {parameter('row')} or {parameter('column')}.")
    bundle = opened(model_path)
    name, side = (row, 0) if row is not None else (column, 1)
    sought = {("rows", "columns")[side]: [_known_id(bundle, side, str(name))]}
    found = bundle.similar(n=n, **sought)
    title = _names_of(bundle, {})[side]
    return {title: found.nearest[0], "similarity": found.similarities[0]}


def _known_id(bundle: Any, side: int, name: str) -> Any:
    """Return an id as the model has it."""
    axis = bundle.model_._axes[side]
    place = positions_of(axis, np.array([name], dtype=object))
    if place[0] < 0:
        raise InvalidInputError(
            f"The {axis.name} id {quoted(name)} is not one the model was fitted on; pass one such as "
            f"{named(axis.ids, 0)}."
        )
    return axis.names(place)[0]
