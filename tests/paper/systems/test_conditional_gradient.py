import tracemalloc
import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from reference import differences
from tribit.data.measurements import Measurements
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, TribitError
from tribit.model.links import Logistic, Probit
from tribit.paper.systems.conditional_gradient import (
    ConditionalGradientCompletion,
    FrankWolfe,
    LikelihoodLoss,
    ObservedEntries,
    SquaredLoss,
    line_search,
    project_on_ball,
)
from tribit.paper.systems.singular_values import top_singular_pairs
from tribit.solvers.loop import Stopping

pytestmark = pytest.mark.usefixtures("one_blas_thread")

LABELS = np.random.default_rng(1).integers(0, 2, 30) * 2 - 1
VALUES = np.random.default_rng(2).standard_normal(30)
EACH_LOSS = [
    SquaredLoss(VALUES),
    LikelihoodLoss(Logistic(scale=2.0), LABELS),
    LikelihoodLoss(Probit(sigma=0.7), LABELS),
]
each_loss = pytest.mark.parametrize("loss", EACH_LOSS, ids=["squared", "logistic", "probit"])


def drawn(shape=(7, 5), share=0.6, seed=0):
    """Likes and dislikes at some entries, 0 elsewhere."""
    draws = np.random.default_rng(seed)
    A = np.where(draws.random(shape) < 0.6, 1, -1) * (draws.random(shape) < share)
    return A.astype(float)


def least_loss(A, radius, loss):
    """The minimum by an independent convex solver."""
    X = cp.Variable(A.shape)
    seen = np.nonzero(A)
    x, a = X[seen], A[seen]
    total = cp.sum_squares(x - a) if loss == "squared" else cp.sum(cp.logistic(-cp.multiply(a, x)))
    problem = cp.Problem(cp.Minimize(total), [cp.normNuc(X) <= radius])
    return problem.solve(solver=cp.CLARABEL), X.value


def nuclear_norm(model):
    return np.sum(np.linalg.svd(model.complete("score"), compute_uv=False))


@pytest.mark.parametrize("loss", ["squared", "likelihood"])
@pytest.mark.parametrize("radius", [1.0, 4.0, 8.0])
def test_equals_an_independent_solver(loss, radius):
    A = drawn()
    least, X = least_loss(A, radius, loss)
    model = ConditionalGradientCompletion(radius, loss=loss, tol=1e-9, max_iter=500).fit(A)
    assert model.converged_
    assert model.objective_ == pytest.approx(least, rel=1e-6)
    assert nuclear_norm(model) <= radius * (1 + 1e-9)
    seen = np.nonzero(A)
    np.testing.assert_allclose(model.complete("score")[seen], X[seen], atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "likelihood"])
@pytest.mark.parametrize("corrections", [0, 2])
def test_the_gap_bounds_the_distance_to_the_minimum(loss, corrections):
    A = drawn(seed=3)
    least, _ = least_loss(A, 5.0, loss)
    for max_iter in (1, 2, 5, 20):
        model = ConditionalGradientCompletion(
            5.0, loss=loss, tol=0.0, max_iter=max_iter, corrections=corrections
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(A)
        assert model.objective_ - model.gap_ <= least * (1 + 1e-7)
        assert least * (1 - 1e-7) <= model.objective_
    assert model.gap_ < (1.0 if corrections == 0 else 0.1) * least
    bounds = [i.objective - i.decrease for i in model.history_]
    assert model.gap_ == pytest.approx(model.objective_ - max(bounds))


def test_the_first_gap_by_hand():
    A = drawn()
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model = ConditionalGradientCompletion(3.0, max_iter=1).fit(A)
    first = model.history_[0]
    assert first.objective == pytest.approx(np.sum(A**2))
    assert first.decrease == pytest.approx(3.0 * np.linalg.norm(2 * A, 2))


def test_plain_steps_fall_as_fast_as_published():
    # Jaggi (2013), Theorem 1: h_k <= 2 C / (k + 2), and here C <= 2 (2 radius)^2; the rank is at most the steps.
    A, radius = drawn(seed=4), 4.0
    least, _ = least_loss(A, radius, "squared")
    with pytest.warns(ConvergenceWarning):
        model = ConditionalGradientCompletion(radius, corrections=0, tol=0.0, max_iter=60).fit(A)
    objectives = np.array([i.objective for i in model.history_])
    k = np.arange(1, objectives.size)
    assert np.all(objectives[1:] - least <= 2 * 8 * radius**2 / (k + 2))
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])
    assert model.row_factors_.shape[1] <= 5
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=3).fit(A)
    assert model.row_factors_.shape[1] <= 3


