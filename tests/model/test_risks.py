from itertools import product

import numpy as np
import pytest

from reference import (
    REGISTERED_LINKS,
    RHO,
    RISKS,
    RhoByEntry,
    gammas_of,
    inverse_weights,
    link_id,
    links_of,
    random_factors,
    random_matrix,
    table,
    weights,
)
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model import risks
from tribit.model.factors import Factors
from tribit.model.label_noise import LabelNoise
from tribit.model.links import LINKS, Logistic, Probit
from tribit.model.risks import (
    Imputation,
    Missingness,
    Risk,
    doubly_robust,
    nu,
    pn,
    pnu,
    pu,
    punu,
    t_max,
    tri,
)

NAN = float("nan")
DRAWS = 400_000

each_risk = pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
each_link = pytest.mark.parametrize(
    "link", [links_of(kind)[-1] for kind in LINKS.values()], ids=link_id
)


# The table


@pytest.mark.parametrize("rho", [0.0, 0.25, 0.7, 0.999])
@pytest.mark.parametrize(
    ("make", "gammas"),
    [
        (lambda rho: Risk(1.0, 0.0, 0.0, rho), (1, 0, 0)),
        (pu, (0, 1, 0)),
        (nu, (0, 0, 1)),
        (lambda rho: punu(0.0, rho), (0, 1, 0)),
        (lambda rho: punu(0.3, rho), (0, 0.7, 0.3)),
        (lambda rho: punu(1.0, rho), (0, 0, 1)),
        (lambda rho: pnu(0.0, rho), (1, 0, 0)),
        (lambda rho: pnu(0.4, rho), (0.6, 0.4, 0)),
        (lambda rho: pnu(-0.4, rho), (0.6, 0, 0.4)),
        (lambda rho: pnu(-1.0, rho), (0, 0, 1)),
        (lambda rho: tri(0.5, 0.3, 0.2, rho), (0.5, 0.3, 0.2)),
    ],
)
def test_the_table_is_the_closed_formula(make, gammas, rho):
    risk = make(rho)
    assert gammas_of(risk) == pytest.approx(gammas, abs=1e-15)
    assert risk.rho == rho
    expected = table(gammas, np.float64(rho))
    np.testing.assert_allclose(risk.table(), [expected[a] for a in (1, 0, -1)], rtol=1e-13)


def test_pn_counts_observed_entries_alone():
    np.testing.assert_array_equal(pn().table(), [[1, 0], [0, 0], [0, 1]])
    assert pn().unobserved_weight == 0


@each_risk
def test_unobserved_is_the_weight_of_what_every_entry_adds(risk):
    assert risk.unobserved_weight == pytest.approx(risk.table()[1].sum())


