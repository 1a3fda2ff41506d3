"""New rows and columns of a fitted model, against the fit itself and against a general-purpose minimiser."""

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from other_parts import stacked, with_spec
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, TribitWarning, load
from tribit.model.links import Logistic

RNG = np.random.default_rng(3)
A = np.where(RNG.random((40, 25)) < 0.5, RNG.choice([-1, 1], (40, 25)), 0)
A[0, :3], A[:3, 0] = 1, -1
TIGHT = {
    "rank": 2,
    "l2": 1.5,
    "l2_intercept": 0.7,
    "search": False,
    "dtype": "float64",
    "tol": 1e-12,
    "max_iter": 5000,
    "n_jobs": 1,
    "random_state": 0,
}
PN = {"search": False}
MODELS = {
    "factors": PN,
    "no intercept": {**PN, "intercept": False},
    "rank 0": {**PN, "rank": 0},
    "implicit features": {
        "gammas": (1, 0, 0),
        "implicit_features": True,
        "l2_implicit": 2.0,
        "activity_floor": (1, 0.5),
    },
    "mixture": {"gammas": (0.6, 0.2, 0.2), "radius": 1.0, "rho": 0.5},
    "by entries": {**PN, "l2_power": 1.0},
    "mixture by entries": {"gammas": (0.6, 0.2, 0.2), "radius": 9.0, "rho": 0.0, "l2_power": 0.5},
    "stack": PN,
    "stack with features": {
        "gammas": (1, 0, 0),
        "implicit_features": True,
        "l2_implicit": 2.0,
        "activity_floor": (1, 0),
        "l2_power": 0.5,
    },
}


