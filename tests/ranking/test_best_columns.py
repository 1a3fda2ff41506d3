"""The best columns by factors, screened in single precision, against the order of all scores in double precision."""

import numpy as np
import pytest
import scipy.sparse as sp

from tribit import InvalidInputError
from tribit.model.factors import Factors
from tribit.ranking import best_columns as module
from tribit.ranking.best_columns import Screening, best_columns

ROWS = np.array([5, 0, 39, 5, 17])


def factors(scale=1.0, shape=(40, 300), rank=5, seed=0):
    rng = np.random.default_rng(seed)
    sides = [scale * rng.normal(size=(size, rank)) for size in shape]
    return Factors(*sides, 0.3, *(rng.normal(size=size) for size in shape))


def by_sorting(known, rows, allowed, n, seen):
    """Return the best columns by sorting all scores, equal ones by column."""
    x = known.block(rows, slice(None))
    free = np.tile(allowed, (rows.size, 1))
    if seen is not None:
        free &= seen[rows].toarray() == 0
    found = np.full((rows.size, n), -1)
    for row in range(rows.size):
        columns = np.flatnonzero(free[row])
        best = columns[np.argsort(-x[row, columns], kind="stable")][:n]
        found[row, : best.size] = best
    return found


def everywhere(known):
    return np.ones(known.column_factors.shape[0], dtype=bool)


@pytest.mark.parametrize("n", [1, 10, 299, 300])
@pytest.mark.parametrize("rank", [0, 1, 30])
def test_they_are_the_first_of_all_in_order(n, rank):
    known = factors(rank=rank)
    seen = sp.random_array((40, 300), density=0.3, random_state=1, format="csr")
    allowed = np.random.default_rng(2).random(300) < 0.8
    for left_out, some in ((None, everywhere(known)), (seen, allowed)):
        positions, scores = Screening.of(known).best(ROWS, some, n, left_out)
        np.testing.assert_array_equal(positions, by_sorting(known, ROWS, some, n, left_out))
        for row, own, x in zip(ROWS, positions, scores, strict=True):
            listed = own >= 0
            pairs = np.full(listed.sum(), row), own[listed]
            np.testing.assert_allclose(x[listed], known.at(*pairs), rtol=1e-13, atol=1e-13)
            assert np.all(x[~listed] == -np.inf)


def test_columns_that_single_precision_cannot_tell_apart_are_in_their_true_order():
    """Scores around 1e4 differ by 1e-9, a millionth of the spacing of single precision there."""
    known = Factors(
        np.ones((2, 1)),
        np.zeros((500, 1)),
        1e4,
        np.zeros(2),
        1e-9 * np.random.default_rng(0).permutation(500),
    )
    positions, scores = Screening.of(known).best(np.arange(2), everywhere(known), 20, None)
    expected = np.argsort(-known.column_intercepts)[:20]
    np.testing.assert_array_equal(positions, [expected, expected])
    assert np.all(np.diff(scores) < 0)


def test_the_bound_holds_for_the_worst_rounding():
    """Terms that cancel have errors as large as the bound allows: no column of the best may be lost."""
    rng = np.random.default_rng(3)
    half = rng.normal(scale=1e3, size=(200, 8))
    noise = rng.normal(scale=1e-4, size=200)
    known = Factors(
        np.tile([1.0, -1.0], (3, 8)) / 3.0,
        np.stack([half, half], axis=2).reshape(200, 16),
        0.0,
        np.zeros(3),
        noise,
    )
    screening = Screening.of(known)
    errors = screening.left_factor(np.arange(3)).astype(np.float32) @ screening.by_factor
    exact = known.block(slice(None), slice(None))
    lengths = np.linalg.norm(screening.left_factor(np.arange(3)), axis=1)
    assert np.abs(errors - exact).max() > 1e-6
    assert np.all(np.abs(errors - exact) <= (screening.bound * lengths)[:, None])
    positions, _ = screening.best(np.arange(3), everywhere(known), 10, None)
    np.testing.assert_array_equal(
        positions, by_sorting(known, np.arange(3), everywhere(known), 10, None)
    )


@pytest.mark.parametrize("scale", [1e-30, 1e20, 1e80])
def test_factors_of_any_size(scale):
    known = factors(scale)
    positions, scores = Screening.of(known).best(ROWS, everywhere(known), 7, None)
    np.testing.assert_array_equal(positions, by_sorting(known, ROWS, everywhere(known), 7, None))
    assert np.isfinite(scores).all()


def test_equal_scores_come_in_the_order_of_the_columns():
    known = factors(0.0, rank=2)
    known = Factors(*known.arrays[:2], 0.0, np.zeros(40), np.repeat([1.0, 2.0, 1.0], 100))
    positions, _ = Screening.of(known).best(np.array([3]), everywhere(known), 150, None)
    np.testing.assert_array_equal(positions, [[*range(100, 200), *range(50)]])


def test_a_score_that_is_not_a_number_is_refused():
    known = factors()
    known.row_factors[17, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"score of row 17 is not a number \(NaN\)"):
        Screening.of(known).best(ROWS, everywhere(known), 3, None)


def test_neither_blocks_nor_threads_nor_other_rows_change_a_bit(monkeypatch):
    known = factors(shape=(2000, 50), rank=12)
    rows = np.arange(2000)
    whole = Screening.of(known).best(rows, everywhere(known), 6, None)
    monkeypatch.setattr(module, "BLOCK_SCORES", 1)
    for least in (1, 7):
        monkeypatch.setattr(module, "MIN_BLOCK_ROWS", least)
        for n_jobs in (1, 2, 3):
            found = Screening.of(known).best(rows, everywhere(known), 6, None, n_jobs)
            for one, other in zip(found, whole, strict=True):
                np.testing.assert_array_equal(one, other)
    alone = Screening.of(known).best(rows[8:9], everywhere(known), 6, None)
    np.testing.assert_array_equal(alone[1], whole[1][8:9])


def test_single_precision_factors_are_products_in_double_precision():
    known = factors().astype("float32")
    positions, scores = Screening.of(known).best(ROWS, everywhere(known), 5, None)
    wide = known.astype("float64")
    np.testing.assert_array_equal(positions, by_sorting(wide, ROWS, everywhere(known), 5, None))
    found = best_columns(lambda rows: wide.block(rows, slice(None)), ROWS, 300, 5)
    np.testing.assert_allclose(scores, found[1], rtol=1e-12)


def test_a_row_that_is_too_large_to_screen_changes_no_bit_of_the_others():
    known = factors(rank=12)
    usual = Screening.of(known).best(ROWS, everywhere(known), 9, None)
    known.row_factors[39] *= 1e40
    found = Screening.of(known).best(ROWS, everywhere(known), 9, None)
    others = ROWS != 39
    for one, other in zip(found, usual, strict=True):
        np.testing.assert_array_equal(one[others], other[others])
    assert np.isfinite(found[1]).all()
