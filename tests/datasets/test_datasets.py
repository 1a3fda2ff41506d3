import hashlib
import logging
import os
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pooch
import pytest

from tribit import InvalidInputError, TribitError, datasets
from tribit.data import sources
from tribit.datasets import Ratings, coat, movielens, movielens100k, senate

LINES = {
    "ml-100k": ("u.data", "\t", None),
    "ml-1m": ("ratings.dat", "::", None),
    "ml-20m": ("ratings.csv", ",", "userId,movieId,rating,timestamp"),
    "ml-25m": ("ratings.csv", ",", "userId,movieId,rating,timestamp"),
}
# Not in order, with ids that leave gaps.
ROWS = [(7, 30, 5, 103), (2, 10, 3, 101), (2, 30, 4, 102), (7, 10, 1, 104), (5, 20, 2, 100)]


def text(name, rows=ROWS):
    _, delimiter, header = LINES[name]
    lines = [delimiter.join(str(value) for value in row) for row in rows]
    return "".join(f"{line}\n" for line in ([header] if header else []) + lines)


def write(folder, name, content=None, form="folder"):
    """Lay the release out in one of the ways it is found on disks; return what a user would pass."""
    content = text(name) if content is None else content
    file = LINES[name][0]
    if form.startswith("zip"):
        archive = folder / ("downloaded.zip" if form == "zip" else f"{name}.zip")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr(f"{name}/README", "terms")
            packed.writestr(f"{name}/{file}", content)
        return archive if form == "zip" else folder
    (folder / name).mkdir()
    (folder / name / file).write_text(content, newline="")
    return {"folder": folder / name, "parent": folder, "file": folder / name / file}[form]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("form", ["folder", "parent", "file", "zip", "zip in a folder"])
def test_every_release_is_read_wherever_it_lies(tmp_path, name, form):
    ratings = movielens(write(tmp_path, name, form=form), name=name)
    assert ratings.users.tolist() == [7, 2, 2, 7, 5]
    assert ratings.items.tolist() == [30, 10, 30, 10, 20]
    assert ratings.ratings.tolist() == [5.0, 3.0, 4.0, 1.0, 2.0]
    assert ratings.ratings.dtype == np.float64
    assert ratings.timestamps.tolist() == [103, 101, 102, 104, 100]
    assert (ratings.name, ratings.shape, len(ratings)) == (name, (3, 3), 5)
    assert "research" in ratings.licence
    assert "Harper" in ratings.licence
    assert repr(ratings) == f"Ratings({name}, 3 users x 3 items, 5 ratings)"


def test_observations_keep_the_ids_and_the_bar(tmp_path):
    path = write(tmp_path, "ml-100k")
    seen = movielens100k(str(path)).observations()
    assert seen.row_ids.tolist() == [2, 5, 7]
    assert seen.column_ids.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(seen.to_sparse().toarray(), [[-1, 0, 1], [0, -1, 0], [-1, 0, 1]])
    assert movielens100k(path).observations(like_at=3).n_likes == 3
    assert movielens(path, like_at=5).observations().n_likes == 1
    assert movielens(path, like_at=5).split(0, 1, 1).train.n_likes <= 1


def test_lines_may_end_and_the_file_may_close_in_any_way(tmp_path):
    content = text("ml-20m").replace("\n", "\r\n") + "\r\n\r\n"
    ratings = movielens(write(tmp_path, "ml-20m", content), name="ml-20m")
    assert ratings.users.tolist() == [7, 2, 2, 7, 5]


def test_the_columns_of_a_header_may_be_in_any_order(tmp_path):
    content = "rating,userId,extra,timestamp,movieId\n0.5,3,9,77,8\n4.5,1,9,78,8\n"
    ratings = movielens(write(tmp_path, "ml-25m", content), name="ml-25m")
    assert ratings.users.tolist() == [3, 1]
    assert ratings.items.tolist() == [8, 8]
    assert ratings.ratings.tolist() == [0.5, 4.5]
    assert ratings.timestamps.tolist() == [77, 78]


