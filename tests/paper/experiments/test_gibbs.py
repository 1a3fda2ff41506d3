from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from tribit import InvalidInputError, Logistic, Observations, Probit
from tribit.paper.experiments.gibbs import (
    POLYA_GAMMA_TERMS,
    normal_on_interval,
    polya_gamma,
    positive_normal,
    posterior_mean,
)
from tribit.simulate import observe, quantise

LINKS = [Probit(0.4), Logistic(4.0)]


def agrees(sample, mean, variance):
    """Ask for the mean and the variance of a sample, each within 4.5 of its own standard errors."""
    n, centred = sample.size, sample - mean
    assert abs(centred.mean()) < 4.5 * np.sqrt(variance / n)
    assert abs(np.mean(centred**2) - variance) < 4.5 * np.std(centred**2) / np.sqrt(n)


def moments(log_density, low, high):
    """Return the mean and the variance of a density on an interval, by sums over a fine grid."""
    edges = np.linspace(low, high, 1_000_001)
    x = edges[:-1] + np.diff(edges) / 2
    log_weights = log_density(x)
    weights = np.exp(log_weights - log_weights.max())
    mean = np.average(x, weights=weights)
    return mean, np.average((x - mean) ** 2, weights=weights)


def polya_gamma_moments(z):
    if z == 0:
        return 1 / 4, 1 / 24
    return np.tanh(z / 2) / (2 * z), (np.sinh(z) - z) / (4 * z**3 * np.cosh(z / 2) ** 2)


@pytest.mark.parametrize("z", [0.0, 0.3, -2.0, 7.0, 12.0])
def test_polya_gamma_has_the_known_moments(z):
    drawn = polya_gamma(np.full(200_000, z), np.random.default_rng(0))
    agrees(drawn, *polya_gamma_moments(z))
    # The whole distribution, by its Laplace transform (Polson, Scott and Windle, eq. 6).
    for t in (0.5, 5.0, 50.0):
        exact = np.cosh(z / 2) / np.cosh(np.sqrt(z**2 / 4 + t / 2))
        sample = np.exp(-t * drawn)
        assert abs(sample.mean() - exact) < 4.5 * sample.std() / np.sqrt(sample.size)


class OneTerm:
    """Exponential variables that are all 0 but the k-th, or all 1."""

    def __init__(self, k=None):
        self.k, self.calls = k, 0

    def standard_exponential(self, shape):
        self.calls += 1
        return np.full(shape, float(self.k is None or self.calls == self.k))


@pytest.mark.parametrize(("z", "missing"), [(0.0, 2e-5), (7.0, 6e-4), (-20.0, 12e-3)])
def test_the_terms_left_out_of_polya_gamma_are_in_its_mean_and_hardly_in_its_variance(z, missing):
    mean, variance = polya_gamma_moments(z)
    at = np.array([z])
    assert polya_gamma(at, OneTerm()) == pytest.approx(mean, rel=1e-8)
    levels = [polya_gamma(at, OneTerm(k))[0] for k in range(POLYA_GAMMA_TERMS + 1)]
    # Of independent exponential terms the variances, squares of their weights, add up.
    drawn = sum((level - levels[0]) ** 2 for level in levels[1:])
    assert 1 - drawn / variance == pytest.approx(missing, rel=0.1)


@pytest.mark.parametrize("mean", [-1000.0, -30.0, -3.0, 0.0, 2.0, 50.0])
def test_positive_normal_has_the_moments_of_its_density_in_both_tails(mean):
    drawn = positive_normal(np.full(100_000, mean), np.random.default_rng(0))
    width = 40 / max(1.0, -mean)
    low, high = (mean - width, mean + width) if mean > width else (0.0, max(mean, 0) + width)
    agrees(drawn, *moments(lambda x: mean * x - x**2 / 2, low, high))
    assert drawn.min() >= 0


# (linear, precision): flat, tilted, bent, and far out in either tail.
DENSITIES = [
    (0.0, 0.0),
    (0.7, 0.0),
    (-3.0, 1e-6),
    (0.4, 2.0),
    (0.0, 400.0),
    (-90.0, 100.0),
    (60.0, 1.0),
    (-2e3, 3.0),
    (1e4, 50.0),
]


@pytest.mark.parametrize(("linear", "precision"), DENSITIES)
@pytest.mark.parametrize("fresh", [True, False])
def test_normal_on_interval_has_the_moments_of_its_density(linear, precision, fresh):
    draws = np.random.default_rng(0)
    density = np.full(100_000, linear), np.full(100_000, precision)
    drawn = normal_on_interval(*density, draws)
    if not fresh:
        drawn = normal_on_interval(*density, draws, opposite=drawn)
    assert np.all(np.abs(drawn) <= 1)
    agrees(drawn, *moments(lambda u: linear * u - precision * u**2 / 2, -1, 1))


