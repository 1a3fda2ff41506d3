"""The smooth bound on combined factors: its formula, its gradient, and how far a ball is exceeded."""

import dataclasses

import numpy as np
import pytest

from reference import observations_of, random_matrix
from tribit import BinaryMatrixCompletion, InvalidInputError, load
from tribit.backends import Arithmetic
from tribit.backends.soft_bounds import STIFFNESS, SoftBounds
from tribit.model.factors import Factors
from tribit.model.links import Probit
from tribit.model.spec import ModelSpec
from tribit.selection.problem import make_problem, warm_start
from tribit.solvers import LBFGS, Stopping

A = random_matrix((30, 20), gaps=True)
SEEN = observations_of(A)
PU = (0.0, 1.0, 0.0)
NEAR_PN = (0.9, 0.06, 0.04)


def spec_of(gammas=PU, **settings):
    given = {
        "rho": 0.9,
        "radius": 0.8,
        "rank": 3,
        "l2": 1.0,
        "l2_intercept": 0.5,
        "l2_implicit": 2.0,
    }
    return ModelSpec(gammas=gammas, **{**given, "implicit_features": True, **settings})


def problem_of(spec):
    return make_problem(
        SEEN,
        spec,
        arithmetic=Arithmetic(dtype="float64", n_jobs=1),
        generator=np.random.default_rng(0),
    )


def random_unknowns(problem, rank=3, size=0.5, seed=0):
    draws = np.random.default_rng(seed)
    rows, columns = problem.unknown_sizes
    U, V = (size * draws.standard_normal((n, rank)) for n in (rows, columns))
    a, c = (size * draws.standard_normal(n) for n in (rows, columns))
    return Factors(U, V, 0.3, a, c)


def plain_bound(bounds, factors):
    """Return B by its formula, one row and one intercept at a time."""
    total = 0.0
    for weights, F, a in (
        (bounds.row_weights, factors.row_factors, factors.row_intercepts),
        (bounds.column_weights, factors.column_factors, factors.column_intercepts),
    ):
        for weight, row, intercept in zip(weights, F, a, strict=True):
            total += weight / 2 * max(float(row @ row) / bounds.row_radius - 1, 0) ** 2
            total += weight / 2 * max(abs(intercept) / bounds.intercept_bound - 1, 0) ** 2
    return total


@pytest.mark.parametrize("gammas", [PU, NEAR_PN, (1.0, 0.0, 0.0)])
def test_the_value_adds_the_formula_to_risk_and_ridge(gammas):
    problem = problem_of(spec_of(gammas))
    objective, parts = problem.objective, random_unknowns(problem)
    free = objective.with_features(objective.features)
    added = plain_bound(objective.bounds, problem.factors(parts))
    assert added > 0.0
    assert objective.value(parts) == pytest.approx(free.value(parts) + added, rel=1e-12)
    assert objective.gradient(parts)[0] == pytest.approx(objective.value(parts), rel=1e-12)


@pytest.mark.parametrize("link", ["logistic", Probit(0.7)])
@pytest.mark.parametrize("gammas", [PU, NEAR_PN, (1.0, 0.0, 0.0)])
def test_the_gradient_is_that_of_differences(link, gammas):
    problem = problem_of(spec_of(gammas, link=link))
    objective, parts = problem.objective, random_unknowns(problem)
    towards = random_unknowns(problem, seed=1)
    # The one intercept is an unknown only where intercepts are free.
    towards = dataclasses.replace(towards, intercept=0.0 if sum(gammas[1:]) else 1.0)
    h = 1e-5
    ahead, behind = (objective.value(parts.plus(step, towards)) for step in (h, -h))
    slope = objective.gradient(parts)[1].dot(towards)
    assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-5)


@pytest.mark.parametrize(("gammas", "fixed"), [(PU, True), ((1.0, 0.0, 0.0), False)])
def test_the_one_intercept_is_no_unknown_where_intercepts_are_bounded(gammas, fixed):
    problem = problem_of(spec_of(gammas))
    _, gradient = problem.objective.gradient(random_unknowns(problem))
    assert (gradient.intercept == 0.0) is fixed


def test_inside_the_ball_nothing_is_added():
    bounds = problem_of(spec_of()).objective.bounds
    small = Factors(np.full((30, 3), 0.1), np.full((20, 3), 0.1), 5.0, np.zeros(30), np.zeros(20))
    assert bounds.value(small) == 0.0
    for part in dataclasses.astuple(bounds.gradient(small)):
        assert not np.any(part)
    assert SoftBounds.of(ModelSpec(implicit_features=True), SEEN, spec_of().risk(0.9)) is None


def test_scales_are_larger_where_a_bound_is_exceeded():
    problem = problem_of(spec_of())
    objective, far = problem.objective, random_unknowns(problem, size=2.0)
    free = objective.with_features(objective.features)
    assert np.all(objective.scales(far).row_factors >= free.scales(far).row_factors)
    assert np.any(objective.scales(far).row_factors > free.scales(far).row_factors)


