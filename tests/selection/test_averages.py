"""Averages of fits with different numbers of columns."""

from dataclasses import replace

import numpy as np
import pytest
from selection_data import low_rank, observed

from tribit import BinaryMatrixCompletion, evaluate
from tribit.backends import Arithmetic
from tribit.backends.objective import features_of
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.metrics.entries import losses
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.spec import ModelSpec
from tribit.selection import refit as averages
from tribit.selection.folds import make_folds
from tribit.selection.record import Average, Candidate
from tribit.selection.significance import clearly_less
from tribit.selection.trials import Options, Trials
from tribit.solvers.loop import INTERRUPTED
from tribit.uncertainty import laplace

A = low_rank((40, 30), density=0.5)
FIXED = {
    "gammas": (1.0, 0.0, 0.0),
    "rank": 2,
    "l2": 0.5,
    "l2_intercept": 1.0,
    "implicit_features": False,
    "calibration": None,
    "dtype": "float64",
    "n_jobs": 1,
    "random_state": 0,
}


def decayed(seed=12, shape=(300, 60)):
    """Return a nearly full table whose spectrum decays slowly, and the fifth of it that is for the test."""
    rng = np.random.default_rng(seed)
    sizes = 1.0 / np.arange(1, 16) ** 0.7
    x = rng.standard_normal((shape[0], 15)) @ (sizes[:, None] * rng.standard_normal((15, shape[1])))
    labels = np.where(rng.random(shape) < 1.0 / (1.0 + np.exp(-x)), 1, -1)
    return Observations.from_matrix(labels).split(0.25, random_state=seed)


# The mean of factors


def random_factors(rng, rank, shape=(7, 5)):
    return Factors(
        rng.standard_normal((shape[0], rank)),
        rng.standard_normal((shape[1], rank)),
        float(rng.standard_normal()),
        rng.standard_normal(shape[0]),
        rng.standard_normal(shape[1]),
    )


def entries(factors):
    P, Q = factors.product_factors()
    return P @ Q.T


def specs_of(model):
    return [each.spec for each in model.fitted_.members]


def unknowns_of(model):
    return [each.unknowns for each in model.fitted_.members]


def test_the_mean_of_factors_has_the_mean_of_the_entries():
    rng = np.random.default_rng(0)
    members = [random_factors(rng, rank) for rank in (1, 3, 2)]
    mean = Factors.mean_of(members)
    assert mean.rank == 6
    np.testing.assert_allclose(entries(mean), np.mean([entries(each) for each in members], axis=0))
    assert Factors.mean_of(members[:1]) is members[0]
    single = Factors.mean_of([each.astype("float32") for each in members])
    assert single.row_factors.dtype == single.row_intercepts.dtype == np.float32


def test_the_mean_of_parts_combines_to_the_mean_of_factors():
    rng = np.random.default_rng(1)
    seen = observed(rng.choice([-1, 0, 1], (7, 5)))
    features = features_of(ModelSpec(implicit_features=True), seen, None)
    members = [random_factors(rng, rank, (12, 12)) for rank in (2, 3)]
    whole = features.combine(Factors.mean_of(members))
    parts = [entries(features.combine(each)) for each in members]
    np.testing.assert_allclose(entries(whole), np.mean(parts, axis=0))


# A number of fits


@pytest.mark.parametrize("features", [False, True])
def test_n_fits_is_the_mean_of_fits_with_twice_and_four_times_the_columns(features):
    fixed = {**FIXED, "implicit_features": features, "l2_implicit": 1.0, "tol": 1e-9}
    model = BinaryMatrixCompletion(**fixed, n_fits=3).fit(A)
    assert model.n_fits_ == len(model.fitted_.members) == 3
    assert [each.rank for each in specs_of(model)] == [2, 4, 8]
    assert [each.rank for each in unknowns_of(model)] == [2, 4, 8]
    assert [each.own_rank for each in model.fitted_.members] == [2, 4, 8]
    assert [each.weight for each in model.fitted_.members] == [1.0] * 3
    assert specs_of(model)[0] == model.spec_
    assert model.rank_ == 2
    assert model.row_factors_.shape == (40, 14)
    used = features_of(model.spec_, observed(A), None)
    combine = used.combine if features else lambda parts: parts
    each = [entries(combine(unknowns)) for unknowns in unknowns_of(model)]
    of_members = [entries(member.factors) for member in model.fitted_.members]
    np.testing.assert_allclose(of_members, each, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.complete("score"), np.mean(each, axis=0))
    # The first is the fit with nothing averaged.
    alone = BinaryMatrixCompletion(**fixed, n_fits=1).fit(A)
    assert alone.n_fits_ == 1
    np.testing.assert_allclose(each[0], alone.complete("score"), atol=1e-6)
    assert model.objective_ == pytest.approx(alone.objective_)
    assert model.n_iter_ == len(model.history_) == alone.n_iter_


