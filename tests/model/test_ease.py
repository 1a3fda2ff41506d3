import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from tribit import InvalidInputError
from tribit.model import binary_matrices, ease
from tribit.model.binary_matrices import (
    BinaryRows,
    conjugate_gradients,
    gram,
    probed_diagonal,
    ridge_inverse,
)
from tribit.model.ease import Ease, choose_l2, fit_ease


def mask(shape=(60, 23), seed=0):
    """Observations with popular columns; one column has none, and one row."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=shape[0])[:, None] == np.arange(shape[1]) % 3
    often = np.where(kinds, 0.7, 0.2) * rng.uniform(0.2, 1.0, shape[1])
    F = (rng.random(shape) < often).astype(float)
    F[:, 4], F[-3] = 0, 0
    return sp.csr_array(F)


def dense_inverse(F, l2):
    F = F.toarray()
    return np.linalg.inv(F.T @ F + l2 * np.eye(F.shape[1]))


@pytest.mark.parametrize(("pair_cost", "n_dense"), [(0, 0), (10, 7), (10**9, 22)])
@pytest.mark.parametrize("rows", [3, 25, 10**6])
def test_counts_are_exact_sparse_or_dense_and_by_blocks(monkeypatch, pair_cost, n_dense, rows):
    of_dense, widths = binary_matrices._dense_gram, []
    monkeypatch.setattr(
        binary_matrices, "_dense_gram", lambda F: widths.append(F.shape[1]) or of_dense(F)
    )
    monkeypatch.setattr(binary_matrices, "PAIR_COST", pair_cost)
    monkeypatch.setattr(binary_matrices, "DENSE_ROWS", rows)
    monkeypatch.setattr(binary_matrices, "SPARSE_COLUMNS", 4)
    monkeypatch.setattr(binary_matrices, "MIRROR_BLOCK", 5)
    F = mask()
    found = gram(F)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert np.array_equal(found, F.toarray().T @ F.toarray())
    assert sum(widths) == n_dense


def test_sums_of_rows_have_the_same_bits_by_slabs(monkeypatch):
    F = BinaryRows.of(mask())
    table = np.random.default_rng(0).normal(size=(23, 19))
    monkeypatch.setattr(binary_matrices, "MIN_ADDED_PER_COPIED", 10**6)
    whole = F.times(table)
    np.testing.assert_allclose(whole, F.dense() @ table, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(binary_matrices, "MIN_ADDED_PER_COPIED", 0)
    monkeypatch.setattr(binary_matrices, "SLAB", 5)
    assert np.array_equal(F.times(table), whole)
    assert np.array_equal(F.part(3, 4).times(table), whole[3:4])


def test_more_rows_than_single_precision_counts_are_summed_in_double(monkeypatch):
    monkeypatch.setattr(binary_matrices, "PAIR_COST", 10**9)
    called = []
    monkeypatch.setattr(binary_matrices.blas, "ssyrk", lambda *_, **__: called.append(1))
    monkeypatch.setattr(binary_matrices, "EXACT_COUNTS", 59)
    assert np.array_equal(gram(mask()), mask().toarray().T @ mask().toarray())
    assert not called


@pytest.mark.parametrize("mirrored", [4, 256])
@pytest.mark.parametrize("l2", [0.2, 30.0])
def test_the_inverse_is_that_of_numpy(monkeypatch, mirrored, l2):
    monkeypatch.setattr(binary_matrices, "MIRROR_BLOCK", mirrored)
    found = ridge_inverse(gram(mask()), l2)
    np.testing.assert_allclose(found, dense_inverse(mask(), l2), rtol=1e-10, atol=1e-14)
    assert np.array_equal(found, found.T)


@pytest.mark.parametrize("l2", [0.2, 30.0])
def test_iterations_solve_as_the_inverse_does(l2):
    F, rng = mask(), np.random.default_rng(1)
    R = np.column_stack([rng.normal(size=(23, 4)), np.zeros(23), 1e6 * rng.normal(size=23)])
    found = conjugate_gradients(F, l2, R)
    expected = dense_inverse(F, l2) @ R
    error = np.abs(found - expected) / np.maximum(np.abs(expected).max(axis=0), 1.0)
    assert error.max() < 1e-10
    assert not found[:, 4].any()
    loose = conjugate_gradients(F, l2, R, 1e-2) - expected
    assert 1e-6 < np.abs(loose[:, 0]).max() / np.abs(expected[:, 0]).max() < 0.1


def test_a_ridge_too_small_to_solve_for_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(binary_matrices, "MAX_ITERATIONS", 3)
    with pytest.raises(InvalidInputError, match=r"^l2=1e-06 is so small for 23 columns") as caught:
        conjugate_gradients(mask(), 1e-6, np.ones((23, 1)))
    assert str(caught.value).count(". ") == 0


def test_random_signs_estimate_the_diagonal(monkeypatch):
    F, l2 = mask((400, 30)), 40.0
    exact = dense_inverse(F, l2).diagonal()
    errors = []
    for probes in (16, 4096):
        monkeypatch.setattr(binary_matrices, "PROBES", probes)
        found = probed_diagonal(F, l2, np.random.default_rng(0))
        assert (found <= 1 / l2).all()
        assert (found >= 1 / (np.asarray(F.sum(axis=0)) + l2)).all()
        errors.append(np.sqrt(np.mean((found / exact - 1) ** 2)))
    # The error falls with the root of the number of signs.
    assert errors[1] < 0.012
    assert errors[1] < errors[0] / 4


# A regression with its inverse, and without


def without_table(F, l2):
    return Ease(F, l2, dense_inverse(F, l2).diagonal())


@pytest.fixture
def never(monkeypatch):
    monkeypatch.setattr(ease, "ROW_COST", 0)


@pytest.mark.parametrize("together", [1, 7, 100])
def test_scores_without_a_table_are_those_of_the_table(monkeypatch, never, together):
    monkeypatch.setattr(ease, "RIGHT_HAND_SIDES", together)
    F, l2 = mask(), 8.0
    exact = fit_ease(F, l2)
    solved = without_table(F, l2)
    np.testing.assert_allclose(solved.scores(F), exact.scores(F), rtol=0, atol=1e-10)
    for i in (0, 57, 59):
        alone = solved.scores(F[[i]])
        np.testing.assert_allclose(alone, exact.scores(F)[[i]], rtol=0, atol=1e-10)
    assert solved._inverse is None


@pytest.mark.parametrize("tabled", [True, False])
def test_a_row_that_was_no_target_has_nothing_to_take_out(never, tabled):
    F, other, l2 = mask(), mask((5, 23), seed=1), 8.0
    P = dense_inverse(F, l2)
    B = np.eye(23) - P / P.diagonal()
    regression = fit_ease(F, l2) if tabled else without_table(F, l2)
    expected = other.toarray() @ B
    fitted = np.zeros(5, dtype=bool)
    np.testing.assert_allclose(regression.scores(other, fitted), expected, atol=1e-10)
    fitted[1] = True
    mixed = regression.scores(other, fitted)
    assert np.abs(mixed[1] - expected[1]).max() > 1e-3
    np.testing.assert_allclose(np.delete(mixed, 1, 0), np.delete(expected, 1, 0), atol=1e-10)


def test_the_table_is_computed_once_the_rows_have_cost_as_much(monkeypatch):
    F = mask()
    monkeypatch.setattr(ease, "ROW_COST", 23**3 / F.nnz / 10)
    regression = without_table(F, 8.0)
    regression.scores(F[:6])
    assert regression._inverse is None
    regression.scores(F[:5])
    assert regression._inverse is not None
    monkeypatch.setattr(ease, "MAX_INVERSE_COLUMNS", 22)
    wide = without_table(F, 8.0)
    wide.scores(F)
    assert wide._inverse is None


def test_a_ridge_too_small_to_iterate_with_needs_the_table(monkeypatch, never):
    F, l2 = mask(), 1e-3
    monkeypatch.setattr(binary_matrices, "MAX_ITERATIONS", 3)
    found = without_table(F, l2).scores(F[:1])
    np.testing.assert_allclose(found, fit_ease(F, l2).scores(F[:1]), rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(ease, "MAX_INVERSE_COLUMNS", 22)
    with pytest.raises(InvalidInputError, match="is so small"):
        without_table(F, l2).scores(F[:1])


def test_the_table_has_the_bits_of_the_fit_and_is_not_pickled():
    regression = fit_ease(mask((300, 120)), 8.0)
    small = pickle.dumps(regression)
    assert len(small) < 120 * 120 * 8
    again = pickle.loads(small)
    assert again._inverse is None
    assert np.array_equal(again.inverse, regression.inverse)
    assert np.array_equal(again.diagonal, regression.diagonal)


def test_threads_share_one_table(monkeypatch):
    F, calls = mask(), []
    real = ease.ridge_inverse
    monkeypatch.setattr(ease, "ridge_inverse", lambda *given: calls.append(1) or real(*given))
    monkeypatch.setattr(ease, "ROW_COST", 10**9)
    regression, found = without_table(F, 8.0), []
    threads = [
        threading.Thread(target=lambda: found.append(regression.scores(F))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(found) == 8
    assert all(np.array_equal(scores, found[0]) for scores in found)


def test_of_many_columns_the_diagonal_is_estimated(monkeypatch):
    F = mask((400, 30))
    exact = fit_ease(F, 40.0, draws=np.random.default_rng(0))
    monkeypatch.setattr(ease, "MAX_INVERSE_COLUMNS", 29)
    first, again, other = (
        fit_ease(F, 40.0, draws=np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert first._inverse is None
    assert np.array_equal(first.diagonal, again.diagonal)
    assert not np.array_equal(first.diagonal, other.diagonal)
    np.testing.assert_allclose(first.diagonal, exact.diagonal, rtol=0.15)
    np.testing.assert_allclose(first.scores(F), exact.scores(F), atol=0.15)


def test_the_ridge_of_many_columns_is_chosen_on_those_with_most_observations(monkeypatch):
    rng = np.random.default_rng(2)
    U, V = rng.normal(size=(500, 3)), rng.normal(size=(120, 3))
    chance = 1 / (1 + np.exp(-(U @ V.T + rng.normal(-1.5, 1.2, 120))))
    F = sp.csr_array((rng.random((500, 120)) < chance).astype(float))
    every = np.arange(500)
    whole = choose_l2(F, every)
    monkeypatch.setattr(ease, "CHOICE_COLUMNS", 60)
    part = choose_l2(F, every)
    assert part == choose_l2(F, every, gram(F))
    assert part != whole
    assert 0.7 < part / whole < 1.4
    monkeypatch.setattr(ease, "SHARE_POWER", 0.0)
    assert choose_l2(F, every) < part
