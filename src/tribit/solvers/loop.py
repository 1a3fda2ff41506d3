"""The loop every solver runs in: history, stopping, callbacks, interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tribit.checks import check_count, check_field, check_not_negative, check_positive
from tribit.errors import InvalidTypeError, warn
from tribit.model.factors import Factors

CONVERGED = "what is left to gain fell below tol"
NO_DESCENT = "no step lowers the objective any more"
#: Reason of a solver that keeps a set by a scaling, which is no projection.
ABOVE_MINIMUM = "a solver that keeps the bound on entries exactly goes lower"
UNCHANGED = "what the fit is for does not change any more"
OUT_OF_ITERATIONS = "max_iter was reached"
OUT_OF_TIME = "max_time was reached"
CALLED_OFF = "the callback asked to stop"
INTERRUPTED = "interrupted from the keyboard"
#: Multiple of ``tol`` up to which the first-order decrease of a solver that finds no further step counts as converged.
NEARLY = 1000.0
#: Iterations between two looks of ``Stopping.watch``, which may cost as much as a part of an iteration.
LOOK_EVERY = 3
#: Share of the iterations over which gains are compared with those before, to see how fast they shrink: few enough to
#: see a rate that still changes, enough of them not to mistake one slow iteration for a rate.
WINDOW = 1 / 6
#: Number of iterations from which a convergence rate is reliable; with fewer, proportionally less may be left to gain.
RELIABLE = 10
#: Iterations in a row that must meet ``tol``: gains that nearly vanish at a saddle rise again after it.
CONFIRMED = 2
#: Share of ``tol`` below which the gains of a window are rounding errors, or so slow that nobody waits for the rest.
NEGLIGIBLE = 0.05
#: Factor in a window by which first-order decreases must rise to count as growing; less may be rounding.
GROWS = 1.5
DIVERGED = "the objective is no longer finite: the step is too long, or the risk has no minimum"


@dataclass(frozen=True)
class Iteration:
    """One iteration: a sweep of Newton's method over rows and columns, or a step of projected gradient."""

    iteration: int
    objective: float  #: where the iteration began
    decrease: float  #: first-order estimate of what it gains
    seconds: (
        float | None
    )  #: from the solver's start to the iteration's end; None in a model read from a file


Callback = Callable[[Iteration], Any]


@dataclass(frozen=True)
class SolverResult:
    """The factors at which a solver stopped, and the reason."""

    factors: Factors
    objective: float
    n_iter: int
    converged: bool
    stop_reason: str
    history: list[Iteration] = field(repr=False)


@dataclass(frozen=True)
class Stopping:
    """Stopping rule of a solver.

    A solver stops when both the first-order decrease of an iteration and what further iterations would gain
    (:func:`left_to_gain`) are at most ``tol`` times the size of the objective (the larger of its absolute value now and
    the risk at ``X = 0``), after ``max_iter`` iterations, after ``max_time`` seconds, or when ``callback(iteration)``
    returns True, or ``watch(factors)``, which is asked every few iterations. Ctrl-C ends it with the best factors so
    far if ``interruptible``, else it raises.
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
    """An iteration: the factors before it, the objective there, its first-order decrease, and the factors after it."""

    origin: Factors
    objective: float
    decrease: float
    factors: Factors
    stuck: bool = False  #: no step lowers the objective: the loop ends
    certain: bool = False  #: the decrease alone decides: it is a bound of what is left, or the caller judges that


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
                and iteration % LOOK_EVERY == 0
                and stopping.watch(factors)
            ):
                reason, converged = UNCHANGED, True
                break
            enough = stopping.tol * max(size, abs(step.objective))
            if step.stuck:
                # Near the end that is rounding; far from it something is wrong, and not convergence.
                reason = NO_DESCENT
                converged = len(history) > 1 and history[-2].decrease <= NEARLY * enough
                break
            still = still + 1 if step.decrease <= enough and _settled(history, enough) else 0
            if still == CONFIRMED or (step.certain and step.decrease <= enough):
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


def left_to_gain(history: Sequence[Iteration]) -> float:
    """Return what iterations after the last would gain, if gains go on shrinking at the rate at which they did.

    One iteration's gain says little: along a narrow valley, or near a saddle, each gains next to nothing and all of
    them together much. With gains ``A`` and then ``B`` in two windows of equal length, the sum of the geometric series
    that follows is ``B^2 / (A - B)``; it is infinite where gains do not shrink. In any unit of X or of the objective
    the answer is the same.
    """
    before, gained = _gains(history)
    return np.inf if not gained < before else max(gained, 0.0) * float(gained / (before - gained))


def _settled(history: Sequence[Iteration], enough: float) -> bool:
    """Return whether so little is left to gain, with a margin as long as few iterations tell of the rate."""
    if history[-1].decrease <= 0.0:
        return True
    before, gained = _gains(history)
    if gained <= NEGLIGIBLE * enough:
        # Too little to tell a rate from: it is enough that what iterations promise does not grow.
        grows = history[-1].decrease > GROWS * history[-1 - _window(history)].decrease
        return not grows and gained <= max(before, 0.0) + NEGLIGIBLE**2 * enough
    return left_to_gain(history) <= enough * min(_window(history) / RELIABLE, 1.0)


def _window(history: Sequence[Iteration]) -> int:
    return max(1, int(WINDOW * len(history)))


def _gains(history: Sequence[Iteration]) -> tuple[float, float]:
    """Return what was gained in the window before the last, and in the last; NaN before there are two."""
    window = _window(history)
    if len(history) <= 2 * window:
        return np.nan, np.nan
    first, middle, last = (history[-1 - n * window].objective for n in (2, 1, 0))
    return first - middle, middle - last
