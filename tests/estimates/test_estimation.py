"""Means of a partly seen table: coverage over draws of cells, groups, whole rows, and what nothing is known of."""

import numpy as np
import pytest
from scipy.special import expit

from tribit import InvalidInputError, Observations
from tribit.estimates import Groups, estimate_means
from tribit.estimates.doubly_robust import prediction_weights, row_sums
from tribit.estimates.intervals import Curve
from tribit.estimates.item_response import fit_items
from tribit.estimates.selection import modelled
from tribit.estimates.whole_rows import Calibration
from tribit.propensity import row_column


def simulated(n, m, seed=0):
    """Return labels 1 and 0 of abilities and difficulties."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 1, (n, 1)) + rng.normal(0, 1.5, m)
    return (rng.random((n, m)) < expit(x)).astype(int)


def observed(y, mask):
    i, j = np.nonzero(mask)
    return Observations(i, j, 2 * y[i, j] - 1, y.shape)


def covers(found, truth):
    return (found.lower <= truth + 1e-9) & (truth <= found.upper + 1e-9)


Y = simulated(60, 80)
RNG = np.random.default_rng(3)
MASK = RNG.random(Y.shape) < 0.3
EACH = np.arange(60)


def test_intervals_cover_the_means_of_rows_over_draws_of_cells():
    """Of 16 draws of 30 rows, with 30 whole rows beside: the level, and narrower than the plain share's."""
    hits, errors, plain, widths = [], [], [], []
    truth = Y[:30].mean(axis=1)
    for seed in range(16):
        mask = np.random.default_rng(seed).random(Y.shape) < 0.3
        mask[30:] = True
        found = estimate_means(observed(Y, mask), level=0.9, random_state=seed)
        hits.append(covers(found, Y.mean(axis=1))[:30])
        errors.append((found.mean[:30] - truth) ** 2)
        plain.append((found.plain[:30] - truth) ** 2)
        widths.append((found.upper - found.lower)[:30])
    assert 0.87 < np.mean(hits) < 0.94
    assert np.mean(plain) > 1.15 * np.mean(errors)
    assert np.mean(widths) < 0.3


def test_rows_unlike_all_others_keep_their_coverage():
    y = np.vstack([1 - Y[:20], Y[20:]])
    hits = []
    for seed in range(8):
        mask = np.random.default_rng(seed).random(Y.shape) < 0.3
        mask[20:] = True
        hits.append(covers(estimate_means(observed(y, mask), random_state=seed), y.mean(axis=1)))
    assert np.mean(np.array(hits)[:, :20]) > 0.92


def test_a_partly_seen_row_is_predicted_by_all_whole_rows():
    mask = np.ones(Y.shape, bool)
    mask[0] = MASK[0]
    labels = observed(Y, mask).to_sparse()
    items = fit_items(labels[1:], 2, np.random.default_rng(0))
    p = items.predict(items.abilities(labels[:1]), labels[:1])
    sums = row_sums(labels[:1], p, np.full(80, 1 / 80))
    expected = sums.estimates(prediction_weights(sums))
    assert estimate_means(observed(Y, mask), random_state=0).mean[0] == pytest.approx(
        expected[0], abs=1e-5
    )


def test_the_mean_of_a_group_and_of_all_are_those_of_their_rows():
    rows = estimate_means(observed(Y, MASK), random_state=0)
    of_rows = np.r_[np.zeros(20, int), np.ones(30, int), np.full(10, -1)]
    found = estimate_means(
        observed(Y, MASK), groups=Groups(np.array(["a", "b"]), of_rows), random_state=0
    )
    assert np.allclose(found.mean, [rows.mean[:20].mean(), rows.mean[20:50].mean()])
    assert found.seen.tolist() == [MASK[:20].sum(), MASK[20:50].sum()]
    assert np.allclose(found.plain, [Y[:20][MASK[:20]].mean(), Y[20:50][MASK[20:50]].mean()])
    assert (found.upper - found.lower < (rows.upper - rows.lower).mean() / 3).all()


