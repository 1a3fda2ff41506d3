from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from reference import ALL_LINKS, REGISTERED_LINKS, CloglogLink, differences, link_id, links_of
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.links import LINKS, Link, Logistic, Probit, as_link, draw_labels, hazards

PROBABILITIES = [1e-12, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-6]

each_link = pytest.mark.parametrize("link", ALL_LINKS, ids=link_id)
each_registered = pytest.mark.parametrize("link", REGISTERED_LINKS, ids=link_id)
each_kind = pytest.mark.parametrize("kind", LINKS.values(), ids=LINKS)
each_label = pytest.mark.parametrize("y", [1, -1])


def unit(link):
    """The length of x over which the link changes: derivatives are compared on this scale."""
    return 1.0 / (abs(link.first(np.zeros(1), 1)[0]) + abs(link.first(np.zeros(1), -1)[0]))


def bulk(link):
    return np.linspace(-4.0, 4.0, 81) * unit(link)


def methods(link):
    yield "probability", link.probability
    yield "log_odds", link.log_odds
    for y in (1, -1):
        for name in ("loss", "first", "second"):
            yield f"{name}{y:+d}", lambda x, name=name, y=y: getattr(link, name)(x, y)


# Derivatives and identities


@each_link
@each_label
def test_first_is_the_derivative_of_loss(link, y):
    x, step = bulk(link), 1e-3 * unit(link)
    expected = differences(lambda x: link.loss(x, y), x, step)
    np.testing.assert_allclose(link.first(x, y), expected, rtol=1e-8, atol=1e-10 / unit(link))


@each_link
@each_label
def test_second_is_the_derivative_of_first(link, y):
    x, step = bulk(link), 1e-3 * unit(link)
    expected = differences(lambda x: link.first(x, y), x, step)
    np.testing.assert_allclose(link.second(x, y), expected, rtol=1e-8, atol=1e-10 / unit(link) ** 2)


@each_link
def test_loss_is_minus_the_logarithm_of_the_probability(link):
    x = bulk(link)
    f = link.probability(x)
    np.testing.assert_allclose(link.loss(x, 1), -np.log(f), rtol=1e-12)
    well = f < 0.999  # 1 - f loses digits beyond
    np.testing.assert_allclose(link.loss(x, -1)[well], -np.log1p(-f)[well], rtol=1e-12)


@each_link
def test_the_two_losses_belong_to_complementary_probabilities(link):
    x = bulk(link)
    like, dislike = np.exp(-link.loss(x, 1)), np.exp(-link.loss(x, -1))
    np.testing.assert_allclose(like, link.probability(x), rtol=1e-12)
    np.testing.assert_allclose(like + dislike, 1.0, rtol=1e-12)


@each_link
def test_log_odds_are_the_difference_of_the_losses(link):
    x = bulk(link)
    found = link.log_odds(x)
    np.testing.assert_allclose(found, link.loss(x, -1) - link.loss(x, 1), rtol=1e-12, atol=1e-12)


@each_link
def test_probability_rises_from_0_to_1(link):
    f = link.probability(bulk(link))
    assert np.all(np.diff(f) > 0)
    assert 0 < f[0] < 0.1
    assert 0.9 < f[-1] <= 1


@each_registered
def test_registered_links_are_convex_in_their_losses(link):
    x = np.linspace(-50, 50, 1001) * unit(link)
    for y in (1, -1):
        assert np.all(link.second(x, y) >= 0)


# Tails and types


