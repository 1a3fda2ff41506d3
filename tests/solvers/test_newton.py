"""What Newton's method does inside a sweep, seen from outside: its searches, its reach, its end, its work."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit

from reference import RISKS, Reference, observations_of, random_matrix
from tribit.backends.objective import Arithmetic, Objective
from tribit.backends.sparse import SparsePanel
from tribit.backends.tiles import TilePanel
from tribit.model.constraints import MaxNorm, Unconstrained
from tribit.model.factors import Factors
from tribit.model.links import Link, Logistic
from tribit.model.risks import tri
from tribit.solvers import Newton, Stopping
from tribit.solvers.newton import REACH_GROWTH

SHAPE, RANK = (40, 30), 3


def clear_labels(observed):
    """Return labels that a matrix of rank 2 gives with little doubt, observed at random."""
    rng = np.random.default_rng(0)
    M = rng.normal(size=(SHAPE[0], 2)) @ rng.normal(size=(2, SHAPE[1]))
    labels = np.where(rng.random(SHAPE) < 1 / (1 + np.exp(-9 * M)), 1, -1)
    return labels * (rng.random(SHAPE) < observed)


def objective_of(labels, link=None, risk=RISKS["pn"], **options):
    return Objective(observations_of(labels), link or Logistic(), risk, **options)


def minimise(objective, constraint=None, *, start=None, tol=0.0, max_iter=100):
    constraint = constraint or Unconstrained()
    if start is None:
        start = Factors.of(*constraint.start(objective.shape, RANK, np.random.default_rng(0)))
    stopping = Stopping(max_iter, tol)
    return Newton().minimise(objective, [constraint], start, stopping, np.random.default_rng(0))


def values_of(result):
    return np.array([iteration.objective for iteration in result.history])


@pytest.fixture
def work(monkeypatch):
    """Count passes over panels, by what they are for; the problems here have one panel a side."""
    monkeypatch.setenv("TRIBIT_COMPILED", "0")  # a compiled half-sweep has no panels
    counts = {"models": 0, "values": 0}
    for panel in (SparsePanel, TilePanel):
        for name in counts:
            method = getattr(panel, name)

            def counted(self, *args, name=name, method=method, **options):
                counts[name] += 1
                return method(self, *args, **options)

            monkeypatch.setattr(panel, name, counted)
    return counts


# The search along a row's step


@dataclass(frozen=True)
class Hyperbola(Link):
    """``l(x, y) = sqrt(1 + x^2)``: from x a full step of Newton's method leads to ``-x^3``."""

    sign: float = 1.0

    def probability(self, x):
        return np.full_like(x, 0.5)

    def loss(self, x, y):  # noqa: ARG002
        return np.sqrt(1 + x**2)

    def first(self, x, y):  # noqa: ARG002
        return self.sign * x / np.sqrt(1 + x**2)

    def second(self, x, y):  # noqa: ARG002
        return (1 + x**2) ** -1.5


def test_a_step_that_gains_next_to_nothing_is_too_long():
    # From 1 the full step leads to -1, where the objective is the same; half of it to the minimum.
    objective = objective_of(np.array([[1, -1]]), Hyperbola())
    start = Factors.of(np.ones((1, 1)), np.ones((2, 1)))
    result = minimise(objective, start=start, max_iter=1)
    assert values_of(result)[0] == pytest.approx(2 * np.sqrt(2.0))
    assert result.objective == pytest.approx(2.0, rel=1e-6)


def test_a_row_that_no_step_improves_stays_where_it_is():
    # The derivative has the wrong sign, so that every step climbs.
    objective = objective_of(random_matrix((6, 5), observed=0.8), Hyperbola(sign=-1.0))
    start = Factors.of(*(np.full((size, 2), 0.5) for size in objective.shape))
    result = minimise(objective, start=start, max_iter=4)
    np.testing.assert_array_equal(values_of(result), objective.value(start))
    np.testing.assert_array_equal(result.factors.row_factors, start.row_factors)
    np.testing.assert_array_equal(result.factors.column_factors, start.column_factors)


