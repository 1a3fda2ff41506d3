"""The loop of every solver: history, stopping rule, callbacks, interruption; and fits in stages.

Where sums over all entries are estimates, a fit is a sequence of stages:

    argmin F_1  ->  argmin F_2  ->  ...

``F_s`` is one function during its stage (sample average approximation), so that line searches hold. Its quadratics and
its sample are fitted at the factors where the stage begins (:meth:`tribit.Objective.refit_control_variates`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.checks import check_count, check_field, check_not_negative, check_positive
from tribit.errors import InvalidTypeError, warn
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors

if TYPE_CHECKING:
    from tribit.backends.objective import Objective
    from tribit.solvers.base import Solver

CONVERGED = "converged: predicted decrease below tol"
NO_DESCENT = "no step lowers the objective"
#: Reason where X is scaled to keep a bound on entries, which is no projection.
ABOVE_MINIMUM = "not at a minimum: the augmented_lagrangian solver reaches a lower objective"
UNCHANGED = "early stopping: the validation loss has plateaued"
OUT_OF_ITERATIONS = "max_iter was reached"
OUT_OF_TIME = "max_time was reached"
CALLED_OFF = "stopped by the callback"
INTERRUPTED = "interrupted from the keyboard"
#: Multiple of ``tol`` up to which a solver without a further descent step counts as converged.
STUCK_TOLERANCE = 1000.0
#: Iterations between two calls of ``Stopping.watch``, which may cost a fraction of an iteration.
WATCH_INTERVAL = 3
#: Length of a window of gains, as a share of the iterations: short enough to follow a changing convergence rate, long
#: enough that one slow iteration does not change it.
WINDOW_SHARE = 1 / 6
#: Window length from which a convergence rate is reliable; shorter windows have a proportionally smaller tolerance.
RELIABLE_WINDOW = 10
#: Iterations in a row that must meet ``tol``: gains that nearly vanish at a saddle rise again after it.
CONFIRMATIONS = 2
#: Share of ``tol`` below which the gains of a window are rounding errors or too slow to wait for.
NEGLIGIBLE_SHARE = 0.05
#: Factor in a window by which first-order decreases must rise to count as growing; less may be rounding.
MIN_GROWTH = 1.5
DIVERGED = (
    "the objective is no longer finite: the step is too long, or the objective is unbounded below"
)


@dataclass(frozen=True)
class Iteration:
    """One iteration: a sweep of Newton's method over rows and columns, or a step of projected gradient.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.history_[0].iteration
    1
    """

    iteration: int
    objective: float  #: where the iteration began
    decrease: float  #: first-order estimate of its gain
    seconds: (
        float | None
    )  #: from the solver's start to the iteration's end; None in a model read from a file


Callback = Callable[[Iteration], Any]


@dataclass(frozen=True)
class SolverResult:
    """The factors at which a solver stopped, and the reason.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.n_iter_, model.stop_reason_  # from the SolverResult of the fit
    (8, 'converged: predicted decrease below tol')
    """

    factors: Factors
    objective: float
    n_iter: int
    converged: bool
    stop_reason: str
    history: list[Iteration] = field(repr=False)


@dataclass(frozen=True)
class Stopping:
    """Stopping rule of a solver.

    A solver converges when two numbers are at most ``tol`` times the size of the objective: the first-order decrease of
    an iteration, and the decrease that further iterations would bring (:func:`predicted_decrease`). The size is the
    larger of the objective's absolute value and the risk at ``X = 0``. A solver also stops after ``max_iter``
    iterations, after ``max_time`` seconds, when ``callback(iteration)`` returns True, or when ``watch(factors)`` does,
    which is called every few iterations. Ctrl-C ends it with the best factors so far if ``interruptible``, else it
    raises.

    Examples
    --------
    >>> from tribit.solvers import Stopping
    >>> Stopping(max_iter=50, tol=1e-4).max_iter
    50
    """

    max_iter: int
    tol: float
    max_time: float | None = None
    callback: Callback | None = None
    interruptible: bool = True
    watch: Callable[[Factors], bool] | None = None

    def __post_init__(self) -> None:
        check_field(self, "max_iter", check_count)
        check_field(self, "tol", check_not_negative)
        if self.max_time is not None:
            check_field(self, "max_time", check_positive)
        if self.callback is not None and not callable(self.callback):
            raise InvalidTypeError(f"callback must be callable or None; got {self.callback!r}.")


@dataclass(frozen=True)
class Step:
    """An iteration: the factors before it, the objective there, its first-order decrease, and the factors after it.

    Examples
    --------
    >>> from tribit.solvers.loop import Step
    >>> Step(4.0, objective=16.0, decrease=8.0, factors=2.0).stuck
    False
    """

    origin: Factors
    objective: float
    decrease: float
    factors: Factors
    stuck: bool = False  #: no step lowers the objective: the loop ends
    certain: bool = (
        False  #: the decrease alone decides: it bounds the remaining one, or the caller checks that
    )


def run(
    advance: Callable[[Factors], Step],
    start: Factors,
    value: Callable[[Factors], float],
    stopping: Stopping,
    size: float,
    earlier: Sequence[Iteration] = (),
) -> SolverResult:
    """Iterate ``advance`` from ``start``; return the best factors seen. Ctrl-C ends it with a warning.

    ``size`` is that of the objective at ``X = 0``, to which ``tol`` is relative where the objective is smaller.
    ``earlier`` iterations count towards ``max_iter`` and ``max_time``, and the history goes on from them.

    Examples
    --------
    >>> from tribit.solvers import Stopping
    >>> from tribit.solvers.loop import Step, run
    >>> def halve(x):
    ...     return Step(x, x**2, x**2 / 2, x / 2)
    >>> run(halve, 8.0, lambda x: x**2, Stopping(max_iter=3, tol=0.0), 64.0).factors
    1.0
    """
    history = list(earlier)
    began = time.perf_counter() - ((history[-1].seconds or 0.0) if history else 0.0)
    factors = best = start
    lowest = np.inf
    reason, converged, still = OUT_OF_ITERATIONS, False, 0
    try:
        for iteration in range(len(history) + 1, stopping.max_iter + 1):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                step = advance(factors)
            if not np.isfinite(step.objective):
                factors, reason = best, DIVERGED
                break
            seconds = time.perf_counter() - began
            history.append(Iteration(iteration, step.objective, step.decrease, seconds))
            if step.objective <= lowest:
                best, lowest = step.origin, step.objective
            factors = step.factors
            if stopping.callback is not None:
                answer = stopping.callback(history[-1])
                if isinstance(answer, bool | np.bool_) and answer:
                    reason = CALLED_OFF
                    break
            if (
                stopping.watch is not None
                and iteration % WATCH_INTERVAL == 0
                and stopping.watch(factors)
            ):
                reason, converged = UNCHANGED, True
                break
            enough = stopping.tol * max(size, abs(step.objective))
            if step.stuck:
                # Near the end that is rounding; far from it something is wrong, and not convergence.
                reason = NO_DESCENT
                converged = len(history) > 1 and history[-2].decrease <= STUCK_TOLERANCE * enough
                break
            still = (
                still + 1 if step.decrease <= enough and _gains_have_settled(history, enough) else 0
            )
            if still == CONFIRMATIONS or (step.certain and step.decrease <= enough):
                reason, converged = CONVERGED, True
                break
            if stopping.max_time is not None and seconds >= stopping.max_time:
                reason = OUT_OF_TIME
                break
    except KeyboardInterrupt:
        if not stopping.interruptible:
            raise
        reason = INTERRUPTED
        warn(
            f"Interrupted after {len(history)} iterations; the best factors so far are kept.",
            RuntimeWarning,
        )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        last = value(factors)
    if last <= lowest or not history:
        best, lowest = factors, last
    return SolverResult(best, lowest, len(history), converged, reason, history)


def predicted_decrease(history: Sequence[Iteration]) -> float:
    """Return the decrease that further iterations would bring at the present convergence rate.

    The gain of one iteration is no guide: along a narrow valley, or near a saddle, each iteration gains next to nothing
    and all of them together much. With gains ``A`` and then ``B`` in two windows of equal length, the remaining
    geometric series has the sum ``B^2 / (A - B)``; it is infinite where gains do not shrink. The result does not depend
    on the units of X or of the objective.
    """
    before, gained = _gains(history)
    return np.inf if not gained < before else max(gained, 0.0) * float(gained / (before - gained))


def _gains_have_settled(history: Sequence[Iteration], enough: float) -> bool:
    """Return whether the predicted decrease is at most ``enough``, with a margin while the rate is uncertain."""
    if history[-1].decrease <= 0.0:
        return True
    before, gained = _gains(history)
    if gained <= NEGLIGIBLE_SHARE * enough:
        # Too little for a rate: it suffices that the first-order decreases do not grow.
        grows = history[-1].decrease > MIN_GROWTH * history[-1 - _window(history)].decrease
        return not grows and gained <= max(before, 0.0) + NEGLIGIBLE_SHARE**2 * enough
    return predicted_decrease(history) <= enough * min(_window(history) / RELIABLE_WINDOW, 1.0)


def _window(history: Sequence[Iteration]) -> int:
    return max(1, int(WINDOW_SHARE * len(history)))


def _gains(history: Sequence[Iteration]) -> tuple[float, float]:
    """Return the gains in the last two windows; NaN before there are two."""
    window = _window(history)
    if len(history) <= 2 * window:
        return np.nan, np.nan
    first, middle, last = (history[-1 - n * window].objective for n in (2, 1, 0))
    return first - middle, middle - last


#: Iterations of the first stages, as shares of the solver's own limit: 2, 2, 2, 4 and 8 sweeps of Newton's method, 5 to
#: 80 steps of L-BFGS. The spread of X changes most at first, and the estimate holds near where its stage began.
STAGE_SHARES = (0.005, 0.01, 0.02, 0.04, 0.08)
#: Reasons to stop after which a further stage may still gain.
CONTINUING_REASONS = (CONVERGED, UNCHANGED, NO_DESCENT, OUT_OF_ITERATIONS)
#: Largest gap between a fit's objective on its own sample and on another, as a share of the objective; above it the
#: sample is too small. The fit is above the minimum of the exact sum by about two thirds of the gap (masks of
#: MovieLens-100k, split 10, with 256 and 512 columns for each row).
MAX_OPTIMISM = 0.004
#: Gain of a last stage on another sample, as a share of the objective, above which a further stage follows: a stage may
#: rest on a plateau that the next one, with new quadratics, leaves.
MIN_STAGE_GAIN = 0.001


def minimise_in_stages(
    solver: Solver,
    objective: Objective,
    constraints: list[Constraint],
    start: Factors,
    stopping: Stopping,
    generator: np.random.Generator,
) -> tuple[Objective, SolverResult]:
    """Return the objective of the last stage and its minimum, from ``start``; one stage where sums are exact.

    Limits of iterations and time are those of all stages together, and the history is one. After the short stages, or
    one of them that converges, stages have no limit of their own; the first of these that gains little on another
    sample is the last. A stage that overfits its sample (it does not lower the objective on another sample, or ends
    much lower on its own) is repeated with twice the sample.
    """
    if not objective.estimates:
        # A solver of NumPy arrays keeps them; each value and gradient is then copied from the device.
        if solver.any_arrays:
            start = objective.to_device(start)
        result = solver.minimise(objective, constraints, start, stopping, generator)
        return objective, replace(result, factors=result.factors.to_numpy())
    began, history = time.perf_counter(), list[Iteration]()
    limits = [max(2, round(share * solver.max_iter)) for share in STAGE_SHARES]
    factors, stage, lowest = start, 0, objective.value_on_new_sample(start)
    while True:
        spent, done = time.perf_counter() - began, len(history)
        left = stopping.max_iter - done
        objective = objective.refit_control_variates(factors)
        result = solver.minimise(
            objective,
            constraints,
            factors,
            replace(
                stopping,
                max_iter=min(limits[stage], left) if stage < len(limits) else left,
                max_time=None
                if stopping.max_time is None
                else max(stopping.max_time - spent, 1e-6),
                callback=_counting(stopping.callback, done, spent),
            ),
            generator,
        )
        unlimited = stage == len(limits)
        with np.errstate(over="ignore", invalid="ignore"):
            reached = objective.value_on_new_sample(result.factors)
        # Far from its first point the value of a short stage has an error beyond that of the sample.
        most = min(lowest, result.objective if unlimited else np.inf)
        # Written so that a NaN is a failure.
        follows = not reached <= most + MAX_OPTIMISM * abs(lowest)
        if follows and result.stop_reason in (*CONTINUING_REASONS, DIVERGED):
            larger = objective.double_sample()
            if larger is not None:
                objective = larger
                continue
        history += [_later(each, done, spent) for each in result.history]
        gained, factors, lowest = lowest - reached, result.factors, reached
        # Once a stage converges, short stages have nothing to add.
        stage = len(limits) if result.converged and stage else min(stage + 1, len(limits))
        ended = unlimited and not gained > MIN_STAGE_GAIN * abs(reached)
        if (
            ended
            or result.stop_reason not in CONTINUING_REASONS
            or len(history) >= stopping.max_iter
        ):
            return objective, replace(result, n_iter=len(history), history=history)


def _later(iteration: Iteration, done: int, spent: float) -> Iteration:
    """Return an iteration as counted from the first stage."""
    seconds = None if iteration.seconds is None else iteration.seconds + spent
    return replace(iteration, iteration=iteration.iteration + done, seconds=seconds)


def _counting(callback: Callback | None, done: int, spent: float) -> Callback | None:
    """Return the callback with iterations counted from the first stage."""
    if callback is None:
        return None
    return lambda iteration: callback(_later(iteration, done, spent))
