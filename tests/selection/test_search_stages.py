"""The stages of a search, one at a time."""

from dataclasses import replace

import numpy as np
import pytest
from scripted_trials import EVERYTHING, Scripted, scripted_lines
from selection_data import low_rank, observed

from tribit.backends import Arithmetic
from tribit.model.factors import Factors
from tribit.model.links import Logistic, Probit
from tribit.model.spec import ModelSpec
from tribit.selection import Budget, SearchSpace, choose, search
from tribit.selection import stages as module
from tribit.selection.folds import make_folds
from tribit.selection.mixtures import Mixtures
from tribit.selection.positive_only import (
    PositiveFactors,
    PositiveIntercepts,
    PositiveRanks,
    Regression,
)
from tribit.selection.record import Candidate
from tribit.selection.stages import (
    EntryPower,
    FactorPenalty,
    Found,
    HigherRankWithFeatures,
    ImplicitFeatures,
    InterceptPenalty,
    LineSearches,
    Ranks,
    SideFeaturePenalty,
    Stage,
)
from tribit.selection.trials import Options, Trials, fit_from
from tribit.solvers import Stopping

OPTIONS = Options(Arithmetic("float32", 1, "auto"))
A = low_rank((40, 30), density=0.5)
MIXTURE = (0.6, 0.2, 0.2)


def scored(score, **settings):
    """Return a candidate with a score and settings."""
    return Candidate(ModelSpec(**settings), score, (score,), 0.0, 1)


# Which stages apply


PLAIN = SearchSpace(ModelSpec(), EVERYTHING)
GIVEN_MIXTURE = SearchSpace(ModelSpec(gammas=MIXTURE, radius=1.0), EVERYTHING - {"gammas"})
UNDER_PN = SearchSpace(ModelSpec(), EVERYTHING - {"gammas", "radius", "alpha"})
LIKES = SearchSpace(ModelSpec(gammas=(0.0, 1.0, 0.0), rho=0.0), EVERYTHING - {"gammas"}, label=1)
#: PU with a rho that the user knows: its loss is unbounded, so that it is searched in balls.
KNOWN_RHO = replace(LIKES, base=replace(LIKES.base, rho=0.5, radius=1.0))
NO_INTERCEPT = replace(LIKES, base=replace(LIKES.base, intercept=False))

INTERCEPTS = scored(1.0, rank=0)
AFTER_INTERCEPTS = Found(intercepts=INTERCEPTS)
AFTER_FACTORS = replace(AFTER_INTERCEPTS, factors=scored(0.9))
NO_FACTORS = replace(AFTER_INTERCEPTS, factors=INTERCEPTS)
#: Implicit features that gain less, and more, than the share that decides the matter.
SLIGHT = replace(AFTER_FACTORS, featured=scored(0.89, implicit_features=True))
DECISIVE_FEATURE_GAIN = replace(AFTER_FACTORS, featured=scored(0.8, implicit_features=True))
WITHOUT_PENALTY = replace(AFTER_INTERCEPTS, factors=scored(0.9, l2=0.0))
WITHOUT_GAIN = replace(AFTER_INTERCEPTS, factors=scored(0.999))
SIDED = replace(AFTER_FACTORS, sided=scored(0.8, side_features=True))


def without(*names, **values):
    """Return the space of a search of PN where some names are not free, and some values are the user's."""
    return SearchSpace(ModelSpec(**values), EVERYTHING - set(names))


