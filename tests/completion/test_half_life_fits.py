"""Fits of entries whose weights halve with age."""

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, Recommender, evaluate, load
from tribit.data.decay import Decay
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.selection.half_life import choose_half_life, rank_losses

FIXED = {"gammas": (1, 0, 0), "rank": 2, "l2": 1.0, "l2_intercept": 1.0, "implicit_features": False}


def drifting(turn, seed=0, shape=(60, 40), days=400, likes_only=False):
    """Return labels whose users' factors turn by an angle within the time of the table."""
    draws = np.random.default_rng(seed)
    start, end = draws.normal(size=(2, shape[0], 2))
    V = draws.normal(size=(shape[1], 2))
    rows, columns = np.nonzero(draws.random(shape) < 0.7)
    share = draws.random(rows.size)
    angle = (turn * share)[:, None]
    x = 2.0 * ((np.cos(angle) * start[rows] + np.sin(angle) * end[rows]) * V[columns]).sum(axis=1)
    labels = np.where(draws.random(rows.size) < 1 / (1 + np.exp(-x)), 1, -1)
    times = np.datetime64("2025-01-01", "us") + (days * 86400e6 * share).astype("timedelta64[us]")
    seen = Observations(rows, columns, labels, shape, times=times)
    if not likes_only:
        return seen
    liked = seen.labels > 0
    return Observations(rows[liked], columns[liked], labels[liked], shape, times=seen.times[liked])


def assert_same_fits(first, second):
    np.testing.assert_array_equal(first.unknowns_.row_factors, second.unknowns_.row_factors)
    np.testing.assert_array_equal(first.row_intercepts_, second.row_intercepts_)
    assert first.spec_ == second.spec_


def test_a_half_life_gives_the_weights_of_the_formula():
    seen = drifting(1.0)
    ages = (seen.times.max() - seen.times) / np.timedelta64(1, "D")
    weights = 2.0 ** (-ages / 50.0)
    weights /= weights.mean()
    model = BinaryMatrixCompletion(**FIXED, half_life=50, random_state=0).fit(seen)
    other = BinaryMatrixCompletion(**FIXED, random_state=0).fit(
        seen.with_times(None).with_weights(weights)
    )
    np.testing.assert_allclose(model.row_factors_, other.row_factors_, atol=2e-4)
    assert model.half_life_ == 50.0
    assert other.half_life_ is None


def test_without_times_nothing_changes():
    seen = drifting(1.0).with_times(None)
    for half_life in ("auto", None):
        model = BinaryMatrixCompletion(n_candidates=3, half_life=half_life, random_state=0).fit(
            seen
        )
        assert model.record_.half_life is None
        assert_same_fits(model, BinaryMatrixCompletion(n_candidates=3, random_state=0).fit(seen))
    with pytest.raises(
        InvalidInputError, match="half_life=3 is about the age of entries, and these have no times"
    ):
        BinaryMatrixCompletion(half_life=3).fit(seen)


def test_a_drift_is_found_and_the_fit_is_that_with_the_half_life_given():
    seen = drifting(3.0, shape=(120, 50))
    train, test = seen.split(0.1, by="time")
    options = {"n_candidates": 4, "random_state": 0}
    model = BinaryMatrixCompletion(**options).fit(train)
    trials = model.record_.half_life.trials
    assert trials[0].half_life is None
    assert model.half_life_ == min(trials, key=lambda each: each.score).half_life
    assert model.half_life_ in [each.half_life for each in trials[1:]]
    given = BinaryMatrixCompletion(**options, half_life=model.half_life_).fit(train)
    assert_same_fits(model, given)
    without = BinaryMatrixCompletion(**options, half_life=None).fit(train)
    assert evaluate(model, test).log_loss < evaluate(without, test).log_loss - 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_a_drift_none_is_used(seed):
    seen = drifting(0.0, seed)
    model = BinaryMatrixCompletion(**FIXED, random_state=0).fit(seen)
    found = model.record_.half_life
    assert found.decay is None
    assert len(found.trials) >= 3
    without = BinaryMatrixCompletion(**FIXED, half_life=None, random_state=0).fit(seen)
    assert_same_fits(model, without)
    assert without.record_.half_life is None


