"""Scores that order the columns of a list: those of a model of the labels, of a ranker, or of both.

    x_ij                                            a model alone
    q_ij v_ij if v_ij > 0 else v_ij                 a ranker of rates, with a model or alone

where l and d are the rates of likes and dislikes, ``q = l + d`` and ``v = p - w (1 - p)``. For a ranker alone
``p = l / q``; beside a model ``logit p`` is the mean of the two log-odds, since each lacks information that the other
has. ``q v`` is the expected likes less w times the expected dislikes, so that the best n are the best list of length n
for a user who gives up w likes to avoid a dislike; w is the multiplier of a bound on dislikes (as in Neyman and
Pearson 1933, "On the problem of the most efficient tests of statistical hypotheses"). Columns with v < 0 are ordered by
p alone, as are all columns when w is large: by q v the columns of least exposure would fill up the list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tribit.checks import check_fitted, check_not_negative
from tribit.data.axis import AnyArray, Axes, Positions
from tribit.errors import InvalidTypeError
from tribit.model.scores import Scores, as_scores
from tribit.ranking.rates import MAX_LOG_RATE

__all__ = [
    "Ranker",
    "RateParts",
    "Rated",
    "Score",
    "WeighedScore",
    "as_scores_or_ranker",
    "axes_of",
    "is_ranker",
    "model_score",
    "rate_parts",
    "weighed_score",
    "worth",
]

Array = NDArray[np.floating[Any]]


class Rated(NamedTuple):
    """Scores of every column with the rates of likes and dislikes that they weigh, each (n_rows, n_columns)."""

    scores: Array
    likes: Array
    dislikes: Array


class RateParts(NamedTuple):
    """Exposure q, and p and 1 - p, of every column, each (n_rows, n_columns): no weight is in them."""

    rate: Array
    like: Array
    dislike: Array


#: Function from rows to the scores of every column: an array of shape (n_rows, n_columns), or with their rates.
Score: TypeAlias = Callable[[Positions], Array | Rated]
#: The same for any weight of dislikes, which is its second argument.
WeighedScore: TypeAlias = Callable[[Positions, float], Array | Rated]


@runtime_checkable
class Ranker(Protocol):
    """Rates at which entries become likes and dislikes, for any rows and every column.

    Only their ratios within a row count, so the unit of a rate is free. A ranker with a method ``expected``, as
    :meth:`tribit.ranking.CandidateRanker.expected`, has the expected likes and dislikes of each place as well.

    Examples
    --------
    >>> from tribit.ranking import CandidateRanker, Ranker
    >>> isinstance(CandidateRanker(), Ranker)
    False
    """

    @property
    def shape_(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        ...

    @property
    def row_ids_(self) -> AnyArray | None:
        """The user's ids of the rows."""
        ...

    @property
    def column_ids_(self) -> AnyArray | None:
        """The user's ids of the columns."""
        ...

    def log_rates(self, rows: Positions) -> tuple[Array, Array]:
        """Return the logarithms of the rates of likes and of dislikes of the rows at these positions.

        Each has the shape (n_rows, n_columns). Dislikes at ``-inf`` mean that the ranker knows of none.
        """
        ...


def is_ranker(model: object) -> TypeGuard[Ranker]:
    """Return whether something, fitted or not, is a ranker of rates."""
    return callable(getattr(model, "log_rates", None))


def as_scores_or_ranker(model: Any) -> Scores | Ranker:
    """Return a ranker of rates as it is, and the scores of any other fitted model."""
    if not is_ranker(model):
        return as_scores(model)
    check_fitted(model)
    return model


def axes_of(model: Scores | Ranker) -> Axes:
    """Return rows and columns."""
    return model.axes if isinstance(model, Scores) else Axes.of_model(model)


def model_score(model: Scores | Ranker, ranker: Ranker | None, avoid_dislikes: float) -> Score:
    """Return the score that orders the columns of each row, as above."""
    weight = check_not_negative("avoid_dislikes", avoid_dislikes)
    score = weighed_score(model, ranker)
    return lambda places: score(places, weight)


