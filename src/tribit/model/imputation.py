"""Probabilities of a fitted model at every entry, for risks that impute them (:func:`tribit.doubly_robust`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.factors import Factors
from tribit.model.links import Link

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Imputation:
    """``f0_ij = f(x0_ij)``: the probability of a like that a model gives to every entry, never stored as a matrix.

    Parameters
    ----------
    factors : Factors
        The model's factors and intercepts, ``x0 = u_i . v_j + b + a_i + c_j``.
    link : Link
        The model's link ``f``.
    """

    factors: Factors = field(repr=False)
    link: Link

    def __post_init__(self) -> None:
        if not isinstance(self.factors, Factors):
            raise InvalidTypeError(
                f"An imputation needs the Factors of a fitted model; got {type(self.factors).__name__}."
            )
        if not isinstance(self.link, Link):
            raise InvalidTypeError(
                f"An imputation needs the Link of a fitted model; got {type(self.link).__name__}."
            )
        if not all(np.all(np.isfinite(part)) for part in vars(self.factors).values()):
            raise InvalidInputError(
                "The factors of an imputation have entries that are not finite: fit the model again."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.factors.row_factors.shape[0], self.factors.column_factors.shape[0]

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Refuse a matrix of another shape."""
        if self.shape != shape:
            raise InvalidInputError(
                f"The imputed model is {self.shape[0]} x {self.shape[1]} and the observations {shape[0]} x {shape[1]}: "
                "impute by a model of a matrix of the same shape."
            )

    def probability_at(self, rows: Integers, columns: Integers) -> Floats:
        """Return ``f0`` at the given positions."""
        return np.asarray(self.link.probability(self.factors.at(rows, columns)))

    def expected_labels(self, dtype: np.dtype[Any]) -> tuple[ExpectedLabels, ExpectedLabels]:
        """Return the expected labels ``2 f0 - 1`` by tiles, for the matrix and for its transpose."""
        P, Q = (np.ascontiguousarray(part, dtype=dtype) for part in self.factors.augmented())
        return ExpectedLabels(P, Q, self.link), ExpectedLabels(Q, P, self.link)


@dataclass(frozen=True, eq=False)
class ExpectedLabels:
    """Expected labels ``2 f0 - 1`` in tiles of one orientation: 1 for a sure like, -1 for a sure dislike."""

    P: Floats
    Q: Floats
    link: Link

    def tile(self, rows: slice, columns: slice) -> Floats:
        """Return a tile in the type of the factors."""
        expected = np.asarray(self.link.probability(self.P[rows] @ self.Q[columns].T))
        expected *= 2
        expected -= 1
        return expected
