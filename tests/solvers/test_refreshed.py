"""When L-BFGS makes its preconditioner anew."""

import numpy as np
import pytest

from reference import observations_of, random_matrix
from tribit.backends import Arithmetic
from tribit.backends.objective import Objective
from tribit.model.spec import ModelSpec
from tribit.selection.problem import make_problem
from tribit.solvers import LBFGS, Stopping
from tribit.solvers.lbfgs import REFRESH_GROWTH, REFRESH_STEPS

SEEN = observations_of(random_matrix((40, 30)))
SPEC = ModelSpec(rank=3, l2=0.3, implicit_features=True, l2_implicit=0.5)


@pytest.fixture
def made(monkeypatch):
    """Return the objectives at which a preconditioner was made."""
    found = []
    make = Objective.preconditioner

    def counted(self, parts):
        found.append(self.value(parts))
        return make(self, parts)

    monkeypatch.setattr(Objective, "preconditioner", counted)
    return found


def fitted(start=None, max_iter=REFRESH_GROWTH * REFRESH_STEPS + 5):
    draws = np.random.default_rng(0)
    problem = make_problem(
        SEEN, SPEC, arithmetic=Arithmetic(dtype="float64", n_jobs=1), generator=draws
    )
    start = problem.start if start is None else start
    stopping = Stopping(max_iter, tol=0.0)
    return LBFGS().minimise(problem.objective, problem.constraints, start, stopping, draws)


def test_it_is_made_anew_while_the_objective_falls(made):
    history = fitted().history
    values = [each.objective for each in history]
    expected = [values[0], values[REFRESH_STEPS]]
    if (
        values[REFRESH_STEPS] - values[REFRESH_GROWTH * REFRESH_STEPS]
        > 1e-3 * values[REFRESH_GROWTH * REFRESH_STEPS]
    ):
        expected.append(values[REFRESH_GROWTH * REFRESH_STEPS])
    np.testing.assert_allclose(made, expected)


def test_one_serves_a_start_near_the_minimum(made):
    near = fitted(max_iter=300).factors
    made.clear()
    fitted(near)
    assert len(made) == 1
