"""``--weight`` of the commands that read a table of entries."""

import json

import numpy as np
import pandas as pd
import pytest

from tribit import Recommender, evaluate
from tribit.data.reading import Reading

RULES = {"row": "user", "column": "item", "value": "label", "weight": "n"}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write training and test entries with weights, the test also without them, and later entries."""
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    users, items = np.nonzero(draws.random((20, 12)) < 0.7)
    frame = pd.DataFrame({"user": users, "item": items})
    frame["label"] = draws.choice([-1, 1], len(frame))
    frame["n"] = draws.integers(1, 5, len(frame))
    part = draws.integers(0, 10, len(frame))
    frame[part > 1].to_csv("train.csv", index=False)
    frame[part == 0].to_csv("test.csv", index=False)
    frame[part == 1].to_csv("later.csv", index=False)
    frame[part == 0].drop(columns="n").to_csv("plain.csv", index=False)


def test_files_with_weights_are_fitted_evaluated_and_added(run, files, tmp_path):
    del files
    options = [each for name, value in RULES.items() for each in (f"--{name}", value)]
    fixed = ["--rank", "1", "--l2", "1", "--l2-intercept", "1", "--gammas", "1,0,0", "--no-search"]
    code, _, err = run("fit", "train.csv", "-o", "model", *options, *fixed, "-q")
    assert code == 0, err
    recommender = Recommender.load("model")
    train, test = (Reading(**RULES).read(name) for name in ("train.csv", "test.csv"))
    np.testing.assert_array_equal(recommender.seen_.weights, train.weights)

    code, out, err = run("evaluate", "model", "test.csv", "--json")
    assert code == 0, err
    found, expected = json.loads(out), evaluate(recommender.model_, test)
    assert found["weight"] == test.weights.sum()
    assert found["log_loss"] == pytest.approx(expected.log_loss)
    code, out, _ = run("evaluate", "model", "test.csv")
    assert f"(weight {test.weights.sum():g};" in out

    code, _, err = run("evaluate", "model", "plain.csv")
    assert code == 2
    assert "has no column 'n'" in err
    code, out, err = run("evaluate", "model", "plain.csv", "--weight", "none", "--json")
    assert code == 0, err
    plain = evaluate(recommender.model_, test.with_weights(None)).log_loss
    assert json.loads(out)["log_loss"] == pytest.approx(plain)
    assert json.loads(out)["weight"] is None

    code, _, err = run("update", "model", "later.csv", "-o", "again")
    assert code == 0, err
    later = Reading(**RULES).read("later.csv")
    total = train.weights.sum() + later.weights.sum()
    assert Recommender.load("again").seen_.weights.sum() == total
    code, out, err = run("predict", "model", "plain.csv", "-o", tmp_path / "scores.csv")
    assert code == 0, err  # pairs need no weights


def test_a_scale_without_weights_is_refused(run, files):
    del files
    code, _, err = run("fit", "train.csv", "-o", "model", "--weight-scale", "log1p")
    assert code == 2
    assert "--weight-scale log1p is the scale of weights, and there are none; pass --weight" in err
    assert "Traceback" not in err
