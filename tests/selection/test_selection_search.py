"""The stages of a search, and what it says of them."""

from dataclasses import replace

import numpy as np
import pytest
from selection_data import low_rank, observed, telling_mask

from tribit.model.factors import Factors
from tribit.model.links import Logistic, Probit
from tribit.model.spec import CHOOSABLE, ModelSpec
from tribit.selection import Candidate, Options, Search, choose, mixtures
from tribit.selection import stages as module
from tribit.selection import trials as trials_module
from tribit.selection.folds import make_folds
from tribit.selection.mixture_estimate import mixture
from tribit.selection.search import Freedom
from tribit.selection.stages import Stages
from tribit.selection.line_searches import FAR, NEAR, WORTH
from tribit.selection.trials import Trials, fit_from
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME

EVERYTHING = frozenset(CHOOSABLE) - {"rho"}
PN, MIXTURE = (1.0, 0.0, 0.0), (0.6, 0.2, 0.2)
OPTIONS = Options(n_jobs=1)
A = low_rank((40, 30), density=0.5)
MARGIN = 0.01  #: of scripted trials, in the place of a standard error


def chosen(labels=A, base=None, free=EVERYTHING, options=OPTIONS, seed=0, **rest):
    rest = {
        "target": "observed",
        "scoring": "log_loss",
        "weights": None,
        "n_candidates": None,
        "max_time": None,
        **rest,
    }
    base = base or ModelSpec(rank=10)
    draws = np.random.default_rng(seed)
    return choose(observed(labels), base, Freedom(free), options, draws=draws, **rest)


@pytest.fixture(scope="module")
def search():
    return chosen()


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

    def behind(self, rich, simple):
        return rich.score > simple.score * (1.0 + MARGIN)


def stages(name, function, free=EVERYTHING, base=None):
    return Stages(Scripted(name, function), base or ModelSpec(), free)


# Paths


def walked(scores):
    values = list(range(len(scores)))
    steps = stages("l2", lambda value: scores[int(value)])
    best = steps._path(values, lambda value: ModelSpec(l2=float(value)))
    return int(best.settings.l2), len(steps.trials.tried)


@pytest.mark.parametrize(
    ("scores", "best", "tried"),
    [
        ([5.0, 4.0, 3.0, 2.0], 3, 4),  # to the end
        ([3.0, 2.0, 2.001, 1.9, 2.5, 9.0], 3, 5),  # one step up is forgiven, a far one not
        ([3.0, 2.0, 2.001, 2.002, 1.0], 1, 4),  # two are not
        ([3.0, 2.0, 2.0 * (1 + 2 * FAR), 1.0], 1, 3),
        ([2.0, 2.0, 2.0, 1.0], 0, 3),  # no better is worse
        ([1.0], 0, 1),
    ],
)
def test_a_path_ends_soon_after_the_score_has_turned(scores, best, tried):
    assert walked(scores) == (best, tried)


def test_after_a_better_score_one_step_up_is_forgiven_again():
    assert walked([5.0, 5.001, 4.0, 4.001, 3.0, 3.001, 3.002, 0.0]) == (4, 7)


# Refining


def refined(function, start, step=2.0, name="l2", free=EVERYTHING, doublings=0):
    steps = stages(name, function, free)
    settings = replace(ModelSpec(), **{name: start})
    best = Candidate(settings, function(start) if start else 1.0, (), 0.0, 0)
    found = steps._refined(best, name, step, doublings)
    return getattr(found.settings, name), steps.trials.tried


def valley(value):
    return 1.0 + (np.log2(value) - 4.0) ** 2


def test_a_value_moves_as_long_as_that_helps():
    assert refined(valley, 1.0) == (16.0, [2.0, 4.0, 8.0, 16.0, 32.0])
    assert refined(valley, 64.0) == (16.0, [128.0, 32.0, 16.0, 8.0])
    assert refined(valley, 16.0) == (16.0, [32.0, 8.0])


