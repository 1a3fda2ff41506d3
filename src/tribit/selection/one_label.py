"""The search where likes alone (or dislikes alone) were observed: what is identified is which cells are seen and liked.

    min over U, V, intercepts   sum over likes of l(x, +1)  +  sum over all other cells of l(x, -1)  +  ridges,

the PU risk with ``rho = 0`` (for dislikes NU, the mirror image), exactly, over every cell. Its ``f(x)`` estimates the
probability that a cell is *seen and liked*: of a like that was not seen the data say nothing, and every cell counts as
what it was found to be. With a ``rho`` that the user knows the risk is PU's own and estimates the probability of a
like.

Some of the likes are held out and stand against all cells that were not seen (:mod:`tribit.selection.unseen_trials`).
The last fit is calibrated on them (Platt).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tribit.data.observations import Observations
from tribit.errors import Message, parameter
from tribit.model.spec import ModelSpec
from tribit.selection.mixtures import Mixtures
from tribit.selection.record import Candidate
from tribit.selection.regression import regressible, regression_factors
from tribit.selection.stages import MOST_COLUMNS, SHARES
from tribit.selection.steps import Steps
from tribit.selection.trials import problem_of
from tribit.selection.unseen_trials import UnseenTrials

#: Most cells for which ridges are searched: a pass over 10^8 takes about a second on a core, and a fit has dozens.
MOST_CELLS = 10**8
#: Least number of entries of which some are held out, as where both labels were observed.
LEAST_ALONE = 100
#: Rank of the first factors: ridges are chosen with it, as too many columns do no harm but cost.
FIRST_RANK = 16
#: First ridge weights of factors and of implicit features, as shares of the weight at which factors vanish. On likes of
#: MovieLens-100k, whole and its densest part, of Coat and on drawn tables (seed 10 of each) the best were within a
#: factor of 2 of them.
FACTOR_SHARE, FEATURE_SHARE = 0.6, 1.7
#: Ridge of plain factors that is tried beside them, as such a share, and the share of the score within which it is
#: refined: on Senate votes (seed 10) plain factors with many columns are the better.
PLAIN_SHARE, PLAIN_NEAR = 0.2, 0.01
#: Ridge weights of intercepts, in units of the link.
INTERCEPT_WEIGHTS = (100.0, 10.0, 1.0)
#: Largest of them beside factors, which take over much of what intercepts explain: with 10 and more the fits on
#: MovieLens-100k (seed 10) take twice as long and are no better.
MOST_INTERCEPT_WEIGHT = 3.0
#: Factor by which a line search changes a ridge.
STEP = 1.6
#: Weights of the regression that is added, in units of the link: log-odds of an entry that the regression is sure of.
REGRESSION_WEIGHTS = (1.0, 2.0, 4.0, 8.0, 16.0)
#: Share of the score that twice the columns must gain; and what the next doubling is expected to gain, as a share of
#: the last one's gain: on MovieLens-100k (seed 10) it gained .24% and then .08%.
COLUMNS_GAIN, NEXT_GAIN = 1e-3, 0.3
#: Share of the score that they may lose: at the same ridge more columns do no harm beyond the noise of few held-out
#: entries.
COLUMNS_LOSS = 2e-3
#: Least such weight, in units of the link.
LEAST_RIDGE = 1e-3
#: Columns and rounds of the subspace iteration for the largest singular value.
WIDTH, ROUNDS = 4, 4


def one_label(observations: Observations) -> int:
    """Return the label that was observed alone, +1 or -1; 0 where both were, or none."""
    return int(observations.n_likes > 0) - int(observations.n_dislikes > 0)


def corner(label: int) -> tuple[float, float, float]:
    """Return the weights of PU for likes alone, of NU for dislikes alone."""
    return (0.0, 1.0, 0.0) if label > 0 else (0.0, 0.0, 1.0)


def meaning(label: int, spec: ModelSpec) -> str:
    """Return what the probabilities of a model are of, where one label was observed alone."""
    if spec.unbounded:
        what = "a like" if label > 0 else "a dislike"
        return f"a like, if rho is the probability that {what} goes unobserved"
    if label > 0:
        return Message(
            f"a cell being seen and liked; pass {parameter('rho')} for the probability of a like"
        )
    return Message(
        f"a cell not being seen and disliked; pass {parameter('rho')} for the probability of a like"
    )


class OneLabel(Steps):
    """The stages for one label: intercepts, factors with implicit features and without, more columns, a regression.

    With a ``rho`` that the user gave it is PU (or NU) in balls instead.
    """

    trials: UnseenTrials

    def __init__(self, trials: UnseenTrials, base: ModelSpec, free: frozenset[str]) -> None:
        super().__init__(trials, base, free)
        self.notes: list[str] = []

    def run(self) -> None:
        """Go through the stages."""
        if self.base.unbounded:
            self.notes += Mixtures(self.trials, self.base, self.free).run(None)
            return
        plain = replace(self.base, rank=0, implicit_features=False)
        if self.base.intercept:
            plain = self._intercepts(plain).settings
        rank = self.base.rank
        if "rank" in self.free:
            rank = min(FIRST_RANK, *self.trials.folds[0].train.shape)
        if not rank:
            return
        largest = self._largest_ridge(plain)
        if "l2_intercept" in self.free and plain.l2_intercept is not None:
            most = MOST_INTERCEPT_WEIGHT * self.unit
            plain = replace(plain, l2_intercept=min(plain.l2_intercept, most))
        start = replace(plain, rank=rank)
        d1, d2 = self.trials.folds[0].train.shape
        small = d1 * d2 <= MOST_CELLS
        if not small:
            self.notes.append(
                f"ridges were set by the rule and not searched, as the matrix has more than {MOST_CELLS:.0g} cells"
            )
        if "implicit_features" in self.free or self.base.implicit_features:
            best = self._features(start, largest, refine=small)
        elif "l2" in self.free and small:
            weights = (share * largest for share in SHARES)
            best = self._path(weights, lambda l2: replace(start, l2=l2))
        else:
            share = FACTOR_SHARE / 2.0 if "l2" in self.free else 1.0
            l2 = share * largest if "l2" in self.free else self.base.l2
            best = self.trials.score(replace(start, l2=l2))
        if small:
            best = self._more_columns(best)
            self._leave_out_narrower(best)
            if "implicit_features" in self.free and best.settings.implicit_features:
                self._plain(best, PLAIN_SHARE * largest)
            if "rank" in self.free:
                self._regression()

    def _intercepts(self, plain: ModelSpec) -> Candidate:
        """Choose the ridge of intercepts, without factors."""
        if "l2_intercept" not in self.free:
            return self.trials.score(plain)
        weights = (self.unit * weight for weight in INTERCEPT_WEIGHTS)
        return self._path(weights, lambda weight: replace(plain, l2_intercept=weight))

    def _features(self, start: ModelSpec, largest: float, *, refine: bool) -> Candidate:
        """Choose the ridges of factors and of implicit features together."""
        ridges: dict[str, Any] = {"implicit_features": True}
        if "activity_floor" in self.free:
            ridges["activity_floor"] = (
                0.0,
                0.0,
            )  # how active a row is tells most of which cells it will observe
        if "l2" in self.free:
            ridges["l2"] = FACTOR_SHARE * largest
        if "l2_implicit" in self.free:
            ridges["l2_implicit"] = FEATURE_SHARE * largest
        best = self.trials.score(replace(start, **ridges))
        if not refine:
            return best
        best = self._refined(best, "l2_implicit", STEP)
        return self._refined(best, "l2", STEP)

    def _plain(self, best: Candidate, l2: float) -> None:
        """Try factors without implicit features: with many columns they may do as well."""
        settings = replace(
            best.settings, implicit_features=False, l2_implicit=self.base.l2_implicit
        )
        if "l2" in self.free:
            settings = replace(settings, l2=l2)
        if "rank" in self.free:
            settings = replace(
                settings, rank=min(2 * FIRST_RANK, *self.trials.folds[0].train.shape)
            )
        found = self.trials.score(settings)
        if found.score < best.score * (1.0 + PLAIN_NEAR):
            self._more_columns(self._refined(found, "l2", STEP))

    def _regression(self) -> None:
        """Add the regression of the smaller side to the chosen candidate where held-out entries prefer that."""
        best = self.trials.chosen
        shape = self.trials.folds[0].train.shape
        if best is None or not best.settings.rank or not regressible(shape, best.settings.rank):
            return
        parts = [regression_factors(fold.train) for fold in self.trials.folds]
        unit = self.base.link.level(0.75) / np.log(3.0)
        tried = [self.trials.regressed(best, parts, unit * weight) for weight in REGRESSION_WEIGHTS]
        added = min(tried, key=lambda each: each.score)
        if self.trials.gains_by(added, best):
            self.trials.regression = added

    def _more_columns(self, best: Candidate) -> Candidate:
        """Double the number of columns while that helps, and is likely to."""
        if "rank" not in self.free:
            return best
        while True:
            most = min(MOST_COLUMNS, *self.trials.folds[0].train.shape)
            rank = min(2 * best.settings.rank, most)
            if rank <= best.settings.rank:
                return best
            wider = self.trials.score(replace(best.settings, rank=rank))
            gain = 1.0 - wider.score / best.score
            if gain > -COLUMNS_LOSS:
                best = wider
            if NEXT_GAIN * gain < COLUMNS_GAIN:
                return best

    def _leave_out_narrower(self, best: Candidate) -> None:
        """Leave out of the choice what was tried with fewer columns on the way."""
        before = self.trials.eligible
        least = best.settings.rank
        self.trials.eligible = lambda spec: before(spec) and (not spec.rank or spec.rank >= least)

    def _largest_ridge(self, plain: ModelSpec) -> float:
        """Return the ridge weight above which factors vanish: the spectral norm of the gradient without them.

        With ``U = 0`` the gradient in U is ``G V``, and with ``V = 0`` that in V is ``G' U``: a subspace iteration that
        never stores G.
        """
        fold = self.trials.folds[0]
        draws = np.random.Generator(np.random.PCG64(fold.seed))
        problem = problem_of(fold.train, replace(plain, rank=1), self.trials.options, draws)
        objective = problem.objective.plain
        at = fold.ends.get("intercepts", problem.start)
        width = min(WIDTH, *fold.train.shape)
        rows, columns = (np.zeros((size, width)) for size in fold.train.shape)
        V = np.linalg.qr(draws.standard_normal(columns.shape))[0]
        largest = 0.0
        for _ in range(ROUNDS):
            _, found = objective.risk_gradient(replace(at, row_factors=rows, column_factors=V))
            U = np.linalg.qr(found.row_factors)[0]
            _, found = objective.risk_gradient(replace(at, row_factors=U, column_factors=columns))
            largest = float(np.linalg.norm(found.column_factors, 2))
            V = np.linalg.qr(found.column_factors)[0]
        # A table that its intercepts explain has no gradient, and a ridge all the same.
        return max(largest, LEAST_RIDGE * self.unit)
