from dataclasses import fields

import cvxpy
import numpy as np
import pytest

from reference import (
    RISKS,
    SOME_LINKS,
    CloglogLink,
    Reference,
    gammas_of,
    link_id,
    links_of,
    observations_of,
    random_matrix,
    weights,
)
from tribit.backends import layout, tiles
from tribit.backends.objective import Arithmetic, Objective
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.constraints import (
    NORMS,
    EntryBound,
    MaxNorm,
    Rank,
    TraceNorm,
    Unconstrained,
)
from tribit.model.factors import Factors
from tribit.model.links import LINKS, Logistic, Probit
from tribit.model.risks import tri
from tribit.solvers import (
    SOLVERS,
    Newton,
    ProjectedGradient,
    Stopping,
    as_solver,
    augmented_lagrangian,
    loop,
)

A = random_matrix((9, 7), observed=0.6)
TINY = random_matrix((5, 4), observed=0.7, seed=1)
RANK = 3

KINDS = {
    **NORMS,
    "entries": EntryBound,
    "rank": Rank,
    "unconstrained": Unconstrained,
}
#: The solvers that keep constraints and never rise; lbfgs and augmented_lagrangian, whose multipliers move what it
#: minimises, have files of their own.
CONSTRAINED = [name for name in SOLVERS if name not in ("lbfgs", "augmented_lagrangian")]
each_solver = pytest.mark.parametrize("solver", CONSTRAINED)
each_risk = pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
some_links = pytest.mark.parametrize("link", SOME_LINKS, ids=link_id)
one_link_each = pytest.mark.parametrize(
    "link", [links_of(kind)[-1] for kind in LINKS.values()], ids=link_id
)


def start_of(constraint, shape, rank=RANK, seed=0, intercept=0.0):
    return Factors.of(*constraint.start(shape, rank, np.random.default_rng(seed)), intercept)


def minimise(solver, objective, constraints, *, start=None, tol=1e-12, max_iter=3000, **stopping):
    if start is None:
        start = start_of(constraints[0], objective.shape)
    return as_solver(solver).minimise(
        objective,
        constraints,
        start,
        Stopping(max_iter, tol, **stopping),
        np.random.default_rng(1),
    )


def objective_of(link=None, risk=RISKS["pn"], *, labels=A, dtype="float64", n_jobs=1, **options):
    arithmetic = Arithmetic(dtype, n_jobs)
    return Objective(
        observations_of(labels), link or Logistic(2.0), risk, arithmetic=arithmetic, **options
    )


def pairs():
    """Yield every solver with every constraint it accepts."""
    for solver in CONSTRAINED:
        for name, kind in KINDS.items():
            sizes = {field.name: 2 if field.type == "int" else 1.5 for field in fields(kind)}
            try:
                minimise(solver, objective_of(l2=1.0), [kind(**sizes)], max_iter=1)
            except InvalidInputError:
                continue
            yield pytest.param(solver, kind(**sizes), id=f"{solver}-{name}")


PAIRS = list(pairs())


def has_minimum(constraint, risk):
    """PN is bounded below by itself; a mixture only where the constraint bounds the entries of X."""
    return not risk.unobserved_weight or not isinstance(constraint, Unconstrained | Rank)


def with_risks(names):
    return [
        pytest.param(*pair.values, RISKS[name], id=f"{pair.id}-{name}")
        for pair in PAIRS
        for name in names
        if has_minimum(pair.values[1], RISKS[name])
    ]


def residual(factors, objective, labels, constraint, step=1e-3):
    """Return how far a small projected gradient step goes, per unit of step: 0 at a stationary point.

    The gradient is the dense reference's; intercepts move within their bound.
    """
    exact = Reference(labels, objective.link, objective.risk)
    X = factors.product_factors()[0] @ factors.product_factors()[1].T
    G, l2 = exact.first(X), objective.ridge.l2
    U, V = factors.row_factors, factors.column_factors
    moved = constraint.project(U - step * (G @ V + l2 * U), V - step * (G.T @ U + l2 * V))
    gaps = [moved[0] - U, moved[1] - V]
    if objective.intercept:
        bound = objective.intercept_bound
        for mine, slope in (
            (factors.row_intercepts, G.sum(axis=1)),
            (factors.column_intercepts, G.sum(axis=0)),
        ):
            gaps.append(np.clip(mine - step * (slope + l2 * mine), -bound, bound) - mine)
        if not np.isfinite(bound):
            gaps.append(np.array([step * G.sum()]))
    return max(np.abs(gap).max() for gap in gaps) / step