@pytest.mark.parametrize(
    ("stage", "space", "found", "applies"),
    [
        (InterceptPenalty(), PLAIN, Found(), True),
        (InterceptPenalty(), UNDER_PN, Found(), True),
        (InterceptPenalty(), GIVEN_MIXTURE, Found(), False),
        (InterceptPenalty(), LIKES, Found(), False),
        (InterceptPenalty(), KNOWN_RHO, Found(), False),
        (FactorPenalty(), PLAIN, AFTER_INTERCEPTS, True),
        (FactorPenalty(), GIVEN_MIXTURE, Found(), False),
        (FactorPenalty(), LIKES, AFTER_INTERCEPTS, False),
        (EntryPower(), PLAIN, AFTER_FACTORS, True),
        (EntryPower(), PLAIN, NO_FACTORS, False),
        (EntryPower(), PLAIN, WITHOUT_PENALTY, False),
        (EntryPower(), PLAIN, Found(), False),
        (EntryPower(), without("l2_power"), AFTER_FACTORS, False),
        (EntryPower(), LIKES, AFTER_FACTORS, False),
        (ImplicitFeatures(), PLAIN, AFTER_FACTORS, True),
        (ImplicitFeatures(), PLAIN, NO_FACTORS, False),
        (ImplicitFeatures(), GIVEN_MIXTURE, Found(), False),
        (ImplicitFeatures(), LIKES, AFTER_FACTORS, False),
        (ImplicitFeatures(), without("implicit_features"), AFTER_FACTORS, False),
        (
            ImplicitFeatures(),
            without("implicit_features", implicit_features=True, radius=1.0),
            AFTER_FACTORS,
            True,
        ),
        (ImplicitFeatures(), without("radius", radius=1.0), AFTER_FACTORS, False),
        (ImplicitFeatures(), without("alpha", alpha=1.0), AFTER_FACTORS, False),
        (Ranks(), PLAIN, AFTER_FACTORS, True),
        (Ranks(), PLAIN, SLIGHT, True),
        (Ranks(), PLAIN, DECISIVE_FEATURE_GAIN, True),
        (Ranks(), PLAIN, WITHOUT_GAIN, False),
        (Ranks(), without("rank"), AFTER_FACTORS, False),
        (Ranks(), LIKES, AFTER_FACTORS, False),
        (Ranks(), GIVEN_MIXTURE, Found(), False),
        (SideFeaturePenalty(), without(side_features=True), AFTER_FACTORS, True),
        (SideFeaturePenalty(), without(side_features=True), NO_FACTORS, True),
        (SideFeaturePenalty(), PLAIN, AFTER_FACTORS, False),
        (SideFeaturePenalty(), without(side_features=True), Found(), False),
        (
            SideFeaturePenalty(),
            replace(LIKES, base=replace(LIKES.base, side_features=True)),
            AFTER_FACTORS,
            False,
        ),
        (HigherRankWithFeatures(), PLAIN, DECISIVE_FEATURE_GAIN, True),
        (HigherRankWithFeatures(), PLAIN, SLIGHT, True),
        (HigherRankWithFeatures(), PLAIN, AFTER_FACTORS, False),
        (HigherRankWithFeatures(), PLAIN, SIDED, False),
        (
            HigherRankWithFeatures(),
            PLAIN,
            replace(SIDED, sided=scored(0.8, side_features=True, implicit_features=True)),
            True,
        ),
        (HigherRankWithFeatures(), without("rank"), DECISIVE_FEATURE_GAIN, False),
        (HigherRankWithFeatures(), PLAIN, Found(), False),
        (HigherRankWithFeatures(), LIKES, DECISIVE_FEATURE_GAIN, False),
        (Mixtures(), PLAIN, AFTER_FACTORS, True),
        (Mixtures(), GIVEN_MIXTURE, Found(), True),
        (Mixtures(), UNDER_PN, AFTER_FACTORS, False),
        (Mixtures(), LIKES, Found(), False),
        (Mixtures(), KNOWN_RHO, Found(), True),
        (PositiveIntercepts(), LIKES, Found(), True),
        (PositiveIntercepts(), NO_INTERCEPT, Found(), False),
        (PositiveIntercepts(), KNOWN_RHO, Found(), False),
        (PositiveIntercepts(), PLAIN, Found(), False),
        *(
            (stage, space, Found(), applies)
            for stage in (PositiveFactors(), PositiveRanks(), Regression())
            for space, applies in (
                (LIKES, True),
                (replace(LIKES, label=-1), True),
                (NO_INTERCEPT, True),
                (KNOWN_RHO, False),
                (PLAIN, False),
                (GIVEN_MIXTURE, False),
            )
        ),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Stage) else None,
)
def test_a_stage_applies(stage, space, found, applies):
    assert stage.applies(space, found) is applies


def test_every_stage_is_in_the_table():
    (table,) = test_a_stage_applies.pytestmark
    cases = {type(case[0]): set() for case in table.args[1]}
    for stage, *_, applies in table.args[1]:
        cases[type(stage)].add(applies)
    assert cases == {type(stage): {False, True} for stage in search.STAGES}


def test_what_is_found_of_factors_and_features_is_the_better():
    assert Found().best is None
    assert AFTER_FACTORS.best is AFTER_FACTORS.factors
    assert DECISIVE_FEATURE_GAIN.best is DECISIVE_FEATURE_GAIN.featured
    worse = replace(AFTER_FACTORS, featured=scored(0.95, implicit_features=True))
    assert worse.best is worse.factors


# A stage of one's own


