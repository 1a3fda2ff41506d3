import tracemalloc
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from reference import (
    ALL_LINKS,
    MATRICES,
    RISKS,
    SOME_LINKS,
    Reference,
    RhoByEntry,
    link_id,
    observations_of,
    random_factors,
    random_matrix,
)
from tribit.backends import BACKENDS, base, compiled, layout, make_backend, tiles
from tribit.backends.balls import RowProblem
from tribit.backends.base import GramCache
from tribit.backends.losses import make_loss
from tribit.backends.objective import Objective
from tribit.backends.rows import RowState
from tribit.backends.threads import count_jobs
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.risks import Risk, pu, tri

K = 4

PAIRS = {
    f"{name}-{which}": (name, risk)
    for name, backend in BACKENDS.items()
    for which, risk in RISKS.items()
    # Those of a GPU: tests/gpu.
    if backend.device == "cpu" and backend.takes(risk) and not backend.estimates
}
needs_numba = pytest.mark.skipif(
    find_spec("numba") is None, reason='needs compiled kernels: pip install "tribit[fast]"'
)
each_pair = pytest.mark.parametrize(
    ("kind", "risk"),
    [
        pytest.param(*pair, id=name, marks=[needs_numba] if pair[0] == "compiled" else [])
        for name, pair in PAIRS.items()
    ],
)
each_link = pytest.mark.parametrize("link", ALL_LINKS, ids=link_id)
some_links = pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
each_matrix = pytest.mark.parametrize("A", MATRICES.values(), ids=MATRICES)


def cut(monkeypatch, size):
    """Cut the matrix into small pieces, so that a small one has several."""
    monkeypatch.setattr(tiles, "HEIGHT", size)
    monkeypatch.setattr(tiles, "WIDTH", size)
    monkeypatch.setattr(tiles, "PANELS_PER_SUM", 2)
    monkeypatch.setattr(layout, "BATCH_ENTRIES", size * 2)
    monkeypatch.setattr(layout, "FREE_PADDING", size)
    if compiled.are_available():
        monkeypatch.setattr("tribit.backends.compiled.backend.BLOCK_ENTRIES", size * 2)


@pytest.fixture(params=[4, 7, None], ids=["tile4", "tile7", "tile"])
def pieces(request, monkeypatch):
    if request.param:
        cut(monkeypatch, request.param)


@pytest.fixture
def small_pieces(monkeypatch):
    cut(monkeypatch, 4)


def build(kind, A, link, risk, *, dtype="float64", n_jobs=1):
    seen = observations_of(A)
    plus, minus = risk.observed_weights(seen.labels, seen.rows, seen.columns)
    loss = make_loss(link, risk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiled.VARIABLE, "1")  # of any size; NumPy's backends do not read it
        return BACKENDS[kind].build(seen, loss, plus, minus, dtype=dtype, n_jobs=n_jobs)


def models(backend, P, Q, free, *, exact=True, value=True):
    """Return the models of all panels as values, gradients, curvatures, and the mean tightness."""
    every = list(
        backend.map_panels(
            lambda panel: (
                np.arange(P.shape[0])[panel.rows],
                panel.models(P[panel.rows], free, exact=exact, value=value),
            ),
            Q,
        )
    )
    order = np.concatenate([rows for rows, _ in every])
    assert sorted(order) == list(range(P.shape[0]))
    each = ((model.values, model.gradients, model.matrices()) for _, model in every)
    parts = [np.concatenate(found)[np.argsort(order)] for found in zip(*each, strict=True)]
    share = [rows.size / P.shape[0] * model.tightness for rows, model in every]
    return *parts, sum(share)


def row_values(backend, P, Q):
    values = np.empty(P.shape[0])

    def fill(panel):
        values[panel.rows] = panel.values(P[panel.rows])

    list(backend.map_panels(fill, Q))
    return values


def assert_near(got, expected, tolerance):
    """Compare relative to the largest: sums of terms that cancel have no relative error of their own."""
    scale = np.max(np.abs(expected), initial=0.0)
    assert np.asarray(got).dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale + 1e-300)


