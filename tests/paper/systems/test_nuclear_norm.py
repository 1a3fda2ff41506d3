import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tribit.data.measurements import Measurements
from tribit.data.observations import Observations
from tribit.errors import TribitError
from tribit.paper.systems.nuclear_norm import NuclearNormCompletion, shrink_singular_values

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def low_rank(shape, rank, seed=0):
    draws = np.random.default_rng(seed)
    return draws.standard_normal((shape[0], rank)) @ draws.standard_normal((rank, shape[1]))


def masked(M, share, seed=0):
    return np.where(np.random.default_rng(seed).random(M.shape) < share, M, np.nan)


def least_norm(A, budget):
    """The minimum by an independent convex solver."""
    X = cp.Variable(A.shape)
    seen = np.nonzero(~np.isnan(A))
    errors = X[seen] - A[seen]
    problem = cp.Problem(
        cp.Minimize(cp.normNuc(X)), [errors == 0 if budget == 0 else cp.norm(errors) <= budget]
    )
    return problem.solve(solver=cp.CLARABEL), X.value


@pytest.mark.parametrize("shape", [(7, 5), (5, 8)])
@pytest.mark.parametrize("budget", [0.0, 0.5, 2.0])
def test_equals_an_independent_solver(shape, budget):
    A = masked(low_rank(shape, 2), 0.75)
    least, X = least_norm(A, budget)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = NuclearNormCompletion(budget, tol=1e-8, max_iter=5000).fit(A)
    assert model.objective_ == pytest.approx(least, rel=1e-6)
    np.testing.assert_allclose(model.complete("score"), X, atol=2e-3)
    assert model.residual_ == pytest.approx(budget, abs=1e-6)
    assert model.objective_ - model.gap_ <= least * (1 + 1e-7)
    assert abs(model.gap_) <= 1e-5 * least


@pytest.mark.parametrize("budget", [0.0, 1.0])
@pytest.mark.parametrize("max_iter", [1, 5, 20])
def test_the_gap_is_a_certificate_before_the_end(budget, max_iter):
    A = masked(low_rank((8, 6), 3), 0.7)
    least, _ = least_norm(A, budget)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = NuclearNormCompletion(budget, max_iter=max_iter, tol=1e-12).fit(A)
    assert not model.converged_
    assert model.n_iter_ == max_iter
    assert model.objective_ - model.gap_ <= least * (1 + 1e-7)
    if max_iter == 20:
        assert model.objective_ - model.gap_ >= 0.5 * least


def test_recovers_a_matrix_of_low_rank_exactly():
    # Candès and Recht (2009): 200 x 200 of rank 5 from 40% of its entries.
    M = low_rank((200, 200), 5)
    model = NuclearNormCompletion(tol=1e-6).fit(masked(M, 0.4))
    # Each is an eigenvalue decomposition; 68 are enough.
    assert model.n_iter_ <= 120
    assert model.row_factors_.shape == (200, 5)
    assert np.linalg.norm(model.complete("score") - M) <= 1e-5 * np.linalg.norm(M)
    assert model.objective_ == pytest.approx(np.sum(np.linalg.svd(M)[1]), rel=1e-5)


@pytest.mark.parametrize("sigma", [0.01, 0.3])
def test_the_error_with_noise_is_within_the_published_bound(sigma):
    M = low_rank((60, 80), 2)
    noise = sigma * np.random.default_rng(1).standard_normal(M.shape)
    A = masked(M + noise, 0.5)
    seen = ~np.isnan(A)
    p, budget = np.mean(seen), np.linalg.norm(noise[seen])
    model = NuclearNormCompletion(budget).fit(A)
    error = np.linalg.norm(model.complete("score") - M)
    assert error <= 4 * np.sqrt((2 + p) * 60 / p) * budget + 2 * budget
    # What they saw in practice is far better; it falls with the noise.
    assert error <= 3 * budget


def test_a_larger_budget_has_a_smaller_norm():
    A = masked(low_rank((30, 20), 3), 0.5)
    shares = (0.0, 0.2, 0.5, 0.9)
    models = [NuclearNormCompletion(budget_share=share).fit(A) for share in shares]
    assert np.all(np.diff([model.objective_ for model in models]) < 0)
    norm = np.sqrt(np.nansum(A**2))
    for model, share in zip(models, shares, strict=True):
        assert model.budget_ == pytest.approx(share * norm)
        assert model.residual_ == pytest.approx(share * norm, abs=1e-4 * norm)


