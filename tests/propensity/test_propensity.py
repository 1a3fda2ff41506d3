import copy
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Logistic,
    Missingness,
    Objective,
    Observations,
    TribitWarning,
    UnknownRhoWarning,
    load,
    nu,
    pn,
    propensity,
    pu,
    punu,
    tri,
)
from tribit.model.factors import Factors
from tribit.propensity import (
    CrossFittedPropensity,
    Propensity,
    calibration,
    constant,
    cross_fitted,
    effective_sample_size,
    inverse_weights,
    log_loss,
    low_rank,
    row_column,
)


def draw(q, seed):
    """A mask drawn from q, with labels that alternate (they must not matter)."""
    rows, columns = np.nonzero(np.random.default_rng(seed).random(q.shape) < q)
    return Observations.from_pairs(
        rows, columns, np.where((rows + columns) % 2, 1, -1), shape=q.shape
    )


def likes_of(matrix):
    return Observations.from_matrix(np.array(matrix, int), zeros="unobserved")


def effects(shape, seed=0, level=-1.5):
    rng = np.random.default_rng(seed)
    return level + rng.normal(size=(shape[0], 1)) + rng.normal(size=(1, shape[1]))


def every(shape):
    i, j = np.indices(shape)
    return i.ravel(), j.ravel()


def dense(model):
    return model.probability_at(*every(model.shape)).reshape(model.shape)


