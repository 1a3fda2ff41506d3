"""The n best columns of each row, by scores of every column or by the factors of ``x``.

By factors, ``x = P Q'`` is screened in single precision. There a product of k terms is off by less than
``(k + 3) 2^-23 |p_i| |q_j|``. A column whose screened score is below the n-th best by more than twice this bound is not
among the best n. The scores of the others are computed in double precision, each by itself, so that lists depend
neither on the block nor on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.data.axis import Positions, first_true
from tribit.errors import InvalidInputError
from tribit.model.binary_matrices import BinaryRows
from tribit.model.factors import Factors
from tribit.ranking.scores import Rated, Score

__all__ = ["Screening", "best_columns", "best_of"]

Array = NDArray[np.float64]

#: Scores in memory at once: few enough for a core's cache.
BLOCK_SCORES = 2**16
#: Least rows at once: a ranker that solves for each row is faster with several together.
MIN_BLOCK_ROWS = 16
#: Largest margin of a row that is screened: up to it no sum in single precision overflows, as ``|p_i| |q_j|`` is then
#: below 10^37.
MAX_MARGIN = 1e30


@dataclass(frozen=True, eq=False)
class Screening:
    """The factors of ``x``, prepared for the best columns of any rows.

    Attributes
    ----------
    factors : Factors
        Factors and biases.
    Q : array of shape (n_columns, k)
        The right factor of the product, with biases, in double precision.
    by_factor : array of shape (k, n_columns)
        The same in single precision.
    bound : float
        The largest error of a screened score is ``|p_i|`` times this.
    """

    factors: Factors
    Q: Array
    by_factor: NDArray[np.float32]
    bound: float

    @classmethod
    def of(cls, factors: Factors) -> Screening:
        """Prepare some factors."""
        Q = _right_factor(factors)
        with np.errstate(over="ignore"):  # refused below, by the norms
            by_factor = np.ascontiguousarray(Q.T, dtype=np.float32)
            largest = float(np.sqrt(np.max(np.einsum("jf,jf->j", Q, Q), initial=0.0)))
        return cls(factors, Q, by_factor, (Q.shape[1] + 3) * 2.0**-23 * largest)

    def left_factor(self, rows: Positions) -> Array:
        """Return ``p`` of some rows, in double precision."""
        known = self.factors
        U, a = known.row_factors[rows], known.row_intercepts[rows]
        return np.column_stack([U, a, np.ones(rows.size)]).astype(np.float64, copy=False)

    def score(self, rows: Positions) -> Array:
        """Return the scores of every column, computed without screening."""
        return np.asarray(np.vecdot(self.left_factor(rows)[:, None], self.Q))

    def best(
        self,
        rows: Positions,
        allowed: NDArray[np.bool_],
        n: int,
        seen: sp.csr_array | None,
        n_jobs: int = 1,
    ) -> tuple[Positions, Array]:
        """Return the best allowed columns of each row and their scores, as :func:`best_columns` does."""
        positions = np.full((rows.size, n), -1, dtype=np.int64)
        scores = np.full((rows.size, n), -np.inf)

        def fill(part: slice) -> None:
            places = rows[part]
            P = self.left_factor(places)
            margin = 2.0 * self.bound * np.sqrt(np.einsum("if,if->i", P, P))
            if not np.all(margin < MAX_MARGIN):  # NaN too
                positions[part], scores[part], _ = best_of(self.score, places, allowed, n, seen)
                return
            block = P.astype(np.float32) @ self.by_factor
            free = _free_columns(block, allowed, seen, places)
            if n < block.shape[1]:
                block[~free] = -np.inf
                nth = np.partition(block, block.shape[1] - n, axis=1)[:, block.shape[1] - n]
                # In double precision: the margin of large scores is below their spacing in single precision.
                free &= block >= (nth - margin)[:, None]
            i, j = np.nonzero(free)
            # A product of its own for each pair, whose bits do not depend on the others.
            x = np.vecdot(P[i], self.Q[j])
            i, place, j, x = _first_n(i, j, x, n)
            positions[part.start + i, place], scores[part.start + i, place] = j, x

        with single_threaded_blas():
            for _ in ordered_map(fill, _parts(rows.size, allowed.size), n_jobs):
                pass
        return positions, scores


def _right_factor(factors: Factors) -> Array:
    """Return ``[V, 1, b + c]``, in double precision."""
    level = factors.column_intercepts.astype(np.float64) + factors.intercept
    parts = [factors.column_factors, np.ones(level.size), level]
    return np.column_stack(parts).astype(np.float64, copy=False)


def _parts(n_rows: int, n_columns: int) -> list[slice]:
    """Return the rows of each block."""
    step = max(MIN_BLOCK_ROWS, BLOCK_SCORES // n_columns)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _free_columns(
    block: NDArray[np.floating],
    allowed: NDArray[np.bool_],
    seen: sp.csr_array | None,
    places: Positions,
) -> NDArray[np.bool_]:
    """Return which columns a list of each row may show."""
    free = np.tile(allowed, (len(block), 1))
    if seen is not None:
        out = BinaryRows.of(seen, places)
        free[out.rows, out.columns] = False
    return free


def best_columns(
    score: Score, rows: Positions, n_columns: int, n: int, seen: sp.csr_array | None = None
) -> tuple[Positions, NDArray[np.float64]]:
    """Return the positions of the ``n`` best columns of each row and their scores; stored entries are left out.

    Best first, equal scores in the order of their columns; -1 and ``-inf`` where columns ran out.
    """
    return best_of(score, rows, np.ones(n_columns, dtype=bool), n, seen)[:2]


def best_of(
    score: Score,
    rows: Positions,
    allowed: NDArray[np.bool_],
    n: int,
    seen: sp.csr_array | None,
) -> tuple[Positions, NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the best columns, their scores, and the rates of likes and dislikes where the scores come with them."""
    positions = np.full((rows.size, n), -1, dtype=np.int64)
    scores = np.full((rows.size, n), -np.inf)
    rates = None
    for part in _parts(rows.size, allowed.size):
        places, start = rows[part], part.start
        found = score(places)
        block = np.array(found.scores if isinstance(found, Rated) else found, dtype=np.float64)
        if (odd := first_true(np.asarray(np.isnan(block).any(axis=1)))) is not None:
            raise InvalidInputError(
                f"A score of row {places[odd]} is not a number (NaN); rank finite scores only."
            )
        free = _free_columns(block, allowed, seen, places)
        block[~free] = -np.inf
        i, place, j = _best(block, free, n)
        positions[start + i, place], scores[start + i, place] = j, block[i, j]
        if isinstance(found, Rated):
            rates = np.full((2, *scores.shape), np.nan) if rates is None else rates
            rates[:, start + i, place] = found.likes[i, j], found.dislikes[i, j]
    return positions, scores, rates


def _best(
    block: NDArray[np.float64], free: NDArray[np.bool_], n: int
) -> tuple[Positions, Positions, Positions]:
    """Return row, place in the list and column of the ``n`` best free entries of each row."""
    if n < block.shape[1]:
        # All that reach the n-th best, so that among equals the column decides and not the partition.
        nth = block.shape[1] - n
        free = free & (block >= np.partition(block, nth, axis=1)[:, nth, None])
    i, j = np.nonzero(free)
    return _first_n(i, j, block[i, j], n)[:3]


def _first_n(
    i: Positions, j: Positions, x: Array, n: int
) -> tuple[Positions, Positions, Positions, Array]:
    """Return row, place in the list, column and score of the first ``n`` candidates of each row, best first."""
    order = np.lexsort((j, -x, i))
    i, j, x = i[order], j[order], x[order]
    place = np.arange(i.size) - np.searchsorted(i, i)
    kept = place < n
    return i[kept], place[kept], j[kept], x[kept]
