"""Axes with further rows or columns behind those that there are."""

from __future__ import annotations

import numpy as np

from tribit.data.axis import Axis, first_true, named
from tribit.errors import InvalidInputError

__all__ = ["check_new", "longer"]


def check_new(ours: Axis, new: Axis) -> None:
    """Refuse rows that the model knows already, and rows without ids beside rows with them."""
    if (ours.ids is None) != (new.ids is None):
        raise InvalidInputError(
            f"The model's {ours.name}s have {'no ids' if ours.ids is None else 'ids'} and the new ones have "
            f"{'some' if ours.ids is None else 'none'}: give both of the same kind."
        )
    if ours.ids is None:
        return
    places = ours.match(new, "the entries have", "give new ids")
    if (again := first_true(places >= 0)) is not None:
        raise InvalidInputError(
            f"The model knows the {ours.name} {named(new.ids, again)} already: add entries to it with update."
        )


def longer(axis: Axis, more: Axis) -> Axis:
    """Return an axis with further rows; ids are objects where their types differ: NumPy would make 1 and "1" one id."""
    size, ids, new = axis.size + more.size, axis.ids, more.ids
    if ids is None or new is None:
        return Axis(axis.name, size, ids if not more.size else None)
    if ids.dtype.kind != new.dtype.kind:
        ids, new = ids.astype(object), new.astype(object)
    return Axis(axis.name, size, np.concatenate([ids, new]))
