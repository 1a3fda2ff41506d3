"""Trials of a search whose scores are made up, and line searches on them."""

from tribit.model.spec import CHOOSABLE, ModelSpec
from tribit.selection.record import Candidate
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
