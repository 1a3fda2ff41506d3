"""A fit in stages, where sums over all entries are estimates: each stage has a sample fitted to where the last ended.

    argmin F_1  ->  argmin F_2  ->  ...

``F_s`` is one function from its first iteration to its last (sample average approximation), so that line searches hold;
its quadratics and its sample are those for the factors at which it begins
(:meth:`tribit.Objective.refit_control_variates`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.solvers import Solver
from tribit.solvers.loop import (
    CONVERGED,
    DIVERGED,
    NO_DESCENT,
    OUT_OF_ITERATIONS,
    UNCHANGED,
    Iteration,
    SolverResult,
    Stopping,
)

#: Iterations of the first stages, as shares of the solver's own limit: 2, 2, 2, 4 and 8 sweeps of Newton's method, 5 to
#: 80 steps of L-BFGS. The spread of X changes most at first, and the estimate holds near where its stage began.
FIRST = (0.005, 0.01, 0.02, 0.04, 0.08)
#: Reasons after which a further stage is worth its while.
GOES_ON = (CONVERGED, UNCHANGED, NO_DESCENT, OUT_OF_ITERATIONS)
#: Share of the objective by which a fit may be better on its own sample than on another before the sample is too small.
#: About two thirds of it is how far the fit is above the minimum of the exact sum (masks of MovieLens-100k, split 10,
#: with 256 and 512 columns for each row).
OPTIMISM = 0.004
#: Share of the objective that a last stage must gain on another sample for one more: a stage may rest on a plateau that
#: the next one, with new quadratics, leaves.
FURTHER = 0.001


def minimise_resampled(
    solver: Solver,
    objective: Any,
    constraints: list[Constraint],
    start: Factors,
    stopping: Stopping,
    generator: np.random.Generator,
) -> tuple[Any, SolverResult]:
    """Return the objective of the last stage and its minimum, from ``start``; one stage where sums are exact.

    Limits of iterations and time are those of all stages together, and the history is one. After the short stages, or
    one of them that converges, stages have no limit of their own; the first of these that gains little on another
    sample is the last. One that follows the draws of its sample (it does not lower the objective on another one, or
    ends much lower on its own) is done again with twice the sample.
    """
    if not objective.estimates:
        # Unknowns are where the objective is; of a solver that takes NumPy's alone each value and gradient is copied.
        if solver.any_arrays:
            start = objective.placed(start)
        result = solver.minimise(objective, constraints, start, stopping, generator)
        return objective, replace(result, factors=result.factors.to_numpy())
    began, history = time.perf_counter(), list[Iteration]()
    limits = [max(2, round(share * solver.max_iter)) for share in FIRST]
    factors, stage, lowest = start, 0, objective.elsewhere(start)
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
            reached = objective.elsewhere(result.factors)
        # Far from where a stage began its own value has an error that is not one of the sample.
        most = min(lowest, result.objective if unlimited else np.inf)
        # Written so that a NaN is a failure.
        follows = not reached <= most + OPTIMISM * abs(lowest)
        if follows and result.stop_reason in (*GOES_ON, DIVERGED):
            larger = objective.double_sample()
            if larger is not None:
                objective = larger
                continue
        history += [_later(each, done, spent) for each in result.history]
        gained, factors, lowest = lowest - reached, result.factors, reached
        # After one that converges there is nothing left for short ones.
        stage = len(limits) if result.converged and stage else min(stage + 1, len(limits))
        ended = unlimited and not gained > FURTHER * abs(reached)
        if ended or result.stop_reason not in GOES_ON or len(history) >= stopping.max_iter:
            return objective, replace(result, n_iter=len(history), history=history)


def _later(iteration: Iteration, done: int, spent: float) -> Iteration:
    """Return an iteration as counted from the first stage."""
    seconds = None if iteration.seconds is None else iteration.seconds + spent
    return replace(iteration, iteration=iteration.iteration + done, seconds=seconds)


def _counting(callback: Any, done: int, spent: float) -> Any:
    """Return the callback, told of iterations as counted from the first stage."""
    if callback is None:
        return None
    return lambda iteration: callback(_later(iteration, done, spent))
