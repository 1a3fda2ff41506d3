"""Nouns for the rows and columns of a table, from its headings, and numbers with their nouns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tribit.data.rules import TableRules

#: A noun (letters, with a space or a hyphen between words), and its maximum length: longer headings are sentences.
NOUN, MAX_NOUN_LENGTH = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+)*"), 24
#: Endings of headings of ids: user_id, movieId, item no.
ID_ENDING = re.compile(r"(?:[\W_]+(?i:ids?|no|nr|key|name|code)|(?<=[a-z])(?:Id|ID))$")
#: Words with another meaning on the page: a table with such a heading has "rows" and "columns".
RESERVED_NOUNS = frozenset(
    {"like", "dislike", "entry", "list", "model", "cell", "score", "row", "column"}
)


@dataclass(frozen=True)
class Nouns:
    """Nouns for a row and a column.

    Attributes
    ----------
    row, column : str
        Singular nouns.
    """

    row: str = "row"
    column: str = "column"

    @classmethod
    def of(cls, rules: TableRules | None) -> Nouns:
        """Return the headings of a long table if they are different nouns, else "row" and "column"."""
        if rules is None:
            return cls()
        row, column = noun(rules.row), noun(rules.column)
        if row is None or column is None or row == column:
            return cls()
        return cls(row, column)

    @property
    def rows(self) -> str:
        """Plural of the noun for a row."""
        return plural(self.row)

    @property
    def columns(self) -> str:
        """Plural of the noun for a column."""
        return plural(self.column)

    @property
    def biases(self) -> str:
        """Name of the baseline of row and column biases."""
        return f"{self.row} and {self.column} biases"

    @property
    def pairs(self) -> str:
        """Noun for the cells of the table."""
        return f"{self.row}-{self.column} pairs"

    def noun(self, side: str) -> str:
        """Return the noun for "row" or "column", plural for "rows" and "columns"."""
        return str(getattr(self, side))

    def to_json(self) -> dict[str, str]:
        """Return all nouns, for the script of the page."""
        return {side: self.noun(side) for side in ("row", "rows", "column", "columns")}


def noun(heading: str | None) -> str | None:
    """Return the singular noun in a heading (``user_id``, ``MovieID``, ``items``); None if there is no clear one."""
    if heading is None:
        return None
    plain = ID_ENDING.sub("", heading.strip()).replace("_", " ").strip().lower()
    if plain.endswith("s") and not plain.endswith(("ss", "us", "is", "ies", "as", "os")):
        plain = plain[:-1]  # users
    # "movies" may be the plural of "movy" or "movie".
    known = NOUN.fullmatch(plain) and 2 <= len(plain) <= MAX_NOUN_LENGTH and not plain.endswith("s")
    return plain if known and plain not in RESERVED_NOUNS else None


def plural(noun: str) -> str:
    """Return the plural of a noun by the rules of English; it may be wrong for other languages."""
    if noun in {"person", "child", "man", "woman"}:
        return {"person": "people", "child": "children", "man": "men", "woman": "women"}[noun]
    if noun.endswith("y") and noun[-2:-1] not in {*"aeiou"}:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("x", "z", "ch", "sh")) else f"{noun}s"


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article."""
    vowel = noun[:1] in {*"aeio"} or (noun[:1] == "u" and not noun.startswith(("us", "un", "ut")))
    return f"an {noun}" if vowel else f"a {noun}"


def with_noun(n: int, thing: str) -> str:
    """Return a number with its noun: "1 row", "1,682 columns"."""
    return f"{n:,} {thing if n == 1 else plural(thing)}"


def likes_and_dislikes(likes: int, dislikes: int) -> str:
    """Return both numbers without separators, for the text of an object: "1 like, 1682 dislikes"."""
    pairs = ((likes, "like"), (dislikes, "dislike"))
    return ", ".join(f"{n} {thing if n == 1 else plural(thing)}" for n, thing in pairs)
