"""Nouns of a page: what rows and columns are called in the user's own table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tribit.data.reading import Reading

#: A noun: letters, with a space or a hyphen between words. Longer headings are sentences.
NOUN, LONGEST = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+)*"), 24
#: Endings of headings that say that a column holds ids: user_id, movieId, item no.
OF_IDS = re.compile(r"(?:[\W_]+(?i:ids?|no|nr|key|name|code)|(?<=[a-z])(?:Id|ID))$")
#: Words of which the page speaks anyway: a table with a column of that name has rows and columns.
TAKEN = frozenset({"like", "dislike", "entry", "list", "model", "cell", "score", "row", "column"})


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
    def effects(self) -> str:
        """The baseline of effects."""
        return f"{self.row} and {self.column} effects"

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
    known = NOUN.fullmatch(plain) and 2 <= len(plain) <= LONGEST and not plain.endswith("s")
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
