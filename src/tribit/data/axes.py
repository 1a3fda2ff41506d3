"""The rows and columns that scores are of, matched by the user's ids where there are ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from tribit.data.ids import AnyArray, Positions, first_true, named
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError

__all__ = ["Axes"]


@dataclass(frozen=True, eq=False)
class Axes:
    """The rows and columns that scores are of: how many, and the user's ids of them if there are any."""

    shape: tuple[int, int]
    row_ids: AnyArray | None
    column_ids: AnyArray | None

    @classmethod
    def of_model(cls, model: Any) -> Axes:
        """Return those of a fitted model or finder."""
        return cls(model.shape_, model.row_ids_, model.column_ids_)

    def column_names(self, positions: Positions) -> AnyArray:
        """Return the columns at the positions as the user names them; see :class:`Recommendations`."""
        if self.column_ids is None:
            return positions
        names = self.column_ids[positions]
        if (positions < 0).any():
            names = names.astype(object)
            names[positions < 0] = None
        return names

    def places(self, observations: Observations, name: str) -> tuple[Positions, Positions]:
        """Return the positions here of the observed entries; -1 for an id that is not here."""
        theirs = Axes(observations.shape, observations.row_ids, observations.column_ids)
        rows = _translation("row", theirs, self, name)
        columns = _translation("column", theirs, self, name)
        return rows[observations.rows], columns[observations.columns]

    def mask(self, observations: Observations, name: str) -> sp.csr_array:
        """Return which entries here were observed; those with an id that is not here are left out."""
        rows, columns = self.places(observations, name)
        here = (rows >= 0) & (columns >= 0)
        ones = np.ones(np.count_nonzero(here), dtype=bool)
        return sp.csr_array((ones, (rows[here], columns[here])), shape=self.shape)

    def along(self, axis: str) -> tuple[int, AnyArray | None]:
        """Return the number and the ids of the rows or of the columns."""
        if axis == "row":
            return self.shape[0], self.row_ids
        return self.shape[1], self.column_ids

    def within(self, other: Axes, name: str) -> tuple[Positions, Positions]:
        """Return where the other has each row and column that is here; it must know them all."""
        sides = []
        for axis in ("row", "column"):
            places = _translation(axis, self, other, "the model that recommends")
            if (lost := first_true(places < 0)) is not None:
                raise InvalidInputError(
                    f"The {name} does not know the {axis} {named(self.along(axis)[1], lost)} of the model: fit both "
                    "on the same rows and columns."
                )
            sides.append(places)
        return sides[0], sides[1]


def _translation(axis: str, theirs: Axes, ours: Axes, name: str) -> Positions:
    """Return our position of each of their rows or columns, by id where we have ids; -1 for none."""
    (their_size, their_ids), (our_size, our_ids) = theirs.along(axis), ours.along(axis)
    if our_ids is None:
        if their_size != our_size:
            raise InvalidInputError(
                f"{name} has {their_size} {axis}s and the model {our_size}: without ids they are matched by "
                "position, so pass entries of the same matrix."
            )
        return np.arange(our_size)
    if their_ids is None:
        raise InvalidInputError(
            f"The model was fitted on {axis} ids but {name} has none: read it with the same ids."
        )
    places = {known: place for place, known in enumerate(our_ids.tolist())}
    found = (places.get(known, -1) for known in their_ids.tolist())
    return np.fromiter(found, dtype=np.int64, count=their_size)