@each_registered
@pytest.mark.parametrize("size", [1e3, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tails_are_finite_and_keep_their_type(link, size, dtype):
    x = np.array([-size, size], dtype=dtype)
    for name, method in methods(link):
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            got = method(x)
        assert got.dtype == dtype, name
        assert got.shape == x.shape, name
        assert np.all(np.isfinite(got)), name


@each_registered
def test_float32_agrees_with_float64(link):
    sizes = np.concatenate([np.linspace(-30, 30, 601), [-1e4, -1e3, -100, 100, 1e3, 1e4]])
    x = sizes.astype(np.float32)
    for name, method in methods(link):
        exact = method(x.astype(np.float64))
        # Absolute where the exact number is below what float32 holds.
        np.testing.assert_allclose(
            method(x), exact, rtol=2e-4, atol=1e-37, err_msg=name, verbose=True
        )


@each_link
def test_the_shape_of_x_is_kept(link):
    for shape in [(0,), (2, 3), (1, 1, 4)]:
        for name, method in methods(link):
            assert method(np.zeros(shape)).shape == shape, name


@each_kind
@pytest.mark.parametrize("number", [np.float64, np.float32, np.int64])
def test_a_scale_that_is_a_numpy_number_does_not_change_the_type(kind, number):
    name = next(iter(kind.__dataclass_fields__))
    link = kind(**{name: number(2)})
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    for what, method in methods(link):
        assert method(x).dtype == np.float32, what


def continued_fraction(w):
    """Return ``1 / (w + 2 / (w + 3 / (w + ...)))``: the hazard of the normal at -w is w plus this."""
    tail = np.zeros_like(w)
    for level in range(400, 1, -1):
        tail = level / (w + tail)
    return 1 / (w + tail)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
@each_label
def test_probit_in_the_tail_is_the_continued_fraction(sigma, y):
    w = np.array([4.0, 9.9, 10.1, 35.0, 99.0, 101.0, 1e3, 1e4, 1e5])
    x = -y * sigma * w  # where a label y is improbable
    link = Probit(sigma)
    beyond = continued_fraction(w)
    hazard = w + beyond
    log_probability = -0.5 * w**2 - 0.5 * np.log(2 * np.pi) - np.log(hazard)
    np.testing.assert_allclose(link.loss(x, y), -log_probability, rtol=1e-12)
    np.testing.assert_allclose(link.first(x, y), -y * hazard / sigma, rtol=1e-12)
    np.testing.assert_allclose(link.second(x, y), hazard * beyond / sigma**2, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hazards_are_densities_over_probabilities(dtype):
    z = np.concatenate([np.linspace(-12.0, 12.0, 97), [-300.0, -40.0, 40.0, 300.0]]).astype(dtype)
    near, far = hazards(z)
    assert near.dtype == far.dtype == dtype
    exact = z.astype(np.float64)
    log_density = norm.logpdf(exact)
    rtol = 1e-10 if dtype == np.float64 else 1e-5  # log densities of 45,000 cancel
    for found, side in ((near, exact), (far, -exact)):
        expected = np.exp(log_density - log_ndtr(side))
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=np.finfo(dtype).tiny)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
def test_probit_is_the_normal_distribution(sigma):
    x = np.linspace(-8, 8, 161) * sigma
    link = Probit(sigma)
    np.testing.assert_allclose(link.probability(x), ndtr(x / sigma), rtol=1e-12)
    np.testing.assert_allclose(link.loss(x, -1), -log_ndtr(-x / sigma), rtol=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.0])
@each_label
def test_logistic_in_closed_form(scale, y):
    x = np.array([-1e4, -1e3, -40, -5, -0.1, 0, 0.1, 5, 40, 1e3, 1e4]) / scale
    z = np.longdouble(1) * y * scale * x
    decay = np.exp(-np.abs(z))
    link = Logistic(scale)
    loss = np.maximum(-z, 0) + np.log1p(decay)
    other = np.where(z > 0, decay, 1) / (1 + decay)  # 1 - f(y x)
    np.testing.assert_allclose(link.loss(x, y), loss.astype(float), rtol=1e-13)
    np.testing.assert_allclose(link.first(x, y), (-y * scale * other).astype(float), rtol=1e-13)
    second = scale**2 * decay / (1 + decay) ** 2
    np.testing.assert_allclose(link.second(x, y), second.astype(float), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(
        link.loss(x, 1) - link.loss(x, -1), -scale * x, atol=1e-12, rtol=1e-13
    )


# The paper's constants


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0, 20.0])
def test_the_paper_s_constants_of_the_logistic_link(alpha):
    link = Logistic()
    assert link.L_alpha(alpha) == pytest.approx(1.0, rel=1e-9)
    assert link.beta_alpha(alpha) == pytest.approx(
        (1 + np.exp(alpha)) ** 2 / np.exp(alpha), rel=1e-9
    )


