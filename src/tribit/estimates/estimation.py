"""Estimation of means from a partly seen table: predictions by folds of rows, estimates and intervals.

The population is finite: the cells of the table. An interval is about the cells that were not seen, over draws of the
cells that were, so that a row without unseen cells has an interval of width 0. Two statements are kept apart:

``row``
    The doubly robust estimate (:mod:`tribit.estimates.doubly_robust`) with the interval of
    :mod:`tribit.estimates.intervals`. It covers the mean of this row with about the stated probability over draws of
    its cells, whatever the row is like.
``rows``
    The completed row, corrected in part by the doubly robust estimate, with an interval that is calibrated on rows
    that are seen as a whole (:mod:`tribit.estimates.whole_rows`). It covers the means of rows like these on average.

Predictions of a row are by an item response model of other rows (:mod:`tribit.estimates.item_response`): the rows are
assigned to folds, and the partly seen rows of a fold are predicted by columns that were fitted without them. Whole rows
need no predictions, so that they are in every fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_choice
from tribit.data.axis import AnyArray
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, parameter
from tribit.estimates.doubly_robust import RowSums, prediction_weights, row_sums
from tribit.estimates.intervals import Curve, normal_quantile
from tribit.estimates.item_response import Items, fit_items
from tribit.estimates.means import Means
from tribit.estimates.selection import Selection, given, modelled, uniform
from tribit.estimates.whole_rows import MIN_WHOLE_ROWS, REHEARSALS, Calibration, calibrate
from tribit.randomness import RandomState, balanced_fold_numbers, generator

__all__ = ["GUARANTEES", "SELECTIONS", "Groups", "estimate_means"]

Array = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Positions = NDArray[np.integer[Any]]

#: Statements that an interval can make.
GUARANTEES = ("row", "rows")
#: Assumptions on which cells are seen.
SELECTIONS = ("uniform", "modelled")
#: Folds of rows, and abilities of a row in the item response model.
FOLDS, RANK = 5, 2
#: Cells whose predictions are in memory at a time.
BLOCK_CELLS = 2**20


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows.

    Attributes
    ----------
    ids : array of shape (g,)
        Ids of the groups.
    of_rows : array of shape (d1,)
        The group of each row, from 0; -1 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.estimates import Groups
    >>> Groups(np.array(["old", "new"]), np.array([0, 0, 1])).is_single
    False
    """

    ids: AnyArray
    of_rows: Positions

    @property
    def is_single(self) -> bool:
        """Whether no group has more than one row."""
        return bool(np.bincount(self.of_rows[self.of_rows >= 0], minlength=1).max() <= 1)


def estimate_means(
    entries: Observations,
    *,
    weights: Array | None = None,
    groups: Groups | None = None,
    q: Array | str = "uniform",
    guarantee: str = "row",
    level: float = 0.95,
    random_state: RandomState = None,
) -> Means:
    """Return means of the rows of a table, or of groups of rows, over its columns.

    Parameters
    ----------
    entries : Observations
        The seen cells, without weights; +1 counts as 1 and -1 as 0.
    weights : array of shape (d2,) or (d1, d2), optional
        Weights of the columns (in each row), not negative; by default all the same. A mean is over the columns with a
        weight above 0.
    groups : Groups, optional
        Groups of rows, each with the mean of its rows' means; by default every row by itself.
    q : {"uniform", "modelled"} or array of shape (d1, d2), default="uniform"
        The probability that a cell is seen: the same for all cells of a row, by a model of the mask
        (:mod:`tribit.estimates.selection`), or as given.
    guarantee : {"row", "rows"}, default="row"
        The statement that the intervals make.
    level : float, default=0.95
        Level of the intervals.
    random_state : int, Generator, RandomState or None
        Draws the folds of rows, the starts of fits, and the hidden cells of rehearsals.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.estimates import estimate_means
    >>> seen = Observations.from_matrix([[1, 1, -1, 0], [1, 0, -1, -1], [1, 1, 1, 0]])
    >>> estimate_means(seen, random_state=0).mean.round(2)
    array([0.67, 0.33, 1.  ])
    """
    n = entries.shape[0]
    if groups is None:
        groups = Groups(entries.axes.rows.names(np.arange(n)), np.arange(n))
    if entries.weights is not None:
        raise InvalidInputError(
            "A mean counts each cell once, but these entries have weights; pass entries without weights "
            f"(with_weights(None)), and weights of whole columns as {parameter('weights')}."
        )
    a = _shares(weights, entries.shape)
    draws = generator(random_state)
    with single_threaded_blas():
        table = _Table.of(entries, a, draws)
        selection = _selection(q, table)
        free = np.flatnonzero(table.is_free)
        sums = table.sums(table.labels[free], free, selection)
        curve = Curve.of_rows(sums, prediction_weights(sums))
        calibration = None
        if check_choice("guarantee", guarantee, GUARANTEES) == "rows":
            if not groups.is_single or selection is not uniform:
                raise InvalidInputError(
                    f"Intervals are calibrated on whole rows for single rows with uniformly drawn cells: pass "
                    f"{parameter('guarantee', 'row')} for groups or other draws of cells."
                )
            calibration = table.calibrate(sums.seen / sums.cells)
        return _means(table, curve, groups, level, calibration)


