import itertools
import tracemalloc

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.evaluation import evaluate
from tribit.model.factors import Factors
from tribit.model.label_noise import LabelNoise
from tribit.model.links import Logistic
from tribit.model.risks import pu
from tribit.paper.systems import positive_unlabelled
from tribit.paper.systems.positive_unlabelled import PUMatrixCompletion
from tribit.paper.systems.pu_risks import SquaredUnlabelled, closed_form, inside_box, search_factors
from tribit.solvers.loop import Stopping

LOSSES = positive_unlabelled.LOSSES
each_loss = pytest.mark.parametrize("loss", LOSSES)
TINY = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 0]])


class Squared:
    def loss(self, x, y):
        return (x - (y > 0)) ** 2


def model_of(**options):
    return PUMatrixCompletion(
        **({"rho": 0.4, "rank": 3, "random_state": 0, "n_jobs": 1, "dtype": "float64"} | options)
    )


def pu_risk(X, A, entry, rho):
    """The PU risk on a dense matrix: what is no like is a noisy dislike."""
    return float(np.sum(LabelNoise(rate_plus=rho).loss(entry, X, np.where(A > 0, 1, -1))))


def completed(model):
    return model.complete("score")


def draw(d, rho, *, rank=2, seed=0):
    """Return probabilities of low rank and the likes that are seen: the model of Hsieh et al."""
    rng = np.random.default_rng([seed, d])
    U, V = rng.dirichlet(np.ones(rank), size=d), rng.random((d, rank))
    M = U @ V.T  # averages of numbers in [0, 1]
    return M, ((rng.random(M.shape) < M) & (rng.random(M.shape) >= rho)).astype(int)


# Against a convex solver


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.8])
@pytest.mark.parametrize(
    ("l2", "radius"), [(0.0, None), (0.8, None), (None, 2.0), (0.8, 1.5), (0.8, 50.0)]
)
def test_the_squared_loss_has_the_minimum_of_a_convex_solver(rho, l2, radius):
    model = model_of(rho=rho, loss="squared", l2=l2, radius=radius).fit(TINY)
    X = cvxpy.Variable(TINY.shape)
    like, q = TINY > 0, 1 - rho
    # As printed, [(x - 1)^2 - rho x^2] / q: its square terms are x^2, and a solver is told so.
    likes = cvxpy.sum_squares(X) + cvxpy.sum(cvxpy.multiply(like / q, 1 - 2 * X))
    norm = cvxpy.normNuc(X)
    inside = [] if radius is None else [norm <= radius]
    problem = cvxpy.Problem(cvxpy.Minimize(likes + (l2 or 0.0) * norm), inside)
    best = problem.solve(solver="CLARABEL")
    assert model.objective_ == pytest.approx(best, abs=1e-5)
    np.testing.assert_allclose(completed(model), X.value, atol=2e-4)


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.8])
@pytest.mark.parametrize(("l2", "radius"), [(None, 2.8), (None, 4.0), (0.5, None), (0.3, 3.0)])
def test_the_box_has_the_minimum_of_a_convex_solver(rho, l2, radius):
    A = (np.random.default_rng(1).random((6, 8)) < 0.4).astype(int)
    options = {"rho": rho, "loss": "squared", "l2": l2, "radius": radius, "rank": 8}
    model = model_of(box=True, tol=1e-7, **options).fit(A)
    X, C = cvxpy.Variable(A.shape), A / (1 - rho)
    risk = cvxpy.sum_squares(X) - 2 * cvxpy.sum(cvxpy.multiply(C, X)) + C.sum()
    norm = cvxpy.normNuc(X)
    inside = [X >= 0, X <= 1] + ([] if radius is None else [norm <= radius])
    best = cvxpy.Problem(cvxpy.Minimize(risk + (l2 or 0.0) * norm), inside).solve(solver="CLARABEL")
    assert model.converged_
    assert model.objective_ == pytest.approx(best, abs=2e-5 * C.sum())
    found = completed(model)
    np.testing.assert_allclose(found, X.value, atol=0.01)
    assert found.max() <= 1
    assert found.min() >= -1e-5
    if radius is not None:
        assert np.linalg.norm(found, "nuc") <= radius
    U, V = model.row_factors_, model.column_factors_
    ridge = 0.5 * model.l2_ * (np.sum(U**2) + np.sum(V**2))
    assert model.objective_ == pytest.approx(pu_risk(found, A, Squared(), rho) + ridge, rel=1e-9)
    plain = model_of(**options).fit(A)
    assert completed(plain).min() < -1e-3 or completed(plain).max() > 1  # the box matters here
    assert plain.objective_ <= best


