import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from tribit.data.measurements import Measurements
from tribit.data.observations import Observations
from tribit.errors import TribitError
from tribit.evaluation import evaluate
from tribit.paper.systems.singular_values import UniversalSingularValueThresholding, triplets_above

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def by_the_book(A, eta, low, high):
    """The estimator as published, from a full decomposition; NaN is unobserved."""
    middle, half = (low + high) / 2, (high - low) / 2
    Y = np.nan_to_num((A - middle) / half)
    p = np.mean(~np.isnan(A))
    left, sizes, right = np.linalg.svd(Y, full_matrices=False)
    kept = sizes >= (2 + eta) * np.sqrt(max(A.shape) * p)
    W = (left[:, kept] * sizes[kept]) @ right[kept] / p
    return middle + half * np.clip(W, -1, 1), int(kept.sum())


def means(shape, rank, seed=0):
    """A matrix of low rank with entries within [-1, 1]."""
    draws = np.random.default_rng(seed)
    U, V = (np.where(draws.random((n, rank)) < 0.5, 1.0, -1.0) for n in shape)
    return U @ np.diag(0.9 * np.arange(rank, 0, -1) / sum(range(rank + 1))) @ V.T


def labels_of(M, share, seed=1):
    draws = np.random.default_rng(seed)
    labels = np.where(draws.random(M.shape) < (1 + M) / 2, 1.0, -1.0)
    return np.where(draws.random(M.shape) < share, labels, np.nan)


@pytest.mark.parametrize("shape", [(40, 60), (90, 70), (300, 200)])
@pytest.mark.parametrize("eta", [0.01, 0.2])
def test_equals_the_published_formula(shape, eta):
    A = labels_of(means(shape, 2), 0.8)
    model = UniversalSingularValueThresholding(eta).fit(A)
    expected, rank = by_the_book(A, eta, -1, 1)
    assert model.row_factors_.shape[1] == model.singular_values_.size == rank > 0
    np.testing.assert_allclose(model.complete("score"), expected, atol=1e-9)
    p = np.mean(~np.isnan(A))
    assert model.threshold_ == pytest.approx((2 + eta) * np.sqrt(max(shape) * p))


def test_bounds_are_scaled_to_minus_one_and_one():
    stars = np.round(3 + 2 * means((80, 50), 1))
    stars[np.random.default_rng(0).random(stars.shape) < 0.3] = np.nan
    model = UniversalSingularValueThresholding(bounds=(0.0, 5.0)).fit(stars)
    expected, rank = by_the_book(stars, 0.01, 0.0, 5.0)
    assert rank >= 1
    assert model.intercept_ == 2.5
    np.testing.assert_allclose(model.complete("score"), expected, atol=1e-9)
    x = model.decision_function([3], [4])
    assert model.predict_proba([3], [4]) == pytest.approx(np.clip(x / 5, 0.001, 0.999))
    assert UniversalSingularValueThresholding().fit(stars).bounds_ == (1.0, 5.0)
    assert UniversalSingularValueThresholding().fit(stars / 5).bounds_ == (-1.0, 1.0)


def test_every_answer_is_clipped():
    likes = np.outer(np.repeat([1, -1], 30), np.repeat([1, -1, 1], 20)).astype(float)
    A = np.where(np.random.default_rng(0).random(likes.shape) < 0.5, likes, np.nan)
    model = UniversalSingularValueThresholding().fit(A)
    raw = model.row_factors_ @ model.column_factors_.T
    assert np.abs(raw).max() > 1.05
    completed = model.complete("score")
    assert np.abs(completed).max() == 1.0
    rows, columns = np.indices(A.shape).reshape(2, -1)
    np.testing.assert_allclose(
        model.decision_function(rows, columns), completed.ravel(), rtol=1e-12
    )
    np.testing.assert_allclose(model.complete(), np.clip((1 + completed) / 2, 0.001, 0.999))
    np.testing.assert_array_equal(model.complete("sign"), likes)


