"""Compiled kernels: the sums of NumPy's backends."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from reference import random_factors, random_matrix
from tribit import BinaryMatrixCompletion, Observations, Risk, pn, tri
from tribit.backends import compiled, make_backend, tile_sample
from tribit.backends.balls import RowProblem
from tribit.backends.rows import RowState
from tribit.backends.sparse import SparseBackend
from tribit.model.design import Block
from tribit.model.links import Logistic
from tribit.model.risks import LabelNoise

needs_numba = pytest.mark.skipif(
    find_spec("numba") is None, reason='needs compiled kernels: pip install "tribit[fast]"'
)
#: Relative error of a row's sums: those of float32 are in it over up to a run of entries.
TOLERANCE = {"float32": 2e-5, "float64": 1e-11}
#: Flipped labels, whose weights are no sums of few powers of 2.
NOISY = Risk(1.0, 0.0, 0.0, noise=LabelNoise(0.1, 0.2))


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, "1")


def pair(A, dtype, monkeypatch, risk=None):
    """Return NumPy's backend and the compiled one."""
    found = []
    for wanted in ("0", "1"):
        monkeypatch.setenv(compiled.VARIABLE, wanted)
        seen = Observations.from_matrix(A)
        found.append(make_backend(seen, Logistic(), risk or pn(), dtype=dtype, n_jobs=1))
    assert isinstance(found[0], SparseBackend)
    assert type(found[1]).__name__ == "CompiledBackend"
    return found


def long_rows():
    """A table with a row and a column of several runs, short ones, and ones without entries."""
    A = random_matrix((330, 300), observed=0.08)
    A[3], A[:, 5] = 1, -1
    A[7], A[:, 9] = 0, 0
    return A


# Against NumPy


@needs_numba
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("k", [5, 9, 17])  # within one vector of numbers, and beyond one and two
def test_values_gradients_and_models_of_long_and_empty_rows(dtype, intercept, k, monkeypatch):
    backends = pair(long_rows(), dtype, monkeypatch)
    P, Q = random_factors(backends[0].shape, k)
    near = {"rtol": TOLERANCE[dtype], "atol": 100 * TOLERANCE[dtype]}
    plain, fast = (each.gradient(P, Q) for each in backends)
    for one, other in zip(plain, fast, strict=True):
        np.testing.assert_allclose(other, one, **near)
    free, found = k - intercept, []
    for backend in backends:
        gathered = np.zeros((P.shape[0], free, free))

        def fill(panel, gathered=gathered):
            model = panel.models(P[panel.rows], free, exact=True, value=False)
            assert np.isnan(model.values).all()
            gathered[panel.rows] = model.matrices()

        list(backend.map_panels(fill, Q))
        found.append(gathered)
    np.testing.assert_allclose(found[1], found[0], **near)


@needs_numba
@pytest.mark.parametrize(
    ("risk", "weighted", "same"),
    [(pn(), False, True), (NOISY, False, False), (pn(), True, False)],
    ids=["signs", "two weights that single precision rounds", "own weights"],
)
def test_sums_in_double_precision_share_weights_that_single_precision_keeps(
    risk, weighted, same, always
):
    seen = Observations.from_matrix(long_rows())
    if weighted:
        seen = seen.with_weights(np.random.default_rng(0).random(seen.n_observed) + 0.1)
    single, double = (
        make_backend(seen, Logistic(), risk, dtype=dtype, n_jobs=1)
        for dtype in ("float32", "float64")
    )
    again = single.astype("float64")
    if not same:
        assert again is None
        return
    assert again.side is single.side
    assert again.dtype == np.float64
    assert single.transposed.astype("float64").side is single.other
    P, Q = random_factors(single.shape, 5)
    assert again.value(P, Q) == double.value(P, Q) != single.value(P, Q)
    for one, other in zip(again.gradient(P, Q), double.gradient(P, Q), strict=True):
        np.testing.assert_array_equal(one, other)


@needs_numba
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", ["ridge", "own", "prior_mean", "flat", "far", "ball", "bound"])
def test_half_sweeps(case, dtype, monkeypatch):
    A = long_rows()
    P, Q = random_factors(A.shape, 6)
    if case == "far":  # full steps overshoot: the search has work to do
        P, Q = 6 * P, 3 * Q
    ridge = 0.0 if case == "flat" else 0.3
    more = {
        "prior_mean": {"prior_mean": np.random.default_rng(1).normal(size=(A.shape[0], 5))},
        "own": {"relative_l2": np.linspace(0.2, 3.0, A.shape[0])},
        "ball": {"norm": 0.5},
        "bound": {"bound": 0.1},
    }
    problem = RowProblem(4, True, ridge, 2 * ridge, **more.get(case, {}))
    plain, fast = (
        backend.half_sweep(P, Q, problem, RowState(A.shape[0]))
        for backend in pair(A, dtype, monkeypatch)
    )
    tolerance = TOLERANCE[dtype]
    assert fast.value == pytest.approx(plain.value, rel=tolerance)
    assert fast.gain == pytest.approx(plain.gain, rel=100 * tolerance)
    if case == "flat":  # along a flat direction the step is what rounding makes of it
        reached = [
            backend.value(moved.P, Q)
            for backend, moved in zip(pair(A, "float64", monkeypatch), (plain, fast), strict=True)
        ]
        assert reached[1] == pytest.approx(reached[0], rel=1e-3)
        return
    # The curvatures of short rows leave float32 few digits of a step.
    near = 1e-3 if dtype == "float32" else 1e-8
    np.testing.assert_allclose(fast.P, plain.P, rtol=near, atol=near)


