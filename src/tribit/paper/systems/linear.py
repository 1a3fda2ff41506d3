"""The link of least squares: an entry is the mean of labels that are ``low`` or ``high``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError
from tribit.model.links import Label, Link

Array = NDArray[np.floating[Any]]

#: Least distance of a probability from 0 and 1: an estimate outside [low, high] is no certainty.
LEAST = 1e-3


@dataclass(frozen=True)
class Linear(Link):
    """``f(x) = (x - low) / (high - low)``, kept within [0.001, 0.999].

    With labels -1 and +1 least squares estimates the mean label, so ``f(x) = (1 + x) / 2``. ``Linear(0, 1)`` is the
    ``f(x) = x`` of Hsieh et al. (2015).

    Parameters
    ----------
    low, high : float
        The entries at which a like is impossible and certain.
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidInputError(f"low must be below high; got {self.low!r} and {self.high!r}.")

    def probability(self, x: Array) -> Array:  # noqa: D102
        share = (x - self.low) * (1.0 / (self.high - self.low))
        return np.asarray(np.clip(share, LEAST, 1.0 - LEAST))

    def loss(self, x: Array, y: Label) -> Array:  # noqa: D102
        likely = self.probability(x)
        return np.asarray(-np.log(likely if y > 0 else 1.0 - likely))

    def first(self, x: Array, y: Label) -> Array:  # noqa: D102
        likely = self.probability(x)
        inside = (likely > LEAST) & (likely < 1.0 - LEAST)
        slope = 1.0 / (self.high - self.low)
        return np.asarray(np.where(inside, -slope / likely if y > 0 else slope / (1.0 - likely), 0))

    def second(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray(self.first(x, y) ** 2)
