"""Baselines of an evaluation: what is known without factors.

share of likes            P(like) = (likes + 1) / (entries + 2), the same everywhere
row and column effects    x_ij = b + a_i + c_j,  argmin of the logistic risk + 1 / 2 (|a|^2 + |c|^2)
"""

from __future__ import annotations

import numpy as np

from tribit.completion import BinaryMatrixCompletion
from tribit.data.observations import Observations
from tribit.metrics.entries import ByProbability, known_probabilities

__all__ = ["effects_model", "majority"]

#: Ridge of row and column effects. Of 1/4, 1/2, 1, 2, 4 and 8 it has the least log-loss on held-out tenths of
#: MovieLens-100k, of Coat's training entries and of the Senate's votes (seeds 10 to 12), and is flat around there.
L2_OF_EFFECTS = 1.0


def majority(train: Observations, n: int) -> tuple[ByProbability, np.ndarray]:
    """Return the probability that is the share of likes, as a curve, and scores of n entries."""
    share = (train.n_likes + 1.0) / (train.n_observed + 2.0)
    return known_probabilities(np.full(n, share)), np.zeros(n)


def effects_model(train: Observations) -> BinaryMatrixCompletion:
    """Return the fitted model of row and column effects; of one label alone, of its being seen at all."""
    gammas = (float(train.n_likes > 0 and train.n_dislikes > 0), 0.0, 0.0)
    if not gammas[0]:
        gammas = (0.0, 1.0, 0.0) if train.n_likes else (0.0, 0.0, 1.0)
    return BinaryMatrixCompletion(
        gammas,
        rho=0.0,
        rank=0,
        radius=None,
        l2=L2_OF_EFFECTS,
        l2_intercept=L2_OF_EFFECTS,
        implicit_features=False,
        side_features=False,
        calibration=None,
        n_fits=1,
        dtype="float64",
        n_jobs=1,
        random_state=0,
    ).fit(train)