def test_differences_of_the_size_of_rounding_are_not_searched(work):
    # From the minimum in float32 a full step is as good as any: a search tries it and rarely another.
    objective = objective_of(clear_labels(0.4), l2=0.5, arithmetic=Arithmetic("float32"))
    found = minimise(objective).factors
    work.update(models=0, values=0)
    minimise(objective, start=found, max_iter=20)
    assert 0 < work["values"] <= 2 * work["models"]


# The reach beyond a sweep


@pytest.mark.parametrize(
    ("observed", "options", "constraint", "n"),
    [
        (1.0, {"l2": 0.001}, Unconstrained(), 100),
        (0.4, {"link": Logistic(3.0), "risk": tri(0.9, 0.05, 0.05, 0.6)}, MaxNorm(20.0), 34),
    ],
)
def test_few_sweeps_reach_too_far(work, observed, options, constraint, n):
    result = minimise(objective_of(clear_labels(observed), **options), constraint, max_iter=n)
    # A sweep models rows and columns once, and the rows once more where it had reached too far. Each failure
    # halves the reach and each success makes it a little longer: so many successes pay for a failure.
    failures = work["models"] - 2 * result.n_iter
    assert 0 < failures <= (result.n_iter - failures) * np.log2(REACH_GROWTH) + 4


# The curvature


def test_a_loose_bound_of_the_curvature_is_given_up():
    # Entries far out, where the logistic function is flat: with its largest curvature everywhere steps are short.
    objective = objective_of(clear_labels(0.4), Logistic(3.0), tri(0.9, 0.05, 0.05, 0.6))
    values = values_of(minimise(objective, MaxNorm(20.0)))
    gained = values[0] - values
    assert gained[10] > 0.9 * gained[-1]


# The end


@pytest.mark.parametrize("flip", [False, True])
def test_rows_at_rest_are_not_the_end_while_columns_move(flip):
    labels, l2 = random_matrix((9, 7), observed=0.7), 0.3
    labels = labels.T if flip else labels
    exact = Reference(labels, Logistic(), RISKS["pn"])
    shape = labels.shape
    V = np.random.default_rng(3).normal(size=(shape[1], 2))

    def of_rows(flat):
        U = flat.reshape(shape[0], 2)
        G = exact.first(U @ V.T)
        return exact.value(U, V) + 0.5 * l2 * np.sum(U**2), (G @ V + l2 * U).ravel()

    def of_all(flat):
        U, W = flat[: 2 * shape[0]].reshape(-1, 2), flat[2 * shape[0] :].reshape(-1, 2)
        G = exact.first(U @ W.T)
        slope = np.concatenate([(G @ W + l2 * U).ravel(), (G.T @ U + l2 * W).ravel()])
        return exact.value(U, W) + 0.5 * l2 * np.sum(flat**2), slope

    rested = minimize(of_rows, np.zeros(2 * shape[0]), jac=True, options={"gtol": 1e-10}).x
    objective = objective_of(labels, l2=l2)
    start = Factors.of(rested.reshape(shape[0], 2), V)
    result = minimise(objective, start=start, tol=1e-10, max_iter=2000)
    assert result.converged
    found = np.concatenate([result.factors.row_factors, result.factors.column_factors]).ravel()
    value, slope = of_all(found)
    assert result.objective == pytest.approx(value, rel=1e-12)
    assert np.abs(slope).max() < 1e-3
    assert np.abs(of_all(np.concatenate([rested, V.ravel()]))[1]).max() > 1


def test_rows_that_gain_nothing_at_all_are_not_the_end_either():
    # At 0 likes and dislikes balance in every row, and factors have no slope; each column is of one mind.
    labels = np.tile([1, 1, -1, -1], (5, 1))
    start = Factors.of(np.zeros((5, 1)), np.zeros((4, 1)))
    result = minimise(objective_of(labels, l2=1.0, intercept=True), start=start, tol=1e-10)
    assert result.converged
    # The slope of a column of likes: 5 (f(c) - 1) + c.
    best = brentq(lambda c: 5 * (expit(c) - 1) + c, 0.0, 5.0)
    expected = best * np.array([1, 1, -1, -1])
    np.testing.assert_allclose(result.factors.column_intercepts, expected, rtol=1e-6)
    np.testing.assert_allclose(result.factors.row_intercepts, 0.0, atol=1e-9)