def many(seed=0, n=200):
    """Ratings of distinct pairs, in no order, with one star more than the last digit of the item."""
    keys = np.random.default_rng(seed).permutation(30 * 40)[:n]
    users, items = keys // 40 + 1, keys % 40 + 1
    return Ratings(users, items, items % 5 + 1.0, None, "made", "free")


def test_the_split_is_the_documented_one():
    ratings = many()
    parts = ratings.split(3, test=20, validation=30)
    order = np.lexsort((ratings.items, ratings.users))
    permuted = order[np.random.default_rng(3).permutation(200)]
    expected = {"test": permuted[:20], "validation": permuted[20:50], "train": permuted[50:]}
    whole = ratings.observations()
    for name, chosen in expected.items():
        part = getattr(parts, name)
        pairs = zip(whole.row_ids[part.rows], whole.column_ids[part.columns], strict=True)
        wanted = zip(ratings.users[chosen], ratings.items[chosen], strict=True)
        assert sorted(pairs) == sorted(wanted)
        assert part.shape == whole.shape == ratings.shape
        np.testing.assert_array_equal(part.row_ids, whole.row_ids)
        stars = part.column_ids[part.columns] % 5 + 1
        np.testing.assert_array_equal(part.labels > 0, stars >= 4)


def test_the_split_does_not_depend_on_the_order_of_the_file_but_on_the_seed():
    one = many()
    back = Ratings(
        one.users[::-1].copy(), one.items[::-1].copy(), one.ratings[::-1].copy(), None, "", ""
    )
    first, again, other = one.split(0, 9, 9), back.split(0, 9, 9), one.split(1, 9, 9)
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a.to_sparse().toarray(), b.to_sparse().toarray())
        assert not np.array_equal(a.to_sparse().toarray(), c.to_sparse().toarray())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 100, 100), "leave none of the 200 ratings"),
        ((0, 0, 10), "test must be a number of ratings"),
        ((0, 10, 0.5), "validation must be a number of ratings"),
        ((0, True, 10), "test must be a number of ratings"),
        ((-1, 10, 10), "a seed cannot be negative"),
    ],
)
def test_a_wrong_split_is_one_sentence(arguments, message):
    with pytest.raises(TribitError, match=message):
        many().split(*arguments)


