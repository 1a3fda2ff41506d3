import itertools

import cvxpy
import numpy as np
import pytest

from reference import SOME_LINKS, differences, link_id
from tribit.backends.objective import Objective
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.constraints import MaxNorm
from tribit.model.factors import Factors
from tribit.model.label_noise import LabelNoise
from tribit.model.links import Logistic
from tribit.model.risks import Risk, nu, pn, pu, punu
from tribit.simulate import low_rank_target, quantise
from tribit.solvers import Newton, Stopping

NAN = float("nan")
RATES = [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3), (0.2, 0.1), (0.1, 0.85), (0.45, 0.45)]
each_pair = pytest.mark.parametrize(("plus", "minus"), RATES)
each_link = pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
X = np.linspace(-2.0, 2.0, 9)


class Squared:
    """(x - a)^2 with a = 1 for +1 and 0 for -1: no likelihood, but the theorem holds for any loss."""

    def loss(self, x, y):
        return (x - (y > 0)) ** 2

    def first(self, x, y):
        return 2 * (x - (y > 0))

    def second(self, x, y):  # noqa: ARG002
        return np.full_like(x, 2.0)


# The theorem


@each_pair
@pytest.mark.parametrize("loss", [*SOME_LINKS, Squared()], ids=lambda loss: type(loss).__name__)
def test_the_mean_over_the_noise_is_the_loss_of_the_true_label(loss, plus, minus):
    noise = LabelNoise(plus, minus)
    for name in ("loss", "first", "second"):
        like, dislike = (getattr(noise, name)(loss, X, y) for y in (1, -1))
        true = getattr(loss, name)
        # Terms as large as the contrast cancel: rounding errors are relative to them.
        close = {"rtol": 1e-11, "atol": 1e-13 * float(noise.contrast) * np.abs(like).max()}
        np.testing.assert_allclose((1 - plus) * like + plus * dislike, true(X, 1), **close)
        np.testing.assert_allclose((1 - minus) * dislike + minus * like, true(X, -1), **close)


@each_pair
@each_link
def test_the_mean_over_drawn_labels_is_the_loss_of_the_true_ones(link, plus, minus):
    noise = LabelNoise(plus, minus)
    rng = np.random.default_rng(4)
    true = np.where(rng.random(10) < 0.5, 1, -1)
    x = rng.normal(size=10) / abs(link.first(np.zeros(1), 1)[0])
    noisy = noise.flip(np.tile(true, (20_000, 1)), random_state=5)
    gap = noise.loss(link, x, noisy) - np.where(true > 0, link.loss(x, 1), link.loss(x, -1))
    error = np.maximum(gap.std(axis=0), 1e-12) / np.sqrt(gap.shape[0])
    assert np.all(np.abs(gap.mean(axis=0)) < 4.5 * error + 1e-12)


@each_pair
def test_labels_are_flipped_at_the_rates(plus, minus):
    noise = LabelNoise(plus, minus)
    for label, rate in ((1, plus), (-1, minus)):
        noisy = noise.flip(np.full(200_000, label), random_state=0)
        assert noisy.dtype == np.int8
        assert np.mean(noisy != label) == pytest.approx(rate, abs=5 * 0.5 / np.sqrt(200_000))


