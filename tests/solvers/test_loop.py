"""The loop of every solver, on scripts of objectives and decreases: stopping rule, history and best factors."""

from itertools import pairwise

import numpy as np
import pytest

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.solvers import loop
from tribit.solvers.loop import Iteration, Step, Stopping, predicted_decrease, run

#: ``f_k = LIMIT + SPAN * rate**k``: the decrease that further iterations bring is known.
LIMIT, SPAN = 50.0, 40.0


def geometric(n, rate):
    return [LIMIT + SPAN * rate**k for k in range(n)]


def scripted(objectives, decreases=None, *, max_iter=None, size=0.0, tol=0.0, **options):
    """Run over the places of a list, the last of which only the end of the loop sees."""
    marks = {name: options.pop(name, ()) for name in ("stuck", "certain")}
    earlier = options.pop("earlier", ())
    if decreases is None:
        decreases = [9e9] * len(objectives)

    def advance(place):
        marked = {name: place in places for name, places in marks.items()}
        return Step(place, objectives[place], decreases[place], place + 1, **marked)

    most = len(objectives) - 1 + len(earlier) if max_iter is None else max_iter
    stopping = Stopping(most, tol, **options)
    return run(advance, 0, lambda place: objectives[place], stopping, size, earlier)


def history_of(objectives, decreases=None):
    decreases = [1.0] * len(objectives) if decreases is None else decreases
    return [
        Iteration(i + 1, f, d, 0.0)
        for i, (f, d) in enumerate(zip(objectives, decreases, strict=True))
    ]


# The best factors


@pytest.mark.parametrize(
    ("objectives", "best"),
    [
        ([5.0, 4.0, 3.0, 2.0], 3),
        ([5.0, 3.0, 4.0, 6.0], 1),
        ([2.0, 3.0, 4.0, 6.0], 0),
        ([5.0, 3.0, 3.0, 6.0], 2),  # of equal ones the last
        ([5.0, 4.0, 3.0, 3.0], 3),
        ([5.0, 4.0, 3.0, np.nan], 2),
    ],
)
def test_the_factors_of_the_lowest_objective_are_kept(objectives, best):
    result = scripted(objectives)
    assert result.factors == best
    assert result.objective == objectives[best]
    assert (result.n_iter, result.converged) == (3, False)
    assert result.stop_reason == loop.OUT_OF_ITERATIONS
    assert [each.iteration for each in result.history] == [1, 2, 3]
    assert [each.objective for each in result.history] == objectives[:3]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_an_objective_that_is_no_number_ends_at_the_best_before_it(odd):
    result = scripted([5.0, 3.0, 4.0, odd, 1.0, 0.0])
    assert result.stop_reason == loop.DIVERGED
    assert (result.factors, result.objective, result.n_iter) == (1, 3.0, 3)
    assert not result.converged


def test_without_a_first_iteration_the_start_is_the_result():
    result = scripted([np.nan, 1.0])
    assert (result.factors, result.n_iter, result.history) == (0, 0, [])
    assert result.stop_reason == loop.DIVERGED


def test_earlier_iterations_count():
    earlier = history_of([9.0, 8.0])
    result = scripted([7.0, 6.0, 5.0, 4.0, 3.0], max_iter=5, earlier=earlier)
    assert [each.iteration for each in result.history] == [1, 2, 3, 4, 5]
    assert [each.objective for each in result.history] == [9.0, 8.0, 7.0, 6.0, 5.0]
    assert (result.n_iter, result.factors) == (5, 3)
    assert len(earlier) == 2
    assert scripted([7.0, 6.0], max_iter=2, earlier=earlier).n_iter == 2


# Time, callbacks, the keyboard


@pytest.fixture
def clock(monkeypatch):
    """A clock that is a second later each time that it is read."""
    seconds = iter(range(1000))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(seconds)))


@pytest.mark.parametrize(("max_time", "n"), [(0.5, 1), (3.0, 3), (3.1, 4)])
def test_max_time_ends_the_iterations(clock, max_time, n):
    result = scripted(geometric(20, 0.9), max_time=max_time)
    assert [each.seconds for each in result.history] == [1.0 + i for i in range(n)]
    assert result.stop_reason == loop.OUT_OF_TIME
    assert not result.converged


