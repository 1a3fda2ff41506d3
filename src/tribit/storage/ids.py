"""Ids in a file: the bytes of a JSON list with its kind, so that 1 and "1" stay different."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axes, distinct_ids
from tribit.errors import InvalidInputError
from tribit.storage.fields import Tensor
from tribit.storage.tensor_file import parsed_json

#: Tensors of the ids of rows and of columns, where there are any.
IDS = {
    "row_ids_": Tensor(("U8",), ("bytes of row ids",)),
    "column_ids_": Tensor(("U8",), ("bytes of column ids",)),
}

#: Kinds of NumPy arrays whose values JSON gives back as they were, and the types of these.
KINDS: dict[str, type] = {"i": int, "u": int, "f": float, "U": str, "b": bool}
#: Types that an array of objects may hold.
OBJECTS = {str, int, float, bool}
#: Text of very different lengths would fill an array of equal ones with air: above so many bytes for each byte of the
#: file the ids become objects.
AIR = 16


def id_tensors(axes: Axes) -> dict[str, NDArray[Any]]:
    """Return the ids of rows and columns as a file holds them."""
    return {
        name: packed_ids(axis.ids, name)
        for name, axis in zip(IDS, axes, strict=True)
        if axis.ids is not None
    }


def read_axes(tensors: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> Axes:
    """Return rows and columns, with the ids that the tensors hold."""
    ids = (
        unpacked_ids(tensors[name], size, name) if name in tensors else None
        for name, size in zip(IDS, shape, strict=True)
    )
    return Axes.of(shape, *ids)


def packed_ids(ids: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Return ids as bytes; those that are neither text nor numbers are refused."""
    values = ids.tolist()
    odd = next((value for value in values if not isinstance(value, tuple(OBJECTS))), None)
    if odd is not None:
        raise InvalidInputError(
            f"{name.strip('_')} holds {odd!r}, a {type(odd).__name__}, and a model file holds only text and numbers: "
            "fit with such ids instead."
        )
    text = json.dumps({"dtype": ids.dtype.str if ids.dtype.kind in KINDS else "O", "ids": values})
    return np.frombuffer(text.encode(), dtype=np.uint8)


def unpacked_ids(packed: NDArray[np.uint8], size: int, name: str) -> NDArray[Any]:
    """Return as many distinct ids as there are rows or columns; a ValueError where the bytes say otherwise.

    How large the array is follows from the ids, whatever width of text the bytes name.
    """
    try:
        stored = parsed_json(packed.tobytes())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not isinstance(stored, dict) or set(stored) != {"dtype", "ids"}:
        raise ValueError(f"{name} must be an object of dtype and ids")
    dtype, values = stored["dtype"], stored["ids"]
    if not isinstance(values, list) or len(values) != size:
        raise ValueError(f"{name} must be a list of {size} ids")
    return distinct_ids(_array(values, dtype, packed.size, name), name)


def _array(values: list[Any], dtype: Any, room: int, name: str) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if dtype == "O":
        if not kinds <= OBJECTS:
            raise ValueError(f"{name} holds what is neither text nor a number")
        return np.fromiter(values, dtype=object, count=len(values))
    match = (
        re.fullmatch(r"([<>|])([iufbU])([0-9]{1,10})", dtype) if isinstance(dtype, str) else None
    )
    if match is None:
        raise ValueError(f"{name} has no dtype of ids")
    order, kind, width = match[1], match[2], int(match[3])
    if kinds != {KINDS[kind]}:
        raise ValueError(f"{name} holds other values than its dtype {dtype!r}")
    if kind == "U":
        longest = max(1, *map(len, values))
        if longest > width:
            raise ValueError(f"{name} holds ids that its dtype {dtype!r} would cut short")
        if 4 * longest * len(values) > AIR * room:
            return np.fromiter(values, dtype=object, count=len(values))
        dtype = f"{order}U{longest}"
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=np.dtype(dtype))
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{name} does not have the dtype {dtype!r} ({error})") from None
    if array.tolist() != values:
        raise ValueError(f"{name} holds ids that its dtype {dtype!r} would change")
    return array
