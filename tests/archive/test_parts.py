"""Parts of a bundle beside its model: written, read, damaged."""

import json

import numpy as np
import pytest

from model_parts import put_together, taken_apart
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, load
from tribit.archive.parts import Parts
from tribit.completion.files import load_bundle
from tribit.storage import save

RNG = np.random.default_rng(0)
A = np.where(RNG.random((9, 7)) < 0.6, RNG.choice([-1, 1], (9, 7)), 0)
A[4] = 0


@pytest.fixture
def seen():
    i, j = np.nonzero(A)
    ids = {"row_ids": [f"r{n}" for n in range(9)], "column_ids": [f"c{n}" for n in range(7)]}
    return Observations.from_pairs(i, j, A[i, j], shape=A.shape, **ids)


@pytest.fixture
def bundle(seen, tmp_path):
    model = BinaryMatrixCompletion(rank=2, l2=1.0, n_jobs=1, random_state=0).fit(seen)
    parts = Parts(
        seen,
        {"numbers": np.arange(6.0).reshape(2, 3)},
        {"row": "user", "like": ["yes"]},
        {"rows": 9},
    )
    save(model, tmp_path / "bundle", parts)
    return tmp_path / "bundle"


def test_all_parts_come_back(bundle, seen):
    model, parts = load_bundle(bundle)
    np.testing.assert_array_equal(parts.seen.to_sparse().toarray(), A)
    assert parts.seen.row_ids.tolist() == model.row_ids_.tolist() == seen.row_ids.tolist()
    np.testing.assert_array_equal(parts.ranker["numbers"], np.arange(6.0).reshape(2, 3))
    assert parts.reading == {"row": "user", "like": ["yes"]}
    assert parts.summary == {"rows": 9}


def test_the_model_of_a_bundle_is_a_model(bundle, seen):
    model = BinaryMatrixCompletion(rank=2, l2=1.0, n_jobs=1, random_state=0).fit(seen)
    np.testing.assert_array_equal(load(bundle).complete(), model.complete())


def test_what_is_left_out_is_none(seen, tmp_path):
    model = BinaryMatrixCompletion(rank=1, l2=1.0, n_jobs=1, random_state=0).fit(seen)
    save(model, tmp_path / "bare", Parts())
    model.save(tmp_path / "model")
    for name in ("bare", "model"):
        _, parts = load_bundle(tmp_path / name)
        assert parts == parts
        assert (parts.seen, parts.ranker, parts.reading, parts.summary) == (None,) * 4


def int32(values):
    return np.array(values, dtype="<i4").tobytes()


def first(name, value, dtype):
    def change(_, __, tensors):
        array = np.frombuffer(tensors[name], dtype=dtype).copy()
        array[0] = value
        tensors[name] = array.tobytes()

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (first("seen:columns", 99, "<i4"), "a column that the model does not have"),
        (first("seen:columns", -1, "<i4"), "a column that the model does not have"),
        (first("seen:columns", 6, "<i4"), "must rise within each row"),
        (first("seen:counts", 99, "<i4"), "does not count"),
        (first("seen:counts", -1, "<i4"), "does not count"),
        (first("seen:labels", 0, "i1"), "other labels"),
        (lambda d, _, t: (d.pop("seen:labels"), t.pop("seen:labels")), "seen:labels is missing"),
        (lambda d, _, __: d["seen:labels"].update(dtype="U8"), "dtype"),
        (lambda _, h, __: h["bundle"].update(seen="yes"), "seen must be true or false"),
        (lambda _, h, __: h["bundle"].update(seen=False), "a ranker needs the entries"),
        (lambda _, h, __: h["bundle"].update(seen=False, ranker=False), "is unknown"),
        (lambda _, h, __: h["bundle"].update(ranker=False), "is unknown"),
        (lambda _, h, __: h["bundle"].pop("reading"), "reading is missing"),
        (lambda _, h, __: h["bundle"].update(summary=[1]), "summary must be an object"),
        (lambda _, h, __: h.update(bundle=None), "is unknown"),
        (lambda _, h, __: h.update(bundle="all"), "bundle must be an object"),
    ],
)
def test_a_damaged_part_is_refused_in_one_sentence(bundle, change, words):
    description, header, tensors = taken_apart(bundle.read_bytes())
    change(description, header, tensors)
    bundle.write_bytes(put_together(description, header, tensors))
    for read in (load, load_bundle):
        with pytest.raises(InvalidInputError, match="damaged tribit model") as caught:
            read(bundle)
        assert words in str(caught.value)


def test_equal_bundles_have_equal_bytes(bundle, seen, tmp_path):
    model, parts = load_bundle(bundle)
    save(model, tmp_path / "again", parts)
    assert bundle.read_bytes() == (tmp_path / "again").read_bytes()
    json.dumps(parts.reading)
