"""Lists: the columns to show to each row, best first.

:mod:`tribit.ranking.scores` says in which order. Without a ranker it is that of P(like) alone, which
estimates preference and leaves out exposure: whether the row will observe the column.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.answers import Answer, skipped_remark, with_ids
from tribit.backends.cuda.device import lists_on_device, memory_named
from tribit.checks import check_count, check_not_negative
from tribit.data.axis import AnyArray, Axes, Positions, as_list
from tribit.data.observations import read_mask
from tribit.data.tables import write_blocks
from tribit.errors import InvalidInputError, parameter
from tribit.model.factors import Factors
from tribit.model.scores import Scores
from tribit.ragged import Ragged
from tribit.ranking.best_columns import Screening, best_of
from tribit.ranking.scores import (
    Ranker,
    WeighedScore,
    as_scores_or_ranker,
    axes_of,
    weighed_score,
)

__all__ = ["Recommendations", "TopN", "recommend"]

#: Records of a file that are written at once: some 40 MB as text.
BLOCK_RECORDS = 2**18
#: Bases of a list: the entries of the row, or of a row of which nothing is known the popularity of columns.
BY_MODEL, BY_POPULARITY = "model", "popularity"


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(Answer):
    """The best columns for each row, best first; of equal scores the column that comes first is the better.

    A row with fewer than ``n`` columns to choose from has a shorter list. ``columns[i]`` is the list of the i-th row,
    ``columns[i, 0]`` its best column, and ``columns.values`` with ``columns.offsets`` all lists, one after the other
    (:class:`~tribit.ragged.Ragged`); the same holds for the measures of the columns.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        The rows asked for: the user's ids where the model has them, else positions.
    columns : Ragged
        The columns for each: ids where the model has them, else positions.
    scores : Ragged
        Their scores, which never rise along a list.
    positions : Ragged
        The columns as positions.
    probabilities : Ragged or None
        The model's probability of each (:attr:`tribit.model.fitted.Fitted.meaning`). None for a ranker alone.
    likes, dislikes : Ragged or None
        With a :class:`~tribit.ranking.CandidateRanker`, the likes and dislikes to be expected of each while the table
        grows by a tenth: the probability that the row observes the column by then and likes it, or dislikes it
        (:meth:`~tribit.ranking.CandidateRanker.expected`). Of a model of likes alone, which needs no ranker, the likes
        (:attr:`tribit.model.fitted.Fitted.horizon`).
    intervals : Intervals or None
        Of the probabilities, on request of a :class:`tribit.Recommender`; one for each place that is shown.
    basis : array of shape (n_rows,) or None
        "model" or, for a row without entries and features, "popularity".
    n_skipped : int
        How many rows, and records of a table of entries, were left out because the model does not know their ids.
    names : (str, str)
        Headings of the columns of row and column ids.

    Examples
    --------
    >>> from tribit import Recommender
    >>> A = [[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]]
    >>> lists = Recommender(random_state=0).fit(A).recommend([0, 2], 1)
    >>> lists.columns.values, lists.to_frame().shape
    (array([2, 1]), (2, 10))
    """

    rows: AnyArray
    columns: Ragged
    scores: Ragged
    positions: Ragged
    probabilities: Ragged | None = None
    likes: Ragged | None = None
    dislikes: Ragged | None = None
    intervals: Any = None
    basis: AnyArray | None = None
    n_skipped: int = 0
    names: tuple[str, str] = ("row", "column")

    def __len__(self) -> int:
        return int(self.rows.size)

    @property
    def lengths(self) -> Positions:
        """Number of columns in the list of each row."""
        return self.columns.lengths

    def pairs(self) -> tuple[AnyArray, AnyArray, NDArray[np.float64]]:
        """Return rows, columns and scores of all lists one after the other, as the columns of a table."""
        return np.repeat(self.rows, self.lengths), self.columns.values, self.scores.values

    @property
    def dislikes_per_like(self) -> NDArray[np.float64] | None:
        """Dislikes to be expected of each list for one like, NaN of an empty one; None without a ranker of rates."""
        if self.likes is None or self.dislikes is None:
            return None
        likes, dislikes = self.likes.sums(), self.dislikes.sums()
        none = np.full(likes.size, np.nan)
        return np.asarray(np.divide(dislikes, likes, out=none, where=likes > 0))

    def table(self) -> dict[str, AnyArray]:
        """Return all lists one after the other, as columns of a table by name.

        They are the row, the column, its place from 1 and its score, and where they are known the probability of a
        like, the ends of its interval, the likes and dislikes to be expected, and the basis of the list.
        """
        return self._table(0, len(self))

    def _table(self, first: int, last: int) -> dict[str, AnyArray]:
        """Return the lists of some rows."""
        lengths = self.lengths[first:last]
        here = slice(self.columns.offsets[first], self.columns.offsets[last])
        places = np.arange(here.start, here.stop) - self.columns.offsets[first:last].repeat(lengths)
        found: dict[str, AnyArray] = {"place": places + 1, "score": self.scores.values[here]}
        if self.probabilities is not None:
            found["probability"] = self.probabilities.values[here]
        if self.intervals is not None:
            found |= {"lower": self.intervals.lower[here], "upper": self.intervals.upper[here]}
        if self.likes is not None:
            found["expected_likes"] = self.likes.values[here]
        if self.dislikes is not None:
            found["expected_dislikes"] = self.dislikes.values[here]
        if self.basis is not None:
            found["basis"] = np.repeat(self.basis[first:last], lengths)
        rows = np.repeat(self.rows[first:last], lengths)
        return with_ids(self.names, (rows, self.columns.values[here]), found)

    def blocks(self) -> Iterator[dict[str, AnyArray]]:
        """Return the table some rows at a time; at least one block."""
        cuts = np.flatnonzero(np.diff(self.columns.offsets[:-1] // BLOCK_RECORDS)) + 1
        bounds = [0, *cuts.tolist(), len(self)]
        return (self._table(first, last) for first, last in pairwise(bounds))

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        escape_formulas: bool | None = None,
        verbose: int = 0,  # noqa: ARG002 - writing takes seconds
    ) -> None:
        """Write the table to a file, some rows at a time (:meth:`tribit.answers.Answer.write`)."""
        write_blocks(path, self.blocks(), escape_formulas=escape_formulas)

    def check(self) -> None:
        """Refuse lists without a column."""
        if not self.columns.values.size:
            raise InvalidInputError(
                "The rows asked for have seen every column that may be listed, so that no list is left to write; ask "
                f"for others ({parameter('rows')})."
            )

    def facts(self) -> dict[str, str]:
        """Return the numbers of rows and listed columns, and the expected dislikes per like."""
        facts = {
            "rows": str(len(self)),
            "columns listed": f"{self.columns.values.size}{skipped_remark(self.n_skipped)}",
        }
        unknown = 0 if self.basis is None else int(np.count_nonzero(self.basis == BY_POPULARITY))
        if unknown:
            facts["nothing known of"] = f"{unknown} rows, whose lists are the most popular"
        if self.likes is not None and self.dislikes is not None and self.likes.values.sum() > 0:
            ratio = float(self.dislikes.values.sum() / self.likes.values.sum())
            facts["expected dislikes per like"] = f"{ratio:.3f}"
        return facts


@dataclass(frozen=True, eq=False)
class TopN:
    """Top-N lists of one model, any number of them: factors are copied and ids matched once.

    Attributes
    ----------
    model : Scores or Ranker
        Scores of a model of the signs, or a ranker alone.
    ranker : Ranker or None
        A ranker beside the scores.
    device : str
        Where large lists by ``x`` alone are made.
    seen : sparse array or None
        The cells of the entries, which lists leave out by default; None where they are not kept.
    prepared : callable or None
        Scores for any weight that were computed before (:mod:`tribit.serve.served_model`); None to compute them.
    n_jobs : int
        Threads of lists by ``x`` alone; the lists are the same for any number.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = [[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]]
    >>> top_n = Recommender(random_state=0).fit(A).top_n_
    >>> top_n.lists(np.array([0, 2]), 1).columns.values
    array([1, 3])
    """

    model: Scores | Ranker
    ranker: Ranker | None = None
    device: str = "cpu"
    seen: sp.csr_array | None = None
    prepared: WeighedScore | None = None
    n_jobs: int = 1

    @cached_property
    def without_ranker(self) -> TopN:
        """The same lists by the probability of a like alone."""
        return self if self.ranker is None else replace(self, ranker=None, prepared=None)

    @cached_property
    def score_for_weight(self) -> WeighedScore:
        """Scores of every column for some rows and any weight of dislikes."""
        return self.prepared or weighed_score(self.model, self.ranker)

    @cached_property
    def screening(self) -> Screening | None:
        """The factors of a model alone, which is ordered by ``x``; None beside a ranker."""
        if self.ranker is not None or not isinstance(self.model, Scores):
            return None
        return Screening.of(self.model.factors)

    @property
    def axes(self) -> Axes:
        """Rows and columns."""
        return axes_of(self.model)

    def lists(
        self,
        places: Positions,
        n: int,
        *,
        avoid_dislikes: float = 1.0,
        left_out: sp.csr_array | None = None,
        among: Positions | None = None,
    ) -> Recommendations:
        """Return the lists of rows at some positions.

        ``left_out`` has the cells that no list shows, and ``among`` the only columns that lists may show; None for all.
        """
        axes, model = self.axes, self.model
        allowed = np.full(axes.shape[1], among is None)
        allowed[() if among is None else among] = True
        n = min(check_count("n", n), int(np.count_nonzero(allowed)))
        if not n:
            raise InvalidInputError(
                f"{parameter('among')} holds no column; pass some, or leave it out for every column."
            )
        weight = check_not_negative("avoid_dislikes", avoid_dislikes)
        scores_of = model if self.ranker is None and isinstance(model, Scores) else None
        on_device = allowed.all() and lists_on_device(self, places.size * axes.shape[1])
        rates = None
        if self.screening is None:
            positions, scores, rates = best_of(
                lambda rows: self.score_for_weight(rows, weight), places, allowed, n, left_out
            )
        elif on_device:
            positions, scores = _best_on_device(self.screening.factors, places, n, left_out)
        else:
            positions, scores = self.screening.best(places, allowed, n, left_out, self.n_jobs)
        is_listed = positions >= 0
        listed = Ragged.of(positions, is_listed)
        worths: AnyArray = scores[is_listed]
        likely = None
        if scores_of is not None:
            # Ordered by x, which still tells apart what the link rounds or clips to one probability.
            worths = scores_of.log_probability(worths)
        likes = dislikes = None
        if isinstance(model, Scores):
            x = model.factors.at(places.repeat(listed.lengths), listed.values)
            likely = listed.with_values(model.probability(x))
            if scores_of is not None and model.horizon is not None:
                likes = listed.with_values(model.horizon(x))
        expected = getattr(model if self.ranker is None else self.ranker, "expected", None)
        if rates is not None and expected is not None:
            likes, dislikes = map(listed.with_values, expected(*rates[:, is_listed]))
        return Recommendations(
            axes.rows.names(places),
            listed.with_values(axes.columns.names(listed.values)),
            listed.with_values(worths),
            listed,
            likely,
            likes,
            dislikes,
        )


def recommend(
    model: object,
    rows: object,
    n: int = 10,
    *,
    exclude_seen: object = None,
    avoid_dislikes: float = 1.0,
    ranker: Ranker | None = None,
) -> Recommendations:
    """Rank the columns for each row; see :meth:`tribit.factor_model.FactorModel.recommend`.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.ranking.lists import recommend
    >>> seen = Observations.from_matrix([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(seen)
    >>> recommend(model, [0], 1, exclude_seen=seen).columns[0]
    array([2])
    """
    lists = TopN(as_scores_or_ranker(model), ranker, getattr(model, "device", "cpu"))
    axes = lists.axes
    left_out = None
    if exclude_seen is not None:
        left_out = axes.mask(read_mask(model, exclude_seen), "exclude_seen has")
    places = axes.rows.find(as_list(rows))
    return lists.lists(places, n, avoid_dislikes=avoid_dislikes, left_out=left_out)


def _best_on_device(
    factors: Factors, places: Positions, n: int, seen: sp.csr_array | None
) -> tuple[Positions, NDArray[np.float64]]:
    """Return the best columns of the rows by ``x``, and ``x``, from a GPU."""
    from tribit.backends.cuda.lists import best_columns as on_device  # noqa: PLC0415 - PyTorch

    P, Q = factors.product_factors()
    whole = places.size == P.shape[0] and bool(np.all(places == np.arange(places.size)))
    with memory_named():
        if whole:
            return on_device(P, Q, n, seen)
        return on_device(P[places], Q, n, None if seen is None else seen[places])
