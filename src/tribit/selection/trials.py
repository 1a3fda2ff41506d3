"""Cross-validation of settings: fits on parts of the observed entries, scored on the held-out rest.

Folds are of entries, not of rows. Within a fold each fit has a warm start from the last fit of its family: that saves
most of the work along a path of penalties, and uses no held-out entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tribit.backends.layout import share_layouts
from tribit.data.observations import Observations
from tribit.metrics.entries import ENTRY_LOSSES, SCORINGS, Array, Labels
from tribit.model.factors import Factors
from tribit.model.spec import ModelSpec
from tribit.randomness import balanced_fold_numbers
from tribit.selection.problem import Problem, make_problem
from tribit.selection.record import Candidate
from tribit.selection.starts import start_of
from tribit.selection.thinned import thinned
from tribit.solvers import (
    LBFGS,
    AugmentedLagrangian,
    Newton,
    Solver,
    SolverResult,
    Stopping,
)
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME
from tribit.solvers.refusals import refusal_of

#: Number of entries from which a single tenth is held out; below it the number of held-out entries to reach with fifths
#: in turn, the number of parts, and the most folds, which bounds the time.
MANY, ENOUGH, FIFTHS, MOST_FOLDS = 40_000, 2_500, 5, 3
#: Number of entries of one label alone from which tenths are held out, and how many to reach: what such a label stands
#: against is known without noise, and the best ridges of a fuller table are nearer to those of the whole.
MANY_ALONE, ENOUGH_ALONE = 3_000, 1_000
#: Least number of held-out entries of the rarer label, where the data has as many: the score says little of a label
#: with fewer.
ENOUGH_RARE = 20
#: Standard errors of the difference by which a richer family must win: CLEARLY on many held-out entries, up to CAUTION
#: more on few, half of that at FEW. Each family is there with the best of its candidates, and on little data the
#: smallest of many scores is often luck: with CLEARLY alone 4 of 20 tables of noise, 30 x 20, were given more than
#: intercepts.
CLEARLY, CAUTION, FEW = 0.5, 1.5, 1000
#: Share of the score by which it must win too: of two models that are nearly the same the simpler is chosen.
LEAST_GAIN = 5e-4
#: Tolerance and most iterations of the fits of a search: candidates differ by more than such fits are inexact.
TOLERANCE, MOST_SWEEPS = 5e-4, 300


@dataclass(frozen=True)
class Options:
    """Options of the arithmetic, the same for every candidate."""

    dtype: str = "float32"
    n_jobs: int | None = None


@dataclass
class Fold:
    """Training entries, held-out entries with their weights, and the last factors of each family for warm starts."""

    train: Observations
    held_out: Observations
    weights: Array
    share: float  #: training entries as a share of the observed ones
    seed: int
    ends: dict[str, Factors] = field(default_factory=dict)


def make_folds(
    observations: Observations, weights: Array | None, draws: np.random.Generator
) -> list[Fold]:
    """Return the folds; the weights are those of all observed entries, 1 by default."""
    n = observations.n_observed
    if weights is None:
        weights = np.ones(n)
    # Where one label was observed alone it is the one that must be held out.
    rarer = min(observations.n_likes, observations.n_dislikes) or n
    once = n >= MANY and rarer >= 10 * ENOUGH_RARE
    parts = 10 if once else FIFTHS
    needed = max(-(-ENOUGH * FIFTHS // n), 1)
    used = 1 if once else min(MOST_FOLDS, needed)
    if not (observations.n_likes and observations.n_dislikes) and n >= MANY_ALONE:
        parts, used = 10, min(MOST_FOLDS, -(-ENOUGH_ALONE * 10 // n))
    # A rare label must be among what is held out, or nothing can be said of it.
    while not once and used < FIFTHS and used * rarer < ENOUGH_RARE * FIFTHS:
        used += 1
    number = balanced_fold_numbers(observations.labels > 0, parts, draws)
    folds = [
        Fold(
            *observations.hold_out(number == part),
            weights[number == part],
            float(np.mean(number != part)),
            int(draws.integers(2**32)),
        )
        for part in range(used)
    ]
    for fold in folds:
        share_layouts(fold.train)
    return folds


class SearchEndedError(Exception):
    """Raised to end a search early: by the user or the clock."""


class Trials:
    """The candidates tried so far on one set of folds."""

    def __init__(
        self,
        folds: list[Fold],
        options: Options,
        *,
        scoring: str,
        most: int | None,
        deadline: float | None,
        eligible: Callable[[ModelSpec], bool] = lambda _: True,
        callback: Callable[[Candidate], Any] | None = None,
    ) -> None:
        self.folds, self.options, self.callback = folds, options, callback
        self.eligible = eligible
        self.scoring, self.most, self.deadline = scoring, most, deadline
        self.candidates: list[Candidate] = []
        #: ``x``, labels and weights of the held-out entries, for each candidate.
        self.held_out: dict[Candidate, tuple[Array, Labels, Array]] = {}

    @property
    def best(self) -> Candidate | None:
        """The candidate with the smallest score among those that keep what the user fixed; None before there is one.

        Of equal ones it is the first, which is the simpler.
        """
        allowed = (c for c in self.candidates if self.eligible(c.settings))
        return min(allowed, key=lambda candidate: candidate.score, default=None)

    @property
    def chosen(self) -> Candidate | None:
        """The best of the simplest family that no richer one clearly beats.

        Richer is what was tried later. It must be ahead by a number of standard errors of the difference, entry by
        entry, which grows from a half to two as held-out entries become few.
        """
        families: dict[str, Candidate] = {}
        for candidate in self.candidates:
            family = candidate.settings.family
            if self.eligible(candidate.settings) and (
                family not in families or candidate.score < families[family].score
            ):
                families[family] = candidate
        chosen: Candidate | None = None
        for candidate in families.values():
            if chosen is None or self._ahead(candidate, chosen):
                chosen = candidate
        return chosen

    def _ahead(self, rich: Candidate, simple: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer the first to the second."""
        measure = ENTRY_LOSSES.get(self.scoring)
        if measure is None:  # no loss of single entries
            return rich.score < simple.score
        link = rich.settings.link
        (x, labels, weights), (other, _, _) = self.held_out[rich], self.held_out[simple]
        gains = measure(link, other, labels) - measure(link, x, labels)
        share = weights / np.sum(weights)
        mean = float(share @ gains)
        error = float(np.sqrt(np.sum(share**2 * (gains - mean) ** 2)))
        return self._clear(mean, error, gains.size, simple.score)

    @staticmethod
    def _clear(gain: float, error: float, n: int, score: float) -> bool:
        """Return whether a mean gain over ``n`` entries is clearly above its error and worth a richer model."""
        clearly = CLEARLY + CAUTION / (1.0 + n / FEW)
        return gain > max(clearly * error, LEAST_GAIN * abs(score))

    def calibration_entries(self, best: Candidate) -> tuple[Array, Labels, Array]:
        """Return the held-out scores, labels and weights of the choice, on which its probabilities are calibrated."""
        return self.held_out[best]

    def known(self, settings: ModelSpec) -> Candidate | None:
        """Return the candidate with these settings, if it was tried."""
        return next((c for c in self.candidates if c.settings == settings), None)

    def score(self, settings: ModelSpec) -> Candidate:
        """Fit the settings on every fold and score them on its held-out entries, unless they were scored before."""
        if (known := self.known(settings)) is not None:
            return known
        if self.most is not None and len(self.candidates) >= self.most:
            raise SearchEndedError(f"{self.most} candidates were tried, the most asked for")
        began = time.perf_counter()
        found: list[Factors] = []
        scores, iterations, weights, entries, interrupted = [], 0, [], [], False
        for fold in self.folds:
            factors, result = fit_from(
                fold.train,
                replace(settings, rho=thinned(settings.rho, fold.share)),
                self.options,
                fold.ends,
                np.random.Generator(np.random.PCG64(fold.seed)),
                tol=TOLERANCE,
                max_time=self._time_left(),
                interruptible=not interrupted,
            )
            interrupted |= result.stop_reason == INTERRUPTED
            # The first candidate is scored even if cut short: there is nothing else to choose.
            if self.candidates and (interrupted or result.stop_reason == OUT_OF_TIME):
                raise SearchEndedError(result.stop_reason)
            score, held_out = self._judge(fold, settings, factors)
            found.append(factors)
            scores.append(score)
            weights.append(float(np.sum(held_out[2])))
            entries.append(held_out)
            iterations += result.n_iter
        total = float(np.average(scores, weights=weights))
        seconds = time.perf_counter() - began
        candidate = Candidate(settings, total, tuple(scores), seconds, iterations)
        self.candidates.append(candidate)
        x, labels, counted = (np.concatenate(part) for part in zip(*entries, strict=True))
        self.held_out[candidate] = (x, labels, counted)
        self._keep(candidate, found)
        if self.callback is not None:
            self.callback(candidate)
        if interrupted:
            raise SearchEndedError(INTERRUPTED)
        return candidate

    def _judge(
        self, fold: Fold, settings: ModelSpec, factors: Factors
    ) -> tuple[float, tuple[Array, Labels, Array]]:
        """Return the score of a fit on the held-out entries of a fold, and their ``x``, labels and weights."""
        x, labels = factors.at(fold.held_out.rows, fold.held_out.columns), fold.held_out.labels
        score = SCORINGS[self.scoring](settings.link, x, labels, fold.weights)
        return score, (x, labels, fold.weights)

    def _keep(self, candidate: Candidate, factors: list[Factors]) -> None:
        """Keep what later stages need of the fits of a candidate, one for each fold: nothing here."""

    def _time_left(self) -> float | None:
        """Return how long a fit may take: as long as it likes where nothing is known yet."""
        if self.deadline is None or not self.candidates:
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
    *,
    tol: float,
    max_time: float | None = None,
    interruptible: bool = True,
) -> tuple[Factors, SolverResult]:
    """Fit from a warm start of the same family or of a simpler one; keep the result for the next."""
    problem = _problem(observations, settings, options, draws)
    start = start_of(problem, settings, ends)
    stopping = Stopping(MOST_SWEEPS, tol, max_time, interruptible=interruptible)
    result = default_solver(settings).minimise(
        problem.objective, problem.constraints, start, stopping, draws
    )
    ends[settings.family] = result.factors
    return problem.factors(result.factors), result


def _problem(
    observations: Observations, settings: ModelSpec, options: Options, draws: np.random.Generator
) -> Problem:
    return make_problem(
        observations, settings, dtype=options.dtype, n_jobs=options.n_jobs, generator=draws
    )


def default_solver(settings: ModelSpec) -> Solver:
    """Return the solver for such a model.

    Newton's method; L-BFGS where rows share unknowns or there are none, and where every entry counts and no bound is
    kept, as the curvature of a row then costs many gradients; the augmented Lagrangian where a set ties rows together,
    as a bound on entries does that no ball of rows implies.
    """
    by_rows = settings.rank > 0 and not (settings.mixed and not settings.unbounded)
    fast: tuple[Solver, ...] = (Newton(), LBFGS()) if by_rows else (LBFGS(), Newton())
    solvers = (*fast, AugmentedLagrangian())
    constraints = settings.constraints()
    able = (each for each in solvers if refusal_of(each, settings, constraints) is None)
    return next(able, Newton())
