"""JSON lines and sparse matrices: what they hold, and what is refused of them."""

import gzip
import io
import json
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from tribit.data.reading import Reading, observations_from_file
from tribit.data.sources import Source
from tribit.data.tables import FORMATS, Format, read_table, write_table
from tribit.errors import InvalidInputError

A = np.array([[1, 0, -1, 0], [0, 0, 1, 1], [0, -1, 0, 0]])
NOTE = "rows and columns are named by their positions, from 0."


def entries(seen):
    rows, columns = seen.row_ids[seen.rows], seen.column_ids[seen.columns]
    return dict(zip(zip(rows, columns, strict=True), seen.labels.tolist(), strict=True))


EXPECTED = {(str(i), str(j)): int(A[i, j]) for i, j in np.argwhere(A)}


def refused(path, match, **options):
    with pytest.raises(InvalidInputError, match=match) as caught:
        observations_from_file(path, **options)
    assert str(caught.value).endswith(".")
    assert str(caught.value).isprintable()


# JSON lines


@pytest.mark.parametrize("name", ["r.jsonl", "r.ndjson", "r.jsonl.gz"])
def test_json_lines(tmp_path, name):
    lines = [
        '{"user": "u1", "item": 7, "vote": true, "more": [1, 2]}',
        "",
        '{"item": 7.0, "user": " u2 ", "vote": false}',
        '{"user": "é", "item": "x", "vote": true, "later": null}',
    ]
    data = "\r\n".join(lines).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    found = Reading(row="user", column="item", value="vote").records(path)
    assert found.rows.tolist() == ["u1", "u2", "é"]
    assert found.columns.tolist() == ["7", "7", "x"]
    assert found.labels.tolist() == [1, -1, 1]
    assert found.where(2) == f"line 4 of {name}"
    assert read_table(path, ["later", "user"]).columns["later"].tolist() == ["", "", ""]


def test_all_columns_of_json_lines(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n{"b": 0.5, "a": null}\n')
    table = read_table(path)
    assert {name: texts.tolist() for name, texts in table.columns.items()} == {
        "a": ["1", ""],
        "b": ["", "0.5"],
    }


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"r\.jsonl is empty"),
        ('{"user": 1}\n[1, 2]\n', r"line 2 of r\.jsonl: the record is a list and not an object"),
        ('{"user": 1}\n7\n', r"line 2 of r\.jsonl: the record is a number or boolean"),
        ('{"user": 1,\n', r"line 1 of r\.jsonl: the record is no JSON \("),
        ("[" * 100_000, r"line 1 of r\.jsonl: the record is no JSON"),
        ('{"user": ' + "9" * 5000 + "}", r"line 1 of r\.jsonl: the record is no JSON"),
        ('{"user": [1], "item": 2}', r"line 1 of r\.jsonl: 'user' holds a list; choose a column"),
        ('{"user": 1}\n', r"r\.jsonl has no column 'item'; choose .*: user"),
        ('{"user": 1, "item": 2}\n{"user": 1}\n', r"line 2 .*: the id in column 'item' is empty"),
    ],
)
def test_wrong_json_lines_are_one_sentence(tmp_path, text, match):
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    refused(path, match, row="user", column="item")


def test_json_lines_are_limited(tmp_path):
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"user": 1, "item": 1}\n' * 1000))
    refused(
        path, r"r\.jsonl\.gz holds more than 1000 bytes", row="user", column="item", max_size=1000
    )


def test_json_lines_are_written(tmp_path):
    path = tmp_path / "o.jsonl"
    write_table(path, {"id": ["é", "=b"], "score": np.array([0.5, 1 / 3])})
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [{"id": "é", "score": 0.5}, {"id": "=b", "score": 1 / 3}]


# Sparse matrices