SHAPE = (60, 45)
Q = expit(effects(SHAPE))
SEEN = draw(Q, 1)
MODELS = {
    "constant": constant,
    "row-column": row_column,
    "low-rank": lambda seen: low_rank(seen, rank=2, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_a_missingness_and_says_the_same_in_each_way(name):
    model = MODELS[name](SEEN)
    assert isinstance(model, Missingness)
    assert model.name == name
    assert model.shape == SHAPE
    q = dense(model)
    assert q.dtype == np.float64
    np.testing.assert_allclose(model.rho_at(*every(SHAPE)), 1 - q.ravel(), rtol=1e-15)
    np.testing.assert_allclose(model.probability_of_rows(slice(7, 9)), q[7:9], rtol=1e-12)
    x = model.factors
    X = x.row_factors @ x.column_factors.T + x.intercept
    X = X + x.row_intercepts[:, None] + x.column_intercepts
    np.testing.assert_allclose(q, np.maximum(expit(X), model.floor), rtol=1e-12)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(dense(other), q)
    assert len(repr(model)) < 100


@pytest.mark.parametrize("name", MODELS)
def test_labels_do_not_matter_and_the_seed_does_all(name):
    flipped = Observations.from_pairs(SEEN.rows, SEEN.columns, -SEEN.labels, shape=SHAPE)
    np.testing.assert_array_equal(dense(MODELS[name](SEEN)), dense(MODELS[name](flipped)))


def test_constant_is_the_share():
    np.testing.assert_allclose(dense(constant(SEEN)), SEEN.density, rtol=1e-12)
    assert constant(SEEN).probability_at(3, 4) == pytest.approx([SEEN.density])
    assert constant(SEEN).rho_at(np.array([], int), np.array([], int)).size == 0


@pytest.mark.parametrize("l2", [0.3, 1.0, 20.0])
def test_row_column_is_logistic_regression(l2):
    seen = draw(expit(effects((9, 7))), 3)
    i, j = every(seen.shape)
    D = np.hstack([np.eye(9)[i], np.eye(7)[j]])
    mask = np.zeros(seen.shape, dtype=int)
    mask[seen.rows, seen.columns] = 1
    peer = LogisticRegression(C=1 / l2, tol=1e-10, max_iter=10_000).fit(D, mask.ravel())
    model = row_column(seen, l2=l2, floor=1e-9)
    np.testing.assert_allclose(
        model.probability_at(i, j), peer.predict_proba(D)[:, 1], rtol=1e-4, atol=1e-6
    )
    assert model.factors.intercept == pytest.approx(peer.intercept_[0], abs=1e-4)
    np.testing.assert_allclose(model.factors.row_intercepts, peer.coef_[0, :9], atol=1e-4)
    assert model.factors.row_intercepts.mean() == pytest.approx(0, abs=1e-10)
    assert model.factors.column_intercepts.mean() == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_the_score_equations_hold_in_each_row_and_column(l2):
    seen = draw(expit(effects((80, 60), level=0.0)), 1)
    model = row_column(seen, l2=l2, floor=1e-12)
    q, x = dense(model), model.factors
    row_counts = np.bincount(seen.rows, minlength=80)
    column_counts = np.bincount(seen.columns, minlength=60)
    np.testing.assert_allclose(q.sum(axis=1), row_counts - l2 * x.row_intercepts, atol=1e-7)
    np.testing.assert_allclose(q.sum(axis=0), column_counts - l2 * x.column_intercepts, atol=1e-7)
    assert q.sum() == pytest.approx(seen.n_observed, abs=1e-6)


def test_low_rank_is_stationary():
    model = low_rank(SEEN, rank=2, l2=2.0, tol=1e-9, max_iter=500, random_state=0, floor=1e-12)
    ones = Observations.from_pairs(SEEN.rows, SEEN.columns, np.ones(len(SEEN), int), shape=SHAPE)
    whole = Objective(ones, Logistic(), pu(0.0), l2=2.0, intercept=True)
    gradient = whole.gradient(model.factors)[1]
    for part in (gradient.row_factors, gradient.column_factors, gradient.row_intercepts):
        assert np.abs(part).max() < 0.02
    assert abs(gradient.intercept) < 0.05
    # The objective is the penalised likelihood of the mask.
    penalty = sum(
        np.sum(part**2)
        for part in (
            model.factors.row_factors,
            model.factors.column_factors,
            model.factors.row_intercepts,
            model.factors.column_intercepts,
        )
    )
    assert whole.value(model.factors) == pytest.approx(
        log_loss(model, SEEN) * SHAPE[0] * SHAPE[1] + penalty, rel=1e-9
    )


def test_known_row_and_column_effects_come_back():
    q = expit(effects((400, 300)))
    model = row_column(draw(q, 1), floor=1e-9)
    assert np.corrcoef(logit(dense(model)).ravel(), logit(q).ravel())[0, 1] > 0.98
    second = draw(q, 2)
    result = calibration(model, second)
    noise = np.sqrt(result.predicted * (1 - result.predicted) / result.n_entries)
    assert np.all(np.abs(result.predicted - result.observed) < 4 * noise + 0.004)
    assert log_loss(model, second) < log_loss(constant(second), second) - 0.05
    assert log_loss(model, second) < -np.mean(q * np.log(q) + (1 - q) * np.log1p(-q)) + 0.01


def test_low_rank_tells_a_second_mask_better_than_row_and_column_effects():
    rng = np.random.default_rng(5)
    x = effects((250, 200)) + 1.2 * rng.normal(size=(250, 2)) @ rng.normal(size=(2, 200))
    first, second = draw(expit(x), 1), draw(expit(x), 2)
    low, margins = low_rank(first, rank=2, floor=1e-9, random_state=0), row_column(first)
    entropy = -np.mean(expit(x) * np.log(expit(x)) + expit(-x) * np.log(expit(-x)))
    assert log_loss(low, second) < entropy + 0.02
    assert log_loss(margins, second) > log_loss(low, second) + 0.08
    # Also with more columns than there are: the ridge keeps the rest small.
    assert log_loss(low_rank(first, random_state=0), second) < log_loss(margins, second) - 0.08


def test_low_rank_is_no_better_where_there_are_but_row_and_column_effects():
    q = expit(effects((250, 200)))
    first, second = draw(q, 1), draw(q, 2)
    gap = log_loss(low_rank(first, random_state=0), second) - log_loss(row_column(first), second)
    assert -0.001 < gap < 0.03


def test_low_rank_has_the_same_bits_for_a_seed_and_any_number_of_threads():
    models = [low_rank(SEEN, rank=2, random_state=3, n_jobs=jobs) for jobs in (1, 2, None)]
    for model in models[1:]:
        np.testing.assert_array_equal(dense(model), dense(models[0]))


class Given:
    """A mask whose probabilities are known."""

    def __init__(self, q):
        self.q = q

    def rho_at(self, rows, columns):
        return 1 - self.q[rows, columns]


@pytest.mark.parametrize(
    "make", [pu, nu, lambda rho: punu(0.3, rho), lambda rho: tri(0.4, 0.35, 0.25, rho)]
)
def test_risks_with_the_q_of_each_entry_are_unbiased(make):
    rng = np.random.default_rng(0)
    shape = (12, 10)
    q = rng.uniform(0.15, 0.95, shape)
    likely = rng.uniform(0.1, 0.9, shape)
    X = Factors.of(rng.normal(size=(12, 2)), rng.normal(size=(10, 2)))
    x = X.row_factors @ X.column_factors.T
    loss = likely * Logistic().loss(x, 1) + (1 - likely) * Logistic().loss(x, -1)
    risk = make(Given(q))
    # PN sums over what was observed, so its own mean is weighed by q.
    expected = np.sum((risk.unobserved_weight + risk.pn * q) * loss)
    values = []
    for _ in range(500):
        Y = np.where(rng.random(shape) < likely, 1, -1)
        A = np.where(rng.random(shape) < q, Y, 0)
        values.append(Objective(Observations.from_matrix(A), Logistic(), risk).value(X))
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 4 * error
    assert error < 0.04 * abs(expected)


def test_one_q_for_all_is_biased_where_the_mask_is_not_uniform():
    q = np.array([[0.9, 0.1]])
    X = Factors.of(np.ones((1, 1)), np.array([[2.0], [-2.0]]))
    plain = np.sum(Logistic().loss(np.array([2.0, -2.0]), 1))  # both are likes

    def mean(rho):
        cases = {
            (1, 1): q[0, 0] * q[0, 1],
            (1, 0): q[0, 0] * (1 - q[0, 1]),
            (0, 1): (1 - q[0, 0]) * q[0, 1],
        }
        total = sum(
            weight * Objective(likes_of([case]), Logistic(), pu(rho)).value(X)
            for case, weight in cases.items()
        )
        nothing = np.sum(Logistic().loss(np.array([2.0, -2.0]), -1))
        return total + (1 - q[0, 0]) * (1 - q[0, 1]) * nothing

    assert mean(Given(q)) == pytest.approx(plain, rel=1e-12)
    assert abs(mean(0.5) - plain) > 1.0


def test_floor_and_scale():
    model = row_column(SEEN)
    assert model.floor == pytest.approx(0.1 * SEEN.density)
    high = model.with_floor(0.4)
    q = dense(high)
    assert q.min() == 0.4
    np.testing.assert_array_equal(q, np.maximum(dense(model.with_floor(1e-9)), 0.4))
    scaled = high.normalise(SEEN)
    assert inverse_weights(scaled, SEEN, normalised=False).sum() == pytest.approx(
        SHAPE[0] * SHAPE[1]
    )
    np.testing.assert_allclose(dense(scaled), scaled.scale * q, rtol=1e-12)
    assert scaled.normalise(SEEN).scale == pytest.approx(scaled.scale)
    assert dense(Propensity("constant", constant(SEEN).factors, 0.5, 3.0)).max() == 1.0


def test_weights_and_effective_sample_size():
    q = np.array([[0.5, 0.25, 1.0]])
    seen = Observations.from_matrix([[1, -1, 0]])
    np.testing.assert_allclose(inverse_weights(Given(q), seen, normalised=False), [2, 4])
    np.testing.assert_allclose(inverse_weights(Given(q), seen), [1, 2])
    assert effective_sample_size(Given(q), seen) == pytest.approx(36 / 20)
    assert effective_sample_size(constant(SEEN), SEEN) == pytest.approx(len(SEEN))
    assert effective_sample_size(row_column(SEEN), SEEN) < 0.9 * len(SEEN)


def test_log_loss_by_hand():
    q = np.array([[0.5, 0.25, 1.0], [0.1, 0.2, 0.3]])
    seen = Observations.from_matrix([[1, 0, -1], [0, 0, 1]])
    terms = [0.5, 0.75, 1.0, 0.9, 0.8, 0.3]
    assert log_loss(Given(q), seen) == pytest.approx(-np.mean(np.log(terms)))
    unseen = likes_of([[1, 0, 0], [0, 0, 1]])
    assert log_loss(Given(q), unseen) == np.inf


def test_calibration_by_hand():
    q = np.repeat([[0.1], [0.2], [0.6], [0.9]], 50, axis=1)
    seen = draw(q, 0)
    counts = np.bincount(seen.rows, minlength=4) / 50
    result = calibration(Given(q), seen, bins=4)
    np.testing.assert_allclose(result.predicted, q[:, 0], rtol=1e-12)
    np.testing.assert_allclose(result.observed, counts, rtol=1e-12)
    np.testing.assert_array_equal(result.n_entries, 50)
    assert result.error == pytest.approx(np.mean(np.abs(counts - q[:, 0])))
    halves = calibration(Given(q), seen, bins=2)
    np.testing.assert_allclose(halves.predicted, [0.15, 0.75])
    # A run of equal q is not cut: it goes where its middle is.
    unequal = np.repeat([[0.1, 0.2, 0.9]], [4, 4, 2], axis=1)
    parts = calibration(Given(unequal), Observations.from_matrix(np.ones((1, 10))), bins=2)
    np.testing.assert_array_equal(parts.n_entries, [4, 6])
    np.testing.assert_allclose(calibration(constant(SEEN), SEEN).predicted, [SEEN.density])
    spread = calibration(row_column(SEEN), SEEN)
    assert spread.n_entries.sum() == SHAPE[0] * SHAPE[1]
    assert np.all(np.diff(spread.predicted) > 0)
    assert len(spread.predicted) == 10
    assert spread.n_entries.max() < 1.2 * spread.n_entries.min()


def test_a_large_mask_needs_no_dense_array():
    rng = np.random.default_rng(0)
    shape = 20_000, 10_000
    chances = rng.pareto(2.0, shape[0]) + 0.1
    keys = np.unique(
        rng.choice(shape[0], 300_000, p=chances / chances.sum()) * shape[1]
        + (shape[1] * rng.random(300_000) ** 2).astype(int)
    )
    seen = Observations.from_pairs(*np.divmod(keys, shape[1]), np.ones(keys.size, int), shape=shape)
    tracemalloc.start()
    model = row_column(seen, floor=1e-9)
    weights = inverse_weights(model, seen)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # the dense matrix would take 1600
    assert np.isfinite(weights).all()
    # The score equations again, of some rows.
    some = np.bincount(seen.rows, minlength=shape[0])[:50]
    expected = some - model.factors.row_intercepts[:50]
    np.testing.assert_allclose(
        model.probability_of_rows(slice(0, 50)).sum(axis=1), expected, atol=1e-5
    )


def test_low_rank_and_calibration_hold_only_tiles():
    rng = np.random.default_rng(0)
    shape = 4_000, 3_000
    keys = np.unique(rng.integers(0, shape[0] * shape[1], 100_000))
    seen = Observations.from_pairs(*np.divmod(keys, shape[1]), np.ones(keys.size, int), shape=shape)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = low_rank(seen, rank=2, max_iter=2, random_state=0)
    calibration(model, seen)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48e6  # the dense matrix takes 96 in float64


def test_everything_observed():
    full = Observations.from_matrix(np.ones((4, 3)))
    for model in (constant(full), row_column(full), row_column(full, l2=0), low_rank(full, rank=1)):
        np.testing.assert_array_equal(dense(model), 1.0)
        np.testing.assert_array_equal(model.rho_at([0], [0]), 0.0)
        assert log_loss(model, full) == 0.0
        assert calibration(model, full).error == 0.0


def test_empty_rows_are_no_trouble_with_a_ridge():
    A = np.zeros((6, 5))
    A[0] = 1
    A[1, :2] = -1
    seen = Observations.from_matrix(A)
    for model in (row_column(seen), propensity.fit_propensity("low-rank", seen, random_state=0)):
        q = dense(model)
        assert np.isfinite(q).all()
        assert q[0].min() > q[1].max() > q[2].max() > 0


def test_a_fit_that_stops_early_warns():
    with pytest.warns(ConvergenceWarning, match="The fit of the mask stopped before"):
        low_rank(SEEN, rank=2, max_iter=1, tol=0.0)


def completion(rho, A=SEEN, **options):
    fixed = {"gammas": (0.8, 0.1, 0.1), "rank": 2, "l2": 5.0, "l2_intercept": None, "radius": None}
    fixed |= {"implicit_features": False, "solver": "newton", "random_state": 0, "n_jobs": 1}
    return BinaryMatrixCompletion(rho=rho, **(fixed | options)).fit(A)


def test_the_estimator_takes_names():
    none, name = completion(None), completion("constant")
    assert name.rho_ == none.rho_
    np.testing.assert_array_equal(name.row_factors_, none.row_factors_)
    by_name, given = completion("row-column"), completion(row_column(SEEN))
    assert isinstance(by_name.rho_, Propensity)
    assert by_name.rho_.name == "row-column"
    np.testing.assert_array_equal(by_name.row_factors_, given.row_factors_)
    assert not np.array_equal(by_name.row_factors_, none.row_factors_)
    low = completion("low-rank", n_jobs=2)
    assert isinstance(low.rho_, CrossFittedPropensity)
    assert low.rho_.name == "low-rank"
    assert [model.factors.rank for model in low.rho_.models] == [8] * 5
    np.testing.assert_array_equal(low.row_factors_, completion("low-rank").row_factors_)
    assert by_name.get_params()["rho"] == "row-column"
    # The estimator's q is 1 - rho_ in its corrections.
    reached = Objective(
        SEEN, Logistic(), tri(0.8, 0.1, 0.1, row_column(SEEN)), l2=5.0, intercept=True
    ).value(by_name._factors().astype("float64"))
    assert by_name.objective_ == pytest.approx(reached, rel=1e-12)


def test_names_with_one_sign_alone_warn_as_none_does():
    likes = Observations.from_pairs(SEEN.rows, SEEN.columns, np.ones(len(SEEN), int), shape=SHAPE)
    for name in propensity.NAMES:
        with pytest.warns(UnknownRhoWarning, match="pass rho"):
            completion(name, likes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        completion(row_column(likes), likes)


def test_saving(tmp_path):
    model = completion("row-column")
    with pytest.warns(TribitWarning, match=r"keeps rho='row-column' but not the model") as caught:
        model.save(tmp_path / "model")
    assert len(caught) == 1
    copied = load(tmp_path / "model")
    assert copied.rho == "row-column"
    assert copied.rho_ is None
    np.testing.assert_array_equal(copied.predict_proba([0], [1]), model.predict_proba([0], [1]))
    with pytest.raises(InvalidInputError, match=r"The parameter rho=Propensity\(.{0,80} cannot be"):
        completion(row_column(SEEN)).save(tmp_path / "other")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        completion("constant").save(tmp_path / "third")


# Cross-fitting

#: A mask with a strong low-rank part, on which the plain model follows the draws.
HARD = expit(-2.2 + effects((90, 1), 3, 0.0)[:, :1] * effects((1, 110), 4, 0.0)[:1])
HARD_SEEN = draw(HARD, 2)


def crossed(**options):
    return cross_fitted(HARD_SEEN, **({"rank": 3, "random_state": 0} | options))


def test_an_observed_entry_is_judged_by_the_model_that_did_not_see_it():
    model = crossed(folds=4)
    q, K = dense(model), 4
    assert isinstance(model, Missingness)
    assert (model.name, model.shape, len(model.models)) == ("low-rank", (90, 110), K)
    each = np.array([dense(part) for part in model.models])
    expected = each.mean(axis=0)
    for i, j, part in zip(model.rows, model.columns, model.parts, strict=True):
        expected[i, j] = each[part, i, j]
    np.testing.assert_allclose(q, expected, rtol=1e-12)
    assert np.ptp(np.bincount(model.parts)) <= 1
    np.testing.assert_allclose(model.rho_at(*every(model.shape)), 1 - q.ravel(), rtol=1e-15)
    np.testing.assert_allclose(model.probability_of_rows(slice(7, 9)), q[7:9], rtol=1e-12)
    np.testing.assert_allclose(model.probability_of_rows(slice(88, 99)), q[88:], rtol=1e-12)
    assert model.probability_at(np.array([], int), np.array([], int)).size == 0
    # Each is at a minimum on the mask without its part, and not on another, and is scaled up for what was left out.
    for number, part in enumerate(model.models):
        slopes = []
        for left_out in range(K):
            outside = HARD_SEEN.take(np.flatnonzero(model.parts != left_out))
            ones = np.ones(len(outside), dtype=int)
            ones = Observations.from_pairs(outside.rows, outside.columns, ones, shape=model.shape)
            objective = Objective(ones, Logistic(), pu(0.0), l2=5.0, intercept=True)
            slopes.append(np.abs(objective.gradient(part.factors)[1].row_intercepts).max())
        assert slopes[number] < 0.2 * min(slopes[:number] + slopes[number + 1 :])
        assert part.scale == pytest.approx(len(model.parts) / np.sum(model.parts != number))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(dense(other), q)


def test_cross_fitting_takes_away_what_the_mask_knew_of_itself():
    def weight(model):
        return inverse_weights(model, HARD_SEEN, normalised=False).sum() / HARD.size

    # Were q the truth, the weights would sum to the number of entries.
    assert weight(Given(HARD)) == pytest.approx(1, abs=0.05)
    assert weight(low_rank(HARD_SEEN, random_state=0)) < 0.75
    assert weight(cross_fitted(HARD_SEEN, random_state=0)) == pytest.approx(1, abs=0.15)


def test_cross_fitting_has_the_same_bits_for_a_seed_and_any_number_of_threads():
    first = dense(crossed())
    np.testing.assert_array_equal(first, dense(crossed(n_jobs=3)))
    assert not np.array_equal(first, dense(crossed(random_state=1)))
    flipped = Observations.from_pairs(
        HARD_SEEN.rows, HARD_SEEN.columns, -HARD_SEEN.labels, shape=HARD.shape
    )
    again = cross_fitted(flipped, rank=3, random_state=0)
    np.testing.assert_array_equal(first, dense(again))


def test_floor_and_scale_of_a_cross_fitted_model():
    model = crossed(floor=0.2)
    assert dense(model).min() == pytest.approx(0.2)
    assert dense(crossed()).min() >= 0.1 * HARD_SEEN.density * (1 - 1e-12)
    assert dense(model.with_floor(0.3)).min() == pytest.approx(0.3)
    even = crossed().normalise(HARD_SEEN)
    total = inverse_weights(even, HARD_SEEN, normalised=False).sum()
    assert total == pytest.approx(HARD.size, rel=1e-3)  # none is above 1


def test_diagnostics_take_a_cross_fitted_model():
    model = crossed()
    given = Given(dense(model))
    for measure in (log_loss, effective_sample_size):
        assert measure(model, HARD_SEEN) == pytest.approx(measure(given, HARD_SEEN), rel=1e-9)
    got, expected = calibration(model, HARD_SEEN), calibration(given, HARD_SEEN)
    np.testing.assert_allclose(got.predicted, expected.predicted, rtol=1e-9)
    np.testing.assert_array_equal(got.n_entries, expected.n_entries)


def test_cross_fitting_a_mask_that_is_full_or_nearly_empty():
    full = Observations.from_matrix(np.ones((4, 5), dtype=int))
    assert np.all(dense(cross_fitted(full, rank=2)) == 1.0)
    one = likes_of([[1, 0], [0, 0]])
    assert isinstance(propensity.fit_propensity("low-rank", one, random_state=0), Propensity)
    two = propensity.fit_propensity(
        "low-rank", Observations.from_matrix([[1, 0], [0, -1]]), random_state=0
    )
    assert len(two.models) == 2
    assert np.all((dense(two) > 0) & (dense(two) <= 1))


BAD = [
    (lambda: row_column(SEEN, l2=-1), InvalidInputError, "l2"),
    (lambda: low_rank(SEEN, l2=0), InvalidInputError, "l2"),
    (lambda: low_rank(SEEN, rank=0), InvalidInputError, "rank must be from 1 to 45"),
    (lambda: low_rank(SEEN, rank=46), InvalidInputError, "rank must be from 1 to 45"),
    (lambda: low_rank(SEEN, rank=True), InvalidTypeError, "rank must be a whole number"),
    (lambda: low_rank(SEEN, tol=-1), InvalidInputError, "tol"),
    (lambda: low_rank(SEEN, max_iter=0), InvalidInputError, "max_iter"),
    (lambda: row_column(SEEN, floor=0), InvalidInputError, r"floor, .* in \(0, 1\]; got 0"),
    (lambda: row_column(SEEN, floor=float("nan")), InvalidInputError, "floor"),
    (lambda: low_rank(SEEN, floor=1.5), InvalidInputError, "floor"),
    (lambda: row_column(SEEN, floor="1"), InvalidTypeError, "floor must be a number"),
    (lambda: constant(np.eye(2)), InvalidTypeError, "observations must be Observations"),
    (lambda: row_column(np.eye(2)), InvalidTypeError, "observations must be Observations"),
    (lambda: low_rank(np.eye(2)), InvalidTypeError, "observations must be Observations"),
    (lambda: cross_fitted(SEEN, folds=1), InvalidInputError, "folds must be from 2 to"),
    (lambda: cross_fitted(SEEN, folds=10**6), InvalidInputError, "the number of observed entries"),
    (lambda: cross_fitted(SEEN, folds=2.0), InvalidTypeError, "folds must be a whole number"),
    (lambda: cross_fitted(SEEN, floor=0), InvalidInputError, "floor"),
    (lambda: cross_fitted(np.eye(2)), InvalidTypeError, "observations must be Observations"),
    (lambda: crossed().rho_at([0, 1], [1]), InvalidInputError, "lists of the same length"),
    (lambda: crossed().rho_at([90], [1]), InvalidInputError, "90"),
    (
        lambda: effective_sample_size(crossed(), SEEN),
        InvalidInputError,
        "The model of the mask is 90 x 110 and the observations 60 x 45",
    ),
    (lambda: calibration(0.5, SEEN), InvalidTypeError, "model must be a model of the mask"),
    (lambda: calibration(constant(SEEN), SEEN, bins=0), InvalidInputError, "bins must be"),
    (
        lambda: effective_sample_size(constant(SEEN), SEEN.transpose()),
        InvalidInputError,
        "The model of the mask is 60 x 45 and the observations 45 x 60",
    ),
    (
        lambda: completion(row_column(SEEN.transpose())),
        InvalidInputError,
        "The model of the mask is 45 x 60 and the observations 60 x 45",
    ),
    (
        lambda: log_loss(Given(np.zeros(SHAPE)), SEEN),
        InvalidInputError,
        r"rho_at gave .*1\.0.* for row \d+, column \d+",
    ),
    (lambda: constant(SEEN).rho_at([60], [0]), InvalidInputError, "60"),
    (lambda: constant(SEEN).rho_at([0], [-1]), InvalidInputError, "-1"),
    (lambda: constant(SEEN).rho_at([0, 1], [1]), InvalidInputError, "lists of the same length"),
    (lambda: propensity.fit_propensity("rows", SEEN), InvalidTypeError, "or the name of one"),
    (lambda: completion("rows"), InvalidTypeError, r"'constant', 'row-column', 'low-rank'\); got"),
    (
        lambda: row_column(likes_of([[1, 0], [0, 0]]), l2=0),
        InvalidInputError,
        "A row with no observed entry has an infinite effect at l2 = 0",
    ),
    (
        lambda: row_column(likes_of([[1, 0], [1, 1], [1, 0]]), l2=0),
        InvalidInputError,
        "A row with every observed entry|A column with every",
    ),
]


@pytest.mark.parametrize(("call", "error", "match"), BAD)
def test_bad_input_is_one_sentence(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert ". " not in text
    assert "\n" not in text


def test_pn_takes_no_rho_of_the_mask():
    same = completion("row-column", gammas=(1, 0, 0)), completion(None, gammas=(1, 0, 0))
    np.testing.assert_array_equal(same[0].row_factors_, same[1].row_factors_)
    assert pn().unobserved_weight == 0


@pytest.mark.parametrize("fit", [low_rank, cross_fitted])
def test_ctrl_c_is_for_whoever_asked_for_the_model(monkeypatch, fit):
    """Half a model of the mask would pass for a whole one, and with it the fit that uses it."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tribit.backends.base.half_sweep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(SEEN)


def test_the_sampled_low_rank_model_is_near_the_exact_one(monkeypatch):
    monkeypatch.setattr("tribit.backends.tile_sample.BLOCK", 16)
    monkeypatch.setattr("tribit.backends.tile_sample.MAX_MEAN_TILES", 8)
    draws = np.random.default_rng(3)
    U, V = draws.normal(size=(240, 1)), draws.normal(size=(220, 1))
    seen = draws.random((240, 220)) < expit(U @ V.T + draws.normal(size=220) - 2.0)
    observations = likes_of(seen)
    exact, sampled, again = (
        low_rank(observations, rank=1, tol=1e-3, random_state=0, backend=backend)
        for backend in ("exact", "sampled", "sampled")
    )
    rows, columns = np.nonzero(np.ones(seen.shape))
    q, estimate = (model.probability_at(rows, columns) for model in (exact, sampled))
    assert np.corrcoef(q, estimate)[0, 1] > 0.99
    assert not np.array_equal(q, estimate)
    np.testing.assert_array_equal(estimate, again.probability_at(rows, columns))
