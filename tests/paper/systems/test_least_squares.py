import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tribit.data.measurements import Measurements
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.factors import Factors
from tribit.paper.systems import base, least_squares
from tribit.paper.systems.least_squares import (
    AlternatingLeastSquares,
    MaxNormLeastSquares,
    SquaredErrors,
    leading_factors,
)

BOTH = [AlternatingLeastSquares, MaxNormLeastSquares]


def low_rank(shape=(40, 30), rank=3, share=0.6, seed=0):
    draws = np.random.default_rng(seed)
    M = draws.standard_normal((shape[0], rank)) @ draws.standard_normal((rank, shape[1]))
    return M, np.where(draws.random(shape) < share, M, np.nan)


def penalised(model, A, l2):
    U, V = model.row_factors_, model.column_factors_
    return np.nansum((A - U @ V.T) ** 2) + l2 * (np.sum(U**2) + np.sum(V**2))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_alternating_recovers_low_rank_exactly(seed):
    # Jain, Netrapalli and Sanghavi (2013): from enough entries, at a geometric rate.
    M, A = low_rank(seed=seed)
    model = AlternatingLeastSquares(3, l2=0, tol=1e-16, max_iter=1000).fit(A)
    error = np.linalg.norm(model.complete("score") - M) / np.linalg.norm(M)
    assert error < 1e-6
    assert model.converged_


@pytest.mark.parametrize("l2", [0.0, 0.1, 5.0])
def test_alternating_never_raises_the_objective(l2):
    _, A = low_rank(share=0.3)
    A += np.random.default_rng(1).standard_normal(A.shape)
    model = AlternatingLeastSquares(5, l2=l2, tol=1e-7, max_iter=3000, random_state=0).fit(A)
    seen = [step.objective for step in model.history_]
    assert len(seen) > 5
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(seen))
    assert model.objective_ == pytest.approx(penalised(model, A, l2))


def test_alternating_rows_solve_their_own_problems():
    _, A = low_rank(shape=(9, 7))
    model = AlternatingLeastSquares(2, l2=0.5, tol=1e-14, max_iter=5000, random_state=0).fit(A)
    V = model.column_factors_
    for i, u in enumerate(model.row_factors_):
        seen = ~np.isnan(A[i])
        H = V[seen].T @ V[seen] + 0.5 * np.eye(2)
        assert u == pytest.approx(np.linalg.solve(H, V[seen].T @ A[i, seen]), abs=1e-5)


def test_alternating_with_full_rank_is_convex():
    # min over factors of |.|^2 + l2 (|U|^2 + |V|^2) = min over X of |.|^2 + 2 l2 |X|_*
    _, A = low_rank(shape=(6, 5), rank=2, seed=3)
    seen, known = ~np.isnan(A), np.nan_to_num(A)
    X = cp.Variable(A.shape)
    loss = cp.sum_squares(cp.multiply(seen, X - known)) + 2 * 0.3 * cp.normNuc(X)
    problem = cp.Problem(cp.Minimize(loss))
    problem.solve(solver=cp.CLARABEL)
    model = AlternatingLeastSquares(5, l2=0.3, tol=1e-9, max_iter=5000, random_state=0).fit(A)
    assert model.objective_ == pytest.approx(problem.value, rel=1e-4)
    assert model.complete("score") == pytest.approx(X.value, abs=1e-2)


@pytest.mark.parametrize("l2", [0.0, 1.0])
def test_alternating_with_too_few_entries_stays_finite(l2):
    A = np.full((6, 5), np.nan)
    A[0, 0], A[1, 1], A[2, :] = 2.0, -1.0, 0.5
    model = AlternatingLeastSquares(3, l2=l2, max_iter=500, random_state=0).fit(A)
    assert np.all(np.isfinite(model.complete("score")))
    assert not model.row_factors_[3:].any()
    if l2 == 0:
        assert model.decision_function([0, 1, 2], [0, 1, 3]) == pytest.approx([2, -1, 0.5], rel=0.1)


def test_alternating_batches_change_nothing(monkeypatch):
    _, A = low_rank()
    whole = AlternatingLeastSquares(3, max_iter=500, random_state=0).fit(A).complete("score")
    monkeypatch.setattr(least_squares, "BATCH_NUMBERS", 50)
    monkeypatch.setattr(base, "GATHERED_NUMBERS", 21)
    pieces = AlternatingLeastSquares(3, max_iter=500, random_state=0).fit(A).complete("score")
    assert pieces == pytest.approx(whole, rel=1e-8, abs=1e-10)


def test_start_is_the_leading_part_of_the_rescaled_entries():
    _, A = low_rank()
    measured = Measurements.from_matrix(A)
    left, right = leading_factors(measured, 4, np.random.default_rng(0))
    whole = np.nan_to_num(A) / np.mean(~np.isnan(A))
    a, values, b = np.linalg.svd(whole, full_matrices=False)
    assert left @ right.T == pytest.approx((a[:, :4] * values[:4]) @ b[:4], abs=1e-8)
    left, right = leading_factors(measured, 30, np.random.default_rng(0))
    assert left @ right.T == pytest.approx(whole, abs=1e-8)


