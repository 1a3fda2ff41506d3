"""The probability that an unobserved cell becomes an entry while the table grows by a tenth, the horizon.

    argmin over P_1 <= P_2 <= ...   sum over groups g of cells with similar scores of   n_g (P_g - e_g / n_g)^2

``n_g`` cells are at risk in a group, and ``e_g`` of them become entries: entries that a fit holds out, scaled to the
number that the horizon brings. A parametric estimate counts as ``PRIOR_EVENTS`` further entries, so that few entries
change little.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tribit.model.calibration import Isotonic, knots

__all__ = ["HORIZON", "MAX_PROBABILITY", "AtRisk", "fit_horizon"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]

#: New entries within the horizon, as a share of the entries of the table.
HORIZON = 0.1
#: Entries that the parametric estimate counts for.
PRIOR_EVENTS = 100.0
#: Width of a group of scores, in log-odds.
GROUP_WIDTH = 0.05
#: Largest probability: no cell is sure to become an entry.
MAX_PROBABILITY = 0.95


class AtRisk(NamedTuple):
    """Cells that were unobserved, and those of them that became entries.

    Attributes
    ----------
    x : array of shape (n,)
        Finite scores.
    events : array of shape (n,)
        How many entries of the horizon each stands for; 0 for a cell that was not held out.
    cells : array of shape (n,)
        How many cells at risk each stands for; at least one is above 0.
    prior : array of shape (n,)
        The parametric estimate of the probability.
    """

    x: Array
    events: Array
    cells: Array
    prior: Array

    def with_cells(self, x: Array, cells: Array) -> AtRisk:
        """Return as many events among the unobserved cells of another fit, at equal quantiles of its scores.

        A fit to all entries has fewer such cells than those that held some out, and higher scores in nearly the same
        order.
        """
        (own, place), (other, _) = _quantiles(self.x, self.cells), _quantiles(x, cells)
        fewer = np.sum(cells) / np.sum(self.cells)
        return AtRisk(
            np.interp(own, other, np.unique(x))[place],
            self.events,
            self.cells * fewer,
            self.prior / fewer,
        )


def _quantiles(x: Array, weights: Array) -> tuple[Array, Positions]:
    """Return the middle of the quantiles of each distinct score, and the place of every score among these."""
    place = np.unique(x, return_inverse=True)[1]
    mass = np.bincount(place, weights)
    return (np.cumsum(mass) - mass / 2) / mass.sum(), place


def fit_horizon(sample: AtRisk, unit: float = 1.0) -> Isotonic:
    """Return the probability of becoming an entry within the horizon, as a function of a score.

    ``unit`` is the scale of scores: that of a change of the log-odds by 1.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - a tenth of a second, for fits alone

    x, events, at_risk, prior = sample
    extra = PRIOR_EVENTS / max(int(np.count_nonzero(events)), 1)
    width = GROUP_WIDTH * unit
    number = np.floor((x - x.min()) / width).astype(np.intp)
    taken = np.bincount(number, events + extra * at_risk * np.minimum(prior, MAX_PROBABILITY))
    cells = np.bincount(number, (1.0 + extra) * at_risk)
    filled = np.flatnonzero(taken + cells)
    taken, cells = taken[filled], cells[filled]
    # Of entries among entries and cells: of equal order, and finite where a group has entries alone.
    share = isotonic_regression(taken / (taken + cells), weights=taken + cells).x
    with np.errstate(divide="ignore"):
        found = np.clip(share / (1.0 - share), np.finfo(np.float64).tiny, MAX_PROBABILITY)
    return knots(x.min() + (filled + 0.5) * width, found)
