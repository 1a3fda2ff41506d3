"""Deviations at some entries against those of all."""

import numpy as np
import pytest

from other_parts import stacked
from tribit import BinaryMatrixCompletion, InvalidInputError, Logistic, Observations
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import laplace
from tribit.uncertainty.list_intervals import standard_deviations

FIXED = {"search": False, "random_state": 0, "n_jobs": 1}


def table(shape=(30, 25)):
    M = low_rank_target(shape, 2, alpha=3.0, random_state=0)
    labels = observe(quantise(M, Logistic(), random_state=1), 0.5, random_state=2)
    full = labels.to_sparse().toarray() if isinstance(labels, Observations) else np.array(labels)
    full[4], full[:, 7] = 0, 0  # nothing is known of them
    return Observations.from_matrix(full)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"implicit_features": True},
        {"gammas": (0.5, 0.3, 0.2), "radius": 3.0},
        {"intercept": False},
        {"ranks": (2, 4)},
        {"l2_power": 0.5},
    ],
    ids=["pn", "features", "mixture", "no intercept", "stack", "by entries"],
)
def test_some_entries_have_the_deviations_of_all(options):
    seen = table()
    options = dict(options)
    models = [
        BinaryMatrixCompletion(rank=rank, l2=1.0, dtype="float64", **FIXED, **options).fit(seen)
        for rank in options.pop("ranks", (2,))
    ]
    model = stacked(models)
    i, j = np.array([3, 3, 4, 29, 0, 4]), np.array([0, 24, 11, 7, 7, 7])
    np.testing.assert_allclose(
        standard_deviations(model.fitted_, seen, i, j),
        laplace(model, seen).deviation(i, j),
        rtol=1e-8,
    )


def test_a_probability_of_its_own_for_each_entry_is_refused():
    seen = table()
    options = {**FIXED, "rho": "row-column"}
    model = BinaryMatrixCompletion((0.5, 0.3, 0.2), rank=2, l2=1.0, radius=3.0, **options).fit(seen)
    with pytest.raises(InvalidInputError, match="one rho for all"):
        standard_deviations(model.fitted_, seen, np.array([0]), np.array([0]))