def test_the_box_keeps_its_bounds_at_the_default_tol():
    M, A = draw(60, 0.3)
    radius = float(np.linalg.norm(M, "nuc"))
    model = model_of(rho=0.3, loss="squared", box=True, radius=radius, rank=20).fit(A)
    found = completed(model)
    assert model.converged_
    assert model.n_iter_ > 1
    assert -1e-3 <= found.min() <= 0
    assert 0.9 < found.max() <= 1
    plain = completed(model_of(rho=0.3, loss="squared", radius=radius, rank=20).fit(A))
    assert np.mean((found - M) ** 2) < np.mean((plain - M) ** 2)


@pytest.mark.parametrize("options", [{"l2": 0.5}, {"radius": 1.0}])
def test_a_closed_form_inside_the_box_is_the_answer(options):
    A = np.ones((6, 5), dtype=int)
    plain, boxed = (
        model_of(rho=0.0, loss="squared", rank=2, box=box, **options).fit(A)
        for box in (False, True)
    )
    np.testing.assert_allclose(completed(plain), completed(boxed), rtol=1e-12)
    assert boxed.objective_ == pytest.approx(plain.objective_, rel=1e-12)
    assert (boxed.n_iter_, boxed.converged_) == (1, True)


def test_the_search_in_the_box_ends_at_the_closed_form_where_that_is_inside():
    A = np.ones((6, 5), dtype=int)
    A[0, 0] = 0
    objective = SquaredUnlabelled(Observations.from_matrix(A, zeros="unobserved"), pu(0.0), 1.5)
    draws = np.random.default_rng(0)
    best = closed_form(objective, 5, np.inf, draws)
    start = Factors.of(0.5 * best.row_factors, 0.9 * best.column_factors)
    assert inside_box(best)
    found = search_factors(objective, start, np.inf, Stopping(5000, 1e-7), draws)
    assert found.converged
    assert found.objective == pytest.approx(objective.value(best), rel=1e-6)


@pytest.mark.parametrize("entry", [-1e-6, 1 + 1e-6])
def test_one_entry_outside_is_outside(entry):
    def factors(x):
        return Factors.of(np.array([[0.5], [x]]), np.ones((3, 1)))

    assert inside_box(factors(0.0))
    assert inside_box(factors(1.0))
    assert not inside_box(factors(entry))


def test_gradient_of_the_squared_risk():
    _, A = draw(7, 0.3)
    objective = SquaredUnlabelled(Observations.from_matrix(A, zeros="unobserved"), pu(0.3), 0.8)
    U, V = np.random.default_rng(0).standard_normal((2, 7, 3))
    value, gradient = objective.gradient(Factors.of(U, V))
    ridge = 0.4 * (np.sum(U**2) + np.sum(V**2))
    assert value == pytest.approx(pu_risk(U @ V.T, A, Squared(), 0.3) + ridge)
    assert objective.size == pytest.approx(pu_risk(np.zeros((7, 7)), A, Squared(), 0.3))
    for side, given in enumerate((gradient.row_factors, gradient.column_factors)):
        for place in np.ndindex(given.shape):
            ends = []
            for sign in (1, -1):
                pair = [U.copy(), V.copy()]
                pair[side][place] += sign * 1e-5
                ends.append(objective.value(Factors.of(*pair)))
            assert given[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-5)


