"""Folds of a search: how many, of how many entries, and what is imputed in them."""

from fractions import Fraction

import numpy as np
import pytest

from tribit.data.axis import Axes
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.model.spec import ModelSpec
from tribit.randomness import hashed_fold_numbers
from tribit.selection import folds as module
from tribit.selection.folds import Fold, make_folds, n_first_folds, spec_for_fold, thin_mixture

WIDTH = 500


def entries(n_likes, n_dislikes=0, seed=0):
    """Return so many likes and dislikes at random places of a matrix with 500 columns."""
    n = n_likes + n_dislikes
    rng = np.random.default_rng(seed)
    height = -(-2 * n // WIDTH)
    cells = rng.choice(height * WIDTH, n, replace=False)
    labels = np.repeat(np.array([1, -1], dtype=np.int8), [n_likes, n_dislikes])
    return Observations(cells // WIDTH, cells % WIDTH, labels, shape=(height, WIDTH))


def held_out_numbers(seen):
    folds = make_folds(seen, None, np.random.default_rng(0))
    # Penalties scale in a row subsample alone.
    assert {fold.penalty_share for fold in folds} == {1.0}
    return [fold.held_out.n_observed for fold in folds], [
        min(fold.held_out.n_likes, fold.held_out.n_dislikes) for fold in folds
    ]


@pytest.mark.parametrize(
    ("n_likes", "n_dislikes", "parts", "used"),
    [
        (250, 250, 5, 5),
        (20_000, 19_999, 5, 5),
        (20_000, 20_000, 10, 5),
        (39_801, 199, 5, 5),  # a tenth of the rarer label would be below 20
        (39_800, 200, 10, 5),
        (30_000, 30_000, 10, 5),
        (50_000, 50_000, 10, 3),
        (49_999, 50_000, 10, 4),
        (75_000, 75_000, 10, 2),
        (150_000, 150_000, 10, 1),
        (300_000, 299_999, 11, 1),  # 50,000 held out at most
        (599_761, 239, 11, 1),
        (599_781, 219, 10, 1),  # 20 of the rarer label at least
    ],
)
def test_numbers_of_folds_and_of_their_entries(n_likes, n_dislikes, parts, used):
    total, rarer = held_out_numbers(entries(n_likes, n_dislikes))
    n = n_likes + n_dislikes
    assert len(total) == used
    for one, other in zip(total, rarer, strict=True):
        assert abs(one - Fraction(n, parts)) <= 1
        assert abs(other - Fraction(min(n_likes, n_dislikes), parts)) <= 1


@pytest.mark.parametrize(
    ("n", "parts", "used"),
    [
        (60, 10, 3),
        (2_999, 10, 3),
        (4_999, 10, 3),
        (5_000, 10, 2),
        (9_999, 10, 2),
        (10_000, 10, 1),
        (60_000, 10, 1),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_folds_of_one_label_alone(n, parts, used, sign):
    total, rarer = held_out_numbers(entries(n) if sign > 0 else entries(0, n))
    assert rarer == [0] * used
    assert all(abs(each - Fraction(n, parts)) <= 1 for each in total)


def test_both_labels_are_held_out_evenly():
    total, rarer = held_out_numbers(entries(303, 100))
    assert sorted(total) == [80, 80, 81, 81, 81]
    assert rarer == [20] * 5


@pytest.mark.parametrize(("n", "first"), [(3_999, 2), (4_000, 1), (2_000, 2), (1_999, 3), (800, 5)])
def test_stages_compare_on_four_thousand_held_out_entries(n, first):
    part = entries(n - n // 2, n // 2)
    fold = Fold(part, part, np.ones(n), 0.8, 0)
    assert n_first_folds([fold] * 5) == first


@pytest.mark.parametrize(("rarer", "first"), [(20, 1), (19, 2), (10, 2), (9, 3), (3, 5)])
def test_stages_compare_on_twenty_held_out_entries_of_each_label(rarer, first):
    for likes, dislikes in ((rarer, 5_000), (5_000, rarer)):
        part = entries(likes, dislikes)
        fold = Fold(part, part, np.ones(part.n_observed), 0.8, 0)
        assert n_first_folds([fold] * 5) == first


class Elsewhere(RemoteObservations):
    """Entries that a cluster would have."""

    __slots__ = ("seen",)

    def __init__(self, seen):
        counts = (np.bincount(each) for each in (seen.rows, seen.columns))
        super().__init__(Axes.of(seen.shape), tuple(counts), seen.n_likes)
        object.__setattr__(self, "seen", seen)

    def make_backend(self, *_, **__):
        raise NotImplementedError

    def hashed_folds(self, n, used, seed):
        number = hashed_fold_numbers(self.seen.rows, self.seen.columns, n, seed)
        pairs = (self.seen.hold_out(number == part) for part in range(used))
        return [(Elsewhere(train), held_out) for train, held_out in pairs]


@pytest.mark.parametrize(
    ("n_likes", "n_dislikes", "parts", "used"),
    [(2_000, 1_000, 5, 5), (50_000, 50_000, 10, 3), (12_000, 0, 10, 1), (2_900, 0, 10, 3)],
)
def test_folds_elsewhere_have_the_same_numbers_and_bring_held_out_entries_here(
    n_likes, n_dislikes, parts, used
):
    seen = entries(n_likes, n_dislikes)
    folds = make_folds(Elsewhere(seen), None, np.random.default_rng(3))
    assert len(folds) == used
    places = [set(zip(f.held_out.rows, f.held_out.columns, strict=True)) for f in folds]
    assert len(set().union(*places)) == sum(map(len, places))
    for fold in folds:
        assert not fold.held_out.is_remote
        # A hash spreads them as independent draws would.
        expected, n = seen.n_observed / parts, fold.held_out.n_observed
        assert abs(n - expected) < 5.0 * np.sqrt(expected)
        assert fold.share == (seen.n_observed - n) / seen.n_observed
        assert fold.train.n_observed == seen.n_observed - n
        np.testing.assert_array_equal(fold.weights, np.ones(n))
    assert len({fold.seed for fold in folds}) == used
    again = make_folds(Elsewhere(seen), lambda part: 2.0 + part.rows, np.random.default_rng(3))
    for fold, other in zip(folds, again, strict=True):
        np.testing.assert_array_equal(fold.held_out.rows, other.held_out.rows)
        np.testing.assert_array_equal(other.weights, 2.0 + other.held_out.rows)


def test_tenths_of_likes_elsewhere_are_as_small_as_this_machine_needs(monkeypatch):
    monkeypatch.setattr(module, "MAX_HELD_OUT", 500)
    (fold,) = make_folds(Elsewhere(entries(12_000)), None, np.random.default_rng(0))
    assert abs(fold.held_out.n_observed - 500) < 100


def test_weights_of_entries_are_times_their_own():
    seen = entries(60, 40)
    heavy = seen.with_weights(1.0 + np.arange(100))
    own = dict(zip(zip(heavy.rows, heavy.columns, strict=True), heavy.weights, strict=True))
    for weights in (lambda part: 3.0 * part.columns, 3.0 * heavy.columns):
        for fold in make_folds(heavy, weights, np.random.default_rng(0)):
            part = fold.held_out
            at = [own[place] for place in zip(part.rows, part.columns, strict=True)]
            np.testing.assert_allclose(fold.weights, 3.0 * part.columns * at)


# A fold's hyperparameters


@pytest.mark.parametrize("share", [0.2, 0.8, 1.0])
@pytest.mark.parametrize("gammas", [(0.6, 0.3, 0.1), (1.0, 0.0, 0.0), (0.0, 0.3, 0.7)])
def test_a_mixture_imputes_as_much_for_each_observed_entry(gammas, share):
    found = thin_mixture(gammas, share)
    assert sum(found) == pytest.approx(1.0)
    # Weights of the imputed labels, and of these to the observed ones: odds shrink with the share.
    assert found[1] * gammas[2] == pytest.approx(found[2] * gammas[1])
    assert (1 - found[0]) * gammas[0] == pytest.approx(share * (1 - gammas[0]) * found[0])


class Mask:
    def rho_at(self, rows, columns):
        return 0.1 * rows + 0.01 * columns


@pytest.mark.parametrize(("rho", "expected"), [(None, None), (0.0, 0.0), (0.5, 0.6), (0.9, 0.92)])
def test_fewer_entries_are_seen_in_a_fold(rho, expected):
    settings = ModelSpec(rank=1, radius=1.0, gammas=(0.8, 0.1, 0.1), rho=rho)
    found = spec_for_fold(settings, 0.8).rho
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_mask_is_thinned_entry_by_entry():
    settings = ModelSpec(rank=1, radius=1.0, gammas=(0.8, 0.1, 0.1), rho=Mask())
    found = spec_for_fold(settings, 0.8).rho.rho_at(np.array([0, 3, 5]), np.array([0, 2, 4]))
    np.testing.assert_allclose(found, 1.0 - 0.8 * (1.0 - np.array([0.0, 0.32, 0.54])))


def test_penalties_of_factors_and_features_scale_and_those_of_intercepts_do_not():
    settings = ModelSpec(rank=2, l2=6.0, l2_intercept=5.0, l2_implicit=4.0, l2_side=None)
    found = spec_for_fold(settings, 0.8, 0.5)
    assert (found.l2, found.l2_implicit, found.l2_side) == (3.0, 2.0, None)
    assert found.l2_intercept == 5.0
    assert spec_for_fold(settings, 0.8) == settings
