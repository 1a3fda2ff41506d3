"""Columns in parquet files, through pyarrow where it is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tribit.errors import InvalidInputError
from tribit.files import atomic_path, column_places
from tribit.ids import AnyArray
from tribit.limits import check_size
from tribit.quoting import printable

#: Rows read at a time.
BATCH = 2**20
#: Bytes that a cell takes here, however small it is in the file.
REFERENCE = 8


def read(path: Path, wanted: list[str] | None, limit: int) -> dict[str, AnyArray]:
    """Return the wanted columns, or all, as arrays of str; a missing value is empty."""
    pyarrow = _pyarrow()
    name = printable(path.name)
    damaged = (
        f"{name} could not be read as parquet columns of text or numbers; "
        "check that it is complete and holds neither lists nor records."
    )
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns = list(column_places(file.schema_arrow.names, wanted, name))
            leaves = _leaves(file.metadata)
            if not leaves.keys() >= set(
                columns
            ):  # what holds lists or records goes by longer names
                raise InvalidInputError(damaged)
            check_size(_size(file.metadata, [leaves[column] for column in columns]), limit, name)
            texts = [column for column in columns if _is_text(file.metadata, leaves[column])]
        # Texts that repeat stay as their dictionary says them: written out, a kilobyte may be a terabyte.
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            return _read_batches(pyarrow, file, columns, name, limit)
    except (InvalidInputError, MemoryError):
        raise
    except (
        pyarrow.ArrowException,
        OSError,
        ValueError,
    ) as error:  # ValueError: bytes that are no text
        raise InvalidInputError(damaged) from error


def write(path: Path, arrays: dict[str, AnyArray]) -> None:
    """Write columns of equal length, whole or not."""
    pyarrow = _pyarrow()
    try:
        packed = pyarrow.table(arrays)
    except pyarrow.ArrowException as error:
        raise InvalidInputError(
            f"A column does not fit into {printable(path.name)} ({printable(str(error))}); "
            "give each column values of one kind, numbers or strings."
        ) from error
    with atomic_path(path) as temporary:
        pyarrow.parquet.write_table(packed, temporary)


def _leaves(metadata: Any) -> dict[str, int]:
    """Return the place of each column that holds values, by its name with those of the records around it."""
    return {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}


def _size(metadata: Any, leaves: list[int]) -> int:
    """Return how many bytes the columns say that they unpack to; a cell counts as a reference at least."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    said = sum(group.column(leaf).total_uncompressed_size for group in groups for leaf in leaves)
    widths = sum(max(REFERENCE, metadata.schema.column(leaf).length) for leaf in leaves)
    return int(max(said, metadata.num_rows * widths))


def _is_text(metadata: Any, leaf: int) -> bool:
    return bool(metadata.schema.column(leaf).physical_type == "BYTE_ARRAY")


def _read_batches(
    pyarrow: ModuleType, file: Any, columns: list[str], name: str, limit: int
) -> dict[str, AnyArray]:
    """Read some rows at a time, and count what they really take: sizes in a file may be wrong."""
    parts: dict[str, list[AnyArray]] = {column: [np.empty(0, dtype=object)] for column in columns}
    shared: dict[str, str] = {}
    size = 0
    for batch in file.iter_batches(BATCH, columns=columns):
        size += max(batch.nbytes, REFERENCE * batch.num_rows * len(columns))
        check_size(size, limit, name)
        for column in columns:
            parts[column].append(_strings(pyarrow, batch.column(column), shared))
    return {column: np.concatenate(arrays) for column, arrays in parts.items()}


def _strings(pyarrow: ModuleType, values: Any, shared: dict[str, str]) -> AnyArray:
    # Through a dictionary, so that equal ids share one Python string.
    encoded = values
    if not pyarrow.types.is_dictionary(values.type):
        encoded = values.cast(pyarrow.large_string()).dictionary_encode()
    names = encoded.dictionary.cast(pyarrow.large_string()).to_pylist()
    distinct = ["" if text is None else shared.setdefault(text, text.strip()) for text in names]
    missing = len(distinct)
    places = encoded.indices.cast(pyarrow.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
    strings: AnyArray = np.array([*distinct, ""], dtype=object)[places]
    return strings


def _pyarrow() -> ModuleType:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise InvalidInputError(
            'Parquet files need pyarrow, which is not installed; run pip install "tribit[data]".'
        ) from error
