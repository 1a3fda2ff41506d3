"""Full-ranking evaluation of positive-only data: held-out likes against every unobserved cell.

Where only likes were observed there are no dislikes to rank them against. A held-out like should rank above the
unobserved cells: all of them, since a sample of easy ones would flatter the model. Scores are counted in narrow bins,
block by block, so that no matrix is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.metrics.entries import area_under_curve, label_weights

if TYPE_CHECKING:
    from tribit.model.factors import Factors
    from tribit.model.scores import PlacedEntries, Scores

__all__ = ["UnseenReport", "scores_among_unobserved", "unseen_report"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]
#: Function from ``x`` of a block, and the rows it is of, to the scores that are ranked.
Transform = Callable[[Array, Positions], Array]

#: Number of bins, and the log-odds up to which they reach: each is 0.002 wide, and what is beyond is in the last one.
N_BINS, MAX_LOG_ODDS = 2**15, 32.0
#: Scores in memory at once.
BLOCK_SCORES = 2**20


@dataclass(frozen=True)
class UnseenReport:
    """Measures of held-out entries among all unseen cells.

    Attributes
    ----------
    n_entries : int
        How many entries were held out.
    n_unseen : int
        How many other cells they stand against: all that are in neither part.
    auc : float
        Probability that a held-out like is ranked above an unseen cell (a held-out dislike below it).
    average_precision : float
        Mean, over the held-out likes, of the share of likes among the cells ranked no lower.
    tenths : tuple of (float, float)
        Numbers of expected and of held-out likes in ten groups of cells with equal expected numbers, the least probable
        cells first. Empty for a model without a calibrated expectation (:attr:`tribit.model.scores.Scores.horizon`).

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations, evaluate
    >>> likes = [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1]]
    >>> train = Observations.from_matrix(likes, zeros="unobserved")
    >>> test = Observations.from_pairs([1], [1], [1], shape=(3, 4))
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(train)
    >>> evaluate(model, test, train).unseen.n_unseen
    6
    """

    n_entries: int
    n_unseen: int
    auc: float
    average_precision: float
    tenths: tuple[tuple[float, float], ...] = ()


def unseen_report(scores: Scores, train: PlacedEntries, held_out: PlacedEntries) -> UnseenReport:
    """Measure how a model ranks held-out likes (or dislikes) among all cells that it has not seen.

    Parameters
    ----------
    scores : Scores
        Those of a fitted model.
    train : PlacedEntries
        The entries that it was fitted on, at its positions (:meth:`tribit.model.scores.Scores.place_entries`).
    held_out : PlacedEntries
        Entries of one label, none of them in ``train``.

    Returns
    -------
    UnseenReport

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> A = np.kron(np.eye(2, dtype=int), np.ones((6, 5), dtype=int))
    >>> train, held_out = Observations.from_matrix(A, zeros="unobserved").hold_out(np.arange(60) == 0)
    >>> scores = BinaryMatrixCompletion(rank=2, l2=1.0, random_state=0).fit(train).scores_
    >>> unseen_report(scores, scores.place_entries(train), scores.place_entries(held_out)).auc
    1.0
    """
    rows, columns, labels = held_out.rows, held_out.columns, held_out.labels
    if not labels.size:
        raise InvalidInputError(
            "No test entry has a row and a column that the model was fitted on, and entries of one label are ranked "
            "among their cells; give entries of known rows and columns."
        )
    if labels.min() != labels.max():
        raise InvalidInputError(
            "held_out must have entries of one label alone, likes or dislikes; use tribit.evaluate for both."
        )
    seen = _ones(train.rows, train.columns, scores.shape)
    if both := int(np.count_nonzero(seen[rows, columns])):
        raise InvalidInputError(f"{both} held-out entries are in train too; split the entries.")
    hidden = _ones(rows, columns, scores.shape)
    x, found, weights = _rank_among(
        scores.factors,
        seen + hidden,
        hidden,
        int(labels[0]),
        unit=scores.link.level(0.75),
        transform=lambda block, _: scores.clip(block),
    )
    n = labels.size
    groups: tuple[tuple[float, float], ...] = ()
    if scores.horizon is not None and labels[0] > 0:
        expected = weights * scores.expected_likes(x, n / train.labels.size)
        groups = tenths(x, expected, np.where(found > 0, weights, 0.0))
    liked, unseen = label_weights(x * labels[0], found == labels[0], weights)
    return UnseenReport(
        n_entries=n,
        n_unseen=int(weights[n:].sum()),
        auc=area_under_curve(liked, unseen),
        average_precision=average_precision(liked, unseen),
        tenths=groups,
    )


def tenths(x: Array, expected: Array, found: Array) -> tuple[tuple[float, float], ...]:
    """Return sums of both in ten groups of rising ``x`` with about a tenth of the expected sum each."""
    order = np.argsort(x, kind="stable")
    before = np.cumsum(expected[order]) - expected[order]
    group = np.minimum(10.0 * before / max(float(np.sum(expected)), 1e-300), 9.0).astype(np.intp)
    sums = (np.bincount(group, each[order], 10).tolist() for each in (expected, found))
    return tuple(zip(*sums, strict=True))


def average_precision(liked: Array, others: Array) -> float:
    """Return the mean over the likes of the share of likes ranked no lower, from weights at rising scores."""
    from_top = liked[::-1]
    precision = np.cumsum(from_top) / np.cumsum(from_top + others[::-1])
    return float(from_top @ precision / liked.sum())


def scores_among_unobserved(
    factors: Factors,
    seen: Observations,
    held_out: Observations | None,
    *,
    unit: float,
    transform: Transform | None = None,
) -> tuple[Array, NDArray[np.int8], Array]:
    """Return scores, labels and weights of held-out entries of one label and, with the other, of all unseen cells.

    Parameters
    ----------
    factors : Factors
        Their product is the score.
    seen, held_out : Observations
        The entries that are left out, and those that are to be found; None for unseen cells alone.
    unit : float
        ``f^-1(0.75)``, the scale of scores.
    transform : callable, optional
        Score of a block, given its product and its rows.

    Returns
    -------
    scores, labels, weights : array
        First the held-out entries by rows, then the bins of unseen cells with their counts as weights.
    """
    hidden, label = csr_array(seen.shape), 1
    if held_out is not None:
        hidden = _ones(held_out.rows, held_out.columns, seen.shape)
        label = int(held_out.labels[0])
    if not seen.is_remote:
        known = _ones(seen.rows, seen.columns, seen.shape) + hidden
        return _rank_among(factors, known, hidden, label, unit=unit, transform=transform)
    # Each part of the rows counts its own cells; what is held out goes there with its numbers.
    hidden.data = np.arange(1.0, hidden.nnz + 1)
    scale = _scale(unit)
    P, Q = (part.astype(np.float32) for part in factors.product_factors())
    options = {"Q": Q, "scale": scale, "transform": transform}
    found, counts = seen.by_rows(count_part, (P, hidden), 8 * N_BINS, **options)
    listed = np.empty(hidden.nnz, dtype=np.intp)
    for numbers, places in found:
        listed[numbers] = places
    return _as_weighted_entries(listed, counts, label, scale)


def _rank_among(
    factors: Factors,
    known: csr_array,
    hidden: csr_array,
    label: int,
    *,
    unit: float,
    transform: Transform | None,
) -> tuple[Array, NDArray[np.int8], Array]:
    """Count the scores of the cells that are not ``known``, and list those of the hidden ones."""
    P, Q = (part.astype(np.float32) for part in factors.product_factors())
    scale = _scale(unit)
    rows = np.arange(P.shape[0])
    counts, listed = _count_in_bins(P, Q, known, hidden, rows, scale, transform)
    return _as_weighted_entries(listed, counts, label, scale)


def _scale(unit: float) -> np.float32:
    """Return bins in a score of 1. Log-odds of 3 to 1 are log 3: in such units REACH means the same for every link."""
    return np.float32(N_BINS / (2.0 * MAX_LOG_ODDS) * np.log(3.0) / unit)


def count_part(
    entries: Observations,
    rows: Positions,
    P: Array,
    hidden: csr_array,
    *,
    Q: Array,
    scale: np.float32,
    transform: Transform | None,
) -> tuple[tuple[Positions, Positions], Positions]:
    """Return the numbers of the hidden cells in some rows and their bins, and how many others are in each bin."""
    known = _ones(entries.rows, entries.columns, entries.shape) + hidden
    counts, listed = _count_in_bins(P, Q, known, hidden, rows, scale, transform)
    return (hidden.data.astype(np.intp) - 1, listed), counts


def _count_in_bins(
    P: Array,
    Q: Array,
    known: csr_array,
    hidden: csr_array,
    whole_rows: Positions,
    scale: np.float32,
    transform: Transform | None,
) -> tuple[Positions, Positions]:
    """Return how many cells that are not ``known`` are in each bin, and the bins of the hidden ones by rows."""
    counts = np.zeros(N_BINS, dtype=np.int64)
    listed = [np.zeros(0, dtype=np.intp)]
    step = max(1, BLOCK_SCORES // max(Q.shape[0], 1))
    for start in range(0, P.shape[0], step):
        rows = slice(start, min(start + step, P.shape[0]))
        x = P[rows] @ Q.T
        if transform is not None:
            x = np.asarray(transform(x, whole_rows[rows]))
        place = np.clip(x * scale + np.float32(N_BINS / 2), 0, N_BINS - 1).astype(np.intp)
        counts += np.bincount(place.ravel(), minlength=N_BINS)
        counts -= np.bincount(place[_places(known[rows])], minlength=N_BINS)
        # In the same bins, so that a tie there is a tie and what is beyond the last has no advantage.
        listed.append(place[_places(hidden[rows])])
    return counts, np.concatenate(listed)


def _as_weighted_entries(
    listed: Positions, counts: Positions, label: int, scale: np.float32
) -> tuple[Array, NDArray[np.int8], Array]:
    """Return scores, labels and weights of hidden cells and of the bins of all others."""
    filled = np.flatnonzero(counts)
    scores = (np.concatenate([listed, filled]) + 0.5 - N_BINS / 2) / float(scale)
    labels = np.full(scores.size, -label, dtype=np.int8)
    labels[: listed.size] = label
    weights = np.concatenate([np.ones(listed.size), counts[filled]]).astype(np.float64)
    return scores, labels, weights


def _ones(rows: Positions, columns: Positions, shape: tuple[int, int]) -> csr_array:
    found = csr_array((np.ones(rows.size), (rows, columns)), shape=shape)
    found.sort_indices()
    return found


def _places(part: csr_array) -> tuple[Positions, Positions]:
    return np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices
