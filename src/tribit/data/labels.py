"""Values of entries as likes and dislikes: numbers, ratings with a threshold, and words.

:func:`label_numbers` reads numbers, of a matrix, a frame or a file; :class:`TextValues` are those of a file, which may
be words as well. The columns of a file are a :class:`TextColumn`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence, Set
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tribit.checks import is_number
from tribit.data.axis import AnyArray, Positions, Where, first_true
from tribit.data.weights import check_weights
from tribit.data.zeros import Holder, Zeros, meaning_of_zero
from tribit.errors import InvalidInputError, InvalidTypeError, either, listed, parameter, quoted

if TYPE_CHECKING:
    from tribit.data.rules import TableRules

Labels: TypeAlias = npt.NDArray[np.int8]
Floats: TypeAlias = npt.NDArray[np.float64]
#: The value of an entry that a table has more than once.
Duplicates: TypeAlias = Literal["error", "first", "last", "majority"]
Words = tuple[str, ...]

#: Texts that stand for a missing value, as spreadsheets, databases, R and pandas write it.
MISSING = frozenset({"", "NA", "N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?"})
#: Pairs of a like and a dislike that are understood where both occur and no other word does.
PAIRS = (("yes", "no"), ("like", "dislike"), ("+", "-"))
#: Numbers that may have their thousands marked by commas.
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
#: Words that are read as numbers.
BOOLEANS = {"true": 1.0, "false": 0.0}


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
    """Return whether a text is a number; 1_0 is one for Python alone."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


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

    def numbers(self, *, rated: bool) -> Floats:
        """Return the distinct values as floats; an error lists values that are words, unless they are ratings."""
        numbers = [self.number(text) for text in self.texts.distinct]
        missing = [number is None for number in numbers]
        # Values that are numbers with the other decimal mark have an error of their own.
        if (
            not rated
            and all(missing)
            and all(as_number(text, ",") is None for text in self.texts.distinct)
        ):
            raise self._unknown_words()
        if any(missing):
            raise self._no_number(self.texts.first(missing))
        return np.array(numbers, dtype=np.float64)

    def have_decimal_commas(self) -> bool:
        """Return whether all values are numbers with a comma as decimal mark, and not all with a point."""
        texts = self.texts.distinct
        with_comma = [text for text in texts if "," in text]
        return any(THOUSANDS.fullmatch(text) is None for text in with_comma) and all(
            as_number(text, ",") is not None for text in texts
        )

    def number(self, text: str) -> float | None:
        """Return the number that a text is, 1 for true and 0 for false, or None."""
        known = BOOLEANS.get(text.casefold())
        return as_number(text, self.decimal) if known is None else known

    def labels(
        self, rules: TableRules, *, holder: Holder, has_missing: bool
    ) -> tuple[Labels, dict[str, Any], list[str]]:
        """Return +1 and -1, and 0 for values that are left out; rules that were guessed, and notes.

        Without rules, a known pair of words is understood, and numbers (:func:`label_numbers`).
        """
        like, dislike = rules.like, rules.dislike
        guessed: dict[str, Any] = {}
        notes: list[str] = []
        pair = None if rules.like_at is not None or like or dislike else self.known_pair()
        if pair is not None:
            like, dislike = pair[:1], pair[1:]
            guessed = {"like": like, "dislike": dislike}
            notes.append(
                f"{self.source}: {like[0]} is a like and {dislike[0]} a dislike (guessed)."
            )
        if like or dislike:
            if not rules.settled:
                self._check_words((*(like or ()), *(dislike or ())))
            labels = self._labels_by_word(like or (), dislike or (), rules.zeros)
            left_out = self._left_out(labels, "neither a like nor a dislike")
        else:
            numbers = self.numbers(rated=rules.like_at is not None)
            meaning = meaning_of_zero(
                numbers, rules, holder=holder, has_missing=has_missing, name=self.source
            )
            guessed = {"zeros": meaning.zeros}
            notes += [] if meaning.note is None else [meaning.note]
            if rules.zeros == "unobserved" and (numbers == 0).any():
                n_zeros = int(self.texts.counts[numbers == 0].sum())
                notes.append(f"{self.source}: 0 is unobserved, and stands {n_zeros} times.")
            labels = label_numbers(
                numbers, rules, meaning.zeros, lambda at: self.where(self._first(at))
            )
            left_out = self._left_out(np.where(numbers == 0, 1, labels), "between both thresholds")
        return labels[self.texts.codes], guessed, notes + left_out

    def _first(self, place: int) -> int:
        """Return the first record with a distinct text."""
        return int(np.argmax(self.texts.codes == place))

    def _labels_by_word(self, like: Words, dislike: Words, zeros: Zeros | None) -> Labels:
        """Return the label of each distinct text: +1 and -1 for the words given, 0 for others."""
        meaning = {self.word(text): 1 for text in like} | {self.word(text): -1 for text in dislike}
        if zeros == "unobserved":
            meaning["0"] = 0
        return np.array([meaning.get(self.word(text), 0) for text in self.texts.distinct], np.int8)

    def _left_out(self, labels: AnyArray, reason: str) -> list[str]:
        """Return a note on the texts without a label, with their counts; none where there is no such text."""
        if (labels != 0).all():
            return []
        counts = self.texts.counts
        lost = [f"{self.texts.distinct[at]} ({counts[at]})" for at in np.flatnonzero(labels == 0)]
        n = int(counts[labels == 0].sum())
        which = "1 value was" if n == 1 else f"{n} values were"
        return [f"{self.source}: {which} left out, {reason}: {listed(lost)}."]

    def known_pair(self) -> tuple[str, str] | None:
        """Return the words of a like and a dislike where these, and no others, occur."""
        words = set(map(self.word, self.texts.distinct))
        return next((pair for pair in PAIRS if words == set(pair)), None)

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

    def _check_words(self, words: Words) -> None:
        """Refuse words for likes and dislikes that are no value."""
        known = set(map(self.word, self.texts.distinct))
        if lost := [quoted(word) for word in words if self.word(word) not in known]:
            raise InvalidInputError(
                f"No value{self.within()} of {self.source} is {' or '.join(lost)}; the values are "
                f"{self._counted_values()}."
            )

    def _counted_values(self) -> str:
        """Return the distinct values with their counts, the most frequent first."""
        counts = zip(self.texts.distinct, self.texts.counts, strict=True)
        ordered = sorted(counts, key=lambda each: -each[1])
        return listed([f"{text} ({count})" for text, count in ordered])

    def _unknown_words(self) -> InvalidInputError:
        return InvalidInputError(
            f"The values{self.within()} of {self.source} are words: {self._counted_values()}; name those of likes "
            f"and dislikes with {parameter('like')} and {parameter('dislike')}{self._or_another_column()}."
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


def value_labels(values: AnyArray, rules: TableRules, zeros: Zeros | None, where: Where) -> Labels:
    """Return the labels of numbers by the rules, words for likes and dislikes among them; 0 for those left out."""
    if not (rules.like or rules.dislike):
        return label_numbers(values, rules, zeros, where)
    distinct, codes = np.unique(_finite(values, where), return_inverse=True)
    texts = TextColumn(codes.ravel(), map(number_text, distinct.tolist()))
    return TextValues(texts, where, "X").labels(rules, holder="sparse", has_missing=True)[0]


def label_numbers(values: AnyArray, rules: TableRules, zeros: Zeros | None, where: Where) -> Labels:
    """Return +1 (like) and -1 (dislike) for numbers, and 0 for those that are left out.

    ``zeros`` is the meaning of 0 (:func:`tribit.data.zeros.meaning_of_zero`). With ``like_at`` a number is a rating.
    """
    values = _finite(values, where)
    if rules.like_at is not None:
        if rules.like_at > 1 and (values == -1).any() and np.isin(values, (-1, 0, 1)).all():
            raise InvalidInputError(
                f"{where(first_true(values == -1) or 0)}: the values are labels (+1, -1), which are no ratings for "
                f"{parameter('like_at', rules.like_at)}{either('; read them with Observations.from_matrix')}."
            )
        labels = np.where(values >= rules.like_at, np.int8(1), np.int8(-1))
        if rules.dislike_at is not None:
            labels[(values > rules.dislike_at) & (values < rules.like_at)] = 0
    else:
        known = (values == 1) | (values == -1) | ((values == 0) & (zeros is not None))
        if (position := first_true(~known)) is not None:
            raise InvalidInputError(
                f"{where(position)}: the value {values.flat[position]} is neither +1 (like) nor -1 (dislike); if "
                f"these are ratings, pass {parameter('like_at')}{either(' (for pairs: Observations.from_ratings)')}; "
                "if they count plays or purchases, leave the values out, or give them as weights."
            )
        labels = values.astype(np.int8)
        labels[values == 0] = -1
    if zeros == "unobserved":
        labels[values == 0] = 0
    return labels


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


def check_rating(name: str, value: Any) -> float:
    """Return a threshold of ratings, a finite number."""
    try:
        known = is_number(value) and isfinite(value)
    except OverflowError:  # an integer may be too large to be a float
        known = False
    if not known:
        extreme = (
            "smallest rating that is a like" if name == "like_at" else "largest that is a dislike"
        )
        raise InvalidInputError(
            f"{parameter(name)} is {value!r}; pass the {extreme}, a finite number."
        )
    return value  # type: ignore[no-any-return]


def as_real(array: AnyArray, name: str) -> AnyArray:
    """Return an array of real numbers or booleans; objects that are numbers become floats."""
    advice = (
        "pass numbers (ids of rows belong into the index of a pandas frame, by X.set_index), or use "
        "Observations.from_frame for a frame with an entry in each row"
    )
    if array.dtype.kind == "O" and not any(isinstance(item, str | bytes) for item in array.flat):
        try:
            # pandas.NA is no float; None is one.
            given = [np.nan if type(item).__name__ == "NAType" else item for item in array.flat]
            return np.array(given, dtype=object).reshape(array.shape).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(
                f"{name} holds something that is not a number ({error}); {advice}."
            ) from error
    if array.dtype.kind == "c":
        raise InvalidInputError(f"Complex data not supported: {name} is {array.dtype}; {advice}.")
    if array.dtype.kind not in "biuf":
        raise InvalidTypeError(f"{name} has the dtype {array.dtype}; {advice}.")
    return array


class TableCells(NamedTuple):
    """Cells of a table: ids and values as text, and the place of each; of a frame, ids as an array.

    ``source`` is the file, ``names`` the columns they are from, ``rules`` those found in the file, ``value_column``,
    ``weight_column`` and ``time_column`` the columns of values, of weights and of times if there are any, and
    ``filled`` says that a wide table has no empty cell.
    """

    rows: Any
    columns: Any
    texts: TextColumn | None
    where: Where
    source: str
    names: tuple[str, str, str | None]
    rules: dict[str, Any]
    notes: tuple[str, ...]
    value_column: str | None = None
    filled: bool = False
    weights: TextColumn | AnyArray | None = None
    weight_column: str | None = None
    times: TextColumn | AnyArray | None = None
    time_column: str | None = None

    def values(self, decimal: str) -> TextValues:
        """Return the values, which must have been read."""
        assert self.texts is not None
        return TextValues(self.texts, self.where, self.source, self.value_column, decimal)

    def with_note(self, note: str, **rules: object) -> TableCells:
        """Return the cells with one more note, and rules that were found."""
        return self._replace(notes=(*self.notes, note), rules={**self.rules, **rules})

    def at(self, kept: AnyArray) -> TableCells:
        """Return some of the cells."""
        places = np.flatnonzero(kept)
        return self._replace(
            rows=self.rows.take(places),
            columns=self.columns.take(places),
            texts=None if self.texts is None else self.texts.take(places),
            weights=None if self.weights is None else self.weights.take(places),
            times=None if self.times is None else self.times.take(places),
            where=lambda position: self.where(int(places[position])),
        )

    def weight_numbers(self, scale: str, decimal: str) -> Floats | None:
        """Return the weights as numbers, checked; None without a column of weights."""
        given = self.weights
        if isinstance(given, TextColumn):
            numbers = [as_number(text, decimal) for text in given.distinct]
            wrong = [number is None for number in numbers]
            if any(wrong):
                at = given.first(wrong)
                raise InvalidInputError(
                    f"{self.where(at)}: the weight {quoted(given[at])} in column {quoted(self.weight_column)} is not a "
                    f"number; correct it, or choose another {parameter('weight')} column."
                )
            given = given.spread(numbers, np.float64)
        return None if given is None else check_weights(given, given.size, self.where, scale)


def label_cells(cells: TableCells, rules: TableRules, holder: Holder) -> tuple[TableCells, Labels]:
    """Return the observed cells, with rules that were guessed from the values, and their labels."""
    if cells.texts is None:
        for name in ("like_at", "dislike_at", "like", "dislike"):
            if getattr(rules, name) is not None:
                raise InvalidInputError(
                    f"{parameter(name)} needs {parameter('value')}, the name of the column that holds the ratings."
                )
        return cells, np.ones(cells.rows.size, dtype=np.int8)
    values = cells.values(rules.mark)
    if rules.decimal is None and values.have_decimal_commas():
        cells = cells.with_note(f"{cells.source}: the decimal mark is , (guessed).", decimal=",")
        values = cells.values(",")
    labels, found, notes = values.labels(rules, holder=holder, has_missing=not cells.filled)
    for note in notes:
        cells = cells.with_note(note)
    observed = labels != 0
    if not observed.any():
        raise InvalidInputError(
            f"No value{values.within()} of {cells.source} is a like or a dislike; check {parameter('like_at')}, "
            f"{parameter('like')}, {parameter('dislike')} and {parameter('zeros')}."
        )
    cells = cells._replace(rules={**cells.rules, **found})
    return (cells, labels) if observed.all() else (cells.at(observed), labels[observed])
