"""Names of the models of the mask."""

from __future__ import annotations

from tribit.errors import InvalidTypeError, parameter

#: Names of the propensity models that ``rho`` takes.
NAMES = ("constant", "row-column", "low-rank")


def unknown_name_error(name: object) -> InvalidTypeError:
    """Return the error for a name that no model has."""
    names = ", ".join(map(repr, NAMES))
    return InvalidTypeError(
        f"{parameter('rho')} must be a number in [0, 1) or a model with rho_at, or the name of one ({names}); got "
        f"{name!r}."
    )
