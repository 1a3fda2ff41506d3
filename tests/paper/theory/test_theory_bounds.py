from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from tribit.errors import InvalidInputError, TribitError
from tribit.model.links import Logistic, Probit
from tribit.paper.theory import (
    GAUSSIAN_TAIL,
    cai_zhou_least_squares_bound,
    cai_zhou_one_bit_bound,
    candes_plan_bound,
    davenport_bound,
    hsieh_bound,
)

SHAPE = (60, 80)


def candes(**changes):
    return candes_plan_bound(**{"shape": SHAPE, "n": 1200, "noise": 3.0, **changes})


def least_squares(**changes):
    settings = {"shape": SHAPE, "n": 1200, "rank": 3, "alpha": 2.0, "sigma": 0.5}
    return cai_zhou_least_squares_bound(**{**settings, **changes})


def davenport(**changes):
    settings = {"shape": SHAPE, "n": 1200, "rank": 3, "alpha": 2.0, "link": Probit(0.8)}
    return davenport_bound(**{**settings, **changes})


def one_bit(**changes):
    settings = {"shape": SHAPE, "n": 1200, "rank": 3, "alpha": 2.0, "link": Probit(0.8)}
    return cai_zhou_one_bit_bound(**{**settings, **changes})


def hsieh(**changes):
    settings = {"shape": SHAPE, "rho": 0.4, "trace_norm": 50.0, "likes": 2000, "delta": 0.1}
    return hsieh_bound(**{**settings, **changes})


BOUNDS = [candes, least_squares, davenport, one_bit, hsieh]
IN_A_SET = [least_squares, davenport, one_bit]
each_bound = pytest.mark.parametrize("bound", BOUNDS)
each_in_a_set = pytest.mark.parametrize("bound", IN_A_SET)


# The formulae, written out


def test_candes_and_plan():
    p = 1200 / 4800
    got = candes()
    assert got.value == pytest.approx(2 * 3 * (1 + 2 * np.sqrt((2 + p) * 60 / p)))
    assert got.terms["observed"] == 6.0
    assert got.quantity == "frobenius"
    assert got.mean_square == pytest.approx(got.value**2 / 4800)
    assert candes(noise=0).value == 0.0  # exact recovery


def test_cai_and_zhou_with_least_squares():
    got = least_squares()
    assert got.value == pytest.approx(2.0 * 2.0 * np.sqrt(3 * 140 / 1200))  # alpha above the noise
    assert got.quantity == "weighted mean square"
    assert got.mean_square == got.value
    noisy = least_squares(sigma=5.0, tail=3.0)
    assert noisy.value == pytest.approx(15.0 * 2.0 * np.sqrt(3 * 140 / 1200))
    assert least_squares(nu=4.0).value == pytest.approx(4 * got.value)
    assert least_squares(nu=4.0).quantity == "mean square"
    small = least_squares(shape=(3, 4), n=9, rank=2)
    assert small.probability == pytest.approx(1 - 2 * np.exp(-7))


def test_davenport_et_al():
    link, z = Probit(0.8), 2.5
    scale = 2.0 * link.L_alpha(2.0) * link.beta_alpha(2.0)
    rate, extra = np.sqrt(3 * 140 / 1200), np.sqrt(1 + 140 * np.log(4800) / 1200)
    assert z == 2.0 / link.sigma
    assert davenport().value == pytest.approx(scale * rate * extra)
    assert davenport().probability == pytest.approx(1 - 1 / 140)
    assert davenport(probability_constant=7).probability == pytest.approx(1 - 7 / 140)
    simple = davenport(n=1300.5, simplified=True).value
    assert simple == pytest.approx(scale * np.sqrt(3 * 140 / 1300.5) * np.sqrt(2))
    assert simple >= davenport(n=1300.5).value
    logistic = davenport(link="logistic", alpha=1.0).value
    assert logistic == pytest.approx((1 + np.e) ** 2 / np.e * rate * extra)


