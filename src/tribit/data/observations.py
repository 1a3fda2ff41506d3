"""Observations of a binary matrix: likes +1, dislikes -1, the rest unobserved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit import randomness
from tribit.data import ingest
from tribit.data.entries import Entries
from tribit.data.frames import check_no_long_frame, collect, entries_from_frame, is_long_frame
from tribit.data.ingest import Checked
from tribit.data.labels import (
    Duplicates,
    Floats,
    Labels,
    as_real,
    check_rating,
    value_labels,
)
from tribit.data.rules import TableRules, ValueOptions
from tribit.data.times import check_times, time_range
from tribit.data.weights import (
    WeightScale,
    check_weights,
    weights_or_ones,
)
from tribit.data.zeros import Zeros, meaning_of_zero
from tribit.display import html_facts
from tribit.errors import InvalidInputError
from tribit.nouns import likes_and_dislikes

#: Function of some entries, and of ``x`` there where factors are given, that returns a number for each.
ValuesOf: TypeAlias = "Callable[[Observations, Any], npt.NDArray[np.floating[Any]]]"


@dataclass(frozen=True)
class ByLabel:
    """A value at each entry that its label alone decides; a device need not be sent more than the labels."""

    dislike: float
    like: float

    def __call__(self, entries: Observations, _: object = None) -> npt.NDArray[np.float64]:
        """Return the value at each entry."""
        return np.where(entries.labels > 0, self.like, self.dislike)


class Observations(Entries):
    """The observed entries of a binary matrix, in row-major order; immutable.

    Parameters
    ----------
    rows, columns : array of int
        Position of each observed entry; no pair may appear with two labels.
    labels : array of {-1, +1}, of {0, 1} or of booleans
        +1 for a like; -1, or where it does not occur 0 or False, for a dislike.
    shape : tuple of two ints
        Numbers of rows and columns of the matrix.
    row_ids, column_ids : array, optional
        The user's own distinct ids, one per row and one per column.
    weights : array of float, optional
        The weight of each entry, at least 0; 1 by default. An entry of weight 2 counts as two equal entries, and one of
        weight 0 is left out.
    times : array of datetime64, ISO dates, or seconds or milliseconds since 1970, optional
        The time of each entry.

    Examples
    --------
    >>> Observations.from_matrix([[1, 0, -1], [0, 1, 1]])
    Observations(2 x 3, 4 observed (66.7%), 3 likes, 1 dislike; 0 is unobserved)
    """

    __slots__ = ("_n_likes",)  # kept, as the counts are
    _n_likes: int

    def __init__(
        self,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        labels: npt.ArrayLike,
        shape: tuple[int, int] | None,
        row_ids: object = None,
        column_ids: object = None,
        weights: object = None,
        times: object = None,
    ) -> None:
        pairs = ingest.check_pairs(rows, columns, labels, shape, row_ids, column_ids)
        self._store(_entries_of_pairs(pairs, weights, times, TableRules()))

    @classmethod
    def from_matrix(cls, X: Any, *, weights: Any = None, **rules: Unpack[ValueOptions]) -> Self:
        """Read a matrix of likes and dislikes, or of ratings.

        Parameters
        ----------
        X : sparse matrix or array, or array-like, of shape (n_rows, n_columns)
            +1 is a like and -1 a dislike; masked, missing (NaN, NA) and not stored entries are unobserved. What 0 and
            False mean is in :func:`tribit.data.zeros.meaning_of_zero`. Words are read as from a
            file. The index and the columns of a pandas frame become ids, unless they count from 0.
        weights : sparse matrix or array, or array-like, of shape (n_rows, n_columns), optional
            The weight of each observed cell, finite and at least 0, as in :class:`Observations`; what is not stored
            is 0.
        **rules
            ``like_at``, ``dislike_at``, ``like``, ``dislike``, ``weight_scale`` and ``zeros``, as in
            :class:`tribit.data.rules.TableRules`.
        """
        given, X = TableRules(**rules), collect(X)
        check_no_long_frame(X, given)
        return cls.from_checked(ingest.entries_from_matrix(X, given, weights=weights))

    @classmethod
    def from_pairs(
        cls,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        shape: tuple[int, int] | None = None,
        row_ids: object = None,
        column_ids: object = None,
        weights: object = None,
        times: object = None,
        duplicates: Duplicates = "error",
        zeros: Zeros | None = None,
    ) -> Self:
        """Take one label for each pair of integer positions.

        Parameters
        ----------
        rows, columns : array-like of int
            Positions, from 0.
        labels : array-like of {-1, +1}, of {0, 1} or of booleans
            +1 for a like; -1, or where it does not occur 0 or False, for a dislike.
        shape : tuple of two ints, optional
            By default the numbers of ids, or where there are none, the largest position plus one.
        row_ids, column_ids : array-like, optional
            Distinct ids, text or numbers, one per row and one per column.
        weights : array-like of float, optional
            The weight of each entry, as in :class:`Observations`.
        times : array-like, optional
            The time of each entry, as in :class:`Observations`.
        duplicates : {"error", "first", "last", "majority"}, default="error"
            Treatment of a pair with several different labels: an error, the first or the last label, or the more
            frequent one (a tie goes to the last). Equal labels of a pair are one entry. With weights, the weights of
            equal labels are added up and "majority" compares their sums; "first" and "last" keep the weight of the
            label that they keep. The time is that of the label that is kept, the latest of equal ones.
        zeros : {"dislike", "unobserved"}, optional
            Whether a 0 is a dislike, or an unobserved entry.
        """
        pairs = ingest.check_pairs(rows, columns, labels, shape, row_ids, column_ids)
        rules = TableRules(duplicates=duplicates, zeros=zeros)
        return cls.from_checked(_entries_of_pairs(pairs, weights, times, rules))

    @classmethod
    def from_ratings(
        cls,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        ratings: npt.ArrayLike,
        *,
        like_at: float,
        shape: tuple[int, int] | None = None,
        row_ids: object = None,
        column_ids: object = None,
        weights: object = None,
        times: object = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Take one rating for each pair: a like from ``like_at`` up, a dislike below, 0 included.

        The other parameters are those of :meth:`from_pairs`; duplicates are resolved on the labels.
        """
        pairs = ingest.check_pairs(rows, columns, ratings, shape, row_ids, column_ids)
        rules = TableRules(like_at=check_rating("like_at", like_at), duplicates=duplicates)
        return cls.from_checked(_entries_of_pairs(pairs, weights, times, rules))

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        row: str | int,
        column: str | int,
        value: str | int | None = None,
        weight: str | int | None = None,
        time: str | int | None = None,
        weights: object = None,
        **rules: Unpack[ValueOptions],
    ) -> Self:
        """Read a table with one observed entry per row.

        Parameters
        ----------
        frame : data frame, dict of columns, list of dicts or list of tuples
            Any frame that narwhals reads (pandas, polars, pyarrow, lazy frames, DuckDB relations). The columns of
            tuples are 0, 1, ...
        row, column : str
            Names of the columns that hold the ids, which are numbered as they first appear.
        value : str, optional
            Name of the column of likes and dislikes (+1 and -1, 1 and 0, booleans, words) or ratings; without it every
            pair is a like.
        weight : str, optional
            Name of the column of weights, as in :class:`Observations`.
        time : str, optional
            Name of the column of times: datetimes, ISO dates, or seconds or milliseconds since 1970.
        weights : array-like of float, optional
            The weight of each row of the frame, where it has no such column.
        **rules
            ``like_at``, ``dislike_at``, ``like``, ``dislike``, ``weight_scale``, ``zeros``, ``missing`` and
            ``duplicates``, as in :class:`tribit.data.rules.TableRules`.
        """
        names: dict[str, Any] = {"row": row, "column": column, "value": value}
        given = TableRules(**names, weight=weight, time=time, **rules)  # type: ignore[arg-type]
        return cls.from_checked(entries_from_frame(frame, given, weights))

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

    @property
    def label_totals(self) -> tuple[float, float]:
        """Sums of the weights of likes and of dislikes; without weights their numbers."""
        if self.weights is None:
            return float(self.n_likes), float(self.n_dislikes)
        likes = self.labels > 0
        return float(self.weights[likes].sum()), float(self.weights[~likes].sum())

    @property
    def base_rate(self) -> float:
        """Share of likes among the entries, by weight."""
        likes, dislikes = self.label_totals
        return likes / (likes + dislikes)

    @property
    def n_cells(self) -> float:
        """Number of cells, in which an entry of weight w > 1 counts as w."""
        further = 0.0 if self.weights is None else float(np.maximum(self.weights - 1.0, 0.0).sum())
        return self.shape[0] * self.shape[1] + further

    @property
    def weights_or_ones(self) -> Floats:
        """The weight of each entry."""
        return weights_or_ones(self.weights, len(self))

    def with_weights(self, weights: object, *, scale: WeightScale = "linear") -> Self:
        """Return the same entries with other weights; an entry of weight 0 is left out.

        Parameters
        ----------
        weights : array-like of float of shape (n_observed,), or None
            One for each entry, finite and at least 0; None for no weights.
        scale : {"linear", "log1p"}, default="linear"
            Whether the weights are these numbers, or ``log(1 + number)``.
        """
        given = None
        if weights is not None:
            given = check_weights(weights, len(self), "entry {}".format, scale)
        parts = self.rows, self.columns, self._values
        whole = Checked(*parts, self.axes, self.rules, given, self.times)
        return self.from_checked(ingest.without_zero_weights(whole))

    def with_times(self, times: object) -> Self:
        """Return the same entries with other times.

        Parameters
        ----------
        times : array-like of shape (n_observed,), or None
            One for each entry: datetimes, ISO dates, or seconds or milliseconds since 1970; None for no times.
        """
        given = None if times is None else check_times(times, len(self), "entry {}".format)
        parts = self.rows, self.columns, self._values
        return self.from_checked(Checked(*parts, self.axes, self.rules, self.weights, given))

    def as_likes(self) -> Observations:
        """Return the same entries, each a like: the mask, for a model of observation. It has no weights."""
        likes = np.ones(self.n_observed, dtype=np.int8)
        return Observations.from_checked(Checked(self.rows, self.columns, likes, self.axes))

    def risk_weights(self, risk: Any) -> tuple[Floats, Floats]:
        """Return the weights ``(plus, minus)`` of :meth:`tribit.model.risks.Risk.observed_weights` at each entry."""
        found: tuple[Floats, Floats] = risk.observed_weights(
            self.labels, self.rows, self.columns, self.weights
        )
        return found

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

    def here_if_few(self, most: int) -> Observations | None:  # noqa: ARG002
        """Return the observations with their entries on this machine; None where more than ``most`` would come."""
        return self

    def draw_folds(self, n: int, draws: np.random.Generator) -> npt.NDArray[np.int64] | int:
        """Return the fold of each entry, from 0 to ``n`` less 1; the seed of a hash where the entries are elsewhere."""
        return randomness.fold_numbers(len(self), n, draws)

    def without_fold(
        self,
        n: int,  # noqa: ARG002
        number: int,
        folds: npt.NDArray[np.int64] | int,
    ) -> Observations:
        """Return the observations without one of ``n`` folds, which :meth:`draw_folds` drew."""
        return self.take(np.flatnonzero(folds != number))

    def by_rows(
        self,
        function: Any,
        arrays: Sequence[Any],
        n_bytes: int,  # noqa: ARG002
        **same: Any,
    ) -> tuple[list[Any], Any]:
        """Apply a function to the entries of each part of the rows; return the list of its first results and a sum.

        Its arguments are :class:`Observations` with rows numbered from 0, the original numbers of these rows, each
        array at these rows, and ``same``. It returns a pair: an item of the list, and NumPy arrays of ``n_bytes`` to
        add up. Here there is one part.
        """
        listed, total = function(self, np.arange(self.shape[0]), *arrays, **same)
        return [listed], total

    def knowing(self, risk: Any) -> Any:
        """Return a risk with the facts about all entries that it needs, where no machine has them all."""
        return risk

    def _repr_html_(self) -> str:
        """Return shape, labels and first ids for a notebook."""
        return html_facts("Observations", self.facts())

    def facts(self) -> dict[str, str]:
        """Return shape, first ids and numbers of labels, and how they were read."""
        rules = self.rules
        names = (None, None) if rules is None else (rules.row, rules.column)
        sides = {}
        for each, name in zip(self.axes, names, strict=True):
            about = each.facts()
            ids = "" if each.ids is None else f": {about['ids']}"
            sides[f"{each.name}s" + (f" ({name})" if name else "")] = f"{about['size']}{ids}"
        zeros = "" if rules is None else rules.zero_text()
        read = {"read as": zeros} if zeros else {}
        labels = {"likes": self.n_likes, "dislikes": self.n_dislikes}
        share = f"{self.n_observed:,} of {self.shape[0] * self.shape[1]:,} ({self.density:.2%})"
        numbers = {name: f"{n:,}" for name, n in labels.items()}
        weights = {} if self.weights is None else {"weights": self.weight_text()}
        times = {} if self.times is None else {"times": time_range(self.times)}
        return {**sides, "observed": share, **numbers, **weights, **times, **read}

    def weight_text(self) -> str:
        """Return the range of the weights and their sum, as text."""
        weights = self.weights_or_ones
        return f"{weights.min():.4g} to {weights.max():.4g}, {weights.sum():.6g} in all"

    def __repr__(self) -> str:
        percent = 100 * self.density
        # Two digits for the sparsest, where one decimal would read 0.0%.
        observed = f"{self.n_observed} observed ({percent:{'.1f' if percent >= 0.1 else '.2g'}}%)"
        labels = likes_and_dislikes(self.n_likes, self.n_dislikes)
        zeros = "" if self.rules is None else self.rules.zero_text()
        meaning = "" if self.weights is None else f"; weights {self.weight_text()}"
        meaning += "" if self.times is None else f"; {time_range(self.times)}"
        meaning += f"; {zeros}" if zeros else ""
        return f"Observations({self.shape[0]} x {self.shape[1]}, {observed}, {labels}{meaning})"


