import tracemalloc
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2

from tribit import InvalidInputError, Logistic, Probit, TribitError
from tribit.model.links import LINKS
from tribit.simulate import (
    LowRankTarget,
    _largest_entry,
    all_at_once,
    likes_only,
    low_rank_factors,
    low_rank_target,
    multi_bernoulli,
    multinomial,
    observe,
    observe_cells,
    quantise,
    quantise_by_noise,
)
from tribit.simulate.sampling import as_distribution


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


PROCESSES = [multi_bernoulli, multinomial, all_at_once]
SHAPE = (4, 3)
LEFT, RIGHT = np.array([4.0, 1.0, 0.0, 2.0]), np.array([1.0, 3.0, 2.0])
FACTORS = (
    np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0], [1.0, 1.0]]),
    np.array([[1.0, 0.9], [0.0, 1.0], [1.2, 0.0]]),  # likely at (3, 0) by both columns together
)
# Each way to say Pi, with Pi itself.
WEIGHTS = {
    "uniform": (None, np.full(SHAPE, 1 / 12)),
    "rows and columns": ((LEFT, RIGHT), np.outer(LEFT, RIGHT) / (LEFT.sum() * RIGHT.sum())),
    "factors": (FACTORS, FACTORS[0] @ FACTORS[1].T / (FACTORS[0] @ FACTORS[1].T).sum()),
    "matrix": (np.arange(12.0).reshape(SHAPE), np.arange(12.0).reshape(SHAPE) / 66),
}


def counts(cells, shape=SHAPE):
    return np.bincount(cells.rows * shape[1] + cells.columns, minlength=shape[0] * shape[1])


def chi_square(observed, expected):
    """Return the p-value, after asking that what cannot happen has not."""
    assert not observed[expected == 0].any()
    observed, expected = observed[expected > 0], expected[expected > 0]
    return chi2.sf(np.sum((observed - expected) ** 2 / expected), observed.size - 1)


@pytest.mark.parametrize(("shape", "rank"), [((40, 30), 3), ((30, 2000), 1), ((700, 600), 5)])
@pytest.mark.parametrize("seed", range(3))
def test_the_factors_are_those_of_the_dense_target(shape, rank, seed):
    target = low_rank_factors(shape, rank, alpha=0.7, random_state=seed)
    M = low_rank_target(shape, rank, alpha=0.7, random_state=seed)
    assert target.shape == shape
    np.testing.assert_allclose(target.dense(), M, rtol=0, atol=1e-13)
    rows, columns = np.array([3, 0, 3]), np.array([1, 0, 1])
    np.testing.assert_allclose(target.at(rows, columns), M[rows, columns], rtol=0, atol=1e-13)


