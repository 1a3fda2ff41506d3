import numpy as np
import pytest

from tribit import InvalidInputError, Logistic, Probit, TribitError
from tribit.simulate import low_rank_target, observe, quantise


@pytest.mark.parametrize("alpha", [1.0, 0.3, 5])
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("seed", range(5))  # the largest is positive in some and negative in others
def test_the_target_has_its_rank_and_its_largest_entry(alpha, rank, seed):
    M = low_rank_target((40, 30), rank, alpha=alpha, random_state=seed)
    assert M.shape == (40, 30)
    assert np.abs(M).max() == pytest.approx(alpha, rel=1e-12)
    assert np.linalg.matrix_rank(M) == rank


def test_the_target_favours_neither_sign():
    M = low_rank_target((300, 200), 5, random_state=0)
    # The entries share factors: the mean of a column of V weighs on all of them.
    assert abs(M.mean()) < 0.1 * M.std()
    assert abs(np.mean(M > 0) - 0.5) < 0.03


@pytest.mark.parametrize("link", [Logistic(7.0), Probit(0.4)])
def test_likes_are_as_frequent_as_the_link_says(link):
    M = low_rank_target((400, 300), 3, random_state=0)
    Y = quantise(M, link, random_state=1)
    assert Y.dtype == np.int8
    assert set(np.unique(Y)) == {-1, 1}
    p = link.probability(M)
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0)):
        here = (p >= low) & (p < high)
        z = (np.sum(Y[here] > 0) - p[here].sum()) / np.sqrt(np.sum(p[here] * (1 - p[here])))
        assert here.sum() > 1000
        assert abs(z) < 4


def test_entries_are_quantised_independently():
    Y = quantise(np.zeros((500, 400)), Logistic(), random_state=0).astype(float)
    for product in (Y[1:] * Y[:-1], Y[:, 1:] * Y[:, :-1]):
        assert abs(product.mean()) * np.sqrt(product.size) < 4


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_the_share_observed_is_one_minus_rho(rho):
    Y = quantise(np.zeros((300, 200)), Logistic(), random_state=0)
    seen = observe(Y, rho, random_state=1)
    assert seen.shape == Y.shape
    np.testing.assert_array_equal(seen.labels, Y[seen.rows, seen.columns])
    expected, deviation = (1 - rho) * Y.size, np.sqrt(rho * (1 - rho) * Y.size)
    assert abs(seen.n_observed - expected) <= 4 * deviation
    # Whether an entry is seen does not depend on its sign or its row.
    z = (np.mean(seen.labels) - np.mean(Y)) * np.sqrt(seen.n_observed)
    assert abs(z) < 4
    by_row = np.bincount(seen.rows, minlength=300)
    assert np.abs(by_row - (1 - rho) * 200).max() <= 5 * np.sqrt(rho * (1 - rho) * 200)


def test_the_draws_are_determined_by_the_seed():
    def draw(seed):
        M = low_rank_target((20, 10), 2, random_state=seed)
        Y = quantise(M, Logistic(), random_state=seed)
        return M, Y, observe(Y, 0.5, random_state=seed).to_sparse().toarray()

    for one, again, other in zip(draw(0), draw(0), draw(1), strict=True):
        np.testing.assert_array_equal(one, again)
        assert not np.array_equal(one, other)


def test_one_generator_serves_a_chain_of_draws():
    draws = np.random.default_rng(0)
    M = np.zeros((20, 10))
    first = quantise(M, Logistic(), random_state=draws)
    assert not np.array_equal(first, quantise(M, Logistic(), random_state=draws))


@pytest.mark.parametrize("rho", [1.0, -0.1, float("nan"), "x"])
def test_a_wrong_rho_is_one_sentence(rho):
    with pytest.raises(TribitError, match="rho"):
        observe(np.ones((2, 2), dtype=np.int8), rho)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), "x"])
def test_a_wrong_alpha_is_one_sentence(alpha):
    with pytest.raises(InvalidInputError, match="alpha must be a positive finite number"):
        low_rank_target((2, 2), 1, alpha=alpha)


@pytest.mark.parametrize("rank", [0, -1, 1.5])
def test_a_wrong_rank_is_one_sentence(rank):
    with pytest.raises(TribitError, match="rank"):
        low_rank_target((3, 3), rank)
