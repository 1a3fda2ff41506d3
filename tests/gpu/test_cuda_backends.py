"""The backends of a GPU against the plain formula, for every risk and link that they take."""

from dataclasses import replace

import numpy as np
import pytest

from reference import (
    MATRICES,
    RISKS,
    CloglogLink,
    Reference,
    RhoByEntry,
    imputed_weights,
    link_id,
    observations_of,
    random_factors,
    random_matrix,
)
from tribit import Logistic, Probit
from tribit.backends import make_backend
from tribit.backends.balls import RowProblem
from tribit.backends.rows import RowState
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.risks import Risk, doubly_robust

K = 4
LINKS = [Logistic(), Logistic(0.4), Logistic(3.0), Probit(), Probit(0.4)]
TYPES = ("float32", "float64")
each_risk = pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
each_link = pytest.mark.parametrize("link", LINKS, ids=link_id)
each_matrix = pytest.mark.parametrize("A", MATRICES.values(), ids=MATRICES)
each_type = pytest.mark.parametrize("dtype", TYPES)


def build(A, link, risk, dtype="float64", device="cuda"):
    return make_backend(observations_of(A), link, risk, dtype=dtype, n_jobs=1, device=device)


def tolerance(dtype, risk):
    """Return the error relative to the largest: half-precision products where all entries count, else float32."""
    if dtype == "float64":
        return 1e-10
    return 2e-3 if risk.unobserved_weight else 1e-5


def assert_near(got, expected, atol):
    scale = np.max(np.abs(expected), initial=0.0)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol * scale + 1e-300)


def models(backend, P, Q, free, *, exact):
    (found,) = backend.map_panels(lambda panel: panel.models(P, free, exact=exact, value=True), Q)
    return found


@each_risk
@each_link
@each_matrix
@each_type
def test_value_and_gradients_are_those_of_the_dense_formula(risk, link, A, dtype):
    P, Q = (F.astype(dtype).astype(float) for F in random_factors(A.shape, K))
    exact, backend = Reference(A, link, risk), build(A, link, risk, dtype)
    near = tolerance(dtype, risk)
    value, in_P, in_Q = backend.gradient(P, Q)
    size = exact.size(P @ Q.T)
    # A single entry has the error of tanh in half precision; over many they cancel.
    rounding = 1e-12 if dtype == "float64" else (1e-4 if risk.unobserved_weight else 3e-6)
    assert value == pytest.approx(exact.value(P, Q), abs=rounding * size, rel=1e-10)
    assert backend.value(P, Q) == pytest.approx(value, rel=1e-9, abs=1e-12 * size)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, near)
    none, *same = backend.gradient(P, Q, value=False)
    assert np.isnan(none)
    np.testing.assert_array_equal(same[0], in_P)
    np.testing.assert_array_equal(same[1], in_Q)


@each_risk
@each_link
@each_type
def test_models_of_rows_are_those_of_the_dense_formula(risk, link, dtype):
    A = MATRICES["gaps"]
    P, Q = (F.astype(dtype).astype(float) for F in random_factors(A.shape, K))
    exact, backend = Reference(A, link, risk), build(A, link, risk, dtype)
    near = 10 * tolerance(dtype, risk) if dtype == "float64" else 3e-3  # tf32 in the curvature
    for free in (1, K - 1, K):
        found = models(backend, P, Q, free, exact=True)
        assert_near(found.values, exact.row_values(P, Q), near)
        assert_near(found.gradients, exact.gradients(P, Q)[0][:, :free], near)
        assert_near(found.curvatures, exact.row_curvatures(P, Q, free), near)
    if backend.has_bounds:
        bounds = models(backend, P, Q, K, exact=False).curvatures
        for size in (0.0, 1.0, 10.0):
            least = np.linalg.eigvalsh(bounds - exact.row_curvatures(size * P, Q, K))[:, 0]
            assert np.all(least >= -near * np.abs(bounds).max())


@each_risk
@pytest.mark.parametrize("shape", [(300, 1100), (1, 1), (70, 5)])
@pytest.mark.parametrize("k", [1, 2, 10, 18, 34, 40])
def test_any_number_of_columns_in_float32(risk, shape, k):
    A = random_matrix(shape, observed=0.3, gaps=min(shape) > 1)
    P, Q = (F.astype("float32").astype(float) for F in random_factors(shape, k, size=0.7))
    exact, backend = Reference(A, Logistic(), risk), build(A, Logistic(), risk, "float32")
    value, *found = backend.gradient(P, Q)
    assert abs(value - exact.value(P, Q)) <= 1e-5 * exact.size(P @ Q.T)
    for got, expected in zip(found, exact.gradients(P, Q), strict=True):
        assert_near(got, expected, tolerance("float32", risk))
    curvatures = models(backend, P, Q, k, exact=True).curvatures
    assert_near(curvatures, exact.row_curvatures(P, Q, k), 3e-3)
    assert backend.largest(P, Q) == pytest.approx(np.abs(P @ Q.T).max(), rel=1e-3)


