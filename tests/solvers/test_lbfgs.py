"""L-BFGS on all unknowns at once, and a ridge of its own for the intercepts in every solver."""

import dataclasses

import numpy as np
import pytest
from device_arrays import NAMESPACE, DeviceArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from reference import (
    SOME_LINKS,
    CloglogLink,
    Reference,
    link_id,
    observations_of,
    random_factors,
    random_matrix,
)
from tribit import BinaryMatrixCompletion, arrays
from tribit.backends import layout
from tribit.backends.objective import Arithmetic, Objective, features_of
from tribit.errors import InvalidInputError
from tribit.model.constraints import NORMS, EntryBound, MaxNorm, Rank, TraceNorm, Unconstrained
from tribit.model.factors import Factors
from tribit.model.links import Logistic, Probit
from tribit.model.risks import pn, tri
from tribit.model.spec import ModelSpec
from tribit.selection.problem import make_problem
from tribit.solvers import LBFGS, SOLVERS, Newton, Stopping, as_solver, lbfgs, loop
from tribit.solvers.lbfgs import REFRESH_GROWTH, REFRESH_STEPS, LimitedMemory

A = random_matrix((12, 9), observed=0.6)
RANK = 2
NAMES = ("row_factors", "column_factors", "row_intercepts", "column_intercepts")


def objective_of(link=None, *, labels=A, dtype="float64", n_jobs=1, **options):
    options = {"l2": 1.0, "intercept": True, "arithmetic": Arithmetic(dtype, n_jobs), **options}
    return Objective(observations_of(labels), link or Logistic(2.0), pn(), **options)


def start_of(labels=A, rank=RANK, *, seed=0, size=0.3):
    return Factors.of(*random_factors(labels.shape, rank, seed=seed, size=size))


def minimise(objective, *, solver=None, start=None, tol=1e-12, max_iter=3000, **stopping):
    constraints = stopping.pop("constraints", [Unconstrained()])
    start = start_of() if start is None else start
    stop = Stopping(max_iter, tol, **stopping)
    solver = as_solver(solver or LBFGS())
    return solver.minimise(objective, constraints, start, stop, np.random.default_rng(0))


def values_of(result):
    return np.array([iteration.objective for iteration in result.history])


def entries(factors):
    P, Q = factors.product_factors()
    return P @ Q.T


# Where it ends


@pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("l2_intercept", [None, 0.2])
def test_the_minimum_is_newton_s(link, intercept, l2_intercept):
    objective = objective_of(link, intercept=intercept, l2=1.5, l2_intercept=l2_intercept)
    ours = minimise(objective)
    theirs = minimise(objective, solver="newton")
    assert ours.converged
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-7)
    np.testing.assert_allclose(entries(ours.factors), entries(theirs.factors), atol=2e-3)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_gradient_at_the_end_is_small(intercept):
    objective = objective_of(l2=0.5, l2_intercept=0.1, intercept=intercept)
    result = minimise(objective)
    _, gradient = objective.gradient(result.factors)
    for name in (*NAMES, "intercept"):
        assert np.abs(getattr(gradient, name)).max() < 1e-4, name
    if not intercept:
        assert not result.factors.has_intercepts


def test_the_minimum_is_that_of_scipy_on_the_dense_formula():
    link, l2, l2_intercept = Probit(0.8), 0.8, 0.25
    start = start_of()
    d1, d2 = A.shape

    def dense(x):
        U, V, a, c = np.split(x[:-1], np.cumsum([d1 * RANK, d2 * RANK, d1]))
        X = U.reshape(d1, RANK) @ V.reshape(d2, RANK).T + a[:, None] + c + x[-1]
        ridge = l2 * (U @ U + V @ V) + l2_intercept * (a @ a + c @ c)
        return np.sum(Reference(A, link, pn()).entries(X)) + ridge / 2

    x0 = np.concatenate(
        [start.row_factors.ravel(), start.column_factors.ravel(), np.zeros(d1 + d2 + 1)]
    )
    best = minimize(dense, x0, method="BFGS", options={"gtol": 1e-6}).fun
    result = minimise(objective_of(link, l2=l2, l2_intercept=l2_intercept), start=start)
    assert result.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("ridge", [0.1, 1.0, 30.0])
