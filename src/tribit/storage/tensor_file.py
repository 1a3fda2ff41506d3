"""Tensors in a safetensors file, read with every length checked against the file before anything is allocated.

The format: 8 bytes with the length of a description, the description in JSON (of each tensor its dtype, shape and
place; under ``__metadata__`` what the writer has to say), then the bytes of the tensors, one after another.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

#: Bytes of the longest description that is read; that of a model has two thousand.
LONGEST = 2**20
METADATA = "__metadata__"
#: The dtypes that are read, in the words of the format.
DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "I32": np.dtype("<i4"),
}


@dataclass(frozen=True)
class Place:
    """Offset, dtype and shape of a tensor in a file."""

    dtype: str
    shape: tuple[int, ...]
    start: int  #: in bytes, from the beginning of the file
    size: int  #: in bytes


def parsed_json(text: bytes) -> Any:
    """Return what the JSON says; a ValueError for what is none, names a key twice or is nested too deep."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None


def read_description(file: BinaryIO) -> tuple[dict[str, Any], dict[str, Place]]:
    """Return what the writer has to say, and the places of the tensors, which fill the file to its last byte."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise ValueError(f"its description does not fit into its {size} bytes")
    if length > LONGEST:
        raise ValueError(f"its description has {length} bytes, more than {LONGEST}")
    description = parsed_json(file.read(length))
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


def read_tensors(file: BinaryIO, places: Mapping[str, Place]) -> dict[str, NDArray[Any]]:
    """Return the tensors at some places, after each was found to have the bytes of its shape."""
    for name, place in places.items():
        if DTYPES[place.dtype].itemsize * math.prod(place.shape) != place.size:
            raise ValueError(f"{name} has {place.size} bytes, which its shape does not fill")
    return {name: read_tensor(file, place) for name, place in places.items()}


def read_tensor(file: BinaryIO, place: Place) -> NDArray[Any]:
    """Return the tensor at a place; its dtype must be one of :data:`DTYPES`, and its size that of its shape."""
    dtype, count = DTYPES[place.dtype], math.prod(place.shape)
    assert count * dtype.itemsize == place.size
    file.seek(place.start)
    read: NDArray[Any] = np.fromfile(file, dtype, count)
    if read.size != count:
        raise ValueError("it was cut short while it was read")
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
