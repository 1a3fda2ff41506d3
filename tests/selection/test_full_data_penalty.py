"""Ridges of what a part of a table has chosen, compared on the whole."""

from dataclasses import replace

import numpy as np
import pytest
from selection_data import low_rank, observed, telling_mask

from tribit import BinaryMatrixCompletion
from tribit.backends import Arithmetic
from tribit.model.spec import ModelSpec
from tribit.selection import row_subsample as module
from tribit.selection import search as search_module
from tribit.selection.record import Candidate, Stack
from tribit.selection.row_subsample import (
    FullDataTrials,
    RowSubsample,
    multiply_penalties,
    scale_stack,
)
from tribit.selection.search import Budget, choose
from tribit.selection.space import SearchSpace
from tribit.selection.trials import Options, Trials
from tribit.solvers.loop import INTERRUPTED

PLAIN = {"implicit_features": False, "gammas": (1, 0, 0), "l2_intercept": 1.0, "rank": 2}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make tables of 800 entries large ones."""
    monkeypatch.setattr(module, "MIN_SUBSAMPLE_ENTRIES", 400)
    monkeypatch.setattr(module, "SUBSAMPLE_SHARE", 0.0)


@pytest.fixture(scope="module")
def seen():
    return observed(low_rank((300, 20), density=0.5))


def fitted(seen, **options):
    return BinaryMatrixCompletion(random_state=0, n_jobs=1, **options).fit(seen)


@pytest.fixture
def scored(monkeypatch):
    """Return the candidates that are scored on the whole table, by the number of their rows."""
    found: list[Candidate] = []
    score = Trials.score

    def watched(self, settings):
        candidate = score(self, settings)
        if self.folds[0].train.shape[0] == 300 and candidate not in found:
            found.append(candidate)
        return candidate

    monkeypatch.setattr(Trials, "score", watched)
    return found


def test_the_ridge_with_the_best_score_on_the_whole_is_chosen_and_its_entries_calibrate(
    seen, scored
):
    search = fitted(seen, **PLAIN).search_
    assert len(scored) >= 3  # smaller and larger ones, or on in one direction
    assert list(search.candidates[-len(scored) :]) == scored
    part = search.candidates[: -len(scored)]
    assert scored[0].settings == min(part, key=lambda each: each.score).settings
    assert search.best.score == min(each.score for each in scored)
    assert scored[1].settings.l2 < scored[0].settings.l2  # smaller ones first
    x, labels, weights = search.held_out
    assert x.size == labels.size == weights.size == search.n_held_out
    plain = fitted(seen, **PLAIN, calibration=None).search_
    assert plain.n_held_out == search.n_held_out
    x, labels, weights = plain.held_out
    assert plain.best.score == pytest.approx(np.mean(np.logaddexp(0, -labels * x)))


def test_the_last_fit_starts_from_the_best_of_the_whole_and_not_from_the_last(seen, monkeypatch):
    keep, ends = FullDataTrials._keep, {}

    def watched(self, candidate, kept):
        keep(self, candidate, kept)
        ends[candidate] = self.folds[0].ends["factors"]

    penalty = search_module.search_full_data_penalty

    def and_one_more(lines, chosen):
        best = penalty(lines, chosen)
        lines.trials.score(replace(best.settings, l2=100.0 * best.settings.l2))
        return best

    monkeypatch.setattr(FullDataTrials, "_keep", watched)
    monkeypatch.setattr(search_module, "search_full_data_penalty", and_one_more)
    search = fitted(seen, **PLAIN).search_
    candidates = list(ends)
    assert search.best in candidates[1:-1]
    assert search.ends["factors"] is ends[search.best]


@pytest.mark.usefixtures("short_trials")
def test_all_free_ridges_move_together_and_fixed_ones_stay(scored):
    seen = observed(telling_mask((300, 60)))
    options = {"gammas": (1, 0, 0), "implicit_features": True, "rank": 2, "max_iter": 300}
    best = fitted(seen, **options).search_.best.settings
    first = scored[0].settings
    factors = {each.settings.l2 / first.l2 for each in scored}
    assert len(factors) >= 3
    for each in scored:
        assert each.settings.l2_implicit / first.l2_implicit == pytest.approx(
            each.settings.l2 / first.l2
        )
        assert each.settings.l2_intercept == first.l2_intercept
    scored.clear()
    fitted(seen, **options, l2_implicit=best.l2_implicit)
    assert {each.settings.l2_implicit for each in scored} == {best.l2_implicit}
    assert len({each.settings.l2 for each in scored}) >= 3
    scored.clear()
    fitted(seen, **options, l2_implicit=best.l2_implicit, l2=best.l2)
    assert len(scored) == 1  # for the calibration alone


@pytest.mark.parametrize("more", [0, 1, 2])
@pytest.mark.usefixtures("short_trials")
def test_the_number_of_candidates_counts_those_of_the_whole(seen, scored, more):
    enough = len(fitted(seen, **PLAIN).search_.candidates) - len(scored)
    scored.clear()
    search = fitted(seen, **PLAIN, n_candidates=enough + more).search_
    assert (len(scored), len(search.candidates)) == (more, enough + more)
    assert (search.best in scored) == bool(more)
    assert "the most asked for" in search.stop_reason


def test_time_that_is_over_leaves_the_choice_of_the_part(seen, scored, monkeypatch):
    made = RowSubsample.full_folds

    def folds(*arguments):
        # The part is done.
        monkeypatch.setattr("tribit.selection.trials.time.perf_counter", lambda: 1e12)
        return made(*arguments)

    monkeypatch.setattr(RowSubsample, "full_folds", folds)
    model = fitted(seen, **PLAIN, max_time=1e6)
    assert not scored
    assert model.search_.best in model.search_.candidates
    assert model.search_.ends["factors"].row_factors.shape[0] == 300


@pytest.mark.filterwarnings("ignore:Interrupted")
def test_an_interrupt_on_the_whole_keeps_the_best_so_far(seen, scored, monkeypatch):
    score = Trials.score

    def interrupted(self, settings):
        if len(scored) == 2:
            raise KeyboardInterrupt
        return score(self, settings)

    monkeypatch.setattr(Trials, "score", interrupted)
    search = fitted(seen, **PLAIN).search_
    assert search.stop_reason == INTERRUPTED
    assert search.best == min(scored, key=lambda each: each.score)


def test_a_gpu_searches_the_whole(seen, monkeypatch):
    class WholeError(Exception):
        pass

    def folds(observations, *_):
        assert observations is seen
        raise WholeError

    monkeypatch.setattr(search_module, "make_folds", folds)
    with pytest.raises(WholeError):
        choose(
            seen,
            SearchSpace(ModelSpec(rank=2), frozenset({"l2"})),
            Options(Arithmetic(device="cuda")),
            Budget(),
            np.random.default_rng(0),
        )


def test_a_stack_has_the_ridges_of_the_whole_and_the_calibration_of_the_part(seen, monkeypatch):

    def stack_of(trials, best, most):
        """Return the stack of the best two candidates."""
        first, second = sorted(trials.eligible_candidates, key=lambda each: each.score)[:2]
        assert (first, most) == (best, 2)
        x = np.array([trials.scores[each] for each in (first, second)])
        return Stack((first, second), (0.7, 0.3), 0.5, (first.score, second.score), x)

    monkeypatch.setattr(search_module, "stack_of", stack_of)
    part = []
    scale = search_module.scale_stack
    monkeypatch.setattr(
        search_module, "scale_stack", lambda *given: part.append(given) or scale(*given)
    )
    model = fitted(seen, **PLAIN, members=2)
    search = model.search_
    ((before, chosen, best),) = part
    first, second = search.stack.members
    assert first.settings.is_close(best.settings)
    assert search.best is best
    assert best.settings.l2 != chosen.settings.l2
    # The penalties of each member are multiplied as those of the chosen one are.
    assert second.settings.l2 == pytest.approx(
        before.members[1].settings.l2 * best.settings.l2 / chosen.settings.l2
    )
    assert second.settings.l2_intercept == before.members[1].settings.l2_intercept
    assert search.held_out[0].size == search.n_held_out < 0.6 * seen.n_observed
    np.testing.assert_allclose(search.held_out[0], before.mean_scores(2))
    assert model.row_factors_.shape == (300, 4)


def test_members_of_a_stack_follow_the_chosen_one():
    def candidate(**values):
        return Candidate(ModelSpec(l2_intercept=1.0, **values), 0.5, (0.5,), 1.0, 3)

    members = candidate(rank=2, l2=8.0, l2_implicit=4.0), candidate(rank=4, l2=6.0)
    best = candidate(rank=2, l2=2.0, l2_implicit=2.0)
    stack = Stack(members, (0.7, 0.3), 0.4, (0.5, 0.6), np.zeros((2, 5)))
    found = scale_stack(stack, members[0], best)
    assert found.members[0].settings == best.settings
    assert found.members[1].settings.l2 == 6.0 / 4
    assert found.members[1].settings.l2_implicit is None
    assert (found.weights, found.score, found.alone) == ((0.7, 0.3), 0.4, (0.5, 0.6))
    assert found.scores is stack.scores
    assert multiply_penalties(members[1].settings, ("l2", "l2_implicit"), 2.0).l2 == 12.0
