"""Rates of all cells of a small table, computed when a service starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tribit.data.axis import Positions
from tribit.model.ease import row_blocks
from tribit.ranking.lists import TopN
from tribit.ranking.scores import Rated, RateParts, rate_parts, worth

#: Most cells whose rates are kept, 24 bytes each: 60 MB. MovieLens-100k has 1.6 million, which take about a second.
MAX_CELLS = 2_500_000


class RatesTable:
    """Scores of lists for any weight of dislikes, from rates of all rows that were computed before.

    Parameters
    ----------
    parts : callable
        From positions of rows to their rates (:func:`tribit.ranking.scores.rate_parts`); the numbers here are equal to
        these in the last bit.
    shape : (int, int)
        Numbers of rows and columns.
    """

    def __init__(self, parts: Callable[[Positions], RateParts], shape: tuple[int, int]) -> None:
        # Row after row, so that the rates of a row are near one another.
        self._table = np.empty((shape[0], 3, shape[1]))
        for block in row_blocks(np.arange(shape[0]), shape[1]):
            self._table[block] = np.stack(parts(block), axis=1)

    def __call__(self, rows: Positions, weight: float) -> Rated:
        """Return the scores of rows with their rates."""
        if rows.size == 1:
            return worth(RateParts(*self._table[rows[0], :, None]), weight)
        return worth(RateParts(*self._table[rows].swapaxes(0, 1)), weight)


def with_rates_table(top: TopN) -> TopN:
    """Return top-N lists with a table of rates where the cells are few enough, else as they are."""
    parts, (n_rows, n_columns) = rate_parts(top.model, top.ranker), top.axes.shape
    if parts is None or n_rows * n_columns > MAX_CELLS:
        return top
    return replace(top, prepared=RatesTable(parts, (n_rows, n_columns)))
