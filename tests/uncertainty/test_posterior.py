"""Variances against plain sums, differences and exact posteriors; intervals and what adjusts them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from other_parts import with_spec
from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Logistic,
    Observations,
    Probit,
)
from tribit.backends.objective import Objective
from tribit.backends.penalty import relative_l2
from tribit.model.fitted import Fitted
from tribit.model.label_noise import LabelNoise
from tribit.model.risks import Risk, pn
from tribit.paper.systems import SYSTEMS
from tribit.propensity import row_column
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import Posterior, laplace, mean_probability
from tribit.uncertainty import posterior as posterior_module
from tribit.uncertainty import row_covariances as covariances_module


def seen_entries(shape=(30, 25), seed=0, rho=0.5, alpha=4.0, link=None):
    M = low_rank_target(shape, 2, alpha=alpha, random_state=seed)
    link = Logistic() if link is None else link
    return M, observe(quantise(M, link, random_state=seed + 1), rho, random_state=seed + 2)


def fitted(seen, **options):
    """Fit with nothing left to choose from the data."""
    fixed = {"rho": None, "radius": None, "l2_intercept": None, "l2_implicit": None}
    fixed["implicit_features"] = False
    options = (
        fixed | {"rank": 2, "l2": 1, "dtype": "float64", "n_jobs": 1, "random_state": 0} | options
    )
    return BinaryMatrixCompletion(options.pop("gammas", (1, 0, 0)), **options).fit(seen)


def plain_covariances(model, seen, *, weights, squares, ridge):
    """Return the covariance of each row from dense sums: ``H^-1``, or the sandwich where squares are given."""
    k = model.row_factors_.shape[1]
    V = model.column_factors_
    Q = np.column_stack([V, np.ones(len(V))]) if model.intercept else V
    L = np.diag(np.full(Q.shape[1], ridge))
    found = []
    for i in range(len(model.row_factors_)):
        H = L + (Q.T * weights[i]) @ Q
        inverse = np.linalg.inv(H)
        if squares is not None:
            inverse = inverse @ (L + (Q.T * squares[i]) @ Q) @ inverse
        found.append(inverse)
    return np.array(found), k


@pytest.mark.parametrize("link", [Logistic(), Logistic(2.0), Probit(), Probit(0.7)], ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_pn_variance_is_the_plain_formula(link, intercept):
    _, seen = seen_entries(link=link)
    model = fitted(seen, link=link, intercept=intercept)
    X = model.complete("score")
    A = seen.to_sparse().toarray()
    second = np.where(A > 0, link.second(X, 1), link.second(X, -1)) * (A != 0)
    S, k = plain_covariances(model, seen, weights=second, squares=None, ridge=1.0)
    U, V = model.row_factors_, model.column_factors_
    P, Q = (np.column_stack([F, np.ones(len(F))]) if intercept else F for F in (U, V))
    L = np.eye(P.shape[1])
    T = np.array([np.linalg.inv(L + (P.T * second[:, j]) @ P) for j in range(len(V))])
    i, j = (part.reshape(-1) for part in np.indices(X.shape))
    expected = [
        Q[b] @ S[a] @ Q[b] + P[a] @ T[b] @ P[a] + np.trace(S[a][:k, :k] @ T[b][:k, :k])
        for a, b in zip(i, j, strict=True)
    ]
    found = laplace(model, seen).deviation(i, j)
    np.testing.assert_allclose(found**2, expected, rtol=1e-9)


def test_row_curvature_is_the_second_difference_of_the_objective(monkeypatch):
    """The inverse of a row's covariance against differences of the penalised risk, mixtures' curvature too."""
    _, seen = seen_entries()
    for gammas in ((1, 0, 0), (0.5, 0.2, 0.3)):
        options = {} if gammas[0] == 1 else {"rho": 0.5, "radius": 2.0}
        model = fitted(seen, gammas=gammas, **options)
        risk = Risk(*gammas, model.rho_)
        objective = Objective(seen, Logistic(), risk, l2=1, intercept=True)
        own = relative_l2(0.5, seen.counts[0], 3.0), None
        objective.penalty = replace(objective.penalty, relative=own)
        factors = model._factors()
        plus, minus = risk.observed_weights(seen.labels, seen.rows, seen.columns)
        places = seen.rows, seen.columns, plus, minus, 1.0
        monkeypatch.setattr(covariances_module, "_spread", lambda *_: None)  # the curvature alone
        side = covariances_module.row_covariances(objective, factors, places, None)
        H = np.linalg.inv(side.covariances(np.array([3]))[0])
        step = 1e-3

        def moved(direction, objective=objective, factors=factors):
            U, a = factors.row_factors.copy(), factors.row_intercepts.copy()
            U[3] += direction[:2]
            a[3] += direction[2]
            return objective.value(replace(factors, row_factors=U, row_intercepts=a))

        for one in np.eye(3):
            for other in np.eye(3):
                ends = [
                    s * t * moved(step * (s * one + t * other)) for s in (1, -1) for t in (1, -1)
                ]
                difference = sum(ends) / (4 * step**2)
                assert H[one.argmax(), other.argmax()] == pytest.approx(
                    difference, rel=1e-4, abs=1e-4
                )


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=repr)
def test_mixture_has_the_sandwich_of_the_plain_formula(link):
    _, seen = seen_entries(link=link)
    gammas, rho, radius = (0.5, 0.2, 0.3), 0.5, 2.5
    model = fitted(seen, gammas=gammas, rho=rho, radius=radius, link=link, l2=8)
    inside = np.flatnonzero(np.sum(model.row_factors_**2, axis=1) < 0.99 * radius)
    assert inside.size > 20
    X = model.complete("score")
    A = seen.to_sparse().toarray()
    q = 1 - rho
    pn, pu, nu = gammas
    plus = np.where(A > 0, pn + pu / q, np.where(A < 0, -nu / q, 0.0))
    minus = np.where(A > 0, -pu / q, np.where(A < 0, pn + nu / q, 0.0))
    curvature = (plus + nu) * link.second(X, 1) + (minus + pu) * link.second(X, -1)
    slopes = plus * link.first(X, 1) + minus * link.first(X, -1)
    k = 2
    ridge = np.full(3, 8.0)
    ridge[:k] += (k + 2) / radius
    ridge[k] += 3 / radius**2
    S, _ = plain_covariances(
        model, seen, weights=np.maximum(curvature, 0), squares=slopes**2, ridge=ridge
    )
    found = laplace(model, seen).rows.covariances(inside)
    np.testing.assert_allclose(found, S[inside], rtol=1e-6, atol=1e-12)


def test_sandwich_does_not_count_labels_nobody_saw():
    """The curvature of a mixture is that of a full table: its inverse alone would be far too small."""
    _, seen = seen_entries(shape=(80, 60), rho=0.8)
    mixture = fitted(seen, gammas=(0.0, 0.5, 0.5), rho=0.8, radius=2.0, l2=20)
    covariances = laplace(mixture, seen).rows.covariances(np.arange(80))
    # Of 60 entries a row 12 were seen: with even odds each tells 1/4 of x, and the prior 20 + 3/4 besides.
    seen_alone, full = 1 / (20.75 + 12 / 4), 1 / (20.75 + 60 / 4)
    assert np.median(covariances[:, 2, 2]) > 0.9 * seen_alone > 1.3 * full


@pytest.mark.parametrize(("radius", "n_columns"), [(0.3, 25), (1.0, 150)])
def test_a_ball_is_a_prior_and_holds_with_its_force(radius, n_columns):
    l2 = 0.5
    _, seen = seen_entries(shape=(30, n_columns), alpha=12.0)
    model = fitted(seen, radius=radius, l2=l2)
    covariances = laplace(model, seen).rows.covariances(np.arange(30))
    X, A, link = model.complete("score"), seen.to_sparse().toarray(), Logistic()
    first = np.where(A > 0, link.first(X, 1), link.first(X, -1)) * (A != 0)
    second = link.second(X, 1) * (A != 0)
    Q = np.column_stack([model.column_factors_, np.ones(n_columns)])
    forces = []
    for i, U in enumerate(model.row_factors_):
        held = np.sqrt(U @ U) >= 0.999 * np.sqrt(radius)
        outward = -U @ (first[i] @ model.column_factors_ + l2 * U) / (U @ U)
        forces.append(held * outward)
        H = np.diag([l2 + max(forces[-1], 4 / radius)] * 2 + [l2]) + (Q.T * second[i]) @ Q
        np.testing.assert_allclose(covariances[i], np.linalg.inv(H), rtol=1e-8)
    # Each of the two cases is met: the law in the ball, and the force at its boundary.
    assert np.any(np.array(forces) > 1.5 * 4 / radius) == (n_columns > 25)


def test_nothing_observed_leaves_the_prior():
    seen = Observations.from_pairs([0, 0, 1, 1], [0, 1, 0, 1], [1, -1, -1, 1], shape=(4, 5))
    model = fitted(seen, l2=2)
    posterior = laplace(model, seen)
    prior = np.eye(3) / 2
    np.testing.assert_allclose(posterior.rows.covariances(np.array([3]))[0], prior)
    np.testing.assert_allclose(posterior.columns.covariances(np.array([4]))[0], prior)
    # Both at 0: intercepts 1/2 + 1/2, and factors 2 x 1/2 x 1/2.
    np.testing.assert_allclose(posterior.deviation([3], [4]) ** 2, [1.5])


@pytest.mark.parametrize("intercept", [True, False])
def test_variance_is_that_of_draws(intercept):
    _, seen = seen_entries()
    posterior = laplace(fitted(seen, l2=2.0, intercept=intercept), seen)
    draws = np.random.default_rng(0)
    drawn = posterior.sample_factors(draws)
    biases = np.concatenate([drawn.row_intercepts, drawn.column_intercepts])
    assert np.all(biases != 0) if intercept else not biases.any()
    i, j = np.array([0, 3, 7, 12]), np.array([1, 4, 9, 20])
    x = np.array([posterior.sample_factors(draws).at(i, j) for _ in range(3000)])
    np.testing.assert_allclose(x.std(axis=0), posterior.deviation(i, j), rtol=0.07)
    np.testing.assert_allclose(x.mean(axis=0), posterior.fitted.scores.x(i, j), atol=0.08)


def test_more_entries_make_it_surer():
    M, _ = seen_entries(shape=(60, 50))
    found = []
    for rho in (0.9, 0.6, 0.2):
        seen = observe(quantise(M, Logistic(), random_state=1), rho, random_state=2)
        found.append(laplace(fitted(seen), seen).deviation(np.arange(50), np.arange(50)).mean())
    assert found[0] > found[1] > found[2]


def test_blocks_change_nothing(monkeypatch):
    _, seen = seen_entries()
    model = fitted(seen)
    i, j = (part.reshape(-1) for part in np.indices((30, 25)))
    whole = laplace(model, seen).deviation(i, j)
    monkeypatch.setattr(covariances_module, "BLOCK", 50)
    # The package's name laplace is the function.
    monkeypatch.setattr(posterior_module, "BLOCK", 50)
    monkeypatch.setattr("tribit.backends.base.PRODUCTS_BYTES", 0)
    np.testing.assert_allclose(laplace(model, seen).deviation(i, j), whole, rtol=1e-10)
    mixture = {"gammas": (0.4, 0.3, 0.3), "rho": 0.5, "radius": 2.0}
    model = fitted(seen, **mixture)
    small = laplace(model, seen).deviation(i, j)
    monkeypatch.undo()
    np.testing.assert_allclose(laplace(model, seen).deviation(i, j), small, rtol=1e-10)


@pytest.mark.parametrize("block", [2**20, 13])
def test_samples_of_rows_have_their_covariances(monkeypatch, block):
    monkeypatch.setattr(covariances_module, "BLOCK", block)
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((5, 2, 2))
    exact = roots @ roots.transpose(0, 2, 1) + np.eye(2)
    packed = exact[:, *np.triu_indices(2)]
    posterior = covariances_module.RowPosterior(np.zeros((5, 2)), packed)
    np.testing.assert_allclose(posterior.covariances(np.array([4, 0])), exact[[4, 0]])
    means = rng.standard_normal((5, 2))
    samples = np.array([posterior.sample(means, rng) for _ in range(4000)])
    np.testing.assert_allclose(samples.mean(axis=0), means, atol=0.25)
    for row in range(5):
        found = np.cov(samples[:, row].T)
        np.testing.assert_allclose(found, exact[row], atol=0.1 * np.trace(exact[row]))


def test_intervals_of_x_and_of_the_probability_are_one():
    _, seen = seen_entries()
    model = fitted(seen)
    posterior = laplace(model, seen)
    i, j = np.arange(25), np.arange(25)
    x = posterior.interval(i, j, level=0.9, what="score")
    p = posterior.interval(i, j, level=0.9)
    np.testing.assert_allclose(p.lower, Logistic().probability(x.lower))
    np.testing.assert_allclose(p.upper, Logistic().probability(x.upper))
    np.testing.assert_allclose((x.lower + x.upper) / 2, model.decision_function(i, j), atol=1e-6)
    np.testing.assert_allclose(x.width / posterior.deviation(i, j), 2 * 1.6448536, rtol=1e-6)
    assert x.covers(model.decision_function(i, j)).all()
    assert not x.covers(x.upper + 1e-9).any()
    narrow = posterior.interval(i, j, level=0.5)
    assert np.all(narrow.width < p.width)


def test_ids_in_any_order_give_the_same():
    _, seen = seen_entries()
    names = [f"row {i}" for i in range(30)]
    known = Observations.from_pairs(
        seen.rows, seen.columns, seen.labels, shape=(30, 25), row_ids=names
    )
    flipped = Observations.from_pairs(
        29 - seen.rows, seen.columns, seen.labels, shape=(30, 25), row_ids=names[::-1]
    )
    model = fitted(known)
    one = laplace(model, known).deviation(names[:5], range(5))
    np.testing.assert_allclose(laplace(model, flipped).deviation(names[:5], range(5)), one)
    np.testing.assert_allclose(laplace(fitted(seen), seen).deviation(range(5), range(5)), one)


@pytest.mark.parametrize("deviation", [1e-3, 0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("link", [Logistic(), Logistic(7.0), Probit(0.5)], ids=repr)
def test_moderated_probability_is_the_integral(link, deviation):
    for x in (-20.0, -3.0, -0.4, 0.0, 1.0, 6.0):

        def density(e, x=x):
            value = float(link.probability(np.array([x + deviation * e]))[0])
            return value * np.exp(-(e**2) / 2) / np.sqrt(2 * np.pi)

        middle = np.clip(-x / deviation, -11.0, 11.0)
        exact = sum(
            quad(density, *ends, limit=300, epsabs=1e-11)[0]
            for ends in ((-12, middle), (middle, 12))
        )
        found = mean_probability(link, np.array([x]), np.array([deviation]))[0]
        assert found == pytest.approx(exact, abs=1e-6)


def test_other_links_are_moderated_by_nodes():
    class Borrowed(Logistic.__mro__[1]):
        probability = staticmethod(Logistic().probability)
        loss = first = second = None

    x, deviation = np.array([-1.0, 0.5]), np.array([0.4, 1.5])
    near = mean_probability(Logistic(), x, deviation)
    np.testing.assert_allclose(mean_probability(Borrowed(), x, deviation), near, atol=1e-6)


def test_predict_proba_is_drawn_towards_one_half():
    _, seen = seen_entries()
    model = fitted(seen)
    i, j = np.arange(25), np.arange(25)
    plain, found = model.predict_proba(i, j), laplace(model, seen).predict_proba(i, j)
    assert np.all(np.abs(found - 0.5) < np.abs(plain - 0.5))
    assert np.all(np.sign(found - 0.5) == np.sign(plain - 0.5))


def test_intervals_cover_where_the_ridge_is_the_prior():
    """Factors drawn from the prior itself: then the share covered is near the level, unlike without the trace."""
    draws = np.random.default_rng(0)
    U, V = (draws.standard_normal((side, 3)) / np.sqrt(2) for side in (120, 100))
    M = U @ V.T
    seen = observe(quantise(M, Logistic(3.0), random_state=draws), 0.5, random_state=draws)
    model = fitted(seen, rank=3, l2=2.0, link=Logistic(3.0), intercept=False)
    i, j = (part.reshape(-1) for part in np.indices(M.shape))
    found = laplace(model, seen).interval(i, j, level=0.9, what="score")
    assert 0.82 < found.covers(M.reshape(-1)).mean() < 0.95


def test_adjusting_makes_up_for_too_strong_a_ridge():
    M, seen = seen_entries(shape=(100, 80), alpha=8.0)
    train, held_out = seen.split(0.2, random_state=0)
    plain = laplace(fitted(train, l2=5), train)
    adjusted = plain.with_adjustment(held_out, n_refits=1, random_state=0)
    i, j = (part.reshape(-1) for part in np.indices(M.shape))
    shares = [
        each.interval(i, j, level=0.9, what="score").covers(M.reshape(-1)).mean()
        for each in (plain, adjusted)
    ]
    assert shares[0] < 0.6
    assert 0.85 < shares[1] < 0.98
    assert adjusted.adjustment.slope > 1.3
    # Twice adjusted is adjusted: the centre is not moved again.
    twice = adjusted.with_adjustment(held_out, n_refits=1, random_state=0)
    assert twice.adjustment.slope == adjusted.adjustment.slope
    np.testing.assert_array_equal(twice.adjustment.pivots, adjusted.adjustment.pivots)
    x = adjusted.adjustment.slope * plain.fitted.scores.x([0], [0])
    expected = Logistic().probability(x + adjusted.adjustment.offset)
    np.testing.assert_allclose(adjusted.predict_proba([0], [0]), expected)


def test_labels_are_simulated_from_the_posterior_and_refits_keep_what_was_chosen(monkeypatch):
    _, seen = seen_entries(shape=(60, 50), alpha=8.0)
    train, held_out = seen.split(0.2, random_state=0)
    iterations = []
    model = fitted(train, l2=2, callback=iterations.append)
    n_iterations = len(iterations)
    model.l2 = "auto"
    given = []
    real = Posterior.refit_to

    def spy(self, labels, random_state):
        given.append(labels)
        again = real(self, labels, random_state)
        assert again.fitted.spec.l2 == 2
        np.testing.assert_array_equal(again.observations.labels, labels)
        return again

    monkeypatch.setattr(Posterior, "refit_to", spy)
    found = laplace(model, train).with_adjustment(held_out, n_refits=2, random_state=0)
    assert len(iterations) == n_iterations > 0  # a refit calls nobody
    assert found.adjustment.pivots.size == 2 * held_out.n_observed
    signs = model.predict(train.rows, train.columns)
    agreed = [np.mean(labels == signs) for labels in given]
    assert 0.65 < min(agreed) <= max(agreed) < 0.9
    assert np.any(given[0] != given[1])


def test_adjusting_for_every_cell_and_a_mixture():
    _, seen = seen_entries(shape=(50, 40))
    train, held_out = seen.split(0.2, random_state=0)
    mask = row_column(train)
    model = fitted(train, gammas=(0.6, 0.2, 0.2), rho=mask, radius=2.0, l2=3)
    found = laplace(model, train).with_adjustment(
        held_out, propensity=mask, n_refits=1, random_state=0
    )
    assert np.all(np.isfinite(found.adjustment.pivots))
    assert found.adjustment.pivots.size == 20_000
    ends = found.interval([0, 1], [0, 1])
    assert np.all((ends.lower > 0) & (ends.upper < 1))


def test_bad_input_is_named():
    _, seen = seen_entries()
    model = fitted(seen)
    posterior = laplace(model, seen)
    with pytest.raises(InvalidInputError, match="what must be"):
        posterior.interval([0], [0], what="odds")
    with pytest.raises(InvalidInputError, match="level"):
        posterior.interval([0], [0], level=1.0)
    with pytest.raises(InvalidInputError, match="n_refits"):
        posterior.with_adjustment(seen, n_refits=0)
    with pytest.raises(InvalidInputError, match="no prior"):
        laplace(fitted(seen, l2=0.0, radius=1.0), seen)
    with pytest.raises(InvalidTypeError, match="BinaryMatrixCompletion"):
        laplace(SYSTEMS["singular-value-thresholding"]().fit(seen), seen)
    mixture = fitted(seen, gammas=(0.6, 0.2, 0.2), rho=0.5, radius=2.0)
    mixture.rho_ = None  # as in a model that was read from a file
    with pytest.raises(InvalidInputError, match="rho_"):
        laplace(mixture, seen)


def test_a_model_from_a_file_keeps_its_inverse_weights_once_rho_is_given_back():
    _, seen = seen_entries()
    model = fitted(seen, l2=4, rho=row_column(seen), inverse_power=1.0)
    plain = laplace(model, seen).rows.covariances(np.arange(30))
    rho, model.rho_ = model.rho_, None
    with pytest.raises(InvalidInputError, match="rho_"):
        laplace(model, seen)
    model.rho_ = rho
    np.testing.assert_array_equal(laplace(model, seen).rows.covariances(np.arange(30)), plain)


def test_a_risk_that_is_no_likelihood_has_the_sandwich(monkeypatch):
    """Labels flipped at known rates are corrected by weights other than 0 and 1."""
    _, seen = seen_entries()
    model = fitted(seen, l2=4)
    plain = laplace(model, seen).rows.covariances(np.arange(30))
    risk = pn(LabelNoise(rate_plus=0.2, rate_minus=0.1))
    monkeypatch.setattr(Fitted, "risk", lambda _: risk)
    corrected = laplace(model, seen).rows.covariances(np.arange(30))
    plus, minus = risk.observed_weights(seen.labels, seen.rows, seen.columns)
    X, link = model.complete("score"), Logistic()
    weights, squares = np.zeros(X.shape), np.zeros(X.shape)
    at = seen.rows, seen.columns
    weights[at] = np.maximum(plus + minus, 0) * link.second(X[at], 1)
    squares[at] = (plus * link.first(X[at], 1) + minus * link.first(X[at], -1)) ** 2
    S, _ = plain_covariances(model, seen, weights=weights, squares=squares, ridge=4.0)
    np.testing.assert_allclose(corrected, S, rtol=1e-7, atol=1e-12)
    assert np.median(corrected[:, 2, 2] / plain[:, 2, 2]) > 1.05


def test_intercepts_have_a_ridge_of_their_own():
    seen = Observations.from_pairs([0, 0, 1, 1], [0, 1, 0, 1], [1, -1, -1, 1], shape=(4, 5))
    model = with_spec(fitted(seen, l2=2), l2_intercept=8.0)
    covariance = laplace(model, seen).rows.covariances(np.array([3]))[0]
    np.testing.assert_allclose(covariance, np.diag([1 / 2, 1 / 2, 1 / 8]))
