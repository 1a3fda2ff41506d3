"""The loop every solver runs in: history, stopping, callbacks, interruption."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tribit.constraints import check_not_negative, check_positive
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.factors import Factors

CONVERGED = "the first-order decrease fell below tol"
NO_DESCENT = "no step lowers the objective any more"
OUT_OF_ITERATIONS = "max_iter was reached"
OUT_OF_TIME = "max_time was reached"
CALLED_OFF = "the callback asked to stop"
INTERRUPTED = "interrupted from the keyboard"
#: A solver that finds no step has converged if the step before promised at most so many times ``tol``.
NEARLY = 1000.0
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
    """Where a solver stopped, and why."""

    factors: Factors
    objective: float
    n_iter: int
    converged: bool
    stop_reason: str
    history: list[Iteration] = field(repr=False)


@dataclass(frozen=True)
class Stopping:
    """When to stop.

    A solver stops when the first-order decrease of an iteration is at most ``tol`` times the size of the
    objective (the larger of its absolute value now and the risk at ``X = 0``), after ``max_iter`` iterations,
    after ``max_time`` seconds, or when ``callback(iteration)`` returns True.
    """

    max_iter: int
    tol: float
    max_time: float | None = None
    callback: Callback | None = None

    def __post_init__(self) -> None:
        count = self.max_iter
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInputError(f"max_iter must be a whole number, at least 1; got {count!r}.")
        check_not_negative("tol", self.tol)
        if self.max_time is not None:
            check_positive("max_time", self.max_time)
        if self.callback is not None and not callable(self.callback):
            raise InvalidTypeError(f"callback must be callable or None; got {self.callback!r}.")


@dataclass(frozen=True)
class Step:
    """Where an iteration began, the objective there, its first-order decrease, and where it leads."""

    origin: Factors
    objective: float
    decrease: float
    factors: Factors
    stuck: bool = False  #: no step lowers the objective: the loop ends


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
    reason, converged = OUT_OF_ITERATIONS, False
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
            enough = stopping.tol * max(size, abs(step.objective))
            if step.stuck:
                # Near the end that is rounding; far from it something is wrong, and not convergence.
                reason = NO_DESCENT
                converged = len(history) > 1 and history[-2].decrease <= NEARLY * enough
                break
            if step.decrease <= enough:
                reason, converged = CONVERGED, True
                break
            if stopping.max_time is not None and seconds >= stopping.max_time:
                reason = OUT_OF_TIME
                break
    except KeyboardInterrupt:
        reason = INTERRUPTED
        warnings.warn(
            f"Interrupted after {len(history)} iterations; the best factors so far are kept.",
            RuntimeWarning,
            stacklevel=2,
        )
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            last = value(factors)
    except KeyboardInterrupt:  # pressed twice: what is known already must do
        last = lowest if history else np.nan
        factors = best
    if last <= lowest or not history:
        best, lowest = factors, last
    return SolverResult(best, lowest, len(history), converged, reason, history)