def values_of(result):
    return np.array([iteration.objective for iteration in result.history])


# Every solver, with every link, risk and constraint


def test_every_solver_accepts_some_constraint_and_every_constraint_some_solver():
    assert {pair.values[0] for pair in PAIRS} == set(CONSTRAINED)
    assert {type(pair.values[1]) for pair in PAIRS} == set(KINDS.values())


@pytest.mark.parametrize(("solver", "constraint", "risk"), with_risks(RISKS))
@some_links
@pytest.mark.parametrize("intercept", [False, True])
def test_the_objective_never_rises_and_the_constraint_is_kept(
    solver, constraint, risk, link, intercept
):
    bound = 0.5 if risk.unobserved_weight else np.inf
    objective = objective_of(link, risk, l2=1.0, intercept=intercept, intercept_bound=bound)
    # Where entries are bounded and curvature is not, a fit of 12 iterations takes long: one risk shows it.
    slow = isinstance(constraint, EntryBound) and link == CloglogLink() and risk != RISKS["tri"]
    max_iter = 5 if slow else 12
    result = minimise(solver, objective, [constraint], max_iter=max_iter)
    values = np.append(values_of(result), result.objective)
    assert len(values) == result.n_iter + 1 <= max_iter + 1
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) <= 1e-10 * np.abs(values).max())
    assert values[-1] < values[0]
    factors = result.factors
    assert constraint.gauge(factors.row_factors, factors.column_factors) <= 1 + 1e-6
    assert np.abs(factors.row_intercepts).max() <= (bound if intercept else 0)
    assert np.abs(factors.column_intercepts).max() <= (bound if intercept else 0)
    assert result.objective == pytest.approx(objective.value(factors), rel=1e-12)
    assert [iteration.iteration for iteration in result.history] == list(range(1, len(values)))
    assert np.all(np.diff([iteration.seconds for iteration in result.history]) >= 0)


@pytest.mark.parametrize(("solver", "constraint", "risk"), with_risks(["pn", "pu", "tri"]))
@one_link_each
def test_float32_never_rises_beyond_rounding(solver, constraint, risk, link):
    objective = objective_of(link, risk, l2=1.0, dtype="float32")
    result = minimise(solver, objective, [constraint], max_iter=40, tol=0.0)
    values = values_of(result)
    assert np.all(np.diff(values) <= 1e-5 * np.abs(values).max())
    assert constraint.gauge(result.factors.row_factors, result.factors.column_factors) <= 1 + 1e-6
    exact = minimise(solver, objective_of(link, risk, l2=1.0), [constraint], max_iter=40, tol=0.0)
    assert result.objective == pytest.approx(exact.objective, rel=2e-3, abs=0.05)


#: Sets whose projection is the nearest pair: for these the residual measures stationarity.
CONVEX = [pair for pair in PAIRS if isinstance(pair.values[1], MaxNorm | TraceNorm)]


@pytest.mark.parametrize(("solver", "constraint"), CONVEX)
@one_link_each
@each_risk
def test_the_first_order_residual_is_small(solver, constraint, link, risk):
    objective = objective_of(link, risk, l2=0.5)
    result = minimise(solver, objective, [constraint], max_iter=5000)
    factors = result.factors
    assert constraint.gauge(factors.row_factors, factors.column_factors) > 1 - 1e-9  # it binds
    assert result.converged
    assert result.stop_reason == loop.CONVERGED
    assert residual(result.factors, objective, A, constraint) < 1e-4


@each_solver
@pytest.mark.parametrize("link", [Logistic(2.0), Probit(0.7), CloglogLink()], ids=link_id)
@pytest.mark.parametrize("l2", [0.1, 1.0])
def test_the_residual_with_intercepts_is_small(solver, link, l2):
    objective = objective_of(link, l2=l2, intercept=True)
    result = minimise(solver, objective, [Unconstrained()])
    assert result.stop_reason == loop.CONVERGED
    assert residual(result.factors, objective, A, Unconstrained()) < 1e-4
    assert np.abs(np.mean(result.factors.row_intercepts)) < 1e-12


