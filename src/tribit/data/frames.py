"""Reading the columns of a data frame, of whichever library, through narwhals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from tribit.data.axis import AnyArray, distinct_ids, first_true
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.quoting import listed, quoted


def eager(frame: Any) -> nw.DataFrame[Any]:
    """Return the frame as narwhals sees it; a lazy one is refused."""
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InvalidTypeError(
            f"frame is of type {type(frame).__name__}; pass a pandas, polars or pyarrow data "
            "frame, and collect a lazy one first."
        ) from error
    except DuplicateError as error:
        raise InvalidInputError("Two columns of the frame share a name; rename one.") from error


def row_of_frame(position: int) -> str:
    """Say where a row stands in the frame, for an error to name."""
    return f"row {position} of the frame"


def column(
    frame: nw.DataFrame[Any], name: str, role: str, where: Callable[[int], str] = row_of_frame
) -> AnyArray:
    """Return a column without missing values as an array; ``role`` is the keyword that named it."""
    if name not in frame.columns:
        raise InvalidInputError(
            f"The frame has no column {quoted(name)}, given as {role}=; "
            f"choose one of its columns: {listed(frame.columns)}."
        )
    series = frame.get_column(name)
    position = first_true(series.is_null().to_numpy())
    if position is not None:
        raise InvalidInputError(
            f"{where(position)}: the {role} in column {quoted(name)} is missing; "
            "drop the row or fill it in."
        )
    values: AnyArray = series.to_numpy()
    if values.ndim != 1:
        raise InvalidTypeError(
            f"Column {quoted(name)}, given as {role}=, holds lists; choose one with a value per row."
        )
    return values


def labels_of(matrix: Any) -> tuple[AnyArray | None, AnyArray | None]:
    """Return the index and the columns of a pandas frame as ids: none where both only count from 0."""
    if not (hasattr(matrix, "index") and hasattr(matrix, "columns") and hasattr(matrix, "iloc")):
        return None, None
    labels = np.asarray(matrix.index), np.asarray(matrix.columns)
    if all(np.array_equal(label, np.arange(label.size)) for label in labels):
        return None, None
    return distinct_ids(labels[0], "The index"), distinct_ids(labels[1], "The list of columns")
