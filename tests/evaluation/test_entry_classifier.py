"""The entry-wise face, through scikit-learn's own tools."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from tribit import (
    BinaryMatrixCompletion,
    EntryClassifier,
    InvalidInputError,
    InvalidTypeError,
    Observations,
    TribitWarning,
)

RNG = np.random.default_rng(0)
M = np.where(
    RNG.random((40, 20)) < 0.5, np.sign(RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 20))), 0
)
ROWS, COLUMNS = np.nonzero(M)
X, Y = np.column_stack([ROWS, COLUMNS]), M[ROWS, COLUMNS].astype(int)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
OPTIONS = {
    "rank": 2,
    "l2": 1.0,
    "l2_intercept": 1.0,
    "search": False,
    "n_jobs": 1,
    "random_state": 0,
}
MODEL = BinaryMatrixCompletion(**OPTIONS)


def test_it_answers_as_the_model_does():
    classifier = EntryClassifier(MODEL).fit(X, Y)
    model = BinaryMatrixCompletion(**OPTIONS).fit(
        Observations(ROWS, COLUMNS, Y, M.shape, np.arange(40), np.arange(20))
    )
    x = model.decision_function(ROWS[::7], COLUMNS[::7])
    # Columns are numbered as they appear, which changes the order of sums.
    np.testing.assert_allclose(classifier.decision_function(X[::7]), x, atol=1e-2)
    likely = classifier.predict_proba(X)
    np.testing.assert_allclose(likely.sum(axis=1), 1.0)
    np.testing.assert_array_equal(likely[:, 1], classifier.model_.predict_proba(X[:, 0], X[:, 1]))
    np.testing.assert_array_equal(classifier.predict(X), classifier.model_.predict(ROWS, COLUMNS))
    assert classifier.score(X, Y) == np.mean(classifier.predict(X) == Y)
    assert not hasattr(MODEL, "row_factors_")


@pytest.mark.parametrize(
    "labels", [np.array([0, 1]), np.array([False, True]), np.array(["no", "yes"]), [3.0, 7.0]]
)
def test_classes_are_the_user_s_own(labels):
    y = np.asarray(labels)[(Y > 0).astype(int)]
    classifier = EntryClassifier(MODEL).fit(X, y)
    np.testing.assert_array_equal(classifier.classes_, labels)
    assert classifier.predict(X).dtype == y.dtype
    assert classifier.score(X, y) == EntryClassifier(MODEL).fit(X, Y).score(X, Y)


def test_every_kind_of_pairs():
    users, items = np.array([f"u{i}" for i in ROWS]), COLUMNS
    frame = pd.DataFrame({"who": users, "what": items})
    kinds = [
        frame,
        pl.from_pandas(frame),
        frame.to_numpy(),
        list(zip(users.tolist(), items.tolist(), strict=True)),
    ]
    expected = EntryClassifier(MODEL).fit(kinds[0], Y).predict_proba(kinds[0])
    for kind in kinds[1:]:
        classifier = EntryClassifier(MODEL).fit(kind, Y)
        np.testing.assert_array_equal(classifier.predict_proba(kind), expected)
        np.testing.assert_array_equal(classifier.predict_proba([("u3", 4)]).shape, (1, 2))
    assert classifier.n_features_in_ == 2


@pytest.mark.parametrize("implicit", [False, True])
def test_new_rows_and_columns_have_the_effects_of_the_other_side(implicit):
    changes = {"implicit_features": implicit, "l2_implicit": 3.0, "activity_floor": (1, 1)}
    classifier = EntryClassifier(MODEL).set_params(
        **{f"model__{name}": value for name, value in changes.items()}
    )
    classifier.fit(X, Y)
    model = classifier.model_
    asked = [[99, 3], [5, 77], [99, 77], [5, 3], [98, 3]]
    with pytest.warns(TribitWarning, match="4 of 5 pairs have a row or a column without training"):
        x = classifier.decision_function(asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nobody = Observations([0], [0], [1], (2, 20), [99, 100], model.column_ids_)
        rows = model.fold_in(nobody)  # the row 100 has no entry
        nothing = Observations([0], [0], [1], (40, 2), model.row_ids_, [77, 78])
        columns = model.fold_in(nothing, axis="columns")
    assert x[0] == x[4] == pytest.approx(float(rows.decision_function(100, 3)[0]), abs=1e-6)
    assert x[1] == pytest.approx(float(columns.decision_function(5, 78)[0]), abs=1e-6)
    assert x[3] == pytest.approx(float(model.decision_function(5, 3)[0]), abs=1e-6)
    if not implicit:
        effect = model.column_intercepts_[model.column_ids_.tolist().index(3)]
        assert x[0] == pytest.approx(model.intercept_ + effect, abs=1e-6)
        assert x[2] == pytest.approx(model.intercept_, abs=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.decision_function(asked[2:4] + asked[3:4])


def test_grid_search_finds_the_better_rank():
    search = GridSearchCV(EntryClassifier(MODEL), {"model__rank": [0, 2]}, cv=FOLDS).fit(X, Y)
    assert search.best_params_ == {"model__rank": 2}
    scores = search.cv_results_["mean_test_score"]
    assert scores[1] > scores[0] + 0.1
    assert search.best_estimator_.model_.rank_ == 2
    again = cross_val_score(EntryClassifier(MODEL), X, Y, cv=FOLDS)
    assert again.mean() == pytest.approx(scores[1])


def test_other_scorings_and_predictions_of_folds():
    classifier = EntryClassifier(MODEL)
    for scoring in ("roc_auc", "neg_log_loss", "f1"):
        assert np.isfinite(cross_val_score(classifier, X, Y, cv=FOLDS, scoring=scoring)).all()
    likely = cross_val_predict(classifier, X, Y, cv=FOLDS, method="predict_proba")
    assert likely.shape == (Y.size, 2)


def test_pipelines():
    class_of = FunctionTransformer(lambda pairs: pairs % 1000)
    pipeline = Pipeline([("ids", class_of), ("entries", EntryClassifier(MODEL))])
    plain = EntryClassifier(MODEL).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(pipeline.fit(X + 1000, Y).predict_proba(X + 2000), plain)
    search = GridSearchCV(pipeline, {"entries__model__rank": [0, 2]}, cv=FOLDS).fit(X, Y)
    assert search.best_params_ == {"entries__model__rank": 2}


def test_without_a_model_its_parameters_can_still_be_set():
    classifier = EntryClassifier()
    assert clone(classifier).model is None
    classifier.set_params(model__rank=1, model__l2=2.0)
    assert classifier.model.rank == 1
    assert clone(classifier).get_params()["model__l2"] == 2.0
    for name, value in OPTIONS.items():
        classifier.set_params(**{f"model__{name}": value})
    assert classifier.fit(X, Y).model_.rank_ == 2


def test_a_pair_that_is_given_twice():
    twice, labels = np.vstack([X, X[:1], X[:1]]), np.append(Y, [-Y[0], -Y[0]])
    flipped, weights = Y.copy(), np.ones(Y.size)
    flipped[0], weights[0] = -Y[0], 2.0
    np.testing.assert_array_equal(
        EntryClassifier(MODEL).fit(twice, labels).predict_proba(X),
        EntryClassifier(MODEL).fit(X, flipped, sample_weight=weights).predict_proba(X),
    )
    for keep in ("first", "last"):
        np.testing.assert_array_equal(
            EntryClassifier(MODEL, duplicates=keep).fit(twice, labels).predict_proba(X),
            EntryClassifier(MODEL).fit(X, Y if keep == "first" else flipped).predict_proba(X),
        )
    with pytest.raises(InvalidInputError, match="pair"):
        EntryClassifier(MODEL, duplicates="error").fit(twice, labels)


def test_what_cannot_be_read_is_refused():
    classifier = EntryClassifier(MODEL)
    with pytest.raises(InvalidInputError, match=r"the shape \(40, 20\); give one row and one"):
        classifier.fit(M, Y)
    with pytest.raises(InvalidInputError, match=r"y has the shape \(3,\) for"):
        classifier.fit(X, Y[:3])
    with pytest.raises(
        InvalidInputError, match=r"y must have two different labels, got 1 \(1\.0\)"
    ):
        classifier.fit(X, np.ones(Y.size))
    with pytest.raises(
        InvalidInputError, match=r"y must have two different labels, got 3 \(0, 1, 2\)"
    ):
        classifier.fit(X, np.arange(Y.size) % 3)
    with pytest.raises(InvalidTypeError, match="not a list of pairs"):
        classifier.fit([1, 2, 3], [0, 1, 1])
    with pytest.raises(InvalidInputError, match="pair 0: the id is missing"):
        classifier.fit([(None, 1), (1, 2)], [0, 1])
    with pytest.raises(NotFittedError):
        classifier.predict_proba(X)


# A matrix is not divided by rows


@pytest.mark.parametrize("scoring", [None, "accuracy", lambda model, X, y=None: model.score(X, y)])
@pytest.mark.parametrize("wrapped", [False, True])
def test_scikit_learn_s_searches_do_not_choose_from_nothing(scoring, wrapped):
    model = Pipeline([("model", MODEL)]) if wrapped else MODEL
    grid = {"model__rank" if wrapped else "rank": [1, 2]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, grid, cv=3, scoring=scoring)
        with pytest.raises(ValueError, match=r"use tribit\.cross_validate, or tribit\.EntryClass"):
            search.fit(M)
        with pytest.raises(ValueError, match=r"use tribit\.cross_validate, or tribit\.EntryClass"):
            cross_val_score(model, M, cv=3, scoring=scoring)
        with pytest.raises(InvalidInputError, match="divides a matrix by rows"):
            cross_val_score(model, M, cv=3, scoring=scoring, error_score="raise")
    assert not hasattr(search, "best_params_")


def test_other_tools_fit_it_as_before():
    pipeline = Pipeline([("model", MODEL)]).fit(M)
    np.testing.assert_array_equal(pipeline[-1].complete(), clone(MODEL).fit(M).complete())