def test_ratings_cannot_be_changed():
    ratings = many()
    for array in (ratings.users, ratings.items, ratings.ratings, ratings.user_ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        ratings.name = "other"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ml-100k", "1\t2\t3\t4\n1\t3\t5\n", r"Line 2 of .*u\.data.*: 3 fields where 4 were expected"),
        ("ml-100k", "1\t2\t3\t4\n\n1\t3\t6\t5\n", r"Line 3 of .*u\.data.*: the rating 6 is not one of 1 to 5"),
        ("ml-100k", "1\t2\t0\t4\n", "Line 1 .* the rating 0 is not one of"),
        ("ml-100k", "1\t2\t3.5\t4\n", "Line 1 .* the rating 3.5 is not one of 1 to 5 in steps of 1"),
        ("ml-100k", "1\t2\tnan\t4\n", "Line 1 .* the rating nan"),
        ("ml-100k", "1\t2\t3\t4\n1\tx\t3\t4\n", "Line 2 .* the item 'x' is not a whole number"),
        ("ml-100k", "1.5\t2\t3\t4\n", "Line 1 .* the user '1.5' is not a whole number"),
        ("ml-100k", "1.0\t2\t3\t4\n", "Line 1 .* the user '1.0' is not a whole number"),
        ("ml-100k", "1\t2\tfive\t4\n", "Line 1 .* a field is not a number"),
        ("ml-100k", "", r"u\.data.* has no ratings"),
        ("ml-1m", "1::2::3::4\n1::2::3\n", r"Line 2 of .*ratings\.dat.*: 3 fields"),
        ("ml-1m", "1::2::4.5::4\n", "Line 1 .* the rating 4.5"),
        ("ml-20m", "userId,movieId,stars,timestamp\n1,2,3,4\n", "has no column 'rating'"),
        ("ml-20m", "userId,movieId,rating,timestamp\n1,2,0.5,4\n1,3,5.5,4\n", "Line 3 .* the rating 5.5"),
        ("ml-25m", "userId,movieId,rating,timestamp\n1,2,0.7,4\n", "Line 2 .* 0.5 to 5 in steps of 0.5"),
        ("ml-25m", "userId,movieId,rating,timestamp\n1,2,0.5,4\n1,3", r"Line 3 of .*ratings\.csv.*: 2 fields"),
        ("ml-25m", "userId,movieId,rating,timestamp\n", "has no ratings"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_damaged_file_is_one_sentence_with_the_line(tmp_path, name, content, message, form):
    with pytest.raises(InvalidInputError, match=message) as caught:
        movielens(write(tmp_path, name, content, form), name=name)
    sentence(caught)


def sentence(caught):
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert ";" in message  # what to do


def test_a_file_that_is_not_text_is_one_sentence(tmp_path):
    folder = tmp_path / "ml-100k"
    folder.mkdir()
    (folder / "u.data").write_bytes(b"1\t2\t3\t4\n\xff\xfe\t2\t3\t4\n")
    with pytest.raises(InvalidInputError, match=r"Line 2 of u\.data: the user") as caught:
        movielens100k(folder)
    sentence(caught)


def test_a_pair_rated_twice_is_one_sentence(tmp_path):
    path = write(tmp_path, "ml-100k", "4\t2\t3\t4\n4\t2\t5\t4\n")
    with pytest.raises(InvalidInputError, match="both give row 4, column 2"):
        movielens100k(path).observations()


def test_a_missing_folder_or_file_says_where_to_get_it(tmp_path):
    address = "https://files.grouplens.org/datasets/movielens/ml-1m.zip"
    empty = tmp_path / "empty.zip"
    with zipfile.ZipFile(empty, "w") as packed:
        packed.writestr("ml-1m/movies.dat", "")
    for path, message in (
        (tmp_path / "nowhere", "There is no folder or file"),
        (tmp_path, "has neither ratings.dat nor ml-1m/ratings.dat"),
        (empty, "has neither ml-1m/ratings.dat nor ratings.dat inside"),
    ):
        with pytest.raises(InvalidInputError, match=message) as caught:
            movielens(path, name="ml-1m")
        assert address in str(caught.value)
        sentence(caught)


def test_a_damaged_zip_is_one_sentence(tmp_path):
    path = write(
        tmp_path, "ml-100k", text("ml-100k", [(n + 1, 1, 3, n) for n in range(2000)]), "zip"
    )
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInputError, match=r"not a \.zip that can be read") as caught:
        movielens100k(path)
    sentence(caught)
    # Damaged inside, where the list of members is still whole.
    start = whole.index(b"u.data") + 400
    path.write_bytes(whole[:start] + bytes(200) + whole[start + 200 :])
    with pytest.raises(
        InvalidInputError, match=r"u\.data in downloaded\.zip could not be read"
    ) as caught:
        movielens100k(path)
    sentence(caught)


def test_an_unknown_release_is_one_sentence():
    with pytest.raises(InvalidInputError, match="no MovieLens release 'ml-2m'; use one of ml-100k"):
        movielens(name="ml-2m")


def test_the_licence_is_logged_once(tmp_path, caplog):
    datasets._tell.cache_clear()
    path = write(tmp_path, "ml-100k")
    with caplog.at_level(logging.INFO, logger="tribit.datasets"):
        movielens100k(path)
        movielens100k(path)
    assert [record.getMessage() for record in caplog.records] == [datasets.MOVIELENS_LICENCE]


def stand_in(monkeypatch, tmp_path, retrieve):
    pooch = types.SimpleNamespace(os_cache=lambda name: tmp_path / name, retrieve=retrieve)
    monkeypatch.setitem(sys.modules, "pooch", pooch)


@pytest.mark.parametrize("name", LINES)
def test_a_download_asks_for_the_official_file_with_its_hash(tmp_path, monkeypatch, name):
    asked = {}

    def retrieve(address, *, known_hash, fname, path):
        asked.update(address=address, known_hash=known_hash, fname=fname, path=path)
        return str(write(tmp_path, name, form="zip"))

    stand_in(monkeypatch, tmp_path, retrieve)
    assert len(movielens(name=name)) == 5
    assert asked["address"] == f"https://files.grouplens.org/datasets/movielens/{name}.zip"
    algorithm, digest = asked["known_hash"].split(":")
    assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size
    assert (asked["fname"], asked["path"]) == (f"{name}.zip", tmp_path / "tribit")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ConnectionError("no route"),
            r"could not be fetched \(ConnectionError\).*put it into .*tribit or",
        ),
        (ValueError("hash"), "its SHA-256 differs"),
    ],
)
def test_a_failed_download_says_what_to_do(tmp_path, monkeypatch, error, message):
    def retrieve(*args, **kwargs):
        raise error

    stand_in(monkeypatch, tmp_path, retrieve)
    with pytest.raises(InvalidInputError, match=message) as caught:
        movielens100k()
    assert "https://files.grouplens.org/datasets/movielens/ml-100k.zip" in str(caught.value)
    assert "place as path" in str(caught.value)
    sentence(caught)


