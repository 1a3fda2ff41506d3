"""Line searches over one hyperparameter: along a path of values, and from a value up or down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter

import numpy as np

from tribit.model.spec import ModelSpec
from tribit.selection.record import Candidate
from tribit.selection.space import SearchSpace
from tribit.selection.trials import Trials

#: Rank of the first factors that are tried.
RANK = 10
#: Share of the score that a step must gain for a line search over a setting to go on.
WORTH = 5e-4
#: Share of the best score within which a family is refined further.
NEAR = 0.01
#: Share of the best score by which a worse one ends a path; two worse ones in a row end it too.
FAR = 0.005


class LineSearches:
    """Line searches over the hyperparameters of a space, on the folds of some trials."""

    def __init__(self, trials: Trials, space: SearchSpace) -> None:
        self.trials, self.space = trials, space
        #: The unit of ridge weights: in it they mean the same whatever the scale of X.
        self.unit = 4.0 * float(space.base.link.second(np.zeros(1), 1)[0])

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
            if worse > 1 or found > least * (1.0 + FAR):
                break
        assert best is not None
        return best

    def refined(self, best: Candidate, name: str, step: float, doublings: int = 0) -> Candidate:
        """Move one value up or down by a factor, as long as that helps (:meth:`moved`)."""
        if name not in self.free or not getattr(best.settings, name):
            return best

        def change(settings: ModelSpec, factor: float) -> ModelSpec:
            value = getattr(settings, name) * factor
            changed = replace(settings, **{name: value})
            return self.inside(changed, value) if name == "radius" else changed

        return self.moved(best, change, step, doublings)

    def moved(
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
                if tried.score < moved.score * (1.0 - WORTH):
                    moved, helped = tried, helped + 1
                elif longer:
                    most = 0  # too far: on with steps of the first length
                else:
                    break
            if moved is not best:
                return moved
        return best

    def inside(self, settings: ModelSpec, radius: float) -> ModelSpec:
        """Return the settings with a ball; entries have the same bound then, where alpha is free."""
        alpha = radius if "alpha" in self.free else settings.alpha
        return replace(settings, radius=radius, alpha=alpha)
