"""Intervals: Wilson's where predictions have no weight, their test inverted by brute force, differences and ranks."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from tribit.estimates.doubly_robust import row_sums
from tribit.estimates.intervals import (
    Curve,
    difference_limits,
    normal_quantile,
    simultaneous_quantile,
)

Z = normal_quantile(0.9)


def wilson(likes, n, cells, z=Z):
    """Return Wilson's interval with finite-population correction: |share - t|^2 = z^2 c t (1 - t) / n."""
    c = z * z * (cells - n) / ((cells - 1) * n)
    share = likes / n
    middle, half = (share + c / 2) / (1 + c), np.sqrt(c * share * (1 - share) + c * c / 4) / (1 + c)
    return max(middle - half, likes / cells), min(middle + half, (likes + cells - n) / cells)


def rows(likes, n, cells, p=0.3):
    labels = np.zeros((1, cells), np.int8)
    labels[0, :n] = -1
    labels[0, :likes] = 1
    return row_sums(sp.csr_array(labels), np.full((1, cells), p), np.full(cells, 1 / cells))


@pytest.mark.parametrize(
    ("likes", "n", "cells"), [(12, 30, 100), (0, 5, 50), (5, 5, 50), (1, 2, 4), (40, 90, 100)]
)
def test_without_predictions_it_is_the_interval_of_wilson(likes, n, cells):
    low, high = Curve.of_rows(rows(likes, n, cells), np.zeros(1)).limits(Z)
    assert np.allclose((low[0], high[0]), wilson(likes, n, cells), atol=1e-9)


def test_a_row_without_unseen_cells_has_no_width():
    low, high = Curve.of_rows(rows(3, 10, 10), np.zeros(1)).limits(Z)
    assert np.allclose((low[0], high[0]), 0.3, atol=1e-12)


def test_limits_solve_the_score_equation():
    """The test is inverted with the predictions of all cells, not their histogram."""
    rng = np.random.default_rng(0)
    m, weight, ratio = 60, 0.8, 1.3
    p = expit(rng.normal(0.5, 1.2, (1, m)))
    q = rng.uniform(0.2, 0.8, (1, m))
    mask = rng.random((1, m)) < q
    labels = np.where(mask, np.where(rng.random((1, m)) < p, 1, -1), 0).astype(np.int8)
    a = rng.uniform(0.5, 1.5, m)
    a /= a.sum()
    sums = row_sums(sp.csr_array(labels), p, a, q)
    curve = Curve.of_rows(sums, np.array([weight]), np.array([ratio]))
    low, high = curve.limits(Z)

    def excess(u, sign):
        tilted = expit(logit(p[0]) + u)
        r = tilted - weight * p[0]
        r -= a @ r
        odds = (1 - q[0]) / q[0]
        variance = m / (m - 1) * (a**2 * odds) @ (tilted * (1 - tilted) + r**2)
        return a @ tilted - curve.estimates[0] + sign * Z * np.sqrt(ratio * variance)

    expected = [a @ expit(logit(p[0]) + brentq(excess, -9, 9, args=(sign,))) for sign in (1, -1)]
    assert np.allclose((low[0], high[0]), expected, atol=1e-3)


def test_a_set_of_independent_rows_has_the_variance_of_their_mean():
    rng = np.random.default_rng(2)
    p = np.full((8, 200), 0.5)
    labels = np.where(rng.random((8, 200)) < 0.25, rng.choice([-1, 1], (8, 200)), 0).astype(np.int8)
    curve = Curve.of_rows(row_sums(sp.csr_array(labels), p, np.full(200, 1 / 200)), np.zeros(8))
    whole = curve.of_sets(np.arange(8), np.zeros(8, int), np.full(8, 1 / 8), 1)
    low, high = whole.limits(Z)
    assert whole.estimates[0] == pytest.approx(curve.estimates.mean())
    n = (labels != 0).sum(axis=1)
    mean = whole.estimates[0]
    variance = np.sum((200 - n) / (199 * n)) / 64 * mean * (1 - mean)
    assert high[0] - low[0] == pytest.approx(2 * Z * np.sqrt(variance), rel=0.01)


def test_a_difference_has_the_limits_of_newcombe():
    one, two = (
        (np.array([0.7]), np.array([0.6]), np.array([0.78])),
        (
            np.array([0.5]),
            np.array([0.38]),
            np.array([0.62]),
        ),
    )
    low, high = difference_limits(one, two)
    assert low[0] == pytest.approx(0.2 - np.hypot(0.1, 0.12))
    assert high[0] == pytest.approx(0.2 + np.hypot(0.08, 0.12))


def test_the_simultaneous_quantile_is_that_of_the_largest_difference():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(40_000, 6))
    largest = np.ptp(draws, axis=1) / np.sqrt(2)
    assert simultaneous_quantile(0.9, 6) == pytest.approx(np.quantile(largest, 0.9), rel=0.01)
    assert simultaneous_quantile(0.9, 2) == pytest.approx(norm.ppf(0.95), rel=1e-6)
    assert simultaneous_quantile(0.9, 1) == 0
