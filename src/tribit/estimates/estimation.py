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

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_choice
from tribit.data.axis import AnyArray
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, parameter
from tribit.estimates.designs import Draws
from tribit.estimates.doubly_robust import RowSums, prediction_weights, row_sums
from tribit.estimates.drawn_rows import (
    Parts,
    completed_means,
    design_of,
    parts_of_batches,
    robust_estimates,
    steps_like,
)
from tribit.estimates.intervals import Curve, normal_quantile
from tribit.estimates.item_response import Items, fit_items
from tribit.estimates.limited_translation import RowEstimates, Translation, fit_translation
from tribit.estimates.means import Means
from tribit.estimates.replay import replay_rows
from tribit.estimates.selection import Selection, given, modelled, uniform
from tribit.estimates.sensitivity import Unseen
from tribit.estimates.whole_rows import MIN_WHOLE_ROWS, REHEARSALS, Calibration, calibrate
from tribit.randomness import RandomState, balanced_fold_numbers, generator

__all__ = ["GUARANTEES", "SELECTIONS", "CrossFitted", "Groups", "estimate_means"]

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
    q: Array | Draws | str = "uniform",
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
    q : {"uniform", "modelled"}, array of shape (d1, d2) or Draws, default="uniform"
        The probability that a cell is seen: the same for all cells of a row, by a model of the mask
        (:mod:`tribit.estimates.selection`), or as given. With :class:`Draws` rows were drawn from in batches: the
        estimate is of the cells that were unknown before, however the known ones came to be seen; rows without draws
        are uniform.
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
        parts = table.parts(selection)
        curve = Curve.of_rows(parts.sums, prediction_weights(parts.sums))
        calibration = None
        if check_choice("guarantee", guarantee, GUARANTEES) == "rows":
            calibration = _calibration(table, parts, groups, selection)
        return _means(table, curve, parts, groups, level, calibration)


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


def _selection(q: Array | Draws | str, table: _Table) -> Selection | Draws:
    """Return the probabilities of being seen by their name or as given."""
    if isinstance(q, Draws):
        return q
    if isinstance(q, str):
        if check_choice("q", q, SELECTIONS) == "uniform":
            return uniform
        return modelled(table.labels, table.folds, table.is_free)
    return given(_checked_probabilities(np.asarray(q, dtype=np.float64), table))


