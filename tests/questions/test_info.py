"""Facts about a recommender, in words and in numbers."""

import json

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Recommender
from tribit.cli import main

LABELS = np.random.default_rng(0).choice([-1, 0, 1], (40, 30), p=[0.2, 0.5, 0.3])


@pytest.fixture(scope="module")
def recommender():
    model = BinaryMatrixCompletion(n_candidates=4, members=1, random_state=0, n_jobs=1)
    return Recommender(model, random_state=0).fit(LABELS)


def test_numbers_are_those_of_the_data_and_of_the_fit(recommender):
    numbers, model = recommender.info().numbers, recommender.model_
    likes, dislikes = int((LABELS > 0).sum()), int((LABELS < 0).sum())
    assert (numbers["rows"], numbers["columns"]) == (40, 30)
    assert (numbers["likes"], numbers["dislikes"]) == (likes, dislikes)
    assert numbers["entries"] == likes + dislikes
    assert numbers["density"] == pytest.approx((likes + dislikes) / 1200)
    assert numbers["base_rate"] == pytest.approx(likes / (likes + dislikes))
    counts = np.sort(np.abs(LABELS).sum(axis=1))
    assert numbers["entries_per_row"] == [counts[0], np.median(counts), counts[-1]]
    assert numbers["hyperparameters"]["rank"] == model.rank_
    assert numbers["hyperparameters"]["rho"] == pytest.approx(model.rho_)
    assert numbers["search"]["candidates"] == len(model.search_.candidates)
    assert numbers["search"]["families"] == {
        name: each.score for name, each in model.search_.families().items()
    }
    assert 0 < numbers["validation"]["log_loss"] < 1
    assert (numbers["n_iter"], numbers["objective"]) == (model.n_iter_, model.objective_)
    assert (numbers["ranker"], numbers["entries_kept"], numbers["converged"]) == (True,) * 3


def test_json_has_the_numbers_and_the_words(recommender, tmp_path, capsys):
    recommender.save(tmp_path / "m.tribit")
    with pytest.raises(SystemExit):
        main(["info", str(tmp_path / "m.tribit"), "--json"])
    found = json.loads(capsys.readouterr().out)
    info = recommender.info()
    assert found == {**info.numbers, "evaluation": None, "facts": info.about}


def test_without_a_search_and_entries_numbers_are_null(tmp_path):
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1).fit(LABELS)
    model.save(tmp_path / "m.tribit")
    numbers = Recommender.load(tmp_path / "m.tribit").info().numbers
    assert (numbers["rows"], numbers["columns"]) == (40, 30)
    unknown = ("likes", "density", "base_rate", "search", "validation", "entries_per_row")
    assert [numbers[name] for name in unknown] == [None] * 6
    assert not numbers["entries_kept"]


def test_baselines_of_the_test_set_are_beside_those_of_the_validation_set():
    model = BinaryMatrixCompletion(n_candidates=4, members=1, random_state=0, n_jobs=1)
    info = Recommender(model, random_state=0).fit(LABELS, hold_out=0.2).info()
    facts = info.facts()
    for name in ("  baseline: base rate", "  baseline: row and column biases"):
        assert facts[name] == info.about[name]
        assert facts[f"{name} (test)"] == info.evaluation.facts()[name.strip()]
