"""Side features: attributes of rows or columns, encoded as numbers for a model.

Each column of a table of features becomes a group of numbers: a quantity becomes hat functions between quantiles (so
that its effect may be any piecewise linear one), a category or a list of tags becomes indicators, a matrix stays as it
is. Groups are centred and scaled to a mean square of 1; a missing value counts as the mean, that is as 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Axes, Axis, distinct_ids, eager_frame, first_true, quoted_id
from tribit.data.labels import MISSING
from tribit.errors import InvalidInputError, InvalidTypeError, listed, quoted

#: Separator of tags within a text.
SEPARATOR = "|"


def table_axis(table: Any, like: Axis) -> Axis:
    """Return the rows (or columns) of a table of features, with its ids where the others have ids."""
    if table is None:
        raise InvalidInputError(
            f"Neither entries nor features of new {like.name}s were given; give one of the two."
        )
    if isinstance(table, Mapping):
        ids = table[next(iter(table))]
        return Axis(like.name, len(ids), distinct_ids(ids, "The ids of features"))
    if isinstance(table, Sequence) and not isinstance(table, str):
        table = np.asarray(table)
    if sp.issparse(table) or isinstance(table, np.ndarray):
        if like.ids is not None:
            raise InvalidInputError(
                f"The {like.name}s of the model have ids, and a matrix of features has none: give a data frame."
            )
        return Axis(like.name, table.shape[0])
    frame = eager_frame(table)
    ids, _ = _ids_of(table, frame, like)
    size = len(frame) if ids is None else ids.size
    return Axis(like.name, size, None if ids is None else distinct_ids(ids, "The ids of features"))


def feature_columns(table: Any, axis: Axis) -> Iterable[tuple[str, str, Any]]:
    """Return the name, kind and values of each column, with one value for each row of the axis."""
    if isinstance(table, Mapping):
        return _of_texts(table, axis)
    if sp.issparse(table):
        _check_length(table.shape[0], axis)
        _check_finite(table.data, axis)
        return [("matrix", "matrix", sp.csr_array(table))]
    if isinstance(table, np.ndarray) or (
        isinstance(table, Sequence) and not isinstance(table, str)
    ):
        return _of_array(np.asarray(table), axis)
    frame = eager_frame(table)
    ids, names = _ids_of(table, frame, axis)
    if ids is None:
        _check_length(len(frame), axis)
        places = np.arange(axis.size)
    else:
        source = Axis(axis.name, ids.size, distinct_ids(ids, f"The ids of {axis.name}_features"))
        places = source.match(axis, f"the {axis.name}s have", "give both the same ids")
        _check_matched(places, axis)
    return [
        _finite(name, *_take_or_missing(_values(frame.get_column(name)), places), axis)
        for name in names
    ]


def _of_texts(table: Mapping[str, Any], axis: Axis) -> list[tuple[str, str, Any]]:
    """Return the columns of a table of text, as files have them: ids first."""
    names = list(table)
    if len(names) < 2:
        raise InvalidInputError(
            f"The table of {axis.name}_features has one column, of ids; give it a column of features."
        )
    ids = distinct_ids(table[names[0]], f"Column {quoted(names[0])} of {axis.name}_features")
    source = Axis(axis.name, ids.size, ids)
    places = source.match(axis, f"the {axis.name}s have", "give both the same ids")
    _check_matched(places, axis)
    return [
        _finite(name, *_take_or_missing(_of_list(list(table[name])), places), axis)
        for name in names[1:]
    ]


def _of_array(array: NDArray[Any], axis: Axis) -> list[tuple[str, str, Any]]:
    """Return a column of a matrix of numbers as a quantity each, but 0/1 columns all together."""
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InvalidTypeError(
            f"{axis.name}_features must be a matrix of numbers or a data frame; got an array of shape {array.shape} "
            f"and type {array.dtype}."
        )
    _check_length(array.shape[0], axis)
    numbers = array.astype(np.float64)
    binary = ((numbers == 0.0) | (numbers == 1.0)).all(axis=0)
    groups: list[tuple[str, str, Any]] = [
        _finite(f"column {j}", "quantity", numbers[:, j], axis) for j in np.flatnonzero(~binary)
    ]
    if binary.any():
        groups.append(("indicators", "matrix", sp.csr_array(numbers[:, binary])))
    return groups


def _ids_of(table: object, frame: nw.DataFrame[Any], axis: Axis) -> tuple[Any, list[str]]:
    """Return the ids of a frame and the names of its features: the index of pandas, else the first column, has ids."""
    names = list(frame.columns)
    index = getattr(table, "index", None)
    if index is not None and not callable(index):
        labels = np.asarray(index)
        if axis.ids is None or not np.array_equal(labels, np.arange(labels.size)):
            return (None if axis.ids is None else labels), names
    if axis.ids is None:
        return None, names
    return frame.get_column(names[0]).to_numpy(), names[1:]


def _values(series: nw.Series[Any]) -> tuple[str, Any]:
    """Return the kind of a column of a frame, and its values: floats, or tuples of tags with None where missing."""
    if series.dtype.is_numeric():
        return "quantity", series.cast(nw.Float64).to_numpy()
    return _of_list(series.to_list())


def _of_list(values: list[Any]) -> tuple[str, Any]:
    """Return the kind of some values that are no numbers, and the values."""
    texts = [value for value in values if isinstance(value, str)]
    if texts and len(texts) == sum(not _missing(value) for value in values):
        try:
            numbers = [float("nan") if _missing(v) or v in MISSING else float(v) for v in values]
            return "quantity", np.array(numbers)
        except ValueError:
            pass
        if any(SEPARATOR in text for text in texts):
            values = [
                None if _missing(v) or v == "" else [tag.strip() for tag in v.split(SEPARATOR)]
                for v in values
            ]
    return "tags", [as_tags(value) for value in values]


def as_tags(value: object) -> tuple[Any, ...] | None:
    """Return a value as a tuple of tags; None where it is missing."""
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return tuple(_plain(each) for each in value if not _missing(each))
    return None if _missing(value) or value == "" else (_plain(value),)


def _plain(value: object) -> Any:
    """Return a category that a file can hold: text, a number or a truth value."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | bool | int | float) else str(value)


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _take_or_missing(
    kind_and_values: tuple[str, Any], places: NDArray[np.int64]
) -> tuple[str, Any]:
    """Return the values at some positions; missing where the position is -1."""
    kind, values = kind_and_values
    if kind == "quantity":
        return kind, np.where(places < 0, np.nan, np.append(values, np.nan)[places])
    return kind, [None if place < 0 else values[place] for place in places]


