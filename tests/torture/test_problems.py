"""Random problems: the objective by an independent formula, and what ``converged_`` promises."""

import warnings

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm

from tribit import BinaryMatrixCompletion, Logistic, Probit

#: A fit that says it converged may still fall by this many times ``tol``, relative to the size of the objective.
SLACK = 10
#: The rate at which gains shrink is an estimate, and a plateau of a problem that is not convex may look like its end.
MISTAKEN = 0.03


def problem(seed):
    """Return a table and settings: links of scales from 1e-3 to 100, risks, ranks, ridges, balls, solvers, dtypes."""
    draws = np.random.default_rng(seed)
    d1, d2 = (int(size) for size in draws.integers(3, 50, 2))
    seen = draws.random((d1, d2)) < draws.uniform(0.1, 0.9)
    A = np.where(draws.random((d1, d2)) < draws.uniform(0.2, 0.8), 1, -1)
    if draws.random() < 0.6:
        k = int(draws.integers(1, 4))
        X = draws.normal(size=(d1, k)) @ draws.normal(size=(k, d2))
        A = np.where(X + 0.5 * draws.normal(size=X.shape) > 0, 1, -1)
    A = np.where(seen, A, 0)
    A[0, 0], A[-1, -1] = 1, -1
    scale = float(10 ** draws.uniform(-3, 2))
    steep = draws.random() < 0.6
    link = Logistic(scale) if steep else Probit(1 / scale)
    gammas = [(1, 0, 0), (1, 0, 0), (0.8, 0.1, 0.1), (0, 0.5, 0.5), (0.5, 0.5, 0)][
        draws.integers(5)
    ]
    settings = {
        "gammas": gammas,
        "link": link,
        "rank": int(draws.integers(1, min(d1, d2, 5) + 1)),
        # In units of the curvature, so that it means the same at every scale.
        "l2": float(10 ** draws.uniform(-2, 1.5)) * scale**2,
        "l2_intercept": None,
        "radius": None,
        "intercept": bool(draws.random() < 0.6),
        "solver": str(draws.choice(["newton", "newton", "lbfgs", "projected_gradient"])),
        "dtype": str(draws.choice(["float32", "float64"])),
        "search": False,
        "random_state": 0,
        "n_jobs": 1,
    }
    if gammas != (1, 0, 0):
        settings["radius"] = float(10 ** draws.uniform(-1, 0.7)) / scale
        if settings["solver"] == "lbfgs":
            settings["solver"] = "newton"
    elif settings["solver"] == "lbfgs" and draws.random() < 0.5:
        settings |= {"implicit_features": True, "l2_implicit": 2 * settings["l2"]}
    return A, settings


def fitted(A, settings, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BinaryMatrixCompletion(**{**settings, **changes}).fit(A)


def losses(link, x):
    """``l(x, +1)`` and ``l(x, -1)``, not by the library."""
    if isinstance(link, Logistic):
        return np.logaddexp(0, -link.scale * x), np.logaddexp(0, link.scale * x)
    return -log_ndtr(x / link.sigma), -log_ndtr(-x / link.sigma)


def risk_at(A, settings, x):
    """The plain table of the paper: PN, PU and NU of every entry, summed."""
    pn, pu, nu = settings["gammas"]
    q = np.count_nonzero(A) / A.size
    rho = 1 - q
    like, dislike = losses(settings["link"], x.astype(np.float64))
    PN = np.where(A > 0, like, np.where(A < 0, dislike, 0))
    PU = np.where(A > 0, like / q - rho / q * dislike, dislike)
    NU = np.where(A < 0, dislike / q - rho / q * like, like)
    return float(np.sum(pn * PN + pu * PU + nu * NU))


def test_the_objective_is_that_of_the_plain_formula(cases):
    for seed in cases(1000):
        A, settings = problem(seed)
        model = fitted(A, settings, max_iter=5)
        U, V = (F.astype(np.float64) for F in (model.row_factors_, model.column_factors_))
        a, c = model.row_intercepts_, model.column_intercepts_
        x = U @ V.T + model.intercept_ + a[:, None].astype(float) + c[None, :].astype(float)
        rows, columns = np.indices(A.shape).reshape(2, -1)
        found = model.decision_function(rows, columns).reshape(A.shape)
        np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-4 * np.abs(x).max())
        if model.implicit_features_:
            continue  # the ridge is on parts that the model does not keep
        ridge = (
            settings["l2"] / 2 * sum(float(np.sum(np.square(F, dtype=float))) for F in (U, V, a, c))
        )
        risk = risk_at(A, settings, x)
        size = abs(risk) + ridge + A.size
        assert abs(model.objective_ - risk - ridge) <= 1e-6 * size, seed
        if settings["radius"] is not None:
            longest = max(float(np.max(np.sum(F**2, axis=1))) for F in (U, V))
            assert longest <= settings["radius"] * (1 + 1e-5), seed