@each_risk
def test_observed_weights_are_the_rows_of_the_table_less_the_row_of_0(risk):
    labels = np.array([1, -1, 1, -1], dtype=np.int8)
    places = np.arange(4)
    plus, minus = risk.observed_weights(labels, places, places)
    like, none, dislike = risk.table()
    expected = np.where((labels > 0)[:, None], like - none, dislike - none)
    np.testing.assert_allclose(np.stack([plus, minus], axis=1), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("gammas", [(0, 1, 0), (0, 0, 1), (0.5, 0.3, 0.2)])
def test_observed_weights_take_rho_entry_by_entry(gammas):
    model = RhoByEntry((5, 4))
    risk = Risk(*gammas, rho=model)
    rows, columns = np.array([0, 3, 4, 1]), np.array([1, 0, 3, 2])
    labels = np.array([1, -1, 1, -1], dtype=np.int8)
    got = np.stack(risk.observed_weights(labels, rows, columns), axis=1)
    for pair, label, row, column in zip(got, labels, rows, columns, strict=True):
        one = Risk(*gammas, rho=float(model.dense[row, column])).table()
        np.testing.assert_allclose(pair, one[0 if label > 0 else 2] - one[1], rtol=1e-12)


# Unbiasedness


def simulate(link, rho, seed):
    """Return x, signs Y drawn at a hidden m, and A: Y where observed, 0 elsewhere; many draws of 12 entries."""
    rng = np.random.default_rng(seed)
    spread = 1.5 / abs(link.first(np.zeros(1), 1)[0])
    m, x = rng.normal(size=(2, 12)) * spread
    Y = np.where(rng.random((DRAWS // 12, 12)) < link.probability(m), 1, -1)
    return x, Y, np.where(rng.random(Y.shape) < rho, 0, Y)


def total(cells, link, x, kinds):
    """Return the risk of every draw; ``cells`` are the rows of the table for +1, 0 and -1."""
    losses = np.stack([link.loss(x, 1), link.loss(x, -1)])
    each = np.einsum("as...,s...->a...", cells, losses)  # one value a kind and an entry
    return sum(((kinds == a) * each[row]).sum(axis=1) for row, a in enumerate((1, 0, -1)))


def z_score(a, b):
    gap = a - b
    return abs(gap.mean()) / (gap.std() / np.sqrt(gap.size))


def over_entries(risk, n):
    return np.repeat(risk.table()[:, :, None], n, axis=2)


UNBIASED = {"pu": pu(RHO), "nu": nu(RHO)} | {
    f"punu-{gamma}": punu(gamma, RHO) for gamma in (0.0, 0.25, 0.5, 0.8, 1.0)
}


@each_link
@pytest.mark.parametrize("risk", UNBIASED.values(), ids=UNBIASED)
def test_pu_nu_and_their_mixtures_estimate_the_full_risk(link, risk):
    x, Y, A = simulate(link, RHO, seed=1)
    full = total(over_entries(pn(), 12), link, x, Y)
    seen = total(over_entries(risk, 12), link, x, A)
    assert z_score(seen, full) < 4


@each_link
def test_pn_estimates_the_share_q_of_the_full_risk(link):
    x, Y, A = simulate(link, RHO, seed=2)
    full, seen = (total(over_entries(pn(), 12), link, x, kinds) for kinds in (Y, A))
    assert z_score(seen, (1 - RHO) * full) < 4
    assert z_score(seen, full) > 50


@each_link
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 1), (2, 1)])
def test_the_simulation_notices_a_wrong_sign(link, place):
    x, Y, A = simulate(link, RHO, seed=1)
    wrong = over_entries(pu(RHO), 12)
    wrong[place] *= -1
    full = total(over_entries(pn(), 12), link, x, Y)
    assert z_score(total(wrong, link, x, A), full) > 20


@each_link
@pytest.mark.parametrize("risk", UNBIASED.values(), ids=UNBIASED)
def test_unbiasedness_holds_exactly_in_expectation(link, risk):
    f = link.probability(np.linspace(-2, 2, 9))
    like, none, dislike = risk.table()
    expected = (1 - RHO) * (np.outer(f, like) + np.outer(1 - f, dislike)) + RHO * none
    np.testing.assert_allclose(expected, np.stack([f, 1 - f], axis=1), rtol=1e-12, atol=1e-12)


@each_link
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_a_rho_for_each_entry_keeps_the_risk_unbiased(link, gamma):
    model = RhoByEntry((1, 12), seed=3)
    x, Y, A = simulate(link, model.dense, seed=3)
    risk = punu(gamma, model)
    places = np.zeros(12, dtype=int), np.arange(12)
    dense = np.repeat([[risk.nu], [risk.pu]], 12, axis=1)
    cells = np.stack(
        [
            dense + risk.observed_weights(np.ones(12), *places),
            dense,
            dense + risk.observed_weights(-np.ones(12), *places),
        ]
    )
    full = total(over_entries(pn(), 12), link, x, Y)
    assert z_score(total(cells, link, x, A), full) < 4
    one_rho = over_entries(punu(gamma, float(model.dense.mean())), 12)
    assert z_score(total(one_rho, link, x, A), full) > 6


# Weights 1 / q for the observed entries


@pytest.mark.parametrize("power", [0.3, 1.0])
@pytest.mark.parametrize("gammas", [(1, 0, 0), (0.5, 0.3, 0.2)])
def test_pn_weighs_entries_by_a_power_of_1_over_q_with_mean_1(gammas, power):
    A, model = random_matrix((7, 6)), RhoByEntry((7, 6), seed=4)
    i, j = np.nonzero(A)
    got = Risk(*gammas, rho=model, inverse_power=power).observed_weights(A[i, j], i, j)
    rest = weights(A, (0, *gammas[1:]), model.dense)
    none = table(gammas, np.float64(0.5))[0]
    w = inverse_weights(A, 1 - model.dense, power)
    assert w[i, j].mean() == pytest.approx(1)
    for side, kind in enumerate((1, -1)):
        expected = gammas[0] * w * (kind == A) + rest[side] - none[side]
        np.testing.assert_allclose(got[side], expected[i, j], rtol=1e-12, atol=1e-14)


def test_one_q_for_all_weighs_all_alike():
    labels, places = np.array([1, -1, 1]), np.arange(3)
    plain, weighted = (Risk(0.6, 0.3, 0.1, 0.7, inverse_power=power) for power in (0.0, 1.0))
    np.testing.assert_array_equal(
        plain.observed_weights(labels, places, places),
        weighted.observed_weights(labels, places, places),
    )
    np.testing.assert_array_equal(plain.table(), weighted.table())


def test_weights_and_flipped_labels_go_together():
    model, noise = RhoByEntry((1, 3)), LabelNoise(0.2, 0.1)
    at = np.array([1, -1, 1]), np.zeros(3, int), np.arange(3)
    noisy = np.array(Risk(1, 0, 0, model, noise, inverse_power=1.0).observed_weights(*at))
    w = 1 / (1 - model.dense[0])
    alone = np.array(pn(noise).observed_weights(*at))
    np.testing.assert_allclose(noisy, alone * w / w.mean(), rtol=1e-12)


# Every mask and every label in turn: the mean of a risk, exactly

SMALL = (2, 2)
HIDDEN = RhoByEntry(SMALL, seed=5)
GUESS = Factors.of(*random_factors(SMALL, 2, seed=6))
WRONG = RhoByEntry(SMALL, seed=7)


def risk_of(risk, A, losses):
    """Return the risk of a matrix: the dense term, and what observed entries add."""
    like, dislike = losses
    if risk.imputed is None:
        total = np.sum(risk.nu * like + risk.pu * dislike)
    else:
        f0 = risk.imputed.link.probability(GUESS.row_factors @ GUESS.column_factors.T)
        total = risk.unobserved_weight * np.sum(f0 * like + (1 - f0) * dislike)
    i, j = np.nonzero(A)
    if not i.size:
        return float(total)
    plus, minus = risk.observed_weights(A[i, j], i, j)
    return float(total + plus @ like[i, j] + minus @ dislike[i, j])


def mean_and_truth(risk, link, f, *, scale=lambda _: 1.0):
    """Return ``E scale(A) L(X, A)`` over all matrices, and the risk of all entries with their labels."""
    q = 1 - HIDDEN.dense
    x = np.random.default_rng(8).normal(size=SMALL)
    losses = link.loss(x, 1), link.loss(x, -1)
    mean = 0.0
    for kinds in product((1, 0, -1), repeat=4):
        A = np.reshape(kinds, SMALL)
        chance = np.prod(np.select([A == 1, A == -1], [q * f, q * (1 - f)], 1 - q))
        mean += chance * scale(A) * risk_of(risk, A, losses)
    return mean, float(np.sum(f * losses[0] + (1 - f) * losses[1]))


def some_f(seed=9):
    return np.random.default_rng(seed).random(SMALL)


def mean_inverse(A):
    """What the weights of PN were divided by."""
    return np.mean(1 / (1 - HIDDEN.dense[A != 0])) if A.any() else 0.0


@each_link
@pytest.mark.parametrize("make", [pu, nu, lambda rho: punu(0.3, rho)])
def test_pu_and_nu_have_the_mean_of_the_full_risk_with_the_q_of_each_entry(link, make):
    mean, truth = mean_and_truth(make(HIDDEN), link, some_f())
    assert mean == pytest.approx(truth, rel=1e-11)
    mean, truth = mean_and_truth(make(WRONG), link, some_f())
    assert abs(mean - truth) > 0.01 * truth


@each_link
def test_pn_with_weights_has_the_mean_of_the_full_risk_up_to_their_scale(link):
    weighted = Risk(1, 0, 0, HIDDEN, inverse_power=1.0)
    mean, truth = mean_and_truth(weighted, link, some_f(), scale=mean_inverse)
    assert mean == pytest.approx(truth, rel=1e-11)
    plain, _ = mean_and_truth(pn(), link, some_f(), scale=mean_inverse)
    assert abs(plain - truth) > 0.01 * truth


@each_link
def test_the_doubly_robust_risk_is_right_if_either_q_or_the_imputed_is(link):
    imputed = link.probability(GUESS.row_factors @ GUESS.column_factors.T)
    mean, truth = mean_and_truth(doubly_robust(GUESS, link, HIDDEN), link, some_f())
    assert mean == pytest.approx(truth, rel=1e-11)
    mean, truth = mean_and_truth(doubly_robust(GUESS, link, WRONG), link, imputed)
    assert mean == pytest.approx(truth, rel=1e-11)
    mean, truth = mean_and_truth(doubly_robust(GUESS, link, WRONG), link, some_f())
    assert abs(mean - truth) > 0.01 * truth


def test_a_constant_that_is_imputed_is_punu():
    link = Logistic(2.0)
    level = Factors.of(np.zeros((5, 1)), np.zeros((4, 1)), link.level(0.3))
    A, model = random_matrix((5, 4)), RhoByEntry((5, 4))
    i, j = np.nonzero(A)
    np.testing.assert_allclose(
        doubly_robust(level, link, model).observed_weights(A[i, j], i, j),
        punu(0.3, model).observed_weights(A[i, j], i, j),
        rtol=1e-9,
    )


def test_pn_beside_what_is_imputed():
    risk = doubly_robust(GUESS, "probit", 0.5, pn=0.4)
    assert gammas_of(risk) == pytest.approx((0.4, 0.3, 0.3))
    assert risk.imputed.link == Probit()
    assert risk.imputed.shape == SMALL


# Errors


@pytest.mark.parametrize("power", [-0.1, 1.1, NAN])
def test_the_power_of_1_over_q_is_from_0_to_1(power):
    with pytest.raises(InvalidInputError, match=r"inverse_power must be in \[0, 1\]; got"):
        Risk(1, 0, 0, 0.5, inverse_power=power)


def test_bad_imputations_are_refused():
    with pytest.raises(InvalidTypeError, match=r"needs the Factors of a fitted model; got ndarray"):
        doubly_robust(np.eye(2), "logistic", 0.5)
    with pytest.raises(InvalidTypeError, match=r"needs the Link of a fitted model; got str"):
        Imputation(GUESS, "logistic")
    with pytest.raises(InvalidInputError, match=r"not finite: fit the model again"):
        doubly_robust(Factors.of(np.full((2, 1), NAN), np.ones((2, 1))), "logistic", 0.5)
    with pytest.raises(
        InvalidInputError, match=r"link must be one of logistic, probit; got 'cauchy'"
    ):
        doubly_robust(GUESS, "cauchy", 0.5)
    with pytest.raises(InvalidTypeError, match=r"imputed must be an Imputation or None; got float"):
        Risk(0.5, 0.25, 0.25, 0.5, imputed=0.5)
    with pytest.raises(InvalidInputError, match=r"PN imputes nothing: give PU or NU weight"):
        doubly_robust(GUESS, "logistic", 0.5, pn=1.0)
    with pytest.raises(InvalidInputError, match=r"pn must be in \[0, 1\]; got -1"):
        doubly_robust(GUESS, "logistic", 0.5, pn=-1)
    with pytest.raises(
        InvalidInputError, match=r"The imputed probability differs by entry, so that there is no"
    ):
        doubly_robust(GUESS, "logistic", 0.5).table()


@pytest.mark.parametrize(
    "gammas",
    [
        (0.5, 0.5, 0.5),
        (-0.1, 0.6, 0.5),
        (1.1, -0.1, 0.0),
        (0, 0, 0),
        (NAN, 0.5, 0.5),
        (np.inf, 0, 0),
        (0.333, 0.333, 0.333),
        (0.5, 0.3, 0.20001),
    ],
)
def test_weights_outside_the_simplex_are_refused(gammas):
    with pytest.raises(InvalidInputError, match=r"must be at least 0 and sum to 1; got .* sums to"):
        tri(*gammas, 0.5)


@pytest.mark.parametrize("gammas", ["pn", (None, 1, 0), 3, ("a", "b", "c")])
def test_weights_that_are_no_numbers_are_refused(gammas):
    with pytest.raises(InvalidTypeError, match=r"gammas must be three numbers .* got"):
        risks.check_gammas(gammas)


@pytest.mark.parametrize("gammas", [(), (1.0,), (0.5, 0.5), (0.25, 0.25, 0.25, 0.25)])
def test_there_are_three_weights(gammas):
    with pytest.raises(InvalidInputError, match=f"must be three numbers .* got {len(gammas)}"):
        risks.check_gammas(gammas)


@pytest.mark.parametrize(
    "given", [np.array([0.1, 0.2, 0.7], dtype=np.float32), (0.3333333, 0.3333333, 0.3333333)]
)
def test_weights_that_nearly_sum_to_1_are_made_to(given):
    assert abs(sum(map(float, given)) - 1.0) > 1e-9  # as they came, they do not
    got = gammas_of(tri(*given, 0.5))
    assert sum(got) == pytest.approx(1.0, abs=1e-15)
    # In the same proportions.
    np.testing.assert_allclose(np.array(got) / got[0], np.float64(given) / float(given[0]))


def test_weights_come_back_as_floats():
    got = risks.check_gammas(np.array([1, 0, 0]))
    assert got == (1.0, 0.0, 0.0)
    assert all(type(weight) is float for weight in got)


@pytest.mark.parametrize("rho", [1.0, -0.1, 1.5, NAN, np.inf, np.float32(1.0)])
@pytest.mark.parametrize("make", [pu, nu, lambda rho: punu(0.5, rho), lambda rho: pnu(0.5, rho)])
def test_rho_is_below_1(make, rho):
    with pytest.raises(InvalidInputError, match=r"must be in \[0, 1\); got"):
        make(rho)


@pytest.mark.parametrize("value", [1.0, -0.1, NAN])
def test_a_model_s_rho_is_below_1_at_every_entry(value):
    class Certain:
        def rho_at(self, rows, columns):
            return np.where((rows == 1) & (columns == 2), value, 0.5)

    rows, columns = np.array([0, 1, 1]), np.array([2, 2, 0])
    with pytest.raises(InvalidInputError, match=r"for row 1, column 2; .* must be in \[0, 1\)"):
        pu(Certain()).observed_weights(np.array([1, 1, -1]), rows, columns)


@pytest.mark.parametrize("rho", [True, None, "0.5", [0.5], np.array([0.5])])
def test_rho_is_a_number_or_a_model(rho):
    with pytest.raises(InvalidTypeError, match=r"a number in .* or a model with rho_at; got"):
        pu(rho)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, NAN])
