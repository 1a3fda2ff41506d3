import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, ndtr
from scipy.stats import rankdata
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from other_parts import with_factors
from tribit import (
    BinaryMatrixCompletion,
    Evaluation,
    InvalidInputError,
    Observations,
    Probit,
    evaluate,
)
from tribit.metrics.entries import (
    INFLUENCES,
    METRICS,
    SCORINGS,
    Metric,
    auc,
    auc_influences,
    interval,
    label_weights,
    measure_entries,
    ndcg_of_rows,
    standard_error,
)
from tribit.metrics.full_ranking import average_precision
from tribit.model.links import Logistic

# x is 2, -1, 0, -3 in the first row and its negative in the second.
X = np.array([[2.0, -1.0, 0.0, -3.0], [-2.0, 1.0, 0.0, 3.0]])


def fitted(**parameters):
    """A model whose X is known, with intercepts that take part in it."""
    model = BinaryMatrixCompletion(rank=1, n_jobs=1, random_state=0, **parameters)
    model.fit(np.array([[1, 1, 1, -1], [1, 1, -1, 1]]))
    model = with_factors(
        model,
        row_factors=np.array([[1.0], [-1.0]]),
        column_factors=X[:1].T - 0.5,
        intercept=0.25,
        row_intercepts=np.array([0.25, -0.75]),
        column_intercepts=np.zeros(4),
    )
    np.testing.assert_allclose(model.complete("score"), X)
    return model


def test_measures_by_hand():
    test = np.array([[1, 1, 0, -1], [-1, 0, -1, 1]])
    result = evaluate(fitted(), test)
    x, y = np.array([2.0, -1, -3, -2, 0, 3]), np.array([1, 1, -1, -1, -1, 1])
    assert result.n_entries == 6
    assert result.error_rate == pytest.approx(2 / 6)  # the second; and even odds count as a like
    assert result.accuracy == pytest.approx(4 / 6)
    assert result.log_loss == pytest.approx(-np.mean(np.log(expit(y * x))))
    # Likes at 2, -1, 3 against dislikes at -3, -2, 0: eight of nine pairs are in order.
    assert result.auc == pytest.approx(8 / 9)


@pytest.mark.parametrize("weighted", [False, True])
def test_auc_and_its_influences_are_those_of_scikit_learn_and_scipy_with_equal_scores(weighted):
    draws = np.random.default_rng(0)
    x, labels = draws.integers(0, 9, 200) / 4, draws.choice([1, -1], 200)
    weights = draws.random(200) if weighted else None
    expected = roc_auc_score(labels > 0, x, sample_weight=weights)
    assert auc(None, x, labels, weights) == pytest.approx(expected, rel=1e-12)
    precision = average_precision_score(labels > 0, x, sample_weight=weights)
    liked, disliked = label_weights(x, labels > 0, weights)
    assert average_precision(liked, disliked) == pytest.approx(precision, rel=1e-12)
    likes, dislikes = x[labels > 0], x[labels < 0]
    above = (rankdata(x)[labels > 0] - rankdata(likes)) / dislikes.size
    influences = auc_influences(None, x, labels)[labels > 0]
    np.testing.assert_allclose(influences, (above - above.mean()) / likes.size, atol=1e-15)


def test_the_link_is_the_model_s():
    result = evaluate(fitted(link=Probit(2.0)), [[1, -1, 0, 0], [0, 0, 0, 0]])
    assert result.log_loss == pytest.approx(-np.mean(np.log(ndtr([1.0, 0.5]))))


def test_a_confident_mistake_costs_a_finite_loss():
    model = with_factors(fitted(), intercept=2000.0)
    result = evaluate(model, [[-1, 0, 0, 0], [0, 0, 0, 0]])
    assert result.log_loss == pytest.approx(2002, abs=1)
    assert result.accuracy == 0.0


@pytest.mark.parametrize("label", [1, -1])
def test_one_label_alone_has_no_auc(label):
    result = evaluate(fitted(), [[label, 0, 0, 0], [0, 0, 0, 0]])
    assert result.auc is None
    assert result.n_entries == 1
    assert result.accuracy == float(label == 1)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.coo_matrix, Observations.from_matrix])
