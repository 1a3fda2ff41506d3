"""Positions of rows and columns in a few dimensions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tribit.questions.base import Question, option
from tribit.questions.kinds import Ids, find
from tribit.uncertainty import positions as maps

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True, eq=False, kw_only=True)
class Positions(Question[maps.Positions]):
    """Return biases and coordinates of rows and columns, with standard errors (:func:`tribit.positions`)."""

    n: int | None = option(
        None, "Number of axes, 0 for biases alone [2, or all that there are].", flag="-n", ge=0
    )
    polarity: Ids | None = option(
        None,
        "Row ids with a positive coordinate, one for all axes or one for each [the row of the largest one].",
    )

    def answer(self, recommender: FittedRecommender) -> maps.Positions:
        """Return the positions."""
        recommender = recommender.with_rho()
        rows = recommender.axes_.rows
        polarity = None if self.polarity is None else rows.names(find(rows, self.polarity))
        found = maps.positions(recommender.model_, recommender.seen_, n=self.n, polarity=polarity)
        row, column = recommender.headings
        return replace(
            found, rows=replace(found.rows, name=row), columns=replace(found.columns, name=column)
        )
