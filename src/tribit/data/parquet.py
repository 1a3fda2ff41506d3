"""Columns in parquet files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tribit.data.axis import AnyArray
from tribit.data.files import atomic_path
from tribit.data.labels import ColumnBuilder, TextColumn
from tribit.data.sources import Source, Table, byte_limit, check_size, column_places
from tribit.errors import InvalidInputError, printable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Rows, and bytes by the metadata, that are read at a time.
BATCH_ROWS, BATCH_BYTES = 2**18, 2**26
#: Bytes of the row groups that are written.
ROW_GROUP_BYTES = 2**26
#: Bytes that a cell takes here, however small it is in the file.
CELL_BYTES = 8


def read(source: Source, wanted: list[str] | None) -> Table:
    """Return the wanted columns, or all, as arrays of str; a missing value is empty."""
    return Table(source.name, _columns(source.path, wanted, source.limit, source.name))


def _columns(path: Path, wanted: list[str] | None, limit: int, name: str) -> dict[str, TextColumn]:
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second, which help should not wait for
    import pyarrow.parquet as pq  # noqa: PLC0415

    damaged = (
        f"{name} could not be read as parquet columns of text or numbers; "
        "check that it is complete and holds neither lists nor records."
    )
    try:
        with pq.ParquetFile(path) as file:
            columns = list(column_places(file.schema_arrow.names, wanted, name))
            leaves = _leaves(file.metadata)
            if not leaves.keys() >= set(
                columns
            ):  # what holds lists or records goes by longer names
                raise InvalidInputError(damaged)
            check_size(_size(file.metadata, [leaves[column] for column in columns]), limit, name)
            # One cell may be a gigabyte, which no number of rows tells. These are the bytes of all columns, so that
            # they are held against what any file of this size may unpack to, if that is more.
            unpacked = sum(group.total_byte_size for group in _groups(file.metadata))
            check_size(unpacked, max(limit, byte_limit(path.stat().st_size, None)), name)
            texts = [column for column in columns if _is_text(file.metadata, leaves[column])]
        # Texts that repeat stay in their dictionary: written out, a kilobyte may be a terabyte.
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            return _read_batches(file, columns, name, limit)
    except (InvalidInputError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: bytes that are no text
        raise InvalidInputError(damaged) from error


def write(path: Path, blocks: Iterable[dict[str, AnyArray]]) -> None:
    """Write blocks of records, at least one; all of them or nothing.

    Blocks are collected to row groups of ``ROW_GROUP_BYTES``: a file describes each column of each group, and the
    descriptions are in memory until the end.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    def arrow_table(block: dict[str, AnyArray], schema: object) -> Any:
        try:
            return pa.table(block, schema)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"A column does not fit into {printable(path.name)} ({printable(str(error))}); "
                "give each column values of one kind, numbers or strings."
            ) from error

    remaining = iter(blocks)
    first = arrow_table(next(remaining), None)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, first.schema) as file:
        group = [first]
        for block in remaining:
            if sum(each.nbytes for each in group) >= ROW_GROUP_BYTES:
                file.write_table(pa.concat_tables(group))
                group = []
            group.append(arrow_table(block, first.schema))
        file.write_table(pa.concat_tables(group))


def _leaves(metadata: pq.FileMetaData) -> dict[str, int]:
    """Return the place of each column that holds values, by its name with those of the records around it."""
    return {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}


def _groups(metadata: pq.FileMetaData) -> list[pq.RowGroupMetaData]:
    # Not further, to the columns of a group: where a file is damaged there, pyarrow ends the process.
    return [metadata.row_group(place) for place in range(metadata.num_row_groups)]


def _size(metadata: pq.FileMetaData, leaves: list[int]) -> int:
    """Return a lower bound of the bytes of the rows by the metadata: a cell is a reference, or has a width."""
    rows = max(metadata.num_rows, sum(group.num_rows for group in _groups(metadata)))
    return int(rows * sum(max(CELL_BYTES, metadata.schema.column(leaf).length) for leaf in leaves))


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Return the number of rows to read at a time, so that they take few bytes by the metadata."""
    widest = max(
        (group.total_byte_size // max(1, group.num_rows) for group in _groups(metadata)), default=0
    )
    return int(min(BATCH_ROWS, max(1, BATCH_BYTES // max(1, widest))))


def _is_text(metadata: pq.FileMetaData, leaf: int) -> bool:
    return bool(metadata.schema.column(leaf).physical_type == "BYTE_ARRAY")


def _read_batches(
    file: pq.ParquetFile, columns: list[str], name: str, limit: int
) -> dict[str, TextColumn]:
    """Read some rows at a time and limit the bytes that are kept, as the metadata may be wrong."""
    import pyarrow as pa  # noqa: PLC0415

    texts = {column: _Texts() for column in columns}
    numbers: dict[str, list[pa.Array]] = {column: [] for column in columns}
    for batch in file.iter_batches(_batch_rows(file.metadata), columns=columns):
        for column in columns:
            values = batch.column(column)
            if pa.types.is_dictionary(values.type):
                texts[column].add(values)
            else:
                numbers[column].append(values)
        kept = sum(text.size for text in texts.values())
        kept += sum(values.nbytes for column in columns for values in numbers[column])
        check_size(kept, limit, name)
    for column, values in numbers.items():
        if values:  # all at once, which finds each number that repeats once
            whole = pa.chunked_array(values).combine_chunks()
            values.clear()
            texts[column].add(whole.dictionary_encode())
            del whole
    # What Arrow has freed it keeps for itself: some forty bytes for each record, beside a fit.
    pa.default_memory_pool().release_unused()
    return {column: text.builder.finish() for column, text in texts.items()}


class _Texts:
    """A column of strings, and the bytes that are kept of it."""

    def __init__(self) -> None:
        self.builder = ColumnBuilder()
        self.size = 0
        self._dictionary: pa.Array | None = None
        self._numbers = self.builder.number([None])

    def add(self, values: pa.DictionaryArray) -> None:
        """Add places in a dictionary, which is often that of the values before."""
        import pyarrow as pa  # noqa: PLC0415

        if self._dictionary is None or not self._dictionary.equals(values.dictionary):
            self._dictionary = values.dictionary
            texts = values.dictionary.cast(pa.large_string()).to_pylist()
            self.size += sum(len(t) for t in texts if t and t not in self.builder.numbers)
            self._numbers = self.builder.number([*texts, None])
        codes = values.indices.cast(pa.int64()).fill_null(self._numbers.size - 1)
        self.builder.extend(self._numbers[codes.to_numpy(zero_copy_only=False)])
        self.size += CELL_BYTES * len(values)
