"""Weights of entries in every backend, against the plain sum over repeated entries."""

from importlib.util import find_spec

import numpy as np
import pytest

from reference import (
    RISKS,
    CloglogLink,
    Reference,
    RhoByEntry,
    differences,
    gammas_of,
    imputed_weights,
    observations_of,
    random_factors,
    random_matrix,
    table,
)
from tribit.backends import compiled, layout, make_backend
from tribit.backends.objective import Objective
from tribit.backends.rows import solve_free_rows
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.links import Logistic, Probit
from tribit.model.risks import Imputation, Risk, pn, pu, tri

SHAPE, K = (20, 13), 3
A = random_matrix(SHAPE, gaps=True)
REPEATS = np.random.default_rng(3).integers(0, 4, SHAPE) * (A != 0)
FRACTIONS = np.random.default_rng(4).uniform(0.1, 2.5, SHAPE) * (A != 0)
P, Q = random_factors(SHAPE, K)


def weighted(matrix=REPEATS):
    """Return the observations of A with these weights, those of weight 0 left out."""
    return Observations.from_matrix(A, zeros="unobserved", weights=matrix)


def repeated(gammas, rho, repeats=REPEATS):
    """Return c_plus, c_minus of each cell: unobserved ones once, observed ones once for each entry."""
    rows = table(gammas, np.broadcast_to(np.asarray(rho, dtype=float), SHAPE))
    found = [np.zeros(SHAPE), np.zeros(SHAPE)]
    for i, j in np.ndindex(SHAPE):
        n = int(repeats[i, j])
        for label in [A[i, j]] * n or [0]:
            for side in (0, 1):
                found[side][i, j] += rows[label][side][i, j]
    return found


def backend_of(kind, seen, link, risk, dtype="float64"):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiled.VARIABLE, "1" if kind == "compiled" else "0")
        patch.setattr(layout, "BATCH_ENTRIES", 16)
        backend = "sampled" if kind == "sampled" else "exact"
        return make_backend(seen, link, risk, dtype=dtype, n_jobs=1, backend=backend)


KINDS = {
    f"{kind}-{name}": (kind, risk)
    for kind, all_cells in (("exact", None), ("sampled", True), ("compiled", False))
    for name, risk in RISKS.items()
    if all_cells is None or bool(risk.unobserved_weight) == all_cells
}
LINKS = {"logistic": Logistic(2.0), "probit": Probit(), "own": CloglogLink()}


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize(("kind", "risk"), KINDS.values(), ids=KINDS)
def test_an_integer_weight_is_as_many_entries(kind, risk, link):
    if kind == "compiled" and find_spec("numba") is None:
        pytest.skip("needs compiled kernels")
    exact = Reference.of_weights(link, *repeated(gammas_of(risk), risk.rho))
    backend = backend_of(kind, weighted(), link, risk)
    value, in_P, in_Q = backend.gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    assert backend.value(P, Q) == pytest.approx(exact.value(P, Q), rel=1e-10)
    for found, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("link", [Logistic(2.0), Probit()], ids=["logistic", "probit"])
@pytest.mark.parametrize("name", ["pn", "tri", "nu"])
def test_curvatures_of_rows_are_exact_and_their_bounds_above_them(name, link):
    risk = RISKS[name]
    backend = backend_of("exact", weighted(), link, risk)
    expected = Reference.of_weights(link, *repeated(gammas_of(risk), risk.rho)).row_curvatures(
        P, Q, K
    )
    for exact in (True, False):
        found = np.zeros((SHAPE[0], K, K))
        for number in range(backend.n_panels):
            panel = backend.panel(number, backend.gram_cache(Q))
            found[panel.rows] = panel.models(P[panel.rows], K, exact=exact, value=False).matrices()
        if exact:
            np.testing.assert_allclose(found, expected, atol=1e-10 * expected.max())
        else:
            assert np.linalg.eigvalsh(found - expected).min() > -1e-10 * expected.max()


def test_the_weight_of_each_cell_is_the_formula_of_the_manual():
    risk = RISKS["tri"]
    rows = table(gammas_of(risk), np.broadcast_to(risk.rho, SHAPE))
    w = FRACTIONS
    expected = [
        np.where(
            w > 0,
            w * np.where(A > 0, rows[1][side], rows[-1][side])
            + np.maximum(1 - w, 0) * rows[0][side],
            rows[0][side],
        )
        for side in (0, 1)
    ]
    seen = weighted(w)
    plus, minus = seen.risk_weights(risk)
    at = seen.rows, seen.columns
    np.testing.assert_allclose(plus + risk.nu, expected[0][at])
    np.testing.assert_allclose(minus + risk.pu, expected[1][at])


