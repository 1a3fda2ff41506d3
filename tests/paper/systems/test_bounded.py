import itertools
import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from tribit.backends.objective import Objective
from tribit.data.measurements import Measurements
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.constraints import EntryBound, MaxNorm, Rank, TraceNorm
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.risks import pn, pu
from tribit.paper.systems.least_squares import SquaredErrors
from tribit.paper.systems.likelihood import TraceNormLikelihood
from tribit.solvers import augmented_lagrangian
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian, Lagrangian, _divide, _inside
from tribit.solvers.loop import CALLED_OFF, OUT_OF_ITERATIONS, Stopping

SHAPE = (6, 8)


def signs(seed=0, share=0.7):
    draws = np.random.default_rng(seed)
    A = np.sign(draws.standard_normal((SHAPE[0], 2)) @ draws.standard_normal((2, SHAPE[1])))
    return A * (draws.random(SHAPE) < share)


def values(seed=0):
    draws = np.random.default_rng(seed)
    A = 1.5 * draws.standard_normal(SHAPE)
    A[draws.random(SHAPE) < 0.3] = np.nan
    return A


def random_factors(k, seed=0, size=0.5):
    draws = np.random.default_rng(seed)
    return Factors.of(*(size * draws.standard_normal((d, k)) for d in SHAPE))


def minimise(objective, constraints, *, k=14, tol=1e-5, max_iter=20000, callback=None):
    stopping = Stopping(max_iter, tol, callback=callback)
    solver = AugmentedLagrangian(0.25)
    start = random_factors(k, size=0.2)
    return solver.minimise(objective, constraints, start, stopping, np.random.default_rng(0))


def convex_minimum(loss, constraints):
    X = cp.Variable(SHAPE)
    conditions = []
    for constraint in constraints:
        if isinstance(constraint, EntryBound):
            conditions.append(cp.abs(X) <= constraint.alpha)
        elif isinstance(constraint, TraceNorm):
            conditions.append(cp.normNuc(X) <= constraint.radius)
        elif isinstance(constraint, MaxNorm):
            Z = cp.Variable((sum(SHAPE), sum(SHAPE)), PSD=True)
            conditions += [Z[: SHAPE[0], SHAPE[0] :] == X, cp.diag(Z) <= constraint.radius]
    problem = cp.Problem(cp.Minimize(loss(X)), conditions)
    problem.solve(solver=cp.CLARABEL)
    return problem.value, X.value


def likelihood_problem(seed):
    A = signs(seed)

    def loss(X):
        return cp.sum(cp.multiply(np.abs(A), cp.logistic(-cp.multiply(A, X))))

    return Objective(Observations.from_matrix(A), Logistic(), pn()), loss


def squared_problem(seed):
    A = values(seed)
    measured, known = ~np.isnan(A), np.nan_to_num(A)

    def loss(X):
        return cp.sum_squares(cp.multiply(measured, X - known))

    return SquaredErrors(Measurements.from_matrix(A)), loss


def unlabelled_problem(seed):
    A, rho = np.maximum(signs(seed), 0), 0.3
    q = 1 - rho

    def loss(X):
        # PU: a like has weight 1 / q for +1 and -rho / q for -1, everything else weight 1 for -1
        linear = cp.logistic(-X) - (rho / q) * X  # by l(x, +1) - l(x, -1) = -x
        return cp.sum(cp.multiply(A, linear)) + cp.sum(cp.multiply(1 - A, cp.logistic(X)))

    return Objective(Observations.from_matrix(A, zeros="unobserved"), Logistic(), pu(rho)), loss


