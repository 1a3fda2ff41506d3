"""Cross-validation of settings: fits on training folds of the observed entries, scored on the held-out rest.

Within a fold each fit has a warm start from the last fit of its family. That saves most of the work along a path of
penalties, and uses no held-out entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.backends import Arithmetic
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.metrics.entries import ENTRY_LOSSES, SCORINGS, Array, log_loss
from tribit.model.calibration import Identity
from tribit.model.factors import Factors
from tribit.model.horizon import AtRisk
from tribit.model.links import Link
from tribit.model.spec import ModelSpec
from tribit.selection.folds import TENTHS_FROM, Fold, spec_for_fold
from tribit.selection.problem import Problem, make_problem, warm_start
from tribit.selection.record import AddedRegression, Candidate, HeldOut
from tribit.selection.significance import cross_fitted_curve, one_sided
from tribit.selection.stacking import MIN_GAIN_IN_NATS
from tribit.solvers import (
    LBFGS,
    AugmentedLagrangian,
    Newton,
    Solver,
    SolverResult,
    Stopping,
)
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME, minimise_in_stages

#: Tolerance and most iterations of the fits of a search: candidates differ by more than such fits are inexact.
TOLERANCE, MAX_SWEEPS = 5e-4, 300


@dataclass(frozen=True)
class Options:
    """Options that every candidate shares: those of the arithmetic, and the known features of rows and columns.

    Examples
    --------
    >>> from tribit import Arithmetic
    >>> from tribit.selection import Options
    >>> Options(Arithmetic(n_jobs=2)).arithmetic.n_jobs
    2
    """

    arithmetic: Arithmetic = Arithmetic("float32", None, "auto")  # noqa: RUF009 - frozen
    side: SideFeatures | None = None


def options_of(estimator: Any, side: SideFeatures | None = None, device: str = "cpu") -> Options:
    """Return the arithmetic of every candidate, and the side features of rows and columns."""
    arithmetic = Arithmetic(estimator.dtype, estimator.n_jobs, estimator.backend, device=device)
    return Options(arithmetic, side)


class SearchEndedError(Exception):
    """Raised to end a search early: by the user or the clock."""


class Trials:
    """The candidates tried so far on one set of folds."""

    #: Whether a first candidate is scored even if it was cut short, as there is nothing else to choose.
    needs_candidate = True
    #: Regression that is added to the chosen candidate, on positive-only data; None without.
    regression: AddedRegression | None = None

    def __init__(
        self,
        folds: list[Fold],
        options: Options,
        *,
        scoring: str,
        most: int | None,
        deadline: float | None,
        calibration: str | None = None,
        eligible: Callable[[ModelSpec], bool] = lambda _: True,
        callback: Callable[[Candidate], Any] | None = None,
    ) -> None:
        self.folds, self.options, self.callback = folds, options, callback
        self.eligible = eligible
        self.scoring, self.most, self.deadline = scoring, most, deadline
        self.calibration = calibration
        self.candidates: list[Candidate] = []
        self.labels = np.concatenate([fold.held_out.labels for fold in folds])
        self.weights = np.concatenate([fold.weights for fold in folds])
        #: ``x`` of the held-out entries for each candidate.
        self.scores: dict[Candidate, Array] = {}

    @property
    def best(self) -> Candidate | None:
        """The candidate with the smallest score among those that keep the user's own values; None before there is one.

        Of equal ones it is the first, which is the simpler.
        """
        return min(self.eligible_candidates, key=lambda candidate: candidate.score, default=None)

    @property
    def eligible_candidates(self) -> list[Candidate]:
        """The candidates that keep the user's own values."""
        return [each for each in self.candidates if self.eligible(each.settings)]

    @property
    def choice(self) -> Candidate | None:
        """The best candidate of the simplest family that no more complex one beats (:meth:`ahead`)."""
        families: dict[str, Candidate] = {}  # those that were tried later are more complex
        for candidate in self.eligible_candidates:
            family = candidate.settings.family
            if family not in families or candidate.score < families[family].score:
                families[family] = candidate
        chosen: Candidate | None = None
        for candidate in families.values():
            if chosen is None or self.ahead(candidate, chosen):
                chosen = candidate
        return chosen

    def ahead(self, rich: Candidate, simple: Candidate) -> bool:
        """Return whether the held-out entries prefer a more complex model to a simpler one by a few nats."""
        if self.scoring != "log_loss":
            return rich.score < simple.score
        size = float(np.sum(self.weights)) ** 2 / float(np.sum(self.weights**2))
        return (simple.score - rich.score) * size > MIN_GAIN_IN_NATS

    def calibration_entries(self, best: Candidate) -> HeldOut:
        """Return the held-out scores, labels and weights on which a candidate is calibrated."""
        return self.held_out_entries(best)

    def held_out_entries(self, candidate: Candidate) -> HeldOut:
        """Return the held-out scores of a candidate, labels and weights."""
        return self.scores[candidate], self.labels, self.weights

    def at_risk(self, best: Candidate) -> AtRisk | None:  # noqa: ARG002
        """Return None: likes and dislikes say nothing of the cells that will be observed."""
        return None

    def find(self, settings: ModelSpec) -> Candidate | None:
        """Return the candidate with these settings, if it was tried; numbers that differ by rounding are the same."""
        return next((c for c in self.candidates if c.settings.is_close(settings)), None)

    def score(self, settings: ModelSpec) -> Candidate:
        """Fit the settings on every fold and score them on its held-out entries, unless they were scored before."""
        if (known := self.find(settings)) is not None:
            return known
        if self.most is not None and len(self.candidates) >= self.most:
            raise SearchEndedError(f"{self.most} candidates were tried, the most asked for")
        began = time.perf_counter()
        found: list[Factors] = []
        iterations, interrupted = 0, False
        for fold in self.folds:
            factors, result = fit_from(
                fold.train,
                spec_for_fold(settings, fold.share, fold.penalty_share),
                self.options,
                fold.ends,
                np.random.Generator(np.random.PCG64(fold.seed)),
                Stopping(MAX_SWEEPS, TOLERANCE, self._time_left(), interruptible=not interrupted),
                self.early_stopping_fold(fold),
            )
            interrupted |= result.stop_reason == INTERRUPTED
            short = interrupted or result.stop_reason == OUT_OF_TIME
            if short and (self.candidates or not self.needs_candidate):
                raise SearchEndedError(result.stop_reason)
            found.append(factors)
            iterations += result.n_iter
        total, scores, kept = self._measure(settings, found)
        seconds = time.perf_counter() - began
        candidate = Candidate(settings, total, scores, seconds, iterations)
        self.candidates.append(candidate)
        self._keep(candidate, kept)
        if self.callback is not None:
            self.callback(candidate)
        if interrupted:
            raise SearchEndedError(INTERRUPTED)
        return candidate

    def with_folds(self, folds: list[Fold], finalists: Sequence[Candidate]) -> Trials:
        """Return trials of some candidates on these folds and on further ones, where their fits start anew."""
        common: dict[str, Any] = {
            "scoring": self.scoring,
            "calibration": self.calibration,
            "eligible": self.eligible,
            "deadline": self.deadline,
            "most": None,
        }
        further = Trials(folds, self.options, **common)
        further.needs_candidate = False
        whole = Trials([*self.folds, *folds], self.options, **common)
        for first in finalists:
            more = further.score(first.settings)
            x = np.concatenate([self.scores[first], further.scores[more]])
            seconds = (first.seconds or 0.0) + (more.seconds or 0.0)
            n_iter = first.n_iter + more.n_iter
            found = Candidate(first.settings, *whole.judge(x, first.settings.link), seconds, n_iter)
            whole.candidates.append(found)
            whole.scores[found] = x
        return whole

    def early_stopping_fold(self, fold: Fold) -> Fold | None:
        """Return the fold for early stopping on its held-out entries; None for a fit to convergence.

        Early stopping is for large tables, where it saves time and the validation loss has little noise.
        """
        return fold if fold.train.n_observed >= TENTHS_FROM else None

    @property
    def calibrates(self) -> bool:
        """Whether scores are those of calibrated probabilities; an order alone has none."""
        plain = self.calibration in (None, Identity.name) or one_sided(self.labels)
        return self.scoring in ENTRY_LOSSES and not plain

    def score_of_link(self, candidate: Candidate) -> float:
        """Return the measure of a candidate by the link alone."""
        measure, x = SCORINGS[self.scoring], self.scores[candidate]
        return measure(candidate.settings.link, x, self.labels, self.weights)

    def judge(self, x: Array, link: Link) -> tuple[float, tuple[float, ...]]:
        """Return the measure of held-out scores, in all and in each fold.

        They are calibrated as the model will be, by calibrators that have not seen the entry.
        """
        curve = cross_fitted_curve(self.calibration, link, x, self.labels, self.weights)
        losses, measure = ENTRY_LOSSES.get(self.scoring), SCORINGS[self.scoring]
        ends = np.cumsum([fold.held_out.n_observed for fold in self.folds])[:-1]
        parts = [np.split(each, ends) for each in (x, self.labels, self.weights)]
        if losses is None:
            scores = [measure(curve, *part) for part in zip(*parts, strict=True)]
        else:
            found = losses(curve, x, self.labels)
            scores = [
                float(np.average(part, weights=weights))
                for part, weights in zip(np.split(found, ends), parts[2], strict=True)
            ]
        weights = [float(np.sum(part)) for part in parts[2]]
        return float(np.average(scores, weights=weights)), tuple(scores)

    def _measure(
        self, settings: ModelSpec, found: list[Factors]
    ) -> tuple[float, tuple[float, ...], Any]:
        """Return the measure of fits, one for each fold: in all, in each fold, and the scores to keep."""
        x = np.concatenate(
            [
                factors.at(fold.held_out.rows, fold.held_out.columns)
                for fold, factors in zip(self.folds, found, strict=True)
            ]
        )
        return *self.judge(x, settings.link), x

    def _keep(self, candidate: Candidate, kept: Any) -> None:
        self.scores[candidate] = kept

    def _time_left(self) -> float | None:
        """Return the seconds that a fit may take: no limit for the first candidate."""
        if self.deadline is None or (self.needs_candidate and not self.candidates):
            return None
        left = self.deadline - time.perf_counter()
        if left <= 0.0:
            raise SearchEndedError(OUT_OF_TIME)
        return left


