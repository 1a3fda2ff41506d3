"""Contributions to the score of one cell."""

from __future__ import annotations

import warnings
from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.data.axis import Axis
from tribit.errors import InvalidInputError, TribitWarning
from tribit.explain import Explanation, explain
from tribit.folding import fold_in
from tribit.folding.new_rows import AXES, empty_observations
from tribit.model.fitted import Fitted
from tribit.questions.base import OMIT, Question, option
from tribit.questions.kinds import (
    Entries,
    Ids,
    axis_of_strangers,
    distinct_at,
    entries_of_new_rows,
    find_or_warn,
    unknown_option,
)
from tribit.questions.predict import BASES

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

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
    unknown: str = unknown_option("the known row or column alone", choices=("popularity", "error"))

    def answer(self, recommender: FittedRecommender) -> Explanation:
        """Return the explanation."""
        row = self.row
        if (row is None) == (self.entries is None) or self.column is None:
            raise InvalidInputError("Pass a column, and either a row or the entries of a new row.")
        recommender.require_entries(REASON)
        if self.entries is not None:
            given = entries_of_new_rows(recommender, self.entries, self.unknown)
            if given.shape[0] != 1:
                raise InvalidInputError(
                    f"The entries belong to {given.shape[0]} new rows; pass those of one."
                )
            recommender = recommender.fold_in(given)
            row = recommender.axes_.rows.names(np.array([recommender.shape_[0] - 1]))
        recommender = recommender.with_rho()
        seen = recommender.require_entries(REASON)
        axes, model = recommender.axes_, recommender.model_
        fitted, ids, informed = model.fitted_, list[Any](), list[int]()
        answered = "explained from the other side alone"
        for side, (axis, given) in enumerate(zip(axes, (row, self.column), strict=True)):
            places = find_or_warn(recommender, side, given, self.unknown, answered)
            known = bool((places >= 0).all())
            informed.append(int(known and recommender.have_information_[side][places].all()))
            ids.append(axis.names(places))
            if not known:
                strangers = axis_of_strangers(axis, distinct_at(given, np.flatnonzero(places < 0)))
                fitted, ids[side] = _with_unknown(fitted, side, strangers), strangers.ids
        found = explain(fitted, ids[0], ids[1], seen, n_jobs=model.n_jobs)
        basis = str(BASES[informed[0], informed[1]])
        found = replace(found, basis=basis, names=recommender.headings)
        return found if self.n is None else found.first(self.n)


def _with_unknown(fitted: Fitted, side: int, strangers: Axis) -> Fitted:
    """Return a fit with rows (or columns) without entries or features."""
    axes = (strangers, fitted.axes.columns) if side == 0 else (fitted.axes.rows, strangers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TribitWarning)  # the answer has its basis
        return fold_in(fitted, empty_observations(*axes), axis=AXES[side])
