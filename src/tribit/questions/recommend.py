"""Top-N lists."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.data.observations import Observations
from tribit.errors import (
    InvalidInputError,
    InvalidTypeError,
    TribitWarning,
    either,
    quoted,
    warn,
)
from tribit.folding.new_rows import empty_observations
from tribit.questions.base import OMIT, Question, option
from tribit.questions.kinds import (
    Entries,
    Ids,
    axis_of_strangers,
    distinct_at,
    entries_of_new_rows,
    find,
    find_or_warn,
    known_entries,
    unknown_option,
)
from tribit.ranking.lists import BY_MODEL, BY_POPULARITY, Recommendations, TopN
from tribit.ranking.rate_ranker import fit_ranker
from tribit.uncertainty.list_intervals import with_intervals

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True, eq=False)
class Recommend(Question[Recommendations]):
    """Return the top-N list of each row: the ``n`` best columns, best first.

    With a ranker columns are in the order of the rate of likes minus ``avoid_dislikes`` times that of dislikes,
    otherwise in that of the probability of a like. ``expected_likes`` is the probability that the row observes the
    column while the table grows by a tenth, and likes it.
    """

    rows: Ids | None = option(
        None,
        "Row ids, or positions from 0 without ids [every row; with --new the rows of that table].",
        flag="--for",
    )
    n: int = option(10, "Length of each list.", flag="-n", ge=1)
    exclude_seen: Entries | bool = option(
        True,
        "Leave out the entries of the fit; or a table of entries to leave out.",
        argument=True,
    )
    avoid_dislikes: float = option(1.0, "Likes to give up to avoid one dislike.", ge=0)
    level: float | None = option(
        0.9,
        "Level of the credible intervals; none for no intervals.",
        serve=None,
        gt=0,
        lt=1,
    )
    ranker: bool = option(
        True, "Rank by exposure too: the rate at which the row observes a column."
    )
    among: Ids | None = option(None, "Recommend only these columns [every column].")
    entries: Entries | None = option(None, "Entries of new rows, instead of row ids.", command=OMIT)
    unknown: str = unknown_option("the most popular columns", "rows")

    def answer(self, recommender: FittedRecommender) -> Recommendations:
        """Return the lists."""
        if self.entries is not None and self.rows is not None:
            raise InvalidInputError("Pass rows, or the entries of new rows, not both.")
        places, new = self._places(recommender)
        excluded, unknown, n_skipped = self.exclude_seen, places < 0, 0
        if new is not None:
            if unknown.all() and self.level is None and isinstance(excluded, bool | np.bool_):
                return self._lists_of_new(recommender, new)
            if unknown.all() and excluded is True and recommender.seen_ is None:
                excluded = new
            recommender, places, unknown = self._with_rows(recommender, new, unknown)
        elif self.unknown == "skip":
            n_skipped = int(np.count_nonzero(unknown))
            places, unknown = places[~unknown], unknown[~unknown]
        left_out = None
        top = recommender.top_n_
        if isinstance(excluded, bool | np.bool_):
            left_out = recommender.seen_mask_ if excluded else None
        else:
            seen, n_lost = known_entries(recommender, _not_none(excluded), "skip")
            n_skipped += n_lost
            left_out = recommender.axes_.mask(seen, "exclude_seen has")
            if self.ranker and recommender.seen_ is None and recommender.match_fit_counts(seen):
                # A file without entries has no ranker; one is fitted to the given entries.
                top = replace(top, ranker=fit_ranker(seen, random_state=0), prepared=None)
        found = self.lists(recommender, top, places, left_out)
        if self.level is not None:
            fitted = recommender.model_.fitted_
            found = with_intervals(found, fitted, recommender.seen_, places, self.level)
        basis = np.where(
            recommender.have_information_[0][places] & ~unknown, BY_MODEL, BY_POPULARITY
        )
        return replace(found, basis=basis, n_skipped=n_skipped, names=recommender.headings)

    def lists(
        self,
        recommender: FittedRecommender,
        top: TopN,
        places: Positions,
        left_out: sp.csr_array | None,
    ) -> Recommendations:
        """Return the lists of rows at some positions."""
        chosen, among = top if self.ranker else top.without_ranker, None
        if self.among is not None:
            among = find_or_warn(recommender, 1, self.among, self.unknown)
            among = among[among >= 0]
        found = chosen.lists(
            places, self.n, avoid_dislikes=self.avoid_dislikes, left_out=left_out, among=among
        )
        empty = found.rows[found.lengths == 0].tolist()
        if empty and (self.rows is not None or len(empty) == len(found)):
            _warn_of_empty(empty, recommender.headings[0], "" if among is None else " of among")
        return found

    def _places(self, recommender: FittedRecommender) -> tuple[Positions, Observations | None]:
        """Return positions of rows, -1 for unknown ones, and entries of new rows; unknown rows have none."""
        if self.entries is not None:
            return np.zeros(0, dtype=np.int64), entries_of_new_rows(
                recommender, self.entries, self.unknown
            )
        axes = recommender.axes_
        if self.rows is None:
            return np.arange(axes.rows.size), None
        answered = "answered by popularity" if self.unknown == "popularity" else ""
        places = find_or_warn(recommender, 0, self.rows, self.unknown, answered)
        unknown = places < 0
        if self.unknown == "skip" or not unknown.any():
            return places, None
        strangers = axis_of_strangers(axes.rows, distinct_at(self.rows, np.flatnonzero(unknown)))
        return places, empty_observations(strangers, axes.columns)

    def _with_rows(
        self, recommender: FittedRecommender, new: Observations, unknown: NDArray[np.bool_]
    ) -> tuple[FittedRecommender, Positions, NDArray[np.bool_]]:
        """Return a recommender with the new rows, positions of all rows, and a mask of rows without entries."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TribitWarning)  # their basis is in the answer
            recommender = recommender.fold_in(new)
        if self.entries is None:
            return recommender, find(recommender.axes_.rows, self.rows), unknown
        n = recommender.shape_[0]
        return recommender, np.arange(n - new.shape[0], n), new.counts[0] == 0

    def _lists_of_new(self, recommender: FittedRecommender, given: Observations) -> Recommendations:
        """Return the lists of new rows without a copy of the recommender."""
        _, top = recommender.new_rows(given)
        axis = given.axes.rows
        places = np.arange(axis.size) if self.rows is None else find(axis, self.rows)
        found = self.lists(recommender, top, places, top.seen if self.exclude_seen else None)
        return replace(
            found,
            basis=np.where(given.counts[0][places] > 0, BY_MODEL, BY_POPULARITY),
            n_skipped=len(given) - (0 if top.seen is None else top.seen.nnz),
            names=recommender.headings,
        )


def _warn_of_empty(rows: list[Any], name: str, where: str) -> None:
    one = len(rows) == 1
    some = (
        f"The {name} {quoted(rows[0])} has"
        if one
        else f"{len(rows)} rows, such as {quoted(rows[0])}, have"
    )
    advice = either(" (exclude_seen=False lists observed columns too)")
    lists = "the list is" if one else "their lists are"
    warn(TribitWarning(f"{some} entries in every column{where}: {lists} empty{advice}."))


def _not_none(given: object) -> Any:
    if given is None:
        raise InvalidTypeError(
            "exclude_seen is None; pass True, False or the entries to leave out."
        )
    return given
