from dataclasses import fields

import cvxpy
import numpy as np
import pytest

from tribit.errors import InvalidInputError
from tribit.model.constraints import (
    NORMS,
    EntryBound,
    MaxNorm,
    Rank,
    Ridge,
    TraceNorm,
    Unconstrained,
    check_not_negative,
    check_positive,
    clip_rows,
)

SHAPE, K = (7, 5), 3
KINDS = {
    **NORMS,
    "entries": EntryBound,
    "rank": Rank,
    "unconstrained": Unconstrained,
}
#: The size of a set: a radius, an alpha or a number of columns.
SIZES = {"float": (0.3, 1.0, 2.5), "int": (1, 2)}


def instances():
    for name, kind in KINDS.items():
        sizes = list(fields(kind))
        if not sizes:
            yield pytest.param(kind(), id=name)
        for field in sizes:
            for value in SIZES[field.type]:
                yield pytest.param(kind(**{field.name: value}), id=f"{name}-{value}")


EVERY = list(instances())
each = pytest.mark.parametrize("constraint", EVERY)
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
#: Sets whose projection is the nearest pair of factors (EntryBound scales; Rank is nearest in X).
each_nearest = pytest.mark.parametrize(
    "constraint", [p for p in EVERY if not isinstance(p.values[0], EntryBound | Rank)]
)
#: Sets that scaling leaves.
each_bounded = pytest.mark.parametrize(
    "constraint", [p for p in EVERY if not isinstance(p.values[0], Rank | Unconstrained)]
)


def pair(size=1.0, seed=0, shape=SHAPE, k=K, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return tuple((size * rng.standard_normal((d, k))).astype(dtype) for d in shape)


def boundary(constraint, seed=0):
    """Return a pair whose gauge is 1 (for sets that have one, else any pair inside)."""
    U, V = constraint.project(*pair(10.0, seed))
    gauge = constraint.gauge(U, V)
    return (
        (U, V) if isinstance(constraint, Rank | Unconstrained) else (U / gauge**0.5, V / gauge**0.5)
    )


def squared_distance(a, b):
    return sum(np.sum((x - y) ** 2) for x, y in zip(a, b, strict=True))


def product(factors):
    return factors[0] @ factors[1].T


# Every set


@each
@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_projected_pair_is_inside_and_stays(constraint, size, dtype):
    once = constraint.project(*pair(size, dtype=dtype))
    tight = 10 * np.finfo(dtype).eps
    assert constraint.gauge(*once) <= 1 + tight
    twice = constraint.project(*once)
    np.testing.assert_allclose(
        product(twice), product(once), rtol=1e3 * tight, atol=tight * size**2
    )


@each
def test_the_type_of_the_factors_is_kept(constraint):
    for size in (0.01, 10.0):
        got = constraint.project(*pair(size, dtype=np.float32))
        assert [side.dtype for side in got] == [np.float32, np.float32]


@each
def test_a_pair_inside_is_left_as_it_is(constraint):
    U, V = boundary(constraint)
    U, V = 0.7 * U, 0.7 * V
    assert constraint.gauge(U, V) <= 1
    got = constraint.project(U, V)
    np.testing.assert_allclose(product(got), product((U, V)), rtol=1e-12, atol=1e-14)
    if not isinstance(constraint, Rank):  # which balances the factors
        np.testing.assert_array_equal(got[0], U)
        np.testing.assert_array_equal(got[1], V)


@each
def test_a_pair_on_the_boundary_is_left_as_it_is(constraint):
    U, V = boundary(constraint)
    assert constraint.gauge(U, V) <= 1 + 1e-12
    got = constraint.project(U, V)
    np.testing.assert_allclose(product(got), product((U, V)), rtol=1e-12, atol=1e-13)


@each
def test_a_pair_outside_comes_to_the_boundary(constraint):
    U, V = pair(30.0)
    if isinstance(constraint, Unconstrained):
        assert constraint.gauge(U, V) == 0
        return
    assert constraint.gauge(U, V) > 1
    assert constraint.gauge(*constraint.project(U, V)) == pytest.approx(1.0, rel=1e-12)


@each
def test_zero_is_inside_and_stays_zero(constraint):
    U, V = np.zeros((SHAPE[0], K)), np.zeros((SHAPE[1], K))
    assert constraint.gauge(U, V) == 0
    with np.errstate(all="raise"):
        got = constraint.project(U, V)
    assert all(np.all(side == 0) for side in got)


@each_bounded
def test_the_gauge_is_at_most_1_exactly_inside(constraint):
    U, V = boundary(constraint)
    for scale in (0.5, 0.99, 0.999999):
        assert constraint.gauge(U * scale**0.5, V * scale**0.5) == pytest.approx(scale, rel=1e-12)
    for scale in (1.000001, 1.01, 5.0):
        assert constraint.gauge(U * scale**0.5, V * scale**0.5) == pytest.approx(scale, rel=1e-12)


@each
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (40, 30)])
@pytest.mark.parametrize("rank", [1, 2, 10])
def test_start_is_inside_near_zero_and_not_zero(constraint, shape, rank):
    U, V = constraint.start(shape, rank, np.random.default_rng(3))
    columns = min(rank, constraint.k) if isinstance(constraint, Rank) else rank
    assert (U.shape, V.shape) == ((shape[0], columns), (shape[1], columns))
    assert constraint.gauge(U, V) <= 1 + 1e-12
    X = np.abs(U @ V.T)
    assert 0 < X.max() < 1
    again = constraint.start(shape, rank, np.random.default_rng(3))
    np.testing.assert_array_equal(again[0], U)
    np.testing.assert_array_equal(again[1], V)


