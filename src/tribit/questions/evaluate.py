"""Evaluation on a test set."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.errors import TribitWarning, parameter, warn
from tribit.evaluation.held_out import Evaluation, evaluate, periods_of
from tribit.nouns import Nouns
from tribit.questions.base import Question, option
from tribit.questions.kinds import Entries, held_out_entries, unknown_option

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True, eq=False)
class Evaluate(Question[Evaluation]):
    """Evaluate the model on a test set, beside baselines (:func:`tribit.evaluate`)."""

    test: Entries = option(
        MISSING, "Test set: observed entries that the fit did not use.", argument=True
    )
    level: float = option(0.95, "Level of the confidence intervals.", gt=0, lt=1)
    n: int = option(10, "Length of the top-N lists that are evaluated.", flag="-n", ge=1)
    avoid_dislikes: float = option(1.0, "Likes to give up to avoid one dislike.", ge=0)
    by: str | int | None = option(
        None,
        "Measures by period too: day, week, month, quarter, year, or a number of periods with as many entries each.",
    )
    unknown: str = unknown_option("predicted from the known row or column", "ids of test entries")

    def answer(self, recommender: FittedRecommender) -> Evaluation:
        """Return the measures."""
        given = held_out_entries(recommender, self.test, self.unknown)
        # The command line has all numbers as floats.
        by: Any = self.by
        by = int(by) if isinstance(by, float) and by.is_integer() else by
        if by is not None:
            given.require_times(f"{parameter('by', by)} is about the times of the test entries")
        seen = recommender.seen_
        if seen is not None:
            rows, columns = recommender.axes_.places(given, "the test entries have")
            here = (rows >= 0) & (columns >= 0)
            if n := int(np.count_nonzero(seen.observed_at(rows[here], columns[here]))):
                warn(
                    TribitWarning(
                        f"{n} of the {len(given)} entries were part of the fit: the measures are too optimistic, and "
                        "baselines and top-N lists are left out; pass a test set."
                    )
                )
                seen = None
        found = evaluate(
            recommender.model_,
            given,
            seen,
            level=self.level,
            n=self.n,
            ranker=recommender.ranker_,
            avoid_dislikes=self.avoid_dislikes,
            unknown=self.unknown,
        )
        found = replace(found, nouns=Nouns.of(recommender.reading_))
        if by is None:
            return found
        scores = recommender.model_.scores_
        return replace(found, periods=periods_of(scores, given, by, self.level, self.unknown))
