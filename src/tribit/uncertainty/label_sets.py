"""Conformal sets of labels, which have the true label with a given probability for any model.

From held-out entries with scores ``s_t = 1 - P(label_t)`` and weights ``w_t``, a new entry of weight ``w`` has the set

    { y : 1 - P(y) <= s },   s the least number with   sum_t w_t 1[s_t <= s]  >=  level (w + sum_t w_t)

and all labels without such a number (Tibshirani, Foygel Barber, Candes and Ramdas 2019, "Conformal prediction under
covariate shift"). With ``w = 1`` it has the label of an entry sampled like the held-out ones with probability at least
``level``; with ``w = 1 / q_ij`` that of a cell sampled uniformly, if ``q`` is right. For a bad model the sets are
large. The probability is over held-out and new entries together, not for each row or column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError
from tribit.model.calibration import Calibrator, Identity
from tribit.model.scores import HasScores, Scores, as_scores, read_entries
from tribit.uncertainty.calibration import Target, check_level, target_weights, weigh_held_out

if TYPE_CHECKING:
    from tribit.model.risks import Missingness

Array = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LabelSets:
    """A set of labels for each of some entries.

    Attributes
    ----------
    like, dislike : array of bool
        Whether +1, and whether -1, is in the set.
    level : float
        Intended share of entries whose label is in the set.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.uncertainty import LabelSets
    >>> LabelSets(np.array([True, True]), np.array([False, True]), 0.9).lists()
    [(1,), (1, -1)]
    """

    like: Flags
    dislike: Flags
    level: float

    @property
    def size(self) -> NDArray[np.int64]:
        """Number of labels in each set: 1 is an answer, 2 is undecided, 0 is an atypical entry."""
        return self.like.astype(np.int64) + self.dislike

    def covers(self, labels: object) -> Flags:
        """Return whether each label (+1 or -1) is in its set."""
        return np.where(np.asarray(labels) > 0, self.like, self.dislike)

    def lists(self) -> list[tuple[int, ...]]:
        """Return the sets as tuples of +1 and -1."""
        return [
            (1,) * bool(like) + (-1,) * bool(dislike)
            for like, dislike in zip(self.like, self.dislike, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class _NonconformityScores:
    """Sorted scores of held-out entries, and the cumulative sums of their weights."""

    scores: Array
    sums: Array

    @classmethod
    def of(cls, scores: Array, weights: Array) -> _NonconformityScores:
        order = np.argsort(scores, kind="stable")
        return cls(scores[order], np.cumsum(weights[order]))

    def thresholds(self, level: float, weights: Array) -> Array:
        """Return the largest score in the set of a new entry of each weight; infinite where all are."""
        total = self.sums[-1] if self.sums.size else 0.0
        needed = level * (total + weights)
        # Slightly less, so that rounding of the sum does not require one more entry.
        place = np.searchsorted(self.sums, needed * (1 - 1e-12), side="left")
        return np.append(self.scores, np.inf)[place]


@dataclass(frozen=True, eq=False)
class Conformal:
    """Split-conformal sets of labels around a fitted model; made by :func:`conformal`.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.simulate import tables
    >>> from tribit.uncertainty import conformal
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> train, held_out = ratings.split(0.2, random_state=0)
    >>> model = BinaryMatrixCompletion(search=False, rank=3, random_state=0).fit(train)
    >>> conformal(model, held_out).sets(["user3"], ["comedy 72"], level=0.9).lists()
    [(1,)]
    """

    scores: Scores = field(repr=False)
    probability: Calibrator = field(repr=False)
    target: Target
    propensity: Missingness | None = field(repr=False)
    by_label: bool
    likes: _NonconformityScores = field(repr=False)
    dislikes: _NonconformityScores = field(repr=False)

    def sets(self, rows: object, columns: object, *, level: float = 0.9) -> LabelSets:
        """Return a set of labels for pairs of rows and columns.

        Parameters
        ----------
        rows, columns : array-like of equal length, or single values
            Ids where the model was fitted on ids, else positions from 0.
        level : float, default=0.9
            Probability that a set has the true label.
        """
        share = check_level(level)
        i, j = self.scores.axes.pairs(rows, columns)
        P = self.probability(self.scores.x(i, j))
        weights = target_weights(self.target, self.propensity, i, j)
        return LabelSets(
            self.likes.thresholds(share, weights) >= 1 - P,
            self.dislikes.thresholds(share, weights) >= P,
            share,
        )


def conformal(
    model: HasScores | Scores,
    held_out: object,
    *,
    propensity: Missingness | None = None,
    target: Target | None = None,
    by_label: bool = False,
    calibrator: Calibrator | None = None,
) -> Conformal:
    """Return a predictor of sets of labels that have the true one with a chosen probability.

    Parameters
    ----------
    model : fitted model or Scores
        A fitted model.
    held_out : Observations, sparse matrix or array
        A random sample of the observed entries, used by neither the fit nor the search. Matched by id where both have
        ids.
    propensity : Missingness, optional
        A model of the mask (:mod:`tribit.propensity`), for a target other than "observed".
    target : {"observed", "all", "unobserved"}, optional
        Cells for which the level holds, as in :func:`calibrate`.
    by_label : bool, default=False
        Whether the level holds for likes and for dislikes separately, and not only for both together (Vovk 2012,
        "Conditional validity of inductive conformal predictors"). The sets are larger.
    calibrator : Calibrator, optional
        Map to probabilities that replaces the link. It must not be fitted on ``held_out``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> A = np.sign(np.outer([1, -1, 1, 1, -1, -1], [1, 1, -1, 1, -1, -1]))
    >>> train, held_out = Observations.from_matrix(A).split(12, random_state=0)
    >>> model = BinaryMatrixCompletion(rank=1, l2=0.1, random_state=0).fit(train)
    >>> conformal(model, held_out).sets([0, 1], [0, 0], level=0.9).lists()
    [(1,), (-1,)]
    """
    scores = as_scores(model)
    entries = scores.place_entries(read_entries(model, held_out))
    aim, weights = weigh_held_out(scores.shape, entries, target, propensity)
    probability = Identity(scores.link) if calibrator is None else calibrator
    P = probability(scores.x(entries.rows, entries.columns))
    like = entries.labels > 0
    nonconformity = np.where(like, 1 - P, P)
    if not np.all(np.isfinite(nonconformity)):
        raise InvalidInputError(
            "The calibrator gave a probability that is not a number: fit it again."
        )
    if by_label:
        likes, dislikes = (
            _NonconformityScores.of(nonconformity[mine], weights[mine]) for mine in (like, ~like)
        )
    else:
        likes = dislikes = _NonconformityScores.of(nonconformity, weights)
    return Conformal(scores, probability, aim, propensity, by_label, likes, dislikes)