def test_scores_are_losses_of_refits_on_the_latest_tenth():
    seen = drifting(1.0)
    train, test = seen.split(0.1, by="time")
    seen_by_refit = []

    def refit(entries):
        seen_by_refit.append(entries)
        return BinaryMatrixCompletion(**FIXED, search=False, random_state=0).fit(entries).fitted_

    found = choose_half_life(seen, refit)
    assert found.n_latest == len(test)
    for trial, entries in zip(found.trials, list(seen_by_refit), strict=True):
        assert entries.n_observed == train.n_observed
        if trial.half_life is not None:
            np.testing.assert_allclose(
                entries.weights, Decay.of(train, trial.half_life).weigh(train).weights
            )
        scores = refit(entries).scores
        x = scores.x(test.rows, test.columns)
        loss = np.logaddexp(0.0, -test.labels * x)
        assert trial.score == pytest.approx(loss.mean())
        assert trial.gain == pytest.approx(found.trials[0].score - trial.score)
    # The error of a mean difference, clustered by row.
    compared = seen_by_refit[0], seen_by_refit[len(found.trials) - 1]
    first, last = (
        np.logaddexp(0.0, -test.labels * refit(each).scores.x(test.rows, test.columns))
        for each in compared
    )
    difference = first - last
    sums = pd.Series(difference - difference.mean()).groupby(test.rows).sum()
    expected = np.sqrt(len(sums) / (len(sums) - 1) * np.sum(sums**2)) / len(test)
    assert found.trials[-1].error == pytest.approx(expected)


def test_a_large_table_is_compared_on_a_sample_of_rows(monkeypatch):
    monkeypatch.setattr("tribit.selection.half_life.MAX_ENTRIES", 1200)
    monkeypatch.setattr("tribit.selection.half_life.MAX_RANKED_ROWS", 7)
    fits = []

    def refit(entries):
        fits.append(entries)
        return BinaryMatrixCompletion(**FIXED, search=False, random_state=0).fit(entries).fitted_

    seen = drifting(3.0, shape=(120, 40))
    found = choose_half_life(seen, refit, random_state=0)
    counts = seen.counts[0]
    rows = np.unique(fits[0].rows)
    assert 1200 <= counts[rows].sum() < 1200 + counts.max()
    assert found.n_latest + fits[0].n_observed == counts[rows].sum()
    assert found.decay.latest == seen.times.max().astype(np.int64)

    likes = drifting(3.0, shape=(120, 40), likes_only=True)
    tested = []
    monkeypatch.setattr(
        "tribit.selection.half_life.rank_losses",
        lambda *given: tested.append(given[2]) or np.zeros(len(given[2])),
    )
    choose_half_life(likes, refit, random_state=0)
    assert np.unique(tested[0].rows).size == 7


def test_a_comparison_ends_on_time_and_on_the_keyboard(monkeypatch):
    seen = drifting(3.0, shape=(120, 50))
    model = BinaryMatrixCompletion(**FIXED, max_time=1e-9, random_state=0).fit(seen)
    found = model.record_.half_life
    assert (found.decay, len(found.trials), found.stop_reason) == (None, 1, "max_time was reached")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tribit.completion.half_life.refit", interrupted)
    with pytest.warns(RuntimeWarning, match="Interrupted while half-lives were compared"):
        model = BinaryMatrixCompletion(**FIXED, random_state=0).fit(seen)
    assert model.half_life_ is None
    assert (model.converged_, model.stop_reason_) == (False, "interrupted from the keyboard")
    assert_same_fits(
        model, BinaryMatrixCompletion(**FIXED, half_life=None, random_state=0).fit(seen)
    )


def test_small_tables_and_single_times_have_no_comparison():
    seen = drifting(1.0)
    few = seen.take(np.arange(300))
    same = seen.with_times(["2025-01-01"] * len(seen))
    for entries, reason in ((few, "too few entries"), (same, "the same time")):
        model = BinaryMatrixCompletion(**FIXED, random_state=0).fit(entries)
        assert model.half_life_ is None
        assert reason in str(model.record_.half_life)
    model = BinaryMatrixCompletion(**FIXED, search=False, random_state=0).fit(seen)
    assert model.record_.half_life is None