@pytest.mark.parametrize(
    ("constraint", "size"),
    [(Unconstrained(), 0.1), (Rank(100), 0.1), (MaxNorm(20.0), 0.1), (MaxNorm(0.5), 0.05)],
)
@pytest.mark.parametrize("rank", [1, 4, 49])
def test_the_entries_of_a_start_have_the_same_size_for_every_rank(constraint, size, rank):
    U, V = constraint.start((1200, 1000), rank, np.random.default_rng(0))
    assert np.std(U @ V.T) == pytest.approx(size, rel=0.1)


@each_nearest
@pytest.mark.parametrize("seed", [0, 1])
def test_no_other_allowed_pair_is_nearer(constraint, seed):
    outside = pair(2.0, seed)
    nearest = constraint.project(*outside)
    best = squared_distance(nearest, outside)
    rng = np.random.default_rng(seed)
    for spread in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(200):
            # A random pair near the answer, scaled inside: any feasible point would do.
            other = [side + spread * rng.standard_normal(side.shape) for side in nearest]
            shrink = max(constraint.gauge(*other), 1.0) ** -0.5
            assert squared_distance([side * shrink for side in other], outside) >= best - 1e-12


@pytest.mark.parametrize("radius", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("kind", [MaxNorm, TraceNorm])
def test_projections_agree_with_a_convex_solver(kind, radius):
    shape = (4, 3)
    U, V = pair(1.0, seed=5, shape=shape)
    A, B = cvxpy.Variable(U.shape), cvxpy.Variable(V.shape)
    if kind is MaxNorm:
        inside = [cvxpy.norm(side, axis=1) <= radius**0.5 for side in (A, B)]
    else:
        inside = [(cvxpy.sum_squares(A) + cvxpy.sum_squares(B)) / 2 <= radius]
    distance = cvxpy.sum_squares(A - U) + cvxpy.sum_squares(B - V)
    cvxpy.Problem(cvxpy.Minimize(distance), inside).solve(solver="CLARABEL")
    got = kind(radius).project(U, V)
    np.testing.assert_allclose(got[0], A.value, atol=1e-4)
    np.testing.assert_allclose(got[1], B.value, atol=1e-4)


# Each set by its own definition


@pytest.mark.parametrize("norm", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clip_rows_cuts_long_rows_only(norm, dtype):
    F = np.array([[0, 0], [0.3, 0], [0, norm], [3 * norm, 4 * norm], [-10, 1e-8]], dtype=dtype)
    got = clip_rows(F, norm)
    assert got.dtype == dtype
    lengths = np.linalg.norm(F, axis=1)
    expected = [
        row if length <= norm else row * norm / length
        for row, length in zip(F, lengths, strict=True)
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-6 if dtype is np.float32 else 1e-14)
    np.testing.assert_array_equal(got[:3], F[:3])


def test_the_max_norm_ball_has_rows_of_squared_norm_radius():
    U, V = boundary(MaxNorm(2.5))
    assert max(np.sum(U**2, axis=1).max(), np.sum(V**2, axis=1).max()) == pytest.approx(2.5)
    assert np.abs(U @ V.T).max() <= 2.5


def test_the_trace_norm_ball_bounds_the_sum_of_singular_values():
    constraint = TraceNorm(2.5)
    U, V = boundary(constraint)
    assert (np.sum(U**2) + np.sum(V**2)) / 2 == pytest.approx(2.5)
    assert np.linalg.norm(U @ V.T, ord="nuc") <= 2.5 * (1 + 1e-12)
    # and balanced factors make it an equality
    a, s, b = np.linalg.svd(U @ V.T)
    root = np.sqrt(s[:K])
    gauge = constraint.gauge(a[:, :K] * root, b[:K].T * root)
    assert gauge == pytest.approx(s.sum() / 2.5)


@pytest.mark.parametrize("rows", [1, 511, 512, 513, 1100])
def test_the_entry_bound_looks_at_every_block_of_rows(rows):
    U, V = pair(0.1, shape=(rows, 4))
    U[-1], V[2] = 1.0, 2.0
    assert EntryBound(0.5).gauge(U, V) == pytest.approx(np.abs(U @ V.T).max() / 0.5)
    U[-1] = -1.0
    assert EntryBound(0.5).gauge(U, V) == pytest.approx(np.abs(U @ V.T).max() / 0.5)


def test_the_entry_bound_scales_both_factors_alike():
    U, V = pair(3.0)
    largest = np.abs(U @ V.T).max()
    for got in (EntryBound(0.5).project(U, V), EntryBound(0.5).project(U, V, largest)):
        np.testing.assert_allclose(got[0], U * np.sqrt(0.5 / largest), rtol=1e-13)
        np.testing.assert_allclose(got[1], V * np.sqrt(0.5 / largest), rtol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (4, 4), (6, 3), (3, 6), (2, 2)])
def test_rank_projects_to_the_truncated_singular_values(k, shape):
    U, V = pair(shape=shape, k=4)
    X = U @ V.T
    a, s, b = np.linalg.svd(X, full_matrices=False)
    A, B = Rank(k).project(U, V)
    np.testing.assert_allclose(A @ B.T, (a[:, :k] * s[:k]) @ b[:k], atol=1e-12)
    assert A.shape[1] == B.shape[1] <= k
    np.testing.assert_allclose(A.T @ A, B.T @ B, atol=1e-12)  # balanced
    assert np.linalg.norm(X - A @ B.T) == pytest.approx(np.sqrt(np.sum(s[k:] ** 2)), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gauge_of_rank_counts_singular_values(dtype):
    U, V = pair(k=4, dtype=dtype)
    assert Rank(2).gauge(U, V) == 2.0
    U[:, 2:] = U[:, :2] @ np.array([[1, 2], [3, 4]], dtype=dtype)
    V[:, 2:] = 0
    assert Rank(2).gauge(U, V) == 1.0
    assert Rank(1).gauge(U, V) == 2.0


def test_the_ridge_is_half_the_sum_of_squares():
    U, V = pair()
    ridge = Ridge(0.7)
    assert ridge.value(U, V) == pytest.approx(0.35 * (np.sum(U**2) + np.sum(V**2)))
    assert ridge.value() == 0
    step = 1e-3
    for place in [(0, 0), (4, 2)]:
        up, down = U.copy(), U.copy()
        up[place] += step
        down[place] -= step
        slope = (ridge.value(up) - ridge.value(down)) / (2 * step)
        assert ridge.gradient(U)[place] == pytest.approx(slope)


# Errors


@each_kind
@pytest.mark.parametrize("size", [0, -1.0, np.nan, np.inf, True, "1", None])
def test_sizes_are_positive_and_finite(kind, size):
    for field in fields(kind):
        what = "positive finite number" if field.type == "float" else "whole number, at least 1"
        with pytest.raises(InvalidInputError, match=f"{field.name} must be a {what}; got"):
            kind(**{field.name: size})


def test_a_rank_is_a_whole_number():
    with pytest.raises(InvalidInputError, match="k must be a whole number, at least 1; got"):
        Rank(2.5)
    assert Rank(np.int64(2)).k == 2


@pytest.mark.parametrize("size", [10**400, -(10**400)])
def test_an_integer_too_large_to_be_a_float_is_no_size(size):
    with pytest.raises(InvalidInputError, match="radius must be a positive finite number; got"):
        MaxNorm(size)


@pytest.mark.parametrize("l2", [-1e-9, np.nan, np.inf, True, "1", None, 10**400])
def test_a_ridge_is_not_negative(l2):
    with pytest.raises(InvalidInputError, match="l2 must be a finite number, at least 0; got"):
        Ridge(l2)
    assert Ridge(0).value(np.ones(3)) == 0


def test_checks_return_floats():
    assert type(check_positive("x", np.float32(2))) is float
    assert type(check_not_negative("x", 0)) is float


# What a constraint declares


@each
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_rows_and_entries_inside_are_as_small_as_declared(constraint, size):
    U, V = constraint.project(*pair(size))
    rows = max(float(np.max(np.sum(F**2, axis=1))) for F in (U, V))
    assert rows <= constraint.row_radius * (1 + 1e-12)
    assert np.abs(U @ V.T).max() <= constraint.entry_bound * (1 + 1e-12)


@each
def test_rows_within_the_inner_radius_are_inside_and_no_larger_radius_would_do(constraint):
    for seed in range(20):
        U, V = (clip_rows(F, 1.0) for F in pair(9.0, seed))  # every row has the norm 1
        size = min(constraint.inner_radius, 1e6) ** 0.5
        assert constraint.gauge(size * U, size * V) <= 1 + 1e-12
    ones = np.ones((SHAPE[0], K)) / K**0.5, np.ones((SHAPE[1], K)) / K**0.5
    if 0 < constraint.inner_radius < np.inf:
        size = (1.01 * constraint.inner_radius) ** 0.5
        assert constraint.gauge(size * ones[0], size * ones[1]) > 1
    assert constraint.restricts == (not isinstance(constraint, Unconstrained))


@each
def test_a_projection_by_equal_scales_is_the_projection(constraint):
    if constraint.project_scaled is None:
        assert isinstance(constraint, EntryBound | Rank)
        return
    U, V = pair(3.0)
    found = constraint.project_scaled(U, V, np.full(SHAPE[0], 2.0), np.full(SHAPE[1], 2.0))
    for mine, plain in zip(found, constraint.project(U, V), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-9)


@each
def test_a_projection_that_is_told_the_largest_entry_is_the_same(constraint):
    U, V = pair(3.0)
    found = constraint.project_knowing(U, V, lambda U, V: float(np.abs(U @ V.T).max()))
    for mine, plain in zip(found, constraint.project(U, V), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-12)
    assert constraint.nearest == (not isinstance(constraint, EntryBound))
    assert constraint.entrywise == isinstance(constraint, EntryBound)