class HalfPenalty(Stage):
    """Factors with half the best penalty, and a remark."""

    def __init__(self):
        self.asked, self.seen = [], []

    def applies(self, space, found):
        self.asked.append((space, found))
        return found.factors is not None

    def run(self, lines, found):
        self.seen.append(found)
        settings = replace(found.factors.settings, l2=found.factors.settings.l2 / 2.0)
        return replace(
            found, factors=lines.trials.score(settings), notes=(*found.notes, "half was tried")
        )


class Last(HalfPenalty):
    """A stage that tries nothing."""

    def run(self, lines, found):  # noqa: ARG002
        self.seen.append(found)
        return found


@pytest.mark.usefixtures("short_trials")
def test_a_stage_that_is_added_to_the_tuple_is_run_and_sees_what_was_found(monkeypatch):
    half, last = HalfPenalty(), Last()
    monkeypatch.setattr(search, "STAGES", (half, InterceptPenalty(), FactorPenalty(), half, last))
    base = ModelSpec(rank=2, l2_intercept=1.0)
    space = SearchSpace(base, frozenset({"l2"}))
    draws = np.random.default_rng(0)
    found = choose(observed(A), space, OPTIONS, Budget(), draws)
    # The first time there are no factors yet: the stage is asked, and is not run.
    assert half.asked[0][1].factors is None
    (before,), (after,) = half.seen, last.seen
    assert all(each.base == base and each.free == {"l2"} for each, _ in half.asked)
    assert before.intercepts.settings.rank == 0
    assert before.factors.settings.rank == 2
    assert after.factors is found.candidates[-1]
    assert after.factors.settings.l2 == before.factors.settings.l2 / 2.0
    assert after.intercepts is before.intercepts
    assert found.stop_reason == "every stage was done; half was tried"


@pytest.mark.usefixtures("short_trials")
def test_without_stages_nothing_is_tried(monkeypatch):
    monkeypatch.setattr(search, "STAGES", ())
    found = choose(
        observed(A),
        SearchSpace(ModelSpec(rank=2), frozenset({"l2"})),
        OPTIONS,
        Budget(),
        np.random.default_rng(0),
    )
    assert (found.candidates, found.best, found.held_out) == ((), None, None)


# The penalty at which factors vanish, and latent factors in use


@pytest.mark.parametrize("link", [Logistic(), Logistic(4.0), Probit(0.5)])
@pytest.mark.parametrize("shape", [(40, 30), (120, 2)])
def test_the_largest_penalty_is_where_factors_vanish(link, shape):
    seen = observed(low_rank(shape, density=0.7))
    options = Options(Arithmetic(backend="auto"))
    base = ModelSpec(link=link, intercept=False)
    folds = make_folds(seen, None, np.random.default_rng(0))
    trials = Trials(folds, options, scoring="log_loss", most=None, deadline=None)
    lines = LineSearches(trials, SearchSpace(base, EVERYTHING))
    largest = FactorPenalty()._largest_penalty(lines, replace(base, rank=0))
    sizes = []
    for share in (1.02, 0.9):
        settings = replace(base, rank=2, l2=share * largest)
        factors, _ = fit_from(
            folds[0].train, settings, options, {}, np.random.default_rng(0), Stopping(300, 1e-9)
        )
        sizes.append(np.linalg.norm(factors.row_factors @ factors.column_factors.T))
    assert sizes[0] < 0.05 * sizes[1]
    assert sizes[1] > 0.1 / largest


def test_columns_in_use():
    rng = np.random.default_rng(0)
    U, V = np.linalg.qr(rng.normal(size=(9, 3)))[0], np.linalg.qr(rng.normal(size=(7, 3)))[0]
    folds = make_folds(observed(A), None, rng)
    trials = Trials(folds, OPTIONS, scoring="log_loss", most=None, deadline=None)
    lines = LineSearches(trials, SearchSpace(ModelSpec(), EVERYTHING))
    for smallest, used in ((0.03, True), (0.01, False)):
        folds[0].ends["factors"] = Factors.of(U * np.array([1.0, 0.5, smallest]), V)
        assert module._all_in_use(lines, "factors") is used


@pytest.mark.parametrize(
    ("scores", "tried", "rank"),
    [
        ({20: 1.001}, 20, 10),
        ({20: 0.999, 40: 1.0}, 40, 20),
        ({20: 0.98, 40: 0.97, 80: 0.975}, 80, 40),
        ({20: 0.98, 40: 0.97, 80: 0.96}, 80, 80),  # no higher one is tried
    ],
)
def test_the_rank_is_doubled_as_long_as_that_helps(monkeypatch, scores, tried, rank):
    lines = scripted_lines("rank", scores.__getitem__)
    lines.trials.folds = make_folds(observed(np.tile(A, (3, 3))), None, np.random.default_rng(0))
    monkeypatch.setattr(module, "_all_in_use", lambda *_: True)
    first = Candidate(ModelSpec(rank=10), 1.0, (), 0.0, 0)
    found = Ranks()._raise_rank(lines, first)
    assert max(lines.trials.tried) == tried
    assert found.settings.rank == rank


