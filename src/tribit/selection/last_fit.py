"""The last fit: the chosen model on all observed entries, or each member of an average."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.data.observations import Observations
from tribit.model.factors import Factors
from tribit.model.features import Encoders, feature_maps
from tribit.model.fitted import Member
from tribit.model.spec import ModelSpec
from tribit.selection.problem import Problem
from tribit.selection.record import Search
from tribit.selection.resolve import warm_start, with_chosen_regression
from tribit.selection.trials import Options, default_solver, problem_of
from tribit.solvers import Solver, SolverResult, Stopping
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME
from tribit.solvers.stages import minimise_in_stages


@dataclass(frozen=True)
class Fits:
    """Fits whose mean is the model; most often one.

    Attributes
    ----------
    specs : tuple of ModelSpec
        The models, the chosen one first, with the ``rho`` and the radius that were used.
    problems : tuple of Problem
        What each minimises.
    results : tuple of SolverResult
        What each solver found.
    found : tuple of Factors
        The unknowns of each, with the columns of a regression where the search has added one.
    ended : str or None
        Why further fits were left out, if any were.
    """

    specs: tuple[ModelSpec, ...]
    problems: tuple[Problem, ...]
    results: tuple[SolverResult, ...]
    found: tuple[Factors, ...]
    ended: str | None

    def members(
        self, observations: Observations, encoders: Encoders, dtype: str
    ) -> tuple[Member, ...]:
        """Return the members of the fit, with the maps from features that further rows need."""
        parts = zip(self.specs, self.problems, self.results, self.found, strict=True)
        return tuple(
            Member(
                spec,
                unknowns.astype(dtype),
                problem.factors(unknowns).astype(dtype),
                feature_maps(spec, observations, encoders),
                result.factors.rank,
            )
            for spec, problem, result, unknowns in parts
        )


def fit_members(
    specs: Sequence[ModelSpec],
    observations: Observations,
    search: Search | None,
    solver: Solver | None,
    stopping: Stopping,
    options: Options,
    draws: np.random.Generator,
) -> Fits:
    """Minimise each model on all observed entries, from warm starts of the search.

    The time that ``stopping`` allows is that of all fits together. A further fit that time or the user has cut short is
    left out of the mean; the first is kept in any case.
    """
    began = time.perf_counter()
    done: list[tuple[ModelSpec, Problem, SolverResult]] = []
    ended: str | None = None
    for spec in specs:
        left: Any = stopping.max_time
        if done and left is not None:
            left -= time.perf_counter() - began
            if left <= 0.0:
                ended = OUT_OF_TIME
                break
        problem = problem_of(observations, spec, options, draws)
        # The same model again differs by its start alone.
        known = any(spec.is_close(other) for other, _, _ in done)
        start = problem.start if known else warm_start(problem, spec, search)
        objective, result = minimise_in_stages(
            default_solver(spec) if solver is None else solver,
            problem.objective,
            problem.constraints,
            start,
            replace(stopping, max_time=left),
            draws,
        )
        problem = replace(problem, objective=objective)
        if done and result.stop_reason in (INTERRUPTED, OUT_OF_TIME):
            ended = result.stop_reason
            break
        done.append((replace(spec, rho=problem.rho, radius=problem.radius), problem, result))
        if result.stop_reason in (INTERRUPTED, OUT_OF_TIME):
            break
    models, problems, results = zip(*done, strict=True)
    found = tuple(with_chosen_regression(each.factors, observations, search) for each in results)
    models = tuple(
        replace(spec, rank=max(spec.rank, unknowns.rank))
        for spec, unknowns in zip(models, found, strict=True)
    )
    return Fits(models, problems, results, found, ended)
