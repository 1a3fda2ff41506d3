"""Models of the mask and the cells that were not seen, with the entries on workers."""

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Logistic, Observations, propensity, randomness
from tribit.cluster import from_observations
from tribit.metrics.full_ranking import scores_among_unobserved
from tribit.model.ease import regression_factors
from tribit.model.factors import Factors
from tribit.randomness import hashed_fold_numbers
from tribit.selection import folds
from tribit.selection.positive_only import ObservedLogOdds

PLAIN = {"search": False, "rank": 2, "l2": 2.0, "l2_intercept": 0.5}
PLAIN |= {"random_state": 0, "dtype": "float64"}


@pytest.fixture(scope="module")
def there(client, seen):
    return from_observations(seen, client, n_partitions=3)


def share_folds(monkeypatch, seen):
    """Give one machine the folds and the parts of the mask that a cluster has."""

    def numbers(_, n, draws):
        return hashed_fold_numbers(seen.rows, seen.columns, n, int(draws.integers(2**32)))

    monkeypatch.setattr(folds, "balanced_fold_numbers", numbers)
    monkeypatch.setattr(folds, "MAX_FOLDS", 1)
    monkeypatch.setattr(randomness, "fold_numbers", numbers)


@pytest.mark.parametrize("name", ["constant", "row-column"])
def test_margins_are_enough_for_effects_of_rows_and_columns(seen, there, name):
    ours, theirs = (propensity.fit_propensity(name, each) for each in (seen, there))
    found, expected = (each.probability_of_rows(slice(3, 9)) for each in (theirs, ours))
    np.testing.assert_array_equal(found, expected)
    assert theirs.normalise(there).scale == pytest.approx(ours.normalise(seen).scale)


def test_each_entry_has_the_propensity_of_a_fit_without_it(monkeypatch, client, seen):
    liked = seen.take(np.flatnonzero(seen.labels > 0))  # a mask of low rank
    there = from_observations(liked, client, n_partitions=2)
    share_folds(monkeypatch, liked)
    options = {"folds": 2, "rank": 1, "random_state": 0, "tol": 1e-4}
    ours, theirs = (propensity.cross_fitted(each, **options) for each in (liked, there))
    assert isinstance(theirs, propensity.HashedPropensity)
    # Cells that were observed: elsewhere any of the models serves, and one machine takes their mean.
    found, expected = (each.probability_at(liked.rows, liked.columns) for each in (theirs, ours))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    models = [each.probability_of_rows(slice(2, 5)) for each in theirs.models]
    rows, columns = np.indices(models[0].shape)
    part = hashed_fold_numbers(rows.ravel() + 2, columns.ravel(), 2, theirs.seed)
    np.testing.assert_allclose(
        theirs.probability_of_rows(slice(2, 5)), np.choose(part.reshape(rows.shape), models)
    )
    scale_average = theirs.normalise(there).probability_at(liked.rows, liked.columns)
    assert np.sum(1.0 / scale_average) == pytest.approx(liked.shape[0] * liked.shape[1])
    found = propensity.fit_propensity(
        "low-rank", from_observations(Observations.from_matrix([[1]]), client)
    )
    assert found.rho_at([0], [0]) == 0.0


def test_weights_of_all_entries_agree_where_these_are_on_workers(seen, there):
    given = PLAIN | {"gammas": (1, 0, 0), "rho": "row-column", "inverse_power": 0.5, "tol": 1e-1}
    ours, theirs = (BinaryMatrixCompletion(**given).fit(each) for each in (seen, there))
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-5)


def test_a_search_for_all_entries_weighs_what_it_holds_out(monkeypatch, seen, there):
    share_folds(monkeypatch, seen)
    given = PLAIN | {"gammas": (1, 0, 0), "target": "all", "rho": "row-column", "tol": 1e-1}
    given |= {"search": True, "l2": "auto", "n_candidates": 2, "rank": 1}
    given |= {"implicit_features": False, "calibration": None, "members": 1}
    ours, theirs = (BinaryMatrixCompletion(**given).fit(each) for each in (seen, there))
    for one, other in zip(ours.search_.candidates, theirs.search_.candidates, strict=True):
        assert other.settings.is_close(one.settings)
        assert other.score == pytest.approx(one.score, rel=1e-5)
    weights = theirs.search_.held_out[2]
    np.testing.assert_allclose(weights, ours.search_.held_out[2])
    assert np.ptp(weights) > 1.0


@pytest.mark.parametrize("rho", [None, "row-column"])
@pytest.mark.parametrize("label", [1, -1])
def test_held_out_entries_stand_against_the_same_unseen_cells(seen, there, rho, label):
    draws = np.random.default_rng(2)
    factors = Factors.of(*(draws.normal(size=(size, 2)) for size in seen.shape), -0.5)
    number = hashed_fold_numbers(seen.rows, seen.columns, 10, 5)
    train = seen.hold_out(number == 0)[0]
    held_out = seen.hold_out(number == 0)[1].as_likes()
    if label < 0:
        held_out = Observations(held_out.rows, held_out.columns, -held_out.labels, held_out.shape)
    transform = None
    if rho is not None:
        transform = ObservedLogOdds(propensity.fit_propensity(rho, seen), Logistic(), label > 0)
    ours, theirs = (
        scores_among_unobserved(factors, each, held_out, unit=1.1, transform=transform)
        for each in (train, there.without_fold(10, 0, 5))
    )
    assert ours[2][len(held_out) :].sum() == seen.shape[0] * seen.shape[1] - len(seen)
    for expected, found in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_search_of_likes_alone_chooses_as_one_machine_does(monkeypatch, seen, there):
    share_folds(monkeypatch, seen)
    given = {"rank": 1, "implicit_features": False, "l2_intercept": 1.0, "random_state": 0}
    given |= {"n_candidates": 2, "tol": 1e-1, "dtype": "float64"}
    ours, theirs = (BinaryMatrixCompletion(**given).fit(each.as_likes()) for each in (seen, there))
    assert len(theirs.search_.candidates) == 2
    for one, other in zip(ours.search_.candidates, theirs.search_.candidates, strict=True):
        assert other.settings.is_close(one.settings)
        assert other.score == pytest.approx(one.score, rel=1e-5)
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-5)
    assert theirs.search_.meaning == ours.search_.meaning
    assert theirs.calibration_.slope == pytest.approx(ours.calibration_.slope, rel=1e-4)
    x = np.linspace(-5.0, 3.0, 50)
    np.testing.assert_allclose(theirs.fitted_.horizon(x), ours.fitted_.horizon(x), rtol=0.05)


def test_the_regression_of_likes_alone_is_that_of_one_machine(seen, there):
    ours, theirs = (regression_factors(each.as_likes()) for each in (seen, there))
    np.testing.assert_array_equal(theirs.row_factors, ours.row_factors)
    np.testing.assert_array_equal(theirs.column_factors, ours.column_factors)


def test_folds_of_likes_alone_bring_a_bounded_number_of_entries_here(monkeypatch, there):
    monkeypatch.setattr(folds, "MAX_HELD_OUT", 100)
    monkeypatch.setattr(folds, "MIN_HELD_OUT_ALONE", 10)
    made = folds.make_folds(there.as_likes(), None, np.random.default_rng(0))
    assert [len(each.held_out) < 160 for each in made] == [True]
