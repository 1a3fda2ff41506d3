"""Trials of a search whose scores are made up, and line searches on them."""

import numpy as np

from tribit.model.spec import CHOOSABLE, ModelSpec
from tribit.selection.record import Candidate, Stack
from tribit.selection.space import SearchSpace
from tribit.selection.stages import LineSearches

EVERYTHING = frozenset(CHOOSABLE) - {"rho"}
MARGIN = 0.01  #: of scripted trials, in the place of a gain in nats


class Scripted:
    """Trials whose scores are a function of one setting."""

    def __init__(self, name, function):
        self.name, self.function, self.tried = name, function, []

    def score(self, settings):
        value = getattr(settings, self.name)
        self.tried.append(value)
        return Candidate(settings, self.function(value), (), 0.0, 0)

    def ahead(self, rich, simple):
        return rich.score < simple.score * (1.0 - MARGIN)


def scripted_lines(name, function, free=EVERYTHING, base=None):
    return LineSearches(Scripted(name, function), SearchSpace(base or ModelSpec(), free))


#: Weights of the members of a stack that is made up.
SHARES = 0.5, 0.3, 0.2


def stack_of_families(trials, best, most):
    """Return the stack of the best candidate of each family, with weights that are set, whatever it gains."""
    families = {best.settings.family: best}
    for each in sorted(trials.eligible_candidates, key=lambda each: each.score):
        families.setdefault(each.settings.family, each)
    members = tuple(families.values())[: min(most, 3)]
    if len(members) < 2:
        return None
    weights = tuple(np.array(SHARES[: len(members)]) / sum(SHARES[: len(members)]))
    x = np.array([trials.scores[each] for each in members])
    score, _ = trials.judge(weights @ x, best.settings.link)
    return Stack(members, weights, score, tuple(each.score for each in members), x)
