"""Rules by which values and ids of a table become entries: given or guessed, and kept for later tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, TypeAlias, TypedDict, get_args

from tribit.checks import check_choice, check_field, is_number, is_whole
from tribit.data.labels import Duplicates, Words, check_rating, normalise_word, number_text
from tribit.data.weights import WeightScale
from tribit.data.zeros import Zeros
from tribit.errors import InvalidInputError, InvalidTypeError, parameter, quoted

Missing: TypeAlias = Literal["error", "skip"]


class ValueOptions(TypedDict, total=False):
    """Rules of :class:`TableRules` by name, without the columns of a long table."""

    like_at: float | None
    dislike_at: float | None
    like: Any
    dislike: Any
    decimal: str | None
    weight_scale: WeightScale
    zeros: Zeros | None
    missing: Missing
    duplicates: Duplicates


class RuleOptions(ValueOptions, total=False):
    """Rules of :class:`TableRules` by name."""

    row: str | None
    column: str | None
    value: str | None
    weight: str | None
    time: str | None


@dataclass(frozen=True)
class TableRules:
    """The rules by which a table in memory becomes entries; a rule that is None is guessed, with a note.

    Parameters
    ----------
    row, column, value : str, optional
        Names of the columns of row ids, column ids and values of a long table. Without a value every pair is a like.
    like_at : float, optional
        Values are ratings: from this one up a like.
    weight : str, optional
        Name of the column of weights of a long table: numbers of at least 0, such as how often a song was played. An
        entry of weight 2 counts as two entries, one of weight 0 is left out. "none" is no column.
    time : str, optional
        Name of the column of times of a long table: ISO dates or datetimes, or seconds or milliseconds since 1970
        (:mod:`tribit.data.times`). "none" is no column.
    weight_scale : {"linear", "log1p"}, default="linear"
        Weights are the numbers as they are, or ``log(1 + number)``: a confidence that grows slowly, for counts.
    dislike_at : float, optional
        With ``like_at``: up to this one a dislike. Ratings between both are left out; by default there are none.
    like, dislike : str, number or sequence of them, optional
        Words, or numbers, that are a like and a dislike; case does not matter, and other values are left out. Each must
        occur in the first table that is read. Without them yes and no, true and false, like and dislike, + and -,
        1 and 0 are understood where no other word occurs.
    decimal : {".", ","}, optional
        Decimal mark of values that are text.
    zeros : {"dislike", "unobserved"}, optional
        Whether a 0 (or False) is an observed value, and without ``like_at`` a dislike, or an unobserved entry. By
        default as in :func:`tribit.data.zeros.meaning_of_zero`.
    missing : {"error", "skip"}, default="error"
        Whether records of a long table without an id or a value (empty, NA, NaN, null, ?) are refused or left out.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`Observations.from_pairs`.
    notes : tuple of str
        A sentence for each rule that was guessed; not compared.
    settled : bool, default=False
        Whether a table was read by these rules. Each word of ``like`` and ``dislike`` must occur in the first table,
        and may be missing in later ones.

    Examples
    --------
    >>> from tribit.data.rules import TableRules
    >>> rules = TableRules(row="user", column="film", value="stars", like_at=4)
    >>> rules.like_at, rules.missing
    (4, 'error')
    """

    row: str | None = field(
        default=None,
        metadata={
            "help": "Column of row ids, or its number from 0 without header [the first of two or three]."
        },
    )
    column: str | None = field(
        default=None, metadata={"help": "Column of column ids, or its number [the second]."}
    )
    value: str | None = field(
        default=None,
        metadata={
            "help": "Column of +1/-1, ratings or words, or its number [without it all are likes]."
        },
    )
    weight: str | None = field(
        default=None,
        metadata={
            "help": "Column of weights, such as counts, or its number; none for no weights [all are 1]."
        },
    )
    time: str | None = field(
        default=None,
        metadata={
            "help": "Column of times: ISO dates, or seconds or milliseconds since 1970; none for no times [no times]."
        },
    )
    weight_scale: WeightScale = field(
        default="linear",
        metadata={"help": "Scale of the weights: linear, or log1p for log(1 + number)."},
    )
    like_at: float | None = field(
        default=None, metadata={"help": "Threshold of ratings: the smallest that is a like."}
    )
    dislike_at: float | None = field(
        default=None,
        metadata={
            "help": "The largest rating that is a dislike; those between are left out [all below]."
        },
    )
    like: Words | None = field(
        default=None,
        metadata={
            "help": "Values that are a like: yes,true; others than likes and dislikes are left out [guessed]."
        },
    )
    dislike: Words | None = field(
        default=None, metadata={"help": "Values that are a dislike: no,false [guessed]."}
    )
    decimal: str | None = field(
        default=None, metadata={"help": "Decimal mark of values: . or , [guessed]."}
    )
    zeros: Zeros | None = field(
        default=None,
        metadata={
            "help": "Meaning of a 0: dislike or unobserved [dislike if listed or other cells are empty, not beside -1]."
        },
    )
    missing: Missing = field(
        default="error",
        metadata={
            "help": "Records without an id or value (empty, NA, NaN, null, ?): error or skip."
        },
    )
    duplicates: Duplicates = field(
        default="error", metadata={"help": "Repeated pairs: error, first, last or majority."}
    )
    notes: tuple[str, ...] = field(default=(), compare=False)
    settled: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            if getattr(self, name) is not None:
                check_field(self, name, check)
        if self.like_at is not None and (self.like or self.dislike):
            raise InvalidInputError(
                f"{parameter('like_at')} is for ratings, {parameter('like')} and {parameter('dislike')} are for words; "
                "pass one or the other."
            )
        if self.dislike_at is not None and (
            self.like_at is None or self.dislike_at >= self.like_at
        ):
            raise InvalidInputError(
                f"{parameter('dislike_at')} is the largest rating that is a dislike, and needs a larger "
                f"{parameter('like_at')}; got {self.dislike_at:g} and {quoted(self.like_at)}."
            )
        words = (
            {normalise_word(word, self.mark) for word in given or ()}
            for given in (self.like, self.dislike)
        )
        if both := set.intersection(*words):
            raise InvalidInputError(
                f"{parameter('like')} and {parameter('dislike')} share {quoted(min(both))}; give each word one meaning."
            )

    @property
    def mark(self) -> str:
        """The decimal mark, a point where none is given."""
        return self.decimal or "."

    @classmethod
    def of(cls, rules: TableRules) -> Self:
        """Return these rules as those of this class."""
        if isinstance(rules, cls):
            return rules
        return cls(**{each.name: getattr(rules, each.name) for each in fields(TableRules)})

    def to_json(self) -> dict[str, Any]:
        """Return the rules as plain values."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        del plain["settled"]
        return {name: list(v) if isinstance(v, tuple) else v for name, v in plain.items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Return the rules that :meth:`to_json` wrote, checked again."""
        if unknown := set(plain) - ({each.name for each in fields(cls)} - {"settled"}):
            raise InvalidInputError(
                f"{quoted(min(unknown))} is no rule of reading; it may be of a later version."
            )
        return cls(**plain, settled=True)

    def zero_text(self) -> str:
        """Return the meaning of 0 in a few words; empty where nothing decided it."""
        if self.zeros is None:
            return ""
        observed = "a dislike" if self.like_at is None else "a rating"
        return f"0 is {'unobserved' if self.zeros == 'unobserved' else observed}"


def _check_column(name: str, value: Any) -> str:
    """Return the name of a column; a place may come as a number."""
    if isinstance(value, str) or is_whole(value):
        return str(value)
    raise InvalidTypeError(
        f"{parameter(name)} must be the name of a column, or its number from 0; got {quoted(value)}."
    )


def _check_words(name: str, value: Any) -> Words:
    words = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    texts = tuple(word_text(word).strip() for word in words)
    if not texts or not all(texts):
        raise InvalidInputError(
            f"{parameter(name)} must be a word, or several; got {quoted(value)}."
        )
    return texts


def word_text(word: Any) -> str:
    """Return a word, number or boolean as text; empty for anything else."""
    if isinstance(word, bool):
        return str(word).lower()
    return number_text(word) if is_number(word) else word if isinstance(word, str) else ""


def one_of(kind: Any) -> Callable[[str, Any], str]:
    """Return the check of a choice."""
    return lambda name, value: check_choice(name, value, get_args(kind))


#: Check of each rule, where it is given.
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "row": _check_column,
    "column": _check_column,
    "value": _check_column,
    "weight": lambda name, value: None if value == "none" else _check_column(name, value),
    "time": lambda name, value: None if value == "none" else _check_column(name, value),
    "weight_scale": one_of(WeightScale),
    "like_at": check_rating,
    "dislike_at": check_rating,
    "like": _check_words,
    "dislike": _check_words,
    "decimal": lambda name, value: check_choice(name, value, (".", ",")),
    "zeros": one_of(Zeros),
    "missing": one_of(Missing),
    "duplicates": one_of(Duplicates),
    "notes": lambda _, value: tuple(map(str, value)),
}