def test_the_box_needs_less_memory_than_the_matrix():
    shape, count = (1500, 1200), 12000
    draws = np.random.default_rng(0)
    rows, columns = np.divmod(draws.choice(shape[0] * shape[1], count, replace=False), shape[1])
    A = sp.csr_array((np.ones(count, dtype=int), (rows, columns)), shape=shape)
    model = model_of(rho=0.5, loss="squared", box=True, rank=3, l2=1.0, max_iter=30)
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            model.fit(A)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * shape[0] * shape[1]


@pytest.mark.parametrize("radius", [0.5, 2.0])
@pytest.mark.parametrize("l2", [None, 0.3])
def test_the_likelihood_has_the_minimum_of_a_convex_solver(radius, l2):
    model = model_of(radius=radius, l2=l2, link=Logistic(1.5), rank=4, tol=1e-9).fit(TINY)
    W = cvxpy.Variable((7, 7), PSD=True)
    X = W[:3, 3:]
    # l(x, +1) - l(x, -1) = -1.5 x
    risk = cvxpy.sum(cvxpy.logistic(1.5 * X)) - cvxpy.sum(cvxpy.multiply(TINY / 0.6, 1.5 * X))
    penalty = 0.5 * (l2 or 0.0) * cvxpy.trace(W)
    problem = cvxpy.Problem(cvxpy.Minimize(risk + penalty), [cvxpy.diag(W) <= radius])
    assert model.objective_ == pytest.approx(problem.solve(solver="CLARABEL"), rel=2e-5)


@pytest.mark.parametrize("norm", ["max", "trace"])
@pytest.mark.parametrize(
    ("radius", "alpha", "l2"),
    [(1.4, 0.7, None), (1.4, 0.7, 0.3), (None, 0.7, None), (6.0, 0.5, None)],
)
def test_bounds_on_entries_have_the_minimum_of_a_convex_solver(norm, radius, alpha, l2):
    A = (np.random.default_rng(0).random((6, 5)) < 0.4).astype(int)
    model = model_of(norm=norm, radius=radius, alpha=alpha, l2=l2, rank=6, tol=1e-7).fit(A)
    default = alpha * np.sqrt(5 * (30 if norm == "trace" else 1))
    assert model.radius_ == pytest.approx(default if radius is None else radius)
    W = cvxpy.Variable((11, 11), PSD=True)
    X = W[:6, 6:]
    ball = cvxpy.normNuc(X) if norm == "trace" else cvxpy.max(cvxpy.diag(W))
    risk = cvxpy.sum(cvxpy.logistic(X)) - cvxpy.sum(cvxpy.multiply(A / 0.6, X))
    penalty = 0.5 * (l2 or 0.0) * cvxpy.trace(W)
    inside = [ball <= model.radius_, cvxpy.abs(X) <= alpha]
    best = cvxpy.Problem(cvxpy.Minimize(risk + penalty), inside).solve(solver="CLARABEL")
    assert model.converged_
    assert best - 1e-6 <= model.objective_ <= best + 5e-4
    found = completed(model)
    assert np.abs(found).max() <= alpha
    if norm == "trace":
        assert np.linalg.norm(found, "nuc") <= model.radius_
    ridge = 0.5 * model.l2_ * (np.sum(model.row_factors_**2) + np.sum(model.column_factors_**2))
    assert model.objective_ == pytest.approx(pu_risk(found, A, Logistic(), 0.4) + ridge, rel=1e-9)


