"""Lists of different lengths, one after the other in a flat array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import AnyArray, Positions
from tribit.errors import InvalidInputError

__all__ = ["Ragged"]


@dataclass(frozen=True, eq=False, repr=False)
class Ragged:
    """Lists of different lengths: list ``i`` is ``values[offsets[i] : offsets[i + 1]]``.

    ``lists[i]`` is the array of a list, ``lists[i, k]`` its place k from 0, and ``lists[some]`` the lists at a slice,
    mask or array of positions. ``numpy.asarray(lists)`` is a matrix if all lists are equally long.

    Attributes
    ----------
    values : array of shape (n_values,)
        All lists, one after the other.
    offsets : array of int of shape (n_lists + 1,)
        Where each list starts, and the number of values.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.ragged import Ragged
    >>> lists = Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))
    >>> lists[0], lists[1], lists.lengths
    (array([7, 8]), array([9]), array([2, 1]))
    """

    values: AnyArray
    offsets: Positions

    @classmethod
    def of(cls, padded: AnyArray, is_listed: NDArray[np.bool_]) -> Ragged:
        """Return the marked elements of each row of a matrix."""
        offsets = np.zeros(len(padded) + 1, dtype=np.int64)
        is_listed.sum(axis=1).cumsum(out=offsets[1:])
        return cls(padded[is_listed], offsets)

    def __len__(self) -> int:
        return int(self.offsets.size - 1)

    @property
    def lengths(self) -> Positions:
        """Length of each list."""
        return np.asarray(self.offsets[1:] - self.offsets[:-1])

    @property
    def index(self) -> Positions:
        """Number of the list of each value, from 0."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def places(self) -> Positions:
        """Place of each value in its list, from 0."""
        return np.arange(self.values.size) - self.offsets[:-1].repeat(self.lengths)

    def with_values(self, values: AnyArray) -> Ragged:
        """Return lists of the same lengths with other values."""
        return Ragged(values, self.offsets)

    def sums(self) -> NDArray[np.float64]:
        """Return the sum of each list."""
        return np.bincount(self.index, self.values, len(self)).astype(np.float64)

    def tolist(self) -> list[list[Any]]:
        """Return a list of lists."""
        return [each.tolist() for each in self]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            some, place = key
            return self[some][place]
        if np.ndim(key) or isinstance(key, slice):
            parts = [self[at] for at in np.arange(len(self))[key].tolist()]
            offsets = np.concatenate(([0], np.cumsum([part.size for part in parts], dtype=int)))
            return Ragged(np.concatenate([self.values[:0], *parts]), offsets)
        at = range(len(self))[key]
        return self.values[self.offsets[at] : self.offsets[at + 1]]

    def __iter__(self) -> Iterator[AnyArray]:
        return (self[at] for at in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        lengths = np.unique(self.lengths)
        if lengths.size > 1:
            raise InvalidInputError(
                f"The lists have {lengths[0]} to {lengths[-1]} places, and are no matrix; use lists[i], or values and "
                "offsets."
            )
        matrix = self.values.reshape(len(self), -1 if self.values.size else 0)
        return np.array(matrix, dtype, copy=copy)

    def __repr__(self) -> str:
        n = len(self)
        shown = ", ".join(np.array2string(each, threshold=10) for each in self[:3])
        return f"Ragged([{shown}{', ...' if n > 3 else ''}])"
