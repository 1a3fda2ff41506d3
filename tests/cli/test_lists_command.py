"""``tribit recommend``: from a model and a table of what was seen to lists in a file."""

import csv
import re

import numpy as np
import pytest

from asked import n_unknown, recommend_file
from tribit import BinaryMatrixCompletion, InvalidInputError
from tribit.cli import main
from tribit.cli.actions import fit_file
from tribit.data.reading import observations_from_file
from tribit.ranking import CandidateRanker

NAMES = {"row": "user", "column": "item", "value": "rating"}
FIXED = {"gammas": (1, 0, 0), "rank": 2, "l2": 1.0, "l2_intercept": 1.0, "implicit_features": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write ratings of 30 users and 12 items and a model of them; return both paths."""
    folder = tmp_path_factory.mktemp("lists")
    rng = np.random.default_rng(5)
    lines = ["user,item,rating"]
    for user in range(30):
        items = rng.choice(12, size=6, replace=False)
        lines += [f"{100 + user},i{item},{rng.integers(1, 6)}" for item in items]
    ratings = folder / "ratings.csv"
    ratings.write_text("\n".join(lines) + "\n")
    model = fit_file(ratings, **NAMES, like_at=4, random_state=0, **FIXED)
    model.save(folder / "model.tribit")
    return ratings, folder / "model.tribit"


def rows_of(path):
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_the_lists_are_those_of_the_library(files, tmp_path):
    ratings, model_path = files
    out = tmp_path / "lists.csv"
    done = recommend_file(model_path, ratings, out, n=3, avoid_dislikes=0.7)
    assert (len(done), done.lengths.sum(), done.n_skipped, n_unknown(done)) == (30, 90, 0, 0)
    seen = observations_from_file(ratings, **NAMES, like_at=4)
    model = BinaryMatrixCompletion(like_at=4, random_state=0, **FIXED).fit(seen)
    expected = model.recommend(
        seen.row_ids,
        3,
        exclude_seen=seen,
        avoid_dislikes=0.7,
        ranker=CandidateRanker(random_state=0).fit(seen),
    )
    rows, columns, scores = expected.pairs()
    written = rows_of(out)
    assert [line["user"] for line in written] == [str(row) for row in rows]
    assert [line["item"] for line in written] == [str(column) for column in columns]
    assert [line["place"] for line in written] == ["1", "2", "3"] * 30
    np.testing.assert_allclose([float(line["score"]) for line in written], scores, rtol=1e-6)


def test_nothing_seen_is_listed_and_rows_can_be_chosen(files, tmp_path, capsys):
    ratings, model_path = files
    out = tmp_path / "lists.csv"
    options = ["-n", "20", "--for", "104", "--for", "101"]
    with pytest.raises(SystemExit) as stop:
        main(["recommend", str(model_path), str(ratings), "-o", str(out), *options])
    assert not stop.value.code
    assert re.search(r"rows +2\n", capsys.readouterr().out)
    written = rows_of(out)
    # Twelve items less the six that each has rated, in the order of --for.
    assert [line["user"] for line in written] == ["104"] * 6 + ["101"] * 6
    rated = {(line["user"], line["item"]) for line in rows_of(ratings)}
    assert not rated & {(line["user"], line["item"]) for line in written}


def test_without_a_ranker_the_probability_decides(files, tmp_path):
    ratings, model_path = files
    plain, weighed = tmp_path / "plain.csv", tmp_path / "weighed.csv"
    recommend_file(model_path, ratings, plain, n=5, ranker=False)
    recommend_file(model_path, ratings, weighed, n=5)
    scores = [float(line["score"]) for line in rows_of(plain)]
    assert max(scores) <= 0.0  # log-probabilities
    assert plain.read_text() != weighed.read_text()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n": 0}, "n must be a whole number, at least 1"),
        ({"avoid_dislikes": -1.0}, "avoid_dislikes must be a finite number, at least 0"),
        ({"row": "nobody"}, "nobody"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(files, tmp_path, options, match):
    ratings, model_path = files
    out = tmp_path / "lists.csv"
    with pytest.raises(InvalidInputError, match=match):
        recommend_file(model_path, ratings, out, **options)
    assert not out.exists()


def test_a_row_that_nobody_knows_gets_what_is_popular(files, tmp_path):
    _, model_path = files
    out = tmp_path / "lists.csv"
    done = recommend_file(model_path, None, out, n=4, rows=["107", "7"])
    assert (len(done), n_unknown(done)) == (2, 1)
    written = rows_of(out)
    assert [line["basis"] for line in written] == ["model"] * 4 + ["popularity"] * 4
    everyone = recommend_file(model_path, n=4, rows=["8", "7"]).table()
    assert everyone["item"][:4].tolist() == everyone["item"][4:].tolist()


def test_a_bundle_alone_leaves_out_what_was_seen(files, tmp_path):
    ratings, model_path = files
    alone, given = tmp_path / "alone.csv", tmp_path / "given.csv"
    recommend_file(model_path, None, alone, n=3)
    recommend_file(model_path, ratings, given, n=3)
    assert alone.read_text() == given.read_text()


def test_names_of_answers_are_not_ids(tmp_path):
    table = tmp_path / "likes.csv"
    table.write_text("place,item\n1,a\n1,b\n2,a\n")
    with pytest.warns(UserWarning, match="Only likes"):
        model = fit_file(table, row="place", column="item", random_state=0, **FIXED)
    model.save(tmp_path / "model.tribit")
    with pytest.raises(InvalidInputError, match="has the name of a column of the answer"):
        recommend_file(tmp_path / "model.tribit", None, tmp_path / "out.csv")
