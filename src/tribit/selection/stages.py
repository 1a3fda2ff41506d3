"""The stages of a search, from the simplest model to more complex ones, and the line searches that they use.

1. Intercepts alone: how strongly to shrink them.
2. Factors: a path of penalties, from the one at which factors vanish downwards, and the power of the number of entries
   in them.
3. Ranks: higher ones, the penalty of the intercepts beside them, and low ranks with smaller penalties.
4. Implicit features: their penalties and that of the factors beside them.
5. Side features, and a higher rank beside features.
6. Mixtures of the three risks, inside balls (:mod:`tribit.selection.mixtures`).

All candidates may become members of a stack (:mod:`tribit.selection.stacking`). Positive-only data have stages of their
own (:mod:`tribit.selection.positive_only`). A path stops soon after the score has turned. The whole costs a few times
a fit, not a grid of fits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from scipy.sparse.linalg import svds

from tribit.data.observations import Observations
from tribit.metrics.entries import Array
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.spec import ModelSpec
from tribit.selection.record import Candidate
from tribit.selection.space import SearchSpace
from tribit.selection.trials import Trials

#: Rank of the first factors that are tried.
FIRST_RANK = 10
#: Share of the score that a step must gain for a line search to go on.
MIN_STEP_GAIN = 5e-4
#: Share of the best score within which a family is refined further.
REFINED_WITHIN = 0.02
#: Share of the best score by which a worse one ends a path; two worse ones in a row end it too.
PATH_END_LOSS = 0.005


class LineSearches:
    """Line searches over the hyperparameters of a space, on the folds of some trials."""

    def __init__(self, trials: Trials, space: SearchSpace) -> None:
        self.trials, self.space = trials, space
        #: The unit of penalties: in it they mean the same whatever the scale of X and of the weights of entries.
        self.unit = 4.0 * space.mean_weight * float(space.base.link.second(np.zeros(1), 1)[0])

    @property
    def base(self) -> ModelSpec:
        """The user's own values, and first values of the free ones."""
        return self.space.base

    @property
    def free(self) -> frozenset[str]:
        """Names of the free parameters."""
        return self.space.free

    def path(
        self,
        values: Iterable[float],
        settings: Callable[[float], ModelSpec],
        score: Callable[[Candidate], float] = attrgetter("score"),
    ) -> Candidate:
        """Try values one after the other until the score has turned; return the best."""
        best: Candidate | None = None
        least, worse = np.inf, 0
        for value in values:
            tried = self.trials.score(settings(value))
            found = score(tried)
            if best is None or found < least:
                best, least, worse = tried, found, 0
                continue
            worse += 1
            if worse > 1 or found > least * (1.0 + PATH_END_LOSS):
                break
        assert best is not None
        return best

    def refine(self, best: Candidate, name: str, step: float, doublings: int = 0) -> Candidate:
        """Move one value up or down by a factor, as long as that helps (:meth:`step_while_better`)."""
        if name not in self.free or not getattr(best.settings, name):
            return best

        def change(settings: ModelSpec, factor: float) -> ModelSpec:
            value = getattr(settings, name) * factor
            changed = replace(settings, **{name: value})
            return self.with_radius(changed, value) if name == "radius" else changed

        return self.step_while_better(best, change, step, doublings)

    def step_while_better(
        self,
        best: Candidate,
        change: Callable[[ModelSpec, float], ModelSpec],
        step: float,
        doublings: int,
    ) -> Candidate:
        """Change settings by a factor again and again, as long as that helps: first by ``step``, else by its inverse.

        From the third step that helps on the factor is squared, at most so many times.
        """
        for power in (1.0, -1.0):
            moved, helped, most = best, 0, doublings
            while True:
                longer = min(max(helped - 1, 0), most)
                tried = self.trials.score(change(moved.settings, step ** (power * 2**longer)))
                if tried.score < moved.score * (1.0 - MIN_STEP_GAIN):
                    moved, helped = tried, helped + 1
                elif longer:
                    most = 0  # too far: on with steps of the first length
                else:
                    break
            if moved is not best:
                return moved
        return best

    def with_radius(self, settings: ModelSpec, radius: float) -> ModelSpec:
        """Return the settings with a ball; entries have the same bound then, where alpha is free."""
        alpha = radius if "alpha" in self.free else settings.alpha
        return replace(settings, radius=radius, alpha=alpha)