def fitted(name, X=A, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {**TIGHT, **MODELS[name], **changes}
        model = BinaryMatrixCompletion(**options).fit(X)
        if not name.startswith("stack"):
            return model
        return stacked([model, BinaryMatrixCompletion(**{**options, "rank": 4}).fit(X)], (0.7, 0.3))


@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("name", MODELS)
def test_what_was_fitted_is_folded_in_with_the_same_factors(name, axis):
    model = fitted(name)
    again = model.fold_in(A[:7] if axis == "rows" else A[:, :7], axis=axis)
    X = model.complete("score")
    Y = again.complete("score")
    np.testing.assert_allclose(Y[:40, :25], X, atol=1e-12)  # what was there stays
    new, old = (Y[40:], X[:7]) if axis == "rows" else (Y[:, 25:], X[:, :7])
    np.testing.assert_allclose(new, old, atol=1e-4)
    assert again.shape_ == ((47, 25) if axis == "rows" else (40, 32))
    assert model.shape_ == (40, 25)


@pytest.mark.parametrize("name", ["factors", "implicit features", "by entries"])
def test_a_new_row_is_at_the_minimum_of_its_own_objective(name):
    model = fitted(name)
    row = np.zeros((1, 25), dtype=int)
    row[0, [1, 4, 9, 11]] = [1, -1, -1, 1]
    folded = model.fold_in(row)
    V, c = model.column_factors_, model.column_intercepts_ + model.intercept_
    s, t = np.zeros(2), 0.0
    if name == "implicit features":
        # The features from their definition, with the popularity and the mean length of the fit.
        counts = (A != 0).sum(axis=1)
        popularity, typical = (A != 0).sum(axis=0) / (A != 0).sum(), counts.mean()
        f = (np.abs(row[0]) - 4 * popularity) / 2 + np.sqrt(max(4, typical)) * popularity
        s = f @ model.unknowns_.row_factors[40:65]
        t = f @ model.unknowns_.row_intercepts[40:65]
    seen = np.flatnonzero(row[0])
    relative = 4 / (A != 0).sum(axis=1).mean() if name == "by entries" else 1.0

    def value(p):
        x = V[seen] @ (s + p[:2]) + t + p[2] + c[seen]
        loss = np.logaddexp(0, -row[0, seen] * x).sum()
        return loss + 0.75 * relative * p[:2] @ p[:2] + 0.35 * p[2] ** 2

    p = minimize(value, np.zeros(3), tol=1e-14, options={"gtol": 1e-9}).x
    np.testing.assert_allclose(folded.row_factors_[40], s + p[:2], atol=1e-6)
    assert folded.row_intercepts_[40] == pytest.approx(t + p[2], abs=1e-6)


def test_the_prior_of_new_rows_scales_the_ridge_of_the_fit():
    model = fitted("factors")
    folded = model.fold_in(A[:5], prior="new")
    # The same objective with the ridges of a model that has them scaled.
    scaled = with_spec(model, l2=0.6 * 1.5, l2_intercept=1.5 * 0.7)
    np.testing.assert_allclose(
        folded.complete("score"), scaled.fold_in(A[:5]).complete("score"), atol=1e-9
    )
    assert np.abs(folded.row_factors_[40:]).sum() > np.abs(model.row_factors_[:5]).sum()
    with pytest.raises(InvalidInputError, match="prior"):
        model.fold_in(A[:5], prior="old")


@pytest.mark.parametrize(
    "name", ["factors", "implicit features", "stack with features", "by entries"]
)
def test_a_loaded_model_folds_in_the_same(name, tmp_path):
    model = fitted(name, dtype="float32", tol=1e-4)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    X, Y = (each.fold_in(A[:5]).complete("score") for each in (model, loaded))
    np.testing.assert_allclose(X, Y, atol=1e-5)
    folded = model.fold_in(A[:5])
    folded.save(tmp_path / "folded")
    np.testing.assert_array_equal(
        load(tmp_path / "folded").complete("score"), folded.complete("score")
    )


def test_new_rows_can_be_folded_in_beside_new_ones():
    model = fitted("implicit features")
    once = model.fold_in(A[:5])
    twice = model.fold_in(A[:2]).fold_in(A[2:5])
    np.testing.assert_allclose(once.complete("score"), twice.complete("score"), atol=1e-9)
    both = once.fold_in(np.vstack([A, A[:5]])[:, :3], axis="columns")
    assert both.shape_ == (45, 28)
    assert np.isfinite(both.complete()).all()


def test_a_row_of_which_nothing_is_known_has_the_effects_of_the_columns():
    model = fitted("factors")
    nothing = sp.csr_array(np.vstack([np.zeros(25), A[0]]))
    with pytest.warns(TribitWarning, match="1 of the new rows, such as 0, have no entries"):
        folded = model.fold_in(nothing)
    x = folded.decision_function([40] * 25, range(25))
    np.testing.assert_allclose(x, model.intercept_ + model.column_intercepts_, atol=1e-12)
    np.testing.assert_allclose(
        folded.decision_function([41] * 25, range(25)),
        model.decision_function([0] * 25, range(25)),
        atol=1e-4,
    )


def with_ids(X, rows, columns):
    return Observations(
        *np.nonzero(X), X[np.nonzero(X)], shape=X.shape, row_ids=rows, column_ids=columns
    )


def test_ids_decide_which_column_is_which():
    names = [f"c{j}" for j in range(25)]
    model = fitted("factors", with_ids(A, [f"r{i}" for i in range(40)], names))
    order = np.random.default_rng(0).permutation(25)
    new = with_ids(A[:3][:, order], ["x", "y", "z"], [names[j] for j in order])
    folded = model.fold_in(new)
    assert list(folded.row_ids_[40:]) == ["x", "y", "z"]
    for old, name in zip(["r0", "r1", "r2"], "xyz", strict=True):
        np.testing.assert_allclose(
            folded.predict_proba([name] * 25, names),
            model.predict_proba([old] * 25, names),
            atol=1e-4,
        )
    with pytest.raises(InvalidInputError, match="knows the row 'r1' already: add entries to it"):
        model.fold_in(with_ids(A[:1], ["r1"], names))
    with pytest.raises(InvalidInputError, match="The column 'c99' is unknown to the model; "):
        model.fold_in(with_ids(A[:1, :1], ["new"], ["c99"]), unknown="error")
    with pytest.raises(InvalidInputError, match="fitted on column ids but the entries have none"):
        model.fold_in(A[:2])


def test_the_wrong_number_of_columns_and_an_unknown_axis_are_refused():
    model = fitted("factors")
    with pytest.raises(InvalidInputError, match="24 columns and the model 25"):
        model.fold_in(A[:2, :24])
    with pytest.raises(InvalidInputError, match="axis"):
        model.fold_in(A[:2], axis="diagonal")


def test_the_model_itself_is_left_as_it_is():
    model = fitted("implicit features")
    before = copy.deepcopy(model)
    model.fold_in(A[:3])
    model.update(A[:3], A)
    np.testing.assert_array_equal(model.complete(), before.complete())
    assert model.unknowns_.row_factors.shape == before.unknowns_.row_factors.shape


def test_a_mixture_whose_model_of_the_mask_a_file_does_not_keep_says_so(tmp_path):
    model = fitted("mixture", rho="row-column", dtype="float32", tol=1e-3)
    assert np.isfinite(model.fold_in(A[:3]).complete()).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(tmp_path / "model")
    with pytest.raises(InvalidInputError, match=r"set model\.rho_"):
        load(tmp_path / "model").fold_in(A[:3])


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_bits_do_not_depend_on_the_threads(n_jobs):
    one, more = (fitted("implicit features", n_jobs=n) for n in (1, n_jobs))
    np.testing.assert_array_equal(one.fold_in(A).complete(), more.fold_in(A).complete())


# Updates


@pytest.mark.parametrize("name", ["factors", "implicit features", "mixture", "stack"])
def test_an_update_with_nothing_new_changes_nothing(name):
    model = fitted(name)
    again = model.update(A[:4], seen=A) if name != "mixture" else model.update(A, seen=A)
    np.testing.assert_allclose(again.complete("score"), model.complete("score"), atol=2e-4)


@pytest.mark.parametrize("name", ["factors", "implicit features"])
def test_an_update_comes_near_a_fit_on_all_entries(name):
    rng = np.random.default_rng(1)
    truth = np.sign(np.outer(rng.normal(size=40), rng.normal(size=25)))
    B = np.where(rng.random(A.shape) < 0.6, truth * np.where(rng.random(A.shape) < 0.1, -1, 1), 0)
    first = B.copy()
    first[35:] = 0
    first[:, 20:] = 0
    model = fitted(name, first[:35, :20])
    updated = model.update(B - first, seen=first[:35, :20])
    assert updated.shape_ == B.shape
    whole = fitted(name, B).complete()
    before = np.full(A.shape, 0.5)
    before[:35, :20] = model.complete()
    distance = [np.abs(each - whole).mean() for each in (updated.complete(), before)]
    assert distance[0] < 0.6 * distance[1]


def test_a_new_label_takes_the_place_of_the_old_one():
    model = fitted("factors")
    i, j = (int(place[0]) for place in np.nonzero(A == 1))
    change = np.zeros_like(A)
    change[i, j] = -1
    updated = model.update(change, seen=A)
    x = model.decision_function(i, j), updated.decision_function(i, j)
    assert x[1] < x[0] - 0.1


def test_seen_entries_of_another_matrix_are_refused():
    model = fitted("factors")
    with pytest.raises(InvalidInputError, match="The seen entries have 41 rows and the model 40"):
        model.update(A[:3], seen=np.vstack([A, A[:1]]))


def test_the_link_of_the_model_is_used():
    scaled = fitted("factors", link=Logistic(3.0))
    np.testing.assert_allclose(
        scaled.fold_in(A[:5]).complete()[40:], scaled.complete()[:5], atol=1e-4
    )
