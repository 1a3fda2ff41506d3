import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tribit.data.reading import observations_from_file
from tribit.data.tables import read_table, write_table
from tribit.errors import InvalidInputError, InvalidTypeError


def pairs_from_file(path, *, row, column):
    table = read_table(path, [row, column])
    return table.columns[row], table.columns[column]


HEADER = ["user", "item", "rating"]
RECORDS = [["u2", "7", "4"], ["u1", "7", "1.5"], ["u2", "10", "5"]]


def write_ratings(path):
    if path.suffix == ".parquet":
        users, items, ratings = zip(*RECORDS, strict=True)
        columns = [list(users), [int(item) for item in items], [float(r) for r in ratings]]
        pq.write_table(pa.table(dict(zip(HEADER, columns, strict=True))), path)
        return path
    delimiter = {"csv": ",", "tsv": "\t", "txt": ";", "data": " "}[path.name.split(".")[1]]
    text = "".join(delimiter.join(fields) + "\n" for fields in [HEADER, *RECORDS])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


TEXT_NAMES = [f"r.{kind}{gz}" for kind in ("csv", "tsv", "txt", "data") for gz in ("", ".gz")]


@pytest.mark.parametrize("name", [*TEXT_NAMES, "r.parquet"])
def test_every_format_gives_the_same_observations(tmp_path, name):
    path = write_ratings(tmp_path / name)
    seen = observations_from_file(path, row="user", column="item", value="rating", like_at=4)
    assert seen.row_ids.tolist() == ["u2", "u1"]
    assert seen.column_ids.tolist() == ["7", "10"]
    np.testing.assert_array_equal(seen.to_sparse().toarray(), [[1, 1], [-1, 0]])


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_all_columns_are_read_in_order(tmp_path, name):
    table = read_table(write_ratings(tmp_path / name))
    assert list(table.columns) == HEADER
    assert table.columns["item"].tolist() == ["7", "7", "10"]


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_pairs(tmp_path, name):
    rows, columns = pairs_from_file(write_ratings(tmp_path / name), row="user", column="item")
    assert rows.tolist() == ["u2", "u1", "u2"]
    assert columns.tolist() == ["7", "7", "10"]


def test_without_values_every_pair_is_a_like(tmp_path):
    seen = observations_from_file(write_ratings(tmp_path / "r.csv"), row="user", column="item")
    assert (seen.n_likes, seen.n_dislikes) == (3, 0)


def test_movielens_file_has_no_header(tmp_path):
    path = tmp_path / "u.data"
    path.write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t5\t878887116\n")
    seen = observations_from_file(path, row="0", column="1", value="2", like_at=4)
    assert seen.row_ids.tolist() == ["196", "186"]
    np.testing.assert_array_equal(seen.to_sparse().toarray(), [[-1, 1], [0, -1]])


def test_headerless_position_out_of_range(tmp_path):
    path = tmp_path / "u.data"
    path.write_text("196\t242\t3\n")
    with pytest.raises(InvalidInputError, match=r"has no column '7'; choose .*: 0, 1, 2"):
        pairs_from_file(path, row="0", column="7")


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "   "])
def test_the_delimiter_of_text_is_found(tmp_path, delimiter):
    path = tmp_path / "r.txt"
    path.write_text("\n" + delimiter.join("ab") + "\n" + delimiter.join("xy") + "\n")
    rows, columns = pairs_from_file(path, row="a", column="b")
    assert (rows.tolist(), columns.tolist()) == (["x"], ["y"])


def test_quotes_blank_lines_byte_order_mark_and_surrounding_space(tmp_path):
    path = tmp_path / "r.csv"
    path.write_bytes('\ufeffuser,item\r\n\r\n"u 1 ", "a, ""b"""\r\n , \r\nu2, 07 \r\n'.encode())
    rows, columns = pairs_from_file(path, row="user", column="item")
    assert rows.tolist() == ["u 1", "u2"]
    assert columns.tolist() == ['a, "b"', "07"]


