"""The user's own ids and the positions they stand for: numbering, checking and finding them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.quoting import quoted

AnyArray: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]
Where: TypeAlias = Callable[[int], str]


def first_true(mask: npt.NDArray[np.bool_]) -> int | None:
    """Return the first position where ``mask`` holds, for an error to name."""
    return int(np.argmax(mask)) if mask.any() else None


def factorize(ids: AnyArray, where: Where) -> tuple[Positions, AnyArray]:
    """Return each id's number, and the distinct ids in order of first appearance."""
    missing = "{}: the id is missing; give every entry a row and a column id."
    if ids.dtype.kind in "biufmM":
        if (position := first_true(np.not_equal(ids, ids))) is not None:  # NaN, NaT
            raise InvalidInputError(missing.format(where(position)))
        names, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return np.argsort(order)[codes], names[order]
    numbers: dict[Any, int] = {}
    codes = np.empty(ids.size, dtype=np.int64)
    for position, name in enumerate(ids.tolist()):
        try:
            if name is None or operator.ne(name, name):  # only NaN and its like differ
                raise InvalidInputError(missing.format(where(position)))
            codes[position] = numbers.setdefault(name, len(numbers))
        except TypeError as error:
            raise InvalidTypeError(
                f"{where(position)}: an object of type {type(name).__name__} cannot be an id; "
                "use numbers, strings or other hashable values."
            ) from error
    return codes, np.fromiter(numbers, dtype=object, count=len(numbers))


def distinct_ids(ids: Any, name: str) -> AnyArray:
    """Return a copy of the ids as an array, each checked to appear once."""
    array = _id_array(ids, name)
    codes, _ = factorize(array, lambda p: f"{name}, position {p}")
    if (again := first_true(codes != np.arange(codes.size))) is not None:
        # Up to the first repeat every id was new, so its number is its position.
        raise InvalidInputError(
            f"{name} holds {named(array, again)} at positions {codes[again]} and {again}; "
            "give each its own id."
        )
    return array.copy()


def lookup(wanted: Any, ids: AnyArray | None, size: int, axis: str) -> Positions:
    """Return the positions of the wanted ids or, without ids, check that they are positions."""
    name = f"The list of {axis}s"
    sought = _id_array(wanted, name)
    if ids is None:
        check_positions(sought, size, axis)
        return sought.astype(np.int64)
    if sought.dtype.kind == "b" and ids.dtype.kind != "b":
        raise InvalidTypeError(f"{name} holds booleans, which are no ids; pass ids, not a mask.")
    if sought.dtype.kind != ids.dtype.kind:
        # As objects, or NumPy would make 1 and "1" the same id.
        sought, ids = sought.astype(object), ids.astype(object)
    # The known ids are distinct and come first, so their numbers are their positions.
    n_known = ids.size
    codes, _ = factorize(np.concatenate((ids, sought)), lambda p: f"{name}, position {p - n_known}")
    if (position := first_true(codes[n_known:] >= n_known)) is not None:
        raise InvalidInputError(
            f"The {axis} id {named(sought, position)} at position {position} of the list is "
            f"unknown; pass ids from the data, such as {named(ids, 0)}."
        )
    return codes[n_known:]


def check_positions(positions: AnyArray, size: int, name: str) -> None:
    """Refuse all but integers in 0, ..., size - 1."""
    if positions.size and positions.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"Each {name} must be an integer position, not {positions.dtype}; for other ids use "
            "Observations.from_frame, for a mask numpy.flatnonzero."
        )
    if (position := first_true((positions < 0) | (positions >= size))) is not None:
        raise InvalidInputError(
            f"position {position}: the {name} {positions[position]} is not between 0 and "
            f"{size - 1}; count from 0 and stay below {size}."
        )


def named(ids: AnyArray | None, position: int | np.int64) -> str:
    """Return the id at ``position``, or without ids the position, for an error to name."""
    # Through a list, which turns NumPy's numbers into Python's: 7, not np.int64(7).
    return str(position) if ids is None else quoted(ids[position : position + 1].tolist()[0])


def _id_array(ids: Any, name: str) -> AnyArray:
    if hasattr(ids, "__array__"):
        array = np.asarray(ids)
    elif isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        raise InvalidTypeError(f"{name} is of type {type(ids).__name__}; pass a list of ids.")
    else:
        # One by one: np.asarray makes strings of [1, "a"] and a matrix of a list of tuples.
        array = np.fromiter(ids, dtype=object)
        # NumPy's numbers as Python's, so that list(np.arange(3)) is a list of integers.
        items = [item.item() if isinstance(item, np.generic) else item for item in array.tolist()]
        array = np.fromiter(items, dtype=object, count=len(items))
        if {type(item) for item in items} in ({int}, {bool}, {float}):
            array = np.asarray(items)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} has shape {array.shape}; pass a one-dimensional list.")
    return array