def test_every_kind_of_test_set(kind):
    test = np.array([[1, 1, 0, -1], [-1, 0, -1, 1]])
    assert evaluate(fitted(), kind(test)) == evaluate(fitted(), test)


def test_ratings_are_split_as_in_the_fit():
    model = fitted(like_at=1)
    ratings = np.array([[1.5, 1, 0, 0.5], [0.2, 0, -3, 4]])
    assert evaluate(model, ratings) == evaluate(model, [[1, 1, 0, 0.5], [0.5, 0, 0.5, 1]])
    assert evaluate(model, ratings).n_entries == 6
    assert evaluate(model, ratings).accuracy == pytest.approx(4 / 6)


def test_ids_are_matched_by_id_not_by_position():
    ids = {"row_ids": ["a", "b"], "column_ids": [10, 20]}
    train = Observations.from_pairs([0, 0, 1], [0, 1, 1], [1, -1, 1], **ids)
    model = BinaryMatrixCompletion(rank=1, l2=0.1, n_jobs=1, random_state=0).fit(train)
    turned = {"row_ids": ["b", "a"], "column_ids": [20, 10]}
    test = Observations.from_pairs([1, 1, 0], [1, 0, 0], [1, -1, 1], **turned)
    y = np.array([1, -1, 1])
    by_id = model.decision_function(["a", "a", "b"], [10, 20, 20])
    by_position = model.complete("score")[[1, 1, 0], [1, 0, 0]]
    assert evaluate(model, test).log_loss == pytest.approx(np.mean(np.logaddexp(0, -y * by_id)))
    assert np.mean(np.logaddexp(0, -y * by_position)) != pytest.approx(
        np.mean(np.logaddexp(0, -y * by_id)), rel=0.1
    )


@pytest.mark.parametrize("axis", ["row", "column"])
def test_a_test_set_without_the_model_s_ids_is_refused(axis):
    train = Observations.from_pairs([0, 1], [0, 1], [1, -1], **{f"{axis}_ids": ["a", "b"]})
    model = BinaryMatrixCompletion(rank=1, n_jobs=1, random_state=0).fit(train)
    with pytest.raises(InvalidInputError, match=f"fitted on {axis} ids but the test entries have"):
        evaluate(model, np.diag([1, -1]))


def test_an_unknown_id_and_a_position_outside_are_named():
    train = Observations.from_pairs([0, 1], [0, 1], [1, -1], row_ids=["a", "b"])
    model = BinaryMatrixCompletion(rank=1, n_jobs=1, random_state=0).fit(train)
    odd = Observations.from_pairs([0, 1], [0, 1], [1, -1], row_ids=["a", "z"])
    with pytest.raises(InvalidInputError, match=r"The row id 'z' .* is unknown"):
        evaluate(model, odd, unknown="error")
    with pytest.raises(
        InvalidInputError, match=r"entries have 1 rows and the model 2: .* not rows"
    ):
        evaluate(fitted(), [[1, 0, 0, 0, 1]])


def test_an_unfitted_model_says_so():
    with pytest.raises(NotFittedError):
        evaluate(BinaryMatrixCompletion(), np.eye(2))