def test_rank_0_is_logistic_regression_on_dummies(ridge):
    rows, columns = np.nonzero(A)
    dummies = np.zeros((rows.size, sum(A.shape)))
    dummies[np.arange(rows.size), rows] = 1
    dummies[np.arange(rows.size), A.shape[0] + columns] = 1
    theirs = LogisticRegression(C=1 / ridge, tol=1e-10, max_iter=10_000)
    theirs.fit(dummies, A[rows, columns])
    model = BinaryMatrixCompletion(
        (1, 0, 0), rank=0, l2_intercept=ridge, dtype="float64", tol=1e-12, n_jobs=1
    ).fit(A)
    assert model.search_ is None
    x = model.decision_function(rows, columns)
    np.testing.assert_allclose(x, theirs.decision_function(dummies), atol=1e-4)
    coefficients = np.concatenate([model.row_intercepts_, model.column_intercepts_])
    np.testing.assert_allclose(coefficients, theirs.coef_[0], atol=1e-4)
    assert model.intercept_ == pytest.approx(theirs.intercept_[0], abs=1e-4)


def test_the_objective_never_rises():
    for link in SOME_LINKS:
        result = minimise(objective_of(link, l2=0.1), tol=0.0, max_iter=60)
        values = np.append(values_of(result), result.objective)
        assert np.all(np.diff(values) <= 1e-11 * np.abs(values).max())
        assert values[-1] < values[0]
        assert result.objective == pytest.approx(objective_of(link, l2=0.1).value(result.factors))


def test_float32_comes_near_and_does_not_rise_beyond_rounding():
    exact = minimise(objective_of(l2=0.5))
    rough = minimise(objective_of(l2=0.5, dtype="float32"), tol=1e-6)
    assert rough.converged
    assert rough.objective == pytest.approx(exact.objective, rel=1e-4)
    values = values_of(rough)
    assert np.all(np.diff(values) <= 1e-6 * values.max())


def test_far_fewer_steps_than_gradient_descent_and_fewer_with_more_memory():
    labels = random_matrix((40, 30))
    objective, start = objective_of(labels=labels, l2=2.0), start_of(labels, 3)
    short, long, descent = (
        minimise(objective, solver=solver, start=start, tol=1e-8)
        for solver in (LBFGS(1), LBFGS(20), "projected_gradient")
    )
    assert long.objective <= descent.objective * (1 + 1e-5)
    assert long.n_iter < 0.9 * short.n_iter
    assert long.n_iter < descent.n_iter / 3


@pytest.mark.parametrize("memory", [1, 3, 50])
def test_any_memory_comes_to_the_same_minimum(memory):
    objective = objective_of(l2=1.5)
    assert minimise(objective, solver=LBFGS(memory)).objective == pytest.approx(
        minimise(objective).objective, rel=1e-7
    )


def test_from_the_minimum_there_is_little_to_do():
    objective = objective_of()
    end = minimise(objective).factors
    again = minimise(objective, start=end, tol=1e-6)
    assert again.converged
    # What a step promises decides, before the window of gains is full; down here rounding does the rest.
    assert again.n_iter < lbfgs.GAIN_WINDOW


def test_a_first_guess_of_the_curvature_that_is_wrong_does_not_change_the_end():
    class Badly(Objective):
        def scales(self, factors):
            good = super().scales(factors)
            return dataclasses.replace(
                good,
                row_factors=30.0 * good.row_factors,
                column_factors=good.column_factors / 30.0,
                column_intercepts=good.column_intercepts / 30.0,
            )

    plain = objective_of(l2=1.5)
    bad = Badly(observations_of(A), Logistic(2.0), pn(), l2=1.5, intercept=True)
    assert minimise(bad, tol=1e-10).objective == pytest.approx(minimise(plain).objective, rel=1e-5)


