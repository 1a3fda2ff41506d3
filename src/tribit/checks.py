"""Checks of single parameters: each returns the value in the type that the arithmetic needs, or raises an error.

An ``int`` or a NumPy scalar is returned as a ``float``, so that arrays made from it are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from tribit.errors import InvalidInputError, InvalidTypeError, parameter, quoted


def check_positive(name: str, value: object) -> float:
    """Return a positive finite number as a float."""
    number = _as_float(value)
    if not 0.0 < number < np.inf:
        raise InvalidInputError(
            f"{parameter(name)} must be a positive finite number; got {quoted(value)}."
        )
    return number


def check_not_negative(name: str, value: object) -> float:
    """Return a finite number >= 0 as a float."""
    number = _as_float(value)
    if not 0.0 <= number < np.inf:
        raise InvalidInputError(
            f"{parameter(name)} must be a finite number, at least 0; got {quoted(value)}."
        )
    return number


def check_between(
    name: str,
    value: object,
    low: float,
    high: float,
    *,
    ends: str = "[]",
    meaning: str = "",
) -> float:
    """Return a number from ``low`` to ``high`` as a float.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        Value to check.
    low, high : float
        Ends of the interval.
    ends : {"[]", "[)", "(]", "()"}
        Ends that belong to the interval.
    meaning : str
        Meaning of the number, for the message.
    """
    interval = f"{ends[0]}{low:g}, {high:g}{ends[1]}"
    if not is_number(value):
        raise InvalidTypeError(
            f"{parameter(name)} must be a number in {interval}; got {quoted(value)}."
        )
    number = _as_float(value)
    above = low <= number if ends[0] == "[" else low < number
    below = number <= high if ends[1] == "]" else number < high
    if not (above and below):
        subject = f"{parameter(name)}, {meaning}," if meaning else parameter(name)
        raise InvalidInputError(f"{subject} must be in {interval}; got {quoted(value)}.")
    return number


def check_count(
    name: str, value: object, least: int = 1, most: int | None = None, *, meaning: str = ""
) -> int:
    """Return a whole number from ``least`` to ``most`` as an int; ``meaning`` explains ``most`` in the message."""
    if is_whole(value) and value >= least and (most is None or value <= most):
        return int(value)
    interval = f", at least {least}" if most is None else f" from {least} to {most}"
    reason = f", {meaning}" if meaning else ""
    raise InvalidInputError(
        f"{parameter(name)} must be a whole number{interval}{reason}; got {quoted(value)}."
    )


def check_whole(name: str, value: object) -> int:
    """Return a whole number as an int."""
    if not is_whole(value):
        raise InvalidTypeError(f"{parameter(name)} must be a whole number; got {quoted(value)}.")
    return int(value)


def check_switch(name: str, value: object) -> bool:
    """Return True or False as a bool."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidTypeError(f"{parameter(name)} must be True or False; got {quoted(value)}.")
    return bool(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of the choices."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise InvalidInputError(
            f"{parameter(name)} must be one of {', '.join(known)}; got {quoted(value)}."
        )
    return value


def check_field(instance: object, name: str, check: Callable[[str, Any], Any]) -> None:
    """Replace a field of a frozen dataclass by its checked value."""
    object.__setattr__(instance, name, check(name, getattr(instance, name)))


def check_fitted(model: object) -> None:
    """Raise scikit-learn's NotFittedError for an estimator that was not fitted; other objects need no fit."""
    if hasattr(model, "fit"):
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415 - an estimator has it already

        check_is_fitted(model)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number of Python or NumPy; a bool is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value has an integer type; a bool has not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _as_float(value: object) -> float:
    """Return a number as a float; NaN, which fails every comparison, for any other object."""
    if not is_number(value):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