def test_corrections_save_steps_and_columns():
    draws = np.random.default_rng(0)
    M = draws.standard_normal((80, 2)) @ draws.standard_normal((2, 90))
    A = np.where(draws.random(M.shape) < 0.4, M + 0.3 * draws.standard_normal(M.shape), np.nan)
    radius = 0.9 * np.sum(np.linalg.svd(M, compute_uv=False))
    model = ConditionalGradientCompletion(radius, tol=1e-3).fit(A)
    plain = ConditionalGradientCompletion(radius, tol=1e-3, corrections=0, max_iter=60)
    with pytest.warns(ConvergenceWarning):
        plain.fit(A)
    assert model.n_iter_ < 30
    assert model.row_factors_.shape[1] < plain.row_factors_.shape[1]
    assert model.objective_ < plain.objective_
    objectives = np.array([i.objective for i in model.history_])
    assert np.all(np.diff(objectives) <= 0)


def test_a_ball_that_holds_the_data_fits_them():
    A = drawn(share=1.0)
    model = ConditionalGradientCompletion(2 * np.sum(np.linalg.svd(A)[1]), tol=1e-10).fit(A)
    np.testing.assert_allclose(model.complete("score"), A, atol=1e-4)
    assert model.gap_ <= 1e-10 * np.sum(A**2) * (1 + 1e-6)


def test_nothing_to_fit():
    zeros = Measurements([0, 1], [0, 2], [0.0, 0.0], (2, 3))
    model = ConditionalGradientCompletion(1.0).fit(zeros)
    assert model.converged_
    assert model.objective_ == model.gap_ == 0.0
    np.testing.assert_array_equal(model.complete("score"), np.zeros((2, 3)))


