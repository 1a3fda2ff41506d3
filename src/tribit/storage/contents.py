"""The content of a file, written and read as a whole."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes

from tribit import __version__
from tribit.data.axis import Axes
from tribit.data.files import atomic_path, checked_path
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.data.times import TIME
from tribit.errors import InvalidInputError, either, quoted
from tribit.model.calibration import Isotonic
from tribit.model.fitted import Fitted
from tribit.selection.half_life import HalfLife
from tribit.selection.record import FitRecord, Search
from tribit.solvers import Iteration
from tribit.storage.file_format import (
    COUNT,
    DAMAGE_ERRORS,
    DTYPES,
    FLOATS,
    MAX_REASON_CHARACTERS,
    NUMBER,
    OBJECT,
    SWITCH,
    TEXT,
    Digest,
    Field,
    Tensor,
    Tensors,
    check_fields,
    check_places,
    parsed_json,
    read_description,
    read_tensors,
    reason_of,
    value_from,
)
from tribit.storage.fitted import (
    IDS,
    axes_from,
    check_fitted_header,
    check_scores,
    fitted_from,
    fitted_header,
    fitted_schema,
    fitted_tensors,
    id_tensors,
)
from tribit.storage.searches import SEARCH, SEARCH_TENSOR, PackedSearch, packed_search

Made = TypeVar("Made")

#: The format that is written and read.
FORMAT = 10
#: Columns of the history: the iteration, its objective and the decrease.
HISTORY_COLUMNS = 3
#: Knots of the probability of a like within the horizon, where likes alone were observed.
HORIZON = "horizon"
#: Prefix of the names of a ranker's arrays.
RANKER = "ranker:"
#: Entries row by row: how many each row has, their columns and their labels.
ENTRIES = {
    "entries:counts": Tensor(("I32",), ("rows",)),
    "entries:columns": Tensor(("I32",), ("entries",)),
    "entries:labels": Tensor(("I8",), ("entries",)),
}
#: Their weights, and their times in microseconds since 1970, where they have any.
WEIGHTS, TIMES = "entries:weights", "entries:times"
FURTHER_OF_ENTRIES = {
    WEIGHTS: Tensor(("F64",), ("entries",)),
    TIMES: Tensor(("I64",), ("entries",)),
}
RECORD = {
    "n_iter": COUNT,
    "converged": SWITCH,
    "stop_reason": TEXT,
    "objective": NUMBER,
    "half_life": OBJECT.or_none(),
}
HEADER = {
    "format": Field(f"{FORMAT}", lambda value: type(value) is int and value == FORMAT),
    "version": TEXT,
    "parameters": OBJECT,
    "fitted": OBJECT,
    "record": OBJECT,
    "entries": SWITCH,
    "ranker": SWITCH,
    "reading": OBJECT.or_none(),
    "summary": OBJECT.or_none(),
    "evaluation": OBJECT.or_none(),
}


@dataclass(frozen=True, eq=False)
class Contents:
    """The content of a file; None for a field that was left out.

    Attributes
    ----------
    parameters : dict
        Parameters of the estimator, as JSON has them.
    fitted : Fitted
        The result of the fit. A file keeps no ``rho`` by entry and nothing that was imputed.
    record : FitRecord
        How it was found, without times: equal fits give equal files.
    entries : Observations or None
        The entries of the fit, in its rows and columns.
    ranker : dict of arrays or None
        Those of :meth:`tribit.ranking.CandidateRanker.arrays`.
    reading : dict or None
        The rules by which the table was read, as JSON has them.
    summary : dict or None
        Facts about the data and the fit, as JSON has them.
    evaluation : dict or None
        The evaluation on entries that a fit held out, as JSON has it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tribit import BinaryMatrixCompletion
    >>> from tribit.storage import read
    >>> path = Path("model.tribit")
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.save(path)
    >>> read(path, lambda contents: contents.parameters["rank"])
    1
    """

    parameters: dict[str, Any]
    fitted: Fitted
    record: FitRecord
    entries: Observations | None = None
    ranker: Mapping[str, NDArray[Any]] | None = None
    reading: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None


def write(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write one file, all of it or nothing.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tribit import BinaryMatrixCompletion
    >>> from tribit.storage import Contents, read, write
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> path = Path("copy.tribit")
    >>> write(path, Contents(model.get_params(), model.fitted_, model.record_))
    >>> path.exists()
    True
    """
    record = contents.record
    search = record.search  # of a file it is parsed now: what is damaged there has its own sentence
    half_life = None if record.half_life is None else asdict(record.half_life)
    try:
        header = {
            "format": FORMAT,
            "version": __version__,
            "parameters": contents.parameters,
            "fitted": fitted_header(contents.fitted),
            "record": {**{name: getattr(record, name) for name in RECORD}, "half_life": half_life},
            "entries": contents.entries is not None,
            "ranker": contents.ranker is not None,
            "reading": contents.reading,
            "summary": contents.summary,
            "evaluation": contents.evaluation,
        }
        tensors = _tensors(contents, search)
        _check(header, {name: (_name(t.dtype), t.shape) for name, t in tensors.items()})
        _check_numbers(contents.fitted, tensors["history"])
    except DAMAGE_ERRORS as error:
        raise InvalidInputError(
            f"The model cannot be saved, as no file may hold it ({reason_of(error)}); fit it again."
        ) from None
    with atomic_path(path) as temporary:
        # Not save_file, which puts a file of its own, readable by its owner only, in the place of this one.
        temporary.write_bytes(to_bytes(tensors, metadata={"tribit": json.dumps(header)}))