def test_an_evaluation_is_frozen():
    result = Evaluation(n_entries=1, accuracy=1.0, error_rate=0.0, log_loss=0.1, auc=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.accuracy = 0.0


@pytest.mark.parametrize("name", METRICS)
def test_a_weight_counts_as_often_as_its_entry_is_repeated(name):
    draws = np.random.default_rng(3)
    x, labels, times = draws.normal(size=40), draws.choice([-1, 1], 40), draws.integers(1, 4, 40)
    measure = METRICS[name].measure
    repeated = measure(Probit(0.7), np.repeat(x, times), np.repeat(labels, times), None)
    assert measure(Probit(0.7), x, labels, times.astype(float)) == pytest.approx(repeated)
    assert measure(Probit(0.7), x, labels, None) != pytest.approx(repeated)


def test_a_registered_measure_is_reported(monkeypatch):
    def largest(curve, x, labels, weights=None):
        return float(np.max(x))

    monkeypatch.setitem(METRICS, "largest", Metric("largest x", largest))
    result = evaluate(fitted(), [[1, 0, 0, 0], [0, 0, 0, 1]])
    assert result.further == {"largest": 3.0}
    assert list(result.facts()) == ["accuracy", "error rate", "log-loss", "AUC", "largest x"]
    assert result.facts()["largest x"] == "3.0000"
    assert result.facts()["AUC"] == "only one label"
    hash(result)


def test_ids_do_not_match_a_model_without_them_by_position():
    smaller = Observations.from_pairs([0], [0], [1], row_ids=["a"], column_ids=[*"abcd"])
    with pytest.raises(InvalidInputError, match="have 1 rows and the model 2: without ids"):
        evaluate(fitted(), smaller)


def test_a_standard_error_takes_two_rows_and_no_less():
    influences = np.array([0.3, -0.1, 0.4])
    # R / (R - 1) = 2 times the squares of the sums of each row.
    expected = np.sqrt(2 * (0.2**2 + 0.4**2))
    assert standard_error(influences, np.array([5, 5, 2])) == pytest.approx(expected, rel=1e-14)
    assert standard_error(influences, np.array([5, 5, 5])) is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", INFLUENCES)
def test_an_influence_is_how_a_measure_changes_with_the_weight_of_an_entry(name, weighted):
    rng = np.random.default_rng(0)
    x, labels = rng.integers(-4, 5, 30) / 2, rng.choice([1, -1], 30)
    w = rng.uniform(0.5, 2.0, 30) if weighted else np.ones(30)
    measures, influences = measure_entries(Logistic(), x, labels, w if weighted else None)
    assert measures.keys() == METRICS.keys()
    assert influences.keys() == INFLUENCES.keys() & METRICS.keys()
    measure = METRICS[name].measure
    step = 1e-6
    ends = (
        [measure(Logistic(), x, labels, w * (1 + sign * row)) for row in step * np.eye(30)]
        for sign in (1, -1)
    )
    expected = np.subtract(*ends) / (2 * step)
    np.testing.assert_allclose(influences[name], expected, atol=1e-8)


def test_one_label_alone_has_no_influence_on_the_auc():
    measures, influences = measure_entries(Logistic(), np.arange(3.0), np.ones(3, dtype=np.int8))
    assert measures["auc"] is None
    assert influences.keys() == (INFLUENCES.keys() & METRICS.keys()) - {"auc"}


def test_an_interval_is_that_of_the_normal_distribution_inside_its_bounds():
    z = 1.6448536269514722  # 95% of the normal distribution
    assert interval(0.5, 0.1, 0.9) == pytest.approx((0.5 - 0.1 * z, 0.5 + 0.1 * z), rel=1e-12)
    assert interval(0.1, 0.1, 0.9, most=0.2) == (0.0, 0.2)
    assert interval(7.0, 1.0, 0.9)[1] == pytest.approx(7 + z)


def test_the_ndcg_of_rows_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(8), 6)
    x, labels = rng.permutation(48).astype(float), rng.choice([1, -1], 48)
    labels[rows == 3], labels[rows == 5] = 1, -1  # these have no NDCG
    expected = [
        ndcg_score([labels[rows == row] > 0], [x[rows == row]])
        for row in range(8)
        if abs(labels[rows == row].sum()) < 6
    ]
    order = rng.permutation(48)
    found = ndcg_of_rows(rows[order], x[order], labels[order])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    ties = ndcg_of_rows(np.zeros(2, dtype=int), np.zeros(2), np.array([1, -1]))
    assert ties.tolist() == [1.0]


def test_the_criterion_of_the_auc_is_what_is_missing_to_1():
    x, labels = np.array([0.3, -1.0, 2.0, 0.3]), np.array([1, -1, 1, -1])
    # Of four pairs three are in order, and one is a tie.
    assert SCORINGS["auc"](Logistic(), x, labels) == pytest.approx(1 - 3.5 / 4)