def test_steps_that_help_become_longer_and_one_that_is_too_long_is_not_the_last():
    assert refined(valley, 1.0, doublings=2) == (16.0, [2.0, 4.0, 16.0, 256.0, 32.0])
    assert refined(valley, 0.25, doublings=2) == (16.0, [0.5, 1.0, 4.0, 64.0, 8.0, 16.0, 32.0])
    far, exponents = 2.0**-14, [-13, -12, -10, -6, -2, 2, 6, 3, 4, 5]
    assert refined(valley, far, doublings=2) == (16.0, [2.0**n for n in exponents])
    assert refined(valley, 64.0, doublings=1) == (16.0, [128.0, 32.0, 16.0, 4.0, 8.0])


def test_a_gain_that_is_not_worth_a_step_is_left():
    def flat(value):
        return 1.0 - 0.9 * WORTH * np.log2(value)

    assert refined(flat, 1.0) == (1.0, [2.0, 0.5])


def test_what_is_fixed_or_nothing_is_not_refined():
    assert refined(abs, 4.0, free=EVERYTHING - {"l2"}) == (4.0, [])
    assert refined(abs, 0.0) == (0.0, [])
    assert refined(abs, None, name="l2_intercept") == (None, [])


# What the user fixed


def test_settings_keep_what_is_not_free():
    base = ModelSpec(rank=3, l2=2.0, gammas=MIXTURE)
    moved = replace(base, l2=7.0, radius=1.0)
    assert Freedom(frozenset({"l2", "radius"})).allows(moved, base)
    assert not Freedom(frozenset({"l2"})).allows(moved, base)
    assert not Freedom(EVERYTHING - {"gammas"}).allows(replace(base, gammas=PN), base)
    assert Freedom(EVERYTHING).allows(replace(base, rank=0), base)
    assert not Freedom(EVERYTHING, least_rank=1).allows(replace(base, rank=0), base)


class Rho:
    """A model of the mask that is neither compared nor copied."""

    def __init__(self, values):
        self.values = values

    def __eq__(self, other):
        raise AssertionError("a model of the mask is not compared")

    __hash__ = None

    def __deepcopy__(self, memo):
        raise AssertionError("a model of the mask is not copied")

    def rho_at(self, rows, _):
        return self.values[rows]


def test_a_model_of_the_mask_need_be_neither_comparable_nor_copied():
    rho = Rho(np.full(40, 0.5))
    base = ModelSpec(gammas=MIXTURE, rho=rho, rank=2)
    search = chosen(base=base, free=frozenset({"radius", "l2"}))
    assert search.best.settings.rho is rho
    assert search.best.settings.choices()["rho"] is rho
    assert len(search.candidates) > 3


# The stages on drawn data


def test_the_order_is_from_simple_to_rich(search):
    order = ["intercepts", "factors", "implicit features", "mixture"]
    assert list(search.families()) == order
    # Other numbers of columns of the factors alone come after implicit features, which may make them needless.
    kinds = [(each.settings.family, each.settings.rank) for each in search.candidates]
    featured = kinds.index(("implicit features", 10))
    assert {rank for family, rank in kinds[:featured] if family == "factors"} == {10}
    assert {rank for family, rank in kinds[featured:] if family == "factors"} >= {1, 2, 5}
    assert search.stop_reason == "every stage was done"
    assert search.n_folds == 3
    assert search.density == np.mean(A != 0)
    assert search.n_held_out == sum(
        fold.held_out.n_observed for fold in make_folds(observed(A), None, np.random.default_rng(0))
    )


def test_the_best_has_the_smallest_score_of_its_family(search):
    assert search.families()[search.best.settings.family] is search.best
    assert any(candidate is search.best for candidate in search.candidates)
    x, labels, weights = search.held_out
    losses = np.logaddexp(0, -labels * x)
    assert np.average(losses, weights=weights) == pytest.approx(search.best.score)


