"""Errors of measures against derivatives and the bootstrap; baselines against their formulas."""

import html
import json
import re

import numpy as np
import pytest
from scipy.optimize import minimize

from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, evaluate
from tribit.evaluation.ranking import by_popularity, ranking_report
from tribit.metrics.entries import (
    INFLUENCES,
    METRICS,
    calibration_error,
    interval,
    ndcg_of_rows,
    standard_error,
)
from tribit.metrics.full_ranking import unseen_report
from tribit.model.links import Logistic, Probit
from tribit.ranking import CandidateRanker
from tribit.simulate import tables

OPTIONS = {
    "rank": 2,
    "l2": 1.0,
    "l2_intercept": 1.0,
    "search": False,
    "n_jobs": 1,
    "random_state": 0,
}


def drawn(seed=0, shape=(60, 25), density=0.5):
    draws = np.random.default_rng(seed)
    X = 2 * draws.normal(size=(shape[0], 2)) @ draws.normal(size=(2, shape[1]))
    X += draws.normal(size=(shape[0], 1)) + draws.normal(size=shape[1])
    labels = np.where(draws.random(shape) < 1 / (1 + np.exp(-X)), 1, -1)
    i, j = np.nonzero(draws.random(shape) < density)
    return Observations(i, j, labels[i, j], shape)


@pytest.fixture(scope="module")
def parts():
    train, test = drawn().split(0.3, random_state=1)
    return BinaryMatrixCompletion(**OPTIONS).fit(train), train, test


@pytest.mark.parametrize("name", INFLUENCES)
def test_an_influence_is_the_derivative_in_the_weight_of_the_entry(name):
    draws = np.random.default_rng(3)
    x, labels = draws.normal(size=30).round(1), draws.choice([-1, 1], 30)  # with ties
    found = INFLUENCES[name](Probit(0.7), x, labels)
    for place in range(30):
        ends = []
        for step in (1e-4, -1e-4):
            weights = np.ones(30)
            weights[place] += step
            ends.append(METRICS[name].measure(Probit(0.7), x, labels, weights))
        assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-6)


@pytest.mark.parametrize("name", INFLUENCES)
def test_the_error_is_that_of_a_bootstrap_over_rows(name):
    draws = np.random.default_rng(4)
    rows = np.repeat(np.arange(150), draws.integers(1, 12, 150))
    tastes = 1.5 * draws.normal(size=150)[rows]  # entries of a row are alike
    x = tastes + draws.normal(size=rows.size)
    labels = np.where(draws.random(rows.size) < 1 / (1 + np.exp(-tastes - 0.3 * x)), 1, -1)
    x = x - 2 * tastes  # and the model wrong about some rows
    error = standard_error(INFLUENCES[name](Logistic(), x, labels), rows)
    places = [np.flatnonzero(rows == row) for row in range(150)]
    again = []
    for _ in range(400):
        some = np.concatenate([places[row] for row in draws.integers(150, size=150)])
        again.append(METRICS[name].measure(Logistic(), x[some], labels[some], None))
    assert error == pytest.approx(np.std(again), rel=0.12)
    alone = standard_error(INFLUENCES[name](Logistic(), x, labels), np.arange(rows.size))
    assert error > 1.15 * alone


def test_an_interval_stays_where_the_measure_can_be():
    assert interval(0.5, 0.1, 0.95) == pytest.approx((0.304, 0.696), abs=1e-3)
    assert interval(0.05, 0.1, 0.95)[0] == 0.0
    assert interval(0.95, 0.1, 0.95, 1.0)[1] == 1.0
    assert standard_error(np.ones(3), np.zeros(3, dtype=int)) is None


def test_ndcg_of_rows_by_hand():
    rows = np.array([0, 0, 0, 1, 1, 2, 2])
    x = np.array([3.0, 2.0, 1.0, 0.0, 1.0, 5.0, 4.0])
    labels = np.array([-1, 1, 1, 1, -1, 1, 1])
    log = np.log2
    first = (1 / log(3) + 1 / log(4)) / (1 + 1 / log(3))
    np.testing.assert_allclose(ndcg_of_rows(rows, x, labels), [first, 1 / log(3)])
    shuffled = np.random.default_rng(0).permutation(7)
    np.testing.assert_allclose(
        ndcg_of_rows(rows[shuffled], x[shuffled], labels[shuffled]), [first, 1 / log(3)]
    )
    assert ndcg_of_rows(rows[:1], x[:1], labels[:1]).size == 0


