"""Entries, ranker, reading and summary beside a model in a file: written, read, damaged."""

import json

import numpy as np
import pytest

from model_parts import put_together, taken_apart
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender, load
from tribit.completion.files import contents_of, model_of
from tribit.data.reading import Reading
from tribit.storage import Contents, read, write

RNG = np.random.default_rng(0)
A = np.where(RNG.random((9, 7)) < 0.6, RNG.choice([-1, 1], (9, 7)), 0)
A[4] = 0
READING = Reading(row="user", column="film", like=("yes",))


@pytest.fixture(scope="module")
def seen():
    i, j = np.nonzero(A)
    ids = {"row_ids": [f"r{n}" for n in range(9)], "column_ids": [f"c{n}" for n in range(7)]}
    return Observations.from_pairs(i, j, A[i, j], shape=A.shape, **ids)


@pytest.fixture(scope="module")
def recommender(seen):
    model = BinaryMatrixCompletion(rank=2, l2=1.0, n_jobs=1, random_state=0)
    found = Recommender(model, random_state=0).fit(seen)
    found.reading_ = READING
    return found


@pytest.fixture
def path(recommender, tmp_path):
    recommender.save(tmp_path / "model.tribit")
    return tmp_path / "model.tribit"


def contents(path):
    return read(path, lambda found: found)


def test_all_parts_come_back(path, recommender, seen):
    found = contents(path)
    assert isinstance(found, Contents)
    np.testing.assert_array_equal(found.entries.to_sparse().toarray(), A)
    assert found.entries.axes is found.fitted.axes
    assert found.entries.row_ids.tolist() == seen.row_ids.tolist()
    assert found.entries.column_ids.tolist() == seen.column_ids.tolist()
    arrays = recommender.ranker_.arrays()
    assert set(found.ranker) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.ranker[name], array)
    assert found.reading == READING.to_json()
    assert found.summary == recommender.summary_
    assert found.record.n_iter == recommender.model_.n_iter_


def test_a_loaded_recommender_is_the_saved_one(path, recommender):
    copy = Recommender.load(path)
    assert copy.reading_ == READING
    assert copy.summary_ == recommender.summary_
    np.testing.assert_array_equal(copy.seen_.to_sparse().toarray(), A)
    np.testing.assert_array_equal(copy.model_.complete(), recommender.model_.complete())
    rows = [f"r{n}" for n in range(9)]
    ours, theirs = recommender.recommend(rows, 3), copy.recommend(rows, 3)
    for name in ("columns", "scores", "probabilities"):
        assert getattr(theirs, name).tolist() == getattr(ours, name).tolist()


def test_the_arrays_of_a_ranker_are_named_and_in_double_precision(recommender, tmp_path):
    numbers = {"numbers": np.arange(6, dtype=np.float32).reshape(2, 3), "flat": np.arange(4)}
    whole = Contents(
        **{**vars(contents_of(recommender.model_)), "entries": recommender.seen_, "ranker": numbers}
    )
    write(tmp_path / "model", whole)
    found = contents(tmp_path / "model").ranker
    np.testing.assert_array_equal(found["numbers"], np.arange(6.0).reshape(2, 3), strict=True)
    np.testing.assert_array_equal(found["flat"], np.arange(4.0), strict=True)
    # The names are those of no ranker.
    with pytest.raises(InvalidInputError, match=r"damaged tribit model \(the ranker is damaged"):
        Recommender.load(tmp_path / "model")


def test_the_model_of_a_recommender_is_a_model(path, seen):
    model = BinaryMatrixCompletion(rank=2, l2=1.0, n_jobs=1, random_state=0).fit(seen)
    np.testing.assert_array_equal(load(path).complete(), model.complete())
    assert load(path).row_ids_.tolist() == seen.row_ids.tolist()


def test_what_is_left_out_is_none(recommender, tmp_path):
    bare = contents_of(recommender.model_)
    write(tmp_path / "bare", bare)
    recommender.model_.save(tmp_path / "model")
    assert (tmp_path / "bare").read_bytes() == (tmp_path / "model").read_bytes()
    found = contents(tmp_path / "model")
    assert (found.entries, found.ranker, found.summary) == (None,) * 3
    copy = Recommender.load(tmp_path / "model")
    assert (copy.seen_, copy.ranker_, copy.summary_) == (None, None, {})