def bounded(links):
    """Return every backend, risk and link of which upper bounds of the curvature are known."""
    return [
        pytest.param(kind, risk, link, id=f"{name}-{link_id(link)}")
        for name, (kind, risk) in PAIRS.items()
        for link in links
        if build(kind, MATRICES["one"], link, risk).has_bounds
    ]


# Against the dense reference


@each_pair
@some_links
@each_matrix
@pytest.mark.usefixtures("pieces")
def test_value_and_gradients_are_those_of_the_dense_formula(kind, risk, link, A):
    P, Q = random_factors(A.shape, K)
    exact = Reference(A, link, risk)
    backend = build(kind, A, link, risk)
    value, in_P, in_Q = backend.gradient(P, Q)
    size = exact.size(P @ Q.T)
    assert value == pytest.approx(exact.value(P, Q), abs=1e-12 * size, rel=1e-10)
    assert backend.value(P, Q) == pytest.approx(exact.value(P, Q), abs=1e-12 * size, rel=1e-10)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, 1e-10)
    none, *same = backend.gradient(P, Q, value=False)
    assert np.isnan(none)
    np.testing.assert_array_equal(same[0], in_P)
    np.testing.assert_array_equal(same[1], in_Q)


@each_pair
@each_link
@pytest.mark.usefixtures("small_pieces")
def test_every_link_at_every_scale(kind, risk, link):
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K)
    exact = Reference(A, link, risk)
    backend = build(kind, A, link, risk)
    value, in_P, in_Q = backend.gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, 1e-10)
    assert_near(models(backend, P, Q, K)[2], exact.row_curvatures(P, Q, K), 1e-10)


@each_pair
@some_links
@each_matrix
@pytest.mark.usefixtures("pieces")
def test_row_values_and_models_are_those_of_the_dense_formula(kind, risk, link, A):
    P, Q = random_factors(A.shape, K)
    exact = Reference(A, link, risk)
    backend = build(kind, A, link, risk)
    assert_near(row_values(backend, P, Q), exact.row_values(P, Q), 1e-10)
    for free in (1, K - 1, K):
        values, gradients, curvatures, _ = models(backend, P, Q, free)
        assert_near(values, exact.row_values(P, Q), 1e-10)
        assert_near(gradients, exact.gradients(P, Q)[0][:, :free], 1e-10)
        assert_near(curvatures, exact.row_curvatures(P, Q, free), 1e-10)


@pytest.mark.parametrize(("kind", "risk", "link"), bounded(SOME_LINKS))
@each_matrix
@pytest.mark.usefixtures("pieces")
def test_bounds_of_the_curvature_are_nowhere_below_it(kind, risk, link, A):
    P, Q = random_factors(A.shape, K)
    exact = Reference(A, link, risk)
    backend = build(kind, A, link, risk)
    free = K - 1
    values, gradients, bounds, _ = models(backend, P, Q, free, exact=False)
    assert_near(values, exact.row_values(P, Q), 1e-10)
    assert_near(gradients, exact.gradients(P, Q)[0][:, :free], 1e-10)
    for size in (0.0, 0.3, 1.0, 10.0):  # the bound of a row holds wherever the row goes
        curvatures = exact.row_curvatures(size * P, Q, free)
        least = np.linalg.eigvalsh(bounds - curvatures)[:, 0]
        assert np.all(least >= -1e-12 * np.abs(bounds).max())
    quiet = models(backend, P, Q, free, exact=False, value=False)
    assert np.all(np.isnan(quiet[0]))
    np.testing.assert_array_equal(quiet[1], gradients)


@pytest.mark.parametrize(("kind", "risk", "link"), bounded([Logistic(0.4), Logistic(3.0)]))
@pytest.mark.usefixtures("small_pieces")
def test_the_logistic_bound_is_met_at_zero(kind, risk, link):
    A = MATRICES["gaps"]
    backend = build(kind, A, link, risk)
    P, Q = random_factors(A.shape, K)
    met = Reference(A, link, risk).row_curvatures(0 * P, Q, K)
    assert_near(models(backend, 0 * P, Q, K, exact=False)[2], met, 1e-10)


def test_the_logistic_link_has_bounds():
    assert len(bounded([Logistic()])) == sum(risk.unobserved_weight > 0 for risk in RISKS.values())


