"""What is read of a file: bombs are refused early, and honest tables are not."""

import gzip
import io
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tribit import InvalidInputError
from tribit.data import parquet, sources
from tribit.data.reading import observations_from_file
from tribit.data.sources import (
    MAX_BYTES,
    MAX_UNPACKED_RATIO,
    MIN_BYTE_LIMIT,
    MIN_LINE_BYTES,
    Lines,
    byte_limit,
    size_in_units,
)
from tribit.data.tables import read_table

NAMES = {"row": "user", "column": "item"}


def test_the_limit_follows_the_size_of_the_file():
    assert byte_limit(10, None) == MIN_BYTE_LIMIT
    assert byte_limit(2**20, None) == MAX_UNPACKED_RATIO * 2**20 > MIN_BYTE_LIMIT
    assert byte_limit(MAX_BYTES // 2, None) == MAX_BYTES
    assert byte_limit(MAX_BYTES, 7) == 7


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "4G", "x" * 1000])
def test_a_limit_that_is_none_is_one_sentence(tmp_path, size):
    path = tmp_path / "r.csv"
    path.write_text("user,item\nu,i\n")
    with pytest.raises(InvalidInputError, match="max_size must be a whole number") as caught:
        read_table(path, max_size=size)
    assert len(str(caught.value)) < 250


def test_sizes_are_told_in_units():
    assert [size_in_units(size) for size in (0, 1023, 2**10, 2**25, 3 * 2**39)] == [
        "0 bytes",
        "1023 bytes",
        "1 KiB",
        "32 MiB",
        "1.5 TiB",
    ]


def test_a_table_of_the_largest_size_is_read_and_one_byte_more_is_not(tmp_path):
    text = "user,item\né,i\n"
    size = len(text.encode())
    for name in ("r.csv", "r.csv.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        assert read_table(path, max_size=size).columns["user"].tolist() == ["é"]
        with pytest.raises(
            InvalidInputError,
            match=rf"{name} holds more than {size - 1} bytes when unpacked; .* max_size",
        ):
            observations_from_file(path, **NAMES, max_size=size - 1)


def test_bytes_are_counted_and_not_characters():
    text = "é\n" * 10
    assert list(Lines(io.StringIO(text), "r.csv", 30)) == ["é\n"] * 10
    with pytest.raises(InvalidInputError, match="more than 29 bytes"):
        list(Lines(io.StringIO(text), "r.csv", 29))


def test_a_small_file_that_unpacks_to_much_is_refused_unless_it_is_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "r.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n" + b"u,i\n" * 100_000))
    assert path.stat().st_size * MAX_UNPACKED_RATIO < 400_000
    monkeypatch.setattr(sources, "MIN_BYTE_LIMIT", 1000)
    with pytest.raises(InvalidInputError, match=r"r\.csv\.gz holds more than .* max_size"):
        read_table(path)
    assert read_table(path, max_size=10**6).columns["user"].size == 100_000


@pytest.mark.parametrize("seed", range(3))
def test_honest_repetitive_tables_stay_far_below_the_ratio(seed):
    rng = np.random.default_rng(seed)
    lines = [f"user{u},item{i},{rng.integers(1, 6)}" for u in range(300) for i in range(100)]
    text = "\n".join(lines).encode()
    assert len(text) / len(gzip.compress(text)) < MAX_UNPACKED_RATIO / 4


def peak(call):
    tracemalloc.start()
    with pytest.raises(InvalidInputError) as caught:
        call()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size, str(caught.value)


@pytest.mark.parametrize("name", ["blank.csv.gz", "blank.txt.gz", "after.csv.gz", "after.txt.gz"])
def test_blank_lines_take_no_memory_and_end(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sources, "MAX_BLANK_LINES", 30_000)
    path = tmp_path / name
    head = b"user item\nu i\n" if name == "after.txt.gz" else b"user,item\nu,i\n"
    path.write_bytes(gzip.compress((head if name.startswith("after") else b"") + b"\n" * 60_000))
    size, message = peak(lambda: read_table(path))
    assert size < 2**20
    assert (
        f"{name} has 30000 blank lines after line {2 if name.startswith('after') else 0}" in message
    )


