"""Intervals: a lower and an upper end for each of some entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Intervals:
    """An interval for each of some entries.

    Attributes
    ----------
    lower, upper : array of shape (n_pairs,)
        Its ends.
    level : float
        The share of entries that are meant to lie inside.
    """

    lower: Array
    upper: Array
    level: float

    @property
    def width(self) -> Array:
        """``upper - lower``."""
        return self.upper - self.lower

    def covers(self, values: Any) -> NDArray[np.bool_]:
        """Return whether each value lies in its interval."""
        return np.asarray((self.lower <= values) & (values <= self.upper))