def test_probabilities_by_entry_imputations_and_their_means_are_weighted():
    rho = RhoByEntry(SHAPE)
    pairs = np.repeat(np.argwhere(A != 0), REPEATS[A != 0], axis=0)  # one for each entry
    mean = np.mean((1 - rho.dense[tuple(pairs.T)]) ** -0.5)
    plain = Risk(1.0, 0.0, 0.0, rho, inverse_power=0.5)
    plus, minus = weighted().risk_weights(plain)
    seen = weighted()
    at = seen.rows, seen.columns
    np.testing.assert_allclose(
        plus + minus, REPEATS[at] * (1 - rho.dense[at]) ** -0.5 / mean, rtol=1e-12
    )
    model = Imputation(Factors.of(*random_factors(SHAPE, 2, seed=5), 0.3), Logistic())
    risk = Risk(0.2, 0.4, 0.4, rho, imputed=model)
    f0 = model.probability_at(*np.indices(SHAPE).reshape(2, -1)).reshape(SHAPE)
    once = imputed_weights(A, f0, rho.dense, pn=0.2)
    none = 0.8 * f0, 0.8 * (1 - f0)
    exact = Reference.of_weights(
        Logistic(),
        *(np.where(REPEATS > 0, REPEATS * c, n) for c, n in zip(once, none, strict=True)),
    )
    backend = backend_of("exact", weighted(), Logistic(), risk)
    assert backend.value(P, Q) == pytest.approx(exact.value(P, Q), rel=1e-10)


@pytest.mark.parametrize("risk", [pn(), pu(0.0), tri(0.5, 0.3, 0.2, 0.8)], ids=["pn", "pu", "tri"])
def test_the_gradient_of_the_objective_is_that_of_differences(risk):
    objective = Objective(weighted(FRACTIONS), Logistic(), risk, l2=0.3, intercept=True)
    here = Factors(P, Q, 0.1, 0.2 * P[:, 0], 0.3 * Q[:, 0])
    step = Factors(Q[:1].repeat(SHAPE[0], 0), Q[::-1], 0.4, P[:, 1], Q[:, 2])
    slope = objective.gradient(here)[1].dot(step)
    assert slope == pytest.approx(
        differences(lambda t: objective.value(here.plus(t, step)), 0.0, 1e-3), rel=1e-8
    )


@pytest.mark.parametrize("risk", [pn(), pu(0.0), tri(0.5, 0.3, 0.2, 0.8)], ids=["pn", "pu", "tri"])
def test_equal_weights_scale_the_risk_of_a_full_table(risk):
    full = Observations.from_matrix(random_matrix(SHAPE, observed=1.0))
    double = full.with_weights(np.full(len(full), 2.0))
    once, twice = (backend_of("exact", seen, Logistic(), risk) for seen in (full, double))
    assert twice.value(P, Q) == pytest.approx(2 * once.value(P, Q), rel=1e-12)
    sizes = [Objective(seen, Logistic(), risk).size for seen in (full, double)]
    assert sizes[1] == pytest.approx(2 * sizes[0])


def test_rows_alone_are_the_minimum_over_repeated_entries():
    """Each row once with weights, and once as a row with more columns, those of repeated entries."""
    seen = weighted()
    ridge, offsets = np.full(K, 0.5), 0.1 * Q[:, 0]
    found = solve_free_rows(seen, Q, offsets, np.zeros((SHAPE[0], K)), ridge, Logistic())
    for i in range(SHAPE[0]):
        copies = np.repeat(np.arange(SHAPE[1]), REPEATS[i])
        if not copies.size:
            continue
        n = copies.size
        labels = A[i, copies]
        alone = Observations(np.zeros(n, int), np.arange(n), labels, (1, n))
        expected = solve_free_rows(
            alone, Q[copies], offsets[copies], np.zeros((1, K)), ridge, Logistic()
        )
        np.testing.assert_allclose(found[i], expected[0], atol=1e-6)


def test_weights_that_are_all_one_are_no_weights():
    ones = observations_of(A).with_weights(np.ones(np.count_nonzero(A)))
    assert ones.weights is None
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidInputError, match=r"entry 2: the weight .* is not a finite"):
            ones.with_weights([1, 1, wrong] + [1] * (len(ones) - 3))
