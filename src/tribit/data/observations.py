"""Observations: likes (+1), dislikes (-1), and everything else unobserved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit.data import frames, ingest
from tribit.data.entries import Entries
from tribit.data.ingest import Duplicates, Labels

__all__ = ["Observations"]

#: Function of some entries, and of ``x`` there where factors are given, that returns a number for each.
ValuesOf: TypeAlias = "Callable[[Observations, Any], npt.NDArray[np.floating[Any]]]"


@dataclass(frozen=True)
class ByLabel:
    """A value at each entry that its label alone decides; a device need not be sent more than the labels."""

    dislike: float
    like: float

    def __call__(self, entries: Observations, _: Any = None) -> npt.NDArray[np.float64]:
        """Return the value at each entry."""
        return np.where(entries.labels > 0, self.like, self.dislike)


class Observations(Entries):
    """The observed entries of a binary matrix, in row-major order; immutable.

    Parameters
    ----------
    rows, columns : array of int
        Position of each observed entry; no pair may appear with two labels.
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

    __slots__ = ("_n_likes",)  # kept, as the counts are
    _n_likes: int

    def __init__(
        self,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        labels: npt.ArrayLike,
        shape: tuple[int, int] | None,
        row_ids: Any = None,
        column_ids: Any = None,
    ) -> None:
        given = rows, columns, labels, shape, row_ids, column_ids
        self._store(ingest.entries_from_pairs(*given, ingest.labels_by(None)))

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
        entries = ingest.entries_from_matrix(X, ingest.labels_by(like_at))
        if not sp.issparse(X) and np.all(entries.values > 0):
            ingest.warn_of_zeros(X, like_at)
        return cls.from_checked(entries)

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
            What to do with a pair that is given more than once with different labels: refuse it, keep the label given
            first or last, or the more frequent one (a tie goes to the label given last).
        """
        given = rows, columns, labels, shape, row_ids, column_ids
        return cls.from_checked(
            ingest.entries_from_pairs(*given, ingest.labels_by(None), duplicates)
        )

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

        The other parameters are those of :meth:`from_pairs`; duplicates are resolved on the labels.
        """
        given = rows, columns, ratings, shape, row_ids, column_ids
        return cls.from_checked(
            ingest.entries_from_pairs(*given, ingest.labels_by(like_at), duplicates)
        )

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
        return cls.from_checked(entries)

    @property
    def labels(self) -> Labels:
        """+1 for a like, -1 for a dislike, of each entry."""
        return self._values

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return len(self)

    @property
    def n_likes(self) -> int:
        """Number of entries labelled +1."""
        if not hasattr(self, "_n_likes"):
            object.__setattr__(self, "_n_likes", int(np.count_nonzero(self.labels > 0)))
        return self._n_likes

    @property
    def n_dislikes(self) -> int:
        """Number of entries labelled -1."""
        return self.n_observed - self.n_likes

    def as_likes(self) -> Observations:
        """Return the same entries, each a like: the mask, as whoever fits a model to it reads it."""
        likes = np.ones(self.n_observed, dtype=np.int8)
        return Observations.from_checked(ingest.Checked(self.rows, self.columns, likes, self.axes))

    def sums(self, values: ValuesOf) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the sums over each row and over each column of a value at each entry."""
        given = values(self, None)
        rows, columns = (
            np.bincount(places, given, minlength=size)
            for places, size in zip((self.rows, self.columns), self.shape, strict=True)
        )
        return rows, columns

    def matrix(self, values: ValuesOf, factors: Any = None) -> sp.csr_array:
        """Return a sparse array with a value at each entry; ``values`` is given ``x`` where there are factors."""
        x = None if factors is None else factors.at(self.rows, self.columns)
        return sp.csr_array((values(self, x), (self.rows, self.columns)), shape=self.shape)

    def here(self) -> Observations:
        """Return the observations with their entries on this machine: themselves, unless these are on others."""
        return self

    def knowing(self, risk: Any) -> Any:
        """Return a risk with what it has to know of all entries at once, where no machine has them all."""
        return risk

    def __repr__(self) -> str:
        percent = 100 * self.density
        # Two digits for the sparsest, where one decimal would read 0.0%.
        observed = f"{self.n_observed} observed ({percent:{'.1f' if percent >= 0.1 else '.2g'}}%)"
        labels = f"{self.n_likes} likes, {self.n_dislikes} dislikes"
        return f"Observations({self.shape[0]} x {self.shape[1]}, {observed}, {labels})"


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
