"""Values of entries as likes and dislikes: numbers, ratings with a threshold, and words.

:func:`as_labels` reads numbers, of a matrix, a frame or a file; :class:`TextValues` are those of a file, which may be
words as well. The columns of a file are a :class:`TextColumn`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tribit.data.axis import AnyArray, Positions, Where, first_true
from tribit.errors import InvalidInputError, InvalidTypeError, either, listed, parameter, quoted

Labels: TypeAlias = npt.NDArray[np.int8]
Floats: TypeAlias = npt.NDArray[np.float64]
#: Function that checks given values and returns labels or numbers; an error names the place of a wrong one.
ValueReader: TypeAlias = Callable[[AnyArray, Where], AnyArray]
Words = tuple[str, ...]

#: Texts that stand for a missing value, as spreadsheets, databases, R and pandas write it.
MISSING = frozenset({"", "NA", "N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?"})
#: Pairs of a like and a dislike that are understood where both occur and no other word does.
PAIRS = (("1", "0"), ("true", "false"), ("yes", "no"), ("like", "dislike"), ("+", "-"))


#: Whole numbers up to here are floats without loss.
MAX_EXACT_INTEGER = 2.0**53


class TextColumn:
    """A column of texts: the distinct texts in order of first appearance, and the number of each record's text.

    It reads as an array of str. Work that depends on the text alone is done once for each distinct text.
    """

    __slots__ = ("codes", "distinct")
    codes: Positions
    distinct: AnyArray

    def __init__(self, codes: AnyArray, distinct: Iterable[str]) -> None:
        texts = np.array(list(distinct), dtype=object)
        first = np.full(texts.size, codes.size)
        first[codes[::-1]] = np.arange(codes.size)[::-1]
        self.codes, self.distinct = codes.astype(np.int64, copy=False), texts
        if texts.size and (first[-1] == codes.size or (first[1:] <= first[:-1]).any()):
            order = np.argsort(first, kind="stable")
            order = order[: np.count_nonzero(first < codes.size)]
            number = np.empty(texts.size, dtype=np.int64)
            number[order] = np.arange(order.size)
            self.codes, self.distinct = number[codes], texts[order]

    @classmethod
    def of(cls, texts: TextColumn | Iterable[str]) -> TextColumn:
        """Return a column as it is, or the column of an array or a list of str."""
        if isinstance(texts, TextColumn):
            return texts
        column = ColumnBuilder()
        for text in texts:
            column.append(text)
        return column.finish()

    @property
    def size(self) -> int:
        """Number of records."""
        return self.codes.size

    @property
    def counts(self) -> Positions:
        """Number of records of each distinct text."""
        return np.bincount(self.codes, minlength=self.distinct.size)

    def take(self, places: AnyArray) -> TextColumn:
        """Return the texts at some positions."""
        return TextColumn(self.codes[places], self.distinct)

    def spread(self, values: Sequence[Any], dtype: npt.DTypeLike) -> AnyArray:
        """Return the value of each record, given one for each distinct text."""
        return np.array(values, dtype=dtype)[self.codes]

    def first(self, wrong: Sequence[bool]) -> int:
        """Return the first record with a wrong text; at least one distinct text must be wrong."""
        return int(np.argmax(self.codes == int(np.argmax(wrong))))

    def tolist(self) -> list[str]:
        """Return the texts."""
        return cast("list[str]", self.distinct[self.codes].tolist())

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __getitem__(self, place: Any) -> Any:
        return self.distinct[self.codes[place]]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        texts = self.distinct[self.codes]
        return texts if dtype is None else texts.astype(dtype)


class ColumnBuilder:
    """The texts of a column so far, stripped of white space around them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._parts: list[AnyArray] = []
        self._single = array("q")

    def append(self, text: str) -> None:
        """Add a text, which has no white space around it."""
        self._single.append(self.numbers.setdefault(text, len(self.numbers)))

    def number(self, distinct: Iterable[str | None]) -> Positions:
        """Return the numbers of texts, stripped first; a missing text is empty."""
        numbers = self.numbers
        stripped = [text.strip() if text else "" for text in distinct]
        return np.array([numbers.setdefault(text, len(numbers)) for text in stripped], np.int64)

    def extend(self, numbers: AnyArray) -> None:
        """Add many texts by their numbers."""
        self._parts += [np.array(self._single, dtype=np.int64), numbers]
        self._single = array("q")

    def finish(self) -> TextColumn:
        """Return the column."""
        self.extend(np.empty(0, dtype=np.int64))
        return TextColumn(np.concatenate(self._parts), self.numbers)


def number_text(number: float) -> str:
    """Return a number as text, so that 7.0 and 7 are one id."""
    if isinstance(number, float) and number.is_integer() and abs(number) <= MAX_EXACT_INTEGER:
        number = int(number)
    return repr(number)


def reads_as_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def normalise_word(text: str, decimal: str) -> str:
    """Return a word of labels as it is compared: in lower case, and a number by its value."""
    number = as_number(text, decimal)
    return text.strip().casefold() if number is None else number_text(number)