def test_what_is_chosen_is_not_always_the_smallest_score(monkeypatch):
    monkeypatch.setattr(Trials, "chosen", property(lambda trials: trials.candidates[1]))
    search = chosen(n_candidates=4)
    assert search.best is search.candidates[1]
    x, labels, _ = search.held_out
    assert np.mean(np.logaddexp(0, -labels * x)) == pytest.approx(search.best.score)


def test_no_settings_are_tried_twice(search):
    settings = [candidate.settings for candidate in search.candidates]
    assert len(set(settings)) == len(settings)


def test_a_search_repeats_itself_for_a_seed(search):
    again, other = chosen(), chosen(seed=1, n_candidates=2)
    pairs = [[(c.settings, c.score) for c in each.candidates] for each in (search, again, other)]
    assert pairs[0] == pairs[1]
    assert pairs[0][:2] != pairs[2]


def test_the_intercept_s_ridges_are_in_units_of_the_link():
    plain = chosen(free=frozenset({"l2_intercept"}), base=ModelSpec(rank=0))
    steep = chosen(
        free=frozenset({"l2_intercept"}),
        base=ModelSpec(rank=0, link=Logistic(3.0)),
    )
    for ours, theirs in zip(plain.candidates, steep.candidates, strict=True):
        # X / 3 and 9 times the ridge: the same model.
        assert theirs.settings.l2_intercept == pytest.approx(9 * ours.settings.l2_intercept)
        assert theirs.score == pytest.approx(ours.score, rel=1e-3)


@pytest.mark.parametrize("link", [Logistic(), Logistic(4.0), Probit(0.5)])
@pytest.mark.parametrize("shape", [(40, 30), (120, 2)])
def test_the_largest_ridge_is_where_factors_vanish(link, shape):
    seen = observed(low_rank(shape, density=0.7))
    options = Options(dtype="float64", n_jobs=1)
    base = ModelSpec(link=link, intercept=False)
    folds = make_folds(seen, None, np.random.default_rng(0))
    trials = Trials(folds, options, scoring="log_loss", most=None, deadline=None)
    largest = Stages(trials, base, EVERYTHING)._largest_ridge(replace(base, rank=0))
    sizes = []
    for share in (1.02, 0.9):
        settings = replace(base, rank=2, l2=share * largest)
        factors, _ = fit_from(
            folds[0].train, settings, options, {}, np.random.default_rng(0), tol=1e-9
        )
        sizes.append(np.linalg.norm(factors.row_factors @ factors.column_factors.T))
    assert sizes[0] < 0.05 * sizes[1]
    assert sizes[1] > 0.1 / largest


def test_columns_in_use():
    rng = np.random.default_rng(0)
    U, V = np.linalg.qr(rng.normal(size=(9, 3)))[0], np.linalg.qr(rng.normal(size=(7, 3)))[0]
    folds = make_folds(observed(A), None, rng)
    trials = Trials(folds, OPTIONS, scoring="log_loss", most=None, deadline=None)
    steps = Stages(trials, ModelSpec(), EVERYTHING)
    for smallest, used in ((0.03, True), (0.01, False)):
        folds[0].ends["factors"] = Factors.of(U * np.array([1.0, 0.5, smallest]), V)
        assert steps._all_in_use() is used


def test_more_columns_are_tried_where_all_are_in_use():
    free = frozenset({"rank", "l2"})
    rich = chosen(low_rank((80, 60), density=0.6, rank=6, size=3.0, seed=5), free=free)
    assert next(c.settings.rank for c in rich.candidates if c.settings.rank > 10) == 20
    poor = chosen(low_rank((80, 60), density=0.6, rank=1, size=3.0), free=free)
    assert poor.best.settings.rank <= 10
    few = chosen(low_rank((60, 12), density=0.8, rank=6, size=3.0), free=free)
    assert max(c.settings.rank for c in few.candidates) <= 12  # the smaller side