def test_a_trace_norm_ball_alone_has_the_minimum_of_a_convex_solver():
    A = (np.random.default_rng(0).random((6, 5)) < 0.4).astype(int)
    model = model_of(norm="trace", radius=3.0, rank=5, tol=1e-7).fit(A)
    X = cvxpy.Variable((6, 5))
    risk = cvxpy.sum(cvxpy.logistic(X)) - cvxpy.sum(cvxpy.multiply(A / 0.6, X))
    problem = cvxpy.Problem(cvxpy.Minimize(risk), [cvxpy.normNuc(X) <= 3.0])
    assert model.objective_ == pytest.approx(problem.solve(solver="CLARABEL"), abs=1e-3)


def test_no_alternating_least_squares_finds_less_at_a_low_rank():
    _, A = draw(30, 0.3)
    l2, C = 6.0, A / 0.7
    model = model_of(rho=0.3, loss="squared", rank=2, l2=l2).fit(A)
    found = []
    for seed in range(4):
        V = np.random.default_rng(seed).normal(size=(30, 2))
        for _ in range(300):
            # min |U V' - C|^2 + l2 / 2 (|U|^2 + |V|^2)
            U = np.linalg.solve(V.T @ V + 0.5 * l2 * np.eye(2), V.T @ C.T).T
            V = np.linalg.solve(U.T @ U + 0.5 * l2 * np.eye(2), U.T @ C).T
        ridge = 0.5 * l2 * (np.sum(U**2) + np.sum(V**2))
        found.append(pu_risk(U @ V.T, A, Squared(), 0.3) + ridge)
    assert model.objective_ == pytest.approx(min(found), rel=1e-9)


# The objective


@pytest.mark.parametrize("options", [{"l2": 0.7}, {"l2": 0.0, "rank": 2}, {"radius": 2.0}, {}])
def test_the_squared_objective_is_the_formula(options):
    _, A = draw(20, 0.4)
    model = model_of(loss="squared", **options).fit(A)
    U, V = model.row_factors_, model.column_factors_
    ridge = 0.5 * model.l2_ * (np.sum(U**2) + np.sum(V**2))
    assert model.objective_ == pytest.approx(pu_risk(U @ V.T, A, Squared(), 0.4) + ridge, rel=1e-12)
    assert (model.n_iter_, model.converged_) == (1, True)


def test_the_likelihood_objective_is_the_formula():
    _, A = draw(20, 0.4)
    model = model_of(radius=1.3, l2=0.2).fit(A)
    U, V = model.row_factors_, model.column_factors_
    ridge = 0.1 * (np.sum(U**2) + np.sum(V**2))
    expected = pu_risk(U @ V.T, A, Logistic(), 0.4) + ridge
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    assert model.radius_ == 1.3
    assert model.l2_ == 0.2
    assert model.converged_
    assert model.n_iter_ > 1
    assert max(np.sum(U**2, axis=1).max(), np.sum(V**2, axis=1).max()) <= 1.3 * (1 + 1e-9)


@pytest.mark.parametrize("entry", [Squared(), Logistic()], ids=["squared", "likelihood"])
def test_the_mean_of_the_risk_is_that_of_the_true_labels(entry):
    rho, Y = 0.3, np.array([[1, 0, 1], [1, 1, 0]])
    X = np.random.default_rng(0).normal(size=Y.shape)
    likes = np.argwhere(Y)
    mean = 0.0
    for kept in itertools.product([False, True], repeat=len(likes)):
        A = np.zeros_like(Y)
        A[tuple(likes[list(kept)].T)] = 1
        chance = np.prod(np.where(kept, 1 - rho, rho))
        mean += chance * pu_risk(X, A, entry, rho)
    true = np.sum(np.where(Y, entry.loss(X, 1), entry.loss(X, -1)))
    assert mean == pytest.approx(true, rel=1e-12)


# Recovery


def test_the_squared_loss_recovers_more_of_a_larger_matrix():
    errors = []
    for d in (50, 150, 450):
        M, A = draw(d, 0.5)
        errors.append(np.mean((completed(model_of(rho=0.5, loss="squared").fit(A)) - M) ** 2))
    assert errors[2] < errors[1] < errors[0] < np.mean(M**2)
    assert errors[2] < 0.4 * errors[0]


