"""Designs for the next cells to fill: greedy, random, or both, with known probabilities.

``mixed``
    A quarter of the cells of each row by the greatest expected gain (:mod:`tribit.estimates.gains`), then three
    quarters with probabilities proportional to ``sqrt(p (1 - p))``, a tenth of them uniform.
``pps``
    All cells with these probabilities. They minimise the variance of a doubly robust mean if the predictions ``p``
    are right (Neyman 1934).
``random``
    All cells with equal probabilities.
``greedy``
    All cells by the greatest expected gain: the best means if the model is right, and no guarantee for a single row.

Cells that are chosen by gain have the probability 1: they are known once they are filled, and the doubly robust
estimate is of the other cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.estimates.designs import inclusion_probabilities, systematic_sample
from tribit.estimates.gains import GOALS, Gain, Posterior
from tribit.estimates.item_response import Items

__all__ = ["DESIGNS", "Choice", "Design", "choose_cells"]

Array = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]

#: Shares of cells that are chosen by gain, by the name of the design.
DESIGNS = {"mixed": 0.25, "random": 0.0, "pps": 0.0, "greedy": 1.0}
#: Share of the probabilities that is uniform.
UNIFORM_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Design:
    """How cells are chosen.

    Attributes
    ----------
    name : str
        A name of :data:`DESIGNS`.
    gain : callable
        The gain by which greedy cells are chosen.
    weights : array of shape (d2,)
        Weights of the columns in a mean; columns with weight 0 are not chosen.
    costs : array of shape (d2,)
        Costs of a cell in each column.
    list_length : int
        Length of the lists that are the goal ``list``.
    """

    name: str
    gain: Gain
    weights: Array
    costs: Array
    list_length: int = 10

    @classmethod
    def of(
        cls,
        n_columns: int,
        name: str = "mixed",
        *,
        goal: str = "means",
        weights: Array | None = None,
        costs: Array | None = None,
    ) -> Design:
        """Return the design by its name; by default with equal weights and costs 1."""
        weights = np.full(n_columns, 1 / n_columns) if weights is None else weights
        return cls(name, GOALS[goal], weights, np.ones(n_columns) if costs is None else costs)

    def split(self, before: Array, now: Array, total: Array) -> tuple[Array, Array]:
        """Return how much of a batch is chosen by gain and how much at random, in each row.

        Parameters
        ----------
        before, now, total : array of shape (n,)
            Cost of the cells before the batch, of the batch, and of all batches.
        """
        by_gain = np.round(DESIGNS[self.name] * total)
        greedy = np.clip(by_gain - before, 0.0, now)
        return greedy, now - greedy


class Choice(NamedTuple):
    """Chosen cells of some rows.

    Attributes
    ----------
    chosen : array of shape (n, d2)
        Mask of the cells.
    probability : array of shape (n, d2)
        Probability of being drawn, 1 for a cell that is chosen by gain; 0 elsewhere.
    prediction : array of shape (n, d2)
        Predicted probability of +1.
    """

    chosen: Bools
    probability: Array
    prediction: Array


def choose_cells(
    items: Items,
    labels: sp.csr_array,
    greedy: Array,
    random: Array,
    design: Design,
    draws: np.random.Generator,
) -> Choice:
    """Return the next cells of some rows.

    Parameters
    ----------
    items : Items
        Columns of the item response model.
    labels : sparse array of shape (n, d2)
        Known labels of the rows.
    greedy, random : array of shape (n,)
        Cost of the cells of each row that are chosen by gain, and that are drawn at random.
    design : Design
        How cells are chosen.
    draws : Generator
        Draws the random cells.
    """
    abilities = items.abilities(labels)
    p = items.predict(abilities, labels)
    unknown = (labels.toarray() == 0) & (design.weights > 0)
    posterior = Posterior.of(items, abilities, unknown, design.weights, design.list_length)
    chosen = _by_gain(posterior, greedy, design)
    left = unknown & ~chosen
    order = draws.random(p.shape)
    sizes = np.where(left, 1.0, 0.0)
    if design.name != "random":
        # Ties of predictions are in random order.
        order = p + 1e-9 * order
        sizes = np.where(left, np.sqrt(p * (1 - p)) * design.weights / np.sqrt(design.costs), 0.0)
    q = _affordable(sizes, random, design)
    drawn = systematic_sample(q, order, draws)
    probability = np.where(chosen, 1.0, np.where(drawn, q, 0.0))
    return Choice(chosen | drawn, probability, p)


def _by_gain(posterior: Posterior, budgets: Array, design: Design) -> Bools:
    """Return the cells with the greatest gains per cost, one after another, as far as the budgets of the rows go."""
    left = np.array(budgets, dtype=np.float64)
    before = posterior.unknown
    while True:
        possible = posterior.unknown & (design.costs <= left[:, None] + 1e-9)
        rows = np.flatnonzero(possible.any(axis=1))
        if not rows.size:
            return np.asarray(before & ~posterior.unknown)
        values = np.where(possible, design.gain(posterior) / design.costs, -np.inf)[rows]
        columns = values.argmax(axis=1)
        left[rows] -= design.costs[columns]
        posterior = posterior.asked(rows, columns)


def _affordable(sizes: Array, budgets: Array, design: Design) -> Array:
    """Return probabilities by size with the budgets as the expected costs."""
    uniform = UNIFORM_SHARE if design.name != "random" else 0.0
    if (design.costs == 1).all():
        return inclusion_probabilities(sizes, budgets, uniform)
    low, high = np.zeros(len(budgets)), (sizes > 0).sum(axis=1).astype(np.float64)
    for _ in range(COST_STEPS):
        counts = (low + high) / 2
        q = inclusion_probabilities(sizes, counts, uniform)
        is_above = q @ design.costs > budgets
        low, high = np.where(is_above, low, counts), np.where(is_above, counts, high)
    return inclusion_probabilities(sizes, low, uniform)


#: Halvings of the range of the expected number of cells that a budget affords.
COST_STEPS = 40