def test_gamma_is_a_share(gamma):
    with pytest.raises(InvalidInputError, match=r"gamma must be in \[0, 1\]; got"):
        punu(gamma, 0.5)


@pytest.mark.parametrize("eta", [-1.1, 1.1, NAN])
def test_eta_is_between_minus_1_and_1(eta):
    with pytest.raises(InvalidInputError, match=r"eta must be in \[-1, 1\]; got"):
        pnu(eta, 0.5)


def test_a_model_has_no_one_table():
    model = RhoByEntry((2, 2))
    assert isinstance(model, Missingness)
    with pytest.raises(InvalidInputError, match="there is no single table: use observed_weights"):
        pu(model).table()


def test_all_registered_links_are_simulated():
    assert {type(link) for link in REGISTERED_LINKS} == set(LINKS.values())


@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.5])
@pytest.mark.parametrize(
    ("rho", "g"), [(0.95, 1.0), (0.95, 0.0), (0.9, 0.5), (0.7, 0.2), (0.2, 0.5)]
)
def test_t_max_is_the_last_t_at_which_every_entry_is_convex(rho, g, alpha):
    link = Probit(0.7)
    x = np.linspace(-alpha, alpha, 4001)
    like, dislike = link.second(x, 1), link.second(x, -1)

    def convex(t):
        of_likes = (1 - t * g * rho) * like - t * (1 - g) * rho * dislike
        of_dislikes = (1 - t * (1 - g) * rho) * dislike - t * g * rho * like
        return of_likes.min() >= 0 and of_dislikes.min() >= 0

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if convex(middle) else (low, middle)
    assert t_max(rho, g, alpha, link) == pytest.approx(1.0 if convex(1.0) else low, rel=1e-9)
    assert t_max(rho, g, alpha, "logistic") == t_max(0.0, g, alpha, link) == 1.0


