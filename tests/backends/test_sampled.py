from dataclasses import replace

import numpy as np
import pytest

from reference import Reference, observations_of
from tribit.backends import layout, make_backend, sampled, tile_sample, uses_estimates
from tribit.backends.losses import make_loss
from tribit.backends.objective import Arithmetic, Objective
from tribit.backends.tile_sample import Blocks, draw_tiles, fit_control_variates, tile_probabilities
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.constraints import MaxNorm, Unconstrained
from tribit.model.factors import Factors
from tribit.model.links import Logistic, Probit
from tribit.model.risks import Imputation, Risk, pn, pu, tri
from tribit.solvers import LBFGS, Newton, Stopping
from tribit.solvers.loop import minimise_in_stages

SHAPE = (60, 52)
CASES = {
    "mixture": (tri(0.5, 0.3, 0.2, 0.8), Logistic(2.0)),
    "mask": (pu(0.0), Logistic()),
    "probit": (tri(0.2, 0.4, 0.4, 0.8), Probit()),
}
each_case = pytest.mark.parametrize(("risk", "link"), CASES.values(), ids=CASES)


@pytest.fixture
def small(monkeypatch):
    """Blocks so small that a small matrix has many, of which a row meets few, and several panels."""
    monkeypatch.setattr(sampled, "PANEL_BLOCKS", 2)
    monkeypatch.setattr(tile_sample, "BLOCK", 4)
    monkeypatch.setattr(tile_sample, "MAX_MEAN_TILES", 5)
    monkeypatch.setattr(tile_sample, "FLOOR_SHARE", 0.4)
    monkeypatch.setattr(layout, "BATCH_ENTRIES", 8)


def matrix(shape=SHAPE, seed=0):
    """A matrix with rows and columns of very different numbers of observed entries, some of them none."""
    draws = np.random.default_rng(seed)
    rate = np.outer(draws.random(shape[0]) ** 2, draws.random(shape[1]) ** 2)
    rate[:3] = 0.0
    return np.where(draws.random(shape) < rate, draws.choice([-1, 1], shape), 0)


def factors(seed=1, k=3, size=0.6, shape=SHAPE):
    draws = np.random.default_rng(seed)
    return tuple(draws.normal(size=(n, k)) * size for n in shape)


def backend_of(A, link, risk, *, backend="sampled", seed=0, dtype="float64", n_jobs=1):
    seen = observations_of(A)
    options = {"dtype": dtype, "n_jobs": n_jobs, "backend": backend, "seed": seed}
    return make_backend(seen, link, risk, **options)


def drawn_share(backend):
    tiles = backend.side.sample.tiles.columns.size
    return tiles / (backend.side.rows.n_blocks * backend.side.columns.n_blocks)


@each_case
def test_a_sample_of_everything_is_the_dense_formula(monkeypatch, risk, link):
    monkeypatch.setattr(layout, "BATCH_ENTRIES", 8)  # several batches in a block
    A, (P, Q) = matrix(), factors()
    exact, backend = Reference(A, link, risk), backend_of(A, link, risk)
    assert drawn_share(backend) == 1.0
    for ready in (backend, backend.refit_control_variates(P, Q)):
        value, in_P, in_Q = ready.gradient(P, Q)
        assert value == pytest.approx(exact.value(P, Q), rel=1e-10)
        assert ready.value(P, Q) == pytest.approx(value, rel=1e-12)
        for found, expected in zip((in_P, in_Q), exact.gradients(P, Q), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@each_case
@pytest.mark.usefixtures("small")
def test_gradients_are_those_of_the_estimated_value(risk, link):
    A, (P, Q) = matrix(), factors()
    # Staged at smaller factors: some entries are beyond the interval of the quadratics.
    backend = backend_of(A, link, risk).refit_control_variates(0.2 * P, Q)
    assert drawn_share(backend) < 0.4
    controls = backend.side.sample.controls
    z = backend.loss.scale * (3 * P) @ Q.T
    assert np.any(z < controls.low.min())
    assert np.any(z > controls.high.max())
    for at in (P, 3 * P):
        _, in_P, in_Q = backend.gradient(at, Q)
        D, E = factors(seed=2)
        step = 1e-4
        ahead, behind = (backend.value(at + s * D, Q + s * E) for s in (step, -step))
        slope = np.sum(in_P * D) + np.sum(in_Q * E)
        assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)