def test_flips_depend_on_the_seed_alone():
    noise, labels = LabelNoise(0.3, 0.2), np.tile([1, -1], 50)
    first, second = (noise.flip(labels, random_state=1) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.any(first != noise.flip(labels, random_state=2))


# The table


def test_the_weights_are_the_formula():
    # l~(x, +1) = [(1 - rate_minus) l(x, +1) - rate_plus l(x, -1)] / (1 - rate_plus - rate_minus)
    np.testing.assert_allclose(
        LabelNoise(0.2, 0.3).weights, [[0.7 / 0.5, -0.2 / 0.5], [-0.3 / 0.5, 0.8 / 0.5]]
    )
    np.testing.assert_array_equal(LabelNoise().weights, np.eye(2))
    assert not np.signbit(LabelNoise().weights).any()


@each_pair
def test_weights_sum_to_1_and_labels_differ_by_the_contrast(plus, minus):
    noise = LabelNoise(plus, minus)
    np.testing.assert_allclose(noise.weights.sum(axis=1), 1.0, rtol=1e-13)
    gap = noise.weights[0] - noise.weights[1]
    np.testing.assert_allclose(gap, noise.contrast * np.array([1.0, -1.0]), rtol=1e-13)
    assert noise.contrast == pytest.approx(1 / (1 - plus - minus), rel=1e-14)


def test_rates_may_differ_by_entry():
    plus, minus = np.array([0.0, 0.2, 0.6]), 0.3
    noise = LabelNoise(plus, minus)
    assert noise.weights.shape == (2, 2, 3)
    y = np.array([1, -1, 1])
    got = noise.loss(Logistic(), X[:3], y)
    one = [LabelNoise(p, minus).loss(Logistic(), x, s) for p, x, s in zip(plus, X, y, strict=False)]
    np.testing.assert_allclose(got, np.ravel(one), rtol=1e-14)
    flips = noise.flip(np.ones((50_000, 3), dtype=int), random_state=0)
    np.testing.assert_allclose(np.mean(flips < 0, axis=0), plus, atol=0.01)


@each_link
@pytest.mark.parametrize("y", [1, -1])
def test_derivatives_are_those_of_the_loss(link, y):
    noise = LabelNoise(0.2, 0.3)
    x = X / abs(link.first(np.zeros(1), 1)[0])
    for value, slope in (("loss", "first"), ("first", "second")):
        expected = differences(lambda at, name=value: getattr(noise, name)(link, at, y), x, 1e-3)
        got = getattr(noise, slope)(link, x, y)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


def test_numbers_and_whole_numbers_are_taken():
    assert LabelNoise(0.25).loss(Squared(), 0, 1) == pytest.approx(1 / 0.75)
    assert LabelNoise(np.float32(0.25)) == LabelNoise(0.25)
    assert LabelNoise(0.2).loss(Logistic(), np.float32([1.0]), 1).shape == (1,)


# PU, NU and PN are cases of it


@pytest.mark.parametrize("rho", [0.0, 0.25, 0.7, 0.999])
def test_the_three_risks_take_their_weights_from_noisy_labels(rho):
    like, dislike = LabelNoise(rate_plus=rho).weights
    np.testing.assert_array_equal(pu(rho).table(), [like, dislike, dislike])
    like, dislike = LabelNoise(rate_minus=rho).weights
    np.testing.assert_array_equal(nu(rho).table(), [like, like, dislike])
    like, dislike = LabelNoise(0.2, 0.1).weights
    np.testing.assert_array_equal(pn(LabelNoise(0.2, 0.1)).table(), [like, [0, 0], dislike])


@each_pair
def test_observed_weights_under_noise_are_rows_of_the_table(plus, minus):
    risk = pn(LabelNoise(plus, minus))
    labels = np.array([1, -1, -1], dtype=np.int8)
    got = np.stack(risk.observed_weights(labels, np.arange(3), np.arange(3)), axis=1)
    np.testing.assert_allclose(got, risk.table()[[0, 2, 2]], rtol=1e-14)


def test_noise_goes_with_pn_alone():
    with pytest.raises(
        InvalidInputError, match="under PN alone; leave out the noise or the weights"
    ):
        Risk(0.5, 0.5, 0.0, 0.3, LabelNoise(0.1, 0.1))
    assert punu(0.5, 0.3) == Risk(0.0, 0.5, 0.5, 0.3, LabelNoise())
    for wrong in (0.1, (0.1, 0.1), LabelNoise(np.array([0.1, 0.2]))):
        with pytest.raises(InvalidTypeError, match="a LabelNoise with one rate for each sign; got"):
            pn(wrong)


# Completion of a matrix with flipped labels


def complete(labels, risk, *, radius, rank, tol=1e-7, max_iter=500):
    objective = Objective(Observations.from_matrix(labels), Logistic(), risk)
    start = MaxNorm(radius).start(labels.shape, rank, np.random.default_rng(0))
    return Newton().minimise(
        objective,
        [MaxNorm(radius)],
        Factors.of(*start),
        Stopping(max_iter, tol),
        np.random.default_rng(0),
    )


@pytest.mark.parametrize("rates", [(0.3, 0.0), (0.2, 0.3)])
def test_the_completion_of_flipped_labels_is_that_of_a_convex_solver(rates):
    labels = np.array([[1, -1, 0, 1], [0, 1, 1, -1], [-1, 1, 1, 0]])
    noise = LabelNoise(*rates)
    W = cvxpy.Variable((7, 7), PSD=True)
    M = W[:3, 3:]
    plus = np.select([labels > 0, labels < 0], [noise.weights[0, 0], noise.weights[1, 0]])
    minus = np.select([labels > 0, labels < 0], [noise.weights[0, 1], noise.weights[1, 1]])
    # l(x, -1) = l(x, +1) + x, and the weights sum to 1: convex.
    total = cvxpy.sum(cvxpy.multiply(plus + minus, cvxpy.logistic(-M)) + cvxpy.multiply(minus, M))
    best = cvxpy.Problem(cvxpy.Minimize(total), [cvxpy.diag(W) <= 1.5]).solve(solver="CLARABEL")
    result = complete(labels, pn(noise), radius=1.5, rank=4)
    assert result.objective == pytest.approx(best, rel=2e-5)


def test_the_correction_undoes_the_bias_of_one_sided_flips():
    M = 1.5 * low_rank_target((400, 300), 2, random_state=0)
    noise = LabelNoise(0.4, 0.05)
    noisy = noise.flip(quantise(M, Logistic(), random_state=1), random_state=2)
    errors = {}
    for name, risk in (("corrected", pn(noise)), ("plain", pn())):
        factors = complete(noisy, risk, radius=1.5, rank=2, tol=1e-5).factors
        gap = Logistic().probability(factors.row_factors @ factors.column_factors.T)
        gap -= Logistic().probability(M)
        errors[name] = np.mean(gap**2), abs(np.mean(gap))
    assert errors["corrected"][1] < 0.02 < 0.1 < errors["plain"][1]
    assert errors["corrected"][0] < 0.6 * errors["plain"][0]


# Errors


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, NAN, np.inf, [0.1, 1.2]])
def test_rates_are_probabilities_below_1(rate):
    for arguments in ({"rate_plus": rate}, {"rate_minus": rate}):
        (name,) = arguments
        with pytest.raises(InvalidInputError, match=rf"{name}, .* must be in \[0, 1\); got"):
            LabelNoise(**arguments)


