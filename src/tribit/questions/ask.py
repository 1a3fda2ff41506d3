"""Cells to fill next, with the probabilities that keep means valid."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tribit.data.axis import Axes, Positions, first_true, longer, quoted_id
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, parameter
from tribit.estimates.asked import AskedCells, ask_cells
from tribit.estimates.asking import DESIGNS
from tribit.estimates.gains import GOALS, LIST_LENGTH
from tribit.folding.new_rows import place_entries
from tribit.questions.aligned import (
    aligned_values,
    check_answered,
    drawn_cells,
    is_missing,
    number_of,
)
from tribit.questions.base import Question, option
from tribit.questions.kinds import Ids, Table, axis_of_strangers, distinct_at, find

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True, eq=False)
class Ask(Question[AskedCells]):
    """Return the unseen cells to fill next, with the probability of each and the number of its batch.

    Fill them, add their labels to the table, and pass the answer to ``means`` as ``asked``: its intervals are valid
    for this draw of cells. The design "mixed" chooses a quarter of the cells of each row by their gain and draws the
    others; "pps" and "random" draw all, "greedy" none. Budgets are even over the rows. For batches pass the same
    ``budget`` and ``rows`` each time, and the earlier answers as ``asked``.
    """

    budget: int = option(MISSING, "Cells of all batches; with a cost the cost of these.", ge=1)
    rows: Ids | None = option(
        None,
        "Rows to ask; an id that is not in the table is a new row without cells [every row].",
    )
    batch: int | None = option(None, "Cells (or cost) of the next batch [the whole budget].", ge=1)
    design: str = option(
        "auto",
        "How cells are chosen; auto is mixed for means, and greedy for other goals.",
        choices=("auto", *DESIGNS),
    )
    goal: str = option(
        "means",
        "Goal: means of the rows, log-loss of all cells, or likes in a list of the best cells.",
        choices=tuple(GOALS),
    )
    n: int = option(LIST_LENGTH, "Length of the lists of the goal list.", flag="-n", ge=1)
    columns: Ids | None = option(None, "Ask only these columns, whose mean is wanted.")
    cost: Table | None = option(
        None, "Cost of a cell in each column: a table of ids and costs, or a list."
    )
    asked: Table | None = option(None, "Cells of earlier batches: their tables, joined.")
    random_state: int = option(0, "Seed of the draws.", ge=0)

    def answer(self, recommender: FittedRecommender) -> AskedCells:
        """Return the cells."""
        entries = recommender.require_entries("the other cells are those to ask")
        rows, strangers = self._rows(recommender)
        entries = _with_rows(entries, strangers)
        columns = np.ones(entries.shape[1])
        if self.columns is not None:
            columns[:] = 0.0
            columns[find(recommender.axes_.columns, self.columns)] = 1.0
        draws = None
        if self.asked is not None:
            draws = drawn_cells(recommender, self.asked, "asked")
            check_answered(recommender, draws, "asked")
        auto = "mixed" if self.goal == "means" else "greedy"
        found = ask_cells(
            entries,
            budget=self.budget,
            rows=rows,
            asked=draws,
            random_state=self.random_state,
            batch=self.batch,
            design=auto if self.design == "auto" else self.design,
            goal=self.goal,
            list_length=self.n,
            costs=self._costs(recommender),
            weights=columns,
        )
        value = recommender.reading_.value or ""
        return replace(found, names=recommender.headings, value=value)

    def _rows(self, recommender: FittedRecommender) -> tuple[Positions | None, Axes]:
        """Return the positions of the rows, new ones after those of the table, and axes with the new rows alone."""
        axes = recommender.axes_
        none = Axes(replace(axes.rows, size=0, ids=None), axes.columns)
        if self.rows is None:
            return None, none
        places = find(axes.rows, self.rows, unknown_is_error=axes.rows.ids is None)
        lost = np.flatnonzero(places < 0)
        if not lost.size:
            return np.unique(places), none
        new = axis_of_strangers(axes.rows, distinct_at(self.rows, lost))
        known = np.unique(places[places >= 0])
        return np.concatenate([known, axes.rows.size + np.arange(new.size)]), Axes(
            new, axes.columns
        )

    def _costs(self, recommender: FittedRecommender) -> np.ndarray | None:
        if self.cost is None:
            return None
        values = aligned_values(recommender, 1, self.cost, "cost")
        axis = recommender.axes_.columns
        costs = np.array(
            [np.nan if is_missing(each) else number_of(each, np.nan, "cost") for each in values]
        )
        if (bad := first_true(~(np.isfinite(costs) & (costs > 0)))) is not None:
            raise InvalidInputError(
                f"{parameter('cost')} is {costs[bad]:g} for the {axis.name} {quoted_id(axis.ids, bad)}; every "
                f"{axis.name} needs a cost above 0."
            )
        return costs


def _with_rows(entries: Observations, new: Axes) -> Observations:
    """Return the entries in a table with further rows, which have none."""
    if not new.rows.size:
        return entries
    axes = entries.axes
    return place_entries(
        entries, entries.rows, entries.columns, longer(axes.rows, new.rows), axes.columns
    )