def test_a_record_over_two_lines_does_not_shift_the_line_numbers(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text('user,item,rating\n"u\n1",a,1\n\nu2,a,x\n')
    with pytest.raises(
        InvalidInputError,
        match=r"line 5 of r\.csv: the value 'x' in column 'rating' is not a number",
    ):
        observations_from_file(path, row="user", column="item", value="rating")


def failing(text, match, **options):
    return pytest.param(text, match, options, id=match[:30])


@pytest.mark.parametrize(
    ("text", "match", "options"),
    [
        failing("", r"r\.csv is empty; give it"),
        failing("\n\n", r"r\.csv is empty; give it"),
        failing("user,item,rating\n", r"r\.csv holds no records"),
        failing("user,thing,rating\nu,i,1\n", "no column 'item'; choose .*: user, thing, rating"),
        failing("user,item,item,rating\nu,i,i,1\n", "has two columns 'item'"),
        failing("user,item,rating\nu,i,1\nu,j\n", r"line 3 of r\.csv has 2 fields where .* 3"),
        failing("user,item,rating\nu,i,1\n,j,1\n", r"line 3 of r\.csv: the id in column 'user' is"),
        failing("user,item,rating\nu,i,\n", r"line 2 of r\.csv: the value '' in column 'rating'"),
        failing(
            "user,item,rating\nu,i,nan\n",
            r"line 2 of r\.csv: the value 'nan' in column 'rating' is missing",
        ),
        failing("user,item,rating\nu,i,inf\n", "the value inf is not finite", like_at=1),
        failing("user,item,rating\nu,i,1\nu,j,3\n", r"line 3 of r\.csv: the value 3.0 is neither"),
        failing(
            "user,item,rating\nu,i,1\nv,i,1\nu,i,-1\n",
            r"line 2 of r\.csv and line 4 of r\.csv both give row 'u', column 'i'; .*duplicates",
        ),
        failing('user,item,rating\nu,i,1\n"u,j,1\nu,k,1\n', r"of r\.csv: the record is malformed"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path, text, match, options):
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=match):
        observations_from_file(path, row="user", column="item", value="rating", **options)


def test_duplicates_policy_reaches_the_entries(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("user,item,rating\nu,i,1\nu,i,-1\n")
    seen = observations_from_file(
        path, row="user", column="item", value="rating", duplicates="last"
    )
    assert seen.labels.tolist() == [-1]


def test_missing_file_directory_and_unknown_format(tmp_path):
    with pytest.raises(InvalidInputError, match=r"There is no file .*absent\.csv"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(InvalidInputError, match="is not a file; name a file"):
        read_table(tmp_path)
    for name in ("r.doc", "r", "r.gz", "r.parquet.gz"):
        (tmp_path / name).write_text("user\nu\n")
        with pytest.raises(InvalidInputError, match=f"name '{name}' has no ending of a format"):
            read_table(tmp_path / name)


def test_undecodable_bytes(tmp_path):
    path = tmp_path / "r.csv"
    path.write_bytes("user,item\nu,é\n".encode("latin-1"))
    with pytest.raises(InvalidInputError, match=r"r\.csv is not UTF-8 text, near byte 0xe9"):
        read_table(path)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "plain"])
def test_corrupt_gzip(tmp_path, damage):
    rng = np.random.default_rng(0)
    text = "user,item\n" + "".join(f"{u},{i}\n" for u, i in rng.integers(10**6, size=(2000, 2)))
    packed = bytearray(gzip.compress(text.encode()))
    if damage == "truncated":
        packed = packed[: len(packed) // 2]
    elif damage == "flipped":
        packed[30:200] = bytes(170)
    else:
        packed = bytearray(text.encode())
    path = tmp_path / "r.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(InvalidInputError, match=r"^r\.csv\.gz could not be read \("):
        read_table(path)


@pytest.mark.parametrize("kept", [0, 10, 200])
def test_corrupt_parquet(tmp_path, kept):
    path = write_ratings(tmp_path / "r.parquet")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInputError, match=r"^r\.parquet could not be read as parquet"):
        read_table(path)


def test_parquet_columns(tmp_path):
    path = tmp_path / "r.parquet"
    category = pa.array(["b", "a", "b"]).dictionary_encode()
    columns = {"user": category, "item": [1, None, 2], "float": [1.0, 2.5, 3.0], "text": [" x"] * 3}
    pq.write_table(pa.table(columns), path, row_group_size=2)
    table = read_table(path, ["user", "float", "text"])
    assert table.columns["user"].tolist() == ["b", "a", "b"]
    assert table.columns["float"].tolist() == ["1", "2.5", "3"]
    assert table.columns["text"].tolist() == ["x"] * 3
    with pytest.raises(InvalidInputError, match=r"row 1 of r\.parquet: the id in column 'item' is"):
        observations_from_file(path, row="user", column="item")
    with pytest.raises(InvalidInputError, match=r"no column 'film'; choose .*: user, item, float"):
        read_table(path, ["film"])


def test_parquet_without_rows_or_with_lists(tmp_path):
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"user": pa.array([], pa.string())}), path)
    with pytest.raises(InvalidInputError, match=r"r\.parquet holds no records"):
        read_table(path)
    pq.write_table(pa.table({"user": [[1], [2]]}), path)
    with pytest.raises(InvalidInputError, match="neither lists nor records"):
        read_table(path)


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.csv.gz", "o.tsv.gz", "o.parquet"])
def test_round_trip(tmp_path, name):
    path = tmp_path / name
    scores = np.array([0.1, 1 / 3, -2e-17])
    write_table(
        path,
        {"row": np.array(["u,1", 'u"2', "é\tu"], dtype=object), "n": [7, -8, 9], "score": scores},
    )
    table = read_table(path)
    assert table.columns["row"].tolist() == ["u,1", 'u"2', "é\tu"]
    assert table.columns["n"].tolist() == ["7", "-8", "9"]
    np.testing.assert_array_equal([float(text) for text in table.columns["score"]], scores)
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_write_errors(tmp_path):
    with pytest.raises(InvalidInputError, match=r"differ in shape \('a': \(1,\), 'b': \(2,\)\)"):
        write_table(tmp_path / "o.csv", {"a": [1], "b": [1, 2]})
    with pytest.raises(InvalidInputError, match="No column is given"):
        write_table(tmp_path / "o.csv", {})
    with pytest.raises(
        InvalidInputError,
        match=r"'o\.txt' has no ending of a format; end it in one of .csv, .tsv, .p",
    ):
        write_table(tmp_path / "o.txt", {"a": [1]})
    with pytest.raises(InvalidInputError, match="directory does not exist"):
        write_table(tmp_path / "absent" / "o.csv", {"a": [1]})
    with pytest.raises(InvalidInputError, match=r"does not fit into o\.parquet"):
        write_table(tmp_path / "o.parquet", {"a": np.array([1, "x"], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_table(tmp_path):
    class Unprintable:
        def __str__(self):
            raise RuntimeError("no text")

    path = tmp_path / "o.csv"
    write_table(path, {"a": [1]})
    with pytest.raises(RuntimeError, match="no text"):
        write_table(path, {"a": np.array([Unprintable()], dtype=object)})
    assert read_table(path).columns["a"].tolist() == ["1"]
    assert list(tmp_path.iterdir()) == [path]


def test_positions_may_be_numbers(tmp_path):
    path = tmp_path / "bare.tsv"
    path.write_text("a\tx\t5\nb\ty\t1\n")
    by_number = observations_from_file(path, row=0, column=1, value=2, like_at=4)
    assert by_number.labels.tolist() == [1, -1]
    assert by_number.row_ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.parquet"])
def test_an_id_that_is_no_unicode_is_one_sentence_and_no_file(tmp_path, name):
    with pytest.raises(InvalidInputError, match=r"was not written, because .* no Unicode text"):
        write_table(tmp_path / name, {"id": ["a", "\ud800b"], "value": [1, 2]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", [3, None, b"x.csv"])
def test_what_is_no_path_cannot_be_written(path):
    with pytest.raises(InvalidTypeError, match="named by a str or a path"):
        write_table(path, {"id": ["a"]})
