"""The paper's iteration: inside its set, step for step, and where it comes to rest."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from tribit import Logistic, Probit
from tribit.backends.objective import Arithmetic, Objective
from tribit.data.observations import Observations
from tribit.model.factors import Factors
from tribit.model.risks import tri
from tribit.paper.experiments import protocols
from tribit.paper.experiments.protocols import (
    PATIENCE_STEPS,
    REST_SHARE,
    SCALINGS,
    Settled,
    is_at_rest,
    iterate,
)
from tribit.simulate import low_rank_target, observe, quantise

RHO = 0.6
MIX = (0.4, 0.3, 0.3)
SET = {"radius": 1.5, "alpha": 1.0}


def observed(shape=(24, 20), *, link, rank=2, seed=0):
    draws = np.random.default_rng(seed)
    M = low_rank_target(shape, rank, random_state=draws)
    return observe(quantise(M, link, random_state=draws), RHO, random_state=draws)


def problem(mixture=MIX, *, link=Logistic(3.0), rank=3, seed=0, **options):  # noqa: B008
    seen = observed(link=link, seed=seed, **options)
    objective = Objective(
        seen, link, tri(*mixture, rho=RHO), arithmetic=Arithmetic(dtype="float64")
    )
    draws = np.random.default_rng(seed + 100)
    return objective, tuple(0.3 * draws.standard_normal((size, rank)) for size in seen.shape)


def run(objective, start, **changes):
    options = SET | {"step": 0.003, "max_iter": 200, "tol": 1e-9}
    return iterate(objective, start, **(options | changes))


# Inside the set


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("link", [Logistic(3.0), Probit(0.1)], ids=str)
@pytest.mark.parametrize(
    ("radius", "alpha"), [(1.5, 1.0), (0.3, 1.0), (5.0, 0.2), (1.0, 0.9), (3.0, 3.0)]
)
@pytest.mark.parametrize("step", [0.003, 1.0])
def test_entries_and_rows_stay_within_their_bounds(scaling, link, radius, alpha, step):
    objective, start = problem(link=link)
    start = tuple(3.0 * factor for factor in start)  # outside, at first
    for max_iter in (1, 7, 40):
        found = run(
            objective,
            start,
            scaling=scaling,
            radius=radius,
            alpha=alpha,
            step=step,
            max_iter=max_iter,
        )
        assert found.n_iter == max_iter
        assert np.max(np.abs(found.U @ found.V.T)) <= alpha * (1 + 1e-12)
        for factor in (found.U, found.V):
            assert np.max(np.linalg.norm(factor, axis=1)) <= np.sqrt(radius) * (1 + 1e-12)
    # One of the bounds is reached, or the test would say nothing.
    rows = max(np.max(np.sum(factor**2, axis=1)) for factor in (found.U, found.V))
    entries = np.max(np.abs(found.U @ found.V.T))
    assert max(rows / radius, entries / alpha) > 0.95


# One step


def plain_step(A, U, V, *, scale, mixture, rho, radius, alpha, step, scaling):
    """A step with the logistic link, from the formulas of the paper alone."""
    pn, pu, nu = mixture
    q = 1 - rho
    plus = np.select(
        [A == 1, A == -1], [pn + pu / q + nu, -nu * rho / q], np.full(A.shape, nu)
    )  # weight of l(x, +1) = -log f(x)
    minus = np.select([A == 1, A == -1], [-pu * rho / q, pn + pu + nu / q], np.full(A.shape, pu))
    X = U @ V.T
    slope = scale * (minus * expit(scale * X) - plus * expit(-scale * X))
    U, V = U - step * slope @ V, V - step * slope.T @ U
    U, V = (
        np.array([row * min(1.0, np.sqrt(radius) / np.linalg.norm(row)) for row in factor])
        for factor in (U, V)
    )
    X = np.abs(U @ V.T)
    if X.max() <= alpha:
        return U, V
    if scaling == "whole":
        return U * np.sqrt(alpha / X.max()), V * np.sqrt(alpha / X.max())
    U = np.array([row * np.sqrt(min(1.0, alpha / X[i].max())) for i, row in enumerate(U)])
    V = np.array([row * np.sqrt(min(1.0, alpha / X[:, j].max())) for j, row in enumerate(V)])
    left = np.abs(U @ V.T).max(axis=1)
    return np.array([row * min(1.0, alpha / most) for row, most in zip(U, left, strict=True)]), V


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("mixture", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), MIX])
@pytest.mark.parametrize(("radius", "alpha"), [(1.2, 0.7), (1.2, 1e4), (1e4, 0.7), (1e4, 1e4)])
def test_a_step_is_the_paper_s(scaling, mixture, radius, alpha):
    objective, (U, V) = problem(mixture)
    A = objective.observations.to_sparse().toarray()
    # Inside the set, but near its bounds where there are any.
    U, V = (factor / np.linalg.norm(factor, axis=1).max() for factor in (U, V))
    U *= 0.6 / np.abs(U @ V.T).max()
    start = U, V
    common = {"radius": radius, "alpha": alpha, "step": 0.2, "scaling": scaling}
    for max_iter in (1, 2):
        U, V = plain_step(A, U, V, scale=3.0, mixture=mixture, rho=RHO, **common)
        found = run(objective, start, **common, max_iter=max_iter)
        np.testing.assert_allclose(found.U, U, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.V, V, rtol=1e-10, atol=1e-12)
    rows = max(np.max(np.sum(factor**2, axis=1)) for factor in (U, V))
    assert (np.max(np.abs(U @ V.T)) > 0.999 * alpha) == (alpha < 1e4)
    assert (rows > 0.999 * radius) == (radius < 1e4 == alpha)


def test_a_start_outside_is_brought_inside_first():
    objective, (U, V) = problem()
    wide = U * 20.0, V * 20.0
    inside = plain_step(
        np.zeros(objective.shape),
        *wide,
        scale=3.0,
        mixture=MIX,
        rho=RHO,
        radius=1.5,
        alpha=1.0,
        step=0.0,
        scaling="whole",
    )
    one, other = (run(objective, start, max_iter=3) for start in (wide, inside))
    np.testing.assert_allclose(one.U, other.U, rtol=1e-12)


def test_scaling_by_rows_leaves_other_rows_alone():
    # Only the entry (0, 0) is above the bound, so rows 1 keep what they are.
    seen = Observations.from_matrix([[1, 0], [0, -1]])
    objective = Objective(seen, Logistic(), tri(1, 0, 0, rho=0.5))
    U, V = np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([[2.0, 0.0], [0.0, 0.5]])
    by_rows = SCALINGS["rows"](objective, U, V, 1.0)
    for factor in by_rows:
        np.testing.assert_allclose(factor, [[1.0, 0.0], [0.0, 0.5]])
    for factor in SCALINGS["whole"](objective, U, V, 1.0):
        np.testing.assert_allclose(factor, [[1.0, 0.0], [0.0, 0.25]])


# Where it ends


@pytest.mark.parametrize("mixture", [(0.0, 0.5, 0.5), MIX])
def test_at_rest_the_gradient_is_a_multiple_of_the_factors(mixture):
    objective, start = problem(mixture, rank=2, shape=(14, 12))
    alpha, radius = 0.6, 20.0
    options = {"radius": radius, "alpha": alpha, "step": 1e-2}
    found = run(objective, start, **options, tol=1e-12, max_iter=50000)
    assert found.n_iter < 50000
    assert np.max(np.abs(found.U @ found.V.T)) == pytest.approx(alpha, rel=1e-12)
    for factor in (found.U, found.V):  # no row on its ball
        assert np.max(np.sum(factor**2, axis=1)) < 0.9 * radius
    gradient = objective.gradient(found.factors)[1]
    pairs = (found.U, gradient.row_factors), (found.V, gradient.column_factors)
    in_U, in_V = (-np.vdot(slope, factor) / np.vdot(factor, factor) for factor, slope in pairs)
    assert in_U > 0.01
    assert in_U == pytest.approx(in_V, rel=1e-6)
    for factor, slope in pairs:
        assert np.linalg.norm(slope + in_U * factor) < 1e-6 * np.linalg.norm(slope)


def test_inside_every_bound_it_rests_where_the_gradient_is_zero():
    # PN of both labels in every row and column: a minimum with small entries.
    rows, columns = np.divmod(np.arange(12 * 12), 12)
    draws = np.random.default_rng(3)
    labels = np.where(draws.random(144) < 0.5, 1, -1)
    seen = Observations.from_pairs(rows, columns, labels)
    objective = Objective(seen, Logistic(), tri(1, 0, 0, rho=0.0), l2=1.0)
    start = tuple(0.1 * draws.standard_normal((12, 1)) for _ in range(2))
    found = run(objective, start, radius=100.0, alpha=100.0, step=0.05, max_iter=5000, tol=1e-13)
    assert found.n_iter < 5000
    gradient = objective.gradient(found.factors)[1]
    assert np.linalg.norm(gradient.row_factors) < 1e-9 * np.linalg.norm(found.U)
    assert np.linalg.norm(found.U) > 0.1


@pytest.mark.parametrize("gamma", [0.3, 0.5])
def test_scaling_by_rows_reaches_a_lower_risk(gamma):
    objective, start = problem((0.0, 1.0 - gamma, gamma), link=Probit(0.1), rank=4)
    risks = {
        scaling: objective.value(
            run(objective, start, scaling=scaling, radius=2.0, step=3e-4, max_iter=600).factors
        )
        for scaling in SCALINGS
    }
    assert risks["rows"] < risks["whole"] - 20.0


def path(objective, start, count, **options):
    """Return the points after 1, 2, ... steps."""
    points, at = [], start
    for _ in range(count):
        points.append(run(objective, at, max_iter=1, tol=0.0, **options))
        at = points[-1].U, points[-1].V
    return points


def test_the_last_point_is_the_answer_not_the_lowest():
    objective, start = problem((0.0, 0.5, 0.5), link=Probit(0.1), rank=4)
    options = {"radius": 2.0, "step": 3e-3}
    risks = [objective.value(at.factors) for at in path(objective, start, 200, **options)]
    last = objective.value(run(objective, start, max_iter=200, **options).factors)
    assert last == pytest.approx(risks[-1])
    assert min(risks) < last - 1.0


# Stopping


def test_it_stops_at_the_first_small_step():
    objective, start = problem(rank=2)
    tol = 1e-3
    points = path(objective, start, 400)
    pairs = [np.vstack([point.U, point.V]) for point in points]
    moves = [
        np.linalg.norm(after - before) / np.linalg.norm(before) for before, after in pairwise(pairs)
    ]
    first = next(place for place, move in enumerate(moves) if move <= tol) + 1
    found = run(objective, start, max_iter=400, tol=tol)
    assert found.n_iter == first + 1
    np.testing.assert_allclose(found.U, points[first].U, rtol=1e-9)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_rest_is_judged_by_twice_the_steps(scaling):
    objective, start = problem((0.0, 0.5, 0.5), link=Probit(0.1), rank=4)
    options = {"radius": 2.0, "alpha": 1.0, "step": 3e-3, "scaling": scaling}
    verdicts = set()
    for count in (3, 30, 300):
        found, further = (
            iterate(objective, start, **options, max_iter=most, tol=0.0)
            for most in (count, 2 * count)
        )
        X = found.U @ found.V.T
        move = np.linalg.norm(further.U @ further.V.T - X) / np.linalg.norm(X)
        assert is_at_rest(objective, found, **options) == (move <= REST_SHARE)
        verdicts.add(bool(move <= REST_SHARE))
    assert verdicts == {True, False}


@pytest.mark.slow
def test_a_small_step_is_not_rest():
    # Far from its end, an iteration with tiny steps moves by less than any tol at once.
    objective, start = problem()
    options = {"radius": 2.0, "alpha": 1.0, "step": 1e-6}
    found = iterate(objective, start, **options, max_iter=20000, tol=3e-4)
    assert found.n_iter == 1
    longer = iterate(objective, start, **options, max_iter=20000, tol=0.0)
    assert not is_at_rest(objective, longer, **options)


def test_an_iteration_that_swings_is_not_at_rest(monkeypatch):
    # After an even number of steps it is back where it was.
    objective, (U, V) = problem()

    def swing(_, pair, *, max_iter, **__):
        return Settled((-1) ** max_iter * pair[0], pair[1], max_iter)

    monkeypatch.setattr(protocols, "iterate", swing)
    assert not is_at_rest(objective, Settled(U, V, 50), step=1.0)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_step_far_too_long_stops_early(scaling):
    objective, start = problem(link=Probit(0.1))
    found = run(objective, start, scaling=scaling, step=10.0, max_iter=1000, tol=1e-3)
    assert not is_at_rest(objective, found, scaling=scaling, step=10.0, **SET)
    assert PATIENCE_STEPS <= found.n_iter < 2 * PATIENCE_STEPS
    assert np.isfinite(found.U).all()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_step_beyond_all_measure_stops_too():
    objective, start = problem()
    found = run(objective, start, step=1e200)
    assert found.n_iter < 10
    assert not is_at_rest(objective, found, step=1e200, **SET)


def test_the_same_start_gives_the_same_bits():
    for scaling in SCALINGS:
        one, other = (run(*problem(), scaling=scaling) for _ in range(2))
        np.testing.assert_array_equal(one.U, other.U)
        np.testing.assert_array_equal(one.V, other.V)
        assert one.n_iter == other.n_iter


def test_the_start_is_not_changed():
    objective, (U, V) = problem()
    kept = U.copy(), V.copy()
    run(objective, (U, V))
    np.testing.assert_array_equal(U, kept[0])
    np.testing.assert_array_equal(V, kept[1])


def test_the_end_is_factors_of_the_objective():
    found = run(*problem())
    assert isinstance(found.factors, Factors)
    np.testing.assert_array_equal(found.factors.row_factors, found.U)
    np.testing.assert_array_equal(found.factors.column_factors, found.V)