def _finite(name: str, kind: str, values: Any, axis: Axis) -> tuple[str, str, Any]:
    """Return a column as it is; an infinite number in it is refused."""
    if kind == "quantity" and (bad := first_true(np.isinf(values))) is not None:
        raise InvalidInputError(
            f"{axis.name}_features, {axis.name} {quoted_id(axis.ids, bad)}: the {quoted(name)} is infinite; leave "
            "unknown values out."
        )
    return name, kind, values


def _check_length(length: int, axis: Axis) -> None:
    if length != axis.size:
        raise InvalidInputError(
            f"{axis.name}_features has {length} rows for {axis.size} {axis.name}s; give one for each, or a data frame "
            "with ids."
        )


def _check_matched(places: NDArray[np.int64], axis: Axis) -> None:
    if places.size and (places < 0).all():
        raise InvalidInputError(
            f"None of the {axis.size} {axis.name}s, such as {quoted_id(axis.ids, 0)}, is among the ids of "
            f"{axis.name}_features; give the same ids, in the index of a pandas frame or in the first column."
        )


def _check_finite(data: NDArray[Any], axis: Axis) -> None:
    if not np.isfinite(data).all():
        raise InvalidInputError(
            f"{axis.name}_features holds NaN or infinity; leave unknown values out of a sparse matrix."
        )


Array = NDArray[np.floating[Any]]

#: Number of knots of the hat functions of a quantity: enough for an effect that rises and falls.
MAX_KNOTS = 8
#: Number of rows in which a category or a tag must appear: with fewer it predicts nothing for other rows.
MIN_ROWS_PER_TAG = 2
#: Kinds of groups: hat functions between knots, indicators of categories or tags, numbers as they are.
KINDS = ("quantity", "tags", "matrix")