def weighed_score(model: Scores | Ranker, ranker: Ranker | None) -> WeighedScore:
    """Return the same for any weight: factors are copied and ids matched once, for all the lists of a service."""
    parts = rate_parts(model, ranker)
    if parts is not None or not isinstance(model, Scores):
        assert parts is not None
        return lambda places, weight: worth(parts(places), weight)
    judge = _entries(model)
    return lambda places, _: judge(places)


def rate_parts(
    model: Scores | Ranker, ranker: Ranker | None
) -> Callable[[Positions], RateParts] | None:
    """Return the components of the scores of a ranker, with a model or alone; None for a model alone."""
    if not isinstance(model, Scores):
        if ranker is not None:
            raise InvalidTypeError(
                "A ranker that recommends takes no second ranker: call recommend of the model of the labels."
            )
        return _rates_alone(model)
    if ranker is None:
        return None
    return _judged_rates(model, ranker, _ranker_places(model, ranker))


def _rates_alone(ranker: Ranker) -> Callable[[Positions], RateParts]:
    def parts(places: Positions) -> RateParts:
        log_likes, log_dislikes = ranker.log_rates(places)
        return _parts(log_likes, log_dislikes, log_likes - log_dislikes)

    return parts


def _judged_rates(
    scores: Scores, ranker: Ranker, places: tuple[Positions, Positions]
) -> Callable[[Positions], RateParts]:
    judge = _entries(scores)
    # The ranker's columns in their own order need no copy.
    rows, columns = places
    same = bool(np.array_equal(columns, np.arange(ranker.shape_[1])))

    def parts(positions: Positions) -> RateParts:
        log_likes, log_dislikes = ranker.log_rates(rows[positions])
        if not same:
            log_likes, log_dislikes = log_likes[:, columns], log_dislikes[:, columns]
        x = judge(positions)
        odds = scores.log_odds(x)
        known = log_dislikes > -np.inf  # where it knows of no dislike the ranker has no opinion
        np.add(odds, log_likes - log_dislikes, out=odds, where=known)
        odds[known] /= 2
        return _parts(log_likes, log_dislikes, odds)

    return parts


def _parts(log_likes: Array, log_dislikes: Array, odds: Array) -> RateParts:
    # Nearly separable tables have rates beyond any number; above the bound columns are alike.
    rate = np.exp(np.minimum(log_likes, MAX_LOG_RATE)) + np.exp(
        np.minimum(log_dislikes, MAX_LOG_RATE)
    )
    return RateParts(rate, expit(odds), expit(-odds))


def worth(parts: RateParts, weight: float) -> Rated:
    """Return ``q v`` where ``v > 0``, else ``v``; with ``q p`` and ``q (1 - p)``."""
    rate, like, dislike = parts
    value = like - weight * dislike
    return Rated(np.where(value > 0, rate * value, value), rate * like, rate * dislike)


def _ranker_places(scores: Scores, ranker: object) -> tuple[Positions, Positions]:
    """Return where the ranker has each row and column of the model."""
    if not is_ranker(ranker):
        raise InvalidTypeError(
            f"ranker is of type {type(ranker).__name__}; pass a fitted CandidateRanker, or None."
        )
    check_fitted(ranker)
    return scores.axes.within(Axes.of_model(ranker), "ranker")


def _entries(scores: Scores) -> Callable[[Positions], Array]:
    """Return the function that gives ``x`` of some rows for every column, in float64."""
    P, Q = (side.astype(np.float64) for side in scores.factors.product_factors())
    by_factor = np.ascontiguousarray(Q.T)

    def x(rows: Positions) -> Array:
        # Not a matrix product, whose last bits differ with the number of rows: a row's list would, too.
        found = np.empty((rows.size, by_factor.shape[1]))
        for weights, out in zip(P[rows], found, strict=True):
            np.einsum("f,fj->j", weights, by_factor, out=out)
        return found

    return x
