"""Lists: the columns to show to each row, best first.

The order is that of

    score_ij = log P_finder(i, j) + avoid_dislikes log P(like)_ij

where a finder says how likely a row is to come to a column and like it (a model of the observed likes, PU at
``rho = 0``), or to come to it at all (a model of the mask). Without a finder it is that of P(like) alone, which
knows what a row would think of a column and not whether it would ever look at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit.constraints import check_not_negative
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.factor_model import FactorModel, _listed
from tribit.ids import AnyArray, Positions, first_true, lookup, named
from tribit.observations import Observations, as_observations

__all__ = ["Recommendations", "recommend"]

Array = NDArray[np.floating[Any]]
#: What says how good each column is for some rows: an array of shape (n_rows, n_columns).
Score: TypeAlias = Callable[[Positions], Array]

#: Scores in memory at once: few enough for a core's cache.
BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best columns for each row, best first; of equal scores the column that comes first is the better.

    A row with fewer than ``n`` columns to choose from has a shorter list, filled up as said below.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        The rows asked for: the user's ids where the model has them, else positions.
    columns : array of shape (n_rows, n)
        The columns for each, filled up with -1 where columns are positions and with None where they are ids.
    scores : array of shape (n_rows, n)
        Their scores, which never rise along a list; filled up with ``-inf``.
    positions : array of shape (n_rows, n)
        The columns as positions, filled up with -1.
    """

    rows: AnyArray
    columns: AnyArray
    scores: NDArray[np.float64]
    positions: Positions

    def __len__(self) -> int:
        return int(self.rows.size)

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Which places hold a column: all but the filled up ones."""
        return np.asarray(self.positions >= 0)

    def pairs(self) -> tuple[AnyArray, AnyArray, NDArray[np.float64]]:
        """Return rows, columns and scores of all lists one after the other, as the columns of a table."""
        shown = self.shown
        rows = np.repeat(self.rows, np.count_nonzero(shown, axis=1))
        return rows, self.columns[shown], self.scores[shown]


def recommend(
    model: FactorModel,
    rows: Any,
    n: int = 10,
    *,
    exclude_seen: Any = None,
    avoid_dislikes: float = 1.0,
    finder: FactorModel | None = None,
) -> Recommendations:
    """Rank the columns for each row; see :meth:`tribit.factor_model.FactorModel.recommend`."""
    check_is_fitted(model)
    n = check_length(n)
    axes = Axes.of_model(model)
    places = lookup(_listed(rows), axes.row_ids, axes.shape[0], "row")
    seen = None
    if exclude_seen is not None:
        observations = as_observations(exclude_seen, like_at=getattr(model, "like_at", None))
        seen = axes.mask(observations, "exclude_seen")
    score = model_score(model, finder, avoid_dislikes)
    positions, scores = best_columns(score, places, axes.shape[1], n, seen)
    shown = positions >= 0
    if finder is None:
        # Ordered by x, which still tells apart what the link rounds or clips to one probability.
        scores[shown] = _log_likely(model, scores[shown])
    names = places if axes.row_ids is None else axes.row_ids[places]
    return Recommendations(names, axes.column_names(positions), scores, positions)


def model_score(model: FactorModel, finder: FactorModel | None, avoid_dislikes: float) -> Score:
    """Return what orders the columns: ``x`` without a finder, else the sum of log-probabilities."""
    weight = check_not_negative("avoid_dislikes", avoid_dislikes)
    judge = _entries(model)
    if finder is None:
        return judge
    rows, columns = _finder_places(model, finder)
    find = _entries(finder, columns)

    def score(places: Positions) -> Array:
        found = _log_likely(finder, find(rows[places]))
        # At 0 the judge has no say, be its log-probability ever so low.
        return found + weight * _log_likely(model, judge(places)) if weight else found

    return score


def best_columns(
    score: Score, rows: Positions, n_columns: int, n: int, seen: sp.csr_array | None = None
) -> tuple[Positions, NDArray[np.float64]]:
    """Return the ``n`` best columns of each row and their scores, exactly.

    Parameters
    ----------
    score : callable
        Given positions of rows, their scores for every column.
    rows : array of int
        Positions of the rows.
    n_columns, n : int
        How many columns there are, and how many to choose.
    seen : sparse array, optional
        Its stored entries are left out.

    Returns
    -------
    positions, scores : array of shape (n_rows, n)
        Best first, equal scores in the order of their columns; -1 and ``-inf`` where columns ran out.
    """
    positions = np.full((rows.size, n), -1, dtype=np.int64)
    scores = np.full((rows.size, n), -np.inf)
    step = max(1, BLOCK // n_columns)
    for start in range(0, rows.size, step):
        places = rows[start : start + step]
        block = np.array(score(places), dtype=np.float64)
        if (odd := first_true(np.asarray(np.isnan(block).any(axis=1)))) is not None:
            raise InvalidInputError(
                f"A score of row {places[odd]} is not a number (NaN); rank finite scores only."
            )
        free = np.ones(block.shape, dtype=bool)
        if seen is not None:
            out = seen[places]
            free[np.repeat(np.arange(places.size), np.diff(out.indptr)), out.indices] = False
            block[~free] = -np.inf
        i, place, j = _best(block, free, n)
        positions[start + i, place], scores[start + i, place] = j, block[i, j]
    return positions, scores


def _best(
    block: NDArray[np.float64], free: NDArray[np.bool_], n: int
) -> tuple[Positions, Positions, Positions]:
    """Return row, place in the list and column of the ``n`` best free entries of each row."""
    if n < block.shape[1]:
        # All that reach the n-th best, so that among equals the column decides and not the partition.
        nth = block.shape[1] - n
        free = free & (block >= np.partition(block, nth, axis=1)[:, nth, None])
    i, j = np.nonzero(free)
    order = np.lexsort((j, -block[i, j], i))
    i, j = i[order], j[order]
    place = np.arange(i.size) - np.searchsorted(i, i)
    kept = place < n
    return i[kept], place[kept], j[kept]


@dataclass(frozen=True, eq=False)
class Axes:
    """The rows and columns that scores are of: how many, and the user's ids of them if there are any."""

    shape: tuple[int, int]
    row_ids: AnyArray | None
    column_ids: AnyArray | None

    @classmethod
    def of_model(cls, model: FactorModel) -> Axes:
        """Return those of a fitted model."""
        shape = model.row_factors_.shape[0], model.column_factors_.shape[0]
        return cls(shape, model.row_ids_, model.column_ids_)

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