class Group(NamedTuple):
    """The numbers that one column of features became, and the rows in which it is known; unknown rows are empty."""

    matrix: sp.csr_array
    means: Array
    known: NDArray[np.bool_]


class SideFeatures(NamedTuple):
    """Groups of features of rows and of columns; None for a side without features."""

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
    def fit(cls, name: str, kind: str, values: Any) -> Self | None:
        """Return the encoder that suits the values; None where all rows are alike."""
        levels: tuple[Any, ...]
        if kind == "quantity":
            finite = values[np.isfinite(values)]
            knots = (
                np.unique(np.quantile(finite, np.linspace(0, 1, MAX_KNOTS)))
                if finite.size
                else finite
            )
            levels = tuple(float(knot) for knot in knots)
        elif kind == "tags":
            counts: dict[Any, int] = {}
            for tags in values:
                for tag in () if tags is None else dict.fromkeys(tags):
                    counts[tag] = counts.get(tag, 0) + 1
            levels = tuple(tag for tag, count in counts.items() if count >= MIN_ROWS_PER_TAG)
        else:
            levels = tuple(range(values.shape[1]))
        if len(levels) < 2 and kind != "matrix":
            return None
        raw = cls(name, kind, levels)
        matrix, known = raw.numbers(values)
        n = max(int(np.count_nonzero(known)), 1)
        means = np.asarray(matrix.sum(axis=0)) / n
        square = float(matrix.power(2).sum()) / n - float(means @ means)
        if not square > 0.0:
            return None
        scale = square**-0.5
        return cls(name, kind, levels, tuple(float(mean * scale) for mean in means), scale)

    def encode(self, values: object) -> Group:
        """Return the values of some rows as numbers."""
        matrix, known = self.numbers(values)
        return Group(sp.csr_array(matrix * self.scale), np.array(self.means), known)

    def numbers(self, values: Any) -> tuple[sp.csr_array, NDArray[np.bool_]]:
        """Return the values of some rows as numbers without scale, and the mask of rows that have a value."""
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
    """The rules by which a table of features becomes groups, learned by a fit and used again for new rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from tribit import BinaryMatrixCompletion
    >>> films = pd.DataFrame({"genre": ["crime", "drama", "crime"], "year": [1979, 1985, 1995]})
    >>> A = [[1, -1, 1], [-1, 1, 0], [1, 0, 1]]
    >>> model = BinaryMatrixCompletion(search=False, random_state=0).fit(A, column_features=films)
    >>> model.shape_
    (3, 3)
    """

    groups: tuple[GroupEncoder, ...]

    @classmethod
    def fit(cls, table: object, axis: Axis) -> tuple[Self, tuple[Group, ...]]:
        """Return the encoder of a table, and the groups of the rows (or columns) of an axis."""
        found = [
            (encoder, encoder.encode(values))
            for name, kind, values in feature_columns(table, axis)
            if (encoder := GroupEncoder.fit(name, kind, values)) is not None
        ]
        return cls(tuple(encoder for encoder, _ in found)), tuple(group for _, group in found)

    def encode(self, table: object, axis: Axis) -> tuple[Group, ...]:
        """Return the groups of the rows of an axis; without a table all values are missing."""
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


def fit_side_features(
    axes: Axes, row_features: object, column_features: object
) -> tuple[tuple[FeatureEncoder | None, FeatureEncoder | None], SideFeatures | None]:
    """Return the encoders of the features of both sides, and the features; None where nothing is given."""
    if row_features is None and column_features is None:
        return (None, None), None
    found = [
        (None, None) if table is None else FeatureEncoder.fit(table, axis)
        for table, axis in zip((row_features, column_features), axes, strict=True)
    ]
    (rows, of_rows), (columns, of_columns) = found
    return (rows, columns), SideFeatures(of_rows, of_columns)


def _as_kind(encoder: GroupEncoder, values: Any) -> Any:
    """Return values as the kind of the fit, such as a category that happens to be numbers in a few rows."""
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
    # Of length 1: a row with many tags has no more weight than one with few.
    matrix.data /= np.sqrt(np.repeat(counts, counts))
    return matrix, counts > 0