def test_a_radius_far_too_large_ends():
    A = drawn()
    model = ConditionalGradientCompletion(1e12, max_iter=50, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(A)
    assert np.isfinite(model.complete("score")).all()
    assert model.objective_ <= np.sum(A**2)


def test_large_and_sparse_without_a_dense_matrix():
    draws = np.random.default_rng(0)
    places = draws.choice(20000 * 20000, 3000, replace=False)
    labels = np.where(draws.random(3000) < 0.5, 1, -1)
    seen = Observations.from_pairs(places // 20000, places % 20000, labels, shape=(20000, 20000))
    tracemalloc.start()
    with pytest.warns(ConvergenceWarning):
        model = ConditionalGradientCompletion(50.0, loss="likelihood", max_iter=2).fit(seen)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # a dense matrix has 3.2 GB
    assert model.objective_ < 3000 * np.log(2)


# What is fitted and answered


def test_links_of_the_losses():
    A = drawn()
    squared = ConditionalGradientCompletion(4.0).fit(A)
    x = squared.decision_function([0], [1])
    assert squared.predict_proba([0], [1]) == pytest.approx((1 + x) / 2)
    probit = ConditionalGradientCompletion(4.0, loss="likelihood", link="probit").fit(A)
    x = probit.decision_function([0], [1])
    assert probit.predict_proba([0], [1]) == pytest.approx(Probit().probability(x))


def test_labels_may_come_as_measurements():
    A = drawn()
    rows, columns = np.nonzero(A)
    measured = Measurements(
        rows, columns, A[rows, columns], A.shape, row_ids=list("abcdefg"), column_ids=range(5)
    )
    model = ConditionalGradientCompletion(4.0, loss="likelihood").fit(measured)
    same = ConditionalGradientCompletion(4.0, loss="likelihood").fit(A)
    np.testing.assert_array_equal(model.row_factors_, same.row_factors_)
    assert model.decision_function(["b"], [2]) == same.decision_function([1], [2])


def test_same_bits_and_clone():
    A = drawn((90, 100), share=0.2)
    model = ConditionalGradientCompletion(30.0, loss="likelihood")
    first, second = clone(model).fit(A), clone(model).fit(A)
    np.testing.assert_array_equal(first.row_factors_, second.row_factors_)
    np.testing.assert_array_equal(first.column_factors_, second.column_factors_)


def test_callback_stops():
    A = drawn()
    with pytest.warns(ConvergenceWarning):
        model = ConditionalGradientCompletion(
            4.0, tol=0.0, callback=lambda i: i.iteration == 3
        ).fit(A)
    assert model.n_iter_ == 3
    assert "callback" in model.stop_reason_


def test_without_a_radius_the_shape_gives_one():
    model = ConditionalGradientCompletion().fit(drawn((12, 3)))
    assert model.radius_ == pytest.approx(2.0)
    assert nuclear_norm(model) <= 2.0 * (1 + 1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"radius": 0.0},
        {"radius": -1.0},
        {"radius": np.nan},
        {"radius": np.inf},
        {"loss": "hinge"},
        {"loss": "likelihood", "link": "cauchit"},
        {"loss": "squared", "link": "cauchit"},
        {"tol": -1.0},
        {"max_iter": 0},
        {"corrections": -1},
        {"corrections": 1.5},
    ],
    ids=str,
)
def test_bad_options_get_one_sentence(options):
    with pytest.raises(TribitError) as caught:
        ConditionalGradientCompletion(**{"radius": 1.0} | options).fit(drawn())
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_likelihood_of_real_values_is_refused():
    with pytest.raises(InvalidInputError):
        ConditionalGradientCompletion(1.0, loss="likelihood").fit(
            Measurements([0, 1], [0, 1], [0.5, 2.0], (2, 2))
        )
    with pytest.raises(InvalidInputError):
        FrankWolfe(pairs=0)


# The parts of the solver


@each_loss
def test_derivatives(loss):
    x = np.random.default_rng(0).standard_normal(30)
    ones = np.eye(30)
    first = [differences(lambda t, e=e: loss.value(x + t * e), 0.0, 1e-3) for e in ones]
    np.testing.assert_allclose(loss.first(x), first, rtol=1e-7, atol=1e-7)
    second = differences(lambda t: loss.first(x + t), 0.0, 1e-3)
    np.testing.assert_allclose(loss.second(x), second, rtol=1e-7, atol=1e-7)


@each_loss
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0, 1e8])
def test_line_search_is_exact(loss, size):
    draws = np.random.default_rng(0)
    x = draws.standard_normal(30)
    towards = -size * loss.first(x) + draws.standard_normal(30)
    step = line_search(loss, x, towards)
    best = minimize_scalar(
        lambda t: loss.value(x + t * towards / size),
        bounds=(0, size),
        method="bounded",
        options={"xatol": 1e-12 * size},
    )
    assert 0.0 <= step <= 1.0
    assert loss.value(x + step * towards) <= best.fun + 1e-10 * loss.value(x)


def test_line_search_does_not_go_uphill():
    loss = SquaredLoss(np.zeros(2))
    assert line_search(loss, np.ones(2), np.ones(2)) == 0.0
    assert line_search(loss, np.ones(2), -0.5 * np.ones(2)) == 1.0


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (1, 3)])
def test_projection_on_the_ball(shape):
    B = np.random.default_rng(0).standard_normal(shape)
    total = np.sum(np.linalg.svd(B, compute_uv=False))
    np.testing.assert_array_equal(project_on_ball(B, total * 1.01), B)
    for radius in (0.1 * total, 0.5 * total, 0.99 * total):
        X = cp.Variable(shape)
        cp.Problem(cp.Minimize(cp.sum_squares(X - B)), [cp.normNuc(X) <= radius]).solve(
            solver=cp.CLARABEL
        )
        nearest = project_on_ball(B, radius)
        np.testing.assert_allclose(nearest, X.value, atol=1e-4)
        assert np.sum(np.linalg.svd(nearest, compute_uv=False)) == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize("shape", [(200, 230), (230, 200), (20, 30), (3, 200)])