@pytest.mark.parametrize(
    ("scores", "tried", "rank"),
    [
        ({20: 0.995}, 20, 10),  # less than the margin
        ({20: 0.98, 40: 1.0}, 40, 20),  # four times are clearly worse
        ({20: 0.98, 40: 0.985, 80: 0.98}, 80, 40),  # four times are not, eight must help again
        ({20: 0.98, 40: 0.97, 80: 0.9}, 80, 80),
    ],
)
def test_more_columns_must_be_worth_it(monkeypatch, scores, tried, rank):
    steps = stages("rank", scores.__getitem__)
    steps.trials.folds = make_folds(observed(np.tile(A, (3, 3))), None, np.random.default_rng(0))
    monkeypatch.setattr(steps, "_all_in_use", lambda _: True)
    first = Candidate(ModelSpec(rank=10), 1.0, (), 0.0, 0)
    found = steps._more_columns(first, first)
    assert max(steps.trials.tried) == tried
    assert found.settings.rank == rank


@pytest.mark.parametrize(("score", "rank"), [(0.9, 40), (1.005, 40), (1.02, 10)])
def test_beside_implicit_features_more_columns_are_taken_unless_clearly_worse(
    monkeypatch, score, rank
):
    steps = stages("rank", lambda _: score)
    steps.trials.folds, steps.trials.preferred = (
        make_folds(observed(np.tile(A, (2, 2))), None, np.random.default_rng(0)),
        {},
    )
    monkeypatch.setattr(steps, "_all_in_use", lambda _: True)
    best = Candidate(ModelSpec(rank=10, implicit_features=True), 1.0, (), 0.0, 0)
    found = steps._widened(best)
    assert found.settings.rank == rank
    assert steps.trials.tried == [40]  # once
    assert steps.trials.preferred == ({"implicit features": found} if rank == 40 else {})


def test_a_stage_s_preference_in_its_family_is_chosen():
    trials = Trials(
        make_folds(observed(A), None, np.random.default_rng(0)),
        OPTIONS,
        scoring="log_loss",
        most=None,
        deadline=None,
    )
    tried = [trials.score(ModelSpec(rank=2, l2=l2)) for l2 in (3.0, 6.0)]
    smallest, other = sorted(tried, key=lambda candidate: candidate.score)
    assert trials.chosen is smallest
    trials.preferred["factors"] = other
    assert trials.chosen is other


class Surface(Scripted):
    """Trials whose scores are a function of the number of columns and of the ridge."""

    def __init__(self, function):
        super().__init__(None, function)

    def score(self, settings):
        self.tried.append((settings.rank, settings.l2))
        return Candidate(settings, self.function(settings.rank, settings.l2), (), 0.0, 0)


def narrowed(function, free=EVERYTHING):
    trials = Surface(function)
    steps = Stages(trials, ModelSpec(), free)
    best = Candidate(ModelSpec(rank=10, l2=8.0), function(10, 8.0), (), 0.0, 0)
    return steps._fewer_columns(best).settings, trials.tried


def test_fewer_columns_are_shrunk_less():
    def valley(rank, l2):  # best with two columns and a little more than half the ridge
        return 1.0 + 0.008 * abs(np.log2(rank / 2)) + 0.001 * abs(np.log2(l2 / 4.8))

    settings, tried = narrowed(valley)
    first, second, third = (share * 8.0 for share in module.SHRUNK_LESS[:3])
    assert first == pytest.approx(4.8)
    assert settings == ModelSpec(rank=2, l2=first)
    # One of each number of columns, and then the path of the best number, until it has turned.
    assert tried[:3] == [(rank, first) for rank in module.FEWER]
    assert tried[3:] == [(2, first), (2, second), (2, third)]


def test_fewer_columns_must_be_worth_it():
    for gain, rank in ((0.5, 10), (2.0, 5)):
        lower = 1.0 - gain * MARGIN
        assert narrowed(lambda k, _, lower=lower: lower if k == 5 else 1.0)[0].rank == rank
    settings, tried = narrowed(lambda rank, _: 1.0 if rank == 10 else 1.0 + 2 * FAR)
    assert settings == ModelSpec(rank=10, l2=8.0)
    assert len(tried) == len(module.FEWER)  # far worse: no path