def stored(path, matrix, **options):
    sp.save_npz(path, matrix, **options)
    return path


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("compressed", [True, False])
def test_npz(tmp_path, kind, dtype, compressed):
    path = stored(
        tmp_path / "m.npz", sp.csr_array(A.astype(dtype)).asformat(kind), compressed=compressed
    )
    found = Reading().records(path)
    assert entries(found.observations()) == EXPECTED
    assert found.reading.notes == (f"m.npz: {NOTE}",)
    assert found.reading == Reading(
        zeros="unobserved"
    )  # the columns of another file have names of their own
    assert found.names == ("row", "column", "value")


def test_ratings_and_zeros_in_npz(tmp_path):
    ratings = sp.csr_array(([5.0, 0.5, 0.0], ([0, 0, 1], [0, 2, 1])), shape=(3, 4))
    path = stored(tmp_path / "m.npz", ratings)
    found = Reading(like_at=4).records(path)
    assert entries(found.observations()) == {("0", "0"): 1, ("0", "2"): -1, ("1", "1"): -1}
    assert found.reading.notes[1] == "m.npz: 0 is a rating, where it is stored (guessed)."
    unobserved = observations_from_file(path, like_at=4, zeros="unobserved")
    assert entries(unobserved) == {("0", "0"): 1, ("0", "2"): -1}
    refused(path, "the value 5.0 is neither")
    nothing = stored(tmp_path / "m.npz", ratings * 0)
    refused(nothing, r"No value of m\.npz is a like or a dislike", zeros="unobserved")
    likes = stored(tmp_path / "m.npz", sp.csr_array(A != 0))
    assert observations_from_file(likes).n_likes == np.count_nonzero(A)


def damaged(path, **changes):
    """Write a matrix with other arrays in it than it should have, as pickles where they are objects."""
    plain = sp.csr_array(A)
    arrays = {
        "indices": plain.indices,
        "indptr": plain.indptr,
        "format": np.array(b"csr"),
        "shape": np.array(A.shape),
        "data": plain.data,
    } | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"format": None}, "it has no array 'format'"),
        ({"format": np.array(b"dia")}, "of the kind 'dia'; save it as one of csr, csc, coo"),
        ({"format": np.array(7)}, "its array 'format' is no text"),
        ({"data": np.array([{}] * 5, dtype=object)}, "the array 'data' holds Python objects"),
        ({"data": np.ones(4)}, "do not make a sparse matrix"),
        ({"data": np.ones((5, 2))}, r"the array 'data' has the shape \(5, 2\)"),
        ({"data": np.ones(5, dtype=complex)}, "do not make a sparse matrix"),
        ({"indices": np.array([0, 2, 2, 3, 9])}, "do not make a sparse matrix"),
        ({"indices": np.array([0, 2, 2, 3, -1])}, "do not make a sparse matrix"),
        ({"indices": np.array([0, 2, 2, 2, 1])}, r"m\.npz stores row 1, column 2 \(from 0\) twice"),
        ({"indptr": np.array([0, 2, 1, 5])}, "do not make a sparse matrix"),
        ({"indptr": np.array([0, 2, 2**62, 5])}, "do not make a sparse matrix"),
        ({"shape": np.array([2**62, 2**62])}, "more entries than a 64-bit integer"),
        ({"shape": np.array([3])}, "do not make a sparse matrix"),
        ({"shape": np.array([2**50, 4])}, "do not make a sparse matrix"),
        ({"data": np.full(5, np.nan)}, "row 0 of m.npz: the value 'nan' is missing"),
    ],
)
def test_wrong_npz_is_one_sentence(tmp_path, changes, match):
    refused(damaged(tmp_path / "m.npz", **changes), match)


def test_npz_that_is_none(tmp_path):
    path = tmp_path / "m.npz"
    path.write_bytes(b"PK\x03\x04 nothing")
    refused(path, r"m\.npz could not be read as a sparse matrix")
    stored(path, sp.csr_array(A))
    refused(
        path,
        r"m\.npz has no column 'user'; choose .*: row, column, value",
        row="user",
        column="item",
    )


def test_npz_that_unpacks_to_much_is_refused_before_it_does(tmp_path):
    path = tmp_path / "m.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(2**26))
    refused(path, r"m\.npz holds more than 32 MiB")
    # An array that says it is larger than the archive has bytes for.
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("format.npy", header.getvalue())
    refused(path, "'format' is of another length than its header says")
    refused(stored(path, sp.csr_array(A)), "holds more than 100 bytes", max_size=100)