def test_pooch_itself_refuses_another_file(tmp_path, monkeypatch):
    source = write(tmp_path, "ml-100k", form="zip")
    monkeypatch.setattr(pooch, "os_cache", tmp_path.joinpath)

    def local(address, **options):  # a file in the place of the network; the rest is pooch's own
        def fetch(url, out, pup):
            Path(out).write_bytes(source.read_bytes())

        return fetch

    monkeypatch.setattr("pooch.core.choose_downloader", local)
    with pytest.raises(InvalidInputError, match="its SHA-256 differs"):
        movielens100k()
    release = datasets._RELEASES["ml-100k"]
    known = release._replace(sha256=hashlib.sha256(source.read_bytes()).hexdigest())
    monkeypatch.setitem(datasets._RELEASES, "ml-100k", known)
    assert len(movielens100k()) == 5


def test_without_pooch_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(
        InvalidInputError, match=r'pip install "tribit\[data\]", or get https'
    ) as caught:
        movielens100k()
    sentence(caught)


def test_reading_a_local_copy_needs_no_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)  # importing it would fail
    assert len(movielens100k(write(tmp_path, "ml-100k"))) == 5


def coat_files(folder, train="0 5 0\n1 0 3\n", test="4 0 0\n0 2 0\n"):
    (folder / "coat").mkdir()
    (folder / "coat" / "train.ascii").write_text(train)
    (folder / "coat" / "test.ascii").write_text(test)
    return folder / "coat"


