import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from tribit import InvalidInputError, Observations
from tribit.paper.classification import (
    class_prior,
    label_frequency,
    matrix_class_prior,
    matrix_label_frequency,
    prior_divergences,
)
from tribit.paper.classification import priors as module
from tribit.paper.classification.matrices import entry_features

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def two_samples(seed, prior, n_P=300, n_U=600, shift=2.0):
    draws = np.random.default_rng(seed)
    hidden = np.where(draws.random(n_U) < prior, 1, -1)
    X = shift * np.append(np.ones(n_P), hidden) + draws.normal(size=n_P + n_U)
    return X[:, None], np.repeat([1, 0], [n_P, n_U])


def one_sample(seed, frequency, n=800, shift=3.0):
    draws = np.random.default_rng(seed)
    positive = draws.random(n) < 0.5
    X = draws.normal(size=(n, 2))
    X[:, 0] += shift * np.where(positive, 1, -1)
    return X, (positive & (draws.random(n) < frequency)).astype(int)


@pytest.mark.parametrize("prior", [0.2, 0.5, 0.8])
def test_class_prior_of_two_gaussians(prior):
    found = [class_prior(*two_samples(seed, prior), random_state=0) for seed in range(8)]
    assert np.mean(found) == pytest.approx(prior, abs=0.05)


def test_more_positives_give_a_larger_prior():
    X, y = two_samples(0, 0.2)
    Z, _ = two_samples(0, 0.7)
    assert class_prior(X, y, random_state=0) < class_prior(Z, y, random_state=0) - 0.3


def test_divergence_by_hand_and_against_a_search(monkeypatch):
    # One width, one ridge: nothing to choose, so the curve is the formula.
    monkeypatch.setattr(module, "PRIOR_WIDTHS", (1.0,))
    monkeypatch.setattr(module, "PRIOR_RIDGES", (0.1,))
    X, y = two_samples(0, 0.4, n_P=20, n_U=30)
    priors, found = prior_divergences(X, y, random_state=0)
    import cvxpy as cp
    from scipy.spatial.distance import pdist

    # All 50 examples are centres, so the draw of centres does not matter.
    bumps = np.exp(-((X - X.T) ** 2) / 2 / np.median(pdist(X)) ** 2)
    P, U = bumps[y == 1], bumps[y == 0]
    for t in (0.2, 0.6, 0.95):
        a = cp.Variable(50, nonneg=True)
        r_P, r_U = P @ a - 1, U @ a - 1
        gain = t * cp.sum(r_P) / 20 - cp.sum(cp.maximum(r_U, -1)) / 30
        whole = cp.Problem(cp.Maximize(gain - 0.05 * cp.sum_squares(a)))
        whole.solve(solver=cp.CLARABEL)
        place = np.argmin(np.abs(priors - t))
        # The reported distance is the gain without its penalty, at the penalised solution; t E_P[1] gives 1 - t.
        assert found[place] == pytest.approx(gain.value, abs=1e-4)
    assert priors[0] == 0.01
    assert priors[-1] == 0.99


def test_divergence_never_below_one_minus_prior():
    priors, found = prior_divergences(*two_samples(1, 0.3), random_state=0)
    assert np.all(found >= 1 - priors - 1e-12)
    assert found[-1] > found.min() + 0.1


@pytest.mark.parametrize("method", ["e1", "e2"])
@pytest.mark.parametrize("frequency", [0.3, 0.7])
def test_label_frequency_of_separable_classes(method, frequency):
    found = [
        label_frequency(*one_sample(seed, frequency), method=method, random_state=0)
        for seed in range(3)
    ]
    assert np.mean(found) == pytest.approx(frequency, abs=0.05)


def test_label_frequency_is_low_where_classes_overlap():
    found = [label_frequency(*one_sample(s, 0.5, shift=0.5), random_state=0) for s in range(3)]
    assert np.mean(found) < 0.42


