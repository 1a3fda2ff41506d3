"""Designs: inclusion probabilities, systematic draws, batches, and what a row knew before each."""

import numpy as np
import pytest
import scipy.sparse as sp

from tribit.estimates.designs import Draws, inclusion_probabilities, systematic_sample

RNG = np.random.default_rng(0)
SIZES = RNG.uniform(0.1, 1, (5, 12)) * (RNG.random((5, 12)) < 0.8)


def test_probabilities_are_proportional_to_sizes_and_sum_to_the_counts():
    found = inclusion_probabilities(SIZES, np.full(5, 2.0), 0.1)
    for sizes, q in zip(SIZES, found, strict=True):
        inside = sizes > 0
        mixed = 0.9 * sizes[inside] / sizes[inside].mean() + 0.1
        assert np.allclose(q[inside], 2 * mixed / mixed.sum())
        assert not q[~inside].any()


def test_probabilities_above_one_are_one_and_the_rest_stays_proportional():
    found = inclusion_probabilities(np.array([[9.0, 8.0, 1.0, 2.0, 1.0, 0.0]]), np.array([3.0]))
    assert np.allclose(found, [[1, 1, 0.25, 0.5, 0.25, 0]])
    assert inclusion_probabilities(SIZES, np.full(5, 99.0)).sum() == np.count_nonzero(SIZES)


def test_cells_are_drawn_as_often_as_their_probabilities_say():
    q = inclusion_probabilities(SIZES, np.full(5, 3.0), 0.1)
    order = RNG.random(q.shape)
    masks = np.array([systematic_sample(q, order, RNG) for _ in range(4000)])
    assert (masks.sum(axis=2) == 3).all()
    assert np.allclose(masks.mean(axis=0), q, atol=4.5 * 0.5 / np.sqrt(4000))


def test_a_sum_that_is_no_whole_number_is_rounded_at_random():
    q = np.full((1, 5), 0.3)
    counts = [systematic_sample(q, np.arange(5.0)[None], RNG).sum() for _ in range(2000)]
    assert set(counts) == {1, 2}
    assert np.mean(counts) == pytest.approx(1.5, abs=0.05)


def test_neighbours_in_the_order_are_drawn_apart():
    q = np.full((1, 10), 0.5)
    mask = systematic_sample(q, np.arange(10.0)[None], RNG)[0]
    assert np.diff(np.flatnonzero(mask)).tolist() == [2, 2, 2, 2]


def test_batches_know_what_was_seen_before_them():
    labels = sp.csr_array(np.array([[1, 1, -1, 1, 0, -1], [1, -1, 1, 1, 1, 1]], dtype=np.int8))
    draws = Draws(
        rows=np.array([0, 0, 0, 0]),
        columns=np.array([1, 2, 3, 5]),
        probability=np.array([0.4, 1.0, 0.5, 0.25]),
        batch=np.array([1, 1, 2, 3]),
    )
    first, second, third = draws.batches(labels)
    # Column 0 was known from the start; column 2 was chosen without a draw.
    assert first.known.tolist() == [[True, False, True, False, False, False]]
    assert second.known.tolist() == [[True, True, True, False, False, False]]
    assert third.known.tolist() == [[True, True, True, True, False, False]]
    assert first.labels.toarray().tolist() == [[1, 1, -1, 0, 0, 0]]
    assert third.labels.toarray().tolist() == [[1, 1, -1, 1, 0, -1]]
    assert first.q.tolist() == [[1, 0.4, 1, 1, 1, 1]]
    assert third.q.tolist() == [[1, 1, 1, 1, 1, 0.25]]
