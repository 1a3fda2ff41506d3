"""The problem that the paper states, ``min L_TRI`` over a ball with every entry of ``U V'`` within alpha < radius."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tribit import BinaryMatrixCompletion, ProjectedGradient
from tribit.errors import UnboundedRiskWarning
from tribit.selection.trials import default_solver
from tribit.solvers import SOLVERS, AugmentedLagrangian
from tribit.solvers.loop import ABOVE_MINIMUM

RHO, RIDGE = 0.5, 0.3


def case(seed):
    """Return a random table, a mixture, a radius and a smaller alpha."""
    draws = np.random.default_rng(seed)
    truth = draws.normal(size=(9, 2)) @ draws.normal(size=(2, 7))
    A = np.sign(truth) * (draws.random((9, 7)) < 0.5)
    radius = draws.uniform(1, 3)
    return A, tuple(draws.dirichlet([1, 1, 1])), radius, radius * draws.uniform(0.3, 0.8)


def model(seed, **options):
    A, gammas, radius, alpha = case(seed)
    settings = {
        "gammas": gammas,
        "rho": RHO,
        "radius": radius,
        "alpha": alpha,
        "rank": 9,
        "l2": 0.0,
        "l2_intercept": RIDGE,
        "search": False,
        "intercept": False,
        "dtype": "float64",
        "random_state": 0,
    }
    return BinaryMatrixCompletion(**(settings | options)).fit(A)


def convex_minimum(seed, intercept=None, norm="max"):
    """Return the minimum over all X in the ball, by a convex solver, with the one intercept given."""
    A, (pn, pu, nu), radius, alpha = case(seed)
    d1, d2 = A.shape
    X, Z = cp.Variable(A.shape), cp.Variable((d1 + d2, d1 + d2), PSD=True)
    inside = [Z[:d1, d1:] == X, cp.abs(X) <= alpha]
    inside.append(cp.diag(Z) <= radius if norm == "max" else cp.trace(Z) / 2 <= radius)
    x, penalty = X, 0.0
    if intercept is not None:
        a, c = cp.Variable((d1, 1)), cp.Variable((1, d2))
        inside += [cp.abs(a) <= min(radius, alpha), cp.abs(c) <= min(radius, alpha)]
        x = X + a @ np.ones((1, d2)) + np.ones((d1, 1)) @ c + intercept
        penalty = RIDGE / 2 * (cp.sum_squares(a) + cp.sum_squares(c))
    likes, dislikes = (A > 0).astype(float), (A < 0).astype(float)
    loss = cp.sum(nu * cp.logistic(-x) + pu * cp.logistic(x))
    loss += pn * cp.sum(cp.multiply(likes, cp.logistic(-x)) + cp.multiply(dislikes, cp.logistic(x)))
    # l(x, +1) - l(x, -1) = -x
    loss += cp.sum(cp.multiply((nu * dislikes - pu * likes) / (1 - RHO), x))
    problem = cp.Problem(cp.Minimize(loss + penalty), inside)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("intercept", [False, True])
def test_the_default_solver_finds_the_minimum_of_a_convex_solver(seed, intercept):
    fitted = model(seed, intercept=intercept)
    assert fitted.converged_
    _, _, radius, alpha = case(seed)
    X = fitted.row_factors_ @ fitted.column_factors_.T
    assert np.abs(X).max() <= alpha
    for factor in (fitted.row_factors_, fitted.column_factors_):
        assert np.max(np.sum(factor**2, axis=1)) <= radius * (1 + 1e-12)
    best = convex_minimum(seed, fitted.intercept_ if intercept else None)
    # tol = 1e-4 is relative to the risk at 0, about 63 entries of log 2 here.
    assert -1e-5 <= fitted.objective_ - best <= 1e-4 * 63


@pytest.mark.parametrize("seed", range(3))
def test_the_trace_norm_too(seed):
    fitted = model(seed, norm="trace")
    assert fitted.converged_
    best = convex_minimum(seed, norm="trace")
    assert -1e-5 <= fitted.objective_ - best <= 1e-4 * 63


@pytest.mark.parametrize("solver", [ProjectedGradient(), ProjectedGradient(step=0.05)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_the_scaling_of_the_paper_does_not_pass_for_the_minimum(solver, seed):
    with pytest.warns(ConvergenceWarning):
        scaled = model(seed, solver=solver)
    assert scaled.objective_ > convex_minimum(seed) + 1e-2 * 63
    assert not scaled.converged_
    if solver.step is None:
        assert scaled.stop_reason_ == ABOVE_MINIMUM


def test_a_scaling_that_is_never_needed_may_pass():
    # No entry of the minimum reaches alpha: the scaling has nothing to do.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loose = model(0, alpha=2.999, radius=3.0, l2=3.0, solver="projected_gradient")
    assert loose.converged_


def test_each_model_has_the_first_solver_that_keeps_it():
    kept = {
        "newton": {"alpha": 5.0},
        "augmented_lagrangian": {},
        "lbfgs": {"gammas": (1, 0, 0), "radius": None, "alpha": None, "rank": 0, "intercept": True},
    }
    for name, options in kept.items():
        assert type(default_solver(model(0, max_iter=1, tol=1.0, **options).spec_)) is SOLVERS[name]


def test_no_search_with_a_solver_that_is_too_slow_for_it():
    fitted = model(1, search=True, l2="auto", max_iter=300)
    assert fitted.search_.candidates == ()
    assert "cannot keep" in fitted.search_.stop_reason


@pytest.mark.parametrize("bound", [0.2, np.inf])
def test_intercepts_are_gradient_steps_inside_their_bound(bound):
    """Against L-BFGS, where nothing bounds them; at their bound, where something does."""
    options = {"gammas": (1, 0, 0), "radius": None, "alpha": None, "l2": 0.5, "rank": 3}
    if np.isinf(bound):
        exact = model(0, intercept=True, solver="lbfgs", tol=1e-8, **options)
        ours = model(0, intercept=True, solver=AugmentedLagrangian(), tol=1e-7, **options)
        assert ours.objective_ == pytest.approx(exact.objective_, rel=1e-3)
        return
    likes = model(0, intercept=True, alpha=bound, gammas=(0, 1, 0))
    assert np.abs(likes.row_intercepts_).max() == pytest.approx(bound)


@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_labels_that_were_separated_are_said_to_be(l2):
    draws = np.random.default_rng(0)
    A = draws.choice([-1, 0, 1], (30, 20))
    separated = BinaryMatrixCompletion(rank=10, l2=l2, search=False, random_state=0)
    if l2:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnboundedRiskWarning)
            separated.fit(A)
    else:
        with pytest.warns(
            UnboundedRiskWarning, match=r"\|x\| up to .* l2=0 the PN risk has no minimum"
        ):
            separated.fit(A)
