"""Log-linear rates: how fast rare events come, given a few features.

    max over t   sum over events of x't - sum over cells at risk of w exp(x't) - ridge / 2 |t_1..t_k|^2

the likelihood of a Poisson process with rate exp(x't), where x_0 = 1 and the intercept t_0 bears no penalty (McCullagh
and Nelder 1989, "Generalized linear models", chapter 6). It is concave; events enter by their sum alone, and thinning
them moves t_0 only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["log_linear"]

Vector = NDArray[np.float64]
#: Most Newton steps, most backtracking steps of each line search, and the gain, as a share of the events, that ends it.
STEPS, HALVINGS, TOLERANCE = 100, 60, 1e-12


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
