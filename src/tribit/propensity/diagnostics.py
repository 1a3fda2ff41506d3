"""Diagnostics of propensity models: calibration, inverse-propensity weights and effective sample size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from tribit.checks import check_count
from tribit.data.observations import Observations
from tribit.errors import InvalidTypeError
from tribit.metrics.reliability import Reliability
from tribit.model.risks import Missingness
from tribit.propensity.model import MaskModel, check_observations, observed_probability

Floats = NDArray[np.floating[Any]]

#: Entries of a tile, and the fine grid of log-odds from which bins of equal shares are put together.
TILE, LIMIT, FINE = 2**18, 20.0, 4000


class Calibration(Reliability):
    """Predicted against actual shares of observed entries, by bins of the predicted ``q`` from low to high.

    Attributes
    ----------
    predicted, observed : array
        Mean ``q`` and share observed, of each bin.
    counts : array
        Entries of each bin, seen or not.
    """

    @property
    def n_entries(self) -> NDArray[np.int64]:
        """Entries of each bin, seen or not."""
        return self.counts


def calibration(model: Missingness, observations: Observations, bins: int = 10) -> Calibration:
    """Compare ``q`` with what was observed, over all entries by tiles.

    On the mask the model was fitted to this shows misfit, and on another draw of it also overfit.

    Parameters
    ----------
    model : Missingness
        A fitted :class:`Propensity`, or any model with ``rho_at``.
    observations : Observations
        The mask to compare with, of the same shape.
    bins : int, default=10
        Most bins, each with about the same number of entries; those with equal ``q`` share one.
    """
    _check(model, observations)
    bins = check_count("bins", bins)
    entries, predicted = np.zeros(FINE, dtype=np.int64), np.zeros(FINE)
    for q in _tiles(model, observations.shape):
        places = _places(q)
        entries += np.bincount(places, minlength=FINE)
        predicted += np.bincount(places, q.reshape(-1), minlength=FINE)
    seen = np.bincount(_places(_at_observed(model, observations)), minlength=FINE)
    middle = np.cumsum(entries) - entries / 2
    bin_of = np.minimum(middle / entries.sum() * bins, bins - 1).astype(np.int64)
    total, q_sum, seen_sum = (
        np.bincount(bin_of, values, minlength=bins) for values in (entries, predicted, seen)
    )
    kept = total > 0
    return Calibration(
        q_sum[kept] / total[kept], seen_sum[kept] / total[kept], total[kept].astype(np.int64)
    )


def log_loss(model: Missingness, observations: Observations) -> float:
    """Return the mean of ``-log P(entry is seen or not as it is)`` over all entries: compare models on another mask."""
    _check(model, observations)
    seen = _at_observed(model, observations)
    total, sure = _missing_loss(seen)
    total, sure = -float(np.sum(np.log(seen))) - total, -sure
    for q in _tiles(model, observations.shape):
        loss, count = _missing_loss(q)
        total, sure = total + loss, sure + count
    # What was to be seen for sure and was not has no finite loss.
    return float("inf") if sure else total / (observations.shape[0] * observations.shape[1])


def inverse_weights(
    model: Missingness, observations: Observations, *, normalised: bool = True
) -> Floats:
    """Return ``1 / q`` at the observed entries.

    Parameters
    ----------
    model : Missingness
        A fitted :class:`Propensity`, or any model with ``rho_at``.
    observations : Observations
        Where to weigh, of the same shape.
    normalised : bool, default=True
        Scale the weights to sum to the number of entries of the matrix, which they do on average: a sum with
        self-normalised weights does not depend on the level of ``q``, and varies less.
    """
    _check(model, observations)
    weights = 1.0 / _at_observed(model, observations)
    if normalised:
        weights *= observations.shape[0] * observations.shape[1] / np.sum(weights)
    return np.asarray(weights)


def effective_sample_size(model: Missingness, observations: Observations) -> float:
    """Return ``(sum w)^2 / sum w^2`` for ``w = 1 / q`` at the observed entries (Kish 1965, "Survey sampling").

    So many entries, all of one weight, give a mean of the same variance.
    """
    weights = inverse_weights(model, observations, normalised=False)
    return float(np.sum(weights) ** 2 / np.sum(weights**2))


def _missing_loss(q: Floats) -> tuple[float, int]:
    """Return the sum of ``-log(1 - q)`` where ``q < 1``, and the number of entries where it is not."""
    open_to_doubt = q < 1.0
    return -float(np.sum(np.log1p(-q[open_to_doubt]))), q.size - int(np.sum(open_to_doubt))


def _tiles(model: Missingness, shape: tuple[int, int]) -> Iterator[Floats]:
    """Give ``q`` of runs of rows, so that no more than a tile is held."""
    d1, d2 = shape
    height = max(1, TILE // d2)
    for start in range(0, d1, height):
        rows = np.arange(start, min(start + height, d1))
        if isinstance(model, MaskModel):
            yield model.probability_of_rows(slice(start, start + height))
        else:
            yield observed_probability(
                model, np.repeat(rows, d2), np.tile(np.arange(d2), rows.size)
            )


def _at_observed(model: Missingness, observations: Observations) -> Floats:
    return observed_probability(model, observations.rows, observations.columns)


def _places(q: Floats) -> NDArray[np.int64]:
    """Return the place of each ``q`` on the fine grid of log-odds."""
    place = (logit(q.reshape(-1)) + LIMIT) * (FINE / (2.0 * LIMIT))
    return np.asarray(np.clip(place, 0, FINE - 1), dtype=np.int64)


def _check(model: Any, observations: Any) -> None:
    check_observations(observations)
    if not isinstance(model, Missingness):
        raise InvalidTypeError(
            f"model must be a model of the mask with rho_at; got {type(model).__name__}."
        )
    if isinstance(model, MaskModel):
        model.check_shape(observations)
