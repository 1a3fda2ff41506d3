"""Measures on entries that the model was not fitted on."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tribit.data.reading import Records
from tribit.errors import TribitWarning, warn
from tribit.evaluation import Evaluation, evaluate
from tribit.questions.base import Question, option
from tribit.questions.kinds import Entries, known_entries, new_entries

if TYPE_CHECKING:
    from tribit.recommender import Recommender


@dataclass(frozen=True, eq=False)
class Evaluate(Question[Evaluation]):
    """Compare the model with entries that it was not fitted on, beside baselines (:func:`tribit.evaluate`)."""

    test: Entries = option(MISSING, "Observed entries, not used in the fit.", argument=True)
    level: float = option(0.95, "Level of the confidence intervals, over rows.", gt=0, lt=1)
    n: int = option(10, "Length of the lists that are measured.", flag="-n", ge=1)
    avoid_dislikes: float = option(1.0, "Number of likes to give up to avoid a dislike.", ge=0)
    unknown: str = option(
        "error",
        "Entries with ids that the model does not know: error or skip.",
        choices=("error", "skip"),
    )

    def answer(self, recommender: Recommender) -> Evaluation:
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
                        f"{n} of the {len(given)} entries were part of the fit, so that the measures flatter the model "
                        "and stand without baselines and lists: hold out entries."
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
