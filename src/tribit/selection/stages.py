"""The stages of a search: from the simplest model to richer ones, each kept only where held-out entries ask for it.

1. Intercepts alone: how strongly to shrink them.
2. Factors: a path of ridge weights, from the one at which factors vanish downwards; then the number of columns.
3. Mask features: how strongly to shrink what they bring, and the factors beside them.
4. Mixtures of the three risks, inside balls.

A path stops soon after the score has turned. The whole costs a few times a fit, not a grid of fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from tribit.selection.record import Candidate
from tribit.selection.rule import imputed_share, mixture
from tribit.selection.settings import Settings
from tribit.selection.trials import Trials

#: Ridge weights of intercepts, from none left to nearly free, as multiples of four times the link's curvature at 0
#: (1 for the logistic link): in such units they do not depend on the scale of X.
INTERCEPT_WEIGHTS = (300.0, 30.0, 10.0, 3.0, 1.0, 0.3)
#: Ridge weights of factors, as shares of the largest that leaves any.
SHARES = (0.8, 0.6, 0.45, 0.33, 0.25, 0.18, 0.13, 0.09, 0.06, 0.04, 0.027, 0.018)
#: The first number of columns, and the most.
RANK, MOST_COLUMNS = 10, 80
#: A column is in use when its singular value is above this share of the largest.
IN_USE = 0.02
COLUMNS_MARGIN = 3e-3  #: another number of columns must lower the score by this share
#: Ridge weights beside fewer columns, as shares of that beside more.
SHRUNK_LESS = (0.6, 0.4, 0.27, 0.18, 0.12)
FEWER = (5, 2, 1)  #: such numbers of columns
#: First ridge weights beside mask features, as multiples of the best without them: of the factors and of the features.
MASK_STARTS = ((1.0, 5.0), (1.5, 2.5))
#: Steps in which they are refined: of the features, of the factors.
MASK_STEP, FACTOR_STEP = 1.8, 1.4
#: A value moves on while that lowers the score by this share.
WORTH = 5e-4
#: Probabilities that a ball of the first mixtures lets an entry reach, and of a smaller one should the first be best.
SMALLER_BALL = 0.75
BALLS = (0.9, 0.99)
#: Mixtures are tried where the matrix has at most so many entries for each observed one: each pass visits them all.
MOST_UNOBSERVED = 100.0
#: Nor are they where mask features, which no mixture has, lower the score by this share.
OUT_OF_REACH = 0.03
#: The least and the most that a first mixture imputes (see :func:`tribit.selection.rule.imputed_share`).
IMPUTED = (0.05, 0.5)
#: The ridge of intercepts under PU alone, as a multiple of what the number of entries asks for.
CORNER_RIDGE = 4.0
#: Mixtures near the rule's are tried where that is within this share of the best score.
NEAR = 0.01
#: A path ends when the score is worse by this share, or the second time it is worse at all.
FAR = 0.005


class Stages:
    """The stages of a search, each from what the one before it found."""

    def __init__(self, trials: Trials, base: Settings, free: frozenset[str]) -> None:
        self.trials, self.base, self.free = trials, base, free
        self.notes: list[str] = []
        #: The best factors with no fewer columns than the first had.
        self.wide: Candidate | None = None
        zero = np.zeros(1)
        self.unit = 4.0 * float(trials.options.link.second(zero, 1)[0])

    def run(self) -> None:
        """Go through the stages."""
        best: Candidate | None = None
        if "gammas" in self.free or not self.base.mixed:
            best = self._intercepts()
            best = self._factors(best)
            # What the mask brings has room in more columns than the labels alone can fill.
            featured = self._mask_features(self.wide or best)
            if featured.score < best.score:
                best = featured
        if "gammas" in self.free or self.base.mixed:
            self._mixtures(best)

    def _intercepts(self) -> Candidate:
        """Choose the ridge of intercepts, without factors."""
        plain = replace(self.base, gammas=(1.0, 0.0, 0.0), rank=0, mask_features=False)
        if "rank" in self.free or self.base.rank:
            # Factors alone are inside a ball: a model without any needs none.
            plain = replace(plain, radius=None, alpha=None)
        if not self.trials.options.intercept:
            return Candidate(plain, np.inf, (), 0.0, 0)
        if "l2_intercept" not in self.free:
            return self.trials.score(plain)
        weights = (self.unit * weight for weight in INTERCEPT_WEIGHTS)
        return self._path(weights, lambda weight: replace(plain, l2_intercept=weight))

    def _factors(self, start: Candidate) -> Candidate:
        """Choose the ridge and the number of columns of the factors."""
        shape = self.trials.folds[0].train.shape
        rank = min(RANK, *shape) if "rank" in self.free else self.base.rank
        settings = replace(
            start.settings, rank=rank, radius=self.base.radius, alpha=self.base.alpha
        )
        if not rank:
            return start
        if "l2" in self.free:
            largest = self._largest_ridge(start.settings)
            best = self._path(
                (share * largest for share in SHARES), lambda l2: replace(settings, l2=l2)
            )
        else:
            best = self.trials.score(settings)
        # Where factors bring next to nothing, more of them bring no more.
        helps = best.score < start.score * (1.0 - COLUMNS_MARGIN)
        if "rank" not in self.free or not helps:
            return best
        self.wide = self._more_columns(best)
        return self._fewer_columns(self.wide)

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
        return found if found.score < best.score * (1.0 - COLUMNS_MARGIN) else best

    def _more_columns(self, best: Candidate) -> Candidate:
        """Double the number of columns while all of them are in use and more of them help."""
        while True:
            rank = min(2 * best.settings.rank, MOST_COLUMNS, *self.trials.folds[0].train.shape)
            if rank <= best.settings.rank or not self._all_in_use():
                return best
            wider = self.trials.score(replace(best.settings, rank=rank))
            if wider.score >= best.score * (1.0 - COLUMNS_MARGIN):
                return best
            best = wider

    def _all_in_use(self) -> bool:
        """Return whether every column of the last factors has a singular value of some size."""
        end = self.trials.folds[0].ends["factors"]
        triangles = (np.linalg.qr(F)[1] for F in (end.row_factors, end.column_factors))
        left, right = triangles
        values = np.linalg.svd(left @ right.T, compute_uv=False)
        return bool(values[-1] > IN_USE * values[0])

    def _mask_features(self, plain: Candidate) -> Candidate:
        """Choose whether the mask says who a row is, and how strongly to shrink that."""
        if "mask_features" not in self.free and not self.base.mask_features:
            return plain
        if not plain.settings.rank:
            return plain
        if self.base.radius is not None or self.base.alpha is not None:
            return plain
        asked = "mask_features" not in self.free
        tried: list[Candidate] = []
        for start in MASK_STARTS:
            tried.append(self.trials.score(self._with_mask(plain.settings, *start)))
            if tried[-1].score < plain.score:
                break
            if tried[-1].score > plain.score * (1.0 + NEAR) and not asked:
                return plain
        best = first = min(tried, key=lambda candidate: candidate.score)
        if first.score >= plain.score and not asked:
            return plain
        best = self._refined(best, "l2_mask", MASK_STEP)
        best = self._refined(best, "l2", FACTOR_STEP)
        if best is first:
            return best
        best = self._refined(best, "l2_mask", MASK_STEP**0.5)
        return self._refined(best, "l2", FACTOR_STEP**0.5)

    def _with_mask(self, settings: Settings, factors: float, features: float) -> Settings:
        l2 = settings.l2 * (factors if "l2" in self.free else 1.0)
        l2_mask = settings.l2 * features if "l2_mask" in self.free else self.base.l2_mask
        return replace(settings, mask_features=True, l2=l2, l2_mask=l2_mask)

    def _mixtures(self, best: Candidate | None) -> None:
        """Try mixtures inside balls: from the rule's, to others where that comes near the best so far."""
        base = self.base if best is None else best.settings
        seen = self.trials.folds[0].train
        if "gammas" in self.free:
            if seen.density * MOST_UNOBSERVED < 1.0:
                self.notes.append(
                    "mixtures were not tried, so sparse is the matrix: pass gammas to have one"
                )
                return
            self._corner(best)
            if self._far_ahead(best):
                self.notes.append(
                    "mixtures were not tried, so far ahead are mask features, which they lack"
                )
                return
            share = float(np.clip(self._imputed_share(best), *IMPUTED))
            gammas = mixture(share, seen.density, seen.n_likes / seen.n_observed)
        else:
            gammas, share = self.base.gammas, None
        settings = replace(
            base,
            gammas=gammas,
            rank=base.rank or (RANK if "rank" in self.free else 0),
            radius=self.base.radius,
            alpha=self.base.alpha,
            mask_features=False,
            l2_mask=self.base.l2_mask,
        )
        if best is None:
            settings = self._first_ridges(settings, seen.density)
        found = self._balls(settings)
        if share is None or best is None:
            return
        if found.score > best.score * (1.0 + NEAR):
            return
        for factor in (2.0, 0.5):
            other = mixture(min(factor * share, 1.0), seen.density, seen.n_likes / seen.n_observed)
            self.trials.score(replace(found.settings, gammas=other))

    def _first_ridges(self, settings: Settings, density: float) -> Settings:
        """Return ridges for a mixture that the user gave: as much stronger as an observed entry counts more."""
        imputed = 1.0 - settings.gammas[0]
        weight = settings.gammas[0] + imputed / density
        if "l2" in self.free:
            settings = replace(settings, l2=self.unit * weight)
        if "l2_intercept" in self.free:
            settings = replace(settings, l2_intercept=self.unit * weight)
        return settings

    def _corner(self, best: Candidate | None) -> None:
        """Try PU alone (NU where dislikes prevail): that what was not seen is disliked may be near the truth."""
        if best is None or not best.settings.rank:
            return
        seen = self.trials.folds[0].train
        gammas = (0.0, 1.0, 0.0) if seen.n_likes >= seen.n_dislikes else (0.0, 0.0, 1.0)
        ridges: dict[str, Any] = {}
        # It sums over all entries, with observed ones 1 / q times: so much stronger are its ridges.
        if "l2" in self.free:
            ridges["l2"] = best.settings.l2 / seen.density
        if "l2_intercept" in self.free and best.settings.l2_intercept is not None:
            ridges["l2_intercept"] = CORNER_RIDGE * best.settings.l2_intercept / seen.density
        settings = replace(
            best.settings,
            gammas=gammas,
            radius=self.base.radius,
            alpha=self.base.alpha,
            mask_features=False,
            l2_mask=self.base.l2_mask,
            **ridges,
        )
        if "radius" in self.free:
            settings = self._inside(settings, self.trials.options.link.level(SMALLER_BALL))
        found = self.trials.score(settings)
        if found.score < best.score * (1.0 + NEAR):
            self._refined(self._refined(found, "l2_intercept", 3.0), "radius", 1.5)

    def _far_ahead(self, best: Candidate | None) -> bool:
        """Return whether mask features have gained more than any mixture without them could."""
        plain = [c.score for c in self.trials.candidates if c.settings.family == "factors"]
        if best is None or not best.settings.mask_features or not plain:
            return False
        return best.score < min(plain) * (1.0 - OUT_OF_REACH)

    def _balls(self, settings: Settings) -> Candidate:
        """Choose the radius of a mixture, and its ridge where that has not been chosen before it."""
        link = self.trials.options.link
        if "radius" not in self.free:
            found = self.trials.score(settings)
        else:
            radii = (link.level(probability) for probability in BALLS)
            found = self._path(radii, lambda radius: self._inside(settings, radius))
            if found.settings.radius == link.level(BALLS[0]):
                smaller = self.trials.score(self._inside(settings, link.level(SMALLER_BALL)))
                found = min(found, smaller, key=lambda candidate: candidate.score)
        if self.base.gammas[0] < 1.0:  # no stage before this one has chosen a ridge
            found = self._refined(found, "l2", 2.0)
            found = self._refined(found, "l2_intercept", 3.0)
        return found

    def _inside(self, settings: Settings, radius: float) -> Settings:
        """Return the settings with a ball; entries have the same bound then, where alpha is free."""
        alpha = radius if "alpha" in self.free else settings.alpha
        return replace(settings, radius=radius, alpha=alpha)

    def _imputed_share(self, best: Candidate | None) -> float:
        """Return what the rule says of the best model so far, from its probabilities of held-out entries."""
        if best is None or best not in self.trials.held_out:
            return 0.0
        x, labels, weights = self.trials.held_out[best]
        return imputed_share(self.trials.options.link.probability(x), labels, weights)

    def _refined(self, best: Candidate, name: str, step: float) -> Candidate:
        """Move one value up or down by a factor, as long as that helps."""
        if name not in self.free or not getattr(best.settings, name):
            return best
        for factor in (step, 1.0 / step):
            moved = best
            while True:
                value = getattr(moved.settings, name) * factor
                changed = replace(moved.settings, **{name: value})
                if name == "radius":
                    changed = self._inside(changed, value)
                tried = self.trials.score(changed)
                if tried.score >= moved.score * (1.0 - WORTH):
                    break
                moved = tried
            if moved is not best:
                return moved
        return best

    def _path(self, values: Iterable[float], settings: Callable[[float], Settings]) -> Candidate:
        """Try values one after the other until the score has turned; return the best."""
        best: Candidate | None = None
        worse = 0
        for value in values:
            tried = self.trials.score(settings(value))
            if best is None or tried.score < best.score:
                best, worse = tried, 0
                continue
            worse += 1
            if worse > 1 or tried.score > best.score * (1.0 + FAR):
                break
        assert best is not None
        return best

    def _largest_ridge(self, settings: Settings) -> float:
        """Return the ridge weight above which the factors vanish: the spectral norm of the gradient without them.

        At a minimum with ``U = V = 0`` the ridge ``l2 |X|_*`` outweighs every direction of the gradient.
        """
        fold = self.trials.folds[0]
        seen, link = fold.train, self.trials.options.link
        if settings.family in fold.ends:
            x = fold.ends[settings.family].at(seen.rows, seen.columns)
        else:
            x = np.zeros(seen.n_observed)
        slopes = np.where(seen.labels > 0, link.first(x, 1), link.first(x, -1))
        G = csr_array((slopes, (seen.rows, seen.columns)), shape=seen.shape)
        if min(G.shape) <= 2:
            return float(np.linalg.norm(G.toarray(), 2))
        v0 = np.ones(min(G.shape))
        return float(svds(G, k=1, v0=v0, return_singular_vectors=False)[0])
