"""Requests: pydantic models made from the fields of questions, and questions made from requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model
from pydantic import Field as Rule

from tribit.data.axis import Axes, Axis
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, quoted
from tribit.questions import QUESTIONS, Entry
from tribit.questions.base import OMIT, Field, Question, fields_of
from tribit.questions.kinds import ENTRIES, IDS, PAIRS, Kind, Texts, kind_of
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


class AskedQuestion(NamedTuple):
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
    def _kinds(self) -> dict[str, Kind]:
        """Kinds of the fields that JSON has in another form."""
        kinds = {name: _kind_in_json(each) for name, each in self.fields.items()}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    @cached_property
    def query_names(self) -> dict[str, str]:
        """Fields that a query may have, by their names there: those of lists are singular, once for each id."""
        ids = [name for name, kind in self._kinds.items() if kind is IDS]
        return {name.removesuffix("s"): name for name in ids} | {
            name: name for name in self.fields if name not in self._kinds
        }

    def read_json(self, body: bytes) -> BaseModel:
        """Return the request in a body."""
        return self.schema.model_validate_json(body)

    def read_query(self, query: dict[str, list[str]]) -> BaseModel:
        """Return the request in a query."""
        values = {}
        for written, given in query.items():
            name = self.query_names.get(written, written)
            is_list = self._kinds.get(name) is IDS and not _is_single(self.fields[name])
            values[name] = given if is_list else given[-1]
        return self.schema.model_validate(values)

    def make_question(self, request: BaseModel, recommender: Recommender) -> AskedQuestion:
        """Return the question that a request asks."""
        values, unknown = dict(request.__dict__), None
        for name, kind in self._kinds.items():
            given = values[name]
            if isinstance(given, str):
                values[name] = Texts((given,))
            elif isinstance(given, list) and kind is IDS:
                values[name] = Texts(tuple(given))
            elif isinstance(given, list) and kind is PAIRS:
                values[name] = tuple(
                    Texts(tuple(getattr(pair, side) for pair in given))
                    for side in ("row", "column")
                )
            elif isinstance(given, list):
                values[name], unknown = read_entries(given, recommender)
        return AskedQuestion(self.question(**values), unknown)


#: The questions that have an example request, by path.
ENDPOINTS = {
    f"/{name}": Endpoint(name, entry)
    for name, entry in QUESTIONS.items()
    if entry.request is not None
}
#: The path of the one question that a query may ask, too.
BY_QUERY = "/recommend"


def _schema_of(field: Field) -> tuple[Any, Any]:
    """Return type and default of a field of a request."""
    kind, rules = _kind_in_json(field), dict(field.about.rules)
    hint: Any = field.types[0]
    if "choices" in rules:
        hint = Literal[tuple(rules.pop("choices"))]
    elif kind is not None:
        hint = Id if _is_single(field) else LISTS[kind]
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


def _is_switch(field: Field) -> bool:
    """Return whether a field is on or off; of entries or a switch, HTTP has the switch."""
    return bool in field.types


def _is_single(field: Field) -> bool:
    """Return whether a field is a single id: a positional argument of the command."""
    return field.about.argument and kind_of(field.hint) is IDS


def _kind_in_json(field: Field) -> Kind | None:
    """Return the kind of a field in JSON; None for a plain value."""
    return None if _is_switch(field) else kind_of(field.hint)


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
