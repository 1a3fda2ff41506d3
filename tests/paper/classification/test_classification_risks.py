from functools import cache

import numpy as np
import pytest

from tribit import InvalidInputError, nu, pn, pnu, pu, punu
from tribit.paper.classification import LOSSES, Squared, ZeroOne, empirical_risk
from tribit.paper.classification.risks import as_loss, example_weights
from tribit.paper.classification.selection import validation_mixture

MIXTURES = [pn(), pu(0), nu(0), punu(0.3, 0), pnu(0.6, 0), pnu(-0.6, 0)]


def decision(x):
    return 0.7 * x + 0.2


def test_surrogates_differ_by_the_decision():
    g = np.array([-1e3, -2.0, -0.1, 0.0, 0.3, 5.0, 1e3])
    for loss in LOSSES.values():
        np.testing.assert_allclose(loss.loss(g, 1) - loss.loss(g, -1), -g, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("label", [1, -1])
def test_derivative(name, label):
    g, step = np.linspace(-4, 4, 41), 1e-5
    loss = LOSSES[name]
    by_differences = (loss.loss(g + step, label) - loss.loss(g - step, label)) / (2 * step)
    np.testing.assert_allclose(loss.first(g, label), by_differences, atol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_probability_is_that_of_the_least_expected_loss(name):
    loss, grid = LOSSES[name], np.linspace(-3, 3, 60_001)
    for likely in (0.1, 0.5, 0.8):
        expected = likely * loss.loss(grid, 1) + (1 - likely) * loss.loss(grid, -1)
        best = grid[np.argmin(expected)]
        assert loss.probability(best) == pytest.approx(likely, abs=1e-4)


def test_squared_probability_is_kept_within_0_and_1():
    np.testing.assert_array_equal(Squared().probability(np.array([-3.0, 0.0, 3.0])), [0, 0.5, 1])


def test_zero_one():
    np.testing.assert_array_equal(ZeroOne().loss(np.array([-1.0, 0.0, 1.0]), 1), [1, 1, 0])
    np.testing.assert_array_equal(ZeroOne().loss(np.array([-1.0, 0.0, 1.0]), -1), [0, 0, 1])


def test_risks_by_their_formulas():
    draws = np.random.default_rng(0)
    labels = np.array([1, 1, 0, 0, 0, -1, -1, -1, -1])
    g, t, loss = draws.normal(size=9), 0.3, Squared()
    P, U, N = g[:2], g[2:5], g[5:]
    plus, minus = (lambda x: np.mean((1 - x) ** 2 / 4)), (lambda x: np.mean((1 + x) ** 2 / 4))
    R_PN = t * plus(P) + (1 - t) * minus(N)
    R_PU = t * (plus(P) - minus(P)) + minus(U)
    R_NU = (1 - t) * (minus(N) - plus(N)) + plus(U)
    expected = {
        pn(): R_PN,
        pu(0): R_PU,
        nu(0): R_NU,
        punu(0.3, 0): 0.7 * R_PU + 0.3 * R_NU,
        pnu(0.6, 0): 0.4 * R_PN + 0.6 * R_PU,
        pnu(-0.6, 0): 0.4 * R_PN + 0.6 * R_NU,
    }
    for mixture, value in expected.items():
        found = empirical_risk(g, labels, mixture, prior=t, loss=loss)
        assert found == pytest.approx(value, abs=1e-14)


@cache
def population(t):
    """Return the labels of 10^6 draws and the decisions on them."""
    draws = np.random.default_rng(1)
    y = np.where(draws.random(1_000_000) < t, 1, -1)
    return y, decision(y + draws.normal(size=y.size))


@pytest.mark.parametrize("mixture", MIXTURES, ids=repr)
@pytest.mark.parametrize("loss", [*LOSSES.values(), ZeroOne()], ids=repr)
def test_every_risk_is_unbiased(mixture, loss):
    # All of them estimate E[l(g(x), y)], here found from 10^6 labelled draws.
    t, draws = 0.3, np.random.default_rng(2)
    y, g = population(t)
    truth = np.mean(np.where(y > 0, loss.loss(g, 1), loss.loss(g, -1)))
    labels = np.repeat([1, 0, -1], [5, 7, 6])
    found = []
    for _ in range(4000):
        hidden = np.where(draws.random(7) < t, 1, -1)
        x = np.concatenate([np.ones(5), hidden, -np.ones(6)]) + draws.normal(size=18)
        found.append(empirical_risk(decision(x), labels, mixture, prior=t, loss=loss))
    error = np.std(found) / np.sqrt(len(found)) + 1e-3
    assert abs(np.mean(found) - truth) < 4 * error
    assert error < 0.02


@pytest.mark.parametrize("mixture", MIXTURES, ids=repr)
def test_weights_sum_to_the_prior_and_are_convex(mixture):
    plus, minus = example_weights(np.array([1, 0, 0, -1, -1, 1, 1]), mixture, 0.3)
    assert plus.sum() == pytest.approx(0.3)
    assert minus.sum() == pytest.approx(0.7)
    assert np.all(plus + minus >= -1e-15)


def test_nonnegative_risk_by_its_formula():
    labels, t = np.array([1, 1, 0, 0, -1]), 0.6
    loss = LOSSES["logistic"]
    for seed in range(50):
        g = 5 * np.random.default_rng(seed).normal(size=5)
        up, down = np.logaddexp(0, -g), np.logaddexp(0, g)
        R_P, R_N = t * up[:2].mean(), (1 - t) * down[4]
        PU = R_P + max(0, down[2:4].mean() - t * down[:2].mean())
        NU = R_N + max(0, up[2:4].mean() - (1 - t) * up[4])
        for mixture, value in {
            pu(0): PU,
            nu(0): NU,
            punu(0.3, 0): 0.7 * PU + 0.3 * NU,
            pnu(0.4, 0): 0.6 * (R_P + R_N) + 0.4 * PU,
        }.items():
            options = {"prior": t, "loss": loss}
            found = empirical_risk(g, labels, mixture, nonnegative=True, **options)
            assert found == pytest.approx(value, rel=1e-10)
            assert found >= max(0, empirical_risk(g, labels, mixture, **options) - 1e-12)


def test_a_missing_kind_is_named():
    for mixture, labels, word in [
        (pu(0), [1, -1], "unlabelled"),
        (pn(), [1, 0], "negative"),
        (nu(0), [-1, 1], "unlabelled"),
        (pu(0), [0, -1], "positive"),
    ]:
        with pytest.raises(InvalidInputError, match=word):
            example_weights(np.array(labels), mixture, 0.5)


def test_unknown_loss():
    for name in ("hinge", 3):
        with pytest.raises(InvalidInputError, match="There is no loss"):
            as_loss(name)


def test_validation_mixture_has_the_least_variance():
    # For l of equal variance over the three kinds: the variance is the sum of squared weights of l(g, +1).
    labels, t = np.repeat([1, 0, -1], [3, 50, 20]), 0.4

    def variance(eta):
        plus, minus = example_weights(labels, pnu(eta, 0), t)
        return np.sum((plus - minus) ** 2)

    chosen = validation_mixture("pnu", labels, t)
    eta = chosen.pu - chosen.nu
    assert eta < -0.1
    assert variance(eta) <= min(variance(eta - 1e-3), variance(eta + 1e-3))
    assert validation_mixture("punu", labels, t) == chosen
    assert validation_mixture("pu", labels, t) == pu(0)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_the_prior_of_a_risk_is_inside_0_and_1(prior):
    with pytest.raises(InvalidInputError, match=r"prior, .* must be above 0 and below 1; got"):
        empirical_risk(np.zeros(2), np.array([1, -1]), pn(), prior=prior, loss=Squared())
