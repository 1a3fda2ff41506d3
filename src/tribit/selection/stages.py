"""The stages of a search: from the simplest model to richer ones, each kept only where held-out entries ask for it.

1. Intercepts alone: how strongly to shrink them.
2. Factors: a path of ridge weights, from the one at which factors vanish downwards.
3. Implicit features: the ridge weights of their parts and of the factors beside them. Where they do not decide the
   matter, the number of columns of factors without them.
4. Mixtures of the three risks, inside balls (:mod:`tribit.selection.mixtures`).

A path stops soon after the score has turned. The whole costs a few times a fit, not a grid of fits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tribit.model.spec import ModelSpec
from tribit.selection.mixtures import Mixtures
from tribit.selection.record import Candidate
from tribit.selection.ridges import largest_ridge
from tribit.selection.steps import FAR, NEAR, RANK, Steps
from tribit.selection.trials import Trials

#: Ridge weights of intercepts, from none left to nearly free, as multiples of four times the link's curvature at 0
#: (1 for the logistic link): in such units they do not depend on the scale of X.
INTERCEPT_WEIGHTS = (300.0, 30.0, 10.0, 3.0, 1.0, 0.3)
#: Ridge weights of factors, as shares of the weight at which they vanish.
SHARES = (0.8, 0.6, 0.45, 0.33, 0.25, 0.18, 0.13, 0.09, 0.06, 0.04, 0.027, 0.018)
#: Factor by which implicit features widen the factors, and the largest number of columns that is tried. On each of the
#: splits 10 to 14 of MovieLens-100k 4 times the columns beside implicit features lowered the log-loss, by .0002 to
#: .0027; twice the columns gain about half of that, for half of the cost.
WIDER, MOST_COLUMNS = 4, 80
#: Singular value, as a share of the largest, above which a column is in use.
IN_USE = 0.02
HELPS = 3e-3  #: share of the score that factors must gain for other numbers of columns to be tried
#: Share of the score that implicit features must gain for other numbers of columns without them not to be tried: these
#: gained up to .009 on MovieLens-100k (splits 10 to 14) and on drawn tables, beside gains of .04 to .06 by features.
DECIDED = 0.02
#: Ridge weights that are tried with a lower rank, as shares of the best at the higher one.
SHRUNK_LESS = (0.6, 0.4, 0.27, 0.18, 0.12)
FEWER = (5, 2, 1)  #: the lower ranks
#: First ridge weights of the factors and of the implicit features, as multiples of the best ``l2`` without features.
IMPLICIT_STARTS = ((1.0, 5.0), (1.5, 2.5))
#: Factors by which a line search changes the ridge of the features and that of the factors.
IMPLICIT_STEP, FACTOR_STEP = 1.8, 1.4
#: How often the step in the ridge of the factors is doubled, in logarithms: where features tell nearly everything the
#: ridge may be ten times that without them.
FACTOR_DOUBLINGS = 2
#: Ridge weights of side features, as multiples of the ridge of factors.
SIDE_WEIGHTS = (60.0, 25.0, 10.0, 4.0, 1.5)


class Stages(Steps):
    """The stages of a search, each from what the one before it found."""

    def __init__(self, trials: Trials, base: ModelSpec, free: frozenset[str]) -> None:
        super().__init__(trials, base, free)
        self.notes: list[str] = []

    def run(self) -> None:
        """Go through the stages."""
        best: Candidate | None = None
        if "gammas" in self.free or not self.base.mixed:
            plain = self._intercepts()
            best = self._factors(plain)
            # Implicit features can use more columns than the labels alone: they are tried beside the first number.
            featured = self._implicit_features(best)
            if featured.score >= best.score * (1.0 - DECIDED):
                best = self._columns(best, plain)
            # Mixtures, whose cost grows faster with the columns, go on from the one that is not widened.
            if featured.score < best.score:
                best = featured
            sided = self._side_features(best)
            if sided.settings.implicit_features and "rank" in self.free:
                self._widened(sided)
        if "gammas" in self.free or self.base.mixed:
            self.notes += Mixtures(self.trials, self.base, self.free).run(best)

    def _intercepts(self) -> Candidate:
        """Choose the ridge of intercepts, without factors."""
        plain = replace(
            self.base,
            gammas=(1.0, 0.0, 0.0),
            rank=0,
            implicit_features=False,
            side_features=False,
        )
        if "rank" in self.free or self.base.rank:
            # Factors alone are inside a ball: a model without any needs none.
            plain = replace(plain, radius=None, alpha=None)
        if not self.base.intercept:
            return Candidate(plain, np.inf, (), 0.0, 0)
        if "l2_intercept" not in self.free:
            return self.trials.score(plain)
        weights = (self.unit * weight for weight in INTERCEPT_WEIGHTS)
        # The factors beside them keep this ridge. A calibrator of intercepts alone would stretch over-shrunk ones, or
        # shrink those that are too free, which factors with a scale of their own do not allow.
        return self._path(
            weights, lambda weight: replace(plain, l2_intercept=weight), self.trials.uncalibrated
        )

    def _factors(self, start: Candidate) -> Candidate:
        """Choose the ridge of the factors, with the first number of columns."""
        shape = self.trials.folds[0].train.shape
        rank = min(RANK, *shape) if "rank" in self.free else self.base.rank
        settings = replace(
            start.settings, rank=rank, radius=self.base.radius, alpha=self.base.alpha
        )
        if not rank:
            return start
        if "l2" not in self.free:
            return self.trials.score(settings)
        largest = self._largest_ridge(start.settings)
        return self._path(
            (share * largest for share in SHARES), lambda l2: replace(settings, l2=l2)
        )

    def _columns(self, first: Candidate, plain: Candidate) -> Candidate:
        """Choose the number of columns of the factors, from the best with the first number."""
        # Where factors bring next to nothing, more of them bring no more.
        helps = first.score < plain.score * (1.0 - HELPS)
        if "rank" not in self.free or not helps:
            return first
        best = self._more_columns(first, first)
        if best is not first:
            # The ridge was found with too few columns; where it becomes smaller more of them may be in use.
            best = self._more_columns(self._refined(best, "l2", FACTOR_STEP), first)
        return self._fewer_columns(best)

    def _fewer_columns(self, best: Candidate) -> Candidate:
        """Try far fewer columns, shrunk less: the ridge that keeps many quiet shrinks the few that count as well."""
        l2 = best.settings.l2
        shares = SHRUNK_LESS if "l2" in self.free else (1.0,)
        firsts = [
            self.trials.score(replace(best.settings, rank=rank, l2=shares[0] * l2))
            for rank in FEWER
            if rank < best.settings.rank
        ]
        if not firsts:
            return best
        narrow = min(firsts, key=lambda candidate: candidate.score)
        if narrow.score > best.score * (1.0 + FAR):
            return best
        found = self._path(
            [share * l2 for share in shares], lambda l2: replace(narrow.settings, l2=l2)
        )
        return found if self.trials.ahead(found, best) else best

    def _more_columns(self, best: Candidate, first: Candidate) -> Candidate:
        """Double the number of columns while all of them are in use and more of them help.

        Where twice the columns help, four times are taken unless they are clearly worse (see :meth:`_widened`).
        """
        while (wider := self._wider(best, 2)) is not None:
            doubtful = best is first or wider.settings.rank > WIDER * first.settings.rank
            if not self.trials.ahead(wider, best) if doubtful else self.trials.behind(wider, best):
                break
            best = wider
        return best

    def _wider(self, best: Candidate, factor: int) -> Candidate | None:
        """Try the same with more columns; None where there are no more, or where some are not in use already."""
        most = min(MOST_COLUMNS, *self.trials.folds[0].train.shape)
        rank = min(factor * best.settings.rank, most)
        if rank <= best.settings.rank or not self._all_in_use(best.settings.family):
            return None
        return self.trials.score(replace(best.settings, rank=rank))

    def _all_in_use(self, family: str = "factors") -> bool:
        """Return whether every column of the last factors of a family has a singular value of some size.

        With implicit features these are the parts: they combine to a column of 0 where their column is 0.
        """
        end = self.trials.folds[0].ends[family]
        triangles = (np.linalg.qr(F)[1] for F in (end.row_factors, end.column_factors))
        left, right = triangles
        values = np.linalg.svd(left @ right.T, compute_uv=False)
        return bool(values[-1] > IN_USE * values[0])

    def _implicit_features(self, plain: Candidate) -> Candidate:
        """Choose whether to use implicit features, and their ridge weight."""
        if "implicit_features" not in self.free and not self.base.implicit_features:
            return plain
        if not plain.settings.rank:
            return plain
        asked = "implicit_features" not in self.free
        if not asked and (self.base.radius is not None or self.base.alpha is not None):
            return plain
        tried: list[Candidate] = []
        for start in IMPLICIT_STARTS:
            tried.append(self.trials.score(self._with_features(plain.settings, *start)))
            if tried[-1].score < plain.score:
                break
            if tried[-1].score > plain.score * (1.0 + NEAR) and not asked:
                return plain
        best = first = min(tried, key=lambda candidate: candidate.score)
        if first.score >= plain.score and not asked:
            return plain
        best = self._refined(best, "l2_implicit", IMPLICIT_STEP)
        best = self._refined(best, "l2", FACTOR_STEP, FACTOR_DOUBLINGS)
        if best is not first:
            best = self._refined(best, "l2_implicit", IMPLICIT_STEP**0.5)
            best = self._refined(best, "l2", FACTOR_STEP**0.5)
        return self._activity(best)

    def _widened(self, best: Candidate) -> Candidate:
        """Take four times the columns unless they are clearly worse, last and once.

        A ridge on both factors is a trace norm, under which too many columns do no harm but cost. The ridges were
        chosen with few columns on the same held-out entries, which favours few.
        """
        wider = self._wider(best, WIDER)
        if wider is None or self.trials.behind(wider, best):
            return best
        self.trials.preferred[wider.settings.family] = wider
        return wider

    def _activity(self, best: Candidate) -> Candidate:
        """Let short columns, then short rows, count as inactive, where that is clearly better for held-out entries."""
        if "activity_floor" not in self.free:
            return best
        for keep_rows, keep_columns in ((1.0, 0.0), (0.0, 1.0)):
            rows, columns = best.settings.activity_floor
            floor = keep_rows * rows, keep_columns * columns
            tried = self.trials.score(replace(best.settings, activity_floor=floor))
            if self.trials.ahead(tried, best):
                best = tried
        # Held-out entries are those of rows as long as they are now: what shorter ones need is kept unless they object.
        self.trials.preferred[best.settings.family] = best
        return best

    def _side_features(self, plain: Candidate) -> Candidate:
        """Choose whether to use side features, and their ridge weight."""
        if self.trials.options.side is None or not self.base.side_features:
            return plain
        settings = replace(plain.settings, side_features=True)
        if "l2_side" in self.free:
            unit = settings.l2 if settings.rank else self.unit
            best = self._path(
                (share * unit for share in SIDE_WEIGHTS), lambda l2: replace(settings, l2_side=l2)
            )
        else:
            best = self.trials.score(settings)
        if "side_features" in self.free and best.score >= plain.score:
            return plain
        return self._refined(best, "l2", FACTOR_STEP)

    def _with_features(self, settings: ModelSpec, factors: float, features: float) -> ModelSpec:
        l2 = settings.l2 * (factors if "l2" in self.free else 1.0)
        l2_implicit = (
            settings.l2 * features if "l2_implicit" in self.free else self.base.l2_implicit
        )
        return replace(settings, implicit_features=True, l2=l2, l2_implicit=l2_implicit)

    def _largest_ridge(self, settings: ModelSpec) -> float:
        """Return the ridge weight above which the factors vanish, of the table that settings are meant for."""
        fold = self.trials.folds[0]
        end = fold.ends.get(settings.family)
        return largest_ridge(fold.train, self.base.link, end) / fold.ridge_share
