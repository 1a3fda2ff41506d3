"""Designs: cells of rows drawn with known probabilities, and batches of them.

    pi_ij proportional to (1 - epsilon) s_ij / mean s_i + epsilon,    sum over j of pi_ij = number of cells of row i

Cells are drawn without replacement and with exactly these inclusion probabilities by systematic sampling: one random
start, then steps of one along the cumulated probabilities (Madow 1949). In the order of the predictions this
stratifies the draw, so that its variance is at most about that of independent draws.

A later batch may depend on all labels of earlier ones. Given these, its probabilities are known, and the doubly robust
estimate of the cells that were unknown before it is unbiased. Estimates of several batches are combined with weights
that are fixed in advance, here the numbers of drawn cells, so that their errors are a martingale: they have mean 0 and
no covariance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Batch", "Draws", "inclusion_probabilities", "systematic_sample"]

Array = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Positions = NDArray[np.integer[Any]]

#: Rounding error of a sum of probabilities, below which it is a whole number.
ROUNDING = 1e-9


class Batch(NamedTuple):
    """One random batch of some rows, each with the cells that were known before it.

    Attributes
    ----------
    rows : array of shape (n,)
        Positions of the rows in the table.
    labels : sparse array of shape (n, d2)
        Labels of the cells that are known after the batch.
    known : array of shape (n, d2)
        Mask of the cells that were known before it, or in it without a random draw.
    q : array of shape (n, d2)
        Probabilities of the cells that it drew, 1 elsewhere.
    """

    rows: Positions
    labels: sp.csr_array
    known: Bools
    q: Array

    def take(self, chosen: Positions) -> Batch:
        """Return the batch of some of its rows."""
        return Batch(self.rows[chosen], self.labels[chosen], self.known[chosen], self.q[chosen])


@dataclass(frozen=True, eq=False)
class Draws:
    """Cells that were drawn in batches with known probabilities.

    Attributes
    ----------
    rows, columns : array of shape (n,)
        Positions of the cells.
    probability : array of shape (n,)
        Probability with which a cell was drawn, given all that was known before its batch; 1 without a random draw.
    batch : array of shape (n,)
        Number of the batch.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Observations
    >>> from tribit.estimates import Draws, estimate_means
    >>> seen = Observations.from_matrix([[1, 0, -1, 0, 1, 0], [1, 1, -1, -1, 1, 1]])
    >>> draws = Draws(np.array([0, 0]), np.array([2, 4]), np.array([0.4, 0.4]), np.array([1, 1]))
    >>> estimate_means(seen, q=draws, random_state=0).mean.round(2)  # the first cell was known before
    array([0.58, 0.67])
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    probability: Array
    batch: NDArray[np.int64]

    @property
    def is_random(self) -> Bools:
        """Whether each cell was drawn at random."""
        return np.asarray(self.probability < 1)

    @classmethod
    def concatenate(cls, parts: Sequence[Draws], sizes: Sequence[int]) -> Draws:
        """Return the draws of several blocks of rows with these numbers of rows."""
        starts = np.cumsum([0, *sizes[:-1]])
        return cls(
            np.concatenate([each.rows + start for each, start in zip(parts, starts, strict=True)]),
            np.concatenate([each.columns for each in parts]),
            np.concatenate([each.probability for each in parts]),
            np.concatenate([each.batch for each in parts]),
        )

    def take(self, chosen: Bools) -> Draws:
        """Return some of the draws."""
        return Draws(
            self.rows[chosen], self.columns[chosen], self.probability[chosen], self.batch[chosen]
        )

    def batches(self, labels: sp.csr_array) -> Iterator[Batch]:
        """Return the random batches of a table with these labels, in their order."""
        numbers = np.zeros(labels.shape, dtype=np.int64)  # 0 for cells that no batch has
        numbers[self.rows, self.columns] = self.batch
        chances = np.ones(labels.shape)
        chances[self.rows, self.columns] = self.probability
        dense = labels.toarray()
        for number in np.unique(self.batch[self.is_random]):
            at = (self.batch == number) & self.is_random
            rows = np.unique(self.rows[at])
            of_rows, here = numbers[rows], chances[rows]
            is_drawn = (of_rows == number) & (here < 1)
            seen = np.where(of_rows <= number, dense[rows], 0)
            known = (seen != 0) & ~is_drawn
            yield Batch(rows, sp.csr_array(seen), known, np.where(is_drawn, here, 1.0))


def inclusion_probabilities(sizes: Array, counts: Array, uniform: float = 0.0) -> Array:
    """Return probabilities proportional to sizes, each at most 1, that sum to a number of cells in each row.

    Parameters
    ----------
    sizes : array of shape (n, m)
        Sizes, not negative; 0 for a cell that cannot be drawn.
    counts : array of shape (n,)
        Expected numbers of cells; all that can be drawn where they are fewer.
    uniform : float
        Share of the probabilities that is the same for all cells of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.estimates.designs import inclusion_probabilities
    >>> inclusion_probabilities(np.array([[4.0, 1.0, 1.0, 0.0]]), np.array([2.0]))
    array([[1. , 0.5, 0.5, 0. ]])
    """
    possible = sizes > 0
    n_possible = possible.sum(axis=1, keepdims=True)
    mean = sizes.sum(axis=1, keepdims=True) / np.maximum(n_possible, 1)
    sizes = np.where(possible, (1 - uniform) * sizes / np.where(mean > 0, mean, 1.0) + uniform, 0.0)
    counts = np.minimum(counts[:, None], n_possible)
    certain = np.zeros(sizes.shape, dtype=bool)
    while True:
        rest = np.where(certain, 0.0, sizes)
        total = rest.sum(axis=1, keepdims=True)
        left = counts - certain.sum(axis=1, keepdims=True)
        found = np.where(certain, 1.0, rest * left / np.where(total > 0, total, 1.0))
        further = ~certain & (found > 1 - ROUNDING)
        if not further.any():
            return np.asarray(found)
        certain |= further


def systematic_sample(q: Array, order: Array, draws: np.random.Generator) -> Bools:
    """Return the mask of a draw with these inclusion probabilities, systematic in the order of some values.

    Each row has the sum of its probabilities as its number of cells, rounded down or up at random if that is no whole
    number.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.estimates.designs import systematic_sample
    >>> q = np.full((1, 6), 0.5)
    >>> int(systematic_sample(q, np.arange(6.0)[None], np.random.default_rng(0)).sum())
    3
    """
    places = np.argsort(order, axis=1, kind="stable")
    ends = np.cumsum(np.take_along_axis(q, places, axis=1), axis=1)
    whole = np.round(ends[:, -1:])
    ends = np.where(np.abs(ends - whole) < ROUNDING, whole, ends)
    passed = np.floor(ends - draws.random((len(q), 1))) + 1
    steps = np.diff(passed, axis=1, prepend=0.0)
    found = np.zeros(q.shape, dtype=bool)
    np.put_along_axis(found, places, steps > 0, axis=1)
    return found