def test_a_recommender_that_keeps_no_entries_has_no_ranker_in_its_file(seen, tmp_path):
    model = BinaryMatrixCompletion(rank=1, l2=1.0, n_jobs=1, random_state=0)
    found = Recommender(model, keep_seen=False, random_state=0).fit(seen)
    assert found.ranker_ is not None
    found.save(tmp_path / "model")
    copy = Recommender.load(tmp_path / "model")
    assert (copy.seen_, copy.ranker_, copy.keep_seen) == (None, None, False)
    assert copy.summary_ == found.summary_
    _, header, tensors = taken_apart((tmp_path / "model").read_bytes())
    assert (header["entries"], header["ranker"]) == (False, False)
    assert not [name for name in tensors if name.startswith(("entries:", "ranker:"))]


def int32(values):
    return np.array(values, dtype="<i4").tobytes()


def first(name, value, dtype):
    def change(_, __, tensors):
        array = np.frombuffer(tensors[name], dtype=dtype).copy()
        array[0] = value
        tensors[name] = array.tobytes()

    return change


def without(*names):
    def change(description, _, tensors):
        for name in names:
            del description[name], tensors[name]

    return change


def top(**values):
    return lambda _, header, __: header.update(values)


def nothing_of(*names):
    """Tensors of no entry at all."""

    def change(description, _, tensors):
        for name in names:
            description[name]["shape"], tensors[name] = [0], b""

    return change


def of_no_entry(*parts):
    nothing_of("entries:columns", "entries:labels")(*parts)
    parts[2]["entries:counts"] = int32([0] * 9)


def of_entries(name, kind, value, less=0):
    """Give each entry a further number."""

    def change(description, _, tensors):
        n = description["entries:labels"]["shape"][0] - less
        description[f"entries:{name}"] = {"dtype": kind, "shape": [n]}
        tensors[f"entries:{name}"] = np.full(
            n, value, dtype={"F64": "<f8", "I64": "<i8"}[kind]
        ).tobytes()

    return change


ENTRIES = ("entries:counts", "entries:columns", "entries:labels")
DAMAGE = {
    "a column too large": (first("entries:columns", 99, "<i4"), "a column that the model does not"),
    "a negative column": (first("entries:columns", -1, "<i4"), "a column that the model does not"),
    "columns that fall": (first("entries:columns", 6, "<i4"), "must rise within each row"),
    "a count too large": (first("entries:counts", 99, "<i4"), "does not count"),
    "a negative count": (first("entries:counts", -1, "<i4"), "does not count"),
    "another label": (first("entries:labels", 0, "i1"), "other labels"),
    "a label of 2": (first("entries:labels", 2, "i1"), "other labels"),
    **{f"no {name}": (without(name), f"{name} is missing") for name in ENTRIES},
    "no entry": (of_no_entry, "entries:labels is empty"),
    "labels of another dtype": (lambda d, _, __: d[ENTRIES[2]].update(dtype="U8"), "dtype"),
    "columns of another dtype": (lambda d, _, __: d[ENTRIES[1]].update(dtype="F32"), "dtype"),
    "counts of another dtype": (lambda d, _, __: d[ENTRIES[0]].update(dtype="F32"), "dtype I32"),
    "fewer labels than columns": (nothing_of("entries:labels"), "must have the shape entries"),
    "fewer counts than rows": (nothing_of("entries:counts"), "must have the shape rows = 9"),
    "a weight of 0": (of_entries("weights", "F64", 0.0), "not finite and above 0"),
    "a weight of NaN": (of_entries("weights", "F64", np.nan), "not finite and above 0"),
    "fewer weights than labels": (
        of_entries("weights", "F64", 1.0, 1),
        "must have the shape entries",
    ),
    "a missing time": (of_entries("times", "I64", np.iinfo(np.int64).min), "holds a missing time"),
    "fewer times than labels": (of_entries("times", "I64", 1, 1), "must have the shape entries"),
    "times of another dtype": (of_entries("times", "F64", 1.0), "dtype I64"),
    "entries that are no switch": (top(entries="yes"), "entries must be true or false"),
    "a ranker that is no switch": (top(ranker=1), "ranker must be true or false"),
    "a ranker without entries": (top(entries=False), "a ranker needs the entries"),
    "entries that are denied": (top(entries=False, ranker=False), "is unknown"),
    "a ranker that is denied": (top(ranker=False), "is unknown"),
    "no reading": (lambda _, h, __: h.pop("reading"), "reading is missing"),
    "no summary": (lambda _, h, __: h.pop("summary"), "summary is missing"),
    "no switch for entries": (lambda _, h, __: h.pop("entries"), "entries is missing"),
    "no switch for a ranker": (lambda _, h, __: h.pop("ranker"), "ranker is missing"),
    "a summary of another kind": (top(summary=[1]), "summary must be an object"),
    "a reading of another kind": (top(reading="all"), "reading must be an object"),
}