def test_rows_and_columns_with_nothing_observed_do_no_harm():
    labels = random_matrix((12, 11), gaps=True)
    objective = objective_of(labels=labels)
    result = minimise(objective, start=start_of(labels))
    for name in NAMES:
        assert np.all(np.isfinite(getattr(result.factors, name)))
    unseen = ~(labels != 0).any(axis=1)
    assert np.abs(result.factors.row_factors[unseen]).max() < 1e-6
    assert np.abs(result.factors.row_intercepts[unseen]).max() < 1e-6


# What it refuses


@pytest.mark.parametrize(
    "constraints",
    [[kind(2)] for kind in (*NORMS.values(), EntryBound, Rank)]
    + [[Unconstrained(), EntryBound(1.0)], [MaxNorm(2.0), TraceNorm(3.0)]],
    ids=str,
)
def test_a_constraint_is_refused_in_one_sentence(constraints):
    kept = next(c for c in constraints if not isinstance(c, Unconstrained))
    with pytest.raises(InvalidInputError) as caught:
        minimise(objective_of(), constraints=constraints)
    text = str(caught.value)
    assert text.startswith("The lbfgs solver keeps no constraint and was given ")
    assert type(kept).__name__ in text
    assert "solver='newton'" in text
    assert text.endswith(".")
    assert "\n" not in text


def test_a_bound_on_intercepts_is_refused_too():
    objective = Objective(
        observations_of(A),
        Logistic(),
        tri(0.5, 0.3, 0.2, 0.5),
        intercept=True,
        intercept_bound=1.0,
    )
    with pytest.raises(InvalidInputError, match="was given a bound on intercepts: use solver="):
        minimise(objective)


@pytest.mark.parametrize("memory", [0, -1, 2.0, True, "many", None])
def test_memory_is_a_whole_number(memory):
    with pytest.raises(InvalidInputError, match="memory must be a whole number, at least 1; got "):
        LBFGS(memory)
    assert LBFGS(np.int64(3)).memory == 3


def test_it_goes_by_its_name():
    assert SOLVERS["lbfgs"] is LBFGS
    assert as_solver("lbfgs") == LBFGS() == LBFGS(memory=6)


# Stopping


def test_tol_is_what_the_last_iterations_gained():
    result = minimise(objective_of(), tol=1e-4)
    assert result.converged
    assert result.stop_reason == loop.CONVERGED
    exact = minimise(objective_of()).objective
    assert 0 <= result.objective - exact <= 0.01 * exact
    decreases = [step.decrease for step in result.history]
    assert decreases[-1] <= 1e-4 * max(objective_of().size, result.objective)
    finer = minimise(objective_of(), tol=1e-8)
    assert finer.n_iter > result.n_iter
    assert finer.objective <= result.objective


def test_the_decrease_is_that_of_a_window_once_there_is_one():
    result = minimise(objective_of(l2=0.1), tol=0.0, max_iter=40)
    values = values_of(result)
    n = lbfgs.GAIN_WINDOW
    for k in range(n, len(values)):
        assert result.history[k].decrease <= values[k - n] - values[k] + 1e-12


@pytest.mark.parametrize("when", [1, 3])
def test_the_keyboard_interrupts_and_the_best_is_kept(when):
    def callback(iteration):
        if iteration.iteration == when:
            raise KeyboardInterrupt

    objective = objective_of()
    with pytest.warns(RuntimeWarning, match=f"Interrupted after {when} iterations; the best"):
        result = minimise(objective, tol=0.0, callback=callback)
    assert result.stop_reason == loop.INTERRUPTED
    assert not result.converged
    assert result.n_iter == when
    assert result.objective == objective.value(result.factors)
    assert result.objective < values_of(result).min()


def test_max_iter_max_time_and_a_callback_stop():
    result = minimise(objective_of(), tol=0.0, max_iter=3)
    assert (result.n_iter, result.stop_reason) == (3, loop.OUT_OF_ITERATIONS)
    result = minimise(objective_of(), tol=0.0, max_time=1e-9)
    assert (result.n_iter, result.stop_reason) == (1, loop.OUT_OF_TIME)
    seen = []
    result = minimise(
        objective_of(), tol=0.0, callback=lambda step: seen.append(step) or step.iteration == 4
    )
    assert (result.n_iter, result.stop_reason) == (4, loop.CALLED_OFF)
    assert seen == result.history