@pytest.mark.parametrize("scale", [0.4, 3.0])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.usefixtures("small_pieces")
def test_tightness_is_the_mean_share_of_the_logistic_bound(scale, exact):
    A = MATRICES["gaps"]
    backend = build("tiles", A, Logistic(scale), RISKS["tri"])
    P, Q = random_factors(A.shape, K)
    f = Logistic(scale).probability(P @ Q.T)
    assert models(backend, P, Q, K, exact=exact)[3] == pytest.approx(np.mean(4 * f * (1 - f)))


@each_pair
@some_links
@pytest.mark.usefixtures("small_pieces")
def test_the_transposed_backend_exchanges_the_factors(kind, risk, link):
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K)
    exact = Reference(A.T, link, risk)
    backend = build(kind, A, link, risk).transposed
    assert backend.shape == A.T.shape
    value, in_Q, in_P = backend.gradient(Q, P)
    assert value == pytest.approx(exact.value(Q, P), rel=1e-10)
    for got, expected in zip((in_Q, in_P), exact.gradients(Q, P), strict=True):
        assert_near(got, expected, 1e-10)
    assert_near(models(backend, Q, P, 2)[2], exact.row_curvatures(Q, P, 2), 1e-10)
    assert backend.transposed.value(P, Q) == pytest.approx(exact.value(Q, P), rel=1e-10)


@pytest.mark.parametrize("shape", [(256, 1024), (257, 1100), (20, 2080), (600, 10)])
@pytest.mark.parametrize("link", SOME_LINKS[:2], ids=link_id)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_tiles_of_matrices_around_their_size(shape, link, dtype):
    A, risk = random_matrix(shape, observed=0.1, gaps=True), RISKS["tri"]
    P, Q = random_factors(shape, K, size=0.5)
    exact = Reference(A, link, risk)
    backend = build("tiles", A, link, risk, dtype=dtype)
    tolerance = 1e-11 if dtype == "float64" else 1e-5
    value, in_P, in_Q = backend.gradient(P, Q)
    assert abs(value - exact.value(P, Q)) <= tolerance * exact.size(P @ Q.T)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, tolerance)
    values, _, curvatures, _ = models(backend, P.astype(dtype), Q, K)
    assert_near(values, exact.row_values(P, Q), 10 * tolerance)
    assert_near(curvatures, exact.row_curvatures(P, Q, K), tolerance)


@each_pair
@some_links
@pytest.mark.usefixtures("small_pieces")
def test_float32_is_near_the_dense_formula(kind, risk, link):
    A = MATRICES["equal"]
    P, Q = (side.astype(np.float32) for side in random_factors(A.shape, K))
    wide = P.astype(np.float64), Q.astype(np.float64)
    exact = Reference(A, link, risk)
    backend = build(kind, A, link, risk, dtype="float32")
    value, in_P, in_Q = backend.gradient(*wide)
    size = exact.size(wide[0] @ wide[1].T)
    assert abs(value - exact.value(*wide)) <= 1e-6 * size
    for got, expected in zip((in_P, in_Q), exact.gradients(*wide), strict=True):
        assert_near(got, expected, 1e-5)
    values, gradients, curvatures, _ = models(backend, P, Q, K)
    assert_near(values, exact.row_values(*wide), 1e-5)
    assert_near(gradients, exact.gradients(*wide)[0], 1e-5)
    assert_near(curvatures, exact.row_curvatures(*wide, K), 1e-5)


@each_pair
@pytest.mark.parametrize("link", SOME_LINKS[:-1], ids=link_id)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [30.0, 1e3])
@pytest.mark.usefixtures("small_pieces")
def test_huge_entries_stay_exact(kind, risk, link, dtype, size):
    A = MATRICES["gaps"]
    P, Q = (side.astype(dtype).astype(float) for side in random_factors(A.shape, K, size=size**0.5))
    exact = Reference(A, link, risk)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        backend = build(kind, A, link, risk, dtype=dtype)
        value, in_P, in_Q = backend.gradient(P, Q)
        curvatures = models(backend, P.astype(dtype), Q, K)[2]
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    assert abs(value - exact.value(P, Q)) <= tolerance * exact.size(P @ Q.T)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, tolerance)
    # Relative to what an entry can have: in the tails of the logistic link the curvature itself vanishes.
    scale = np.max(np.abs(exact.plus) + np.abs(exact.minus)) * np.max(
        link.second(np.zeros(1), 1) * np.sum(Q**2)
    )
    np.testing.assert_allclose(
        curvatures, exact.row_curvatures(P, Q, K), rtol=0, atol=max(tolerance, 1e-9) * scale
    )