def damaged(path, change):
    description, header, tensors = taken_apart(path.read_bytes())
    change(description, header, tensors)
    path.write_bytes(put_together(description, header, tensors))


@pytest.mark.parametrize(("change", "words"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_part_is_refused_in_one_sentence(path, change, words):
    damaged(path, change)
    for each in (load, Recommender.load, contents):
        with pytest.raises(InvalidInputError, match="damaged tribit model") as caught:
            each(path)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def ranker_tensor(whole):
    return next(name for name in taken_apart(whole)[2] if name.startswith("ranker:"))


def test_a_damaged_ranker_is_refused_by_whoever_ranks(path, recommender):
    """A model has no use for it: a ranker checks its own arrays."""
    whole = path.read_bytes()
    for name in recommender.ranker_.arrays():
        path.write_bytes(whole)
        damaged(path, without(f"ranker:{name}"))
        with pytest.raises(
            InvalidInputError, match=r"damaged tribit model \(the ranker is damaged"
        ):
            Recommender.load(path)
        np.testing.assert_array_equal(load(path).complete(), recommender.model_.complete())


def test_an_unknown_array_of_a_ranker_is_named(path):
    def change(description, _, tensors):
        description["ranker:colour"] = {"dtype": "F64", "shape": [1]}
        tensors["ranker:colour"] = np.ones(1).tobytes()

    damaged(path, change)
    with pytest.raises(InvalidInputError, match=r"the ranker is damaged .*unknown colour"):
        Recommender.load(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_wrong_numbers_of_a_ranker_are_refused(path, recommender, value):
    whole = path.read_bytes()
    for name, array in recommender.ranker_.arrays().items():
        if name == "coefficients" and value == -1.0:
            continue  # which have either sign
        path.write_bytes(whole)
        spoilt = np.array(array, dtype=np.float64)
        spoilt.flat[-1] = value
        damaged(
            path, lambda _, __, t, name=name, to=spoilt: t.update({f"ranker:{name}": to.tobytes()})
        )
        with pytest.raises(InvalidInputError, match=rf"the ranker is damaged \({name}"):
            Recommender.load(path)


def test_a_ranker_of_another_dtype_is_refused(path):
    name = ranker_tensor(path.read_bytes())

    def change(description, _, tensors):
        description[name]["dtype"], tensors[name] = "I8", tensors[name][: len(tensors[name]) // 8]

    damaged(path, change)
    with pytest.raises(InvalidInputError, match="must have the dtype F32 or F64; got 'I8'"):
        load(path)


@pytest.mark.parametrize(
    ("change", "words"), [({"colour": "red"}, "colour"), ({"row": [1]}, "row"), ({"layout": 3}, "")]
)
def test_a_damaged_reading_is_refused_in_one_sentence(path, change, words):
    damaged(path, lambda _, header, __: header["reading"].update(change))
    with pytest.raises(InvalidInputError, match="damaged tribit model") as caught:
        Recommender.load(path)
    assert words in str(caught.value).split("damaged tribit model")[1]


def test_errors_of_whoever_reads_a_file_are_errors_of_the_file(path):
    def make(_):
        raise KeyError("colour")

    with pytest.raises(InvalidInputError, match=r"damaged tribit model \(KeyError\('colour'\)\)"):
        read(path, make)


def test_equal_recommenders_have_equal_bytes(path, recommender, tmp_path):
    write(tmp_path / "again", contents(path))
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
    Recommender.load(path).save(tmp_path / "loaded")
    assert path.read_bytes() == (tmp_path / "loaded").read_bytes()
    recommender.save(tmp_path / "saved")
    assert path.read_bytes() == (tmp_path / "saved").read_bytes()
    json.dumps(contents(path).reading)


def test_contents_know_no_estimator(path, recommender):
    model = read(path, model_of)
    assert model.get_params()["rank"] == 2
    np.testing.assert_array_equal(model.complete(), recommender.model_.complete())
