"""A user's own words in a message: on one line, without control characters, and not too long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

#: Longer words are cut in the middle: paths tell most at their ends.
LONGEST = 120
HEAD, TAIL = 80, 30
#: Names of a list that a message shows; the others are counted.
SHOWN = 10


def printable(text: str) -> str:
    r"""Return the text with all that a terminal would not print as it stands written as an escape.

    Examples
    --------
    >>> print(printable("red \x1b[31m\n"))
    red \x1b[31m\n
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def quoted(value: Any) -> str:
    """Return a value as Python writes it, on one line and cut where it is long.

    Examples
    --------
    >>> quoted("user 3")
    "'user 3'"
    >>> len(quoted("u" * 10**6)) < 150
    True
    """
    # Cut first: what is written of a gigabyte is a gigabyte too.
    if isinstance(value, str):
        return repr(_cut(value))
    if (
        isinstance(value, int) and value.bit_length() > LONGEST
    ):  # Python refuses to write one of 4,301 digits
        return f"a whole number of {value.bit_length()} bits"
    return _cut(printable(repr(value)))


def listed(names: Sequence[Any]) -> str:
    """Return the first names, and how many more there are.

    Examples
    --------
    >>> listed(["user", "item", "stars"])
    'user, item, stars'
    >>> listed(range(10**6))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 999990 more'
    """
    # Cut again: what is written for a control character is longer than it.
    shown = ", ".join(_cut(printable(_cut(str(name)))) for name in islice(names, SHOWN))
    more = len(names) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:HEAD]}...{text[-TAIL:]}"