@each_pair
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (300, 1100)])
def test_largest_is_the_largest_absolute_entry(kind, risk, shape):
    backend = build(kind, random_matrix(shape, observed=0.01), Logistic(), risk)
    P, Q = random_factors(shape, 2)
    for left in (P, -P):
        assert backend.largest(left, Q) == pytest.approx(np.abs(left @ Q.T).max(), rel=1e-12)


@pytest.mark.parametrize("gammas", [(0, 1, 0), (0, 0, 1), (0.5, 0.3, 0.2)])
@some_links
@pytest.mark.usefixtures("small_pieces")
def test_a_rho_for_each_entry(gammas, link):
    A = MATRICES["gaps"]
    model = RhoByEntry(A.shape)
    P, Q = random_factors(A.shape, K)
    exact = Reference(A, link, Risk(*gammas, rho=model), rho=model.dense)
    backend = make_backend(
        observations_of(A), link, Risk(*gammas, rho=model), dtype="float64", n_jobs=1
    )
    value, in_P, in_Q = backend.gradient(P, Q)
    assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
    for got, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
        assert_near(got, expected, 1e-10)


# Half-sweeps


def sweep(backend, P, Q, problem, times, state=None):
    state = RowState(P.shape[0]) if state is None else state
    for _ in range(times):
        P = backend.half_sweep(P, Q, problem, state).P
    return P


PROBLEMS = {
    "ridge": RowProblem(K - 1, True, 0.3, 0.1),
    "ball": RowProblem(K - 1, True, 0.05, 0.1, norm=0.5, bound=0.4),
    "no intercept": RowProblem(K, False, 0.2, norm=1.0),
    "own ridges": RowProblem(K - 1, True, 0.3, 0.1),
}


@each_pair
@some_links
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.usefixtures("small_pieces")
def test_half_sweeps_find_the_minimum_of_every_row(kind, risk, link, name):
    A, problem = MATRICES["gaps"], PROBLEMS[name]
    P, Q = random_factors(A.shape, K)
    if risk.unobserved_weight and np.isinf(
        problem.norm
    ):  # such a risk has its minimum in a ball only
        problem = replace(problem, norm=3.0, bound=3.0)
    ridge = problem.ridge
    if name == "own ridges":
        problem = replace(problem, relative_l2=np.linspace(0.2, 3.0, A.shape[0]))
        ridge = np.hstack(
            [0.3 * problem.relative_l2[:, None]] * (K - 1) + [np.full((A.shape[0], 1), 0.1)]
        )
    free, k = problem.free, problem.k
    P[:, :k] *= min(1.0, problem.norm) / (1 + np.linalg.norm(P[:, :k], axis=1, keepdims=True))
    P[:, k:free] = np.clip(P[:, k:free], -problem.bound, problem.bound)
    exact = Reference(A, link, risk)

    def own(P):
        return exact.row_values(P, Q) + 0.5 * np.sum(ridge * P[:, :free] ** 2, axis=1)

    def rest(P):
        """Return how far the conditions of Karush, Kuhn and Tucker are from holding, by the dense formula."""
        slope = exact.gradients(P, Q)[0][:, :free] + ridge * P[:, :free]
        U = P[:, :k]
        held = np.linalg.norm(U, axis=1) >= problem.norm * (1 - 1e-6)
        force = np.maximum(
            -np.sum(slope[:, :k] * U, axis=1) / np.maximum(np.sum(U * U, axis=1), 1e-9), 0
        )
        return np.abs(slope[:, :k] + np.where(held, force, 0.0)[:, None] * U).max()

    small = 1e-3 * (1 + np.abs(exact.gradients(P, Q)[0]).max())
    backend = build(kind, A, link, risk)
    state = RowState(P.shape[0])
    moved, values, at_rest = P, own(P), 0
    for _ in range(200):
        half = backend.half_sweep(moved, Q, problem, state)
        assert half.value == pytest.approx(np.sum(values), rel=1e-9, abs=1e-9)
        assert half.gain >= 0
        before, moved, values = values, half.P, own(half.P)
        # No row rises, whatever the others do.
        assert np.all(values <= before + 1e-9 * (1 + np.abs(before)))
        at_rest = at_rest + 1 if rest(moved) <= small else 0
        if at_rest == 8:  # some sweeps more at the minimum: there rounding decides
            break
    np.testing.assert_array_equal(moved[:, free:], P[:, free:])
    assert np.all(np.linalg.norm(moved[:, :k], axis=1) <= problem.norm * (1 + 1e-9))
    assert np.all(np.abs(moved[:, k:free]) <= problem.bound)
    assert rest(moved) <= small


