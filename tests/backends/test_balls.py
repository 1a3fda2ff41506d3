import cvxpy
import numpy as np
import pytest

from tribit.backends.balls import Roots, RowProblem, solve_ball_constrained_rows

N, K = 40, 4


def problems(*, extra, seed=0, n=N, k=K, flat=0):
    """Return random convex models: gradients, full curvatures, current points inside the unit ball."""
    rng = np.random.default_rng(seed)
    m = k + extra
    B = rng.normal(size=(n, m, m + 2)) * 10.0 ** rng.uniform(-1.5, 1.0, size=(n, 1, 1))
    H = B @ B.transpose(0, 2, 1)
    if flat:  # directions with no curvature at all
        B = rng.normal(size=(n, m, m - flat))
        H = B @ B.transpose(0, 2, 1)
    steep = 10.0 ** rng.uniform(-2.0, 0.5, size=(n, 1))
    g = steep * rng.normal(size=(n, m)) * np.trace(H, axis1=1, axis2=2)[:, None] / m
    p0 = rng.normal(size=(n, m)) / (2 * m)
    return g, H, p0


def solve(
    g, H, p0, *, calls=1, multipliers=None, k=K, l2=0.0, norm=1.0, bound=np.inf, rounding=0.0
):
    multipliers = np.zeros(g.shape[0]) if multipliers is None else multipliers
    problem = RowProblem(k, g.shape[1] > k, norm=norm, bound=bound)
    vars(problem)["ridge"] = np.broadcast_to(l2, g.shape[1])  # of each coordinate
    for _ in range(calls):
        minima = solve_ball_constrained_rows(g, H, p0, multipliers, problem, rounding)
        multipliers = minima.multipliers
    return minima


def decrease(g, H, p0, p, l2=0.0):
    d = p - p0
    return -np.einsum("ij,ij->i", g, d) - 0.5 * (
        np.einsum("ia,iab,ib->i", d, H, d) + l2 * np.sum(d * d, axis=1)
    )


def assert_optimal(g, H, p0, p, *, k=K, norm=1.0, bound=np.inf, l2=0.0, tolerance=1e-7):
    """Check the conditions of Karush, Kuhn and Tucker, row by row: they prove the global minimum."""
    slope = g + np.einsum("iab,ib->ia", H, p - p0) + l2 * (p - p0)
    scale = 1.0 + np.abs(g).max(axis=1)
    length = np.linalg.norm(p[:, :k], axis=1)
    assert np.all(length <= norm * (1 + 1e-12))
    t = np.maximum(
        -np.einsum("ia,ia->i", slope[:, :k], p[:, :k]) / np.maximum(length, 1e-300) ** 2, 0
    )
    t[length < norm * (1 - 1e-9)] = 0.0
    residual = np.abs(slope[:, :k] + t[:, None] * p[:, :k]).max(axis=1)
    assert np.all(residual <= tolerance * scale)
    if p.shape[1] > k:
        assert np.all(np.abs(p[:, k]) <= bound)
        held = np.where(
            np.abs(p[:, k]) >= bound, np.maximum(slope[:, k] * np.sign(p[:, k]), 0), slope[:, k]
        )
        assert np.all(np.abs(held) <= tolerance * scale)
    return t


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("norm", [0.05, 1.0, 30.0, np.inf])
@pytest.mark.parametrize("l2", [0.0, 0.7])
def test_repeated_calls_reach_the_minimiser(extra, norm, l2):
    g, H, p0 = problems(extra=extra)
    p0[:, :K] *= min(norm, 1.0)
    minima = solve(g, H, p0, calls=12, norm=norm, l2=l2)
    t = assert_optimal(g, H, p0, minima.minimisers, norm=norm, l2=l2)
    np.testing.assert_allclose(minima.multipliers, t, rtol=1e-5, atol=1e-6 * (1 + np.abs(g).max()))


