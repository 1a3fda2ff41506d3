"""Simulated asking: what is revealed, worth and coverage by hand, and batches with many random cells in a row."""

import numpy as np
import pytest
from scipy.special import expit

from tribit import InvalidInputError, Observations
from tribit.estimates import Plan, simulate_asking
from tribit.estimates.asked import draw_in_turn
from tribit.estimates.asking import Design
from tribit.estimates.replay import steps_of

RNG = np.random.default_rng(4)
X = RNG.normal(0.5, 1, (70, 1)) + RNG.normal(0, 1.5, 50)
Y = np.where(RNG.random(X.shape) < expit(X), 1, -1)
TABLE = Observations.from_matrix(Y)
NEW = np.arange(20)


def test_the_measures_are_those_by_hand():
    found = simulate_asking(TABLE, Plan(200), rows=NEW, level=0.8, random_state=0)
    truth = (Y[:20] > 0).mean(axis=1)
    assert found.truth == pytest.approx(truth)
    assert found.means.seen.tolist() == [10] * 20
    # The variance of a share of 10 of 50 cells without replacement.
    assert found.plain_variance == pytest.approx(truth * (1 - truth) / 10 * 40 / 49)
    error = found.means.mean - truth
    assert found.worth == pytest.approx(found.plain_variance.mean() / (error**2).mean())
    inside = (found.means.lower <= truth + 1e-9) & (truth <= found.means.upper + 1e-9)
    assert found.covers.tolist() == inside.tolist()
    wider = found.at_level(0.99)
    assert (wider.means.upper >= found.means.upper).all()
    assert list(found.table())[-1] == "truth"
    assert f"{found.worth:.2f}" in found.facts()["worth"]


def test_cells_by_gain_lower_the_log_loss_of_all_cells():
    losses = {}
    for design, goal in (("random", "means"), ("greedy", "log_loss")):
        plan = Plan(200, batch=20, design=design, goal=goal)
        losses[design] = np.mean(
            [
                simulate_asking(TABLE, plan, rows=NEW, random_state=seed).log_loss
                for seed in range(2)
            ]
        )
    assert losses["greedy"] < losses["random"] - 0.01


def test_all_cells_of_a_row_leave_nothing_to_estimate():
    found = simulate_asking(TABLE, Plan(150), rows=[0, 1, 2], random_state=0)
    assert found.means.mean == pytest.approx(found.truth)
    assert found.log_loss == 0


def test_rows_must_be_whole_and_the_budget_within_them():
    seen = Observations.from_matrix(np.where(RNG.random(Y.shape) < 0.5, Y, 0))
    with pytest.raises(InvalidInputError, match="rows must be seen as a whole"):
        simulate_asking(seen, Plan(10), rows=[0])
    with pytest.raises(InvalidInputError, match="more than all cells of the rows cost"):
        simulate_asking(TABLE, Plan(51), rows=[0])


def test_random_cells_of_a_row_are_drawn_many_at_once():
    """A quarter of 60 cells is chosen one at a time; 45 are drawn in two batches, not in 45."""
    steps = steps_of(Design.of(100), np.array([60.0]), np.array([1.0]))
    assert [(step.greedy[0], step.random[0]) for step in steps] == [(1, 0)] * 15 + [
        (0, 20),
        (0, 25),
    ]
    of_pps = steps_of(Design.of(100, "pps"), np.array([60.0]), np.array([30.0]))
    assert [step.random[0] for step in of_pps] == [30, 30]


def test_rows_are_drawn_from_in_turn():
    left = np.array([24.0, 60.0, 24.0, 5.0])
    assert draw_in_turn(np.array([12.0, 12, 12, 5]), left).tolist() == [24, 0, 0, 5]
    assert draw_in_turn(np.array([20.0, 20, 20, 5]), left).tolist() == [20, 20, 20, 5]
    assert draw_in_turn(np.array([1.0, 1, 0, 0]), left).tolist() == [24, 0, 0, 0]
    assert draw_in_turn(np.array([1.0, 1, 0, 0]), left, is_empty=False).tolist() == [0, 0, 0, 0]
