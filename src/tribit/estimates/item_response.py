"""An item response model with estimated priors: predictions of a row by columns that were learned on other rows.

    P(y_ij = 1) = f(b_j + theta_i' v_j),    theta_i ~ N(mu, S),    z_j = (b_j, v_j) ~ N(m, C)

``f`` is logistic, ``b_j`` the easiness of a column, ``v_j`` its discriminations, and ``theta_i`` the abilities of a
row. The means and covariances of both priors are estimated (empirical Bayes), so that there is no penalty to choose.
Posteriors are normal by the bound of Jaakkola and Jordan (2000, "Bayesian parameter estimation via variational
methods"): ``-log f`` lies below a parabola of curvature ``omega = tanh(s / 2) / (2 s)``, ``s^2 = E x_ij^2``.

With the columns fixed, the posterior of a row without one of its cells follows from the posterior with it: the term
of that cell is subtracted from the precision and from the linear part. A prediction of a seen cell leaves its own
label out in this way, without another fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logit

__all__ = ["Abilities", "Items", "fit_items"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]

#: Most sweeps of a fit, fewest sweeps, and the relative change of the mean ability that ends it.
MAX_SWEEPS, MIN_SWEEPS, TOLERANCE = 60, 16, 1e-4
#: Sweeps at the start during which the priors are not estimated.
SWEEPS_OF_FIRST_PRIORS = 3
#: Sweeps for the abilities of rows with the columns fixed.
ROW_SWEEPS = 12
#: Prior variances of one further column and row, so that no estimated variance is zero.
COLUMN_JITTER, ROW_JITTER = 0.01, 0.05
#: Cost of a product at a seen cell, relative to one of dense matrices, and cells of a block of these.
SPARSE_COST, BLOCK_CELLS = 20, 2**20
#: Least mean square of a score, where the curvature is 1/4.
MIN_SQUARED_SCORE = 1e-12
#: Variance of the first posteriors, and standard deviation of the second and later discriminations at the start.
START_VARIANCE, START_SPREAD = 0.1, 1.0


class Abilities(NamedTuple):
    """Posterior of the abilities of some rows, with the columns fixed.

    Attributes
    ----------
    means : array of shape (n, k)
        Posterior means.
    precisions, covariances : array of shape (n, k, k)
        Inverse posterior covariances, and these.
    curvatures : sparse array of shape (n, d2)
        ``omega`` at the seen cells.
    """

    means: Array
    precisions: Array
    covariances: Array
    curvatures: sp.csr_array


@dataclass(frozen=True, eq=False)
class Items:
    """Columns of an item response model: the posterior of their parameters, and the prior of abilities.

    Attributes
    ----------
    means : array of shape (d2, 1 + k)
        Easiness and discriminations ``z_j`` of each column.
    covariances : array of shape (d2, 1 + k, 1 + k)
        Their posterior covariances.
    prior_mean : array of shape (k,)
        Mean of the abilities.
    prior_covariance : array of shape (k, k)
        Covariance of the abilities.
    """

    means: Array
    covariances: Array
    prior_mean: Array
    prior_covariance: Array

    @cached_property
    def moments(self) -> Array:
        """The second moments ``E z_j z_j'``."""
        return _outer(self.means) + self.covariances

    def abilities(self, labels: sp.csr_array) -> Abilities:
        """Return the abilities of rows with labels +1 and -1 (and nothing stored for an unseen cell)."""
        n, k = labels.shape[0], self.prior_mean.size
        found = Abilities(
            np.tile(self.prior_mean, (n, 1)),
            np.zeros((n, k, k)),
            np.tile(self.prior_covariance, (n, 1, 1)),
            labels,
        )
        for _ in range(ROW_SWEEPS):
            found = _update_abilities(self, labels, _curvatures(labels, found, self.moments))
        return found

    def predict(self, abilities: Abilities, labels: sp.csr_array) -> Array:
        """Return ``P(y_ij = 1)`` for every cell of rows; that of a seen cell leaves its own label out."""
        f = _with_constant(abilities.means)
        discriminations = self.means[:, 1:]
        variances = _flat(abilities.covariances) @ _flat(_outer(discriminations)).T
        variances += _flat(_outer(f)) @ _flat(self.covariances).T
        p = _mean_probability(f @ self.means.T, variances)
        rows, columns = labels.nonzero()
        if rows.size:
            p[rows, columns] = self._predict_left_out(abilities, labels, rows, columns)
        return p

    def _predict_left_out(
        self,
        abilities: Abilities,
        labels: sp.csr_array,
        rows: NDArray[np.integer[Any]],
        columns: NDArray[np.integer[Any]],
    ) -> Array:
        """Return predictions of seen cells by the posterior of their row without them."""
        omega = np.asarray(abilities.curvatures.data)[:, None]
        half = 0.5 * np.asarray(labels.data, dtype=np.float64)[:, None]
        z, moments = self.means[columns], self.moments[columns]
        linear = np.einsum("iab,ib->ia", abilities.precisions, abilities.means)[rows]
        linear = linear - half * z[:, 1:] + omega * moments[:, 0, 1:]
        covariances = np.linalg.inv(
            abilities.precisions[rows] - omega[:, :, None] * moments[:, 1:, 1:]
        )
        f = _with_constant(np.einsum("cab,cb->ca", covariances, linear))
        variances = np.einsum("ca,cab,cb->c", z[:, 1:], covariances, z[:, 1:])
        variances += np.einsum("ca,cab,cb->c", f, self.covariances[columns], f)
        return _mean_probability(np.einsum("ca,ca->c", f, z), variances)


