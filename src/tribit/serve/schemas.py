"""Questions and answers as JSON: request models from the fields of questions, questions from requests, answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    create_model,
)
from pydantic import Field as Rule

from tribit.answers import Answer
from tribit.data.axis import Axes, Axis
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.data.tables import finite_or_none
from tribit.errors import InvalidInputError, quoted
from tribit.questions import QUESTIONS, Entry
from tribit.questions.base import OMIT, Field, Question, fields_of
from tribit.questions.kinds import IDS, PAIRS, Kind, Texts, kind_of
from tribit.ranking.lists import Recommendations

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

#: Maximum number of characters of an id in a request.
MAX_ID_LENGTH = 1000
#: Maximum number of items of a list in a request, for default limits.
MAX_ITEMS = 10_000
STRICT = ConfigDict(extra="forbid")
#: Names of a row and of a column in JSON.
Names: TypeAlias = tuple[str, str]
#: Neutral names of rows and columns. Every request may have them, whatever the names of the table.
NEUTRAL: Names = ("row", "column")
#: Other fields of answers: a table with one of these names for its ids has neutral names in JSON.
ANSWER_FIELDS = frozenset(
    {
        "basis",
        "columns",
        "contribution",
        "entries",
        "error",
        "expected_dislikes",
        "expected_likes",
        "items",
        "label",
        "lists",
        "lower",
        "meaning",
        "model",
        "n_entries",
        "neighbours",
        "of",
        "parts",
        "predictions",
        "probability",
        "probability_change",
        "residual",
        "rows",
        "score",
        "similarity",
        "unknown_columns",
        "upper",
        "x",
    }
)


def _as_text(given: object) -> Any:
    """Return an integer of 64 bits as text, any other value unchanged."""
    is_whole = type(given) is int and abs(given) < 2**64
    return str(given) if is_whole else given


#: An id as text, as in a file: 7 and "7" are the same id.
Id = Annotated[
    str, Rule(max_length=MAX_ID_LENGTH), BeforeValidator(_as_text, json_schema_input_type=str | int)
]


class Pair(BaseModel):
    """A row and a column."""

    model_config = STRICT
    row: Id
    column: Id


class NewEntry(BaseModel):
    """An entry of a new row: a label, or a rating if the model was fitted on ratings."""

    model_config = STRICT
    column: Id
    label: Annotated[Literal[1, -1] | None, Rule(description="1 (like) or -1 (dislike).")] = None
    value: Annotated[float | None, Rule(allow_inf_nan=False, description="A rating.")] = None
    row: Annotated[Id | None, Rule(description="Name of the new row, if there are several.")] = None


class Unnamed:
    """Id of a new row without a name: distinct from all others, and null in the answer."""


@cache
def rules_of(names: Names) -> ConfigDict:
    """Return rules of a request, in which rows and columns have the given names or the neutral ones."""

    def alias(field: str) -> str | AliasChoices:
        for side, name in zip(NEUTRAL, names, strict=True):
            if name != side and field in (side, f"{side}s"):
                return AliasChoices(name, field)
        return field

    return ConfigDict(extra="forbid", alias_generator=AliasGenerator(validation_alias=alias))


@cache
def record_types(names: Names) -> tuple[type[Pair], type[NewEntry]]:
    """Return the types of pairs and of entries with the given names of rows and columns."""
    pair, entry = (
        type(each.__name__, (each,), {"model_config": rules_of(names), "__doc__": each.__doc__})
        for each in (Pair, NewEntry)
    )
    return pair, entry


def names_in_json(headings: Names) -> Names:
    """Return the headings of a table, or neutral names if a field of a request or an answer has one of them."""
    taken = ANSWER_FIELDS | {*NEUTRAL, *NewEntry.model_fields}
    taken = taken.union(*(each.fields for each in endpoints(NEUTRAL).values()))
    own = (name in taken and name != side for name, side in zip(headings, NEUTRAL, strict=True))
    return NEUTRAL if any(own) or headings[0] == headings[1] else headings


def renamed(request: Any, names: Names) -> Any:
    """Return an example of a request with the names of a table."""
    if isinstance(request, list):
        return [renamed(each, names) for each in request]
    if not isinstance(request, dict):
        return request
    pairs = [each for each in zip(NEUTRAL, names, strict=True) if each[0] != each[1]]
    known = {f"{side}{end}": name for side, name in pairs for end in ("", "s")}
    return {known.get(key, key): renamed(value, names) for key, value in request.items()}


class ParsedQuestion(NamedTuple):
    """A question of the library, and the unknown columns of its entries (None without entries)."""

    question: Question[Any]
    unknown_columns: list[str] | None


@dataclass(frozen=True)
class Endpoint:
    """A question over HTTP.

    Attributes
    ----------
    name : str
        Name of the question; the path is ``/name``.
    entry : Entry
        Its entry in :data:`tribit.questions.QUESTIONS`.
    names : (str, str)
        Names of rows and columns in JSON.
    max_items : int
        Maximum number of items of any list of a request.
    """

    name: str
    entry: Entry
    names: Names = NEUTRAL
    max_items: int = MAX_ITEMS

    @cached_property
    def question(self) -> Any:
        """Class of the question."""
        return self.entry.load()

    @cached_property
    def fields(self) -> dict[str, Field]:
        """Fields of a request by name."""
        known = fields_of(self.question)
        return {each.name: each for each in known if each.default_of("serve") is not OMIT}

    @cached_property
    def schema(self) -> type[BaseModel]:
        """Pydantic model of a request."""
        fields: dict[str, Any] = {
            name: _schema_of(field, self.names, self.max_items)
            for name, field in self.fields.items()
        }
        config = rules_of(self.names) | ConfigDict(json_schema_extra={"examples": [self.example]})
        name = f"{self.question.__name__}Request"
        return create_model(name, __config__=config, __doc__=self.entry.help, **fields)

    @property
    def example(self) -> dict[str, Any]:
        """An example of a request."""
        found: dict[str, Any] = renamed(self.entry.request, self.names)
        return found

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        """Kinds of the fields that need conversion from JSON, by name."""
        kinds = {name: _kind_in_json(each) for name, each in self.fields.items()}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    @cached_property
    def query_names(self) -> dict[str, str]:
        """Fields by their name in a query: a list of ids is a repeated parameter with a singular name."""
        ids = [name for name, kind in self._kinds.items() if kind is IDS]
        return {name.removesuffix("s"): name for name in ids} | {
            name: name for name in self.fields if name not in self._kinds
        }

    def read_json(self, body: bytes) -> BaseModel:
        """Return the checked fields of a body."""
        return self.schema.model_validate_json(body)

    def read_query(self, query: dict[str, list[str]]) -> BaseModel:
        """Return the checked fields of a query."""
        neutral = dict(zip(self.names, NEUTRAL, strict=True))
        values: dict[str, Any] = {}
        for query_name, given in query.items():
            plain = neutral.get(query_name, query_name)
            name = self.query_names.get(plain, query_name)
            if name in values:
                raise InvalidInputError(
                    f"The query has {quoted(plain)} under two names; send it under one."
                )
            is_list = self._kinds.get(name) is IDS and not _is_single(self.fields[name])
            values[name] = given if is_list else given[-1]
        return self.schema.model_validate(values)

    def make_question(self, request: BaseModel, recommender: FittedRecommender) -> ParsedQuestion:
        """Return the question of a request."""
        values, unknown = dict(request.__dict__), None
        for name, kind in self._kinds.items():
            given = values[name]
            if given is None:
                continue
            if kind is IDS:
                values[name] = Texts((given,) if _is_single(self.fields[name]) else tuple(given))
            elif kind is PAIRS:
                rows, columns = zip(*((pair.row, pair.column) for pair in given), strict=True)
                values[name] = Texts(rows), Texts(columns)
            else:
                values[name], unknown = read_entries(given, recommender)
        return ParsedQuestion(self.question(**values), unknown)


@cache
def endpoints(names: Names, max_items: int = MAX_ITEMS) -> dict[str, Endpoint]:
    """Return the questions with an example request, by path."""
    return {
        f"/{name}": Endpoint(name, entry, names, max_items)
        for name, entry in QUESTIONS.items()
        if entry.request is not None
    }


#: Path of the one question that can also be sent as a query, by GET.
PATH_WITH_QUERY = "/recommend"


def _schema_of(field: Field, names: Names, max_items: int) -> tuple[Any, Any]:
    """Return the type and the default of a field of a request."""
    kind, rules = _kind_in_json(field), dict(field.about.rules)
    hint: Any = field.types[0]
    if "choices" in rules:
        hint = Literal[tuple(rules.pop("choices"))]
    elif kind is not None:
        hint = Id if _is_single(field) else _list_type(kind, names, max_items)
    elif _is_switch(field):
        hint = bool
    elif hint is float:
        rules["allow_inf_nan"] = False
    default = field.default_of("serve")
    ruled: Any = Annotated[hint, Rule(**rules)]
    if default is None or type(None) in field.types:
        ruled = ruled | None
    described: Any = Annotated[ruled, Rule(description=field.about.help)]
    return described, ... if default is MISSING else default


def _list_type(kind: Kind, names: Names, max_items: int) -> Any:
    """Return the type of a list in JSON, whose first wrong item ends the validation."""
    pair, entry = record_types(names)
    item: Any = {IDS: Id, PAIRS: pair}.get(kind, entry)
    least = 1 if kind in (IDS, PAIRS) else 0
    return Annotated[list[item], Rule(min_length=least, max_length=max_items, fail_fast=True)]


def _is_switch(field: Field) -> bool:
    """Return whether a field is a boolean in JSON, as is one that takes entries or a boolean in Python."""
    return bool in field.types


def _is_single(field: Field) -> bool:
    """Return whether a field is a single id, which is a positional argument of the command."""
    return field.about.argument and kind_of(field.hint) is IDS


def _kind_in_json(field: Field) -> Kind | None:
    """Return the kind of a field in JSON; None for a plain value."""
    return None if _is_switch(field) else kind_of(field.hint)


def read_entries(
    given: Sequence[NewEntry], recommender: FittedRecommender
) -> tuple[Observations, list[str]]:
    """Return the entries of new rows in the columns of the model, and their unknown columns.

    Without entries there is one new row (cold start).
    """
    rows, columns = recommender.axes_
    numbers = {name: number for number, name in enumerate(dict.fromkeys(e.row for e in given))}
    numbers = numbers or {None: 0}
    known = columns.by_text
    labels = {}
    threshold = like_at(recommender)
    for entry in given:
        cell = numbers[entry.row], entry.column
        if cell in labels:
            raise InvalidInputError(
                f"The column {quoted(entry.column)} is in two entries; send it once."
            )
        labels[cell] = _label(entry, threshold)
    cells = sorted(
        (row, known[column], label) for (row, column), label in labels.items() if column in known
    )
    i, j, signs = (np.array([cell[side] for cell in cells], dtype=np.int64) for side in range(3))
    ids = None
    if rows.ids is not None:
        ids = np.fromiter((name or Unnamed() for name in numbers), dtype=object)
    axes = Axes(Axis(rows.name, len(numbers), ids), columns)
    entries = Observations.from_checked(Checked(i, j, signs.astype(np.int8), axes))
    return entries, list(dict.fromkeys(e.column for e in given if e.column not in known))


def like_at(recommender: FittedRecommender) -> float | None:
    """Return the smallest rating that is a like; None for a model of labels."""
    return recommender.reading_.like_at


def _label(entry: NewEntry, threshold: float | None) -> int:
    if (entry.label is None) == (entry.value is None):
        raise InvalidInputError(
            f"The entry in the column {quoted(entry.column)} needs either a label (1 or -1) or a value (a rating)."
        )
    if entry.value is None:
        return entry.label or 0
    if threshold is None:
        raise InvalidInputError(
            "The model was fitted on labels, not on ratings: send labels (1 or -1) and no values."
        )
    return 1 if entry.value >= threshold else -1


def encode(value: object) -> bytes:
    """Return JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def fields_of_answer(answer: Answer, names: Names) -> dict[str, Any]:
    """Return the fields of an answer; a list of records is under the name of its class, such as ``predictions``."""
    if isinstance(answer, Recommendations):
        return {"lists": list(fields_of_lists(answer))}
    found = json_value(answer.to_dict(), frozenset({*names, "of"}))
    return found if isinstance(found, dict) else {type(answer).__name__.lower(): found}


