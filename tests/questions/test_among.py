"""Lists among some columns alone: the same in Python, on the command line and over HTTP."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from service_parts import client_of
from tribit import InvalidInputError, Observations, Recommender
from tribit.cli import app

ITEMS = [f"item{j}" for j in range(18)]
AMONG = ["item3", "item11", "item7", "item14"]


@pytest.fixture(scope="module")
def recommender():
    draws = np.random.default_rng(4)
    labels = draws.choice([-1, 0, 0, 1], (25, 18))
    rows, columns = np.nonzero(labels)
    seen = Observations.from_pairs(
        rows,
        columns,
        labels[rows, columns],
        shape=labels.shape,
        row_ids=[f"user{i}" for i in range(25)],
        column_ids=ITEMS,
    )
    return Recommender(random_state=0).fit(seen)


@pytest.fixture(scope="module")
def path(recommender, tmp_path_factory):
    path = tmp_path_factory.mktemp("among") / "model.tribit"
    recommender.save(path)
    return path


@pytest.mark.parametrize(
    "options", [{}, {"ranker": False}, {"level": None}, {"exclude_seen": False}]
)
def test_lists_are_the_full_ranking_without_the_other_columns(recommender, options):
    every = recommender.recommend(["user2", "user9"], len(ITEMS), **options)
    some = recommender.recommend(["user2", "user9"], 3, among=AMONG, **options)
    for row in range(2):
        wanted = [name for name in every.columns[row] if name in AMONG][:3]
        assert [name for name in some.columns[row] if name is not None] == wanted
        places = [every.columns[row].tolist().index(name) for name in wanted]
        assert some.scores[row, : len(wanted)].tolist() == every.scores[row, places].tolist()


def test_lists_are_no_longer_than_the_columns_asked_for(recommender):
    found = recommender.recommend("user2", 10, among=[*AMONG, "item3"], exclude_seen=False)
    assert found.lengths.tolist() == [4]


def test_new_rows_have_lists_among_some_columns(recommender):
    entries = Observations.from_pairs(
        [0, 0], [0, 1], [1, -1], row_ids=["new"], column_ids=["item0", "item1"]
    )
    alone = recommender.recommend(entries=entries, n=3, level=None, among=AMONG)
    folded = recommender.fold_in(entries).recommend(["new"], 3, level=None, among=AMONG)
    assert alone.columns.tolist() == folded.columns.tolist()
    assert alone.scores.tolist() == folded.scores.tolist()
    assert set(alone.columns[0]) <= set(AMONG)


def test_python_the_command_line_and_http_agree_to_the_bit(recommender, path):
    python = recommender.recommend(["user2"], 3, level=None, among=AMONG)
    options = [part for name in AMONG for part in ("--among", name)]
    typed = ["recommend", str(path), "--for", "user2", "-n", "3", "--level", "none", "--json"]
    printed = CliRunner().invoke(app, [*typed, *options])
    assert printed.exit_code == 0, printed.output
    table = json.loads(printed.stdout)
    with client_of(path) as client:
        answer = client.post("/recommend", json={"rows": ["user2"], "n": 3, "among": AMONG})
        assert answer.status_code == 200, answer.text
        items = answer.json()["lists"][0]["items"]
        # Kept lists of all columns are not those of some.
        every = client.post("/recommend", json={"rows": ["user2"], "n": 3}).json()
    wanted, scores = python.columns[0].tolist(), python.scores[0].tolist()
    assert [each["column"] for each in table] == [each["column"] for each in items] == wanted
    assert [each["score"] for each in table] == [each["score"] for each in items] == scores
    assert every["lists"][0]["items"] != items


@pytest.mark.parametrize(("among", "reason"), [(["nope"], "nope"), ([], "no column")])
def test_unknown_columns_and_none_are_refused(recommender, path, among, reason):
    with pytest.raises(InvalidInputError, match=reason):
        recommender.recommend("user2", among=among)
    if among:
        with client_of(path) as client:
            answer = client.post("/recommend", json={"rows": ["user2"], "among": among})
        assert answer.status_code == 404
        assert reason in answer.json()["error"]
