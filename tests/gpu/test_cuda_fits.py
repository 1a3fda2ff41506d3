"""Fits on a GPU beside those on a CPU: the same objective, the same answers as far as float32 goes."""

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Logistic, Observations, pu
from tribit.backends.objective import Arithmetic, Objective
from tribit.model.spec import CHOOSABLE, ModelSpec
from tribit.selection.problem import make_problem
from tribit.simulate import tables

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 2)) @ RNG.standard_normal((2, 70)) + RNG.standard_normal(70)
A = np.where(RNG.random(X.shape) < 0.4, np.sign(X + 0.5 * RNG.standard_normal(X.shape)), 0)
A = A.astype(int)
A[3], A[:, 5] = 0, 0  # a row and a column of which nothing was observed
ROWS = np.column_stack([X[:, 0] + RNG.standard_normal(90), RNG.standard_normal(90)])

#: One model for each solver and kind of features.
MODELS = {
    "newton": {"gammas": (1, 0, 0)},
    "implicit": {"gammas": (1, 0, 0), "implicit_features": True, "l2_implicit": 2.0},
    # With a small ridge this table has several minima, and rounding decides which of them is found.
    "side": {"gammas": (1, 0, 0), "implicit_features": True, "side_features": True, "l2": 4.0},
    "ball": {"gammas": (0.6, 0.2, 0.2), "radius": 2.0},
    "ball with features": {
        "gammas": (0.6, 0.2, 0.2),
        "radius": 2.0,
        "implicit_features": True,
        "l2": 8.0,
        "tol": 1e-5,
    },
    "likes alone": {"gammas": (0, 1, 0), "rho": 0.0},
    "probit": {"gammas": (0.6, 0.2, 0.2), "radius": 2.0, "link": "probit", "l2": 8.0},
    "descent": {"gammas": (0.6, 0.2, 0.2), "radius": 2.0, "solver": "projected_gradient"},
    "trace": {"gammas": (0.6, 0.2, 0.2), "norm": "trace", "radius": 90.0},
}


def fitted(device, dtype, **parameters):
    plain = {"rank": 3, "l2": 1.0, "l2_intercept": 1.0, "activity_floor": (1.0, 1.0)}
    plain |= {"search": False, "random_state": 0, "tol": 1e-7}
    features = {"row_features": ROWS} if parameters.get("side_features") else {}
    model = BinaryMatrixCompletion(**(plain | parameters), dtype=dtype, device=device, n_jobs=1)
    return model.fit(A, **features)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fit_reaches_the_objective_of_the_cpu(name, dtype):
    there, here = (fitted(device, dtype, **MODELS[name]) for device in ("cuda", "cpu"))
    near = 1e-4 if dtype == "float64" else 1e-3
    assert there.objective_ == pytest.approx(here.objective_, rel=near)
    assert isinstance(there.row_factors_, np.ndarray)
    assert there.row_factors_.dtype == dtype
    x, y = (model.decision_function(range(20), range(20)) for model in (there, here))
    np.testing.assert_allclose(x, y, atol=0.05)


def test_a_search_on_a_gpu_chooses_as_on_the_cpu():
    there, here = (
        BinaryMatrixCompletion(random_state=0, device=device, n_jobs=1, n_candidates=12).fit(A)
        for device in ("cuda", "cpu")
    )
    assert there.search_.best.score == pytest.approx(here.search_.best.score, rel=0.01)


def test_a_stack_on_a_gpu_is_the_weighted_mean_of_its_members_on_the_cpu():
    seen = Observations.from_frame(
        tables.ratings(random_state=3), row="user", column="item", value="stars", like_at=4
    )
    there = BinaryMatrixCompletion(random_state=0, device="cuda", n_jobs=1, tol=1e-7).fit(seen)
    assert there.n_members_ > 1
    cells = seen.row_ids[:60], seen.column_ids[:60]
    x = np.zeros(60)
    for member in there.fitted_.members:
        settings = {name: getattr(member.spec, name) for name in CHOOSABLE}
        alone = BinaryMatrixCompletion(search=False, n_jobs=1, tol=1e-7, random_state=0, **settings)
        x += member.weight * alone.fit(seen).decision_function(*cells)
    total = sum(member.weight for member in there.fitted_.members)
    np.testing.assert_allclose(there.decision_function(*cells), x / total, atol=0.02)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_gradient_and_scales_with_features_are_those_of_the_cpu(dtype):
    seen = Observations.from_matrix(A)
    spec = ModelSpec(
        gammas=(0.5, 0.3, 0.2), rho=0.6, rank=3, l2=1.0, radius=0.5, implicit_features=True
    ).with_default_radius()
    here, there = (
        Objective.of(
            spec, seen, spec.risk(0.6, None), arithmetic=Arithmetic(dtype=dtype, device=device)
        )
        for device in ("cpu", "cuda")
    )
    draws = np.random.default_rng(1)
    start = make_problem(
        seen, spec, arithmetic=Arithmetic(dtype=dtype, n_jobs=1, device="cpu"), generator=draws
    ).start
    parts = start.plus(1.0, start)
    near = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 5e-3, "atol": 5e-2}
    assert there.value(parts) == pytest.approx(here.value(parts), rel=near["rtol"] / 10)
    (value, gradient), (other, expected) = here.gradient(parts), there.gradient(parts)
    assert value == pytest.approx(other, rel=near["rtol"] / 10)
    scales = there.scales(there.to_device(parts)).to_numpy()
    for got, wanted in ((gradient, expected), (scales, here.scales(parts))):
        for name in ("row_factors", "column_factors", "row_intercepts", "column_intercepts"):
            np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), **near)


def test_unknowns_of_a_device_stay_there():
    objective = Objective(
        Observations.from_matrix(A),
        Logistic(),
        pu(0.0),
        intercept=True,
        arithmetic=Arithmetic(device="cuda"),
    )
    from tribit.model.factors import Factors

    start = Factors.of(np.ones((90, 2)), np.ones((70, 2)))
    _, gradient = objective.gradient(objective.to_device(start))
    assert not isinstance(gradient.row_factors, np.ndarray)
    _, same = objective.gradient(start)
    np.testing.assert_array_equal(gradient.to_numpy().row_factors, same.row_factors)
