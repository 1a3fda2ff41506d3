"""Class prior and label frequency of a matrix whose entries are the examples.

The features of an entry are the shares of likes in its row and its column, and the entry of the best low-rank
approximation of the observed likes. All three are cross-fitted: they come from the likes of other folds.

The estimates need features that separate likes from dislikes almost perfectly: strong blocks of taste and enough likes
in each row and column. Otherwise the label frequency is too low (``rho`` too high) and the prior too high; on ratings
such as MovieLens, with noisy tastes and self-selected films, the numbers are bounds at best. If dislikes are observed
and missing as often as likes, the share of unobserved entries is a better estimate of ``rho``.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_count
from tribit.data.observations import Observations, as_observations
from tribit.data.rules import TableRules
from tribit.errors import InvalidInputError
from tribit.paper.classification.priors import Method, class_prior, label_frequency
from tribit.paper.classification.risks import Array
from tribit.randomness import RandomState, fold_numbers, generator
from tribit.simulate.sampling import all_at_once

Positions = NDArray[np.int64]


#: Smallest number of likes for which the share of likes can be estimated.
MIN_LIKES = 50


def matrix_label_frequency(
    observations: object,
    *,
    method: Method = "e1",
    rank: int = 5,
    n_entries: int = 10_000,
    n_folds: int = 5,
    random_state: RandomState = None,
) -> float:
    """Estimate ``c = P(seen | like) = 1 - rho`` by :func:`~tribit.paper.classification.label_frequency` on entries.

    Parameters
    ----------
    observations : Observations, or a matrix as in :meth:`tribit.Observations.from_matrix`
        Only the likes are used; every other entry counts as unlabelled.
    method : {"e1", "e2", "e3"}, default="e1"
        As in :func:`~tribit.paper.classification.label_frequency`.
    rank : int, default=5
        Rank of the approximation.
    n_entries : int, default=10000
        Largest number of entries, sampled from the whole matrix.
    n_folds : int, default=5
        Folds, both of the features and of the estimate.
    random_state : int, Generator, RandomState or None
        Seed of the entries and the folds.

    Returns
    -------
    float
        In (0, 1]; see the module for its assumptions.

    Examples
    --------
    >>> from tribit.paper.classification import matrix_label_frequency
    >>> matrix_label_frequency(seen, random_state=0)  # doctest: +SKIP
    """
    likes = _likes(observations, check_count("n_folds", n_folds, 2))
    draws = generator(random_state)
    keys = _some_keys(likes, n_entries, draws)
    features = entry_features(likes, keys, rank=rank, n_folds=n_folds, draws=draws)
    labels = np.isin(keys, _keys(likes)).astype(np.int64)
    return label_frequency(features, labels, method=method, n_folds=n_folds, random_state=draws)


def matrix_class_prior(
    observations: object,
    *,
    rank: int = 5,
    n_entries: int = 10_000,
    n_folds: int = 5,
    random_state: RandomState = None,
) -> float:
    """Estimate the share of likes in the whole matrix, seen or not, by :func:`class_prior`.

    The parameters are those of :func:`matrix_label_frequency`. The unlabelled examples are sampled from all
    entries, the positives are the observed likes among the rest, at most as many. ``P(seen | like)`` is the share of
    observed likes over the estimate. At least 50 likes are needed.

    Examples
    --------
    >>> from tribit.paper.classification import matrix_class_prior
    >>> matrix_class_prior(seen, random_state=0)  # doctest: +SKIP
    """
    likes = _likes(observations, check_count("n_folds", n_folds, 2))
    if likes.n_observed < MIN_LIKES:
        raise InvalidInputError(
            f"The observations hold {likes.n_observed} likes, and the share of likes needs {MIN_LIKES} to be "
            "estimated: observe more, or pass a known share."
        )
    draws = generator(random_state)
    keys = _some_keys(likes, n_entries, draws)
    if keys.size == likes.shape[0] * likes.shape[1]:
        # Half of all entries leaves likes for the positives.
        keys = np.sort(draws.permutation(keys)[: keys.size // 2])
    positives = np.setdiff1d(_keys(likes), keys)
    positives = np.sort(draws.permutation(positives)[: keys.size])
    features = entry_features(
        likes, np.append(positives, keys), rank=rank, n_folds=n_folds, draws=draws
    )
    labels = np.repeat([1, 0], [positives.size, keys.size])
    return class_prior(features, labels, n_folds=n_folds, random_state=draws)


def entry_features(
    likes: Observations, keys: Positions, *, rank: int, n_folds: int, draws: np.random.Generator
) -> Array:
    """Return three features of each entry ``key = row * n_columns + column``, each of deviation 1; see the module."""
    rank = check_count("rank", rank)
    n_rows, n_columns = likes.shape
    fold_of_like = fold_numbers(likes.n_observed, check_count("n_folds", n_folds, 2), draws)
    fold = draws.integers(n_folds, size=keys.size)
    seen = _keys(likes)
    place = np.minimum(np.searchsorted(seen, keys), seen.size - 1)
    fold = np.where(seen[place] == keys, fold_of_like[place], fold)
    rows, columns = np.divmod(keys, n_columns)
    features = np.zeros((keys.size, 3))
    for part in range(n_folds):
        kept = fold_of_like != part
        position = likes.rows[kept], likes.columns[kept]
        mask = sp.csr_array((np.ones(int(kept.sum())), position), shape=likes.shape)
        here = fold == part
        i, j = rows[here], columns[here]
        features[here, 0] = np.asarray(mask.sum(axis=1)).ravel()[i] / n_columns
        features[here, 1] = np.asarray(mask.sum(axis=0)).ravel()[j] / n_rows
        features[here, 2] = _low_rank_at(mask, rank, i, j, draws)
    deviation = features.std(axis=0)
    return np.asarray(features / np.where(deviation > 0.0, deviation, 1.0))


@single_threaded_blas()
def _low_rank_at(
    mask: sp.csr_array, rank: int, i: Positions, j: Positions, draws: np.random.Generator
) -> Array:
    """Return the entries of the best approximation of that rank, without making it."""
    start = draws.standard_normal(min(mask.shape))
    if min(mask.shape) < 3 or mask.nnz == 0:
        return np.zeros(i.size)
    left, values, right = svds(mask, k=min(rank, min(mask.shape) - 1), v0=start)
    return np.asarray(np.einsum("tk,k,kt->t", left[i], values, right[:, j]))


def _likes(observations: object, n_folds: int) -> Observations:
    given = as_observations(observations, TableRules(zeros="unobserved"))
    found = np.flatnonzero(given.labels > 0)
    if found.size < n_folds:
        raise InvalidInputError(
            f"The observations hold {found.size} like(s), fewer than n_folds = {n_folds}: observe more likes, or "
            "pass fewer folds (at least 2)."
        )
    return given.take(found)


def _keys(observations: Observations) -> Positions:
    """Return ``row * n_columns + column`` of each observed entry, increasing."""
    rows = observations.rows.astype(np.int64)
    return np.asarray(rows * observations.shape[1] + observations.columns)


def _some_keys(likes: Observations, n_entries: int, draws: np.random.Generator) -> Positions:
    """Return at most ``n_entries`` different entries of the matrix, increasing."""
    size = likes.shape[0] * likes.shape[1]
    if check_count("n_entries", n_entries, 4) >= size:
        return np.arange(size, dtype=np.int64)
    cells = all_at_once(likes.shape, int(n_entries), random_state=draws)
    return np.sort(cells.rows.astype(np.int64) * likes.shape[1] + cells.columns)