@pytest.mark.parametrize("name", ["m.mtx", "m.mtx.gz"])
@pytest.mark.parametrize("field", ["real", "integer"])
def test_matrix_market(tmp_path, name, field):
    text = io.BytesIO()
    scipy.io.mmwrite(text, sp.coo_array(A), field=field, comment="a comment")
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.getvalue()) if name.endswith(".gz") else text.getvalue())
    found = Reading().records(path)
    assert entries(found.observations()) == EXPECTED
    assert found.reading.notes == (f"{name}: {NOTE}",)


def test_patterns_and_symmetric_matrices(tmp_path):
    path = tmp_path / "m.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 1\n2 3\n")
    found = Reading().records(path)
    assert entries(found.observations()) == {("0", "0"): 1, ("1", "2"): 1}
    assert found.names == ("row", "column", None)
    path.write_text("%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n1 1 1\n2 1 -1\n")
    assert entries(observations_from_file(path)) == {
        ("0", "0"): 1, ("1", "0"): -1, ("0", "1"): -1,
    }  # fmt: skip


HEAD = "%%MatrixMarket matrix coordinate integer general\n"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"line 1 of m\.mtx does not say that it is a coordinate matrix"),
        ("%%MatrixMarket matrix array real general\n1 1\n1\n", r"line 1 of m\.mtx does not say"),
        ("%%MatrixMarket matrix coordinate complex general\n", r"line 1 of m\.mtx does not say"),
        (HEAD, "is not three sizes"),
        (HEAD + "% more\n2 2\n", r"line 3 of m\.mtx is not three sizes"),
        (HEAD + "2 2 9999999999999999999\n", r"line 2 of m\.mtx is not three sizes"),
        (HEAD + "2 2 2\n1 1 1\n", r"m\.mtx has 1 entries where its line of sizes says 2"),
        (HEAD + "2 2 1\n1 1\n", r"line 3 of m\.mtx has 2 fields and not 3"),
        (HEAD + "2 2 1\n0 1 1\n", r"line 3 of m\.mtx: the row '0' is not between 1 and 2"),
        (HEAD + "2 2 1\n1 3 1\n", r"line 3 of m\.mtx: the column '3' is not between 1 and 2"),
        (HEAD + "2 2 2\n1 1 1\n1 1 1\n", r"m\.mtx stores row 0, column 0 \(from 0\) twice"),
        (HEAD + "2 2 1\n1 1 x\n", r"are words: x \(1\)"),
        (HEAD + "2 2 2\n1 1 1\n1 2 x\n", r"line 4 of m\.mtx: the value 'x' is not a number"),
        (HEAD + f"2 2 {10**9}\n1 1 1\n", r"m\.mtx holds more than 32 MiB"),
    ],
)
def test_wrong_matrix_market_is_one_sentence(tmp_path, text, match):
    path = tmp_path / "m.mtx"
    path.write_text(text)
    refused(path, match)


# The registry


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_refuses_what_is_none_of_it(tmp_path, ending):
    path = tmp_path / f"r{ending}"
    path.write_bytes(bytes(range(256)))
    refused(path, rf"r\{ending}")


def test_a_new_format_reads_from_a_source(tmp_path, monkeypatch):
    taken = []

    def read(source, wanted):
        taken.append((source, wanted))
        with source.lines() as lines:
            return read_table(tmp_path / "r.csv") if list(lines) else None

    monkeypatch.setitem(FORMATS, ".new", Format(read, is_text=True))
    (tmp_path / "r.csv").write_text("row,column\nu,i\n")
    path = tmp_path / "r.new.gz"
    path.write_bytes(gzip.compress(b"x"))
    assert read_table(path, ["row"]).columns["row"].tolist() == ["u"]
    ((source, wanted),) = taken
    assert isinstance(source, Source)
    assert (source.name, source.gzipped, wanted) == ("r.new.gz", True, ["row"])
