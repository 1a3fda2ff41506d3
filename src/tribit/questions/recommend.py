"""Top-N lists."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import AnyArray, Axis, Positions, as_list
from tribit.errors import InvalidInputError, InvalidTypeError, TribitWarning, parameter
from tribit.folding.positions import without_entries
from tribit.questions.base import OMIT, Question, option
from tribit.questions.kinds import Entries, Ids, Texts, find, known_entries, new_entries, typed
from tribit.quoting import quoted
from tribit.ranking.candidate_ranker import CandidateRanker
from tribit.ranking.lists import BY_MODEL, BY_POPULARITY, Recommendations, TopN
from tribit.uncertainty.of_lists import with_intervals

if TYPE_CHECKING:
    from tribit.recommender import Recommender

UNKNOWN = ("error", "skip", "answer")


@dataclass(frozen=True, eq=False)
class Recommend(Question[Recommendations]):
    """Return the ``n`` best columns for each row, best first.

    With a ranker they are ordered by the expected likes less ``avoid_dislikes`` times the expected dislikes, else by
    the probability of a like.
    """

    rows: Ids | None = option(
        None,
        "Row ids, or positions from 0 without ids [every row, or those that are new].",
        flag="--for",
    )
    n: int = option(10, "Length of each list, at most every column.", flag="-n", ge=1)
    exclude_seen: Entries | bool = option(
        True,
        "Whether to leave out the entries of the row; or a table of the entries to leave out.",
        argument=True,
    )
    avoid_dislikes: float = option(1.0, "Number of likes to give up to avoid a dislike.", ge=0)
    level: float | None = option(
        0.9,
        "Posterior probability of the intervals; none for no intervals.",
        serve=None,
        gt=0,
        lt=1,
    )
    ranker: bool = option(
        True, "Whether to rank by exposure too: the columns that a row will observe."
    )
    entries: Entries | None = option(
        None, "Entries of new rows, which take the place of rows.", command=OMIT
    )
    unknown: str = option(
        "error",
        "Rows that the model does not know: answer by popularity, skip or error.",
        command="answer",
        serve="answer",
        choices=UNKNOWN,
    )

    def answer(self, recommender: Recommender) -> Recommendations:
        """Return the lists."""
        rows, excluded = self.rows, self.exclude_seen
        if self.entries is not None:
            if rows is not None:
                raise InvalidInputError("Pass rows, or the entries of new rows, not both.")
            given = new_entries(recommender, self.entries)
            if excluded is True and recommender.seen_ is None:
                excluded = given
            n_before = recommender.shape_[0]
            recommender = recommender.fold_in(given)
            rows = recommender.axes_.rows.names(np.arange(n_before, recommender.shape_[0]))
        recommender, places, unknown = self._places(recommender, rows)
        left_out, n_skipped = None, 0
        if self.unknown == "skip":
            n_skipped = int(np.count_nonzero(unknown))
            places, unknown = places[~unknown], unknown[~unknown]
        top = recommender.top_n_
        if isinstance(excluded, bool | np.bool_):
            left_out = recommender.seen_mask_ if excluded else None
        else:
            seen, n_lost = known_entries(recommender, _not_none(excluded), "skip")
            n_skipped += n_lost
            left_out = recommender.axes_.mask(seen, "exclude_seen has")
            if self.ranker and recommender.seen_ is None and recommender.are_of_the_fit(seen):
                # A file without entries has no ranker, and here are the entries to fit one to.
                top = replace(top, ranker=CandidateRanker(random_state=0).fit(seen), prepared=None)
        found = self.lists(top, places, left_out)
        if self.level is not None:
            fitted = recommender.model_.fitted_
            found = with_intervals(found, fitted, recommender.seen_, places, self.level)
        basis = np.where(unknown, BY_POPULARITY, BY_MODEL)
        return replace(found, basis=basis, n_skipped=n_skipped, names=recommender.headings)

    def lists(self, top: TopN, places: Positions, left_out: sp.csr_array | None) -> Recommendations:
        """Return the lists of rows at some positions."""
        chosen = top if self.ranker else top.without_ranker
        return chosen.lists(places, self.n, avoid_dislikes=self.avoid_dislikes, left_out=left_out)

    def _places(
        self, recommender: Recommender, rows: Any
    ) -> tuple[Recommender, Positions, NDArray[np.bool_]]:
        """Return a recommender that has all rows, their positions, and which of them it did not know."""
        axis = recommender.axes_.rows
        if rows is None:
            return recommender, np.arange(axis.size), np.zeros(axis.size, dtype=bool)
        places = find(axis, rows, unknown_is_error=self.unknown == "error")
        unknown = places < 0
        if self.unknown == "skip" and unknown.all():
            raise InvalidInputError(
                f"The model knows none of the rows; check {parameter('rows')}, or leave out {parameter('unknown')}."
            )
        if self.unknown == "skip" or not unknown.any():
            return recommender, places, unknown
        new = _distinct(axis, rows, unknown)
        nothing = without_entries(Axis(axis.name, new.size, new), recommender.axes_.columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TribitWarning)  # the lists say so themselves
            recommender = recommender.fold_in(nothing)
        return recommender, find(recommender.axes_.rows, rows), unknown


def _distinct(axis: Axis, rows: Any, unknown: NDArray[np.bool_]) -> AnyArray:
    """Return the ids of the unknown rows, each once."""
    texts = isinstance(rows, Texts)
    ids = np.fromiter(rows.values if texts else as_list(rows), dtype=object)[unknown]
    if axis.ids is None:
        raise InvalidInputError(
            f"The row {quoted(ids[0])} is none of the model's, which count from 0 to {axis.size - 1}; check "
            f"{parameter('rows')}."
        )
    distinct = np.fromiter(dict.fromkeys(ids.tolist()), dtype=object)
    return typed(axis, distinct) if texts else distinct


def _not_none(given: Any) -> Any:
    if given is None:
        raise InvalidTypeError(
            "exclude_seen is None; pass True, False or the entries to leave out."
        )
    return given