def json_value(value: object, ids: frozenset[str], name: str = "") -> Any:
    """Return the value of a field for JSON: that of a field of ids as a request has it, null for NaN and infinities."""
    if isinstance(value, dict):
        return {str(key): json_value(each, ids, key) for key, each in value.items()}
    if isinstance(value, list | tuple) and name not in ids:
        return [json_value(each, ids, name) for each in value]
    if name in ids:
        return json_id(value)
    if hasattr(value, "tolist"):
        return json_value(value.tolist(), ids, name)
    return finite_or_none(value)


def json_id(value: object) -> str | int | None:
    """Return an id as a request can send it: text and integers unchanged, other ids as text."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Unnamed):
        return None
    return value if isinstance(value, str) or type(value) is int else str(value)


def fields_of_lists(found: Recommendations) -> Iterator[dict[str, Any]]:
    """Yield the list of each row, best column first, with scores, probabilities, rates and intervals."""
    measures = {
        "score": found.scores,
        "probability": found.probabilities,
        "expected_likes": found.likes,
        "expected_dislikes": found.dislikes,
    }
    known = {name: each.values.tolist() for name, each in measures.items() if each is not None}
    if found.intervals is not None:
        known |= {side: getattr(found.intervals, side).tolist() for side in ("lower", "upper")}
    bases = found.basis.tolist() if found.basis is not None else [None] * len(found)
    columns, offsets = found.columns.values.tolist(), found.columns.offsets.tolist()
    row_name, column_name = found.names
    for row, basis, start, stop in zip(
        found.rows.tolist(), bases, offsets[:-1], offsets[1:], strict=True
    ):
        items: list[dict[str, Any]] = [
            {
                column_name: json_id(columns[at]),
                **{name: finite_or_none(values[at]) for name, values in known.items()},
            }
            for at in range(start, stop)
        ]
        yield {row_name: json_id(row), "basis": basis, "items": items}
