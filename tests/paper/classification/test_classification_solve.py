from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from tribit import InvalidInputError, nu, pn, pnu, pu, punu
from tribit.paper.classification import LOSSES
from tribit.paper.classification.examples import (
    GaussianBasis,
    LinearBasis,
    choose_rows,
    median_distance,
)
from tribit.paper.classification.solve import (
    RiskProblem,
    convex_objective,
    minimise,
    rounded_objective,
)

MIXTURES = [pn(), pu(0), nu(0), punu(0.3, 0), pnu(0.6, 0), pnu(-0.6, 0)]


def make(mixture, loss="squared", nonnegative=False, seed=0, l2=0.05, n=(6, 12, 7), spread=1.0):
    draws = np.random.default_rng(seed)
    labels = np.repeat([1, 0, -1], n)
    X = spread * draws.normal(size=(labels.size, 3)) + labels[:, None]
    features = LinearBasis().features(X)
    return RiskProblem(features, labels, mixture, 0.4, LOSSES[loss], l2, nonnegative)


def convex_solution(problem):
    """Each term of the three risks written out on its own."""
    w = cp.Variable(problem.features.shape[1])
    g, y, t = problem.features @ w, problem.labels, problem.prior
    if problem.loss is LOSSES["squared"]:
        plus, minus = (lambda s: cp.sum_squares(1 - s) / 4), (lambda s: cp.sum_squares(1 + s) / 4)
    else:
        plus, minus = (lambda s: cp.sum(cp.logistic(-s))), (lambda s: cp.sum(cp.logistic(s)))
    P, U, N = (g[np.flatnonzero(y == kind)] for kind in (1, 0, -1))
    n_P, n_U, n_N = (int(np.sum(y == kind)) for kind in (1, 0, -1))
    mixture = problem.mixture
    risk = 0
    if mixture.pn:
        risk += mixture.pn * (t * plus(P) / n_P + (1 - t) * minus(N) / n_N)
    if mixture.pu:
        risk += mixture.pu * (-t * cp.sum(P) / n_P + minus(U) / n_U)
    if mixture.nu:
        risk += mixture.nu * ((1 - t) * cp.sum(N) / n_N + plus(U) / n_U)
    whole = cp.Problem(cp.Minimize(risk + problem.l2 / 2 * cp.sum_squares(w[:-1])))
    whole.solve(solver=cp.CLARABEL)
    return w.value, whole.value


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mixture", MIXTURES, ids=repr)
def test_equal_to_an_independent_solver(mixture, loss):
    problem = make(mixture, loss)
    solution = minimise(problem, max_iter=1000, tol=1e-9)
    w, value = convex_solution(problem)
    assert solution.converged
    assert solution.objective == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(solution.coefficients, w, atol=2e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mixture", MIXTURES, ids=repr)
def test_gradients(mixture, loss):
    problem = make(mixture, loss)
    draws, step = np.random.default_rng(3), 1e-5
    for function in (convex_objective(problem), rounded_objective(problem, 0.01)):
        w = draws.normal(size=4)
        gradient = function(w)[1]
        by_differences = [
            (function(w + step * e)[0] - function(w - step * e)[0]) / (2 * step) for e in np.eye(4)
        ]
        np.testing.assert_allclose(gradient, by_differences, atol=1e-7)
    # The two ways to write the objective are one.
    assert convex_objective(problem)(w)[0] == pytest.approx(problem.value(w), rel=1e-10)


def test_the_rounded_objective_is_just_above_the_exact_one():
    problem = make(punu(0.3, 0), "logistic", nonnegative=True)
    for seed in range(20):
        w = 3 * np.random.default_rng(seed).normal(size=4)
        gap = rounded_objective(problem, 1e-3)(w)[0] - problem.value(w)
        assert -1e-12 <= gap <= 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_nonnegative_is_the_plain_minimiser_where_no_part_is_negative(loss):
    plain, kept = (make(pu(0), loss, flag, n=(40, 400, 1), l2=10.0) for flag in (False, True))
    left, right = (minimise(p, max_iter=1000, tol=1e-8) for p in (plain, kept))
    np.testing.assert_array_equal(left.coefficients, right.coefficients)
    assert left.n_iter == right.n_iter  # and the rounded problems were not tried


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mixture", [pu(0), nu(0), punu(0.5, 0), pnu(0.8, 0)], ids=repr)
def test_nonnegative_beats_its_start_and_its_neighbours(mixture, loss):
    # Few examples, hardly a penalty: the estimated parts go far below 0.
    problem = make(mixture, loss, True, n=(5, 4, 5), l2=1e-3)
    plain = minimise(replace(problem, nonnegative=False), max_iter=5000, tol=1e-7)
    kept = minimise(problem, max_iter=5000, tol=1e-7)
    assert plain.objective < problem.value(plain.coefficients) - 0.01
    assert 0 <= kept.objective < problem.value(plain.coefficients) - 1e-3
    assert kept.objective == pytest.approx(problem.value(kept.coefficients))
    draws = np.random.default_rng(0)
    for _ in range(200):
        near = kept.coefficients + 1e-2 * draws.normal(size=4)
        assert problem.value(near) >= kept.objective - 1e-4


def test_a_singular_system_is_refused():
    problem = make(pn())
    huge = RiskProblem(problem.features * 1e200, problem.labels, pn(), 0.4, problem.loss, 1e-3)
    with pytest.raises(InvalidInputError, match="singular"):
        minimise(huge, max_iter=10, tol=1e-6)


def test_gaussian_basis():
    centres = np.array([[0.0, 0.0], [3.0, 4.0]])
    found = GaussianBasis(centres, 2.5).features(np.array([[0.0, 0.0], [3.0, 0.0]]))
    expected = [[1, np.exp(-25 / 12.5), 1], [np.exp(-9 / 12.5), np.exp(-16 / 12.5), 1]]
    np.testing.assert_allclose(found, expected)


def test_median_distance():
    draws = np.random.default_rng(0)
    X = np.array([[0.0], [0.0], [1.0], [3.0]])
    assert median_distance(X, draws) == 2.0  # of 1, 1, 2, 3, 3
    assert median_distance(np.zeros((3, 2)), draws) == 1.0
    assert choose_rows(X, 10, draws).shape == (4, 1)
    assert choose_rows(X, 2, draws).shape == (2, 1)