def test_top_singular_pairs(shape):
    G = sp.random_array(shape, density=0.3, rng=np.random.default_rng(0), format="csr")
    left, sizes, right = top_singular_pairs(G, 4)
    exact = np.linalg.svd(G.toarray(), compute_uv=False)[:4]
    np.testing.assert_allclose(sizes, exact, rtol=1e-12)
    np.testing.assert_allclose(G @ right, left * sizes, atol=1e-10)
    assert left.shape[1] == right.shape[1] == min(4, *shape)


@pytest.mark.parametrize("flipped", [False, True])
def test_top_pairs_of_a_long_matrix_make_no_dense_one(flipped):
    shape = (60, 200_000)
    G = sp.random_array(shape, density=1e-3, rng=np.random.default_rng(0), format="csr")
    exact = np.sqrt(np.linalg.eigvalsh((G @ G.T).toarray())[:-5:-1])
    given = G.T.tocsr() if flipped else G
    tracemalloc.start()
    left, sizes, right = top_singular_pairs(given, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * shape[0] * shape[1] / 2
    np.testing.assert_allclose(sizes, exact, rtol=1e-10)
    np.testing.assert_allclose(given @ right, left * sizes, atol=1e-10)
    np.testing.assert_allclose(right.T @ right, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(left.T @ left, np.eye(4), atol=1e-10)


def test_top_pairs_of_a_long_matrix_of_rank_one():
    G = sp.csr_array((np.ones(3), ([1, 1, 1], [0, 5, 199_999])), shape=(60, 200_000))
    left, sizes, right = top_singular_pairs(G, 3)
    np.testing.assert_allclose(sizes, [np.sqrt(3), 0, 0], atol=1e-12)
    assert np.all(np.isfinite(left))
    assert np.all(np.isfinite(right))


def test_top_pairs_of_a_single_entry():
    G = sp.csr_array(([-2.0], ([70], [80])), shape=(200, 220))
    runs = [top_singular_pairs(G, 5) for _ in range(2)]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)
    left, sizes, right = runs[0]
    np.testing.assert_allclose(sizes, [2, 0, 0, 0, 0], atol=1e-7)
    assert left[70, 0] * right[80, 0] == pytest.approx(-1.0)


def test_top_pairs_of_equal_singular_values():
    # A Krylov space holds one vector of each eigenspace: the others are found beyond it.
    G = sp.block_diag([np.full((10, 10), 0.3)] * 7 + [np.zeros((130, 130))], format="csr")
    left, sizes, right = top_singular_pairs(sp.csr_array(G), 9)
    np.testing.assert_allclose(sizes, [3.0] * 7 + [0.0] * 2, atol=1e-7)
    np.testing.assert_allclose(right.T @ right, np.eye(9), atol=1e-10)
    np.testing.assert_allclose((left * sizes) @ right.T, G.toarray(), atol=1e-7)
    none = top_singular_pairs(sp.csr_array((200, 300)), 2)
    np.testing.assert_array_equal(none[1], [0.0, 0.0])


def test_observed_entries_of_a_product():
    draws = np.random.default_rng(0)
    U, V = draws.standard_normal((300, 40)), draws.standard_normal((200, 40))
    rows, columns = np.nonzero(draws.random((300, 200)) < 0.3)
    entries = ObservedEntries(rows, columns, (300, 200))
    np.testing.assert_allclose(entries.of_product(U, V), (U @ V.T)[rows, columns], rtol=1e-10)
    result = FrankWolfe().minimise(
        SquaredLoss((U @ V.T)[rows, columns]), entries, 100.0, Stopping(3, 0.0)
    )
    assert result.solver.objective == pytest.approx(
        np.sum((result.solver.factors.at(rows, columns) - (U @ V.T)[rows, columns]) ** 2)
    )