@pytest.mark.parametrize(("linear", "precision"), DENSITIES)
def test_the_opposite_is_beyond_the_median_and_there_and_back_is_no_move(linear, precision):
    draws = np.random.default_rng(0)
    density = np.full(1001, linear), np.full(1001, precision)
    drawn = np.sort(normal_on_interval(*density, draws))
    opposite = normal_on_interval(*density, draws, opposite=drawn)
    assert np.all(np.diff(opposite) <= 0)
    back = normal_on_interval(*density, draws, opposite=opposite)
    # Not at the ends: scipy's ndtri_exp is right to 1e-9 far out, which the way back magnifies.
    np.testing.assert_allclose(back[20:-20], drawn[20:-20], rtol=0, atol=1e-4 * np.ptp(drawn))
    # Where the two meet is the median, as many of its own draws below it as above.
    median = drawn[np.argmin(np.abs(opposite - drawn))]
    assert abs(np.sum(drawn < median) - 500) < 4.5 * np.sqrt(1001 / 4)


def test_a_flat_density_is_inverted_to_six_digits():
    class Grid:
        def random(self, shape):
            return np.linspace(0, 1, shape[0], endpoint=False)

    zeros, chance = np.zeros(1000), 1 - Grid().random((1000,))
    drawn = normal_on_interval(zeros, zeros, Grid())
    np.testing.assert_allclose(drawn, 2 * chance - 1, rtol=0, atol=2e-6)
    drawn = normal_on_interval(zeros + 1.5, zeros, Grid())
    exact = np.log(chance * np.exp(1.5) + (1 - chance) * np.exp(-1.5)) / 1.5
    np.testing.assert_allclose(drawn, exact, rtol=0, atol=2e-6)


def test_draws_are_finite_however_extreme_their_distributions():
    sizes = np.concatenate([[0.0], 10.0 ** np.arange(-20, 21, 2)])
    linear, precision = (a.ravel() for a in np.meshgrid(np.append(-sizes, sizes), sizes))
    draws = np.random.default_rng(0)
    drawn = normal_on_interval(linear, precision, draws)
    for _ in range(20):
        assert np.all(np.abs(drawn) <= 1)  # fails for NaN
        drawn = normal_on_interval(linear, precision, draws, opposite=drawn)
    z = np.append(-sizes, sizes)
    for sample in (positive_normal(z, draws), polya_gamma(z, draws)):
        assert np.all(np.isfinite(sample))
        assert np.all(sample >= 0)
    lowest = positive_normal(z, OneTerm(0))  # exponential variables that are 0
    assert np.all(np.isfinite(lowest))
    assert np.all(lowest >= 0)


def integral(A, link, rank, scale, n_nodes):
    """Return the posterior mean by Gauss-Legendre quadrature over every entry of U and V."""
    A = np.asarray(A)
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    n_rows, n_columns = A.shape
    dimension = rank * (n_rows + n_columns)
    axes = [
        nodes.reshape([-1 if a == b else 1 for b in range(dimension)]) for a in range(dimension)
    ]
    U = [axes[i * rank : (i + 1) * rank] for i in range(n_rows)]
    V = [axes[(n_rows + j) * rank : (n_rows + j + 1) * rank] for j in range(n_columns)]
    M = {
        (i, j): scale * sum(u * v for u, v in zip(U[i], V[j], strict=True))
        for i in range(n_rows)
        for j in range(n_columns)
    }
    posterior = np.exp(-sum(link.loss(M[at], int(A[at])) for at in M if A[at]))
    for axis in range(dimension):
        posterior = posterior * weights.reshape([-1 if axis == b else 1 for b in range(dimension)])
    means = [np.sum(posterior * M[at]) for at in sorted(M)]
    return np.reshape(means, A.shape) / posterior.sum()


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    ("A", "rank", "n_nodes"),
    [
        # Four that support each other, one alone, and what the five say of the sixth.
        ([[1, -1, 1], [1, -1, 0]], 1, 15),
        ([[1, -1]], 2, 11),
        ([[1], [1]], 2, 11),
    ],
)
def test_the_posterior_mean_is_the_integral(link, A, rank, n_nodes):
    exact = integral(A, link, rank, 1.5, n_nodes)
    np.testing.assert_allclose(exact, integral(A, link, rank, 1.5, n_nodes - 1), atol=2e-4)
    # Many copies along the diagonal share no entry: each is the small problem again, independently.
    n, (n_rows, n_columns) = 150, np.shape(A)
    copies = Observations.from_matrix(np.kron(np.eye(n, dtype=np.int8), A), zeros="unobserved")
    mean = posterior_mean(
        copies, link, rank=rank, scale=1.5, sweeps=900, burn_in=50, random_state=0
    )
    blocks = mean.reshape(n, n_rows, n, n_columns)
    own = blocks[np.arange(n), :, np.arange(n)]
    error = own.std(axis=0) / np.sqrt(n)
    assert np.all(error < 0.004)
    assert np.all(np.abs(exact) > 20 * error)
    assert np.all(np.abs(own.mean(axis=0) - exact) < 4 * error)
    # Entries that link two copies may have either sign.
    elsewhere = blocks[np.arange(n), :, np.arange(n) - 1]
    assert np.all(np.abs(elsewhere.mean(axis=0)) < 4 * elsewhere.std(axis=0) / np.sqrt(n))


