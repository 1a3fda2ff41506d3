"""Rows at the minimum of their own objective, against a general-purpose minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from tribit.backends import layout, rows
from tribit.backends.rows import solve_free_rows
from tribit.data.observations import Observations
from tribit.model.links import Logistic, Probit

RNG = np.random.default_rng(7)
N_COLUMNS, M = 30, 6
#: Lengths below, at and above the number of unknowns, and a row without entries.
LENGTHS = (0, 1, 3, 5, 6, 7, 20, 30)
Q, OFFSETS = RNG.normal(size=(N_COLUMNS, M)), RNG.normal(size=N_COLUMNS)
CENTRE = RNG.normal(size=(len(LENGTHS), M))
RIDGE = RNG.uniform(0.3, 3.0, size=M)
PLACES = [RNG.choice(N_COLUMNS, size=length, replace=False) for length in LENGTHS]
ROWS = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
ENTRIES = Observations(
    ROWS,
    np.concatenate(PLACES),
    RNG.choice([-1, 1], size=ROWS.size),
    shape=(len(LENGTHS), N_COLUMNS),
)


def value(p, row, link):
    here = ENTRIES.rows == row
    x = Q[ENTRIES.columns[here]] @ p + OFFSETS[ENTRIES.columns[here]]
    likes = ENTRIES.labels[here] > 0
    losses = np.where(likes, link.loss(x, 1), link.loss(x, -1))
    return losses.sum() + 0.5 * RIDGE @ (p - CENTRE[row]) ** 2


@pytest.mark.parametrize("link", [Logistic(), Logistic(4.0), Probit(0.5)], ids=str)
def test_each_row_is_at_its_minimum(link):
    found = solve_free_rows(ENTRIES, Q, OFFSETS, CENTRE, RIDGE, link)
    np.testing.assert_array_equal(found[0], CENTRE[0])
    for row in range(1, len(LENGTHS)):
        best = minimize(value, CENTRE[row], args=(row, link), options={"gtol": 1e-9}).x
        np.testing.assert_allclose(found[row], best, atol=2e-5)


def test_steps_that_overshoot_are_halved(monkeypatch):
    """Centres so far out that the curvature there is nearly 0: full steps would go further out on the other side."""
    far = np.where(CENTRE > 0, 1.0, -1.0) * 12.0
    monkeypatch.setattr(rows, "MAX_STEPS", 200)
    found = solve_free_rows(ENTRIES, Q, OFFSETS, far, 1e-2 * RIDGE, Logistic())
    for row in range(1, len(LENGTHS)):
        here = ENTRIES.rows == row
        q, labels = Q[ENTRIES.columns[here]], ENTRIES.labels[here]
        x = q @ found[row] + OFFSETS[ENTRIES.columns[here]]
        slope = q.T @ (-labels / (1 + np.exp(labels * x))) + 1e-2 * RIDGE * (found[row] - far[row])
        assert np.abs(slope).max() < 1e-3


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_bits_do_not_depend_on_the_threads(n_jobs, monkeypatch):
    monkeypatch.setattr(layout, "BATCH_ENTRIES", 10)  # several batches
    one, more = (
        solve_free_rows(ENTRIES, Q, OFFSETS, CENTRE, RIDGE, Logistic(), n) for n in (1, n_jobs)
    )
    np.testing.assert_array_equal(one, more)


def test_single_precision_is_near():
    found = solve_free_rows(ENTRIES, Q, OFFSETS, CENTRE, RIDGE, Logistic())
    small = solve_free_rows(ENTRIES, Q.astype("float32"), OFFSETS, CENTRE, RIDGE, Logistic())
    assert small.dtype == np.float32
    np.testing.assert_allclose(small, found, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_rows_of_collinear_columns_are_solved_beside_next_to_no_ridge(dtype, size):
    """Columns of one direction: curvatures of rank 1, and a ridge below their rounding. One number a row is sought."""
    slopes = size * RNG.normal(size=N_COLUMNS)
    ridge, centre = np.full(M, 1e-9), np.zeros_like(CENTRE)
    collinear = np.repeat(slopes[:, None], M, axis=1).astype(dtype)
    found = solve_free_rows(ENTRIES, collinear, np.zeros(N_COLUMNS), centre, ridge, Logistic())

    def along(total, row):
        here = ENTRIES.rows == row
        losses = np.logaddexp(0.0, -ENTRIES.labels[here] * slopes[ENTRIES.columns[here]] * total)
        return losses.sum() + 0.5 * ridge[0] * total**2 / M

    for row in range(1, len(LENGTHS)):
        best = minimize_scalar(along, args=(row,), bracket=(0.0, 1.0 / size), tol=1e-10).fun
        assert along(found[row].astype(float).sum(), row) <= best + 1e-3
