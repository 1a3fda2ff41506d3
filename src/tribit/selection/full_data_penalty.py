"""The ridges of what a part of a table has chosen, compared on the whole table.

A part has fewer entries in a column, and by how much that lowers the best ridges depends on the table: where noise
decides they are as the largest ridges are (:func:`tribit.selection.ridges.ridge_share`), where every column has
entries enough they are the same. One factor for all ridges is found by a line search on the whole table; the kind of
model, its columns and the ratios of its ridges stay as the part has chosen them. The held-out entries of the whole then
calibrate what is fitted to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tribit.model.factors import Factors
from tribit.model.spec import ModelSpec
from tribit.selection.line_searches import LineSearches
from tribit.selection.record import Average, Candidate
from tribit.selection.spec_for_fold import RIDGES
from tribit.selection.stages import FACTOR_DOUBLINGS, FACTOR_STEP
from tribit.selection.trials import Trials


class FullDataTrials(Trials):
    """Candidates on the full data, which keep the unknowns of the best one: the refit starts from them."""

    best_ends: dict[str, Factors] | None = None

    def _keep(self, candidate: Candidate, kept: Any) -> None:
        super()._keep(candidate, kept)
        if candidate is self.best:
            self.best_ends = dict(self.folds[0].ends)


def search_full_data_penalty(lines: LineSearches, chosen: Candidate) -> Candidate:
    """Return the best candidate on the full data, at the ridges that a row subsample chose or at multiples of them."""
    best = lines.trials.score(chosen.settings)
    names = [name for name in RIDGES if name in lines.free]
    if not any(getattr(best.settings, name) for name in names):
        return best
    # Larger ones first beside implicit features and smaller ones without: so it was on all of the six drawn tables
    # that were tried but one, where neither was better.
    step = FACTOR_STEP if best.settings.implicit_features else 1.0 / FACTOR_STEP
    return lines.moved(
        best,
        lambda settings, factor: multiplied(settings, names, factor),
        step,
        FACTOR_DOUBLINGS,
    )


def multiplied(settings: ModelSpec, names: Iterable[str], factor: float) -> ModelSpec:
    """Return settings with some ridges multiplied; those that the model does not have stay away."""
    values = {name: getattr(settings, name) for name in names}
    return replace(settings, **{name: factor * each for name, each in values.items() if each})


def scaled(average: Average, chosen: Candidate, best: Candidate) -> Average:
    """Return an average whose members have their ridges multiplied as those of the chosen one were to become best."""
    before, after = chosen.settings, best.settings
    factors = {
        name: getattr(after, name) / getattr(before, name)
        for name in RIDGES
        if getattr(before, name)
    }

    def multiply(settings: ModelSpec) -> ModelSpec:
        for name, factor in factors.items():
            settings = multiplied(settings, (name,), factor)
        return settings

    members = tuple(replace(each, settings=multiply(each.settings)) for each in average.members)
    return replace(average, members=members)