class TextValues(NamedTuple):
    """Values of records as text, with the place of each, their file and, where they are one, their column."""

    texts: TextColumn
    where: Where
    source: str
    column: str | None = None
    decimal: str = "."

    def within(self) -> str:
        """Return the column of the values for messages; empty in a wide table."""
        return "" if self.column is None else f" in column {quoted(self.column)}"

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the values as floats."""
        numbers = self._numbers_or_none()
        missing = [number is None for number in numbers]
        if any(missing):
            raise self._no_number(self.texts.first(missing))
        return self.texts.spread(numbers, np.float64)

    def are_zero(self) -> npt.NDArray[np.bool_]:
        """Return which values are the number 0."""
        return self.texts.spread([number == 0 for number in self._numbers_or_none()], bool)

    def labels(
        self, like_at: float | None, like: Words | None, dislike: Words | None
    ) -> tuple[Labels, tuple[str, str] | None]:
        """Return the labels by the rules given, and the pair of a like and a dislike where it was guessed.

        Without rules, a known pair of words is understood, and +1 and -1.
        """
        if like is not None or dislike is not None:
            return self.labels_by_word(like or (), dislike or ()), None
        pair = None if like_at is not None else self.known_pair()
        if pair is None:
            return self.labels_by_number(like_at), None
        return self.labels_by_word(pair[:1], pair[1:]), pair

    def labels_by_word(self, like: Words, dislike: Words) -> Labels:
        """Return +1 for the words of a like, -1 for those of a dislike; any other is an error."""
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

    def known_pair(self) -> tuple[str, str] | None:
        """Return the words of a like and a dislike where these, and no others, occur."""
        words = set(map(self.word, self.texts.distinct))
        return next((pair for pair in PAIRS if words == set(pair)), None)

    def labels_by_number(self, like_at: float | None) -> Labels:
        """Return +1 and -1 as they stand, or the labels of ratings; an error lists values that are words."""
        # Values that are numbers with the other decimal mark have an error of their own.
        texts = self.texts.distinct
        if like_at is None and all(as_number(t, mark) is None for t in texts for mark in ".,"):
            raise self._unknown_words()
        return as_labels(self.numbers(), like_at, self.where)

    def _numbers_or_none(self) -> list[float | None]:
        return [as_number(text, self.decimal) for text in self.texts.distinct]

    def word(self, text: str) -> str:
        """Return a text as it is compared."""
        return normalise_word(text, self.decimal)

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
            f"The values{self.within()} of {self.source} are words: {found}; name those of likes and dislikes with "
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


def as_labels(values: AnyArray, like_at: float | None, where: Where) -> Labels:
    """Return +1 or -1 for each value: the value itself, or with ``like_at`` whether it is at least that."""
    values = _finite(values, where)
    if like_at is not None:
        check_like_at(like_at)
        return np.where(values >= like_at, np.int8(1), np.int8(-1))
    if values.dtype.kind == "b":
        raise InvalidTypeError(
            "The labels are booleans, and False could mean disliked or unobserved; "
            "pass +1 for a like and -1 for a dislike."
        )
    if (position := first_true((values != 1) & (values != -1))) is not None:
        raise InvalidInputError(
            f"{where(position)}: the value {values.flat[position]} is neither +1 (like) nor -1 "
            f"(dislike); if these are ratings, pass {parameter('like_at')}"
            f"{either(' (for pairs: Observations.from_ratings)')}."
        )
    return values.astype(np.int8)


def label_reader(like_at: float | None) -> ValueReader:
    """Return the reader of labels, or of ratings with that threshold."""
    return lambda values, where: as_labels(values, like_at, where)


def as_values(values: AnyArray, where: Where) -> Floats:
    """Return finite numbers."""
    return _finite(values, where).astype(np.float64)


def _finite(values: AnyArray, where: Where) -> AnyArray:
    values = as_real(values, "The list of values")
    if (position := first_true(~np.isfinite(values))) is not None:
        raise InvalidInputError(
            f"{where(position)}: the value {values.flat[position]} is not finite; "
            "leave the entry out if it is unobserved."
        )
    return values


def check_like_at(like_at: object) -> None:
    """Raise an error where a threshold is no finite number."""
    try:
        known = not isinstance(like_at, bool) and isinstance(like_at, Real) and isfinite(like_at)
    except OverflowError:  # an integer may be too large to be a float
        known = False
    if not known:
        raise InvalidInputError(
            f"{parameter('like_at')} is {like_at!r}; pass the smallest rating that is a like, a finite number."
        )


def as_real(array: AnyArray, name: str) -> AnyArray:
    """Return an array of real numbers or booleans; objects that are numbers become floats."""
    advice = "pass numbers, or use Observations.from_frame for a data frame with ids"
    if array.dtype.kind == "O" and not any(isinstance(item, str | bytes) for item in array.flat):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(
                f"{name} holds something that is not a number ({error}); {advice}."
            ) from error
    if array.dtype.kind == "c":
        raise InvalidInputError(f"Complex data not supported: {name} is {array.dtype}; {advice}.")
    if array.dtype.kind not in "biuf":
        raise InvalidTypeError(f"{name} has the dtype {array.dtype}; {advice}.")
    return array
