"""Stages of a fit to a sample, with a solver and an objective whose stages are known beforehand."""

import numpy as np
import pytest

from tribit.model.factors import Factors
from tribit.solvers import loop
from tribit.solvers.loop import (
    CONVERGED,
    OUT_OF_ITERATIONS,
    Iteration,
    SolverResult,
    Stopping,
    minimise_in_stages,
)


class Script:
    """An objective and a solver: each stage takes five steps and ends with the next of some values."""

    estimates, max_iter = True, 1000

    def __init__(self, values, own=None):
        self.values, self.own = list(values), own or {}
        self.stages, self.larger, self.limits, self.times = 0, 0, [], []

    def value_on_new_sample(self, factors):
        return factors.intercept

    def refit_control_variates(self, _):
        return self

    def double_sample(self):
        self.larger += 1
        return self

    def minimise(self, _objective, _constraints, _start, stopping, _generator):
        value = self.values[self.stages]
        own = self.own.get(self.stages, value)
        self.stages += 1
        self.limits.append(stopping.max_iter)
        self.times.append(stopping.max_time)
        n = min(5, stopping.max_iter)
        history = [Iteration(i + 1, own, 0.0, 0.0) for i in range(n)]
        short = stopping.max_iter <= 5  # the first stage has five steps, and is cut short by them
        reason = OUT_OF_ITERATIONS if short else CONVERGED
        return SolverResult(at(value), own, n, not short, reason, history)


def at(value):
    return Factors.of(np.ones((2, 1)), np.ones((2, 1)), value)


def run(script, max_iter=1000, **options):
    stopping = Stopping(max_iter, 1e-4, **options)
    return minimise_in_stages(script, script, [], at(100.0), stopping, np.random.default_rng(0))[1]


def test_stages_go_on_until_one_gains_little_on_another_sample():
    # The second converges and is a short one still; from the third on there is no limit.
    script = Script([90.0, 80.0, 79.0, 78.0, 77.95, 50.0])
    result = run(script)
    assert script.stages == 5
    assert result.factors.intercept == 77.95
    assert result.n_iter == 25
    assert [each.iteration for each in result.history] == list(range(1, 26))


def test_the_number_of_iterations_ends_them_too():
    assert run(Script([90.0, 80.0, 70.0, 60.0]), max_iter=12).n_iter == 12


@pytest.mark.parametrize("failed", [1, 2], ids=["a short stage", "one without a limit"])
def test_a_stage_that_does_not_lower_another_sample_is_done_again_with_a_larger_one(failed):
    values = [90.0, 80.0, 79.99]
    values.insert(failed, 95.0)
    script = Script(values)
    assert run(script).factors.intercept == 79.99
    assert (script.stages, script.larger) == (4, 1)


def test_a_last_stage_that_is_much_lower_on_its_own_sample_is_done_again():
    script = Script([90.0, 80.0, 79.99, 79.98], own={2: 70.0})
    assert run(script).factors.intercept == 79.98
    assert (script.stages, script.larger) == (4, 1)


class Steps(Script):
    """Each stage takes all its steps, or ends with the next of some reasons."""

    def __init__(self, values, reasons=(), max_iter=1000):
        super().__init__(values)
        self.reasons, self.max_iter = dict(reasons), max_iter

    def minimise(self, objective, constraints, start, stopping, generator):
        stage = self.stages
        super().minimise(objective, constraints, start, stopping, generator)
        reason = self.reasons.get(stage, OUT_OF_ITERATIONS)
        n = stopping.max_iter if reason == OUT_OF_ITERATIONS else min(3, stopping.max_iter)
        history = [Iteration(i + 1, self.values[stage], 0.0, 0.5 * (i + 1)) for i in range(n)]
        if stopping.callback is not None:
            for each in history:
                stopping.callback(each)
        converged = reason in (CONVERGED, loop.UNCHANGED)
        return SolverResult(
            at(self.values[stage]), self.values[stage], n, converged, reason, history
        )


FALLING = [100.0 * 0.9**k for k in range(1, 12)]


@pytest.mark.parametrize(
    ("max_iter", "limits"), [(1000, [5, 10, 20, 40, 80]), (100, [2, 2, 2, 4, 8])]
)
def test_the_first_stages_have_shares_of_the_solver_s_own_limit(max_iter, limits):
    script = Steps(FALLING, max_iter=max_iter)
    result = run(script, max_iter=500)
    assert script.limits == [*limits, 500 - sum(limits)]
    assert result.n_iter == len(result.history) == 500
    assert [each.iteration for each in result.history] == list(range(1, 501))


