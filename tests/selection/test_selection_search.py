"""The stages of a search, and what it says of them."""

from dataclasses import replace

import numpy as np
import pytest
from selection_data import low_rank, observed, telling_mask

from tribit.backends import Arithmetic
from tribit.model.links import Logistic
from tribit.model.spec import CHOOSABLE, ModelSpec
from tribit.selection import (
    Budget,
    Candidate,
    Options,
    Search,
    SearchSpace,
    choose,
    gammas,
    mixtures,
)
from tribit.selection import trials as trials_module
from tribit.selection.folds import make_folds
from tribit.selection.gammas import mixture
from tribit.selection.stacking import MIN_GAIN_IN_NATS
from tribit.selection.stages import REFINED_WITHIN
from tribit.selection.trials import Trials
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME

EVERYTHING = frozenset(CHOOSABLE) - {"rho"}
PN, MIXTURE = (1.0, 0.0, 0.0), (0.6, 0.2, 0.2)
OPTIONS = Options(Arithmetic("float32", 1, "auto"))
A = low_rank((40, 30), density=0.5)


def chosen(labels=A, base=None, free=EVERYTHING, options=OPTIONS, seed=0, **limits):
    space = SearchSpace(base or ModelSpec(rank=10), free)
    draws = np.random.default_rng(seed)
    return choose(observed(labels), space, options, Budget(**limits), draws)


@pytest.fixture(scope="module")
def search():
    return chosen()


# A model of the mask that the user gave


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
    # Other ranks of the factors alone come before implicit features.
    kinds = [(each.settings.family, each.settings.rank) for each in search.candidates]
    featured = [family for family, _ in kinds].index("implicit features")
    assert {rank for family, rank in kinds[:featured] if family == "factors"} >= {1, 2, 5, 10}
    assert "factors" not in [family for family, _ in kinds[featured:]]
    assert search.stop_reason == "every stage was done"
    assert search.n_folds == 5
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
    monkeypatch.setattr(Trials, "choice", property(lambda trials: trials.candidates[1]))
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


def test_more_columns_are_tried_where_all_are_in_use():
    free = frozenset({"rank", "l2"})
    rich = chosen(low_rank((80, 60), density=0.6, rank=6, size=3.0, seed=5), free=free)
    assert next(c.settings.rank for c in rich.candidates if c.settings.rank > 10) == 20
    poor = chosen(low_rank((80, 60), density=0.6, rank=1, size=3.0), free=free)
    assert poor.best.settings.rank <= 10
    few = chosen(low_rank((60, 12), density=0.8, rank=6, size=3.0), free=free)
    assert max(c.settings.rank for c in few.candidates) <= 12  # the smaller side


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
        ahead = 1.0 - mixtures.MAX_FEATURE_GAIN
        assert found["implicit features"].score < ahead * found["factors"].score
        # But for PU alone, which is another way to learn from what was not seen.
        tried = {c.settings.gammas for c in search.candidates if c.settings.uses_unobserved}
        assert tried <= {(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)}
        assert "have a far better score" in search.stop_reason


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
    assert search.stop_reason.endswith("the matrix is too sparse: pass gammas to have one")
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
    taste = 2.5 * rng.standard_normal((160, 2)) @ rng.standard_normal((2, 50)) / np.sqrt(2)
    taste += 0.8 * rng.standard_normal(50)
    seen = rng.random(taste.shape) < 1.0 / (1.0 + np.exp(2.5 - 0.4 * taste))
    labels = np.where(rng.random(taste.shape) < 1.0 / (1.0 + np.exp(-0.6 * taste)), 1, -1) * seen
    for table, corner_gammas in ((labels, (0.0, 1.0, 0.0)), (-labels, (0.0, 0.0, 1.0))):
        search = chosen(table)
        tried = [c for c in search.candidates if c.settings.gammas == corner_gammas]
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
    nat = 1.0 / trials.labels.size
    for share, chosen_place in ((0.99, 0), (1.01, 1)):
        trials.candidates[1] = replace(rich, score=simple.score - share * MIN_GAIN_IN_NATS * nat)
        assert trials.choice is trials.candidates[chosen_place]


@pytest.mark.parametrize("said", [0.2, 0.0, 0.9])
@pytest.mark.usefixtures("short_trials")
def test_the_mixtures_near_pn_are_those_that_the_rule_proposes(monkeypatch, said):
    asked = []

    def rule(probabilities, labels, weights):
        asked.append((probabilities, labels, weights))
        return said

    monkeypatch.setattr(gammas, "imputed_share", rule)
    search = chosen()
    ((probabilities, labels, weights),) = asked
    assert probabilities.size == labels.size == weights.size == search.n_held_out
    before = [c.score for c in search.candidates if not c.settings.uses_unobserved]
    losses = -np.log(np.where(labels > 0, probabilities, 1 - probabilities))
    loss = np.average(losses, weights=weights)
    # Of the best without one, but for wider ones that are not clearly better.
    assert any(loss == pytest.approx(score) for score in before)
    assert loss < min(before) * (1.0 + REFINED_WITHIN)
    tried = [c.settings.gammas for c in search.candidates if 0.0 < c.settings.gammas[0] < 1.0]
    # For the density of all observed entries: a fold has fewer, and imputes the same share.
    seen = make_folds(observed(A), None, np.random.default_rng(0))[0].train
    shares = (said, said / 3) if said else (mixtures.SMALL_SHARE,)
    wanted = [mixture(t, observed(A).density, seen.n_likes / seen.n_observed) for t in shares]
    assert len(dict.fromkeys(tried)) == len(wanted)
    for found, expected in zip(dict.fromkeys(tried), wanted, strict=True):
        np.testing.assert_allclose(found, expected)


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
        if calls > 5 * when:  # five folds of each candidate
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
