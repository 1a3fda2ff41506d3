"""Cells to fill next: the budget over rows and batches, and the answer with the probability of each cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.answers import Answer, with_ids
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_choice
from tribit.data.axis import AnyArray, check_positions
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.estimates.asking import DESIGNS, Design, choose_cells
from tribit.estimates.designs import Draws
from tribit.estimates.gains import GOALS, LIST_LENGTH
from tribit.estimates.item_response import fit_items
from tribit.estimates.replay import MIN_DRAWN
from tribit.randomness import RandomState, generator

__all__ = ["MIN_ROWS_OF_GREEDY", "AskedCells", "Plan", "ask_cells", "even_shares"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]

#: Whole rows below which means after a greedy design have large errors.
MIN_ROWS_OF_GREEDY = 200
#: Abilities of a row in the item response model.
RANK = 2
#: Cells whose predictions are in memory at a time.
BLOCK_CELLS = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class AskedCells(Answer):
    """Cells to fill next.

    Attributes
    ----------
    rows, columns : array
        Ids of the cells.
    probability : array
        Probability with which a cell was drawn, given all that is known; 1 for a cell that is chosen without a draw.
    batch : array of int
        Number of the batch.
    prediction : array
        Predicted probability of +1.
    names : (str, str)
        Headings of the ids.
    value : str
        Heading of an empty column for the labels; "" for none.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.estimates import ask_cells
    >>> seen = Observations.from_matrix([[1, 1, -1, 1], [1, -1, -1, 1], [1, 0, 0, 0]])
    >>> asked = ask_cells(seen, budget=1, design="greedy", goal="log_loss", random_state=0)
    >>> asked.rows, asked.columns, asked.probability
    (array([2]), array([2]), array([1.]))
    """

    rows: AnyArray
    columns: AnyArray
    probability: Array
    batch: NDArray[np.int64]
    prediction: Array
    names: tuple[str, str] = ("row", "column")
    value: str = ""

    def __len__(self) -> int:
        return int(self.probability.size)

    def table(self) -> dict[str, AnyArray]:
        """Return a record for each cell."""
        columns: dict[str, AnyArray] = {}
        if self.value:
            columns[self.value] = np.full(len(self), "", dtype=object)
        columns |= {name: getattr(self, name) for name in ("probability", "batch", "prediction")}
        return with_ids(self.names, (self.rows, self.columns), columns)

    def facts(self) -> dict[str, str]:
        """Return the number of cells, of those drawn at random, and of the rows."""
        random = int(np.count_nonzero(self.probability < 1))
        return {
            "cells": f"{len(self)} in {len(set(self.rows.tolist()))} rows, batch {int(self.batch[0])}",
            "drawn": f"{random} at random, {len(self) - random} by their gain",
        }


@dataclass(frozen=True, eq=False)
class Plan:
    """Budget, design and goal of the cells to fill next.

    Attributes
    ----------
    budget : float
        Cost of all cells; their number where each costs 1.
    batch : float or None
        Cost of the next cells; by default the whole budget.
    design : str
        "mixed", "random", "pps" or "greedy" (:mod:`tribit.estimates.asking`).
    goal : str
        "means", "log_loss" or "list" (:mod:`tribit.estimates.gains`).
    list_length : int
        Length of the lists of the goal "list".
    costs, weights : array of shape (d2,) or None
        Cost of a cell of each column, by default 1, and weights of the columns in a mean, by default all the same; a
        column of weight 0 is not asked.

    Examples
    --------
    >>> from tribit.estimates.asked import Plan
    >>> Plan(200, batch=50).design
    'mixed'
    """

    budget: float
    batch: float | None = None
    design: str = "mixed"
    goal: str = "means"
    list_length: int = LIST_LENGTH
    costs: Array | None = None
    weights: Array | None = None

    def design_of(self, n_columns: int) -> Design:
        """Return the design for a table."""
        weights = np.ones(n_columns) if self.weights is None else self.weights
        return Design(
            check_choice("design", self.design, tuple(DESIGNS)),
            GOALS[check_choice("goal", self.goal, tuple(GOALS))],
            weights / weights.sum(),
            np.ones(n_columns) if self.costs is None else self.costs,
            self.list_length,
        )


def ask_cells(
    entries: Observations,
    *,
    budget: float,
    rows: Any = None,
    asked: Draws | None = None,
    random_state: RandomState = None,
    **options: Any,
) -> AskedCells:
    """Return the cells to fill next: those of the first batch, or of the one after ``asked``.

    The budget is spent evenly on the rows, as far as they have unseen cells.

    Parameters
    ----------
    entries : Observations
        The seen cells.
    budget : float
        Cost of the cells of all batches; their number where each costs 1.
    rows : list of int, optional
        Positions of the rows to ask; by default all with unseen cells.
    asked : Draws, optional
        Cells of earlier batches of the same plan, whose labels are among the entries.
    random_state : int, Generator, RandomState or None
        Draws the cells, and the starts of the fit.
    **options
        Further attributes of a :class:`~tribit.estimates.asked.Plan`: ``batch``, ``design``, ``goal``,
        ``list_length``, ``costs``, ``weights``.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.estimates import ask_cells
    >>> seen = Observations.from_matrix([[1, 1, -1, 1], [1, -1, -1, 1], [1, 0, 0, 0], [0, 0, 0, -1]])
    >>> ask_cells(seen, budget=4, batch=2, random_state=0)
    row  column  probability  batch  prediction
      2       1       0.6666      1      0.5984
      2       3       0.6663      1      0.5994
    """
    plan = Plan(budget, **options)
    design = plan.design_of(entries.shape[1])
    labels, draws = entries.to_sparse(), generator(random_state)
    rows = np.arange(entries.shape[0]) if rows is None else np.unique(np.asarray(rows))
    check_positions(rows, entries.shape[0], "row")
    if asked is None:
        none = np.zeros(0, dtype=np.int64)
        asked = Draws(none, none, np.zeros(0), none)
    _warn_of_greedy(labels, plan)
    spent = np.zeros(entries.shape[0])
    np.add.at(spent, asked.rows, design.costs[asked.columns])
    spent = spent[rows]
    now, total = _budgets(labels[rows], plan, design, spent)
    greedy, random = design.split(spent, now, total)
    random = draw_in_turn(random, total - spent - greedy, is_empty=not greedy.any())
    with single_threaded_blas():
        items = fit_items(labels[np.flatnonzero(np.diff(labels.indptr))], RANK, draws)
        step, found = max(1, BLOCK_CELLS // entries.shape[1]), []
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            choice = choose_cells(
                items, labels[rows[part]], greedy[part], random[part], design, draws
            )
            i, j = np.nonzero(choice.chosen)
            found.append((rows[part][i], j, choice.probability[i, j], choice.prediction[i, j]))
    at_rows, at_columns, probability, prediction = (
        np.concatenate(each) for each in zip(*found, strict=True)
    )
    if not at_rows.size:
        raise InvalidInputError(
            f"{parameter('budget', budget)} affords no cell: the cheapest costs {design.costs.min():g}."
        )
    number = 1 + int(asked.batch.max(initial=0))
    axes = entries.axes
    return AskedCells(
        axes.rows.names(at_rows),
        axes.columns.names(at_columns),
        probability,
        np.full(at_rows.size, number),
        prediction,
    )


def even_shares(budget: float, most: Array) -> Array:
    """Return shares of a budget that are even, but none above its most; whole numbers where all of these are.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.estimates.asked import even_shares
    >>> even_shares(8, np.array([9.0, 1.0, 9.0, 9.0]))
    array([3., 1., 2., 2.])
    """
    order = np.sort(most)
    before = np.concatenate([[0.0], np.cumsum(order)[:-1]])
    levels = (budget - before) / np.arange(most.size, 0, -1)
    full = np.flatnonzero(levels <= order)
    level = levels[full[0]] if full.size else np.inf
    whole = np.equal(np.mod(most, 1), 0).all() and float(budget).is_integer()
    found = np.minimum(most, np.floor(level + ROUNDING) if whole else level)
    if whole:
        room = np.flatnonzero(found < most)[: round(budget - found.sum())]
        found[room] += 1
    return found


def draw_in_turn(random: Array, left: Array, *, is_empty: bool = True) -> Array:
    """Return what a batch draws at random in each row: all that is left, or many cells at once, in some of the rows.

    The error of a doubly robust estimate has no normal distribution where a batch draws few cells of a row. Rows in
    which it would draw fewer than 20 are served one after another instead, as far as the batch goes. An empty batch
    serves one row even if it is larger for that.

    Parameters
    ----------
    random, left : array of shape (n,)
        What the batch would draw at random in each row, and all that the plan has left for it.
    is_empty : bool
        Whether no cell is chosen by gain.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.estimates.asked import draw_in_turn
    >>> draw_in_turn(np.array([12.0, 12.0, 12.0]), np.array([24.0, 60.0, 24.0]))
    array([24.,  0.,  0.])
    """
    found = random.copy()
    few = np.flatnonzero((random > 0) & (random < np.minimum(left, MIN_DRAWN)))
    pool = found[few].sum()
    found[few] = 0.0
    is_empty = is_empty and not found.any()
    for row in few:
        cells = left[row] if left[row] < 2 * MIN_DRAWN else MIN_DRAWN
        if pool >= cells or is_empty:
            found[row] = cells
            pool -= cells
            is_empty = False
    return found


def _budgets(labels: Any, plan: Plan, design: Design, spent: Array) -> tuple[Array, Array]:
    """Return the cost of the batch, and of all batches, for each row."""
    costs = np.where(design.weights > 0, design.costs, 0.0)
    unseen = costs.sum() - (labels != 0) @ costs
    if unseen.sum() <= 0:
        raise InvalidInputError(
            "The rows have no unseen cells to ask; ask other rows, or new ones by ids that the table does not have."
        )
    left = plan.budget - spent.sum()
    if left <= 0:
        raise InvalidInputError(
            f"The cells of the earlier batches spent {parameter('budget', plan.budget)}; raise it to ask more."
        )
    if left > unseen.sum() + ROUNDING:
        rest = " that earlier batches left" if spent.any() else ""
        raise InvalidInputError(
            f"{parameter('budget', plan.budget)} is more than the {unseen.sum():g} unseen cells of the rows cost"
            f"{rest}; lower it, or fill them all."
        )
    total = even_shares(plan.budget, spent + unseen)
    now = spent.sum() + min(left, plan.batch or left)
    return np.clip(even_shares(now, total) - spent, 0.0, unseen), total


def _warn_of_greedy(labels: Any, plan: Plan) -> None:
    whole = int(np.count_nonzero(np.diff(labels.indptr) == labels.shape[1]))
    if plan.design == "greedy" and plan.goal == "means" and whole < MIN_ROWS_OF_GREEDY:
        warn(
            TribitWarning(
                f"A greedy design makes no random draw, so that means rest on the model; {whole} rows are seen as a "
                f"whole, and below {MIN_ROWS_OF_GREEDY} their errors are large for unusual rows: choose "
                f"{parameter('design', 'mixed')}."
            )
        )


#: Rounding error of sums of costs.
ROUNDING = 1e-9
