"""Folds, scores and starts of a search."""

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from selection_data import low_rank, observed
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from tribit.backends import Arithmetic
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.metrics.entries import SCORINGS, error_rate, log_loss, one_minus_auc
from tribit.model.calibration import CALIBRATORS
from tribit.model.constraints import MaxNorm
from tribit.model.factors import Factors
from tribit.model.links import Logistic, Probit
from tribit.model.spec import ModelSpec
from tribit.propensity import row_column
from tribit.randomness import fold_numbers
from tribit.selection import folds as parts
from tribit.selection import trials as module
from tribit.selection.folds import make_folds, spec_for_fold
from tribit.selection.gammas import mixture
from tribit.selection.problem import warm_start
from tribit.selection.stacking import MIN_GAIN_IN_NATS
from tribit.selection.trials import (
    Options,
    SearchEndedError,
    Trials,
    default_solver,
    fit_from,
)
from tribit.solvers import LBFGS, Newton, Stopping
from tribit.solvers.base import Solver
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME

A = low_rank((30, 20), density=0.5)
SEEN = observed(A)
MIXTURE = (0.6, 0.2, 0.2)
OPTIONS = Options(Arithmetic(backend="auto"))


def folds_of(seen=SEEN, weights=None, seed=0):
    return make_folds(seen, weights, np.random.default_rng(seed))


def trials_of(*, scoring="log_loss", most=None, deadline=None, options=OPTIONS, **rest):
    weights = rest.pop("weights", None)
    return Trials(
        folds_of(weights=weights),
        options,
        scoring=scoring,
        most=most,
        deadline=deadline,
        **rest,
    )


# Folds


def places(part):
    return set(zip(part.rows.tolist(), part.columns.tolist(), strict=True))


def test_folds_are_disjoint_and_each_is_the_rest_of_its_own():
    folds = folds_of()
    assert len(folds) == parts.N_PARTS
    everything = places(SEEN)
    held_out = [places(fold.held_out) for fold in folds]
    assert set.union(*held_out) == everything
    for k, fold in enumerate(folds):
        assert places(fold.train) | held_out[k] == everything
        assert not places(fold.train) & held_out[k]
        for other in held_out[:k]:
            assert not held_out[k] & other
        assert fold.train.shape == fold.held_out.shape == SEEN.shape
        assert fold.share == pytest.approx(fold.train.n_observed / SEEN.n_observed)
        assert fold.held_out.n_observed == pytest.approx(SEEN.n_observed / 5, abs=1)
    assert len({fold.seed for fold in folds}) == len(folds)


def test_labels_and_weights_follow_their_entries():
    weights = 1.0 + SEEN.rows * 100 + SEEN.columns
    for fold in folds_of(weights=weights):
        part = fold.held_out
        np.testing.assert_array_equal(fold.weights, 1.0 + part.rows * 100 + part.columns)
        np.testing.assert_array_equal(part.labels, A[part.rows, part.columns])
        np.testing.assert_array_equal(fold.train.labels, A[fold.train.rows, fold.train.columns])
    for fold in folds_of():
        np.testing.assert_array_equal(fold.weights, np.ones(fold.held_out.n_observed))


def test_folds_depend_on_the_seed_alone():
    first, again, other = folds_of(seed=1), folds_of(seed=1), folds_of(seed=2)
    assert places(first[0].held_out) == places(again[0].held_out)
    assert first[0].seed == again[0].seed
    assert places(first[0].held_out) != places(other[0].held_out)


@pytest.mark.parametrize(
    ("n", "n_folds", "share"),
    [(500, 5, 5), (3_999, 5, 5), (4_000, 5, 10), (7_500, 4, 10), (15_000, 2, 10), (30_000, 1, 10)],
)
def test_more_entries_take_fewer_and_smaller_folds(monkeypatch, n, n_folds, share):
    monkeypatch.setattr(parts, "TENTHS_FROM", 4_000)
    monkeypatch.setattr(parts, "ENOUGH_HELD_OUT", 3_000)
    rng = np.random.default_rng(0)
    labels = np.zeros(250 * 200, dtype=np.int8)
    labels[rng.permutation(labels.size)[:n]] = rng.choice([-1, 1], n)
    folds = folds_of(observed(labels.reshape(250, 200)))
    assert len(folds) == n_folds
    for fold in folds:
        assert fold.held_out.n_observed == pytest.approx(n / share, abs=1)