def simulate(shape, rank, link, rho, seed):
    draws = np.random.default_rng(seed)
    U, V = (draws.uniform(-1, 1, (size, rank)) for size in shape)
    scale = 1 / np.max(np.abs(U @ V.T))
    M = scale * U @ V.T
    return M, scale, observe(quantise(M, link, random_state=draws), rho, random_state=draws)


@pytest.mark.parametrize("link", [Probit(1e7), Logistic(1e-7)])
def test_labels_that_say_nothing_leave_the_mean_of_the_prior(link):
    _, scale, seen = simulate((40, 30), 3, link, 0.5, seed=0)
    mean = posterior_mean(seen, link, rank=3, scale=scale, sweeps=400, burn_in=0, random_state=0)
    # An entry c u . v has the variance c^2 rank / 9, and the sweeps are worth as many draws.
    deviation = scale * np.sqrt(3 / 9 / 400)
    assert np.abs(mean).max() < 4.5 * deviation
    assert 0.8 * deviation < mean.std() < 1.2 * deviation


def test_rows_and_columns_without_observations_keep_the_prior():
    labels = np.ones((6, 5))
    labels[2], labels[:, 3] = 0, 0
    seen = Observations.from_matrix(labels, zeros="unobserved")
    mean = posterior_mean(seen, Logistic(20.0), rank=1, scale=1.0, sweeps=1500, random_state=0)
    unseen = labels == 0
    assert np.abs(mean[unseen]).max() < 0.1
    assert mean[~unseen].min() > 0.2


@pytest.mark.parametrize(
    ("link", "rho", "bound"),
    [(Logistic(7.0), 0.85, 1.0), (Logistic(7.0), 0.5, 0.9), (Probit(0.1), 0.5, 0.75)],
)
def test_the_hidden_matrix_is_nearer_than_zero(link, rho, bound):
    M, scale, seen = simulate((80, 90), 10, link, rho, seed=1)
    mean = posterior_mean(seen, link, rank=10, scale=scale, sweeps=300, random_state=0)
    assert mean.shape == M.shape
    assert mean.dtype == np.float64
    assert np.linalg.norm(mean - M) < bound * np.linalg.norm(M)


@pytest.mark.parametrize("link", [Probit(1e-9), Logistic(1e9)])
def test_labels_without_noise_give_finite_means(link):
    _, scale, seen = simulate((20, 15), 2, link, 0.3, seed=0)
    mean = posterior_mean(seen, link, rank=2, scale=scale, sweeps=50, burn_in=0, random_state=0)
    assert np.all(np.abs(mean) <= 2 * scale)


@pytest.mark.parametrize("link", LINKS)
def test_the_mean_is_determined_by_the_seed(link):
    _, scale, seen = simulate((12, 9), 2, link, 0.3, seed=0)

    def mean(seed):
        return posterior_mean(
            seen, link, rank=2, scale=scale, sweeps=20, burn_in=5, random_state=seed
        )

    np.testing.assert_array_equal(mean(3), mean(3))
    np.testing.assert_array_equal(mean(3), mean(np.random.Generator(np.random.PCG64(3))))
    assert not np.array_equal(mean(3), mean(4))


def test_the_mean_is_over_the_sweeps_after_burn_in():
    _, scale, seen = simulate((12, 9), 2, Logistic(), 0.3, seed=0)

    def mean(sweeps, burn_in):
        return posterior_mean(
            seen, Logistic(), rank=2, scale=scale, sweeps=sweeps, burn_in=burn_in, random_state=0
        )

    each = [mean(burn_in + 1, burn_in) for burn_in in range(6)]
    np.testing.assert_allclose(mean(6, 2), np.mean(each[2:], axis=0), rtol=0, atol=1e-14)
    for one, following in pairwise(each):
        assert not np.array_equal(one, following)


def test_another_link_is_one_sentence():
    @dataclass(frozen=True)
    class Other(Logistic):
        pass

    seen = Observations.from_matrix([[1, -1]])
    with pytest.raises(
        InvalidInputError, match=r"with the link .*Other.*; pass Logistic or Probit"
    ):
        posterior_mean(seen, Other(), rank=1, scale=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number, at least 1; got 0"),
        ({"rank": 1.5}, "rank must be a whole number"),
        ({"rank": True}, "rank must be a whole number"),
        ({"scale": 0.0}, "scale must be a positive finite number"),
        ({"scale": float("nan")}, "scale must be a positive finite number"),
        ({"burn_in": -1}, "burn_in must be a whole number, at least 0; got -1"),
        ({"sweeps": 0}, "sweeps must be a whole number, at least 1"),
        ({"sweeps": 20, "burn_in": 20}, "20 sweeps with a burn_in of 20 leave none to average"),
    ],
)
def test_a_wrong_option_is_one_sentence(options, message):
    seen = Observations.from_matrix([[1, -1]])
    with pytest.raises(InvalidInputError, match=message):
        posterior_mean(seen, Logistic(), **({"rank": 1, "scale": 1.0} | options))