def _checked_probabilities(q: Array, table: _Table) -> Array:
    """Return known probabilities of being seen: one for each cell, above 0, and below 1 where a cell is not seen."""
    if q.shape != table.labels.shape:
        raise InvalidInputError(
            f"{parameter('q')} has the shape {q.shape}; pass an array of shape {table.labels.shape}."
        )
    is_wrong, rule = ~((q > 0) & (q <= 1)), "a probability is above 0 and at most 1"
    if not is_wrong.any():
        is_wrong = (q == 1) & (table.weights > 0)
        is_wrong[table.labels.nonzero()] = False
        rule = "a cell with this probability is always seen, and this one is not"
    if is_wrong.any():
        row, column = (int(places[0]) for places in np.nonzero(is_wrong))
        raise InvalidInputError(
            f"{parameter('q')} is {q[row, column]:g} at position {column} of row {row} (from 0), but {rule}."
        )
    return q


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
    known, known_likes : array of shape (d1,)
        Sums of the weights of the columns with a seen cell, and with a seen +1; the latter is the mean of a whole row.
    likes : array of shape (d1,)
        Numbers of seen +1 in columns with a weight.
    folds : array of shape (d1,)
        The fold of each row.
    """

    labels: sp.csr_array
    weights: Array
    cells: NDArray[np.int64]
    seen: NDArray[np.int64]
    known: Array
    known_likes: Array
    likes: Array
    folds: Positions
    draws: np.random.Generator
    fitted: dict[tuple[int, bool], Items | None] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Observations, weights: Array, draws: np.random.Generator) -> _Table:
        found = cls.of_labels(entries.to_sparse(), weights, draws)
        return replace(found, folds=balanced_fold_numbers(found.is_whole, FOLDS, draws))

    @classmethod
    def of_labels(cls, labels: sp.csr_array, weights: Array, draws: np.random.Generator) -> _Table:
        """Return a table of these labels, with all rows in one fold."""
        n = labels.shape[0]
        rows = np.repeat(np.arange(n), np.diff(labels.indptr))
        of_cells = np.broadcast_to(weights, labels.shape)[rows, labels.indices]
        counted, is_like = of_cells > 0, labels.data > 0

        def total(values: Array | Bools) -> Array:
            return np.bincount(rows, values, n).astype(np.float64)

        cells = np.broadcast_to(np.count_nonzero(weights, axis=1), n)
        return cls(
            labels,
            weights,
            cells,
            seen=total(counted).astype(np.int64),
            known=total(of_cells),
            known_likes=total(of_cells * is_like),
            likes=total(counted & is_like),
            folds=np.zeros(n, dtype=np.intp),
            draws=draws,
        )

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

    def parts(self, selection: Selection | Draws, *, whole: bool = False) -> Parts:
        """Return the parts of the partly seen rows."""
        rows = np.flatnonzero(self.is_free)
        if not isinstance(selection, Draws):
            return Parts.of_rows(self.sums(self.labels[rows], rows, selection), rows)

        def predict(labels: sp.csr_array, rows: Positions) -> Array:
            return self.predict(labels, rows, whole=whole)

        draws = selection.take(self.is_free[selection.rows])
        batches = parts_of_batches(self.labels, draws, self.weights, predict)
        # A row that cells were chosen from without a random draw has no part: any mean is possible.
        rows = np.setdiff1d(rows, selection.rows)
        others = Parts.of_rows(self.sums(self.labels[rows], rows, uniform), rows)
        return Parts.combine([*batches, others])

    def predict(self, labels: sp.csr_array, rows: Positions, *, whole: bool) -> Array:
        """Return predictions of rows, whole or not, with these labels by the columns of their folds."""
        found = np.empty(labels.shape)
        for fold in range(FOLDS):
            here = np.flatnonzero(self.folds[rows] == fold)
            if here.size:
                found[here] = self.predictions(labels[here], fold, whole=whole)
        return found

    def check_whole_rows(self) -> None:
        """Refuse a table with few whole rows."""
        n = np.count_nonzero(self.is_whole)
        if n < MIN_WHOLE_ROWS:
            raise InvalidInputError(
                f"{parameter('guarantee', 'rows')} needs {MIN_WHOLE_ROWS} rows that are seen as a whole, to calibrate "
                f"on; the table has {n}. Pass {parameter('guarantee', 'row')}."
            )

    def calibrate(self, shares: Array) -> Calibration | None:
        """Return the calibration on whole rows, with cells hidden as in rows of these seen shares; None for no row."""
        if not shares.size:
            return None
        whole = np.flatnonzero(self.is_whole)
        rows = np.tile(whole, REHEARSALS)
        labels = self.labels[rows]
        kept = np.repeat(self.draws.choice(shares, rows.size), np.diff(labels.indptr))
        labels.data = np.where(self.draws.random(labels.nnz) < kept, labels.data, 0).astype(np.int8)
        labels.eliminate_zeros()
        sums = self.sums(labels, rows, uniform, whole=True)
        return calibrate(sums, self.known_likes[rows], whole.size)

    def row_estimates(self, parts: Parts, rows: Positions, *, whole: bool) -> RowEstimates:
        """Return the estimates of rows with draws, doubly robust and completed."""
        robust, error = robust_estimates(parts, rows)
        completed, deviation = np.empty(rows.size), np.empty(rows.size)
        weights = np.broadcast_to(self.weights, self.labels.shape)
        for fold in range(FOLDS):
            here = np.flatnonzero(self.folds[rows] == fold)
            items = self.items(fold, whole=whole) if here.size else None
            if items is not None:
                of_fold = rows[here]
                found = completed_means(items, self.labels[of_fold], weights[of_fold])
                completed[here], deviation[here] = found
        robust = np.where(np.isfinite(error), robust, completed)
        least = self.known_likes[rows]
        return RowEstimates(
            robust, error, completed, deviation, least, least + 1 - self.known[rows]
        )

    def translate(self, parts: Parts, draws: Draws) -> _Translated | None:
        """Return the estimates of rows with draws, calibrated by replays on whole rows; None for no row."""
        draws = draws.take(self.is_free[draws.rows])
        rows = np.unique(draws.rows)
        if not rows.size:
            return None
        return _Translated(
            rows, self.row_estimates(parts, rows, whole=False), self.replay(draws, rows)
        )

    def replay(self, draws: Draws, rows: Positions) -> Translation:
        """Return the calibration of rows with draws, replayed on whole rows."""
        whole = np.flatnonzero(self.is_whole)
        like = self.draws.integers(rows.size, size=whole.size)
        design, truth = design_of(draws, self.weights[0]), self.labels[whole].toarray()
        # Cells that were known before the first batch: as many, at random.
        n_drawn = np.bincount(np.searchsorted(rows, draws.rows), minlength=rows.size)
        before = (np.diff(self.labels.indptr)[rows] - n_drawn) / truth.shape[1]
        known = self.draws.random(truth.shape) < before[like][:, None]
        order, replays = [], []
        for fold in range(FOLDS):
            here = np.flatnonzero(self.folds[whole] == fold)
            items = self.items(fold, whole=True) if here.size else None
            if items is not None:
                steps = steps_like(draws, rows, like[here])
                order.append(here)
                replays.append(
                    replay_rows(items, truth[here], known[here], steps, design, self.draws)
                )
        replayed = whole[np.concatenate(order)]
        labels = sp.vstack([each.labels for each in replays]).tocsr()
        again = replace(
            _Table.of_labels(labels, self.weights, self.draws),
            folds=self.folds[replayed],
            fitted=self.fitted,
        )
        joined = Draws.concatenate([each.draws for each in replays], [each.size for each in order])
        parts = again.parts(joined, whole=True)
        estimates = again.row_estimates(parts, np.arange(replayed.size), whole=True)
        return fit_translation(estimates, self.known_likes[replayed], whole.size)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Predictions of all cells of a table by columns that were fitted on other rows."""

    table: _Table

    @classmethod
    def of(cls, entries: Observations, draws: np.random.Generator) -> CrossFitted:
        """Return the predictions for some entries."""
        return cls(_Table.of(entries, _shares(None, entries.shape), draws))

    def blocks(self, rows: Positions) -> list[Positions]:
        """Return rows in blocks whose predictions are in memory at a time."""
        step = max(1, BLOCK_CELLS // self.table.labels.shape[1])
        return [rows[start : start + step] for start in range(0, rows.size, step)]

    def predict(self, rows: Positions) -> Array:
        """Return predictions of rows; that of a seen cell leaves its own label out."""
        return self.table.predict(self.table.labels[rows], rows, whole=False)

    @property
    def mask(self) -> tuple[sp.csr_array, Positions, Bools]:
        """The seen cells, the folds of rows, and the rows whose masks show what is selected."""
        return self.table.labels, self.table.folds, self.table.is_free


class _Translated(NamedTuple):
    """Estimates of rows with draws, and their calibration."""

    rows: Positions
    estimates: RowEstimates
    translation: Translation


def _calibration(
    table: _Table, parts: Parts, groups: Groups, selection: Selection | Draws
) -> Calibration | _Translated | None:
    """Return the calibration on whole rows; None for no row."""
    is_drawn = isinstance(selection, Draws)
    if not groups.is_single or not (selection is uniform or is_drawn):
        raise InvalidInputError(
            f"Intervals are calibrated on whole rows for single rows with uniformly drawn or asked cells: pass "
            f"{parameter('guarantee', 'row')} for groups or other draws of cells."
        )
    if len(table.weights) > 1 and is_drawn:
        raise InvalidInputError(
            f"Intervals of asked rows are calibrated for one set of weights of the columns: pass "
            f"{parameter('guarantee', 'row')} for weights of each row."
        )
    table.check_whole_rows()
    if isinstance(selection, Draws):
        return table.translate(parts, selection)
    return table.calibrate(parts.sums.seen / parts.sums.cells)


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
        Share of the curve, and of the unseen cells of rows that have no part in it, in each group.
    exact, guess : array of shape (g,)
        What cells with known labels, and the predictions of the unseen cells of rows without a part, add to the mean.
    """

    curve: Curve
    estimates: Array
    free: Array
    unseen: Array
    exact: Array
    guess: Array

    @classmethod
    def of(
        cls,
        table: _Table,
        curve: Curve,
        parts: Parts,
        estimates: Array,
        of_rows: Positions,
        shares: Array,
    ) -> _Sets:
        """Return the sets by curve and estimates of the parts, and by the share of each row in its group."""

        def total(values: Array, rows: Positions) -> Array:
            return np.bincount(of_rows[rows], shares[rows] * values, n).astype(np.float64)

        n = int(of_rows.max()) + 1
        grouped = of_rows >= 0
        inside = np.flatnonzero(grouped[parts.rows])
        rows, of_parts = parts.rows[inside], parts.shares[inside]
        within, free = of_rows[rows], total(of_parts, rows)
        of_sets = curve.of_sets(inside, within, shares[rows] * of_parts / free[within], n)
        others = np.flatnonzero(grouped & ~np.isin(np.arange(grouped.size), parts.rows))
        unseen = others[~table.is_whole[others]]
        guess = table.sums(table.labels[unseen], unseen, uniform).completed
        return cls(
            of_sets,
            np.clip(np.bincount(within, of_sets.shares * estimates[inside], n), *of_sets.bounds),
            free,
            total(1 - table.known[unseen], unseen),
            total(table.known_likes[others], others) + total(parts.exact[inside], rows),
            total(guess - table.known_likes[unseen], unseen),
        )

    @property
    def means(self) -> Array:
        """The estimates."""
        return self.free * self.estimates + self.exact + self.guess

    @property
    def unseen_cells(self) -> Unseen:
        """The unseen cells, for bounds on their labels."""
        return Unseen.of(self.curve, self.free, self.exact, self.unseen, self.guess)

    def limits(self, z: float) -> tuple[Array, Array]:
        """Return the limits for a quantile of the standardised error."""
        low, high = self.curve.limits(z, self.estimates)
        return self.free * low + self.exact, self.free * high + self.exact + self.unseen


def _means(
    table: _Table,
    curve: Curve,
    parts: Parts,
    groups: Groups,
    level: float,
    calibration: Calibration | _Translated | None,
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
    if isinstance(calibration, Calibration):
        estimates, quantile = calibration.estimates(curve), calibration.quantile
    sets = _Sets.of(table, curve, parts, estimates, of_rows, shares)
    effective = np.broadcast_to(1 / (table.weights**2).sum(axis=1), n).copy()
    noise_of_parts = np.bincount(parts.rows, parts.shares**2 / curve.sums.effective, n)
    in_parts, has_weight = noise_of_parts > 0, np.zeros(n)
    effective[in_parts] = 1 / noise_of_parts[in_parts]
    has_weight[parts.rows[curve.weights > 0]] = 1.0
    any_part = total(in_parts) > 0
    basis = np.where(total(has_weight) > 0, "predictions", "plain").astype(object)
    if isinstance(calibration, Calibration):
        basis[any_part] = "whole rows"
    seen = total(table.seen)
    basis[~any_part] = "complete"
    basis[~any_part & (sets.unseen > 0)] = "partly none"
    basis[seen == 0] = "none"
    informed = shares * (in_parts | table.is_whole)
    noise = total(informed**2 / effective)
    with np.errstate(invalid="ignore"):
        plain = total(table.likes) / seen
    found = Means(
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
        unseen=sets.unseen_cells,
    )
    if isinstance(calibration, _Translated):
        return _with_translated(found, sets, calibration, of_rows)
    return found


def _with_translated(
    means: Means, sets: _Sets, translated: _Translated, of_rows: Positions
) -> Means:
    """Return the means with those of rows with draws replaced by calibrated ones."""
    asked = np.flatnonzero(of_rows[translated.rows] >= 0)
    places = of_rows[translated.rows[asked]]
    mean, basis = means.mean.copy(), means.basis.copy()
    mean[places] = translated.translation.estimates(translated.estimates)[asked]
    basis[places] = "whole rows"

    def limits(level: float) -> tuple[Array, Array]:
        found = sets.limits(normal_quantile(level))
        calibrated = translated.translation.limits(translated.estimates, level)
        for all_limits, some in zip(found, calibrated, strict=True):
            all_limits[places] = some[asked]
        return found

    low, high = limits(means.level)
    # Each row has a quantile of its own, so that the level takes its place.
    return replace(
        means, mean=mean, lower=low, upper=high, basis=basis, limits_at=limits, quantile=float
    )
