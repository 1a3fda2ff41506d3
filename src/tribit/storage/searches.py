"""The record of a search in a file: every candidate with its scores, without times, which differ from run to run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError, Message, with_mentions
from tribit.model.spec import ModelSpec
from tribit.selection.record import Average, Candidate, Search
from tribit.storage.file_format import (
    COUNT,
    DAMAGE_ERRORS,
    NUMBER,
    SWITCH,
    TEXT,
    Field,
    Tensor,
    check_fields,
    parsed_json,
    reason_of,
)

#: Name of the tensor: the bytes of a JSON object.
SEARCH = "search"
SEARCH_TENSOR = {SEARCH: Tensor(("U8",), ("bytes of the search",))}

_LIST = Field("a list", lambda value: type(value) is list)
_NUMBERS = Field(
    "a list of finite numbers or nulls",
    lambda value: type(value) is list and all(map(NUMBER.or_none().holds, value)),
)
_PLACES = Field(
    "a list of two whole numbers or more",
    lambda value: type(value) is list and len(value) > 1 and all(map(COUNT.holds, value)),
)
#: Fields of a candidate; its settings are a ModelSpec.
CANDIDATE = {
    "settings": Field("an object", lambda value: type(value) is dict),
    "score": NUMBER.or_none(),
    "scores": _NUMBERS,
    "n_iter": COUNT,
}
#: Fields that stand in the record as they are.
PLAIN = {
    "scoring": TEXT,
    "target": TEXT,
    "n_held_out": COUNT,
    "n_folds": COUNT,
    "density": NUMBER,
    "calibrated": SWITCH,
    "regression": NUMBER.or_none(),
}
#: Texts that may mention parameters.
TEXTS = {"stop_reason": TEXT, "meaning": TEXT}
RECORD = {
    **PLAIN,
    **TEXTS,
    "candidates": _LIST,
    "best": COUNT.or_none(),
    "average": _PLACES.or_none(),
}
AVERAGE = {"average_score": NUMBER.or_none(), "average_best_score": NUMBER.or_none()}


def packed_search(search: Search) -> NDArray[np.uint8]:
    """Return the record as bytes."""
    average = search.average
    candidates = list(search.candidates)
    for more in (search.best, *(() if average is None else average.members)):
        if more is not None and not any(more is each for each in candidates):
            candidates.append(more)

    def place(candidate: Candidate) -> int:
        return next(n for n, each in enumerate(candidates) if each is candidate)

    record = {
        **{name: getattr(search, name) for name in PLAIN},
        **{name: with_mentions(getattr(search, name)) for name in TEXTS},
        "candidates": [_candidate_record(each) for each in candidates],
        "best": None if search.best is None else place(search.best),
        "average": None if average is None else [place(each) for each in average.members],
        "average_score": None if average is None else average.score,
        "average_best_score": None if average is None else average.best_score,
    }
    return np.frombuffer(json.dumps(record).encode(), dtype=np.uint8)


@dataclass(frozen=True)
class PackedSearch:
    """The bytes of a record, which are parsed when it is first asked for."""

    packed: bytes
    name: str

    def __call__(self) -> Search:
        """Return the record; one sentence where the bytes hold none."""
        try:
            return unpacked_search(self.packed)
        except DAMAGE_ERRORS as error:
            raise InvalidInputError(
                f"{self.name} is a damaged tribit model ({reason_of(error)}); fit it again."
            ) from None


def unpacked_search(packed: bytes) -> Search:
    """Return the record; a ValueError where the bytes hold none. Its times are None."""
    record = parsed_json(packed)
    if not isinstance(record, dict):
        raise ValueError("search must be an object")
    check_fields(record, {**RECORD, **AVERAGE})
    candidates = tuple(_candidate(each) for each in record["candidates"])
    average = None
    if record["average"] is not None:
        check_fields({name: record[name] for name in AVERAGE}, dict.fromkeys(AVERAGE, NUMBER))
        members = tuple(candidates[place] for place in record["average"])
        average = Average(members, record["average_score"], record["average_best_score"])
    fields: dict[str, Any] = {name: record[name] for name in PLAIN}
    fields |= {name: Message(record[name]) for name in TEXTS}
    best = None if record["best"] is None else candidates[record["best"]]
    return Search(candidates, best, seconds=None, average=average, **fields)


def _candidate_record(candidate: Candidate) -> dict[str, Any]:
    rho = candidate.settings.rho
    settings = replace(
        candidate.settings, imputed=None, rho=rho if isinstance(rho, float) else None
    )
    return {
        "settings": json.loads(settings.to_json()),
        "score": _json_score(candidate.score),
        "scores": [_json_score(score) for score in candidate.scores],
        "n_iter": int(candidate.n_iter),
    }


def _candidate(described: object) -> Candidate:
    if not isinstance(described, Mapping):
        raise ValueError("a candidate must be an object")
    check_fields(described, CANDIDATE)
    return Candidate(
        ModelSpec.from_json(json.dumps(described["settings"])),
        _score(described["score"]),
        tuple(map(_score, described["scores"])),
        None,
        described["n_iter"],
    )


def _json_score(score: float) -> float | None:
    """Return a score as JSON can hold it: null for the infinite one of a fit that failed."""
    return float(score) if math.isfinite(score) else None


def _score(score: float | None) -> float:
    return math.inf if score is None else score
