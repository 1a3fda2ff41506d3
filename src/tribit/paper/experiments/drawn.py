"""Draws of Experiments 1 and 2: their parameters, a hidden matrix and what is observed of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.observations import Observations
from tribit.model.links import Link, Logistic, Probit
from tribit.simulate import low_rank_factors, observe, quantise

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Experiment:
    """The paper's parameters of a draw, and the steps of its iteration.

    The paper gives no step. These are small enough that the iteration does not swing for any mixture when the whole
    matrix is scaled, and gets far when single rows are.
    """

    size: int
    link: Link
    steps: tuple[float, float]
    rank: int = 10
    alpha: float = 1.0
    rho: float = 0.85

    @property
    def radius(self) -> float:
        """The paper's radius, alpha sqrt r."""
        return float(self.alpha * np.sqrt(self.rank))


EXPERIMENT_1 = Experiment(100, Probit(0.1), steps=(3e-4, 1e-3))
EXPERIMENT_2 = Experiment(300, Logistic(7.0), steps=(1e-3, 1e-3))


@dataclass(frozen=True)
class Draw:
    """A hidden matrix M, the scale of its uniform factors, and what was observed of it."""

    M: Array
    scale: float
    observations: Observations


@lru_cache(maxsize=4)
def draw(experiment: Experiment, seed: int, trial: int) -> Draw:
    """Draw M, its quantisation and what is observed; the same for every mixture of a trial."""
    draws = np.random.Generator(np.random.PCG64([seed, trial]))
    shape = experiment.size, experiment.size
    target = low_rank_factors(shape, experiment.rank, alpha=experiment.alpha, random_state=draws)
    M = target.dense()
    Y = quantise(M, experiment.link, random_state=draws)
    # Uniform on [-1, 1] before they were scaled, so the largest of many is the scale, but for a hair.
    scale = float(np.max(np.abs(target.U)) * np.max(np.abs(target.V)))
    return Draw(M, scale, observe(Y, experiment.rho, random_state=draws))