@each_risk
@pytest.mark.parametrize("link", LINKS[:1] + LINKS[3:4], ids=link_id)
@each_type
def test_huge_entries_stay_finite(risk, link, dtype):
    A = MATRICES["gaps"]
    P, Q = (F.astype(dtype).astype(float) for F in random_factors(A.shape, K, size=30.0))
    exact, backend = Reference(A, link, risk), build(A, link, risk, dtype)
    value, in_P, in_Q = backend.gradient(P, Q)
    near = 1e-10 if dtype == "float64" else 2e-3
    assert abs(value - exact.value(P, Q)) <= near * exact.size(P @ Q.T)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, near)


def test_a_rho_for_each_entry():
    A = MATRICES["gaps"]
    rho = RhoByEntry(A.shape)
    risk = Risk(0.5, 0.3, 0.2, rho=rho)
    P, Q = random_factors(A.shape, K)
    exact = Reference(A, Logistic(), risk, rho=rho.dense)
    value, *found = build(A, Logistic(), risk).gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    for got, expected in zip(found, exact.gradients(P, Q), strict=True):
        assert_near(got, expected, 1e-10)


@pytest.mark.parametrize("link", [Logistic(), Probit(0.7)], ids=link_id)
@pytest.mark.parametrize("imputing", [Logistic(2.0), Probit()], ids=link_id)
def test_a_model_that_imputes(link, imputing):
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K)
    U, V = random_factors(A.shape, 2, seed=5)
    risk = doubly_robust(Factors.of(U, V), imputing, 0.6, pn=0.3)
    plus, minus = imputed_weights(A, imputing.probability(U @ V.T), 0.6, pn=0.3)
    exact, backend = Reference.of_weights(link, plus, minus), build(A, link, risk)
    value, in_P, in_Q = backend.gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    assert_near(in_P, exact.gradients(P, Q)[0], 1e-10)
    assert_near(in_Q, exact.gradients(P, Q)[1], 1e-10)
    curvatures = models(backend, P, Q, K, exact=True).curvatures
    assert_near(curvatures, exact.row_curvatures(P, Q, K), 1e-9)
    turned = models(backend.transposed, Q, P, K, exact=True).curvatures
    turned_exact = Reference.of_weights(link, plus.T, minus.T).row_curvatures(Q, P, K)
    assert_near(turned, turned_exact, 1e-9)


PROBLEMS = {
    "ridge": RowProblem(K - 1, True, 0.3, 0.1),
    "ball": RowProblem(K - 1, True, 0.05, 0.1, norm=0.5, bound=0.4),
    "no intercept": RowProblem(K, False, 0.2, norm=1.0),
    "centre": RowProblem(K - 1, True, 0.3, 0.1, norm=3.0, bound=3.0),
    "own ridges": RowProblem(K - 1, True, 0.3, 0.1),
}


@each_risk
@pytest.mark.parametrize("link", LINKS[:1] + LINKS[3:4], ids=link_id)
@pytest.mark.parametrize("name", PROBLEMS)
@each_type
def test_half_sweeps_end_where_those_of_the_cpu_do(risk, link, name, dtype):
    A, problem = MATRICES["gaps"], PROBLEMS[name]
    P, Q = random_factors(A.shape, K)
    if risk.unobserved_weight and np.isinf(
        problem.norm
    ):  # such a risk has its minimum in a ball only
        problem = replace(problem, norm=3.0, bound=3.0)
    if name == "centre":
        problem = replace(problem, prior_mean=0.1 * random_factors((A.shape[0], 1), K, seed=3)[0])
    if name == "own ridges":
        problem = replace(problem, relative_l2=np.linspace(0.2, 3.0, A.shape[0]))
    P[:, : problem.k] *= 0.1
    ends = []
    for device in ("cpu", "cuda"):
        backend, moved = build(A, link, risk, dtype, device), P
        state = RowState(P.shape[0])
        for _ in range(60):
            half = backend.half_sweep(moved, Q, problem, state)
            assert half.gain >= 0
            moved = half.P
        ends.append((moved, half.value))
    near = 1e-6 if dtype == "float64" else 1e-2
    np.testing.assert_allclose(ends[1][0], ends[0][0], atol=near)
    assert ends[1][1] == pytest.approx(ends[0][1], rel=near / 10)
    np.testing.assert_array_equal(ends[1][0][:, problem.free :], P[:, problem.free :])


def test_a_link_of_ones_own_is_refused_in_one_sentence():
    with pytest.raises(InvalidInputError, match=r"a link of your own: use device='cpu'\."):
        build(MATRICES["gaps"], CloglogLink(), RISKS["pn"])


def test_the_same_bits_in_every_run():
    A = random_matrix((500, 300), observed=0.4)
    P, Q = random_factors(A.shape, 12)
    for risk in (RISKS["pn"], RISKS["tri"]):
        one, two = (build(A, Logistic(), risk, "float32").gradient(P, Q) for _ in range(2))
        for left, right in zip(one, two, strict=True):
            np.testing.assert_array_equal(left, right)