def fit_items(labels: sp.csr_array, rank: int, draws: np.random.Generator) -> Items:
    """Return the columns of a table with labels +1 and -1, by variational EM.

    Parameters
    ----------
    labels : sparse array of shape (d1, d2)
        Labels +1 and -1 at the seen cells.
    rank : int
        Number of abilities of a row, at least 1.
    draws : Generator
        Draws the discriminations of the second and later abilities at the start.
    """
    n, m = labels.shape
    by_column = labels.T.tocsr()
    halves = 0.5 * by_column
    easiness, ability = _start(labels.T), _start(labels)
    further = START_SPREAD * draws.standard_normal((m, rank - 1))
    means: Array = np.column_stack([easiness, np.ones(m), further])
    found = Abilities(
        np.column_stack([ability - ability.mean(), np.zeros((n, rank - 1))]),
        np.zeros((n, rank, rank)),
        np.tile(START_VARIANCE * np.eye(rank), (n, 1, 1)),
        labels,
    )
    items = Items(
        means,
        np.tile(START_VARIANCE * np.eye(1 + rank), (m, 1, 1)),
        np.zeros(rank),
        np.eye(rank),
    )
    column_prior: tuple[Array, Array] = means.mean(axis=0), np.eye(1 + rank)
    size = 0.0
    for sweep in range(MAX_SWEEPS):
        omega = _curvatures(labels, found, items.moments)
        f = _with_constant(found.means)
        prior = np.linalg.inv(column_prior[1])
        covariances = np.linalg.inv(
            prior + _square(omega.T.tocsr() @ _flat(_second_moments(found)), 1 + rank)
        )
        linear = halves @ f + prior @ column_prior[0]
        means = np.asarray(np.einsum("jab,jb->ja", covariances, linear))
        items = Items(means, covariances, items.prior_mean, items.prior_covariance)
        if sweep >= SWEEPS_OF_FIRST_PRIORS:
            column_prior = _prior(means, covariances, COLUMN_JITTER)
        found = _update_abilities(items, labels, omega)
        if sweep >= SWEEPS_OF_FIRST_PRIORS:
            prior_of_rows = _prior(found.means, found.covariances, ROW_JITTER)
            items = Items(means, covariances, *prior_of_rows)
        before, size = size, float(np.abs(found.means).mean())
        if sweep >= MIN_SWEEPS and abs(size - before) < TOLERANCE * max(size, 0.1):
            break
    return items