def test_a_gradient_that_points_uphill_is_no_convergence():
    class Uphill(Objective):
        def gradient(self, factors, *, value=True):
            total, gradient = super().gradient(factors, value=value)
            return total, gradient.plus(-2.0, gradient)

    objective = Uphill(observations_of(A), Logistic(), pn(), l2=1.0, intercept=True)
    result = minimise(objective)
    assert result.stop_reason == loop.NO_DESCENT
    assert not result.converged


def test_a_step_to_where_the_risk_is_not_a_number_is_halved():
    class Holes(Objective):
        """NaN far from where it starts."""

        def gradient(self, factors, *, value=True):
            total, gradient = super().gradient(factors, value=value)
            far = max(np.abs(factors.row_factors).max(), np.abs(factors.column_factors).max())
            return (np.nan if far > 1.0 else total), gradient

    objective = Holes(observations_of(A), Logistic(2.0), pn(), l2=1e-3, intercept=True)
    result = minimise(objective, max_iter=20, tol=0.0)
    values = values_of(result)
    assert np.all(np.isfinite(values))
    assert values[-1] < values[0]


# What it remembers


def memory_of(room=5, size=40, n_jobs=1, dtype="float64"):
    return LimitedMemory(room, size, np.dtype(dtype), n_jobs)


