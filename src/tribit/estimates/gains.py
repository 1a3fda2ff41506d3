"""Expected gains from the label of one more cell, for each goal: the criterion of greedy designs.

With the columns fixed, the abilities of a row have a normal posterior with the mean ``m`` and the covariance ``C``
(:mod:`tribit.estimates.item_response`). A cell ``j`` has the curvature ``w_j = p_j (1 - p_j)``; its label changes the
covariance to ``C - w_j C v_j v_j' C / (1 + w_j v_j' C v_j)`` whatever it is, so that the gain is known before it.

``means``
    The fall of the posterior variance of the row's mean ``sum_k a_k y_k``, ``w_j (h_j + a_j)^2 / (1 + w_j v_j' C v_j)``
    with ``h_j = sum_k a_k w_k v_k' C v_j`` over the unknown cells.
``log_loss``
    The fall of the expected log-loss of all cells to second order: that of the cell itself, its entropy and
    ``w_j v_j' C v_j / 2``, and that of the others, ``sum_k w_k (v_k' C v_j)^2 w_j / (1 + w_j v_j' C v_j) / 2``.
``list``
    The rise of the expected number of likes in the list of the best other cells, over both labels of the cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from tribit.estimates.item_response import Abilities, Items

__all__ = ["GOALS", "Gain", "Posterior", "fall_of_log_loss", "fall_of_variance", "rise_of_list"]

Array = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Positions = NDArray[np.integer[Any]]

#: Cells whose probabilities after a label are in memory at a time.
BLOCK_CELLS = 2**20
#: Usual length of a list.
LIST_LENGTH = 10


@dataclass(frozen=True, eq=False)
class Posterior:
    """Normal posterior of the abilities of some rows, and the cells that are unknown.

    Attributes
    ----------
    discriminations : array of shape (d2, k)
        The columns ``v_j``.
    scores : array of shape (n, d2)
        Posterior mean log-odds.
    covariances : array of shape (n, k, k)
        Posterior covariances ``C`` of the abilities.
    unknown : array of shape (n, d2)
        Mask of the cells without labels.
    weights : array of shape (d2,) or (n, d2)
        Weights ``a_j`` of the columns in the mean, which sum to 1 (in each row).
    list_length : int
        Length of a list.
    """

    discriminations: Array
    scores: Array
    covariances: Array
    unknown: Bools
    weights: Array
    list_length: int = LIST_LENGTH

    @classmethod
    def of(
        cls,
        items: Items,
        abilities: Abilities,
        unknown: Bools,
        weights: Array,
        list_length: int = LIST_LENGTH,
    ) -> Posterior:
        """Return the posterior of rows with these abilities."""
        v = items.means[:, 1:]
        scores = items.means[:, 0] + abilities.means @ v.T
        return cls(v, scores, abilities.covariances, unknown, weights, list_length)

    @property
    def p(self) -> Array:
        """Probabilities of +1 at the posterior means."""
        return np.asarray(expit(self.scores))

    @property
    def curvatures(self) -> Array:
        """Curvatures ``p (1 - p)``."""
        p = self.p
        return p * (1 - p)

    @property
    def variances(self) -> Array:
        """Posterior variances ``v_j' C v_j`` of the scores."""
        v = self.discriminations
        return np.asarray(((self.covariances @ v.T) * v.T[None]).sum(axis=1))

    @property
    def variances_of_means(self) -> Array:
        """Posterior variances of the means of the rows."""
        direction = (self.unknown * self.curvatures * self.weights) @ self.discriminations
        own = (self.unknown * self.curvatures * self.weights**2).sum(axis=1)
        return np.asarray(np.einsum("ia,iab,ib->i", direction, self.covariances, direction) + own)

    def asked(self, rows: NDArray[np.integer[Any]], columns: NDArray[np.integer[Any]]) -> Posterior:
        """Return the posterior once the labels of some cells, at most one a row, are known, but for its mean."""
        v, p = self.discriminations[columns], expit(self.scores[rows, columns])
        reach = np.einsum("iab,ib->ia", self.covariances[rows], v)
        shrink = p * (1 - p) / (1 + p * (1 - p) * np.einsum("ia,ia->i", reach, v))
        covariances, unknown = self.covariances.copy(), self.unknown.copy()
        covariances[rows] -= shrink[:, None, None] * reach[:, :, None] * reach[:, None, :]
        unknown[rows, columns] = False
        return replace(self, covariances=covariances, unknown=unknown)


#: The gain from each cell of some rows; those of known cells have no meaning.
Gain: TypeAlias = Callable[[Posterior], Array]


def fall_of_variance(posterior: Posterior) -> Array:
    """Return the fall of the posterior variance of the mean of the row."""
    v, w, a = posterior.discriminations, posterior.curvatures, posterior.weights
    direction = (posterior.unknown * w * a) @ v
    reach = np.einsum("iab,ib->ia", posterior.covariances, direction) @ v.T
    return np.asarray(w * (reach + a) ** 2 / (1 + w * posterior.variances))


def fall_of_log_loss(posterior: Posterior) -> Array:
    """Return the fall of the expected log-loss, summed over the cells of the row."""
    v, w, p = posterior.discriminations, posterior.curvatures, posterior.p
    squares = np.einsum("ij,ja,jb->iab", posterior.unknown * w, v, v)
    C = posterior.covariances
    reach = ((C @ squares @ C @ v.T) * v.T[None]).sum(axis=1)
    own = w * posterior.variances
    others = w * (reach - own * posterior.variances) / (1 + own)
    return np.asarray(entr(p) + entr(1 - p) + (own + others) / 2)


def rise_of_list(posterior: Posterior) -> Array:
    """Return the rise of the expected number of likes in the list of the row's best unknown cells."""
    found = np.zeros(posterior.scores.shape)
    v = posterior.discriminations
    for i, (scores, C) in enumerate(zip(posterior.scores, posterior.covariances, strict=True)):
        unknown = np.flatnonzero(posterior.unknown[i])
        if not unknown.size:
            continue
        n = min(posterior.list_length, unknown.size)
        x, u = scores[unknown], v[unknown]
        now = np.sort(expit(x))[-n:].sum()
        step = max(1, BLOCK_CELLS // unknown.size)
        for start in range(0, unknown.size, step):
            cells = np.arange(start, min(start + step, unknown.size))
            found[i, unknown[cells]] = _likes_of_lists(x, u, C, cells, n) - now
    return found


def _likes_of_lists(x: Array, u: Array, C: Array, cells: Positions, n: int) -> Array:
    """Return the expected likes in a list of the ``n`` best, over both labels of each of some cells."""
    each, own = np.arange(cells.size), expit(x[cells])
    reach = u[cells] @ C @ u.T
    step = reach / (1 + own * (1 - own) * reach[each, cells])[:, None]
    found = np.zeros(cells.size)
    for y, chance in ((1.0, own), (0.0, 1 - own)):
        moved = expit(x + (y - own)[:, None] * step)
        moved[each, cells] = y
        found += chance * np.partition(moved, x.size - n, axis=1)[:, -n:].sum(axis=1)
    return found


#: Gains by the name of the goal.
GOALS: dict[str, Gain] = {
    "means": fall_of_variance,
    "log_loss": fall_of_log_loss,
    "list": rise_of_list,
}
