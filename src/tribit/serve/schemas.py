"""Requests: pydantic models made from the fields of questions, and questions made from requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model
from pydantic import Field as Rule

from tribit.data.axis import Axes, Axis
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.questions import QUESTIONS, Entry
from tribit.questions.base import OMIT, Field, Question, fields_of
from tribit.questions.kinds import ENTRIES, IDS, PAIRS, Texts, kind_of
from tribit.quoting import quoted
from tribit.recommender import Recommender

#: Most characters of an id in a request.
MAX_ID_LENGTH = 1000
STRICT = ConfigDict(extra="forbid")


def _as_text(given: Any) -> Any:
    """Return a whole number of 64 bits as text; anything else as it is."""
    is_whole = type(given) is int and abs(given) < 2**64
    return str(given) if is_whole else given


#: An id as text, as a file has it: 7 and "7" are the same id.
Id = Annotated[
    str, Rule(max_length=MAX_ID_LENGTH), BeforeValidator(_as_text, json_schema_input_type=str | int)
]


class Pair(BaseModel):
    """A row and a column."""

    model_config = STRICT
    row: Id
    column: Id


class NewEntry(BaseModel):
    """An entry of a new row: a label, or a rating where the model was fitted on ratings."""

    model_config = STRICT
    column: Id
    label: Annotated[Literal[1, -1] | None, Rule(description="1 (like) or -1 (dislike).")] = None
    value: Annotated[float | None, Rule(allow_inf_nan=False, description="A rating.")] = None
    row: Annotated[Id | None, Rule(description="Name of the new row, where there are several.")] = (
        None
    )


class Unnamed:
    """Id of a new row that the request does not name; equal to no other, and null in the answer."""


#: Types of the kinds that are lists in JSON.
LISTS: dict[Any, Any] = {
    IDS: Annotated[list[Id], Rule(min_length=1)],
    PAIRS: Annotated[list[Pair], Rule(min_length=1)],
    ENTRIES: list[NewEntry],
}


class Asked(NamedTuple):
    """A question as the library takes it, and the columns of its entries that the model does not know."""

    question: Question[Any]
    unknown_columns: list[str] | None


@dataclass(frozen=True)
class Endpoint:
    """A question over HTTP.

    Attributes
    ----------
    name : str
        Its name; the path is that after a slash.
    entry : Entry
        What the register of questions says of it.
    """

    name: str
    entry: Entry

    @cached_property
    def question(self) -> Any:
        """The class of the question."""
        return self.entry.load()

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields that a request may have, by name."""
        known = fields_of(self.question)
        return {each.name: each for each in known if each.default_of("serve") is not OMIT}

    @cached_property
    def schema(self) -> type[BaseModel]:
        """The pydantic model of a request."""
        fields: dict[str, Any] = {name: _schema_of(field) for name, field in self.fields.items()}
        config = ConfigDict(extra="forbid", json_schema_extra={"examples": [self.entry.request]})
        name = f"{self.question.__name__}Request"
        return create_model(name, __config__=config, __doc__=self.entry.help, **fields)

    @cached_property
    def _lists(self) -> dict[str, str]:
        """Fields that are lists of ids, by their names in a query: plural, or singular once for each id."""
        names = [name for name, each in self.fields.items() if _is_list(each, IDS)]
        return {written: name for name in names for written in (name, name.removesuffix("s"))}

    def read_json(self, body: bytes) -> BaseModel:
        """Return the request in a body."""
        return self.schema.model_validate_json(body)

    def read_query(self, query: dict[str, list[str]]) -> BaseModel:
        """Return the request in a query."""
        values = {
            self._lists.get(name, name): given if name in self._lists else given[-1]
            for name, given in query.items()
        }
        return self.schema.model_validate(values)

    def asked(self, request: BaseModel, recommender: Recommender) -> Asked:
        """Return the question that a request asks."""
        values, unknown = dict(request.__dict__), None
        for name, field in self.fields.items():
            given = values[name]
            if isinstance(given, str) and kind_of(field.hint) is IDS:
                values[name] = Texts((given,))
            elif not isinstance(given, list):
                continue
            elif _is_list(field, IDS):
                values[name] = Texts(tuple(given))
            elif _is_list(field, PAIRS):
                sides = ([pair.row for pair in given], [pair.column for pair in given])
                values[name] = tuple(Texts(tuple(side)) for side in sides)
            else:
                values[name], unknown = read_entries(given, recommender)
        return Asked(self.question(**values), unknown)


#: The questions that have an example request, by path.
ENDPOINTS = {
    f"/{name}": Endpoint(name, entry)
    for name, entry in QUESTIONS.items()
    if entry.request is not None
}


def _schema_of(field: Field) -> tuple[Any, Any]:
    """Return type and default of a field of a request."""
    kind, rules, plain = kind_of(field.hint), dict(field.about.rules), field.types[0]
    hint: Any = plain
    if "choices" in rules:
        hint = Literal[tuple(rules.pop("choices"))]
    elif bool in (plain, *get_args(field.hint)):  # entries or a switch: over HTTP the switch
        hint = bool
    elif kind is not None:
        hint = LISTS[kind] if _is_list(field, kind) else Id
    elif plain is float:
        rules["allow_inf_nan"] = False
    default = field.default_of("serve")
    hint = Annotated[hint, Rule(**rules)]
    if default is None or type(None) in field.types:
        hint = hint | None
    return Annotated[hint, Rule(description=field.about.help)], (
        ... if default is MISSING else default
    )


def _is_list(field: Field, kind: Any) -> bool:
    """Return whether a field is a list of such a kind; a positional argument of the command is a single id."""
    single = kind is IDS and field.about.argument
    return kind_of(field.hint) is kind and not single


def read_entries(
    given: Sequence[NewEntry], recommender: Recommender
) -> tuple[Observations, list[str]]:
    """Return the entries of new rows in the columns of the model, and the columns that it does not know.

    Without entries there is one new row, of which nothing is known.
    """
    rows, columns = recommender.axes_
    numbers = {name: number for number, name in enumerate(dict.fromkeys(e.row for e in given))}
    numbers = numbers or {None: 0}
    known = columns.by_text
    labels = {}
    bar = like_at(recommender)
    for entry in given:
        cell = numbers[entry.row], entry.column
        if cell in labels:
            raise InvalidInputError(
                f"The column {quoted(entry.column)} is in two entries; send each once."
            )
        labels[cell] = _label(entry, bar)
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


def like_at(recommender: Recommender) -> float | None:
    """Return the smallest rating that is a like; None for a model of labels."""
    reading = recommender.reading_
    bar: float | None = recommender.model_.like_at if reading is None else reading.like_at
    return bar


def _label(entry: NewEntry, bar: float | None) -> int:
    if (entry.label is None) == (entry.value is None):
        raise InvalidInputError(
            f"The entry in the column {quoted(entry.column)} needs either a label (1 or -1) or a value (a rating)."
        )
    if entry.value is None:
        return entry.label or 0
    if bar is None:
        raise InvalidInputError(
            "The model was fitted on labels and not on ratings: send labels, 1 or -1, and no values."
        )
    return 1 if entry.value >= bar else -1
