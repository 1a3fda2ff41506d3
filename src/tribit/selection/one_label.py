"""The search where likes alone (or dislikes alone) were observed: what is identified is which cells are seen and liked.

    min over U, V, intercepts   sum over likes of l(x, +1)  +  sum over all other cells of l(x, -1)  +  ridges,

the PU risk with ``rho = 0`` (for dislikes NU, the mirror image), exactly, over every cell. Its ``f(x)`` estimates the
probability that a cell is *seen and liked*: of a like that was not seen the data say nothing, and every cell counts as
what it was found to be. With a ``rho`` that the user knows the risk is PU's own and estimates the probability of a like.

Some of the likes are held out and stand against all cells that were not seen (:mod:`tribit.metrics.unseen`). The model
never saw them, so that its probabilities are of a table with fewer likes; they are calibrated (Platt) before they are
scored, as they are after the last fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.data.observations import Observations
from tribit.metrics.entries import SCORINGS, Array, ByProbability, Labels, losses
from tribit.metrics.unseen import Transform, against_unseen
from tribit.model.calibrator_fits import isotonic, platt
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Missingness
from tribit.model.spec import ModelSpec
from tribit.selection.mixtures import Mixtures
from tribit.selection.problem import make_problem
from tribit.selection.record import Candidate, HeldOut
from tribit.selection.regression import regressible, regression_factors, with_regression
from tribit.selection.stages import MOST_COLUMNS, SHARES
from tribit.selection.steps import Steps
from tribit.selection.trials import Fold, Trials

#: Most cells for which ridges are searched: a pass over 10^8 takes about a second on a core, and a fit has dozens.
MOST_CELLS = 10**8
#: Least number of entries of which some are held out.
LEAST_ALONE = 20
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
    what = "liked" if label > 0 else "disliked"
    if spec.unbounded:
        return f"a {what[:-1]}, if rho is the probability that one of them goes unobserved"
    if label > 0:
        return "a cell being seen and liked; pass rho for the probability of a like"
    return "a cell not being seen and disliked; pass rho for the probability of a like"


@dataclass(frozen=True, eq=False)
class Regression:
    """Weight of the regression that is added to a candidate, with the score and the held-out entries of the two."""

    weight: float
    score: float
    held_out: HeldOut


class UnseenTrials(Trials):
    """Trials in which held-out entries of one label stand against all unseen cells."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: Factors of each candidate, one for each fold.
        self.fits: dict[Candidate, list[Factors]] = {}
        #: Weight of the regression that is added to the chosen candidate, and its score; None without.
        self.regression: Regression | None = None

    def _keep(self, candidate: Candidate, factors: list[Factors]) -> None:
        self.fits[candidate] = factors

    def regressed(self, best: Candidate, parts: list[Factors], weight: float) -> Regression:
        """Return the score of a candidate with the regression added, and the held-out scores behind it."""
        found = [
            self._judge(fold, best.settings, with_regression(factors, part, weight))
            for fold, factors, part in zip(self.folds, self.fits[best], parts, strict=True)
        ]
        scores, entries = zip(*found, strict=True)
        total = float(np.average(scores, weights=[float(np.sum(each[2])) for each in entries]))
        x, labels, weights = (np.concatenate(part) for part in zip(*entries, strict=True))
        return Regression(weight, total, (x, labels, weights))

    def _judge(
        self, fold: Fold, settings: ModelSpec, factors: Factors
    ) -> tuple[float, tuple[Array, Labels, Array]]:
        """Return the score of calibrated probabilities, and the scores behind it."""
        link = settings.link
        x, labels, weights = against_unseen(
            factors,
            fold.train,
            fold.held_out,
            unit=link.level(0.75),
            transform=_observed(settings.rho, link, fold) if settings.unbounded else None,
        )
        curve = ByProbability(isotonic(x, labels, weights))
        return SCORINGS[self.scoring](curve, x, labels, weights), (x, labels, weights)

    def calibration_entries(self, best: Candidate) -> HeldOut:
        """Return the held-out scores of the choice, the held-out entries with the weight of all in the training part.

        Those are what the model gives the probability of.
        """
        entries = self.held_out[best] if self.regression is None else self.regression.held_out
        x, labels, weights = entries
        held_out = labels == self.folds[0].held_out.labels[0]
        share = self.folds[0].share
        return x, labels, np.where(held_out, share / (1.0 - share), 1.0) * weights

    def _ahead(self, rich: Candidate, simple: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer the first to the second, by their own losses."""
        if self.scoring != "log_loss":
            return rich.score < simple.score
        link = rich.settings.link
        own, other = (self._losses(self.held_out[each], link) for each in (rich, simple))
        return self._gains(own, other, simple.score - rich.score, simple.score)

    def gains_by(self, added: Regression, best: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer a candidate with the regression to the same without."""
        if self.scoring != "log_loss":
            return added.score < best.score
        link = best.settings.link
        own, other = (self._losses(each, link) for each in (added.held_out, self.held_out[best]))
        return self._gains(own, other, best.score - added.score, best.score)

    def _gains(
        self, own: tuple[Array, float], other: tuple[Array, float], gain: float, score: float
    ) -> bool:
        gains = other[0] - own[0]
        error = float(np.std(gains)) * np.sqrt(gains.size) * own[1]
        return self._clear(gain, error, gains.size, score)

    def _losses(self, entries: HeldOut, link: Link) -> tuple[Array, float]:
        """Return the losses of the held-out entries, and how much one of them weighs in the score."""
        x, labels, weights = entries
        held_out = labels == self.folds[0].held_out.labels[0]
        curve = ByProbability(isotonic(x, labels, weights))
        found = losses(curve, x[held_out], labels[held_out])
        return found, float(np.mean(weights[held_out]) / np.sum(weights))


def _observed(rho: Any, link: Link, fold: Fold) -> Transform:
    """Return the log-odds of being observed, ``(1 - rho) f(x)``, in the scale of the link."""
    columns = np.arange(fold.train.shape[1])

    def transform(x: Array, rows: slice) -> Array:
        if isinstance(rho, Missingness):
            i, j = np.meshgrid(np.arange(rows.start, rows.stop), columns, indexing="ij")
            q = 1.0 - rho.rho_at(i.ravel(), j.ravel()).reshape(i.shape)
        else:
            q = np.asarray(1.0 - rho)
        liked = fold.held_out.labels[0] > 0
        p = np.clip(q * link.probability(x if liked else -x), 1e-12, 1.0 - 1e-12)
        z = np.log(p) - np.log1p(-p)
        return np.asarray((z if liked else -z) * (link.level(0.75) / np.log(3.0)))

    return transform


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
        settings = replace(best.settings, implicit_features=False, l2_implicit=self.base.l2_implicit)
        if "l2" in self.free:
            settings = replace(settings, l2=l2)
        if "rank" in self.free:
            settings = replace(settings, rank=min(2 * FIRST_RANK, *self.trials.folds[0].train.shape))
        found = self.trials.score(settings)
        if found.score < best.score * (1.0 + PLAIN_NEAR):
            self._more_columns(self._refined(found, "l2", STEP))

    def _regression(self) -> None:
        """Add the regression of the smaller side to the chosen candidate where held-out entries prefer that."""
        best = self.trials.chosen
        if best is None or not regressible(self.trials.folds[0].train.shape, best.settings.rank):
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
        options = self.trials.options
        problem = make_problem(
            fold.train, plain, dtype=options.dtype, n_jobs=options.n_jobs, generator=draws
        )
        objective = problem.objective.plain
        at = fold.ends.get("intercepts", problem.start)
        rows, columns = (np.zeros((size, WIDTH)) for size in fold.train.shape)
        V = np.linalg.qr(draws.standard_normal(columns.shape))[0]
        largest = 0.0
        for _ in range(ROUNDS):
            _, found = objective.risk_gradient(replace(at, row_factors=rows, column_factors=V))
            U = np.linalg.qr(found.row_factors)[0]
            _, found = objective.risk_gradient(replace(at, row_factors=U, column_factors=columns))
            largest = float(np.linalg.norm(found.column_factors, 2))
            V = np.linalg.qr(found.column_factors)[0]
        return largest
