"""The search: candidates on folds of the observed entries, and the one that the validation set prefers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.errors import warn
from tribit.model.spec import ModelSpec
from tribit.progress import candidates_bar
from tribit.selection.folds import Fold, make_folds
from tribit.selection.mixtures import Mixtures
from tribit.selection.positive_only import (
    PositiveFactors,
    PositiveIntercepts,
    PositiveOnlyTrials,
    PositiveRanks,
    Regression,
)
from tribit.selection.record import DONE, Candidate, Search
from tribit.selection.refit import choose_average
from tribit.selection.row_subsample import (
    FullDataTrials,
    RowSubsample,
    penalty_share,
    row_subsample,
    scale_average,
    search_full_data_penalty,
)
from tribit.selection.space import NOTHING_FREE, SearchSpace
from tribit.selection.stages import (
    FactorPenalty,
    Found,
    HigherRankWithFeatures,
    ImplicitFeatures,
    InterceptPenalty,
    LineSearches,
    Ranks,
    SideFeaturePenalty,
    Stage,
)
from tribit.selection.trials import Options, SearchEndedError, Trials, options_of
from tribit.solvers.loop import INTERRUPTED

#: The stages, in their order; each says whether it applies.
STAGES: list[Stage] = [
    InterceptPenalty(),
    FactorPenalty(),
    ImplicitFeatures(),
    Ranks(),
    SideFeaturePenalty(),
    HigherRankWithFeatures(),
    Mixtures(),
    PositiveIntercepts(),
    PositiveFactors(),
    PositiveRanks(),
    Regression(),
]


@dataclass(frozen=True)
class Budget:
    """Limits of a search: the most candidates and seconds, None for no limit."""

    n_candidates: int | None = None
    max_time: float | None = None


def search_hyperparameters(
    estimator: Any,
    observations: Observations,
    solver: Any,
    draws: np.random.Generator,
    side: SideFeatures | None = None,
    device: str = "cpu",
) -> tuple[ModelSpec, Search | None]:
    """Return the settings of a fit, and the search for those that were "auto" (None where none was).

    Parameters
    ----------
    estimator : BinaryMatrixCompletion
        Its parameters.
    observations : Observations
        The entries that the choice is made on.
    solver : solver or None
        The user's own; None to suit the model.
    draws : Generator
        Draws the held-out entries.
    side : SideFeatures, optional
        The side features of rows and columns.
    device : {"cpu", "cuda"}
        Where the fits of the search are.
    """
    began = time.perf_counter()
    space = SearchSpace.of(estimator, observations, solver, side)
    if space.nothing == NOTHING_FREE:
        return space.base, None
    if space.nothing is not None:
        return space.base, _empty_search(space, observations)
    space = space.with_rho(observations, estimator, draws)
    budget = Budget(estimator.n_candidates, _remaining_time(estimator.max_time, began))
    with candidates_bar(shown=bool(estimator.verbose)) as callback:
        options = options_of(estimator, side, device)
        search = choose(observations, space, options, budget, draws, callback)
    return (space.base if search.best is None else search.best.settings), search


def choose(
    observations: Observations,
    space: SearchSpace,
    options: Options,
    budget: Budget,
    draws: np.random.Generator,
    callback: Callable[[Candidate], Any] | None = None,
) -> Search:
    """Choose the free settings; those of ``space.base`` are kept otherwise."""
    began = time.perf_counter()
    space = space.over(observations)
    if space.nothing is not None:
        return _empty_search(space, observations)
    run = _Run(observations, space, options, draws)
    deadline = None if budget.max_time is None else began + budget.max_time
    search = run.search(budget.n_candidates, deadline, callback)
    return replace(search, seconds=time.perf_counter() - began)


def _empty_search(space: SearchSpace, observations: Observations) -> Search:
    """Return the record of a search that has tried nothing."""
    criterion, reason = space.criterion, space.nothing
    assert reason is not None
    return Search(
        (),
        None,
        criterion.scoring,
        criterion.target,
        n_held_out=0,
        n_folds=0,
        seconds=0.0,
        stop_reason=reason,
        density=observations.density,
        meaning=space.meaning,
    )


def _remaining_time(max_time: float | None, began: float) -> float | None:
    """Return the time that a model of the mask has left to a search; a first candidate is tried in any case."""
    if max_time is None:
        return None
    return max(float(max_time) - (time.perf_counter() - began), 1e-6)


class _Run:
    """One search: its folds, trials and stages."""

    def __init__(
        self,
        observations: Observations,
        space: SearchSpace,
        options: Options,
        draws: np.random.Generator,
    ) -> None:
        self.observations, self.space, self.options = observations, space, options
        # Weights by a model of the mask need the full data. On a GPU a fit to the full data takes as long as the work
        # around it.
        small = space.criterion.weights is None and options.arithmetic.device == "cpu"
        self.subsample = row_subsample(observations, space.base, draws) if small else None
        self.folds, self.fold_options = self._folds(self.subsample, draws)
        self.full: FullDataTrials | None = None

    def _folds(
        self, subsample: RowSubsample | None, draws: np.random.Generator
    ) -> tuple[list[Fold], Options]:
        if subsample is None:
            weights = None if self.space.label else self.space.criterion.weights
            return make_folds(self.observations, weights, draws), self.options
        folds = make_folds(subsample.observations, None, draws)
        options = replace(self.options, side=subsample.side(self.options.side))
        share = penalty_share(subsample.observations, self.observations, self.space.base, options)
        return [replace(fold, penalty_share=share) for fold in folds], options

    def search(
        self,
        most: int | None,
        deadline: float | None,
        callback: Callable[[Candidate], Any] | None,
    ) -> Search:
        """Run the stages and return the record."""
        criterion = self.space.criterion
        about: dict[str, Any] = {
            "scoring": criterion.scoring,
            "calibration": criterion.calibration,
            "deadline": deadline,
            "callback": callback,
            "eligible": self.space.allows,
        }
        kind: type[Trials] = PositiveOnlyTrials if self.space.label else Trials
        trials = kind(self.folds, self.fold_options, most=most, **about)
        reason = DONE
        try:
            notes = self._stages(trials)
            if self.subsample is not None:
                notes = (*notes, self.subsample.note)
                self._full_data(trials, most, about)
            reason = "; ".join([DONE, *notes])
        except SearchEndedError as ended:
            reason = str(ended)
        except KeyboardInterrupt:  # between two fits: a solver that is interrupted says so itself
            if trials.best is None:
                raise
            reason = INTERRUPTED
            tried = len(trials.candidates) + (0 if self.full is None else len(self.full.candidates))
            warn(
                f"Interrupted after {tried} candidates; the best so far is kept.",
                RuntimeWarning,
            )
        return self._record(trials, reason)

    def _stages(self, trials: Trials) -> tuple[str, ...]:
        """Run the stages that apply, and return their notes."""
        lines, found = LineSearches(trials, self.space), Found()
        for stage in STAGES:
            if stage.applies(self.space, found):
                found = stage.run(lines, found)
        return found.notes

    def _full_data(self, trials: Trials, most: int | None, about: dict[str, Any]) -> None:
        """Search the penalties of the chosen candidate on the full data."""
        assert self.subsample is not None
        if trials.choice is None:
            return
        left = None if most is None else most - len(trials.candidates)
        folds = self.subsample.full_folds(self.observations, self.folds)
        self.full = FullDataTrials(folds, self.options, most=left, **about)
        search_full_data_penalty(LineSearches(self.full, self.space), trials.choice)

    def _record(self, trials: Trials, reason: str) -> Search:
        """Return the record of the search, with the choice and its held-out entries for calibration."""
        space, criterion, full = self.space, self.space.criterion, self.full
        best, average = trials.choice, None
        if best is not None and reason != INTERRUPTED and not space.label:
            average = choose_average(
                trials, best, criterion.n_fits, rank_is_free="rank" in space.free
            )
        candidates = tuple(trials.candidates)
        members: Sequence[Candidate] = () if best is None else (best,)
        members = members if average is None else average.members
        judged = trials
        if best is not None and full is not None and full.best is not None:
            if average is None:
                judged, members = full, (full.best,)
            else:  # whose members were all judged on the subsample alone
                average = scale_average(average, best, full.best)
            best, candidates = full.best, (*candidates, *full.candidates)
        held_out = None
        # Where the user says how likes are observed, what was observed cannot calibrate the probabilities of likes.
        if members and not (space.label and space.base.has_unbounded_risk):
            held_out = judged.calibration_entries(members)
        ends = None if full is None else full.best_ends
        if ends is None:
            first = self.folds[0].ends
            ends = first if self.subsample is None else self.subsample.full_ends(first)
        added = trials.regression if isinstance(trials, PositiveOnlyTrials) else None
        return Search(
            candidates,
            best,
            criterion.scoring,
            criterion.target,
            n_held_out=sum(fold.held_out.n_observed for fold in self.folds),
            n_folds=len(self.folds),
            seconds=None,
            stop_reason=reason,
            density=self.observations.density,
            ends=ends,
            held_out=held_out,
            average=average,
            calibrated=trials.calibrates,
            meaning=space.meaning,
            regression=None if added is None else added.weight,
        )
