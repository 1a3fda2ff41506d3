"""Scores of a fitted model, which predictions, top-N lists and evaluations use.

    x_ij = u_i . v_j + b + a_i + c_j,        P(like) = f(x_ij), or that of a calibrator

Every system has them: a fitted :class:`tribit.BinaryMatrixCompletion`, the systems of the paper and the baselines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from tribit.checks import check_fitted
from tribit.data.axis import Axes, Positions
from tribit.data.observations import Observations, read_entries
from tribit.data.times import Times, times_at
from tribit.data.weights import weights_at, weights_or_ones
from tribit.display import Summarised
from tribit.errors import InvalidTypeError
from tribit.metrics.entries import ByProbability, Curve
from tribit.model.calibration import Calibrator, Isotonic
from tribit.model.factors import Factors
from tribit.model.horizon import HORIZON
from tribit.model.links import Link

__all__ = ["HasScores", "PlacedEntries", "Scores", "as_scores", "read_entries"]

Array = NDArray[np.floating[Any]]

#: The events that likes alone and dislikes alone identify, in a new draw of the whole table.
SEEN_AND_LIKED, NOT_SEEN_AND_DISLIKED = (
    "a cell being seen and liked",
    "a cell not being seen and disliked",
)


def probability_name(meaning: str) -> str:
    """Return the short name of the probability of an event, such as ``P(like)``."""
    if meaning.startswith(SEEN_AND_LIKED):
        return "P(seen and liked)"
    return "P(not seen and disliked)" if meaning.startswith(NOT_SEEN_AND_DISLIKED) else "P(like)"


class PlacedEntries(NamedTuple):
    """Observed entries by positions in a model; unknown rows and columns have distinct positions after its own.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.scores_.place_entries(Observations.from_matrix([[1, 0], [0, -1]])).labels
    array([ 1, -1], dtype=int8)
    """

    rows: Positions
    columns: Positions
    labels: NDArray[np.int8]
    weights: NDArray[np.float64] | None = None
    times: Times | None = None

    def known(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Return the mask of entries whose row and column are known."""
        return (self.rows < shape[0]) & (self.columns < shape[1])

    def take(self, chosen: NDArray[np.bool_]) -> PlacedEntries:
        """Return some of the entries."""
        own = weights_at(self.weights, chosen), times_at(self.times, chosen)
        return PlacedEntries(self.rows[chosen], self.columns[chosen], self.labels[chosen], *own)

    @property
    def weights_or_ones(self) -> NDArray[np.float64]:
        """The weight of each entry."""
        return weights_or_ones(self.weights, self.labels.size)

    def observations(self, axes: Axes) -> Observations:
        """Return the entries as observations of a matrix with these axes."""
        given = self.rows, self.columns, self.labels, axes.shape, axes.rows.ids, axes.columns.ids
        return Observations(*given, self.weights, self.times)


