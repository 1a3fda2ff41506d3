"""Bounds of mixtures: formulas by enumeration, and every inequality by simulation with factor 1."""

from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tribit import Logistic, Probit
from tribit.errors import InvalidInputError, TribitError
from tribit.model.risks import tri
from tribit.paper.theory import (
    MixtureProblem,
    first_order_price,
    mask_deviation,
    mean_weights,
    mixture_coordinates,
    optimality_gap,
    t_max,
    tri_bound,
)
from tribit.paper.theory.guarantees import _bernstein, _rademacher
from tribit.selection.gammas import mixture

GAMMAS = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.3, 0.3, 0.4), (0.9, 0.02, 0.08), (0.0, 0.4, 0.6)]
LINKS = [Logistic(1.5), Probit(0.7)]
X, M = np.linspace(-0.9, 0.9, 7), np.linspace(0.8, -0.6, 7)


def problem(gammas=(0.3, 0.3, 0.4), rho=0.6, *, shape=(20, 30), alpha=1.0, link="logistic"):
    return MixtureProblem(shape, gammas, rho, alpha, link)


@pytest.fixture
def guarantees(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    return import_module("benchmarks.guarantees")


# Two coordinates


@pytest.mark.parametrize(("gammas", "rho"), list(product(GAMMAS, (0.0, 0.5, 0.9))))
def test_two_coordinates_give_every_weight_and_the_mean(gammas, rho):
    t, g = mixture_coordinates(gammas, rho)
    q, g = 1 - rho, 0.0 if g is None else g
    one = problem(gammas, rho)
    table = tri(*gammas, rho=rho).table() / one.kappa
    for (plus, minus), seen, like in zip(table, (1, 0, 1), (1, 0, 0), strict=True):
        weight, c = t + (1 - t) * seen / q, t * g + seen * (like - t * g) / q
        assert (plus, minus) == pytest.approx((c, weight - c))
    p = np.linspace(0.1, 0.9, 5)
    np.testing.assert_allclose(
        mean_weights(tri(*gammas, rho=rho), p), (one.kappa * p, one.kappa * (1 - p))
    )
    if t > 0:
        assert mixture(t, q, g) == pytest.approx(gammas)


@pytest.mark.parametrize(("gammas", "link", "rho"), list(product(GAMMAS, LINKS, (0.3, 0.9))))
def test_the_variance_of_the_gradient_is_that_of_its_three_outcomes(gammas, link, rho):
    one = problem(gammas, rho, link=link)
    table, p, q = tri(*gammas, rho=rho).table() / one.kappa, link.probability(M), 1 - rho
    slopes = table @ np.array([link.first(X, 1), link.first(X, -1)])
    shares = np.array([q * p, np.full(p.shape, rho), q * (1 - p)])
    variance = (shares * slopes**2).sum(axis=0) - (shares * slopes).sum(axis=0) ** 2
    np.testing.assert_allclose(one.gradient_variance(M, X), variance, rtol=1e-9)
    excess = one.gradient_variance(M) - problem((1, 0, 0), rho, link=link).gradient_variance(M)
    lam = link.first(M, -1) - link.first(M, 1)
    np.testing.assert_allclose(
        excess, (lam * one.t) ** 2 * rho / q * (p - one.g) ** 2, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("link", LINKS)
def test_the_best_imputed_label_is_the_mean_of_p_for_the_logistic_link_alone(link):
    p, lam = link.probability(M), link.first(M, -1) - link.first(M, 1)
    labels = np.linspace(0.2, 0.8, 601)
    sums = [problem((0, 1 - g, g), link=link).gradient_variance(M).sum() for g in labels]
    best = labels[int(np.argmin(sums))]
    assert best == pytest.approx(np.sum(lam**2 * p) / np.sum(lam**2), abs=1e-3)
    assert (abs(best - p.mean()) < 1e-3) == isinstance(link, Logistic)


# Convexity of other links


@pytest.mark.parametrize(("g", "rho"), list(product((0.0, 0.3, 0.5, 1.0), (0.5, 0.9))))
def test_every_entry_is_convex_up_to_t_max_and_not_beyond(g, rho):
    link, alpha = Probit(0.5), 0.8
    most = t_max(rho, g, alpha, link)
    assert 0 < most < 1
    x = np.linspace(-alpha, alpha, 2001)
    for t, convex in ((0.999 * most, True), (1.01 * most, False)):
        table = tri(*mixture(t, 1 - rho, g), rho=rho).table()
        least = (table @ np.array([link.second(x, 1), link.second(x, -1)])).min()
        assert (least > 0) == convex
    assert t_max(rho, g, alpha, "logistic") == 1.0


@pytest.mark.parametrize(
    ("alpha", "rho", "g", "t"),
    [(0.915, 0.5, 0.0, 1), (0.431, 0.85, 0.5, 1), (1.38, 0.95, 0.5, 0.5), (2.78, 0.5, 0.5, 0.1)],
)
def test_t_max_of_the_probit(alpha, rho, g, t):
    assert t_max(rho, g, alpha, Probit(1.0)) == pytest.approx(t, rel=0.02)


@pytest.mark.parametrize("t", [0.0, 0.05, 0.15])
def test_the_curvature_of_an_entry_is_at_least_eta_times_its_weight(t):
    link, alpha, rho, g = Probit(0.8), 1.0, 0.7, 0.4
    one = problem(mixture(t, 1 - rho, g), rho, alpha=alpha, link=link)
    table = tri(*one.gammas, rho=rho).table() / one.kappa
    x = np.linspace(-alpha, alpha, 4001)
    curvature = table @ np.array([link.second(x, 1), link.second(x, -1)])
    weights = table.sum(axis=1)
    kept = weights > 0
    least = (curvature[kept] / weights[kept, None]).min()
    assert 1 / one.inverse_curvature == pytest.approx(least, rel=1e-5)


def test_beyond_t_max_convex_theorems_are_refused_and_the_first_is_not():
    one = problem((0.0, 0.5, 0.5), 0.85, alpha=1.0, link=Probit(0.1))
    found = tri_bound(one, radius=2.0, rank=4)
    assert list(found.bounds) == ["theorem 1"]
    assert list(found.refused) == ["theorem 2", "theorem 3"]
    assert "above t_max = 1.83e-21" in found.refused["theorem 2"]
    assert "t_max" in str(found)


# The steps of the proofs


@pytest.mark.parametrize(("link", "factor"), [(Logistic(3.0), 2), (Probit(0.4), 4)])
def test_the_divergence_is_at_least_the_square(link, factor):
    x = np.linspace(-1, 1, 201)
    a, b = x[:, None], x[None, :]
    p = link.probability(a)
    divergence = p * (link.loss(b, 1) - link.loss(a, 1))
    divergence += (1 - p) * (link.loss(b, -1) - link.loss(a, -1))
    assert np.all((a - b) ** 2 <= factor * link.beta_alpha(1.0) * divergence + 1e-12)


def cut_norm(E):
    """Return ``|E|_(inf -> 1)`` by enumeration of the signs of the rows."""
    signs = np.array(list(product((-1, 1), repeat=len(E))))
    return np.abs(signs @ E).sum(axis=1).max()


@pytest.mark.parametrize("q", [0.2, 0.7])
def test_norms_of_random_signs_are_below_their_bounds(q):
    draws, one = np.random.default_rng(0), problem(rho=1 - q, shape=(8, 10))
    masks = draws.random((200, 8, 10)) < q
    signs = masks * draws.choice([-1, 1], masks.shape)
    found = np.mean([cut_norm(each) for each in signs])
    grothendieck = np.pi / 2 / np.log(1 + np.sqrt(2))
    assert 0.5 < grothendieck * found / _rademacher(one) <= 1
    operator = np.mean(np.linalg.norm(signs, 2, axis=(1, 2)))
    assert operator <= np.sqrt(2 * q * 10 * np.log(18)) + np.log(18) / 3


def test_the_noise_exceeds_its_bounds_rarely():
    one, delta = problem(rho=0.7, shape=(8, 10)), 0.2
    draws = np.random.default_rng(0)
    hidden = draws.uniform(-1, 1, one.shape)
    like = draws.random((300, 8, 10)) < one.link.probability(hidden)
    tables = np.where(draws.random(like.shape) < one.q, np.where(like, 1, -1), 0)
    noises = np.array([one.gradient_noise(hidden, A) for A in tables])
    variance = one.gradient_variance(hidden)
    np.testing.assert_allclose(noises.var(axis=0), variance, rtol=0.5)
    assert np.abs(noises).max() <= 1 / one.q
    inner = -np.sum(noises * hidden, axis=(1, 2))
    total, tau = variance.sum(), np.log(1 / delta)
    assert 0 < np.mean(inner > _bernstein(total, 1 / one.q, tau)) <= delta
    cuts = [cut_norm(E) for E in noises]
    assert max(cuts) <= _bernstein(total, 1 / one.q, 17 * np.log(2) + tau)


# The theorems


CASES = [
    (8, Logistic(1.5), 0.4, 0.0, 0.5, 1.0),
    (8, Logistic(4.0), 0.8, 0.2, 0.5, 2.0),
    (12, Logistic(1.5), 0.8, 0.6, 0.3, 1.0),
    (12, Logistic(1.5), 0.4, 1.0, 0.5, 2.0),
    (16, Logistic(4.0), 0.4, 1.0, 0.0, 1.0),
    (16, Probit(0.8), 0.4, 0.6, 0.3, 1.0),
    (16, Probit(0.8), 0.8, 0.2, 0.5, 1.0),
    (30, Logistic(1.5), 0.4, 0.2, 0.5, 1.0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_inequality_holds_on_each_draw(guarantees, case):
    found = guarantees.check_draw(guarantees.Case(*case), seed=1)
    assert len(found) == 8
    for name, (left, right) in found.items():
        assert left <= right, name


def test_the_first_order_form_has_no_room_for_another_factor_of_two(guarantees):
    case = guarantees.Case(30, Logistic(1.5), 0.4, 0.2, 0.5, 1.0)
    left, right = guarantees.check_draw(case, seed=2)[guarantees.CURVATURE]
    assert left <= right < 2 * left


def test_the_gap_bounds_what_is_above_the_minimum(guarantees):
    case = guarantees.Case(10, Logistic(1.5), 0.5, 0.4, 0.5, 1.0)
    _, A = case.draw(0)
    objective, gaps, values = guarantees.objective_of(case, A), [], []
    for tol in (1e-2, 1e-4, 1e-9):
        factors = guarantees.minimiser(case, A, tol=tol)
        U, V = factors.row_factors, factors.column_factors
        gaps.append(optimality_gap(guarantees.gradient_at(case, A, U @ V.T), U, V, case.radius))
        values.append(objective.value(factors) / case.problem.kappa)
    excess = np.array(values) - values[-1]
    assert np.all(excess <= np.array(gaps) + 1e-9)
    assert gaps[-1] < 1e-2 < gaps[0]


def test_more_imputation_lowers_the_first_bound_and_raises_the_price():
    hidden = np.outer(np.sign(np.linspace(-1, 3, 20)), np.ones(30))
    many = [problem(mixture(t, 0.4, 0.5)) for t in (0.0, 0.2, 0.5, 1.0)]
    slow = [tri_bound(one, radius=1.0).bounds["theorem 1"].value for one in many]
    assert np.all(np.diff(slow) < 0)
    scale = many[0].link.scale
    assert many[0].lipschitz == pytest.approx(scale * Logistic().probability(np.array([1.0]))[0])
    assert many[-1].lipschitz == pytest.approx(scale / 2)
    price = [first_order_price(one, hidden) for one in many]
    assert price[0] == 1.0
    assert np.all(np.diff(price) > 0)


@pytest.mark.parametrize("gammas", [(1, 0, 0), (0.2, 0.5, 0.3), (0, 0.9, 0.1)])
def test_the_price_is_that_of_estimates_of_one_number(gammas):
    # M and X are constant: f(X) = sum c / sum W, and its variance is that of the gradient.
    one = problem(gammas, 0.5, shape=(30, 30))
    x = np.array([[0.6]])
    p, draws = float(one.link.probability(x)[0, 0]), np.random.default_rng(3)
    n_likes = draws.binomial(one.cells, one.q * p, 20_000)
    n_dislikes = draws.binomial(one.cells - n_likes, one.q * (1 - p) / (1 - one.q * p))
    counts = np.array([n_likes, one.cells - n_likes - n_dislikes, n_dislikes])
    plus, minus = tri(*gammas, rho=0.5).table().T @ counts
    likely = plus / (plus + minus)
    expected = p * (1 - p) * first_order_price(one, x) / (one.q * one.cells)
    assert likely.var() == pytest.approx(expected, rel=0.05)


def test_the_order_of_knowledge_is_that_of_the_bounds(guarantees):
    case = guarantees.Case(40, Logistic(1.5), 0.5, 0.3, 0.5, 1.0)
    hidden, A = case.draw(0)
    known = ({}, {"M": hidden}, {"A": A}, {"A": A, "M": hidden})
    worst, hidden_known, mask_known, drawn = (
        tri_bound(case.problem, radius=1.0, **given).bounds["theorem 2"] for given in known
    )
    assert drawn.value < hidden_known.value < worst.value
    assert drawn.value < mask_known.value < worst.value
    assert drawn.probability == 1.0
    assert worst.probability == 0.95
    assert mask_known.terms["mask"] == pytest.approx(0.7 * mask_deviation(case.problem, 1.0, A))
    fully = tri_bound(case.problem, radius=1.0, gap=3.0).bounds
    assert fully["theorem 2"].value - worst.value == pytest.approx(
        3 * case.problem.inverse_curvature / 1600
    )


def test_vacuous_bounds_say_so():
    far = tri_bound(problem(), radius=3.0, rank=2)
    assert all(bound.vacuous for bound in far.bounds.values())
    assert str(far).count("(vacuous)") == 3
    large = problem((0, 0.5, 0.5), 0.0, shape=(10**6, 10**6))
    near = tri_bound(large, radius=1.0, rank=2)
    assert not any(bound.vacuous for bound in near.bounds.values())
    assert near.bounds["theorem 3"].value < near.bounds["theorem 2"].value < 0.05


@pytest.mark.parametrize("c", [0.01, 7.0])
def test_bounds_have_the_unit_of_a_mean_square(c):
    here, there = (
        tri_bound(problem(alpha=a, link=Logistic(1 / a)), radius=2 * a, rank=3) for a in (1.0, c)
    )
    for name, bound in here.bounds.items():
        assert there.bounds[name].value == pytest.approx(c**2 * bound.value)
        assert sum(bound.terms.values()) == pytest.approx(bound.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "No set is given: pass radius"),
        ({"radius": 0.5}, "radius is 0.5, below alpha = 1"),
        ({"rank": 21}, "rank must be between 1 and 20"),
        ({"radius": 1.0, "delta": 1.0}, r"delta must be .*in \(0, 1\)"),
        ({"radius": 1.0, "gap": -1.0}, "gap must be a finite number, at least 0"),
        ({"radius": 1.0, "M": np.zeros((2, 2))}, r"M has the shape \(2, 2\) and the problem"),
        ({"radius": 1.0, "M": np.full((20, 30), 1.5)}, "M is 1.5 at row 0, column 0; pass entries"),
        ({"radius": 1.0, "A": -np.eye(3)}, r"A has the shape \(3, 3\) and the problem \(20, 30\)"),
    ],
)
def test_what_a_bound_cannot_use_is_named(change, sentence):
    with pytest.raises(TribitError, match=sentence):
        tri_bound(problem(), **change)


def test_a_mixture_is_checked():
    with pytest.raises(InvalidInputError, match="sum to 1"):
        mixture_coordinates((0.5, 0.1, 0.1), 0.5)
    with pytest.raises(InvalidInputError, match="rho"):
        problem(rho=1.0)
    assert mixture_coordinates((1, 0, 0), 0.5) == (0.0, None)
