"""Side features: what is known of rows or columns beside their entries, as numbers that a model can use.

Each column of a table of features becomes a group of numbers: a quantity becomes hat functions between quantiles (so
that its effect may be any piecewise linear one), a category or a list of tags becomes indicators, a matrix stays as it
is. Groups are centred and scaled to a mean square of 1, and what is missing counts as the mean, that is as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Axes, Axis
from tribit.data.feature_tables import as_tags, feature_columns
from tribit.errors import InvalidInputError
from tribit.quoting import listed, quoted

Array = NDArray[np.floating[Any]]

#: Most knots of the hat functions of a quantity: enough for an effect that rises and falls, few beside the rows.
KNOTS = 8
#: Fewest rows in which a category or a tag must appear: with fewer it tells nothing of other rows.
LEAST_ROWS = 2
#: Kinds of groups: hat functions between knots, indicators of categories or tags, numbers as they are.
KINDS = ("quantity", "tags", "matrix")


class Group(NamedTuple):
    """The numbers that one column of features became, and the rows in which it is known; unknown rows are empty."""

    matrix: sp.csr_array
    means: Array
    known: NDArray[np.bool_]


class SideFeatures(NamedTuple):
    """Groups of features of rows and of columns; None where nothing is known of a side."""

    rows: tuple[Group, ...] | None
    columns: tuple[Group, ...] | None


@dataclass(frozen=True)
class GroupEncoder:
    """The rule by which one column of a table becomes a group.

    Attributes
    ----------
    name : str
        The name of the column.
    kind : {"quantity", "tags", "matrix"}
        Hat functions between knots; indicators of categories or tags; numbers as they are.
    levels : tuple
        The knots, the categories or tags, or the numbers of the columns of a matrix.
    means : tuple of float
        Mean of each number over the rows in which it is known, after scaling.
    scale : float
        Factor of all numbers.
    """

    name: str
    kind: str
    levels: tuple[Any, ...]
    means: tuple[float, ...] = ()
    scale: float = 1.0

    @classmethod
    def learned(cls, name: str, kind: str, values: Any) -> Self | None:
        """Return the encoder that suits the values; None where all rows are alike."""
        levels: tuple[Any, ...]
        if kind == "quantity":
            finite = values[np.isfinite(values)]
            knots = (
                np.unique(np.quantile(finite, np.linspace(0, 1, KNOTS))) if finite.size else finite
            )
            levels = tuple(float(knot) for knot in knots)
        elif kind == "tags":
            counts: dict[Any, int] = {}
            for tags in values:
                for tag in () if tags is None else dict.fromkeys(tags):
                    counts[tag] = counts.get(tag, 0) + 1
            levels = tuple(tag for tag, count in counts.items() if count >= LEAST_ROWS)
        else:
            levels = tuple(range(values.shape[1]))
        if len(levels) < 2 and kind != "matrix":
            return None
        raw = cls(name, kind, levels)
        matrix, known = raw._numbers(values)
        n = max(int(np.count_nonzero(known)), 1)
        means = np.asarray(matrix.sum(axis=0)) / n
        square = float(matrix.power(2).sum()) / n - float(means @ means)
        if not square > 0.0:
            return None
        scale = square**-0.5
        return cls(name, kind, levels, tuple(float(mean * scale) for mean in means), scale)

    def encode(self, values: Any) -> Group:
        """Return the values of some rows as numbers."""
        matrix, known = self._numbers(values)
        return Group(sp.csr_array(matrix * self.scale), np.array(self.means), known)

    def _numbers(self, values: Any) -> tuple[sp.csr_array, NDArray[np.bool_]]:
        if self.kind == "quantity":
            return _hats(values, np.array(self.levels))
        if self.kind == "tags":
            return _indicators(values, self.levels)
        matrix = sp.csr_array(values, dtype=np.float64)
        if matrix.shape[1] != len(self.levels):
            raise InvalidInputError(
                f"The features have {matrix.shape[1]} columns where the model was fitted with {len(self.levels)}; "
                "give the same columns."
            )
        return matrix, np.ones(matrix.shape[0], dtype=bool)


@dataclass(frozen=True)
class FeatureEncoder:
    """The rules by which a table of features becomes groups, learned by a fit and used again for new rows."""

    groups: tuple[GroupEncoder, ...]

    @classmethod
    def learned(cls, table: Any, axis: Axis) -> tuple[Self, tuple[Group, ...]]:
        """Return the encoder of a table, and the groups of the rows (or columns) of an axis."""
        found = [
            (encoder, encoder.encode(values))
            for name, kind, values in feature_columns(table, axis)
            if (encoder := GroupEncoder.learned(name, kind, values)) is not None
        ]
        return cls(tuple(encoder for encoder, _ in found)), tuple(group for _, group in found)

    def encode(self, table: Any, axis: Axis) -> tuple[Group, ...]:
        """Return the groups of the rows of an axis; without a table nothing is known of them."""
        if table is None:
            return tuple(
                Group(
                    sp.csr_array((axis.size, len(each.levels))),
                    np.array(each.means),
                    np.zeros(axis.size, dtype=bool),
                )
                for each in self.groups
            )
        given = {name: (kind, values) for name, kind, values in feature_columns(table, axis)}
        groups = []
        for each in self.groups:
            if each.name not in given:
                raise InvalidInputError(
                    f"The features have no column {quoted(each.name)}, with which the model was fitted; they have "
                    f"{listed(list(given))}."
                )
            kind, values = given[each.name]
            if kind != each.kind:
                values = _as_kind(each, values)
            groups.append(each.encode(values))
        return tuple(groups)


def learned(
    axes: Axes, row_features: Any, column_features: Any
) -> tuple[tuple[FeatureEncoder | None, FeatureEncoder | None], SideFeatures | None]:
    """Return the encoders of the features of both sides, and the features; None where nothing is given."""
    if row_features is None and column_features is None:
        return (None, None), None
    found = [
        (None, None) if table is None else FeatureEncoder.learned(table, axis)
        for table, axis in zip((row_features, column_features), axes, strict=True)
    ]
    (rows, of_rows), (columns, of_columns) = found
    return (rows, columns), SideFeatures(of_rows, of_columns)


def _as_kind(encoder: GroupEncoder, values: Any) -> Any:
    """Return values that look like another kind, such as a category that happens to be numbers in a few rows."""
    if encoder.kind == "tags" and isinstance(values, np.ndarray):
        return [as_tags(value) for value in values.tolist()]
    if encoder.kind == "quantity" and all(tags is None for tags in values):
        return np.full(len(values), np.nan)
    raise InvalidInputError(
        f"The feature {quoted(encoder.name)} was of the kind {encoder.kind} when the model was fitted and is of "
        "another now; give values of the same type."
    )


def _hats(values: Array, knots: Array) -> tuple[sp.csr_array, NDArray[np.bool_]]:
    """Return hat functions: 1 at a knot, 0 at its neighbours, linear between; values beyond the ends count as these."""
    known = np.isfinite(values)
    inside = np.clip(values[known], knots[0], knots[-1])
    left = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, knots.size - 2)
    share = (inside - knots[left]) / (knots[left + 1] - knots[left])
    rows = np.flatnonzero(known)
    entries = (
        np.concatenate([1.0 - share, share]),
        (np.concatenate([rows, rows]), np.concatenate([left, left + 1])),
    )
    return sp.csr_array(entries, shape=(values.size, knots.size)), known


def _indicators(values: Any, levels: tuple[Any, ...]) -> tuple[sp.csr_array, NDArray[np.bool_]]:
    """Return indicators of tags, rows of length 1; a row without known tags is unknown."""
    numbers = {level: number for number, level in enumerate(levels)}
    rows, columns = [], []
    for row, tags in enumerate(values):
        found = [numbers[tag] for tag in dict.fromkeys(tags or ()) if tag in numbers]
        rows += [row] * len(found)
        columns += found
    matrix = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(values), len(levels)))
    counts = np.diff(matrix.indptr)
    # Of length 1: a row with many tags says no more of itself than one with few.
    matrix.data /= np.sqrt(np.repeat(counts, counts))
    return matrix, counts > 0
