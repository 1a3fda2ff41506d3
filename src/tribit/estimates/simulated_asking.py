"""Simulation of a design on a table that is seen as a whole: what its cells would have been worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.answers import Answer
from tribit.backends.threads import single_threaded_blas
from tribit.data.axis import AnyArray
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, parameter
from tribit.estimates.asked import RANK, Plan, even_shares
from tribit.estimates.estimation import estimate_means
from tribit.estimates.item_response import fit_items
from tribit.estimates.means import Means
from tribit.estimates.replay import Replayed, replay_rows, steps_of
from tribit.randomness import RandomState, generator

__all__ = ["SimulatedAsking", "simulate_asking"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]

#: Least probability in a log-loss.
MIN_PROBABILITY = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedAsking(Answer):
    """Estimates of rows that were asked in a simulation, beside their true means.

    Attributes
    ----------
    means : Means
        Estimates of the rows.
    truth : array
        Their true means.
    plain_variance : array
        Variance of the share of +1 among as many cells, drawn with equal probabilities.
    log_loss : float
        Mean log-loss over all cells of the rows, in nats; an asked cell has none.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.estimates import Plan, simulate_asking
    >>> from tribit.simulate import tables
    >>> frame = tables.benchmark(60, 40, random_state=0)
    >>> table = Observations.from_frame(frame, row="model", column="task", value="solved")
    >>> found = simulate_asking(table, Plan(100, batch=10), rows=range(10), random_state=0)
    >>> int(found.means.seen.sum()), len(found.truth)
    (100, 10)
    """

    means: Means
    truth: Array
    plain_variance: Array
    log_loss: float

    @property
    def errors(self) -> Array:
        """Errors of the estimates."""
        return self.means.mean - self.truth

    @property
    def worth(self) -> float:
        """How many cells drawn with equal probabilities one asked cell is worth, by the mean squared error."""
        return float(np.mean(self.plain_variance) / np.mean(self.errors**2))

    @property
    def covers(self) -> NDArray[np.bool_]:
        """Whether the interval of each row has its true mean."""
        slack = 1e-9
        return np.asarray(
            (self.means.lower <= self.truth + slack) & (self.truth <= self.means.upper + slack)
        )

    def at_level(self, level: float) -> SimulatedAsking:
        """Return the same estimates with intervals of another level."""
        return replace(self, means=self.means.at_level(level))

    def table(self) -> dict[str, AnyArray]:
        """Return a record for each row."""
        return {**self.means.table(), "truth": self.truth}

    def facts(self) -> dict[str, str]:
        """Return the worth of a cell, the coverage and the log-loss."""
        return {
            "worth": f"{self.worth:.2f} cells drawn with equal probabilities",
            "coverage": f"{self.covers.mean():.3f} at level {self.means.level:g}",
            "log-loss": f"{self.log_loss:.4f} over all cells",
        }


def simulate_asking(
    entries: Observations,
    plan: Plan,
    *,
    rows: Any,
    guarantee: str = "row",
    level: float = 0.95,
    random_state: RandomState = None,
) -> SimulatedAsking:
    """Return the means of rows that are asked by a plan, all of whose cells are unseen at first.

    Parameters
    ----------
    entries : Observations
        A table; the rows are seen as a whole.
    plan : Plan
        Budget, batches and design.
    rows : list of int
        Positions of the rows to ask; the columns are learned on the others.
    guarantee, level, random_state
        As in :func:`tribit.estimates.estimate_means`.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.estimates import Plan, simulate_asking
    >>> from tribit.simulate import tables
    >>> frame = tables.benchmark(60, 40, random_state=0)
    >>> table = Observations.from_frame(frame, row="model", column="task", value="solved")
    >>> simulate_asking(table, Plan(60), rows=[0, 1, 2], random_state=0).means.seen
    array([20, 20, 20])
    """
    rows, draws = np.unique(np.asarray(rows, dtype=np.int64)), generator(random_state)
    labels, (n, m) = entries.to_sparse(), entries.shape
    if (np.diff(labels.indptr)[rows] < m).any():
        raise InvalidInputError(
            f"{parameter('rows')} must be seen as a whole: their labels are revealed as they are asked."
        )
    others = np.setdiff1d(np.arange(n), rows)
    with single_threaded_blas():
        items = fit_items(labels[others], RANK, draws)
        design = plan.design_of(m)
        unseen = np.full(rows.size, design.costs[design.weights > 0].sum())
        if plan.budget > unseen.sum():
            raise InvalidInputError(
                f"{parameter('budget', plan.budget)} is more than all cells of the rows cost; lower it."
            )
        totals = even_shares(plan.budget, unseen)
        batch = np.ceil((plan.batch or plan.budget) / rows.size)
        replayed = replay_rows(
            items,
            labels[rows].toarray(),
            np.zeros((rows.size, m), dtype=bool),
            steps_of(design, totals, np.full(rows.size, batch)),
            design,
            draws,
        )
        p = items.predict(items.abilities(replayed.labels), replayed.labels)
    truth = (labels[rows].toarray() > 0) @ design.weights
    size = np.count_nonzero(design.weights)
    seen = np.maximum(np.diff(replayed.labels.indptr), 1)
    means = estimate_means(
        _with_replayed(entries, labels, rows, replayed),
        weights=design.weights,
        q=replace(replayed.draws, rows=rows[replayed.draws.rows]),
        guarantee=guarantee,
        level=level,
        random_state=draws,
    ).take(rows)
    return SimulatedAsking(
        means,
        truth,
        truth * (1 - truth) * (size - seen) / (max(size - 1, 1) * seen),
        _log_loss(p, labels[rows].toarray(), replayed.labels.toarray() != 0),
    )


def _with_replayed(
    entries: Observations, labels: sp.csr_array, rows: Positions, replayed: Replayed
) -> Observations:
    """Return the table with the asked cells of the rows alone."""
    table = labels.tolil()
    table[rows] = replayed.labels
    i, j = table.nonzero()
    return Observations(
        i, j, table.tocsr()[i, j], entries.shape, entries.row_ids, entries.column_ids
    )


def _log_loss(p: Array, labels: NDArray[np.integer[Any]], known: NDArray[np.bool_]) -> float:
    right = np.clip(np.where(labels > 0, p, 1 - p), MIN_PROBABILITY, 1.0)
    return float(np.mean(np.where(known, 0.0, -np.log(right))))
