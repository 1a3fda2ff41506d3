"""Implicit features: factors that are sums over the observed entries, against plain dense arrays."""

import dataclasses

import numpy as np
import pytest

from reference import (
    SOME_LINKS,
    CloglogLink,
    Reference,
    link_id,
    observations_of,
    random_factors,
    random_matrix,
)
from tribit import BinaryMatrixCompletion
from tribit.backends import layout
from tribit.backends.objective import IMPLICIT_SHARE, Arithmetic, Objective, features_of
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.risks import pn
from tribit.model.spec import ModelSpec
from tribit.selection.problem import make_problem
from tribit.solvers import LBFGS, Stopping

SHAPE, RANK = (9, 7), 2
#: Row 4 and column 2 have nothing observed.
A = random_matrix(SHAPE, observed=0.6)
A[4] = 0
A[:, 2] = 0
L2, L2_INTERCEPT, L2_IMPLICIT = 0.7, 0.3, 1.9
NAMES = ("row_factors", "column_factors", "intercept", "row_intercepts", "column_intercepts")


def implicit(labels, l2=L2_IMPLICIT, floor=(1.0, 1.0)):
    spec = ModelSpec(implicit_features=True, l2_implicit=l2, activity_floor=floor)
    return features_of(spec, observations_of(labels), None)


def dense_features(labels, floor=(1.0, 1.0)):
    """Return ``[I, S]`` for rows and for columns from the definition, with loops."""
    sides = []
    for mask, share in zip((labels != 0, labels.T != 0), floor, strict=True):
        size, other = mask.shape
        popularity = mask.sum(axis=0) / mask.sum()
        counts = mask.sum(axis=1)
        typical = counts[counts > 0].mean()
        S = np.zeros((size, size + other))
        for i in range(size):
            S[i, i] = 1.0
            n = counts[i]
            active = max(n, share * typical) if n else typical
            for j in range(other):
                centred = (mask[i, j] - n * popularity[j]) / np.sqrt(n) if n else 0.0
                S[i, size + j] = centred + np.sqrt(active) * popularity[j]
        sides.append(S)
    return sides


def as_dense(design):
    return design.combine(np.eye(design.n_coefficients))


def random_parts(seed=0, rank=RANK, size=0.5):
    rng = np.random.default_rng(seed)
    total = sum(SHAPE)

    def draw(*shape):
        return size * rng.standard_normal(shape)

    return Factors(draw(total, rank), draw(total, rank), 0.3, draw(total), draw(total))


def featured(link=None, *, labels=A, intercept=True, dtype="float64", n_jobs=1, **ridges):
    ridges = {"l2": L2, "l2_intercept": L2_INTERCEPT, **ridges}
    l2_implicit = ridges.pop("l2_implicit", L2_IMPLICIT)
    objective = Objective(
        observations_of(labels),
        link or Logistic(2.0),
        pn(),
        intercept=intercept,
        arithmetic=Arithmetic(dtype=dtype, n_jobs=n_jobs),
        **ridges,
    )
    return objective.with_features(implicit(labels, l2_implicit))


def flat(factors):
    return np.concatenate([np.ravel(part) for part in dataclasses.astuple(factors)])


def shaped(x, like):
    parts, at = [], 0
    for part in dataclasses.astuple(like):
        size = np.size(part)
        parts.append(np.reshape(x[at : at + size], np.shape(part)))
        at += size
    parts[2] = float(parts[2])
    return Factors(*parts)


def dense_value(link, parts, labels=A):
    """The objective of the module's docstring, term by term."""
    R, C = dense_features(labels)
    U, V = R @ parts.row_factors, C @ parts.column_factors
    a, c = R @ parts.row_intercepts, C @ parts.column_intercepts
    X = U @ V.T + a[:, None] + c + parts.intercept
    total = np.sum(Reference(labels, link, pn()).entries(X))
    d1, d2 = labels.shape
    for part, size in ((parts.row_factors, d1), (parts.column_factors, d2)):
        total += L2 / 2 * np.sum(part[:size] ** 2) + L2_IMPLICIT / 2 * np.sum(part[size:] ** 2)
    for part, size in ((parts.row_intercepts, d1), (parts.column_intercepts, d2)):
        total += L2_INTERCEPT / 2 * np.sum(part[:size] ** 2)
        total += L2_IMPLICIT / 2 * np.sum(part[size:] ** 2)
    return float(total)


# From parts to factors


