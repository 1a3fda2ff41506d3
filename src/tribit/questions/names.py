"""Headings of the columns of answers: the names that the table of the fit had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tribit.data.headings import NAMES
from tribit.errors import InvalidInputError
from tribit.quoting import quoted


def headings(names: Sequence[str | None]) -> tuple[str, str]:
    """Return names of id columns; a number is no heading that a later command would know again."""
    row, column = (
        default if name is None or name.isdecimal() else name
        for name, default in zip(names, NAMES[:2], strict=False)
    )
    return row, column


def check_headings(names: Iterable[str], columns: Iterable[str]) -> None:
    """Refuse the heading of an id column that is that of an answer."""
    known = list(columns)
    if clash := set(names) & set(known):
        raise InvalidInputError(
            f"The id column {quoted(clash.pop())} has the name of an answer ({', '.join(known)}); rename it."
        )
