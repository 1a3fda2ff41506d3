"""Tables that were changed at random are read as an independent reader reads them, or refused in one sentence."""

import gzip
import json
import math
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from torture.damaged import (
    DELIMITERS,
    MOST,
    REFUSED,
    drawn,
    dropped_line,
    duplicated_line,
    flipped,
    huge_field,
    inserted,
    labels_in,
    labels_of,
    of_nothing,
    other_encoding,
    packed,
    truncated,
    written,
    wrong_number,
)
from tribit import InvalidInputError
from tribit.data.reading import observations_from_file

NAMES = {"row": "user", "column": "item", "value": "rating", "like_at": 3}
UNKNOWN = "unknown"


def read(path, duplicates="error"):
    """Return the labels read, or REFUSED; anything but one printable line is a failure."""
    tracemalloc.reset_peak()
    try:
        found = labels_in(observations_from_file(path, **NAMES, duplicates=duplicates))
    except InvalidInputError as error:
        message = str(error)
        assert message.isprintable(), ascii(message)
        assert len(message) < 1000
        assert message.endswith(".")
        found = REFUSED
    assert tracemalloc.get_traced_memory()[1] < MOST
    return found


def plainly(data, name):
    """Read bytes without the csv module: labels, REFUSED, or UNKNOWN where quotes, long fields or commas decide."""
    marks = {b"\xff\xfe\0\0": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    encoding = next((each for mark, each in marks.items() if data.startswith(mark)), "utf-8-sig")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return REFUSED
    lines = [line for line in re.split("\r\n|\r|\n", text) if line.strip()]
    if '"' in text or any(len(line) > 100_000 for line in lines):
        return UNKNOWN
    promised = "," if ".csv" in name else "\t"
    tables = []
    for delimiter in dict.fromkeys(
        [promised, *([None] * (".txt" in name or ".data" in name)), *"\t,;|", "::", None]
    ):
        table = [[field.strip() for field in line.split(delimiter)] for line in lines]
        sample = {len(fields) for fields in table[:20]}
        if lines and set(table[0]) >= {"user", "item", "rating"}:
            tables.append((len(sample) == 1, [fields for fields in table if any(fields)]))
    if not tables:
        return REFUSED
    table = max(tables, key=lambda each: each[0])[1]
    if len(table) < 2 or any(len(fields) != len(table[0]) for fields in table):
        return REFUSED
    if any(table[0].count(column) != 1 for column in ("user", "item", "rating")):
        return REFUSED
    places = [table[0].index(column) for column in ("user", "item", "rating")]
    records = [[fields[place] for place in places] for fields in table[1:]]
    if any("," in rating for _, _, rating in records):  # decimal commas, if they are in all numbers
        return UNKNOWN
    if any(not user or not item or not finite(rating) for user, item, rating in records):
        return REFUSED
    found = labels_of(records)
    agree = all(labels_of([record]).items() <= found.items() for record in records)
    return found if agree else REFUSED


def finite(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def dressed(records, delimiter, rng):
    """Return the records as text in some of the ways that should not matter."""
    numbers, more, quotes, spaces, ends, blank, mark, bare = rng.integers(0, 2, size=8)
    forms = ["{}", "+{}", "{}e0", "0{}"] if numbers else ["{}"]
    table = [[user, item, str(rng.choice(forms)).format(rating)] for user, item, rating in records]
    table.insert(0, ["user", "item", "rating"])
    if more:
        table = [[f"more{line}", *fields, "x"] for line, fields in enumerate(table)]
    if quotes and delimiter != " ":
        table = [
            [f'"{field}"' if rng.integers(0, 2) else field for field in fields] for fields in table
        ]
    between = delimiter
    if spaces and delimiter != "\t":
        between = f"{delimiter}  " if quotes else f"  {delimiter} "  # nothing may follow a quote
    after = ["\r\n", "\r", "\n", "\n\n", "\n \n"] if ends else ["\n"]
    text = "".join(between.join(fields) + str(rng.choice(after)) for fields in table)
    text = "\n" * int(blank * rng.integers(1, 50)) + text
    return ("\ufeff" if mark else "") + (text.rstrip() if bare else text)


HARMFUL = [
    flipped,
    truncated,
    inserted,
    duplicated_line,
    dropped_line,
    huge_field,
    of_nothing,
    other_encoding,
    wrong_number,
]


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_harmless_changes_change_nothing(tmp_path, cases, traced):
    for seed in cases(1000):
        rng = np.random.default_rng([1, seed])
        name = str(rng.choice(list(DELIMITERS)))
        records = drawn(rng)
        text = dressed(records, DELIMITERS[name], rng)
        path = tmp_path / name
        path.write_bytes(packed(name, text.encode()))
        assert read(path) == labels_of(records), (seed, text)


def test_harmful_changes_are_read_alike_or_refused(tmp_path, cases, traced):
    agreed = refused = 0
    for seed in cases(1500):
        rng = np.random.default_rng([2, seed])
        name = str(rng.choice(list(DELIMITERS)))
        data = written(drawn(rng), DELIMITERS[name]).encode()
        for _ in range(int(rng.integers(1, 3))):
            data = HARMFUL[int(rng.integers(len(HARMFUL)))](data or b"\n", rng) if data else data
        path = tmp_path / name
        path.write_bytes(packed(name, data))
        found, expected = read(path), plainly(data, name)
        if expected is not UNKNOWN:
            assert found == expected, (seed, name, data[:2000])
            agreed += found is not REFUSED
        refused += found is REFUSED
    assert agreed
    assert refused


def test_damaged_gzip_is_refused_or_whole(tmp_path, cases, traced):
    path = tmp_path / "r.csv.gz"
    for seed in cases(500):
        rng = np.random.default_rng([3, seed])
        records = drawn(rng)
        data = gzip.compress(written(records, ",").encode())
        path.write_bytes((flipped, truncated)[seed % 2](data, rng))
        # What is changed is a name or a time in the header, or else its checksum tells.
        assert read(path) in (REFUSED, labels_of(records)), seed


def test_damaged_parquet_is_refused_or_read(tmp_path, cases, traced):
    path = tmp_path / "r.parquet"
    refused = 0
    for seed in cases(500):
        rng = np.random.default_rng([4, seed])
        users, items, ratings = zip(*drawn(rng), strict=True)
        columns = {"user": users, "item": items, "rating": [float(rating) for rating in ratings]}
        codec = str(rng.choice(["none", "snappy", "zstd", "gzip"]))
        pq.write_table(pa.table(columns), path, compression=codec, use_dictionary=bool(seed % 3))
        data = path.read_bytes()
        if seed % 10 == 0:
            assert read(path) == labels_of(zip(users, items, ratings, strict=True))
        path.write_bytes((flipped, truncated, huge_field)[int(rng.integers(3))](data, rng))
        refused += read(path, "last") is REFUSED
    assert refused


#: Reads the files named, in little memory, and prints what is said of each and the most memory that was used (kB).
BOUNDED = """
import json, resource, sys
import pyarrow.parquet
from tribit import InvalidInputError
from tribit.data.reading import observations_from_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
# Room for libraries that reserve addresses without using them.
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
said = []
for path in sys.argv[2:]:
    try:
        seen = observations_from_file(path, row="user", column="item", max_size=json.loads(sys.argv[1]))
        said.append(str(seen))
    except InvalidInputError as error:
        said.append(str(error))
print(json.dumps([said, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]))
"""


def repeated_gzip(path, block, count):
    with gzip.open(path, "wb") as file:
        for _ in range(count):
            file.write(block)
    return path


def repeated_parquet(path, text, count, groups):
    places = pa.array(np.zeros(count, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(places, pa.array([text]))
    table = pa.table({"user": column, "item": column})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(groups):
            writer.write_table(table)
    return path


def test_bombs_are_refused_in_little_memory(tmp_path, request):
    times, max_size = (32, None) if request.config.getoption("--torture") else (1, 2**23)
    mega = 2**20
    field = b'"\n' + b"a" * 100 + b'",'
    long = "the record has more than 16777216 characters"
    # Without a limit of their own lines count for what a record takes, which they reach before a million blank ones.
    blank = "holds more than" if max_size is None else "blank lines"
    packed_bombs = {
        "newlines.csv.gz": (b"\n" * mega, 2, blank),
        "spaces.txt.gz": (b" \n" * mega, 2, blank),
        "commas.csv.gz": (b",\n" * mega, 2, blank),
        "nulls.csv.gz": (bytes(mega), 20, long),
        "words.data.gz": (b"a " * mega, 10, long),
        "record.csv.gz": (field * 1000, 200, long if max_size is None else "holds more than"),
        "records.csv.gz": (b"user,item\n" * mega, 1, "holds more than"),
    }
    expected = {name: match for name, (_, _, match) in packed_bombs.items()}
    for name, (block, count, _) in packed_bombs.items():
        repeated_gzip(tmp_path / name, block, count * times)
    repeated_parquet(tmp_path / "rows.parquet", "x", 4 * mega, times)
    expected["rows.parquet"] = "holds more than"
    repeated_parquet(tmp_path / "long.parquet", "x" * mega, 50_000, 1)
    expected["long.parquet"] = "Observations(1 x 1, 1 observed"
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, json.dumps(max_size), *expected],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, most = json.loads(done.stdout)
    for (name, match), message in zip(expected.items(), said, strict=True):
        assert match in message, (name, message)
        assert message.isprintable()
    assert most < 2**20, f"{most} kB"  # of a GiB