def read(
    path: str | os.PathLike[str],
    make: Callable[[Contents], Made],
    *,
    digest: Digest | None = None,
) -> Made:
    """Read a file and return the result of ``make``, whose errors are those of a damaged file.

    A ``digest`` is updated with the bytes that were read, and then is that of the whole file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tribit import BinaryMatrixCompletion
    >>> from tribit.storage import read
    >>> path = Path("model.tribit")
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.save(path)
    >>> read(path, lambda contents: contents.fitted.axes.shape)
    (2, 2)
    """
    source = checked_path(path)
    name = quoted(os.fspath(path))
    if not source.is_file():
        raise InvalidInputError(
            f"There is no model file {name}; write one with "
            f"{either('model.save(path)', 'tribit fit')}."
        )
    try:
        with source.open("rb") as file:
            return _read(file, name, make, digest)
    except OSError as error:
        raise InvalidInputError(
            f"{name} cannot be read ({error.strerror or error}); check its permissions and its disk."
        ) from None
    except MemoryError:
        raise InvalidInputError(
            f"{name} needs more memory than there is ({source.stat().st_size} bytes in the file); free some, or load "
            "it on a larger machine."
        ) from None


def _read(
    file: BinaryIO, name: str, make: Callable[[Contents], Made], digest: Digest | None
) -> Made:
    try:
        metadata, places = read_description(file, digest)
        header = parsed_json(str(metadata.get("tribit", "null")).encode())
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{name} is not a readable tribit model ({reason_of(error)}); it may be cut short or another kind "
            "of file."
        ) from None
    _check_format(header, name)
    try:
        _check(header, {key: (place.dtype, place.shape) for key, place in places.items()})
        return make(_contents(header, read_tensors(file, places, digest), name))
    except DAMAGE_ERRORS as error:
        raise InvalidInputError(
            f"{name} is a damaged tribit model ({reason_of(error)}); fit it again."
        ) from None


def _check_format(header: object, name: str) -> None:
    if header is None:
        raise InvalidInputError(f"{name} is a safetensors file, but not a tribit model.")
    if not isinstance(header, dict):
        raise InvalidInputError(
            f"{name} is a damaged tribit model (its header is no object); fit it again."
        )
    number, version = header.get("format"), header.get("version")
    if type(number) is not int or number != FORMAT:
        by = reprlib.repr(version).strip("'") if TEXT.holds(version) else "another version"
        shown = reprlib.repr(number)[:MAX_REASON_CHARACTERS]
        raise InvalidInputError(
            f"{name} has model format {shown}, and tribit {__version__} reads format {FORMAT} alone; it was written by "
            f"tribit {by}: use that version or fit again."
        )


