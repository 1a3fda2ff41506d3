"""Bias and width of intervals, corrected by a parametric bootstrap: data are drawn from the model and fitted again.

A ridge pulls every entry towards the mean, so an interval around the fitted ``x`` sits to one side of the truth and is,
under too strong a ridge, too narrow as well. Two corrections:

- *centre*: ``slope x + offset``, by which the held-out labels are likeliest (:func:`tribit.uncertainty.platt`);
- *width*: draw factors from the posterior, take the adjusted centre there as the truth, draw labels of the same
  training and held-out entries from it, fit model and centre again to these labels, and see by how many of its
  own deviations the new centre misses that truth. An interval takes the quantile of these misses in the place of
  the normal one (a parametric bootstrap of the pivot: Efron 1979, "Bootstrap methods: another look at the jackknife").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tribit.checks import check_count
from tribit.model.calibrator_fits import platt
from tribit.model.calibrators import Platt
from tribit.model.links import draw_labels
from tribit.model.scores import PlacedEntries
from tribit.randomness import RandomState, generator

if TYPE_CHECKING:
    from tribit.model.links import Link
    from tribit.uncertainty.laplace import Posterior

Array = NDArray[np.floating[Any]]

#: Most cells at which misses are looked at in a refit.
CELLS = 20_000


@dataclass(frozen=True, eq=False)
class Adjustment:
    """``x -> slope x + offset``, ``deviation -> slope deviation``, and how many deviations an interval needs.

    Parameters
    ----------
    slope, offset : float
        Where the centre goes.
    pivots : array or None
        ``|centre - truth| / deviation`` of simulated entries; None for the normal distribution.
    """

    slope: float = 1.0
    offset: float = 0.0
    pivots: Array | None = field(default=None, repr=False)

    def apply(self, x: Array, deviation: Array) -> tuple[Array, Array]:
        """Return the changed centre and deviation."""
        return self.slope * x + self.offset, self.slope * deviation

    def multiplier(self, level: float) -> float:
        """Return how many deviations to each side hold the share ``level``."""
        if self.pivots is None:
            return float(ndtri((1.0 + level) / 2.0))
        return float(np.quantile(self.pivots, level))


def adjust(
    posterior: Posterior,
    held_out: PlacedEntries,
    weights: Array,
    *,
    everywhere: bool,
    n_refits: int,
    random_state: RandomState,
) -> Adjustment:
    """Return the centre and width for a posterior, whatever adjustment it has; see :meth:`Posterior.adjusted`.

    ``weights`` say how much each held-out entry counts for the centre; with ``everywhere`` the width is right for all
    cells alike, else for cells like the held-out ones.
    """
    n_refits = check_count("n_refits", n_refits)
    draws = generator(random_state)
    link = posterior.fitted.spec.link
    line = _line(posterior, held_out, held_out.labels, weights, link)
    seen = posterior.observations
    pivots = []
    for _ in range(n_refits):
        factors = posterior.draw(draws)

        def truth(i: Any, j: Any, factors: Any = factors) -> Array:
            return np.asarray(line.slope * factors.at(i, j) + line.offset)

        labels = draw_labels(truth(seen.rows, seen.columns), link, draws)
        again = posterior.refitted(labels, int(draws.integers(2**31)))
        labels = draw_labels(truth(held_out.rows, held_out.columns), link, draws)
        new = _line(again, held_out, labels, weights, link)
        i, j = _cells(held_out, seen.shape, everywhere, draws)
        x, deviation = again.centre_and_deviation(i, j)
        pivots.append(np.abs(new.slope * x + new.offset - truth(i, j)) / (new.slope * deviation))
    return Adjustment(line.slope, line.offset, np.sort(np.concatenate(pivots)))


def _line(
    posterior: Posterior, entries: PlacedEntries, labels: Any, weights: Array, link: Link
) -> Platt:
    x = posterior.fitted.scores.x(entries.rows, entries.columns)
    return platt(x, labels, weights, link=link)


def _cells(
    held_out: PlacedEntries, shape: tuple[int, int], everywhere: bool, draws: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of all cells alike, or of the held-out ones, some of them where there are many."""
    if everywhere:
        return draws.integers(shape[0], size=CELLS), draws.integers(shape[1], size=CELLS)
    if held_out.rows.size <= CELLS:
        return held_out.rows, held_out.columns
    chosen = draws.choice(held_out.rows.size, CELLS, replace=False)
    return held_out.rows[chosen], held_out.columns[chosen]
