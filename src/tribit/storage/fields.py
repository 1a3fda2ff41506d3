"""Conditions on what a file says of itself: the type and range of each field, the dtype and shape of each tensor.

Nothing here reads a file or makes an array: it is asked before that. Every problem is a ``ValueError`` that names the
field.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tribit.checks import check_positive
from tribit.errors import TribitError

#: Errors of a damaged file, each of which becomes one sentence.
DAMAGE = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
#: Most characters of a reason in an error message.
LONGEST_REASON = 300


@dataclass(frozen=True)
class Field:
    """Condition on a value, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        """Say which field is wrong, and how."""
        if not self.holds(value):
            raise ValueError(f"{name} must be {self.words}; got {reprlib.repr(value)}")

    def or_none(self) -> Field:
        """Return the field that may also be None."""
        return Field(f"{self.words}, or null", lambda value: value is None or self.holds(value))


@dataclass(frozen=True)
class Tensor:
    """Condition on an array: one of some dtypes, and a shape in which a word stands for the same size everywhere."""

    dtypes: tuple[str, ...]
    shape: tuple[str | int, ...]


def passes(check: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Return the test that a check of a parameter is."""

    def holds(value: Any) -> bool:
        try:
            check(value)
        except TribitError:
            return False
        return True

    return holds


TEXT = Field("text", lambda value: type(value) is str)
SWITCH = Field("true or false", lambda value: type(value) is bool)
COUNT = Field("a whole number, at least 0", lambda value: type(value) is int and value >= 0)
SIZE = Field("a whole number, at least 1", lambda value: type(value) is int and value >= 1)
OBJECT = Field("an object", lambda value: type(value) is dict)
NUMBER = Field(
    "a finite number",
    lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
)
POSITIVE = Field("a positive finite number", passes(lambda value: check_positive("", value)))
FLOATS = ("F32", "F64")


def check_places(
    described: Mapping[str, tuple[str, tuple[int, ...]]],
    needed: Mapping[str, Tensor],
    optional: Mapping[str, Tensor],
    sizes: dict[str, int],
) -> None:
    """Refuse tensors that are missing, unknown or not as they should be; ``sizes`` learns what words stand for."""
    known = {**needed, **optional}
    _check_names(described, needed, known)
    for name, rule in known.items():
        if name in described:
            _check_tensor(name, rule, *described[name], sizes)


def check_fields(values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Refuse values of which one is wrong, missing or unknown."""
    _check_names(values, fields, fields)
    for name, field in fields.items():
        field.check(name, values[name])


def _check_names(
    given: Mapping[str, Any], needed: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    for name in needed:
        if name not in given:
            raise ValueError(f"{name} is missing")
    for name in given:
        if name not in known:
            raise ValueError(f"{reprlib.repr(name)} is unknown")


def _check_tensor(
    name: str, rule: Tensor, dtype: str, shape: tuple[int, ...], sizes: dict[str, int]
) -> None:
    """Check one tensor; ``sizes`` holds what the words of the shapes seen so far stand for."""
    if dtype not in rule.dtypes:
        raise ValueError(
            f"{name} must have the dtype {' or '.join(rule.dtypes)}; got {reprlib.repr(dtype)}"
        )
    if len(shape) != len(rule.shape):
        raise ValueError(f"{name} must have {len(rule.shape)} dimensions; got {len(shape)}")
    for word, size in zip(rule.shape, shape, strict=True):
        wanted = word if isinstance(word, int) else sizes.setdefault(word, size)
        if size != wanted:
            raise ValueError(
                f"{name} must have the shape {_shape(rule, sizes)}; got {reprlib.repr(shape)}"
            )


def _shape(rule: Tensor, sizes: Mapping[str, int]) -> str:
    """Return the shape that a tensor should have, in words and numbers."""
    numbers = (size if isinstance(size, int) else sizes.get(size, size) for size in rule.shape)
    return f"{' x '.join(map(str, rule.shape))} = {' x '.join(map(reprlib.repr, numbers))}"


def reason_of(error: BaseException) -> str:
    """Return what is wrong on one line, and not all of what is very long."""
    text = str(error) if isinstance(error, ValueError | TribitError) else repr(error)
    line = " ".join(text.rstrip(".").split())
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
