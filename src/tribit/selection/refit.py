"""The refit on all data: the chosen model or the members of a stack, and the calibrator.

    x = w_1 x_1 + ... + w_m x_m,     x_i the minimum of the i-th member's objective on all observed entries

The weighted mean of factor models is a factor model whose factors stand side by side
(:meth:`tribit.model.factors.Factors.mean_of`). The weights were found by the search
(:mod:`tribit.selection.stacking`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.backends.objective import Objective
from tribit.data.observations import Observations
from tribit.errors import TribitWarning, parameter, warn, with_mentions
from tribit.metrics.full_ranking import scores_among_unobserved
from tribit.model.calibration import CALIBRATORS, Calibrator, Identity, Isotonic, Platt, platt
from tribit.model.ease import regression_factors, with_regression
from tribit.model.factors import Factors
from tribit.model.features import Encoders, feature_maps, mean_total
from tribit.model.fitted import LIKE, Fitted, Member
from tribit.model.horizon import AtRisk, fit_horizon
from tribit.model.links import as_link
from tribit.model.spec import AUTO, ModelSpec
from tribit.selection.problem import warm_start
from tribit.selection.record import Search
from tribit.selection.significance import chosen_calibrator, one_sided
from tribit.selection.space import calibrates
from tribit.selection.trials import Options, problem_of
from tribit.solvers import Solver, SolverResult, Stopping
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME, minimise_in_stages


@dataclass(frozen=True)
class Fits:
    """Fits whose weighted mean is the model.

    Attributes
    ----------
    specs : tuple of ModelSpec
        The models, the chosen one first, with the ``rho`` and the radius that were used.
    objective : Objective
        The objective of the first member; the others, which hold every entry too, are not kept.
    results : tuple of SolverResult
        The result of each solver.
    found : tuple of Factors
        The unknowns of each, with the factors of a regression where the search has added one.
    factors : tuple of Factors
        The factors of the matrix of each, which features add to the unknowns.
    ended : str or None
        Why further fits were left out, if any were.
    """

    specs: tuple[ModelSpec, ...]
    objective: Objective
    results: tuple[SolverResult, ...]
    found: tuple[Factors, ...]
    factors: tuple[Factors, ...]
    ended: str | None

    def members(
        self, observations: Observations, encoders: Encoders, dtype: str, weights: Sequence[float]
    ) -> tuple[Member, ...]:
        """Return the members of the fit, with the maps from features that further rows need."""
        rows, columns = map(mean_total, observations.totals)
        parts = zip(self.specs, self.results, self.found, self.factors, weights, strict=True)
        return tuple(
            Member(
                spec,
                unknowns.astype(dtype),
                factors.astype(dtype),
                feature_maps(spec, observations, encoders),
                result.factors.rank,
                weight=weight,
                mean_totals=(rows, columns),
            )
            for spec, result, unknowns, factors, weight in parts
        )


def fit_members(
    specs: Sequence[ModelSpec],
    observations: Observations,
    search: Search | None,
    solvers: Sequence[Solver],
    stopping: Stopping,
    options: Options,
    draws: np.random.Generator,
    max_iter: int | None = None,
) -> Fits:
    """Minimise each model on all observed entries, from warm starts of the search.

    Each has its solver, whose own number of iterations is the greatest unless ``max_iter`` is given.
    The time that ``stopping`` allows is that of all fits together. A further fit that time or the user has cut short is
    left out of the mean; the first is kept in any case.
    """
    began = time.perf_counter()
    done: list[tuple[ModelSpec, SolverResult, Factors, Factors]] = []
    first: Objective | None = None
    ended: str | None = None
    for spec, solver in zip(specs, solvers, strict=True):
        left: Any = stopping.max_time
        if done and left is not None:
            left -= time.perf_counter() - began
            if left <= 0.0:
                ended = OUT_OF_TIME
                break
        problem = problem_of(observations, spec, options, draws)
        ends = {} if search is None else search.ends
        objective, result = minimise_in_stages(
            solver,
            problem.objective,
            problem.constraints,
            warm_start(problem, spec, ends),
            replace(
                stopping,
                max_iter=solver.max_iter if max_iter is None else max_iter,
                max_time=left,
            ),
            draws,
        )
        problem = replace(problem, objective=objective)
        if done and result.stop_reason in (INTERRUPTED, OUT_OF_TIME):
            ended = result.stop_reason
            break
        first = objective if first is None else first
        rank = max(spec.rank, result.factors.rank)  # a solver may let it grow
        used = replace(spec, rho=problem.rho, radius=problem.radius, rank=rank)
        unknowns = with_chosen_regression(result.factors, observations, search)
        done.append((used, result, unknowns, problem.factors(unknowns)))
        if result.stop_reason in (INTERRUPTED, OUT_OF_TIME):
            break
    assert first is not None
    models, results, found, factors = zip(*done, strict=True)
    return Fits(models, first, results, found, factors, ended)


def fit_calibrator(estimator: Any, search: Search | None, n_members: int) -> Calibrator | None:
    """Fit the calibrator to the held-out entries of the search; None for the model's own probabilities.

    ``n_members`` is the number of members of a stack that were fitted.
    """
    if estimator.calibration is None or search is None:
        return None
    if search.held_out is None or one_sided(search.held_out[1]):
        if calibrates(estimator):
            warn(
                TribitWarning(
                    f"{parameter('calibration', estimator.calibration)} was left out, as too little was held out for "
                    f"it: {with_mentions(search.stop_reason)}."
                ),
            )
        return None
    x, labels, weights = search.held_out
    if search.stack is not None and n_members < len(search.stack.members):
        x = search.stack.mean_scores(n_members)
    link = as_link(estimator.link)
    if estimator.calibration in (AUTO, Platt.name) and search.meaning != LIKE:
        # Held-out likes are a part of all: the level of the probabilities is always to be set, and no two scores may
        # become one probability, as they are ranked by it.
        return platt(x, labels, weights, link=link, counts=True)
    name = chosen_calibrator(estimator.calibration, labels)
    return None if name == Identity.name else CALIBRATORS[name](x, labels, weights, link=link)


def calibrate_horizon(
    sample: AtRisk, fitted: Fitted, observations: Observations
) -> Isotonic | None:
    """Return the probability that an unobserved cell becomes a like within the horizon, by the scores of the refit.

    None for a full table.
    """
    unit = fitted.spec.link.level(0.75)
    x, _, cells = scores_among_unobserved(fitted.factors, observations, None, unit=unit)
    return fit_horizon(sample.with_cells(x, cells), unit / float(np.log(3.0))) if x.size else None


def with_chosen_regression(
    unknowns: Factors, observations: Observations, search: Search | None
) -> Factors:
    """Return the unknowns with the factors of the regression that a search on positive-only data has added, if any."""
    if search is None or search.regression is None:
        return unknowns
    return with_regression(unknowns, regression_factors(observations), search.regression)


def member_specs(spec: ModelSpec, search: Search | None) -> list[ModelSpec]:
    """Return the models to fit on all entries, the chosen one first."""
    if search is None or search.stack is None:
        return [spec]
    return [each.settings for each in search.stack.members]


def member_weights(search: Search | None, n: int) -> list[float]:
    """Return the relative weights of the first ``n`` members."""
    if search is None or search.stack is None:
        return [1.0] * n
    return list(search.stack.weights[:n])
