"""Stages of a fit to a sample, with a solver and an objective whose stages are known beforehand."""

import numpy as np
import pytest

from tribit.model.factors import Factors
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
        self.stages, self.larger = 0, 0

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
        n = min(5, stopping.max_iter)
        history = [Iteration(i + 1, own, 0.0, 0.0) for i in range(n)]
        short = stopping.max_iter <= 5  # the first stage has five steps, and is cut short by them
        reason = OUT_OF_ITERATIONS if short else CONVERGED
        return SolverResult(at(value), own, n, not short, reason, history)


def at(value):
    return Factors.of(np.ones((2, 1)), np.ones((2, 1)), value)


def run(script, max_iter=1000):
    stopping = Stopping(max_iter, 1e-4)
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