def test_steps_along_which_the_gradient_did_not_turn_up_are_not_remembered():
    memory = memory_of()
    moved = np.zeros(40)
    moved[:2] = 1.0, 2.0
    for turned in (-moved, np.roll(moved, 5), 0 * moved):
        memory.add(moved, turned)
    assert not memory.places
    memory.add(moved, 3.0 * moved)
    assert memory.places == [0]


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("asked", [1, 7], ids=["each time", "after several pairs"])
@pytest.mark.parametrize("count", [0, 1, 3, 5, 12])
def test_the_direction_is_that_of_the_dense_formula(count, asked, dtype, n_jobs, monkeypatch):
    monkeypatch.setattr(lbfgs, "BLOCK", 7)
    monkeypatch.setattr(lbfgs, "SPAN", 21)
    rng = np.random.default_rng(count)
    size, room = 40, 5
    factor = rng.standard_normal((size, size))
    curvature = factor @ factor.T / size + np.eye(size)
    memory, pairs = memory_of(room, size, n_jobs, dtype), []
    for number in range(count):
        step = rng.standard_normal(size)
        memory.add(step, curvature @ step)
        pairs.append((step, curvature @ step))
        if number % asked == 0:  # products become known by and by
            memory.direction(rng.standard_normal(size))
    gradient = rng.standard_normal(size)
    # The update of the inverse curvature, pair by pair (Nocedal and Wright, "Numerical Optimization", 6.17).
    kept = pairs[-room:]
    inverse = np.eye(size) * (
        kept[-1][0] @ kept[-1][1] / (kept[-1][1] @ kept[-1][1]) if kept else 1
    )
    for step, change in kept:
        left = np.eye(size) - np.outer(step, change) / (step @ change)
        inverse = left @ inverse @ left.T + np.outer(step, step) / (step @ change)
    tolerance = 1e-3 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(
        memory.direction(gradient), -inverse @ gradient, rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("size", [40, 2 * lbfgs.BLOCK + 7])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_pairs_on_a_device_have_the_direction_of_those_of_numpy(monkeypatch, count, dtype, size):
    monkeypatch.setitem(arrays._namespaces, DeviceArray, NAMESPACE)
    rng = np.random.default_rng(3)
    plain = memory_of(5, size, dtype=dtype)
    theirs = LimitedMemory(5, size, np.dtype(dtype), 1, DeviceArray(np.zeros(size, dtype)))
    assert isinstance(theirs.vectors, DeviceArray)
    assert theirs.vectors.dtype == dtype
    curvatures = rng.uniform(0.5, 4.0, size)
    for _ in range(count):
        step, gradient = rng.standard_normal((2, size)).astype(dtype)
        change = (curvatures * step).astype(dtype)
        plain.add(step, change)
        theirs.add(DeviceArray(step), DeviceArray(change))
        found = theirs.direction(DeviceArray(gradient))
        assert isinstance(found, DeviceArray)
        np.testing.assert_allclose(
            found.values,
            plain.direction(gradient),
            rtol=0,
            atol=1e-10 if dtype == "float64" else 1e-4,
        )
    assert theirs.places == plain.places
    theirs.clear()
    np.testing.assert_array_equal(theirs.direction(DeviceArray(gradient)).values, -gradient)


def test_a_shortened_step_is_remembered_at_its_length(monkeypatch):
    added, add = [], LimitedMemory.add

    def record(memory, step, change):
        added.append((step.copy(), change.copy()))
        add(memory, step, change)

    class Steep(Objective):
        """An objective that rises steeply outside a box, so that line searches shorten steps."""

        def gradient(self, factors, *, value=True):
            total, gradient = super().gradient(factors, value=value)
            far = np.abs(factors.flat()).max() > 0.4
            return (np.inf if far else total), gradient

    monkeypatch.setattr(LimitedMemory, "add", record)
    objective = Steep(observations_of(A), Logistic(2.0), pn(), l2=1e-3, intercept=True)
    here = start_of(size=0.05)
    iterations = lbfgs._Iterations(objective, here, 5)
    for _ in range(3):
        there = iterations.advance(here).factors
        step, change = added[-1]
        moved = there.flat() - here.flat()
        np.testing.assert_allclose(iterations.preconditioner.transposed_times(step), moved)
        gradients = [iterations._at(each)[1] for each in (here, there)]
        np.testing.assert_allclose(change, gradients[1] - gradients[0], atol=1e-12)
        assert np.abs(there.flat()).max() <= 0.4
        here = there


def test_a_memory_that_points_uphill_is_forgotten(monkeypatch):
    objective = objective_of()
    iterations = lbfgs._Iterations(objective, start_of(), 5)
    there = iterations.advance(start_of()).factors
    assert iterations.memory.places
    asked = []

    def uphill(memory, gradient):
        asked.append(len(memory.places))
        return gradient if memory.places else -gradient

    monkeypatch.setattr(LimitedMemory, "direction", uphill)
    step = iterations.advance(there)
    assert asked == [1, 0]
    assert not step.stuck
    assert objective.value(step.factors) < objective.value(there)
    assert len(iterations.memory.places) == 1  # what this step taught, and nothing older


# Reproducibility


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mask", [False, True])
def test_the_same_bits_for_any_number_of_threads(dtype, mask, monkeypatch):
    monkeypatch.setattr(layout, "BATCH_ENTRIES", 8)
    labels = random_matrix((30, 21), gaps=True)
    results = []
    for n_jobs in (1, 1, 2, 3):
        objective = objective_of(labels=labels, l2=0.1, dtype=dtype, n_jobs=n_jobs)
        start = start_of(labels)
        if mask:
            features = features_of(
                ModelSpec(implicit_features=True, l2_implicit=1.0), observations_of(labels), None
            )
            objective, start = (
                objective.with_features(features),
                features.initial_coefficients(start),
            )
        results.append(minimise(objective, start=start, max_iter=8, tol=0.0))
    for result in results[1:]:
        assert result.objective == results[0].objective
        for name in NAMES:
            np.testing.assert_array_equal(
                getattr(result.factors, name), getattr(results[0].factors, name)
            )


# A ridge of its own for the intercepts


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("l2", "l2_intercept"), [(1.0, 0.05), (0.3, 5.0), (2.0, 0.2)])
def test_every_solver_keeps_the_intercepts_own_ridge(solver, l2, l2_intercept):
    labels = random_matrix((12, 9), observed=0.9, likes=0.5)
    objective = objective_of(labels=labels, l2=l2, l2_intercept=l2_intercept)
    result = minimise(objective, solver=solver, start=start_of(labels), tol=1e-12)
    factors = result.factors
    G = Reference(labels, objective.link, pn()).first(entries(factors))
    for slope in (
        G @ factors.column_factors + l2 * factors.row_factors,
        G.T @ factors.row_factors + l2 * factors.column_factors,
        G.sum(axis=1) + l2_intercept * factors.row_intercepts,
        G.sum(axis=0) + l2_intercept * factors.column_intercepts,
        G.sum(),
    ):
        assert np.abs(slope).max() < 2e-3