def test_a_group_with_one_row_is_that_row():
    rows = estimate_means(observed(Y, MASK), random_state=0)
    of_rows = np.full(60, -1)
    of_rows[7] = 0
    found = estimate_means(
        observed(Y, MASK), groups=Groups(np.array(["a"]), of_rows), random_state=0
    )
    for name in ("mean", "lower", "upper", "seen", "effective", "plain", "basis"):
        assert getattr(found, name)[0] == pytest.approx(getattr(rows, name)[7])


def test_what_is_seen_as_a_whole_is_exact_and_what_is_not_seen_may_be_anything():
    mask = MASK.copy()
    mask[0], mask[1], mask[2] = True, False, np.arange(80) == 5
    found = estimate_means(observed(Y, mask), random_state=0)
    assert found.mean[0] == found.lower[0] == found.upper[0] == pytest.approx(Y[0].mean())
    assert (found.lower[1], found.upper[1], found.seen[1], found.effective[1]) == (0, 1, 0, 0)
    assert 0 < found.mean[1] < 1
    assert np.isnan(found.plain[1])
    assert found.upper[2] - found.lower[2] > 0.7
    assert found.basis[:4].tolist() == ["complete", "none", "plain", "predictions"]
    both = Groups(np.array(["a"]), np.where(EACH < 2, 0, -1))
    pair = estimate_means(observed(Y, mask), groups=both, random_state=0)
    assert np.allclose((pair.lower, pair.upper), np.array([[0], [1]]) / 2 + Y[0].mean() / 2)


@pytest.mark.parametrize("seen", ["all", "one row", "nothing to learn from"])
def test_small_and_full_tables_have_answers(seen):
    mask = {
        "all": np.ones(Y.shape, bool),
        "one row": MASK[:1],
        "nothing to learn from": np.eye(60, 80, dtype=bool),
    }[seen]
    found = estimate_means(observed(Y[: len(mask)], mask), random_state=0)
    assert ((found.lower <= found.mean) & (found.mean <= found.upper)).all()
    if seen == "all":
        assert np.array_equal(found.lower, found.upper)
    if seen == "one row":  # Wilson's: there are no other rows
        assert found.basis[0] == "plain"
        assert found.mean[0] == pytest.approx(Y[0][MASK[0]].mean())


def test_weights_of_columns_state_the_population():
    among = np.arange(80) < 20
    found = estimate_means(observed(Y, MASK), weights=among * 2.0, random_state=0)
    assert found.seen.tolist() == MASK[:, :20].sum(axis=1).tolist()
    assert np.mean(covers(found, Y[:, :20].mean(axis=1))) > 0.85
    with pytest.raises(
        InvalidInputError, match="weights of a mean must be finite and not negative"
    ):
        estimate_means(observed(Y, MASK), weights=np.full(80, -1.0))


def test_each_row_may_have_a_population_of_its_own():
    """The mean over 40 of the columns, others for each row, is that of the same weights for all rows."""
    rng = np.random.default_rng(8)
    population = np.array([rng.permutation(80) < 40 for _ in EACH]) * 1.0
    found = estimate_means(observed(Y, MASK), weights=population, random_state=0)
    truth = (Y * population).sum(axis=1) / 40
    assert found.seen.tolist() == (MASK & (population > 0)).sum(axis=1).tolist()
    assert np.mean(covers(found, truth)) > 0.85
    for row in (0, 1):  # the columns are fitted on the same cells
        one = estimate_means(observed(Y, MASK), weights=population[row], random_state=0)
        assert found.plain[row] == one.plain[row]
        assert found.effective[row] == pytest.approx(one.effective[row])
        assert found.mean[row] == pytest.approx(one.mean[row], abs=0.03)
    with pytest.raises(InvalidInputError, match="weights has the shape"):
        estimate_means(observed(Y, MASK), weights=np.ones((3, 80)))
    population[4] = 0
    with pytest.raises(InvalidInputError, match="one of them above 0"):
        estimate_means(observed(Y, MASK), weights=population)