@each_case
@pytest.mark.usefixtures("small")
def test_models_of_rows_have_value_and_gradient_of_the_estimate(risk, link):
    A, (P, Q) = matrix(), factors()
    backend = backend_of(A, link, risk).refit_control_variates(P, Q)
    free = 2
    values, gradients = np.empty(SHAPE[0]), np.empty((SHAPE[0], free))

    def keep(panel):
        model = panel.models(P[panel.rows], free, exact=True, value=True)
        values[panel.rows], gradients[panel.rows] = model.values, model.gradients
        np.testing.assert_allclose(model.values, panel.values(P[panel.rows]), rtol=1e-12)
        assert np.all(np.linalg.eigvalsh(model.matrices()) > -1e-9)

    list(backend.map_panels(keep, Q))
    value, in_P, _ = backend.gradient(P, Q)
    assert np.sum(values) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(gradients, in_P[:, :free], rtol=1e-10, atol=1e-10)


@each_case
@pytest.mark.usefixtures("small")
def test_values_of_a_panel_follow_the_rows_that_move(risk, link):
    """A line search asks again where few rows have moved, also by the same array."""
    A, (P, Q) = matrix(), factors()
    backend = backend_of(A, link, risk).refit_control_variates(P, Q)
    against = backend.gram_cache(Q)
    panel = backend.panel(0, against)
    p = P[panel.rows]
    panel.values(p)
    for rows in ([0], [2, panel.height - 1], []):
        p[rows] *= 0.5
        np.testing.assert_array_equal(panel.values(p), backend.panel(0, against).values(p))


@each_case
@pytest.mark.usefixtures("small")
def test_a_block_without_a_tile_has_its_quadratic(risk, link):
    """Of very large tables with few popular columns some blocks meet no tile."""
    A, (P, Q) = matrix(), factors()
    backend = backend_of(A, link, risk).refit_control_variates(P, Q)
    tiles = backend.side.sample.tiles
    kept = slice(
        tiles.ends[-2]
    )  # without those of the last block, whose rows have few entries or none
    ends = np.minimum(tiles.ends, tiles.ends[-2])
    none = replace(tiles, ends=ends, columns=tiles.columns[kept], weights=tiles.weights[kept])
    backend.side.sample = replace(backend.side.sample, tiles=none)
    panel = backend.panel(backend.n_panels - 1, backend.gram_cache(Q))
    p = P[panel.rows]
    empty = ~A[panel.rows].any(axis=1)
    empty[: -backend.side.rows.widths[-1]] = (
        False  # blocks with tiles, whose curvature is that of their sample
    )
    assert empty.any()
    model = panel.models(p, P.shape[1], exact=True, value=True)
    np.testing.assert_allclose(model.values, panel.values(p), rtol=1e-12)
    assert backend.gradient(P, Q)[0] == pytest.approx(backend.value(P, Q), rel=1e-12)
    step = 1e-4
    for a in range(P.shape[1]):
        ahead, behind = (
            panel.models(
                p + side * step * np.eye(P.shape[1])[a], P.shape[1], exact=True, value=True
            )
            for side in (1, -1)
        )
        slopes = (ahead.values - behind.values) / (2 * step)
        np.testing.assert_allclose(model.gradients[:, a], slopes, rtol=1e-5, atol=1e-6)
        bends = (ahead.gradients - behind.gradients) / (2 * step)
        curvatures = model.matrices()[:, a]
        np.testing.assert_allclose(curvatures[empty], bends[empty], rtol=1e-5, atol=1e-6)


@each_case
@pytest.mark.usefixtures("small")
def test_value_and_gradients_are_unbiased(risk, link):
    A, (P, Q) = matrix(), factors()
    exact = Reference(A, link, risk)
    backend = backend_of(A, link, risk)
    found = [
        backend.with_seed(seed).refit_control_variates(P, Q).gradient(P, Q) for seed in range(60)
    ]
    for k, expected in enumerate((exact.value(P, Q), *exact.gradients(P, Q))):
        draws = np.array([each[k] for each in found])
        error = draws.std(axis=0) / np.sqrt(len(found))
        # Five standard errors in each of 340 numbers; and the sample is no mere copy of the sum.
        assert np.all(np.abs(draws.mean(axis=0) - expected) <= 5 * error + 1e-9)
        assert np.all(error > 0) or k


@pytest.mark.usefixtures("small")
def test_the_sample_is_larger_where_the_quadratics_are_farther_off():
    shape = (240, 220)
    A, (P, Q) = matrix(shape), factors(shape=shape)
    backend = backend_of(A, *reversed(CASES["mask"]))
    near, *farther = (backend.refit_control_variates(size * P, Q) for size in (0.2, 4.0, 40.0))
    assert near.side.sample.controls.error < 0.3
    for each, most in zip(farther, (3.0, 4.0), strict=True):
        wanted = min((each.side.sample.controls.error / 0.3) ** 2, 4.0)
        assert 1.5 < wanted <= most
        assert drawn_share(each) == pytest.approx(wanted * drawn_share(near), rel=0.1)