def fit_from(
    observations: Observations,
    settings: ModelSpec,
    options: Options,
    ends: dict[str, Factors],
    draws: np.random.Generator,
    stopping: Stopping | None = None,
    validation: Fold | None = None,
) -> tuple[Factors, SolverResult]:
    """Fit from a warm start of the same family or of a simpler one; keep the result for the next.

    The held-out entries of ``validation``, if given, may end the fit early.
    """
    problem = problem_of(observations, settings, options, draws)
    start = warm_start(problem, settings, ends)
    stopping = Stopping(MAX_SWEEPS, TOLERANCE) if stopping is None else stopping
    if validation is not None:
        watch = ValidationEarlyStopping(
            problem, validation.held_out, validation.weights, settings.link
        )
        stopping = replace(stopping, watch=watch)
    _, result = minimise_in_stages(
        default_solver(settings), problem.objective, problem.constraints, start, stopping, draws
    )
    ends[settings.family] = result.factors
    return problem.factors(result.factors), result


def problem_of(
    observations: Observations, settings: ModelSpec, options: Options, draws: np.random.Generator
) -> Problem:
    """Return the problem of a model, with the options that all candidates share."""
    return make_problem(
        observations,
        settings,
        arithmetic=options.arithmetic,
        generator=draws,
        side=options.side,
    )


