"""Values of a table as likes and dislikes: numbers, ratings with a bar, and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tribit.data.axis import AnyArray, Where
from tribit.data.ingest import Labels, as_labels
from tribit.data.sources import number_text, reads_as_number
from tribit.errors import InvalidInputError, parameter
from tribit.quoting import listed, quoted

Words = tuple[str, ...]

#: Texts that stand for a value that is missing, as spreadsheets, databases, R and pandas write it.
MISSING = frozenset({"", "NA", "N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?"})
#: Pairs of a like and a dislike that are understood where no other word occurs, and both do.
PAIRS = (("1", "0"), ("true", "false"), ("yes", "no"), ("like", "dislike"), ("+", "-"))


def compared(text: str, decimal: str) -> str:
    """Return a text as words of labels are compared: in lower case, and numbers by their value."""
    number = as_number(text, decimal)
    return text.strip().casefold() if number is None else number_text(number)


class Values(NamedTuple):
    """Values of records as text, where they stand, and the file and, if it is one, the column they are from."""

    texts: AnyArray
    where: Where
    source: str
    column: str | None = None
    decimal: str = "."

    def within(self) -> str:
        """Return which column a value is in, where that does not say which column of the matrix."""
        return "" if self.column is None else f" in column {quoted(self.column)}"

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the values as floats."""
        known: dict[str, float] = {}
        for text in set(self.texts.tolist()):
            number = as_number(text, self.decimal)
            if number is None:
                raise self._no_number()
            known[text] = number
        return np.fromiter(map(known.__getitem__, self.texts.tolist()), np.float64, self.texts.size)

    def are_zero(self) -> npt.NDArray[np.bool_]:
        """Return which values are the number 0."""
        zeros = {text for text in set(self.texts.tolist()) if as_number(text, self.decimal) == 0}
        return np.fromiter((text in zeros for text in self.texts.tolist()), bool, self.texts.size)

    def labels(self, like: Words, dislike: Words) -> Labels:
        """Return +1 for the words of a like, -1 for those of a dislike; there may be no others."""
        meaning = {self.word(text): 1 for text in like} | {self.word(text): -1 for text in dislike}
        known = {text: meaning.get(self.word(text), 0) for text in set(self.texts.tolist())}
        if 0 in known.values():
            position = next(p for p, text in enumerate(self.texts.tolist()) if not known[text])
            raise InvalidInputError(
                f"{self.where(position)}: the value {quoted(self.texts[position])} is neither a like "
                f"({listed(like) or 'none'}) nor a dislike ({listed(dislike) or 'none'}); add it to "
                f"{parameter('like')} or {parameter('dislike')}, or correct it."
            )
        return np.fromiter(map(known.__getitem__, self.texts.tolist()), np.int8, self.texts.size)

    def pair(self) -> tuple[str, str] | None:
        """Return the words of a like and a dislike where these, and no others, occur."""
        words = {self.word(text) for text in set(self.texts.tolist())}
        return next((pair for pair in PAIRS if words == set(pair)), None)

    def plain_labels(self, like_at: float | None) -> Labels:
        """Return +1 and -1 as they stand, or ratings with that bar; words are refused with a list of them."""
        counts = Counter(self.texts.tolist())
        # Where the other decimal mark would make a number, that is the sentence to say.
        if like_at is None and all(as_number(t, mark) is None for t in counts for mark in ".,"):
            raise self._unknown_words(counts)
        return as_labels(self.numbers(), like_at, self.where)

    def word(self, text: str) -> str:
        """Return a text as it is compared."""
        return compared(text, self.decimal)

    def _no_number(self) -> InvalidInputError:
        texts = self.texts.tolist()
        position = next(p for p, t in enumerate(texts) if as_number(t, self.decimal) is None)
        text = texts[position]
        advice = f"correct it{self._or_another_column()}"
        other = "." if self.decimal == "," else ","
        if as_number(text, other) is not None:
            advice = f"if {other} is its decimal mark, pass {parameter('decimal', other)}"
        return InvalidInputError(
            f"{self.where(position)}: the value {quoted(text)}{self.within()} is not a number; {advice}."
        )

    def _unknown_words(self, counts: Counter[str]) -> InvalidInputError:
        found = listed([f"{text} ({count})" for text, count in counts.most_common()])
        return InvalidInputError(
            f"The values{self.within()} of {self.source} are words: {found}; say which are likes and dislikes with "
            f"{parameter('like')} and {parameter('dislike')}{self._or_another_column()}."
        )

    def _or_another_column(self) -> str:
        return "" if self.column is None else f", or choose another {parameter('value')} column"


def as_number(text: str, decimal: str) -> float | None:
    """Return the number that a text is, with that decimal mark, or None."""
    if decimal == ",":
        if "." in text:  # 1.000 may be a thousand there
            return None
        text = text.replace(",", ".")
    return float(text) if reads_as_number(text) else None


def are_missing(texts: AnyArray, words: Set[str] = MISSING) -> npt.NDArray[np.bool_]:
    """Return which texts stand for a missing value."""
    if words.isdisjoint(set(texts.tolist())):
        return np.zeros(texts.size, dtype=bool)
    return np.fromiter((text in words for text in texts.tolist()), bool, texts.size)