@pytest.mark.usefixtures("small")
def test_the_quadratics_take_most_of_the_variance_away(monkeypatch):
    A, (P, Q) = matrix(), factors(size=0.5)
    risk, link = CASES["mixture"]
    expected = Reference(A, link, risk).gradients(P, Q)[0]

    def error():
        backend = backend_of(A, link, risk)
        draws = [
            backend.with_seed(seed).refit_control_variates(P, Q).gradient(P, Q)[1]
            for seed in range(8)
        ]
        return np.mean((np.array(draws) - expected) ** 2)

    with_quadratics = error()
    plain = fit_control_variates

    def without(loss, z):
        controls = plain(loss, z)
        for part in (controls.constant, controls.linear, controls.square):
            part[...] = 0.0
        return controls

    monkeypatch.setattr("tribit.backends.sampled.fit_control_variates", without)
    assert with_quadratics < 0.05 * error()


def test_quadratics_are_least_squares_fits_of_the_derivative():
    z = np.random.default_rng(0).normal(-0.5, 1.0, (1, 1, 4000))
    controls = fit_control_variates(make_loss(Logistic(), pu(0.0)), z)
    slope, level = np.polyfit(z[0, 0], np.tanh(z[0, 0]), 1)
    assert controls.square[0, 0] == pytest.approx(slope, rel=2e-3)
    assert controls.linear[0, 0] == pytest.approx(level, rel=2e-3)
    assert controls.low[0, 0] < z.min()
    assert z.max() < controls.high[0, 0]


def test_tiles_are_drawn_as_often_as_their_probabilities_say(small):
    draws = np.random.default_rng(0)
    rows, columns = (Blocks(draws.integers(0, 50, n)) for n in (120, 84))
    spread = draws.random((rows.n_classes, columns.n_classes))
    spread[-1, -1] = 50.0
    chances = tile_probabilities(rows, columns, spread, 5)
    assert chances[-1, -1] == 1.0
    assert chances.min() >= 2 / min(rows.n_blocks, columns.n_blocks)
    counts = np.zeros((rows.n_blocks, columns.n_blocks))
    n = 1000
    for seed in range(n):
        tiles = draw_tiles(rows, columns, chances, np.random.default_rng(seed))
        where = np.repeat(np.arange(rows.n_blocks), np.diff(tiles.ends))
        counts[where, tiles.columns] += 1
        np.testing.assert_allclose(
            tiles.weights, 1 / chances[rows.classes[where], columns.classes[tiles.columns]]
        )
    expected = chances[rows.classes][:, columns.classes]
    assert counts.max() <= n
    np.testing.assert_allclose(counts / n, expected, atol=5 * 0.5 / np.sqrt(n))
    flipped = tiles.transposed(columns.n_blocks)
    assert sorted(
        zip(
            flipped.columns,
            np.repeat(np.arange(columns.n_blocks), np.diff(flipped.ends)),
            strict=True,
        )
    ) == (sorted(zip(where, tiles.columns, strict=True)))


def test_blocks_put_the_longest_rows_first_and_classes_by_powers_of_two(small):
    counts = np.array([1, 100, 3, 100, 90, 95, 0, 0, 1, 2])
    found = Blocks(counts)
    assert found.n_blocks == 3
    np.testing.assert_array_equal(np.sort(-counts), -counts[found.order])
    np.testing.assert_array_equal(found.order[found.places], np.arange(10))
    np.testing.assert_array_equal(found.classes, [0, 1, 2])
    np.testing.assert_array_equal(found.place_ends, [0, 4, 8, 10])


@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads():
    A, (P, Q) = matrix(), factors()
    risk, link = CASES["mixture"]
    first, again, other = (
        backend_of(A, link, risk, seed=seed, n_jobs=n_jobs, dtype="float32").refit_control_variates(
            P, Q
        )
        for seed, n_jobs in ((3, 1), (3, 2), (4, 1))
    )
    for one, two in zip(first.gradient(P, Q), again.gradient(P, Q), strict=True):
        np.testing.assert_array_equal(one, two)
    assert first.value(P, Q) != other.value(P, Q)
    assert first.astype("float64").value(P, Q) == pytest.approx(first.value(P, Q), rel=1e-5)