@pytest.mark.parametrize(("score", "rank"), [(0.9, 40), (1.001, 40), (1.003, 10), (1.02, 10)])
@pytest.mark.parametrize("side", [False, True])
def test_beside_implicit_features_four_times_the_rank_is_taken_unless_it_is_worse(
    monkeypatch, score, rank, side
):
    lines = scripted_lines("rank", lambda _: score)
    lines.trials.folds = make_folds(observed(np.tile(A, (2, 2))), None, np.random.default_rng(0))
    monkeypatch.setattr(module, "_all_in_use", lambda *_: True)
    best = Candidate(
        ModelSpec(rank=10, implicit_features=True, side_features=side), 1.0, (), 0.0, 0
    )
    found = Found(featured=best, sided=best if side else None)
    after = HigherRankWithFeatures().run(lines, found)
    assert lines.trials.tried == [40]  # once
    assert (after.sided if side else after.featured).settings == replace(best.settings, rank=rank)
    assert (after is found) is (rank == 10)


@pytest.mark.parametrize(
    ("scores", "tried", "power"),
    [
        ({0.5: 1.1}, [0.5], 0.0),
        ({0.5: 0.9, 1.0: 0.95}, [0.5, 1.0], 0.5),
        ({0.5: 0.9, 1.0: 0.8}, [0.5, 1.0], 1.0),
    ],
)
def test_the_power_of_the_number_of_entries_is_raised_as_long_as_that_helps(scores, tried, power):
    lines = scripted_lines("l2_power", scores.__getitem__)
    best = Candidate(ModelSpec(rank=10), 1.0, (), 0.0, 0)
    after = EntryPower().run(lines, Found(factors=best))
    assert lines.trials.tried == tried
    assert after.factors.settings.l2_power == power
    fixed = scripted_lines("l2_power", scores.__getitem__, EVERYTHING - {"l2_power"})
    assert module.choose_power(fixed, best) is best
    assert fixed.trials.tried == []


class Surface(Scripted):
    """Trials whose scores are a function of the number of columns and of the ridge."""

    def __init__(self, function):
        super().__init__(None, function)

    def score(self, settings):
        self.tried.append((settings.rank, settings.l2))
        return Candidate(settings, self.function(settings.rank, settings.l2), (), 0.0, 0)


def narrowed(function, free=EVERYTHING):
    trials = Surface(function)
    lines = LineSearches(trials, SearchSpace(ModelSpec(), free))
    best = Candidate(ModelSpec(rank=10, l2=8.0), function(10, 8.0), (), 0.0, 0)
    return Ranks()._lower_rank(lines, best).settings, trials.tried


def test_fewer_columns_are_shrunk_less():
    def valley(rank, l2):  # best with two columns and a little more than half the ridge
        return 1.0 + 0.008 * abs(np.log2(rank / 2)) + 0.001 * abs(np.log2(l2 / 4.8))

    settings, tried = narrowed(valley)
    first, second, third = (share * 8.0 for share in module.LOW_RANK_PENALTY_SHARES[:3])
    assert first == pytest.approx(4.8)
    assert settings == ModelSpec(rank=2, l2=first)
    # One of each number of columns, and then the path of the best number, until it has turned.
    assert tried[:3] == [(rank, first) for rank in module.LOW_RANKS]
    assert tried[3:] == [(2, first), (2, second), (2, third)]


def test_fewer_columns_are_taken_if_they_are_better():
    for lower, rank in ((1.001, 10), (0.999, 5)):
        assert (
            narrowed(lambda k, _, lower=lower: lower if k == 5 else 1.0 + (k < 5))[0].rank == rank
        )
    settings, tried = narrowed(
        lambda rank, _: 1.0 if rank == 10 else 1.0 + 2 * module.REFINED_WITHIN
    )
    assert settings == ModelSpec(rank=10, l2=8.0)
    assert len(tried) == len(module.LOW_RANKS)  # far worse: no path


def test_fewer_columns_beside_a_ridge_that_is_fixed_keep_it():
    settings, tried = narrowed(lambda rank, _: 1.0 + 2e-3 * rank, EVERYTHING - {"l2"})
    assert {l2 for _, l2 in tried} == {8.0}
    assert settings.rank == 1