@pytest.mark.parametrize("scale", [0.4, 7.0])
def test_a_scaled_logistic_has_the_constants_of_the_unit_one(scale):
    link, alpha = Logistic(scale), 1.3
    assert link.L_alpha(alpha) == pytest.approx(scale, rel=1e-9)
    assert link.beta_alpha(alpha) == pytest.approx(
        Logistic().beta_alpha(scale * alpha) / scale**2, rel=1e-9
    )


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 3.0])
def test_the_paper_s_bounds_for_the_probit_link(sigma, alpha):
    link = Probit(sigma)
    assert link.L_alpha(alpha) <= 4 / sigma * (alpha / sigma + 1)
    assert link.beta_alpha(alpha) <= np.pi * sigma**2 * np.exp(alpha**2 / (2 * sigma**2))
    # and the suprema themselves, which sit at the ends, from f and f' as defined
    f = ndtr(alpha / sigma)
    both = f * ndtr(-alpha / sigma)
    density = np.exp(-0.5 * (alpha / sigma) ** 2) / np.sqrt(2 * np.pi) / sigma
    assert link.L_alpha(alpha) == pytest.approx(density / both, rel=1e-9)
    assert link.beta_alpha(alpha) == pytest.approx(both / density**2, rel=1e-9)


@each_link
@pytest.mark.parametrize("share", [0.3, 2.0])
def test_constants_are_suprema_over_the_interval(link, share):
    alpha = share * unit(link)
    x = np.linspace(-alpha, alpha, 1537)
    f, slope = link.probability(x), differences(link.probability, x, 1e-3 * unit(link))
    steep, flat = slope / (f * (1 - f)), f * (1 - f) / slope**2
    assert link.L_alpha(alpha) == pytest.approx(steep.max(), rel=1e-4)
    assert link.beta_alpha(alpha) == pytest.approx(flat.max(), rel=1e-4)


@each_registered
@pytest.mark.parametrize("constant", ["L_alpha", "beta_alpha"])
@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf])
def test_constants_ask_for_a_positive_alpha(link, constant, alpha):
    with pytest.raises(InvalidInputError, match="alpha must be a positive finite number; got"):
        getattr(link, constant)(alpha)


@each_registered
def test_beta_is_infinite_where_no_number_holds_it(link):
    assert link.beta_alpha(1e5 * unit(link)) == np.inf


@each_link
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_level_inverts_probability(link, probability):
    x = link.level(probability)
    assert isinstance(x, float)
    assert link.probability(np.array([x]))[0] == pytest.approx(probability, rel=1e-9)


@each_kind
@pytest.mark.parametrize("probability", [0.0, 1.0, 1.5, np.nan])
def test_level_asks_for_a_probability_between_0_and_1(kind, probability):
    with pytest.raises(InvalidInputError, match=r"No x has the probability .*: pass one above 0"):
        kind().level(probability)


# Labels


class FixedDraws:
    """Draws of a generator that are all one number."""

    def __init__(self, number):
        self.number = number

    def random(self, shape):
        return np.full(shape, self.number)


@each_registered
def test_labels_are_likes_as_often_as_the_link_says(link):
    x = np.repeat(bulk(link)[::8], 20_000).reshape(-1, 100)
    found = draw_labels(x, link, np.random.default_rng(0))
    assert found.dtype == np.int8
    assert found.shape == x.shape
    assert set(np.unique(found)) == {-1, 1}
    likes = np.mean(found.reshape(-1, 20_000) > 0, axis=1)
    np.testing.assert_allclose(likes, link.probability(bulk(link)[::8]), atol=0.015)


@each_registered
def test_an_impossible_label_is_never_drawn(link):
    x = np.array([-1e5, 1e5]) * unit(link)
    assert link.probability(x).tolist() == [0.0, 1.0]
    for number in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        assert draw_labels(x, link, FixedDraws(number)).tolist() == [-1, 1]