def test_fewer_columns_beside_a_ridge_that_is_fixed_keep_it():
    settings, tried = narrowed(lambda rank, _: 1.0 + 2e-3 * rank, EVERYTHING - {"l2"})
    assert {l2 for _, l2 in tried} == {8.0}
    assert settings.rank == 1


def test_a_matrix_of_one_strong_pattern_has_few_columns():
    search = chosen(low_rank((100, 80), density=0.3, rank=1, size=4.0, seed=1))
    assert search.families()["factors"].settings.rank < 10


def test_implicit_features_are_tried_beside_the_wider_factors(search):
    ranks = {c.settings.rank for c in search.candidates if c.settings.implicit_features}
    assert min(ranks) >= 10


def test_a_telling_mask_is_found_and_mixtures_are_left_out_then():
    for seed in (0, 1):
        search = chosen(telling_mask((200, 60), seed=seed))
        assert search.best.settings.implicit_features
        found = search.families()
        ahead = 1.0 - mixtures.OUT_OF_REACH
        assert found["implicit features"].score < ahead * found["factors"].score
        # But for PU alone, which is another way to learn from what was not seen.
        tried = {c.settings.gammas for c in search.candidates if c.settings.mixed}
        assert tried <= {(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)}
        assert "so far ahead are implicit features" in search.stop_reason


def test_a_mask_of_noise_is_not_taken():
    for seed in (0, 1):
        search = chosen(low_rank((60, 50), density=0.5, size=3.0, seed=seed))
        assert "implicit features" in search.families()
        assert not search.best.settings.implicit_features


@pytest.mark.parametrize("seed", [0, 2])
def test_intercepts_alone_are_kept_or_nothing_worse(seed):
    labels = low_rank((60, 40), density=0.5, size=0.0, seed=seed)
    search = chosen(labels)
    found = search.families()
    assert search.best.score <= found["intercepts"].score
    assert search.best.score > 0.98 * found["intercepts"].score  # there is nothing to gain
    # Where factors bring nothing, more columns are not even tried.
    assert {c.settings.rank for c in search.candidates} == {0, 10}


@pytest.mark.usefixtures("short_trials")
def test_a_sparse_matrix_is_spared_the_mixtures_unless_asked_for():
    labels = low_rank((160, 150), density=0.009, size=0.0)
    search = chosen(labels)
    assert "mixture" not in search.families()
    assert search.stop_reason.endswith("so sparse is the matrix: pass gammas to have one")
    asked = chosen(labels, base=ModelSpec(gammas=MIXTURE, rank=2), free=frozenset({"radius"}))
    assert list(asked.families()) == ["mixture"]


def test_mixtures_begin_at_the_rule_s_and_stay_in_balls(search):
    tried = [c.settings for c in search.candidates if 0.0 < c.settings.gammas[0] < 1.0]
    likes = np.mean(A[A != 0] > 0)
    for settings in tried:
        _, g_pu, g_nu = settings.gammas
        assert g_nu / (g_pu + g_nu) == pytest.approx(likes, abs=0.05)
        assert settings.radius is not None
        assert settings.radius == settings.alpha  # alpha is free here: that of the ball
    levels = {Logistic().level(p) for p in (mixtures.SMALLER_BALL, *mixtures.BALLS)}
    assert {settings.radius for settings in tried} <= levels


def test_what_nobody_looks_at_is_disliked_and_pu_alone_is_found():
    """Rows see what they like, and say so: then to count the unseen as disliked is near the truth."""
    rng = np.random.default_rng(0)
    taste = 2.5 * rng.standard_normal((80, 2)) @ rng.standard_normal((2, 40)) / np.sqrt(2)
    taste += 0.8 * rng.standard_normal(40)
    seen = rng.random(taste.shape) < 1.0 / (1.0 + np.exp(2.5 - 0.4 * taste))
    labels = np.where(rng.random(taste.shape) < 1.0 / (1.0 + np.exp(-0.6 * taste)), 1, -1) * seen
    for table, corner in ((labels, (0.0, 1.0, 0.0)), (-labels, (0.0, 0.0, 1.0))):
        search = chosen(table)
        tried = [c for c in search.candidates if c.settings.gammas == corner]
        factors = search.families()["factors"]
        assert search.best in tried
        assert search.best.score < 0.98 * factors.score
        # It sums over all entries: its ridges are that much stronger.
        density = make_folds(observed(table), None, np.random.default_rng(0))[0].train.density
        assert tried[0].settings.l2 > 0.5 * factors.settings.l2 / density