@pytest.mark.parametrize(("seconds", "n"), [(2.5, 1), (None, 3)])
def test_the_time_of_earlier_iterations_counts(clock, seconds, n):
    earlier = [Iteration(i + 1, 99.0 - i, 1.0, 70.0) for i in range(3)]
    earlier.append(Iteration(4, 95.0, 1.0, seconds))
    result = scripted(geometric(20, 0.9), max_time=3.0, earlier=earlier)
    assert result.n_iter == 4 + n
    assert [each.seconds for each in result.history[4:]] == [
        (seconds or 0.0) + 1.0 + i for i in range(n)
    ]


@pytest.mark.parametrize("answer", [True, np.True_])
def test_true_from_the_callback_ends_the_iterations(answer):
    seen = []

    def callback(iteration):
        seen.append(iteration.iteration)
        return answer if iteration.iteration == 4 else 1

    result = scripted(geometric(20, 0.9), callback=callback)
    assert seen == [1, 2, 3, 4]
    assert (result.n_iter, result.factors, result.converged) == (4, 4, False)
    assert result.stop_reason == loop.CALLED_OFF


def test_every_third_iteration_is_watched_and_ends_as_converged():
    seen = []

    def watch(factors):
        seen.append(factors)
        return len(seen) == 3

    result = scripted(geometric(20, 0.9), watch=watch)
    assert seen == [3, 6, 9]
    assert (result.n_iter, result.factors, result.converged) == (9, 9, True)
    assert result.stop_reason == loop.UNCHANGED


@pytest.mark.parametrize("interruptible", [True, False])
def test_the_keyboard_keeps_the_best_or_raises(interruptible):
    def callback(iteration):
        if iteration.iteration == 3:
            raise KeyboardInterrupt

    objectives, given = [5.0, 3.0, 4.0, 6.0, 1.0], {"callback": callback}
    if not interruptible:
        with pytest.raises(KeyboardInterrupt):
            scripted(objectives, interruptible=False, **given)
        return
    with pytest.warns(RuntimeWarning, match="Interrupted after 3 iterations; the best factors"):
        result = scripted(objectives, **given)
    assert (result.factors, result.objective, result.n_iter) == (1, 3.0, 3)
    assert (result.stop_reason, result.converged) == (loop.INTERRUPTED, False)


def test_warnings_of_the_arithmetic_are_not_shown():
    def advance(x):
        return Step(x, float(np.float64(1e300) * 10.0 * x), 1.0, x * 0.5)

    with np.errstate(all="raise"):
        result = run(
            advance, np.float64(1e9), lambda _: np.float64(1e300) * 1e10, Stopping(2, 0.0), 1.0
        )
    assert result.stop_reason == loop.DIVERGED


# The stopping rule


@pytest.mark.parametrize("rate", [0.7, 0.9, 0.99])
@pytest.mark.parametrize("n", [3, 5, 12, 13, 30, 61])
def test_the_predicted_decrease_of_a_geometric_sequence_is_what_is_left(rate, n):
    objectives = geometric(n, rate)
    left = objectives[-1] - LIMIT
    assert predicted_decrease(history_of(objectives)) == pytest.approx(left, rel=1e-6, abs=1e-10)


@pytest.mark.parametrize(("n", "window"), [(3, 1), (11, 1), (12, 2), (30, 5), (35, 5), (36, 6)])
def test_a_window_is_a_sixth_of_the_iterations(n, window):
    """Only the objectives at the ends of the last two windows matter."""
    objectives = geometric(n, 0.9)
    expected = predicted_decrease(history_of(objectives))
    for back in range(1, n + 1):
        changed = list(objectives)
        changed[-back] += 0.01
        same = predicted_decrease(history_of(changed)) == expected
        assert same == (back - 1 not in {0, window, 2 * window})


@pytest.mark.parametrize(
    "objectives",
    [[3.0, 2.0, 1.0], [3.0, 2.5, 1.0], [1.0, 2.0, 3.0][::-1], [3.0, 2.0], [3.0], [1.0, 2.0, 2.5]],
)
def test_gains_that_do_not_shrink_predict_no_end(objectives):
    assert predicted_decrease(history_of(objectives)) == np.inf


def test_rising_objectives_predict_no_further_gain():
    assert predicted_decrease(history_of([3.0, 2.0, 2.5])) == 0.0


