"""Entries that a report holds out by itself, and the refit without them."""

import numpy as np
import pytest

import tribit
from report_models import Parsed, bundle, draw, fixed
from tribit import Recommender
from tribit.report import make_report
from tribit.report.trial import split_entries


@pytest.fixture(scope="module")
def data():
    return draw().split(0.2, random_state=10)


@pytest.fixture(scope="module")
def fitted(data):
    return bundle(data[0])


def test_without_a_test_entries_are_held_out_and_it_says_so(fitted, data):
    report = make_report(fitted, random_state=11)
    assert report.held_out_here
    assert report.evaluation.n_entries == data[0].n_observed // 10
    assert "No test set was given" in Parsed(report.html).words
    train, held_out = split_entries(data[0], 11)
    assert held_out.n_observed == data[0].n_observed // 10
    assert not (np.abs(train.to_sparse()).multiply(np.abs(held_out.to_sparse()))).nnz
    again = fixed(random_state=11).fit(train)
    found = tribit.evaluate(again, held_out, train)
    assert report.evaluation.log_loss == pytest.approx(found.log_loss, rel=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"n_fits": 2}, {"implicit_features": True, "l2_implicit": 3.0}]
)
def test_a_refit_on_the_same_entries_is_the_same_model(data, options):
    model = fixed(activity_floor=(1, 1), **options).fit(data[0])
    again = model.with_fitted(model.refit(data[0], 0))
    assert again.n_fits_ == model.n_fits_
    np.testing.assert_allclose(again.complete(), model.complete(), atol=0.02)


def test_a_refit_of_likes_alone_has_the_regression_again():
    likes = draw((40, 60))
    likes = likes.take(np.flatnonzero(likes.labels > 0))
    found = Recommender(random_state=0).fit(likes).model_
    again = found.with_fitted(found.refit(likes, 0))
    assert again.rank_ == found.rank_
    np.testing.assert_allclose(again.complete(), found.complete(), atol=0.05)