def test_of_two_that_are_nearly_the_same_the_simpler_is_chosen():
    data = observed(A)
    trials = Trials(
        make_folds(data, None, np.random.default_rng(0)),
        OPTIONS,
        scoring="log_loss",
        most=None,
        deadline=None,
    )
    simple = trials.score(ModelSpec(rank=2, l2=3.0))
    rich = trials.score(ModelSpec(rank=2, l2=3.0, implicit_features=True, l2_implicit=1e9))
    # Better at every entry by a hair: no error of the difference stands in its way.
    trials.candidates[1] = replace(rich, score=simple.score * (1.0 - 1e-5))
    trials.losses[trials.candidates[1]] = trials.losses[simple] * (1.0 - 1e-5)
    assert trials.chosen is trials.candidates[0]


@pytest.mark.parametrize(("said", "used"), [(0.2, 0.2), (0.0, 0.05), (0.9, 0.5)])
@pytest.mark.usefixtures("short_trials")
def test_the_first_mixture_is_the_rule_s_within_limits(monkeypatch, said, used):
    asked = []

    def rule(probabilities, labels, weights):
        asked.append((probabilities, labels, weights))
        return said

    monkeypatch.setattr(mixtures, "imputed_share", rule)
    search = chosen()
    ((probabilities, labels, weights),) = asked
    assert probabilities.size == labels.size == weights.size == search.n_held_out
    before = [c.score for c in search.candidates if not c.settings.mixed]
    losses = -np.log(np.where(labels > 0, probabilities, 1 - probabilities))
    found = np.average(losses, weights=weights)
    # Of the best without one, but for wider ones that are not clearly better.
    assert any(found == pytest.approx(score) for score in before)
    assert found < min(before) * (1.0 + NEAR)
    first = next(c.settings for c in search.candidates if 0.0 < c.settings.gammas[0] < 1.0)
    # For the density of all observed entries: a fold has fewer, and imputes the same share.
    seen = make_folds(observed(A), None, np.random.default_rng(0))[0].train
    wanted = mixture(used, observed(A).density, seen.n_likes / seen.n_observed)
    np.testing.assert_allclose(first.gammas, wanted)


@pytest.mark.usefixtures("short_trials")
def test_without_intercepts_there_is_no_model_without_factors():
    search = chosen(base=ModelSpec(intercept=False))
    assert "intercepts" not in search.families()
    assert search.best is not None


# Budgets


@pytest.mark.parametrize("most", [1, 4])
def test_n_candidates(most):
    search = chosen(n_candidates=most)
    assert len(search.candidates) == most
    assert search.stop_reason == f"{most} candidates were tried, the most asked for"
    assert search.best.score == min(candidate.score for candidate in search.candidates)


def test_max_time():
    search = chosen(max_time=1e-9)
    assert len(search.candidates) == 1
    assert search.stop_reason == OUT_OF_TIME
    assert search.best is search.candidates[0]


def test_a_budget_that_ends_before_what_the_user_fixed_chooses_nothing():
    search = chosen(n_candidates=1, base=ModelSpec(rank=3), free=EVERYTHING - {"rank"})
    assert len(search.candidates) == 1
    assert search.best is None
    assert search.held_out is None