@pytest.mark.parametrize("noise", [0.1, None, (0.1, 0.1), LabelNoise(np.array([0.1, 0.2]), 0.0)])
def test_noise_is_one_rate_for_each_sign(noise):
    with pytest.raises(InvalidTypeError, match="noise must be a LabelNoise with one rate"):
        Risk(1.0, 0.0, 0.0, noise=noise)


# Weights of entries


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 2.0, 3.5])
@pytest.mark.parametrize("gammas", [(1.0, 0.0, 0.0), (0.5, 0.3, 0.2), (0.0, 0.4, 0.6)])
def test_an_entry_of_weight_w_is_w_entries_and_below_1_the_rest_is_unobserved(gammas, weight):
    risk = Risk(*gammas, 0.6)
    labels, nowhere = np.array([-1, 1, 1, -1]), np.zeros(4, dtype=int)
    found = risk.observed_weights(labels, nowhere, nowhere, np.full(4, weight))
    like, unobserved, dislike = risk.table()
    for side, own in enumerate(found):
        # Beside what every cell has, of which an entry beyond the first is one more.
        whole = own + unobserved[side]
        row = np.where(labels > 0, like[side], dislike[side])
        expected = weight * row + max(1.0 - weight, 0.0) * unobserved[side]
        np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_the_weights_by_label_are_those_of_a_dislike_and_of_a_like(risk):
    if not risk.by_label:
        pytest.skip("the weights differ by entry")
    like, unobserved, dislike = risk.table()
    np.testing.assert_allclose(
        np.array(risk.label_weights()).T, np.array([dislike, like]) - unobserved, atol=1e-12
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_expected_labels_are_those_of_the_model_at_each_tile(dtype):
    factors = Factors(*random_factors((7, 5), 3), 0.4, np.arange(7.0) / 7, -np.arange(5.0) / 5)
    imputation = Imputation(factors, Probit(2.0))
    expected = 2 * Probit(2.0).probability(factors.block(slice(None), slice(None))) - 1
    rows, columns = slice(2, 6), slice(1, 4)
    plain, turned = imputation.expected_labels(np.dtype(dtype))
    near = 1e-6 if dtype == "float32" else 1e-12
    for found, wanted in (
        (plain.tile(rows, columns), expected[rows, columns]),
        (turned.tile(columns, rows), expected[rows, columns].T),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, atol=near)


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (7, 4), (6, 5)])
def test_an_imputed_model_has_the_shape_of_the_observations(shape):
    imputation = Imputation(Factors.of(*random_factors((7, 5), 2)), Logistic())
    assert imputation.shape == (7, 5)
    if shape == (7, 5):
        imputation.check_shape(shape)
        return
    message = f"imputed model is 7 x 5 and the observations {shape[0]} x {shape[1]}:"
    with pytest.raises(InvalidInputError, match=message):
        imputation.check_shape(shape)
