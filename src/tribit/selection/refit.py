"""The refit on all data: the chosen model, or each member of an average, and its calibrator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.data.observations import Observations
from tribit.errors import TribitWarning, marked, parameter, warn
from tribit.model.calibrator_fits import CALIBRATORS, platt
from tribit.model.calibrators import Calibrator, Identity, Platt
from tribit.model.factors import Factors
from tribit.model.features import Encoders, feature_maps
from tribit.model.fitted import LIKE, Member
from tribit.model.links import as_link
from tribit.model.spec import AUTO, ModelSpec
from tribit.selection.problem import Problem
from tribit.selection.record import Search
from tribit.selection.regression import regression_factors, with_regression
from tribit.selection.significance import one_sided, preferred_calibrator
from tribit.selection.space import calibrates
from tribit.selection.starts import start_of
from tribit.selection.trials import Options, default_solver, problem_of
from tribit.solvers import Solver, SolverResult, Stopping
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME
from tribit.solvers.resampled import minimise_resampled


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
        objective, result = minimise_resampled(
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


def calibrated(estimator: Any, search: Search | None) -> Calibrator | None:
    """Return the calibrator that held-out entries of the search ask for; None for the model's own probabilities."""
    if estimator.calibration is None or search is None:
        return None
    if search.held_out is None or one_sided(search.held_out[1]):
        if calibrates(estimator):
            warn(
                TribitWarning(
                    f"{parameter('calibration', estimator.calibration)} was left out, as too little was held out for "
                    f"it: {marked(search.stop_reason)}."
                ),
            )
        return None
    x, labels, weights = search.held_out
    link = as_link(estimator.link)
    if estimator.calibration in (AUTO, Platt.name) and search.meaning != LIKE:
        # Held-out likes are a part of all: the level of the probabilities is always to be set, and no two scores may
        # become one probability, as they are ranked by it.
        return platt(x, labels, weights, link=link, counts=True)
    name, _ = preferred_calibrator(estimator.calibration, link, x, labels, weights)
    return None if name == Identity.name else CALIBRATORS[name](x, labels, weights, link=link)


def with_chosen_regression(
    unknowns: Factors, observations: Observations, search: Search | None
) -> Factors:
    """Return the unknowns with the columns of the regression that a search of one label has added, if it has."""
    if search is None or search.regression is None:
        return unknowns
    return with_regression(unknowns, regression_factors(observations), search.regression)


def warm_start(problem: Problem, settings: ModelSpec, search: Search | None) -> Factors:
    """Return the initial factors of the refit: a warm start from the search, else the problem's own."""
    if search is None or not search.ends:
        return problem.start
    return start_of(problem, settings, search.ends)
