"""Predictions for pairs of rows and columns."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tribit.answers import Answer, skipped_remark, with_ids
from tribit.data.axis import AnyArray, Axis, Positions, as_list, broadcast, frame_column
from tribit.data.reading import Records
from tribit.errors import InvalidInputError, InvalidTypeError, listed, quoted
from tribit.questions.base import OMIT, Question, option
from tribit.questions.kinds import (
    Entries,
    Ids,
    Pairs,
    Texts,
    entries_of_new_rows,
    find_or_warn,
    headings,
    locate_records,
    unknown_option,
)

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

#: Basis of a prediction, by whether the row and the column are known.
BASES = np.array([["average", "column alone"], ["row alone", "model"]])
#: What becomes of pairs with unknown ids, for a warning.
ANSWERED = {
    "popularity": "predicted from the other side alone",
    "skip": "left out",
    "error": "",
}


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Answer):
    """Probabilities of a like for pairs.

    Attributes
    ----------
    rows, columns : array of shape (n_pairs,)
        The pairs, by id or position.
    probabilities : array of shape (n_pairs,)
        Probability of a like; for models of one observed label see ``Fitted.meaning``.
    labels : array of shape (n_pairs,) or None
        The predicted label, +1 or -1; None if probabilities are not those of a like.
    basis : array of shape (n_pairs,)
        "model"; "column alone" or "row alone" if the row or the column is unknown, or has neither entries nor features;
        "average" if both are.
    n_skipped : int
        Number of pairs that were left out for their unknown ids.
    names : (str, str)
        Headings of the columns of row and column ids.
    likes : array of shape (n_pairs,) or None
        For likes alone, the probability that the pair, if it has no entry, becomes a like while the table grows by a
        tenth (:attr:`tribit.model.fitted.Fitted.horizon`).

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> found = Recommender(random_state=0).fit(A).predictions(([0, 1], [1, 3]))
    >>> found.labels, found.basis
    (array([1, 1]), array(['model', 'model'], dtype='<U12'))
    """

    rows: AnyArray
    columns: AnyArray
    probabilities: NDArray[np.floating[Any]]
    labels: AnyArray | None
    basis: AnyArray
    n_skipped: int = 0
    names: tuple[str, str] = ("row", "column")
    likes: NDArray[np.floating[Any]] | None = None

    def __len__(self) -> int:
        return int(self.probabilities.size)

    def table(self) -> dict[str, AnyArray]:
        """Return the pairs with their probabilities, labels and bases."""
        found = {"probability": self.probabilities}
        if self.labels is not None:
            found["label"] = self.labels
        if self.likes is not None:
            found["expected_likes"] = self.likes
        found["basis"] = self.basis
        return with_ids(self.names, (self.rows, self.columns), found)

    def facts(self) -> dict[str, str]:
        """Return the number of pairs."""
        counts = f"{len(self)}{skipped_remark(self.n_skipped)}"
        if unknown := int(np.count_nonzero(self.basis != BASES[1, 1])):
            counts += f" ({unknown} with an unknown id or without entries: see basis)"
        return {"pairs": counts}


@dataclass(frozen=True, eq=False)
class Predict(Question[Predictions]):
    """Return the probability of a like and the predicted sign for each pair of ids."""

    pairs: Pairs | None = option(
        None,
        "Pairs of ids: a tuple (rows, columns), each a list or a single id; or a list of tuples (row, column), an "
        "array of shape (n, 2) or a data frame, with a pair in each row; on the command line a table, or - for stdin.",
        argument=True,
        command=MISSING,
    )
    entries: Entries | None = option(
        None, "Entries of new rows, for predictions in columns.", command=OMIT
    )
    columns: Ids | None = option(
        None, "Columns to predict for new rows [every column].", command=OMIT
    )
    unknown: str = unknown_option("the biases of the known row or column")

    def answer(self, recommender: FittedRecommender) -> Predictions:
        """Return the predictions."""
        if (self.pairs is None) == (self.entries is None):
            raise InvalidInputError(
                "Pass either pairs, as in predictions((rows, columns)), or the entries of new rows, as in "
                "predictions(entries=...)."
            )
        return self._of_pairs(recommender) if self.entries is None else self._of_new(recommender)

    def _of_pairs(self, recommender: FittedRecommender) -> Predictions:
        axes, names = recommender.axes_, recommender.headings
        answered = ANSWERED[self.unknown]
        if isinstance(self.pairs, Records):
            found = locate_records(recommender, self.pairs, self.unknown, answered)
            sides, kept = (found.rows, found.columns), found.kept
            given = self.pairs.rows[kept], self.pairs.columns[kept]
            names = headings(self.pairs.names)
        else:
            assert self.pairs is not None
            rows, columns = _rows_and_columns(self.pairs, names)
            sides = (
                find_or_warn(recommender, 0, rows, self.unknown, answered),
                find_or_warn(recommender, 1, columns, self.unknown, answered),
            )
            ids = broadcast(_ids(axes.rows, rows, sides[0]), _ids(axes.columns, columns, sides[1]))
            sides = broadcast(*sides)
            kept = np.ones(sides[0].size, dtype=bool)
            if self.unknown == "skip":
                kept = (sides[0] >= 0) & (sides[1] >= 0)
            sides, given = (sides[0][kept], sides[1][kept]), (ids[0][kept], ids[1][kept])
        return predictions(recommender, sides, given, int(np.sum(~kept)), names)

    def _of_new(self, recommender: FittedRecommender) -> Predictions:
        """Return predictions for new rows from their entries."""
        given = entries_of_new_rows(recommender, self.entries, self.unknown)
        scores, _ = recommender.new_rows(given)
        axis = recommender.axes_.columns
        columns, n_skipped = np.arange(axis.size), 0
        if self.columns is not None:
            found = find_or_warn(recommender, 1, self.columns, self.unknown)
            columns = found[found >= 0]
            n_skipped = (found.size - columns.size) * scores.shape[0]
        n = scores.shape[0]
        i, j = np.repeat(np.arange(n), columns.size), np.tile(columns, n)
        x = scores.x(i, j)
        ids, known = given.axes.rows.names(i), (given.counts[0] > 0).astype(int)
        basis = BASES[known[i], 1]
        names = recommender.headings
        return _answer(recommender, (ids, axis.names(j)), x, basis, n_skipped, names)


def predictions(
    recommender: FittedRecommender,
    places: tuple[Positions, Positions],
    ids: tuple[AnyArray, AnyArray],
    n_skipped: int,
    names: tuple[str, str],
) -> Predictions:
    """Return predictions at positions, -1 for an unknown row or column."""
    fitted = recommender.model_.fitted_
    known = places[0] >= 0, places[1] >= 0
    informed = [
        k & each[at]
        for k, each, at in zip(known, recommender.have_information_, places, strict=True)
    ]
    # Position -1 is the last row or column: the one for unknown ids.
    everywhere = known[0].all() and known[1].all()
    factors = fitted.scores.factors if everywhere else fitted.factors_with_unseen
    x = factors.at(*places)
    basis = BASES[informed[0].astype(int), informed[1].astype(int)]
    return _answer(recommender, ids, x, basis, n_skipped, names)


def _answer(
    recommender: FittedRecommender,
    ids: tuple[AnyArray, AnyArray],
    x: NDArray[np.floating[Any]],
    basis: AnyArray,
    n_skipped: int,
    names: tuple[str, str],
) -> Predictions:
    fitted = recommender.model_.fitted_
    likely = fitted.scores.probability(x)
    labels = np.where(likely >= 0.5, 1, -1) if fitted.means_like else None
    likes = None if fitted.horizon is None else fitted.horizon(x)
    return Predictions(*ids, likely, labels, basis, n_skipped, names, likes)


def _rows_and_columns(pairs: Any, names: tuple[str, str]) -> tuple[Any, Any]:
    """Return the ids of rows and of columns: of a tuple (rows, columns), or of one pair in each row of anything else.

    Columns of a frame are found by ``names``, or are its only two.
    """
    if isinstance(pairs, tuple) and len(pairs) == 2:
        return pairs
    frame = nw.from_native(pairs, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        found = names if set(names) <= set(frame.columns) else tuple(frame.columns)
        if len(found) != 2:
            raise InvalidInputError(
                f"The frame of pairs has the columns {listed(frame.columns)}; pass the two with the ids of rows and of "
                f"columns, or name them {quoted(names[0])} and {quoted(names[1])}."
            )
        row, column = (frame_column(frame, name, "pairs") for name in found)
        return row, column
    if isinstance(pairs, np.ndarray) and pairs.ndim == 2 and pairs.shape[1] == 2:
        return pairs[:, 0], pairs[:, 1]
    items: list[Any] = (
        list(pairs) if hasattr(pairs, "__iter__") and not isinstance(pairs, np.ndarray) else [None]
    )
    if not all(isinstance(each, tuple | list) and len(each) == 2 for each in items):
        raise InvalidTypeError(
            "pairs must be a tuple (rows, columns) of two lists or a list and a single id, a list of (row, column) "
            "tuples, an array of shape (n, 2) or a data frame with two columns."
        )
    return [row for row, _ in items], [column for _, column in items]


def _ids(axis: Axis, given: object, places: Positions) -> AnyArray:
    """Return ids as an array; known ids given as text get the type of the model's."""
    if not isinstance(given, Texts):
        ids = as_list(given)
        return ids if isinstance(ids, np.ndarray) else np.fromiter(ids, dtype=object)
    found = np.fromiter(given.values, dtype=object)
    known = places >= 0
    found[known] = axis.names(places[known])
    return found