@pytest.mark.parametrize(("radius", "alpha"), [(1.5, 1.0), (1.5, None), (1.5, 2.0), (3.0, 0.7)])
def test_max_norm_equals_a_convex_solver(radius, alpha):
    _, A = low_rank(shape=(6, 8), rank=2)
    seen, known = ~np.isnan(A), np.nan_to_num(A)
    X, Z = cp.Variable(A.shape), cp.Variable((14, 14), PSD=True)
    conditions = [Z[:6, 6:] == X, cp.diag(Z) <= radius]
    if alpha is not None:
        conditions.append(cp.abs(X) <= alpha)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(seen, X - known))), conditions)
    problem.solve(solver=cp.CLARABEL)
    model = MaxNormLeastSquares(radius, alpha=alpha, rank=14, tol=1e-4, random_state=0).fit(A)
    assert model.objective_ == pytest.approx(problem.value, rel=1e-3)
    assert model.converged_
    assert np.max(np.abs(model.complete("score"))) <= (alpha or radius)
    for side in (model.row_factors_, model.column_factors_):
        assert np.max(np.sum(side**2, axis=1)) <= radius


def test_max_norm_error_in_the_weighted_norm_falls_with_more_entries():
    # Cai and Zhou (2016): under unequal sampling the error is judged where entries are measured.
    draws = np.random.default_rng(0)
    M = np.sign(draws.standard_normal((60, 1))) * draws.uniform(-1, 1, 50)
    weights = np.outer(np.linspace(0.2, 1.8, 60), np.linspace(0.2, 1.8, 50))
    noisy = M + 0.5 * draws.standard_normal(M.shape)
    errors = []
    for share in (0.05, 0.3):
        A = np.where(draws.random(M.shape) < share * weights, noisy, np.nan)
        X = MaxNormLeastSquares(1.0, alpha=1.0, random_state=0).fit(A).complete("score")
        errors.append(np.sum(weights * (X - M) ** 2) / np.sum(weights))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.1


def test_gradient_of_the_squared_loss():
    _, A = low_rank(shape=(5, 4), rank=2)
    loss = SquaredErrors(Measurements.from_matrix(A))
    draws = np.random.default_rng(0)
    U, V = draws.standard_normal((5, 2)), draws.standard_normal((4, 2))
    value, gradient = loss.gradient(Factors.of(U, V))
    assert value == pytest.approx(np.nansum((A - U @ V.T) ** 2))
    assert loss.value(Factors.of(U, V)) == pytest.approx(value)
    for side, given in enumerate((gradient.row_factors, gradient.column_factors)):
        for place in np.ndindex(given.shape):
            ends = []
            for sign in (1, -1):
                pair = [U.copy(), V.copy()]
                pair[side][place] += sign * 1e-5
                ends.append(loss.value(Factors.of(*pair)))
            assert given[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-6)
    assert loss.size == pytest.approx(np.nansum(A**2))


@pytest.mark.parametrize("system", BOTH)
def test_answers_for_likes_and_dislikes(system):
    A = np.sign(low_rank(rank=1)[0])
    A[np.random.default_rng(0).random(A.shape) < 0.3] = 0
    model = system(rank=2, max_iter=500, random_state=0).fit(Observations.from_matrix(A))
    assert model.score(A) > 0.95
    x = model.decision_function([0, 1], [2, 3])
    assert model.predict_proba([0, 1], [2, 3]) == pytest.approx(np.clip((1 + x) / 2, 0.001, 0.999))
    again = clone(model).fit(sp.csr_array(A))
    assert np.array_equal(model.row_factors_, again.row_factors_)


@pytest.mark.parametrize("system", BOTH)
def test_warns_when_stopped_early(system):
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        model = system(rank=2, max_iter=1, tol=1e-12).fit(low_rank()[1])
    assert model.n_iter_ == 1
    assert not model.converged_


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (AlternatingLeastSquares(0), InvalidInputError, "rank must be from 1 to 30"),
        (AlternatingLeastSquares(31), InvalidInputError, "rank must be from 1 to 30"),
        (AlternatingLeastSquares(True), InvalidTypeError, "rank must be a whole number"),
        (AlternatingLeastSquares(2, l2=-1), InvalidInputError, "l2 must be"),
        (AlternatingLeastSquares(2, max_iter=0), InvalidInputError, "max_iter must be"),
        (MaxNormLeastSquares(0), InvalidInputError, "radius must be a positive"),
        (MaxNormLeastSquares(1, alpha=-1), InvalidInputError, "alpha must be a positive"),
        (MaxNormLeastSquares(1, rank=71), InvalidInputError, "rank must be from 1 to 70"),
        (MaxNormLeastSquares(1, tol=-1), InvalidInputError, "tol must be"),
    ],
)
def test_bad_input(model, error, message):
    with pytest.raises(error, match=message) as raised:
        model.fit(low_rank()[1])
    assert str(raised.value).count(". ") == 0


@pytest.mark.parametrize("rank", [2, 5, 20])
def test_measured_zeros_are_no_failure(rank):
    seen = np.random.default_rng(0).random((30, 20)) < 0.4
    zeros = Measurements.from_matrix(np.where(seen, 0.0, np.nan))
    left, right = leading_factors(zeros, rank, np.random.default_rng(0))
    np.testing.assert_array_equal(left, np.zeros((30, rank)))
    np.testing.assert_array_equal(right, np.zeros((20, rank)))
    model = AlternatingLeastSquares(rank, random_state=0).fit(zeros)
    np.testing.assert_array_equal(model.complete("score"), np.zeros((30, 20)))
    assert model.converged_
    model = MaxNormLeastSquares(1.0, random_state=0).fit(zeros)
    np.testing.assert_array_equal(model.complete("score"), np.zeros((30, 20)))
    assert model.converged_
