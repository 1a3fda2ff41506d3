"""Values of a table as likes and dislikes: numbers, ratings with a bar, and words."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tribit.data.axis import Where
from tribit.data.ingest import Labels, as_labels
from tribit.data.sources import TextColumn, number_text, reads_as_number
from tribit.errors import InvalidInputError, listed, parameter, quoted

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

    texts: TextColumn
    where: Where
    source: str
    column: str | None = None
    decimal: str = "."

    def within(self) -> str:
        """Return which column a value is in, where that does not say which column of the matrix."""
        return "" if self.column is None else f" in column {quoted(self.column)}"

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the values as floats."""
        numbers = self._parsed()
        missing = [number is None for number in numbers]
        if any(missing):
            raise self._no_number(self.texts.first(missing))
        return self.texts.spread(numbers, np.float64)

    def are_zero(self) -> npt.NDArray[np.bool_]:
        """Return which values are the number 0."""
        return self.texts.spread([number == 0 for number in self._parsed()], bool)

    def labels(self, like: Words, dislike: Words) -> Labels:
        """Return +1 for the words of a like, -1 for those of a dislike; there may be no others."""
        meaning = {self.word(text): 1 for text in like} | {self.word(text): -1 for text in dislike}
        labels = [meaning.get(self.word(text), 0) for text in self.texts.distinct]
        if 0 in labels:
            position = self.texts.first([label == 0 for label in labels])
            raise InvalidInputError(
                f"{self.where(position)}: the value {quoted(self.texts[position])} is neither a like "
                f"({listed(like) or 'none'}) nor a dislike ({listed(dislike) or 'none'}); add it to "
                f"{parameter('like')} or {parameter('dislike')}, or correct it."
            )
        return self.texts.spread(labels, np.int8)

    def pair(self) -> tuple[str, str] | None:
        """Return the words of a like and a dislike where these, and no others, occur."""
        words = set(map(self.word, self.texts.distinct))
        return next((pair for pair in PAIRS if words == set(pair)), None)

    def plain_labels(self, like_at: float | None) -> Labels:
        """Return +1 and -1 as they stand, or ratings with that bar; words are refused with a list of them."""
        # Where the other decimal mark would make a number, that is the sentence to say.
        texts = self.texts.distinct
        if like_at is None and all(as_number(t, mark) is None for t in texts for mark in ".,"):
            raise self._unknown_words()
        return as_labels(self.numbers(), like_at, self.where)

    def _parsed(self) -> list[float | None]:
        return [as_number(text, self.decimal) for text in self.texts.distinct]

    def word(self, text: str) -> str:
        """Return a text as it is compared."""
        return compared(text, self.decimal)

    def _no_number(self, position: int) -> InvalidInputError:
        text = self.texts[position]
        advice = f"correct it{self._or_another_column()}"
        other = "." if self.decimal == "," else ","
        if as_number(text, other) is not None:
            advice = f"if {other} is its decimal mark, pass {parameter('decimal', other)}"
        return InvalidInputError(
            f"{self.where(position)}: the value {quoted(text)}{self.within()} is not a number; {advice}."
        )

    def _unknown_words(self) -> InvalidInputError:
        counts = zip(self.texts.distinct, self.texts.counts, strict=True)
        ordered = sorted(counts, key=lambda each: -each[1])
        found = listed([f"{text} ({count})" for text, count in ordered])
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


def are_missing(texts: TextColumn, words: Set[str] = MISSING) -> npt.NDArray[np.bool_]:
    """Return which texts stand for a missing value."""
    return texts.spread([text in words for text in texts.distinct], bool)
