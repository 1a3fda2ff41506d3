"""Means of rows that cells were drawn from: by hand, over simulated draws, and translated towards completed rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from tribit import InvalidInputError, Observations
from tribit.estimates import Draws, Groups, estimate_means
from tribit.estimates.asking import Design
from tribit.estimates.drawn_rows import Parts, parts_of_batches, robust_estimates
from tribit.estimates.item_response import fit_items
from tribit.estimates.limited_translation import LIMITS, RowEstimates, fit_translation
from tribit.estimates.replay import replay_rows, steps_of


def simulated(n, m, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 1, (n, 1)) + rng.normal(0, 1.5, m)
    return np.where(rng.random((n, m)) < expit(x), 1, -1)


def asked(y, n_new, n_cells, batch, name, seed):
    """Return the table with the first rows asked, and the draws."""
    draws = np.random.default_rng(seed)
    items = fit_items(sp.csr_array(y[n_new:].astype(np.int8)), 2, draws)
    design, shape = Design.of(y.shape[1], name), (n_new, y.shape[1])
    steps = steps_of(design, np.full(n_new, float(n_cells)), np.full(n_new, float(batch)))
    found = replay_rows(items, y[:n_new], np.zeros(shape, bool), steps, design, draws)
    return Observations.from_matrix(np.vstack([found.labels.toarray(), y[n_new:]])), found.draws


Y = simulated(70, 60)
TRUTH = (Y > 0).mean(axis=1)


def test_the_estimate_of_a_batch_is_that_by_hand():
    """Known cells count as they are; the others by predictions and by drawn labels, each with its probability."""
    labels = sp.csr_array(np.array([[1, -1, 1, 0, 1, 0, 0, 1]], dtype=np.int8))
    draws = Draws(
        np.zeros(4, int), np.array([1, 2, 4, 7]), np.array([0.5, 0.4, 0.8, 0.25]), np.array([1, 1, 2, 2])
    )  # fmt: skip
    p = np.array([[0.7, 0.4, 0.5, 0.2, 0.9, 0.6, 0.3, 0.8]])
    weights = np.array([[1, 2, 1, 1, 1, 1, 2, 1]]) / 10
    parts = parts_of_batches(labels, draws, weights, lambda *_: p)
    assert [each.shares[0] for each in parts] == pytest.approx([0.9, 0.6])
    assert [each.exact[0] for each in parts] == pytest.approx([0.1, 0.2])
    y = labels.toarray()[0] > 0
    for part, drawn, q in zip(parts, ([1, 2], [4, 7]), ([0.5, 0.4], [0.8, 0.25]), strict=True):
        inverse = weights[0, drawn] / part.shares[0] / np.array(q)
        assert part.sums.label[0] == pytest.approx(inverse @ y[drawn] / inverse.sum())
        assert part.sums.prediction[0] == pytest.approx(inverse @ p[0, drawn] / inverse.sum())
        # The sum over all unknown cells of a^2 (1 - q) / q is estimated from the drawn ones.
        a = weights[0, drawn] / part.shares[0]
        expected = (a**2 * (1 - np.array(q)) / np.array(q) ** 2).sum()
        assert part.sums.noise[0].sum() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "n_cells", "batch"),
    [("pps", 12, 12), ("pps", 40, 20), ("mixed", 12, 3), ("random", 12, 12)],
)
def test_intervals_cover_means_over_draws_of_cells(name, n_cells, batch):
    hits, bias = [], []
    for seed in range(6):
        seen, draws = asked(Y, 30, n_cells, batch, name, seed)
        found = estimate_means(seen, q=draws, level=0.9, random_state=seed)
        hits.append(((found.lower <= TRUTH + 1e-9) & (found.upper + 1e-9 >= TRUTH))[:30])
        bias.append((found.mean - TRUTH)[:30])
    assert 0.84 < np.mean(hits) < 0.98
    assert abs(np.mean(bias)) < 0.03
    assert (found.seen[:30] == n_cells).all()


def test_a_row_without_a_random_draw_may_have_any_mean():
    table = np.vstack([np.where(np.arange(60) < 20, Y[:1], 0), Y[1:]])
    draws = Draws(np.zeros(20, int), np.arange(20), np.ones(20), np.ones(20, int))
    found = estimate_means(Observations.from_matrix(table), q=draws, random_state=0)
    likes = (Y[0, :20] > 0).sum()
    assert (found.lower[0] * 60, found.upper[0] * 60) == pytest.approx((likes, likes + 40))
    assert found.lower[0] < found.mean[0] < found.upper[0]
    assert found.basis[0] == "partly none"
    assert found.effective[0] == 0


def test_a_row_that_is_whole_by_now_is_exact():
    draws = Draws(np.zeros(5, int), np.arange(5), np.full(5, 0.5), np.ones(5, int))
    found = estimate_means(Observations.from_matrix(Y), q=draws, random_state=0)
    assert found.mean == pytest.approx(TRUTH)
    assert set(found.basis) == {"complete"}


def test_groups_of_drawn_and_other_rows():
    seen, draws = asked(Y, 30, 12, 12, "pps", 0)
    groups = Groups(np.array(["new", "whole"]), np.r_[np.zeros(30, int), np.ones(40, int)])
    rows = estimate_means(seen, q=draws, random_state=0)
    found = estimate_means(seen, q=draws, groups=groups, random_state=0)
    assert found.mean[0] == pytest.approx(rows.mean[:30].mean())
    assert found.upper[0] - found.lower[0] < (rows.upper - rows.lower)[:30].mean() / 3


def test_estimates_move_by_at_most_the_limit():
    rows = RowEstimates(
        robust=np.array([0.5, 0.5, 0.3]),
        error=np.array([0.1, 0.1, np.inf]),
        completed=np.array([0.55, 0.9, 0.3]),
        deviation=np.array([0.1, 0.1, 0.2]),
        least=np.array([0.0, 0.0, 0.1]),
        most=np.array([1.0, 0.6, 0.8]),
    )
    assert rows.translated(1.0).tolist() == pytest.approx([0.55, 0.6, 0.3])
    assert rows.translated(np.inf).tolist() == pytest.approx([0.55, 0.6, 0.3])
    assert rows.translated(0.0).tolist() == pytest.approx([0.5, 0.5, 0.3])


def test_the_limit_has_the_least_error_on_whole_rows():
    rng = np.random.default_rng(0)
    truth = rng.random(400)
    edge = np.zeros(400), np.ones(400)
    for noise_of_robust, noise_of_completed, expected in ((0.2, 0.02, np.inf), (0.02, 0.4, 0.0)):
        rows = RowEstimates(
            truth + noise_of_robust * rng.normal(size=400), np.full(400, noise_of_robust),
            truth + noise_of_completed * rng.normal(size=400), np.full(400, 0.1), *edge,
        )  # fmt: skip
        found = fit_translation(rows, truth, 400)
        losses = [np.mean((rows.translated(c) - truth) ** 2) for c in LIMITS]
        assert found.limit == LIMITS[int(np.argmin(losses))]
        assert found.limit >= 3 if expected else found.limit == 0
        low, high = found.limits(rows, 0.9)
        # The quantile is of these errors: 361 of 400 rows are covered, up to the edges.
        assert np.mean((low <= truth) & (truth <= high)) >= 0.9


def test_intervals_of_asked_rows_are_calibrated_by_replays_on_whole_rows():
    y = simulated(120, 60, seed=1)
    truth = (y > 0).mean(axis=1)
    hits, ours, robust = [], [], []
    for seed in range(4):
        seen, draws = asked(y, 30, 12, 3, "mixed", seed)
        found = estimate_means(seen, q=draws, guarantee="rows", level=0.9, random_state=seed)
        row = estimate_means(seen, q=draws, level=0.9, random_state=seed)
        hits.append(((found.lower <= truth + 1e-9) & (truth <= found.upper + 1e-9))[:30])
        ours.append((found.mean - truth)[:30])
        robust.append((row.mean - truth)[:30])
        assert set(found.basis[:30]) == {"whole rows"}
    assert 0.84 < np.mean(hits) < 0.97
    assert np.mean(np.square(ours)) < np.mean(np.square(robust))


def test_a_greedy_design_is_estimated_from_whole_rows_alone():
    y = simulated(120, 60, seed=1)
    seen, draws = asked(y, 10, 12, 3, "greedy", 0)
    found = estimate_means(seen, q=draws, guarantee="rows", level=0.9, random_state=0)
    assert (found.upper - found.lower)[:10].mean() < 0.4
    assert np.mean(np.abs(found.mean - (y > 0).mean(axis=1))[:10]) < 0.1
    with pytest.raises(InvalidInputError, match="for groups or other draws of cells"):
        estimate_means(
            seen, q=draws, guarantee="rows", groups=Groups(np.array(["a"]), np.zeros(120, int))
        )


def test_robust_estimates_of_rows_are_those_of_means():
    seen, draws = asked(Y, 30, 40, 20, "pps", 3)
    labels = seen.to_sparse()
    p = np.full(Y.shape, 0.6)
    parts = parts_of_batches(labels, draws, np.full((1, 60), 1 / 60), lambda _, rows: p[rows])
    rows = np.arange(30)
    estimates, errors = robust_estimates(Parts.combine(parts), rows)
    # Without predictions: the labels of each batch by Hajek's weights, and what was known.
    for i in (0, 7):
        expected = 0.0
        for number, n in ((1, 20), (2, 20)):
            at = (draws.rows == i) & (draws.batch == number)
            known = draws.columns[(draws.rows == i) & (draws.batch < number)]
            inverse = 1 / draws.probability[at]
            label = inverse @ (Y[i, draws.columns[at]] > 0) / inverse.sum()
            share = 1 - known.size / 60
            expected += n / 40 * ((Y[i, known] > 0).sum() / 60 + share * label)
        assert estimates[i] == pytest.approx(expected)
    assert (errors > 0).all()