@pytest.mark.parametrize(
    ("enough", "per_class", "n_first"),
    [
        (60, 20, 1),
        (61, 20, 2),
        (240, 20, 4),
        (300, 20, 5),
        (10_000, 20, 5),
        (60, 30, 2),
        (1, 70, 3),
    ],
)
def test_stages_use_as_few_folds_as_have_enough_entries_of_both_labels(
    monkeypatch, enough, per_class, n_first
):
    labels = np.zeros((30, 20), dtype=int)
    labels.flat[:300] = np.where(np.arange(300) < 135, -1, 1)  # 27 dislikes and 33 likes in a fold
    folds = folds_of(observed(labels))
    assert [fold.held_out.n_dislikes for fold in folds] == [27] * 5
    monkeypatch.setattr(parts, "MIN_HELD_OUT_OF_STAGES", enough)
    monkeypatch.setattr(parts, "MIN_HELD_OUT_PER_CLASS", per_class)
    assert parts.n_first_folds(folds) == n_first


# Scores


def scored(seed=0, n=300):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    labels = np.where(rng.random(n) < expit(2 * x), 1, -1).astype(np.int8)
    return x, labels, rng.uniform(0.1, 4.0, n)


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_scikit_learn_with_weights(seed):
    x, labels, w = scored(seed)
    link = Logistic(2.0)
    assert log_loss(link, x, labels, w) == pytest.approx(
        sklearn_log_loss(labels > 0, expit(2 * x), sample_weight=w), rel=1e-9
    )
    assert error_rate(link, x, labels, w) == pytest.approx(
        np.sum(w[(x >= 0) != (labels > 0)]) / np.sum(w)
    )
    assert one_minus_auc(link, x, labels, w) == pytest.approx(
        1 - roc_auc_score(labels > 0, x, sample_weight=w)
    )


@pytest.mark.parametrize("name", SCORINGS)
def test_a_weight_of_two_is_an_entry_twice_and_less_is_better(name):
    x, labels, _ = scored()
    measure, link = SCORINGS[name], Probit(0.7)
    w = np.where(np.arange(x.size) % 3 == 0, 2.0, 1.0)
    copied = np.concatenate([np.arange(x.size), np.flatnonzero(w == 2.0)])
    assert measure(link, x, labels, w) == pytest.approx(
        measure(link, x[copied], labels[copied], np.ones(copied.size)), rel=1e-9
    )
    assert measure(link, x, labels, w) != pytest.approx(measure(link, x, labels, np.ones(x.size)))
    assert measure(link, labels * 3.0, labels, w) < measure(link, x, labels, w)


def test_the_loss_far_out_is_finite():
    labels = np.array([1, -1], dtype=np.int8)
    assert log_loss(Logistic(), np.array([-1e4, 1e4]), labels, np.ones(2)) == pytest.approx(1e4)


def test_the_area_under_one_label_is_one_sentence():
    with pytest.raises(InvalidInputError, match="scoring='auc' needs likes and dislikes among"):
        one_minus_auc(Logistic(), np.zeros(3), np.ones(3, dtype=np.int8), np.ones(3))


# Trials


