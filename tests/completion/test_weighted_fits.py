"""Fits with weights of entries, against the plain minimum over repeated entries."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from reference import gammas_of, table
from tribit import BinaryMatrixCompletion, EntryClassifier, Recommender, evaluate, load
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.links import Logistic
from tribit.model.risks import pn, pu, tri
from tribit.solvers import SOLVERS
from tribit.uncertainty import laplace

SHAPE, LINK = (14, 9), Logistic()
DRAWS = np.random.default_rng(0)
A = np.where(DRAWS.random(SHAPE) < 0.6, DRAWS.choice([-1, 1], SHAPE), 0)
REPEATS = DRAWS.integers(0, 4, SHAPE)
LIKES = np.abs(A)
OPTIONS = {
    "rank": 2,
    "l2": 1.0,
    "l2_intercept": 0.7,
    "implicit_features": False,
    "calibration": None,
    "members": 1,
    "dtype": "float64",
    "tol": 1e-12,
    "max_iter": 4000,
    "n_jobs": 1,
    "random_state": 0,
}
CASES = {
    "pn": (A, pn(), {}),
    "pu": (LIKES, pu(0.0), {"rho": 0.0, "radius": None}),
    "likes and mixture": (A, tri(0.6, 0.25, 0.15, 0.0), {"rho": 0.0, "radius": None}),
}


def plain_value(x, matrix, repeats, risk):
    """Return the risk at ``x``: of unobserved cells once, of observed ones once for each of their entries."""
    rows = table(gammas_of(risk), np.broadcast_to(risk.rho, SHAPE))
    total = 0.0
    for i, j in np.ndindex(SHAPE):
        for label in [matrix[i, j]] * int(repeats[i, j] * (matrix[i, j] != 0)) or [0]:
            total += rows[label][0][i, j] * LINK.loss(x[i, j : j + 1], 1)[0]
            total += rows[label][1][i, j] * LINK.loss(x[i, j : j + 1], -1)[0]
    return total


def objective(fitted, matrix, repeats, risk):
    """Return the objective of a model of rank 2 with biases, by the formula of the manual."""
    U, V = fitted.row_factors_, fitted.column_factors_
    a, c = fitted.row_intercepts_, fitted.column_intercepts_
    x = U @ V.T + fitted.intercept_ + a[:, None] + c
    penalty = 0.5 * (np.sum(U**2) + np.sum(V**2)) + 0.35 * (np.sum(a**2) + np.sum(c**2))
    return plain_value(x, matrix, repeats, risk) + penalty


@pytest.mark.parametrize(("matrix", "risk", "options"), CASES.values(), ids=CASES)
def test_an_integer_weight_is_as_many_entries(matrix, risk, options):
    seen = Observations.from_matrix(matrix, zeros="unobserved", weights=REPEATS)
    model = BinaryMatrixCompletion(gammas_of(risk), **OPTIONS | options).fit(seen)
    assert model.objective_ == pytest.approx(objective(model, matrix, REPEATS, risk), rel=1e-9)

    def slope(name):
        """Return the largest derivative of the formula by differences, over the entries of an attribute."""
        found = []
        part = getattr(model, name)
        for at in np.ndindex(part.shape):
            ends = []
            for step in (1e-4, -1e-4):
                moved = part.copy()
                moved[at] += step
                copy = _Parts(model, **{name: moved})
                ends.append(objective(copy, matrix, REPEATS, risk))
            found.append((ends[0] - ends[1]) / 2e-4)
        return np.max(np.abs(found))

    for name in ("row_factors_", "column_intercepts_"):
        assert slope(name) < 2e-3 * np.sum(REPEATS * (matrix != 0)) ** 0.5


class _Parts:
    def __init__(self, model, **changed):
        for name in (
            "row_factors_",
            "column_factors_",
            "row_intercepts_",
            "column_intercepts_",
            "intercept_",
        ):
            setattr(self, name, changed.get(name, getattr(model, name)))


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "projected_gradient"])
def test_biases_are_those_of_a_convex_minimum(solver):
    """Rank 0 has one minimum, which an own solver finds from the repeated entries."""
    at = np.argwhere(A != 0)
    rows, columns = np.repeat(at, REPEATS[A != 0], axis=0).T
    labels = A[rows, columns]
    n, m = SHAPE

    def value(z):
        x = z[0] + z[1 : n + 1][rows] + z[n + 1 :][columns]
        return np.sum(np.logaddexp(0, -labels * x)) + 0.35 * np.sum(z[1:] ** 2)

    best = minimize(value, np.zeros(1 + n + m), tol=1e-12)
    model = BinaryMatrixCompletion(
        (1, 0, 0), solver=solver, **OPTIONS | {"rank": 0, "l2": 0.7}
    ).fit(A, weights=REPEATS)
    assert model.objective_ == pytest.approx(best.fun, rel=1e-6)
    found = model.intercept_ + model.row_intercepts_[:, None] + model.column_intercepts_
    expected = best.x[0] + best.x[1 : n + 1][:, None] + best.x[n + 1 :]
    seen = REPEATS * (A != 0) > 0
    np.testing.assert_allclose(found[seen], expected[seen], atol=2e-3)


def test_a_weight_of_0_is_no_entry():
    some = np.where(REPEATS > 0, A, 0)
    weights = np.where(REPEATS > 0, 1.0, 0.0)
    fits = [
        BinaryMatrixCompletion((0.6, 0.2, 0.2), **OPTIONS).fit(matrix, **extra)
        for matrix, extra in ((A, {"weights": weights}), (some, {}))
    ]
    np.testing.assert_array_equal(fits[0].row_factors_, fits[1].row_factors_)


def test_equal_weights_with_penalties_as_large_are_no_weights():
    """Under PN weights c and penalties c times as large are c times the objective."""
    once = BinaryMatrixCompletion((1, 0, 0), **OPTIONS).fit(A)
    scaled = {"l2": 5.0, "l2_intercept": 3.5}
    five = BinaryMatrixCompletion((1, 0, 0), **OPTIONS | scaled).fit(
        A, weights=np.full(SHAPE, 5, dtype=np.int32)
    )
    assert five.objective_ == pytest.approx(5 * once.objective_, rel=1e-9)
    every = np.indices(SHAPE).reshape(2, -1)
    np.testing.assert_allclose(five.predict_proba(*every), once.predict_proba(*every), atol=1e-4)


def test_fold_in_update_and_transform_take_weights():
    model = BinaryMatrixCompletion((1, 0, 0), **OPTIONS).fit(A, weights=REPEATS)
    factors = model.transform(A, weights=REPEATS)
    np.testing.assert_allclose(factors[:, :2], model.row_factors_, atol=1e-4)
    again = model.fold_in(A, weights=REPEATS)
    np.testing.assert_allclose(again.row_factors_[SHAPE[0] :], model.row_factors_, atol=1e-4)
    assert np.abs(model.transform(A)[:, :2] - model.row_factors_).max() > 1e-2
    np.testing.assert_array_equal(
        BinaryMatrixCompletion((1, 0, 0), **OPTIONS).fit_transform(A, weights=REPEATS), factors
    )
    seen = Observations.from_matrix(A, weights=REPEATS)
    old, new = seen.hold_out(np.arange(len(seen)) % 7 == 0)
    updated = BinaryMatrixCompletion((1, 0, 0), **OPTIONS).fit(old).update(new, old)
    other = (
        BinaryMatrixCompletion((1, 0, 0), **OPTIONS).fit(old).update(new.with_weights(None), old)
    )
    assert np.abs(updated.row_factors_ - other.row_factors_).max() > 1e-3


def test_covariances_are_those_of_repeated_entries():
    """The curvature of a row over its entries, each counted as often as it is repeated."""
    model = BinaryMatrixCompletion((1, 0, 0), **OPTIONS).fit(A, weights=REPEATS)
    seen = Observations.from_matrix(A, weights=REPEATS)
    found = laplace(model, seen).rows.covariances(np.array([4]))[0]
    columns = np.repeat(np.arange(SHAPE[1]), REPEATS[4] * (A[4] != 0))
    Q = np.column_stack([model.column_factors_, np.ones(SHAPE[1])])[columns]
    p = model.predict_proba(np.full(columns.size, 4), columns)
    H = (Q * (p * (1 - p))[:, None]).T @ Q + np.diag([1.0, 1.0, 0.7])
    np.testing.assert_allclose(found, np.linalg.inv(H), rtol=1e-6)


def test_the_classifier_of_pairs_takes_sample_weight():
    at = np.argwhere(A != 0)
    y, w = A[A != 0], REPEATS[A != 0]
    model = BinaryMatrixCompletion((1, 0, 0), **OPTIONS)
    weighted = EntryClassifier(model).fit(at, y, sample_weight=w)
    matrix = model.fit(A, weights=REPEATS)
    np.testing.assert_allclose(
        weighted.predict_proba(at)[:, 1], matrix.predict_proba(*at.T), atol=1e-4
    )
    assert weighted.score(at, y, sample_weight=w) == pytest.approx(
        evaluate(matrix, Observations.from_matrix(A, weights=REPEATS)).accuracy
    )


def big_table(seed=0):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(60, 2)) @ draws.normal(size=(2, 40)) + draws.normal(size=40)
    table = np.where(draws.random(X.shape) < 0.6, np.where(X > 0, 1, -1), 0)
    return table, draws.integers(1, 5, X.shape)


@pytest.mark.parametrize("scale", [2.0, 0.01, 1e6])
def test_a_search_finds_the_same_model_for_weights_on_another_scale(scale):
    """Penalties are on the scale of the weights, so that the candidates are."""
    table, weights = big_table()
    seen = Observations.from_matrix(table, weights=weights)
    other = seen.with_weights(scale * seen.weights)
    first, second = (
        BinaryMatrixCompletion(n_candidates=12, dtype="float64", random_state=0).fit(each)
        for each in (seen, other)
    )
    assert second.rank_ == first.rank_
    assert second.l2_ == pytest.approx(scale * first.l2_, rel=1e-3)
    assert second.l2_intercept_ == pytest.approx(scale * first.l2_intercept_, rel=1e-3)
    np.testing.assert_allclose(
        second.predict_proba(seen.rows, seen.columns),
        first.predict_proba(seen.rows, seen.columns),
        atol=2e-3,
    )


def test_repeated_pairs_of_the_classifier_are_a_sample_weight():
    at = np.argwhere(A != 0)
    y, w = A[A != 0], REPEATS[A != 0].astype(int)
    model = BinaryMatrixCompletion((1, 0, 0), **OPTIONS)
    weighted = EntryClassifier(model).fit(at, y, sample_weight=w)
    repeated = EntryClassifier(model).fit(np.repeat(at, w, axis=0), np.repeat(y, w))
    np.testing.assert_array_equal(
        repeated.decision_function(at[w > 0]), weighted.decision_function(at[w > 0])
    )


def test_a_search_and_a_file_keep_weights(tmp_path):
    table, weights = big_table()
    recommender = Recommender(random_state=0).fit(table, weights=weights)
    plain = Recommender(random_state=0).fit(table)
    assert recommender.model_.search_.best.score != plain.model_.search_.best.score
    recommender.save(tmp_path / "model.tribit")
    again = Recommender.load(tmp_path / "model.tribit")
    np.testing.assert_array_equal(again.seen_.weights, weights[table != 0])
    assert load(tmp_path / "model.tribit") is not None
    new = again.fold_in(Observations.from_matrix(table[:1], weights=weights[:1]))
    assert new.seen_.weights.size == again.seen_.weights.size + np.count_nonzero(table[0])


def test_counts_of_plays_are_a_confidence_in_likes():
    """Only likes: a song that was played more often is likelier, and the probabilities stay those of cells."""
    draws = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "user": draws.integers(0, 60, 700),
            "song": draws.integers(0, 40, 700),
            "plays": draws.geometric(0.1, 700),
        }
    ).drop_duplicates(["user", "song"])
    model = BinaryMatrixCompletion(search=False, random_state=0)
    names = {"row": "user", "column": "song", "weight": "plays", "weight_scale": "log1p"}
    model.fit(frame, **names)
    seen = Observations.from_frame(frame, **names)
    assert model.reading_.weight == "plays"
    p = model.scores_.probability(model.scores_.x(seen.rows, seen.columns))
    often = seen.weights > np.median(seen.weights)
    assert p[often].mean() > p[~often].mean()
    assert np.isfinite(model.objective_)
    assert p.min() > 0.0
    assert p.max() < 1.0


def test_weights_on_a_cluster_are_refused():
    with pytest.raises(InvalidInputError, match="Workers of a cluster sum entries without weights"):
        BinaryMatrixCompletion().read(A, object(), REPEATS)