SOLVED = {
    "newton, mixture": (
        tri(0.4, 0.3, 0.3, 0.9),
        Newton(),
        [MaxNorm(1.1)],
        {"intercept_bound": 1.1},
    ),
    "newton, mask": (pu(0.0), Newton(), [Unconstrained()], {}),
    "lbfgs, mask": (pu(0.0), LBFGS(), [], {}),
}


@pytest.mark.parametrize(("risk", "solver", "constraints", "options"), SOLVED.values(), ids=SOLVED)
def test_the_minimum_of_the_estimate_is_near_that_of_the_objective(
    monkeypatch, risk, solver, constraints, options
):
    monkeypatch.setattr(tile_sample, "BLOCK", 16)
    monkeypatch.setattr(tile_sample, "MAX_MEAN_TILES", 8)
    shape = (256, 240)
    draws = np.random.default_rng(5)
    U, V = draws.normal(size=(shape[0], 2)), draws.normal(size=(shape[1], 2))
    seen = draws.random(shape) < 1 / (1 + np.exp(3 - U @ V.T - draws.normal(size=shape[1])))
    A = np.where(seen, np.where(draws.random(shape) < 0.6, 1, -1), 0)
    observations = observations_of(np.abs(A) if risk.pu == 1.0 else A)
    options = {"l2": 3.0, "intercept": True, **options}
    exact = Objective(observations, Logistic(), risk, **options)
    sampled = Objective(
        observations, Logistic(), risk, arithmetic=Arithmetic(backend="sampled", seed=1), **options
    )
    start = Factors.of(*(0.3 * draws.normal(size=(n, 3)) for n in shape), -2.0 * (risk.pu == 1.0))
    stopping = Stopping(solver.max_iter, 3e-4)
    at, lowest = (
        minimise_in_stages(solver, objective, constraints, start, stopping, draws)
        for objective in (sampled, exact)
    )
    last, result = at
    # A sample that proves too small is enlarged: what is promised is the minimum, not the sample.
    assert drawn_share(sampled.backend) < 0.6
    assert result.converged
    assert [each.iteration for each in result.history] == list(range(1, result.n_iter + 1))
    found, least = exact.value(result.factors), lowest[1].objective
    assert least - 1e-3 * abs(least) <= found <= least + 5e-3 * abs(least)
    assert last.value_on_new_sample(result.factors) == pytest.approx(found, rel=2e-2)


def seen_in(shape):
    return Observations.from_pairs([0, 1], [1, 0], [1, -1], shape=shape)


def test_what_auto_estimates():
    mixed = tri(0.5, 0.3, 0.2, 0.8)
    small, large = seen_in((1000, 1000)), seen_in((10**5, 10**5))
    assert not uses_estimates("auto", mixed, small)
    assert uses_estimates("auto", mixed, large)
    assert not uses_estimates("exact", mixed, large)
    assert uses_estimates("sampled", mixed, small)
    assert not uses_estimates("sampled", pn(), large)
    with pytest.raises(InvalidInputError, match="backend"):
        uses_estimates("every", mixed, small)


def test_a_sample_cannot_stand_for_entries_that_are_each_imputed():
    U, V = factors()
    risk = Risk(0.0, 0.5, 0.5, 0.8, imputed=Imputation(Factors.of(U, V), Logistic()))
    with pytest.raises(InvalidInputError, match="backend='exact'"):
        backend_of(matrix(), Logistic(), risk)
    assert not uses_estimates("auto", risk, seen_in((10**5, 10**5)))


def sample_of(shape, entries):
    """The sample for a table with entries anywhere."""
    draws = np.random.default_rng(0)
    pairs = np.unique(draws.integers(0, shape[0] * shape[1], entries))
    ones = np.ones(pairs.size, dtype=np.int8)
    seen = Observations.from_pairs(pairs // shape[1], pairs % shape[1], ones, shape=shape)
    backend = make_backend(seen, Logistic(), pu(0.0), dtype="float32", n_jobs=1, backend="sampled")
    return backend.side.sample.tiles, backend.other.sample.tiles


@pytest.mark.parametrize(
    ("shape", "entries"), [((20_000, 5_000), 5_000), ((6_000, 6_000), 500_000)]
)
def test_the_sample_does_not_grow_with_the_number_of_cells(shape, entries):
    sizes = [sample_of((shape[0], d2), entries)[0].columns.size for d2 in (shape[1], 2 * shape[1])]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.05)


@pytest.mark.parametrize("shape", [(400, 20_000), (20_000, 400), (9_000, 9_000)])
def test_every_block_of_rows_and_of_columns_meets_a_tile(shape):
    for tiles in sample_of(shape, 2_000):
        assert np.diff(tiles.ends).min() >= 1