@pytest.mark.parametrize("rate", [None, "0.1", True, [0.1, None]])
def test_rates_are_numbers(rate):
    with pytest.raises(InvalidTypeError, match=r"rate_plus must be a number or an array .* got"):
        LabelNoise(rate)


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.9, 0.2), ([0.1, 0.6], 0.4)])
def test_labels_that_say_nothing_are_refused(rates):
    with pytest.raises(InvalidInputError, match=r"rate_plus \+ rate_minus must be below 1, .* got"):
        LabelNoise(*rates)


def test_rates_of_different_shapes_are_refused():
    with pytest.raises(InvalidInputError, match=r"shape \(2,\) and rate_minus \(3,\)"):
        LabelNoise([0.1, 0.1], [0.1, 0.1, 0.1])


def test_shapes_that_do_not_fit_are_refused():
    noise = LabelNoise([0.1, 0.2])
    for use in (noise.loss, noise.first, noise.second):
        with pytest.raises(InvalidInputError, match=r"not fit together: rates \(2,\), x \(3,\), y"):
            use(Logistic(), np.zeros(3), [1, -1, 1])
    with pytest.raises(InvalidInputError, match=r"x \(3,\), y \(2,\); give each"):
        LabelNoise(0.1).loss(Logistic(), np.zeros(3), [1, -1])
    with pytest.raises(InvalidInputError, match=r"rates \(2,\), labels \(3,\); give each"):
        noise.flip([1, -1, 1])
    for labels in (1, [1]):
        with pytest.raises(InvalidInputError, match="one label for each rate"):
            noise.flip(labels)
    assert noise.flip(np.ones((5, 2)), random_state=0).shape == (5, 2)


@pytest.mark.parametrize("labels", [[0, 1], [2], ["+1"], [True], [NAN], [-1.5]])
def test_labels_are_signs(labels):
    noise = LabelNoise(0.1)
    for use in (noise.flip, lambda y: noise.loss(Logistic(), X[: len(y)], y)):
        with pytest.raises(InvalidInputError, match=r"Labels must be \+1 or -1 alone"):
            use(labels)


def test_all_pairs_of_rates_are_within_the_theorem():
    grid = np.arange(0.0, 1.0, 0.1)
    for plus, minus in itertools.product(grid, grid):
        if plus + minus < 0.999:
            table = LabelNoise(plus, minus).weights
            mean = np.array([[1 - plus, plus], [minus, 1 - minus]]) @ table
            np.testing.assert_allclose(mean, np.eye(2), atol=1e-13)
