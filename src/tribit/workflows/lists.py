"""Lists of the best columns for the rows of a bundle, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.tables import write_table
from tribit.errors import InvalidInputError, parameter
from tribit.ranking import CandidateRanker
from tribit.ranking.lists import Recommendations
from tribit.workflows.answer_tables import check_headings, check_out, id_headings
from tribit.workflows.bundles import (
    PathLike,
    are_of_the_fit,
    known_entries,
    opened,
    positions_of,
    reading_of,
    with_rows,
)
from tribit.workflows.newcomers import with_new

#: Columns that lists add to the two of ids.
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
#: Bases of the lists of a row.
LISTS_BASES = ("model", "popularity")


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
        As in :func:`tribit.workflows.predict_file`.
    ranker : bool, default=True
        Whether to rank by expected likes less expected dislikes; else by the probability of a like.
    level : float or None, default=0.9
        Posterior probability of the intervals; None for none.
    unknown : {"skip", "error"}, default="skip"
        Whether entries of ``seen`` with ids that the model does not know are left out, or refused.
    max_size, escape_formulas, **rules
        As in :func:`tribit.workflows.predict_file`.
    """
    check_out(out, model_path, seen, new, row_features, column_features)
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
        exclude, n_skipped = known_entries(bundle, records, unknown)
        if ranker and bundle.ranker_ is None and are_of_the_fit(bundle, exclude):
            # A file without entries has no ranker, and here are the entries to fit one to.
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
    row, column = id_headings(bundle, rules)
    check_headings((row, column), PLACES)
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