def check_length(n: Any) -> int:
    """Return the length of a list as an int."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidInputError(f"n must be a whole number, at least 1; got {n!r}.")
    return int(n)


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


def _finder_places(model: FactorModel, finder: FactorModel) -> tuple[Positions, Positions]:
    """Return where the finder has each row and column of the model."""
    if not isinstance(finder, FactorModel):
        raise InvalidTypeError(
            f"finder is of type {type(finder).__name__}; pass another fitted model, or None."
        )
    check_is_fitted(finder)
    ours, theirs = Axes.of_model(model), Axes.of_model(finder)
    sides = []
    for axis in ("row", "column"):
        places = _translation(axis, ours, theirs, "the model that recommends")
        if (lost := first_true(places < 0)) is not None:
            raise InvalidInputError(
                f"The finder does not know the {axis} {named(ours.along(axis)[1], lost)} of the model: fit both "
                "on the same rows and columns."
            )
        sides.append(places)
    return sides[0], sides[1]


def _entries(model: FactorModel, columns: Positions | None = None) -> Score:
    """Return the function that gives ``x`` of some rows for every column, in float64."""
    P, Q = (side.astype(np.float64) for side in model._factors().augmented())
    by_factor = np.ascontiguousarray(Q.T if columns is None else Q[columns].T)

    def x(rows: Positions) -> Array:
        # Not a matrix product, whose last bits differ with the number of rows: a row's list would, too.
        total = np.zeros((rows.size, by_factor.shape[1]))
        term = np.empty_like(total)
        for weights, values in zip(P[rows].T, by_factor, strict=True):
            total += np.multiply(weights[:, None], values, out=term)
        return total

    return x


def _log_likely(model: FactorModel, x: Array) -> Array:
    return -model._link().loss(x, 1)
