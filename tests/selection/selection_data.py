"""Matrices drawn so that it is known what a search should choose."""

import numpy as np
from scipy.special import expit

from tribit import Observations


def low_rank(shape=(60, 40), *, density=0.4, rank=2, size=2.0, intercepts=1.0, seed=0):
    """Return labels of a low-rank matrix with intercepts, seen at random."""
    rng = np.random.default_rng([seed, 1])
    U, V = (rng.normal(size=(d, rank)) for d in shape)
    X = size * U @ V.T / np.sqrt(max(rank, 1))
    X = X + intercepts * (rng.normal(size=shape[0])[:, None] + rng.normal(size=shape[1]))
    labels = np.where(rng.random(shape) < expit(X), 1, -1)
    return np.where(rng.random(shape) < density, labels, 0)


def telling_mask(shape=(400, 60), *, seed=0):
    """Return labels that depend on a row's group, which a row's labels hardly tell, and its mask does."""
    rng = np.random.default_rng([seed, 2])
    group, taste, place = (rng.choice([-1, 1], size) for size in (shape[0], shape[1], shape[1]))
    X = 2.0 * group[:, None] * taste
    labels = np.where(rng.random(shape) < expit(X), 1, -1)
    seen = rng.random(shape) < np.where(group[:, None] * place > 0, 0.1, 0.01)
    return np.where(seen, labels, 0)


def observed(labels):
    return Observations.from_matrix(labels, zeros="unobserved")
