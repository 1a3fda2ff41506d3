"""Doubly robust row means: formulas by hand, all draws of a small row, and the weight of predictions."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from tribit.estimates.doubly_robust import (
    NODE_PROBABILITIES,
    RowSums,
    prediction_weights,
    row_sums,
)

RNG = np.random.default_rng(1)
Y = RNG.integers(0, 2, (4, 10))
P = RNG.uniform(0.02, 0.98, (4, 10))
MASK = RNG.random((4, 10)) < 0.6
WEIGHTS = np.array([1, 2, 0, 1, 1, 3, 1, 1, 0, 1]) / 11
Q = RNG.uniform(0.2, 0.9, (4, 10))


def signs(y, mask):
    return sp.csr_array(np.where(mask, 2 * y - 1, 0).astype(np.int8))


@pytest.mark.parametrize("q", [None, Q], ids=["uniform", "unequal"])
def test_estimates_and_variances_are_those_by_hand(q):
    sums = row_sums(signs(Y, MASK), P, WEIGHTS, q)
    for weight in (0.0, 0.7, 1.0):
        estimates = sums.estimates(np.full(4, weight))
        variances = sums.residual_variances(np.full(4, weight))
        for i in range(4):
            seen = [j for j in range(10) if MASK[i, j] and WEIGHTS[j] > 0]
            chance = {j: len(seen) / 8 if q is None else q[i, j] for j in seen}
            a = {j: WEIGHTS[j] / chance[j] for j in seen}
            residual = {j: Y[i, j] - weight * P[i, j] for j in seen}
            mean = sum(a[j] * residual[j] for j in seen) / sum(a.values())
            expected = weight * WEIGHTS @ P[i] + mean
            least = sum(WEIGHTS[j] * Y[i, j] for j in seen)
            most = least + sum(WEIGHTS[j] for j in range(10) if j not in seen)
            assert np.isclose(estimates[i], np.clip(expected, least, most))
            spread = sum(a[j] ** 2 * (1 - chance[j]) * (residual[j] - mean) ** 2 for j in seen)
            assert np.isclose(
                variances[i], spread / sum(a.values()) ** 2 * len(seen) / (len(seen) - 1)
            )
            assert np.isclose(
                sums.effective[i], sum(a.values()) ** 2 / sum(v**2 for v in a.values())
            )
            assert np.isclose(
                sums.completed[i],
                sum(WEIGHTS[j] * (Y[i, j] if j in seen else P[i, j]) for j in range(10)),
            )


def test_the_estimate_is_unbiased_over_all_draws_whatever_the_predictions():
    """The estimates of all 84 draws of 6 of 9 cells have the mean of the row as their mean."""
    y, p = np.array([1, 1, 0, 1, 1, 0, 0, 1, 0]), np.linspace(0.45, 0.55, 9)
    draws = [np.isin(np.arange(9), chosen) for chosen in combinations(range(9), 6)]
    mask = np.array(draws)
    sums = row_sums(signs(np.tile(y, (84, 1)), mask), np.tile(p, (84, 1)), np.full(9, 1 / 9))
    estimates = sums.estimates(np.full(84, 0.9))
    assert np.isclose(estimates.mean(), y.mean(), atol=1e-12)
    # The variance is estimated without bias.
    assert np.isclose(sums.residual_variances(np.full(84, 0.9)).mean(), estimates.var())


def test_histograms_keep_the_mean_prediction():
    sums = row_sums(signs(Y, MASK), P, WEIGHTS, Q)
    assert np.allclose(sums.mass @ NODE_PROBABILITIES, sums.population)
    assert np.allclose(sums.noise.sum(axis=1), (WEIGHTS**2 * (1 - Q) / Q).sum(axis=1))


def table(help_of_predictions, n=60, m=80, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.9, (n, m))
    y = rng.random((n, m)) < help_of_predictions * p + (1 - help_of_predictions) * 0.5
    return row_sums(signs(y * 1, rng.random((n, m)) < 0.4), p, np.full(m, 1 / m))


@pytest.mark.parametrize(("help_of_predictions", "expected"), [(1.0, 1.0), (0.5, 0.5), (0.0, 0.0)])
def test_the_weight_of_predictions_is_their_slope(help_of_predictions, expected):
    weights = prediction_weights(table(help_of_predictions))
    assert np.allclose(weights, expected, atol=0.15)


def test_predictions_of_the_opposite_have_no_weight():
    assert not prediction_weights(table(-1.0)).any()


def test_the_weight_of_a_row_is_its_own_where_slopes_differ():
    mixed = RowSums.concatenate([table(1.0), table(0.0, seed=1)])
    weights = prediction_weights(mixed)
    assert weights[:60].mean() > 0.75
    assert weights[60:].mean() < 0.25


def test_few_seen_cells_are_not_compared_with_predictions():
    few = row_sums(signs(Y, np.arange(10) < 3), P, np.full(10, 0.1))
    assert not few.is_compared.any()
    assert not prediction_weights(few).any()
