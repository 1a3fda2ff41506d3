"""Rates of every cell of a small table, computed when a service starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import AnyArray, Positions
from tribit.model.column_regression import row_blocks
from tribit.recommend.candidate_ranker import CandidateRanker

#: Most cells whose rates are kept, 16 bytes each: 64 MB. MovieLens-100k has 1.6 million, which take about a second.
CELLS = 2**22


class RatesTable:
    """A ranker that has computed the log-rates of all its rows, which depend on nothing that a request can ask for.

    Parameters
    ----------
    ranker : CandidateRanker
        The ranker, whose numbers these are to the last bit.
    """

    def __init__(self, ranker: CandidateRanker) -> None:
        self.shape_ = ranker.shape_
        self.row_ids_: AnyArray | None = ranker.row_ids_
        self.column_ids_: AnyArray | None = ranker.column_ids_
        self._table = np.empty((2, *self.shape_))
        for block in row_blocks(np.arange(self.shape_[0]), self.shape_[1]):
            self._table[:, block] = ranker.log_rates(block)

    def log_rates(self, rows: Positions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the logarithms of the rates of likes and of dislikes, as the ranker does."""
        return self._table[0, rows], self._table[1, rows]


def ready(ranker: CandidateRanker) -> CandidateRanker | RatesTable:
    """Return a ranker with its rates computed, where the table is small enough to keep them."""
    return RatesTable(ranker) if ranker.shape_[0] * ranker.shape_[1] <= CELLS else ranker
