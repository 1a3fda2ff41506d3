import numpy as np
import pytest

from reference import (
    ALL_LINKS,
    MATRICES,
    RISKS,
    Reference,
    link_id,
    observations_of,
    random_factors,
    random_matrix,
)
from tribit.backends.objective import Arithmetic, Objective
from tribit.backends.threads import count_jobs
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.links import Logistic

A = random_matrix((9, 7), gaps=True)
BLOCKS = ("row_factors", "column_factors", "intercept", "row_intercepts", "column_intercepts")

each_risk = pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
each_link = pytest.mark.parametrize("link", ALL_LINKS, ids=link_id)


def random_point(shape, k=3, *, intercept=True, seed=0):
    rng = np.random.default_rng(seed)
    U, V = random_factors(shape, k, size=0.7, seed=seed)
    if not intercept:
        return Factors.of(U, V)
    return Factors(U, V, 0.3, 0.5 * rng.normal(size=shape[0]), 0.5 * rng.normal(size=shape[1]))


def dense(factors):
    """X as the model defines it, entry by entry."""
    return (
        factors.row_factors @ factors.column_factors.T
        + factors.intercept
        + factors.row_intercepts[:, None]
        + factors.column_intercepts[None, :]
    )


def expected_value(factors, link, risk, l2):
    squares = sum(np.sum(getattr(factors, name) ** 2) for name in BLOCKS if name != "intercept")
    return float(np.sum(Reference(A, link, risk).entries(dense(factors)))) + 0.5 * l2 * squares


@each_risk
@each_link
@pytest.mark.parametrize("intercept", [True, False])
def test_value_is_the_risk_plus_the_ridge(risk, link, intercept):
    factors = random_point(A.shape, intercept=intercept)
    objective = Objective(observations_of(A), link, risk, l2=0.8, intercept=intercept)
    expected = expected_value(factors, link, risk, 0.8)
    assert objective.value(factors) == pytest.approx(expected, rel=1e-10)
    assert objective.gradient(factors)[0] == pytest.approx(expected, rel=1e-10)
    assert np.isnan(objective.gradient(factors, value=False)[0])
    assert objective.shape == A.shape


@each_risk
@each_link
@pytest.mark.parametrize("intercept", [True, False])
def test_the_gradient_of_every_block_is_that_of_the_value(risk, link, intercept):
    factors = random_point(A.shape, intercept=intercept, seed=1)
    objective = Objective(observations_of(A), link, risk, l2=0.8, intercept=intercept)
    gradient = objective.gradient(factors)[1]
    rng = np.random.default_rng(2)
    still = {name: np.zeros_like(getattr(factors, name)) for name in BLOCKS}
    unknown = BLOCKS if intercept else BLOCKS[:2]
    for name in unknown:
        for _ in range(3):
            along = rng.normal(size=np.shape(getattr(factors, name)))
            direction = Factors(**(still | {name: along}))

            def value(t, direction=direction):
                return expected_value(factors.plus(t, direction), link, risk, 0.8)

            step = 1e-3
            slope = (8 * (value(step) - value(-step)) - value(2 * step) + value(-2 * step)) / (
                12 * step
            )
            got = float(np.sum(getattr(gradient, name) * along))
            assert got == pytest.approx(slope, rel=1e-7, abs=1e-7), name
    for name in set(BLOCKS) - set(unknown):
        assert np.all(getattr(gradient, name) == 0), name


@each_risk
def test_objects_of_float32_have_the_gradient_of_float64(risk):
    factors = random_point(A.shape, seed=3)
    both = [
        Objective(
            observations_of(A),
            Logistic(2.0),
            risk,
            l2=0.1,
            intercept=True,
            arithmetic=Arithmetic(dtype=dtype),
        )
        for dtype in ("float32", "float64")
    ]
    rough, exact = (objective.gradient(factors) for objective in both)
    assert rough[0] == pytest.approx(exact[0], rel=1e-5)
    for name in BLOCKS:
        np.testing.assert_allclose(
            getattr(rough[1], name), getattr(exact[1], name), rtol=1e-4, atol=1e-5
        )


