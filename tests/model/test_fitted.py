"""The result of a fit: its transpose, its members, and what of it a new row needs."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from other_parts import stacked
from tribit import BinaryMatrixCompletion, InvalidInputError, InvalidTypeError, Observations, pn
from tribit.data.axis import Axes
from tribit.model.features import FeatureRegression
from tribit.model.fitted import MeanRho, as_fitted
from tribit.propensity import row_column as row_column_model

RNG = np.random.default_rng(2)
SHAPE = 24, 18
A = np.where(RNG.random(SHAPE) < 0.6, RNG.choice([-1, 1], SHAPE), 0)
A[:, 16:] = 0
ROWS, COLUMNS = [f"r{n}" for n in range(24)], list(range(100, 118))
FIXED = {"rank": 2, "l2": 1.0, "l2_intercept": 1.0, "l2_implicit": 2.0, "search": False}
FIXED |= {"max_iter": 20, "n_jobs": 1, "random_state": 0}
MIXTURE = {"gammas": (0.6, 0.2, 0.2), "radius": 1.0}
MODELS = {
    "plain": {},
    "rank 0": {"rank": 0},
    "implicit": {"implicit_features": True, "activity_floor": (1, 0.5)},
    "mixture": {**MIXTURE, "rho": 0.4},
    "row-column": {**MIXTURE, "rho": "row-column"},
    "stack": {"implicit_features": True, "activity_floor": (1, 0.5)},
    "features": {"implicit_features": True, "activity_floor": (1, 0), "side_features": True},
}


def observed():
    i, j = np.nonzero(A)
    return Observations.from_pairs(
        i, j, A[i, j], shape=SHAPE, row_ids=np.array(ROWS), column_ids=COLUMNS
    )


def fit(name):
    given = {}
    if name == "features":
        table = {"kind": RNG.choice(list("abc"), 18), "year": RNG.normal(size=18)}
        given = {"column_features": pd.DataFrame(table, index=COLUMNS)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {**FIXED, **MODELS[name]}
        model = BinaryMatrixCompletion(**options).fit(observed(), **given)
        if name == "stack":
            wider = BinaryMatrixCompletion(**{**options, "rank": 4}).fit(observed())
            model = stacked([model, wider], (0.7, 0.3))
    fitted = model.fitted_
    if name == "features":
        own, features = np.ones((24, 3), np.float32), np.eye(18, 3, dtype=np.float32)
        fitted = dataclasses.replace(
            fitted, feature_regressions=(None, FeatureRegression(features, own))
        )
    return fitted


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return fit(request.param)


@pytest.fixture(scope="module")
def row_column():
    return fit("row-column")


def check_equal(found, expected):
    """Check that two values are equal to the bit, however they are nested."""
    assert type(found) is type(expected)
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        for each in dataclasses.fields(found):
            check_equal(getattr(found, each.name), getattr(expected, each.name))
    elif isinstance(found, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_equal(one, other)
    elif isinstance(found, np.ndarray):
        np.testing.assert_array_equal(found, expected, strict=True)
    else:
        assert found == expected


def test_the_transpose_of_the_transpose_is_the_fit(fitted):
    check_equal(fitted.transposed.transposed, fitted)
    member = fitted.members[0]
    check_equal(member.transposed.transposed, member)
    grown = fitted.with_axes(Axes.of(SHAPE))
    check_equal(grown.transposed.transposed, grown)


def test_the_transpose_has_rows_and_columns_exchanged(fitted):
    turned = fitted.transposed
    assert turned.shape == fitted.shape[::-1] == (18, 24)
    assert [each.name for each in turned.axes] == ["column", "row"]
    assert turned.axes.rows.ids.tolist() == COLUMNS
    rows, columns = (each.ravel() for each in np.indices(SHAPE))
    np.testing.assert_allclose(
        turned.scores.x(columns, rows), fitted.scores.x(rows, columns), rtol=1e-12, atol=1e-12
    )
    assert (turned.meaning, turned.calibrator) == (fitted.meaning, fitted.calibrator)
    assert turned.feature_regressions == fitted.feature_regressions[::-1]
    assert len(turned.members) == len(fitted.members)
    for ours, theirs in zip(fitted.members, turned.members, strict=True):
        assert theirs.shape == ours.shape[::-1]
        assert theirs.maps == ours.maps[::-1]
        assert (theirs.own_rank, theirs.weight) == (ours.own_rank, ours.weight)


def test_the_risk_of_a_transposed_model_of_the_mask_is_transposed(row_column):
    rho, turned = row_column.rho, row_column.transposed.rho
    rows, columns = np.array([0, 5, 23]), np.array([17, 3, 0])
    np.testing.assert_array_equal(turned.rho_at(columns, rows), rho.rho_at(rows, columns))
    assert row_column.transposed.transposed.rho is rho
    grown = row_column.with_axes(row_column.axes)
    assert grown.fitted_shape == SHAPE
    assert grown.transposed.fitted_shape == SHAPE[::-1]
    assert grown.with_axes(Axes.of((30, 18))).fitted_shape == SHAPE  # that of the fit
    assert grown.with_rho(0.5).fitted_shape is None


def test_a_member_is_a_fit_of_its_own():
    fitted = fit("stack")
    for number, member in enumerate(fitted.members):
        alone = fitted.member(number)
        assert alone.members == (member,)
        assert alone.factors is member.factors
        assert alone.spec is member.spec
    mean = np.average(
        [each.factors.at(np.arange(18), np.arange(18)) for each in fitted.members],
        axis=0,
        weights=(0.7, 0.3),
    )
    np.testing.assert_allclose(fitted.factors.at(np.arange(18), np.arange(18)), mean, atol=1e-6)


def test_with_rho_every_member_has_it():
    fitted = fit("stack").with_rho(0.25)
    assert [each.spec.rho for each in fitted.members] == [0.25, 0.25]
    assert fitted.rho == 0.25


def test_the_risk_of_a_new_row_is_the_mean_over_the_rows_by_column(row_column):
    (risk,) = row_column.row_risks()
    whole = row_column.rho.rho_at(*(each.ravel() for each in np.indices(SHAPE))).reshape(SHAPE)
    assert isinstance(risk.rho, MeanRho)
    np.testing.assert_allclose(risk.rho.rho_at(0, np.arange(18)), whole.mean(axis=0), rtol=1e-12)
    # A column that came after the fit has the mean of all.
    np.testing.assert_allclose(risk.rho.rho_at([3], [18]), whole.mean(), rtol=1e-12)
    assert (risk.pn, risk.pu, risk.nu) == (0.6, 0.2, 0.2)


def test_each_member_has_the_risk_of_its_own_spec(row_column):
    plain, mixture = fit("plain"), fit("mixture")
    both = dataclasses.replace(
        plain, members=(plain.members[0], mixture.members[0], row_column.members[0])
    )
    first, second, third = both.row_risks()
    assert (first.pn, first.pu, first.nu) == (1.0, 0.0, 0.0)
    assert (second.pn, second.pu, second.rho) == (0.6, 0.2, 0.4)
    assert isinstance(third.rho, MeanRho)


def test_the_mean_over_a_model_of_the_mask_is_taken_once(row_column, monkeypatch):
    calls, real = [], MeanRho.of
    monkeypatch.setattr(MeanRho, "of", lambda *parts: calls.append(1) or real(*parts))
    twice = dataclasses.replace(row_column, members=row_column.members * 2)
    one, other = twice.row_risks()
    assert one is other
    assert len(calls) == 1


def test_a_rho_that_is_not_known_any_more_is_asked_for(row_column):
    lost = row_column.with_rho(None)
    for risk in (lost.risk, lost.row_risks):
        with pytest.raises(InvalidInputError, match=r"set model\.rho_"):
            risk()
    assert fit("plain").with_rho(None).risk().pn == pn().pn == 1.0
    again = lost.with_rho(row_column_model(observed()))
    assert isinstance(again.row_risks()[0].rho, MeanRho)


def test_what_needs_a_fit_refuses_other_models():
    fitted = fit("plain")
    assert as_fitted(fitted, "this") is fitted
    with pytest.raises(NotFittedError):
        as_fitted(BinaryMatrixCompletion(), "this")

    class Scored(BaseEstimator):
        def fit(self):
            self.scores_ = fitted.scores
            return self

    with pytest.raises(InvalidTypeError, match="this needs a fitted BinaryMatrixCompletion; got S"):
        as_fitted(Scored().fit(), "this")
