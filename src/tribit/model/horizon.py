"""The probability that an unobserved cell becomes an entry while the table grows by a tenth, the horizon.

    argmin over P_1 <= P_2 <= ...   sum over groups g of cells with similar scores of   n_g (P_g - e_g / n_g)^2

``n_g`` cells are at risk in a group, and ``e_g`` of them become entries: entries that a fit holds out, scaled to the
number that the horizon brings. A parametric estimate counts as ``PRIOR_EVENTS`` further entries, so that few entries
change little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.model.calibration import Isotonic, knots

__all__ = ["HORIZON", "MAX_PROBABILITY", "fit_horizon"]

Array = NDArray[np.floating[Any]]

#: New entries within the horizon, as a share of the entries of the table.
HORIZON = 0.1
#: Entries that the parametric estimate counts for.
PRIOR_EVENTS = 100.0
#: Width of a group of scores, in log-odds.
GROUP_WIDTH = 0.05
#: Largest probability: no cell is sure to become an entry.
MAX_PROBABILITY = 0.95


def fit_horizon(
    x: Array, events: Array, at_risk: Array, prior: Array, unit: float = 1.0
) -> Isotonic:
    """Return the probability of becoming an entry within the horizon, as a function of a score.

    Parameters
    ----------
    x : array of shape (n,)
        Finite scores.
    events : array of shape (n,)
        How many entries of the horizon each stands for; 0 for a cell that was not held out.
    at_risk : array of shape (n,)
        How many cells at risk each stands for; at least one is above 0.
    prior : array of shape (n,)
        The parametric estimate of the probability.
    unit : float, default=1.0
        The scale of scores: that of a change of the log-odds by 1.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - a tenth of a second, for fits alone

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
