"""The stated problem: its minimum, against a convex solver, and k that grows until X stops changing."""

from itertools import pairwise

import cvxpy
import numpy as np
import pytest

from tribit import Logistic
from tribit.backends.objective import Arithmetic, Objective
from tribit.model.risks import tri
from tribit.paper.experiments import protocols
from tribit.paper.experiments.protocols import STILL_SHARE, grow_columns
from tribit.simulate import low_rank_target, observe, quantise
from tribit.solvers.loop import Stopping

RHO, ALPHA, RADIUS = 0.4, 0.6, 0.9
LINK = Logistic(3.0)
STOPPING = Stopping(max_iter=5000, tol=1e-6)


def problem(mixture, shape=(9, 7), seed=0):
    draws = np.random.default_rng(seed)
    Y = quantise(low_rank_target(shape, 2, random_state=draws), LINK, random_state=draws)
    seen = observe(Y, RHO, random_state=draws)
    return Objective(seen, LINK, tri(*mixture, rho=RHO), arithmetic=Arithmetic(dtype="float64"))


def solve(objective, columns, *, seed=0, **changes):
    options = {"radius": RADIUS, "alpha": ALPHA, "stopping": STOPPING}
    return grow_columns(
        objective, columns, **options | changes, generator=np.random.default_rng(seed)
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("mixture", [(1.0, 0.0, 0.0), (0.0, 0.5, 0.5), (0.6, 0.2, 0.2)])
def test_the_minimum_is_that_of_a_convex_solver(mixture, seed):
    objective = problem(mixture, seed=seed)
    A = objective.observations.to_sparse().toarray()
    pn, pu, nu = mixture
    q = 1 - RHO
    like = np.where(A > 0, pn + pu / q + nu, np.where(A < 0, -nu * RHO / q, nu))
    dislike = np.where(A > 0, -pu * RHO / q, np.where(A < 0, pn + pu + nu / q, pu))
    d1, d2 = A.shape
    Z = cvxpy.Variable((d1 + d2, d1 + d2), PSD=True)
    X = Z[:d1, d1:]
    # l(x, +1) = l(x, -1) - s x, so that the weights of the convex parts add up.
    risk = cvxpy.sum(
        cvxpy.multiply(like + dislike, cvxpy.logistic(3.0 * X)) - cvxpy.multiply(like, 3.0 * X)
    )
    bounds = [cvxpy.diag(Z) <= RADIUS, cvxpy.abs(X) <= ALPHA]
    lowest = cvxpy.Problem(cvxpy.Minimize(risk), bounds).solve(solver="CLARABEL")
    found = solve(objective, (2, 16))[-1]
    assert found.columns == 16
    assert found.converged
    assert found.risk == pytest.approx(lowest, abs=1e-4 * objective.size)


@pytest.mark.parametrize("mixture", [(1.0, 0.0, 0.0), (0.0, 0.5, 0.5)])
def test_alpha_and_the_ball_are_kept_exactly(mixture):
    for stage in solve(problem(mixture, (20, 15)), (2, 8)):
        assert np.max(np.abs(stage.dense())) <= ALPHA
        for factor in (stage.factors.row_factors, stage.factors.column_factors):
            assert np.max(np.sum(factor**2, axis=1)) <= RADIUS


def test_k_grows_until_x_stops_changing():
    stages = solve(problem((0.0, 0.5, 0.5), (20, 15)), (1, 2, 4, 8, 11, 14, 17))
    changes = [stage.change for stage in stages]
    assert changes[0] is None
    assert min(changes[1:-1]) > STILL_SHARE >= changes[-1]
    assert stages[-1].columns < 17
    for before, stage in pairwise(stages):
        apart = np.linalg.norm(stage.dense() - before.dense()) / np.linalg.norm(before.dense())
        assert stage.change == pytest.approx(apart)
        assert stage.risk < before.risk + 1e-3


def test_columns_beyond_half_of_what_is_enough_become_enough(monkeypatch):
    monkeypatch.setattr(protocols, "STILL_SHARE", 0.0)
    stages = solve(problem((0.0, 0.5, 0.5)), (2, 8, 9, 40, 100))
    assert [stage.columns for stage in stages] == [2, 8, 16]


def test_starts_differ_and_repeat():
    objective = problem((0.0, 0.5, 0.5))
    one, again, other = (solve(objective, (2,), seed=seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.dense(), again.dense())
    assert not np.array_equal(one.factors.row_factors, other.factors.row_factors)