@needs_numba
def test_a_row_that_is_not_a_number_stays(monkeypatch):
    A = long_rows()
    P, Q = random_factors(A.shape, 6)
    P[2, 1] = np.nan
    fast = pair(A, "float64", monkeypatch)[1]
    moved = fast.half_sweep(P, Q, RowProblem(4, True, 0.3, 0.3), RowState(A.shape[0]))
    np.testing.assert_array_equal(moved.P[2], P[2])
    assert np.isfinite(np.delete(moved.P, 2, axis=0)).all()
    assert not np.isfinite(fast.value(P, Q))


@needs_numba
def test_factors_of_other_shapes_are_refused_before_a_kernel_reads_beyond_them(monkeypatch):
    A = long_rows()
    P, Q = random_factors(A.shape, 4)
    fast = pair(A, "float64", monkeypatch)[1]
    for wrong in ((P[1:], Q), (P, Q[1:]), (P, Q[:, 1:])):
        with pytest.raises(ValueError, match="factors of shapes"):
            fast.gradient(*wrong)
        with pytest.raises(ValueError, match="factors of shapes"):
            fast.half_sweep(*wrong, RowProblem(4, False, 0.3), RowState(A.shape[0]))
        with pytest.raises(ValueError, match="factors of shapes"):
            fast.value(*wrong)


@needs_numba
def test_the_logistic_link_to_the_last_bits():
    from tribit.backends.compiled.logistic import decay, log_one_plus

    z = np.concatenate([np.linspace(-40, 40, 2001), [0.0, -0.0, 1e-300, 1e-9, 349.9, 1e3, -np.inf]])
    e = np.array([decay(each) for each in z])
    np.testing.assert_allclose(e, np.exp(-2 * np.minimum(np.abs(z), 350.0)), rtol=1e-15, atol=0)
    found = np.array([log_one_plus(each) for each in e])
    np.testing.assert_allclose(found, np.log1p(e), rtol=1e-15, atol=0)
    assert np.isnan(decay(np.nan))


@needs_numba
def test_small_systems():
    from tribit.backends.compiled.algebra import solve

    draws = np.random.default_rng(0)
    for m in (1, 2, 5, 9, 34):
        root = draws.normal(size=(m + 3, m))
        H, b = root.T @ root + np.eye(m), draws.normal(size=m)
        lower, x = np.tril(H), b.copy()  # the upper half is not read
        solve(lower, np.empty((m, m)), x, 1e-9)
        np.testing.assert_allclose(H @ x, b, atol=1e-11)
    x = np.ones(2)
    solve(np.diag([1.0, -1e-8]), np.empty((2, 2)), x, 1e-9)  # made indefinite by rounding
    assert np.isfinite(x).all()
    x = np.ones(2)
    solve(np.diag([1.0, np.nan]), np.empty((2, 2)), x, 1e-9)
    assert np.isnan(x).all()


# Features


@needs_numba
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("always")
def test_products_with_features_and_any_number_of_threads(dtype, monkeypatch):
    from tribit.backends.compiled import backend as blocks

    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 64)
    draws = np.random.default_rng(0)
    matrix = sp.random_array((120, 120), density=0.1, rng=draws, format="csr")
    block = Block(matrix, draws.normal(size=120), draws.normal(size=120), 1.0)
    backend = SimpleNamespace(n_jobs=1)
    found = []
    for n_jobs in (1, 2, 3):
        backend.n_jobs = n_jobs
        fast = SparseBackend.block_to_device(backend, block)
        assert type(fast) is not Block
        for shape in ((120, 7), (120, 1), (120,)):
            z = draws.normal(size=shape).astype(dtype) if n_jobs == 1 else found[0][len(shape)][0]
            for of in ("times", "transposed_times", "squares_times"):
                got = getattr(fast, of)(z)
                assert got.dtype == dtype
                near = 1e-5 if dtype == "float32" else 1e-12
                np.testing.assert_allclose(got, getattr(block, of)(z), rtol=near, atol=near)
        z = np.linspace(-1, 1, 840, dtype=dtype).reshape(120, 7)
        found.append({2: (z, fast.times(z)), 1: (z[:, 0].copy(), fast.times(z[:, 0]))})
    for each in found[1:]:
        np.testing.assert_array_equal(each[2][1], found[0][2][1])


