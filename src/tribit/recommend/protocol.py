"""What a finder must know."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import AnyArray, Positions

__all__ = ["Finder"]

Array = NDArray[np.floating[Any]]


@runtime_checkable
class Finder(Protocol):
    """Rates at which entries become likes and dislikes, for any rows and every column.

    Only their ratios within a row count, so the unit of a rate is free.

    Attributes
    ----------
    shape_ : (int, int)
        Number of rows and of columns.
    row_ids_, column_ids_ : array or None
        The user's ids of them.
    """

    shape_: tuple[int, int]
    row_ids_: AnyArray | None
    column_ids_: AnyArray | None

    def log_rates(self, rows: Positions) -> tuple[Array, Array]:
        """Return the logarithms of the rates of likes and of dislikes of the rows at these positions.

        Each has the shape (n_rows, n_columns). Dislikes at ``-inf`` mean that the finder knows of none.
        """
        ...