def _check(header: dict[str, Any], described: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """Raise an error for a header with a wrong field, and for tensors that contradict it."""
    check_fields(header, HEADER)
    check_fields(header["record"], RECORD)
    check_fitted_header(header["fitted"])
    needed, optional, check_sizes = fitted_schema(header["fitted"])
    needed["history"] = Tensor(("F64",), ("n_iter", HISTORY_COLUMNS))
    if header["ranker"] and not header["entries"]:
        raise ValueError("a ranker needs the entries that it was fitted on")
    if header["entries"]:
        needed |= ENTRIES
        optional |= FURTHER_OF_ENTRIES
    if header["ranker"]:  # which checks the shapes of its own
        for name, (_, shape) in described.items():
            if name.startswith(RANKER):
                words = tuple(f"{name}, dimension {n}" for n in range(len(shape)))
                needed[name] = Tensor(FLOATS, words)
    sizes = {"n_iter": header["record"]["n_iter"]}
    horizon = {HORIZON: Tensor(("F64",), (2, "knots of the horizon"))}
    check_places(described, needed, {**optional, **IDS, **SEARCH_TENSOR, **horizon}, sizes)
    check_sizes(sizes)


def _contents(header: dict[str, Any], tensors: Tensors, name: str) -> Contents:
    fitted = fitted_from(header["fitted"], tensors, lambda shape: axes_from(tensors, shape))
    if HORIZON in tensors:
        fitted = replace(fitted, horizon=_horizon(tensors[HORIZON]))
    _check_numbers(fitted, tensors["history"])
    history = tuple(
        Iteration(int(row[0]), float(row[1]), float(row[2]), None) for row in tensors["history"]
    )
    found = PackedSearch(tensors[SEARCH].tobytes(), name) if SEARCH in tensors else None
    ranker = {
        key.removeprefix(RANKER): array for key, array in tensors.items() if key.startswith(RANKER)
    }
    half_life = value_from(HalfLife | None, header["record"]["half_life"], "half_life")
    return Contents(
        header["parameters"],
        fitted,
        FitRecord(**{**header["record"], "half_life": half_life}, history=history, found=found),
        _entries([tensors.get(key) for key in (*ENTRIES, *FURTHER_OF_ENTRIES)], fitted.axes)
        if header["entries"]
        else None,
        ranker if header["ranker"] else None,
        header["reading"],
        header["summary"],
        header["evaluation"],
    )


def _tensors(contents: Contents, search: Search | None) -> Tensors:
    """Return every array as the file holds it."""
    tensors = fitted_tensors(contents.fitted) | id_tensors(contents.fitted.axes)
    # Without the seconds, which would make equal fits different files.
    rows = [(each.iteration, each.objective, each.decrease) for each in contents.record.history]
    tensors["history"] = np.array(rows, dtype=np.float64).reshape(-1, HISTORY_COLUMNS)
    if search is not None:
        tensors[SEARCH] = packed_search(search)
    if contents.fitted.horizon is not None:
        tensors[HORIZON] = np.array([*contents.fitted.horizon.arrays().values()])
    if contents.entries is not None:
        seen = contents.entries
        arrays = seen.counts[0].astype("<i4"), seen.columns.astype("<i4"), seen.labels
        tensors |= dict(zip(ENTRIES, arrays, strict=True))
        if seen.weights is not None:
            tensors[WEIGHTS] = seen.weights
        if seen.times is not None:
            tensors[TIMES] = seen.times.astype("<i8")
    for name, array in (contents.ranker or {}).items():
        tensors[RANKER + name] = np.array(array, dtype=np.float64, order="C")
    return tensors


def _horizon(array: NDArray[Any]) -> Isotonic:
    try:
        return Isotonic(*array)
    except InvalidInputError:
        raise ValueError("horizon must be a non-decreasing function between 0 and 1") from None


def _entries(arrays: list[Any], axes: Axes) -> Observations:
    counts, columns, labels, weights, times = arrays
    if counts.min(initial=0) < 0 or int(counts.sum(dtype=np.int64)) != columns.size:
        raise ValueError("entries:counts does not count the entries")
    rows = np.repeat(np.arange(counts.size), counts)
    columns = columns.astype(np.int64)
    if columns.size and not 0 <= columns.min() <= columns.max() < axes.columns.size:
        raise ValueError("entries:columns holds a column that the model does not have")
    if (np.diff(rows * axes.columns.size + columns) <= 0).any():
        raise ValueError("entries:columns must rise within each row")
    if not np.isin(labels, (1, -1)).all():
        raise ValueError("entries:labels holds other labels than 1 and -1")
    if not labels.size:
        raise ValueError("entries:labels is empty")
    if weights is not None and not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError("entries:weights holds numbers that are not finite and above 0")
    own = None if weights is None else np.array(weights, dtype=np.float64)
    moments = None if times is None else times.astype(TIME)
    if moments is not None and np.isnat(moments).any():
        raise ValueError("entries:times holds a missing time")
    signs = labels.astype(np.int8)
    return Observations.from_checked(Checked(rows, columns, signs, axes, None, own, moments))


def _check_numbers(fitted: Fitted, history: NDArray[Any]) -> None:
    """Refuse numbers that are not finite, and factors so large that no probability comes of them."""
    if not np.isfinite(history).all():
        raise ValueError("history holds NaN or infinity")
    if not np.array_equal(history[:, 0], np.arange(1, len(history) + 1)):
        raise ValueError("history must count its iterations from 1")
    check_scores(fitted)


def _name(dtype: np.dtype[Any]) -> str:
    """Return a dtype in the words of a file."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype))
