"""The file format: tensors of a safetensors file, and conditions on its header and tensors.

The format: 8 bytes with the length of a description, the description in JSON (dtype, shape and place of each tensor,
under ``__metadata__`` the header of the writer), then the bytes of the tensors. Every length is checked against the
file before anything is allocated, and every problem is a ``ValueError`` that names the field.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType
from typing import Any, BinaryIO, Protocol, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_positive
from tribit.errors import TribitError

Tensors = dict[str, NDArray[Any]]

#: Errors of a damaged file, each of which becomes one sentence.
DAMAGE_ERRORS = (
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
    RecursionError,
)
#: Most characters of a reason in an error message.
MAX_REASON_CHARACTERS = 300
#: Bytes of the longest description that is read; that of a model has two thousand.
MAX_DESCRIPTION_BYTES = 2**20
METADATA = "__metadata__"
#: The dtypes that are read, in the words of the format.
DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}


@dataclass(frozen=True)
class Field:
    """Condition on a value, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]

    def check(self, name: str, value: object) -> None:
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

    def holds(value: object) -> bool:
        try:
            check(value)
        except TribitError:
            return False
        return True

    return holds


TEXT = Field("text", lambda value: type(value) is str)
SWITCH = Field("true or false", lambda value: type(value) is bool)
COUNT = Field("a whole number, at least 0", lambda value: type(value) is int and value >= 0)
OBJECT = Field("an object", lambda value: type(value) is dict)
NUMBER = Field(
    "a finite number",
    lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
)
POSITIVE = Field("a positive finite number", passes(lambda value: check_positive("", value)))
FLOATS = ("F32", "F64")
PLAIN_FIELDS: dict[Any, Field] = {float: NUMBER, int: COUNT, bool: SWITCH, str: TEXT}


def check_places(
    described: Mapping[str, tuple[str, tuple[int, ...]]],
    needed: Mapping[str, Tensor],
    optional: Mapping[str, Tensor],
    sizes: dict[str, int],
) -> None:
    """Raise an error for tensors that are missing, unknown or wrong; ``sizes`` receives the sizes of the words."""
    known = {**needed, **optional}
    _check_names(described, needed, known)
    for name, rule in known.items():
        if name in described:
            _check_tensor(name, rule, *described[name], sizes)


def check_fields(values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Raise an error for values that are wrong, missing or unknown."""
    _check_names(values, fields, fields)
    for name, field in fields.items():
        field.check(name, values[name])


def value_from(hint: object, value: Any, name: str) -> Any:
    """Return the value of a type that JSON describes: numbers, texts, tuples, mappings and dataclasses of them."""
    if hint in PLAIN_FIELDS:
        PLAIN_FIELDS[hint].check(name, value)
        return value
    parts = get_args(hint)
    if NoneType in parts:
        return None if value is None else value_from(parts[0], value, name)
    if get_origin(hint) is tuple:
        if parts[-1] is Ellipsis and type(value) is list:
            parts = parts[:1] * len(value)
        Field(f"a list of {len(parts)}", lambda v: type(v) is list and len(v) == len(parts)).check(
            name, value
        )
        return tuple(value_from(part, each, name) for part, each in zip(parts, value, strict=True))
    OBJECT.check(name, value)
    if not is_dataclass(hint):
        return {key: value_from(parts[1], each, f"{name} {key!r}") for key, each in value.items()}
    hints, made = get_type_hints(hint), cast("Callable[..., Any]", hint)
    known = {each.name: hints[each.name] for each in fields(hint)}
    _check_names(value, known, known)
    return made(**{key: value_from(known[key], each, key) for key, each in value.items()})


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
    """Check one tensor; ``sizes`` has the sizes of the words in the shapes before."""
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
    """Return the reason of an error on one line, shortened where it is very long."""
    text = str(error) if isinstance(error, ValueError | TribitError) else repr(error)
    line = " ".join(text.rstrip(".").split())
    return line if len(line) <= MAX_REASON_CHARACTERS else f"{line[:MAX_REASON_CHARACTERS]}..."


@dataclass(frozen=True)
class Place:
    """Offset, dtype and shape of a tensor in a file."""

    dtype: str
    shape: tuple[int, ...]
    start: int  #: in bytes, from the beginning of the file
    size: int  #: in bytes


def parsed_json(text: bytes) -> Any:
    """Return the content of JSON; a ValueError where it is malformed, repeats a key or is nested too deep."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None


class Digest(Protocol):
    """A digest of :mod:`hashlib`, updated with the bytes that are read."""

    def update(self, data: Any, /) -> None:
        """Continue with the next bytes of the file."""
        ...


def read_description(
    file: BinaryIO, digest: Digest | None = None
) -> tuple[dict[str, Any], dict[str, Place]]:
    """Return the header of the writer, and the places of the tensors, which fill the file to its last byte."""
    size = os.fstat(file.fileno()).st_size
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if size < 8 or length > size - 8:
        raise ValueError(f"its description does not fit into its {size} bytes")
    if length > MAX_DESCRIPTION_BYTES:
        raise ValueError(f"its description has {length} bytes, more than {MAX_DESCRIPTION_BYTES}")
    text = file.read(length)
    if digest is not None:
        digest.update(first + text)
    description = parsed_json(text)
    if not isinstance(description, dict):
        raise ValueError("its description is no object")
    metadata = description.pop(METADATA, {})
    if not isinstance(metadata, dict):
        raise ValueError(f"its {METADATA} is no object")
    places = {name: _place(name, entry, 8 + length) for name, entry in description.items()}
    end = 8 + length
    for name, place in sorted(places.items(), key=lambda item: (item[1].start, item[1].size)):
        if place.start != end:
            raise ValueError(f"the bytes of {name!r} do not begin where those before it end")
        end += place.size
    if end != size:
        raise ValueError(f"its tensors end at byte {end}, and the file has {size}")
    return metadata, places


def read_tensors(
    file: BinaryIO, places: Mapping[str, Place], digest: Digest | None = None
) -> dict[str, NDArray[Any]]:
    """Return the tensors at some places, after each was found to have the bytes of its shape; read in their order."""
    for name, place in places.items():
        if DTYPES[place.dtype].itemsize * math.prod(place.shape) != place.size:
            raise ValueError(f"{name} has {place.size} bytes, which its shape does not fill")
    in_order = sorted(places.items(), key=lambda item: item[1].start)
    return {name: read_tensor(file, place, digest) for name, place in in_order}


def read_tensor(file: BinaryIO, place: Place, digest: Digest | None = None) -> NDArray[Any]:
    """Return the tensor at a place; its dtype must be one of :data:`DTYPES`, and its size that of its shape."""
    dtype, count = DTYPES[place.dtype], math.prod(place.shape)
    assert count * dtype.itemsize == place.size
    file.seek(place.start)
    read: NDArray[Any] = np.fromfile(file, dtype, count)
    if read.size != count:
        raise ValueError("it was cut short while it was read")
    if digest is not None:
        digest.update(read)
    return read.reshape(place.shape)


def _place(name: str, entry: Any, begin: int) -> Place:
    try:
        dtype, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, first, last))
        if len(entry) != 3 or type(dtype) is not str or type(shape) is not list or not whole:
            raise TypeError
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"the description of {name!r} is not that of a tensor") from None
    if last < first:
        raise ValueError(f"the bytes of {name!r} end before they begin")
    return Place(dtype, tuple(shape), begin + first, last - first)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("its JSON names a key twice")
    return found
