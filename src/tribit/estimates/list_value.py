"""Value of lists: the mean label of the cells that they name, had all of them been rated.

    value_s = sum_ij a_sij y_ij,        a_sij = 1 / (number of listed cells of system s) at a listed cell

Few listed cells have labels, and which ones have is not left to chance. The estimate is doubly robust
(:mod:`tribit.estimates.doubly_robust`): predictions of all listed cells, corrected by the labels among them, each with
the weight ``1 / q_ij``. Predictions leave out the label of their own cell, and come from columns that were fitted on
other rows. Intervals are those of means, over draws of the labelled cells. Two systems are compared on the cells that
one of them lists and the other does not: with ``d = a_1 - a_2`` and ``W`` the sum of its positive part, the difference
is ``W`` times that of two means over disjoint cells, whose errors are independent.

Nothing is said on the effect of a position in the list, of its presentation, or of the number of similar items in it.
Labels that evaluate lists must not have been used to make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.answers import Answer
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_choice
from tribit.data.axis import AnyArray, first_true, quoted_id
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, quoted
from tribit.estimates.doubly_robust import RowSums, prediction_weights, row_sums
from tribit.estimates.estimation import SELECTIONS, CrossFitted
from tribit.estimates.intervals import Curve, difference_limits, normal_quantile
from tribit.estimates.selection import modelled
from tribit.folding.new_rows import combine_entries
from tribit.randomness import RandomState, generator

__all__ = ["ListValues", "estimate_list_values"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]
#: Rows and columns of the cells of a list, by position.
Cells = tuple[Positions, Positions]

#: Labels of a row without any that its probability of having one is estimated by.
LEAST_LABELS = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class ListValues(Answer):
    """Values of the lists of one or several systems.

    Attributes
    ----------
    systems : array
        Names of the systems.
    value, lower, upper : array
        Share of likes among all listed cells, had they been rated, with its limits.
    length : array
        Mean number of cells in a list; times ``value`` it is the expected number of likes per list.
    labelled, effective : array
        Number of listed cells with a label, and their effective number (Kish).
    clipped : array
        Share of the weight of labels that was cut off by ``max_weight``.
    plain : array
        Share of likes among the labelled cells, without any correction; NaN without any.
    level : float
        Level of the intervals.
    compared : dict
        A record for each pair of systems: the difference of their values, with its limits.
    further : dict
        Further columns of the table.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Observations
    >>> from tribit.estimates import estimate_list_values
    >>> labels = Observations.from_matrix([[1, 0, -1, 0], [0, 1, 0, -1], [1, 1, -1, 0]])
    >>> lists = {"first": ([0, 1, 2], [0, 1, 0]), "last": ([0, 1, 2], [2, 3, 3])}
    >>> found = estimate_list_values(lists, labels, random_state=0)
    >>> found.systems, found.labelled
    (array(['first', 'last'], dtype=object), array([3, 2]))
    """

    systems: AnyArray
    value: Array
    lower: Array
    upper: Array
    length: Array
    labelled: NDArray[np.int64]
    effective: Array
    clipped: Array
    plain: Array
    level: float
    compared: dict[str, AnyArray]
    further: dict[str, AnyArray] | None = None

    def __len__(self) -> int:
        return int(self.systems.size)

    def table(self) -> dict[str, AnyArray]:
        """Return a record for each system, with likes and dislikes per list."""
        return {
            "system": self.systems,
            "value": self.value,
            "lower": self.lower,
            "upper": self.upper,
            "likes": self.length * self.value,
            "likes_lower": self.length * self.lower,
            "likes_upper": self.length * self.upper,
            "dislikes": self.length * (1 - self.value),
            "labelled": self.labelled,
            "effective": self.effective,
            "clipped": self.clipped,
            "plain": self.plain,
        } | (self.further or {})

    def versus(self, name: str) -> dict[str, AnyArray]:
        """Return the differences of all values from that of one system, with the limits of each."""
        found = {each: np.zeros(len(self)) for each in ("difference", "lower", "upper")}
        pairs = self.compared
        for sign, ours, theirs in ((1, "system", "other"), (-1, "other", "system")):
            here = np.flatnonzero(pairs[theirs] == name)
            places = [self.systems.tolist().index(each) for each in pairs[ours][here]]
            found["difference"][places] = sign * pairs["difference"][here]
            limits = ("lower", "upper")[::sign]
            for to, each in zip(("lower", "upper"), limits, strict=True):
                found[to][places] = sign * pairs[each][here]
        return {
            "difference": found["difference"],
            "difference_lower": found["lower"],
            "difference_upper": found["upper"],
        }

    def facts(self) -> dict[str, str]:
        """Return the number of labelled cells, and the differences of systems that exclude 0."""
        low, high = self.compared["lower"], self.compared["upper"]
        apart = int(np.count_nonzero((low > 0) | (high < 0)))
        found = {"labelled": f"{int(self.labelled.min())} listed cells or more in each system"}
        if low.size:
            found["differences"] = f"{apart} of {low.size} have intervals without 0"
        return found


class _Universe(NamedTuple):
    """The cells that any system lists.

    Attributes
    ----------
    rows, columns : array of shape (n,)
        Positions.
    labels : array of shape (n,)
        Labels, 0 for none.
    p, q, errors : array of shape (n,)
        Predictions, probabilities of having a label, and the variances of their log-odds.
    """

    rows: Positions
    columns: Positions
    labels: NDArray[np.int8]
    p: Array
    q: Array
    errors: Array

    def sums(self, weights: Array) -> RowSums:
        """Return the sums of sets of cells with these weights, of shape (number of sets, n)."""
        n, shape = len(weights), weights.shape
        labels = sp.csr_array(np.broadcast_to(self.labels, shape))
        p, q, errors = (np.broadcast_to(each, shape) for each in (self.p, self.q, self.errors))
        if not n:
            return row_sums(sp.csr_array(shape, dtype=np.int8), p, weights)
        return row_sums(labels, p, weights, q, errors)


def estimate_list_values(
    lists: Mapping[str, Cells],
    entries: Observations,
    *,
    fit: Observations | None = None,
    q: Array | str = "uniform",
    max_weight: float | None = None,
    level: float = 0.95,
    random_state: RandomState = None,
) -> ListValues:
    """Return the values of the lists of some systems by labels that were not used to make them.

    Parameters
    ----------
    lists : dict
        The listed cells of each system: positions of rows and of columns.
    entries : Observations
        The labels that evaluate; +1 counts as 1 and -1 as 0.
    fit : Observations, optional
        Entries that a system was fitted on, in the same rows and columns. They improve predictions; none of them may
        be a label that evaluates, or a listed cell.
    q : {"uniform", "modelled"} or array of shape (d1, d2), default="uniform"
        The probability that a cell has a label: the same for all cells of a row that the fit does not have, by a model
        of the mask of all entries, whose test set is a random part, or as given.
    max_weight : float, optional
        Largest weight ``1 / q``; by default weights are not clipped.
    level : float, default=0.95
        Level of the intervals.
    random_state : int, Generator, RandomState or None
        Draws the folds of rows, and the starts of fits.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.estimates import estimate_list_values
    >>> labels = Observations.from_matrix([[1, 1, -1, 1], [1, 1, -1, -1], [1, 1, -1, 1]])
    >>> lists = {"all": ([0, 1, 2], [0, 0, 3])}  # every cell has a label
    >>> estimate_list_values(lists, labels, random_state=0).value.round(2)
    array([1.])
    """
    shape, draws = entries.shape, generator(random_state)
    keys = {name: _keys(name, cells, shape) for name, cells in lists.items()}
    universe = np.unique(np.concatenate(list(keys.values())))
    _check_apart(entries, fit, *np.divmod(universe, shape[1]))
    with single_threaded_blas():
        cells, clipped_weights = _universe(universe, entries, fit, q, max_weight, draws)
    weights = np.zeros((len(keys), universe.size))
    for row, listed in enumerate(keys.values()):
        weights[row, np.searchsorted(universe, listed)] = 1 / listed.size
    z = normal_quantile(level)
    values, limits = _estimates(cells.sums(weights), z)
    seen = (cells.labels != 0) & (weights > 0)
    raw, kept = (seen * each for each in clipped_weights)
    sums = cells.sums(weights)
    labelled = seen.sum(axis=1)
    names = np.array(list(keys), dtype=object)
    rows = [np.unique(listed // shape[1]).size for listed in keys.values()]
    with np.errstate(invalid="ignore"):
        plain = (seen * (cells.labels > 0)).sum(axis=1) / labelled
    total = raw.sum(axis=1)
    return ListValues(
        names,
        values,
        *limits,
        length=np.array([each.size for each in keys.values()]) / rows,
        labelled=labelled,
        effective=sums.effective,
        clipped=np.divide(
            total - kept.sum(axis=1), total, out=np.zeros(len(keys)), where=total > 0
        ),
        plain=plain,
        level=level,
        compared=_compared(cells, weights, names, z),
    )


def _keys(name: str, cells: Cells, shape: tuple[int, int]) -> Positions:
    """Return the listed cells as single numbers; a repeated one is refused."""
    rows, columns = (np.asarray(each, dtype=np.int64) for each in cells)
    if not rows.size:
        raise InvalidInputError(f"The lists of {quoted(name)} are empty; give them some cells.")
    keys = rows * shape[1] + columns
    if np.unique(keys).size < keys.size:
        raise InvalidInputError(
            f"The lists of {quoted(name)} have a cell twice; list each column once for a row."
        )
    return keys


def _check_apart(
    entries: Observations, fit: Observations | None, rows: Positions, columns: Positions
) -> None:
    """Refuse labels, and listed cells, that are entries of the fit."""
    if fit is None:
        return
    if n := int(np.count_nonzero(fit.observed_at(entries.rows, entries.columns))):
        raise InvalidInputError(
            f"{n} of the {len(entries)} labels are entries of the fit, which the lists may have been made from, so "
            "that they would be flattered; split the labels (tribit split), fit on one part and evaluate on the other."
        )
    in_fit = fit.observed_at(rows.astype(np.int64), columns.astype(np.int64))
    if (bad := first_true(in_fit)) is not None:
        names = (
            quoted_id(axis.ids, at[bad])
            for axis, at in zip(entries.axes, (rows, columns), strict=True)
        )
        raise InvalidInputError(
            f"The listed cell {' and '.join(names)} is an entry of the fit, for which the labels have no other: list "
            "cells that the fit does not have."
        )


def _universe(
    keys: Positions,
    entries: Observations,
    fit: Observations | None,
    q: Array | str,
    max_weight: float | None,
    draws: np.random.Generator,
) -> tuple[_Universe, tuple[Array, Array]]:
    """Return the listed cells, and their weights before and after they are clipped."""
    m = entries.shape[1]
    rows, columns = np.divmod(keys, m)
    known = entries if fit is None else combine_entries(fit, entries, entries.axes)
    cross_fitted = CrossFitted.of(known, draws)
    chances = _Chances(entries, fit, cross_fitted, q)
    p, found, errors = (np.empty(keys.size) for _ in range(3))
    for block in cross_fitted.blocks(np.unique(rows)):
        here = np.flatnonzero(np.isin(rows, block))
        at = np.searchsorted(block, rows[here]), columns[here]
        p[here] = cross_fitted.predict(block)[at]
        of_rows, of_errors = chances.of(block)
        found[here], errors[here] = of_rows[at], np.broadcast_to(of_errors, of_rows.shape)[at]
    raw = 1 / found
    kept = raw if max_weight is None else np.minimum(raw, max_weight)
    labels = np.zeros(keys.size, dtype=np.int8)
    of_entries = entries.rows * m + entries.columns
    place = np.minimum(np.searchsorted(keys, of_entries), keys.size - 1)
    listed = keys[place] == of_entries
    labels[place[listed]] = entries.labels[listed]
    return _Universe(rows, columns, labels, p, 1 / kept, errors), (raw, kept)


class _Chances:
    """Probabilities of cells to have a label."""

    def __init__(
        self,
        entries: Observations,
        fit: Observations | None,
        cross_fitted: CrossFitted,
        q: Array | str,
    ) -> None:
        self.q, self.m = q, entries.shape[1]
        n_fit = 0.0 if fit is None else fit.counts[0]
        self.n_labels, self.n_open = entries.counts[0], self.m - n_fit
        self.share = len(entries) / (len(entries) + (0 if fit is None else len(fit)))
        self.model = None
        if isinstance(q, str) and check_choice("q", q, SELECTIONS) == "modelled":
            self.model = modelled(*cross_fitted.mask)

    def of(self, rows: Positions) -> tuple[Array, Array | float]:
        """Return those of the cells of some rows, and the variances of their log-odds."""
        if self.model is not None:
            found = self.model(rows)
            assert found is not None
            seen, share = found.q, self.share
            # Of a cell that is not in the fit: seen and in the test set, or not seen.
            return seen * share / (1 - seen * (1 - share)), found.errors
        if isinstance(self.q, str):
            counts = np.maximum(self.n_labels[rows], LEAST_LABELS)
            of_rows = counts / np.broadcast_to(self.n_open, self.n_labels.shape)[rows]
            return np.broadcast_to(np.minimum(of_rows, 1.0)[:, None], (rows.size, self.m)), 0.0
        return self.q[rows], 0.0


def _estimates(sums: RowSums, z: float) -> tuple[Array, tuple[Array, Array]]:
    curve = Curve.of_rows(sums, prediction_weights(sums))
    return curve.estimates, curve.limits(z)


def _compared(cells: _Universe, weights: Array, names: AnyArray, z: float) -> dict[str, AnyArray]:
    """Return the differences of all pairs of systems, by the cells that one of them lists alone."""
    first, second = np.triu_indices(len(names), 1)
    away = weights[first] - weights[second]
    found, low, high = (np.zeros(first.size) for _ in range(3))
    apart = np.flatnonzero(np.abs(away).max(axis=1, initial=0.0) > 0)
    if apart.size:
        sides = []
        for sign in (1, -1):
            part = np.maximum(sign * away[apart], 0.0)
            total = part.sum(axis=1, keepdims=True)
            value, limits = _estimates(cells.sums(part / total), z)
            sides.append((value, *limits))
        scale = total[:, 0]
        found[apart] = scale * (sides[0][0] - sides[1][0])
        limits = difference_limits(*sides)
        low[apart], high[apart] = (scale * each for each in limits)
    return {
        "system": names[first],
        "other": names[second],
        "difference": found,
        "lower": low,
        "upper": high,
    }