INTERCEPTS = ModelSpec(rank=0, l2_intercept=3.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scoring", ["log_loss", "error"])
def test_a_score_is_the_measure_of_all_held_out_entries_together(weighted, scoring):
    weights = np.random.default_rng(0).uniform(0.5, 9.0, SEEN.n_observed) if weighted else None
    trials = trials_of(scoring=scoring, weights=weights)
    candidate = trials.score(INTERCEPTS)
    x, labels, w = trials.scores[candidate], trials.labels, trials.weights
    assert x.size == labels.size == w.size == sum(f.held_out.n_observed for f in trials.folds)
    assert candidate.score == pytest.approx(SCORINGS[scoring](Logistic(), x, labels, w))
    assert len(candidate.scores) == len(trials.folds)
    assert min(candidate.scores) <= candidate.score <= max(candidate.scores)
    assert candidate.n_iter > 0
    assert candidate.seconds > 0


def test_held_out_entries_are_predicted_by_a_fit_without_them():
    trials = trials_of()
    candidate = trials.score(INTERCEPTS)
    x = trials.scores[candidate]
    at = 0
    for fold in trials.folds:
        factors, _ = fit_from(
            fold.train, INTERCEPTS, OPTIONS, {}, np.random.default_rng(0), Stopping(300, 1e-10)
        )
        part = fold.held_out
        n = part.n_observed
        np.testing.assert_allclose(x[at : at + n], factors.at(part.rows, part.columns), atol=0.05)
        at += n


def test_what_was_tried_is_not_tried_again():
    trials = trials_of()
    first = trials.score(INTERCEPTS)
    assert trials.score(replace(INTERCEPTS)) is first
    assert trials.candidates == [first]
    assert trials.find(ModelSpec()) is None
    # Rounding makes no other settings; a step of a search does.
    rounded = replace(INTERCEPTS, l2_intercept=3.0 * (1.0 + 1e-12))
    assert rounded != INTERCEPTS
    assert trials.score(rounded) is first
    assert trials.find(replace(INTERCEPTS, l2_intercept=3.0 * (1.0 + 1e-3))) is None
    assert trials.find(replace(INTERCEPTS, l2_intercept=None)) is None
    assert trials.find(replace(INTERCEPTS, link=Probit())) is None


@pytest.mark.parametrize("settings", [INTERCEPTS, ModelSpec(rank=2, l2=3.0)], ids=str)
def test_finalists_on_further_folds_have_the_scores_of_a_search_on_all(settings):
    folds = folds_of()
    limits = {"scoring": "log_loss", "most": 1, "deadline": None, "calibration": "beta"}
    first = Trials(folds[:2], OPTIONS, **limits)
    candidate = first.score(settings)
    whole = first.with_folds(folds[2:], [candidate])
    expected = trials_of(calibration="beta")
    wanted = expected.score(settings)
    (found,) = whole.candidates
    assert (found.settings, found.scores) == (wanted.settings, wanted.scores)
    assert found.score == wanted.score != candidate.score
    assert found.n_iter == wanted.n_iter > candidate.n_iter
    np.testing.assert_array_equal(whole.scores[found], expected.scores[wanted])
    np.testing.assert_array_equal(whole.labels, expected.labels)
    assert first.candidates == [candidate]  # as it was


def test_a_fold_imputes_the_share_that_all_entries_do():
    likes = 0.6
    whole = ModelSpec(gammas=mixture(0.3, SEEN.density, likes), rho=0.5, radius=1.0)
    for fold in folds_of():
        here = spec_for_fold(whole, fold.share)
        np.testing.assert_allclose(here.gammas, mixture(0.3, fold.train.density, likes), rtol=1e-12)
        assert here.rho == pytest.approx(1.0 - 0.5 * fold.share)
    corner_gammas = replace(whole, gammas=(0.0, 1.0, 0.0))
    assert spec_for_fold(corner_gammas, 0.8).gammas == corner_gammas.gammas
    assert spec_for_fold(INTERCEPTS, 0.8) == INTERCEPTS


@pytest.mark.parametrize("name", ["platt", "isotonic", "beta", "auto"])
def test_candidates_are_judged_by_calibrators_that_have_not_seen_the_entry(name):
    trials = trials_of(calibration=name)
    candidate = trials.score(ModelSpec(rank=5, l2=0.01))  # far too sure of itself
    x, labels = trials.scores[candidate], trials.labels
    fold, p = fold_numbers(x.size, 5, 0), np.empty(x.size)
    fit = CALIBRATORS["beta" if name == "auto" else name]
    for part in range(5):
        here = fold == part
        p[here] = fit(x[~here], labels[~here])(x[here])
    assert candidate.score == pytest.approx(-np.mean(np.log(np.where(labels > 0, p, 1 - p))))
    assert candidate.score < 0.9 * trials.score_of_link(candidate)
    assert trials.score_of_link(candidate) == pytest.approx(log_loss(Logistic(), x, labels))
    assert trials.calibrates
    assert not trials_of(calibration="identity").calibrates
    assert not trials_of(calibration=name, scoring="auc").calibrates


def test_a_label_that_is_hardly_held_out_leaves_scores_as_they_are():
    labels = np.full((30, 20), 1)
    labels[:2, :12] = -1  # 24 dislikes, three fifths of them in these folds
    trials = Trials(
        folds_of(observed(labels))[:3],
        OPTIONS,
        scoring="log_loss",
        most=None,
        deadline=None,
        calibration="platt",
    )
    candidate = trials.score(INTERCEPTS)
    assert np.count_nonzero(trials.labels < 0) < parts.MIN_HELD_OUT_PER_CLASS
    # A mean of the folds' means and the mean of all entries: the same number but for the order of the sums.
    assert candidate.score == pytest.approx(trials.score_of_link(candidate), rel=1e-14)
    assert not trials.calibrates


def test_the_best_is_the_smallest_score_that_is_allowed():
    trials = trials_of(eligible=lambda settings: settings.l2_intercept != 3.0)
    scores = {
        w: trials.score(replace(INTERCEPTS, l2_intercept=w)).score for w in (300.0, 3.0, 50.0)
    }
    assert min(scores, key=scores.__getitem__) == 3.0
    assert trials.best.settings.l2_intercept == 50.0
    assert trials_of().best is None


FAMILIES = {
    "intercepts": ModelSpec(rank=0),
    "factors": ModelSpec(),
    "implicit features": ModelSpec(implicit_features=True),
    "mixture": ModelSpec(gammas=MIXTURE, radius=1.0),
}


def choice_among(entries, *, scoring="log_loss", weights=None, eligible=lambda _: True):
    """Return the family that is chosen, given ``x`` of the same held-out likes and dislikes in each."""
    trials = trials_of(scoring=scoring, eligible=eligible)
    labels = np.where(np.arange(next(iter(entries.values())).size) % 2, 1, -1).astype(np.int8)
    weights = np.ones(labels.size) if weights is None else weights
    trials.labels, trials.weights = labels, weights
    for family, x in entries.items():
        score = SCORINGS[scoring](Logistic(), x, labels, weights)
        candidate = module.Candidate(FAMILIES[family], score, (score,), 0.0, 1)
        trials.candidates.append(candidate)
    return None if trials.choice is None else trials.choice.settings.family


def gaining(*nats, n=200):
    """Return ``x`` of a model and of others that gain so many nats over it in all, evenly."""
    labels, first = np.where(np.arange(n) % 2, 1, -1), np.log(2) + 1.0
    losses = [first, *(first - gain / n for gain in nats)]
    return [-labels * np.log(np.expm1(np.full(n, loss))) for loss in losses]


@pytest.mark.parametrize("weight", [1.0, 7.0])
@pytest.mark.parametrize("n", [200, 80_000])
@pytest.mark.parametrize(
    ("share", "richer"), [(0.99, False), (1.01, True), (-2.0, False), (5.0, True)]
)
def test_a_more_complex_family_must_gain_a_few_nats(n, share, richer, weight):
    simple, rich = gaining(share * MIN_GAIN_IN_NATS, n=n)
    # Only the proportions of weights matter: a table that weighs seven times as much knows no more.
    found = choice_among({"intercepts": simple, "factors": rich}, weights=np.full(n, weight))
    assert found == ("factors" if richer else "intercepts")


def test_uneven_weights_count_as_fewer_entries():
    n = 200
    simple, rich = gaining(1.5 * MIN_GAIN_IN_NATS, n=n)
    assert choice_among({"intercepts": simple, "factors": rich}) == "factors"
    weights = np.where(np.arange(n) % 4 < 2, 1.0, 20.0)
    even = np.sum(weights) ** 2 / np.sum(weights**2)
    assert 1.5 * even / n < 1.0
    assert choice_among({"intercepts": simple, "factors": rich}, weights=weights) == "intercepts"


def test_each_family_is_compared_with_the_last_that_was_ahead():
    one = MIN_GAIN_IN_NATS
    simple, rich, richest = gaining(1.5 * one, 2.2 * one)
    assert choice_among({"intercepts": simple, "factors": rich, "mixture": richest}) == "factors"
    assert choice_among({"intercepts": simple, "mixture": richest}) == "mixture"
    simple, rich, richest = gaining(0.9 * one, 1.1 * one)
    assert choice_among({"intercepts": simple, "factors": rich, "mixture": richest}) == "mixture"


def test_only_what_keeps_the_user_s_word_is_chosen():
    simple, rich = gaining(3.0 * MIN_GAIN_IN_NATS)
    entries = {"intercepts": rich, "factors": simple}
    assert choice_among(entries) == "intercepts"
    assert choice_among(entries, eligible=lambda settings: settings.rank > 0) == "factors"
    assert choice_among(entries, eligible=lambda _: False) is None


def test_other_measures_than_the_likelihood_take_the_smaller_score():
    n = 200
    labels = np.where(np.arange(n) % 2, 1, -1)
    noise = np.random.default_rng(0).standard_normal(n)
    worse, better = 0.1 * labels + noise, 0.12 * labels + noise
    assert choice_among({"intercepts": worse, "factors": better}, scoring="auc") == "factors"
    assert choice_among({"intercepts": better, "factors": worse}, scoring="auc") == "intercepts"


def test_of_equal_scores_the_first_is_best():
    trials = trials_of()
    first = trials.score(INTERCEPTS)
    trials.candidates.append(replace(first, settings=ModelSpec()))
    assert trials.best is first


def test_most_candidates():
    trials = trials_of(most=2)
    for weight in (300.0, 30.0):
        trials.score(replace(INTERCEPTS, l2_intercept=weight))
    with pytest.raises(SearchEndedError, match="2 candidates were tried"):
        trials.score(INTERCEPTS)
    assert trials.score(replace(INTERCEPTS, l2_intercept=30.0)) is trials.candidates[1]


def test_after_the_deadline_nothing_more_is_tried_but_a_first_candidate():
    trials = trials_of(deadline=time.perf_counter() - 1.0)
    first = trials.score(INTERCEPTS)
    with pytest.raises(SearchEndedError, match=OUT_OF_TIME):
        trials.score(ModelSpec())
    assert trials.candidates == [first]


class Stopped(Solver):
    """A solver whose fits, from one on, end for another reason."""

    def __init__(self, reason, after):
        self.reason, self.after, self.calls, self.limits = reason, after, 0, []

    def __call__(self, settings):
        self.inner = default_solver(settings)
        return self

    def minimise(self, objective, constraints, start, stopping, generator):
        self.calls += 1
        self.limits.append(stopping.max_time)
        result = self.inner.minimise(objective, constraints, start, stopping, generator)
        return replace(result, stop_reason=self.reason) if self.calls > self.after else result


@pytest.mark.parametrize("reason", [INTERRUPTED, OUT_OF_TIME])
def test_a_fit_that_is_cut_short_is_no_candidate(monkeypatch, reason):
    monkeypatch.setattr(module, "default_solver", Stopped(reason, after=6))
    trials = trials_of()
    first = trials.score(INTERCEPTS)
    with pytest.raises(SearchEndedError, match=reason):
        trials.score(ModelSpec())
    assert trials.candidates == [first]


def test_the_first_candidate_is_kept_though_interrupted_and_ends_the_search(monkeypatch):
    monkeypatch.setattr(module, "default_solver", Stopped(INTERRUPTED, after=1))
    trials = trials_of()
    with pytest.raises(SearchEndedError, match=INTERRUPTED):
        trials.score(INTERCEPTS)
    assert trials.best is trials.candidates[0]
    assert np.isfinite(trials.best.score)


def test_fits_after_the_first_have_the_time_that_is_left(monkeypatch):
    solver = Stopped("", after=1000)
    monkeypatch.setattr(module, "default_solver", solver)
    monkeypatch.setattr(module.time, "perf_counter", lambda: 12.0)
    trials = trials_of(deadline=112.0)
    trials.score(INTERCEPTS)
    assert solver.limits == [None] * 5
    monkeypatch.setattr(module.time, "perf_counter", lambda: 42.0)
    trials.score(replace(INTERCEPTS, l2_intercept=1.0))
    assert solver.limits[5:] == [70.0] * 5


def test_a_listener_is_told_of_each_candidate():
    callback = []
    trials = trials_of(callback=callback.append)
    trials.score(INTERCEPTS)
    trials.score(INTERCEPTS)
    assert callback == trials.candidates


# The mask of a fold


@pytest.mark.parametrize("rho", [0.5, None, "model"])
def test_a_fold_has_fewer_entries_and_its_own_rho(monkeypatch, rho):
    given = []

    def spy(observations, settings, options, ends, draws, *rest):
        given.append((observations, settings.rho))
        return fit_from(observations, settings, options, ends, draws, *rest)

    monkeypatch.setattr(module, "fit_from", spy)
    model = row_column(SEEN)
    trials = trials_of()
    trials.score(
        ModelSpec(gammas=MIXTURE, rho=model if rho == "model" else rho, rank=1, radius=1.0)
    )
    for fold, (train, used) in zip(trials.folds, given, strict=True):
        assert train is fold.train
        if rho is None:
            assert used is None  # the fit counts for itself
        elif rho == 0.5:
            assert used == pytest.approx(1 - 0.5 * fold.share)
        else:
            rows, columns = SEEN.rows[:9], SEEN.columns[:9]
            q = model.probability_at(rows, columns)
            np.testing.assert_allclose(used.rho_at(rows, columns), 1 - fold.share * q)


# Solvers and starts


def test_each_model_has_a_solver_that_can_fit_it():
    assert isinstance(default_solver(ModelSpec()), Newton)
    assert isinstance(default_solver(ModelSpec(implicit_features=True)), LBFGS)
    assert isinstance(default_solver(ModelSpec(rank=0)), LBFGS)
    assert isinstance(default_solver(ModelSpec(rank=0, radius=1.0)), Newton)
    assert isinstance(default_solver(ModelSpec(rank=0, gammas=MIXTURE)), Newton)


def problem_of(settings, seen=SEEN):
    return module.problem_of(seen, settings, OPTIONS, np.random.default_rng(0))


def end_of(settings, seed=0):
    """Return where a fit of these settings could have ended: anywhere."""
    rng = np.random.default_rng(seed)
    d1, d2 = A.shape
    sizes = (d1 + d2, d1 + d2) if settings.implicit_features else (d1, d2)
    U, V = (rng.standard_normal((size, settings.rank)) for size in sizes)
    return Factors(U, V, 0.7, rng.standard_normal(sizes[0]), rng.standard_normal(sizes[1]))


def test_without_an_end_a_fit_begins_at_the_problem_s_own_start():
    problem = problem_of(ModelSpec())
    assert warm_start(problem, ModelSpec(), {}) is problem.start
    assert warm_start(problem, ModelSpec(), {"mixture": end_of(ModelSpec())}) is problem.start


def test_a_fit_begins_where_the_last_of_its_family_ended():
    settings = ModelSpec(rank=3)
    end = end_of(settings)
    ends = {"factors": end, "intercepts": end_of(ModelSpec(rank=0), 1)}
    start = warm_start(problem_of(settings), settings, ends)
    np.testing.assert_array_equal(start.row_factors, end.row_factors)
    np.testing.assert_array_equal(start.row_intercepts, end.row_intercepts)
    assert start.intercept == end.intercept


def test_new_columns_are_small_and_old_ones_stay():
    settings = ModelSpec(rank=5)
    end, problem = end_of(ModelSpec(rank=3)), problem_of(settings)
    start = warm_start(problem, settings, {"factors": end})
    np.testing.assert_array_equal(start.row_factors[:, :3], end.row_factors)
    np.testing.assert_allclose(
        start.column_factors[:, 3:], 0.3 * problem.start.column_factors[:, 3:]
    )


def test_of_too_many_columns_the_leading_ones_stay():
    end = end_of(ModelSpec(rank=5))
    narrow = warm_start(problem_of(ModelSpec(rank=2)), ModelSpec(rank=2), {"factors": end})
    a, values, b = np.linalg.svd(end.row_factors @ end.column_factors.T)
    nearest = (a[:, :2] * values[:2]) @ b[:2]
    np.testing.assert_allclose(narrow.row_factors @ narrow.column_factors.T, nearest, atol=1e-10)
    np.testing.assert_array_equal(narrow.row_intercepts, end.row_intercepts)


def test_factors_begin_beside_the_intercepts_of_a_simpler_model():
    settings = ModelSpec(rank=3)
    end, problem = end_of(ModelSpec(rank=0)), problem_of(settings)
    start = warm_start(problem, settings, {"intercepts": end})
    np.testing.assert_array_equal(start.row_factors, problem.start.row_factors)
    np.testing.assert_array_equal(start.row_intercepts, end.row_intercepts)


def test_implicit_features_begin_from_plain_factors():
    settings = ModelSpec(rank=3, implicit_features=True)
    problem = problem_of(settings)
    assert problem.objective.shares_unknowns
    end = end_of(ModelSpec(rank=3))
    start = warm_start(problem, settings, {"factors": end})
    np.testing.assert_array_equal(problem.factors(start).row_factors, end.row_factors)
    own = end_of(settings)
    start = warm_start(problem, settings, {"factors": end, "implicit features": own})
    np.testing.assert_array_equal(start.row_factors, own.row_factors)


@pytest.mark.parametrize("radius", [0.2, 5.0])
def test_a_start_from_a_wider_ball_is_inside_its_own(radius):
    settings = ModelSpec(gammas=MIXTURE, rank=3, radius=radius)
    problem, end = problem_of(settings), end_of(settings)
    start = warm_start(problem, settings, {"mixture": end})
    assert MaxNorm(radius).gauge(start.row_factors, start.column_factors) <= 1 + 1e-12
    assert np.abs(start.row_intercepts).max() <= radius
    assert np.abs(start.column_intercepts).max() <= radius
    # The one intercept is no unknown: it is that of the problem's observations, not of the fit before.
    assert start.intercept == pytest.approx(problem.start.intercept)
    assert end.intercept != start.intercept
    directions = start.row_factors / np.linalg.norm(start.row_factors, axis=1, keepdims=True)
    np.testing.assert_allclose(
        directions, end.row_factors / np.linalg.norm(end.row_factors, axis=1, keepdims=True)
    )


def test_wider_factors_are_brought_into_a_ball_too():
    settings = ModelSpec(rank=6, radius=0.5)
    start = warm_start(problem_of(settings), settings, {"factors": end_of(ModelSpec(rank=3))})
    assert MaxNorm(0.5).gauge(start.row_factors, start.column_factors) <= 1 + 1e-12


def test_factors_that_have_vanished_are_drawn_again():
    settings = ModelSpec(gammas=MIXTURE, rank=3, radius=1.0)
    end = end_of(settings)
    gone = replace(end, row_factors=1e-3 * end.row_factors, column_factors=end.column_factors)
    problem = problem_of(settings)
    start = warm_start(problem, settings, {"mixture": gone})
    np.testing.assert_array_equal(start.row_factors, problem.start.row_factors)
    np.testing.assert_allclose(start.row_intercepts, np.clip(end.row_intercepts, -1.0, 1.0))


def test_after_a_ridge_without_factors_a_smaller_one_finds_them_again():
    ends, draws = {}, np.random.default_rng(0)
    strong, weak = (ModelSpec(gammas=MIXTURE, rank=3, radius=1.0, l2=l2) for l2 in (1e3, 1.0))
    gone, _ = fit_from(SEEN, strong, OPTIONS, ends, draws, Stopping(300, 1e-4))
    assert np.abs(gone.row_factors @ gone.column_factors.T).max() < 1e-3
    _, warm = fit_from(SEEN, weak, OPTIONS, ends, draws, Stopping(300, 1e-6))
    _, cold = fit_from(SEEN, weak, OPTIONS, {}, np.random.default_rng(0), Stopping(300, 1e-6))
    assert warm.objective == pytest.approx(cold.objective, rel=1e-3)


def test_folds_hold_out_both_labels_alike():
    """A label of which there are few is in every fold, and in enough folds to be judged."""
    rng = np.random.default_rng(3)
    labels = np.ones((300, 200), dtype=int)
    labels.flat[rng.choice(labels.size, 20, replace=False)] = -1
    data = Observations.from_matrix(labels)
    for seed in range(5):
        folds = make_folds(data, None, np.random.default_rng(seed))
        assert [fold.held_out.n_dislikes for fold in folds] == [4] * 5
        sizes = [fold.held_out.n_observed for fold in folds]
        assert max(sizes) - min(sizes) <= 1


def test_of_many_entries_no_more_than_enough_are_held_out(monkeypatch):
    monkeypatch.setattr(parts, "TENTHS_FROM", 1000)
    monkeypatch.setattr(parts, "MAX_HELD_OUT", 50)
    monkeypatch.setattr(parts, "ENOUGH_HELD_OUT", 50)
    labels = np.where(np.random.default_rng(0).random((60, 40)) < 0.5, 1, -1)
    (fold,) = folds_of(observed(labels))
    assert fold.held_out.n_observed == 2400 // (2400 // 50)
    labels[:] = 1
    labels[:20, :12] = -1  # 240 of a label: tenths hold 24 of it out, smaller parts too few
    (fold,) = folds_of(observed(labels))
    assert np.count_nonzero(fold.held_out.labels < 0) >= parts.MIN_HELD_OUT_PER_CLASS