def test_the_likelihood_recovers_more_of_a_larger_matrix():
    errors = []
    for d in (40, 120, 360):
        M, A = draw(d, 0.5)
        model = model_of(rho=0.5, radius=2.0, rank=3, dtype="float32").fit(A)
        errors.append(np.mean((model.complete() - M) ** 2))
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.3 * errors[0]


def test_a_wrong_rho_costs():
    M, A = draw(200, 0.6)
    right, wrong = (
        np.mean((completed(model_of(rho=rho, loss="squared").fit(A)) - M) ** 2)
        for rho in (0.6, 0.0)
    )
    assert right < 0.3 * wrong


def test_the_default_ridge_removes_what_is_noise():
    # Likes that fall anywhere alike: nothing is left but their mean.
    A = (np.random.default_rng(0).random((300, 200)) < 0.2).astype(int)
    model = model_of(rho=0.5, loss="squared", rank=5).fit(A)
    sizes = np.sum(model.row_factors_**2, axis=0)
    assert np.all(sizes[1:] < 0.01 * sizes[0])
    deviation = np.sqrt(0.2 * 0.8) / 0.5
    assert model.l2_ == pytest.approx(2 * deviation * (np.sqrt(300) + np.sqrt(200)), rel=0.01)
    shrunk = 0.4 - 0.5 * model.l2_ / np.sqrt(300 * 200)
    assert completed(model).mean() == pytest.approx(shrunk, rel=0.02)


# What is fitted on


@each_loss
def test_dislikes_count_as_unobserved(loss):
    _, A = draw(25, 0.4)
    with_dislikes = A - (1 - A) * (np.random.default_rng(1).random(A.shape) < 0.3)
    alone, both = (
        completed(model_of(loss=loss, radius=2.0).fit(each)) for each in (A, with_dislikes)
    )
    assert (with_dislikes < 0).any()
    np.testing.assert_array_equal(alone, both)


class RhoByEntry:
    def __init__(self, rho):
        self.rho = np.asarray(rho)

    def rho_at(self, rows, columns):
        return np.broadcast_to(self.rho, (25, 25))[rows, columns]


@each_loss
def test_rho_may_differ_by_entry(loss):
    _, A = draw(25, 0.4)
    same, one = (completed(model_of(loss=loss, rho=r).fit(A)) for r in (RhoByEntry(0.4), 0.4))
    np.testing.assert_allclose(same, one, rtol=1e-9)
    rho = np.random.default_rng(2).uniform(0.2, 0.8, (25, 25))
    other = model_of(loss=loss, rho=RhoByEntry(rho), l2=1.0, radius=30.0).fit(A)
    entry = Squared() if loss == "squared" else Logistic()
    ridge = 0.5 * (np.sum(other.row_factors_**2) + np.sum(other.column_factors_**2))
    expected = pu_risk(completed(other), A, entry, rho) + ridge
    assert other.objective_ == pytest.approx(expected, rel=1e-9)


def test_a_few_singular_vectors_are_those_of_the_whole_decomposition():
    A = (np.random.default_rng(3).random((60, 45)) < 0.3).astype(int)
    model = model_of(rho=0.2, loss="squared", rank=5, l2=1.0).fit(sp.csr_array(A))
    left, values, right = np.linalg.svd(A / 0.8)
    best = (left[:, :5] * (values[:5] - 0.5)) @ right[:5]
    np.testing.assert_allclose(completed(model), best, atol=1e-10)
    flipped = model_of(rho=0.2, loss="squared", rank=5, l2=1.0).fit(A.T)
    np.testing.assert_allclose(completed(flipped), best.T, atol=1e-10)


