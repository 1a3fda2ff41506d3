"""The probability of becoming an entry within the horizon."""

import numpy as np
import pytest

from tribit.model.horizon import (
    GROUP_WIDTH,
    HORIZON,
    MAX_PROBABILITY,
    PRIOR_EVENTS,
    AtRisk,
    fit_horizon,
)


def drawn(n=4000, seed=0, slope=1.0):
    """Scores of cells, and which became entries with probability ``exp(slope x)``, at most .9."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-6.0, 0.0, n)
    return x, rng.random(n) < np.minimum(np.exp(slope * x), 0.9)


@pytest.mark.parametrize(("n", "unit"), [(30, 1.0), (4000, 1.0), (4000, 2.5)])
def test_it_is_the_non_decreasing_share_of_each_group_by_the_min_max_formula(n, unit):
    x, became = drawn(n)
    x, prior = unit * x, np.full(n, 0.07)
    found = fit_horizon(AtRisk(x, became.astype(float), np.ones(n), prior), unit)
    group = np.floor((x - x.min()) / (GROUP_WIDTH * unit)).astype(int)
    extra = PRIOR_EVENTS / became.sum()
    e, m = (np.bincount(group, part) for part in (became + extra * prior, np.full(n, 1 + extra)))
    filled = np.flatnonzero(m)
    e, m = e[filled], m[filled]
    k = np.arange(filled.size)
    expected = [
        max(min(e[a : b + 1].sum() / m[a : b + 1].sum() for b in k[g:]) for a in k[: g + 1])
        for g in k
    ]
    at = x.min() + (filled + 0.5) * GROUP_WIDTH * unit
    np.testing.assert_allclose(found(at), np.minimum(expected, MAX_PROBABILITY), rtol=1e-9)


def test_it_corrects_a_wrong_estimate_where_there_are_many_entries_and_keeps_it_where_few():
    for n, low, high in ((40, 0.0, 0.35), (40_000, 0.8, 1.2)):
        x, became = drawn(n)
        wrong = np.exp(3.0 * x)
        found = fit_horizon(AtRisk(x, became.astype(float), np.ones(n), wrong))
        at = np.array([-2.0, -1.5])
        assert (found(at) > low * np.exp(at)).all()
        assert (found(at) < high * np.exp(at)).all()


@pytest.mark.parametrize("n_events", [0, 1, 50])
def test_it_never_falls_and_never_reaches_one(n_events):
    x = np.concatenate([np.linspace(-30.0, 0.0, 500), np.full(n_events, 2.0)])
    events = np.repeat([0.0, HORIZON], [500, n_events])
    found = fit_horizon(AtRisk(x, events, np.where(events, 0.0, 1.0), np.exp(x)))
    p = found(np.linspace(-800.0, 400.0, 20_001))
    assert (np.diff(p) >= 0).all()
    assert 0 < p[0] < p[-1] <= MAX_PROBABILITY


def test_scores_move_to_equal_quantiles_and_keep_their_order():
    rng = np.random.default_rng(0)
    x, weights = rng.integers(40, size=200).astype(float), rng.integers(1, 5, 200)
    whole = np.repeat(x, weights)
    for change in (lambda x: 2.0 * x + 3.0, np.exp):
        moved = AtRisk(x, x, weights, x).with_cells(
            rng.permutation(change(whole)), np.ones(whole.size)
        )
        np.testing.assert_allclose(moved.x, change(x))
        assert moved.cells.sum() == pytest.approx(whole.size)
    moved = AtRisk(x, x, weights, x).with_cells(np.array([1.0, 9.0]), np.array([3.0, 1.0]))
    few = moved.x
    assert moved.cells.sum() == pytest.approx(4.0)
    np.testing.assert_allclose(moved.cells * moved.prior, weights * x)  # as many events
    assert (np.diff(few[np.argsort(x)]) >= 0).all()
    assert (few.min(), few.max()) == (1.0, 9.0)