class WithUnseen(Protocol):
    """A fit that can predict unknown rows and columns."""

    @property
    def factors_with_unseen(self) -> Factors:
        """Factors with one more row and one more column, which stand for unknown ones."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Summarised):
    """The score ``x`` of every cell and the probability of a like at it.

    Attributes
    ----------
    axes : Axes
        Rows and columns with the user's ids.
    factors : Factors
        Factors and biases, whose product is ``x``.
    link : Link
        The link of the model.
    calibrator : Calibrator or None
        The map from ``x`` to a probability; None for the link.
    bounds : (float, float) or None
        Range to which scores are clipped, for a system that predicts ratings.
    horizon : Isotonic or None
        The map from ``x`` to the probability that an unobserved cell becomes a like within the horizon, for likes alone
        (:class:`tribit.model.fitted.Fitted`).
    source : WithUnseen or None
        The fit, for scores of unknown rows and columns; None if it has none.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.scores_.link
    Logistic(scale=1.0)
    """

    axes: Axes
    factors: Factors
    link: Link
    calibrator: Calibrator | None = None
    bounds: tuple[float, float] | None = None
    horizon: Isotonic | None = None
    source: WithUnseen | None = None

    def facts(self) -> dict[str, str]:
        """Return shape, rank and probabilities."""
        calibrator = "none" if self.calibrator is None else self.calibrator.name
        link = type(self.link).__name__
        return {**self.factors.facts(), "link": link, "calibrator": calibrator}

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.axes.shape

    @cached_property
    def curve(self) -> Curve:
        """The calibrator, or the link without one."""
        return self.link if self.calibrator is None else ByProbability(self.calibrator)

    def x(self, rows: Positions, columns: Positions) -> Array:
        """Return the scores at pairs of positions, in float64."""
        return self.clip(self.factors.at(rows, columns))

    def x_of(self, entries: PlacedEntries) -> Array:
        """Return the scores of entries: with an unknown row or column, from the biases of the other one."""
        rows, columns = entries.rows, entries.columns
        if self.source is None or entries.known(self.shape).all():
            return self.x(rows, columns)
        n_rows, n_columns = self.shape
        places = np.minimum(rows, n_rows), np.minimum(columns, n_columns)
        return self.clip(self.source.factors_with_unseen.at(*places))

    def block(self, rows: object, columns: object) -> Array:
        """Return the scores of some rows at some columns, positions or slices, as a dense block in float64."""
        return self.clip(self.factors.block(rows, columns))

    def clip(self, x: Array) -> Array:
        """Return scores clipped to the bounds."""
        return x if self.bounds is None else np.asarray(np.clip(x, *self.bounds))

    def probability(self, x: Array) -> Array:
        """Return the probability of a like at scores."""
        return self.curve.probability(x)

    def expected_likes(self, x: Array, growth: float = HORIZON) -> Array:
        """Return the probability that unobserved cells become likes while the table grows by a share of its entries.

        For likes alone, where ``horizon`` is known; in proportion to the growth, and at most 1.
        """
        assert self.horizon is not None
        return np.asarray(np.minimum(self.horizon(x) * (growth / HORIZON), 1.0))

    def log_probability(self, x: Array) -> Array:
        """Return ``log P(like)`` at scores."""
        if self.calibrator is None:
            # Accurate in the tail, where the probability rounds to 0.
            return np.asarray(-self.link.loss(x, 1))
        with np.errstate(divide="ignore"):  # a calibrator may return 0
            return np.asarray(np.log(self.probability(x)))

    def log_odds(self, x: Array) -> Array:
        """Return ``log P(like) - log P(dislike)`` at scores."""
        if self.calibrator is None:
            return np.asarray(self.link.log_odds(x))
        return np.asarray(logit(self.probability(x)))

    def place_entries(self, entries: Observations, unknown: str = "error") -> PlacedEntries:
        """Return observed entries by positions in the model.

        An unknown row or column is an error if ``unknown`` is "error", if there are no scores for it, and if it is
        known in another type, such as 7 for "7".
        """
        advice = "hold out entries (Observations.split or folds), not rows"
        found = []
        for axis, theirs, places, given in zip(
            self.axes,
            entries.axes,
            self.axes.places(entries, "the test entries have", advice),
            (entries.rows, entries.columns),
            strict=True,
        ):
            strangers = theirs.names(np.unique(given[places < 0])).tolist()
            if unknown != "error" and self.source is not None:
                strangers = [each for each in strangers if str(each) in axis.by_text]
            axis.find(strangers)  # raises an error about the first one
            found.append(np.where(places < 0, axis.size + given, places))
        return PlacedEntries(found[0], found[1], entries.labels, entries.weights, entries.times)


class HasScores(Protocol):
    """A fitted estimator with scores."""

    @property
    def scores_(self) -> Scores:
        """The scores of the fit."""
        ...


def as_scores(model: HasScores | Scores) -> Scores:
    """Return the scores of a fitted estimator, or scores as they are."""
    if isinstance(model, Scores):
        return model
    check_fitted(model)
    found = getattr(model, "scores_", None)
    if not isinstance(found, Scores):
        raise InvalidTypeError(
            f"model is of type {type(model).__name__}; pass a fitted BinaryMatrixCompletion or another system."
        )
    return found
