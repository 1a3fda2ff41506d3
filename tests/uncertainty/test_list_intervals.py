"""Deviations at some entries against those of all."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

from other_parts import stacked, with_spec
from tribit import BinaryMatrixCompletion, InvalidInputError, Logistic, Observations
from tribit.ragged import Ragged
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import laplace
from tribit.uncertainty import list_intervals as module
from tribit.uncertainty.list_intervals import standard_deviations, with_intervals

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


def test_intervals_of_a_stack_are_those_of_its_first_member():
    seen = table()
    one, two = (
        BinaryMatrixCompletion(rank=rank, l2=1.0, dtype="float64", **FIXED).fit(seen)
        for rank in (2, 4)
    )
    i, j = np.arange(25), np.arange(25)
    alone, both = (
        standard_deviations(each.fitted_, seen, i, j) for each in (one, stacked([one, two]))
    )
    np.testing.assert_allclose(both, alone, rtol=1e-12)
    assert not np.allclose(standard_deviations(two.fitted_, seen, i, j), alone, rtol=1e-3)


@dataclass(frozen=True)
class Lists:
    """The part of top-N lists that intervals need."""

    positions: Ragged
    intervals: object = None


ROWS = np.array([3, 29, 4, 0])
LISTS = Lists(Ragged(np.array([1, 0, 24, 7, 5, 6]), np.array([0, 3, 3, 4, 6])))


@pytest.mark.parametrize("at_once", [(4096, 2**21), (1, 2**21), (4096, 1), (3, 20)])
@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("options", [{}, {"gammas": (0.5, 0.3, 0.2), "radius": 3.0, "rho": 0.5}])
def test_lists_have_normal_intervals_of_the_score(monkeypatch, options, level, at_once):
    for name, size in zip(("ROWS_AT_ONCE", "ENTRIES_AT_ONCE"), at_once, strict=True):
        monkeypatch.setattr(module, name, size)
    seen = table()
    model = BinaryMatrixCompletion(rank=2, l2=1.0, dtype="float64", **FIXED, **options).fit(seen)
    found = with_intervals(LISTS, model.fitted_, seen, ROWS, level)
    i, j = np.array([3, 3, 3, 4, 0, 0]), np.array([1, 0, 24, 7, 5, 6])
    x, deviation = model.decision_function(i, j), laplace(model, seen).deviation(i, j)
    for side, values in ((-1, found.intervals.lower), (1, found.intervals.upper)):
        limit = x + side * norm.ppf((1 + level) / 2) * deviation
        np.testing.assert_allclose(values, model.fitted_.scores.probability(limit), rtol=1e-6)
    assert found.intervals.level == level
    assert found.positions is LISTS.positions


@pytest.mark.filterwarnings("ignore:.*the PN risk has no minimum")
@pytest.mark.parametrize(
    "options",
    [
        {"gammas": (0.5, 0.3, 0.2), "radius": 3.0, "rho": "row-column"},
        {"rho": "row-column", "inverse_power": 0.5},
        {"l2": 0.0, "l2_intercept": 0.0},
    ],
    ids=["a rho for each entry", "inverse propensities", "no prior"],
)
def test_lists_of_models_without_deviations_have_no_intervals(options):
    seen = table()
    given = {"rank": 2, "l2": 1.0, "max_iter": 20} | FIXED | options
    model = BinaryMatrixCompletion(**given).fit(seen)
    assert with_intervals(LISTS, model.fitted_, seen, ROWS, 0.9) is LISTS


def test_imputed_models_and_lists_without_the_entries_have_no_intervals():
    seen = table()
    model = BinaryMatrixCompletion(rank=2, l2=1.0, **FIXED).fit(seen)
    assert with_intervals(LISTS, model.fitted_, None, ROWS, 0.9) is LISTS
    imputing = with_spec(model, imputed=model)
    assert with_intervals(LISTS, imputing.fitted_, seen, ROWS, 0.9) is LISTS


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1, np.nan])
def test_a_level_is_between_0_and_1(level):
    seen = table()
    model = BinaryMatrixCompletion(rank=2, l2=1.0, **FIXED).fit(seen)
    with pytest.raises(InvalidInputError, match="level must be"):
        with_intervals(LISTS, model.fitted_, seen, ROWS, level)


def test_a_probability_of_its_own_for_each_entry_is_refused():
    seen = table()
    options = {**FIXED, "rho": "row-column"}
    model = BinaryMatrixCompletion((0.5, 0.3, 0.2), rank=2, l2=1.0, radius=3.0, **options).fit(seen)
    with pytest.raises(InvalidInputError, match="one rho for all"):
        standard_deviations(model.fitted_, seen, np.array([0]), np.array([0]))


def test_a_model_of_observed_labels_has_intervals_whatever_its_rho():
    seen = table()
    plain, with_rho = (
        BinaryMatrixCompletion((1, 0, 0), rank=2, l2=1.0, rho=rho, **FIXED).fit(seen)
        for rho in (0.5, "row-column")
    )
    found, other = (
        with_intervals(LISTS, model.fitted_, seen, ROWS, 0.9).intervals
        for model in (plain, with_rho)
    )
    np.testing.assert_allclose(found.lower, other.lower, rtol=1e-6)
