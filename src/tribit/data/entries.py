"""Entries of a matrix by position: counts, parts, splits; the base of observations and of measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit import randomness
from tribit.data.axis import AnyArray, Axes, Positions, check_positions
from tribit.data.ingest import Checked
from tribit.data.labels import Floats
from tribit.data.rules import TableRules
from tribit.data.times import SplitBy, Times, require_times, split_mask, times_at
from tribit.data.weights import unless_equal_to_one, weights_at
from tribit.errors import InvalidInputError
from tribit.randomness import RandomState


class Entries:
    """Some entries of a matrix, in row-major order, each with a value; immutable.

    A subclass has a constructor ``(rows, columns, values, shape, row_ids, column_ids)``, which checks, and a property
    by the name of its values.
    """

    __slots__ = (
        *("__weakref__", "_counts", "_values", "axes"),
        *("columns", "rows", "rules", "times", "weights"),
    )
    rows: Positions
    columns: Positions
    axes: Axes
    #: The rules by which a table was read, with guesses and notes; None where there was no table.
    rules: TableRules | None
    #: The weight of each entry, above 0; None where each is 1.
    weights: Floats | None
    #: The time of each entry, in UTC; None where they are unknown.
    times: Times | None
    _values: AnyArray
    #: Counts that were made, kept: entries never change, and a pass over millions of them takes a tenth of a second.
    _counts: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    #: Whether the entries are on other machines (:mod:`tribit.data.remote`).
    is_remote: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the matrix."""
        return self.axes.shape

    @property
    def row_ids(self) -> AnyArray | None:
        """The user's ids of the rows, if there are any."""
        return self.axes.rows.ids

    @property
    def column_ids(self) -> AnyArray | None:
        """The user's ids of the columns, if there are any."""
        return self.axes.columns.ids

    @property
    def density(self) -> float:
        """Share of the matrix that is observed."""
        return len(self) / (self.shape[0] * self.shape[1])

    @property
    def counts(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Numbers of entries of each row and of each column."""
        if not hasattr(self, "_counts"):
            rows, columns = (
                np.bincount(places, minlength=size)
                for places, size in zip((self.rows, self.columns), self.shape, strict=True)
            )
            rows.flags.writeable = columns.flags.writeable = False
            object.__setattr__(self, "_counts", (rows, columns))
        return self._counts

    @property
    def totals(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Sums of the weights of each row and of each column; without weights their numbers of entries."""
        if self.weights is None:
            return self.counts
        rows, columns = (
            np.bincount(places, self.weights, minlength=size)
            for places, size in zip((self.rows, self.columns), self.shape, strict=True)
        )
        return rows, columns

    def require_local(self, reason: str) -> None:
        """Raise an error for this reason where the entries are on other machines."""
        if self.is_remote:
            raise InvalidInputError(reason)

    def to_sparse(self) -> sp.csr_array:
        """Return the values as a sparse array, unobserved entries not stored."""
        return sp.csr_array((self._values, (self.rows, self.columns)), shape=self.shape)

    def observed_at(
        self, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return whether there is an entry at each pair of positions."""
        n = self.shape[1]
        return np.isin(rows * n + columns, self.rows * n + self.columns)

    def transpose(self) -> Self:
        """Return the same entries with rows and columns exchanged."""
        # Rows are in order already, so a stable sort by column alone gives the new order.
        order = np.argsort(self.columns, kind="stable")
        sides = self.columns[order], self.rows[order]
        own = weights_at(self.weights, order), times_at(self.times, order)
        return self.from_checked(
            Checked(*sides, self._values[order], self.axes.transpose(), self.rules, *own)
        )

    def take(self, positions: npt.ArrayLike) -> Self:
        """Return the entries at ``positions`` alone, in a matrix of the same shape and ids.

        Parameters
        ----------
        positions : array-like of int
            Distinct positions, from 0 to the number of entries less 1, in any order.
        """
        given = np.asarray(positions)
        check_positions(given, len(self), "entry")
        if given.ndim != 1 or not 0 < np.unique(given).size == given.size:
            raise InvalidInputError(
                f"positions has shape {given.shape} or repeats itself; pass a one-dimensional list "
                "of distinct positions, at least one."
            )
        return self.select(np.sort(given))

    def split(
        self,
        test: float | int = 0.1,
        random_state: RandomState = None,
        *,
        by: SplitBy = "random",
        last: int | None = None,
    ) -> tuple[Self, Self]:
        """Split the entries, not the rows, into a training and a test part, at random or by time.

        Parameters
        ----------
        test : float or int, default=0.1
            The share of the entries to hold out, between 0 and 1, or their number. By time it is approximate: entries
            of equal times stay together.
        random_state : int, Generator, RandomState or None
            As in :func:`tribit.randomness.generator`. With ``last`` it orders entries of equal times.
        by : {"random", "time"}, default="random"
            "time" holds out the latest entries.
        last : int, optional
            With ``by="time"``, hold out this number of last entries of each row, instead of ``test``. Rows with no more
            entries are in the training part.

        Returns
        -------
        train, test : of the same class
            Disjoint, together all entries, each with the shape and ids of the whole.
        """
        return self.hold_out(split_mask(self.rows, self.times, test, random_state, by, last))

    def require_times(self, reason: str) -> Times:
        """Return the times of the entries, or raise an error with the reason why they are needed."""
        return require_times(self.times, reason)

    def folds(self, n: int, random_state: RandomState = None) -> Iterator[tuple[Self, Self]]:
        """Split the entries at random into ``n`` test sets, each with the other entries as training set.

        Parameters
        ----------
        n : int
            Number of folds, from 2 to the number of entries; their sizes differ by one at most.
        random_state : int, Generator, RandomState or None
            As in :func:`tribit.randomness.generator`.

        Returns
        -------
        iterator of (train, test)
            The test parts are disjoint and together all entries.
        """
        fold = randomness.fold_numbers(len(self), n, random_state)
        return (self.hold_out(fold == part) for part in range(n))

    def hold_out(self, chosen: npt.NDArray[np.bool_]) -> tuple[Self, Self]:
        """Return the entries that are not chosen, and those that are.

        Parameters
        ----------
        chosen : array of bool
            One for each entry, at least one True and one False.
        """
        if (
            chosen.dtype.kind != "b"
            or chosen.shape != self.rows.shape
            or chosen.all() == chosen.any()
        ):
            raise InvalidInputError(
                f"chosen must be {len(self)} booleans, one for each entry, with True and False among them; it is of "
                f"{chosen.dtype} with the shape {chosen.shape}."
            )
        return self.select(~chosen), self.select(chosen)

    def row_index(self, ids: object) -> Positions:
        """Return the positions of rows given by id or, where there are no ids, by position."""
        return self.axes.rows.find(ids)

    def column_index(self, ids: object) -> Positions:
        """Return the positions of columns given by id or, where there are no ids, by position."""
        return self.axes.columns.find(ids)

    def __len__(self) -> int:
        return int(self.rows.size)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...], TableRules | None]:
        # Copies and pickles go through the constructor: NumPy forgets that an array is read-only.
        fields: tuple[Any, ...]
        fields = self.rows, self.columns, self._values, self.shape, self.row_ids, self.column_ids
        if self.weights is not None or self.times is not None:
            fields = (*fields, self.weights, self.times)
        return type(self), fields, self.rules

    def __setstate__(self, rules: TableRules) -> None:
        object.__setattr__(self, "rules", rules)

    @classmethod
    def from_checked(cls, entries: Checked) -> Self:
        """Return entries that were checked already."""
        self = object.__new__(cls)
        self._store(entries)
        return self

    def select(self, chosen: AnyArray) -> Self:
        """Return the entries of a mask, or at increasing positions, unchecked."""
        # Indexing by either copies, so the rest is left behind.
        parts = self.rows[chosen], self.columns[chosen], self._values[chosen]
        own = weights_at(self.weights, chosen), times_at(self.times, chosen)
        return self.from_checked(Checked(*parts, self.axes, self.rules, *own))

    def _store(self, entries: Checked) -> None:
        entries = entries._replace(weights=unless_equal_to_one(entries.weights))
        rows, columns, values, axes, _, weights, times = entries
        for array in (rows, columns, values, axes.rows.ids, axes.columns.ids, weights, times):
            if array is not None:
                array.flags.writeable = False
        names = ("rows", "columns", "_values", "axes", "rules", "weights", "times")
        for name, value in zip(names, entries, strict=True):
            object.__setattr__(self, name, value)