def test_float64_is_reported_whatever_the_arithmetic():
    factors = random_point(A.shape)
    options = {"l2": 0.3, "intercept": True, "intercept_bound": 2.0}
    rough = Objective(
        observations_of(A),
        Logistic(2.0),
        RISKS["tri"],
        arithmetic=Arithmetic("float32", 2),
        **options,
    )
    exact = rough.in_float64()
    assert exact.value(factors) == Objective(
        observations_of(A),
        Logistic(2.0),
        RISKS["tri"],
        arithmetic=Arithmetic("float64", 2),
        **options,
    ).value(factors)
    assert exact.in_float64() is exact
    assert (exact.intercept, exact.intercept_bound, exact.backend.n_jobs) == (True, 2.0, 2)


# Intercepts


def test_centring_moves_means_and_leaves_x():
    factors = random_point(A.shape)
    centred = Objective(
        observations_of(A), Logistic(), RISKS["pn"], intercept=True
    ).normalise_intercepts(factors)
    np.testing.assert_allclose(dense(centred), dense(factors), atol=1e-14)
    assert np.mean(centred.row_intercepts) == pytest.approx(0, abs=1e-15)
    assert np.mean(centred.column_intercepts) == pytest.approx(0, abs=1e-15)


def test_a_bound_clips_row_and_column_intercepts_alone():
    factors = random_point(A.shape)
    objective = Objective(
        observations_of(A), Logistic(), RISKS["tri"], intercept=True, intercept_bound=0.2
    )
    normalised = objective.normalise_intercepts(factors)
    np.testing.assert_array_equal(
        normalised.row_intercepts, np.clip(factors.row_intercepts, -0.2, 0.2)
    )
    np.testing.assert_array_equal(
        normalised.column_intercepts, np.clip(factors.column_intercepts, -0.2, 0.2)
    )
    assert normalised.intercept == factors.intercept
    assert normalised.row_factors is factors.row_factors


def test_without_intercepts_nothing_is_settled():
    factors = random_point(A.shape)
    objective = Objective(observations_of(A), Logistic(), RISKS["tri"])
    assert objective.normalise_intercepts(factors) is factors


# Factors


def test_augmented_factors_make_x_with_its_intercepts():
    factors = random_point((5, 4), k=2)
    P, Q = factors.product_factors()
    assert (P.shape, Q.shape) == ((5, 4), (4, 4))
    np.testing.assert_allclose(P @ Q.T, dense(factors), atol=1e-14)
    np.testing.assert_allclose(dense(factors.transposed), dense(factors).T, atol=1e-14)
    rows, columns = np.nonzero(np.ones((5, 4)))
    np.testing.assert_allclose(factors.at(rows, columns), dense(factors).ravel(), atol=1e-14)


def test_arithmetic_of_factors_is_part_by_part():
    a, b = random_point((5, 4), seed=1), random_point((5, 4), seed=2)
    for name in BLOCKS:
        np.testing.assert_allclose(
            getattr(a.plus(0.5, b), name), getattr(a, name) + 0.5 * getattr(b, name)
        )
        np.testing.assert_allclose(getattr(a.minus(b), name), getattr(a, name) - getattr(b, name))
    rough = a.astype("float32")
    assert rough.row_factors.dtype == rough.column_intercepts.dtype == np.float32
    assert rough.rank == a.rank == 3
    np.testing.assert_allclose(dense(rough), dense(a), atol=1e-5)


# Options


def test_bad_options_are_refused():
    seen = observations_of(MATRICES["small"])
    with pytest.raises(InvalidInputError, match="l2 must be a finite number, at least 0"):
        Objective(seen, Logistic(), RISKS["pn"], l2=-1.0)
    with pytest.raises(InvalidInputError, match="n_jobs must be a whole number"):
        Objective(seen, Logistic(), RISKS["pn"], arithmetic=Arithmetic(n_jobs=0))
    assert Objective(
        seen, Logistic(), RISKS["pn"], arithmetic=Arithmetic(n_jobs=None)
    ).backend.n_jobs == count_jobs(None)
