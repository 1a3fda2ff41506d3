"""Cells of text that a spreadsheet would run as formulas: found, and escaped by an apostrophe before them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tribit.data.axis import AnyArray

#: First characters of a cell that a spreadsheet takes for a formula, in one of its languages or after trimming it.
STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Signed numbers, which are no formulas.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def first_formula(cells: Iterable[Any]) -> str | None:
    """Return a text among the cells that a spreadsheet would run, if there is one."""
    return next((cell for cell in cells if _is_formula(cell)), None)


def escaped(values: AnyArray) -> AnyArray:
    """Return the values with an apostrophe before each text that a spreadsheet would run."""
    if values.dtype.kind not in "OU":
        return values
    cells = [escaped_cell(cell) for cell in values.tolist()]
    return np.fromiter(cells, dtype=object, count=len(cells))


def escaped_cell(cell: Any) -> Any:
    """Return a cell, with an apostrophe before it if it is a text that a spreadsheet would run."""
    return f"'{cell}" if _is_formula(cell) else cell


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith(STARTS) and not NUMBER.fullmatch(cell)
