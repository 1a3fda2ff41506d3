"""Log-linear rates: how fast rare events come, given a few features.

    max over t   sum over events of x't - sum over cells at risk of w exp(x't) - ridge / 2 |t_1..t_k|^2

the likelihood of a Poisson process with rate exp(x't), where x_0 = 1 and the intercept t_0 bears no penalty (McCullagh
and Nelder 1989, "Generalized linear models", chapter 6). It is concave; events enter by their sum alone, and thinning
them moves t_0 only.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.model.column_regression import row_blocks
from tribit.ranking.cell_features import CellFeatures

__all__ = ["fit_rates", "log_linear"]

Vector = NDArray[np.float64]
#: Most Newton steps, most backtracking steps of each line search, and the gain, as a share of the events, that ends it.
STEPS, HALVINGS, TOLERANCE = 100, 60, 1e-12
#: Least number of unobserved cells that are sampled, if the matrix has as many; more where more entries are observed.
AT_RISK = 2**17
#: Ridge on coefficients of standardised features: it only matters where there are a handful of likes.
RIDGE = 1.0
#: Tolerance of the features from which coefficients are estimated: their own error is about 1e-2.
FEATURE_TOLERANCE = 1e-6


def fit_rates(
    cells: CellFeatures,
    labels: sp.csr_array,
    rows: Positions,
    draws: np.random.Generator,
    n_jobs: int,
) -> Vector:
    """Return the coefficients of the log-rates of likes and of dislikes, an array of shape (2, 5).

    Estimated on the given rows: their observed entries are the events, and a sample of their unobserved cells is the
    risk set.
    """
    n_observed = labels[rows].nnz
    n_unobserved = rows.size * labels.shape[1] - n_observed
    share = min(1.0, max(n_observed, AT_RISK) / max(n_unobserved, 1))
    kept, kinds = [], []
    for block in row_blocks(rows, labels.shape[1]):
        kind = labels[block].toarray()
        chosen = (kind != 0) | (draws.random(kind.shape) < share)
        kept.append(cells.of(block, n_jobs, FEATURE_TOLERANCE)[:, chosen].T)
        kinds.append(kind[chosen])
    x, kind = np.concatenate(kept), np.concatenate(kinds)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale < 1e-6] = 1.0  # what is the same everywhere, but for rounding, has no effect
    x = np.column_stack([np.ones(len(x)), (x - centre) / scale])
    # A full matrix has no candidates; its rates are shares of all entries, and finite.
    at_risk = x[kind == 0] if n_unobserved else x
    found = []
    for label in (1, -1):
        events = x[kind == label].sum(axis=0)
        t = np.zeros(x.shape[1])
        if events[0]:
            t = log_linear(events, at_risk, np.full(len(at_risk), 1 / share), RIDGE)
            t[1:] /= scale
            t[0] -= t[1:] @ centre
        else:
            t[0] = -np.inf
        found.append(t)
    return np.array(found)


def log_linear(events: Vector, at_risk: Vector, weights: Vector, ridge: float) -> Vector:
    """Return the coefficients ``t`` that maximise the above, by Newton's method.

    ``events`` is the sum of ``x`` over the events, of which there is one at least; ``at_risk`` has a row ``x`` for each
    cell at risk, and ``weights`` how many cells it stands for. With a ridge above 0 there is one maximum.
    """
    penalty = np.full(events.size, ridge)
    penalty[0] = 0.0
    t = np.zeros(events.size)
    t[0] = np.log(events[0] / weights.sum())

    def value(t: Vector) -> float:
        with np.errstate(
            over="ignore"
        ):  # too long a step: the value is -inf and the line search backtracks
            rates = weights @ np.exp(at_risk @ t)
        return float(events @ t - rates - 0.5 * penalty @ t**2)

    now = value(t)
    for _ in range(STEPS):
        rates = weights * np.exp(at_risk @ t)
        gradient = events - at_risk.T @ rates - penalty * t
        step = np.linalg.solve((at_risk.T * rates) @ at_risk + np.diag(penalty), gradient)
        gain = float(gradient @ step)
        if gain <= TOLERANCE * events[0]:
            break
        for _ in range(HALVINGS):
            after = value(t + step)
            if after >= now + 1e-4 * gain:
                break
            step, gain = step / 2, gain / 2
        else:
            break  # as far as rounding allows
        t, now = t + step, after
    return t