def test_blank_lines_between_records_are_fine(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_BLANK_LINES", 3)
    path = tmp_path / "r.csv"
    path.write_text("\n\nuser,item\n" + "\n\n\nu,i\n" * 10)
    table = read_table(path)
    assert table.where(9) == "line 43 of r.csv"
    path.write_text("user,item\nu,i\n\n\n\n\nu,j\n")
    with pytest.raises(InvalidInputError, match="3 blank lines after line 2"):
        read_table(path)


@pytest.mark.parametrize("name", ["r.csv.gz", "r.txt.gz"])
def test_a_line_without_end_is_refused_before_it_is_held(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(bytes(3 * sources.MAX_RECORD_CHARACTERS)))
    size, message = peak(lambda: read_table(path, max_size=2**40))
    assert size < 4 * sources.MAX_RECORD_CHARACTERS
    assert message.startswith(f"line 1 of {name}: the record has more than 16777216 characters")


def test_a_record_of_many_lines_is_limited_too(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_RECORD_CHARACTERS", 1000)
    path = tmp_path / "r.csv"
    path.write_text("user,item\n" + '"\nu",' * 300 + "i\n")
    with pytest.raises(InvalidInputError, match="the record has more than 1000 characters"):
        read_table(path)


def test_very_many_columns_are_read_and_not_listed(tmp_path):
    path = tmp_path / "wide.csv"
    header = ["\x1b[31mred", *(f"c{place}" for place in range(10**5))]
    path.write_text(",".join(header) + "\n" + "1," * 10**5 + "7\n")
    assert read_table(path, ["c99999"]).columns["c99999"].tolist() == ["7"]
    with pytest.raises(InvalidInputError) as caught:
        read_table(path, ["user"])
    assert str(caught.value).isprintable()
    assert str(caught.value).endswith("c7, c8 and 99991 more.")


# Parquet


def repeated(path, text, count):
    """Write a column of one text, which takes few bytes however often it is there."""
    places = pa.array(np.zeros(count, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(places, pa.array([text]))
    pq.write_table(pa.table({"user": column, "item": column}), path, compression="zstd")
    return path


def test_rows_of_a_parquet_file_count_before_they_are_read(tmp_path, monkeypatch):
    path = repeated(tmp_path / "r.parquet", "x", 3_000_000)
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(parquet, "_read_batches", lambda *_: pytest.fail("read first"))
    with pytest.raises(InvalidInputError, match=r"r\.parquet holds more than 32 MiB when unpacked"):
        read_table(path)


def test_only_the_columns_asked_for_count(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"user": ["u"] * 1000, "notes": [rng.bytes(500).hex() for _ in range(1000)]}
    pq.write_table(pa.table(columns), tmp_path / "r.parquet")
    assert read_table(tmp_path / "r.parquet", ["user"], max_size=10**5).columns["user"].size == 1000
    with pytest.raises(InvalidInputError, match=r"holds more than 97\.66 KiB"):
        read_table(tmp_path / "r.parquet", ["user", "notes"], max_size=10**5)


def test_a_long_text_that_repeats_is_held_once(tmp_path):
    path = repeated(tmp_path / "r.parquet", "x" * 10**6, 10_000)  # 10 GB if it were written out
    before = pa.total_allocated_bytes()
    users = read_table(path, ["user"]).columns["user"]
    assert users.size == 10_000
    assert len({id(user) for user in users}) == 1
    assert pa.total_allocated_bytes() == before
    assert pa.default_memory_pool().max_memory() < 2**31


def test_sizes_that_lie_are_counted_while_reading(tmp_path, monkeypatch):
    path = tmp_path / "r.parquet"
    columns = {"user": [f"{place:0100}" for place in range(1000)]}
    pq.write_table(pa.table(columns), path)
    monkeypatch.setattr(parquet, "_size", lambda *_: 0)
    with pytest.raises(InvalidInputError, match=r"holds more than 48\.83 KiB"):
        read_table(path, max_size=50_000)


def test_batches_join_to_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH_ROWS", 7)
    users = [None if place % 5 == 0 else f" u{place % 13}" for place in range(100)]
    columns = {
        "user": users,
        "number": list(range(100)),
        "kind": pa.array(users).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), tmp_path / "r.parquet", row_group_size=30)
    table = read_table(tmp_path / "r.parquet")
    expected = ["" if user is None else user.strip() for user in users]
    assert table.columns["user"].tolist() == expected
    assert table.columns["kind"].tolist() == expected
    assert table.columns["number"].tolist() == [str(place) for place in range(100)]


def test_too_little_memory_is_one_sentence(tmp_path, monkeypatch):
    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(parquet, "_read_batches", exhausted)
    with pytest.raises(InvalidInputError, match=r"r\.parquet does not fit into memory"):
        read_table(repeated(tmp_path / "r.parquet", "x", 10))


def test_many_short_records_are_refused_by_their_number_and_not_by_their_bytes(tmp_path):
    """In memory a record of six bytes takes far more than six."""
    table = tmp_path / "short.csv.gz"
    with gzip.open(table, "wt") as text:
        text.write("u,i,v\n" + "1,1,1\n" * (MIN_BYTE_LIMIT // MIN_LINE_BYTES + 1))
    assert table.stat().st_size < 100_000
    with pytest.raises(InvalidInputError, match=r"short\.csv\.gz holds more than 32 MiB"):
        read_table(table)
    assert (
        read_table(table, max_size=2**30).columns["u"].size == MIN_BYTE_LIMIT // MIN_LINE_BYTES + 1
    )


def test_one_cell_of_a_parquet_file_may_not_unpack_to_much(tmp_path):
    table = tmp_path / "long.parquet"
    cells = {"u": ["x" * (2 * MIN_BYTE_LIMIT)], "i": ["a"], "v": [1]}
    pq.write_table(pa.table(cells), table, compression="zstd")
    assert table.stat().st_size < 100_000
    with pytest.raises(InvalidInputError, match=r"long\.parquet holds more than 32 MiB"):
        read_table(table, ["u", "i"])
