"""Rows and columns without entries, from their side features."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

from other_parts import with_parts
from tribit import BinaryMatrixCompletion, InvalidInputError, load
from tribit.backends.objective import Objective, features_of
from tribit.data.features import Group, fit_side_features
from tribit.data.observations import as_observations
from tribit.folding import cold_start
from tribit.model.factors import Factors
from tribit.model.features import side_design
from tribit.model.links import Logistic
from tribit.model.risks import pn
from tribit.model.spec import ModelSpec
from tribit.solvers.loop import OUT_OF_TIME
from tribit.uncertainty import laplace

RNG = np.random.default_rng(11)
N_ROWS, N_COLUMNS = 150, 80
KINDS = RNG.integers(4, size=N_COLUMNS)
TASTE = RNG.normal(size=(N_ROWS, 4))
TRUTH = (
    1.6 * TASTE[:, KINDS] + 0.5 * RNG.normal(size=(N_ROWS, 1)) + 0.3 * RNG.normal(size=N_COLUMNS)
)
LABELS = np.where(RNG.random(TRUTH.shape) < 1 / (1 + np.exp(-TRUTH)), 1, -1)
SEEN = np.where(RNG.random(TRUTH.shape) < 0.4, LABELS, 0)
COLD = np.arange(70, 80)
TRAIN = SEEN.copy()
TRAIN[:, COLD] = 0
FEATURES = pd.DataFrame({"kind": [f"k{kind}" for kind in KINDS]})
FIXED = {
    "rank": 5,
    "l2": 3.0,
    "l2_intercept": 1.0,
    "search": False,
    "n_jobs": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def model():
    return BinaryMatrixCompletion(**FIXED, side_features=True, l2_side=5.0).fit(
        TRAIN, column_features=FEATURES
    )


def auc(model, columns):
    x = np.array([model.decision_function(range(N_ROWS), [j] * N_ROWS) for j in columns])
    return roc_auc_score((LABELS[:, columns].T > 0).ravel(), x.ravel())


def test_columns_that_were_never_seen_are_told_by_their_features(model):
    without = BinaryMatrixCompletion(**FIXED).fit(TRAIN)
    assert auc(without, COLD) < 0.7
    assert auc(model, COLD) > auc(without, COLD) + 0.08
    # Columns of one kind have no part of their own, and so the same factors.
    first, second = next((j, k) for j in COLD for k in COLD if j < k and KINDS[j] == KINDS[k])
    np.testing.assert_allclose(model.column_factors_[first], model.column_factors_[second])


def test_a_new_column_with_features_is_as_one_that_was_there_without_entries(model):
    folded = model.fold_in(
        axis="columns", column_features=FEATURES.iloc[COLD].reset_index(drop=True)
    )
    X = folded.complete("score")
    np.testing.assert_allclose(X[:, 80:], X[:, COLD], atol=1e-4)


def test_features_are_kept_in_the_file(model, tmp_path):
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.complete(), model.complete())
    table = pd.DataFrame({"kind": ["k0", "k3", None]})
    X, Y = (each.fold_in(axis="columns", column_features=table) for each in (model, again))
    np.testing.assert_allclose(X.complete(), Y.complete(), atol=1e-6)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_an_entry_of_a_new_column_counts_beside_its_features(model):
    entries = np.zeros((N_ROWS, 1))
    entries[:30, 0] = 1
    folded = model.fold_in(entries, axis="columns", column_features=FEATURES.iloc[[70]])
    bare = model.fold_in(axis="columns", column_features=FEATURES.iloc[[70]])
    assert folded.complete()[:, 80].mean() > bare.complete()[:, 80].mean() + 0.1


def test_the_search_leaves_out_features_that_say_nothing():
    rng = np.random.default_rng(0)
    noise = pd.DataFrame({"noise": [f"n{k}" for k in rng.integers(6, size=N_COLUMNS)]})
    free = {"l2": "auto", "rank": 3, "implicit_features": False, "calibration": None, "members": 1}
    free = {**FIXED, "search": True, "gammas": (1, 0, 0), **free}
    chosen = BinaryMatrixCompletion(**free).fit(SEEN, column_features=noise)
    assert chosen.side_features_ is False
    telling = BinaryMatrixCompletion(**free).fit(SEEN, column_features=FEATURES)
    assert telling.side_features_ is True
    assert any("side" in family for family in telling.search_.families())


def test_the_map_is_the_minimum_of_its_objective(monkeypatch):
    monkeypatch.setattr(cold_start, "MAX_ITERATIONS", 2000)
    rng = np.random.default_rng(5)
    entries = as_observations(SEEN[:20, :15])
    n, k, m = entries.n_observed, 3, 4
    numbers, against = rng.normal(size=(20, m - 1)), rng.normal(size=(n, k))
    group = Group(sp.csr_array(numbers), numbers.mean(axis=0), rng.random(20) < 0.8)
    design = np.hstack([np.ones((20, 1)), (numbers - numbers.mean(axis=0)) * group.known[:, None]])
    group = group._replace(matrix=sp.csr_array(numbers * group.known[:, None]))
    offsets = rng.normal(size=n)
    blocks = side_design((group,), 20)
    Z = cold_start._fit_map(Logistic(), entries, blocks, against, offsets, 2.0, None)
    np.testing.assert_allclose(blocks.predict(Z), design @ Z)
    ridge = np.full((m, 1), 2.0)
    ridge[0] = 1e-3
    labels, features = entries.labels, design[entries.rows]

    def value(z):
        x = offsets + np.einsum("ij,ij->i", features @ z.reshape(m, k), against)
        return np.logaddexp(0, -labels * x).sum() + 0.5 * np.sum(ridge * z.reshape(m, k) ** 2)

    best = minimize(value, np.zeros(m * k), options={"gtol": 1e-6}).fun
    assert best <= value(Z.ravel()) <= best * (1 + 1e-4)


def test_the_gradient_with_side_features_is_that_of_differences():
    A = SEEN[:9, :7]
    observations = as_observations(A)
    _, side = fit_side_features(
        observations.axes,
        pd.DataFrame({"age": np.arange(9.0) ** 2}),
        pd.DataFrame({"tags": [["a"], ["a", "b"], ["b"], [], ["a"], ["b"], ["a", "b"]]}),
    )
    spec = ModelSpec(implicit_features=True, side_features=True, l2_side=0.7, l2_implicit=1.3)
    features = features_of(spec, observations, side)
    plain = Objective(observations, Logistic(), pn(), l2=0.5, l2_intercept=0.2, intercept=True)
    objective = plain.with_features(features)
    rng = np.random.default_rng(1)
    rows, columns = objective.unknown_sizes
    assert rows > 9 + 7
    parts = Factors(
        *(rng.normal(size=(n, 2)) for n in (rows, columns)),
        0.1,
        *(rng.normal(size=n) for n in (rows, columns)),
    )
    step = Factors(
        *(rng.normal(size=(n, 2)) for n in (rows, columns)),
        0.3,
        *(rng.normal(size=n) for n in (rows, columns)),
    )
    slope = objective.gradient(parts)[1].dot(step)
    ends = (objective.value(parts.plus(sign * 1e-5, step)) for sign in (1, -1))
    assert slope == pytest.approx((next(ends) - next(ends)) / 2e-5, rel=1e-6)


def test_features_that_the_model_has_no_use_for_are_refused(model):
    about = FEATURES.iloc[[70]]
    with pytest.raises(InvalidInputError, match="column_features do not apply to new rows"):
        model.fold_in(SEEN[:2], column_features=about)
    with pytest.raises(InvalidInputError, match="fitted without row_features and cannot use"):
        model.fold_in(SEEN[:2], row_features=np.ones((2, 1)))
    plain = BinaryMatrixCompletion(**FIXED).fit(TRAIN)
    with pytest.raises(InvalidInputError, match="fitted without column_features"):
        plain.update(TRAIN, seen=TRAIN, column_features=about)
    with pytest.raises(InvalidInputError, match="column_features has 1 rows for 2 columns"):
        model.fold_in(SEEN[:, :2], axis="columns", column_features=about)
    with pytest.raises(InvalidInputError, match="Neither entries nor features of new columns"):
        model.fold_in(axis="columns")


def test_too_few_rows_with_features_have_no_map():
    tall = BinaryMatrixCompletion(**{**FIXED, "rank": 1}).fit(
        SEEN[:, :3], column_features=FEATURES.iloc[:3]
    )
    assert tall.fitted_.members[0].maps[1].cold_start is None
    assert np.isfinite(tall.complete()).all()


def test_slopes_are_the_minimum_of_their_objective(monkeypatch):
    """Each column's own regression on the features, shrunk towards what the map makes of its factors."""
    monkeypatch.setattr(cold_start, "RIDGE_WEIGHTS", (5.0,))
    rng = np.random.default_rng(8)
    G = np.hstack([np.ones((N_ROWS, 1)), rng.normal(size=(N_ROWS, 2))])
    centre = rng.normal(scale=0.3, size=(4, 3))
    x = G @ (centre + rng.normal(size=(4, 3))).T
    A = np.where(rng.random(x.shape) < 1 / (1 + np.exp(-x)), 1, -1)
    A[:40, 3] = 0
    entries = as_observations(A)
    number = entries.rows % cold_start.FOLDS
    trials = [centre] * len(cold_start.HELD_OUT)
    own = cold_start.fit_feature_regression(entries, G, number, trials, centre, Logistic(), 1)
    for j in range(4):
        seen = A[:, j] != 0

        def value(d, j=j, seen=seen):
            losses = np.logaddexp(0, -A[seen, j] * (G[seen] @ (centre[j] + d)))
            return losses.sum() + 0.5 * np.array([10.0, 5.0, 5.0]) @ d**2

        best = minimize(value, np.zeros(3), options={"gtol": 1e-8}).x
        np.testing.assert_allclose(own[j], best, atol=1e-4)
    # Labels that the centre explains as well as can be leave nothing to learn.
    monkeypatch.setattr(cold_start, "RIDGE_WEIGHTS", (1e-6,))
    B = np.where(G @ (50 * centre).T > 0, 1, -1)
    entries, centre = as_observations(B), 50 * centre
    number, trials = (
        entries.rows % cold_start.FOLDS,
        [centre] * len(cold_start.HELD_OUT),
    )
    assert (
        cold_start.fit_feature_regression(entries, G, number, trials, centre, Logistic(), 1) is None
    )


