"""Simulated tables of the cases, from fixed seeds."""

import numpy as np
from scipy.special import expit
from tests.pins.imports import Logistic, Observations, low_rank_target, observe, quantise


def uniform_table(shape=(60, 45), *, rank=3, alpha=3.0, rho=0.6, seed=0):
    """Return a quantised low-rank matrix of which entries were observed uniformly at random."""
    M = low_rank_target(shape, rank, alpha=alpha, random_state=seed)
    labels = quantise(M, Logistic(), random_state=seed + 1)
    return observe(labels, rho, random_state=seed + 2)


def exposed_table(shape=(150, 90), *, count=3500, rank=3, seed=0, ids=False, empty_columns=0):
    """Return entries of which rows choose popular ones and those near their taste, and like by the same taste."""
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((shape[0], rank)), rng.standard_normal((shape[1], rank))
    taste = U @ V.T / np.sqrt(rank)
    exposure = 1.2 * taste + rng.normal(0, 1, shape[1]) + rng.normal(0, 0.7, (shape[0], 1))
    if empty_columns:
        exposure[:, -empty_columns:] = -np.inf
    keys = np.argpartition(-(exposure + rng.gumbel(size=shape)).ravel(), count)[:count]
    rows, columns = np.divmod(np.sort(keys), shape[1])
    x = 1.5 * taste + 0.3 + rng.normal(0, 0.5, (shape[0], 1)) + rng.normal(0, 0.6, shape[1])
    labels = np.where(rng.random(shape) < expit(x), 1, -1)[rows, columns]
    names = named(shape) if ids else (None, None)
    return Observations.from_pairs(
        rows, columns, labels, shape=shape, row_ids=names[0], column_ids=names[1]
    )


def named(shape):
    """Return ids of rows and columns."""
    return [f"u{n}" for n in range(shape[0])], [f"i{n}" for n in range(shape[1])]


def featured_table(shape=(140, 70), *, density=0.35, kinds=4, seed=11):
    """Return labels that depend on groups of rows and of columns, which entries were seen, and both groups."""
    rng = np.random.default_rng(seed)
    row_groups, column_groups = (rng.integers(kinds, size=size) for size in shape)
    level = rng.normal(size=(kinds, kinds))
    x = 1.8 * level[row_groups][:, column_groups] + 0.5 * rng.normal(size=(shape[0], 1))
    x += 0.3 * rng.normal(size=shape[1])
    labels = np.where(rng.random(shape) < expit(x), 1, -1)
    return labels, rng.random(shape) < density, row_groups, column_groups


def of_array(A, ids=None):
    """Return the entries of an array that are not 0, with ids where these are given."""
    rows, columns = np.nonzero(A)
    names = (None, None) if ids is None else ids
    return Observations.from_pairs(
        rows, columns, A[rows, columns], shape=A.shape, row_ids=names[0], column_ids=names[1]
    )


def paired_likes(shape=(60, 240), *, seed=11):
    """Return likes of rows in pairs that nearly always go together, which a regression of rows predicts."""
    rng = np.random.default_rng(seed)
    liked = np.repeat(rng.random((shape[0] // 2, shape[1])) < 0.15, 2, axis=0)
    return of_array((liked & (rng.random(shape) < 0.9)).astype(int), named(shape))


def sparse_table(shape, *, count, rank=3, seed=0):
    """Return entries drawn uniformly and labels of a low-rank matrix, without the matrix."""
    rng = np.random.default_rng(seed)
    rows, columns = np.divmod(np.unique(rng.integers(shape[0] * shape[1], size=count)), shape[1])
    U, V = rng.standard_normal((shape[0], rank)), rng.standard_normal((shape[1], rank))
    x = np.einsum("tk,tk->t", U[rows], V[columns])
    labels = np.where(rng.random(x.size) < expit(x), 1, -1)
    return Observations.from_pairs(rows, columns, labels, shape=shape)
