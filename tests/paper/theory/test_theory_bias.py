import cvxpy
import numpy as np
import pytest

from tribit import Logistic
from tribit.backends.objective import Objective
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.risks import nu, pn, pnu, pu, punu, tri
from tribit.paper.systems import PUMatrixCompletion
from tribit.paper.systems.pu_risks import PU_RISKS, biased_pu, pu_without_dislikes
from tribit.paper.theory import limiting_probability, mean_weights
from tribit.simulate import observe

P = np.linspace(0.05, 0.95, 7)
each_risk = pytest.mark.parametrize("name", PU_RISKS)


class ByEntry:
    def rho_at(self, rows, columns):
        return 0.1 + 0.1 * ((rows + columns) % 3)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9])
def test_every_point_of_the_simplex_is_unbiased(rho):
    for risk in (pu(rho), nu(rho), punu(0.3, rho)):
        np.testing.assert_allclose(mean_weights(risk, P), (P, 1 - P), rtol=1e-12)
    for risk in (pn(), pnu(-0.4, rho), tri(0.2, 0.5, 0.3, rho)):
        np.testing.assert_allclose(limiting_probability(risk, P), P, rtol=1e-12)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_closed_forms_of_the_bias(rho):
    np.testing.assert_allclose(
        mean_weights(pu_without_dislikes(rho), P), (P, rho * (1 - P)), rtol=1e-12
    )
    shifted = Logistic(2.0).probability(np.log(P / (1 - P)) / 2 + np.log(1 / rho) / 2)
    np.testing.assert_allclose(
        limiting_probability(pu_without_dislikes(rho), P), shifted, rtol=1e-12
    )
    np.testing.assert_allclose(
        mean_weights(biased_pu(rho), P), ((1 + rho) * P, 1 - (1 - rho) * P), rtol=1e-12
    )
    tends = limiting_probability(biased_pu(rho), P)
    np.testing.assert_allclose(tends, (1 + rho) * P / (1 + 2 * rho * P), rtol=1e-12)
    np.testing.assert_array_equal(tends > 0.5, P > 0.5)
    assert np.all((tends - P) * (P - 0.5) <= 1e-15)


def test_signs_cost_the_biased_risk_what_they_cost_the_true_labels():
    # The 0-1 loss of a guess, for labels without noise: (1 - rho) / 2 (wrong + a constant), times 2 / (1 - rho).
    rho = 0.4
    plus, minus = mean_weights(biased_pu(rho), np.array([0.0, 1.0]))
    cost = {1: minus, -1: plus}  # of the guess: a guessed like costs what a dislike weighs
    np.testing.assert_allclose(cost[1] - cost[-1], [1.0, -1.0], rtol=1e-12)


@each_risk
def test_observed_weights_are_the_table(name):
    risk = PU_RISKS[name](0.3)
    table, labels = risk.table(), np.array([1, -1, 1])
    plus, minus = risk.observed_weights(labels, np.arange(3), np.arange(3))
    rows = table[np.where(labels > 0, 0, 2)] - table[1]
    np.testing.assert_allclose(np.column_stack([plus, minus]), rows, rtol=1e-12, atol=1e-15)


@each_risk
def test_rho_of_each_entry(name):
    places = np.arange(5), 3 * np.arange(5) % 4
    labels = np.array([1, -1, 1, 1, -1])
    found = PU_RISKS[name](ByEntry()).observed_weights(labels, *places)
    for entry, rho in enumerate(ByEntry().rho_at(*places)):
        at = [part[entry : entry + 1] for part in places]
        alone = PU_RISKS[name](float(rho)).observed_weights(labels[entry : entry + 1], *at)
        np.testing.assert_allclose(
            [part[entry] for part in found], np.ravel(alone), rtol=1e-12, atol=1e-15
        )


@each_risk
def test_the_mean_of_drawn_risks_is_the_closed_form(name):
    draws, rho, link = np.random.default_rng(0), 0.6, Logistic()
    M, X = draws.normal(size=(8, 6)), draws.normal(size=(8, 6))
    likely = link.probability(M)
    plus, minus = mean_weights(PU_RISKS[name](rho), likely)
    expected = float(np.sum(plus * link.loss(X, 1) + minus * link.loss(X, -1)))
    left, sizes, right = np.linalg.svd(X, full_matrices=False)
    factors = Factors.of(left * sizes, right.T)
    found = []
    for _ in range(200):
        Y = np.where(draws.random(M.shape) < likely, 1, -1)
        seen = observe(Y, rho, random_state=draws)
        found.append(Objective(seen, link, PU_RISKS[name](rho)).value(factors))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - expected) < 4 * error
    unbiased = float(np.sum(likely * link.loss(X, 1) + (1 - likely) * link.loss(X, -1)))
    assert (abs(expected - unbiased) < 1e-9) == (name == "unbiased")
    assert name == "unbiased" or abs(np.mean(found) - unbiased) > 8 * error