def test_the_error_falls_as_the_matrix_grows():
    # Chatterjee (2015): at rank r and share p the mean squared error falls like sqrt(r / (n p)) or faster.
    sizes, errors = (50, 200, 800), []
    for size in sizes:
        M = means((size, size), 2)
        model = UniversalSingularValueThresholding().fit(labels_of(M, 0.5))
        errors.append(np.mean((model.complete("score") - M) ** 2) / np.mean(M**2))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.5 * errors[0]


def test_noise_alone_is_left_out():
    A = labels_of(np.zeros((200, 300)), 0.3)
    model = UniversalSingularValueThresholding().fit(A)
    assert model.singular_values_.size == 0
    np.testing.assert_array_equal(model.complete("score"), np.zeros((200, 300)))


def test_values_at_the_middle_of_the_bounds():
    model = UniversalSingularValueThresholding(bounds=(1.0, 5.0)).fit(
        Measurements([0, 1], [1, 2], [3.0, 3.0], (2, 3))
    )
    np.testing.assert_array_equal(model.complete("score"), np.full((2, 3), 3.0))


def test_only_likes():
    likes = Observations.from_matrix(np.ones((30, 40), dtype=int))
    model = UniversalSingularValueThresholding().fit(likes)
    np.testing.assert_allclose(model.complete("score"), 1.0)
    assert evaluate(model, likes).error_rate == 0.0


def test_as_many_triplets_as_reach_the_threshold():
    draws = np.random.default_rng(0)
    left, right = (np.linalg.qr(draws.standard_normal((n, 40)))[0] for n in (150, 120))
    sizes = np.concatenate([np.linspace(9.0, 5.0, 30), np.linspace(3.0, 1.0, 10)])
    matrix = sp.csr_array((left * sizes) @ right.T)
    found = triplets_above(matrix, 4.0)
    np.testing.assert_allclose(found[1], sizes[:30])
    np.testing.assert_allclose(
        (found[0] * found[1]) @ found[2].T, (left[:, :30] * sizes[:30]) @ right[:, :30].T, atol=1e-9
    )
    assert triplets_above(matrix, 10.0)[1].size == 0
    assert triplets_above(matrix, 1000.0)[0].shape == (150, 0)


def test_large_and_sparse():
    draws = np.random.default_rng(0)
    places = draws.choice(10**8, 50000, replace=False)
    seen = Observations.from_pairs(
        places // 10**4, places % 10**4, np.ones(50000, dtype=int), shape=(10**4, 10**4)
    )
    model = UniversalSingularValueThresholding(0.4).fit(seen)
    assert np.isfinite(model.decision_function(seen.rows, seen.columns)).all()


def test_same_bits_and_clone():
    A = labels_of(means((150, 120), 2), 0.5)
    first, second = (clone(UniversalSingularValueThresholding()).fit(A) for _ in range(2))
    np.testing.assert_array_equal(first.row_factors_, second.row_factors_)
    np.testing.assert_array_equal(first.column_factors_, second.column_factors_)


def test_ids():
    seen = Observations.from_pairs([0, 1], [0, 1], [1, -1], row_ids=["a", "b"], column_ids=[7, 9])
    model = UniversalSingularValueThresholding().fit(seen)
    assert model.decision_function(["b"], [9]).shape == (1,)


@pytest.mark.parametrize(
    "options",
    [
        {"eta": 0.0},
        {"eta": np.nan},
        {"eta": np.inf},
        {"bounds": (1.0, -1.0)},
        {"bounds": (0.0, np.inf)},
        {"bounds": (np.nan, 1.0)},
        {"bounds": 3.0},
        {"bounds": (0.0, 1.0, 2.0)},
        {"bounds": ("low", "high")},
        {"bounds": (0.6, 9.0)},
        {"bounds": (0.0, 2.0)},
    ],
    ids=str,
)
def test_bad_options_get_one_sentence(options):
    with pytest.raises(TribitError) as caught:
        UniversalSingularValueThresholding(**options).fit(np.array([[0.5, np.nan], [3.0, 1.0]]))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert next(iter(options)) in str(caught.value)


def test_one_repeated_value_gives_no_bounds():
    with pytest.raises(TribitError, match="Every measured value is 4"):
        UniversalSingularValueThresholding().fit(np.array([[4.0, np.nan], [4.0, 4.0]]))
