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

from dataclasses import replace
from typing import Any

import numpy as np

from tribit.data.observations import Observations
from tribit.metrics.entries import SCORINGS, Array, ByProbability, Labels, losses
from tribit.metrics.unseen import Transform, against_unseen
from tribit.model.calibrator_fits import platt
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Missingness
from tribit.model.spec import ModelSpec
from tribit.selection.mixtures import Mixtures
from tribit.selection.problem import make_problem
from tribit.selection.record import Candidate
from tribit.selection.stages import INTERCEPT_WEIGHTS, MOST_COLUMNS, SHARES
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
#: Factor by which a line search changes a ridge.
STEP = 1.6
#: Share of the score that twice the columns must gain; and what the next doubling is expected to gain, as a share of
#: the last one's gain: on MovieLens-100k (seed 10) it gained .24% and then .08%.
COLUMNS_GAIN, NEXT_GAIN = 1e-3, 0.3
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


class UnseenTrials(Trials):
    """Trials in which held-out entries of one label stand against all unseen cells."""

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
            # Held-out entries stand for those of the training part, whose probability the model gives.
            weight=fold.train.n_observed / fold.held_out.n_observed,
            transform=_observed(settings.rho, link, fold) if settings.unbounded else None,
        )
        curve = ByProbability(platt(x, labels, weights, link=link))
        return SCORINGS[self.scoring](curve, x, labels, weights), (x, labels, weights)

    def _ahead(self, rich: Candidate, simple: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer the first to the second, by their own losses."""
        if self.scoring != "log_loss":
            return rich.score < simple.score
        own, other = self._losses(rich), self._losses(simple)
        gains = other[0] - own[0]
        error = float(np.std(gains)) * np.sqrt(gains.size) * own[1]
        return self._clear(simple.score - rich.score, error, gains.size, simple.score)

    def _losses(self, candidate: Candidate) -> tuple[Array, float]:
        """Return the losses of the held-out entries, and how much one of them weighs in the score."""
        x, labels, weights = self.held_out[candidate]
        link = candidate.settings.link
        held_out = labels == self.folds[0].held_out.labels[0]
        curve = ByProbability(platt(x, labels, weights, link=link))
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
    """The stages for one label: intercepts, factors with implicit features, more columns; or PU with a given rho."""

    def __init__(self, trials: Trials, base: ModelSpec, free: frozenset[str]) -> None:
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
            self._more_columns(best)

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

    def _more_columns(self, best: Candidate) -> None:
        """Double the number of columns while that helps, and is likely to."""
        if "rank" not in self.free:
            return
        while True:
            most = min(MOST_COLUMNS, *self.trials.folds[0].train.shape)
            rank = min(2 * best.settings.rank, most)
            if rank <= best.settings.rank:
                return
            wider = self.trials.score(replace(best.settings, rank=rank))
            gain = 1.0 - wider.score / best.score
            if gain < COLUMNS_GAIN or NEXT_GAIN * gain < COLUMNS_GAIN:
                return
            best = wider

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
