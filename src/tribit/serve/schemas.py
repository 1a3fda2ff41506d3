"""Fields of requests and answers, checked by pydantic and shown in the OpenAPI pages."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

#: Most characters of an id in a request.
LONGEST_ID = 1000


def _as_text(given: Any) -> Any:
    """Return a whole number of 64 bits as text; anything else as it is."""
    is_whole = type(given) is int and abs(given) < 2**64
    return str(given) if is_whole else given


#: An id as text, as a file has it: 7 and "7" are the same id.
Id = Annotated[
    str, Field(max_length=LONGEST_ID), BeforeValidator(_as_text, json_schema_input_type=str | int)
]
AvoidDislikes = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False, description="How many likes to give up to avoid a dislike."),
]
Length = Annotated[int, Field(ge=1, description="Length of a list.")]
UseRanker = Annotated[bool, Field(description="Whether to rank by exposure too.")]


class Request(BaseModel):
    """A request; a field of another name is an error and no wish that nobody hears."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def from_query(cls, fields: dict[str, list[str]]) -> Self:
        """Return the request that a query string makes; a name that is a list may stand more than once."""
        return cls.model_validate(_last(fields))


class Pair(BaseModel):
    """A row and a column."""

    model_config = ConfigDict(extra="forbid")
    row: Id
    column: Id


class PredictRequest(Request):
    """Pairs of ids."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"pairs": [{"row": "user3", "column": "item8"}]}]}
    )
    pairs: Annotated[list[Pair], Field(min_length=1)]

    @classmethod
    def from_query(cls, fields: dict[str, list[str]]) -> Self:
        """Return the pairs of the first row and the first column, of the second ones, and so on."""
        rows, columns = fields.pop("row", []), fields.pop("column", [])
        if len(rows) != len(columns):
            raise UnequalError(len(rows), len(columns))
        pairs = [{"row": i, "column": j} for i, j in zip(rows, columns, strict=True)]
        return cls.model_validate({"pairs": pairs, **_last(fields)})


class RecommendRequest(Request):
    """Rows to make lists for."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"rows": ["user3", "user8"], "n": 5, "avoid_dislikes": 0.6}]
        }
    )
    rows: Annotated[list[Id], Field(min_length=1)]
    n: Length = 10
    avoid_dislikes: AvoidDislikes = 1.0
    exclude_seen: Annotated[bool, Field(description="Whether to leave out what was seen.")] = True
    ranker: UseRanker = True
    level: Annotated[
        float | None,
        Field(gt=0, lt=1, description="Posterior probability of intervals; none by default."),
    ] = None

    @classmethod
    def from_query(cls, fields: dict[str, list[str]]) -> Self:
        """Return the request, with a row for each ``row=``."""
        rows = {"rows": fields.pop("row")} if "row" in fields else {}
        return cls.model_validate({**rows, **_last(fields)})


class ExplainRequest(Request):
    """A cell."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"row": "user3", "column": "item8", "n": 5}]}
    )
    row: Id
    column: Id
    n: Annotated[int, Field(ge=0, description="How many of the row's entries to name.")] = 10


class Entry(BaseModel):
    """A like, a dislike, or a rating."""

    model_config = ConfigDict(extra="forbid")
    column: Id
    label: Annotated[Literal[1, -1] | None, Field(description="+1 or -1.")] = None
    value: Annotated[
        float | None,
        Field(allow_inf_nan=False, description="A rating, where the model was fitted on ratings."),
    ] = None


class FoldInRequest(Request):
    """The entries of somebody new."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "entries": [
                        {"column": "item8", "label": 1},
                        {"column": "item2", "label": -1},
                    ],
                    "n": 5,
                    "columns": ["item7"],
                }
            ]
        }
    )
    entries: list[Entry]
    n: Length = 10
    avoid_dislikes: AvoidDislikes = 1.0
    ranker: UseRanker = True
    columns: Annotated[
        list[Id], Field(description="Columns of which the probability of a like is asked for.")
    ] = []


class PairPrediction(BaseModel):
    """The probability of a like, and what it rests on."""

    row: str | int
    column: str | int
    probability: float | None
    label: Literal[1, -1]
    basis: Literal["model", "row alone", "column alone", "average"]


class Predictions(BaseModel):
    """An answer for each pair, in their order."""

    predictions: list[PairPrediction]
    model: Annotated[str, Field(description="Version of the model that answered.")]


class Item(BaseModel):
    """A column of a list."""

    column: str | int
    score: float | None
    probability: float | None
    expected_likes: float | None = None
    expected_dislikes: float | None = None
    lower: float | None = None
    upper: float | None = None


class RowList(BaseModel):
    """The list of a row, best first."""

    row: str | int
    basis: Literal["model", "popularity"]
    items: list[Item]


class RowLists(BaseModel):
    """A list for each row, in their order."""

    lists: list[RowList]
    model: str


class Effect(BaseModel):
    """An entry of the row and what it adds to the score."""

    column: str | int
    label: int
    contribution: float | None
    probability_change: float | None


class Explained(BaseModel):
    """The parts of a score, and the entries that matter most."""

    row: str | int
    column: str | int
    probability: float | None
    x: float | None
    parts: dict[str, float | None]
    entries: list[Effect]
    n_entries: int
    model: str


class ColumnPrediction(BaseModel):
    """The probability of a like in a column."""

    column: str | int
    probability: float | None


class FoldedIn(BaseModel):
    """The list of somebody new, best first, and the probabilities that were asked for."""

    basis: Literal["model", "popularity"]
    items: list[Item]
    predictions: list[ColumnPrediction]
    unknown_columns: Annotated[
        list[str], Field(description="Columns of entries that the model does not know.")
    ]
    model: str


class Health(BaseModel):
    """Whether the service answers, by which model, and what is wrong with the file if something is."""

    status: Literal["ok", "stale"]
    model: str
    loaded: str
    rows: int
    columns: int
    problem: str | None


class ErrorAnswer(BaseModel):
    """The reason of a refusal, in one sentence."""

    error: str


class UnequalError(ValueError):
    """A query with more rows than columns, or fewer."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(
            f"The query has {rows} times row= and {columns} times column=; give as many of each."
        )


def _last(fields: dict[str, list[str]]) -> dict[str, Any]:
    return {name: values[-1] for name, values in fields.items()}
