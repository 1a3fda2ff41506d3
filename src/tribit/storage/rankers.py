"""A ranker in a file of its own: the entries of its rows, and its small arrays; nothing that is executed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import save as to_bytes

from tribit import __version__
from tribit.data.axis import Axes
from tribit.data.files import atomic_path, checked_path
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.quoting import quoted
from tribit.recommend import CandidateRanker
from tribit.storage.ids import packed_ids, unpacked_ids
from tribit.storage.parameters import DAMAGE, reason_of
from tribit.storage.parts import Parts, part_tensors, read_parts
from tribit.storage.schema import IDS, SIZE, Field, check_fields, check_places
from tribit.storage.tensor_file import parsed_json, read_description, read_tensors

#: Where the header stands in the metadata of the file.
KEY = "tribit-ranker"
HEADER = {
    "format": Field("1", lambda value: value == 1),
    "version": Field("text", lambda value: type(value) is str),
    "rows": SIZE,
    "columns": SIZE,
}
#: Parts of such a file, in the words of a bundle.
PARTS = {"reading": None, "summary": None, "seen": True, "ranker": True}


def save_ranker(ranker: CandidateRanker, path: str | os.PathLike[str]) -> None:
    """Write a fitted ranker with the entries of its rows to one file, all of it or nothing."""
    tensors = Parts(ranker.observations(), ranker.arrays()).tensors()
    for name in IDS:
        ids = getattr(ranker, name)
        if ids is not None:
            tensors[name] = packed_ids(ids, name)
    rows, columns = ranker.shape_
    header = {"format": 1, "version": __version__, "rows": rows, "columns": columns}
    with atomic_path(path) as temporary:
        temporary.write_bytes(to_bytes(tensors, metadata={KEY: json.dumps(header)}))


def load_ranker(path: str | os.PathLike[str]) -> CandidateRanker:
    """Read a ranker that :func:`save_ranker` wrote; what the file says of itself is checked first."""
    source, name = checked_path(path), quoted(os.fspath(path))
    if not source.is_file():
        raise InvalidInputError(f"There is no file {name}; write one with ranker.save(path).")
    try:
        with source.open("rb") as file:
            metadata, places = read_description(file)
            if KEY not in metadata:
                raise ValueError("it holds no ranker; tribit.Recommender.load reads bundles")
            header = parsed_json(str(metadata[KEY]).encode())
            check_fields(header, HEADER)
            described = {key: (place.dtype, place.shape) for key, place in places.items()}
            sizes = {"rows": header["rows"]}
            check_places(described, part_tensors(PARTS, described), IDS, sizes)
            tensors = read_tensors(file, places)
        return _ranker(header, tensors)
    except (OSError, *DAMAGE) as error:
        raise InvalidInputError(
            f"{name} is not a readable ranker ({reason_of(error)}); fit it again."
        ) from None


def ranker_from(
    arrays: Mapping[str, Any], seen: Observations, name: str = "The bundle"
) -> CandidateRanker:
    """Return a ranker from the arrays of a bundle, or say in one sentence that they are damaged."""
    try:
        found: CandidateRanker = CandidateRanker.from_arrays(arrays, seen)
    except (LookupError, ValueError) as error:
        raise InvalidInputError(f"{name} has a damaged ranker ({error}); fit it again.") from None
    return found


def _ranker(header: dict[str, Any], tensors: dict[str, Any]) -> CandidateRanker:
    shape = header["rows"], header["columns"]
    ids = (
        unpacked_ids(tensors[key], size, key) if key in tensors else None
        for key, size in zip(IDS, shape, strict=True)
    )
    parts = read_parts(PARTS, tensors, Axes.of(shape, *ids))
    seen: Observations = parts.seen  # type: ignore[assignment]
    arrays = {key: np.asarray(array) for key, array in (parts.ranker or {}).items()}
    found: CandidateRanker = CandidateRanker.from_arrays(arrays, seen)
    return found
