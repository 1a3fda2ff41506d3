"""The search: candidates on folds of the observed entries, and the one that these prefer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.data.observations import Observations
from tribit.errors import Message, parameter, warn
from tribit.model.fitted import LIKE
from tribit.model.spec import ModelSpec
from tribit.selection.averages import averaged
from tribit.selection.folds import make_folds
from tribit.selection.one_label import LEAST_ALONE, OneLabel, meaning, one_label
from tribit.selection.part import part_of
from tribit.selection.record import DONE, Candidate, Search
from tribit.selection.ridges import ridge_share
from tribit.selection.stages import Stages
from tribit.selection.trials import Options, SearchEndedError, Trials
from tribit.selection.unseen_trials import UnseenTrials
from tribit.selection.whole import WholeTable, WholeTrials, scaled
from tribit.solvers.loop import INTERRUPTED

#: Least number of entries, in all and of each label, for a search; with fewer none are held out.
LEAST, LEAST_OF_EACH = 100, 20


@dataclass(frozen=True)
class Freedom:
    """The part of a model that a search may choose: the names of its free parameters, and the least rank."""

    names: frozenset[str]
    least_rank: int = 0

    def allows(self, settings: ModelSpec, base: ModelSpec) -> bool:
        """Return whether settings differ from the user's own only where they are free."""
        fixed = {name: value for name, value in base.choices().items() if name not in self.names}
        return settings.rank >= self.least_rank and replace(settings, **fixed) == settings


def choose(
    observations: Observations,
    base: ModelSpec,
    freedom: Freedom,
    options: Options,
    *,
    target: str,
    scoring: str,
    calibration: str | None = None,
    weights: Any,
    n_candidates: int | None,
    max_time: float | None,
    draws: np.random.Generator,
    n_fits: Any = 1,
    callback: Callable[[Candidate], Any] | None = None,
) -> Search:
    """Choose the free settings; those of ``base`` are kept otherwise."""
    began = time.perf_counter()
    alone = one_label(observations) if base.mixed else 0
    about = meaning(alone, base) if alone else LIKE
    if alone and scoring == "error":
        scoring = "log_loss"  # next to no cell is likelier than not to be seen and liked
    too_few = _too_few(observations, alone)
    if alone and base.unbounded and base.rho is None:
        too_few = Message(f"without {parameter('rho')} one label alone says nothing of the other")
    if too_few is not None:
        return Search(
            (), None, scoring, target, 0, 0, 0.0, too_few, observations.density, meaning=about
        )
    # Weights of entries are those of a model of the mask, with which all of the table is searched. On a GPU a fit to
    # all of a table takes as long as the work around it.
    small = weights is None and options.device == "cpu"
    part = part_of(observations, base, draws) if small else None
    if part is None:
        folds = make_folds(observations, None if alone else weights, draws)
    else:
        folds = make_folds(part.observations, None, draws)
        of_part = replace(options, side=part.side(options.side))
        share = ridge_share(part.observations, observations, base, of_part)
        folds = [replace(fold, ridge_share=share) for fold in folds]
    about_trials: dict[str, Any] = {
        "scoring": scoring,
        "calibration": calibration,
        "deadline": None if max_time is None else began + max_time,
        "callback": callback,
        "eligible": lambda settings: freedom.allows(settings, base),
    }
    trials_of: type[Trials] = UnseenTrials if alone else Trials
    trials = trials_of(
        folds, options if part is None else of_part, most=n_candidates, **about_trials
    )
    stages: OneLabel | Stages
    if isinstance(trials, UnseenTrials):
        stages = OneLabel(trials, base, freedom.names)
    else:
        stages = Stages(trials, base, freedom.names)
    reason, whole = DONE, None
    try:
        stages.run()
        reason = "; ".join([reason, *stages.notes, *([] if part is None else [part.note])])
        if part is not None and trials.chosen is not None:
            left = None if n_candidates is None else n_candidates - len(trials.candidates)
            whole_folds = part.whole_folds(observations, folds)
            whole = WholeTrials(whole_folds, options, most=left, needed=False, **about_trials)
            WholeTable(whole, base, freedom.names).run(trials.chosen)
    except SearchEndedError as ended:
        reason = str(ended)
    except KeyboardInterrupt:  # between two fits: a solver that is interrupted says so itself
        if trials.best is None:
            raise
        reason = INTERRUPTED
        tried = len(trials.candidates) + (0 if whole is None else len(whole.candidates))
        warn(
            f"Interrupted after {tried} candidates; the best so far is kept.",
            RuntimeWarning,
        )
    best = trials.chosen
    average = None
    if best is not None and reason != INTERRUPTED and not alone:
        average = averaged(trials, best, n_fits, rank_is_free="rank" in freedom.names)
    candidates, judged = tuple(trials.candidates), trials
    members = () if best is None else (best,) if average is None else average.members
    if best is not None and whole is not None and whole.best is not None:
        if average is None:
            judged, members = whole, (whole.best,)
        else:  # whose members were all judged on the part alone
            average = scaled(average, best, whole.best)
        best, candidates = whole.best, (*candidates, *whole.candidates)
    held_out = None
    # Where the user says how likes are observed, what was observed cannot calibrate the probabilities of likes.
    if members and not (alone and base.unbounded):
        held_out = judged.calibration_entries(members)
    added = getattr(trials, "regression", None)
    ends = None if whole is None else whole.best_ends
    if ends is None:
        ends = folds[0].ends if part is None else part.whole_ends(folds[0].ends)
    return Search(
        candidates,
        best,
        scoring,
        target,
        sum(fold.held_out.n_observed for fold in folds),
        len(folds),
        time.perf_counter() - began,
        reason,
        observations.density,
        ends,
        held_out,
        average,
        trials.calibrates,
        about,
        None if added is None else added.weight,
    )


def _too_few(observations: Observations, alone: int) -> str | None:
    likes, dislikes = observations.n_likes, observations.n_dislikes
    if alone:
        what = "likes" if likes else "dislikes"
        if observations.density == 1.0:
            return f"every cell is one of the {what}, so that there is nothing to tell them from"
        if likes + dislikes >= LEAST_ALONE:
            return None
        return f"{likes + dislikes} {what} are too few to hold any out ({LEAST_ALONE} are needed)"
    if not (likes and dislikes):
        what = "likes" if likes else "dislikes"
        return Message(
            f"only {what} were observed, which PN cannot tell apart; leave out {parameter('gammas')} to have them told "
            "from the cells that were not seen"
        )
    if min(likes, dislikes) < LEAST_OF_EACH or likes + dislikes < LEAST:
        return (
            f"{likes} likes and {dislikes} dislikes are too few to hold any out "
            f"({LEAST_OF_EACH} of each and {LEAST} in all are needed)"
        )
    return None