def _entries_of_pairs(pairs: Checked, weights: Any, times: Any, rules: TableRules) -> Checked:
    """Return entries at positions, with the labels that the rules give to the values."""
    where = "position {}".format
    values = as_real(pairs.values, "The list of values")
    meaning = meaning_of_zero(values, rules, holder="long", has_missing=True, name="The list")
    found = value_labels(values, rules, meaning.zeros, where)
    kept = found != 0
    if not kept.any():
        raise InvalidInputError("No value of the list is a like or a dislike; check zeros.")
    rules = replace(rules, zeros=meaning.zeros)
    given = None if weights is None else check_weights(weights, found.size, where)
    moments = None if times is None else check_times(times, found.size, where)
    entries = Checked(pairs.rows, pairs.columns, found, pairs.axes, rules, given, moments).at(kept)
    return ingest.merge_duplicates(ingest.without_zero_weights(entries), rules.duplicates, where)


def as_observations(
    X: Any,
    rules: TableRules | None = None,
    *,
    ambiguous: Zeros | None = None,
    weights: Any = None,
) -> Observations:
    """Return ``X`` itself if it is :class:`Observations`, else read it by the rules.

    Parameters
    ----------
    X : Observations, a data frame with the columns that the rules name, or a matrix as in \
            :meth:`Observations.from_matrix`
        The observations, which have their labels already and ignore the rules.
    rules : TableRules, optional
        The rules, for a later matrix those of the fit.
    ambiguous : {"dislike", "unobserved"}, optional
        As in :func:`tribit.data.zeros.meaning_of_zero`.
    weights : array-like or sparse matrix, optional
        The weight of each entry of observations, of each row of a frame, or of each cell of a matrix.

    Examples
    --------
    >>> from tribit.data.observations import as_observations
    >>> as_observations([[1, 0, -1], [0, -1, 1]])
    Observations(2 x 3, 4 observed (66.7%), 2 likes, 2 dislikes; 0 is unobserved)
    """
    rules = TableRules() if rules is None else rules
    if isinstance(X, Observations):
        if weights is None:
            return X
        if X.weights is not None:
            raise InvalidInputError("X has weights of its own; leave out weights.")
        return X.with_weights(weights, scale=rules.weight_scale)
    if is_long_frame(X, rules):
        return Observations.from_checked(entries_from_frame(X, rules, weights))
    X = collect(X)
    check_no_long_frame(X, rules)
    return Observations.from_checked(ingest.entries_from_matrix(X, rules, ambiguous, weights))


def read_entries(model: Any, X: Any, weights: Any = None) -> Observations:
    """Return a user's table as observations, by the rules of the model's fit."""
    return as_observations(X, _rules_of(model), weights=weights)


def read_mask(model: Any, X: Any) -> Observations:
    """Return observations whose labels do not matter: as :func:`read_entries`, but 0 and 1 alone are a mask."""
    return as_observations(X, _rules_of(model), ambiguous="unobserved")


def _rules_of(model: Any) -> TableRules:
    return getattr(model, "reading_", None) or TableRules(like_at=getattr(model, "like_at", None))
