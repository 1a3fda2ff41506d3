"""The end of a candidate's fit by what it is for: its score on held-out entries.

A fit comes nearer to its minimum long after the held-out entries have stopped to see it. On large tables, where a
single part is held out, a candidate ends when they do; the fit of the chosen one goes on to ``tol``.
"""

from __future__ import annotations

import numpy as np

from tribit.data.observations import Observations
from tribit.metrics.entries import Array, log_loss
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.selection.problem import Problem

#: Number of looks that must agree, and the share of the loss within which they do: less than half of what a step of a
#: line search must gain.
LOOKS, SAME = 3, 2e-4


class ValidationEarlyStopping:
    """Asked with the factors of a fit: whether its log-loss on held-out entries has stopped changing."""

    def __init__(
        self, problem: Problem, held_out: Observations, weights: Array, link: Link
    ) -> None:
        self.problem, self.held_out, self.weights, self.link = problem, held_out, weights, link
        self.losses: list[float] = []

    def __call__(self, unknowns: Factors) -> bool:
        """Return whether the last looks, this one with them, were of the same loss."""
        factors = self.problem.factors(unknowns.to_numpy())
        x = factors.at(self.held_out.rows, self.held_out.columns)
        self.losses.append(log_loss(self.link, x, self.held_out.labels, self.weights))
        last = self.losses[-LOOKS:]
        return len(last) == LOOKS and bool(np.ptp(last) <= SAME * last[-1])