@pytest.mark.parametrize("options", [{"budget": 5.0}, {"budget": 99.0}, {"budget_share": 1.0}])
def test_a_budget_that_covers_everything_gives_zero(options):
    A = np.array([[3.0, np.nan], [np.nan, -4.0]])
    model = NuclearNormCompletion(**options).fit(A)
    assert model.objective_ == model.gap_ == 0.0
    assert model.residual_ == pytest.approx(5.0)
    np.testing.assert_array_equal(model.complete("score"), np.zeros((2, 2)))


def test_measured_zeros():
    zeros = Measurements([0, 1], [0, 1], [0.0, 0.0], (2, 3))
    model = NuclearNormCompletion().fit(zeros)
    np.testing.assert_array_equal(model.complete("score"), np.zeros((2, 3)))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scale_carries_over(scale):
    A = masked(low_rank((12, 9), 2), 0.7)
    X = NuclearNormCompletion(0.3).fit(A).complete("score")
    scaled = NuclearNormCompletion(0.3 * scale).fit(scale * A).complete("score")
    np.testing.assert_allclose(scaled / scale, X, rtol=1e-6, atol=1e-8)


def test_transposed():
    A = masked(low_rank((12, 9), 2), 0.7)
    X = NuclearNormCompletion(0.3).fit(A).complete("score")
    np.testing.assert_allclose(
        NuclearNormCompletion(0.3).fit(A.T).complete("score").T, X, atol=1e-8
    )


def test_likes_with_ids():
    labels = np.sign(low_rank((30, 25), 1))
    rows, columns = np.nonzero(np.random.default_rng(0).random(labels.shape) < 0.5)
    seen = Observations.from_pairs(
        rows,
        columns,
        labels[rows, columns],
        shape=labels.shape,
        row_ids=[f"u{i}" for i in range(30)],
    )
    model = NuclearNormCompletion(budget_share=0.3).fit(seen)
    np.testing.assert_array_equal(model.complete("sign"), labels)
    x = model.decision_function(["u3"], [4])
    assert model.predict_proba(["u3"], [4]) == pytest.approx(np.clip((1 + x) / 2, 0.001, 0.999))
    assert model.score(seen) == 1.0


def test_same_bits_and_clone():
    A = masked(low_rank((70, 90), 3), 0.4)
    first, second = (clone(NuclearNormCompletion(1.0)).fit(A) for _ in range(2))
    np.testing.assert_array_equal(first.row_factors_, second.row_factors_)
    np.testing.assert_array_equal(first.column_factors_, second.column_factors_)


@pytest.mark.parametrize(
    "options",
    [
        {"budget": -1.0},
        {"budget": np.nan},
        {"budget": np.inf},
        {"budget": "much"},
        {"budget_share": -0.1},
        {"budget_share": 1.1},
        {"budget_share": np.nan},
        {"budget": 1.0, "budget_share": 0.5},
        {"tol": np.nan},
        {"max_iter": 0},
    ],
    ids=str,
)
def test_bad_options_get_one_sentence(options):
    with pytest.raises(TribitError) as caught:
        NuclearNormCompletion(**options).fit(np.array([[1.5, np.nan], [0.5, 1.0]]))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert "budget" in str(caught.value) or not options.keys() & {"budget", "budget_share"}


def test_too_large_to_be_dense():
    huge = Measurements([0], [0], [1.0], (10**5, 10**4))
    with pytest.raises(TribitError, match="100000 x 10000 entries"):
        NuclearNormCompletion().fit(huge)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
@pytest.mark.parametrize("threshold", [1e-3, 1.0, 3.0, 100.0])
def test_shrinking_singular_values(shape, threshold):
    W = np.random.default_rng(0).standard_normal(shape)
    left, sizes, right = np.linalg.svd(W, full_matrices=False)
    U, V = shrink_singular_values(W, threshold)
    kept = np.maximum(sizes - threshold, 0.0)
    np.testing.assert_allclose(U @ V.T, (left * kept) @ right, atol=1e-10)
    assert U.shape[1] == np.count_nonzero(kept)
    # The factors share the singular values, largest first.
    np.testing.assert_allclose(np.sum(U**2, axis=0), kept[kept > 0], rtol=1e-8)
    np.testing.assert_allclose(np.sum(V**2, axis=0), kept[kept > 0], rtol=1e-8)
