"""The loop every solver runs in: history, stopping, callbacks, interruption."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tribit.constraints import check_not_negative, check_positive
from tribit.errors import InvalidInputError
from tribit.factors import Factors

CONVERGED = "the first-order decrease fell below tol"
NO_DESCENT = "no step lowers the objective any more"
OUT_OF_ITERATIONS = "max_iter was reached"
OUT_OF_TIME = "max_time was reached"
CALLED_OFF = "the callback asked to stop"
INTERRUPTED = "interrupted from the keyboard"


@dataclass(frozen=True)
class Iteration:
    """What is known after an iteration (a sweep of Newton's method, a step of projected gradient)."""

    iteration: int
    objective: float
    decrease: float  #: first-order estimate of what the iteration could gain
    seconds: float  #: since the solver started


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
    objective (the larger of its values at the start and now), after ``max_iter`` iterations, after ``max_time``
    seconds, or when ``callback(iteration)`` returns True.
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


@dataclass(frozen=True)
class Point:
    """Factors, the objective there, the first-order decrease that led there; ``stuck`` ends the loop."""

    factors: Factors
    objective: float
    decrease: float = np.inf
    stuck: bool = False


def run(advance: Callable[[Point], Point], start: Point, stopping: Stopping) -> SolverResult:
    """Iterate ``advance`` from ``start`` and return the best point seen; Ctrl-C ends it with a warning."""
    began = time.perf_counter()
    point = best = start
    history = [Iteration(0, start.objective, np.inf, 0.0)]
    reason, converged = OUT_OF_ITERATIONS, False
    try:
        for iteration in range(1, stopping.max_iter + 1):
            point = advance(point)
            seconds = time.perf_counter() - began
            history.append(Iteration(iteration, point.objective, point.decrease, seconds))
            if point.objective <= best.objective:
                best = point
            if stopping.callback is not None and stopping.callback(history[-1]) is True:
                reason = CALLED_OFF
                break
            size = max(abs(start.objective), abs(point.objective))
            if point.decrease <= stopping.tol * size or point.stuck:
                reason, converged = (NO_DESCENT if point.stuck else CONVERGED), True
                break
            if stopping.max_time is not None and seconds >= stopping.max_time:
                reason = OUT_OF_TIME
                break
    except KeyboardInterrupt:
        reason = INTERRUPTED
        warnings.warn(
            f"Interrupted after {len(history) - 1} iterations; the best factors so far are kept.",
            RuntimeWarning,
            stacklevel=2,
        )
    return SolverResult(best.factors, best.objective, len(history) - 1, converged, reason, history)