@pytest.mark.parametrize("A", [np.eye(40, dtype=int), np.ones((30, 12), dtype=int)])
def test_ranks_beyond_that_of_the_matrix_add_nothing(A):
    lone = np.zeros_like(A)
    lone[2, 3] = 1
    for matrix, rank in ((lone, 5), (lone, max(A.shape)), (A, max(A.shape))):
        model = model_of(loss="squared", rank=rank, l2=0.0).fit(matrix)
        assert model.row_factors_.shape == (A.shape[0], rank)
        np.testing.assert_allclose(completed(model), matrix / 0.6, atol=1e-12)


@each_loss
def test_a_seed_gives_the_same_bits(loss):
    _, A = draw(60, 0.4)
    options = {"loss": loss, "rank": 4, "random_state": 7}
    first, second = (model_of(**options).fit(A).row_factors_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    if loss == "squared":  # nor does the answer show the seed
        np.testing.assert_allclose(
            first, model_of(loss=loss, rank=4, random_state=8).fit(A).row_factors_, atol=1e-9
        )


# Answers


def test_the_squared_loss_reads_entries_as_probabilities():
    A = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    model = model_of(rho=0.0, loss="squared", l2=0.0).fit(A)
    np.testing.assert_allclose(completed(model), A, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba([0, 0], [0, 2]), [0.999, 0.001])
    np.testing.assert_array_equal(model.predict([0, 0], [0, 2]), [1, -1])


@each_loss
def test_ids_and_scores(loss):
    seen = Observations.from_pairs(
        [0, 0, 1, 2], [0, 1, 1, 2], [1, 1, 1, -1], row_ids=list("abc"), column_ids=[7, 8, 9]
    )
    model = clone(model_of(loss=loss, rank=2, radius=3.0)).fit(seen)
    assert model.predict("a", 8)[0] == 1
    assert model.n_features_in_ == 3
    assert 0.0 <= model.score(seen) <= 1.0
    assert np.isfinite(evaluate(model, seen).log_loss)


def test_ratings_are_read():
    ratings = np.array([[5, 0, 3], [4, 1, 0], [2, 5, 5]])
    model = model_of(loss="squared", rho=0.0, l2=0.0, like_at=4).fit(ratings)
    np.testing.assert_allclose(completed(model), ratings >= 4, atol=1e-12)


def test_a_bound_on_entries_is_kept():
    _, A = draw(20, 0.4)
    model = model_of(alpha=0.7, max_iter=3000).fit(A)
    assert np.abs(completed(model)).max() == pytest.approx(0.7, rel=1e-6)
    both = model_of(alpha=0.5, radius=2.0, max_iter=3000).fit(A)
    assert np.abs(completed(both)).max() == pytest.approx(0.5, rel=1e-6)
    implied = model_of(alpha=0.7, radius=0.7).fit(A)  # by Newton's method
    assert np.abs(completed(implied)).max() <= 0.7 * (1 + 1e-9)
    assert implied.n_iter_ < 100


def test_stopping_early_is_told():
    _, A = draw(40, 0.4)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert not model_of(max_iter=1, alpha=0.5).fit(A).converged_
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        model = model_of(max_iter=1, radius=3.0).fit(A)
    assert not model.converged_


# Errors


@each_loss
@pytest.mark.parametrize("rho", [-0.1, 1.0, 2.0, float("nan")])
def test_rho_is_below_1(loss, rho):
    with pytest.raises(InvalidInputError, match=r"rho, .* must be in \[0, 1\); got"):
        model_of(loss=loss, rho=rho).fit(TINY)


@each_loss
def test_rho_must_be_given(loss):
    with pytest.raises(InvalidInputError, match=r"Likes alone do not identify .*: pass rho"):
        model_of(loss=loss, rho=None).fit(TINY)
    with pytest.raises(InvalidTypeError, match="rho must be a number"):
        model_of(loss=loss, rho="0.5").fit(TINY)


@each_loss
def test_a_matrix_without_likes_is_refused(loss):
    with pytest.raises(InvalidInputError, match="the 2 observed entries have none: observe"):
        model_of(loss=loss).fit([[0, -1], [-1, 0]])


@pytest.mark.parametrize("loss", ["hinge", None, 3, ["squared"]])
def test_an_unknown_loss_is_refused(loss):
    with pytest.raises(InvalidInputError, match="loss must be one of likelihood, squared; got"):
        model_of(loss=loss).fit(TINY)


@each_loss
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be .*from 1 to 4, the larger side of the 3 x 4 matrix; got 0"),
        ({"rank": 5}, "rank must be .*from 1 to 4, .* got 5"),
        ({"radius": -1.0}, "radius must be a positive finite number; got -1"),
        ({"radius": float("inf")}, "radius must be a positive finite number; got inf"),
        ({"radius": "1"}, "radius must be a positive finite number; got '1'"),
        ({"l2": -1.0}, "l2 must be a finite number, at least 0; got -1"),
        ({"l2": float("nan")}, "l2 must be a finite number, at least 0; got nan"),
    ],
)
def test_wrong_numbers_are_refused(loss, options, message):
    with pytest.raises(InvalidInputError, match=message):
        model_of(loss=loss, **options).fit(TINY)