def test_slopes_change_predictions_of_columns_without_entries_alone(model):
    of_columns = model.fitted_.feature_regressions[1]
    assert model.fitted_.feature_regressions[0] is None
    assert of_columns.own.any()
    assert not of_columns.features[:70].any()
    plain = with_parts(model, feature_regressions=(None, None))
    X, Y = model.complete("score"), plain.complete("score")
    np.testing.assert_array_equal(X[:, :70], Y[:, :70])
    added = of_columns.own @ of_columns.features.T
    np.testing.assert_allclose(X - Y, added, atol=1e-5)
    assert np.abs(added[:, COLD]).max() > 0.01
    # A column that has entries now is answered by these.
    entries = np.zeros((N_ROWS, N_COLUMNS))
    entries[:20, 70] = 1
    updated = model.update(entries, seen=TRAIN)
    assert not updated.fitted_.feature_regressions[1].features[70].any()
    np.testing.assert_array_equal(
        updated.fitted_.feature_regressions[1].features[71:], of_columns.features[71:]
    )
    # New rows have no slopes of their own, new columns meet those of the rows of the fit.
    more = model.fold_in(SEEN[:3])
    assert more.fitted_.feature_regressions[1].own.shape[0] == N_ROWS + 3
    assert not more.fitted_.feature_regressions[1].own[N_ROWS:].any()