def test_the_dense_target_has_the_bits_it_always_had():
    draws = np.random.Generator(np.random.PCG64(3))
    U, V = draws.uniform(-1, 1, (20, 2)), draws.uniform(-1, 1, (10, 2))
    M = U @ V.T
    expected = M * (0.5 / np.max(np.abs(M)))
    np.testing.assert_array_equal(low_rank_target((20, 10), 2, alpha=0.5, random_state=3), expected)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("size", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("way", [quantise, quantise_by_noise])
def test_the_sign_of_a_noisy_value_has_the_law_of_the_link(name, size, way):
    link, x = LINKS[name](size), np.array([-1.5, -0.2, 0.0, 0.4, 2.0])
    n = 40_000
    likes = np.sum(way(np.tile(x, (n, 1)), link, random_state=5) > 0, axis=0)
    p = link.probability(x)
    statistic = np.sum((likes - n * p) ** 2 / (n * p * (1 - p)))
    assert chi2.sf(statistic, x.size) > 1e-4


def test_a_link_without_known_noise_is_one_sentence():
    @dataclass(frozen=True)
    class Other(Logistic):
        pass

    with pytest.raises(InvalidInputError, match=r"noise .* is not known.*; use quantise"):
        quantise_by_noise(np.zeros(3), Other())


@pytest.mark.parametrize("kind", WEIGHTS)
def test_multinomial_draws_follow_pi(kind):
    weights, pi = WEIGHTS[kind]
    cells = multinomial(SHAPE, 60_000, weights=weights, random_state=1)
    assert cells.rows.size == 60_000  # repeats are kept
    assert chi_square(counts(cells), 60_000 * pi.ravel()) > 1e-4
    # One draw does not tell the next: pairs of successive draws follow the product.
    keys = cells.rows * 3 + cells.columns
    pairs = np.bincount(keys[::2] * 12 + keys[1::2], minlength=144)
    assert chi_square(pairs, 30_000 * np.outer(pi, pi).ravel()) > 1e-4


def copied(weights, side):
    """Return weights of a matrix made of side x side copies of one."""
    if weights is None:
        return None
    if isinstance(weights, tuple):
        return tuple(np.concatenate([factor] * side) for factor in weights)
    return np.tile(weights, (side, side))


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("share", [0.2, 0.7, 1.0])  # of the largest n that Pi allows
def test_multi_bernoulli_sees_each_entry_with_its_own_probability(kind, share):
    weights, pi = WEIGHTS[kind]
    n, draws, seen = share / pi.max(), np.random.default_rng(2), []
    # Entries are seen independently, so that copies side by side are so many trials.
    for side, times in ((1, 500), (5, 20), (10, 50)):
        shape, many = (4 * side, 3 * side), copied(weights, side)
        for _ in range(times):
            cells = multi_bernoulli(shape, n * side**2, weights=many, random_state=draws)
            copies = counts(cells, shape).reshape(side, 4, side, 3).swapaxes(1, 2)
            seen.append(copies.reshape(-1, 12))
    seen = np.concatenate(seen)
    trials = len(seen)
    assert trials == 6000
    assert seen.max() == 1
    p = n * pi.ravel()
    deviation = np.sqrt(p * (1 - p).clip(0) * trials)
    assert np.all(np.abs(seen.sum(axis=0) - trials * p) <= 4.5 * deviation + 1e-6)
    # Independently: the products of what is centred vanish on average.
    centred = seen - p
    products = (centred.T @ centred)[np.triu_indices(12, 1)]
    scale = np.outer(deviation, deviation)[np.triu_indices(12, 1)] / np.sqrt(trials)
    assert np.all(np.abs(products) <= 4.5 * scale + 1e-6)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_all_at_once_draws_sets_without_replacement(kind, n):
    weights, pi = WEIGHTS[kind]
    pi = pi.ravel()
    expected = {}
    for chosen in permutations(np.flatnonzero(pi), n):
        chance, left = 1.0, 1.0
        for key in chosen:
            chance, left = chance * pi[key] / left, left - pi[key]
        expected[frozenset(chosen)] = expected.get(frozenset(chosen), 0.0) + chance
    assert sum(expected.values()) == pytest.approx(1.0)
    # Sets whose chances are products of weights are told from these in many trials of three entries alone.
    trials = 8000 if n == 3 or kind == "rows and columns" else 3000
    draws, seen = np.random.default_rng(3), dict.fromkeys(expected, 0)
    for _ in range(trials):
        rows, columns = all_at_once(SHAPE, n, weights=weights, random_state=draws)
        seen[frozenset((rows * 3 + columns).tolist())] += 1
    assert sum(seen.values()) == trials
    # Rare sets are counted together: the chi-square needs a few of each kind.
    chances = np.array(list(expected.values())) * trials
    found = np.array(list(seen.values()))
    rare = chances < 5
    if rare.any():
        chances = np.append(chances[~rare], chances[rare].sum())
        found = np.append(found[~rare], found[rare].sum())
    assert chi_square(found, chances) > 1e-4


def test_all_at_once_finishes_when_few_entries_hold_almost_all_the_weight():
    # Draws with replacement would hardly ever bring the second entry: the race must.
    weights = np.array([[1.0, 3e-9, 1e-9, 0.0]])
    draws, seconds = np.random.default_rng(4), np.zeros(4)
    for _ in range(2000):
        cells = all_at_once((1, 4), 2, weights=weights, random_state=draws)
        assert cells.columns[0] == 0
        seconds[cells.columns[1]] += 1
    assert chi_square(seconds, np.array([0, 1500.0, 500.0, 0])) > 1e-4
    everything = all_at_once((50, 40), 2000, weights=None, random_state=0)
    assert np.all(counts(everything, (50, 40)) == 1)


def test_the_race_over_several_blocks_keeps_the_law(monkeypatch):
    monkeypatch.setattr("tribit.simulate.sampling.BLOCK_ENTRIES", 6)
    rest = np.array([3.0, 2.0, 1.0])
    weights = (np.append(1e9, rest), np.ones(3))
    # Two of the nine light entries follow the three heavy ones.
    pi = np.repeat(rest, 3) / (3 * rest.sum())
    pairs = np.outer(pi / (1 - pi), pi)
    np.fill_diagonal(pairs, 0)
    by_rows = pairs.reshape(3, 3, 3, 3).sum(axis=(1, 3))
    assert by_rows.sum() == pytest.approx(1.0)
    expected = (by_rows + np.triu(by_rows.T, 1))[np.triu_indices(3)]
    draws, found = np.random.default_rng(6), np.zeros((3, 3))
    for _ in range(4000):
        rows = all_at_once(SHAPE, 5, weights=weights, random_state=draws).rows
        assert rows[:3].tolist() == [0, 0, 0]
        found[rows[3] - 1, rows[4] - 1] += 1
    assert chi_square(found[np.triu_indices(3)], 4000 * expected) > 1e-4


def test_an_entry_of_weight_zero_is_not_drawn_even_by_a_draw_of_zero():
    class Lowest:
        def random(self, n):
            return np.zeros(n)

    weights = (np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    assert as_distribution((3, 3), weights).draw(2, Lowest()).tolist() == [5, 5]


def test_the_largest_entry_may_belong_to_short_rows(monkeypatch):
    U, V = np.array([[10.0, 0.0]]), np.array([[0.0, 10.0]] * 6 + [[-3.0, 0.0]])
    assert _largest_entry(U, V) == 30.0
    monkeypatch.setattr("tribit.simulate.BLOCK_ENTRIES", 1)  # one row at a time
    for seed in range(20):
        U, V = (np.random.default_rng([seed, side]).normal(size=(30, 6)) for side in (0, 1))
        assert _largest_entry(U, V) == pytest.approx(np.abs(U @ V.T).max(), rel=1e-12)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_the_cells_are_determined_by_the_seed(process, kind):
    def draw(seed):
        return counts(process(SHAPE, 3, weights=WEIGHTS[kind][0], random_state=seed)).tolist()

    assert draw(7) == draw(7)
    assert len({tuple(draw(seed)) for seed in range(8)}) > 1


def test_what_is_seen_of_a_target_follows_the_link():
    target, link = low_rank_factors((200, 100), 2, random_state=0), Logistic(5.0)
    cells = multi_bernoulli((200, 100), 12_000, random_state=1)
    seen = observe_cells(target, link, cells, random_state=2)
    assert seen.shape == (200, 100)
    np.testing.assert_array_equal(seen.rows, cells.rows)
    np.testing.assert_array_equal(seen.columns, cells.columns)
    p = link.probability(target.dense()[seen.rows, seen.columns])
    for high in (0.3, 0.7, 1.0):
        here = (p >= high - 0.3) & (p < high)
        z = (np.sum(seen.labels[here] > 0) - p[here].sum()) / np.sqrt(np.sum((p * (1 - p))[here]))
        assert here.sum() > 1000
        assert abs(z) < 4
    dense = observe_cells(target.dense(), link, cells, random_state=2)
    np.testing.assert_array_equal(dense.labels, seen.labels)


@pytest.mark.parametrize(("duplicates", "chance"), [("first", 0.75), ("majority", 0.84375)])
def test_repeats_are_merged_by_the_first_or_the_majority(duplicates, chance):
    # Every entry three times: P(at least two of three are likes) = 3 (.75)^2 .25 + .75^3.
    target = LowRankTarget(np.full((300, 1), np.log(3.0)), np.ones((200, 1)))
    rows, columns = (np.tile(a.ravel(), 3) for a in np.indices((300, 200)))
    seen = observe_cells(target, Logistic(), (rows, columns), duplicates=duplicates, random_state=0)
    assert seen.n_observed == 60_000
    z = (seen.n_likes - 60_000 * chance) / np.sqrt(60_000 * chance * (1 - chance))
    assert abs(z) < 4
    with pytest.raises(InvalidInputError, match="keep with duplicates"):
        observe_cells(target, Logistic(), (rows, columns))


def test_the_pu_process_shows_likes_alone_each_with_the_same_probability():
    M = low_rank_target((300, 200), 3, random_state=0)
    Y = quantise(M, Logistic(7.0), random_state=1)
    seen = likes_only(observe(Y, 0.8, random_state=2))
    assert seen.n_dislikes == 0
    assert seen.shape == Y.shape
    assert np.all(Y[seen.rows, seen.columns] == 1)
    for half in (M > 0.3, (M <= 0.3) & (M > -0.1)):
        n = np.sum((Y > 0) & half)
        found = np.sum(half[seen.rows, seen.columns])
        assert n > 5000
        assert abs(found - 0.2 * n) < 4 * np.sqrt(n * 0.2 * 0.8)
    with pytest.raises(InvalidInputError, match="None of the 4 observed entries is a like"):
        likes_only(observe(-np.ones((2, 2), dtype=np.int8), 0.0))


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("kind", ["uniform", "rows and columns", "factors"])
def test_a_large_sparse_matrix_takes_few_draws_and_little_memory(process, kind):
    side, n = 10_000, 100_000
    draws = np.random.default_rng(0)
    weights = {
        "uniform": None,
        "rows and columns": (draws.random(side), 1 / np.arange(1.0, side + 1) ** 0.2),
        "factors": (draws.random((side, 3)), draws.random((side, 3))),
    }[kind]
    counter = np.random.Philox(0)  # counts blocks of four numbers
    tracemalloc.start()
    target = low_rank_factors((side, side), 5, random_state=0)
    draws = np.random.Generator(counter)
    cells = process((side, side), n, weights=weights, random_state=draws)
    seen = observe_cells(target, Logistic(), cells, duplicates="majority", random_state=draws)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        4 * counter.state["state"]["counter"][0] < 10 * n
    )  # and not one for each of 1000 n entries
    assert peak < 60e6  # one float for each entry would be 800 MB
    assert abs(seen.n_observed - n) < 2000


def test_a_probability_above_one_is_one_sentence():
    pi = np.outer(LEFT, RIGHT)
    for weights in ((LEFT, RIGHT), pi):
        message = r"n pi is 1\.429 at row 0, column 1.*lower n to 3\.5 or less, or flatten"
        with pytest.raises(InvalidInputError, match=message):
            multi_bernoulli(SHAPE, 5, weights=weights)
    # Said before any entry is listed: there are too many.
    with pytest.raises(
        InvalidInputError, match="n is 1e\\+11, but a 100000 x 100000 matrix has only"
    ):
        multi_bernoulli((100_000, 100_000), 1e11)
    assert counts(multi_bernoulli(SHAPE, 12, random_state=0)).tolist() == [1] * 12


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((3, 4)), r"weights have the shape \(3, 4\); pass 4 x 3"),
        ((LEFT, RIGHT, RIGHT), "tuple of 3 arrays; pass"),
        ((RIGHT, RIGHT), "left weights have the shape .* for each of 4"),
        ((LEFT, np.ones((3, 2))), "1 columns and the right weights 2"),
        ((-LEFT, RIGHT), "left weights are -4.0 at row 0, column 0"),
        (np.full(SHAPE, np.nan), "weights are nan at row 0"),
        (np.zeros(SHAPE), "sums to 0.0, so it gives no distribution"),
        ((np.array([0, 0, 0, 1.0]), np.zeros(3)), "sums to 0.0, so it gives no distribution"),
        ("popular", "weights .* numbers"),
    ],
)
def test_wrong_weights_are_one_sentence(process, weights, message):
    with pytest.raises(TribitError, match=message):
        process(SHAPE, 2, weights=weights)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("n", [0, -1, float("nan"), True, "x"])
def test_a_wrong_number_of_observations_is_one_sentence(process, n):
    with pytest.raises(InvalidInputError, match="n must be a"):
        process(SHAPE, n)


def test_more_entries_than_there_are_is_one_sentence():
    with pytest.raises(InvalidInputError, match="n is 13, but a 4 x 3 matrix has only 12 entries"):
        all_at_once(SHAPE, 13)
    with pytest.raises(InvalidInputError, match="n is 10, but only 9 entries have a positive"):
        all_at_once(SHAPE, 10, weights=(LEFT, RIGHT))