@each_pair
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("small_pieces")
def test_rows_move_alike_alone_and_among_others_on_any_number_of_threads(kind, risk, dtype):
    A = random_matrix((26, 14), gaps=True)
    P, Q = random_factors(A.shape, K)
    problem = PROBLEMS["ball"]
    one, two, three = (
        sweep(build(kind, A, Logistic(), risk, dtype=dtype, n_jobs=n), P, Q, problem, 3)
        for n in (1, 2, 3)
    )
    assert build(kind, A, Logistic(), risk).n_panels > 3
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)
    # A new row with the columns fixed is a matrix of one row. Bounds or curvature: the whole matrix decides.
    few = [0, 5, 17]
    alone = sweep(build(kind, A[few], Logistic(), risk, dtype=dtype), P[few], Q, problem, 30)
    among = sweep(build(kind, A, Logistic(), risk, dtype=dtype), P, Q, problem, 30)[few]
    np.testing.assert_allclose(alone, among, atol=2e-3 if dtype == "float32" else 1e-5)


# The registry


def test_a_backend_is_one_class_and_one_line(monkeypatch):
    class Loud(BACKENDS["sparse"]):
        device = "loud"

    seen = observations_of(MATRICES["gaps"])
    with pytest.raises(InvalidInputError, match="device must be one of cpu, cuda; got 'loud'"):
        make_backend(seen, Logistic(), RISKS["pn"], dtype="float64", n_jobs=1, device="loud")
    monkeypatch.setitem(BACKENDS, "loud", Loud)
    made = make_backend(seen, Logistic(), RISKS["pn"], dtype="float64", n_jobs=1, device="loud")
    assert isinstance(made, Loud)
    assert isinstance(made.transposed, Loud)
    with pytest.raises(InvalidInputError, match="No backend on device 'loud' takes this risk"):
        make_backend(seen, Logistic(), RISKS["pu"], dtype="float64", n_jobs=1, device="loud")


# Backends among themselves


@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_the_kernel_that_is_picked_reads_no_more_than_it_must(risk, monkeypatch):
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    backend = make_backend(
        observations_of(MATRICES["gaps"]), Logistic(), risk, dtype="float32", n_jobs=1
    )
    assert isinstance(backend, BACKENDS["tiles" if risk.unobserved_weight else "sparse"])
    assert backend.dtype == np.float32


@some_links
@pytest.mark.usefixtures("small_pieces")
def test_tiles_near_no_weight_agree_with_the_sparse_pass(link):
    # Tiles refuse a weight of exactly 0, and come to the sparse pass as it goes to 0.
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K)
    sparse = build("sparse", A, link, RISKS["pn"]).gradient(P, Q)
    tiles = build("tiles", A, link, tri(1 - 1e-9, 1e-9, 0.0, 0.5)).gradient(P, Q)
    assert tiles[0] == pytest.approx(sparse[0], rel=1e-6)
    assert_near(tiles[1], sparse[1], 1e-6)
    assert_near(tiles[2], sparse[2], 1e-6)


def test_tiles_refuse_a_risk_without_weight_for_the_unobserved():
    with pytest.raises(InvalidInputError, match="use the sparse backend"):
        build("tiles", MATRICES["gaps"], Logistic(), RISKS["pn"])


