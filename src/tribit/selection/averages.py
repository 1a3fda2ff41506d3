"""Averages of fits with different numbers of columns, where held-out entries prefer them to one fit.

    x = (x_1 + ... + x_m) / m,     x_i the minimum with the i-th number of columns, at a ridge of its own

Fits with few columns and little ridge and fits with many and more of it err in different places, and so do fits that
end in different minima. The mean of factor models is a factor model, with all their columns side by side
(:meth:`tribit.model.factors.Factors.mean_of`). A search has tried several numbers of columns when it ends, so that
whether a mean pays is known without another fit; the last fit on all entries is then one for each member.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tribit.metrics.entries import Array
from tribit.model.spec import ModelSpec, is_auto
from tribit.selection.record import Average, Candidate, Search
from tribit.selection.significance import clearly_less, mean_difference
from tribit.selection.trials import SearchEndedError, Trials

#: Most fits that are averaged where their number is chosen: each costs a fit on all entries.
MOST_FITS = 3
#: Share of the score that a further fit must gain, beside being clearly ahead. On drawn tables that are nearly full,
#: with a spectrum that decays slowly, it gains .003 to .008, which test parts confirm; on the splits 10 to 14 of
#: MovieLens-100k about .001, which they do not.
WORTH_A_FIT = 2e-3


def averaged(trials: Trials, best: Candidate, n_fits: Any, *, rank_is_free: bool) -> Average | None:
    """Return the average to use in the place of the best candidate; None for the best alone.

    Members are added one by one, each the one that lowers the score of the mean most: for ``"auto"`` as long as the
    mean is clearly ahead of the one before it (:func:`tribit.selection.significance.clearly_less`), else until there
    are ``n_fits`` of them.
    """
    if not best.settings.rank or (is_auto(n_fits) and not rank_is_free) or n_fits == 1:
        return None  # intercepts alone have one minimum
    most = MOST_FITS if is_auto(n_fits) else int(n_fits)
    members = [best]
    losses = trials.losses[best]
    while len(members) < most:
        others = _other_ranks(trials, members)
        if not others:
            break
        judged = [_judged(trials, [*members, other]) for other in others]
        k = int(np.argmin([score for score, _ in judged]))
        _, further = judged[k]
        if is_auto(n_fits) and not _pays(trials, further, losses):
            break
        members.append(others[k])
        losses = further
    if not is_auto(n_fits):
        members += _wider(trials, members, most)
    if len(members) == 1:
        return None
    return Average(tuple(members), _judged(trials, members)[0], best.score)


def member_specs(
    spec: ModelSpec, search: Search | None, n_fits: Any, shape: tuple[int, int]
) -> list[ModelSpec]:
    """Return the models to fit on all entries, the chosen one first."""
    found = [spec]
    if search is not None and search.average is not None:
        found = [each.settings for each in search.average.members]
    if is_auto(n_fits) or not spec.rank:
        return found
    return found + _wider_specs(found, int(n_fits) - len(found), shape)


def _other_ranks(trials: Trials, members: list[Candidate]) -> list[Candidate]:
    """Return the best candidate of each number of columns that no member has, of the members' kind of model."""
    family = members[0].settings.family
    taken = {each.settings.rank for each in members}
    found: dict[int, Candidate] = {}
    for each in trials.candidates:
        rank = each.settings.rank
        if each.settings.family != family or rank in taken or not trials.eligible(each.settings):
            continue
        if rank not in found or each.score < found[rank].score:
            found[rank] = each
    return list(found.values())


def _judged(trials: Trials, members: list[Candidate]) -> tuple[float, Array | None]:
    """Return the score of the mean of some candidates, calibrated as a whole, and the losses of its entries."""
    x = trials.mean_scores(members)
    score, _, losses = trials.judge(x, members[0].settings.link)
    return score, losses


def _pays(trials: Trials, losses: Array | None, others: Array | None) -> bool:
    """Return whether one mean is clearly ahead of another; not where the measure has no losses of entries."""
    if losses is None or others is None:
        return False
    gain, _ = mean_difference(others, losses, trials.weights)
    least = WORTH_A_FIT * float(np.average(others, weights=trials.weights))
    return gain > least and clearly_less(losses, others, trials.weights)


def _wider(trials: Trials, members: list[Candidate], most: int) -> list[Candidate]:
    """Try models with more and more columns until there are enough; fewer where the search must end."""
    specs = [each.settings for each in members]
    found = []
    for spec in _wider_specs(specs, most - len(specs), trials.folds[0].train.shape):
        try:
            tried = trials.score(spec)
        except SearchEndedError:
            break
        if tried in members or tried in found:
            break  # no more columns to be had: further fits differ by their draws alone
        found.append(tried)
    return found


def _wider_specs(specs: list[ModelSpec], n: int, shape: tuple[int, int]) -> list[ModelSpec]:
    """Return ``n`` models like the first with twice, four times, ... the columns of the widest, as many as fit."""
    widest = max(spec.rank for spec in specs)
    most = max(widest, min(shape))
    return [replace(specs[0], rank=min(widest * 2**i, most)) for i in range(1, n + 1)]