def default_solver(settings: ModelSpec) -> Solver:
    """Return the solver for such a model.

    Newton's method; L-BFGS where rows share unknowns or there are none, and where every entry counts and no bound is
    kept, as the curvature of a row then costs many gradients; the augmented Lagrangian where a set ties rows together,
    as a bound on entries does that no ball of rows implies.
    """
    by_rows = settings.rank > 0 and not (
        settings.uses_unobserved and not settings.has_unbounded_risk
    )
    fast: tuple[Solver, ...] = (Newton(), LBFGS()) if by_rows else (LBFGS(), Newton())
    solvers = (*fast, AugmentedLagrangian())
    constraints = settings.constraints()
    able = (each for each in solvers if each.refusal(settings, constraints) is None)
    return next(able, Newton())


#: Number of evaluations that must agree, and the share of the loss within which they do: less than half of the least
#: gain of a step of a line search.
N_EVALUATIONS, MAX_RELATIVE_CHANGE = 3, 2e-4


class ValidationEarlyStopping:
    """Early stopping: whether the log-loss of held-out entries has plateaued.

    A fit approaches its minimum long after its validation loss has plateaued. On large tables, where a single fold is
    held out, a candidate ends there; the refit of the chosen one goes on to ``tol``.
    """

    def __init__(
        self, problem: Problem, held_out: Observations, weights: Array, link: Link
    ) -> None:
        self.problem, self.held_out, self.weights, self.link = problem, held_out, weights, link
        self.losses: list[float] = []

    def __call__(self, unknowns: Factors) -> bool:
        """Return whether the last evaluations, with this one, have the same loss."""
        factors = self.problem.factors(unknowns.to_numpy())
        x = factors.at(self.held_out.rows, self.held_out.columns)
        self.losses.append(log_loss(self.link, x, self.held_out.labels, self.weights))
        last = self.losses[-N_EVALUATIONS:]
        return len(last) == N_EVALUATIONS and bool(np.ptp(last) <= MAX_RELATIVE_CHANGE * last[-1])