def _shares(weights: Array | None, shape: tuple[int, int]) -> Array:
    """Return weights of the columns that sum to 1 in each row, of shape (1 or d1, d2)."""
    weights = np.ones(shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape not in {shape[1:], shape}:
        raise InvalidInputError(
            f"{parameter('weights')} has the shape {weights.shape}; pass one for each column, or an array of shape "
            f"{shape}."
        )
    weights = np.atleast_2d(weights)
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any(axis=1).all():
        raise InvalidInputError(
            "The weights of a mean must be finite and not negative, and one of them above 0."
        )
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _selection(q: Array | str, table: _Table) -> Selection:
    """Return the probabilities of being seen by their name or as given."""
    if isinstance(q, str):
        if check_choice("q", q, SELECTIONS) == "uniform":
            return uniform
        return modelled(table.labels, table.folds, table.is_free)
    return given(q)


@dataclass(frozen=True, eq=False)
class _Table:
    """A partly seen table with folds of rows; the columns are fitted once for each fold.

    Attributes
    ----------
    labels : sparse array of shape (d1, d2)
        Labels +1 and -1 at the seen cells.
    weights : array of shape (1, d2) or (d1, d2)
        Weights of the columns (in each row), which sum to 1.
    cells, seen : array of shape (d1,)
        Numbers of cells and of seen cells in columns with a weight.
    known_likes : array of shape (d1,)
        Sums of the weights of the columns with a seen +1; the mean of a whole row.
    likes : array of shape (d1,)
        Numbers of seen +1 in columns with a weight.
    folds : array of shape (d1,)
        The fold of each row.
    """

    labels: sp.csr_array
    weights: Array
    cells: NDArray[np.int64]
    seen: NDArray[np.int64]
    known_likes: Array
    likes: Array
    folds: Positions
    draws: np.random.Generator
    fitted: dict[tuple[int, bool], Items | None] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Observations, weights: Array, draws: np.random.Generator) -> _Table:
        labels = entries.to_sparse()
        n = labels.shape[0]
        rows = np.repeat(np.arange(n), np.diff(labels.indptr))
        of_cells = np.broadcast_to(weights, labels.shape)[rows, labels.indices]
        counted, is_like = of_cells > 0, labels.data > 0

        def total(values: Array | Bools) -> Array:
            return np.bincount(rows, values, n).astype(np.float64)

        cells = np.broadcast_to(np.count_nonzero(weights, axis=1), n)
        seen = total(counted).astype(np.int64)
        folds = balanced_fold_numbers(seen == cells, FOLDS, draws)
        likes = total(counted & is_like)
        return cls(labels, weights, cells, seen, total(of_cells * is_like), likes, folds, draws)

    @property
    def is_whole(self) -> Bools:
        """Whether all cells of a row are seen."""
        return np.asarray(self.seen == self.cells)

    @property
    def is_free(self) -> Bools:
        """Whether some cells of a row are seen, and some are not."""
        return np.asarray((self.seen > 0) & ~self.is_whole)

    def items(self, fold: int, *, whole: bool) -> Items | None:
        """Return the columns, fitted without the whole or the other rows of a fold; None where no cells are left."""
        if (fold, whole) not in self.fitted:
            is_left_out = (self.folds == fold) & (self.is_whole == whole)
            others = self.labels[np.flatnonzero(~is_left_out & (self.seen > 0))]
            fitted = fit_items(others, RANK, self.draws) if others.nnz else None
            self.fitted[fold, whole] = fitted
        return self.fitted[fold, whole]

    def predictions(self, labels: sp.csr_array, fold: int, *, whole: bool) -> Array:
        """Return predictions of rows, whole or not, by the columns of a fold."""
        items = self.items(fold, whole=whole)
        if items is None:
            return np.full(labels.shape, 0.5)
        return items.predict(items.abilities(labels), labels)

    def sums(
        self, labels: sp.csr_array, rows: Positions, selection: Selection, *, whole: bool = False
    ) -> RowSums:
        """Return the sums of rows, whole or not, with these labels, predicted by the columns of their folds."""
        step = max(1, BLOCK_CELLS // labels.shape[1])
        order, parts = [np.zeros(0, dtype=np.intp)], []
        for fold in range(FOLDS):
            here = np.flatnonzero(self.folds[rows] == fold)
            for start in range(0, here.size, step):
                block = here[start : start + step]
                p = self.predictions(labels[block], fold, whole=whole)
                weights = np.broadcast_to(self.weights, self.labels.shape)[rows[block]]
                parts.append(row_sums(labels[block], p, weights, *(selection(rows[block]) or ())))
                order.append(block)
        if not parts:
            empty = sp.csr_array((0, labels.shape[1]), dtype=np.int8)
            return row_sums(empty, np.zeros(empty.shape), np.zeros(empty.shape))
        return RowSums.concatenate(parts).take(np.argsort(np.concatenate(order)))

    def calibrate(self, shares: Array) -> Calibration | None:
        """Return the calibration on whole rows, with cells hidden as in rows of these seen shares; None for no row."""
        whole = np.flatnonzero(self.is_whole)
        if whole.size < MIN_WHOLE_ROWS:
            raise InvalidInputError(
                f"{parameter('guarantee', 'rows')} needs {MIN_WHOLE_ROWS} rows that are seen as a whole, to calibrate "
                f"on; the table has {whole.size}. Pass {parameter('guarantee', 'row')}."
            )
        if not shares.size:
            return None
        rows = np.tile(whole, REHEARSALS)
        labels = self.labels[rows]
        kept = np.repeat(self.draws.choice(shares, rows.size), np.diff(labels.indptr))
        labels.data = np.where(self.draws.random(labels.nnz) < kept, labels.data, 0).astype(np.int8)
        labels.eliminate_zeros()
        sums = self.sums(labels, rows, uniform, whole=True)
        return calibrate(sums, self.known_likes[rows], whole.size)


@dataclass(frozen=True, eq=False)
class _Sets:
    """Groups of rows: those that are partly seen by a curve, whole rows exactly, and others with any mean.

    Attributes
    ----------
    curve : Curve
        The partly seen rows, each group with weights that sum to 1.
    estimates : array of shape (g,)
        The mean of these rows in each group.
    free, unseen : array of shape (g,)
        Share of partly seen rows, and of rows without seen cells, in each group.
    exact, guess : array of shape (g,)
        What whole rows, and the predictions of rows without seen cells, add to the mean.
    """

    curve: Curve
    estimates: Array
    free: Array
    unseen: Array
    exact: Array
    guess: Array

    @classmethod
    def of(
        cls, table: _Table, curve: Curve, estimates: Array, of_rows: Positions, shares: Array
    ) -> _Sets:
        """Return the sets by curve and estimates of partly seen rows, and by the share of each row in its group."""

        def total(values: Array, rows: Positions) -> Array:
            return np.bincount(of_rows[rows], shares[rows] * values, n).astype(np.float64)

        n = int(of_rows.max()) + 1
        grouped = of_rows >= 0
        rows = np.flatnonzero(table.is_free)
        inside = np.flatnonzero(grouped[rows])
        rows = rows[inside]
        whole = np.flatnonzero(table.is_whole & grouped)
        empty = np.flatnonzero((table.seen == 0) & grouped)
        free, unseen = (total(np.ones(each.size), each) for each in (rows, empty))
        guess = table.sums(table.labels[empty], empty, uniform).completed
        within = of_rows[rows]
        of_sets = curve.of_sets(inside, within, shares[rows] / free[within], n)
        return cls(
            of_sets,
            np.clip(np.bincount(within, of_sets.shares * estimates[inside], n), *of_sets.bounds),
            free,
            unseen,
            total(table.known_likes[whole], whole),
            total(guess, empty),
        )

    @property
    def means(self) -> Array:
        """The estimates."""
        return self.free * self.estimates + self.exact + self.guess

    def limits(self, z: float) -> tuple[Array, Array]:
        """Return the limits for a quantile of the standardised error."""
        low, high = self.curve.limits(z, self.estimates)
        return self.free * low + self.exact, self.free * high + self.exact + self.unseen


def _means(
    table: _Table, curve: Curve, groups: Groups, level: float, calibration: Calibration | None
) -> Means:
    """Return the answer."""
    n, of_rows, size = table.seen.size, groups.of_rows, groups.ids.size
    rows = np.flatnonzero(of_rows >= 0)
    of = of_rows[rows]

    def total(values: AnyArray) -> Array:
        return np.bincount(of, values[rows], size).astype(np.float64)

    shares = np.zeros(n)
    shares[rows] = 1 / np.bincount(of, minlength=size)[of]
    estimates, quantile = curve.estimates, normal_quantile
    if calibration is not None:
        estimates, quantile = calibration.estimates(curve), calibration.quantile
    sets = _Sets.of(table, curve, estimates, of_rows, shares)
    free = np.flatnonzero(table.is_free)
    effective = np.broadcast_to(1 / (table.weights**2).sum(axis=1), n).copy()
    has_weight = np.zeros(n)
    effective[free], has_weight[free] = curve.sums.effective, curve.weights > 0
    any_free = total(table.is_free) > 0
    basis = np.where(total(has_weight) > 0, "predictions", "plain").astype(object)
    if calibration is not None:
        basis[any_free] = "whole rows"
    seen = total(table.seen)
    basis[~any_free] = "complete"
    basis[~any_free & (sets.unseen > 0)] = "partly none"
    basis[seen == 0] = "none"
    informed = shares * (table.seen > 0)
    noise = total(informed**2 / effective)
    with np.errstate(invalid="ignore"):
        plain = total(table.likes) / seen
    return Means(
        groups.ids,
        sets.means,
        *sets.limits(quantile(level)),
        seen.astype(np.int64),
        np.divide(total(informed) ** 2, noise, out=np.zeros(size), where=noise > 0),
        plain,
        basis,
        level=level,
        limits_at=sets.limits,
        quantile=quantile,
    )