def first_end(objectives, enough):
    """Return the number of iterations of a geometric sequence, from what is left after each."""
    in_a_row = 0
    for n in range(1, len(objectives) + 1):
        window = max(1, n // 6)
        left, gain = objectives[n - 1] - LIMIT, objectives[n - 1] - objectives[n]
        met = n > 2 * window and gain <= enough and left <= enough * min(window / 10, 1.0)
        in_a_row = in_a_row + 1 if met else 0
        if in_a_row == 2:
            return n
    raise AssertionError("the sequence is too short")


@pytest.mark.parametrize("size", [0.0, 500.0])
@pytest.mark.parametrize(("rate", "tol"), [(0.5, 1e-3), (0.8, 1e-3), (0.9, 1e-2), (0.97, 1e-3)])
def test_a_geometric_sequence_ends_where_what_is_left_is_below_tol_twice(rate, tol, size):
    objectives = geometric(1000, rate)
    decreases = [before - after for before, after in pairwise(objectives)]
    result = scripted(objectives, decreases, size=size, tol=tol, max_iter=900)
    # Near the end the objective is LIMIT, but for less than tol.
    assert result.n_iter == pytest.approx(
        first_end(objectives, tol * max(size, LIMIT)), abs=0 if size else 1
    )
    assert (result.stop_reason, result.converged) == (loop.CONVERGED, True)


def test_a_decrease_above_tol_does_not_end_the_iterations():
    result = scripted([50.0] * 100, [0.011] * 100, size=1.0, tol=2e-4)  # 0.01 is enough
    assert (result.n_iter, result.converged) == (99, False)
    result = scripted([50.0] * 100, [0.009] * 100, size=1.0, tol=2e-4)
    assert (result.n_iter, result.converged) == (4, True)


def test_a_decrease_of_zero_needs_no_window():
    result = scripted([50.0] * 20, [0.0] * 20, size=1.0, tol=0.0)
    assert (result.n_iter, result.stop_reason) == (2, loop.CONVERGED)


@pytest.mark.parametrize(("growth", "settled"), [(0.1, True), (1.4, True), (1.6, False)])
@pytest.mark.parametrize(("n", "window"), [(11, 1), (36, 6)])
def test_first_order_decreases_may_not_grow_within_a_window(n, window, growth, settled):
    decreases = [5.0] * n
    decreases[-1 - window] = 1e-4
    decreases[-1] = 1e-4 * growth
    assert loop._gains_have_settled(history_of([50.0] * n, decreases), 0.05) is settled


@pytest.mark.parametrize(("last", "settled"), [(0.00012, True), (0.0003, False)])
def test_negligible_gains_may_not_grow_by_more_than_a_share_of_themselves(last, settled):
    """A gain below 0.05 of tol counts as none if it is at most the one before, plus 0.0025 of tol."""
    enough = 0.05
    history = history_of([50.0, 50.0, 50.0 - last], [0.01] * 3)
    assert loop._gains_have_settled(history, enough) is settled
    history = history_of([50.0 + last, 50.0, 50.0 - last], [0.01] * 3)
    assert loop._gains_have_settled(history, enough) is True


@pytest.mark.parametrize(
    ("before", "converged"), [(0.99 * 1000 * 0.05, True), (1.01 * 1000 * 0.05, False)]
)
def test_without_a_step_the_end_is_one_if_the_last_decrease_was_small(before, converged):
    result = scripted([50.0] * 5, [before, 9e9, 9e9, 9e9], size=1.0, tol=1e-3, stuck={1})
    assert (result.n_iter, result.converged) == (2, converged)
    assert result.stop_reason == loop.NO_DESCENT


def test_without_a_first_step_there_is_no_end():
    result = scripted([50.0] * 5, [0.0] * 5, size=1.0, tol=1e-3, stuck={0})
    assert (result.n_iter, result.converged) == (1, False)
    assert result.stop_reason == loop.NO_DESCENT


@pytest.mark.parametrize(("decrease", "n"), [(0.05, 3), (0.0501, 9)])
def test_a_certain_decrease_ends_at_once(decrease, n):
    objectives = geometric(10, 0.5)
    objectives[2] = LIMIT  # so that 0.05 is enough there
    result = scripted(objectives, [9.0, 9.0, decrease] + [9.0] * 6, tol=1e-3, certain={2})
    assert result.n_iter == n
    assert result.converged is (n == 3)


# Parameters


def test_the_parameters_of_a_stopping_rule_are_checked():
    for name, value in (("max_iter", -1), ("max_iter", 1.5), ("tol", -1e-3), ("max_time", 0.0)):
        with pytest.raises(InvalidInputError, match=f"{name} must be"):
            Stopping(**({"max_iter": 5, "tol": 1e-3} | {name: value}))
    with pytest.raises(InvalidTypeError, match="callback must be callable or None; got 3"):
        Stopping(5, 1e-3, callback=3)
    assert Stopping(np.int64(5), 0).max_iter == 5
