"""Sums over partitions on workers against those of one machine."""

from dataclasses import replace

import numpy as np
import pytest

from tribit import Logistic, Probit
from tribit.backends import make_backend
from tribit.backends.balls import RowProblem
from tribit.backends.objective import features_of
from tribit.backends.rows import RowState
from tribit.cluster import backend as cluster_backend
from tribit.cluster import calls, from_observations
from tribit.data.features import fit_side_features
from tribit.model.factors import Factors
from tribit.model.features import Features
from tribit.model.risks import Risk, doubly_robust, pn, pu, tri
from tribit.model.spec import ModelSpec
from tribit.propensity import fit_propensity
from tribit.randomness import hashed_fold_numbers

PROBLEM = RowProblem(3, True, 0.5, 1.5, norm=1.2, bound=0.8)
#: Without a ball, whose multipliers are exact for most rows of a panel and not for all: panels are others here.
UNBOUNDED = RowProblem(3, True, 0.5, 1.5)


@pytest.fixture(scope="module")
def there(client, seen):
    return from_observations(seen, client, n_partitions=4)


@pytest.fixture
def factors(seen):
    draws = np.random.default_rng(1)
    return tuple(draws.normal(size=(size, 5)) for size in seen.shape)


def both(seen, there, link, risk, dtype="float64"):
    return [make_backend(each, link, risk, dtype=dtype, n_jobs=1) for each in (seen, there)]


def by_entry(seen):
    return fit_propensity("row-column", seen, n_jobs=1, random_state=0)


RISKS = {
    "PN": lambda _: pn(),
    "TRI": lambda _: tri(0.5, 0.3, 0.2, 0.7),
    "PU, rho = 0": lambda _: pu(0.0),
    "TRI, rho by entry": lambda seen: Risk(0.5, 0.3, 0.2, by_entry(seen)),
    "PN, inverse weights": lambda seen: Risk(1.0, 0.0, 0.0, by_entry(seen), inverse_power=0.7),
    "imputed labels": lambda seen: doubly_robust(
        drawn_factors(*seen.shape), "probit", by_entry(seen), pn=0.3
    ),
}


