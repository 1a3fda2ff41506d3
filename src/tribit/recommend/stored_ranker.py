"""A fitted ranker in files: the arrays that are kept beside what was seen, and a file of its own for both."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes

from tribit import __version__
from tribit.archive.fields import DAMAGE, SIZE, TEXT, Field, check_fields, check_places, reason_of
from tribit.archive.ids import IDS, id_tensors, read_axes
from tribit.archive.parts import Parts, part_tensors, read_parts
from tribit.archive.tensor_file import parsed_json, read_description, read_tensors
from tribit.data.files import atomic_path, checked_path
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.quoting import quoted

if TYPE_CHECKING:
    from tribit.recommend.candidate_ranker import CandidateRanker

__all__ = ["checked_arrays", "load_ranker", "save_ranker"]

Array = NDArray[np.float64]
#: Key of the header in the metadata of the file.
KEY = "tribit-ranker"
HEADER = {
    "format": Field("1", lambda value: value == 1),
    "version": TEXT,
    "rows": SIZE,
    "columns": SIZE,
}
#: Parts of such a file, in the words of a bundle.
PARTS = {"reading": None, "summary": None, "seen": True, "ranker": True}


def save_ranker(ranker: CandidateRanker, path: str | os.PathLike[str]) -> None:
    """Write a fitted ranker with the entries of its rows to one file, all of it or nothing."""
    tensors = Parts(ranker.observations(), ranker.arrays()).tensors()
    tensors |= id_tensors(ranker._axes)
    rows, columns = ranker.shape_
    header = {"format": 1, "version": __version__, "rows": rows, "columns": columns}
    with atomic_path(path) as temporary:
        temporary.write_bytes(to_bytes(tensors, metadata={KEY: json.dumps(header)}))


def load_ranker(
    path: str | os.PathLike[str],
    ranker_from: Callable[[Mapping[str, Any], Observations], CandidateRanker],
) -> CandidateRanker:
    """Read a ranker that :func:`save_ranker` wrote, made by ``ranker_from`` of its arrays and what was seen.

    What the file says of itself is checked first.
    """
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
        parts = read_parts(PARTS, tensors, read_axes(tensors, (header["rows"], header["columns"])))
        return ranker_from(parts.ranker or {}, parts.seen)  # type: ignore[arg-type]
    except (OSError, *DAMAGE) as error:
        raise InvalidInputError(
            f"{name} is not a readable ranker ({reason_of(error)}); fit it again."
        ) from None


def checked_arrays(arrays: Mapping[str, Any], shape: tuple[int, int]) -> dict[str, Array]:
    """Return the arrays of a ranker as float64, checked against the shape of what was seen, or say what is wrong.

    Parameters
    ----------
    arrays : mapping
        What :meth:`tribit.recommend.CandidateRanker.arrays` returned.
    shape : (int, int)
        Numbers of rows and columns of the observations that came with them.
    """
    n_rows, n_columns = shape
    shapes = {
        "coefficients": (2, 5),
        "l2": (2,),
        "likes_diagonal": (n_columns,),
        "mask_diagonal": (n_columns,),
        "fitted_rows": (),
    }
    found = {name: _as_floats(arrays, name, wanted) for name, wanted in shapes.items()}
    for name in ("l2", "likes_diagonal", "mask_diagonal"):
        if not ((found[name] > 0) & (found[name] < np.inf)).all():
            raise InvalidInputError(
                f"{name} of the ranker must be positive and finite; use the arrays of a fitted ranker as they are."
            )
    t = found["coefficients"].copy()
    t[1, 0] = 0.0 if t[1, 0] == -np.inf else t[1, 0]  # where no dislikes were observed
    if not np.isfinite(t).all():
        raise InvalidInputError(
            "coefficients of the ranker must be finite; use the arrays of a fitted ranker as they are."
        )
    count = float(found["fitted_rows"])
    if not (1 <= count <= n_rows and count == round(count)):
        raise InvalidInputError(
            f"fitted_rows of the ranker is {count:g} and the observations have {n_rows} rows: pass those it was "
            "fitted on, in their order."
        )
    return found


def _as_floats(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    if name not in arrays:
        raise InvalidInputError(
            f"The arrays of the ranker have no {name}; use those of a fitted ranker as they are."
        )
    array = np.asarray(arrays[name])
    if array.dtype.kind not in "iuf" or array.shape != shape:
        raise InvalidInputError(
            f"{name} of the ranker is of {array.dtype} with the shape {array.shape}; numbers of the shape {shape} go "
            "with these observations."
        )
    return array.astype(np.float64)
