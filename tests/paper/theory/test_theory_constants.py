import numpy as np
import pytest
from scipy.special import expit, log_ndtr

from reference import CloglogLink
from tribit.errors import InvalidInputError
from tribit.model.links import LINKS, Logistic, Probit
from tribit.paper.theory import (
    closed_form_constants,
    link_constants,
    numeric_constants,
    probit_upper_bounds,
)

SCALED = [Logistic(), Logistic(7.0), Logistic(0.3), Probit(), Probit(0.1), Probit(2.0)]
ALPHAS = [1e-3, 0.1, 1.0, 3.0, 20.0, 1e4]

each_link = pytest.mark.parametrize("link", SCALED, ids=repr)
each_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def numbers(constants):
    return np.array([constants.L, constants.beta, constants.U])


@each_link
@each_alpha
def test_closed_forms_are_the_numeric_suprema(link, alpha):
    np.testing.assert_allclose(
        numbers(closed_form_constants(link, alpha)),
        numbers(numeric_constants(link, alpha)),
        rtol=1e-12,
    )


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
def test_the_logistic_link_in_the_paper_s_words(alpha):
    got = link_constants("logistic", alpha)
    top = np.exp(alpha)
    assert got.L == 1.0
    assert got.beta == pytest.approx((1 + top) ** 2 / top, rel=1e-14)
    assert pytest.approx(-np.log(expit(alpha) * expit(-alpha)), rel=1e-14) == got.U


@each_link
def test_constants_begin_at_those_of_an_even_chance(link):
    got = closed_form_constants(link, 1e-9 / numeric_constants(link, 1.0).L)
    assert pytest.approx(np.log(4.0)) == got.U
    assert got.L**2 * got.beta == pytest.approx(4.0)  # 1 / (f (1 - f)) at f = 1/2


@each_link
def test_only_the_ratio_of_alpha_to_the_scale_matters(link):
    unit = type(link)()
    scale = link.scale if isinstance(link, Logistic) else 1 / link.sigma
    ours, theirs = closed_form_constants(link, 1.3 / scale), closed_form_constants(unit, 1.3)
    expected = [theirs.L * scale, theirs.beta / scale**2, theirs.U]
    np.testing.assert_allclose(numbers(ours), expected, rtol=1e-12)


def test_tails_of_U_keep_their_digits():
    assert closed_form_constants(Logistic(), 1e4).U == 1e4
    exact = -log_ndtr(-50.0)
    assert pytest.approx(exact, rel=1e-14) == closed_form_constants(Probit(), 50.0).U


@each_link
@pytest.mark.filterwarnings("error")
def test_an_infinite_beta_comes_without_a_warning(link):
    for constants in (closed_form_constants, numeric_constants):
        assert constants(link, 1e5).beta == np.inf


@pytest.mark.parametrize("sigma", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("z", [1e-6, 0.1, 0.18, 0.5, 1.0, 3.0, 10.0, 30.0])
def test_simple_upper_bounds_of_the_probit_constants_hold(sigma, z):
    exact, simple = (
        closed_form_constants(Probit(sigma), z * sigma),
        probit_upper_bounds(sigma, z * sigma),
    )
    assert np.all(numbers(exact) <= numbers(simple) * (1 + 1e-12))
    assert pytest.approx(4 / sigma * (z + 1)) == simple.L
    assert simple.beta == pytest.approx(np.pi * sigma**2 * np.exp(z**2 / 2))


def test_the_printed_bound_of_U_fails_for_small_alpha():
    assert closed_form_constants(Probit(), 0.186).U > 1.186**2
    assert closed_form_constants(Probit(), 0.188).U < 1.188**2


def test_an_infinite_simple_bound_is_no_warning():
    assert probit_upper_bounds(1.0, 1e3).beta == np.inf


def test_a_link_without_closed_form_is_searched():
    link = CloglogLink()
    x = np.linspace(-0.8, 0.8, 4001)
    f = link.probability(x)
    got = link_constants(link, 0.8)
    assert got == numeric_constants(link, 0.8)
    assert pytest.approx(np.max(-np.log(f * (1 - f))), rel=1e-9) == got.U
    with pytest.raises(InvalidInputError, match="Closed forms exist for Logistic and Probit"):
        closed_form_constants(link, 0.8)


@pytest.mark.parametrize("name", LINKS)
def test_every_link_of_the_library_has_a_closed_form(name):
    assert link_constants(name, 1.0) == closed_form_constants(name, 1.0)


@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf, None, True])
@pytest.mark.parametrize("constants", [link_constants, closed_form_constants, numeric_constants])
def test_alpha_is_positive(constants, alpha):
    with pytest.raises(InvalidInputError, match="alpha must be a positive finite number; got"):
        constants("probit", alpha)
    with pytest.raises(InvalidInputError, match="must be a positive finite number; got"):
        probit_upper_bounds(1.0, alpha)
