"""Other formats and rules of reading: tables that were changed at random are read, or refused in one sentence."""

import gzip
import io
import json
import math
import tracemalloc
import warnings
import zipfile
from contextlib import suppress

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from torture.damaged import (
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
    other_encoding,
    packed,
    truncated,
    written,
)
from tribit import InvalidInputError
from tribit.data.reading import Reading

RULES = Reading(row="user", column="item", value="rating", like_at=3)
TEXT = [flipped, truncated, inserted, duplicated_line, dropped_line, huge_field, other_encoding]


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def read(path, rules):
    """Return the labels read, or REFUSED; anything but one printable line is a failure."""
    tracemalloc.reset_peak()
    try:
        found = labels_in(rules.read(path))
    except InvalidInputError as error:
        message = str(error)
        assert message.isprintable(), ascii(message)
        assert len(message) < 2000
        assert message.endswith(".")
        found = REFUSED
    assert tracemalloc.get_traced_memory()[1] < MOST
    return found


def changed(data, rng, harms):
    for _ in range(int(rng.integers(1, 3))):
        data = harms[int(rng.integers(len(harms)))](data, rng) if data else data
    return data


def as_json(records):
    names = ("user", "item", "rating")
    lines = (
        {**dict(zip(names, record, strict=True)), "rating": float(record[2])} for record in records
    )
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def plain_json(data):
    """Read JSON lines with a loop and no more."""
    marks = {b"\xff\xfe\0\0": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    encoding = next((each for mark, each in marks.items() if data.startswith(mark)), "utf-8-sig")
    found = {}
    try:
        lines = [
            json.loads(line)
            for line in io.StringIO(data.decode(encoding), newline=None)
            if line.strip()
        ]
        for line in lines:
            pair = tuple(text(line[name]) for name in ("user", "item"))
            rating = float(text(line["rating"]))
            if not all(pair) or not math.isfinite(rating):
                return REFUSED
            if found.setdefault(pair, rating >= 3) != (rating >= 3):
                return REFUSED
    except (ValueError, KeyError, TypeError, RecursionError):
        return REFUSED
    return {pair: 1 if liked else -1 for pair, liked in found.items()} or REFUSED


def text(value):
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return value.strip() if isinstance(value, str) else f"{value:.17g}"


def test_json_lines_are_read_alike_or_refused(tmp_path, cases, traced):
    agreed = refused = 0
    for seed in cases(800):
        rng = np.random.default_rng([5, seed])
        name = str(rng.choice(["r.jsonl", "r.ndjson.gz"]))
        records = drawn(rng)
        data = as_json(records)
        path = tmp_path / name
        path.write_bytes(packed(name, data))
        assert read(path, RULES) == labels_of(records), seed
        data = changed(data, rng, TEXT)
        path.write_bytes(packed(name, data))
        found = read(path, RULES)
        assert found == plain_json(data), (seed, data[:2000])
        agreed += found is not REFUSED
        refused += found is REFUSED
    assert agreed
    assert refused


def drawn_matrix(rng):
    shape = tuple(int(size) for size in rng.integers(1, 8, size=2))
    dense = rng.integers(0, 6, size=shape) * (rng.random(shape) < 0.5)
    dense[0, 0] = 5
    return sp.csr_array(dense)


def labels_of_matrix(matrix):
    entries = matrix.tocoo()
    places = zip(entries.row.astype(str), entries.col.astype(str), strict=True)
    return {
        place: 1 if value >= 3 else -1
        for place, value in zip(places, entries.data, strict=True)
        if value
    }


def test_sparse_matrices_are_read_or_refused(tmp_path, cases, traced):
    refused = 0
    for seed in cases(600):
        rng = np.random.default_rng([6, seed])
        matrix = drawn_matrix(rng)
        kind = str(rng.choice(["csr", "csc", "coo"]))
        path = tmp_path / "m.npz"
        sp.save_npz(path, matrix.asformat(kind), compressed=bool(seed % 2))
        assert read(path, Reading(like_at=3)) == labels_of_matrix(matrix), seed
        path.write_bytes((flipped, truncated, huge_field)[seed % 3](path.read_bytes(), rng))
        refused += read(path, Reading(like_at=3)) is REFUSED
    assert refused


def test_arrays_that_were_changed_inside_a_whole_archive_are_read_or_refused(
    tmp_path, cases, traced
):
    """Checksums of the archive hide nothing here: headers and places themselves are wrong."""
    path = tmp_path / "m.npz"
    refused = 0
    for seed in cases(600):
        rng = np.random.default_rng([7, seed])
        file = io.BytesIO()
        sp.save_npz(file, drawn_matrix(rng).asformat(str(rng.choice(["csr", "csc", "coo"]))))
        with zipfile.ZipFile(file) as archive, zipfile.ZipFile(path, "w") as again:
            names = archive.namelist()
            victim = str(rng.choice(names))
            for name in names:
                data = archive.read(name)
                harm = (flipped, truncated)[int(rng.integers(2))]
                again.writestr(name, harm(data, rng) if name == victim else data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of headers that Python 2 wrote
            refused += read(path, Reading(like_at=3)) is REFUSED
    assert refused


def test_matrix_market_is_read_or_refused(tmp_path, cases, traced):
    refused = 0
    for seed in cases(600):
        rng = np.random.default_rng([8, seed])
        matrix = drawn_matrix(rng)
        file = io.BytesIO()
        scipy.io.mmwrite(file, matrix)
        name = str(rng.choice(["m.mtx", "m.mtx.gz"]))
        path = tmp_path / name
        path.write_bytes(packed(name, file.getvalue()))
        assert read(path, Reading(like_at=3)) == labels_of_matrix(matrix), seed
        path.write_bytes(packed(name, changed(file.getvalue(), rng, TEXT)))
        refused += read(path, Reading(like_at=3)) is REFUSED
    assert refused


CHOICES = {
    "layout": ["long", "wide"],
    "missing": ["error", "skip"],
    "decimal": [".", ","],
    "delimiter": [None, ";", "tab", "space", "::"],
    "encoding": [None, "latin-1", "utf-16", "utf-7", "unicode_escape"],
    "duplicates": ["error", "first", "last", "majority"],
    "zeros": [None, "dislike", "unobserved"],
    "like": [None, "3", ["yes", "4"]],
    "like_at": [None, 3.0],
    "row": [None, "user", "0"],
    "column": [None, "item", "1"],
    "value": [None, "rating", "2"],
    "format": [None, "csv", "txt", "jsonl", "mtx", "npz", "parquet"],
}


def test_any_rules_read_or_refuse_any_table(tmp_path, cases, traced):
    found = {True: 0, False: 0}
    for seed in cases(2000):
        rng = np.random.default_rng([9, seed])
        given = {
            name: each[int(rng.integers(len(each)))]
            for name, each in CHOICES.items()
            if rng.random() < 0.4
        }
        rules = None
        with suppress(InvalidInputError):  # rules that do not go together
            rules = Reading(**given)
        if rules is None:
            continue
        records = drawn(rng)
        data = (
            as_json(records)
            if rng.random() < 0.2
            else written(records, str(rng.choice([",", ";", "\t", " "]))).encode()
        )
        if rng.random() < 0.5:
            data = changed(data, rng, TEXT)
        name = str(rng.choice(["r.csv", "r.txt", "r.tsv.gz", "r.jsonl"]))
        path = tmp_path / name
        path.write_bytes(packed(name, data))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of escapes, in the codec of that name
            found[read(path, rules) is REFUSED] += 1
        assert Reading.from_json(json.loads(json.dumps(rules.to_json()))) == rules
    assert all(found.values()), found


def test_blank_lines_of_a_matrix_are_limited(tmp_path):
    path = tmp_path / "m.mtx.gz"
    path.write_bytes(
        gzip.compress(b"%%MatrixMarket matrix coordinate integer general\n2 2 2\n" + b"\n" * 2**21)
    )
    with pytest.raises(InvalidInputError, match=r"m\.mtx\.gz"):
        Reading().read(path)
