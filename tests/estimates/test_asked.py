"""Cells to ask: budgets over rows and batches, greedy and random cells, costs, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from tribit import InvalidInputError, Observations
from tribit.errors import TribitWarning
from tribit.estimates import Draws, ask_cells
from tribit.estimates.asked import even_shares
from tribit.estimates.asking import Design, choose_cells
from tribit.estimates.gains import Posterior, fall_of_variance
from tribit.estimates.item_response import fit_items

RNG = np.random.default_rng(1)
X = RNG.normal(0.5, 1, (40, 1)) + RNG.normal(0, 1.5, 30)
Y = np.where(RNG.random(X.shape) < expit(X), 1, -1)
MASK = np.ones(Y.shape, dtype=bool)
MASK[:4] = RNG.random((4, 30)) < 0.2
SEEN = np.where(MASK, Y, 0)
TABLE = Observations.from_matrix(SEEN)
ITEMS = fit_items(sp.csr_array(SEEN[4:].astype(np.int8)), 2, np.random.default_rng(0))
NEW = sp.csr_array(SEEN[:4].astype(np.int8))
NONE = np.zeros(4)


def design(name, **options):
    return Design.of(30, name, **options)


def test_a_greedy_design_takes_the_greatest_gain_one_after_another():
    found = choose_cells(
        ITEMS, NEW, np.full(4, 3.0), NONE, design("greedy"), np.random.default_rng(0)
    )
    assert (found.probability[found.chosen] == 1).all()
    posterior = Posterior.of(ITEMS, ITEMS.abilities(NEW), SEEN[:4] == 0, np.full(30, 1 / 30))
    for _ in range(3):
        gains = np.where(posterior.unknown, fall_of_variance(posterior), -1)
        best = gains.argmax(axis=1)
        assert found.chosen[np.arange(4), best].all()
        posterior = posterior.asked(np.arange(4), best)
    assert (found.chosen.sum(axis=1) == 3).all()


@pytest.mark.parametrize(("name", "is_even"), [("pps", False), ("random", True)])
def test_random_designs_draw_unseen_cells_with_their_probabilities(name, is_even):
    draws = np.random.default_rng(0)
    found = [
        choose_cells(ITEMS, NEW, NONE, np.full(4, 5.0), design(name), draws) for _ in range(300)
    ]
    chosen = np.array([each.chosen for each in found])
    assert (chosen.sum(axis=2) == 5).all()
    assert not chosen[:, SEEN[:4] != 0].any()
    q = np.max([each.probability for each in found], axis=0)
    assert np.allclose(chosen.mean(axis=0), q, atol=0.12)
    p = found[0].prediction
    sizes = np.where(SEEN[:4] == 0, 1 if is_even else np.sqrt(p * (1 - p)), 0.0)
    free = (q < 1) & (q > 0)
    for i in range(4):
        expected = sizes[i] / sizes[i][SEEN[i] == 0].mean() * (1 if is_even else 0.9)
        expected = expected + (0 if is_even else 0.1)
        ratio = q[i][free[i]] / expected[free[i]]
        assert np.allclose(ratio, ratio[0])


def test_a_mixed_design_spends_a_quarter_by_gain_first():
    mixed = design("mixed")
    greedy, random = mixed.split(np.array([0.0, 3, 8]), np.full(3, 4.0), np.full(3, 20.0))
    assert greedy.tolist() == [4, 2, 0]
    assert random.tolist() == [0, 2, 4]


def test_costs_are_met_on_average_and_never_exceeded_by_greedy_cells():
    costs = np.where(np.arange(30) % 2, 1.0, 3.0)
    greedy = choose_cells(
        ITEMS, NEW, np.full(4, 7.0), NONE, design("greedy", costs=costs), np.random.default_rng(0)
    )
    assert (greedy.chosen @ costs <= 7).all()
    assert (greedy.chosen @ costs > 6).all()
    draws = np.random.default_rng(0)
    spent = [
        choose_cells(ITEMS, NEW, NONE, np.full(4, 9.0), design("pps", costs=costs), draws).chosen
        @ costs
        for _ in range(60)
    ]
    assert np.allclose(np.mean(spent), 9, atol=0.25)


def test_budgets_are_even_but_for_rows_with_few_unseen_cells():
    assert even_shares(10, np.array([4.0, 1.0, 9.0, 9.0])).tolist() == [3, 1, 3, 3]
    assert even_shares(11, np.array([4.0, 1.0, 9.0, 9.0])).tolist() == [4, 1, 3, 3]
    assert even_shares(4.0, np.array([2.5, 0.5, 2.5])).tolist() == [1.75, 0.5, 1.75]
    assert even_shares(23, np.array([4.0, 1.0, 9.0, 9.0])).tolist() == [4, 1, 9, 9]


def test_batches_continue_a_plan_until_its_budget_is_spent():
    seen, asked, numbers = SEEN.copy(), None, []
    for _ in range(3):
        found = ask_cells(
            Observations.from_matrix(seen), budget=40, batch=16, asked=asked, random_state=0
        )
        assert (seen[found.rows, found.columns] == 0).all()
        seen[found.rows, found.columns] = Y[found.rows, found.columns]
        numbers.append((len(found), set(found.batch.tolist()), (found.probability == 1).sum()))
        new = Draws(found.rows, found.columns, found.probability, found.batch)
        parts = [new] if asked is None else [asked, new]
        asked = Draws(*(np.concatenate([getattr(each, name) for each in parts]) for name in
                        ("rows", "columns", "probability", "batch")))  # fmt: skip
    # Ten cells a row: two by gain, as 2.5 is rounded to, and eight at random.
    assert numbers == [(16, {1}, 8), (16, {2}, 0), (8, {3}, 0)]
    assert np.bincount(asked.rows)[:4].tolist() == [10] * 4
    with pytest.raises(InvalidInputError, match="earlier batches spent budget=40"):
        ask_cells(Observations.from_matrix(seen), budget=40, asked=asked)


def test_only_columns_with_a_weight_are_asked():
    weights = (np.arange(30) < 10) * 1.0
    found = ask_cells(TABLE, budget=12, weights=weights, random_state=0)
    assert found.columns.max() < 10
    assert len(found) == 12


def test_the_same_seed_asks_the_same_cells():
    one, two, other = (ask_cells(TABLE, budget=12, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.columns, two.columns)
    assert np.array_equal(one.probability, two.probability)
    assert not np.array_equal(one.columns, other.columns)


def test_a_greedy_design_for_means_warns_of_few_whole_rows():
    with pytest.warns(TribitWarning, match="36 rows are seen as a whole"):
        ask_cells(TABLE, budget=4, design="greedy")


WRONG = {
    "budget=500 is more than the": ({"budget": 500}, TABLE),
    "no unseen cells to ask": ({"budget": 5}, Observations.from_matrix(Y)),
    "design": ({"budget": 5, "design": "clever"}, TABLE),
    "affords no cell": ({"budget": 1, "costs": np.full(30, 9.0), "design": "greedy", "goal": "list"}, TABLE),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_plans_are_refused_in_one_sentence(message):
    options, table = WRONG[message]
    with pytest.raises(InvalidInputError, match=message):
        ask_cells(table, **options)