@pytest.mark.parametrize("risk", [RISKS["pu"], RISKS["tri"]])
@some_links
@pytest.mark.usefixtures("small_pieces")
def test_on_a_full_matrix_the_sparse_pass_does_every_risk(risk, link):
    # With every entry observed the dense term can be told to the sparse backend as a correction.
    A = random_matrix((13, 10), observed=1.0)
    P, Q = random_factors(A.shape, K)
    seen, loss = observations_of(A), make_loss(link, RISKS["pn"])
    plus, minus = risk.observed_weights(seen.labels, seen.rows, seen.columns)
    every = BACKENDS["sparse"].build(
        seen, loss, plus + risk.nu, minus + risk.pu, dtype="float64", n_jobs=1
    )
    chosen = make_backend(seen, link, risk, dtype="float64", n_jobs=1)
    assert_near(every.value(P, Q), chosen.value(P, Q), 1e-10)
    for one, other in zip(models(every, P, Q, K)[:3], models(chosen, P, Q, K)[:3], strict=True):
        assert_near(one, other, 1e-10)


@each_pair
@some_links
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("small_pieces")
def test_the_bits_do_not_depend_on_the_number_of_threads(kind, risk, link, dtype):
    A = random_matrix((41, 30), gaps=True)
    P, Q = random_factors(A.shape, K)
    backends = [build(kind, A, link, risk, dtype=dtype, n_jobs=n_jobs) for n_jobs in (1, 2, 3)]
    assert backends[0].n_panels > 3
    first, *others = [
        [
            np.asarray(part)
            for part in (*backend.gradient(P, Q), backend.value(P, Q), backend.largest(P, Q))
        ]
        for backend in backends
    ]
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


@each_pair
@some_links
@pytest.mark.usefixtures("pieces")
def test_products_that_are_not_kept_give_the_same_models(kind, risk, link, monkeypatch):
    A = MATRICES["gaps"]
    P, Q = random_factors(A.shape, K)
    backend = build(kind, A, link, risk)
    ways = (True, False) if backend.has_bounds else (True,)
    kept = [models(backend, P, Q, K, exact=exact) for exact in ways]
    monkeypatch.setattr(base, "PRODUCTS_BYTES", 0)
    made = [models(backend, P, Q, K, exact=exact) for exact in ways]
    assert GramCache(Q, backend.dtype).products(K).kept is None
    for a, b in zip(kept, made, strict=True):
        for one, other in zip(a[:3], b[:3], strict=True):
            assert_near(other, one, 1e-12)
    assert_near(made[0][2], Reference(A, link, risk).row_curvatures(P, Q, K), 1e-10)


@pytest.mark.parametrize("which", ["pn", "tri"])
@pytest.mark.parametrize("link", SOME_LINKS[:2], ids=link_id)
def test_memory_is_far_below_that_of_the_dense_matrix(which, link):
    shape = (6000, 4000)
    rng = np.random.default_rng(0)
    keys = rng.choice(shape[0] * shape[1], 5000, replace=False)
    seen = Observations.from_pairs(
        keys // shape[1], keys % shape[1], rng.choice([-1, 1], keys.size), shape=shape
    )
    factors = Factors.of(*random_factors(shape, 2))
    objective = Objective(seen, link, RISKS[which])
    objective.gradient(Factors.of(*random_factors(shape, 2)))  # buffers that stay are not counted
    tracemalloc.start()
    try:
        objective.gradient(factors)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * shape[0] * shape[1] / 8


# Threads


@pytest.mark.parametrize("n_jobs", [None, -1])
def test_all_cores_is_a_positive_number(n_jobs):
    assert count_jobs(n_jobs) >= 1


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "2"])
def test_the_number_of_threads_is_whole(n_jobs):
    with pytest.raises(InvalidInputError, match="n_jobs must be a whole number, at least 1, or -1"):
        count_jobs(n_jobs)
    assert count_jobs(np.int64(3)) == 3


def test_a_rank_above_the_sides_is_no_trouble():
    A = MATRICES["small"]
    P, Q = random_factors(A.shape, 9)
    exact = Reference(A, Logistic(), pu(0.5))
    backend = build("tiles", A, Logistic(), pu(0.5))
    assert backend.value(P, Q) == pytest.approx(exact.value(P, Q), rel=1e-10)
