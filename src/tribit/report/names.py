"""Names of rows and columns as a page shows them: on one line, without control characters, not too long."""

from __future__ import annotations

from typing import Any

from tribit.data.axis import Axis, Positions
from tribit.quoting import printable
from tribit.report.wording import plural

#: Longest name, and what is kept of a longer one: a page holds thousands of them, and a phone shows some forty letters.
LONGEST, HEAD, TAIL = 60, 40, 15


def shown(name: Any) -> str:
    """Return an id as text.

    Marks that turn the direction of what follows are written as escapes.
    """
    text = str(name)
    if len(text) > LONGEST:  # first: what is written for a control character is longer than it
        text = f"{text[:HEAD]}…{text[-TAIL:]}"
    text = printable(text)
    return text if len(text) <= LONGEST else f"{text[:HEAD]}…{text[-TAIL:]}"


def names_at(axis: Axis, positions: Positions) -> list[str]:
    """Return the ids at positions; where there are none, the kind and the position: "row 3"."""
    if axis.ids is None:
        return [f"{axis.name} {place}" for place in positions.tolist()]
    return [shown(name) for name in axis.names(positions).tolist()]


def counted(n: int, thing: str) -> str:
    """Return a number with its noun: "1 row", "1,682 columns"."""
    return f"{n:,} {thing if n == 1 else plural(thing)}"


def signed(value: float, digits: int) -> str:
    """Return a number with its sign, a true minus."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent; the smallest with two digits, which would else read 0.0%."""
    value = 100.0 * share
    return f"{value:.{digits}f}%" if value == 0 or value >= 0.1 else f"{value:.2g}%"