#: Penalties of intercepts, from fully shrunk to nearly free, as multiples of four times the link's curvature at 0 (1
#: for the logistic link): in such units they do not depend on the scale of X.
INTERCEPT_WEIGHTS = (300.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
#: Penalties of factors, as shares of the penalty at which they vanish.
PENALTY_SHARES = (0.75, 0.5, 0.33, 0.22, 0.15, 0.1, 0.067, 0.045, 0.03, 0.02)
#: Factor by which the rank grows beside implicit features, and the highest rank that is tried. On each of the splits 10
#: to 14 of MovieLens-100k 4 times the rank beside implicit features lowered the log-loss, by .0002 to .0027; twice the
#: rank gains about half of that, for half of the cost.
RANK_FACTOR, MAX_RANK = 4, 80
#: Singular value, as a share of the largest, above which a latent factor is in use.
MIN_SINGULAR_SHARE = 0.02
#: Share of the score that a higher rank may lose: at the same penalty that is noise.
MAX_RANK_LOSS = 2e-3
MIN_FACTOR_GAIN = 3e-3  #: share of the score that factors must gain for other ranks to be tried
#: Powers of the number of entries in the penalty, in the order in which they are tried.
L2_POWERS = (0.5, 1.0)
#: Share of the score that a power must gain: where it helps it gains a percent or two.
MIN_POWER_GAIN = 2e-3
#: Penalties that are tried with a lower rank, as shares of the best at the higher one.
LOW_RANK_PENALTY_SHARES = (0.6, 0.4, 0.27, 0.18, 0.12)
LOW_RANKS = (5, 2, 1)  #: the lower ranks
#: First penalties of the factors and of the implicit features, as multiples of the best ``l2`` without features: strong
#: features beside weak factors, or the reverse.
IMPLICIT_STARTS = ((1.0, 10.0), (1.5, 2.5))
#: Factors by which a line search changes the penalty of the features and that of the factors.
IMPLICIT_STEP, FACTOR_STEP = 1.8, 1.4
#: That of the penalty of the intercepts beside factors.
INTERCEPT_STEP = 6.0
#: How often the step in the penalty of the factors is doubled, in logarithms: where features explain nearly everything
#: the penalty may be ten times that without them.
FACTOR_DOUBLINGS = 2
#: Penalties of side features, as multiples of the penalty of factors.
SIDE_WEIGHTS = (60.0, 25.0, 10.0, 4.0, 1.5)


@dataclass(frozen=True)
class Found:
    """The candidates that stages have found so far, for the next ones.

    Attributes
    ----------
    intercepts : Candidate or None
        The best of the main effects alone.
    factors : Candidate or None
        The best with plain factors, or of positive-only data with any.
    wide : Candidate or None
        The best with plain factors of the first rank or a higher one.
    featured : Candidate or None
        The best with implicit features; the plain one where they were not tried or are no better.
    sided : Candidate or None
        The best with side features, where they were tried.
    penalty : float
        The penalty at which factors vanish, where a stage has computed it.
    notes : tuple of str
        Remarks on candidates that were not tried, for the record.
    """

    intercepts: Candidate | None = None
    factors: Candidate | None = None
    wide: Candidate | None = None
    featured: Candidate | None = None
    sided: Candidate | None = None
    penalty: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate | None:
        """The better of plain factors and implicit features."""
        if self.featured is None or self.factors is None:
            return self.factors
        return self.featured if self.featured.score < self.factors.score else self.factors

    @property
    def results(self) -> list[Candidate]:
        """The results of the stages."""
        found = (self.intercepts, self.factors, self.wide, self.featured, self.sided)
        return [each for each in found if each is not None]


class Stage(ABC):
    """A stage of a search."""

    @abstractmethod
    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether there is anything to try."""

    @abstractmethod
    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the earlier candidates with those of this stage."""


class InterceptPenalty(Stage):
    """The penalty of intercepts, without factors."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether models of the observed signs alone are searched."""
        del found
        return not space.label and ("gammas" in space.free or not space.base.uses_unobserved)

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best penalty."""
        plain = replace(
            lines.base,
            gammas=(1.0, 0.0, 0.0),
            rank=0,
            implicit_features=False,
            side_features=False,
        )
        if "rank" in lines.free or lines.base.rank:
            # Factors alone are inside a ball: a model without any needs none.
            plain = replace(plain, radius=None, alpha=None)
        if not lines.base.intercept:
            return replace(found, intercepts=Candidate(plain, np.inf, (), 0.0, 0))
        if "l2_intercept" not in lines.free:
            return replace(found, intercepts=lines.trials.score(plain))
        weights = (lines.unit * weight for weight in INTERCEPT_WEIGHTS)
        # The factors beside them keep this penalty. A calibrator of intercepts alone would stretch over-shrunk ones, or
        # shrink those that are too free, which factors with a scale of their own do not allow.
        best = lines.path(
            weights, lambda weight: replace(plain, l2_intercept=weight), lines.trials.score_of_link
        )
        return replace(found, intercepts=best)


class FactorPenalty(Stage):
    """The penalty of the factors, at the first rank."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether there are intercepts to start from."""
        return not space.label and found.intercepts is not None

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best penalty; the intercepts alone where the user fixed rank 0."""
        start = found.intercepts
        assert start is not None
        shape = lines.trials.folds[0].train.shape
        rank = min(FIRST_RANK, *shape) if "rank" in lines.free else lines.base.rank
        settings = replace(
            start.settings, rank=rank, radius=lines.base.radius, alpha=lines.base.alpha
        )
        if not rank:
            return replace(found, factors=start)
        if "l2" not in lines.free:
            return replace(found, factors=lines.trials.score(settings))
        largest = self._largest_penalty(lines, start.settings)
        best = lines.path(
            (share * largest for share in PENALTY_SHARES), lambda l2: replace(settings, l2=l2)
        )
        return replace(found, factors=best)

    def _largest_penalty(self, lines: LineSearches, settings: ModelSpec) -> float:
        """Return the penalty above which the factors vanish, on the full data."""
        fold = lines.trials.folds[0]
        end = fold.ends.get(settings.family)
        return largest_penalty_of(fold.train, lines.base.link, end) / fold.penalty_share


class EntryPower(Stage):
    """The power of the number of entries in the penalty of a row or column."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether there are factors with a penalty."""
        best = found.factors
        return (
            not space.label
            and "l2_power" in space.free
            and best is not None
            and bool(best.settings.rank and best.settings.l2)
        )

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best power."""
        assert found.factors is not None
        return replace(found, factors=choose_power(lines, found.factors))


def choose_power(lines: LineSearches, best: Candidate) -> Candidate:
    """Try powers of the number of entries, as long as that clearly helps."""
    if "l2_power" not in lines.free:
        return best
    for power in L2_POWERS:
        tried = lines.trials.score(replace(best.settings, l2_power=power))
        if tried.score >= best.score * (1.0 - MIN_POWER_GAIN):
            break
        best = tried
    return best


class ImplicitFeatures(Stage):
    """Whether to use implicit features, and their penalties."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether features may be had beside factors."""
        plain = found.factors
        if space.label or plain is None or not plain.settings.rank:
            return False
        if "implicit_features" not in space.free:
            return space.base.implicit_features
        return space.base.radius is None and space.base.alpha is None

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best penalties; the plain factors where features do not help."""
        plain, asked = found.factors, "implicit_features" not in lines.free
        assert plain is not None
        settings = (found.wide or plain).settings
        if "rank" in lines.free:
            settings = replace(settings, rank=min(settings.rank, FIRST_RANK))
        if found.intercepts is not None:
            settings = replace(settings, l2_intercept=found.intercepts.settings.l2_intercept)
        tried = [
            lines.trials.score(self._with_features(lines, settings, *start))
            for start in IMPLICIT_STARTS
        ]
        best = min(tried, key=lambda candidate: candidate.score)
        if "l2_intercept" in lines.free and found.wide is not None:
            weight = found.wide.settings.l2_intercept
            tried.append(lines.trials.score(replace(best.settings, l2_intercept=weight)))
            best = min(tried, key=lambda candidate: candidate.score)
        if best.score > plain.score * (1.0 + REFINED_WITHIN) and not asked:
            return replace(found, featured=plain)
        best = lines.refine(best, "l2_implicit", IMPLICIT_STEP)
        best = lines.refine(best, "l2", FACTOR_STEP, FACTOR_DOUBLINGS)
        if not best.settings.l2_power:
            best = choose_power(lines, best)
        return replace(found, featured=self._activity(lines, best))

    def _activity(self, lines: LineSearches, best: Candidate) -> Candidate:
        """Count short columns, then short rows, as inactive where that is clearly better on held-out entries."""
        if "activity_floor" not in lines.free:
            return best
        for keep_rows, keep_columns in ((1.0, 0.0), (0.0, 1.0)):
            rows, columns = best.settings.activity_floor
            floor = keep_rows * rows, keep_columns * columns
            tried = lines.trials.score(replace(best.settings, activity_floor=floor))
            if lines.trials.ahead(tried, best):
                best = tried
        return best

    def _with_features(
        self, lines: LineSearches, settings: ModelSpec, factors: float, features: float
    ) -> ModelSpec:
        l2 = settings.l2 * (factors if "l2" in lines.free else 1.0)
        l2_implicit = (
            settings.l2 * features if "l2_implicit" in lines.free else lines.base.l2_implicit
        )
        return replace(settings, implicit_features=True, l2=l2, l2_implicit=l2_implicit)


class Ranks(Stage):
    """The rank of plain factors: higher ones, and far lower ones that are shrunk less."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether factors improve the score."""
        first, plain = found.factors, found.intercepts
        if space.label or first is None or plain is None or "rank" not in space.free:
            return False
        # Where factors gain next to nothing, a higher rank gains no more.
        return first.score < plain.score * (1.0 - MIN_FACTOR_GAIN)

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best rank."""
        first = found.factors
        assert first is not None
        best = self._raise_rank(lines, first)
        if best is not first:
            # The penalty was found at too low a rank; where it becomes smaller more latent factors may be in use.
            best = self._raise_rank(lines, lines.refine(best, "l2", FACTOR_STEP))
        # Beside factors the biases may be shrunk far more than alone: the factors explain them too.
        shrunk = lines.refine(best, "l2_intercept", INTERCEPT_STEP)
        if shrunk is not best:
            best = lines.refine(shrunk, "l2", FACTOR_STEP)
        return replace(found, factors=self._lower_rank(lines, best), wide=best)

    def _lower_rank(self, lines: LineSearches, best: Candidate) -> Candidate:
        """Try low ranks with a smaller penalty: the penalty needed at high rank over-shrinks a table of low rank."""
        l2 = best.settings.l2
        shares = LOW_RANK_PENALTY_SHARES if "l2" in lines.free else (1.0,)
        firsts = [
            lines.trials.score(replace(best.settings, rank=rank, l2=shares[0] * l2))
            for rank in LOW_RANKS
            if rank < best.settings.rank
        ]
        if not firsts:
            return best
        narrow = min(firsts, key=lambda candidate: candidate.score)
        if narrow.score > best.score * (1.0 + REFINED_WITHIN):
            return best
        found = lines.path(
            [share * l2 for share in shares], lambda l2: replace(narrow.settings, l2=l2)
        )
        return min(found, best, key=lambda candidate: candidate.score)

    def _raise_rank(self, lines: LineSearches, best: Candidate) -> Candidate:
        """Double the rank while all latent factors are in use and more of them help."""
        while (wider := higher_rank(lines, best, 2)) is not None and wider.score < best.score:
            best = wider
        return best


class SideFeaturePenalty(Stage):
    """Whether to use side features, and their penalty."""

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether there are any."""
        return not space.label and space.base.side_features and found.best is not None

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the best penalties."""
        plain = found.best
        assert plain is not None
        if lines.trials.options.side is None:
            return found
        settings = replace(plain.settings, side_features=True)
        if "l2_side" in lines.free:
            unit = settings.l2 if settings.rank else lines.unit
            best = lines.path(
                (share * unit for share in SIDE_WEIGHTS), lambda l2: replace(settings, l2_side=l2)
            )
        else:
            best = lines.trials.score(settings)
        if "side_features" in lines.free and best.score >= plain.score:
            return found
        return replace(found, sided=lines.refine(best, "l2", FACTOR_STEP))


class HigherRankWithFeatures(Stage):
    """Four times the rank beside implicit features.

    A ridge penalty on both factors is a trace norm, under which too high a rank does no harm but cost.
    """

    def applies(self, space: SearchSpace, found: Found) -> bool:
        """Return whether a model with implicit features was found."""
        best = found.sided or found.featured
        if space.label or best is None:
            return False
        return best.settings.implicit_features and "rank" in space.free

    def run(self, lines: LineSearches, found: Found) -> Found:
        """Return the better rank."""
        best = found.sided or found.featured
        assert best is not None
        wider = higher_rank(lines, best, RANK_FACTOR)
        if wider is None or wider.score >= best.score * (1.0 + MAX_RANK_LOSS):
            return found
        return replace(found, sided=wider) if found.sided else replace(found, featured=wider)


def higher_rank(lines: LineSearches, best: Candidate, factor: int) -> Candidate | None:
    """Try the same with a higher rank; None where there is none, or where some latent factors are not in use."""
    most = min(MAX_RANK, *lines.trials.folds[0].train.shape)
    rank = min(factor * best.settings.rank, most)
    if rank <= best.settings.rank or not _all_in_use(lines, best.settings.family):
        return None
    return lines.trials.score(replace(best.settings, rank=rank))


def _all_in_use(lines: LineSearches, family: str) -> bool:
    """Return whether every latent factor of the last fit of a family has a singular value of some size.

    With implicit features these are the parts: they combine to a column of 0 where their column is 0.
    """
    end = lines.trials.folds[0].ends[family]
    left, right = (np.linalg.qr(F)[1] for F in (end.row_factors, end.column_factors))
    values = np.linalg.svd(left @ right.T, compute_uv=False)
    return bool(values[-1] > MIN_SINGULAR_SHARE * values[0])


def largest_penalty_of(seen: Observations, link: Link, end: Factors | None) -> float:
    """Return the penalty above which the factors vanish: the spectral norm of the gradient without them.

    At a minimum with ``U = V = 0`` the penalty ``l2 |X|_*`` outweighs every direction of the gradient.

    Parameters
    ----------
    end : Factors or None
        The fit without factors: its intercepts; None for ``X = 0``.
    """

    def slopes(entries: Observations, x: Array | None) -> Array:
        at = np.zeros(entries.n_observed) if x is None else x
        found = np.where(entries.labels > 0, link.first(at, 1), link.first(at, -1))
        return found if entries.weights is None else found * entries.weights

    G = seen.matrix(slopes, end)
    if min(G.shape) <= 2:
        return float(np.linalg.norm(G.toarray(), 2))
    v0 = np.ones(min(G.shape))
    return float(svds(G, k=1, v0=v0, return_singular_vectors=False)[0])
