"""The assumptions that the theorems share, each checked and named in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from tribit.checks import check_between, check_count, is_number, is_whole
from tribit.data.ingest import check_shape
from tribit.errors import InvalidInputError


def check_matrix(shape: Any, rank: Any) -> tuple[int, int]:
    """Return the shape, after checking that a matrix of it can have the rank."""
    d1, d2 = check_shape(shape)
    if not is_number(rank) or not 1.0 <= rank <= min(d1, d2):
        raise InvalidInputError(
            f"rank must be between 1 and {min(d1, d2)}, the smaller side of a {d1} x {d2} matrix; got {rank!r}."
        )
    return d1, d2


def check_entries(n: Any, least: float, most: float, small: str, *, whole: bool = True) -> float:
    """Return the number of observed entries, a whole one unless it is only expected."""
    number = float(n) if (is_whole(n) if whole else is_number(n)) else np.nan
    if not 0.0 < number < np.inf:
        word = "whole" if whole else "finite"
        raise InvalidInputError(f"n must be a positive {word} number; got {n!r}.")
    if number < least:
        raise InvalidInputError(
            f"n is {number:g}, {small}, so the theorem says nothing; observe at least {np.ceil(least):g} entries."
        )
    if number > most:
        raise InvalidInputError(
            f"n is {number:g}, more than the theorem allows for a matrix of this shape; pass {most:g} or less."
        )
    return number


def check_delta(delta: Any) -> float:
    """Return a probability of failure, inside (0, 1)."""
    return check_between("delta", delta, 0.0, 1.0, ends="()")


def check_likes(likes: Any, entries: int) -> float:
    """Return the number of likes; None for all entries, the worst there is."""
    if likes is None:
        return float(entries)
    return float(check_count("likes", likes, 0, entries, meaning="the number of entries"))


def check_uniform_part(nu: Any) -> float:
    """Return ``nu`` of ``pi_ij >= 1 / (nu d1 d2)``, which only uniform weights meet with 1; 1 for None."""
    if nu is None:
        return 1.0
    if not is_number(nu) or not 1.0 <= nu < np.inf:
        raise InvalidInputError(f"nu must be a finite number, at least 1; got {nu!r}.")
    return float(nu)
