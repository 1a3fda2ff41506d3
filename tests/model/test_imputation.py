"""The dense term of the doubly robust risk: backends that impute a model's probability to every entry."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize

from reference import (
    ALL_LINKS,
    MATRICES,
    SOME_LINKS,
    Reference,
    RhoByEntry,
    differences,
    imputed_weights,
    inverse_weights,
    link_id,
    observations_of,
    random_factors,
    random_matrix,
)
from tribit.backends import make_backend, tiles
from tribit.backends.base import GramCache
from tribit.backends.objective import Objective
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.constraints import Unconstrained
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.risks import Risk, doubly_robust, pn, punu
from tribit.solvers import Newton, Stopping

K = 3
some_links = pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
each_matrix = pytest.mark.parametrize("A", MATRICES.values(), ids=MATRICES)


@pytest.fixture(params=[4, 7, None], ids=["tile4", "tile7", "tile"])
def pieces(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(tiles, "HEIGHT", request.param)
        monkeypatch.setattr(tiles, "WIDTH", request.param)
        monkeypatch.setattr(tiles, "PANELS_PER_SUM", 2)


def guess(shape, seed=3):
    """A fitted model: factors and intercepts of a moderate size."""
    rng = np.random.default_rng([seed, *shape])
    U, V = random_factors(shape, 2, size=0.7, seed=seed)
    return Factors(U, V, -0.3, 0.4 * rng.normal(size=shape[0]), 0.4 * rng.normal(size=shape[1]))


def dense(x):
    X = x.row_factors @ x.column_factors.T + x.intercept
    return X + x.row_intercepts[:, None] + x.column_intercepts


def case(A, link, share, power=0.0, other=None):
    """Return a doubly robust risk beside PN, and its dense reference; ``other`` is the link of what is imputed."""
    model, x0 = RhoByEntry(A.shape), guess(A.shape)
    risk = doubly_robust(x0, other or link, model, pn=share)
    if power:
        risk = Risk(risk.pn, risk.pu, risk.nu, model, inverse_power=power, imputed=risk.imputed)
    f0 = (other or link).probability(dense(x0))
    exact = Reference.of_weights(link, *imputed_weights(A, f0, model.dense, share, power))
    return risk, exact


def backend_of(A, link, risk, dtype="float64", n_jobs=1):
    return make_backend(observations_of(A), link, risk, dtype=dtype, n_jobs=n_jobs)


def assert_near(got, expected, tolerance=1e-10):
    scale = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale + 1e-300)


@pytest.mark.parametrize(("share", "power"), [(0.0, 0.0), (0.6, 0.0), (0.6, 1.0)])
@some_links
@each_matrix
@pytest.mark.usefixtures("pieces")
def test_value_gradients_and_models_are_those_of_the_dense_formula(A, link, share, power):
    P, Q = random_factors(A.shape, K)
    risk, exact = case(A, link, share, power)
    backend = backend_of(A, link, risk)
    value, in_P, in_Q = backend.gradient(P, Q)
    size = exact.size(P @ Q.T)
    assert value == pytest.approx(exact.value(P, Q), abs=1e-12 * size, rel=1e-10)
    assert backend.value(P, Q) == pytest.approx(exact.value(P, Q), abs=1e-12 * size, rel=1e-10)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected)
    against = GramCache(Q, backend.dtype)
    for panel in (backend.panel(number, against) for number in range(backend.n_panels)):
        model = panel.models(P[panel.rows], K - 1, exact=True, value=True)
        assert_near(model.values, exact.row_values(P, Q)[panel.rows], 1e-9)
        assert_near(model.gradients, exact.gradients(P, Q)[0][panel.rows, : K - 1], 1e-9)
        curvatures = exact.row_curvatures(P, Q, K - 1)[panel.rows]
        assert_near(model.curvatures, curvatures)
        if not backend.has_bounds:
            continue
        bound = panel.models(P[panel.rows], K - 1, exact=False, value=False)
        assert_near(bound.gradients, model.gradients)
        assert bound.tightness == pytest.approx(model.tightness)
        least = np.linalg.eigvalsh(bound.curvatures - curvatures)[:, 0]
        assert np.all(least >= -1e-12 * np.abs(bound.curvatures).max())


@pytest.mark.parametrize("other", [Logistic(0.7), SOME_LINKS[1]], ids=link_id)
@pytest.mark.parametrize("link", ALL_LINKS, ids=link_id)
def test_the_imputed_model_may_have_a_link_of_its_own(link, other):
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K)
    risk, exact = case(A, link, 0.3, other=other)
    value, in_P, _ = backend_of(A, link, risk).gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    assert_near(in_P, exact.gradients(P, Q)[0])


@some_links
@pytest.mark.usefixtures("pieces")
def test_the_transposed_backend_exchanges_the_imputed_too(link):
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K)
    risk, exact = case(A, link, 0.3)
    backend = backend_of(A, link, risk).transposed
    value, in_Q, in_P = backend.gradient(Q, P)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected)


def test_tightness_is_the_mean_share_of_the_logistic_bound():
    A, link = MATRICES["equal"], Logistic(1.5)
    P, Q = random_factors(A.shape, K)
    backend = backend_of(A, link, case(A, link, 0.3)[0])
    f = link.probability(P @ Q.T)
    assert backend.n_panels == 1
    panel = backend.panel(0, GramCache(Q, backend.dtype))
    for exact in (True, False):
        got = panel.models(P, K, exact=exact, value=False).tightness
        assert got == pytest.approx(np.mean(4 * f * (1 - f)))


@pytest.mark.parametrize("shape", [(257, 300), (20, 520)])
@some_links
def test_float32_is_near_the_dense_formula(shape, link):
    A = random_matrix(shape, observed=0.1, gaps=True)
    P, Q = random_factors(shape, K, size=0.5)
    risk, exact = case(A, link, 0.3)
    value, in_P, in_Q = backend_of(A, link, risk, "float32").gradient(P, Q)
    assert abs(value - exact.value(P, Q)) <= 1e-5 * exact.size(P @ Q.T)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bits_do_not_depend_on_the_number_of_threads(monkeypatch, dtype):
    monkeypatch.setattr(tiles, "HEIGHT", 4)
    monkeypatch.setattr(tiles, "WIDTH", 4)
    A = random_matrix((41, 30))
    P, Q = random_factors(A.shape, K)
    risk, _ = case(A, Logistic(), 0.3)
    one, two = (backend_of(A, Logistic(), risk, dtype, n_jobs).gradient(P, Q) for n_jobs in (1, 3))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [30.0, 1e3])
@pytest.mark.parametrize("link", SOME_LINKS[:2], ids=link_id)
def test_huge_entries_stay_finite(link, size):
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K, size=np.sqrt(size))
    risk, exact = case(A, link, 0.3)
    value, in_P, _ = backend_of(A, link, risk).gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), abs=1e-10 * exact.size(P @ Q.T))
    assert_near(in_P, exact.gradients(P, Q)[0], 1e-9)


@pytest.mark.parametrize("link", ALL_LINKS, ids=link_id)
@pytest.mark.parametrize("kind", ["doubly robust", "weighted"])
def test_the_gradient_of_an_objective_is_that_of_its_value(link, kind):
    A = random_matrix((9, 7), gaps=True)
    model = RhoByEntry(A.shape)
    if kind == "weighted":
        risk = Risk(0.7, 0.2, 0.1, model, inverse_power=0.5)
    else:
        risk, _ = case(A, link, 0.3)
    objective = Objective(observations_of(A), link, risk, l2=0.8, intercept=True)
    at, along = guess(A.shape, 5), guess(A.shape, 6)
    gradient = objective.gradient(at)[1]
    got = sum(float(np.sum(getattr(gradient, name) * getattr(along, name))) for name in vars(along))
    slope = differences(lambda t: objective.value(at.plus(t, along)), 0.0, 1e-3)
    assert got == pytest.approx(slope, rel=1e-7)


def test_the_sparse_backend_weighs_entries():
    A, link = random_matrix((9, 7), gaps=True), Logistic()
    P, Q = random_factors(A.shape, K)
    model = RhoByEntry(A.shape)
    w = inverse_weights(A, 1 - model.dense, 1.0)
    exact = Reference.of_weights(link, w * (A == 1), w * (A == -1))
    backend = backend_of(A, link, Risk(1, 0, 0, model, inverse_power=1.0))
    value, in_P, in_Q = backend.gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected)


def test_newton_reaches_what_a_general_solver_reaches():
    A, link = random_matrix((12, 9), seed=3), Logistic()
    risk, _ = case(A, link, 0.5)
    start = Factors.of(*random_factors(A.shape, 2, size=0.3))
    objective = Objective(observations_of(A), link, risk, l2=6.0)
    result = Newton().minimise(
        objective, [Unconstrained()], start, Stopping(500, 1e-10), np.random.default_rng(0)
    )

    def unpacked(p):
        return Factors.of(p[:24].reshape(12, 2), p[24:].reshape(9, 2))

    def value_and_gradient(p):
        value, gradient = objective.gradient(unpacked(p))
        return value, np.concatenate(
            [gradient.row_factors.ravel(), gradient.column_factors.ravel()]
        )

    p = np.concatenate([start.row_factors.ravel(), start.column_factors.ravel()])
    peer = minimize(value_and_gradient, p, jac=True, method="L-BFGS-B", options={"ftol": 1e-14})
    assert result.converged
    assert objective.value(result.factors) == pytest.approx(peer.fun, rel=1e-6)


def test_a_model_that_is_imputed_to_itself_moves_by_what_was_observed_alone():
    shape, link = (8, 6), Logistic()
    x0, A = guess(shape), np.zeros((8, 6), dtype=int)
    A[2, 3] = 1
    objective = Objective(observations_of(A), link, doubly_robust(x0, link, 0.75), intercept=True)
    got = objective.gradient(x0)[1].row_intercepts
    f0 = link.probability(dense(x0)[2, 3])
    np.testing.assert_allclose(got, np.where(np.arange(8) == 2, -4 * (1 - f0), 0), atol=1e-12)


def test_a_model_of_another_shape_is_refused():
    risk = doubly_robust(guess((4, 5)), "logistic", 0.5)
    with pytest.raises(
        InvalidInputError, match=r"imputed model is 4 x 5 and the observations 5 x 4"
    ):
        Objective(observations_of(random_matrix((5, 4))), Logistic(), risk)


def test_other_risks_have_nothing_imputed():
    assert pn().imputed is None
    assert punu(0.4, 0.5).imputed is None


def test_memory_is_far_below_that_of_the_dense_matrix():
    shape = (6000, 4000)
    rng = np.random.default_rng(0)
    keys = rng.choice(shape[0] * shape[1], 5000, replace=False)
    seen = Observations.from_pairs(
        keys // shape[1], keys % shape[1], rng.choice([-1, 1], keys.size), shape=shape
    )
    objective = Objective(seen, Logistic(), doubly_robust(guess(shape), "logistic", 0.9))
    factors = Factors.of(*random_factors(shape, 2))
    objective.gradient(factors)  # buffers that stay are not counted
    tracemalloc.start()
    try:
        objective.gradient(factors)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * shape[0] * shape[1] / 8
