"""Held-out entries among all unseen cells, against dense arrays and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from reference import observations_of
from tribit import BinaryMatrixCompletion
from tribit.metrics import full_ranking
from tribit.metrics.full_ranking import (
    MAX_LOG_ODDS,
    N_BINS,
    count_part,
    scores_among_unobserved,
    tenths,
    unseen_report,
)
from tribit.model.factors import Factors

SHAPE, UNIT = (14, 9), 0.8
WIDTH = 2 * MAX_LOG_ODDS * UNIT / np.log(3) / N_BINS


@pytest.fixture
def table():
    """Return factors, their product, the seen entries and held-out dislikes."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(SHAPE[0], 2)), rng.normal(size=(SHAPE[1], 2))
    seen = np.where(rng.random(SHAPE) < 0.3, 1, 0)
    hidden = np.where((rng.random(SHAPE) < 0.2) & (seen == 0), -1, 0)
    return Factors.of(U, V, 0.4), U @ V.T + 0.4, seen, hidden


def same(found, expected):
    np.testing.assert_allclose(found, expected, atol=0.51 * WIDTH)


@pytest.mark.parametrize("cells", [2**20, 30])
@pytest.mark.parametrize("transform", [None, lambda x, rows: x - rows[:, None]])
def test_scores_are_those_of_the_cells_to_half_a_bin(table, cells, transform, monkeypatch):
    monkeypatch.setattr(full_ranking, "BLOCK_SCORES", cells)
    factors, x, seen, hidden = table
    x = x if transform is None else transform(x, np.arange(SHAPE[0]))
    parts = observations_of(seen), observations_of(hidden)
    scores, labels, weights = scores_among_unobserved(
        factors, *parts, unit=UNIT, transform=transform
    )
    n = np.count_nonzero(hidden)
    assert labels.tolist() == [-1] * n + [1] * (labels.size - n)
    assert weights[:n].tolist() == [1.0] * n
    same(scores[:n], x[hidden != 0])  # by rows, then columns
    others = x[(seen == 0) & (hidden == 0)]
    same(np.repeat(scores[n:], weights[n:].astype(int)), np.sort(others))
    assert np.all(np.diff(scores[n:]) > 0)


def test_without_held_out_entries_all_unseen_cells_are_counted(table):
    factors, x, seen, _ = table
    scores, labels, weights = scores_among_unobserved(
        factors, observations_of(seen), None, unit=UNIT
    )
    assert set(labels.tolist()) == {-1}
    same(np.repeat(scores, weights.astype(int)), np.sort(x[seen == 0]))


def test_scores_beyond_the_bins_are_in_the_first_and_the_last(table):
    factors, _, seen, hidden = table
    most = N_BINS / 2 * WIDTH
    far = Factors.of(factors.row_factors * 1e3, factors.column_factors, 0.0)
    parts = observations_of(seen), observations_of(hidden)
    scores, *_ = scores_among_unobserved(far, *parts, unit=UNIT)
    assert (scores.min(), scores.max()) == pytest.approx((-most + WIDTH / 2, most - WIDTH / 2))


def test_parts_of_the_rows_count_as_the_whole(table):
    factors, _, seen, hidden = table
    P, Q = (each.astype(np.float32) for each in factors.product_factors())
    scale = np.float32(1 / WIDTH)
    numbered = full_ranking._ones(*np.nonzero(hidden), SHAPE)
    numbered.data = np.arange(1.0, numbered.nnz + 1)
    whole, parts = np.arange(SHAPE[0]), []
    for rows in (whole, whole[:5], whole[5:]):
        entries = observations_of(seen[rows])
        options = {"Q": Q, "scale": scale, "transform": lambda x, rows: x + rows[:, None]}
        parts.append(count_part(entries, rows, P[rows], numbered[rows], **options))
    (numbers, listed), counts = parts[0]
    assert numbers.tolist() == [*range(numbered.nnz)]
    np.testing.assert_array_equal(parts[1][1] + parts[2][1], counts)
    np.testing.assert_array_equal(np.concatenate([each[0][0] for each in parts[1:]]), numbers)
    np.testing.assert_array_equal(np.concatenate([each[0][1] for each in parts[1:]]), listed)
    assert counts.sum() == np.count_nonzero((seen == 0) & (hidden == 0))


def test_tenths_by_hand():
    x = np.arange(20.0)[::-1]
    expected = np.where(np.arange(20) < 10, 1.5, 0.5)  # the ten most probable expect 15 of 20
    found = tenths(x, expected, np.arange(20.0))
    # Groups begin where the sum before a cell passes a tenth of 20, from the least probable cell.
    before = np.concatenate([np.arange(10) * 0.5, 5 + np.arange(10) * 1.5])
    group = np.floor(before / 2).astype(int)
    assert found == tuple(
        (expected[::-1][group == each].sum(), np.arange(20.0)[::-1][group == each].sum())
        for each in range(10)
    )
    assert tenths(x, np.zeros(20), np.ones(20)) == ((0.0, 20.0), *[(0.0, 0.0)] * 9)


@pytest.mark.parametrize("label", [1, -1])
def test_a_report_is_that_of_scikit_learn_on_the_dense_matrix(label):
    rng = np.random.default_rng(3)
    A = np.where(rng.random((25, 12)) < 0.5, rng.choice([-1, 1], (25, 12)), 0)
    hidden = np.where((rng.random(A.shape) < 0.3) & (label == A), label, 0)
    A = np.where(hidden != 0, 0, A)
    scores = BinaryMatrixCompletion(search=False, rank=2, random_state=0).fit(A).scores_
    entries = [scores.place_entries(observations_of(each)) for each in (A, hidden)]
    report = unseen_report(scores, *entries)
    x = scores.x(*np.nonzero(A == 0))
    found = hidden[A == 0] == label
    assert report.n_entries == np.count_nonzero(hidden)
    assert report.n_unseen == np.count_nonzero(A == 0) - report.n_entries
    assert report.auc == pytest.approx(roc_auc_score(found, label * x), abs=2e-3)
    precision = average_precision_score(found, label * x)
    assert report.average_precision == pytest.approx(precision, abs=2e-2)
    assert report.tenths == ()


def test_expected_likes_in_tenths_are_those_of_all_unseen_cells():
    rng = np.random.default_rng(3)
    A = np.where(rng.random((40, 20)) < 0.4, 1, 0)
    hidden = np.where((rng.random(A.shape) < 0.2) & (A == 1), 1, 0)
    A -= hidden
    seen = observations_of(A)
    scores = BinaryMatrixCompletion(random_state=0).fit(seen).scores_
    assert scores.horizon is not None
    report = unseen_report(
        scores, scores.place_entries(seen), scores.place_entries(observations_of(hidden))
    )
    x = scores.x(*np.nonzero(A == 0))
    growth = np.count_nonzero(hidden) / np.count_nonzero(A)
    expected, found = np.sum(report.tenths, axis=0)
    assert expected == pytest.approx(scores.expected_likes(x, growth).sum(), rel=1e-2)
    assert found == np.count_nonzero(hidden)


def test_a_single_held_out_entry_is_ranked():
    A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    hidden = np.zeros_like(A)
    hidden[0, 2] = 1
    scores = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(A).scores_
    parts = (scores.place_entries(observations_of(each)) for each in (A, hidden))
    report = unseen_report(scores, *parts)
    x = scores.x(np.array([0, 1, 2]), np.array([2, 1, 0]))
    assert (report.n_entries, report.n_unseen) == (1, 2)
    assert report.auc == np.mean(x[0] > x[1:])
