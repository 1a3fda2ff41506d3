"""Measures of top-N lists: held-out likes found, and dislikes shown.

The list of a row has its ``n`` best columns without a training entry. Held-out likes are relevant; all other columns,
including the many without a label, are not. Measures are means over the rows with a held-out like:

    precision = likes shown / n,    recall = likes shown / held-out likes,
    NDCG = sum_{places p of likes} 1 / log2(p + 1)  /  sum_{p <= min(n, held-out likes)} 1 / log2(p + 1)

(Jarvelin and Kekalainen 2002, "Cumulated gain-based evaluation of IR techniques", with gains 0 and 1). With c_j the
number of training entries of column j, d1 rows and d2 columns, and means over all places of all lists:

    coverage = columns in at least one list / d2,    novelty = mean of -log2(max(c_j, 1) / d1),
    popularity = mean of (#{k: c_k < c_j} + #{k: c_k = c_j} / 2) / d2

(self-information and coverage: Zhou et al. 2010, "Solving the apparent diversity-accuracy dilemma of recommender
systems").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_count, check_fitted
from tribit.data.axis import Positions, first_true
from tribit.data.observations import Observations, read_entries, read_mask
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.scores import HasScores, Scores
from tribit.ranking.best_columns import best_columns
from tribit.ranking.scores import (
    Ranker,
    Score,
    as_scores_or_ranker,
    axes_of,
    is_ranker,
    model_score,
)

__all__ = ["RankingReport", "ranking_report"]


@dataclass(frozen=True)
class RankingReport:
    """Measures of the top-N lists of rows with a held-out like.

    Attributes
    ----------
    n : int
        Length of a list.
    n_users : int
        Number of rows with a held-out like.
    precision, recall, ndcg : float
        Means over these rows, as defined in the module. Precision divides by ``n`` even for a shorter list.
    likes_shown, dislikes_shown : int
        Total numbers of held-out likes and dislikes in these lists. The list of a row whose held-out entries are all
        dislikes does not count.
    dislikes_per_like : float or None
        ``dislikes_shown / likes_shown``; None without a like in the lists.
    coverage : float
        Share of all columns that are in at least one list.
    novelty : float
        Mean self-information of the places in bits: few rows have the columns of novel lists.
    popularity : float
        Mean popularity percentile of the places, from 0 to 1: the share of columns with fewer training entries.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Observations
    >>> from tribit.evaluation.ranking import ranking_report
    >>> train = Observations.from_matrix([[1, 0, 0, -1], [0, 1, -1, 0]])
    >>> test = Observations.from_matrix([[0, 1, -1, 0], [1, 0, 0, -1]])
    >>> scores = np.array([[0, 2, 1, 0], [2, 0, 0, 1]])
    >>> report = ranking_report(scores, train, test, n=1)
    >>> report.precision, report.dislikes_per_like
    (1.0, 0.0)
    """

    n: int
    n_users: int
    precision: float
    recall: float
    ndcg: float
    likes_shown: int
    dislikes_shown: int
    dislikes_per_like: float | None
    coverage: float
    novelty: float
    popularity: float


def ranking_report(
    scores: HasScores | Scores | Ranker | NDArray[Any] | Callable[[Positions], Any],
    train: object,
    held_out: object,
    n: int = 10,
    *,
    avoid_dislikes: float = 1.0,
    ranker: Ranker | None = None,
) -> RankingReport:
    """Measure the top-N lists of columns without a training entry.

    Parameters
    ----------
    scores : fitted model, Scores, Ranker, array of shape (n_rows, n_columns) or callable
        A fitted model or ranker, which ranks as in its ``recommend``. Or the scores of another system, where higher is
        better: an array, or a function from positions of rows to their scores.
    train : Observations, sparse matrix or array
        Training entries, which lists leave out.
    held_out : Observations, sparse matrix or array
        Likes and dislikes of the same matrix, none of them in ``train``. Ids are matched where there are ids.
    n : int, default=10
        Length of a list.
    avoid_dislikes : float, default=1.0
        Weight of dislikes, as in :meth:`tribit.factor_model.FactorModel.recommend`. Without a ranker it has no effect.
    ranker : Ranker, optional
        Ranker that orders the lists of a model.

    Returns
    -------
    RankingReport

    Examples
    --------
    >>> import numpy as np
    >>> train, held_out = np.array([[1, 0, 0, 0]]), np.array([[0, 1, -1, 0]])
    >>> report = ranking_report(np.array([[9.0, 2.0, 3.0, 1.0]]), train, held_out, n=2)
    >>> report.precision, report.recall, report.dislikes_per_like
    (0.5, 1.0, 1.0)
    """
    n = check_count("n", n)
    check_fitted(scores)
    seen, hidden = read_mask(scores, train), read_entries(scores, held_out)
    if isinstance(scores, Scores) or hasattr(scores, "scores_") or is_ranker(scores):
        found = as_scores_or_ranker(scores)
        axes, score = axes_of(found), model_score(found, ranker, avoid_dislikes)
    else:
        axes = seen.axes
        score = _given_score(scores, seen.shape, ranker)
    out = axes.mask(seen, "train has")
    places = axes.places(hidden, "held_out has")
    _check_held_out(places, out)
    likes = hidden.labels > 0
    if not likes.any():
        raise InvalidInputError("held_out has no like; hold out more entries.")
    users, n_likes = np.unique(places[0][likes], return_counts=True)
    shown, _ = best_columns(score, users, axes.shape[1], n, out)
    labels = labels_of_lists(shown, users, places, hidden.labels, axes.shape[1])
    counts = np.bincount(out.indices, minlength=axes.shape[1])
    return _report(shown, labels, n_likes, counts, axes.shape[0])


def by_popularity(train: Observations) -> Score:
    """Return the score of popularity: the number of likes of each column, the same for every row."""
    likes = np.bincount(train.columns[train.labels > 0], minlength=train.shape[1])
    return lambda rows: np.tile(likes.astype(np.float64), (rows.size, 1))


def _report(
    shown: Positions,
    labels: NDArray[np.int8],
    n_likes: Positions,
    counts: Positions,
    n_rows: int,
) -> RankingReport:
    """Return the measures of lists.

    Parameters
    ----------
    shown, labels : array of shape (n_lists, n)
        Columns of the lists, -1 at empty places, and their held-out labels, 0 for none.
    n_likes : array of shape (n_lists,)
        Number of held-out likes of each row.
    counts : array of shape (n_columns,)
        Number of training entries of each column.
    n_rows : int
        Number of all rows, with a list or without.
    """
    n = labels.shape[1]
    hits = np.count_nonzero(labels > 0, axis=1)
    found, disliked = int(hits.sum()), int(np.count_nonzero(labels < 0))
    places = shown[shown >= 0]
    return RankingReport(
        n=n,
        n_users=int(n_likes.size),
        precision=float(np.mean(hits / n)),
        recall=float(np.mean(hits / n_likes)),
        ndcg=float(np.mean(ndcg_of_lists(labels, n_likes))),
        likes_shown=found,
        dislikes_shown=disliked,
        dislikes_per_like=disliked / found if found else None,
        coverage=np.unique(places).size / counts.size,
        novelty=float(np.mean(-np.log2(np.maximum(counts, 1) / n_rows)[places])),
        popularity=float(np.mean(popularity_percentiles(counts)[places])),
    )


def popularity_percentiles(counts: Positions) -> NDArray[np.float64]:
    """Return the percentile of each column by its number of entries, from 0 to 1; equal numbers have their mean."""
    _, place, sizes = np.unique(counts, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(sizes) - 0.5 * sizes)[place] / counts.size)


def ndcg_of_lists(labels: NDArray[np.int8], n_likes: Positions) -> NDArray[np.float64]:
    """Return the NDCG of each list from its labels and the number of held-out likes of its row."""
    discounts = 1.0 / np.log2(np.arange(labels.shape[1]) + 2.0)
    ideal = np.cumsum(discounts)[np.minimum(n_likes, labels.shape[1]) - 1]
    return np.asarray((labels > 0) @ discounts / ideal)


def labels_of_lists(
    shown: Positions,
    users: Positions,
    places: tuple[Positions, Positions],
    labels: NDArray[np.int8],
    n_columns: int,
) -> NDArray[np.int8]:
    """Return the held-out label at each place of the lists, 0 for none."""
    keys = places[0] * n_columns + places[1]
    order = np.argsort(keys)
    keys, labels = keys[order], labels[order]
    # An empty place (-1) would be the last column of the row before.
    wanted = np.where(shown < 0, -1, users[:, None] * n_columns + shown)
    found = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[found] == wanted, labels[found], 0).astype(np.int8)


def _given_score(scores: Any, shape: tuple[int, int], ranker: Ranker | None) -> Score:
    if ranker is not None:
        raise InvalidInputError("A ranker needs a model; add its scores to the array yourself.")
    if callable(scores):
        return scores  # type: ignore[no-any-return]
    array = np.asarray(scores)
    if array.dtype.kind not in "iufb":
        raise InvalidTypeError(
            f"scores is of type {type(scores).__name__}; pass a fitted model, an array or a function."
        )
    if array.shape != shape:
        raise InvalidInputError(
            f"scores has the shape {array.shape} and train {shape}; give every entry a score."
        )
    return lambda rows: array[rows]


def _check_held_out(places: tuple[Positions, Positions], seen: Any) -> None:
    """Refuse held-out entries with unknown ids or among the training entries."""
    rows, columns = places
    if (lost := first_true((rows < 0) | (columns < 0))) is not None:
        raise InvalidInputError(
            f"The held-out entry {lost} has an id that the scores do not know; hold out entries "
            "(Observations.split or folds), not rows or columns."
        )
    if (both := int(np.count_nonzero(seen[rows, columns]))) > 0:
        raise InvalidInputError(
            f"{both} held-out entries are also in train, and lists leave them out; split the entries."
        )
