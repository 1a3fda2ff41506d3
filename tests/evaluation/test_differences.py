"""Differences of measures: paired by entry, or between two test sets that have rows in common."""

import numpy as np
import pytest

from tribit import Logistic
from tribit.evaluation.differences import Measured, difference, mean_of, measured_entries
from tribit.metrics.entries import ndcg_of_rows


def clustered(values, rows):
    """Return the standard error of a sum, by the formula row by row."""
    sums = [sum(v for v, r in zip(values, rows, strict=True) if r == row) for row in set(rows)]
    return np.sqrt(len(sums) / (len(sums) - 1) * sum(each**2 for each in sums))


@pytest.fixture
def entries():
    rng = np.random.default_rng(0)
    rows, labels = rng.integers(9, size=80), rng.choice([-1, 1], 80)
    return rows, labels, rng.standard_normal(80), rng.standard_normal(80)


def test_paired_difference_of_means(entries):
    rows, labels, x, z = entries
    first, second = (measured_entries(Logistic(), each, rows, labels) for each in (x, z))
    loss = np.log1p(np.exp(-labels * z)) - np.log1p(np.exp(-labels * x))
    expected = loss.mean(), clustered((loss - loss.mean()) / 80, rows.tolist())
    assert difference(first["log_loss"], second["log_loss"]) == pytest.approx(expected)
    gain = ndcg_of_rows(rows, z, labels) - ndcg_of_rows(rows, x, labels)
    expected = gain.mean(), np.std(gain, ddof=1) / np.sqrt(gain.size)
    assert difference(first["ndcg"], second["ndcg"]) == pytest.approx(expected)
    assert difference(first["auc"], first["auc"]) == (0.0, 0.0)


def test_two_test_sets_share_rows():
    first = mean_of(np.array([0.0, 1.0, 1.0]), np.array([0, 0, 1]))
    second = mean_of(np.array([1.0, 3.0]), np.array([1, 5]))
    sums = [(-2 / 3 + 1 / 3) / -3, (1 - 2) / 2 - (1 - 2 / 3) / 3, (3 - 2) / 2]
    expected = 2 - 2 / 3, np.sqrt(3 / 2 * sum(each**2 for each in sums))
    assert difference(first, second) == pytest.approx(expected)


def test_measures_without_an_error():
    assert difference(Measured(0.25), Measured(0.5)) == (0.25, None)
    alone = mean_of(np.array([1.0, 2.0]), np.array([3, 3]))
    assert difference(alone, alone) == (0.0, None)
    rows, labels = np.array([0, 1]), np.array([1, 1])
    found = measured_entries(Logistic(), np.array([0.5, -1.0]), rows, labels)
    assert set(found) == {"accuracy", "error_rate", "log_loss"}