def test_weights_of_entries_are_refused():
    seen = observed(Y, MASK)
    with pytest.raises(InvalidInputError, match="counts each cell once, but these entries have"):
        estimate_means(seen.with_weights(np.full(len(seen), 2.0)))


def test_some_means_are_those_of_the_same_rows():
    found = estimate_means(observed(Y, MASK), random_state=0)
    some = found.take([7, 3])
    for name, values in found.table().items():
        assert np.array_equal(some.table()[name], values[[7, 3]])
    for whole, part in ((found.at_level(0.5), some.at_level(0.5)), (found, some)):
        assert np.array_equal(whole.lower[[7, 3]], part.lower)
        expected = whole.sensitivity(3)["sensitivity_upper"][[7, 3]]
        assert np.allclose(part.sensitivity(3)["sensitivity_upper"], expected)
    assert some.ranks()["rank_upper"].max() <= 2
    with pytest.raises(InvalidInputError, match="leave out repeated places"):
        found.take([1, 1])


def test_another_level_needs_no_other_estimate():
    y = np.vstack([Y, Y[:, ::-1]])
    mask = np.random.default_rng(3).random(y.shape) < 0.3
    mask[30:90] = True
    for guarantee in ("row", "rows"):
        found, expected = (
            estimate_means(observed(y, mask), guarantee=guarantee, level=level, random_state=0)
            for level in (0.95, 0.8)
        )
        again = found.at_level(0.8)
        assert np.array_equal(again.mean, expected.mean)
        assert np.array_equal(again.lower, expected.lower)
        assert np.array_equal(again.upper, expected.upper)
        assert (again.level, again.name) == (0.8, "row")
    with pytest.raises(InvalidInputError, match="level must be in"):
        found.at_level(1)


def test_selected_cells_need_their_probabilities():
    """Columns with many +1 are seen more often: the plain share is far off, and both ways to know q are not."""
    rng = np.random.default_rng(5)
    easy = Y.mean(axis=0)
    q = np.clip(expit(4 * (easy - 0.8) + rng.normal(0, 0.5, (60, 1))), 0.1, 0.9)
    truth = Y.mean(axis=1)
    bias, hits = [], {"given": [], "modelled": []}
    for seed in range(4):
        mask = np.random.default_rng(seed).random(Y.shape) < q
        for name, given in (("given", q), ("modelled", "modelled")):
            found = estimate_means(observed(Y, mask), q=given, random_state=seed)
            bias.append((found.plain - truth).mean())
            hits[name].append(covers(found, truth))
    assert np.mean(bias) > 0.06
    assert {name: np.mean(each) > 0.9 for name, each in hits.items()} == {
        "given": True,
        "modelled": True,
    }


def test_probabilities_that_cannot_be_are_refused():
    hidden = int(np.flatnonzero(~MASK[0])[0])
    for value, rule in ((0, "above 0 and at most 1"), (np.nan, "above 0"), (1, "this one is not")):
        q = np.full(Y.shape, 0.5)
        q[0, hidden] = value
        with pytest.raises(
            InvalidInputError, match=f"q is .* at position {hidden} of row 0.*{rule}"
        ):
            estimate_means(observed(Y, MASK), q=q)
    with pytest.raises(InvalidInputError, match=r"q has the shape \(80,\)"):
        estimate_means(observed(Y, MASK), q=np.full(80, 0.5))


def test_a_cell_that_is_always_seen_has_no_part_in_the_error():
    q = np.where(MASK, 1.0, 0.3)
    q[:, :40] = 0.3
    found = estimate_means(observed(Y, MASK), q=q, random_state=0)
    assert ((found.lower < found.mean) & (found.mean < found.upper)).all()


def test_modelled_probabilities_sum_to_the_number_of_seen_cells():
    labels = observed(Y, MASK).to_sparse()
    q, errors = modelled(labels, EACH % 5, np.ones(60, bool))(EACH)
    assert np.allclose(q.sum(axis=1), MASK.sum(axis=1), atol=1e-6)
    of_others = row_column(observed(Y[EACH % 5 != 2], MASK[EACH % 5 != 2]))
    assert np.isclose(
        1 / errors[2, 7] - 1,
        sum(of_others.rho_at([i], [7])[0] * (1 - of_others.rho_at([i], [7])[0]) for i in range(48)),
    )