def test_likes_alone_are_compared_by_their_ranks():
    seen = drifting(3.0, shape=(90, 40), likes_only=True)
    train, test = seen.split(0.1, by="time")
    model = BinaryMatrixCompletion(n_candidates=2, half_life=None, random_state=0).fit(train)
    found = rank_losses(model.scores_, train, test)
    for at in (0, 7, len(test) - 1):
        row, column = test.rows[at], test.columns[at]
        own = set(train.columns[train.rows == row]) | set(test.columns[test.rows == row])
        others = np.array([j for j in range(seen.shape[1]) if j not in own])
        x = model.scores_.x(np.full(others.size, row), others)
        mine = model.scores_.x(np.array([row]), np.array([column]))[0]
        assert found[at] == pytest.approx((np.sum(x > mine) + np.sum(x == mine) / 2) / others.size)
    chosen = BinaryMatrixCompletion(n_candidates=2, random_state=0).fit(train)
    assert len(chosen.record_.half_life.trials) >= 3


@pytest.mark.parametrize("half_life", [0, -1, np.nan, np.inf, "long", True])
def test_other_half_lives_are_refused(half_life):
    with pytest.raises((InvalidInputError, InvalidTypeError), match="half_life"):
        BinaryMatrixCompletion(half_life=half_life).fit(drifting(0.0))


def test_a_recommender_keeps_the_weights_and_weighs_later_entries(tmp_path):
    seen = drifting(1.0)
    train, later = seen.split(0.2, by="time")
    model = BinaryMatrixCompletion(**FIXED, half_life=60, random_state=0)
    recommender = Recommender(model, ranker=False).fit(train)
    decay = recommender.model_.record_.half_life.decay
    np.testing.assert_array_equal(recommender.seen_.weights, decay.weigh(train).weights)
    first, last = (each.astype("datetime64[D]") for each in (train.times.min(), train.times.max()))
    assert recommender.info().about["times"] == f"from {first} to {last}"
    assert recommender.info().about["half-life"] == "60 days"
    assert recommender.info().numbers["half_life"] == 60.0
    path = tmp_path / "model.tribit"
    recommender.save(path)
    again = Recommender.load(path)
    assert again.model_.record_.half_life == recommender.model_.record_.half_life
    assert again.model_.half_life == 60.0
    np.testing.assert_array_equal(again.seen_.weights, recommender.seen_.weights)
    updated = again.update(later)
    both = decay.weigh(seen)
    np.testing.assert_allclose(updated.seen_.weights, both.weights)
    assert updated.info().about["times"] == recommender.info().about["times"]
    # A row of the fit that is folded in again has the same factors.
    one = recommender.model_
    of_row = train.take(np.flatnonzero(train.rows == 3))
    entries = Observations(
        np.zeros(len(of_row), int), of_row.columns, of_row.labels, (1, 40), times=of_row.times
    )
    folded = one.fold_in(entries)
    np.testing.assert_allclose(folded.row_factors_[-1], one.row_factors_[3], atol=0.01)
    plain = one.fold_in(entries.with_times(None))
    assert np.abs(plain.row_factors_[-1] - one.row_factors_[3]).max() > 0.02


def test_times_are_kept_in_files_where_no_half_life_is_used(tmp_path):
    seen = drifting(0.0)
    recommender = Recommender(BinaryMatrixCompletion(**FIXED, random_state=0)).fit(seen)
    recommender.save(tmp_path / "model.tribit")
    again = Recommender.load(tmp_path / "model.tribit")
    np.testing.assert_array_equal(again.seen_.times, seen.times)
    assert "none: loss on the latest" in again.info().about["half-life"]
    recommender.model_.save(tmp_path / "alone.tribit")
    found = load(tmp_path / "alone.tribit").record_.half_life
    assert found == recommender.model_.record_.half_life


def test_names_of_columns_are_refused_beside_a_matrix():
    for name in ("value", "weight", "time"):
        for X in (np.array([[1, -1], [-1, 1]]), Observations.from_matrix([[1, -1], [-1, 1]])):
            with pytest.raises(
                InvalidInputError, match=f"{name}='w' names a column of a data frame"
            ):
                BinaryMatrixCompletion().fit(X, **{name: "w"})