PROBLEMS = [likelihood_problem, squared_problem, unlabelled_problem]
SETS = [
    [MaxNorm(1.5), EntryBound(0.8)],
    [MaxNorm(1.5), EntryBound(9.0)],
    [TraceNorm(8.0), EntryBound(0.8)],
    [TraceNorm(4.0), EntryBound(9.0)],
    [TraceNorm(8.0)],
]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("constraints", SETS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_a_convex_solver(problem, constraints, seed):
    objective, loss = problem(seed)
    result = minimise(objective, constraints)
    lowest, X = convex_minimum(loss, constraints)
    assert result.converged
    assert result.objective == pytest.approx(lowest, rel=2e-4)
    assert result.objective == pytest.approx(objective.value(result.factors), rel=1e-12)
    ours = result.factors.row_factors @ result.factors.column_factors.T
    for constraint in constraints:
        assert constraint.gauge(result.factors.row_factors, result.factors.column_factors) <= 1
        if isinstance(constraint, EntryBound):
            assert np.max(np.abs(ours)) <= constraint.alpha
            # the bound is active for both or for neither
            active = np.max(np.abs(X)) > 0.999 * constraint.alpha
            assert (np.max(np.abs(ours)) > 0.99 * constraint.alpha) == active


@pytest.mark.parametrize("problem", [likelihood_problem, squared_problem])
def test_keeps_alpha_without_a_ball(problem):
    test_equals_a_convex_solver(problem, [EntryBound(0.5)], 0)


@pytest.mark.parametrize("tiles", [1, SHAPE[1], 2 * SHAPE[1] + 1])
def test_tiles_change_nothing(monkeypatch, tiles):
    objective, _ = likelihood_problem(0)
    whole = minimise(objective, [MaxNorm(1.5), EntryBound(0.8)])
    monkeypatch.setattr(augmented_lagrangian, "TILE_CELLS", tiles)
    pieces = minimise(objective, [MaxNorm(1.5), EntryBound(0.8)])
    # the path may differ in rounding, the minimum not
    assert pieces.objective == pytest.approx(whole.objective, rel=1e-4)


@pytest.mark.parametrize("constraints", [SETS[0], SETS[2]], ids=str)
def test_better_than_scaling_the_whole_matrix(constraints):
    from tribit.solvers import ProjectedGradient

    objective, _ = likelihood_problem(0)
    start, draws = random_factors(14, size=0.2), np.random.default_rng(0)
    scaled = ProjectedGradient().minimise(
        objective, constraints, start, Stopping(2000, 1e-9), draws
    )
    assert 1.1 * minimise(objective, constraints).objective < scaled.objective


@pytest.mark.parametrize("multiplied", [False, True])
def test_gradient_of_the_augmented_objective(multiplied):
    objective, _ = squared_problem(0)
    lagrangian = Lagrangian(objective, (-0.3, 0.3), 2.0)
    factors = random_factors(3, seed=1, size=0.8)
    plain = lagrangian.value(factors)
    assert plain == objective.value(factors)  # the first round has no penalties
    lagrangian.update(factors)
    assert lagrangian.value(factors) > plain
    if multiplied:
        lagrangian.update(random_factors(3, seed=1, size=0.9))
        assert 0 < lagrangian.keys.size < SHAPE[0] * SHAPE[1]
        assert lagrangian.multipliers.all()
    value, whole = lagrangian.gradient(factors)
    in_U, in_V = whole.row_factors, whole.column_factors
    assert value == pytest.approx(lagrangian.value(factors))
    step = 1e-6
    for side, gradient in enumerate((in_U, in_V)):
        for place in [(0, 0), (3, 2), (5, 1)]:
            ends = []
            for sign in (1, -1):
                pair = [factors.row_factors.copy(), factors.column_factors.copy()]
                pair[side][place] += sign * step
                ends.append(lagrangian.value(Factors.of(*pair)))
            difference = (ends[0] - ends[1]) / (2 * step)
            assert gradient[place] == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_multipliers_are_kept_for_the_entries_that_pass_alpha():
    objective, _ = squared_problem(0)
    lagrangian = Lagrangian(objective, (-0.5, 0.5), 2.0)
    factors = random_factors(3, size=0.8)
    X = factors.row_factors @ factors.column_factors.T
    beyond = np.flatnonzero(np.abs(X) > 0.5)
    missed = lagrangian.update(factors)
    assert lagrangian.keys.size == 0  # from here on there are penalties
    assert missed == pytest.approx(np.sqrt(np.sum((np.abs(X.flat[beyond]) - 0.5) ** 2)))
    lagrangian.update(factors)
    expected = lagrangian.weight * (X.flat[beyond] - np.clip(X.flat[beyond], -0.5, 0.5))
    assert np.array_equal(lagrangian.keys, beyond)
    assert lagrangian.multipliers == pytest.approx(expected)
    # far inside with no multiplier left: forgotten
    nothing = Factors.of(0 * factors.row_factors, factors.column_factors)
    for _ in range(50):
        lagrangian.update(nothing)
    assert lagrangian.keys.size == 0


def test_an_entry_with_a_multiplier_is_kept_wherever_it_is():
    objective, _ = squared_problem(0)
    lagrangian = Lagrangian(objective, (-0.5, 0.5), 2.0)
    large = random_factors(3, size=1.5)
    for _ in range(3):
        lagrangian.update(large)
    held = lagrangian.keys[np.abs(lagrangian.multipliers) > lagrangian.weight]
    assert held.size
    lagrangian.update(random_factors(3, size=0.1))
    assert np.isin(held, lagrangian.keys).all()
    assert lagrangian.multipliers.all()


@pytest.mark.parametrize("cells", [1, SHAPE[1], 1 << 18])
def test_multipliers_have_limited_room(monkeypatch, cells):
    monkeypatch.setattr(augmented_lagrangian, "TILE_CELLS", cells)
    objective, _ = squared_problem(0)
    lagrangian = Lagrangian(objective, (-0.5, 0.5), 2.0)
    lagrangian.room = 10
    factors = random_factors(3, size=1.5)
    lagrangian.update(factors)
    missed = lagrangian.update(factors)
    over = np.maximum(np.abs(factors.row_factors @ factors.column_factors.T) - 0.5, 0).ravel()
    order = np.argsort(-over)
    assert np.count_nonzero(over) > 10
    assert 5 <= lagrangian.keys.size <= 10
    # the largest are among them, and every entry counts in what was missed
    assert np.array_equal(lagrangian.keys, np.sort(order[: lagrangian.keys.size]))
    assert np.abs(lagrangian.multipliers) == pytest.approx(
        lagrangian.weight * over[lagrangian.keys]
    )
    assert missed == pytest.approx(np.linalg.norm(over))
    # entries without room for a multiplier still have a penalty
    shifted = over.copy()
    shifted[lagrangian.keys] *= 2
    y = lagrangian.multipliers
    penalty = 0.5 * (lagrangian.weight * np.sum(shifted**2) - np.sum(y**2) / lagrangian.weight)
    assert lagrangian.value(factors) - objective.value(factors) == pytest.approx(penalty)


def test_minimum_is_reached_with_little_room(monkeypatch):
    monkeypatch.setattr(augmented_lagrangian, "MIN_MULTIPLIERS", 1)
    monkeypatch.setattr(augmented_lagrangian, "MULTIPLIERS_PER_ENTRY", 1)
    test_equals_a_convex_solver(likelihood_problem, SETS[2], 0)


def test_needs_less_memory_than_the_matrix():
    shape, count = (1500, 1200), 12000
    draws = np.random.default_rng(0)
    rows, columns = np.divmod(draws.choice(shape[0] * shape[1], count, replace=False), shape[1])
    observed = csr_array((draws.choice([-1, 1], count), (rows, columns)), shape=shape)
    model = TraceNormLikelihood(max_iter=70, random_state=0)
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            model.fit(observed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * shape[0] * shape[1]
    X = model.row_factors_ @ model.column_factors_.T
    assert 0.99 < np.max(np.abs(X)) <= 1.0


def test_last_scaling_touches_only_rows_or_columns_beyond_alpha():
    factors, (objective, _) = random_factors(3), squared_problem(0)
    X = factors.row_factors @ factors.column_factors.T
    alpha = float(np.sort(np.abs(X), axis=None)[-4])
    inside, missed, value = _inside(factors, [EntryBound(alpha)], (-alpha, alpha), objective)
    Y = inside.row_factors @ inside.column_factors.T
    assert missed == 0
    assert value == objective.value(inside)
    assert alpha * (1 - 1e-9) <= np.max(np.abs(Y)) <= alpha
    options = []
    for axis in (1, 0):
        scale = np.minimum(1, alpha / np.max(np.abs(X), axis=axis, keepdims=True))
        assert (scale == 1).any()
        assert (scale < 1).any()
        options.append(X * scale)
    costs = [np.nansum((option - values(0)) ** 2) for option in options]
    assert pytest.approx(options[int(np.argmin(costs))], rel=1e-9) == Y


def test_a_bound_of_0_is_missed_by_the_least_entry():
    factors, (objective, _) = random_factors(3), squared_problem(0)
    X = factors.row_factors @ factors.column_factors.T
    inside, missed, _ = _inside(factors, [], (0.0, 0.5), objective)
    assert missed == -X.min()
    assert 0.499 < (inside.row_factors @ inside.column_factors.T).max() <= 0.5
    assert _inside(factors, [], (-0.5, 0.0), objective)[1] == X.max()


INTERVALS = [(0.0, 0.6), (-0.4, 0.0), (-0.3, 0.9), (-np.inf, 0.3), (0.0, np.inf)]


@pytest.mark.parametrize("interval", INTERVALS, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("ball", [TraceNorm(6.0), MaxNorm(1.5)], ids=str)
def test_an_interval_has_the_minimum_of_a_convex_solver(problem, interval, ball):
    objective, loss = problem(0)
    solver, start = AugmentedLagrangian(0.25, interval), random_factors(14, size=0.2)
    stopping = Stopping(20000, 1e-5)
    result = solver.minimise(objective, [ball], start, stopping, np.random.default_rng(0))
    conditions = [(X := cp.Variable(SHAPE)) <= min(interval[1], 9), max(interval[0], -9) <= X]
    if isinstance(ball, TraceNorm):
        conditions.append(cp.normNuc(X) <= ball.radius)
    else:
        Z = cp.Variable((sum(SHAPE), sum(SHAPE)), PSD=True)
        conditions += [Z[: SHAPE[0], SHAPE[0] :] == X, cp.diag(Z) <= ball.radius]
    lowest = cp.Problem(cp.Minimize(loss(X)), conditions).solve(solver=cp.CLARABEL)
    assert result.converged
    assert result.objective == pytest.approx(lowest, rel=2e-4)
    ours = result.factors.row_factors @ result.factors.column_factors.T
    for bound, signed in zip((-interval[0], interval[1]), (-ours, ours), strict=True):
        slack = 0.0 if bound != 0 else 1e-5 * min(interval[1] - interval[0], ball.radius)
        assert np.max(signed) <= bound + slack
    assert ball.gauge(result.factors.row_factors, result.factors.column_factors) <= 1


@pytest.mark.parametrize("interval", [(0.1, 1.0), (-2.0, -1.0), (0.0, 0.0), (1.0, 0.0)])
def test_refuses_an_interval_without_0(interval):
    with pytest.raises(InvalidInputError, match="must hold 0 and more than one number; got"):
        AugmentedLagrangian(1.0, interval)


@pytest.mark.parametrize(
    ("constraints", "interval", "width"),
    [
        ([], (0.0, np.inf), 1.0),
        ([TraceNorm(3.0)], (0.0, np.inf), 3.0),
        ([EntryBound(0.5)], (0.0, 1.0), 0.5),
        ([MaxNorm(0.7)], (0.0, 1.0), 0.7),
    ],
)
def test_the_width_of_what_is_left_is_finite(constraints, interval, width):
    assert _divide(constraints, interval)[2] == width


def test_nothing_is_missed_where_multipliers_hold_entries_at_the_bound():
    objective, _ = squared_problem(0)
    lagrangian = Lagrangian(objective, (-0.5, 0.5), 2.0)
    U = np.zeros((SHAPE[0], 1))
    U[0] = 1.0
    at_bound, beyond = (Factors.of(c * U, np.ones((SHAPE[1], 1))) for c in (0.5, 0.7))
    lagrangian.update(beyond)
    lagrangian.update(beyond)
    assert lagrangian.keys.size == SHAPE[1]
    held = lagrangian.multipliers.copy()
    assert lagrangian.update(at_bound) == pytest.approx(0.0, abs=1e-12)
    assert lagrangian.multipliers == pytest.approx(held)
    # inside, each lets go of its multiplier by what is left to the bound
    inside = Factors.of(0.45 * U, np.ones((SHAPE[1], 1)))
    assert lagrangian.update(inside) == pytest.approx(0.05 * np.sqrt(SHAPE[1]))


def test_projection_in_unequal_scales():
    draws = np.random.default_rng(0)
    U, V = draws.standard_normal((3, 2)), draws.standard_normal((4, 2))
    rows, columns = draws.uniform(0.01, 50, 3), draws.uniform(0.01, 50, 4)
    new = np.vstack(TraceNorm(1.25).project_scaled(U, V, rows, columns))
    old, scales = np.vstack([U, V]), np.concatenate([rows, columns])
    P = cp.Variable(old.shape)
    distance = cp.sum(cp.multiply(scales[:, None] * np.ones((1, 2)), cp.square(P - old)))
    cp.Problem(cp.Minimize(distance), [cp.sum_squares(P) <= 2.5]).solve(solver=cp.CLARABEL)
    assert new == pytest.approx(P.value, abs=1e-4)
    assert np.sum(new**2) == pytest.approx(2.5, rel=1e-9)
    inside = TraceNorm(500.0).project_scaled(U, V, rows, columns)
    assert inside[0] is U
    assert inside[1] is V


@pytest.mark.parametrize("seed", range(4))
def test_value_falls_within_a_ball_alone(seed):
    objective, _ = squared_problem(seed)
    result = minimise(objective, [TraceNorm(20.0)], k=3, tol=1e-8)
    seen = [step.objective for step in result.history]
    assert len(seen) > 20
    assert all(b <= a for a, b in itertools.pairwise(seen))


def test_repeats_itself():
    objective, _ = likelihood_problem(0)
    one, two = (minimise(objective, SETS[0], tol=1e-3) for _ in range(2))
    assert np.array_equal(one.factors.row_factors, two.factors.row_factors)
    assert np.array_equal(one.factors.column_factors, two.factors.column_factors)


def test_stops_inside_when_told_to():
    objective, _ = likelihood_problem(0)
    few = minimise(objective, SETS[0], tol=1e-9, max_iter=25)
    assert (few.n_iter, few.converged, few.stop_reason) == (25, False, OUT_OF_ITERATIONS)
    off = minimise(objective, SETS[0], callback=lambda step: step.iteration == 7)
    assert (off.n_iter, off.converged, off.stop_reason) == (7, False, CALLED_OFF)
    for result in (few, off):
        X = result.factors.row_factors @ result.factors.column_factors.T
        assert np.max(np.abs(X)) <= 0.8


@pytest.mark.parametrize(
    ("constraints", "message"),
    [([Rank(2)], "cannot keep Rank"), ([MaxNorm(1), TraceNorm(1)], "keeps one ball; got 2")],
)
def test_refuses_what_it_cannot_keep(constraints, message):
    objective, _ = likelihood_problem(0)
    with pytest.raises(InvalidInputError, match=message):
        minimise(objective, constraints)


def test_refuses_bad_curvature():
    with pytest.raises(InvalidInputError, match="curvature must be a positive"):
        AugmentedLagrangian(0.0)
