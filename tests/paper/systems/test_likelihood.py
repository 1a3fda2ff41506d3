import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError, TribitError
from tribit.model.links import Logistic, Probit
from tribit.paper.systems.likelihood import MaxNormLikelihood, TraceNormLikelihood

BOTH = [MaxNormLikelihood, TraceNormLikelihood]
SHAPE = (6, 7)


def signs(shape=SHAPE, seed=0, share=0.7, rank=2):
    draws = np.random.default_rng(seed)
    A = np.sign(draws.standard_normal((shape[0], rank)) @ draws.standard_normal((rank, shape[1])))
    return A * (draws.random(shape) < share)


def most_likely(A, scale, alpha, trace=None, largest=None):
    X = cp.Variable(A.shape)
    conditions = [cp.abs(X) <= alpha]
    if trace is not None:
        conditions.append(cp.normNuc(X) <= trace)
    else:
        Z = cp.Variable((sum(A.shape), sum(A.shape)), PSD=True)
        conditions += [Z[: A.shape[0], A.shape[0] :] == X, cp.diag(Z) <= largest]
    loss = cp.sum(cp.multiply(np.abs(A), cp.logistic(-scale * cp.multiply(A, X))))
    problem = cp.Problem(cp.Minimize(loss), conditions)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize(("alpha", "rank"), [(1.0, 1), (0.7, 2), (4.0, 1)])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_trace_norm_equals_a_convex_solver(alpha, rank, scale):
    A = signs()
    model = TraceNormLikelihood(
        alpha, rank=rank, n_columns=13, link=Logistic(scale), tol=1e-4, random_state=0
    ).fit(A)
    radius = alpha * np.sqrt(rank * 42)
    assert model.radius_ == pytest.approx(radius)
    lowest = most_likely(A, scale, alpha, trace=radius)
    # tol is a share of the likelihood at 0, about 20
    assert model.objective_ == pytest.approx(lowest, rel=1e-3, abs=1e-3)
    X = model.complete("score")
    assert np.max(np.abs(X)) <= alpha
    assert np.linalg.norm(X, "nuc") <= radius


@pytest.mark.parametrize(("alpha", "radius"), [(1.0, 1.3), (0.7, None), (4.0, 1.5), (1.0, 1.0)])
def test_max_norm_equals_a_convex_solver(alpha, radius):
    A = signs(seed=1)
    model = MaxNormLikelihood(
        alpha, radius=radius, rank=3, n_columns=13, tol=1e-4, random_state=0
    ).fit(A)
    largest = alpha * np.sqrt(3) if radius is None else radius
    assert model.radius_ == pytest.approx(largest)
    assert model.objective_ == pytest.approx(most_likely(A, 1.0, alpha, largest=largest), rel=1e-3)
    assert np.max(np.abs(model.complete("score"))) <= alpha
    for side in (model.row_factors_, model.column_factors_):
        assert np.max(np.sum(side**2, axis=1)) <= largest


@pytest.mark.parametrize("system", BOTH)
def test_recovers_probabilities_of_low_rank(system):
    # Davenport et al. (2014): the error vanishes as the share of observed entries grows.
    draws = np.random.default_rng(0)
    M = draws.uniform(-1, 1, (80, 1)) @ draws.uniform(-1, 1, (1, 60)) * 2
    M = np.clip(M, -1, 1)
    link = Probit(0.3)
    Y = np.where(draws.random(M.shape) < link.probability(M), 1, -1)
    errors = []
    for share in (0.1, 0.9):
        A = Y * (np.random.default_rng(1).random(M.shape) < share)
        model = system(1.0, rank=1, link=link, random_state=0).fit(A)
        assert model.converged_
        X = model.complete("score")
        errors.append(np.sum((X - M) ** 2) / np.sum(M**2))
    assert errors[1] < 0.25
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("system", BOTH)
def test_answers(system):
    A = signs()
    observations = Observations.from_matrix(A)
    model = system(1.0, random_state=0).fit(observations)
    assert model.row_factors_.shape == (6, 7)
    assert model.score(A) > 0.8
    assert not model.row_intercepts_.any()
    assert model.intercept_ == 0
    again = clone(model).fit(A)
    assert np.array_equal(model.complete(), again.complete())
    rated = system(1.0, random_state=0, like_at=4).fit(np.where(A > 0, 5, np.where(A < 0, 1, 0)))
    assert np.array_equal(model.complete(), rated.complete())
    x = model.decision_function(observations.rows, observations.columns)
    loss = np.sum(np.logaddexp(0, -observations.labels * x))
    assert model.objective_ == pytest.approx(loss)


@pytest.mark.parametrize("system", BOTH)
def test_warns_when_stopped_early(system):
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        model = system(1.0, max_iter=2, random_state=0).fit(signs())
    assert model.n_iter_ == 2
    assert not model.converged_
    assert np.max(np.abs(model.complete("score"))) <= 1


@pytest.mark.parametrize("system", BOTH)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0}, InvalidInputError, "alpha must be a positive"),
        ({"alpha": "1"}, InvalidInputError, "alpha must be a positive"),
        ({"rank": 7}, InvalidInputError, "rank must be from 1 to 6"),
        ({"rank": 1.5}, InvalidTypeError, "rank must be a whole number"),
        ({"n_columns": 0}, InvalidInputError, "n_columns must be from 1 to 13"),
        ({"n_columns": 14}, InvalidInputError, "n_columns must be from 1 to 13"),
        ({"link": "cauchy"}, InvalidInputError, "link must be one of"),
        ({"max_iter": 0}, InvalidInputError, "max_iter"),
        ({"tol": -1.0}, InvalidInputError, "tol"),
    ],
)
def test_bad_input(system, options, error, message):
    with pytest.raises(error, match=message) as raised:
        system(**options).fit(signs())
    assert isinstance(raised.value, TribitError)
    assert str(raised.value).count(". ") == 0


def test_bad_radius():
    with pytest.raises(InvalidInputError, match="radius must be a positive"):
        MaxNormLikelihood(radius=-1).fit(signs())