def test_coat_has_two_parts_of_one_shape(tmp_path):
    folder = coat_files(tmp_path)
    for path in (folder, tmp_path):
        train, test = coat(path)
        assert train.users.tolist() == [0, 1, 1]
        assert train.items.tolist() == [1, 0, 2]
        assert train.ratings.tolist() == [5.0, 1.0, 3.0]
        assert train.timestamps is None
        assert train.shape == test.shape == (2, 3)
        assert "Schnabel" in train.licence
        np.testing.assert_array_equal(
            test.observations().to_sparse().toarray(), [[1, 0, 0], [0, -1, 0]]
        )
    assert coat(folder, like_at=3).train.observations().n_likes == 2


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("0 5 0\n1 0\n", "Line 2 of train.ascii: 2 fields where 3 were expected"),
        ("0 5 0\n1 0 7\n", "Line 2 of train.ascii: the rating 7 is neither 0 nor from 1 to 5"),
        ("0 x 0\n1 0 3\n", "Line 1 of train.ascii: a field is not a number"),
        ("0 5 0\n", r"shapes of train.ascii and test.ascii differ, \(1, 3\) and \(2, 3\)"),
        ("", "train.ascii has no ratings"),
    ],
)
def test_a_damaged_coat_is_one_sentence(tmp_path, train, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        coat(coat_files(tmp_path, train))
    sentence(caught)


def test_a_missing_part_of_coat_is_one_sentence(tmp_path):
    (coat_files(tmp_path) / "test.ascii").unlink()
    with pytest.raises(
        InvalidInputError, match=r"has neither test\.ascii nor coat/test\.ascii"
    ) as caught:
        coat(tmp_path / "coat")
    sentence(caught)


def senate_file(folder, content="3\t4\t3\n2\t0\t1\n0\t3\t-1\n0\t1\t1\n"):
    (folder / "senate").mkdir()
    (folder / "senate" / "senate1to10.txt").write_text(content)
    return folder / "senate"


def test_senate_votes(tmp_path):
    folder = senate_file(tmp_path)
    for path in (folder, tmp_path, folder / "senate1to10.txt"):
        votes = senate(path)
        np.testing.assert_array_equal(
            votes.to_sparse().toarray(), [[0, 1, 0, -1], [0, 0, 0, 0], [1, 0, 0, 0]]
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 4\n2 0 1\n", "Line 1 of senate1to10.txt is not three sizes"),
        ("3 4 2\n2 0 1\n0 3\n", "Line 3 of senate1to10.txt: 2 fields where 3"),
        ("3 4 1\n3 0 1\n", "Line 2 .* row 3, column 0 is outside the 3 x 4 of line 1"),
        ("3 4 1\n2 0 0\n", "Line 2 .* the vote 0 is neither"),
        ("3 4 1\n2 a 1\n", "Line 2 .* a field is not a number"),
        ("3 4 9\n2 0 1\n", "has 1 entries where its first line says 9"),
    ],
)
def test_damaged_votes_are_one_sentence(tmp_path, content, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        senate(senate_file(tmp_path, content))
    sentence(caught)


def real_data(*names):
    folder = os.environ.get("TRIBIT_DATA")
    if not folder or not all((Path(folder) / name).exists() for name in names):
        pytest.skip(f"TRIBIT_DATA names no folder with {' and '.join(names)}")
    return folder


def test_the_real_movielens_100k():
    ratings = movielens100k(real_data("ml-100k"))
    assert ratings.shape == (943, 1682)
    seen = ratings.observations()
    assert (seen.n_observed, seen.n_likes) == (100_000, 55_375)
    parts = ratings.split(0)
    assert [part.n_observed for part in parts] == [90_000, 5_000, 5_000]
    assert parts.test.n_likes == 2702
    assert parts.validation.n_likes == 2761


def test_the_real_coat():
    train, test = coat(real_data("coat"))
    assert train.shape == test.shape == (290, 300)
    assert np.all(np.bincount(train.users) == 24)
    assert np.all(np.bincount(test.users) == 16)


def test_the_real_senate():
    votes = senate(real_data("senate"))
    assert (votes.shape, votes.n_observed) == ((145, 1056), 27_083)


def test_a_zip_that_would_fill_the_memory_is_one_sentence(tmp_path):
    with zipfile.ZipFile(tmp_path / "ml-100k.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ml-100k/u.data", b"\n" * 2**26)
    with pytest.raises(
        InvalidInputError, match=r"u\.data in ml-100k\.zip would unpack to 64 MiB"
    ) as caught:
        movielens100k(tmp_path)
    sentence(caught)


def test_a_line_without_end_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_RECORD_CHARACTERS", 100)
    folder = write(tmp_path, "ml-100k")
    next(folder.rglob("u.data")).write_text("1\t2\t3\t4\n" + "7" * 200)
    with pytest.raises(
        InvalidInputError, match=r"line 2 of u\.data: the record has more than 100 char"
    ):
        movielens100k(folder)


def test_sizes_of_five_thousand_digits_are_one_sentence(tmp_path):
    with pytest.raises(InvalidInputError, match=r"Line 1 .* is not three sizes") as caught:
        senate(senate_file(tmp_path, f"{'9' * 5000}\t4\t3\n2\t0\t1\n"))
    sentence(caught)
