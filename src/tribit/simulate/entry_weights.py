"""Distributions over the entries of a matrix, drawn from without listing the entries where factors allow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.data.axis import Positions
from tribit.data.ingest import check_shape
from tribit.errors import InvalidInputError, InvalidTypeError

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FactoredDistribution:
    """``pi = left right'`` with nonnegative factors whose product sums to 1.

    An entry is known by its key, ``row * n_columns + column``.
    """

    left: Floats
    right: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.left.shape[0], self.right.shape[0]

    def at(self, keys: Positions) -> Floats:
        """Return ``pi`` at the given keys."""
        rows, columns = np.divmod(keys, self.shape[1])
        return np.asarray(np.einsum("tk,tk->t", self.left[rows], self.right[columns]))

    def block(self, rows: slice) -> Floats:
        """Return rows of ``pi``."""
        return np.asarray(self.left[rows] @ self.right.T)

    def draw(self, n: int, draws: np.random.Generator) -> Positions:
        """Choose a component, then a row and a column from it, independently."""
        masses = self.left.sum(axis=0) * self.right.sum(axis=0)
        component = _categories(masses, n, draws)
        keys = np.empty(n, dtype=np.int64)
        for k in range(masses.size):
            mine = np.flatnonzero(component == k)
            rows = _categories(self.left[:, k], mine.size, draws)
            keys[mine] = rows * self.shape[1] + _categories(self.right[:, k], mine.size, draws)
        return keys

    def likelier_than(self, level: float) -> Positions:
        """Return the entries with ``pi > level``: in some component they exceed ``level / k``."""
        found = []
        for left, right in zip(self.left.T, self.right.T, strict=True):
            order = np.argsort(-right, kind="stable")
            with np.errstate(divide="ignore"):
                # A hair lower, so that rounding cannot lose an entry on the border.
                bars = level / self.left.shape[1] / left * (1 - 1e-12)
            counts = np.searchsorted(-right[order], -bars, side="left")
            rows = np.repeat(np.arange(left.size), counts)
            first = np.cumsum(counts) - counts
            places = np.arange(rows.size) - np.repeat(first, counts)
            found.append(rows * self.shape[1] + order[places])
        keys = np.unique(np.concatenate(found))
        return np.asarray(keys[self.at(keys) > level])


@dataclass(frozen=True, eq=False)
class DenseDistribution:
    """``pi`` as a matrix that sums to 1."""

    pi: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.pi.shape[0], self.pi.shape[1]

    def at(self, keys: Positions) -> Floats:
        """Return ``pi`` at the given keys."""
        return np.asarray(self.pi.reshape(-1)[keys])

    def block(self, rows: slice) -> Floats:
        """Return rows of ``pi``."""
        return self.pi[rows]

    def draw(self, n: int, draws: np.random.Generator) -> Positions:
        """Draw ``n`` keys with replacement."""
        return _categories(self.pi.reshape(-1), n, draws)

    def likelier_than(self, level: float) -> Positions:
        """Return the entries with ``pi > level``."""
        return np.flatnonzero(self.pi.reshape(-1) > level)


Distribution: TypeAlias = FactoredDistribution | DenseDistribution


def as_distribution(shape: Any, weights: Any) -> Distribution:
    """Read ``weights``: None for uniform, a matrix, or a tuple of two factors."""
    n_rows, n_columns = check_shape(shape)
    if weights is None:
        return FactoredDistribution(
            np.full((n_rows, 1), 1 / n_rows), np.full((n_columns, 1), 1 / n_columns)
        )
    if not isinstance(weights, tuple):
        pi = _nonnegative("weights", weights, (n_rows, n_columns))
        return DenseDistribution(np.ascontiguousarray(pi / _total("weights", pi.sum())))
    if len(weights) != 2:
        raise InvalidInputError(
            f"weights is a tuple of {len(weights)} arrays; pass (left, right), one for the rows and "
            "one for the columns, or one array of the matrix's shape."
        )
    left = _nonnegative("left weights", weights[0], (n_rows, None))
    right = _nonnegative("right weights", weights[1], (n_columns, None))
    if left.shape[1] != right.shape[1]:
        raise InvalidInputError(
            f"The left weights have {left.shape[1]} columns and the right weights {right.shape[1]}; "
            "pass factors with equally many columns."
        )
    total = _total("product of the weights", left.sum(axis=0) @ right.sum(axis=0))
    return FactoredDistribution(left / total, right)


def _nonnegative(name: str, values: Any, shape: tuple[int, int | None]) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"The {name} are of type {type(values).__name__} and not numbers; pass an array of them."
        ) from None
    if shape[1] is None and array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[0] != shape[0] or shape[1] not in (None, array.shape[1]):
        wanted = (
            f"{shape[0]} x {shape[1]}" if shape[1] else f"one row of them for each of {shape[0]}"
        )
        raise InvalidInputError(f"The {name} have the shape {np.shape(values)}; pass {wanted}.")
    wrong = np.argwhere(~((array >= 0.0) & (array < np.inf)))
    if wrong.size:
        row, column = (int(place) for place in wrong[0])
        raise InvalidInputError(
            f"The {name} are {array[row, column]} at row {row}, column {column}; "
            "pass finite numbers, at least 0."
        )
    return array


def _total(name: str, total: Any) -> float:
    if not 0.0 < total < np.inf:
        raise InvalidInputError(
            f"The {name} sums to {total}, so it gives no distribution; pass one that is positive somewhere."
        )
    return float(total)


def _categories(masses: Floats, n: int, draws: np.random.Generator) -> Positions:
    cumulative = np.cumsum(masses)
    # The side matters: a category of mass 0 is an empty interval and is never chosen.
    places = np.searchsorted(cumulative, draws.random(n) * cumulative[-1], side="right")
    last = np.flatnonzero(masses)[-1] if n else 0  # rounding may point behind the last of them
    return np.asarray(np.minimum(places, last), dtype=np.int64)
