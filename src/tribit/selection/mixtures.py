"""The stage of a search that tries mixtures of the three risks, inside balls.

It tries PU alone (NU where dislikes prevail), then the mixtures that held-out entries propose beside PN
(:mod:`tribit.selection.gammas`), and the best of them with implicit features where these improved the score; or the
mixture that the user gave, with its radius and penalties.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

from tribit.backends.objective import IMPLICIT_SHARE, SIDE_SHARE
from tribit.model.spec import ModelSpec
from tribit.selection.gammas import mixture, proposed_shares
from tribit.selection.record import Candidate
from tribit.selection.space import SearchSpace
from tribit.selection.stages import FIRST_RANK, REFINED_WITHIN, Found, LineSearches, Stage

#: Probabilities that balls let an entry reach: the balls of the first mixtures, and a smaller one if the first is best.
SMALLER_BALL = 0.75
BALLS = (0.9, 0.99)
PU = (0.0, 1.0, 0.0)
#: Imputed share that is tried where the best model is not overconfident: no better alone, a mixture in a ball errs
#: elsewhere, and had a third of the weight in stacks on votes.
SMALL_SHARE = 0.05
#: Most entries for each observed one at which mixtures are tried: each of their passes visits every entry.
MAX_INVERSE_DENSITY = 100.0
#: Highest rank of mixtures: on votes a search with rank 40 took twice as long as with 20, and was no better.
MAX_MIXTURE_RANK = 20
#: Share of the score that implicit features, which no mixture has, must gain for mixtures to be skipped.
MAX_FEATURE_GAIN = 0.03
#: Most cells of a table in which mixtures with implicit features are tried: L-BFGS visits all some hundred times.
MAX_CELLS = 2e6
#: Penalty of implicit features under PU alone, in units of their penalty under PN scaled as that of the factors is: on
#: three simulated tables (two of 300 x 200 cells, one of 150 x 90) 30 was better than 1 and 5.
CORNER_IMPLICIT_FACTOR = 30.0
#: Penalty of intercepts under PU alone, relative to the penalty under PN times the inverse density.
CORNER_INTERCEPT_FACTOR = 4.0


class Mixtures(Stage):
    """Mixtures, from the best model without one, or the one that the user gave."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether unobserved cells may count, beside observed ones that correct for them."""
        del found
        if space.label:
            return space.base.has_unbounded_risk
        return "gammas" in space.free or space.base.uses_unobserved

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Try mixtures, and the best of them with features where it comes near the best so far."""
        notes = self._without_features(lines, found.best)
        self._with_features(lines, found.best)
        return replace(found, notes=(*found.notes, *notes))

    def _without_features(self, lines: LineSearches, best: Candidate | None) -> list[str]:
        """Try mixtures of plain factors, or the user's own; return remarks on those that were not tried."""
        base = lines.base if best is None else best.settings
        seen = lines.trials.folds[0].train
        if "gammas" in lines.free:
            if seen.density * MAX_INVERSE_DENSITY < 1.0:
                return [
                    "mixtures were not tried, as the matrix is too sparse: pass gammas to have one"
                ]
            self._try_corner(lines, best)
            if self._features_far_ahead(lines, best):
                return [
                    "mixtures near PN were not tried, as implicit features, which they lack, have a far better score"
                ]
            shares = self._shares(lines, best) or [SMALL_SHARE]
            gammas, *others = (
                mixture(share, self._density(lines), seen.base_rate) for share in shares
            )
        else:
            gammas, others = lines.base.gammas, []
        settings = replace(
            base,
            gammas=gammas,
            rank=self._rank(lines, base),
            radius=lines.base.radius,
            alpha=lines.base.alpha,
            implicit_features="implicit_features" not in lines.free
            and lines.base.implicit_features,
            side_features="side_features" not in lines.free and lines.base.side_features,
            l2_implicit=lines.base.l2_implicit,
        )
        if best is None:
            settings = self._first_penalties(lines, settings, seen.density)
        found = self._choose_radius(lines, settings)
        for other in others:
            lines.trials.score(replace(found.settings, gammas=other))
        return []

    def _density(self, lines: LineSearches) -> float:
        """Density of all observed entries, for which settings are meant; a fold has a share of them."""
        first = lines.trials.folds[0]
        return first.train.density / first.share

    def _rank(self, lines: LineSearches, settings: ModelSpec) -> int:
        """Return the rank of mixtures beside a model: that of the model, up to a limit."""
        if "rank" not in lines.free:
            return settings.rank
        return min(settings.rank or FIRST_RANK, MAX_MIXTURE_RANK)

    def _first_penalties(
        self, lines: LineSearches, settings: ModelSpec, density: float
    ) -> ModelSpec:
        """Return penalties for the user's own mixture: larger in proportion to the weight of an observed entry."""
        imputed = 1.0 - settings.gammas[0]
        weight = settings.gammas[0] + imputed / density
        if "l2" in lines.free:
            settings = replace(settings, l2=lines.unit * weight)
        if "l2_intercept" in lines.free:
            settings = replace(settings, l2_intercept=lines.unit * weight)
        if "l2_implicit" in lines.free:
            settings = replace(settings, l2_implicit=IMPLICIT_SHARE * settings.l2)
        if "l2_side" in lines.free:
            settings = replace(settings, l2_side=SIDE_SHARE * settings.l2)
        return settings

    def _try_corner(self, lines: LineSearches, best: Candidate | None) -> None:
        """Try PU alone (NU where dislikes prevail), which treats unobserved cells as dislikes."""
        if best is None or not best.settings.rank:
            return
        seen = lines.trials.folds[0].train
        gammas = PU if seen.n_likes >= seen.n_dislikes else (0.0, 0.0, 1.0)
        penalties: dict[str, Any] = {}
        # It sums over all entries, with observed ones 1 / q times, and its penalties grow by as much.
        if "l2" in lines.free:
            penalties["l2"] = best.settings.l2 / seen.density
        if "l2_intercept" in lines.free and best.settings.l2_intercept is not None:
            penalties["l2_intercept"] = (
                CORNER_INTERCEPT_FACTOR * best.settings.l2_intercept / seen.density
            )
        settings = replace(
            best.settings,
            gammas=gammas,
            rank=self._rank(lines, best.settings),
            radius=lines.base.radius,
            alpha=lines.base.alpha,
            implicit_features=False,
            side_features=False,
            l2_implicit=lines.base.l2_implicit,
            **penalties,
        )
        if "radius" in lines.free:
            settings = lines.with_radius(settings, lines.base.link.level(SMALLER_BALL))
        found = lines.trials.score(settings)
        if found.score < best.score * (1.0 + REFINED_WITHIN):
            lines.refine(lines.refine(found, "l2_intercept", 3.0), "radius", 1.5)

    def _features_far_ahead(self, lines: LineSearches, best: Candidate | None) -> bool:
        """Return whether implicit features have gained more than any mixture without them could."""
        plain = [c.score for c in lines.trials.candidates if c.settings.family == "factors"]
        if best is None or not best.settings.implicit_features or not plain:
            return False
        return best.score < min(plain) * (1.0 - MAX_FEATURE_GAIN)

    def _choose_radius(self, lines: LineSearches, settings: ModelSpec) -> Candidate:
        """Choose the radius of a mixture, and its penalties where no stage before has chosen them."""
        link = lines.base.link
        if "radius" not in lines.free:
            found = lines.trials.score(settings)
        else:
            radii = (link.level(probability) for probability in BALLS)
            found = lines.path(radii, lambda radius: lines.with_radius(settings, radius))
            if found.settings.radius == link.level(BALLS[0]):
                smaller = lines.trials.score(lines.with_radius(settings, link.level(SMALLER_BALL)))
                found = min(found, smaller, key=lambda candidate: candidate.score)
        if lines.base.gammas[0] < 1.0:  # no stage before this one has chosen a penalty
            found = lines.refine(found, "l2", 2.0)
            found = lines.refine(found, "l2_intercept", 3.0)
            found = lines.refine(found, "l2_implicit", 2.0)
            found = lines.refine(found, "l2_side", 3.0)
        return found

    def _with_features(self, lines: LineSearches, best: Candidate | None) -> None:
        """Try the best mixture, where it comes near, with the implicit features of the best model, where it has any.

        The penalty of the features is to that of the factors as it is in that model, and far stronger under PU or NU
        alone (``CORNER_IMPLICIT_FACTOR``).
        """
        mixtures = [c for c in lines.trials.candidates if c.settings.family == "mixture"]
        if best is None or not mixtures or not {"gammas", "implicit_features"} <= lines.free:
            return
        found, featured = min(mixtures, key=attrgetter("score")), best.settings
        rows, columns = lines.trials.folds[0].train.shape
        near = found.score <= best.score * (1.0 + REFINED_WITHIN)
        if not (featured.implicit_features and near and rows * columns <= MAX_CELLS):
            return
        l2_implicit = featured.l2_implicit
        if "l2_implicit" in lines.free and l2_implicit is not None and featured.l2:
            l2_implicit *= found.settings.l2 / featured.l2
            l2_implicit *= 1.0 if found.settings.gammas[0] else CORNER_IMPLICIT_FACTOR
        lines.trials.score(
            replace(
                found.settings,
                implicit_features=True,
                l2_implicit=l2_implicit,
                activity_floor=featured.activity_floor,
            )
        )

    def _shares(self, lines: LineSearches, best: Candidate | None) -> tuple[float, ...]:
        """Return the weights of imputation that held-out entries propose beside the best model so far."""
        if best is None or best not in lines.trials.scores:
            return ()
        free = "radius" in lines.free
        radius = lines.base.link.level(BALLS[0]) if free else lines.base.radius
        spec = replace(lines.base, radius=radius, gammas=PU)
        return proposed_shares(lines.trials, best, spec, self._density(lines))[2]
