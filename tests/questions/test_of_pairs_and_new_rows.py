"""Predictions for pairs, and answers for new rows from their entries alone: those of the model and of ``fold_in``."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
    Recommender,
)
from tribit.data.reading import Records
from tribit.questions.kinds import reading_for

ROWS, COLUMNS = [f"u{n}" for n in range(20)], [f"i{n}" for n in range(12)]


def entries(labels, rows):
    i, j = np.nonzero(labels)
    return Observations(i, j, labels[i, j], labels.shape, rows, COLUMNS)


@pytest.fixture(scope="module")
def recommender():
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((20, 12)) < 0.5, rng.choice([-1, 1], (20, 12)), 0)
    model = BinaryMatrixCompletion(rank=2, l2=1.0, search=False, n_jobs=1)
    return Recommender(model, random_state=0).fit(entries(labels, ROWS))


@pytest.fixture(scope="module")
def new():
    labels = np.zeros((2, 12), dtype=int)
    labels[0, [1, 4, 7]], labels[1, [0, 4]] = [1, -1, 1], [-1, 1]
    return entries(labels, ["zoe", "yan"])


def test_predictions_are_those_of_the_model(recommender):
    rows, columns = ["u3", "u0", "u3"], ["i5", "i5", "i0"]
    found = recommender.predictions((rows, columns))
    np.testing.assert_array_equal(found.probabilities, recommender.predict_proba(rows, columns))
    np.testing.assert_array_equal(found.labels, recommender.predict(rows, columns))
    assert (found.rows.tolist(), found.columns.tolist()) == (rows, columns)
    assert set(found.basis) == {"model"}
    assert (len(found), found.n_skipped) == (3, 0)
    column = recommender.predictions((ROWS, "i5"))
    np.testing.assert_array_equal(column.probabilities, recommender.predict_proba(ROWS, "i5"))
    assert (column.rows.tolist(), column.columns.tolist()) == (ROWS, ["i5"] * 20)
    one = recommender.predictions(("u3", "i5"))
    np.testing.assert_array_equal(one.probabilities, found.probabilities[:1])


def test_unknown_ids_are_refused_skipped_or_answered_by_what_is_known(recommender):
    pairs = ["u3", "zed", "u3", "zed"], ["i5", "i5", "new", "new"]
    with pytest.raises(InvalidInputError, match="'zed'"):
        recommender.predictions(pairs, unknown="error")
    found = recommender.predictions(pairs, unknown="skip")
    assert (found.rows.tolist(), found.n_skipped) == (["u3"], 3)
    assert found.facts() == {"pairs": "1 (3 with unknown ids left out)"}
    answered = recommender.predictions(pairs, unknown="popularity")
    assert answered.basis.tolist() == ["model", "column alone", "row alone", "average"]
    assert answered.facts() == {"pairs": "4 (3 with an unknown id or without entries: see basis)"}
    np.testing.assert_array_equal(answered.probabilities[:1], found.probabilities)
    # Without features a column alone is its bias and the level.
    scores = recommender.model_.scores_
    x = scores.factors.intercept + scores.factors.column_intercepts[5]
    likely = scores.probability(np.array([x], dtype=float))
    np.testing.assert_allclose(answered.probabilities[1], likely[0], rtol=1e-6)


PAIRS = [("u3", "i5"), ("u0", "i2")]
FRAME = pd.DataFrame(PAIRS, columns=["user", "item"])


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        [*map(list, PAIRS)],
        zip(*zip(*PAIRS, strict=True), strict=True),
        np.array(PAIRS),
        FRAME,
        FRAME.rename(columns={"user": "a", "item": "b"}),
        FRAME.assign(extra=1)[["extra", "item", "user"]],  # by the names of the fit
        pl.DataFrame({"user": ["u3", "u0"], "item": ["i5", "i2"]}),
        (["u3", "u0"], ["i5", "i2"]),
        (FRAME["user"], FRAME["item"]),
    ],
)
def test_a_tuple_is_rows_and_columns_and_all_else_has_a_pair_in_each_row(recommender, pairs):
    recommender = copy(recommender)
    recommender.reading_ = replace(recommender.reading_, row="user", column="item")
    found = recommender.predictions(pairs)
    assert [*zip(found.rows, found.columns, strict=True)] == PAIRS
    expected = recommender.predict_proba(["u3", "u0"], ["i5", "i2"])
    np.testing.assert_array_equal(found.probabilities, expected)


@pytest.mark.parametrize(
    "pairs",
    [3, "u3", ["u3"], ["u3", "i5"], np.array(["u3", "i5"]), [["u3"] * 3, ["i5"] * 3], {"u3": "i5"}],
)
def test_what_is_no_pairs_is_refused_in_one_sentence(recommender, pairs):
    with pytest.raises(InvalidTypeError, match=r"pairs must be a tuple \(rows, columns\) of two"):
        recommender.predictions(pairs)


def test_a_frame_of_pairs_has_two_columns_or_those_of_the_fit(recommender):
    with pytest.raises(InvalidInputError, match="has the columns user, item, extra; pass"):
        recommender.predictions(FRAME.assign(extra=1))


def test_lists_of_other_lengths_and_two_questions_at_once_are_refused(recommender, new):
    with pytest.raises(InvalidInputError, match="single id; got 2 and 3"):
        recommender.predictions((["u3", "u0"], ["i5"] * 3))
    advice = r"either pairs, as in predictions\(\(rows, columns\)\), or the entries"
    with pytest.raises(InvalidInputError, match=advice):
        recommender.predictions()
    with pytest.raises(InvalidInputError, match=advice):
        recommender.predictions(["u3"], ["i5"])
    with pytest.raises(InvalidInputError, match=advice):
        recommender.predictions((["u3"], ["i5"]), entries=new)
    with pytest.raises(InvalidInputError, match="rows, or the entries of new rows, not both"):
        recommender.recommend(["u3"], entries=new)
    with pytest.raises(InvalidInputError, match="either a row or the entries of a new row"):
        recommender.explain("u3", "i5", entries=new)


def test_predictions_for_new_rows_are_those_of_fold_in(recommender, new):
    more = recommender.fold_in(new)
    found = recommender.predictions(entries=new, columns=["i7", "i2"])
    assert found.rows.tolist() == ["zoe", "zoe", "yan", "yan"]
    assert found.columns.tolist() == ["i7", "i2"] * 2
    expected = more.predict_proba(found.rows, found.columns)
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-6)
    assert len(recommender.predictions(entries=new)) == 2 * 12
    assert recommender.shape_ == (20, 12)


def test_lists_of_new_rows_are_those_of_fold_in(recommender, new):
    expected = recommender.fold_in(new).recommend(["zoe", "yan"], 5)
    found = recommender.recommend(entries=new, n=5)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.columns, expected.columns)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert not {"i1", "i4", "i7"} & set(found.columns[0])


def test_reasons_of_a_new_row_are_those_of_fold_in(recommender, new):
    one = new.take(np.flatnonzero(new.rows == 0))
    one = Observations(one.rows, one.columns, one.labels, (1, 12), ["zoe"], COLUMNS)
    found = recommender.explain(entries=one, column="i2")
    assert found == recommender.fold_in(one).explain("zoe", "i2")
    assert {entry.column for entry in found.entries} == {"i1", "i4", "i7"}
    assert len(recommender.explain("u3", "i5", n=2).entries) == 2


def test_a_list_of_unknown_rows_is_skipped_too(recommender):
    found = recommender.recommend(["zed", "u3"], 3, unknown="skip")
    assert (found.rows.tolist(), found.n_skipped) == (["u3"], 1)
    np.testing.assert_array_equal(found.columns, recommender.recommend(["u3"], 3).columns)
    with pytest.raises(InvalidInputError, match="The model was not fitted on the row id 'zed'"):
        recommender.recommend(["zed"], unknown="skip")


def test_records_are_asked_about_by_the_text_of_their_ids(tmp_path):
    """A model of integers knows the ids of a file."""
    rng = np.random.default_rng(1)
    labels = np.where(rng.random((10, 8)) < 0.6, rng.choice([-1, 1], (10, 8)), 0)
    i, j = np.nonzero(labels)
    seen = Observations(i, j, labels[i, j], (10, 8), np.arange(100, 110), np.arange(8))
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    recommender = Recommender(model, random_state=0).fit(seen)
    path = tmp_path / "pairs.csv"
    path.write_text("who,what\n103,5\n100,2\n")
    records = reading_for(recommender, row="who", column="what").pairs(path)
    assert isinstance(records, Records)
    found = recommender.predictions(records)
    assert list(found.table())[:2] == ["who", "what"]
    np.testing.assert_array_equal(
        found.probabilities, recommender.predict_proba([103, 100], [5, 2])
    )
