"""Lists: the columns to show to each row, best first.

:mod:`tribit.recommend.scores` says in which order. Without a ranker it is that of P(like) alone, which
estimates preference and leaves out exposure: whether the row will observe the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.checks import check_count
from tribit.data.axis import AnyArray, Axes, Positions, as_list, first_true
from tribit.data.observations import as_observations
from tribit.errors import InvalidInputError
from tribit.factor_model import FactorModel
from tribit.recommend.scores import Ranker, Score, check_ready, is_ranker, log_likely, model_score

__all__ = ["Recommendations", "recommend"]

#: Scores in memory at once: few enough for a core's cache.
BLOCK = 2**16
#: Least rows at once: a ranker that solves for each row is faster with several together.
LEAST_ROWS = 16


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best columns for each row, best first; of equal scores the column that comes first is the better.

    ``n`` is the length asked for, or the number of columns where there are fewer. A row with fewer than ``n`` columns
    to choose from has a shorter list, filled up as said below.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        The rows asked for: the user's ids where the model has them, else positions.
    columns : array of shape (n_rows, n)
        The columns for each, filled up with -1 where columns are positions and with None where they are ids.
    scores : array of shape (n_rows, n)
        Their scores, which never rise along a list; filled up with ``-inf``.
    positions : array of shape (n_rows, n)
        The columns as positions, filled up with -1.
    """

    rows: AnyArray
    columns: AnyArray
    scores: NDArray[np.float64]
    positions: Positions

    def __len__(self) -> int:
        return int(self.rows.size)

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Which places hold a column: all but the filled up ones."""
        return np.asarray(self.positions >= 0)

    def pairs(self) -> tuple[AnyArray, AnyArray, NDArray[np.float64]]:
        """Return rows, columns and scores of all lists one after the other, as the columns of a table."""
        shown = self.shown
        rows = np.repeat(self.rows, np.count_nonzero(shown, axis=1))
        return rows, self.columns[shown], self.scores[shown]


def recommend(
    model: FactorModel | Ranker,
    rows: Any,
    n: int = 10,
    *,
    exclude_seen: Any = None,
    avoid_dislikes: float = 1.0,
    ranker: FactorModel | Ranker | None = None,
) -> Recommendations:
    """Rank the columns for each row; see :meth:`tribit.factor_model.FactorModel.recommend`."""
    check_ready(model)
    axes = Axes.of_model(model)
    n = min(check_count("n", n), axes.shape[1])
    places = axes.rows.find(as_list(rows))
    seen = None
    if exclude_seen is not None:
        observations = as_observations(exclude_seen, like_at=getattr(model, "like_at", None))
        seen = axes.mask(observations, "exclude_seen has")
    score = model_score(model, ranker, avoid_dislikes)
    positions, scores = best_columns(score, places, axes.shape[1], n, seen)
    shown = positions >= 0
    if ranker is None and not is_ranker(model):
        # Ordered by x, which still tells apart what the link rounds or clips to one probability.
        scores[shown] = log_likely(model, scores[shown])
    return Recommendations(
        axes.rows.names(places), axes.columns.names(positions), scores, positions
    )


def best_columns(
    score: Score, rows: Positions, n_columns: int, n: int, seen: sp.csr_array | None = None
) -> tuple[Positions, NDArray[np.float64]]:
    """Return the positions of the ``n`` best columns of each row and their scores; stored entries are left out.

    Best first, equal scores in the order of their columns; -1 and ``-inf`` where columns ran out.
    """
    positions = np.full((rows.size, n), -1, dtype=np.int64)
    scores = np.full((rows.size, n), -np.inf)
    step = max(LEAST_ROWS, BLOCK // n_columns)
    for start in range(0, rows.size, step):
        places = rows[start : start + step]
        block = np.array(score(places), dtype=np.float64)
        if (odd := first_true(np.asarray(np.isnan(block).any(axis=1)))) is not None:
            raise InvalidInputError(
                f"A score of row {places[odd]} is not a number (NaN); rank finite scores only."
            )
        free = np.ones(block.shape, dtype=bool)
        if seen is not None:
            out = seen[places]
            free[np.repeat(np.arange(places.size), np.diff(out.indptr)), out.indices] = False
            block[~free] = -np.inf
        i, place, j = _best(block, free, n)
        positions[start + i, place], scores[start + i, place] = j, block[i, j]
    return positions, scores


def _best(
    block: NDArray[np.float64], free: NDArray[np.bool_], n: int
) -> tuple[Positions, Positions, Positions]:
    """Return row, place in the list and column of the ``n`` best free entries of each row."""
    if n < block.shape[1]:
        # All that reach the n-th best, so that among equals the column decides and not the partition.
        nth = block.shape[1] - n
        free = free & (block >= np.partition(block, nth, axis=1)[:, nth, None])
    i, j = np.nonzero(free)
    order = np.lexsort((j, -block[i, j], i))
    i, j = i[order], j[order]
    place = np.arange(i.size) - np.searchsorted(i, i)
    kept = place < n
    return i[kept], place[kept], j[kept]
