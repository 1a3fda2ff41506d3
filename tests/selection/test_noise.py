"""Searches on tables of noise, where nothing is better than a constant."""

import warnings

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion


def excess_over_a_constant(seed, shape=None, density=None):
    """Return the log-loss on new tosses of coins, less that of the base rate of those that were seen."""
    rng = np.random.default_rng(3000 + seed)
    shape = (rng.integers(60, 301), rng.integers(40, 201)) if shape is None else shape
    density = rng.choice([0.1, 0.2, 0.5]) if density is None else density
    p = rng.uniform(0.35, 0.65)
    labels = np.where(rng.random(shape) < p, 1, -1) * (rng.random(shape) < density)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BinaryMatrixCompletion(n_jobs=1, random_state=0).fit(labels)
    found, base = model.complete().astype(float), np.mean(labels[labels != 0] > 0)
    losses = [-p * np.log(q) - (1 - p) * np.log(1 - q) for q in (found, base)]
    return float(np.mean(losses[0])) - float(losses[1])


def test_tables_of_coins_are_predicted_nearly_as_well_as_by_a_constant():
    assert np.mean([excess_over_a_constant(seed, (60, 40), 0.5) for seed in range(4)]) < 0.002


@pytest.mark.slow
def test_twenty_tables_of_coins():
    assert np.mean([excess_over_a_constant(seed) for seed in range(20)]) < 0.002
