"""The refit on all data: the chosen model or an average of several ranks, and its calibrator.

    x = (x_1 + ... + x_m) / m,     x_i the minimum at the i-th rank, with a penalty of its own

Fits of low rank with little penalty and fits of high rank with more of it err in different places, as do different
local minima. The mean of factor models is a factor model whose factors stand side by side
(:meth:`tribit.model.factors.Factors.mean_of`). A search has fitted several ranks when it ends, so that the validation
loss of a mean needs no further fit; the refit on all data is one for each member.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.data.observations import Observations
from tribit.errors import TribitWarning, parameter, warn, with_mentions
from tribit.metrics.entries import Array
from tribit.metrics.full_ranking import scores_among_unobserved
from tribit.model.calibration import CALIBRATORS, Calibrator, Identity, Isotonic, Platt, platt
from tribit.model.ease import regression_factors, with_regression
from tribit.model.factors import Factors
from tribit.model.features import Encoders, feature_maps, mean_total
from tribit.model.fitted import LIKE, Fitted, Member
from tribit.model.horizon import AtRisk, fit_horizon
from tribit.model.links import as_link
from tribit.model.spec import AUTO, ModelSpec, is_auto
from tribit.selection.problem import Problem, warm_start
from tribit.selection.record import Average, Candidate, Search
from tribit.selection.significance import (
    clearly_less,
    mean_difference,
    one_sided,
    preferred_calibrator,
)
from tribit.selection.space import calibrates
from tribit.selection.trials import Options, SearchEndedError, Trials, default_solver, problem_of
from tribit.solvers import Solver, SolverResult, Stopping
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME, minimise_in_stages


@dataclass(frozen=True)
class Fits:
    """Fits whose mean is the model; most often one.

    Attributes
    ----------
    specs : tuple of ModelSpec
        The models, the chosen one first, with the ``rho`` and the radius that were used.
    problems : tuple of Problem
        The problem of each.
    results : tuple of SolverResult
        The result of each solver.
    found : tuple of Factors
        The unknowns of each, with the factors of a regression where the search has added one.
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
        rows, columns = map(mean_total, observations.totals)
        parts = zip(self.specs, self.problems, self.results, self.found, strict=True)
        return tuple(
            Member(
                spec,
                unknowns.astype(dtype),
                problem.factors(unknowns).astype(dtype),
                feature_maps(spec, observations, encoders),
                result.factors.rank,
                mean_totals=(rows, columns),
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
        ends = {} if known or search is None else search.ends
        objective, result = minimise_in_stages(
            default_solver(spec) if solver is None else solver,
            problem.objective,
            problem.constraints,
            warm_start(problem, spec, ends),
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


def fit_calibrator(estimator: Any, search: Search | None) -> Calibrator | None:
    """Fit the calibrator to the held-out entries of the search; None for the model's own probabilities."""
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
    link = as_link(estimator.link)
    if estimator.calibration in (AUTO, Platt.name) and search.meaning != LIKE:
        # Held-out likes are a part of all: the level of the probabilities is always to be set, and no two scores may
        # become one probability, as they are ranked by it.
        return platt(x, labels, weights, link=link, counts=True)
    name, _ = preferred_calibrator(estimator.calibration, link, x, labels, weights)
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


#: Most fits that are averaged where their number is chosen: each costs a refit on all data.
MAX_FITS = 3
#: Share of the score that a further fit must gain, beside being clearly ahead. On simulated tables that are nearly
#: full, with a spectrum that decays slowly, it gains .003 to .008, which test sets confirm; on the splits 10 to 14 of
#: MovieLens-100k about .001, which they do not.
MIN_GAIN_OF_A_FIT = 2e-3


def choose_average(
    trials: Trials, best: Candidate, n_fits: Any, *, rank_is_free: bool
) -> Average | None:
    """Return the average to use instead of the best candidate; None for the best alone.

    Members are added one by one, each the one that lowers the score of the mean most: for ``"auto"`` as long as the
    mean is clearly ahead of the one before it (:func:`tribit.selection.significance.clearly_less`), else until there
    are ``n_fits`` of them.
    """
    if not best.settings.rank or (is_auto(n_fits) and not rank_is_free) or n_fits == 1:
        return None  # intercepts alone have one minimum
    most = MAX_FITS if is_auto(n_fits) else int(n_fits)
    members = [best]
    losses = trials.losses[best]
    while len(members) < most:
        others = _best_of_other_ranks(trials, members)
        if not others:
            break
        judged = [_score_mean(trials, [*members, other]) for other in others]
        k = int(np.argmin([score for score, _ in judged]))
        _, further = judged[k]
        if is_auto(n_fits) and not _gains_enough(trials, further, losses):
            break
        members.append(others[k])
        losses = further
    if not is_auto(n_fits):
        members += _score_higher_ranks(trials, members, most)
    if len(members) == 1:
        return None
    return Average(tuple(members), _score_mean(trials, members)[0], best.score)


def member_specs(
    spec: ModelSpec, search: Search | None, n_fits: Any, shape: tuple[int, int]
) -> list[ModelSpec]:
    """Return the models to fit on all entries, the chosen one first."""
    found = [spec]
    if search is not None and search.average is not None:
        found = [each.settings for each in search.average.members]
    if is_auto(n_fits) or not spec.rank:
        return found
    return found + _higher_rank_specs(found, int(n_fits) - len(found), shape)


def _best_of_other_ranks(trials: Trials, members: list[Candidate]) -> list[Candidate]:
    """Return the best candidate of each rank that no member has, of the members' family."""
    family = members[0].settings.family
    taken = {each.settings.rank for each in members}
    found: dict[int, Candidate] = {}
    for each in trials.candidates:
        rank = each.settings.rank
        if each.settings.family != family or rank in taken or not trials.eligible(each.settings):
            continue
        if rank not in found or each.score < found[rank].score:
            found[rank] = each
    return list(found.values())


def _score_mean(trials: Trials, members: list[Candidate]) -> tuple[float, Array | None]:
    """Return the score of the mean of some candidates, calibrated as a whole, and the losses of its entries."""
    x = trials.mean_scores(members)
    score, _, losses = trials.judge(x, members[0].settings.link)
    return score, losses


def _gains_enough(trials: Trials, losses: Array | None, others: Array | None) -> bool:
    """Return whether one mean is clearly ahead of another; not where the measure has no losses of entries."""
    if losses is None or others is None:
        return False
    gain, _ = mean_difference(others, losses, trials.weights)
    least = MIN_GAIN_OF_A_FIT * float(np.average(others, weights=trials.weights))
    return gain > least and clearly_less(losses, others, trials.weights)


def _score_higher_ranks(trials: Trials, members: list[Candidate], most: int) -> list[Candidate]:
    """Score models of higher and higher rank until there are enough; fewer where the search must end."""
    specs = [each.settings for each in members]
    found = []
    for spec in _higher_rank_specs(specs, most - len(specs), trials.folds[0].train.shape):
        try:
            tried = trials.score(spec)
        except SearchEndedError:
            break
        if tried in members or tried in found:
            break  # no higher rank: further fits differ by their random start alone
        found.append(tried)
    return found


def _higher_rank_specs(specs: list[ModelSpec], n: int, shape: tuple[int, int]) -> list[ModelSpec]:
    """Return ``n`` models like the first with twice, four times, ... the highest rank, at most the smaller side."""
    widest = max(spec.rank for spec in specs)
    most = max(widest, min(shape))
    return [replace(specs[0], rank=min(widest * 2**i, most)) for i in range(1, n + 1)]