@each_solver
@one_link_each
@pytest.mark.parametrize("bound", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("which", ["punu", "tri"])
def test_the_residual_with_bounded_intercepts_is_small(solver, link, bound, which):
    constraint = MaxNorm(1.5)
    objective = objective_of(link, RISKS[which], l2=0.05, intercept=True, intercept_bound=bound)
    start = start_of(constraint, A.shape, intercept=0.2)
    result = minimise(solver, objective, [constraint], start=start)
    assert result.factors.intercept == 0.2
    assert np.abs(result.factors.row_intercepts).max() <= bound
    assert residual(result.factors, objective, A, constraint) < 1e-4


@each_solver
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_the_one_intercept_is_stationary_where_all_rows_are_alike(solver, size):
    # Every row and column has four likes and two dislikes: row intercepts stay 0 and the one number moves.
    labels = np.array([np.roll([1, 1, 1, 1, -1, -1], shift) for shift in range(6)])
    objective = objective_of(Logistic(), labels=labels, l2=20.0, intercept=True)
    start = start_of(Unconstrained(), labels.shape)
    start = Factors.of(size * start.row_factors, size * start.column_factors)
    result = minimise(solver, objective, [Unconstrained()], start=start, tol=1e-9)
    assert result.factors.intercept == pytest.approx(np.log(2.0), abs=1e-3)


# Against a convex solver


MINIMA = {}


def convex_minimum(labels, scale, risk, **limits):
    """Return the minimum of a logistic risk by cvxpy, found once for the same problem of several solvers."""
    key = (labels.tobytes(), scale, repr(risk), repr(limits))
    if key not in MINIMA:
        MINIMA[key] = solved_by_cvxpy(labels, scale, risk, **limits)
    return MINIMA[key]


def solved_by_cvxpy(labels, scale, risk, *, l2=0.0, radius=None, trace=None, intercept=None):
    """Return the minimum of a logistic risk by cvxpy.

    ``radius`` is that of the max-norm ball, ``trace`` that of the trace norm, ``intercept`` a pair (b, bound), with
    b None where it is an unknown. The ridge on factors is the trace norm, or the trace of the semidefinite matrix.
    """
    d1, d2 = labels.shape
    W = cvxpy.Variable((d1 + d2, d1 + d2), PSD=True)
    X, inside, penalty = W[:d1, d1:], [], 0.5 * l2 * cvxpy.trace(W)
    if radius is not None:
        inside.append(cvxpy.diag(W) <= radius)
    if trace is not None:
        inside.append(0.5 * cvxpy.trace(W) <= trace)
    if intercept is not None:
        b, bound = intercept
        a, c = cvxpy.Variable((d1, 1)), cvxpy.Variable((1, d2))
        b = cvxpy.Variable() if b is None else b
        X = X + a @ np.ones((1, d2)) + np.ones((d1, 1)) @ c + b
        penalty += 0.5 * l2 * (cvxpy.sum_squares(a) + cvxpy.sum_squares(c))
        if np.isfinite(bound):
            inside += [cvxpy.abs(a) <= bound, cvxpy.abs(c) <= bound]
    plus, minus = weights(labels, gammas_of(risk), risk.rho)
    # l(x, -1) = l(x, +1) + scale x, which makes both weights one: convex where their sum is not negative.
    risk_of_X = cvxpy.sum(
        cvxpy.multiply(plus + minus, cvxpy.logistic(-scale * X)) + cvxpy.multiply(minus * scale, X)
    )
    problem = cvxpy.Problem(cvxpy.Minimize(risk_of_X + penalty), inside)
    return problem.solve(solver="CLARABEL")


@each_solver
@pytest.mark.parametrize("which", ["pn", "pu", "punu", "tri"])
@pytest.mark.parametrize("radius", [0.4, 2.0])
def test_the_minimum_in_the_max_norm_ball_is_that_of_a_convex_solver(solver, which, radius):
    objective = objective_of(Logistic(1.5), RISKS[which], labels=TINY)
    constraint = MaxNorm(radius)
    start = start_of(constraint, TINY.shape, rank=4)
    result = minimise(solver, objective, [constraint], start=start)
    best = convex_minimum(TINY, 1.5, RISKS[which], radius=radius)
    assert result.objective == pytest.approx(best, rel=2e-5)


@each_solver
@pytest.mark.parametrize("l2", [0.2, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_ridge_is_the_trace_norm_of_a_convex_solver(solver, l2, intercept):
    objective = objective_of(Logistic(1.5), labels=TINY, l2=l2, intercept=intercept)
    start = start_of(Unconstrained(), TINY.shape, rank=4)
    result = minimise(solver, objective, [Unconstrained()], start=start)
    free = (None, np.inf) if intercept else None
    best = convex_minimum(TINY, 1.5, RISKS["pn"], l2=l2, intercept=free)
    assert result.objective == pytest.approx(best, rel=2e-5)


@each_solver
@pytest.mark.parametrize("bound", [0.1, 0.6])
def test_a_mixture_with_everything_is_that_of_a_convex_solver(solver, bound):
    risk = tri(0.5, 0.3, 0.2, 0.5)
    objective = objective_of(
        Logistic(1.5), risk, labels=TINY, l2=0.3, intercept=True, intercept_bound=bound
    )
    start = start_of(MaxNorm(0.8), TINY.shape, rank=4, intercept=-0.3)
    result = minimise(solver, objective, [MaxNorm(0.8)], start=start)
    best = convex_minimum(TINY, 1.5, risk, l2=0.3, radius=0.8, intercept=(-0.3, bound))
    assert result.objective == pytest.approx(best, rel=2e-5)


@pytest.mark.parametrize("which", ["pn", "tri"])
def test_the_minimum_in_the_trace_norm_ball_is_that_of_a_convex_solver(which):
    objective = objective_of(Logistic(1.5), RISKS[which], labels=TINY)
    start = start_of(TraceNorm(3.0), TINY.shape, rank=4)
    result = minimise("projected_gradient", objective, [TraceNorm(3.0)], start=start)
    best = convex_minimum(TINY, 1.5, RISKS[which], trace=3.0)
    assert result.objective == pytest.approx(best, rel=2e-5)


# Constraints a solver keeps or refuses


@pytest.mark.parametrize("ball", [MaxNorm(2.0), TraceNorm(20.0), Unconstrained()])
@pytest.mark.parametrize("which", ["pn", "tri"])
def test_projected_gradient_keeps_a_bound_on_entries(ball, which):
    constraints = [ball, EntryBound(0.5)]
    result = minimise(
        "projected_gradient", objective_of(risk=RISKS[which], l2=0.01), constraints, max_iter=200
    )
    U, V = result.factors.row_factors, result.factors.column_factors
    assert np.abs(U @ V.T).max() == pytest.approx(0.5, rel=1e-6)  # active, and kept
    assert ball.gauge(U, V) <= 1 + 1e-6
    assert np.all(np.diff(values_of(result)) <= 1e-10)


def test_bounds_on_entries_end_where_no_step_falls_any_more():
    objective = objective_of(
        CloglogLink(), RISKS["tri"], l2=1.0, intercept=True, intercept_bound=0.5
    )
    constraints = [EntryBound(1.5)]
    near = minimise("projected_gradient", objective, constraints, max_iter=12)
    result = minimise("augmented_lagrangian", objective, constraints, start=near.factors)
    assert result.stop_reason == loop.NO_DESCENT
    assert not result.converged
    assert augmented_lagrangian.MAX_STUCK_ROUNDS < result.n_iter < 200
    assert result.objective == pytest.approx(near.objective, rel=1e-9)
    X = result.factors.row_factors @ result.factors.column_factors.T
    assert np.abs(X).max() <= 1.5


def test_newton_refuses_what_ties_rows_together():
    for constraint in (TraceNorm(2.0), Rank(2)):
        name = type(constraint).__name__
        with pytest.raises(InvalidInputError, match=f"newton solver moves one row .* keep {name}"):
            minimise("newton", objective_of(), [constraint])


@pytest.mark.parametrize("constraints", [[MaxNorm(2.0), EntryBound(1.0)], [EntryBound(1.0)]])
def test_newton_refuses_an_entry_bound_below_the_radius(constraints):
    with pytest.raises(InvalidInputError, match=r"cannot keep \|X\| <= alpha = 1 with radius = "):
        minimise("newton", objective_of(), constraints)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_newton_accepts_an_entry_bound_that_the_radius_implies(alpha):
    plain = minimise("newton", objective_of(), [MaxNorm(1.0)], max_iter=20)
    both = minimise("newton", objective_of(), [MaxNorm(1.0), EntryBound(alpha)], max_iter=20)
    np.testing.assert_array_equal(both.factors.row_factors, plain.factors.row_factors)
    U, V = both.factors.row_factors, both.factors.column_factors
    assert np.abs(U @ V.T).max() <= alpha * (1 + 1e-12)


def test_the_smallest_of_several_radii_counts():
    constraints = [MaxNorm(2.0), MaxNorm(0.5)]
    for solver in CONSTRAINED:
        result = minimise(solver, objective_of(), constraints, max_iter=30)
        gauge = MaxNorm(0.5).gauge(result.factors.row_factors, result.factors.column_factors)
        assert gauge == pytest.approx(1.0, rel=1e-6)


# Stopping


@each_solver
def test_max_iter_stops(solver):
    result = minimise(solver, objective_of(), [MaxNorm(1.0)], tol=0.0, max_iter=3)
    assert (result.n_iter, len(result.history)) == (3, 3)
    assert result.stop_reason == loop.OUT_OF_ITERATIONS
    assert not result.converged


@each_solver
def test_max_time_stops(solver):
    result = minimise(solver, objective_of(), [MaxNorm(1.0)], tol=0.0, max_time=1e-9)
    assert result.n_iter == 1
    assert result.stop_reason == loop.OUT_OF_TIME
    assert not result.converged


@each_solver
def test_tol_stops_when_the_decrease_is_small(solver):
    result = minimise(solver, objective_of(), [MaxNorm(1.0)], tol=1e-3)
    size = values_of(result)[0]
    assert result.converged
    assert result.stop_reason == loop.CONVERGED
    assert result.history[-1].decrease <= 1e-3 * size
    # It stopped as soon as that held twice, and not before.
    held = [
        part[-1].decrease <= 1e-3 * size and loop.predicted_decrease(part) <= 1e-3 * size
        for part in (result.history[:n] for n in range(1, result.n_iter + 1))
    ]
    assert held[-2:] == [True, True]
    assert not all(held[-4:])
    finer = minimise(solver, objective_of(), [MaxNorm(1.0)], tol=1e-8)
    assert finer.n_iter > result.n_iter
    assert finer.objective < result.objective


@each_solver
def test_a_looser_tol_is_a_larger_objective_by_no_more_than_it_says(solver):
    exact = minimise(solver, objective_of(), [MaxNorm(1.0)]).objective
    for tol in (1e-3, 1e-5, 1e-7):
        result = minimise(solver, objective_of(), [MaxNorm(1.0)], tol=tol)
        assert -1e-9 * exact <= result.objective - exact <= 10 * tol * exact


@each_solver
def test_a_callback_sees_every_iteration_and_stops(solver):
    seen = []

    def callback(iteration):
        seen.append(iteration)
        return iteration.iteration == 4

    result = minimise(solver, objective_of(), [MaxNorm(1.0)], tol=0.0, callback=callback)
    assert seen == result.history
    assert result.n_iter == 4
    assert result.stop_reason == loop.CALLED_OFF
    assert not result.converged


@each_solver
@pytest.mark.parametrize("answer", [None, False, 1, "yes"])
def test_only_true_stops(solver, answer):
    result = minimise(
        solver,
        objective_of(),
        [MaxNorm(1.0)],
        tol=0.0,
        max_iter=2,
        callback=lambda _: answer,
    )
    assert result.stop_reason == loop.OUT_OF_ITERATIONS


@each_solver
@pytest.mark.parametrize("when", [1, 3])
def test_the_keyboard_interrupts_and_the_best_is_kept(solver, when):
    def callback(iteration):
        if iteration.iteration == when:
            raise KeyboardInterrupt

    objective = objective_of()
    with pytest.warns(RuntimeWarning, match=f"Interrupted after {when} iterations; the best"):
        result = minimise(solver, objective, [MaxNorm(1.0)], tol=0.0, callback=callback)
    assert result.stop_reason == loop.INTERRUPTED
    assert not result.converged
    assert result.n_iter == when
    assert result.objective == objective.value(result.factors)
    assert result.objective < values_of(result).min()  # the last step counts too


def test_projected_gradient_says_when_no_step_descends():
    result = minimise("projected_gradient", objective_of(), [MaxNorm(1.0)], tol=0.0, max_iter=20000)
    assert result.stop_reason in (loop.NO_DESCENT, loop.CONVERGED)  # rounding, or nothing moves
    assert result.n_iter < 20000
    assert residual(result.factors, objective_of(), A, MaxNorm(1.0)) < 1e-4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_iter": 0}, "max_iter must be a whole number, at least 1; got 0"),
        ({"max_iter": 1.5}, "max_iter must be a whole number, at least 1; got"),
        ({"max_iter": True}, "max_iter must be a whole number, at least 1; got True"),
        ({"tol": -1.0}, "tol must be a finite number, at least 0; got"),
        ({"tol": np.nan}, "tol must be a finite number, at least 0; got nan"),
        ({"max_time": 0.0}, "max_time must be a positive finite number; got"),
        ({"max_time": np.inf}, "max_time must be a positive finite number; got inf"),
    ],
)
def test_bad_stopping_is_refused(options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        Stopping(**({"max_iter": 10, "tol": 1e-3} | options))


# Projected gradient's own options


@pytest.mark.parametrize("which", ["pn", "tri"])
@pytest.mark.parametrize("constraint", [MaxNorm(1.0), TraceNorm(4.0)])
def test_growing_ranks_reaches_the_full_rank_s_objective(which, constraint):
    objective = objective_of(risk=RISKS[which])
    start = start_of(constraint, A.shape, rank=5)
    full = minimise(ProjectedGradient(), objective, [constraint], start=start, tol=1e-8)
    grown = minimise(ProjectedGradient(grow=True), objective, [constraint], start=start, tol=1e-8)
    assert grown.objective <= full.objective + 1e-2 * abs(full.objective)
    assert 1 <= grown.factors.rank <= max(A.shape)
    U, V = grown.factors.row_factors, grown.factors.column_factors
    assert constraint.gauge(U, V) <= 1 + 1e-6


def test_the_rank_grows_beyond_that_of_the_start_and_after_a_stage_out_of_iterations():
    objective, ball = objective_of(), MaxNorm(1.0)
    options = {"start": start_of(ball, A.shape, rank=1), "max_iter": 3, "tol": 1e-12}
    one = minimise(ProjectedGradient(), objective, [ball], **options)
    grown = minimise(ProjectedGradient(grow=True), objective, [ball], **options)
    assert not one.converged
    assert one.n_iter == 3
    assert grown.factors.rank > 2
    assert 3 < grown.n_iter <= 3 * 5  # 1, 2, 4, 8 and 9 columns
    assert [each.iteration for each in grown.history] == list(range(1, grown.n_iter + 1))
    assert grown.objective < one.objective


def test_growing_stops_when_more_columns_change_nothing():
    labels = np.outer([1, 1, -1, 1, -1, 1, -1, -1], [1, -1, 1, 1, -1, 1, -1, -1])
    start = start_of(MaxNorm(0.5), labels.shape, rank=8)
    objective = objective_of(labels=labels)
    result = minimise(
        ProjectedGradient(grow=True), objective, [MaxNorm(0.5)], start=start, tol=1e-9
    )
    assert result.factors.rank == 2  # one column was enough, and the second showed it


@pytest.mark.parametrize("how", ["callback", "time", "keyboard"])
@pytest.mark.filterwarnings("ignore:Interrupted:RuntimeWarning")
def test_growing_stops_when_asked_to(how):
    calls = []

    def callback(iteration):
        calls.append(iteration)
        if how == "keyboard":
            raise KeyboardInterrupt
        return how == "callback"

    start = start_of(MaxNorm(1.0), A.shape, rank=5)
    stopping = {"max_time": 1e-9} if how == "time" else {}
    minimise(
        ProjectedGradient(grow=True),
        objective_of(),
        [MaxNorm(1.0)],
        start=start,
        callback=callback,
        **stopping,
    )
    assert len(calls) == 1


@pytest.mark.parametrize("which", ["pn", "tri"])
def test_a_fixed_step_comes_to_the_same_place(which):
    objective, constraint = objective_of(risk=RISKS[which]), MaxNorm(0.7)
    found = minimise(ProjectedGradient(), objective, [constraint], tol=1e-9)
    fixed = minimise(ProjectedGradient(step=0.05), objective, [constraint], tol=1e-9)
    assert fixed.converged
    assert fixed.objective == pytest.approx(found.objective, rel=1e-6)


def test_a_fixed_step_is_the_paper_s():
    objective, constraint, tau = objective_of(risk=RISKS["tri"]), MaxNorm(0.7), 0.05
    start = start_of(constraint, A.shape)
    result = minimise(
        ProjectedGradient(step=tau), objective, [constraint], start=start, tol=0.0, max_iter=2
    )
    exact = Reference(A, objective.link, objective.risk)
    U, V = start.row_factors, start.column_factors
    values = []
    for _ in range(2):
        in_U, in_V = exact.gradients(U, V)
        values.append(exact.value(U, V))
        U, V = (
            side * np.minimum(1.0, 0.7**0.5 / np.linalg.norm(side, axis=1))[:, None]
            for side in (U - tau * in_U, V - tau * in_V)
        )
    np.testing.assert_allclose(result.factors.row_factors, U, rtol=1e-10)
    np.testing.assert_allclose(result.factors.column_factors, V, rtol=1e-10)
    np.testing.assert_allclose(values_of(result), values, rtol=1e-12)


def test_a_fixed_step_that_is_too_long_returns_the_best_seen():
    objective = objective_of(risk=RISKS["tri"])
    start = minimise(ProjectedGradient(), objective, [MaxNorm(1.0)], tol=1e-4).factors
    result = minimise(
        ProjectedGradient(step=50.0), objective, [MaxNorm(1.0)], start=start, max_iter=20
    )
    assert np.any(np.diff(values_of(result)) > 0)
    assert result.objective == values_of(result).min()
    assert objective.value(result.factors) == pytest.approx(result.objective, rel=1e-12)


@pytest.mark.parametrize("step", [0, -1.0, np.nan, np.inf, "1"])
def test_a_step_is_positive(step):
    with pytest.raises(InvalidInputError, match="step must be a positive finite number; got"):
        ProjectedGradient(step=step)


@pytest.mark.parametrize("grow", ["yes", 1, None])
def test_the_rank_grows_or_not(grow):
    with pytest.raises(InvalidTypeError, match="grow must be True or False; got"):
        ProjectedGradient(grow=grow)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
def test_a_rank_constraint_of_more_than_the_smaller_side(shape):
    labels = random_matrix(shape, observed=0.8)
    start = start_of(Rank(4), shape, rank=4)
    objective = objective_of(labels=labels, l2=0.5)
    result = minimise(ProjectedGradient(), objective, [Rank(4)], start=start, max_iter=20)
    assert result.objective < values_of(result)[0]


# Reproducibility


@pytest.mark.parametrize("solver", [*CONSTRAINED, "augmented_lagrangian"])
@pytest.mark.parametrize("which", ["pn", "tri"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_start_gives_the_same_bits_for_any_number_of_threads(
    solver, which, dtype, monkeypatch
):
    for module, name, size in (
        (tiles, "HEIGHT", 4),
        (tiles, "WIDTH", 4),
        (tiles, "PANELS_PER_SUM", 2),
        (layout, "BATCH_ENTRIES", 8),
    ):
        monkeypatch.setattr(module, name, size)
    labels = random_matrix((18, 13), gaps=True)
    results = []
    for n_jobs in (1, 1, 2, 3):
        objective = objective_of(
            risk=RISKS[which],
            labels=labels,
            l2=0.1,
            intercept=True,
            intercept_bound=1.0,
            dtype=dtype,
            n_jobs=n_jobs,
        )
        results.append(minimise(solver, objective, [MaxNorm(1.0)], max_iter=4, tol=0.0))
    for result in results[1:]:
        assert result.objective == results[0].objective
        for name in ("row_factors", "column_factors", "row_intercepts", "column_intercepts"):
            np.testing.assert_array_equal(
                getattr(result.factors, name), getattr(results[0].factors, name)
            )


@each_solver
def test_small_tiles_come_to_the_same_minimum(solver, monkeypatch):
    labels = random_matrix((18, 13), gaps=True)

    def solve():
        objective = objective_of(risk=RISKS["tri"], labels=labels, l2=0.1)
        return minimise(solver, objective, [MaxNorm(0.5)], max_iter=500).objective

    whole = solve()
    monkeypatch.setattr(tiles, "HEIGHT", 4)
    monkeypatch.setattr(tiles, "WIDTH", 4)
    assert solve() == pytest.approx(whole, rel=1e-9)


@each_solver
def test_rows_and_columns_with_nothing_observed_do_no_harm(solver):
    labels = random_matrix((12, 11), gaps=True)
    for which in ("pn", "tri"):
        objective = objective_of(
            risk=RISKS[which], labels=labels, intercept=True, intercept_bound=1.0
        )
        result = minimise(solver, objective, [MaxNorm(0.5)], max_iter=50)
        for name in ("row_factors", "column_factors", "row_intercepts", "column_intercepts"):
            assert np.all(np.isfinite(getattr(result.factors, name)))


@each_solver
def test_a_user_s_own_link_is_fitted(solver):
    objective = objective_of(CloglogLink(), l2=0.1, intercept=True)
    result = minimise(solver, objective, [MaxNorm(1.0)])
    assert result.converged
    assert np.all(np.diff(values_of(result)) <= 1e-10)
    X = result.factors.product_factors()[0] @ result.factors.product_factors()[1].T
    assert np.mean((CloglogLink().level(0.5) < X)[A == 1]) > 0.9
    assert np.mean((CloglogLink().level(0.5) > X)[A == -1]) > 0.9


# Names


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_are_reachable_by_name(name):
    solver = as_solver(name)
    assert isinstance(solver, SOLVERS[name])
    assert type(solver) is SOLVERS[name]
    assert solver.max_iter >= 1
    assert as_solver(solver) is solver


def test_unknown_solvers_are_refused():
    with pytest.raises(InvalidInputError, match=r"solver must be one of newton, .*; got 'sgd'"):
        as_solver("sgd")
    with pytest.raises(InvalidTypeError, match="or a solver object; got int"):
        as_solver(3)
    assert isinstance(as_solver(Newton()), Newton)


def test_a_search_that_finds_no_step_far_from_the_end_has_not_converged():
    class Uphill:
        """An objective whose gradient points the wrong way: no step along it helps."""

        def __init__(self, objective):
            self.objective = objective

        def __getattr__(self, name):
            return getattr(self.objective, name)

        def gradient(self, factors, *, value=True):
            total, gradient = self.objective.gradient(factors, value=value)
            return total, gradient.plus(-2.0, gradient)

    result = minimise("projected_gradient", Uphill(objective_of()), [Unconstrained()])
    assert result.stop_reason == "no step lowers the objective"
    assert not result.converged


def test_a_huge_penalty_does_not_pass_for_convergence():
    objective = objective_of(l2=1e10)
    results = [minimise(solver, objective, [Unconstrained()], tol=1e-6) for solver in CONSTRAINED]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-4)


def test_a_callback_may_answer_with_a_numpy_truth():
    result = minimise("newton", objective_of(), [MaxNorm(1.0)], callback=lambda _: np.True_)
    assert result.n_iter == 1


def follow(values, *, size, tol, certain=False):
    """Return the result of the loop where these are the values of the objective."""

    def advance(place):
        value, after = values[place], values[place + 1]
        return loop.Step(place, value, value - after, place + 1, certain=certain)

    stopping = Stopping(max_iter=len(values) - 1, tol=tol)
    return loop.run(advance, 0, lambda place: values[place], stopping, size)


@pytest.mark.parametrize(("size", "shift", "scale"), [(1.0, 0.0, 1.0), (1e-3, 50.0, 50.0)])
def test_a_fit_stops_where_the_predicted_decrease_falls_to_tol_and_not_before(size, shift, scale):
    # Of a geometric sequence the prediction is exact: all that is left is the distance to its limit.
    left = 0.9 ** np.arange(200.0)
    result = follow((left + shift).tolist(), size=size, tol=1e-3)
    assert result.stop_reason == loop.CONVERGED
    first = int(np.argmax(left <= 1e-3 * scale * (1 + 1e-3)))
    assert first > loop.RELIABLE_WINDOW / loop.WINDOW_SHARE or shift
    if not shift:  # the window is long enough for the whole tolerance
        assert result.n_iter == first + loop.CONFIRMATIONS
    # One value later than the tolerance of a value that was twice as large.
    again = follow((left + shift).tolist(), size=size, tol=2e-3)
    assert again.n_iter < result.n_iter


@pytest.mark.parametrize(("size", "shift"), [(1.0, 0.0), (8.0, 0.0), (1.0, 30.0)])
def test_a_decrease_that_is_certain_stops_a_fit_at_tol_itself(size, shift):
    values = 0.95 ** np.arange(400.0) + shift
    result = follow(values.tolist(), size=size, tol=1e-4, certain=True)
    assert result.converged
    enough = 1e-4 * max(size, shift)
    last, before = (result.history[-place].decrease for place in (1, 2))
    assert last <= enough * (1 + 1e-3)
    assert before > enough


def test_growing_begins_inside_a_bound_on_entries():
    # The two columns cancel: together inside the bound, the first alone far outside, where likes cost least.
    likes = np.ones((9, 7), dtype=np.int8)
    U, V = np.array([[2.0, 2.0]] * 9), np.array([[2.0, -2.0]] * 7)
    constraints = [Unconstrained(), EntryBound(0.5)]
    result = minimise(
        ProjectedGradient(grow=True),
        objective_of(labels=likes),
        constraints,
        start=Factors.of(U, V),
        max_iter=1,
    )
    factors = result.factors
    assert np.abs(factors.row_factors @ factors.column_factors.T).max() <= 0.5 + 1e-9
