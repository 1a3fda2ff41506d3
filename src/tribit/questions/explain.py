"""Contributions to the score of one cell."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING

import numpy as np

from tribit.errors import InvalidInputError
from tribit.explain import Explanation, explain
from tribit.questions.base import OMIT, Question, option
from tribit.questions.kinds import Entries, Ids, entries_of_new_rows, find

if TYPE_CHECKING:
    from tribit.recommender import Recommender

#: Reason in the error of a recommender without entries.
REASON = "explanations name entries"


@dataclass(frozen=True, eq=False)
class Explain(Question[Explanation]):
    """Return the contributions of the row's entries to the score of a column (:mod:`tribit.explain`)."""

    row: Ids | None = option(None, "A row id.", argument=True, command=MISSING)
    column: Ids | None = option(None, "A column id.", argument=True, command=MISSING)
    n: int | None = option(
        None, "Number of entries of the row to name [all].", command=OMIT, serve=10, ge=0
    )
    entries: Entries | None = option(
        None, "Entries of one new row, instead of a row id.", command=OMIT
    )

    def answer(self, recommender: Recommender) -> Explanation:
        """Return the explanation."""
        row = self.row
        if (row is None) == (self.entries is None) or self.column is None:
            raise InvalidInputError("Pass a column, and either a row or the entries of a new row.")
        recommender.require_entries(REASON, again=True)
        if self.entries is not None:
            given = entries_of_new_rows(recommender, self.entries)
            if given.shape[0] != 1:
                raise InvalidInputError(
                    f"The entries belong to {given.shape[0]} new rows; pass those of one."
                )
            recommender = recommender.fold_in(given)
            row = recommender.axes_.rows.names(np.array([recommender.shape_[0] - 1]))
        recommender = recommender.with_rho()
        seen = recommender.require_entries(REASON, again=True)
        axes, model = recommender.axes_, recommender.model_
        i, j = (
            axis.names(find(axis, given))
            for axis, given in zip(axes, (row, self.column), strict=True)
        )
        found = explain(model.fitted_, i, j, seen, n_jobs=model.n_jobs)
        return found if self.n is None else found.first(self.n)