def drawn_factors(n, m):
    draws = np.random.default_rng(6)
    U, V, a, c = (draws.normal(size=shape) for shape in ((n, 2), (m, 2), (n,), (m,)))
    return Factors(U, V, 0.3, a, c)


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("link", [Logistic(), Probit(0.7)], ids=["logistic", "probit"])
def test_passes_equal_those_of_one_machine(monkeypatch, seen, there, factors, link, name):
    # Blocks of 256 columns need more columns than there are here: of 16.
    monkeypatch.setattr(cluster_backend, "BLOCK_MULTIPLE", 16)
    monkeypatch.setattr(cluster_backend, "BLOCK_BYTES", 16 * 10 * 8)
    P, Q = factors
    risk = RISKS[name](seen)
    problem = UNBOUNDED if risk.inverse_power or risk.imputed else PROBLEM
    ours, theirs = both(seen, there, link, risk)
    assert theirs.value(P, Q) == pytest.approx(ours.value(P, Q), rel=1e-12)
    assert theirs.largest(P, Q) == ours.largest(P, Q)
    for expected, found in zip(ours.gradient(P, Q), theirs.gradient(P, Q), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    for one, other, p, q in ((ours, theirs, P, Q), (ours.transposed, theirs.transposed, Q, P)):
        problem = replace(problem, relative_l2=np.linspace(0.5, 2.0, p.shape[0]))
        states = RowState(p.shape[0]), RowState(p.shape[0])
        for state in states:  # curvatures themselves, and a line search
            state.tightness = 0.0
        expected = one.half_sweep(p, q, problem, states[0])
        found = other.half_sweep(p, q, problem, states[1])
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(states[1].multipliers, states[0].multipliers, atol=1e-8)
        assert states[1].tightness == pytest.approx(states[0].tightness)
    assert theirs.transposed.n_panels == -(-seen.shape[1] // theirs.transposed.width)


def test_bounds_of_curvature_serve_where_they_are_tight(seen, there, factors):
    P, Q = (0.1 * each for each in factors)
    ours, theirs = both(seen, there, Logistic(), tri(0.2, 0.5, 0.3, 0.7))
    assert ours.has_bounds
    assert theirs.has_bounds
    for one, other, p, q in ((ours, theirs, P, Q), (ours.transposed, theirs.transposed, Q, P)):
        moved = [each.half_sweep(p, q, PROBLEM, RowState(p.shape[0])) for each in (one, other)]
        np.testing.assert_allclose(moved[1].P, moved[0].P, atol=1e-10)


def test_a_tree_of_tasks_has_the_bits_of_the_sum_that_is_made_here(monkeypatch, client, seen):
    there = from_observations(seen, client, n_partitions=11)
    draws = np.random.default_rng(2)
    P, Q = (draws.normal(size=(size, 3)) for size in seen.shape)
    backend = make_backend(there, Logistic(), pn(), dtype="float32", n_jobs=1)
    here = backend.gradient(P, Q), backend.transposed.half_sweep(Q, P, RowProblem(3), RowState(60))
    monkeypatch.setattr(calls, "MAX_ROUND_BYTES", 0)
    there = backend.gradient(P, Q), backend.transposed.half_sweep(Q, P, RowProblem(3), RowState(60))
    for expected, found in zip(here, there, strict=True):
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_factors_of_many_bytes_are_those_of_their_own_pass(client, seen):
    # dask names an array above 100 kB after its keyword, so that a pass could be given that of the pass before.
    cluster = calls.Cluster(client)
    given = [np.full((160, 100), float(number)) for number in range(8)]
    futures = [
        cluster.map(lambda _, array: float(array[0, 0]), range(3), array=each) for each in given
    ]
    assert cluster.results(futures) == [[float(number)] * 3 for number in range(8)]
    there = from_observations(seen, client, n_partitions=3)
    draws = np.random.default_rng(5)
    ours, theirs = both(seen, there, Logistic(), pn())
    P = 0.1 * draws.normal(size=(160, 300))
    for _ in range(3):
        Q = 0.1 * draws.normal(size=(60, 300))
        assert Q.nbytes > 1e5
        assert theirs.value(P, Q) == pytest.approx(ours.value(P, Q), rel=1e-10)
        for expected, found in zip(ours.gradient(P, Q), theirs.gradient(P, Q), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("side", [False, True], ids=["implicit", "implicit and side"])
def test_features_equal_those_of_one_machine(seen, there, side):
    spec = ModelSpec(implicit_features=True, l2=2.0, l2_implicit=5.0, activity_floor=(1.0, 0.5))
    draws = np.random.default_rng(3)
    known = None
    if side:
        spec = replace(spec, side_features=True, l2_side=3.0)
        tables = draws.normal(size=(160, 3)), draws.integers(0, 2, size=(60, 4))
        _, known = fit_side_features(seen.axes, *tables)
    backend = make_backend(there, Logistic(), pn(), dtype="float64", n_jobs=1)
    ours, theirs = features_of(spec, seen, known), features_of(spec, there, known, backend)
    assert isinstance(theirs, Features)
    sizes = ours.rows.n_coefficients, ours.columns.n_coefficients
    assert sizes == (theirs.rows.n_coefficients, theirs.columns.n_coefficients)

    parts, given = drawn_factors(*sizes), drawn_factors(*seen.shape)
    for name, argument in (
        ("combine", parts),
        ("pull_back", given),
        ("pull_back_squares", given),
        ("initial_coefficients", given),
    ):
        expected, found = (getattr(each, name)(argument) for each in (ours, theirs))
        for part in ("row_factors", "column_factors", "row_intercepts", "column_intercepts"):
            a, b = getattr(expected, part), getattr(found, part)
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)
        assert found.intercept == expected.intercept
    np.testing.assert_array_equal(ours.rows.ridge(2.0), theirs.rows.ridge(2.0))
    # Each side on its own, as the preconditioner of L-BFGS takes it.
    for side, z, g in (
        ("rows", parts.row_factors[160:], given.row_factors),
        ("columns", parts.column_factors[60:], given.column_factors),
    ):
        expected, found = (getattr(each, side) for each in (ours, theirs))
        np.testing.assert_allclose(found.shared_terms(z), expected.shared_terms(z), atol=1e-10)
        np.testing.assert_allclose(found.pull_back(g), expected.pull_back(g), atol=1e-10)


def test_counts_sums_and_matrices_equal_those_of_one_machine(seen, there):
    def values(entries, x):
        return entries.labels * (1.0 + entries.rows) + (0 if x is None else x)

    assert (there.n_likes, there.n_dislikes, len(there)) == (
        seen.n_likes,
        seen.n_dislikes,
        len(seen),
    )
    for a, b in zip(
        (*seen.counts, *seen.sums(values)), (*there.counts, *there.sums(values)), strict=True
    ):
        np.testing.assert_allclose(a, b)
    draws = np.random.default_rng(4)
    factors = Factors.of(*(draws.normal(size=(size, 2)) for size in seen.shape), 0.4)
    G, M = seen.matrix(values, factors), there.matrix(values, factors)
    V, u = draws.normal(size=(60, 3)), draws.normal(size=160)
    np.testing.assert_allclose(M @ V, G @ V)
    np.testing.assert_allclose(M.T @ u, G.T @ u)
    np.testing.assert_allclose(M.toarray(), G.toarray(), atol=1e-12)


def test_folds_are_those_of_one_machine_and_a_tenth_of_the_entries(seen, there):
    for number, (train, held_out) in enumerate(there.hashed_folds(5, 2, seed=11)):
        numbers = hashed_fold_numbers(seen.rows, seen.columns, 5, 11)
        expected = seen.hold_out(numbers == number)
        np.testing.assert_array_equal(held_out.rows, expected[1].rows)
        np.testing.assert_array_equal(held_out.columns, expected[1].columns)
        np.testing.assert_array_equal(held_out.labels, expected[1].labels)
        np.testing.assert_array_equal(train.counts[1], expected[0].counts[1])
        assert train.n_likes == expected[0].n_likes
    rows, columns = (each.ravel() for each in np.indices((1000, 1000)))
    numbers = hashed_fold_numbers(rows, columns, 10, seed=0)
    again = hashed_fold_numbers(rows, columns, 10, seed=1)
    # 100,000 in each fold with an error of 300; of two seeds a tenth agrees; rows and columns share none.
    assert np.abs(np.bincount(numbers) - 1e5).max() < 1500
    assert abs(np.mean(numbers == again) - 0.1) < 0.002
    table = np.bincount(rows * 10 + numbers, minlength=10_000).reshape(1000, 10)
    assert 0.8 < table.var() / 90 < 1.2  # binomial: 1000 x 0.1 x 0.9
