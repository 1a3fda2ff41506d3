"""``--time``, ``--half-life``, ``split --by time`` and ``evaluate --by`` of the command line."""

import json

import numpy as np
import pandas as pd
import pytest

from tribit import Recommender, evaluate
from tribit.data.reading import Reading

RULES = {"row": "user", "column": "item", "value": "label", "time": "when"}
OPTIONS = [each for name, value in RULES.items() for each in (f"--{name}", value)]
FIXED = [
    "--rank",
    "1",
    "--l2",
    "1",
    "--l2-intercept",
    "1",
    "--gammas",
    "1,0,0",
    "--implicit-features",
    "no",
]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write entries with times of three months; every fifth pair is given twice."""
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    users, items = np.nonzero(draws.random((60, 30)) < 0.7)
    frame = pd.DataFrame({"user": users, "item": items})
    frame["label"] = draws.choice([-1, 1], len(frame))
    frame["when"] = 1_767_225_600 + draws.integers(0, 90 * 86400, len(frame))
    frame = pd.concat([frame, frame[::5].assign(when=frame["when"] + 1000)])
    frame.sample(frac=1, random_state=0).to_csv("all.csv", index=False)
    return frame


def test_a_file_is_split_by_time(run, table):
    code, out, err = run(
        "split",
        "all.csv",
        "-o",
        "train.csv",
        "test.csv",
        *OPTIONS[:4],
        *OPTIONS[6:],
        "--by",
        "time",
    )
    assert code == 0, err
    assert "the times in column 'when' are seconds since 1970 (guessed)" in err
    train, test = (pd.read_csv(name) for name in ("train.csv", "test.csv"))
    assert f"{len(test):,} records" in out
    assert len(train) + len(test) == len(table)
    latest = [part.groupby(["user", "item"])["when"].max() for part in (train, test)]
    assert latest[0].max() < latest[1].min()
    assert not set(latest[0].index) & set(latest[1].index)
    assert len(latest[1]) == pytest.approx(0.1 * sum(map(len, latest)), abs=1)

    code, _, err = run(
        "split",
        "all.csv",
        "-o",
        "train.csv",
        "test.csv",
        *OPTIONS[:4],
        *OPTIONS[6:],
        "--by",
        "time",
        "--last",
        "2",
    )
    assert code == 0, err
    train, test = (pd.read_csv(name) for name in ("train.csv", "test.csv"))
    assert (test.groupby("user")["item"].nunique() == 2).all()
    assert (train.groupby("user")["when"].max() < test.groupby("user")["when"].max()).all()

    for options, sentence in (
        (["--last", "2"], "--last 2 needs --by time"),
        (["--by", "time"], "the entries have none; pass --time, the name of their column"),
        (["--by", "date"], "--by must be one of random, time"),
    ):
        code, _, err = run("split", "all.csv", "-o", "a.csv", "b.csv", *OPTIONS[:4], *options)
        assert code == 2
        assert sentence in err


def test_a_fit_with_times_says_what_it_did_and_is_evaluated_by_month(run, table):
    del table
    run("split", "all.csv", "-o", "train.csv", "test.csv", *OPTIONS[:4])
    code, out, err = run("fit", "train.csv", "-o", "model", *OPTIONS, *FIXED)
    assert code == 0, err
    facts = dict(line.split(None, 1) for line in out.splitlines())
    assert facts["times"].startswith("from 2026-01-01 to 2026-03-")
    assert facts["half-life"].startswith("none: loss on the latest")
    assert "the times in column 'when' are seconds since 1970 (guessed)" in err
    recommender = Recommender.load("model")
    assert recommender.seen_.times is not None

    test = Reading(**RULES).read("test.csv")
    code, out, err = run("evaluate", "model", "test.csv", "--by", "month", "--json")
    assert code == 0, err
    found = json.loads(out)
    whole = evaluate(recommender.model_, test)
    assert found["log_loss"] == pytest.approx(whole.log_loss)
    months = test.times.astype("datetime64[M]")
    assert [each["n_entries"] for each in found["periods"]] == np.unique(
        months, return_counts=True
    )[1].tolist()
    for period, month in zip(found["periods"], np.unique(months), strict=True):
        part = test.take(np.flatnonzero(months == month))
        alone = evaluate(recommender.model_, part)
        assert period["first"][:7] == str(month)
        assert period["n_rows"] == alone.n_rows
        assert period["base_rate"] == pytest.approx(part.base_rate)
        assert period["measures"]["log_loss"] == pytest.approx(alone.log_loss)
        assert period["intervals"]["log_loss"] == pytest.approx(alone.intervals["log_loss"])
    code, out, err = run("evaluate", "model", "test.csv", "--by", "4")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[-5].split()[:4] == ["first", "last", "entries", "users"]
    assert sum(int(line.split()[2]) for line in lines[-4:]) == len(test)
    code, _, err = run("evaluate", "model", "test.csv", "--by", "month", "-o", "measures.csv")
    assert code == 0, err
    written = pd.read_csv("measures.csv")
    assert set(whole.table()["measure"]) <= set(written["measure"][written["first"].isna()])
    assert set(written["measure"][written["first"].notna()]) == {
        "accuracy",
        "error_rate",
        "log_loss",
        "auc",
    }

    for options, sentence in (
        (["--by", "fortnight"], "--by must be one of day, week, month, quarter, year"),
        (["--by", "0"], "by"),
        (["--by", "3", "--time", "none"], "--by 3 is about the times of the test entries"),
    ):
        code, _, err = run("evaluate", "model", "test.csv", *options)
        assert code == 2
        assert sentence in err


def test_a_half_life_is_given_in_days(run, table):
    del table
    for days, shown in (("30", "30 days"), ("none", None)):
        code, out, err = run(
            "fit", "all.csv", "-o", "model", *OPTIONS, *FIXED, "--half-life", days, "-q"
        )
        assert code == 0, err
        facts = dict(line.split(None, 1) for line in out.splitlines())
        assert facts.get("half-life") == shown
        assert (Recommender.load("model").seen_.weights is None) == (shown is None)
    for days, sentence in (
        ("-3", "--half-life must be a positive finite number"),
        ("soon", "--half-life must be auto"),
    ):
        code, _, err = run("fit", "all.csv", "-o", "model", *OPTIONS, *FIXED, "--half-life", days)
        assert code == 2
        assert sentence in err
    code, _, err = run("fit", "all.csv", "-o", "model", *OPTIONS[:6], *FIXED, "--half-life", "30")
    assert code == 2
    assert (
        "--half-life 30.0 is about the age of entries, and these have no times; pass --time" in err
    )
