"""The record of a search survives a file, but for its times."""

import json

import numpy as np
import pytest

from model_parts import put_together, taken_apart
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender, load
from tribit.selection.record import Candidate, Search, Stack
from tribit.simulate import low_rank_target
from tribit.storage.searches import packed_search, unpacked_search


def drawn(shape=(40, 30), seed=0):
    rng = np.random.default_rng(seed)
    M = 3 * low_rank_target(shape, 2, alpha=1.0, random_state=seed)
    labels = np.where(rng.random(shape) < 1 / (1 + np.exp(-M)), 1, -1)
    return np.where(rng.random(shape) < 0.5, labels, 0)


@pytest.fixture(scope="module")
def model():
    return BinaryMatrixCompletion(random_state=0, n_jobs=1).fit(drawn())


def same(found, search):
    assert [each.settings for each in found.candidates] == [
        each.settings for each in search.candidates
    ]
    for one, other in zip(found.candidates, search.candidates, strict=True):
        assert (one.score, one.scores, one.n_iter) == (other.score, other.scores, other.n_iter)
        assert one.seconds is None
    for name in ("scoring", "target", "n_held_out", "n_folds", "density", "calibrated", "meaning"):
        assert getattr(found, name) == getattr(search, name), name
    assert found.stop_reason == search.stop_reason
    assert found.best is found.candidates[search.candidates.index(search.best)]


@pytest.mark.usefixtures("short_trials")
def test_search_survives_saving(model, tmp_path):
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    same(copy.search_, model.search_)
    assert str(copy.search_).split("(")[0] == str(model.search_).split("(")[0]
    assert [row["chosen"] for row in copy.search_.table()].count(True) == 1


def test_a_model_of_a_file_is_saved_again_alike(model, tmp_path):
    model.save(tmp_path / "one")
    load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_stacks_failed_fits_and_mentions_survive(model):
    from tribit.errors import Message, parameter

    candidates = model.search_.candidates
    failed = Candidate(candidates[0].settings, np.inf, (np.inf, 0.5), 1.0, 3)
    search = Search(
        (*candidates, failed),
        candidates[1],
        "auc",
        "observed",
        10,
        3,
        1.5,
        Message(f"{parameter('max_time')} was reached"),
        0.5,
        stack=Stack((candidates[1], candidates[0]), (0.7, 0.3), 0.4, (0.5, np.inf)),
        calibrated=True,
        regression=0.25,
    )
    found = unpacked_search(packed_search(search).tobytes())
    same(found, search)
    assert found.candidates[-1].score == np.inf
    assert found.stack.members == (found.candidates[1], found.candidates[0])
    for name in ("weights", "score", "alone"):
        assert getattr(found.stack, name) == getattr(search.stack, name)
    assert found.stack.scores is None
    assert str(found.stack) == str(search.stack)
    assert found.stop_reason.marked == search.stop_reason.marked
    assert found.regression == 0.25


def test_nothing_chosen_survives():
    labels = Observations.from_matrix(np.array([[1, -1], [0, 1]]))
    search = BinaryMatrixCompletion(random_state=0).fit(labels).search_
    found = unpacked_search(packed_search(search).tobytes())
    assert found.best is None
    assert str(found) == str(search)


def stacked(**changes):
    """Return the fields of a stack of the first two candidates, with some changes."""
    fields = {"stack_weights": [0.6, 0.4], "stack_score": 0.5, "stack_alone": [0.6, 0.7]}
    return {"stack": [0, 1], **fields, **changes}


def test_the_fields_of_a_stack_are_read(model):
    record = json.loads(packed_search(model.search_).tobytes())
    record.update(stacked())
    found = unpacked_search(json.dumps(record).encode()).stack
    assert (found.weights, found.score, found.alone) == ((0.6, 0.4), 0.5, (0.6, 0.7))


CHANGES = [
    (lambda record: record.pop("best"), "best"),
    (lambda record: record.update(best=10**6), "index"),
    (lambda record: record.update(scoring=3), "scoring"),
    (lambda record: record.update(density=float("nan")), "density"),
    (lambda record: record.update(n_held_out=-1), "n_held_out"),
    (lambda record: record.update(calibrated=1), "calibrated"),
    (lambda record: record.update(regression="weak"), "regression"),
    (lambda record: record.update(meaning=None), "meaning"),
    (lambda record: record.update(stop_reason=3), "stop_reason"),
    (lambda record: record.update(candidates={}), "candidates"),
    (lambda record: record["candidates"][0].update(score="low"), "score"),
    (lambda record: record["candidates"][0].update(scores=[True]), "scores"),
    (lambda record: record["candidates"][0].update(n_iter=1.5), "n_iter"),
    (lambda record: record["candidates"][0].pop("settings"), "settings"),
    (lambda record: record["candidates"][0]["settings"].update(l2=-1), "l2"),
    (lambda record: record["candidates"].append(3), "candidate"),
    (lambda record: record.update(stack=[0]), "stack"),
    (lambda record: record.update(stack=[0, 1]), "stack_weights"),
    (lambda record: record.update(stacked(stack_weights=[1.0])), "stack_weights"),
    (lambda record: record.update(stacked(stack_weights=[1.0, 0.0])), "stack_weights"),
    (lambda record: record.update(stacked(stack_weights=[1.0, True])), "stack_weights"),
    (lambda record: record.update(stacked(stack_alone=None)), "stack_alone"),
    (lambda record: record.update(stacked(stack_score="low")), "stack_score"),
    (lambda record: record.update(stacked(stack=[0, 10**6])), "index"),
    (lambda record: record.update(colour="red"), "colour"),
]


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_a_damaged_record_is_refused_in_one_sentence(model, change, name):
    record = json.loads(packed_search(model.search_).tobytes())
    change(record)
    with pytest.raises((ValueError, IndexError), match=name):
        unpacked_search(json.dumps(record).encode())


