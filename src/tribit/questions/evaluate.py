"""Evaluation on a test set."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tribit.data.reading import Records
from tribit.errors import TribitWarning, warn
from tribit.evaluation.held_out import Evaluation, evaluate
from tribit.questions.base import Question, option
from tribit.questions.kinds import Entries, known_entries, new_entries

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
    unknown: str = option(
        "error",
        "Entries with ids that the model was not fitted on: error or skip.",
        choices=("error", "skip"),
    )

    def answer(self, recommender: FittedRecommender) -> Evaluation:
        """Return the measures."""
        n_skipped = 0
        if isinstance(self.test, Records) or self.unknown == "skip":
            given, n_skipped = known_entries(recommender, self.test, self.unknown)
        else:
            given = new_entries(recommender, self.test)
        seen = recommender.seen_
        if seen is not None:
            rows, columns = recommender.axes_.places(given, "the test entries have")
            here = (rows >= 0) & (columns >= 0)
            if n := int(np.count_nonzero(seen.to_sparse()[rows[here], columns[here]])):
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
        )
        return replace(found, n_skipped=n_skipped)