@pytest.mark.parametrize("floor", [(0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.5, 3.0)])
def test_the_designs_are_those_of_the_definition(floor):
    features = implicit(A, floor=floor)
    rows, columns = dense_features(A, floor)
    np.testing.assert_allclose(as_dense(features.rows), rows, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(as_dense(features.columns), columns, rtol=1e-13, atol=1e-13)


def test_labels_do_not_count():
    features, flipped = implicit(A), implicit(-A)
    np.testing.assert_array_equal(as_dense(features.rows), as_dense(flipped.rows))
    np.testing.assert_array_equal(as_dense(features.columns), as_dense(flipped.columns))


def test_without_a_floor_factors_are_the_sums_of_svd_plus_plus():
    parts = random_parts()
    factors = implicit(A, floor=(0.0, 0.0)).combine(parts)
    d1, d2 = SHAPE
    for i in np.flatnonzero((A != 0).any(axis=1)):
        seen = np.flatnonzero(A[i])
        u = parts.row_factors[i] + parts.row_factors[d1 + seen].sum(axis=0) / np.sqrt(seen.size)
        a = parts.row_intercepts[i]
        a += parts.row_intercepts[d1 + seen].sum() / np.sqrt(seen.size)
        np.testing.assert_allclose(factors.row_factors[i], u, rtol=1e-12)
        assert factors.row_intercepts[i] == pytest.approx(a)
    for j in np.flatnonzero((A != 0).any(axis=0)):
        seen = np.flatnonzero(A[:, j])
        v = parts.column_factors[j]
        v = v + parts.column_factors[d2 + seen].sum(axis=0) / np.sqrt(seen.size)
        np.testing.assert_allclose(factors.column_factors[j], v, rtol=1e-12)
    assert factors.intercept == parts.intercept


def test_a_floor_changes_short_rows_alone():
    counts = (A != 0).sum(axis=1)
    long = counts >= counts[counts > 0].mean()
    assert 0 < np.count_nonzero(long) < 9
    plain, floored = (as_dense(implicit(A, floor=(share, 0.0)).rows) for share in (0.0, 1.0))
    np.testing.assert_allclose(plain[long], floored[long], rtol=1e-13, atol=1e-15)
    short = (counts > 0) & ~long
    assert np.all(np.abs(plain[short] - floored[short]).max(axis=1) > 1e-3)


@pytest.mark.parametrize("floor", [(0.0, 0.0), (1.0, 1.0)])
def test_a_row_with_nothing_observed_counts_as_one_of_the_mean_length(floor):
    parts = random_parts()
    factors = implicit(A, floor=floor).combine(parts)
    mask = A != 0
    counts = mask.sum(axis=1)
    mean = np.sqrt(counts[counts > 0].mean()) * mask.sum(axis=0) / mask.sum()
    expected = parts.row_factors[4] + mean @ parts.row_factors[9:]
    np.testing.assert_allclose(factors.row_factors[4], expected, rtol=1e-12)
    assert factors.row_intercepts[4] == pytest.approx(
        parts.row_intercepts[4] + mean @ parts.row_intercepts[9:]
    )


@pytest.mark.parametrize("seed", range(3))
def test_pull_back_is_the_adjoint_of_combine(seed):
    features = implicit(A)
    parts = random_parts(seed)
    rng = np.random.default_rng(seed)
    U, V = random_factors(SHAPE, RANK, seed=seed)
    other = Factors(U, V, 0.7, rng.normal(size=9), rng.normal(size=7))
    left = flat(features.combine(parts)) @ flat(other)
    assert left == pytest.approx(flat(parts) @ flat(features.pull_back(other)), rel=1e-12)


def test_begin_keeps_the_factors_and_lets_the_features_count_for_nothing():
    features = implicit(A)
    rng = np.random.default_rng(0)
    U, V = random_factors(SHAPE, RANK)
    factors = Factors(U, V, 0.4, rng.normal(size=9), rng.normal(size=7))
    parts = features.initial_coefficients(factors)
    assert parts.row_factors.shape == parts.column_factors.shape == (16, RANK)
    assert not parts.row_factors[9:].any()
    assert not parts.column_factors[7:].any()
    assert not parts.row_intercepts[9:].any()
    assert not parts.column_intercepts[7:].any()
    again = features.combine(parts)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(again, name), getattr(factors, name))