@pytest.mark.slow
def test_what_has_converged_falls_no_further(cases):
    """From the same start with a far smaller tol and many more iterations."""
    wrong, told = [], 0
    for seed in cases(400):
        A, settings = problem(seed)
        model = fitted(A, settings)
        assert np.isfinite(model.objective_)
        if not model.converged_:
            continue
        told += 1
        most = 2000 if settings["solver"] == "newton" else 10_000
        longer = fitted(A, settings, tol=1e-9, max_iter=most, dtype="float64")
        entries = np.count_nonzero(A) if settings["gammas"] == (1, 0, 0) else A.size
        size = max(abs(model.objective_), entries * np.log(2))
        left = (model.objective_ - longer.objective_) / (model.tol * size)
        if left > SLACK:
            wrong.append((seed, round(left, 1)))
    assert told > 0.9 * len(cases(400))
    assert len(wrong) <= max(1, MISTAKEN * told), wrong


@pytest.mark.parametrize("scale", [1e-4, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize(
    ("solver", "rank"),
    [
        ("newton", 2),  # it moves factors, and has nothing to do without any
        *((solver, rank) for solver in ("lbfgs", "projected_gradient") for rank in (0, 2)),
    ],
)
def test_the_unit_of_x_does_not_decide_when_a_fit_has_converged(scale, solver, rank):
    """Likes alone, where the least value is near 0: a step that is short in X is no sign of an end."""
    A = (np.random.default_rng(0).random((10, 12)) < 0.68).astype(int)
    model = BinaryMatrixCompletion(
        (1, 0, 0),
        search=False,
        link=Logistic(scale),
        rank=rank,
        l2=0.0,
        solver=solver,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(A, zeros="unobserved")
    assert not model.converged_ or model.objective_ < 1e-2 * np.count_nonzero(A)


@pytest.mark.parametrize("l2", [1.0, 1e3, 1e5])
def test_one_stiff_part_does_not_hide_what_others_could_gain(l2):
    """A large ridge on the factors makes every plain gradient step short, also those of the intercepts."""
    draws = np.random.default_rng(0)
    A = np.where(draws.random((40, 30)) < 0.4, draws.choice([-1, 1], (40, 30), p=[0.3, 0.7]), 0)
    settings = {
        "rank": 2,
        "l2": l2,
        "l2_intercept": 1.0,
        "search": False,
        "random_state": 0,
    }
    least = fitted(A, settings, solver="newton").objective_
    model = fitted(A, settings, solver="projected_gradient")
    assert not model.converged_ or model.objective_ < least * (1 + SLACK * model.tol)


def test_the_reference_losses_are_those_of_the_distributions():
    x = np.linspace(-5, 5, 11)
    np.testing.assert_allclose(losses(Probit(2.0), x)[0], -norm.logcdf(x / 2))
    np.testing.assert_allclose(losses(Logistic(2.0), x)[1], -np.log(1 / (1 + np.exp(2 * x))))
