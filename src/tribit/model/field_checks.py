"""Checks of fields of a model that are more than one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tribit.checks import check_not_negative
from tribit.errors import InvalidTypeError, parameter, quoted
from tribit.model.risks import Missingness, check_rho


def optional(check: Callable[[str, Any], float]) -> Callable[[str, Any], float | None]:
    """Return the check that also takes None."""
    return lambda name, value: None if value is None else check(name, value)


def two_shares(name: str, value: Any) -> tuple[float, float]:
    """Return two numbers, for the rows and for the columns."""
    try:
        rows, columns = value
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{parameter(name)} must be two numbers, for rows and for columns; got {quoted(value)}."
        ) from None
    return check_not_negative(name, rows), check_not_negative(name, columns)


def missingness(_: str, value: Any) -> Any:
    """Return a number as a float; a name or a model, which somebody else knows, as it is."""
    return value if value is None or isinstance(value, str | Missingness) else check_rho(value)