def test_begin_with_no_columns():
    features = implicit(A)
    parts = features.initial_coefficients(Factors.of(np.zeros((9, 0)), np.zeros((7, 0)), 0.5))
    assert parts.row_factors.shape == (16, 0)
    assert features.combine(parts).intercept == 0.5


# The objective


@pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
@pytest.mark.parametrize("seed", range(2))
def test_the_value_is_that_of_dense_arrays(link, seed):
    parts = random_parts(seed)
    exact = dense_value(link, parts)
    objective = featured(link)
    assert objective.value(parts) == pytest.approx(exact, rel=1e-11)
    assert objective.gradient(parts)[0] == pytest.approx(exact, rel=1e-11)


def test_each_ridge_has_its_own_part():
    parts = random_parts()
    none = featured(l2=0.0, l2_intercept=0.0, l2_implicit=0.0).value(parts)
    own = np.sum(parts.row_factors[:9] ** 2) + np.sum(parts.column_factors[:7] ** 2)
    intercepts = np.sum(parts.row_intercepts[:9] ** 2) + np.sum(parts.column_intercepts[:7] ** 2)
    rest = sum(
        np.sum(part**2)
        for part in (
            parts.row_factors[9:],
            parts.column_factors[7:],
            parts.row_intercepts[9:],
            parts.column_intercepts[7:],
        )
    )
    for ridges, square in (
        ({"l2": 2.0, "l2_intercept": 0.0, "l2_implicit": 0.0}, own),
        ({"l2": 0.0, "l2_intercept": 2.0, "l2_implicit": 0.0}, intercepts),
        ({"l2": 0.0, "l2_intercept": 0.0, "l2_implicit": 2.0}, rest),
    ):
        assert featured(**ridges).value(parts) - none == pytest.approx(square, rel=1e-10)


@pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
def test_the_gradient_is_that_of_differences(link):
    objective, parts = featured(link), random_parts(1)
    x, gradient = flat(parts), flat(objective.gradient(parts)[1])
    step = 1e-5
    for place in range(x.size):
        e = np.zeros(x.size)
        e[place] = step
        slope = (objective.value(shaped(x + e, parts)) - objective.value(shaped(x - e, parts))) / (
            2 * step
        )
        assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-6), place


def test_without_intercepts_theirs_is_no_unknown():
    objective = featured(intercept=False, l2_intercept=0.0, l2_implicit=0.0)
    parts = random_parts()
    gradient = objective.gradient(parts)[1]
    assert gradient.intercept == 0.0
    assert not gradient.row_intercepts.any()
    assert not gradient.column_intercepts.any()


@pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_scales_are_positive_and_laid_out_as_the_parts(link, size):
    parts = random_parts(size=size)
    scales = featured(link).scales(parts)
    for name in NAMES:
        assert np.shape(getattr(scales, name)) == np.shape(getattr(parts, name))
        assert np.all(np.asarray(getattr(scales, name)) > 0)
        assert np.all(np.isfinite(getattr(scales, name)))


def test_scales_of_intercepts_are_the_curvature_at_even_odds():
    # At X = 0 the second difference of F in one unknown is the curvature itself, for the intercepts.
    objective = featured(Logistic(2.0))
    parts = random_parts(size=0.0)
    parts = dataclasses.replace(parts, intercept=0.0)
    x, scales = flat(parts), flat(objective.scales(parts))
    first = parts.row_factors.size + parts.column_factors.size
    step = 1e-3
    for place in range(first, x.size):
        e = np.zeros(x.size)
        e[place] = step
        bend = (
            objective.value(shaped(x + e, parts))
            + objective.value(shaped(x - e, parts))
            - 2 * objective.value(parts)
        ) / step**2
        assert scales[place] == pytest.approx(bend, rel=1e-4), place


def test_float64_is_the_same_objective_and_float32_is_near_it():
    parts = random_parts()
    rough = featured(CloglogLink(), dtype="float32")
    exact = dense_value(CloglogLink(), parts)
    assert rough.in_float64().value(parts) == pytest.approx(exact, rel=1e-11)
    assert rough.value(parts) == pytest.approx(exact, rel=1e-5)


def test_parts_are_left_as_they_are_between_steps():
    parts = random_parts()
    assert featured().normalise_intercepts(parts) is parts


# In the estimator


def make(**parameters):
    fixed = {
        "gammas": (1, 0, 0),
        "rank": RANK,
        "l2": L2,
        "l2_intercept": L2_INTERCEPT,
        "l2_implicit": L2_IMPLICIT,
        "implicit_features": True,
        "activity_floor": (1, 1),
        "dtype": "float64",
        "tol": 1e-9,
        "n_jobs": 1,
        "random_state": 0,
    }
    return BinaryMatrixCompletion(**{**fixed, **parameters})


