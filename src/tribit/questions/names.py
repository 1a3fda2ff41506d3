"""Headings of the columns of answers: the names that the table of the fit had."""

from __future__ import annotations

from collections.abc import Sequence

from tribit.data.records import NAMES


def headings(names: Sequence[str | None]) -> tuple[str, str]:
    """Return names of id columns; a number is no heading that a later command would know again."""
    row, column = (
        default if name is None or name.isdecimal() else name
        for name, default in zip(names, NAMES[:2], strict=False)
    )
    return row, column
