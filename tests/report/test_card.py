"""The model card of a report: the meaning of a like in words, and the origin of the data and of the model."""

import hashlib
import shlex

import numpy as np
import pytest

from report_models import Parsed, bundle, draw
from tribit import Recommender
from tribit.data.reading import Reading
from tribit.nouns import Nouns
from tribit.report import make_report
from tribit.report.card import describe_like

LONG = {"row": "user", "column": "film"}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            {"value": "stars", "like_at": 4.0},
            "a value of at least 4 under 'stars'; a dislike is a lower one",
        ),
        (
            {"like_at": 3.5, "dislike_at": 2, "zeros": "unobserved"},
            "a value of at least 3.5; a dislike is one of at most 2; those between are left out; 0 is unobserved",
        ),
        (
            {"value": "vote", "like": ["yes", "aye"], "dislike": "no"},
            "yes, aye under 'vote'; a dislike is no",
        ),
        ({}, "+1, 1, yes or true; a dislike is \N{MINUS SIGN}1, 0, no or false"),
    ],
)
def test_a_like_is_said_by_the_rules_of_reading(rules, expected):
    reading = Reading(**LONG, **rules)
    assert describe_like(reading, Nouns.of(reading), alone=False) == expected


def test_of_pairs_alone_a_like_is_a_pair():
    reading = Reading(**LONG)
    text = describe_like(reading, Nouns.of(reading), alone=True)
    assert text == "a user-film pair in the table; no dislike was observed"


def test_tables_commands_and_the_file_are_on_the_page(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = draw((20, 12), density=0.6)
    records = [
        f"u{i},f{j},{y}" for i, j, y in zip(seen.rows, seen.columns, seen.labels, strict=True)
    ]
    (tmp_path / "my votes.csv").write_text(
        "\n".join(["user,film,vote", *records]), encoding="utf-8"
    )
    (tmp_path / "more.csv").write_text("user,film,vote\nnew,f1,1\n", encoding="utf-8")
    fit = ["fit", "my votes.csv", "-o", "m", "--rank", "1", "--l2", "1", "--gammas", "1,0,0", "-q"]
    update = ["update", "m", "more.csv", "-o", "m"]
    for command in (fit, update, ["report", "m", "-o", "page.html"]):
        assert run(*command)[0] == 0
    commands = [
        shlex.join(["tribit", *("MODEL" if word == "m" else word for word in each)])
        for each in (fit, update)
    ]
    kept = Recommender.load("m").summary_["origin"]
    assert kept == {"files": ["my votes.csv", "more.csv"], "commands": commands}
    words = Parsed((tmp_path / "page.html").read_text(encoding="utf-8")).words
    n = len(records) + 1
    for text in (
        " ".join(commands),
        hashlib.sha256((tmp_path / "m").read_bytes()).hexdigest(),
        f"my votes.csv, more.csv: {n} entries of 21 users and 12 films",
        "under 'vote'; a dislike is",
    ):
        assert text in words


def test_the_measures_stand_beside_two_baselines(tmp_path):
    data = draw()
    test = np.random.default_rng(0).random(len(data)) < 0.2
    train, held_out = data.hold_out(test)
    report = make_report(bundle(train), held_out)
    rate = (
        np.mean(held_out.labels < 0)
        if 2 * train.n_likes > len(train)
        else np.mean(held_out.labels > 0)
    )
    text = report.facts["card"]["quality"]["error rate"]
    assert text.startswith(
        f"{100 * report.evaluation.error_rate:.1f}% of {len(held_out)} test entries"
    )
    assert "row and column biases" in text
    assert text.endswith(f"the more frequent label {100 * rate:.1f}%")
    assert "Not for causal claims." in report.facts["card"]["lines"]["Unsuitable uses"]
    assert "Model file" not in report.facts["card"]["lines"]
