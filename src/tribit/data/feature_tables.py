"""Tables of features as a user holds them: the kind and the values of each column, one for each row of an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Axis, distinct_ids, first_true, named
from tribit.data.frames import eager
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.quoting import quoted

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
    frame = eager(table)
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
    frame = eager(table)
    ids, names = _ids_of(table, frame, axis)
    if ids is None:
        _check_length(len(frame), axis)
        places = np.arange(axis.size)
    else:
        source = Axis(axis.name, ids.size, distinct_ids(ids, f"The ids of {axis.name}_features"))
        places = source.match(axis, f"the {axis.name}s have", "give both the same ids")
        _check_matched(places, axis)
    return [
        _finite(name, *_placed(_values(frame.get_column(name)), places), axis) for name in names
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
        _finite(name, *_placed(_of_list(list(table[name])), places), axis) for name in names[1:]
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


def _ids_of(table: Any, frame: nw.DataFrame[Any], axis: Axis) -> tuple[Any, list[str]]:
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
            numbers = [float("nan") if _missing(v) or v == "" else float(v) for v in values]
            return "quantity", np.array(numbers)
        except ValueError:
            pass
        if any(SEPARATOR in text for text in texts):
            values = [
                None if _missing(v) or v == "" else [tag.strip() for tag in v.split(SEPARATOR)]
                for v in values
            ]
    return "tags", [as_tags(value) for value in values]


def as_tags(value: Any) -> tuple[Any, ...] | None:
    """Return a value as a tuple of tags; None where it is missing."""
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return tuple(_plain(each) for each in value if not _missing(each))
    return None if _missing(value) or value == "" else (_plain(value),)


def _plain(value: Any) -> Any:
    """Return a category that a file can hold: text, a number or a truth value."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | bool | int | float) else str(value)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _placed(kind_and_values: tuple[str, Any], places: NDArray[np.int64]) -> tuple[str, Any]:
    """Return the values at some positions; missing where the position is -1."""
    kind, values = kind_and_values
    if kind == "quantity":
        return kind, np.where(places < 0, np.nan, np.append(values, np.nan)[places])
    return kind, [None if place < 0 else values[place] for place in places]


def _finite(name: str, kind: str, values: Any, axis: Axis) -> tuple[str, str, Any]:
    """Return a column as it is; an infinite number in it is refused."""
    if kind == "quantity" and (bad := first_true(np.isinf(values))) is not None:
        raise InvalidInputError(
            f"{axis.name}_features, {axis.name} {named(axis.ids, bad)}: the {quoted(name)} is infinite; leave out what "
            "is not known."
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
            f"None of the {axis.size} {axis.name}s, such as {named(axis.ids, 0)}, is among the ids of "
            f"{axis.name}_features; give the same ids, in the index of a pandas frame or in the first column."
        )


def _check_finite(data: NDArray[Any], axis: Axis) -> None:
    if not np.isfinite(data).all():
        raise InvalidInputError(
            f"{axis.name}_features holds NaN or infinity; leave out of a sparse matrix what is not known."
        )
