"""The search: candidates on folds of the observed entries, and the one that the validation set prefers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.backends.layout import forget_layouts
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.errors import warn
from tribit.model.factors import Factors
from tribit.model.spec import ModelSpec
from tribit.progress import candidates_bar
from tribit.selection.folds import Fold, make_folds, n_first_folds
from tribit.selection.mixtures import Mixtures
from tribit.selection.positive_only import (
    PositiveFactors,
    PositiveIntercepts,
    PositiveOnlyTrials,
    PositiveRanks,
    Regression,
)
from tribit.selection.record import DONE, Candidate, HeldOut, Search, Stack
from tribit.selection.row_subsample import (
    FullDataTrials,
    RowSubsample,
    largest_penalty,
    note_of,
    row_subsamples,
    scale_stack,
    search_full_data_penalty,
)
from tribit.selection.significance import one_sided
from tribit.selection.space import NOTHING_FREE, SearchSpace
from tribit.selection.stacking import fit_weights, select_members
from tribit.selection.stages import (
    FACTOR_STEP,
    INTERCEPT_STEP,
    EntryPower,
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
from tribit.solvers import Solver
from tribit.solvers.loop import INTERRUPTED

#: The stages, in their order; each says whether it applies.
STAGES: list[Stage] = [
    InterceptPenalty(),
    FactorPenalty(),
    EntryPower(),
    Ranks(),
    ImplicitFeatures(),
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
    """Limits of a search: the most candidates and seconds, None for no limit.

    Examples
    --------
    >>> from tribit.selection import Budget
    >>> Budget(n_candidates=8, max_time=60.0)
    Budget(n_candidates=8, max_time=60.0)
    """

    n_candidates: int | None = None
    max_time: float | None = None


def search_hyperparameters(
    estimator: Any,
    observations: Observations,
    solver: Solver | None,
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
    if space.skip_reason == NOTHING_FREE:
        return space.base, None
    if space.skip_reason is not None:
        return space.base, _empty_search(space, observations, space.skip_reason)
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
    """Choose the free settings; those of ``space.base`` are kept otherwise.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.simulate import tables
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> model = BinaryMatrixCompletion(n_candidates=2, random_state=0).fit(ratings)
    >>> type(model.search_).__name__  # the result of choose
    'Search'
    """
    began = time.perf_counter()
    space = space.over(observations)
    if space.skip_reason is not None:
        return _empty_search(space, observations, space.skip_reason)
    deadline = None if budget.max_time is None else began + budget.max_time
    limits = {"most": budget.n_candidates, "deadline": deadline, "callback": callback}
    search = _run_of(observations, space, options, draws, limits).search(observations.density)
    return replace(search, seconds=time.perf_counter() - began)


def _run_of(
    observations: Observations,
    space: SearchSpace,
    options: Options,
    draws: np.random.Generator,
    limits: dict[str, Any],
) -> _Run:
    """Return the run of a search: on a row subsample of a very large table, else on all entries."""
    weights = space.criterion.weights
    # Weights by a model of the mask need the full data. On a GPU a fit to the full data takes as long as the work
    # around it.
    if weights is None and options.arithmetic.device == "cpu":
        subsamples = row_subsamples(observations, space.base, draws)
        if subsamples is not None:
            folds = make_folds(subsamples[0].observations, None, draws)
            return _SubsampleRun(space, folds, options, subsamples, observations, **limits)
    folds = make_folds(observations, None if space.label else weights, draws)
    return _Run(space, folds, options, **limits)


def _empty_search(space: SearchSpace, observations: Observations, reason: str) -> Search:
    """Return the record of a search that has tried nothing."""
    criterion = space.criterion
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


#: Candidates that are fitted on every fold, chosen on the first folds: the members of a stack are among them.
N_FINALISTS = 5
#: Most held-out entries on which the penalties of the best finalist are moved again.
MAX_REFINED_ENTRIES = 25_000
#: Gain of the log-likelihood on the first folds for which a candidate is one of them, in nats.
FINALIST_GAIN = 1.0
#: Least share of a member of a stack.
MIN_SHARE = 0.03


@dataclass(frozen=True)
class _Outcome:
    """The result of a run: the chosen candidate, the stack that is used in its place, and held-out entries."""

    best: Candidate | None = None
    stack: Stack | None = None
    held_out: HeldOut | None = None
    held_out_biases: HeldOut | None = None


class _Run:
    """A search on folds of all observed entries: stages on the first ones, then the finalists on every fold."""

    def __init__(
        self, space: SearchSpace, folds: list[Fold], options: Options, **limits: Any
    ) -> None:
        criterion = space.criterion
        self.space, self.options = space, options
        self.common = {
            "scoring": criterion.scoring,
            "calibration": criterion.calibration,
            "eligible": space.allows,
            **limits,
        }
        n_first = len(folds) if space.label else n_first_folds(folds)
        self.folds, self.further = folds[:n_first], folds[n_first:]
        trials: type[Trials] = PositiveOnlyTrials if space.label else Trials
        self.trials = trials(self.folds, options, **self.common)
        #: Trials on every fold, once there are finalists.
        self.finals: Trials = self.trials

    @property
    def candidates(self) -> list[Candidate]:
        """All candidates, in their order; finalists with their scores on every fold."""
        finals = {id(each.settings): each for each in self.finals.candidates}
        return [
            *(finals.pop(id(each.settings), each) for each in self.trials.candidates),
            *finals.values(),
        ]

    @property
    def ends(self) -> dict[str, Factors]:
        """Unknowns from which the refit on all data starts."""
        return self.folds[0].ends

    def search(self, density: float) -> Search:
        """Run the stages and return the record, with the choice and its held-out entries for calibration."""
        reason = self._stop_reason()
        found = self.choose(is_complete=reason != INTERRUPTED)
        criterion, added = self.space.criterion, self.trials.regression
        has_held_out = found.best is not None and found.held_out is not None
        return Search(
            tuple(self.candidates),
            found.best,
            criterion.scoring,
            criterion.target,
            n_held_out=sum(fold.held_out.n_observed for fold in self.finals.folds),
            n_folds=len(self.finals.folds),
            seconds=None,
            stop_reason=reason,
            density=density,
            ends=self.ends,
            held_out=found.held_out,
            held_out_biases=found.held_out_biases,
            at_risk=self.trials.at_risk(found.best) if found.best and has_held_out else None,
            stack=found.stack,
            calibrated=self.trials.calibrates,
            meaning=self.space.meaning,
            regression=None if added is None else added.weight,
        )

    def _stop_reason(self) -> str:
        """Run the stages and return why they ended."""
        try:
            return "; ".join([DONE, *self.run_stages()])
        except SearchEndedError as ended:
            return str(ended)
        except KeyboardInterrupt:  # between two fits: a solver that is interrupted says so itself
            if self.trials.best is None:
                raise
            warn(
                f"Interrupted after {len(self.candidates)} candidates; the best so far is kept.",
                RuntimeWarning,
            )
            return INTERRUPTED

    def run_stages(self) -> tuple[str, ...]:
        """Run the stages that apply, and return their notes."""
        lines, found = LineSearches(self.trials, self.space), Found()
        for stage in STAGES:
            if stage.applies(self.space, found):
                found = stage.run(lines, found)
        if not self.space.label:
            self._score_finalists(found.results)
        return found.notes

    def _score_finalists(self, results: list[Candidate]) -> None:
        """Fit the finalists on the further folds too."""
        if self.further and self.trials.choice is not None:
            self.finals = self.trials.with_folds(self.further, self._finalists(results))
            self._refine_on_all_folds()

    def _refine_on_all_folds(self) -> None:
        """Move the penalties of the best finalist of a small table, whose first folds were noisy."""
        best, limited = self.finals.best, self.common["most"] is not None
        if best is None or limited or self.finals.labels.size > MAX_REFINED_ENTRIES:
            return
        if best.settings.shares_unknowns:
            return  # L-BFGS takes longer from a warm start than Newton's method
        lines = LineSearches(self.finals, self.space)
        best = lines.refine(best, "l2_intercept", INTERCEPT_STEP)
        if best.settings.rank:
            lines.refine(best, "l2", FACTOR_STEP)

    def _finalists(self, results: list[Candidate]) -> list[Candidate]:
        """Return the best candidate, those that a stack on the first folds would take, and results of the stages."""
        trials, best = self.trials, self.trials.choice
        assert best is not None
        eligible = trials.eligible_candidates
        chosen = [
            eligible[place]
            for place in select_members(
                np.array([trials.scores[each] for each in eligible]),
                trials.labels,
                trials.weights,
                best.settings.link,
                most=N_FINALISTS,
                first=eligible.index(best),
                min_gain=FINALIST_GAIN,
            )
        ]
        chosen += results
        return [each for each in eligible if each in chosen]

    def choose(self, *, is_complete: bool) -> _Outcome:
        """Return the best candidate, the stack to use instead, and the held-out entries for calibration."""
        space, trials = self.space, self.finals
        best = trials.choice
        if best is None:
            return _Outcome()
        biases = self.held_out_biases()
        # Where the user says how likes are observed, what was observed cannot calibrate the probabilities of likes.
        if space.label and space.base.has_unbounded_risk:
            return _Outcome(best, held_out_biases=biases)
        if is_complete and not space.label:
            stack = stack_of(trials, best, space.criterion.members)
            if stack is not None:
                held_out = (stack.mean_scores(len(stack.members)), trials.labels, trials.weights)
                return _Outcome(stack.members[0], stack, held_out, biases)
        return _Outcome(best, None, trials.calibration_entries(best), biases)

    def held_out_biases(self) -> HeldOut | None:
        """Return the held-out entries under the best candidate with biases alone; None if there is none."""
        found = [each for each in self.finals.candidates if not each.settings.rank]
        best = min(found, key=lambda each: each.score, default=None)
        return None if best is None else self.finals.held_out_entries(best)


def stack_of(trials: Trials, best: Candidate, most: int) -> Stack | None:
    """Return the stack of the candidates on the folds of some trials; None where the best alone is no worse."""
    eligible = trials.eligible_candidates
    if most == 1 or one_sided(trials.labels):
        return None
    x, link = np.array([trials.scores[each] for each in eligible]), best.settings.link
    entries = trials.labels, trials.weights, link
    chosen = select_members(x, *entries, most=most, first=eligible.index(best))
    shares = fit_weights(x[chosen], *entries).shares
    parts = shares * np.std(
        x[chosen], axis=1
    )  # contributions: scores of strongly shrunk models are small
    kept = [k for k in np.argsort(-parts, kind="stable") if shares[k] >= MIN_SHARE]
    members = [chosen[k] for k in kept]
    if len(members) < 2:
        return None
    weights = fit_weights(x[members], *entries).shares
    score, _ = trials.judge(weights @ x[members], link)
    if score >= best.score or not np.all(weights > 0.0):
        return None
    return Stack(
        tuple(eligible[place] for place in members),
        tuple(map(float, weights)),
        score,
        tuple(eligible[place].score for place in members),
        x[members],
    )


class _SubsampleRun(_Run):
    """A search on folds of a row subsample, and of the penalties on the full data, or a larger subsample, after it."""

    def __init__(
        self,
        space: SearchSpace,
        folds: list[Fold],
        options: Options,
        subsamples: tuple[RowSubsample, RowSubsample | None],
        observations: Observations,
        **limits: Any,
    ) -> None:
        subsample, self.larger = subsamples
        inside = replace(options, side=subsample.side(options.side))
        largest = largest_penalty(observations, space.base, options)
        share = largest_penalty(subsample.observations, space.base, inside) / largest
        folds = [replace(fold, penalty_share=share) for fold in folds]
        super().__init__(space, folds, inside, **limits)
        self.note = note_of(*subsamples)
        #: The table of the line search, its options, its penalties as a share of those of the full data, and the
        #: subsample as one of its rows.
        self.observations, self.all_options, self.share = observations, options, 1.0
        self.subsample = subsample
        # Beside those of the folds they would be the peak of memory. The refit sorts the entries again.
        forget_layouts(observations)
        if self.larger is not None:
            self.observations = self.larger.observations
            self.all_options = replace(options, side=self.larger.side(options.side))
            self.share = largest_penalty(self.observations, space.base, self.all_options) / largest
            self.subsample = subsample.within(self.larger)
        self.full: FullDataTrials | None = None

    @property
    def candidates(self) -> list[Candidate]:
        """All candidates, those of the line search last."""
        return [*super().candidates, *([] if self.full is None else self.full.candidates)]

    @property
    def ends(self) -> dict[str, Factors]:
        """Unknowns of the best fit of the line search, or of fits to the subsample, for a fit to the full data."""
        ends = None if self.full is None else self.full.best_ends
        ends = self.subsample.full_ends(super().ends) if ends is None else ends
        return ends if self.larger is None else self.larger.full_ends(ends)

    def run_stages(self) -> tuple[str, ...]:
        """Run the stages on the subsample, then search the penalties of the chosen candidate on the full data."""
        notes, best = super().run_stages(), super().choose(is_complete=True).best
        if best is not None:
            most = self.common["most"]
            left = None if most is None else most - len(self.trials.candidates)
            folds = self.subsample.full_folds(self.observations, self.folds, self.share)
            self.full = FullDataTrials(folds, self.all_options, **(self.common | {"most": left}))
            search_full_data_penalty(LineSearches(self.full, self.space), best)
        return *notes, self.note

    def held_out_biases(self) -> None:
        """Return None: biases alone are not fitted to the full data."""

    def choose(self, *, is_complete: bool) -> _Outcome:
        """Return the choice at the penalties of the full data, where some were scored."""
        outcome = super().choose(is_complete=is_complete)
        best, stack = outcome.best, outcome.stack
        found = None if self.full is None else self.full.best
        if best is None or self.full is None or found is None:
            return outcome
        if stack is None:
            return _Outcome(found, None, self.full.calibration_entries(found))
        # The members were all judged on the subsample alone.
        return replace(outcome, best=found, stack=scale_stack(stack, best, found))
