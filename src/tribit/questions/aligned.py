"""Tables of values for rows, columns or cells: by ids, and in the order of a recommender's rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axis, Positions, eager_frame, first_true, quoted_id
from tribit.errors import InvalidInputError, parameter, quoted
from tribit.estimates.designs import Draws
from tribit.questions.kinds import Texts, find, unknown_id

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

Array = NDArray[np.floating[Any]]


def is_missing(value: object) -> bool:
    """Return whether a value of a table is none, empty or NaN."""
    return value is None or value == "" or value != value  # noqa: PLR0124 - NaN


def columns_of(table: Any, name: str) -> dict[str, list[Any]]:
    """Return the columns of a table by name."""
    if not isinstance(table, Mapping):
        frame = eager_frame(table)
        table = {column: frame.get_column(column).to_list() for column in frame.columns}
    if len(table) < 2:
        raise InvalidInputError(
            f"The table of {parameter(name)} has one column; give it a column of ids and one of values."
        )
    return {column: list(values) for column, values in table.items()}


def places_of_records(
    recommender: FittedRecommender, side: int, ids: list[Any], name: str
) -> Positions:
    """Return the positions of the ids of a table, -1 for an unknown one; an id that is repeated is refused."""
    texts = [str(each) for each in ids]
    if len(set(texts)) < len(texts):
        twice = next(each for number, each in enumerate(texts) if each in texts[:number])
        raise InvalidInputError(
            f"The table of {parameter(name)} has the id {quoted(twice)} twice; leave one of them."
        )
    places = find(recommender.axes_[side], Texts(tuple(texts)), unknown_is_error=False)
    if (places < 0).all():
        raise InvalidInputError(
            f"The table of {parameter(name)} has no id of a {recommender.axes_[side].name} in its first column, "
            f"such as {quoted_id(recommender.axes_[side].ids, 0)}."
        )
    return places


def aligned_values(recommender: FittedRecommender, side: int, table: Any, name: str) -> list[Any]:
    """Return a value for each row (``side`` 0) or column (1) by a table of ids and values or a list; None for none."""
    axis: Axis = recommender.axes_[side]
    if not isinstance(table, Mapping) and not hasattr(table, "columns"):
        array = np.asarray(table)
        if array.shape != (axis.size,):
            raise InvalidInputError(
                f"{parameter(name)} has the shape {array.shape}; pass one value for each of the {axis.size} "
                f"{axis.name}s, or a table of ids and values."
            )
        return list(array.tolist())
    ids, values, *_ = columns_of(table, name).values()
    found: list[Any] = [None] * axis.size
    for place, value in zip(places_of_records(recommender, side, ids, name), values, strict=True):
        if place >= 0:
            found[place] = value
    return found


def number_of(value: Any, missing: float, name: str) -> float:
    """Return a value of a table as a number."""
    if is_missing(value):
        return missing
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"The table of {parameter(name)} has {quoted(str(value))}, which is no number."
        ) from None


def wide_values(recommender: FittedRecommender, table: Any) -> Array:
    """Return a matrix from a wide table with row ids in its first column; NaN where it has no value."""
    columns = columns_of(table, "q")
    ids = columns.pop(next(iter(columns)))
    rows = places_of_records(recommender, 0, ids, "q")
    places = places_of_records(recommender, 1, list(columns), "q")
    found = np.full(recommender.shape_, np.nan)
    known = np.flatnonzero(rows >= 0)
    for place, values in zip(places.tolist(), columns.values(), strict=True):
        if place >= 0:
            numbers = np.array([number_of(each, np.nan, "q") for each in values])
            found[rows[known], place] = numbers[known]
    return found


def given_probabilities(recommender: FittedRecommender, given: Any, selection: str) -> Array:
    """Return the probabilities of cells to be seen, of shape (d1, d2), by an array or a wide table."""
    if selection != "uniform":
        raise InvalidInputError(
            f"{parameter('q')} gives the probabilities of being seen: pass it, or "
            f"{parameter('selection', selection)}, not both."
        )
    rows, columns = recommender.axes_
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        q = wide_values(recommender, given)
    else:
        q = np.asarray(given, dtype=np.float64)
        if q.shape not in {(), (columns.size,), (rows.size, 1), (rows.size, columns.size)}:
            raise InvalidInputError(
                f"{parameter('q')} has the shape {q.shape}; pass one probability, one for each column, or an array "
                f"of shape {(rows.size, columns.size)}."
            )
        q = np.broadcast_to(q, (rows.size, columns.size))
    if (bad := first_true(~((q > 0) & (q <= 1)).ravel())) is not None:
        row, column = np.unravel_index(bad, q.shape)
        raise InvalidInputError(
            f"{parameter('q')} is {q[row, column]:g} for the {rows.name} {quoted_id(rows.ids, row)} and the "
            f"{columns.name} {quoted_id(columns.ids, column)}; every probability of being seen must be above 0 "
            "and at most 1."
        )
    return q


def drawn_cells(recommender: FittedRecommender, table: Any, name: str) -> Draws:
    """Return the cells of a table with probabilities and batches, as ``tribit ask`` writes it.

    Ids are in the columns with the headings of the recommender, or in the first two. Records without a probability are
    left out; without a column of batches all cells are of the first.
    """
    columns = columns_of(table, name)
    given = list(columns)
    if "probability" not in columns:
        raise InvalidInputError(
            f"The table of {parameter(name)} has no column probability; pass the table that tribit ask wrote."
        )
    names = recommender.headings if set(recommender.headings) <= set(given) else tuple(given[:2])
    kept = [at for at, value in enumerate(columns["probability"]) if not is_missing(value)]
    batches = columns.get("batch", ["1"] * len(columns["probability"]))
    probability = np.array([number_of(columns["probability"][at], 0.0, name) for at in kept])
    batch = np.array([number_of(batches[at], 0.0, name) for at in kept]).astype(np.int64)
    texts = [[str(columns[each][at]) for at in kept] for each in names]
    rows, places = (_known_places(recommender, side, ids) for side, ids in enumerate(texts))
    cells = [f"{row}, {column}" for row, column in zip(*texts, strict=True)]
    if (bad := first_true(~((probability > 0) & (probability <= 1)))) is not None:
        raise InvalidInputError(
            f"The table of {parameter(name)} has the probability {probability[bad]:g} for the cell "
            f"{quoted(cells[bad])}; every probability of being drawn must be above 0 and at most 1."
        )
    if (bad := first_true(batch < 1)) is not None:
        raise InvalidInputError(
            f"The table of {parameter(name)} has the batch {batch[bad]} for the cell {quoted(cells[bad])}; number "
            "batches from 1."
        )
    first = np.unique(rows * recommender.shape_[1] + places, return_index=True)[1]
    if first.size < rows.size:
        bad = int(np.setdiff1d(np.arange(rows.size), first)[0])
        raise InvalidInputError(
            f"The table of {parameter(name)} has the cell {quoted(cells[bad])} twice; leave one of them."
        )
    return Draws(rows, places, probability, batch)


def check_answered(recommender: FittedRecommender, draws: Draws, name: str) -> None:
    """Refuse drawn cells without a label: their estimate would be of the others."""
    seen = recommender.require_entries("drawn cells have labels")
    open_cells = ~seen.observed_at(draws.rows, draws.columns)
    if (bad := first_true(open_cells)) is not None:
        row, column = (
            quoted_id(axis.ids, at)
            for axis, at in zip(
                recommender.axes_, (draws.rows[bad], draws.columns[bad]), strict=True
            )
        )
        raise InvalidInputError(
            f"{np.count_nonzero(open_cells)} of the cells of {parameter(name)} have no label, such as that of {row} "
            f"and {column}; add all labels to the table, or pass the cells of finished batches alone."
        )


def _known_places(recommender: FittedRecommender, side: int, texts: list[str]) -> Positions:
    axis = recommender.axes_[side]
    places = find(axis, Texts(tuple(texts)), unknown_is_error=False)
    if (bad := first_true(places < 0)) is not None:
        raise unknown_id(axis, texts[bad])
    return places
