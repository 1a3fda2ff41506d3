"""The search on positive-only data, where only likes (or only dislikes) were observed.

    min over U, V, intercepts   sum over likes of l(x, +1)  +  sum over all other cells of l(x, -1)  +  penalties,

the PU risk with ``rho = 0`` (for dislikes NU, the mirror image), exactly, over every cell. Its ``f(x)`` estimates the
probability that a cell is *seen and liked*: the data say nothing of likes that were not seen. With a ``rho`` that the
user knows the risk is PU's own and estimates the probability of a like; :mod:`tribit.selection.mixtures` searches it.

Some of the likes are held out and ranked among all unobserved cells (:class:`PositiveOnlyTrials`). Candidates of one
family are compared by the mean logarithm of these ranks (:func:`rank_losses`),

    mean over held-out likes of   log(1 + 4 r / n),     r unseen cells of higher score, n likes in the fold,

families by probabilities that a line in the log-odds calibrates, as it does after the refit. The last stage adds the
regression of every row on all others (or of every column),

    X  +  weight S,      S = F B,   B = argmin over diag(B) = 0 of  |F - F B|^2 + l2 |B|^2,     F = 1[observed]

(Steck 2019, "Embarrassingly shallow autoencoders for sparse data"; :mod:`tribit.model.ease`). Along the
smaller side of a matrix, with m rows or columns, S has rank m: m further latent factors hold it exactly. It captures
pairs of similar rows that low-rank factors miss, such as two members of one chamber in a table of votes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.metrics.entries import SCORINGS, Array, ByProbability, Labels, losses
from tribit.metrics.full_ranking import Positions, scores_among_unobserved
from tribit.model.calibration import platt
from tribit.model.ease import regressible, regression_factors, with_regression
from tribit.model.factors import Factors
from tribit.model.horizon import HORIZON, AtRisk
from tribit.model.links import Link
from tribit.model.risks import Missingness
from tribit.model.spec import ModelSpec
from tribit.selection.folds import Fold
from tribit.selection.record import AddedRegression, Candidate, HeldOut
from tribit.selection.significance import is_clear
from tribit.selection.space import SearchSpace
from tribit.selection.stages import MAX_RANK, PENALTY_SHARES, Found, LineSearches, Stage
from tribit.selection.trials import Trials, problem_of

#: Most cells for which penalties are searched: a pass over 10^8 takes about a second on a core, and a fit has dozens.
MAX_CELLS = 10**8
#: Rank of the first factors: penalties are chosen with it, as too high a rank does no harm but cost.
FIRST_ALONE_RANK = 16
#: First penalties of factors and of implicit features, as shares of the weight at which factors vanish. On likes of
#: MovieLens-100k, whole and its densest part, of Coat and on simulated tables (seed 10 of each) the best were within a
#: factor of 2 of them.
FACTOR_SHARE, FEATURE_SHARE = 0.6, 1.7
#: Penalty of plain factors that is tried beside them, as such a share, and the share of the score within which it is
#: refined: on Senate votes (seed 10) plain factors with many columns are the better.
PLAIN_SHARE, PLAIN_REFINED_WITHIN = 0.2, 0.01
#: Penalties of intercepts, in units of the link.
INTERCEPT_WEIGHTS = (100.0, 10.0, 1.0)
#: Largest of them beside factors, which take over much of what intercepts explain: with 10 and more the fits on
#: MovieLens-100k (seed 10) take twice as long and are no better.
MAX_INTERCEPT_WEIGHT = 3.0
#: Factor by which a line search changes a penalty.
STEP = 1.6
#: Weights of the regression that is added, in units of the link: log-odds of an entry that the regression is sure of.
REGRESSION_WEIGHTS = (1.0, 2.0, 4.0, 8.0, 16.0)
#: Share of the score that twice the columns must gain; and what the next doubling is expected to gain, as a share of
#: the last one's gain: on MovieLens-100k (seed 10) it gained .24% and then .08%.
MIN_RANK_GAIN, EXPECTED_NEXT_GAIN = 1e-3, 0.3
#: Share of the score that they may lose: at the same penalty more columns do no harm beyond the noise of few held-out
#: entries.
MAX_RANK_LOSS = 2e-3
#: Least such weight, in units of the link.
MIN_PENALTY = 1e-3
#: Rank, as a share of the number of held-out entries, above which the loss of a rank is logarithmic. On small tables of
#: likes (seeds 10 and 11 of ``benchmarks/small_likes.py``) 0 and 1 are no better.
RANK_SHARE = 0.25
#: Columns and rounds of the subspace iteration for the largest singular value.
SUBSPACE_WIDTH, SUBSPACE_ROUNDS = 4, 4
#: Rounds of the calibration weights, which settle in a few, and the least ``1 - p``: no cell is sure to be a like.
CALIBRATION_ROUNDS, MIN_UNLIKED = 5, 0.05


class PositiveOnlyTrials(Trials):
    """Trials in which held-out entries of one label stand against all unseen cells."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: Factors of each candidate, one for each fold, its held-out entries beside all unseen cells, and their losses.
        self.fits: dict[Candidate, list[Factors]] = {}
        self.held_out: dict[Candidate, HeldOut] = {}
        self.rank_losses: dict[Candidate, Array] = {}

    @property
    def calibrates(self) -> bool:
        """Whether scores are those of calibrated probabilities: they are of the order of cells."""
        return False

    def early_stopping_fold(self, fold: Fold) -> None:
        """Return None: held-out entries of one label alone prefer larger scores."""

    def held_out_entries(self, candidate: Candidate) -> HeldOut:
        """Return the held-out scores of a candidate and those of all unseen cells, labels and weights."""
        return self.held_out[candidate]

    def _keep(self, candidate: Candidate, kept: Any) -> None:
        self.fits[candidate], self.held_out[candidate], self.rank_losses[candidate] = kept

    def score_with_regression(
        self, best: Candidate, parts: list[Factors], weight: float
    ) -> AddedRegression:
        """Return the score of a candidate with the regression added, and the held-out scores behind it."""
        found = [
            with_regression(factors, part, weight)
            for factors, part in zip(self.fits[best], parts, strict=True)
        ]
        total, _, (_, held_out, lost) = self._measure(best.settings, found)
        return AddedRegression(weight, total, held_out, lost)

    def _measure(
        self, settings: ModelSpec, found: list[Factors]
    ) -> tuple[float, tuple[float, ...], tuple[list[Factors], HeldOut, Array]]:
        """Return the score of fits, one for each fold, the held-out scores behind it, and their losses."""
        judged = [
            self._score_fold(fold, settings, factors)
            for fold, factors in zip(self.folds, found, strict=True)
        ]
        scores, entries, lost = zip(*judged, strict=True)
        total = float(np.average(scores, weights=[each.size for each in lost]))
        x, labels, weights = (np.concatenate(part) for part in zip(*entries, strict=True))
        return total, tuple(scores), (found, (x, labels, weights), np.concatenate(lost))

    def _score_fold(
        self, fold: Fold, settings: ModelSpec, factors: Factors
    ) -> tuple[float, HeldOut, Array]:
        """Return the score of a fold, the held-out scores behind it, and the losses of their ranks."""
        link = settings.link
        x, labels, weights = scores_among_unobserved(
            factors,
            fold.train,
            fold.held_out,
            unit=link.level(0.75),
            transform=ObservedLogOdds(settings.rho, link, bool(fold.held_out.labels[0] > 0))
            if settings.has_unbounded_risk
            else None,
        )
        lost = rank_losses(x, labels, weights)
        by_rank = self.scoring == "log_loss"
        score = np.mean(lost) if by_rank else SCORINGS[self.scoring](link, x, labels, weights)
        return float(score), (x, labels, weights), lost

    def calibration_entries(self, best: Candidate) -> HeldOut:
        """Return the held-out scores, weighted to calibrate the probability that a fit estimates.

        Of a cell that is a like with probability p, a share s of likes being in the training part, the fit estimates
        ``t = s p``. Among the cells that the training part lacks it is held out at odds ``(1 - s) p / (1 - p)``, which
        the weight ``s / (1 - s) (1 - p) / (1 - s p)`` turns into those of t; p is that of the round before.
        """
        x, labels, weights = self._held_out_of(best)
        label, share = self.folds[0].held_out.labels[0], self.folds[0].share
        held_out = labels == label
        scale = np.ones(x.size)
        for _ in range(CALIBRATION_ROUNDS):
            line = platt(x, labels, scale * weights, link=best.settings.link, counts=True)
            t = line(x) if label > 0 else 1.0 - line(x)
            shrunk = np.maximum(1.0 - t / share, MIN_UNLIKED) / (1.0 - np.minimum(t, share))
            scale = np.where(held_out, share / (1.0 - share) * shrunk, 1.0)
        return x, labels, scale * weights

    def at_risk(self, best: Candidate) -> AtRisk | None:
        """Return the cells that the training part lacks, and the likes among them; None for dislikes.

        The horizon of the full data brings h of its likes, where a share ``1 - s`` of them is held out.
        """
        fold = self.folds[0]
        if fold.held_out.labels[0] < 0:
            return None
        x, labels, weights = self._held_out_of(best)
        times = HORIZON / (1.0 - fold.share)
        line = platt(x, labels, weights, link=best.settings.link, counts=True)
        n = len(self.folds)
        return AtRisk(x, times / n * (labels > 0), weights / n, times * line(x))

    def _held_out_of(self, best: Candidate) -> HeldOut:
        """Return the held-out scores of the chosen candidate, with the regression where one is added."""
        return self.held_out[best] if self.regression is None else self.regression.held_out

    def ahead(self, rich: Candidate, simple: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer the first to the second, both calibrated by a line.

        The line (Platt) has two parameters: where there is nothing to learn its slope is near 0, and a richer model is
        no better than intercepts.
        """
        if self.scoring != "log_loss":
            return rich.score < simple.score
        link, label = rich.settings.link, self.folds[0].held_out.labels[0]
        entries = [self.held_out[each] for each in (rich, simple)]
        own, other = (_line_losses(*each, link) for each in entries)
        # All unseen cells are there: the error is that of the held-out entries.
        gains = other[entries[1][1] == label] - own[entries[0][1] == label]
        error = float(np.std(gains) * np.sqrt(gains.size) / np.sum(entries[0][2]))
        score = float(np.average(other, weights=entries[1][2]))
        gain = score - float(np.average(own, weights=entries[0][2]))
        return is_clear(gain, error, gains.size, score)

    def prefers_regression(self, added: AddedRegression, best: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer a candidate with the regression to the same without."""
        if self.scoring != "log_loss":
            return added.score < best.score
        gains = self.rank_losses[best] - added.losses
        error = float(np.std(gains) / np.sqrt(gains.size))
        return is_clear(float(np.mean(gains)), error, gains.size, best.score)


def _line_losses(x: Array, labels: Labels, weights: Array, link: Link) -> Array:
    """Return the losses of scores that are calibrated by a line in the log-odds."""
    return losses(ByProbability(platt(x, labels, weights, link=link, counts=True)), x, labels)


def rank_losses(x: Array, labels: Labels, weights: Array) -> Array:
    """Return ``log(1 + r / (RANK_SHARE n))`` of each of n held-out entries, r unseen cells of higher score.

    The order counts and no more. The mean is between those of ``r`` (the AUC) and of ``1 / r`` (average precision): of
    few held-out entries neither the last ones nor the first ones decide it alone. Equal scores count half.
    """
    held_out = labels != labels[-1]  # the label of the bins is that of the last entry
    z = x * -float(labels[-1])
    order = np.argsort(z[~held_out], kind="stable")
    others, above = z[~held_out][order], np.append(0.0, np.cumsum(weights[~held_out][order]))
    ends = [above[np.searchsorted(others, z[held_out], side)] for side in ("left", "right")]
    ranks = above[-1] - 0.5 * (ends[0] + ends[1])
    return np.asarray(np.log1p(ranks / (RANK_SHARE * ranks.size)))


@dataclass(frozen=True)
class ObservedLogOdds:
    """The log-odds of being observed, ``(1 - rho) f(x)``, in the scale of the link; of dislikes the mirror image."""

    rho: Any
    link: Link
    liked: bool

    def __call__(self, x: Array, rows: Positions) -> Array:
        """Return the scores of a block, given ``x`` and its rows."""
        rho, link = self.rho, self.link
        if isinstance(rho, Missingness):
            i, j = np.meshgrid(rows, np.arange(x.shape[1]), indexing="ij")
            q = 1.0 - rho.rho_at(i.ravel(), j.ravel()).reshape(i.shape)
        else:
            q = np.asarray(1.0 if rho is None else 1.0 - rho)
        p = np.clip(q * link.probability(x if self.liked else -x), 1e-12, 1.0 - 1e-12)
        z = np.log(p) - np.log1p(-p)
        return np.asarray((z if self.liked else -z) * (link.level(0.75) / np.log(3.0)))


class _PositiveOnly(Stage):
    """A stage of positive-only data, without a ``rho`` that the user knows."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether one label was observed alone."""
        del found
        return bool(space.label) and not space.base.has_unbounded_risk


class PositiveIntercepts(_PositiveOnly):
    """The penalty of intercepts, without factors."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether there are intercepts."""
        return super().applies(space, found) and space.base.intercept

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best penalty."""
        plain = replace(lines.base, rank=0, implicit_features=False)
        if "l2_intercept" not in lines.free:
            return replace(found, intercepts=lines.trials.score(plain))
        weights = (lines.unit * weight for weight in INTERCEPT_WEIGHTS)
        best = lines.path(weights, lambda weight: replace(plain, l2_intercept=weight))
        return replace(found, intercepts=best)


class PositiveFactors(_PositiveOnly):
    """The penalties of factors, with implicit features where these may be used."""

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best penalties."""
        plain = replace(lines.base, rank=0, implicit_features=False)
        if found.intercepts is not None:
            plain = found.intercepts.settings
        shape = lines.trials.folds[0].train.shape
        rank = min(FIRST_ALONE_RANK, *shape) if "rank" in lines.free else lines.base.rank
        if not rank:
            return found
        largest = largest_penalty(lines, plain)
        if "l2_intercept" in lines.free and plain.l2_intercept is not None:
            most = MAX_INTERCEPT_WEIGHT * lines.unit
            plain = replace(plain, l2_intercept=min(plain.l2_intercept, most))
        start, notes = replace(plain, rank=rank), found.notes
        small = is_searched(lines)
        if not small:
            notes += (
                f"penalties were set by the rule and not searched, as the matrix has more than {MAX_CELLS:.0g} cells",
            )
        if "implicit_features" in lines.free or lines.base.implicit_features:
            best = self._features(lines, start, largest, refine=small)
        elif "l2" in lines.free and small:
            weights = (share * largest for share in PENALTY_SHARES)
            best = lines.path(weights, lambda l2: replace(start, l2=l2))
        else:
            share = FACTOR_SHARE / 2.0 if "l2" in lines.free else 1.0
            l2 = share * largest if "l2" in lines.free else lines.base.l2
            best = lines.trials.score(replace(start, l2=l2))
        return replace(found, factors=best, penalty=largest, notes=notes)

    def _features(
        self, lines: LineSearches, start: ModelSpec, largest: float, *, refine: bool
    ) -> Candidate:
        """Choose the penalties of factors and of implicit features together."""
        penalties: dict[str, Any] = {"implicit_features": True}
        if "activity_floor" in lines.free:
            penalties["activity_floor"] = (0.0, 0.0)
        if "l2" in lines.free:
            penalties["l2"] = FACTOR_SHARE * largest
        if "l2_implicit" in lines.free:
            penalties["l2_implicit"] = FEATURE_SHARE * largest
        best = lines.trials.score(replace(start, **penalties))
        if not refine:
            return best
        best = lines.refine(best, "l2_implicit", STEP)
        return lines.refine(best, "l2", STEP)


class PositiveRanks(_PositiveOnly):
    """Higher ranks, and plain factors beside implicit features, which may do as well with many latent factors."""

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best rank."""
        if found.factors is None or not is_searched(lines):
            return found
        best = double_rank(lines, found.factors)
        self._leave_out_narrower(lines, best)
        if "implicit_features" in lines.free and best.settings.implicit_features:
            self._plain(lines, best, PLAIN_SHARE * found.penalty)
        return replace(found, factors=best)

    def _leave_out_narrower(self, lines: LineSearches, best: Candidate) -> None:
        """Make candidates of lower rank, tried on the way, ineligible."""
        before = lines.trials.eligible
        least = best.settings.rank
        lines.trials.eligible = lambda spec: before(spec) and (not spec.rank or spec.rank >= least)

    def _plain(self, lines: LineSearches, best: Candidate, l2: float) -> None:
        """Try factors without implicit features: at high rank they may do as well."""
        settings = replace(
            best.settings, implicit_features=False, l2_implicit=lines.base.l2_implicit
        )
        if "l2" in lines.free:
            settings = replace(settings, l2=l2)
        if "rank" in lines.free:
            settings = replace(
                settings, rank=min(2 * FIRST_ALONE_RANK, *lines.trials.folds[0].train.shape)
            )
        found = lines.trials.score(settings)
        if found.score < best.score * (1.0 + PLAIN_REFINED_WITHIN):
            double_rank(lines, lines.refine(found, "l2", STEP))


class Regression(_PositiveOnly):
    """The regression of the smaller side, added to the chosen candidate where held-out entries prefer that."""

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Try weights of the regression."""
        trials = lines.trials
        assert isinstance(trials, PositiveOnlyTrials)
        if found.factors is None or "rank" not in lines.free or not is_searched(lines):
            return found
        best = trials.choice
        shape = trials.folds[0].train.shape
        if best is None or not best.settings.rank or not regressible(shape):
            return found
        parts = [regression_factors(fold.train) for fold in trials.folds]
        unit = lines.base.link.level(0.75) / np.log(3.0)
        tried = [
            trials.score_with_regression(best, parts, unit * weight)
            for weight in REGRESSION_WEIGHTS
        ]
        added = min(tried, key=lambda each: each.score)
        if trials.prefers_regression(added, best):
            trials.regression = added
        return found


def is_searched(lines: LineSearches) -> bool:
    """Return whether a table has few enough cells for its penalties to be searched."""
    d1, d2 = lines.trials.folds[0].train.shape
    return d1 * d2 <= MAX_CELLS


def double_rank(lines: LineSearches, best: Candidate) -> Candidate:
    """Double the rank while that helps, and is likely to."""
    if "rank" not in lines.free:
        return best
    while True:
        most = min(MAX_RANK, *lines.trials.folds[0].train.shape)
        rank = min(2 * best.settings.rank, most)
        if rank <= best.settings.rank:
            return best
        wider = lines.trials.score(replace(best.settings, rank=rank))
        gain = 1.0 - wider.score / best.score
        if gain > -MAX_RANK_LOSS:
            best = wider
        if EXPECTED_NEXT_GAIN * gain < MIN_RANK_GAIN:
            return best


def largest_penalty(lines: LineSearches, plain: ModelSpec) -> float:
    """Return the penalty above which factors vanish: the spectral norm of the gradient without them.

    With ``U = 0`` the gradient in U is ``G V``, and with ``V = 0`` that in V is ``G' U``: a subspace iteration that
    never stores G.
    """
    fold = lines.trials.folds[0]
    draws = np.random.Generator(np.random.PCG64(fold.seed))
    problem = problem_of(fold.train, replace(plain, rank=1), lines.trials.options, draws)
    objective = problem.objective
    at = fold.ends.get("intercepts", problem.start)
    width = min(SUBSPACE_WIDTH, *fold.train.shape)
    rows, columns = (np.zeros((size, width)) for size in fold.train.shape)
    V = np.linalg.qr(draws.standard_normal(columns.shape))[0]
    largest = 0.0
    for _ in range(SUBSPACE_ROUNDS):
        _, found = objective.risk_gradient(replace(at, row_factors=rows, column_factors=V))
        U = np.linalg.qr(found.row_factors)[0]
        _, found = objective.risk_gradient(replace(at, row_factors=U, column_factors=columns))
        largest = float(np.linalg.norm(found.column_factors, 2))
        V = np.linalg.qr(found.column_factors)[0]
    # A table that its intercepts explain has no gradient, and a penalty all the same.
    return max(largest, MIN_PENALTY * lines.unit)