@pytest.mark.parametrize("l2", [0.01, 5.0])
def test_pu_has_a_minimum_near_the_ball(l2):
    spec = spec_of(l2=l2, l2_intercept=l2, l2_implicit=l2)
    problem = problem_of(spec)
    found = LBFGS().minimise(
        problem.objective,
        problem.constraints,
        problem.start,
        Stopping(4000, 1e-6),
        np.random.default_rng(0),
    )
    assert found.converged
    factors = problem.factors(found.factors)
    squares = [np.sum(F**2, axis=1) for F in (factors.row_factors, factors.column_factors)]
    intercepts = np.concatenate([factors.row_intercepts, factors.column_intercepts])
    assert max(each.max() for each in squares) <= 1.1 * spec.row_radius
    assert np.abs(intercepts).max() <= (1.0 + 1.0 / STIFFNESS) * spec.intercept_bound
    if l2 < 1.0:  # without the bound they would be far outside
        assert max(each.max() for each in squares) > spec.row_radius
    assert found.factors.intercept == problem.start.intercept


def test_no_constraint_is_left_to_the_solver():
    spec = spec_of(alpha=1.0)
    assert not any(each.restricts for each in spec.constraints())
    assert not any(each.restricts for each in problem_of(spec).constraints)
    assert spec.row_radius == 0.8
    assert any(
        each.restricts for each in dataclasses.replace(spec, implicit_features=False).constraints()
    )


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"norm": "trace"}, "does not go with norm='trace'"),
        ({"alpha": 0.5}, "does not go with alpha, .* of at most alpha"),
        ({"alpha": 0.5, "radius": None}, "does not go with alpha"),
    ],
)
def test_bounds_that_balls_of_rows_do_not_imply_are_refused(settings, match):
    with pytest.raises(InvalidInputError, match=match):
        spec_of(**settings).with_default_radius()


def test_warm_starts_of_mixtures_with_and_without_features_are_kept_apart():
    featured, plain = spec_of(), spec_of(implicit_features=False)
    assert (featured.family, plain.family) == ("mixture with implicit features", "mixture")
    problem = problem_of(featured)
    own, other = random_unknowns(problem), random_unknowns(problem_of(plain), seed=2)
    ends = {featured.family: own, plain.family: other}
    np.testing.assert_array_equal(warm_start(problem, featured, ends).row_factors, own.row_factors)
    assert warm_start(problem_of(plain), plain, ends).row_factors.shape == (30, 3)
    # Without an end of its own it starts at the plain mixture, with the parts of the features at 0.
    start = warm_start(problem, featured, {plain.family: other})
    np.testing.assert_array_equal(problem.factors(start).row_factors, other.row_factors)


@pytest.mark.parametrize(
    "settings",
    [{"gammas": NEAR_PN, "radius": 1.0}, {"gammas": NEAR_PN}, {"gammas": (1, 0, 0), "radius": 1.0}],
)
@pytest.mark.usefixtures("short_trials")
def test_the_estimator_chooses_ridges_beside_what_was_asked_for(settings):
    model = BinaryMatrixCompletion(
        **settings, implicit_features=True, rank=2, rho=0.6, n_jobs=1, random_state=0
    ).fit(random_matrix((40, 30), observed=0.5))
    assert model.implicit_features_
    assert model.l2_implicit_ is not None
    assert model.search_.best is not None
    assert np.sum(model.row_factors_**2, axis=1).max() <= 1.1 * model.radius_


def test_a_mixture_with_features_is_saved_and_folds_in(tmp_path):
    labels = random_matrix((40, 30), observed=0.5)
    settings = {
        "rank": 2,
        "rho": 0.6,
        "radius": 0.5,
        "l2": 1.0,
        "l2_intercept": 1.0,
        "l2_implicit": 2.0,
    }
    model = BinaryMatrixCompletion(
        NEAR_PN, implicit_features=True, search=False, n_jobs=1, random_state=0, **settings
    ).fit(labels)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.row_factors_, model.row_factors_)
    longer = model.fold_in(labels[:5])
    new = longer.row_factors_[40:]
    assert new.shape == (5, 2)
    # New rows are inside the ball itself.
    assert np.sum(new**2, axis=1).max() <= 0.5 * (1 + 1e-6)
    assert np.abs(longer.row_intercepts_[40:]).max() <= 0.5 * (1 + 1e-6)


@pytest.mark.usefixtures("short_trials")
def test_side_features_go_with_a_mixture():
    labels = random_matrix((40, 30), observed=0.5)
    model = BinaryMatrixCompletion(
        NEAR_PN,
        side_features=True,
        implicit_features=False,
        rank=2,
        rho=0.6,
        n_jobs=1,
        random_state=0,
    ).fit(labels, row_features=np.random.default_rng(0).standard_normal((40, 2)))
    assert model.side_features_
    assert model.spec_.family == "mixture with side features"
    assert model.l2_side_ is not None
