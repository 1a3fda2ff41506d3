"""Means of rows, columns, groups and the whole of a partly seen table, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import AnyArray, Positions
from tribit.errors import InvalidInputError, parameter, quoted
from tribit.estimates import Draws, Groups, estimate_means
from tribit.estimates import Means as MeansAnswer
from tribit.estimates.estimation import GUARANTEES, SELECTIONS
from tribit.questions.aligned import (
    aligned_values,
    check_answered,
    drawn_cells,
    given_probabilities,
    is_missing,
    number_of,
)
from tribit.questions.base import OMIT, Question, option
from tribit.questions.kinds import Ids, Table, Texts, find_or_warn, unknown_option

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

Array = NDArray[np.floating[Any]]

#: Whose means; "all" is the mean of the whole table.
MEANS_OF = ("rows", "columns", "all")
#: Seen cells that a row without any counts for where its probability of being seen is its share.
LEAST_SEEN = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class Means(Question[MeansAnswer]):
    """Return the means of rows, columns, groups or the whole table, with confidence intervals.

    A mean is the share of likes (+1) that a row would have if all its cells were seen. Predictions make the estimate
    more precise, and an interval holds however good they are. It is about draws of cells: whether a cell is seen must
    not depend on its label. The table of :class:`~tribit.estimates.Means` has a record for each mean.
    """

    axis: str = option("rows", "Whose means: rows, columns, or all cells.", choices=MEANS_OF)
    by: Table | None = option(
        None,
        "Groups of rows (of columns with their axis): a table of ids and groups, or a list.",
        serve=OMIT,
    )
    rows: Ids | None = option(None, "Only these rows.", flag="--for")
    columns: Ids | None = option(None, "Only these columns.")
    weights: Table | None = option(
        None,
        "Weights of the columns in a mean (of the rows with the axis columns): a table of ids and weights, or a list.",
        serve=OMIT,
    )
    selection: str = option(
        "uniform",
        "How cells came to be seen: uniform within a row, or modelled by rows and columns.",
        choices=SELECTIONS,
    )
    q: Table | None = option(
        None,
        "Known probabilities of being seen: row ids, then a column for each column of the table; or an array.",
        serve=OMIT,
    )
    asked: Table | None = option(
        None,
        "Cells that tribit ask drew, with their probabilities and batches: its table, or several joined.",
        serve=OMIT,
    )
    guarantee: str = option(
        "row",
        "Intervals for each row whatever it is like, or on average over rows like those seen as a whole.",
        choices=GUARANTEES,
    )
    level: float = option(0.95, "Level of the intervals.", gt=0, lt=1)
    ranks: bool = option(False, "Add the best and worst rank of each mean, for all at once.")
    versus: Ids | None = option(
        None, "Add differences from the mean of this row (or column or group)."
    )
    sensitivity: float | None = option(
        None,
        "Add limits for labels that differ between seen and unseen cells by an odds ratio of at most this.",
        ge=1,
    )
    threshold: float | None = option(
        None, "Add the odds ratio at which the limits of a mean reach this value.", gt=0, lt=1
    )
    unknown: str = unknown_option()
    random_state: int = option(0, "Seed of the folds of rows that predictions are fitted on.", ge=0)

    def answer(self, recommender: FittedRecommender) -> MeansAnswer:
        """Return the means."""
        entries = recommender.require_entries("means are of its seen cells")
        chosen = [
            self._chosen(recommender, side, ids)
            for side, ids in enumerate((self.rows, self.columns))
        ]
        q = self._probabilities(recommender)
        side = int(self.axis == "columns")
        if side:
            if isinstance(q, Draws):
                raise InvalidInputError(
                    f"{parameter('asked')} has draws of cells within {recommender.axes_.rows.name}s: pass "
                    f"{parameter('axis', 'rows')} or {parameter('axis', 'all')}."
                )
            if isinstance(q, str) and q == "uniform":
                seen = np.maximum(entries.counts[0], LEAST_SEEN)
                q = np.broadcast_to((seen / entries.shape[1])[:, None], entries.shape)
            entries, q = entries.transpose(), q if isinstance(q, str) else q.T
        population = np.zeros(entries.shape[1])
        population[chosen[1 - side]] = 1.0
        if self.weights is not None:
            population *= _weights(recommender, 1 - side, self.weights)
        groups = self._groups(recommender, side, chosen[side])
        found = estimate_means(
            entries,
            weights=population,
            groups=groups,
            q=q,
            guarantee=self.guarantee,
            level=self.level,
            random_state=self.random_state,
        )
        name = recommender.headings[side] if groups.is_single and self.axis != "all" else "group"
        return self._with_comparisons(replace(found, name=name))

    def _chosen(self, recommender: FittedRecommender, side: int, ids: object) -> Positions:
        """Return the positions of some rows (``side`` 0) or columns (1), each once."""
        if ids is None:
            return np.arange(recommender.shape_[side])
        places = find_or_warn(recommender, side, ids, self.unknown)
        return np.array(list(dict.fromkeys(places[places >= 0].tolist())), dtype=np.intp)

    def _groups(self, recommender: FittedRecommender, side: int, chosen: Positions) -> Groups:
        """Return the groups of the chosen rows or columns: by a table, all of them, or each by itself."""
        axis = recommender.axes_[side]
        of_rows = np.full(axis.size, -1)
        if self.by is not None and self.axis == "all":
            raise InvalidInputError(
                f"{parameter('by')} makes groups of rows or of columns: pass {parameter('axis', 'rows')} or "
                f"{parameter('axis', 'columns')}."
            )
        if self.axis == "all":
            of_rows[chosen] = 0
            return Groups(np.array(["all"], dtype=object), of_rows)
        if self.by is None:
            of_rows[chosen] = np.arange(chosen.size)
            return Groups(axis.names(chosen), of_rows)
        values = aligned_values(recommender, side, self.by, "by")
        names = [None if is_missing(values[at]) else values[at] for at in chosen.tolist()]
        known = list(dict.fromkeys(each for each in names if each is not None))
        if not known:
            raise InvalidInputError(
                f"{parameter('by')} has no group for any of the {axis.name}s; give ids of theirs, each with a group."
            )
        numbers = {each: number for number, each in enumerate(known)}
        of_rows[chosen] = [numbers.get(each, -1) for each in names]
        return Groups(np.array(known, dtype=object), of_rows)

    def _probabilities(self, recommender: FittedRecommender) -> Array | Draws | str:
        """Return the assumption on seen cells, their probabilities of shape (d1, d2), or the draws of some of them."""
        if self.asked is not None:
            if self.q is not None or self.selection != "uniform":
                raise InvalidInputError(
                    f"{parameter('asked')} has the probabilities of the drawn cells: leave out {parameter('q')} and "
                    f"{parameter('selection')}."
                )
            if self.sensitivity is not None:
                raise InvalidInputError(
                    f"{parameter('asked')} has cells that were drawn whatever their labels are, so that there is "
                    f"no odds ratio to allow for: leave out {parameter('sensitivity')}."
                )
            draws = drawn_cells(recommender, self.asked, "asked")
            check_answered(recommender, draws, "asked")
            return draws
        if self.q is None:
            return self.selection
        return given_probabilities(recommender, self.q, self.selection)

    def _with_comparisons(self, found: MeansAnswer) -> MeansAnswer:
        """Return the means with their ranks and differences, as asked."""
        further: dict[str, AnyArray] = {}
        if self.sensitivity is not None:
            further |= found.sensitivity(self.sensitivity)
        if self.threshold is not None:
            further["turns_at"] = found.turns_at(self.threshold)
        if self.ranks:
            further |= found.ranks() | self._at_odds_ratio(found.ranks)
        if self.versus is not None:
            further |= self._differences(found)
        return replace(found, further=further)

    def _differences(self, found: MeansAnswer) -> dict[str, AnyArray]:
        """Return the differences from the mean of one row, and the odds ratios at which they turn."""
        texts = self.versus.values if isinstance(self.versus, Texts) else (self.versus,)
        places = np.flatnonzero(np.isin(found.ids.astype(str), np.array(texts).astype(str)))
        if places.size != 1:
            raise InvalidInputError(
                f"{parameter('versus')} must be one of the {found.name}s whose means are asked for, such as "
                f"{quoted(str(found.ids[0]))}; got {quoted(', '.join(map(str, texts)))}."
            )
        place = int(places[0])
        columns: dict[str, AnyArray] = {**found.differences(place)}
        if self.sensitivity is None:
            return columns
        further = self._at_odds_ratio(partial(found.differences, place))
        del further["sensitivity_difference"]
        return columns | further | {"difference_turns_at": found.differences_turn_at(place)}

    def _at_odds_ratio(self, compare: Callable[..., dict[str, Any]]) -> dict[str, AnyArray]:
        """Return the columns of a comparison at the odds ratio of the sensitivity, if there is one."""
        if self.sensitivity is None:
            return {}
        found = compare(odds_ratio=self.sensitivity)
        return {f"sensitivity_{name}": values for name, values in found.items()}


def _weights(recommender: FittedRecommender, side: int, table: Any) -> Array:
    """Return a weight for each row or column; 0 where the table has none."""
    values = aligned_values(recommender, side, table, "weights")
    return np.array([number_of(each, 0.0, "weights") for each in values])
