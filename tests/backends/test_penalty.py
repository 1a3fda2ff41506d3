"""Penalties by number of entries, against plain formulas, differences and a general-purpose minimiser."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from reference import observations_of
from tribit import BinaryMatrixCompletion, InvalidInputError, Logistic
from tribit.backends.objective import Objective
from tribit.backends.penalty import relative_l2
from tribit.data.features import fit_side_features
from tribit.model.factors import Factors
from tribit.model.risks import Risk
from tribit.model.spec import ModelSpec
from tribit.selection.folds import spec_for_fold
from tribit.solvers import SOLVERS

RNG = np.random.default_rng(0)
# Rows and columns of very different lengths, one of each without entries.
SHARES = np.outer(np.linspace(0.15, 1.0, 14), np.linspace(0.2, 1.0, 9))
A = np.where(RNG.random((14, 9)) < SHARES, RNG.choice([-1, 1], (14, 9)), 0)
A[3], A[:, 2] = 0, 0
L2, L2_INTERCEPT, K = 1.5, 0.7, 2


def relative(axis, power):
    """Return ``r_i`` or ``s_j`` by the definition."""
    counts = np.count_nonzero(A, axis=axis)
    return (np.where(counts, counts, 1) / counts[counts > 0].mean()) ** power


def plain_value(factors, power):
    """Return the objective from dense matrices."""
    U, V, a, c = factors.arrays
    x = U @ V.T + a[:, None] + c + factors.intercept
    loss = np.logaddexp(0, -A * x)[A != 0].sum()
    ridge = relative(1, power) @ np.sum(U**2, axis=1) + relative(0, power) @ np.sum(V**2, axis=1)
    return loss + 0.5 * L2 * ridge + 0.5 * L2_INTERCEPT * (a @ a + c @ c)


@pytest.mark.parametrize("mean", [4.0, 0.5])
def test_the_relative_weight_of_a_row_is_a_power_of_its_number_of_entries(mean):
    counts = np.array([0, 1, 4, 9])
    assert relative_l2(0.0, counts, mean) is None
    expected = np.sqrt(np.array([1, 1, 4, 9]) / max(mean, 1.0))
    np.testing.assert_allclose(relative_l2(0.5, counts, mean), expected)


DESIGNS = {
    "factors": {},
    "implicit features": {"implicit_features": True, "l2_implicit": 0.9},
    "side features": {"side_features": True, "l2_side": 0.4},
}


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_gradient_is_the_difference_of_values(design, power):
    seen = observations_of(A)
    spec = ModelSpec(rank=K, l2=L2, l2_power=power, l2_intercept=L2_INTERCEPT, **DESIGNS[design])
    _, side = fit_side_features(seen.axes, np.arange(14.0)[:, None] % 3, None)
    objective = Objective.of(spec, seen, Risk(1.0, 0.0, 0.0), side=side).in_float64()
    n, m = objective.unknown_sizes
    here, along = (
        Factors(
            RNG.normal(size=(n, K)),
            RNG.normal(size=(m, K)),
            0.3,
            RNG.normal(size=n),
            RNG.normal(size=m),
        )
        for _ in range(2)
    )
    value, gradient = objective.gradient(here)
    assert value == pytest.approx(objective.value(here), rel=1e-12)
    if design == "factors":
        assert value == pytest.approx(plain_value(here, power), rel=1e-12)
    step = 1e-5
    difference = objective.value(here.plus(step, along)) - objective.value(here.plus(-step, along))
    found = gradient.dot(along)
    assert found == pytest.approx(difference / (2 * step), rel=1e-6)


def test_side_features_have_the_penalty_of_the_factors_by_default():
    seen = observations_of(A)
    _, side = fit_side_features(seen.axes, np.arange(14.0)[:, None] % 3, None)

    def value(**given):
        spec = ModelSpec(rank=K, l2=L2, l2_intercept=L2_INTERCEPT, side_features=True, **given)
        objective = Objective.of(spec, seen, Risk(1.0, 0.0, 0.0), side=side)
        rng = np.random.default_rng(1)
        n, m = objective.unknown_sizes
        return objective.value(Factors.of(rng.normal(size=(n, K)), rng.normal(size=(m, K)), 0.3))

    assert value() == value(l2_side=L2)
    assert value() < value(l2_side=2 * L2)


def test_no_power_is_the_same_penalty_to_the_bit():
    seen = observations_of(A)
    spec = ModelSpec(rank=K, l2=L2, l2_intercept=L2_INTERCEPT)
    here = Factors.of(RNG.normal(size=(14, K)), RNG.normal(size=(9, K)), 0.3)
    ours = Objective.of(spec, seen, Risk(1.0, 0.0, 0.0))
    plain = Objective(
        seen, Logistic(), Risk(1.0, 0.0, 0.0), l2=L2, l2_intercept=L2_INTERCEPT, intercept=True
    )
    assert ours.penalty.is_uniform
    assert ours.value(here) == plain.value(here)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_every_solver_finds_the_minimum_of_the_plain_objective(solver, power):
    options = {"rank": K, "l2": L2, "l2_intercept": L2_INTERCEPT, "dtype": "float64", "tol": 1e-9}
    model = BinaryMatrixCompletion(
        (1, 0, 0), l2_power=power, solver=solver, max_iter=5000, random_state=0, **options
    ).fit(A)
    found = model._factors()
    assert model.objective_ == pytest.approx(plain_value(found, power), rel=1e-9)
    shapes = [each.shape for each in found.arrays]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def of(z):
        parts = np.split(z, ends)
        U, V, a, c = (p.reshape(s) for p, s in zip(parts, shapes, strict=False))
        return plain_value(Factors(U, V, float(z[-1]), a, c), power)

    start = np.concatenate([each.ravel() for each in found.arrays] + [[found.intercept]])
    least = minimize(of, start, options={"gtol": 1e-6}).fun
    assert model.objective_ == pytest.approx(least, rel=1e-5)


def test_the_total_weight_is_the_number_of_entries():
    seen = observations_of(A)
    weights = RNG.integers(1, 4, len(seen))
    spec = ModelSpec(rank=K, l2=L2, l2_power=0.5, l2_intercept=L2_INTERCEPT)
    objective = Objective.of(spec, seen.with_weights(weights), Risk(1.0, 0.0, 0.0))
    totals = np.bincount(seen.rows, weights, minlength=14)
    expected = np.sqrt(np.maximum(totals, 1) / totals[totals > 0].mean())
    np.testing.assert_allclose(objective.penalty.relative[0], expected)


def test_a_full_table_has_the_same_fit_at_every_power():
    full = np.where(A, A, 1)
    options = {"rank": K, "l2": L2, "dtype": "float64", "random_state": 0, "l2_intercept": 1.0}
    one, other = (
        BinaryMatrixCompletion((1, 0, 0), l2_power=power, **options).fit(full)
        for power in (0.0, 1.0)
    )
    np.testing.assert_allclose(one.complete("score"), other.complete("score"), atol=1e-9)


def test_a_fold_keeps_the_power():
    assert spec_for_fold(ModelSpec(l2_power=0.5), 0.8).l2_power == 0.5


def test_the_power_is_shown_where_there_is_one():
    spec = ModelSpec(l2_power=0.5)
    assert "l2_power 0.5" in str(spec)
    assert "l2_power" not in str(replace(spec, l2_power=0.0))
    assert "l2_power" not in str(replace(spec, rank=0))
    with pytest.raises(InvalidInputError, match="l2_power must be"):
        ModelSpec(l2_power=1.5)