class Known(BaseEstimator):
    """Knows the chance of each example: its one feature."""

    def fit(self, _, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


def test_label_frequency_by_hand():
    X = np.array([0.5, 0.25, 0.9, 0.1, 0.2, 0.05])[:, None]
    y = np.array([1, 1, 0, 0, 0, 0])
    options = {"estimator": Known(), "random_state": 0}
    assert label_frequency(X, y, **options) == pytest.approx(0.375)
    assert label_frequency(X, y, method="e2", **options) == pytest.approx(0.75 / 2.0)
    assert label_frequency(X, y, method="e3", **options) == pytest.approx(0.9)


def test_label_frequency_with_an_estimator_that_has_not_seen_the_example():
    # A classifier that remembers its examples would say 1 of each labelled one.
    from sklearn.neighbors import KNeighborsClassifier

    X, y = one_sample(0, 0.4)
    found = label_frequency(X, y, estimator=KNeighborsClassifier(1), random_state=0)
    assert found == pytest.approx(0.4, abs=0.07)
    assert label_frequency(X, y, estimator=LogisticRegression(), random_state=0) < 0.6


def blocks(seed, frequency, size=150):
    draws = np.random.default_rng(seed)
    rows, columns = draws.integers(2, size=size), draws.integers(2, size=size)
    likes = rows[:, None] == columns
    return Observations.from_matrix(
        (likes & (draws.random(likes.shape) < frequency)).astype(int), zeros="unobserved"
    ), likes


def test_a_matrix_of_blocks():
    observations, likes = blocks(0, 0.5)
    found = matrix_label_frequency(observations, rank=2, random_state=0)
    assert found == pytest.approx(0.5, abs=0.05)
    found = matrix_class_prior(observations, rank=2, random_state=0)
    assert found == pytest.approx(likes.mean(), abs=0.06)


def test_dislikes_play_no_part_in_the_matrix_estimates():
    observations, likes = blocks(0, 0.5, size=40)
    A = observations.to_sparse().toarray().astype(int)
    A[~likes] = -1
    for function in (matrix_label_frequency, matrix_class_prior):
        assert function(A, rank=2, random_state=0) == function(observations, rank=2, random_state=0)


def test_pure_chance_shows_no_leak():
    # Every entry likes by a coin: no description can tell, and a leak would say that it can.
    A = sp.csr_array((np.random.default_rng(0).random((60, 60)) < 0.2).astype(int))
    assert matrix_label_frequency(A, random_state=0) == pytest.approx(0.2, abs=0.03)


def test_entry_features_of_a_tiny_matrix_are_finite():
    observations = Observations.from_matrix(sp.csr_array([[1, 0, 1], [0, 1, 0]]))
    found = entry_features(
        observations, np.arange(6), rank=5, n_folds=3, draws=np.random.default_rng(0)
    )
    assert found.shape == (6, 3)
    assert np.all(np.isfinite(found))


def test_same_seed_same_bits():
    observations, _ = blocks(0, 0.3, size=40)
    for function in (matrix_label_frequency, matrix_class_prior):
        answers = {function(observations, n_entries=900, random_state=5) for _ in range(2)}
        assert len(answers) == 1
    X, y = two_samples(0, 0.3)
    first, second = (prior_divergences(X, y, random_state=2)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("function", [class_prior, label_frequency])
@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[0.0], [np.nan]], [0, 1], "X holds nan (row 1, column 0)"),
        ([[0.0], [1.0]], [0, -1], "y holds -1"),
        ([[0.0], [1.0]], [0, 0], "has the label 1"),
        ([[0.0], [1.0]], [1, 1], "has the label 0"),
        ([[0.0], [1.0]], [0, 1], "Only 1 example"),
        ([[0.0], [1.0]], [0, 1, 1], "inconsistent"),
        ([0.0, 1.0], [0, 1], "Reshape your data"),
    ],
)
def test_bad_input(function, X, y, words):
    with pytest.raises(InvalidInputError) as caught:
        function(X, y)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_options():
    X, y = two_samples(0, 0.5, 20, 20)
    with pytest.raises(InvalidInputError, match="method must be one of e1, e2, e3"):
        label_frequency(X, y, method="e4")
    with pytest.raises(InvalidInputError, match="n_folds must be a whole number, at least 2"):
        class_prior(X, y, n_folds=1)
    with pytest.raises(InvalidInputError, match="n_centres must be a whole number"):
        class_prior(X, y, n_centres=0)
    with pytest.raises(InvalidInputError, match="outside"):
        label_frequency(X, y, estimator=Known())
    with pytest.raises(InvalidInputError, match="pass another estimator"):
        label_frequency(np.zeros((40, 1)), y, estimator=Known())
    with pytest.raises(InvalidInputError, match=r"hold 1 like\(s\), fewer than n_folds = 5: "):
        matrix_label_frequency([[1, 0], [-1, -1]])
    with pytest.raises(InvalidInputError, match=r"hold 3 like\(s\), fewer than n_folds = 4: "):
        matrix_label_frequency(sp.eye_array(3, dtype=int), n_folds=4)
    with pytest.raises(InvalidInputError, match="n_folds must be a whole number, at least 2"):
        matrix_label_frequency(sp.eye_array(3, dtype=int), n_folds=1)
    with pytest.raises(InvalidInputError, match="hold 49 likes, and the share of likes needs 50"):
        matrix_class_prior(sp.eye_array(49, dtype=int))
    assert 0.0 < matrix_class_prior(sp.eye_array(50, dtype=int), random_state=0) < 1.0
    with pytest.raises(InvalidInputError, match="rank must be a whole number"):
        matrix_class_prior(blocks(0, 0.5, size=20)[0], rank=0)
