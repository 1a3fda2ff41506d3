"""Numba's compiler with the options that every kernel has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

#: Rounding: products may be fused with sums. Nothing else may change: ``logistic`` adds a number and takes it away.
EXACT = {"contract"}
#: The same where a sum may be taken in any order, as in BLAS: loops over sums become vector instructions. A kernel does
#: that in the same way at each call, so that its bits hang on nothing but its arguments.
ANY_ORDER = {"contract", "reassoc", "nsz", "arcp"}


def kernel(*, any_order: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: a function compiled at its first call, and kept in a file where one can be written.

    The interpreter's lock is let go, so that threads of the pool run at the same time. None of Numba's own threads are
    used: a fork leaves a child nothing to wait for.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",  # a division by 0 is infinite; a test before each would rule vectors out
        "fastmath": ANY_ORDER if any_order else EXACT,
    }

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            dispatcher = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder that can be written: compiled in each process anew
            return numba.njit(**options)(function)
        _ignore_failed_saves(dispatcher)
        return dispatcher

    return decorate


def _ignore_failed_saves(dispatcher: object) -> None:
    """Go on without a cache file where it cannot be written: its folder may have gone, or the disk be full."""
    cache: Any = getattr(dispatcher, "_cache", None)
    save = getattr(cache, "save_overload", None)
    if save is None:
        return

    def save_if_possible(*arguments: object) -> None:
        try:
            save(*arguments)
        except OSError:
            return

    cache.save_overload = save_if_possible