def _start(labels: sp.csr_array) -> Array:
    """Return the log-odds of each row's share of +1, shrunk to 1/2."""
    likes = np.asarray((labels > 0).sum(axis=1)).ravel()
    seen = np.asarray((labels != 0).sum(axis=1)).ravel()
    return np.asarray(logit((likes + 1) / (seen + 2)))


def _curvatures(labels: sp.csr_array, abilities: Abilities, moments: Array) -> sp.csr_array:
    """Return ``omega`` at the seen cells."""
    of_rows, of_columns = _flat(_second_moments(abilities)), _flat(moments)
    places = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr)), labels.indices
    if labels.nnz * SPARSE_COST >= np.prod(labels.shape):
        squares = _dense_products(of_rows, of_columns, places)
    else:
        squares = np.zeros(labels.nnz)
        for each in range(of_rows.shape[1]):  # one product at a time: the cells may be many
            squares += of_rows[places[0], each] * of_columns[places[1], each]
    s = np.sqrt(np.maximum(squares, MIN_SQUARED_SCORE))
    return sp.csr_array((np.tanh(s / 2) / (2 * s), labels.indices, labels.indptr), labels.shape)


def _dense_products(of_rows: Array, of_columns: Array, places: tuple[Positions, ...]) -> Array:
    """Return products of row and column vectors at some places, sorted by row, by way of all cells in blocks."""
    step = max(1, BLOCK_CELLS // len(of_columns))
    parts = []
    for start in range(0, len(of_rows), step):
        first, last = np.searchsorted(places[0], (start, start + step))
        block = of_rows[start : start + step] @ of_columns.T
        parts.append(block[places[0][first:last] - start, places[1][first:last]])
    return np.concatenate(parts)


def _update_abilities(items: Items, labels: sp.csr_array, omega: sp.csr_array) -> Abilities:
    """Return the posterior of the abilities for fixed columns and curvatures."""
    moments, k = items.moments, items.prior_mean.size
    prior = np.linalg.inv(items.prior_covariance)
    precisions = prior + _square(omega @ _flat(moments[:, 1:, 1:]), k)
    covariances = np.linalg.inv(precisions)
    linear = 0.5 * (labels @ items.means[:, 1:]) - omega @ moments[:, 0, 1:]
    means = np.einsum("iab,ib->ia", covariances, linear + prior @ items.prior_mean)
    return Abilities(means, precisions, covariances, omega)


def _prior(means: Array, covariances: Array, jitter: float) -> tuple[Array, Array]:
    """Return mean and covariance of a normal prior by the EM step."""
    centre = means.mean(axis=0)
    away = means - centre
    total = covariances.sum(axis=0) + away.T @ away + jitter * np.eye(centre.size)
    return centre, total / (len(means) + 1)


def _second_moments(abilities: Abilities) -> Array:
    """Return ``E (1, theta) (1, theta)'`` for each row."""
    found = _outer(_with_constant(abilities.means))
    found[:, 1:, 1:] += abilities.covariances
    return found


def _mean_probability(x: Array, variances: Array) -> Array:
    """Return the mean of ``f`` over a normal score (MacKay's approximation)."""
    return np.asarray(expit(x / np.sqrt(1 + np.pi / 8 * variances)))


def _with_constant(means: Array) -> Array:
    return np.column_stack([np.ones(len(means)), means])


def _outer(vectors: Array) -> Array:
    return np.asarray(vectors[:, :, None] * vectors[:, None, :])


def _flat(matrices: Array) -> Array:
    return matrices.reshape(len(matrices), -1)


def _square(flat: Array, size: int) -> Array:
    return flat.reshape(-1, size, size)