def test_cai_and_zhou_with_signs():
    got = one_bit(link=Logistic(2.0), delta=0.2)
    z = 4.0
    L, beta = 2.0, (1 + np.exp(z)) ** 2 / np.exp(z) / 4
    U = np.log((1 + np.exp(z)) ** 2 / np.exp(z))
    assert got.terms["complexity"] == pytest.approx(beta * L * 2.0 * np.sqrt(3 * 140 / 1200))
    assert got.terms["confidence"] == pytest.approx(beta * U * np.sqrt(np.log(4 / 0.2) / 1200))
    assert got.probability == pytest.approx(0.8)
    assert one_bit(nu=2.5).value == pytest.approx(2.5 * one_bit().value)


def test_hsieh_et_al():
    got = hsieh(constant=1.5)
    size = np.sqrt(60) + np.sqrt(80) + 2000**0.25
    assert got.terms["complexity"] == pytest.approx(2 * 1.5 * 50 * size / (0.6 * 4800))
    assert got.terms["confidence"] == pytest.approx(6 * np.sqrt(np.log(20)) / (0.6 * np.sqrt(4800)))
    assert got.probability == pytest.approx(0.9)
    assert hsieh(likes=None).value == hsieh(likes=4800).value > got.terms["confidence"]
    assert hsieh(likes=0).value < hsieh().value


# What every bound must be like


@each_bound
def test_a_bound_is_the_sum_of_its_terms(bound):
    got = bound()
    assert got.value == pytest.approx(sum(got.terms.values()))
    assert 0 < got.value < np.inf
    assert 0 < got.probability <= 1
    assert got.shape == SHAPE
    with pytest.raises(FrozenInstanceError):
        got.value = 0.0


@pytest.mark.parametrize("bound", [candes, least_squares, davenport, one_bit])
def test_more_entries_make_a_bound_smaller(bound):
    values = [bound(n=n).value for n in (200, 400, 1200, 4799)]
    assert np.all(np.diff(values) < 0)


def test_more_unseen_likes_make_a_bound_larger():
    values = [hsieh(rho=rho).value for rho in (0.0, 0.5, 0.9, 0.99)]
    assert np.all(np.diff(values) > 0)
    assert values[2] == pytest.approx(10 * values[0])


@pytest.mark.parametrize("bound", [one_bit, hsieh])
def test_more_certainty_costs(bound):
    assert bound(delta=0.01).value > bound(delta=0.2).value


@each_in_a_set
def test_the_constant_multiplies_and_the_rank_enters_by_its_root(bound):
    assert bound(constant=3.0).value == pytest.approx(3 * bound().value)
    low, high = bound(rank=1), bound(rank=4)
    assert high.terms["complexity"] == pytest.approx(2 * low.terms["complexity"])


@pytest.mark.parametrize("c", [0.01, 7.0])
def test_a_bound_has_the_unit_of_what_it_bounds(c):
    # M in another unit: alpha, sigma and the noise change with it, a mean square by c^2.
    pairs = [
        (davenport(), davenport(alpha=2 * c, link=Probit(0.8 * c))),
        (one_bit(), one_bit(alpha=2 * c, link=Probit(0.8 * c))),
        (one_bit(link=Logistic(1.5)), one_bit(alpha=2 * c, link=Logistic(1.5 / c))),
        (least_squares(), least_squares(alpha=2 * c, sigma=0.5 * c)),
        (candes(alpha=2.0), candes(noise=3 * c, alpha=2 * c)),
    ]
    for before, after in pairs:
        assert after.mean_square == pytest.approx(c**2 * before.mean_square)
        assert after.trivial == pytest.approx(c**2 * before.trivial)
        assert after.relative_error(c) == pytest.approx(before.relative_error(1.0))


def test_a_vacuous_bound_says_so():
    shape = (3000, 3000)
    assert least_squares().vacuous == (least_squares().value >= 4.0)
    assert not least_squares(n=4799, rank=1).vacuous
    assert davenport(link=Probit(0.1)).vacuous
    assert hsieh().vacuous == (hsieh().value >= 0.25)
    assert not hsieh_bound(shape, rho=0.1, trace_norm=1500.0).vacuous
    assert candes(alpha=0.1).vacuous
    assert not candes().vacuous  # nothing is known to compare with
    got = davenport()
    assert replace(got, value=got.trivial).vacuous
    assert not replace(got, value=0.99 * got.trivial).vacuous
    assert replace(got, value=0.1 * got.trivial, probability=0.0).vacuous


