"""How much to impute: the closed forms against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit

from tribit.model.risks import tri
from tribit.selection.gammas import imputed_share, mixture


def held_out(slope=1.0, seed=0, n=400):
    """Return probabilities that are too sure by the factor ``1 / slope`` in log-odds, labels and weights."""
    rng = np.random.default_rng(seed)
    x = 2.0 * rng.standard_normal(n)
    labels = np.where(rng.random(n) < expit(slope * x + 0.4), 1, -1)
    return expit(x), labels, rng.uniform(0.2, 3.0, n)


def squared_error(t, probabilities, labels, weights):
    y = (labels > 0).astype(float)
    g = np.sum(weights * y) / np.sum(weights)
    return np.sum(weights * (y - (1 - t) * probabilities - t * g) ** 2) / np.sum(weights)


@pytest.mark.parametrize("slope", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_the_share_is_the_minimum_over_t(slope, seed):
    data = held_out(slope, seed)
    found = minimize_scalar(squared_error, bounds=(0, 1), args=data, method="bounded")
    t = imputed_share(*data)
    assert 0 < t < 1
    assert t == pytest.approx(found.x, abs=1e-5)
    grid = [squared_error(s, *data) for s in np.linspace(0, 1, 201)]
    assert squared_error(t, *data) <= min(grid) + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_the_share_is_the_formula_of_the_docstring(seed):
    f, labels, weights = held_out(0.5, seed)
    y, w = (labels > 0).astype(float), weights / weights.sum()
    g = w @ y
    assert imputed_share(f, labels, weights) == pytest.approx(
        (w @ ((f - y) * (f - g))) / (w @ (f - g) ** 2), rel=1e-12
    )


def test_the_surer_the_model_the_more_is_imputed():
    shares = [imputed_share(*held_out(slope)) for slope in (1.0, 0.7, 0.4, 0.1)]
    assert shares == sorted(shares)
    assert shares[0] < 0.15
    assert shares[-1] > 0.6


def test_the_share_stays_within_0_and_1():
    f, labels, weights = held_out(
        3.0
    )  # far underconfident: the regression asks for less than nothing
    assert imputed_share(f, labels, weights) == 0.0
    assert imputed_share(1 - f, labels, weights) == 1.0  # and wrong everywhere: for more than all


def test_weights_count_as_copies():
    f, labels, _ = held_out(0.5)
    twice = np.where(np.arange(f.size) < 100, 2.0, 1.0)
    copied = np.concatenate([np.arange(f.size), np.arange(100)])
    assert imputed_share(f, labels, twice) == pytest.approx(
        imputed_share(f[copied], labels[copied], np.ones(copied.size)), rel=1e-10
    )


def test_a_model_that_says_the_share_everywhere_leaves_nothing_to_impute():
    labels = np.array([1, 1, -1, 1])
    assert imputed_share(np.full(4, 0.75), labels, np.ones(4)) == 0.0


@given(share=st.just(0.0) | st.floats(1e-9, 1), density=st.floats(1e-4, 1), likes=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_a_mixture_imputes_the_share_it_was_asked_for(share, density, likes):
    g_pn, g_pu, g_nu = mixture(share, density, likes)
    tri(g_pn, g_pu, g_nu, 0.5)  # it is a point of the simplex
    assert g_pn + g_pu + g_nu == pytest.approx(1.0)
    assert min(g_pn, g_pu, g_nu) >= -1e-15
    h = g_pu + g_nu
    if h + density * g_pn > 0:
        assert h / (h + density * g_pn) == pytest.approx(share, abs=1e-9)
    if h > 0:
        assert g_nu / h == pytest.approx(likes, abs=1e-9)


def test_the_ends_of_the_line_are_pn_and_punu():
    assert mixture(0.0, 0.1, 0.6) == (1.0, 0.0, 0.0)
    assert mixture(1.0, 0.1, 0.6) == pytest.approx((0.0, 0.4, 0.6))
    # In a full matrix nothing is unobserved, and the share is the weight itself.
    assert mixture(0.3, 1.0, 0.5) == pytest.approx((0.7, 0.15, 0.15))
