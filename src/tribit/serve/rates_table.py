"""Rates of every cell of a small table, computed when a service starts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tribit.data.axis import Positions
from tribit.model.column_regression import row_blocks
from tribit.ranking.scores import Rated, RateParts, WeighedScore, rate_parts, weighed_score, worth
from tribit.recommender import Recommender

#: Most cells whose rates are kept, 24 bytes each: 60 MB. MovieLens-100k has 1.6 million, which take about a second.
CELLS = 2_500_000


class RatesTable:
    """Scores of lists for any weight, from parts that no weight is in, of all rows at once.

    Parameters
    ----------
    parts : callable
        From positions of rows to their parts (:func:`tribit.ranking.scores.rate_parts`), whose numbers these are to
        the last bit.
    shape : (int, int)
        Numbers of rows and columns.
    """

    def __init__(self, parts: Callable[[Positions], RateParts], shape: tuple[int, int]) -> None:
        # Row after row, so that the parts of a row are near one another.
        self._table = np.empty((shape[0], 3, shape[1]))
        for block in row_blocks(np.arange(shape[0]), shape[1]):
            self._table[block] = np.stack(parts(block), axis=1)

    def __call__(self, rows: Positions, weight: float) -> Rated:
        """Return the scores of rows with their rates."""
        if rows.size == 1:
            return worth(RateParts(*self._table[rows[0], :, None]), weight)
        return worth(RateParts(*self._table[rows].swapaxes(0, 1)), weight)


def ready_score(bundle: Recommender) -> WeighedScore:
    """Return the scores of a bundle's lists, computed before they are asked for where the table is small enough."""
    model, ranker = bundle.model_, bundle.ranker_
    n_rows, n_columns = bundle.shape_
    parts = rate_parts(model, ranker)
    if parts is None or n_rows * n_columns > CELLS:
        return weighed_score(model, ranker)
    return RatesTable(parts, bundle.shape_)
