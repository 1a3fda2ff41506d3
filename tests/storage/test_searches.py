"""The record of a search survives a file, but for its times."""

import json

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Observations, load
from tribit.selection.record import Average, Candidate, Search
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


def test_averages_failed_fits_and_mentions_survive(model):
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
        average=Average((candidates[1], candidates[0]), 0.4, 0.5),
        calibrated=True,
        regression=0.25,
    )
    found = unpacked_search(packed_search(search))
    same(found, search)
    assert found.candidates[-1].score == np.inf
    assert found.average.ranks == search.average.ranks
    assert (found.average.score, found.average.best_score) == (0.4, 0.5)
    assert "times the work" not in str(found.average)
    assert found.stop_reason.marked == search.stop_reason.marked
    assert found.regression == 0.25


def test_nothing_chosen_survives():
    labels = Observations.from_matrix(np.array([[1, -1], [0, 1]]))
    search = BinaryMatrixCompletion(random_state=0).fit(labels).search_
    found = unpacked_search(packed_search(search))
    assert found.best is None
    assert str(found) == str(search)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda record: record.pop("best"), "best"),
        (lambda record: record.update(best=10**6), "index"),
        (lambda record: record.update(scoring=3), "scoring"),
        (lambda record: record["candidates"][0].update(score="low"), "score"),
        (lambda record: record["candidates"][0]["settings"].update(l2=-1), "l2"),
        (lambda record: record["candidates"].append(3), "candidate"),
        (lambda record: record.update(average=[0]), "average"),
        (lambda record: record.update(average=[0, 1]), "average_score"),
        (lambda record: record.update(colour="red"), "colour"),
    ],
)
def test_a_damaged_record_is_refused_in_one_sentence(model, change, name):
    record = json.loads(packed_search(model.search_).tobytes())
    change(record)
    packed = np.frombuffer(json.dumps(record).encode(), dtype=np.uint8)
    with pytest.raises((ValueError, IndexError), match=name):
        unpacked_search(packed)