def test_nothing_is_averaged_where_nothing_is_searched_or_there_is_one_minimum():
    assert BinaryMatrixCompletion(**FIXED).fit(A).n_fits_ == 1
    none = BinaryMatrixCompletion(**{**FIXED, "rank": 0}, n_fits=3).fit(A)
    assert none.n_fits_ == 1


def test_more_fits_than_columns_differ_by_their_draws():
    model = BinaryMatrixCompletion(**{**FIXED, "rank": 30}, n_fits=2).fit(A)
    assert [each.rank for each in specs_of(model)] == [30, 30]
    first, second = unknowns_of(model)
    assert not np.array_equal(first.row_factors, second.row_factors)


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", None])
def test_a_number_that_is_none_is_refused(value):
    with pytest.raises(InvalidInputError, match="n_fits must be a whole number, at least 1"):
        BinaryMatrixCompletion(**FIXED, n_fits=value).fit(A)


def test_n_fits_in_a_search_are_so_many_and_calibrated_as_a_whole():
    model = BinaryMatrixCompletion(
        (1, 0, 0), rank=3, implicit_features=False, n_fits=2, n_jobs=1, random_state=0
    ).fit(A)
    members = model.search_.average.members
    assert [each.settings.rank for each in members] == [3, 6]
    assert members[0] is model.search_.best
    x, labels, weights = model.search_.held_out
    assert model.search_.average.score <= np.average(
        losses(Logistic(), x, labels), weights=weights
    ) * (1 + 1e-12)
    assert model.n_fits_ == 2


def test_what_a_budget_does_not_allow_to_be_judged_is_fitted_all_the_same():
    model = BinaryMatrixCompletion(
        (1, 0, 0), rank=3, n_candidates=8, n_fits=3, n_jobs=1, random_state=0
    ).fit(A)
    assert len(model.search_.candidates) == 8
    assert [each.rank for each in specs_of(model)] == [3, 6, 12]


# "auto"


def trials_with(xs, labels, ranks, n_fits="auto", **rest):
    """Return what is averaged of candidates with these held-out scores."""
    folds = make_folds(observed(A), None, np.random.default_rng(0))
    trials = Trials(
        folds,
        Options(Arithmetic("float32", 1, "auto")),
        scoring="log_loss",
        most=None,
        deadline=None,
    )
    trials.labels, trials.weights = labels, np.ones(labels.size)
    # One part: what is judged here has no folds.
    trials.folds = [replace(folds[0], held_out=Held(labels.size))]
    for x, rank in zip(xs, ranks, strict=True):
        score, scores, lost = trials.judge(x, Logistic())
        candidate = Candidate(ModelSpec(rank=rank), score, scores, 1.0 + rank, 1)
        trials.candidates.append(candidate)
        trials.scores[candidate], trials.losses[candidate] = x, lost
    rest = {"rank_is_free": True, **rest}
    return trials, averages.choose_average(trials, trials.candidates[0], n_fits, **rest)


class Held:
    """Held-out entries of which only the number is asked."""

    def __init__(self, n):
        self.n_observed = n


def noisy(n=4000, members=4, noise=1.0, seed=0):
    """Return scores with errors of their own around the truth, and labels drawn from that."""
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal(n)
    labels = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-truth)), 1, -1).astype(np.int8)
    return [truth + noise * rng.standard_normal(n) for _ in range(members)], labels


def test_members_whose_errors_differ_are_averaged_three_at_most():
    xs, labels = noisy()
    trials, found = trials_with(xs, labels, (10, 5, 2, 40))
    assert len(found.members) == averages.MAX_FITS
    assert found.members[0] is trials.candidates[0]
    assert len(set(found.ranks)) == 3
    x = trials.mean_scores(found.members)
    mean = [trials.scores[each] for each in found.members]
    np.testing.assert_allclose(x, np.mean(mean, axis=0))
    assert found.score == pytest.approx(np.mean(losses(Logistic(), x, labels)))
    assert clearly_less(
        losses(Logistic(), x, labels), trials.losses[found.members[0]], trials.weights
    )
    assert found.best_score == trials.candidates[0].score
    assert found.cost == pytest.approx(sum(1.0 + rank for rank in found.ranks) / 11.0)


