"""Columns in parquet files, through pyarrow where it is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tribit.errors import InvalidInputError
from tribit.files import atomic_path, column_place
from tribit.ids import AnyArray


def read(path: Path, wanted: list[str] | None) -> dict[str, AnyArray]:
    """Return the wanted columns, or all, as arrays of str; a missing value is empty."""
    pyarrow = _pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            header = file.schema_arrow.names
            places = {
                column: column_place(header, column, path.name) for column in wanted or header
            }
            table = file.read(columns=list(places))
        texts = {column: table[column].cast(pyarrow.large_string()) for column in places}
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(
            f"{path.name} could not be read as parquet columns of text or numbers; "
            "check that it is complete and holds neither lists nor records."
        ) from error
    return {column: _strings(text) for column, text in texts.items()}


def write(path: Path, arrays: dict[str, AnyArray]) -> None:
    """Write columns of equal length, whole or not."""
    pyarrow = _pyarrow()
    try:
        packed = pyarrow.table(arrays)
    except pyarrow.ArrowException as error:
        raise InvalidInputError(
            f"A column does not fit into {path.name} ({error}); "
            "give each column values of one kind, numbers or strings."
        ) from error
    with atomic_path(path) as temporary:
        pyarrow.parquet.write_table(packed, temporary)


def _strings(text: Any) -> AnyArray:
    # Through its dictionary, so that equal ids share one Python string.
    encoded = text.combine_chunks().dictionary_encode()
    distinct = [string.strip() for string in encoded.dictionary.to_pylist()]
    missing = len(distinct)
    places = encoded.indices.fill_null(missing).to_numpy(zero_copy_only=False)
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