def test_errors_of_probabilities_make_intervals_wider():
    """By the same factor as 1 + (1 - q) times the variance of the log-odds, for equal probabilities."""
    labels = observed(Y[:1], MASK[:1]).to_sparse()
    a, q = np.full(80, 1 / 80), np.full((1, 80), 0.3)
    widths = []
    for errors in (0.0, 0.5):
        curve = Curve.of_rows(
            row_sums(labels, np.full((1, 80), 0.5), a, q, errors), np.zeros(1), np.ones(1)
        )
        widths.append(curve.standard_deviations(np.array([0.6]))[0])
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(1 + 0.7 * 0.5))


def test_intervals_calibrated_on_whole_rows():
    y = simulated(120, 60, seed=1)
    hits, widths, ours = [], [], []
    for seed in range(5):
        mask = np.random.default_rng(seed).random(y.shape) < 0.2
        mask[40:] = True
        seen = observed(y, mask)
        rows = estimate_means(seen, guarantee="rows", level=0.9, random_state=seed)
        row = estimate_means(seen, level=0.9, random_state=seed)
        hits.append(covers(rows, y.mean(axis=1))[:40])
        ours.append((rows.upper - rows.lower)[:40].mean())
        widths.append((row.upper - row.lower)[:40].mean())
    assert 0.84 < np.mean(hits) < 0.97
    assert np.mean(ours) < np.mean(widths)
    assert set(rows.basis[:40]) == {"whole rows"}


def test_a_calibration_on_few_rows_has_no_quantile_for_a_high_level():
    errors = np.arange(1.0, 81.0)
    found = Calibration(0.5, errors, 40)
    assert found.quantile(0.9) == 74  # 37 of 40 rows, of which each has two rehearsals
    assert found.quantile(0.99) == np.inf


def test_intervals_of_rows_need_whole_rows():
    with pytest.raises(InvalidInputError, match=r"needs 40 rows that are seen as a whole.*has 0"):
        estimate_means(observed(Y, MASK), guarantee="rows")
    pairs = Groups(np.array(["a"]), np.zeros(60, int))
    with pytest.raises(InvalidInputError, match="guarantee='row' for groups"):
        estimate_means(observed(Y, MASK), guarantee="rows", groups=pairs)


def test_ranks_hold_the_true_ranks_of_all_rows_at_once():
    y = simulated(8, 300, seed=2)
    truth = y.mean(axis=1)
    true_ranks = 1 + (truth[:, None] < truth).sum(axis=1)
    misses, widths = 0, []
    for seed in range(10):
        mask = np.random.default_rng(seed).random(y.shape) < 0.4
        found = estimate_means(observed(y, mask), level=0.8, random_state=seed)
        ranks = found.ranks()
        misses += not (
            (ranks["rank_lower"] <= true_ranks) & (true_ranks <= ranks["rank_upper"])
        ).all()
        widths.append((ranks["rank_upper"] - ranks["rank_lower"]).mean())
    assert misses <= 4
    assert np.mean(widths) < 4


def test_differences_are_those_of_newcombe_and_zero_for_itself():
    found = estimate_means(observed(Y, MASK), random_state=0)
    differences = found.differences(4)
    assert [values[4] for values in differences.values()] == [0, 0, 0]
    assert np.allclose(differences["difference"], found.mean - found.mean[4])
    low = (
        found.mean[0]
        - found.mean[4]
        - np.hypot(found.mean[0] - found.lower[0], found.upper[4] - found.mean[4])
    )
    assert differences["difference_lower"][0] == pytest.approx(low)


def test_the_same_seed_gives_the_same_means():
    one, two = (estimate_means(observed(Y, MASK), random_state=0) for _ in range(2))
    assert np.array_equal(one.mean, two.mean)
    assert np.array_equal(one.upper, two.upper)
