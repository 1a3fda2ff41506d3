"""The form in which every theorem answers: a number, what it bounds, how surely, and its terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tribit.checks import check_positive

Quantity = Literal["frobenius", "mean square", "weighted mean square"]


@dataclass(frozen=True)
class Bound:
    """An upper bound of an error, and the terms it is the sum of.

    Parameters
    ----------
    value : float
        The bound, in the unit of the theorem.
    quantity : {"frobenius", "mean square", "weighted mean square"}
        What is bounded: ``|X - M|_F``, ``|X - M|_F^2 / (d1 d2)`` or ``|X - M|_Pi^2``.
    probability : float
        The bound holds with at least this probability; at most 0 says nothing.
    terms : dict of str to float
        The parts of ``value``, by name.
    shape : tuple of two ints
        Numbers of rows and columns of the matrix.
    trivial : float
        The (weighted) mean square that an answer without data is sure to have, infinite where none is known.
    """

    value: float
    quantity: Quantity
    probability: float
    terms: dict[str, float]
    shape: tuple[int, int]
    trivial: float = np.inf

    @property
    def mean_square(self) -> float:
        """The bound as a (weighted) mean of squares, ``|X - M|_F^2 / (d1 d2)`` or ``|X - M|_Pi^2``."""
        if self.quantity != "frobenius":
            return self.value
        return self.value * (self.value / (self.shape[0] * self.shape[1]))

    @property
    def vacuous(self) -> bool:
        """Whether the bound promises no more than an answer that looks at no data."""
        return self.mean_square >= self.trivial or self.probability <= 0.0

    def relative_error(self, norm: float) -> float:
        """Return the bound of ``|X - M| / |M|``; above 1 a matrix of zeros does better.

        Parameters
        ----------
        norm : float
            ``|M|_Pi``, from :func:`~tribit.paper.theory.weighted_frobenius`: with uniform weights
            ``|M|_F / sqrt(d1 d2)``.

        Returns
        -------
        float
            The bound, of the size of :func:`~tribit.paper.theory.relative_error`.
        """
        return float(np.sqrt(self.mean_square)) / check_positive("norm", norm)


def make_bound(
    quantity: Quantity,
    terms: dict[str, float],
    shape: tuple[int, int],
    trivial: float,
    probability: float = 1.0,
) -> Bound:
    """Return the sum of the terms as a bound."""
    return Bound(sum(terms.values()), quantity, probability, terms, shape, trivial)


def mean_over(nu: float | None) -> Quantity:
    """Return which mean is bounded: the weighted one, or where ``nu`` is given the plain one."""
    return "weighted mean square" if nu is None else "mean square"