# Names and errors


@each_kind
@pytest.mark.parametrize("scale", [0, -1.0, np.nan, np.inf, None, "1", [1.0], 1j, True])
def test_a_scale_is_a_positive_finite_number(kind, scale):
    name = next(iter(kind.__dataclass_fields__))
    with pytest.raises(InvalidInputError, match=f"{name} must be a positive finite number; got"):
        kind(**{name: scale})


@pytest.mark.parametrize("name", LINKS)
def test_links_are_reachable_by_name(name):
    link = as_link(name)
    assert isinstance(link, Link)
    assert type(link) is LINKS[name]
    assert as_link(link) is link
    assert link in links_of(LINKS[name])


def test_a_link_of_the_user_is_taken_as_it_is():
    link = CloglogLink()
    assert as_link(link) is link


def test_unknown_links_are_refused():
    with pytest.raises(
        InvalidInputError, match="link must be one of logistic, probit; got 'cauchit'"
    ):
        as_link("cauchit")
    with pytest.raises(InvalidTypeError, match="or a Link object; got int"):
        as_link(3)


@each_link
@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_curvature_is_the_largest_second_derivative(link, alpha):
    x = np.linspace(-alpha, alpha, 20001)
    largest = max(float(np.max(link.second(x, y))) for y in (1, -1))
    assert largest <= link.curvature(alpha) * (1 + 1e-12)
    assert link.curvature(alpha) == pytest.approx(largest, rel=1e-6)
    with pytest.raises(InvalidInputError, match="alpha must be a positive"):
        link.curvature(0.0)


def test_curvature_of_the_logistic_link():
    assert Logistic(3.0).curvature(0.1) == pytest.approx(9 / 4)


@dataclass(frozen=True)
class ShiftedLogistic(Logistic):
    """``f(x) = 1 / (1 + exp(-(x - shift)))``, most bent at the shift, where ``l'' = 1/4`` for both labels."""

    shift: float = 0.0

    def second(self, x, y):
        return super().second(x - self.shift, y)


@pytest.mark.parametrize("shift", [-17.3, 0.4, 250.7])
@pytest.mark.parametrize("alpha", [300.0, 2000.0])
def test_a_peak_far_narrower_than_the_interval_is_found_to_its_top(shift, alpha):
    assert ShiftedLogistic(shift=shift).curvature(alpha) == pytest.approx(0.25, rel=1e-9)


# Scales


@each_kind
@pytest.mark.parametrize("scale", [1e-15, 1e15])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_at_the_last_scales_all_is_finite_and_curved(kind, scale, dtype):
    link = kind(scale)
    size = np.concatenate(([0.0], np.geomspace(1e-6, 1e3, 100)))
    x = np.concatenate((-size, size)).astype(dtype)
    with np.errstate(over="ignore", under="ignore"):  # powers in the tail, which are divided by
        for name, method in methods(link):
            assert np.isfinite(method(x)).all(), name
    for y in (1, -1):
        assert link.second(x[:1], y) > np.finfo(dtype).tiny


@each_kind
@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-16, 1e16, 1e200, 1e308])
def test_a_scale_that_cannot_be_computed_with_is_one_sentence(kind, scale):
    with pytest.raises(InvalidInputError, match=r"must be from 1e-15 to 1e\+15, .*; got 1e"):
        kind(scale)


@pytest.mark.parametrize("link", LINKS.values())
def test_the_default_scale_is_1(link):
    assert link() == link(1.0)
    assert link() != link(1.5)


@pytest.mark.parametrize("link", [link for kind in LINKS.values() for link in links_of(kind)])
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_the_largest_loss_of_both_labels_is_that_of_a_fine_grid(link, alpha):
    p = link.probability(np.linspace(-alpha, alpha, 20_001))
    both = -np.log(p) - np.log1p(-p)
    np.testing.assert_allclose(link.U_alpha(alpha), both.max(), rtol=1e-6)