def test_an_infinite_constant_makes_an_infinite_bound_and_no_nan():
    got = davenport(alpha=2.0, link=Probit(1e-3))
    assert got.value == np.inf
    assert got.vacuous
    assert got.relative_error(1.0) == np.inf


def test_a_standard_normal_has_the_gaussian_tail():
    z = np.linspace(-40, 40, 800_001)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)

    def moment(K):
        return np.trapezoid(np.exp(np.abs(z) / K) * density, z)

    assert moment(GAUSSIAN_TAIL) <= np.e < moment(GAUSSIAN_TAIL - 1e-4)


# Assumptions

BAD = [
    (candes, {"n": 0}, "n must be a positive whole number; got 0"),
    (candes, {"n": 4801}, "n is 4801, more than the theorem allows.*pass 4800 or less"),
    (candes, {"n": 410, "rank": 3}, "n is 410, below the number of free parameters.*at least 411"),
    (candes, {"noise": -1.0}, "noise must be a finite number, at least 0"),
    (candes, {"alpha": 0}, "alpha must be a positive"),
    (candes, {"rank": 61}, "rank must be between 1 and 60"),
    (least_squares, {"n": 140}, r"n is 140, not above d1 \+ d2.*observe at least 141"),
    (least_squares, {"n": 4800}, "n is 4800, more than the theorem allows.*pass 4799 or less"),
    (least_squares, {"sigma": -0.1}, "sigma must be a finite number, at least 0"),
    (least_squares, {"tail": 0}, "tail must be a positive"),
    (least_squares, {"nu": 0.9}, "nu must be a finite number, at least 1"),
    (least_squares, {"n": 1200.5}, "n must be a positive whole number"),
    (davenport, {"n": 4801}, "more than the theorem allows"),
    (davenport, {"n": np.nan}, "n must be a positive finite number; got nan"),
    (davenport, {"n": 1186, "simplified": True}, r"below \(d1 \+ d2\) log\(d1 d2\).*least 1187"),
    (davenport, {"probability_constant": 0}, "probability_constant must be a positive"),
    (one_bit, {"n": -5}, "n must be a positive whole number"),
    (one_bit, {"n": True}, "n must be a positive whole number; got True"),
    (one_bit, {"nu": np.inf}, "nu must be a finite number, at least 1"),
    (one_bit, {"link": "cauchit"}, "link must be one of logistic, probit; got 'cauchit'"),
    (hsieh, {"rho": 1.0}, r"rho, .*must be in \[0, 1\); got 1.0"),
    (hsieh, {"trace_norm": 0}, "trace_norm must be a positive"),
    (hsieh, {"likes": 4801}, "likes must be a whole number from 0 to 4800"),
    (hsieh, {"likes": 2.5}, "likes must be a whole number"),
    *(
        (b, {"delta": d}, r"delta must be .*in \(0, 1\)")
        for b in (one_bit, hsieh)
        for d in (0, 1, -1, np.nan)
    ),
    *(
        (b, {"rank": r}, "rank must be between 1 and 60")
        for b in IN_A_SET
        for r in (0.5, 61, np.nan)
    ),
    *((b, {"alpha": a}, "alpha must be a positive") for b in IN_A_SET for a in (0, -1, np.inf)),
    *((b, {"constant": 0}, "constant must be a positive") for b in (*IN_A_SET, hsieh)),
    *((b, {"shape": (0, 3)}, "at least one row and one column") for b in BOUNDS),
]


@pytest.mark.parametrize(("bound", "change", "sentence"), BAD)
def test_a_violated_assumption_is_named_in_one_sentence(bound, change, sentence):
    with pytest.raises(TribitError, match=sentence) as caught:
        bound(**change)
    assert isinstance(caught.value, InvalidInputError)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_assumptions_hold_at_their_ends():
    least_squares(n=141)
    least_squares(n=4799)
    candes(n=411, rank=3)
    davenport(n=4800, rank=60)
    davenport(n=1187, simplified=True)
    one_bit(n=10**6)  # with replacement there is no most
    hsieh(rho=0.0)


def test_a_bound_relative_to_nothing():
    with pytest.raises(InvalidInputError, match="norm must be a positive finite number; got 0"):
        davenport().relative_error(0)