@each_risk
@pytest.mark.parametrize("loss", ["squared", "likelihood"])
@pytest.mark.parametrize("likely", [0.1, 0.7])
def test_estimates_tend_to_the_limit(name, loss, likely):
    """All entries alike, and rank 1: what a fit says everywhere is the limit."""
    rho, draws = 0.5, np.random.default_rng(1)
    Y = np.where(draws.random((300, 240)) < likely, 1, -1)
    seen = observe(Y, rho, random_state=2)
    options = {"radius": 4.0} if loss == "likelihood" else {"l2": 0.0}
    model = PUMatrixCompletion(rho=rho, loss=loss, risk=name, rank=1, random_state=0, **options)
    mean = np.mean(model.fit(seen).complete())
    limit = limiting_probability(PU_RISKS[name](rho), likely)
    assert mean == pytest.approx(float(limit), abs=0.015)


def weighted(X, A, table, loss):
    """The risk for a convex solver, from the table of weights: linear parts apart, as they may be negative."""
    plus = np.choose(A + 1, table[::-1, 0])
    minus = np.choose(A + 1, table[::-1, 1])
    if loss == "squared":
        total = plus + minus
        squares = cvxpy.sum(cvxpy.multiply(total, cvxpy.square(X)))
        return squares - 2 * cvxpy.sum(cvxpy.multiply(plus, X)) + plus.sum()
    # l(x, +1) = l(x, -1) - x
    return cvxpy.sum(cvxpy.multiply(plus + minus, cvxpy.logistic(X))) - cvxpy.sum(
        cvxpy.multiply(plus, X)
    )


@each_risk
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("squared", {"l2": 0.8}),
        ("squared", {"radius": 2.0}),
        ("squared", {"l2": 0.5, "box": True}),
        ("likelihood", {"radius": 3.0, "norm": "trace"}),
        ("likelihood", {"radius": 1.2, "alpha": 0.8}),
        ("likelihood", {"l2": 0.3}),
    ],
)
def test_minima_are_those_of_a_convex_solver(name, loss, options):
    draws, rho = np.random.default_rng(3), 0.4
    A = np.where(draws.random((6, 5)) < 0.6, 1, -1) * (draws.random((6, 5)) < 0.7)
    model = PUMatrixCompletion(
        rho=rho, loss=loss, risk=name, rank=6, random_state=0,
        dtype="float64", tol=1e-7, **options,
    ).fit(A)  # fmt: skip
    W = cvxpy.Variable((11, 11), PSD=True)
    X = W[:6, 6:]
    trace = loss == "squared" or options.get("norm") == "trace"
    ball = 0.5 * cvxpy.trace(W) if trace else cvxpy.max(cvxpy.diag(W))
    inside = [] if model.radius_ is None else [ball <= model.radius_]
    if "alpha" in options:
        inside.append(cvxpy.abs(X) <= options["alpha"])
    if "box" in options:
        inside += [X >= 0, X <= 1]
    table = PU_RISKS[name](rho).table()
    risk = weighted(X, A, table, loss) + 0.5 * model.l2_ * cvxpy.trace(W)
    best = cvxpy.Problem(cvxpy.Minimize(risk), inside).solve(solver="CLARABEL")
    assert model.converged_
    assert best - 1e-5 <= model.objective_ <= best + 1e-3


def test_the_default_radius_is_the_same_for_every_risk():
    A = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, -1]])
    found = [PUMatrixCompletion(rho=0.3, risk=name, rank=2).fit(A).radius_ for name in PU_RISKS]
    assert found == pytest.approx([np.log(3)] * 3)


def test_what_is_not_a_probability_is_refused():
    with pytest.raises(
        InvalidInputError, match=r"likely must hold probabilities, each from 0 to 1\."
    ):
        mean_weights(pu(0.5), [0.5, 1.2])
    with pytest.raises(InvalidInputError, match="rho differs by entry"):
        limiting_probability(pu(ByEntry()), 0.5)
    with pytest.raises(
        InvalidInputError, match="risk must be one of unbiased, biased, without-dislikes"
    ):
        PUMatrixCompletion(rho=0.3, risk="magic").fit(np.eye(3, dtype=int))
