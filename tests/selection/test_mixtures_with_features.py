"""When the search tries a mixture on top of implicit features, and with which ridge."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tribit.model.spec import CHOOSABLE, ModelSpec
from tribit.selection.mixtures import CORNER_IMPLICIT_FACTOR, Mixtures
from tribit.selection.record import Candidate
from tribit.selection.space import SearchSpace
from tribit.selection.stages import REFINED_WITHIN, LineSearches

FEATURED = ModelSpec(
    implicit_features=True, l2=2.0, l2_implicit=6.0, l2_intercept=1.0, activity_floor=(1.0, 0.0)
)
NEAR_PN = ModelSpec(gammas=(0.99, 0.006, 0.004), rho=0.9, radius=2.0, l2=2.0, l2_intercept=1.0)
CORNER = replace(NEAR_PN, gammas=(0.0, 1.0, 0.0), radius=1.0, l2=20.0)
ALL = frozenset(CHOOSABLE)


def candidate(settings, score):
    return Candidate(settings, score, (score,), 0.0, 1)


def tried(best, *mixtures, free=ALL, shape=(30, 20)):
    """Return the settings that are scored on top of those that were."""
    scored = []
    trials = SimpleNamespace(
        candidates=[best, *mixtures],
        folds=[SimpleNamespace(train=SimpleNamespace(shape=shape))],
        score=scored.append,
    )
    lines = LineSearches(trials, SearchSpace(ModelSpec(), free))
    Mixtures()._with_features(lines, best)
    return scored


def test_the_best_mixture_is_tried_with_the_features_of_the_best_model():
    mixtures = candidate(NEAR_PN, 0.5 * (1.0 + 0.99 * REFINED_WITHIN)), candidate(CORNER, 0.52)
    (found,) = tried(candidate(FEATURED, 0.5), *mixtures)
    assert found.family == "mixture with implicit features"
    assert (found.gammas, found.radius, found.l2) == (NEAR_PN.gammas, 2.0, 2.0)
    assert (found.l2_implicit, found.activity_floor) == (6.0, (1.0, 0.0))


def test_under_pu_alone_the_features_have_a_far_stronger_ridge():
    (found,) = tried(candidate(FEATURED, 0.5), candidate(NEAR_PN, 0.51), candidate(CORNER, 0.49))
    assert found.gammas == CORNER.gammas
    assert found.l2_implicit == pytest.approx(6.0 * 10.0 * CORNER_IMPLICIT_FACTOR)


def test_a_ridge_that_the_user_gave_is_kept():
    free = ALL - {"l2_implicit"}
    (found,) = tried(candidate(FEATURED, 0.5), candidate(CORNER, 0.49), free=free)
    assert found.l2_implicit == 6.0


@pytest.mark.parametrize(
    ("best", "score", "options"),
    [
        (FEATURED, 0.5 * (1.0 + 1.01 * REFINED_WITHIN), {}),  # the mixture is far behind
        (replace(FEATURED, implicit_features=False), 0.5, {}),  # features have not gained
        (FEATURED, 0.5, {"shape": (10**4, 10**3)}),  # too many cells
        (FEATURED, 0.5, {"free": ALL - {"implicit_features"}}),
        (FEATURED, 0.5, {"free": ALL - {"gammas"}}),
    ],
)
def test_otherwise_none_is_tried(best, score, options):
    assert tried(candidate(best, 0.5), candidate(NEAR_PN, score), **options) == []
