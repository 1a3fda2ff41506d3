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
from tribit.selection.record import Candidate, Search, Stack
from tribit.storage.file_format import (
    COUNT,
    DAMAGE_ERRORS,
    NUMBER,
    POSITIVE,
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
_SHARES = Field(
    "a list of positive numbers",
    lambda value: type(value) is list and all(map(POSITIVE.holds, value)),
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
    "stack": _PLACES.or_none(),
}
STACK = {
    "stack_weights": _SHARES.or_none(),
    "stack_score": NUMBER.or_none(),
    "stack_alone": _NUMBERS.or_none(),
}


def packed_search(search: Search) -> NDArray[np.uint8]:
    """Return the record as bytes."""
    stack = search.stack
    candidates = list(search.candidates)
    for more in (search.best, *(() if stack is None else stack.members)):
        if more is not None and not any(more is each for each in candidates):
            candidates.append(more)

    def place(candidate: Candidate) -> int:
        return next(n for n, each in enumerate(candidates) if each is candidate)

    record = {
        **{name: getattr(search, name) for name in PLAIN},
        **{name: with_mentions(getattr(search, name)) for name in TEXTS},
        "candidates": [_candidate_record(each) for each in candidates],
        "best": None if search.best is None else place(search.best),
        "stack": None if stack is None else [place(each) for each in stack.members],
        "stack_weights": None if stack is None else list(stack.weights),
        "stack_score": None if stack is None else _json_score(stack.score),
        "stack_alone": None if stack is None else [_json_score(each) for each in stack.alone],
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
    check_fields(record, {**RECORD, **STACK})
    candidates = tuple(_candidate(each) for each in record["candidates"])
    stack = None
    if record["stack"] is not None:
        stack = _stack(record, tuple(candidates[place] for place in record["stack"]))
    fields: dict[str, Any] = {name: record[name] for name in PLAIN}
    fields |= {name: Message(record[name]) for name in TEXTS}
    best = None if record["best"] is None else candidates[record["best"]]
    return Search(candidates, best, seconds=None, stack=stack, **fields)


def _stack(record: Mapping[str, Any], members: tuple[Candidate, ...]) -> Stack:
    weights, alone = record["stack_weights"], record["stack_alone"]
    if weights is None or alone is None or not len(weights) == len(alone) == len(members):
        raise ValueError("stack_weights and stack_alone must have a number for each member")
    return Stack(members, tuple(weights), _score(record["stack_score"]), tuple(map(_score, alone)))


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