def test_the_same_scores_again_or_worse_ones_are_not_averaged():
    (x, *_), labels = noisy()
    assert trials_with([x, x.copy(), -x], labels, (10, 5, 2))[1] is None


def test_the_same_number_of_columns_is_no_other_member():
    xs, labels = noisy()
    assert trials_with(xs[:2], labels, (10, 10))[1] is None


def test_a_fixed_rank_is_not_averaged_unless_asked_for():
    xs, labels = noisy()
    assert trials_with(xs, labels, (10, 5, 2, 40), rank_is_free=False)[1] is None
    asked = trials_with(xs, labels, (10, 5, 2, 40), n_fits=4, rank_is_free=False)[1]
    assert len(asked.members) == 4


def test_a_slowly_decaying_spectrum_is_averaged_and_the_mean_predicts_better():
    train, test = decayed()
    options = {"gammas": (1, 0, 0), "implicit_features": False, "n_jobs": 1, "random_state": 0}
    model = BinaryMatrixCompletion(**options).fit(train)
    alone = BinaryMatrixCompletion(**options, n_fits=1).fit(train)
    assert model.n_fits_ > 1
    assert model.row_factors_.shape[1] == sum(each.rank for each in specs_of(model))
    assert evaluate(model, test).log_loss < evaluate(alone, test).log_loss
    text = str(model.search_)
    assert f"Uses the mean of {model.n_fits_} fits of ranks {model.rank_}" in text
    assert "times the work of one fit." in text
    again = BinaryMatrixCompletion(**{**options, "n_jobs": 2}).fit(train)
    np.testing.assert_array_equal(again.row_factors_, model.row_factors_)


@pytest.mark.slow
def test_noise_is_not_averaged():
    for seed in range(4):
        rng = np.random.default_rng(3000 + seed)
        labels = rng.choice([-1, 1], (30, 20)) * (rng.random((30, 20)) < 0.6)
        model = BinaryMatrixCompletion(n_jobs=1, random_state=0).fit(labels)
        assert model.n_fits_ == 1


# What ends early


def test_the_keyboard_in_a_further_fit_keeps_those_before_it():
    starts = []

    def interrupt(iteration):
        starts.append(iteration.iteration)
        if starts.count(1) == 2:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="[Ii]nterrupted"):
        model = BinaryMatrixCompletion(**FIXED, n_fits=3, callback=interrupt).fit(A)
    assert model.n_fits_ == 1
    assert model.stop_reason_ == INTERRUPTED
    assert not model.converged_


# Laplace


@pytest.fixture(params=[False, True])
def averaged_model(request):
    fixed = {**FIXED, "implicit_features": request.param, "l2_implicit": 1.0, "dtype": "float32"}
    return BinaryMatrixCompletion(**fixed, n_fits=2).fit(A)


def test_the_posterior_of_an_average_is_that_of_its_first_fit(averaged_model):
    parameters = {**averaged_model.get_params(), "n_fits": 1}
    alone = BinaryMatrixCompletion(**parameters).fit(A)
    ours, theirs = laplace(averaged_model, A), laplace(alone, A)
    rows, columns = np.arange(10), np.arange(10)
    np.testing.assert_allclose(
        ours.deviation(rows, columns), theirs.deviation(rows, columns), rtol=1e-3
    )
    np.testing.assert_allclose(
        ours.predict_proba(rows, columns), theirs.predict_proba(rows, columns), atol=1e-3
    )
    assert averaged_model.n_fits_ == 2  # as it was


def test_the_text_of_an_average():
    members = tuple(
        Candidate(ModelSpec(rank=rank), 0.5, (), seconds, 1)
        for rank, seconds in ((10, 1.0), (5, 0.5), (2, 0.25))
    )
    assert str(Average(members, 0.6, 0.61)) == (
        "the mean of 3 fits of ranks 10, 5 and 2: 0.6000 instead of 0.6100, for 1.8 times the work of one fit"
    )
