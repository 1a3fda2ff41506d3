import cvxpy
import numpy as np
import pytest

from reference import differences
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.evaluation import evaluate
from tribit.model.links import Logistic
from tribit.paper.systems import MaximumMarginFactorization
from tribit.paper.systems.maximum_margin import Hinge
from tribit.simulate import low_rank_target, observe, quantise


def drawn(shape=(7, 6), share=0.6, seed=0):
    draws = np.random.default_rng(seed)
    return np.where(draws.random(shape) < 0.6, 1, -1) * (draws.random(shape) < share)


def least(A, l2, smoothing):
    """The convex problem by another solver; a rounded hinge is the least ``h(u) + (u - z)^2 / (2 smoothing)``."""
    X, seen = cvxpy.Variable(A.shape), np.nonzero(A)
    z = cvxpy.multiply(A[seen], X[seen])
    u = cvxpy.Variable(z.shape)
    hinge = cvxpy.sum(cvxpy.pos(1 - (u if smoothing else z)))
    if smoothing:
        hinge += cvxpy.sum_squares(u - z) / (2 * smoothing)
    problem = cvxpy.Problem(cvxpy.Minimize(hinge + l2 * cvxpy.normNuc(X)))
    return problem.solve(solver="CLARABEL")


@pytest.mark.parametrize("smoothing", [1.0, 0.3])
@pytest.mark.parametrize("l2", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_minimum_is_that_of_a_convex_solver(l2, smoothing, seed):
    A = drawn(seed=seed)
    best = least(A, l2, smoothing)
    model = MaximumMarginFactorization(
        l2, rank=6, smoothing=smoothing, tol=1e-10, max_iter=5000, random_state=0
    ).fit(A)
    assert model.converged_
    assert model.objective_ == pytest.approx(best, rel=1e-5)
    U, V = model.row_factors_, model.column_factors_
    trace = np.linalg.norm(U @ V.T, "nuc")
    assert 0.5 * (np.sum(U**2) + np.sum(V**2)) == pytest.approx(trace, rel=1e-4)


def test_little_rounding_comes_near_to_the_hinge():
    A = drawn()
    best = least(A, 0.8, 0.0)
    off = []
    for smoothing in (0.5, 0.1, 0.02):
        model = MaximumMarginFactorization(
            0.8, rank=6, smoothing=smoothing, tol=1e-9, max_iter=5000, random_state=0
        ).fit(A)
        off.append(best - model.objective_)
        assert -1e-4 * best <= off[-1] <= 0.5 * smoothing * np.count_nonzero(A)
    assert off[2] < off[1] < off[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_minimises_the_hinge_itself(seed):
    A = drawn(seed=seed)
    model = MaximumMarginFactorization(0.8, rank=6, random_state=0).fit(A)
    X = model.complete("score")
    hinge = np.maximum(1 - A * X, 0)[A != 0].sum() + 0.8 * np.linalg.norm(X, "nuc")
    assert hinge == pytest.approx(least(A, 0.8, 0.0), rel=3e-3)
    assert [each.iteration for each in model.history_] == list(range(1, model.n_iter_ + 1))
    seconds = [each.seconds for each in model.history_]
    assert seconds == sorted(seconds)


def test_from_the_largest_singular_value_of_the_labels_on_the_answer_is_0():
    A = drawn(seed=2)
    edge = np.linalg.norm(A, 2)
    above, below = (
        MaximumMarginFactorization(l2, rank=4, tol=1e-10, random_state=0).fit(A).complete("score")
        for l2 in (1.01 * edge, 0.9 * edge)
    )
    assert np.abs(above).max() < 1e-2
    assert np.abs(below).max() > 0.1


@pytest.mark.parametrize("smoothing", [1.0, 0.25])
@pytest.mark.parametrize("y", [1, -1])
def test_the_hinge_and_its_slopes(smoothing, y):
    link = Hinge(smoothing)
    x = np.linspace(-3, 3, 41) + 0.013  # off the kinks of the slope
    np.testing.assert_allclose(
        link.first(x, y), differences(lambda t: link.loss(t, y), x, 1e-3), atol=1e-9
    )
    np.testing.assert_allclose(
        link.second(x, y), differences(lambda t: link.first(t, y), x, 1e-3), atol=1e-9
    )
    gap = np.maximum(1 - y * x, 0) - link.loss(x, y)
    assert np.all((gap >= 0) & (gap <= smoothing / 2 + 1e-15))
    assert link.loss(np.array([1.0 * y, 5.0 * y]), y).tolist() == [0.0, 0.0]


def test_signs_of_a_low_rank_matrix_are_found():
    M = low_rank_target((80, 60), 2, alpha=6.0, random_state=0)
    seen = observe(quantise(M, Logistic(), random_state=1), 0.4, random_state=2)
    train, test = seen.split(0.2, random_state=3)
    result = evaluate(MaximumMarginFactorization(5.0, random_state=0).fit(train), test)
    share = np.mean(test.labels > 0)
    assert result.error_rate < 0.8 * min(share, 1 - share)
    assert result.log_loss < np.log(2)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"l2": -1.0}, InvalidInputError, "l2 must be"),
        ({"smoothing": 0.0}, InvalidInputError, "smoothing must be"),
        ({"rank": 9}, InvalidInputError, "rank must be from 1 to 6"),
        ({"rank": 1.5}, InvalidTypeError, "rank must be a whole number"),
    ],
)
def test_bad_parameters(options, error, match):
    with pytest.raises(error, match=match):
        MaximumMarginFactorization(**({"rank": 2} | options)).fit(drawn())
