"""Bounds by an odds ratio: closed formulas, both ends, turning points, and coverage if labels decide what is seen."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from tribit import InvalidInputError, InvalidTypeError, Observations
from tribit.estimates import Groups, estimate_means
from tribit.estimates.doubly_robust import prediction_weights, row_sums
from tribit.estimates.item_response import fit_items
from tribit.estimates.sensitivity import turning_points

RATIOS = (1, 1.5, 3, 20)


def observed(y, mask):
    i, j = np.nonzero(mask)
    return Observations(i, j, 2 * y[i, j] - 1, y.shape)


def simulated(n, m, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 1, (n, 1)) + rng.normal(0, 1.5, m)
    return (rng.random((n, m)) < expit(x)).astype(int)


Y = simulated(60, 80)
MASK = np.random.default_rng(3).random(Y.shape) < 0.3
MEANS = estimate_means(observed(Y, MASK), random_state=0)


def limits(means, ratio):
    return tuple(means.sensitivity(ratio).values())


def expected_limits(means, ratio, curve):
    """Return the limits of the first of some means, whose mean at a tilt is ``curve``, by root finding."""

    def tilt_of(value):
        return brentq(lambda u: curve(u) - value, -30, 30)

    shift, z = np.log(ratio), norm.ppf(0.975)
    centre = tilt_of(means.mean[0])
    width = curve(centre + shift) - curve(centre - shift)
    deviation = (means.upper[0] - means.lower[0]) / (2 * z)
    c = brentq(lambda c: norm.cdf(c + width / deviation) - norm.cdf(-c) - 0.95, 1, 3)
    nearer = means.at_level(0.9)  # one-sided at 95%
    share = (z - c) / (z - norm.ppf(0.95))
    found = []
    for two, one, sign in (
        (means.lower[0], nearer.lower[0], -1),
        (means.upper[0], nearer.upper[0], 1),
    ):
        far, near = tilt_of(two), tilt_of(one)
        found.append(curve(far + share * (near - far) + sign * shift))
    return found


@pytest.mark.parametrize("ratio", [1, 1.1, 1.5, 3, 20])
def test_a_row_by_itself_has_the_bounds_of_one_odds_ratio(ratio):
    """Without predictions all cells are alike, with one share of +1 among the unseen."""
    found = estimate_means(observed(Y[:1], MASK[:1]), random_state=0)
    n, likes = MASK[0].sum(), Y[0][MASK[0]].sum()
    expected = expected_limits(found, ratio, lambda u: (likes + (80 - n) * expit(u)) / 80)
    assert np.allclose([limit[0] for limit in limits(found, ratio)], expected)


def test_bounds_shift_the_log_odds_of_unseen_cells():
    """Of a row with predictions, with those of all cells and not their histogram."""
    mask = np.ones(Y.shape, bool)
    mask[0] = MASK[0]
    found = estimate_means(observed(Y, mask), random_state=0)
    labels = observed(Y, mask).to_sparse()
    items = fit_items(labels[1:], 2, np.random.default_rng(0))
    p = items.predict(items.abilities(labels[:1]), labels[:1])
    weight = prediction_weights(row_sums(labels[:1], p, np.full(80, 1 / 80)))[0]
    x = logit(np.clip(p.mean() + weight * (p[0] - p.mean()), 4e-4, 1 - 4e-4))[~mask[0]]
    known = Y[0][mask[0]].sum() / 80
    expected = expected_limits(found, 3, lambda u: known + expit(x + u).sum() / 80)
    assert np.allclose([limit[0] for limit in limits(found, 3)], expected, atol=2e-3)


def test_bounds_begin_at_the_interval_and_end_at_what_seen_cells_allow():
    low, high = limits(MEANS, 1)
    assert np.array_equal(low, MEANS.lower)
    assert np.array_equal(high, MEANS.upper)
    known = (Y * MASK).sum(axis=1) / 80
    low, high = limits(MEANS, np.inf)
    assert np.allclose(low, known)
    assert np.allclose(high, known + 1 - MASK.mean(axis=1))
    widths = [np.subtract(*limits(MEANS, ratio)[::-1]) for ratio in RATIOS]
    assert (np.diff(widths, axis=0) > 0).all()


def test_groups_whole_rows_and_rows_without_seen_cells():
    mask = MASK.copy()
    mask[0], mask[1] = True, False
    rows = estimate_means(observed(Y, mask), random_state=0)
    low, high = limits(rows, 5)
    assert low[0] == high[0] == pytest.approx(Y[0].mean())
    assert (low[1], high[1]) == (0, 1)
    both = Groups(np.array(["a"]), np.where(np.arange(60) < 3, 0, -1))
    group = estimate_means(observed(Y, mask), groups=both, random_state=0)
    for ratio in (*RATIOS, np.inf):
        assert limits(group, ratio)[0][0] == pytest.approx(
            (Y[0].mean() + limits(rows, ratio)[0][2]) / 3, abs=1e-6
        )
        assert limits(group, ratio)[1][0] == pytest.approx(
            (Y[0].mean() + 1 + limits(rows, ratio)[1][2]) / 3, abs=1e-6
        )


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.6, 0.99])
def test_a_mean_turns_where_its_limits_reach_the_threshold(threshold):
    found = MEANS.turns_at(threshold)
    contains = (MEANS.lower <= threshold) & (threshold <= MEANS.upper)
    assert np.array_equal(found == 1, contains)
    known = (Y * MASK).sum(axis=1) / 80
    never = (threshold <= known) | (threshold >= known + 1 - MASK.mean(axis=1))
    assert np.array_equal(np.isinf(found), never)
    for row in np.flatnonzero(~contains & ~never)[:8]:
        low, high = (limit[row] for limit in limits(MEANS, found[row]))
        assert threshold == pytest.approx(low if MEANS.lower[row] > threshold else high)


def test_a_difference_turns_where_its_limits_reach_0():
    turns = MEANS.differences_turn_at(4)
    plain = MEANS.differences(4)
    contains = (plain["difference_lower"] <= 0) & (plain["difference_upper"] >= 0)
    assert np.array_equal(turns == 1, contains)
    assert turns[4] == 1
    apart = np.flatnonzero(np.isfinite(turns) & ~contains)
    assert apart.size > 5
    for row in apart[:6]:
        found = MEANS.differences(4, turns[row])
        nearest = (
            found["difference_lower"]
            if plain["difference"][row] > 0
            else -found["difference_upper"]
        )
        assert nearest[row] == pytest.approx(0, abs=1e-4)


def test_differences_are_those_of_the_least_and_the_largest_means():
    """At infinity the labels of all cells are stated, so that there is no sampling error."""
    found = MEANS.differences(0, np.inf)
    low, high = limits(MEANS, np.inf)
    assert np.allclose(found["difference_lower"][1:], low[1:] - high[0])
    assert np.allclose(found["difference_upper"][1:], high[1:] - low[0])


def test_turning_points_of_known_margins():
    found = turning_points(lambda ratio: np.array([np.log(2.5 / ratio), 1.0, -1.0, 0.0]))
    assert found == pytest.approx([2.5, np.inf, 1, 1])


def test_ranks_are_wider_at_a_larger_odds_ratio():
    one, two, most = (MEANS.ranks(ratio) for ratio in (1, 2, np.inf))
    assert all(np.array_equal(one[name], MEANS.ranks()[name]) for name in one)
    for smaller, larger in ((one, two), (two, most)):
        assert (larger["rank_lower"] <= smaller["rank_lower"]).all()
        assert (larger["rank_upper"] >= smaller["rank_upper"]).all()
    assert (two["rank_lower"] < one["rank_lower"]).any()


@pytest.mark.parametrize("ratio", [0.5, np.nan, -1])
def test_odds_ratios_below_1_are_refused(ratio):
    with pytest.raises(InvalidInputError, match=r"odds_ratio must be in \[1, inf\]"):
        MEANS.sensitivity(ratio)


def test_thresholds_are_shares():
    for threshold in (5, "x"):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="threshold must be"):
            MEANS.turns_at(threshold)


def test_limits_cover_where_the_label_decides_with_the_odds_ratio():
    """+1 are seen with twice the odds: the limits at 2 cover as often as stated, others do not."""
    ratio, hits = 2.0, {"interval": [], "limits": [], "bounds alone": []}
    y = simulated(60, 200, seed=1)
    truth = y.mean(axis=1)[:30]
    for seed in range(12):
        odds = 0.25 * ratio ** (y - 0.7)
        mask = np.random.default_rng(seed).random(y.shape) < odds / (1 + odds)
        mask[30:] = True
        found = estimate_means(observed(y, mask), random_state=seed)
        sides = found.unseen.sides(found.mean, (found.lower, found.upper))(ratio)
        each = {
            "interval": (found.lower, found.upper),
            "limits": limits(found, ratio),
            "bounds alone": (sides.mean_low, sides.mean_high),
        }
        for name, (low, high) in each.items():
            hits[name].append((low[:30] <= truth) & (truth <= high[:30]))
    assert 0.92 < np.mean(hits["limits"]) < 0.975
    assert np.mean(hits["interval"]) < 0.85
    assert 0.3 < np.mean(hits["bounds alone"]) < 0.75