def test_the_cases_have_balls_active_and_inactive():
    for extra in (0, 1):
        g, H, p0 = problems(extra=extra)
        inside = solve(g, H, p0, calls=12).multipliers == 0
        assert 3 < inside.sum() < N - 3


@pytest.mark.parametrize("bound", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("norm", [0.3, 1.0, np.inf])
def test_a_bound_on_the_last_coordinate(bound, norm):
    g, H, p0 = problems(extra=1, seed=1)
    p0 *= min(norm, 1.0)
    p0[:, K] = np.clip(p0[:, K], -bound, bound)
    minima = solve(g, H, p0, calls=25, norm=norm, bound=bound)
    active = np.abs(minima.minimisers[:, K]) >= bound
    assert active.any()
    assert_optimal(g, H, p0, minima.minimisers, norm=norm, bound=bound)


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("bound", [0.2, np.inf])
def test_a_convex_solver_agrees(extra, bound):
    g, H, p0 = problems(extra=extra, n=12, seed=2)
    p0[:, K:] = np.clip(p0[:, K:], -bound, bound)
    p = cvxpy.Variable(g.shape)
    # The problems do not touch one another, so that one solver call does them all.
    roots = np.linalg.cholesky(H)
    terms = [
        g[i] @ (p[i] - p0[i]) + 0.5 * cvxpy.sum_squares(roots[i].T @ (p[i] - p0[i]))
        for i in range(12)
    ]
    inside = [cvxpy.norm(p[:, :K], axis=1) <= 1.0]
    if extra and np.isfinite(bound):
        inside.append(cvxpy.abs(p[:, K]) <= bound)
    cvxpy.Problem(cvxpy.Minimize(sum(terms)), inside).solve(
        solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9
    )
    minima = solve(g, H, p0, calls=15, bound=bound)
    np.testing.assert_allclose(minima.minimisers, p.value, atol=5e-4)
    best = decrease(g, H, p0, p.value)
    np.testing.assert_allclose(minima.gains, best, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("factor", [0.0, 0.1, 0.9, 1.1, 10.0, 1e6])
def test_wrong_first_multipliers_are_mended(extra, factor):
    g, H, p0 = problems(extra=extra, seed=3)
    right = solve(g, H, p0, calls=12)
    guess = factor * np.maximum(right.multipliers, 1e-3 * np.trace(H, axis1=1, axis2=2))
    mended = solve(g, H, p0, calls=12, multipliers=guess)
    assert_optimal(g, H, p0, mended.minimisers)


def test_right_multipliers_need_one_call():
    g, H, p0 = problems(extra=0, seed=3)
    right = solve(g, H, p0, calls=12)
    assert_optimal(g, H, p0, solve(g, H, p0, multipliers=right.multipliers).minimisers)


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("norm", [0.1, 1.0, np.inf])
@pytest.mark.parametrize("bound", [0.1, np.inf])
def test_one_call_is_inside_and_gains_what_the_model_says(extra, norm, bound):
    g, H, p0 = problems(extra=extra, seed=4)
    p0[:, :K] *= min(norm, 1.0)
    p0[:, K:] = np.clip(p0[:, K:], -bound, bound)
    minima = solve(g, H, p0, norm=norm, bound=bound, l2=0.3)
    p = minima.minimisers
    assert np.all(np.linalg.norm(p[:, :K], axis=1) <= norm * (1 + 1e-12))
    assert np.all(np.abs(p[:, K:]) <= bound)
    assert np.all(minima.gains >= 0)
    assert np.all(minima.multipliers >= 0)
    np.testing.assert_allclose(minima.gains, decrease(g, H, p0, p, 0.3), rtol=1e-8, atol=1e-9)
    best = solve(g, H, p0, norm=norm, bound=bound, l2=0.3, calls=20).gains
    assert np.all(minima.gains <= best * (1 + 1e-9) + 1e-12)
    # Most of the work is done by the first call, for nearly every row.
    assert np.quantile(minima.gains / best, 0.05) > 0.98


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("norm", [1.0, 50.0])
@pytest.mark.parametrize("rounding", [0.0, 2.2e-16, 1.2e-7])
def test_flat_directions_do_no_harm(extra, norm, rounding):
    g, H, p0 = problems(extra=extra, seed=5, flat=2)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        minima = solve(g, H, p0, calls=30, norm=norm, rounding=rounding)
    p = minima.minimisers
    assert np.all(np.isfinite(p))
    assert np.all(np.linalg.norm(p[:, :K], axis=1) <= norm * (1 + 1e-12))
    assert np.all(minima.gains >= 0)
    assert np.median(minima.gains) > 0
    if not extra:  # an intercept in a flat direction has no minimum
        assert_optimal(g, H, p0, p, norm=norm, tolerance=1e-4)


@pytest.mark.parametrize("extra", [0, 1])
def test_no_curvature_at_all(extra):
    g, H, p0 = problems(extra=extra, seed=6)
    minima = solve(g, 0 * H, p0, calls=30, norm=1.0, bound=0.5, rounding=1.2e-7)
    p = minima.minimisers
    assert np.all(np.isfinite(p))
    assert np.all(minima.gains >= 0)
    # A linear function is least where the sphere faces its slope.
    towards = -g[:, :K] / np.linalg.norm(g[:, :K], axis=1)[:, None]
    np.testing.assert_allclose(p[:, :K], towards, atol=1e-5)
    if extra:
        np.testing.assert_allclose(p[:, K], -np.sign(g[:, K]) * 0.5)


@pytest.mark.parametrize(
    ("rounding", "size"), [(2.2e-16, 1e6), (1.2e-7, 1e-3), (1.2e-7, 1.0), (1.2e-7, 1e6)]
)
def test_a_flat_direction_has_the_curvature_of_rounding_and_the_others_their_own(rounding, size):
    # Three directions are bent, the last is flat: its slope is one that rounding could have made.
    bent = np.array([4.0, 1.0, 0.25])
    H = size * np.diag([*bent, 0.0])[None]
    small = rounding * np.trace(H[0])
    p0 = np.full((1, K), 0.3)
    p = solve(np.array([[*(size * bent), small]]), H, p0, norm=np.inf, rounding=rounding).minimisers
    np.testing.assert_allclose(p[0, :3], 0.3 - 1.0, rtol=200 * rounding)
    # A step of at most its slope over the error of its curvature, and not a great deal less.
    assert 0.1 <= 0.3 - p[0, 3] <= 1.0


def test_indefinite_by_rounding_is_lifted():
    g, exact, p0 = problems(extra=0, seed=7, flat=2)
    H = exact - 1e-10 * np.trace(exact, axis1=1, axis2=2)[:, None, None] * np.eye(K)
    minima = solve(g, H, p0, calls=20)
    assert np.all(minima.gains >= 0)
    # By so little that the minimisers are those of the matrices as they were before rounding.
    assert_optimal(g, exact, p0, minima.minimisers, tolerance=1e-3)


def test_an_infinite_curvature_is_refused_at_once(monkeypatch):
    g, H, p0 = problems(extra=0, seed=7)
    H[3, 1, 2] = H[3, 2, 1] = np.inf
    calls, cholesky = [], np.linalg.cholesky

    def counted(matrices):
        calls.append(matrices)
        assert len(calls) < 5, "no lift makes such a matrix definite"
        return cholesky(matrices)

    monkeypatch.setattr(np.linalg, "cholesky", counted)
    with np.errstate(invalid="ignore"), pytest.raises(np.linalg.LinAlgError):
        solve(g, H, p0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("norm", [1.0, np.inf])
def test_a_row_that_is_not_a_number_stays_and_harms_no_other(bad, norm):
    g, H, p0 = problems(extra=0, seed=8)
    good = solve(g, H, p0, norm=norm)
    g[3, 1] = bad
    with np.errstate(invalid="ignore"):
        minima = solve(g, H, p0, norm=norm)
    np.testing.assert_array_equal(minima.minimisers[3], p0[3])
    assert minima.gains[3] == 0
    others = np.arange(N) != 3
    np.testing.assert_allclose(minima.minimisers[others], good.minimisers[others], rtol=1e-12)


def test_a_point_that_is_best_already_stays():
    g, H, p0 = problems(extra=1, seed=9)
    minima = solve(0 * g, H, p0)
    np.testing.assert_allclose(minima.minimisers, p0, atol=1e-9)
    np.testing.assert_allclose(minima.gains, 0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("extra", [0, 1])
def test_other_sizes(k, extra):
    g, H, p0 = problems(extra=extra, k=k, n=15, seed=10)
    minima = solve(g, H, p0, k=k, calls=15, l2=0.1)
    assert minima.minimisers.shape == g.shape
    assert_optimal(g, H, p0, minima.minimisers, k=k, l2=0.1)


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("norm", [0.3, 1.0, np.inf])
@pytest.mark.parametrize("bound", [0.05, np.inf])
def test_a_ridge_for_each_coordinate(extra, norm, bound):
    g, H, p0 = problems(extra=extra, seed=11)
    p0[:, :K] *= min(norm, 1.0)
    p0[:, K:] = np.clip(p0[:, K:], -bound, bound)
    ridge = np.linspace(0.0, 5.0, K + extra) ** 2
    minima = solve(g, H, p0, calls=25, norm=norm, bound=bound, l2=ridge)
    assert_optimal(g, H, p0, minima.minimisers, norm=norm, bound=bound, l2=ridge)
    # The same as curvatures that have it already, and as one number where all are alike.
    inside = solve(g, H + np.diag(ridge), p0, calls=25, norm=norm, bound=bound)
    np.testing.assert_allclose(minima.minimisers, inside.minimisers, atol=1e-8)
    np.testing.assert_allclose(minima.gains, inside.gains, rtol=1e-8, atol=1e-10)
    alike = solve(g, H, p0, norm=norm, bound=bound, l2=np.full(K + extra, 0.7))
    single = solve(g, H, p0, norm=norm, bound=bound, l2=0.7)
    np.testing.assert_array_equal(alike.minimisers, single.minimisers)


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("norm", [np.inf, 0.7])
def test_roots_of_few_entries_give_the_minimisers_of_their_matrices(length, norm):
    rng = np.random.default_rng(length)
    roots = Roots(rng.standard_normal((6, length, 5)))
    gradient, current = rng.standard_normal((2, 6, 5))
    current *= 0.1
    given = current, np.zeros(6), RowProblem(4, True, 0.5, 0.02, norm), 1e-7
    ours = solve_ball_constrained_rows(gradient, roots, *given)
    theirs = solve_ball_constrained_rows(gradient, roots.matrices(), *given)
    np.testing.assert_allclose(ours.minimisers, theirs.minimisers, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.gains, theirs.gains, rtol=1e-9)


def test_roots_beside_next_to_no_ridge_are_solved_as_matrices():
    rng = np.random.default_rng(0)
    roots = Roots(1e4 * rng.standard_normal((3, 2, 5)))
    gradient = np.einsum("nla,nl->na", roots.roots, rng.standard_normal((3, 2)))
    # Of rounding 0 the matrices would be singular on some processors.
    given = np.zeros((3, 5)), np.zeros(3), RowProblem(5, l2=1e-9), np.finfo(float).eps
    ours = solve_ball_constrained_rows(gradient, roots, *given)
    theirs = solve_ball_constrained_rows(gradient, roots.matrices(), *given)
    np.testing.assert_array_equal(ours.minimisers, theirs.minimisers)
