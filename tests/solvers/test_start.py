import numpy as np
import pytest

from reference import RISKS, Reference, observations_of, random_matrix
from tribit.backends.objective import Objective
from tribit.model.constraints import EntryBound, MaxNorm, Unconstrained
from tribit.model.links import Logistic, Probit
from tribit.solvers.start import spectral_start

#: As many columns as the subspace iteration has at rank 2: on so few it is an exact singular value decomposition.
A = random_matrix((40, 6), observed=0.8)
#: The start is three tenths of what a ball, or a probability of 0.9, allows for the squared norm of a row.
SHARE = 0.3


def start_of(labels=A, link=None, risk=RISKS["pn"], constraints=(), *, rank=2, level=0.0, seed=0):
    objective = Objective(observations_of(labels), link or Logistic(), risk)
    draws = np.random.default_rng(seed)
    start = spectral_start(objective, list(constraints) or [Unconstrained()], rank, level, draws)
    assert start.intercept == level
    return start.row_factors, start.column_factors


def mean_square(side):
    return np.mean(np.sum(side**2, axis=1))


@pytest.mark.parametrize("which", ["pn", "pu", "tri"])
@pytest.mark.parametrize("level", [0.0, -0.7])
@pytest.mark.parametrize("link", [Logistic(2.0), Probit(0.5)])
def test_factors_lie_along_the_singular_vectors_of_the_gradient(which, level, link):
    U, V = start_of(link=link, risk=RISKS[which], level=level)
    left, sizes, right = np.linalg.svd(
        -Reference(A, link, RISKS[which]).first(np.full(A.shape, level)), full_matrices=False
    )
    room = link.level(0.9)
    expected = []
    for vectors in (left[:, :2], right[:2].T):
        side = vectors * np.sqrt(sizes[:2])
        expected.append(side * np.sqrt(SHARE * room / mean_square(side)))
    # The noise in either factor is a few hundredths of it.
    X, Y = U @ V.T, expected[0] @ expected[1].T
    assert np.linalg.norm(X - Y) < 0.1 * np.linalg.norm(Y)
    assert np.linalg.norm(X - Y) > 1e-6 * np.linalg.norm(Y)


@pytest.mark.parametrize("link", [Logistic(0.5), Logistic(2.0), Probit(1.0)])
@pytest.mark.parametrize("radius", [0.1, 1.0, 1e3, None])
def test_rows_have_three_tenths_of_the_squared_norm_that_is_allowed(link, radius):
    # Every row and every column weighs the same, so that no row is so long that the ball cuts it.
    signs = np.random.default_rng(1).choice([-1, 1], size=60)
    labels = np.outer(signs, signs[:50])
    ball = Unconstrained() if radius is None else MaxNorm(radius)
    room = min(link.level(0.9), np.inf if radius is None else radius)
    for side in start_of(labels, link, constraints=[ball], rank=1):
        assert mean_square(side) == pytest.approx(SHARE * room, rel=0.03)


def test_directions_that_the_gradient_does_not_have_get_a_little_noise():
    signs = np.random.default_rng(1).choice([-1, 1], size=400)
    for side in start_of(np.outer(signs, signs[:300]), rank=4):
        # A thousandth of the squared norm of a row, divided among the four columns.
        noise = 1e-3 * SHARE * Logistic().level(0.9) / 4
        squares = np.mean(side**2, axis=0)
        np.testing.assert_allclose(np.sort(squares)[:3], noise, rtol=0.3)
        assert squares.max() > 100 * noise


@pytest.mark.parametrize(
    "constraints", [[MaxNorm(0.05)], [MaxNorm(1.0), EntryBound(0.02)], [EntryBound(0.5)]]
)
def test_the_start_is_inside_every_constraint(constraints):
    U, V = start_of(random_matrix((30, 20), gaps=True), constraints=constraints, rank=5)
    for constraint in constraints:
        assert 0 < constraint.gauge(U, V) <= 1 + 1e-12


def test_no_columns_and_more_columns_than_the_matrix_has():
    assert [side.shape for side in start_of(rank=0)] == [(40, 0), (6, 0)]
    wide = start_of(rank=9)
    assert [side.shape for side in wide] == [(40, 9), (6, 9)]
    assert all(np.all(np.any(side != 0, axis=0)) for side in wide)


def test_the_same_draws_give_the_same_start():
    for side, again, other in zip(start_of(), start_of(), start_of(seed=1), strict=True):
        np.testing.assert_array_equal(side, again)
        assert not np.array_equal(side, other)