def problem_of(**changes):
    options = {
        "gammas": (1, 0, 0),
        "rho": None,
        "link": "logistic",
        "rank": RANK,
        "radius": None,
        "norm": "max",
        "alpha": None,
        "l2": L2,
        "implicit_features": True,
        "intercept": True,
    }
    spec = ModelSpec(**{**options, **changes})
    draws = np.random.default_rng(0)
    return make_problem(
        observations_of(A), spec, arithmetic=Arithmetic(dtype="float64", n_jobs=1), generator=draws
    )


def test_the_model_s_factors_are_those_of_the_matrix():
    model = make().fit(A)
    assert model.row_factors_.shape == (9, RANK)
    assert model.column_factors_.shape == (7, RANK)
    assert model.row_intercepts_.shape == (9,)
    X = model.row_factors_ @ model.column_factors_.T + model.intercept_
    X += model.row_intercepts_[:, None] + model.column_intercepts_
    np.testing.assert_allclose(model.complete("score"), X, rtol=1e-10, atol=1e-12)
    i, j = np.nonzero(A)
    np.testing.assert_allclose(model.decision_function(i, j), X[i, j], rtol=1e-10, atol=1e-12)
    assert model.implicit_features_ is True
    assert model.search_ is None
    assert model.converged_


def test_the_reported_objective_is_the_dense_one_at_the_end():
    # The parts themselves are not kept: those of a second, equal fit are taken from the solver.
    problem = problem_of(l2_intercept=L2_INTERCEPT, l2_implicit=L2_IMPLICIT)
    result = LBFGS().minimise(
        problem.objective,
        problem.constraints,
        problem.start,
        Stopping(1000, 1e-9),
        np.random.default_rng(0),
    )
    model = make().fit(A)
    assert model.objective_ == pytest.approx(dense_value(Logistic(), result.factors), rel=1e-10)
    np.testing.assert_allclose(
        problem.factors(result.factors).row_factors, model.row_factors_, rtol=1e-10
    )


def test_the_mask_s_own_ridge_is_by_default_a_multiple_of_the_factors():
    for problem, l2 in ((problem_of(), IMPLICIT_SHARE * L2), (problem_of(l2_implicit=0.25), 0.25)):
        features = problem.objective.features
        for design in (features.rows, features.columns):
            assert [block.l2 for block in design.blocks] == [pytest.approx(l2)]
    assert make(l2_implicit=None).fit(A).objective_ == pytest.approx(
        make(l2_implicit=IMPLICIT_SHARE * L2).fit(A).objective_, rel=1e-12
    )


def test_features_that_are_shrunk_away_leave_the_plain_model():
    plain = make(implicit_features=False, solver="lbfgs").fit(A)
    with_mask = make(l2_implicit=1e7).fit(A)
    np.testing.assert_allclose(with_mask.complete("score"), plain.complete("score"), atol=1e-3)
    assert make(l2_implicit=0.1).fit(A).objective_ < plain.objective_ - 0.1


def test_a_row_with_nothing_observed_is_predicted_from_what_all_rows_share():
    model = make().fit(A)
    assert np.isfinite(model.complete("score")).all()
    parts = model.unknowns_
    for own in (parts.row_factors[4], parts.column_factors[2]):
        assert np.abs(own).max() < 1e-3
    shared = dense_features(A)[0][4, 9:] @ parts.row_factors[9:]
    np.testing.assert_allclose(model.row_factors_[4], shared, atol=1e-3)


def test_without_intercepts_a_model_with_implicit_features_has_none():
    model = make(intercept=False).fit(A)
    assert model.intercept_ == 0.0
    assert not model.row_intercepts_.any()
    assert not model.column_intercepts_.any()
    assert model.row_factors_.any()


def test_the_bits_do_not_depend_on_the_threads(monkeypatch):
    monkeypatch.setattr(layout, "BATCH_ENTRIES", 8)
    models = [make(n_jobs=n, dtype="float32", max_iter=8, tol=0.0) for n in (1, 2, 3)]
    with pytest.warns(match="max_iter=8"):
        X = [model.fit(A).complete("score") for model in models]
    np.testing.assert_array_equal(X[1], X[0])
    np.testing.assert_array_equal(X[2], X[0])