# In a file, which is parsed when the search is asked for


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """The bytes of a saved recommender whose model has a search."""
    path = tmp_path_factory.mktemp("model") / "model.tribit"
    Recommender(model).fit(drawn()).save(path)
    return path.read_bytes()


def with_search(whole, path, packed):
    """Write the file with other bytes for its search."""
    description, header, tensors = taken_apart(whole)
    description["search"]["shape"], tensors["search"] = [len(packed)], packed
    path.write_bytes(put_together(description, header, tensors))


def sentence(read):
    """Return the error of reading a search: one sentence, the same each time."""
    texts = []
    for _ in range(2):
        with pytest.raises(InvalidInputError) as caught:
            read()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "\n" not in texts[0]
    assert texts[0].endswith("fit it again.")
    assert len(texts[0]) < 700
    return texts[0]


def check_damaged(path, model, words):
    """Check that the file loads and predicts, and that its search is refused wherever it is read."""
    copy, recommender = load(path), Recommender.load(path)
    np.testing.assert_array_equal(copy.complete(), model.complete())
    assert recommender.recommend(0, 3).columns.lengths.tolist() == [3]
    assert copy.fold_in(drawn()[:2]).shape_ == (42, 30)
    for read in (
        lambda: copy.search_,
        lambda: copy.record_.search,
        lambda: copy.fold_in(drawn()[:2]).search_,
        lambda: recommender.model_.search_,
        recommender.info,
        lambda: copy.refit(drawn()),
        lambda: copy.save(path.parent / "again"),
        lambda: recommender.save(path.parent / "again"),
    ):
        text = sentence(read)
        assert text.startswith(f"'{path}' is a damaged tribit model (")
        assert words in text
    assert not (path.parent / "again").exists()


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_a_damaged_search_is_refused_when_it_is_read_and_not_before(
    whole, model, tmp_path, change, name
):
    record = json.loads(taken_apart(whole)[2]["search"])
    change(record)
    with_search(whole, tmp_path / "model.tribit", json.dumps(record).encode())
    check_damaged(tmp_path / "model.tribit", model, name)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (b"", "Expecting value"),
        (b"{]", "Expecting"),
        (b"\xff" * 5, "utf-8"),
        (b"[1, 2]", "search must be an object"),
        (b'{"best": 1, "best": 2}', "its JSON names a key twice"),
        (DEEP, "nested too deep"),
    ],
    ids=["nothing", "no JSON", "no text", "a list", "a key twice", "deep"],
)
def test_bytes_that_are_no_search(whole, model, tmp_path, packed, words):
    with_search(whole, tmp_path / "model.tribit", packed)
    check_damaged(tmp_path / "model.tribit", model, words)


def test_a_search_of_another_dtype_or_shape_is_refused_by_the_load(whole, tmp_path):
    path = tmp_path / "model.tribit"
    for dtype, shape in (("I8", None), ("U8", "two dimensions"), ("F32", None)):
        description, header, tensors = taken_apart(whole)
        n = len(tensors["search"]) // 4 * 4
        tensors["search"] = tensors["search"][:n]
        sizes = [n // 4] if dtype == "F32" else [n]
        description["search"].update(dtype=dtype, shape=[2, n // 2] if shape else sizes)
        path.write_bytes(put_together(description, header, tensors))
        for read in (load, Recommender.load):
            with pytest.raises(InvalidInputError, match=r"damaged tribit model \(search must have"):
                read(path)


def test_a_search_is_parsed_once_and_only_where_it_is_read(whole, monkeypatch, tmp_path):
    path, parsed = tmp_path / "model.tribit", []
    path.write_bytes(whole)
    monkeypatch.setattr(
        "tribit.storage.searches.unpacked_search",
        lambda packed: parsed.append(1) or unpacked_search(packed),
    )
    model = Recommender.load(path).model_
    model.predict_proba([0], [0])
    assert not parsed
    assert model.search_ is model.record_.search is model.fold_in(drawn()[:1]).search_
    assert len(parsed) == 1


def test_a_file_without_a_search_has_none(whole, tmp_path):
    path = tmp_path / "model.tribit"
    description, header, tensors = taken_apart(whole)
    del description["search"], tensors["search"]
    path.write_bytes(put_together(description, header, tensors))
    model = load(path)
    assert model.search_ is model.record_.search is None