def test_what_is_known_without_the_seen_entries(parts):
    model, _, test = parts
    found = evaluate(model, test)
    x = model.decision_function(test.rows, test.columns)
    likely = model.predict_proba(test.rows, test.columns)
    assert found.calibration_error == pytest.approx(calibration_error(likely, test.labels))
    assert found.n_rows == np.unique(test.rows).size
    by_row = ndcg_of_rows(test.rows, x, test.labels)
    assert found.ndcg == pytest.approx(by_row.mean())
    z = 1.959964
    error = by_row.std(ddof=1) / np.sqrt(by_row.size)
    assert found.intervals["ndcg"] == pytest.approx(
        (found.ndcg - z * error, min(found.ndcg + z * error, 1.0)), abs=1e-6
    )
    error = standard_error(INFLUENCES["log_loss"](Logistic(), x, test.labels), test.rows)
    assert found.intervals["log_loss"] == pytest.approx(
        (found.log_loss - z * error, found.log_loss + z * error), abs=1e-6
    )
    assert found.lists is None
    assert found.unseen is None
    assert not found.baselines
    narrow = evaluate(model, test, level=0.5).intervals["auc"]
    wide = found.intervals["auc"]
    assert wide[0] < narrow[0] < found.auc < narrow[1] < wide[1]


def test_baselines_and_lists_beside(parts):
    model, train, test = parts
    found = evaluate(model, test, train, n=5)
    share = (train.n_likes + 1) / (train.n_observed + 2)
    simple = found.baselines["base rate"].measures
    p = np.where(test.labels > 0, share, 1 - share)
    assert simple["log_loss"] == pytest.approx(-np.mean(np.log(p)))
    assert simple["error_rate"] == pytest.approx(np.mean((test.labels > 0) != (share >= 0.5)))
    assert simple["auc"] == 0.5
    d1, d2 = train.shape

    def effects(z):
        x = z[0] + z[1 : 1 + d1][train.rows] + z[1 + d1 :][train.columns]
        value = np.logaddexp(0, -train.labels * x).sum() + 0.5 * z[1:] @ z[1:]
        slope = -train.labels / (1 + np.exp(train.labels * x))
        sides = np.bincount(train.rows, slope, d1), np.bincount(train.columns, slope, d2)
        return value, np.concatenate(
            [[slope.sum()], sides[0] + z[1 : 1 + d1], sides[1] + z[1 + d1 :]]
        )

    z = minimize(effects, np.zeros(1 + d1 + d2), jac=True, tol=1e-12).x
    x = z[0] + z[1 : 1 + d1][test.rows] + z[1 + d1 :][test.columns]
    beside = found.baselines["row and column biases"]
    log_loss = np.logaddexp(0, -test.labels * x)
    assert beside.measures["log_loss"] == pytest.approx(log_loss.mean(), abs=1e-3)
    ours = np.logaddexp(0, -test.labels * model.decision_function(test.rows, test.columns))
    difference, error = beside.differences["log_loss"]
    assert difference == pytest.approx(found.log_loss - beside.measures["log_loss"])
    gains = ours - log_loss
    paired = standard_error((gains - gains.mean()) / gains.size, test.rows)
    assert error == pytest.approx(paired, rel=0.02)
    assert difference < -2 * error
    assert found.lists == ranking_report(model, train, test, 5)
    popular = ranking_report(by_popularity(train), train, test, 5)
    names = (
        "ndcg",
        "precision",
        "recall",
        "dislikes_per_like",
        "coverage",
        "novelty",
        "popularity",
    )
    for measures, report in (
        (found.measures(), found.lists),
        (found.baselines["popularity"].measures, popular),
    ):
        assert {name: measures[f"lists_{name}"] for name in names} == {
            name: getattr(report, name) for name in names
        }
    assert not found.ranked
    ranker = CandidateRanker(random_state=0).fit(train)
    ranked = evaluate(model, test, train, n=5, ranker=ranker, avoid_dislikes=0.5)
    assert ranked.ranked
    assert ranked.lists == ranking_report(model, train, test, 5, ranker=ranker, avoid_dislikes=0.5)


def test_very_many_lists_are_a_sample(parts, monkeypatch):
    model, train, test = parts
    monkeypatch.setattr("tribit.evaluation.held_out.MAX_LISTS", 7)
    assert evaluate(model, test, train).lists.n_users == 7


def test_ids_are_matched():
    whole = drawn(2)
    ids = [f"r{i}" for i in range(60)], [f"c{j}" for j in range(25)]
    named = Observations(whole.rows, whole.columns, whole.labels, whole.shape, *ids)
    found = []
    for data in (whole, named):
        train, test = data.split(0.3, random_state=1)
        found.append(evaluate(BinaryMatrixCompletion(**OPTIONS).fit(train), test, train))
    assert found[0] == found[1]


