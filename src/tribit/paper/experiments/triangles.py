"""A value at each mixture of the three risks: the numbers behind a heat map over the simplex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError
from tribit.plots.canvas import check_finite

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Triangle:
    """One heat map over the simplex: a value at each mixture.

    Attributes
    ----------
    title : str
        What is written above.
    mixtures : ndarray of shape (n, 3)
        The weights of PN, PU and NU; each row sums to one.
    values : ndarray of shape (n,)
        What is shown, the smaller the better.
    best : sequence of 3 floats, optional
        A mixture to mark besides that of the smallest value, such as the paper's own best.
    """

    title: str
    mixtures: Array
    values: Array
    best: Sequence[float] | None = None

    def check(self) -> None:
        """Refuse values and mixtures that no heat map can be drawn from."""
        what = f"The triangle {self.title!r}"
        count = len(self.values)
        if np.shape(self.values) != (count,) or np.shape(self.mixtures) != (count, 3):
            raise InvalidInputError(
                f"{what} must have three weights for each of its {count} values."
            )
        best = [] if self.best is None else [self.best]
        if any(len(weights) != 3 for weights in best):
            raise InvalidInputError(f"{what} must have three weights in its best mixture.")
        weights = np.asarray([*self.mixtures, *best], dtype=float)
        check_finite(what, weights)
        check_finite(what, self.values)
        if np.min(weights, initial=0.0) < -1e-9 or not np.allclose(weights.sum(axis=1), 1.0):
            raise InvalidInputError(
                f"{what} must have mixtures whose weights are at least zero and sum to one."
            )
        if np.linalg.matrix_rank(self.mixtures, tol=1e-6) < 3:
            raise InvalidInputError(
                f"{what} must have three mixtures or more that do not lie on one line."
            )