def test_intervals_are_around_the_answers_with_slopes(model):
    found = laplace(model, TRAIN).interval([0, 1, 2], [70, 71, 72], level=0.9)
    p = model.predict_proba([0, 1, 2], [70, 71, 72])
    assert np.all((found.lower < p) & (p < found.upper))


def test_features_beyond_the_most_have_no_slopes(monkeypatch):
    monkeypatch.setattr("tribit.folding.cold_start.MAX_REGRESSION_FEATURES", 2)
    wide = BinaryMatrixCompletion(**FIXED).fit(TRAIN, column_features=FEATURES)
    assert wide.fitted_.feature_regressions == (None, None)
    assert wide.fitted_.members[0].maps[1].cold_start is not None


def test_no_time_for_the_map_keeps_the_fit(monkeypatch):
    real = cold_start.with_cold_maps

    def late(fitted, observations, side, draws, n_jobs, max_time):
        assert max_time == 1000.0
        return real(fitted, observations, side, draws, n_jobs, -1.0)

    monkeypatch.setattr(cold_start, "with_cold_maps", late)
    model = BinaryMatrixCompletion(**FIXED, max_time=1000.0).fit(TRAIN, column_features=FEATURES)
    assert (model.converged_, model.stop_reason_) == (False, OUT_OF_TIME)
    assert model.fitted_.members[0].maps[1].cold_start is None
    assert np.isfinite(model.complete()).all()


def test_ctrl_c_during_the_map_keeps_the_fit(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tribit.folding.cold_start.fit_cold_map", interrupted)
    model = BinaryMatrixCompletion(**FIXED).fit(TRAIN, column_features=FEATURES)
    assert (model.converged_, model.stop_reason_) == (False, "interrupted from the keyboard")
    assert np.isfinite(model.complete()).all()