@pytest.mark.parametrize("rank", [2.5, True, "2"])
def test_rank_is_a_whole_number(rank):
    with pytest.raises(InvalidInputError, match="rank must be a whole number from 1 to 4"):
        model_of(loss="squared", rank=rank).fit(TINY)


@pytest.mark.parametrize("alpha", [0.0, "1", float("nan")])
def test_alpha_is_positive(alpha):
    with pytest.raises(InvalidInputError, match="alpha must be a positive finite number; got"):
        model_of(alpha=alpha, radius=1.0).fit(TINY)


@pytest.mark.parametrize("norm", ["infinity", None, ["max"]])
def test_an_unknown_norm_is_refused(norm):
    with pytest.raises(InvalidInputError, match="norm must be one of max, trace; got"):
        model_of(norm=norm).fit(TINY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": None}, "norm='trace' has no default radius: pass radius or alpha"),
        ({"rank": 0}, "rank must be a whole number from 1 to 4"),
        ({"l2": -1.0}, "l2 must be a finite number, at least 0; got -1"),
        ({"rho": 1.0}, "rho, .* must be in"),
    ],
)
def test_a_trace_norm_ball_refuses_wrong_options(options, message):
    with pytest.raises(InvalidInputError, match=message):
        model_of(**({"norm": "trace", "alpha": 1.0} | options)).fit(TINY)


def test_the_squared_loss_takes_no_bound_on_entries():
    with pytest.raises(InvalidInputError, match="has no alpha: pass box=True to keep 0 <= X <= 1"):
        model_of(loss="squared", alpha=1.0).fit(TINY)


def test_the_weights_are_those_of_the_pu_risk():
    # The closed form rests on it: the weights of an entry sum to 1.
    np.testing.assert_allclose(pu(0.37).table().sum(axis=1), 1.0)


@pytest.mark.parametrize("box", [1, "yes", None])
def test_box_is_true_or_false(box):
    with pytest.raises(InvalidTypeError, match="box must be True or False; got"):
        model_of(loss="squared", box=box).fit(TINY)


def test_the_likelihood_has_no_box():
    with pytest.raises(InvalidInputError, match="pass loss='squared', or alpha instead of box"):
        model_of(box=True).fit(TINY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.0}, "radius must be a positive"),
        ({"l2": -1.0}, "l2 must be a finite number, at least 0"),
        ({"tol": -1.0}, "tol must be a finite number, at least 0"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"rank": 5}, "rank must be a whole number from 1 to 4"),
        ({"rho": 1.0}, "rho, .* must be in"),
    ],
)
def test_the_box_refuses_wrong_options(options, message):
    with pytest.raises(InvalidInputError, match=message):
        model_of(loss="squared", box=True, **options).fit(TINY)
