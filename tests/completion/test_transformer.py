"""Factors of rows for other estimators: scikit-learn's interface of a transformer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from tribit import BinaryMatrixCompletion, InvalidInputError, Recommender, TribitWarning

FIXED = {"search": False, "l2": 1.0, "n_jobs": 1, "random_state": 0}
CLOSE = {"tol": 1e-8, "dtype": "float64"}
CASES = [
    {"rank": 2},
    {"rank": 0},
    {"rank": 2, "intercept": False},
    {"rank": 2, "implicit_features": True},
    {"rank": 2, "gammas": (0.6, 0.2, 0.2)},
]


@pytest.fixture(scope="module")
def table():
    """Likes and dislikes by the sign of a matrix of rank 2, and which rows have a positive first factor."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 2))
    labels = np.sign(rows @ rng.normal(size=(2, 30)) + rng.normal(0, 0.5, (80, 30)))
    return np.where(rng.random(labels.shape) < 0.5, labels, 0), rows[:, 0] > 0


@pytest.fixture(scope="module")
def model(table):
    return BinaryMatrixCompletion(rank=2, **FIXED, **CLOSE).fit(table[0])


def factors_of(model):
    biases = [model.row_intercepts_[:, None]] if model.spec_.intercept else []
    return np.hstack([model.row_factors_, *biases])


@pytest.mark.parametrize("options", CASES, ids=str)
def test_rows_of_the_fit_have_their_factors_again(table, options):
    model = BinaryMatrixCompletion(**FIXED, **CLOSE, **options)
    found = model.fit_transform(table[0], table[1])
    np.testing.assert_array_equal(found, model.fit(table[0]).transform(table[0]))
    np.testing.assert_allclose(found, factors_of(model), atol=2e-3 * np.abs(found).max())
    names = [f"factor{n}" for n in range(options["rank"])]
    names += ["bias"] * options.get("intercept", True)
    assert model.get_feature_names_out().tolist() == names
    assert found.shape == (80, len(names))


def test_new_rows_are_folded_in(table, model):
    new = -table[0][:5]
    found = model.transform(new)
    np.testing.assert_allclose(found, factors_of(model.fold_in(new))[80:], atol=1e-12)
    np.testing.assert_allclose(model.transform(sp.csr_array(new[[4, 1]])), found[[4, 1]])


def test_columns_are_matched_by_id(table):
    frame = pd.DataFrame(table[0]).add_prefix("i")
    model = BinaryMatrixCompletion(rank=2, **FIXED).fit(frame)
    found = model.transform(frame)
    np.testing.assert_allclose(model.transform(frame.iloc[:, ::-1]), found, atol=1e-6)
    with pytest.raises(InvalidInputError, match="column 'zed' is unknown"):
        model.transform(frame.rename(columns={"i3": "zed"}))


def test_matrices_are_read_by_the_rules_of_the_fit(table):
    model = BinaryMatrixCompletion(rank=2, **FIXED)
    full = (table[0] > 0).astype(int)
    found = model.fit_transform(full, zeros="dislike")
    np.testing.assert_array_equal(found, model.transform(np.where(full, 1, -1)))
    np.testing.assert_array_equal(found, model.transform(full))


def test_a_matrix_of_another_width_is_refused(table, model):
    with pytest.raises(InvalidInputError, match="29 columns"):
        model.transform(table[0][:, :29])


def test_features_of_rows_are_used(table):
    labels = table[0].copy()
    labels[3] = 0
    features = pd.DataFrame({"group": np.where(table[1], "a", "b")})
    model = BinaryMatrixCompletion(rank=2, **FIXED, **CLOSE)
    found = model.fit_transform(labels, row_features=features)
    np.testing.assert_allclose(found, factors_of(model), atol=2e-3)
    with pytest.warns(TribitWarning, match="no entries and no features"):
        without = model.transform(labels)
    assert np.abs(found[3] - without[3]).max() > 1e-3


def test_a_step_of_a_pipeline_in_cross_validation(table):
    labels, group = table
    pipeline = make_pipeline(BinaryMatrixCompletion(rank=2, **FIXED), LogisticRegression())
    assert cross_val_score(pipeline, labels, group, cv=4).mean() > 0.85
    by_hand = BinaryMatrixCompletion(rank=2, **FIXED).fit(labels[:60])
    logistic = LogisticRegression().fit(by_hand.transform(labels[:60]), group[:60])
    expected = logistic.predict_proba(by_hand.transform(labels[60:]))
    found = pipeline.fit(labels[:60], group[:60]).predict_proba(labels[60:])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert pipeline[:-1].get_feature_names_out().tolist() == ["factor0", "factor1", "bias"]


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_a_frame_in_the_output(table, container):
    frame = pd.DataFrame(table[0]).add_prefix("i").add_prefix("u", axis="index")
    model = BinaryMatrixCompletion(rank=2, **FIXED).set_output(transform=container)
    found = model.fit_transform(frame)
    assert isinstance(found, pd.DataFrame if container == "pandas" else pl.DataFrame)
    assert list(found.columns) == ["factor0", "factor1", "bias"]
    if container == "pandas":
        assert found.index.tolist() == frame.index.tolist()
    np.testing.assert_array_equal(found.to_numpy(), model.set_output().transform(frame))


@pytest.mark.parametrize(
    "name",
    [
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
        "check_set_output_transform",
    ],
)
def test_scikit_learns_checks_of_frames(name):
    """Those with frames as output also transform arrays without the names of the fit, which is refused here."""
    model = BinaryMatrixCompletion(rank=1, like_at=0.5, **FIXED)
    getattr(estimator_checks, name)("BinaryMatrixCompletion", model)


def test_before_the_fit():
    for call in (lambda m: m.transform([[1]]), lambda m: m.get_feature_names_out()):
        with pytest.raises(NotFittedError):
            call(BinaryMatrixCompletion())


def test_a_recommender_has_the_tags_of_its_model(table):
    recommender = Recommender(BinaryMatrixCompletion(rank=1, **FIXED), random_state=0)
    assert not hasattr(recommender, "n_features_in_")
    tags = recommender.__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    assert not tags.target_tags.required
    assert recommender.fit(table[0]).n_features_in_ == 30