@pytest.mark.parametrize("sign", [1, -1])
def test_one_label_alone_is_ranked_among_unseen_cells(sign):
    whole = drawn(3)
    liked = whole.take(np.flatnonzero(whole.labels > 0))
    one = Observations(liked.rows, liked.columns, sign * liked.labels, liked.shape)
    train, test = one.split(0.2, random_state=1)
    gammas = (0, 1, 0) if sign > 0 else (0, 0, 1)
    model = BinaryMatrixCompletion(**{**OPTIONS, "gammas": gammas, "rho": 0.0, "radius": None})
    model.fit(train)
    found = evaluate(model, test, train)
    placed = (model.scores_.place_entries(each) for each in (train, test))
    assert found.unseen == unseen_report(model.scores_, *placed)
    assert (found.lists is None) == (sign < 0)
    assert found.auc is None
    assert found.calibration_error is None
    effects = found.baselines["row and column biases"].measures
    assert 0.5 < effects["unseen_auc"] < 1.0
    facts = found.facts()
    assert facts["AUC among unseen cells"] == f"{found.unseen.auc:.4f}"
    assert "accuracy" not in facts
    assert ("NDCG@10" in facts) == ("by popularity" in facts.get("NDCG@10", "")) == (sign > 0)
    assert not any("dislikes per like" in title for title in facts)
    assert f"average precision among unseen cells {effects['unseen_average_precision']:.4f}" in str(
        found
    )


def test_entries_that_were_seen_are_no_test(parts):
    model, train, _ = parts
    with pytest.raises(InvalidInputError, match=f"{train.n_observed} of the test entries"):
        evaluate(model, train, train)
    with pytest.raises(InvalidInputError, match="level must be in"):
        evaluate(model, train, level=1.0)


def test_it_is_printed_and_written(parts):
    model, train, test = parts
    found = evaluate(model, test, train)
    text = str(found)
    low, high = found.intervals["auc"]
    assert re.search(rf"AUC +{found.auc:.4f} \({low:.4f} to {high:.4f}\)", text)
    assert text.startswith(f"{test.n_observed} entries of {found.n_rows} rows (95% intervals")
    assert "baseline: row and column biases" in text
    assert text.splitlines()[0].endswith("clustered by row; lists by P(like) alone)")
    popular = found.baselines["popularity"].measures
    shown = f"{found.lists.ndcg:.4f}; by popularity {popular['lists_ndcg']:.4f}"
    assert re.search(rf"NDCG@10 +{shown}\n", text)
    again = json.loads(json.dumps(found.to_dict()))
    assert again["auc"] == found.auc
    assert again["baselines"]["base rate"]["measures"]["auc"] == 0.5
    hash(found)


def test_it_speaks_of_the_columns_of_the_table():
    table = tables.ratings(random_state=0)
    seen = Observations.from_frame(table, row="user", column="item", value="stars", like_at=4)
    train, test = seen.split(0.2, random_state=0)
    model = BinaryMatrixCompletion(**OPTIONS)
    assert "clustered by user" in evaluate(model.fit(train), test).title()
    rules = {"row": "user", "column": "item", "value": "stars", "like_at": 4}
    text = str(evaluate(model.fit(table, **rules), test))
    assert f"entries of {np.unique(test.rows).size} users" in text
    assert "NDCG of a user's entries" in text


def test_one_row_has_no_interval():
    model = BinaryMatrixCompletion(**OPTIONS).fit(drawn())
    found = evaluate(model, Observations([3, 3], [1, 2], [1, -1], (60, 25)))
    assert not found.intervals
    assert "(" not in found.facts()["AUC"]


def test_a_measure_without_any_spread_has_no_interval():
    A = np.sign(np.outer(np.arange(20) - 9.5, np.arange(12) - 5.5)).astype(int)
    found = evaluate(BinaryMatrixCompletion(**OPTIONS).fit(A), A)
    assert found.facts()["accuracy"] == "1.0000"
    assert found.facts()["log-loss"].endswith(")")


def test_a_notebook_shows_the_baselines_too():
    seen = Observations.from_matrix(
        np.where(np.random.default_rng(0).random((30, 20)) < 0.5, 1, -1)
    )
    train, test = seen.split(0.2, random_state=0)
    found = evaluate(BinaryMatrixCompletion(rank=1, search=False, n_jobs=1).fit(train), test, train)
    page = found._repr_html_()
    for title, fact in found.facts().items():
        assert f">{html.escape(title)}</th>" in page
        assert f">{fact}</td>" in page
    assert "baseline: base rate" in page