@pytest.mark.parametrize("when", [1, 5])
def test_the_keyboard_between_fits_keeps_the_best(monkeypatch, when):
    calls = 0

    def interrupted(*arguments):
        nonlocal calls
        calls += 1
        if calls > 3 * when:
            raise KeyboardInterrupt
        return original(*arguments)

    original = trials_module.problem_of
    monkeypatch.setattr(trials_module, "problem_of", interrupted)
    with pytest.warns(RuntimeWarning, match=f"after {when} candidates; the best so far is kept"):
        search = chosen()
    assert search.stop_reason == INTERRUPTED
    assert len(search.candidates) == when
    assert search.best is not None


def test_the_keyboard_before_there_is_anything_ends_the_fit(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(trials_module, "problem_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        chosen()


# Too little data


@pytest.mark.parametrize(
    ("likes", "dislikes", "enough"),
    [(80, 20, True), (79, 20, False), (81, 19, False), (19, 200, False), (50, 50, True)],
)
def test_too_few_entries_are_not_split(likes, dislikes, enough):
    labels = np.zeros(20 * 15)
    labels[:likes], labels[likes : likes + dislikes] = 1, -1
    labels = np.random.default_rng(0).permutation(labels).reshape(20, 15)
    search = chosen(labels, n_candidates=1)
    assert (search.best is not None) is enough
    if not enough:
        assert search.candidates == ()
        assert search.n_held_out == search.n_folds == 0
        assert f"{likes} likes and {dislikes} dislikes are too few" in search.stop_reason
        assert str(search).startswith("Nothing was chosen from the data: ")


# The record


def test_the_table_has_a_row_for_each_candidate(search):
    table = search.table()
    assert len(table) == len(search.candidates)
    assert [row["chosen"] for row in table].count(True) == 1
    for row, candidate in zip(table, search.candidates, strict=True):
        settings = candidate.settings
        assert (row["g_pn"], row["g_pu"], row["g_nu"]) == settings.gammas
        for name in (
            "rank",
            "radius",
            "alpha",
            "l2",
            "l2_intercept",
            "implicit_features",
            "l2_implicit",
        ):
            assert row[name] == getattr(settings, name)
        assert row["family"] == settings.family
        assert row["score"] == candidate.score
        assert row["n_iter"] == candidate.n_iter
        assert row["chosen"] is (candidate is search.best)
    assert "gammas" not in table[0]


def test_the_table_names_a_model_of_the_mask():
    class Named:
        name = "low-rank"

        def rho_at(self, rows, columns):  # noqa: ARG002
            return np.full(rows.shape, 0.5)

    candidate = Candidate(ModelSpec(rho=Named()), 0.5, (0.5,), 0.1, 3)
    search = Search((candidate,), candidate, "log_loss", "all", 9, 1, 0.1, "done", 0.5)
    assert search.table()[0]["rho"] == "low-rank"


def test_families_are_the_best_of_each(search):
    for family, best in search.families().items():
        own = [c.score for c in search.candidates if c.settings.family == family]
        assert best.score == min(own)


def test_the_text_says_what_was_chosen_and_why(search):
    text = str(search)
    assert text.startswith(f"Chose {search.best.settings}.\n")
    assert f"log_loss on {search.n_held_out} held-out entries" in text
    for family, candidate in search.families().items():
        assert f"{family} {candidate.score:.4f}" in text
    assert f"({len(search.candidates)} candidates, " in text
    assert "array" not in repr(search)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (ModelSpec(rank=0, l2_intercept=3.0), "intercepts: rank 0, l2_intercept 3"),
        (ModelSpec(l2=2.5, l2_implicit=9.0), "factors: rank 10, l2 2.5"),
        (
            ModelSpec(implicit_features=True, l2=2.0, l2_intercept=1.0, l2_implicit=9.0),
            "implicit features: rank 10, l2 2, l2_intercept 1, l2_implicit 9, activity_floor 1 1",
        ),
        (
            ModelSpec(gammas=(0.9, 0.06, 0.04), radius=2.197, alpha=2.197, rank=4),
            "mixture: gammas 0.9 0.06 0.04, rank 4, radius 2.2, alpha 2.2, l2 5",
        ),
    ],
)
def test_settings_in_words(settings, text):
    assert str(settings) == text