@pytest.mark.parametrize("l2_intercept", [0.1, 10.0])
def test_the_two_ridges_differ_in_what_they_shrink(l2_intercept):
    objective = objective_of(l2=1.0, l2_intercept=l2_intercept)
    for solver in (Newton(), LBFGS()):
        factors = minimise(objective, solver=solver).factors
        plain = minimise(objective_of(l2=1.0), solver=solver).factors
        ours = np.linalg.norm(factors.row_intercepts)
        theirs = np.linalg.norm(plain.row_intercepts)
        assert ours > 1.1 * theirs if l2_intercept < 1 else ours < 0.5 * theirs


def test_none_is_the_ridge_of_the_factors():
    same, given = objective_of(l2=0.7), objective_of(l2=0.7, l2_intercept=0.7)
    factors = minimise(same).factors
    assert same.value(factors) == given.value(factors)
    for solver in SOLVERS:
        a, b = (minimise(each, solver=solver, max_iter=5, tol=0.0) for each in (same, given))
        assert a.objective == b.objective


@pytest.mark.parametrize("link", [Logistic(), CloglogLink()], ids=link_id)
def test_newton_s_own_value_counts_both_ridges(link):
    # The history is what the sweeps add up themselves, the result what the objective says.
    objective = objective_of(link, l2=0.4, l2_intercept=2.5)
    result = minimise(objective, solver="newton", max_iter=6, tol=0.0)
    shorter = minimise(objective, solver="newton", max_iter=5, tol=0.0)
    assert np.all(np.diff(values_of(result)) <= 1e-10)
    first = values_of(result)[0]
    assert first == pytest.approx(objective.value(start_of()), rel=1e-12)
    assert shorter.objective >= result.objective


# Renewals of the preconditioner

REFRESH_SEEN = observations_of(random_matrix((40, 30)))
REFRESH_SPEC = ModelSpec(rank=3, l2=0.3, implicit_features=True, l2_implicit=0.5)


@pytest.fixture
def refreshes(monkeypatch):
    """Return the objectives at which a preconditioner was made."""
    found = []
    make = Objective.preconditioner

    def counted(self, parts):
        found.append(self.value(parts))
        return make(self, parts)

    monkeypatch.setattr(Objective, "preconditioner", counted)
    return found


def fit_implicit(start=None, max_iter=REFRESH_GROWTH * REFRESH_STEPS + 5):
    draws = np.random.default_rng(0)
    problem = make_problem(
        REFRESH_SEEN,
        REFRESH_SPEC,
        arithmetic=Arithmetic(dtype="float64", n_jobs=1),
        generator=draws,
    )
    start = problem.start if start is None else start
    stopping = Stopping(max_iter, tol=0.0)
    return LBFGS().minimise(problem.objective, problem.constraints, start, stopping, draws)


def test_the_preconditioner_is_renewed_while_the_objective_falls(refreshes):
    history = fit_implicit().history
    values = [each.objective for each in history]
    expected = [values[0], values[REFRESH_STEPS]]
    if (
        values[REFRESH_STEPS] - values[REFRESH_GROWTH * REFRESH_STEPS]
        > 1e-3 * values[REFRESH_GROWTH * REFRESH_STEPS]
    ):
        expected.append(values[REFRESH_GROWTH * REFRESH_STEPS])
    np.testing.assert_allclose(refreshes, expected)


def test_one_preconditioner_serves_a_start_near_the_minimum(refreshes):
    near = fit_implicit(max_iter=300).factors
    refreshes.clear()
    fit_implicit(near)
    assert len(refreshes) == 1
