"""Similar rows or columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tribit.errors import InvalidInputError, parameter
from tribit.explain.neighbours import Neighbours, similar
from tribit.questions.base import Question, option
from tribit.questions.kinds import Ids, find_or_warn, unknown_option

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True, eq=False, kw_only=True)
class Similar(Question[Neighbours]):
    """Return the rows or columns with the most similar scores (:func:`tribit.similar`)."""

    rows: Ids | None = option(None, "Row ids.", flag="--row")
    columns: Ids | None = option(None, "Column ids.", flag="--column")
    n: int = option(10, "Number of neighbours.", flag="-n", ge=1)
    unknown: str = unknown_option()

    def answer(self, recommender: FittedRecommender) -> Neighbours:
        """Return the neighbours."""
        if (self.rows is None) == (self.columns is None):
            raise InvalidInputError(f"Pass either {parameter('rows')} or {parameter('columns')}.")
        side, given = ("columns", self.columns) if self.rows is None else ("rows", self.rows)
        number = ("rows", "columns").index(side)
        axis = recommender.axes_[number]
        places = find_or_warn(recommender, number, given, self.unknown)
        ids = axis.names(places[places >= 0])
        found = similar(recommender.model_, n=self.n, seen=recommender.seen_, **{side: ids})
        return replace(found, name=recommender.headings[number])
