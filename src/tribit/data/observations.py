"""What was seen: likes (+1), dislikes (-1), and everything else unobserved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit import randomness
from tribit.data import frames, ingest
from tribit.data.ids import AnyArray, Positions, check_positions, lookup
from tribit.data.ingest import Duplicates, Entries, Labels, Pairs
from tribit.errors import InvalidInputError
from tribit.randomness import RandomState


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Observations:
    """The observed entries of a binary matrix, in row-major order; immutable.

    Parameters
    ----------
    rows, columns : array of int
        Position of each observed entry; no pair may appear twice.
    labels : array of {-1, +1}
        +1 for a like, -1 for a dislike.
    shape : tuple of two ints
        Numbers of rows and columns of the matrix.
    row_ids, column_ids : array, optional
        The user's own distinct ids, one per row and one per column.

    Examples
    --------
    >>> Observations.from_matrix([[1, 0, -1], [0, 1, 1]])
    Observations(2 x 3, 4 observed (66.7%), 3 likes, 1 dislikes)
    """

    rows: Positions
    columns: Positions
    labels: Labels
    shape: tuple[int, int]
    row_ids: AnyArray | None = None
    column_ids: AnyArray | None = None

    def __post_init__(self) -> None:
        pairs = Pairs(*(getattr(self, field.name) for field in fields(self)))
        self._store(ingest.entries_from_pairs(pairs))

    @classmethod
    def from_matrix(cls, X: Any, *, like_at: float | None = None) -> Self:
        """Read a matrix of likes and dislikes, or of ratings.

        Parameters
        ----------
        X : sparse matrix or array, or array-like, of shape (n_rows, n_columns)
            +1 is a like and -1 a dislike; what is 0, masked or not stored is unobserved, as is NaN
            in a dense matrix. In a boolean matrix True is a like and False is unobserved. The index and
            the columns of a pandas frame become ids, unless they count from 0.
        like_at : float, optional
            Read the values as ratings: from ``like_at`` up a like, below it a dislike. A rating of
            0 cannot be told from an unobserved entry, so it stays unobserved.
        """
        entries = ingest.entries_from_matrix(X, like_at)
        row_ids, column_ids = frames.labels_of(X)
        return cls._trusted(entries._replace(row_ids=row_ids, column_ids=column_ids))

    @classmethod
    def from_pairs(
        cls,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        shape: tuple[int, int] | None = None,
        row_ids: Any = None,
        column_ids: Any = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Take one label for each pair of integer positions.

        Parameters
        ----------
        rows, columns : array-like of int
            Positions, from 0.
        labels : array-like of {-1, +1}
            +1 for a like, -1 for a dislike.
        shape : tuple of two ints, optional
            By default the numbers of ids, or where there are none, the largest position plus one.
        row_ids, column_ids : array-like, optional
            Distinct hashable ids, one per row and one per column.
        duplicates : {"error", "first", "last", "majority"}, default="error"
            What to do with a pair that is given more than once: refuse it, keep the label given
            first or last, or the more frequent one (a tie goes to the label given last).
        """
        pairs = Pairs(rows, columns, labels, shape, row_ids, column_ids)
        return cls._trusted(ingest.entries_from_pairs(pairs, duplicates))

    @classmethod
    def from_ratings(
        cls,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        ratings: npt.ArrayLike,
        *,
        like_at: float,
        shape: tuple[int, int] | None = None,
        row_ids: Any = None,
        column_ids: Any = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Take one rating for each pair: a like from ``like_at`` up, a dislike below, 0 included.

        The other parameters are those of :meth:`from_pairs`; duplicates are settled on the labels.
        """
        labels = ingest.as_labels(np.asarray(ratings), like_at, "position {}".format)
        pairs = Pairs(rows, columns, labels, shape, row_ids, column_ids)
        return cls._trusted(ingest.entries_from_pairs(pairs, duplicates))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        row: str,
        column: str,
        value: str | None = None,
        like_at: float | None = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Read a data frame (pandas, polars, pyarrow, ...) with one observed entry per row.

        Parameters
        ----------
        frame : eager data frame
            Any that narwhals reads.
        row, column : str
            Names of the columns that hold the ids, which are numbered as they first appear.
        value : str, optional
            Name of the column that holds +1 and -1, or ratings; without it every pair is a like.
        like_at : float, optional
            The smallest rating that is a like.
        duplicates : {"error", "first", "last", "majority"}, default="error"
            As in :meth:`from_pairs`.
        """
        native = frames.eager(frame)
        row_ids = frames.column(native, row, "row")
        column_ids = frames.column(native, column, "column")
        values = None if value is None else frames.column(native, value, "value")
        entries = ingest.entries_from_ids(
            row_ids,
            column_ids,
            values,
            like_at=like_at,
            duplicates=duplicates,
            where=frames.row_of_frame,
        )
        return cls._trusted(entries)

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return int(self.labels.size)

    @property
    def n_likes(self) -> int:
        """Number of entries labelled +1."""
        return int(np.count_nonzero(self.labels > 0))

    @property
    def n_dislikes(self) -> int:
        """Number of entries labelled -1."""
        return self.n_observed - self.n_likes

    @property
    def density(self) -> float:
        """Share of the matrix that is observed."""
        return self.n_observed / (self.shape[0] * self.shape[1])

    def to_sparse(self) -> sp.csr_array:
        """Return the labels as a sparse array of int8, unobserved entries not stored."""
        return sp.csr_array((self.labels, (self.rows, self.columns)), shape=self.shape)

    def transpose(self) -> Self:
        """Return the same observations with rows and columns exchanged."""
        # Rows are in order already, so a stable sort by column alone gives the new order.
        order = np.argsort(self.columns, kind="stable")
        rows, columns, labels = self.rows[order], self.columns[order], self.labels[order]
        ids = self.column_ids, self.row_ids
        return self._trusted(Entries(columns, rows, labels, self.shape[::-1], *ids))

    def take(self, positions: npt.ArrayLike) -> Self:
        """Return the entries at ``positions`` alone, in a matrix of the same shape and ids.

        Parameters
        ----------
        positions : array-like of int
            Distinct positions, from 0 to ``n_observed - 1``, in any order.
        """
        given = np.asarray(positions)
        check_positions(given, self.n_observed, "entry")
        if given.ndim != 1 or not 0 < np.unique(given).size == given.size:
            raise InvalidInputError(
                f"positions has shape {given.shape} or repeats itself; pass a one-dimensional list "
                "of distinct positions, at least one."
            )
        return self._at(np.sort(given))

    def split(self, test: float | int = 0.1, random_state: RandomState = None) -> tuple[Self, Self]:
        """Split the entries, not the rows, at random into a training and a test part.

        Parameters
        ----------
        test : float or int, default=0.1
            The share of the entries to hold out, between 0 and 1, or their number.
        random_state : int, Generator, RandomState or None
            As in :func:`tribit.randomness.generator`.

        Returns
        -------
        train, test : Observations
            Disjoint, together all entries, each with the shape and ids of the whole.
        """
        held_out = randomness.held_out(self.n_observed, test, random_state)
        return self._at(~held_out), self._at(held_out)

    def folds(self, n: int, random_state: RandomState = None) -> Iterator[tuple[Self, Self]]:
        """Split the entries at random into ``n`` test parts, each given with what remains.

        Parameters
        ----------
        n : int
            Number of folds, from 2 to ``n_observed``; their sizes differ by one at most.
        random_state : int, Generator, RandomState or None
            As in :func:`tribit.randomness.generator`.

        Returns
        -------
        iterator of (train, test)
            The test parts are disjoint and together all entries.
        """
        fold = randomness.fold_numbers(self.n_observed, n, random_state)
        return ((self._at(fold != part), self._at(fold == part)) for part in range(n))

    def row_index(self, ids: Any) -> Positions:
        """Return the positions of rows given by id or, where there are no ids, by position."""
        return lookup(ids, self.row_ids, self.shape[0], "row")

    def column_index(self, ids: Any) -> Positions:
        """Return the positions of columns given by id or, where there are no ids, by position."""
        return lookup(ids, self.column_ids, self.shape[1], "column")

    def __len__(self) -> int:
        return self.n_observed

    def __repr__(self) -> str:
        percent = 100 * self.density
        # Two digits for the sparsest, where one decimal would read 0.0%.
        observed = f"{self.n_observed} observed ({percent:{'.1f' if percent >= 0.1 else '.2g'}}%)"
        labels = f"{self.n_likes} likes, {self.n_dislikes} dislikes"
        return f"Observations({self.shape[0]} x {self.shape[1]}, {observed}, {labels})"

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # Copies and pickles go through the constructor: NumPy forgets that an array is read-only.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def _trusted(cls, entries: Entries) -> Self:
        # Entries that were checked already need not be checked again by __post_init__.
        self = object.__new__(cls)
        self._store(entries)
        return self

    def _at(self, chosen: AnyArray) -> Self:
        # A mask or increasing positions; indexing by either copies, so the rest is left behind.
        rows, columns, labels = self.rows[chosen], self.columns[chosen], self.labels[chosen]
        ids = self.row_ids, self.column_ids
        return self._trusted(Entries(rows, columns, labels, self.shape, *ids))

    def _store(self, entries: Entries) -> None:
        for name, value in entries._asdict().items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)


def as_observations(X: Any, like_at: float | None = None) -> Observations:
    """Return ``X`` itself if it is :class:`Observations`, else read it as a matrix.

    Parameters
    ----------
    X : Observations, or a matrix as in :meth:`Observations.from_matrix`
        What was observed.
    like_at : float, optional
        The smallest rating that is a like; observations have their labels already and ignore it.
    """
    return X if isinstance(X, Observations) else Observations.from_matrix(X, like_at=like_at)
