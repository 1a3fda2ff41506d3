"""Words of a page: nouns for rows and columns from the headings of the table, ids as text, numbers as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tribit.data.axis import Axis, Positions
from tribit.errors import printable

if TYPE_CHECKING:
    from tribit.data.reading import Reading

#: A noun: letters, with a space or a hyphen between words. Longer headings are sentences.
NOUN, LONGEST_NOUN = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+)*"), 24
#: Endings of headings that say that a column holds ids: user_id, movieId, item no.
OF_IDS = re.compile(r"(?:[\W_]+(?i:ids?|no|nr|key|name|code)|(?<=[a-z])(?:Id|ID))$")
#: Words of which the page speaks anyway: a table with a column of that name has rows and columns.
TAKEN = frozenset({"like", "dislike", "entry", "list", "model", "cell", "score", "row", "column"})
#: Longest name, and the kept ends of a longer one: a page holds thousands of them, and a phone shows forty letters.
LONGEST, HEAD, TAIL = 60, 40, 15


@dataclass(frozen=True)
class Wording:
    """Nouns for a row and a column.

    Attributes
    ----------
    row, column : str
        Singular nouns.
    """

    row: str = "row"
    column: str = "column"

    @classmethod
    def of(cls, reading: Reading | None) -> Wording:
        """Return the headings of a table where both are nouns and differ, else "row" and "column"."""
        if reading is None or reading.layout != "long":
            return cls()
        row, column = noun(reading.row), noun(reading.column)
        if row is None or column is None or row == column:
            return cls()
        return cls(row, column)

    @property
    def rows(self) -> str:
        """Several rows."""
        return plural(self.row)

    @property
    def columns(self) -> str:
        """Several columns."""
        return plural(self.column)

    @property
    def biases(self) -> str:
        """The baseline of main effects."""
        return f"{self.row} and {self.column} biases"

    @property
    def pairs(self) -> str:
        """All cells of the table."""
        return f"{self.row}-{self.column} pairs"

    def noun(self, side: str) -> str:
        """Return the noun for "row" or "column", plural for "rows" and "columns"."""
        return str(getattr(self, side))

    def to_json(self) -> dict[str, str]:
        """Return all of them, for the script of the page."""
        return {side: self.noun(side) for side in ("row", "rows", "column", "columns")}


def noun(heading: str | None) -> str | None:
    """Return the singular noun in a heading (``user_id``, ``MovieID``, ``items``), or None where none can be told."""
    if heading is None:
        return None
    plain = OF_IDS.sub("", heading.strip()).replace("_", " ").strip().lower()
    if plain.endswith("s") and not plain.endswith(("ss", "us", "is", "ies", "as", "os")):
        plain = plain[:-1]  # users
    # "movies" may be of "movy" or "movie".
    known = NOUN.fullmatch(plain) and 2 <= len(plain) <= LONGEST_NOUN and not plain.endswith("s")
    return plain if known and plain not in TAKEN else None


def plural(noun: str) -> str:
    """Return the plural of an English noun that does not end in s; of others it is a guess."""
    if noun in {"person", "child", "man", "woman"}:
        return {"person": "people", "child": "children", "man": "men", "woman": "women"}[noun]
    if noun.endswith("y") and noun[-2:-1] not in {*"aeiou"}:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("x", "z", "ch", "sh")) else f"{noun}s"


def a(noun: str) -> str:
    """Return a noun with its article."""
    vowel = noun[:1] in {*"aeio"} or (noun[:1] == "u" and not noun.startswith(("us", "un", "ut")))
    return f"an {noun}" if vowel else f"a {noun}"


def shown(name: Any) -> str:
    """Return an id as text, with escapes for control characters and marks that turn the direction of the text."""
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