# Sampled sums


@needs_numba
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "k", [3, 6, 17]
)  # fewer factors than are done in one loop, and rests of it
def test_sampled_sums(dtype, k, monkeypatch):
    monkeypatch.setattr(tile_sample, "BLOCK", 40)
    A, risk = random_matrix((330, 300), observed=0.03), tri(0.4, 0.3, 0.3, 0.9)
    P, Q = random_factors(A.shape, k)
    found = []
    for wanted, kind in (("0", "SampledBlock"), ("1", "CompiledSampledBlock")):
        monkeypatch.setenv(compiled.VARIABLE, wanted)
        seen = Observations.from_matrix(A)
        options = {"dtype": dtype, "n_jobs": 1, "backend": "sampled"}
        # Staged at smaller factors: cells are beyond the interval of the quadratics.
        backend = make_backend(seen, Logistic(), risk, **options).refit_control_variates(0.2 * P, Q)
        assert backend.block_type.__name__ == kind
        tiles = backend.side.sample.tiles
        assert np.any(tiles.weights > 1)
        z = backend.loss.scale * P @ Q.T
        assert z.max() > np.max(backend.side.sample.controls.high)
        panel = backend.panel(0, backend.gram_cache(Q))
        models = panel.models(P[panel.rows], k, exact=True, value=True)
        found.append((*backend.gradient(P, Q), panel.values(P[panel.rows]), models.gradients))
        found[-1] += models.values, models.matrices()
    near = TOLERANCE[dtype]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=near, atol=10 * near * np.abs(one).max())


@needs_numba
@pytest.mark.parametrize("single", [False, True])
def test_cells_that_are_not_numbers_stay_so(single):
    from tribit.backends.compiled.tiles import cell_terms

    z = np.array([np.nan, -1.0, 300.0, 800.0], dtype="float32" if single else "float64")
    for low, high in ((-np.inf, np.inf), (-2.0, 2.0)):
        first = np.empty_like(z)
        cell_terms(z, 4, low, high, 0.25, first)
        assert np.isnan(first[0])
        at = np.clip(z[1:], low, high)
        np.testing.assert_allclose(first[1:], np.tanh(at) + 0.25 * (z[1:] - at), rtol=1e-6)


@needs_numba
def test_the_logistic_link_in_single_precision():
    from tribit.backends.compiled.logistic import decay_single, log_one_plus_single

    z = np.concatenate([np.linspace(-40, 40, 4001), [0.0, 1e-20, -60.0]]).astype("float32")
    exact = np.exp(-2 * np.abs(z.astype(float)))
    found = np.array([decay_single(each) for each in z])
    assert decay_single.nopython_signatures[0].return_type.bitwidth == 32
    np.testing.assert_allclose(found[:-1], exact[:-1], rtol=3e-7)
    assert found[-1] < 1e-37
    logs = np.array([log_one_plus_single(np.float32(each)) for each in exact])
    np.testing.assert_allclose(logs, np.log1p(exact.astype("float32").astype(float)), rtol=3e-7)


# Fits

FITS = {
    "factors": {"rank": 3, "l2": 6.0, "l2_intercept": 2.0},
    "ball": {"rank": 3, "l2": 6.0, "l2_intercept": 2.0, "radius": 1.5},
    "features": {
        "rank": 3,
        "l2": 6.0,
        "l2_intercept": 2.0,
        "implicit_features": True,
        "l2_implicit": 10.0,
    },
    "sampled": {
        "rank": 3,
        "l2": 6.0,
        "l2_intercept": 2.0,
        "gammas": (0.6, 0.2, 0.2),
        "backend": "sampled",
    },
}


@needs_numba
@pytest.mark.parametrize("settings", FITS.values(), ids=FITS)
def test_fits_have_the_same_bits_on_any_number_of_threads_and_the_answers_of_numpy(
    settings, monkeypatch
):
    from tribit.backends.compiled import backend as blocks

    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 500)
    A = long_rows()

    def fitted(n_jobs):
        model = BinaryMatrixCompletion(
            **{"gammas": (1.0, 0.0, 0.0)} | settings, tol=1e-6, random_state=0, n_jobs=n_jobs
        )
        return model.fit(A)

    monkeypatch.setenv(compiled.VARIABLE, "0")
    plain = fitted(1)
    monkeypatch.setenv(compiled.VARIABLE, "1")
    alone, together = fitted(1), fitted(2)
    np.testing.assert_array_equal(alone.row_factors_, together.row_factors_)
    np.testing.assert_array_equal(alone.column_factors_, together.column_factors_)
    assert alone.objective_ == together.objective_
    assert alone.objective_ == pytest.approx(plain.objective_, rel=1e-4)