def test_after_a_stage_that_converges_there_are_no_short_ones_but_after_the_first_there_are():
    script = Steps(FALLING, dict.fromkeys((0, 2, 3), CONVERGED))
    run(script, max_iter=500)
    assert script.limits == [5, 10, 20, 500 - 3 - 10 - 3, 500 - 3 - 10 - 3 - 3]


@pytest.mark.parametrize(
    ("reason", "stages"),
    [
        (CONVERGED, 3),
        (loop.UNCHANGED, 3),
        (loop.NO_DESCENT, 3),
        (loop.CALLED_OFF, 2),
        (loop.OUT_OF_TIME, 2),
        (loop.INTERRUPTED, 2),
        (loop.DIVERGED, 2),
    ],
)
def test_only_some_reasons_lead_to_a_further_stage(reason, stages):
    script = Steps(FALLING, {1: reason, 2: loop.CALLED_OFF})
    result = run(script, max_iter=500)
    assert script.stages == stages
    assert result.stop_reason == (reason if stages == 2 else loop.CALLED_OFF)


@pytest.mark.parametrize(("rise", "larger"), [(0.003, 0), (0.005, 1), (np.nan, 1)])
def test_a_stage_may_end_a_little_above_its_beginning(rise, larger):
    script = Script([90.0, 90.0 * (1.0 + rise), 80.0, 80.0, 80.0])
    assert run(script).factors.intercept == 80.0
    assert script.larger == larger


@pytest.mark.parametrize(("above", "larger"), [(0.003, 0), (0.005, 1)])
def test_the_value_on_its_own_sample_may_be_a_little_lower(above, larger):
    script = Script([90.0, 80.0, 79.9, 79.9, 79.9], own={2: 79.9 - above * 80.0})
    run(script)
    assert script.larger == larger


@pytest.mark.parametrize(("gain", "stages"), [(0.0009, 3), (0.0012, 4)])
def test_the_last_stage_gains_less_than_a_thousandth(gain, stages):
    script = Script([90.0, 80.0, 80.0 * (1.0 - gain), 80.0 * (1.0 - gain)])
    run(script)
    assert script.stages == stages


def test_where_the_sample_cannot_grow_the_stage_counts_as_it_is():
    script = Script([90.0, 95.0, 95.0, 95.0])
    script.double_sample = lambda: None
    assert run(script).factors.intercept == 95.0
    assert script.stages == 3


def test_a_stage_that_was_called_off_is_not_done_again():
    script = Steps([90.0, 95.0, 80.0], {1: loop.CALLED_OFF})
    assert run(script).factors.intercept == 95.0
    assert (script.stages, script.larger) == (2, 0)


def test_a_stage_that_diverged_is_done_again():
    script = Steps([90.0, np.nan, 80.0, 70.0], {1: loop.DIVERGED, 3: loop.CALLED_OFF})
    assert run(script).factors.intercept == 70.0
    assert (script.stages, script.larger) == (4, 1)


def test_time_and_iterations_are_those_of_all_stages(monkeypatch):
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(seconds)))
    seen = []
    script = Steps(FALLING, {2: loop.CALLED_OFF})
    result = run(script, max_time=25.0, callback=seen.append)
    # A clock that is ten seconds later at the beginning of each stage.
    assert script.times == [15.0, 5.0, 1e-6]
    assert seen == result.history
    assert [each.iteration for each in seen] == list(range(1, 19))
    expected = [10.0 + 0.5 * (i + 1) for i in range(5)] + [20.0 + 0.5 * (i + 1) for i in range(10)]
    assert [each.seconds for each in seen] == [*expected, 30.5, 31.0, 31.5]


def test_without_a_callback_or_a_limit_of_time_stages_have_none():
    script = Steps(FALLING, {1: loop.CALLED_OFF})
    run(script)
    assert script.times == [None, None]


def test_iterations_of_a_model_from_a_file_have_no_seconds():
    assert loop._later(Iteration(2, 1.0, 0.5, None), 7, 3.0) == Iteration(9, 1.0, 0.5, None)


def test_exact_sums_have_one_stage():
    script = Steps(FALLING)
    script.estimates, script.any_arrays = False, False
    result = run(script, max_iter=30)
    assert (script.stages, script.limits, result.n_iter) == (1, [30], 30)
    assert result.factors.intercept == FALLING[0]
