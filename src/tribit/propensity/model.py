"""Fitted models of the mask, and their diagnostics: calibration, inverse weights and effective sample size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from tribit.checks import check_between, check_count, check_field, check_positive
from tribit.data.axis import check_positions, first_true
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.metrics.entries import Reliability
from tribit.model.factors import Factors
from tribit.model.risks import Missingness

Floats = NDArray[np.floating[Any]]

#: Default floor of probabilities, as a share of their mean: no entry weighs more than ten times the average.
FLOOR_SHARE = 0.1


class MaskModel(ABC):
    """Base of the fitted propensity models: answers that follow from the shape of the mask and ``q``."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the mask."""

    @abstractmethod
    def probability_at(self, rows: object, columns: object) -> Floats:
        """Return ``q`` at the given positions (from 0)."""

    @abstractmethod
    def probability_of_rows(self, rows: slice) -> Floats:
        """Return ``q`` for a run of rows against every column: a tile of the matrix that is never stored."""

    def rho_at(self, rows: object, columns: object) -> Floats:
        """Return ``1 - q`` at the given positions, the probability of being unobserved."""
        return 1.0 - self.probability_at(rows, columns)

    def check_shape(self, observations: Observations) -> None:
        """Refuse observations of another shape than the mask's."""
        if self.shape != observations.shape:
            raise InvalidInputError(
                f"The model of the mask is {self.shape[0]} x {self.shape[1]} and the observations "
                f"{observations.shape[0]} x {observations.shape[1]}: fit it on a mask of the same shape."
            )

    def inverse_share(self, observations: Observations) -> float:
        """Return the sum of ``1 / q`` over the observed entries, as a share of all entries: 1 on average."""
        self.check_shape(observations)
        by_rows, _ = observations.sums(_InverseProbability(self))
        return float(np.sum(by_rows)) / (self.shape[0] * self.shape[1])


@dataclass(frozen=True)
class _InverseProbability:
    """``1 / q`` at entries."""

    model: MaskModel

    def __call__(self, entries: Observations, _: object = None) -> Floats:
        return np.asarray(1.0 / self.model.probability_at(entries.rows, entries.columns))


@dataclass(frozen=True, eq=False)
class Propensity(MaskModel):
    """``q_ij = scale max(floor, 1 / (1 + exp(-(b + a_i + c_j + u_i' v_j))))``: P(entry (i, j) is observed), at most 1.

    Made by :func:`constant`, :func:`row_column` and :func:`low_rank`. It is a :class:`~tribit.model.risks.Missingness`.

    Parameters
    ----------
    name : str
        "constant", "row-column" or "low-rank".
    factors : Factors
        ``u, v, b, a, c``, in log-odds.
    floor : float
        The smallest probability given, in (0, 1]. A small ``q`` is known badly, and its entry counts ``1 / q`` times:
        a floor gives a little bias for much less variance.
    scale : float, default=1.0
        See :meth:`normalise`.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> row_column(seen).probability_at([0], [0]).shape
    (1,)
    """

    name: str
    factors: Factors = field(repr=False)
    floor: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_field(self, "floor", check_floor)
        check_field(self, "scale", check_positive)

    @cached_property
    def _product(self) -> tuple[Floats, Floats]:
        return self.factors.product_factors()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the mask."""
        return self.factors.row_factors.shape[0], self.factors.column_factors.shape[0]

    def probability_at(self, rows: object, columns: object) -> Floats:
        """Return ``q`` at the given positions (from 0)."""
        return self._probability(self.factors.at(*check_pairs(rows, columns, self.shape)))

    def probability_of_rows(self, rows: slice) -> Floats:
        """Return ``q`` for a run of rows against every column: a tile of the matrix that is never stored."""
        P, Q = self._product
        return self._probability(P[rows] @ Q.T)

    def with_floor(self, floor: float) -> Propensity:
        """Return the same model with another floor."""
        return replace(self, floor=floor)

    def normalise(self, observations: Observations) -> Propensity:
        """Return the model scaled so that the weights ``1 / q`` of the observed entries sum to the number of entries.

        They do on average, were ``q`` the truth. A model that followed the draws of its own mask gives the observed
        entries too large a ``q``, and their weights sum to less.
        """
        return replace(self, scale=replace(self, scale=1.0).inverse_share(observations))

    def _probability(self, x: Floats) -> Floats:
        q = np.maximum(expit(x), self.floor)
        return np.asarray(q if self.scale == 1.0 else np.minimum(self.scale * q, 1.0))


def constant(observations: Observations) -> Propensity:
    """Return the model in which every entry is observed with one probability, the share that is.

    Examples
    --------
    >>> from tribit import Observations
    >>> model = constant(Observations.from_matrix([[1, 0], [-1, 0]]))
    >>> model.rho_at([0, 1], [1, 1])
    array([0.5, 0.5])
    """
    share = check_observations(observations).density
    rows, columns = (np.zeros((size, 0)) for size in observations.shape)
    # All observed: the log-odds are infinite and q is 1.
    return Propensity("constant", Factors.of(rows, columns, float(logit(share))), share)


def resolve_floor(floor: float | None, observations: Observations) -> float:
    """Return the floor: by default a tenth of the share that is observed."""
    return FLOOR_SHARE * observations.density if floor is None else check_floor("floor", floor)


def check_pairs(
    rows: Any, columns: Any, shape: tuple[int, int]
) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """Return positions as two lists of the same length inside a matrix of that shape, or say why they are not."""
    i, j = np.atleast_1d(rows), np.atleast_1d(columns)
    check_positions(i, shape[0], "row")
    check_positions(j, shape[1], "column")
    if i.shape != j.shape or i.ndim != 1:
        raise InvalidInputError(
            f"rows and columns must be lists of the same length; got the shapes {i.shape} and {j.shape}."
        )
    return i, j


def observed_probability(model: Missingness, rows: Any, columns: Any) -> Floats:
    """Return ``q`` of any model of the mask at positions, each in (0, 1], or name the first that is not."""
    if isinstance(model, MaskModel):  # not through 1 - q, which would round a small q
        return model.probability_at(rows, columns)
    q = 1.0 - np.asarray(model.rho_at(rows, columns), dtype=np.float64)
    if (odd := first_true(~((q > 0.0) & (q <= 1.0)))) is not None:
        raise InvalidInputError(
            f"rho_at gave {1.0 - float(q[odd])!r} for row {rows[odd]}, column {columns[odd]}; every probability of "
            "being observed, 1 - rho, must be above 0 and at most 1."
        )
    return q


def check_floor(name: str, floor: object) -> float:
    """Return ``floor`` as a float in (0, 1], or say why it is not."""
    meaning = "the smallest probability of being observed"
    return check_between(name, floor, 0.0, 1.0, ends="(]", meaning=meaning)


def check_observations(observations: object) -> Observations:
    """Return observations, or say that something else was given."""
    if not isinstance(observations, Observations):
        raise InvalidTypeError(
            f"observations must be Observations; got {type(observations).__name__}: "
            "read a matrix with Observations.from_matrix."
        )
    return observations


#: Entries of a tile, and the fine grid of log-odds from which bins of equal shares are put together.
TILE_CELLS, MAX_LOG_ODDS, N_FINE_BINS = 2**18, 20.0, 4000


class Calibration(Reliability):
    """Predicted against actual shares of observed entries, by bins of the predicted ``q`` from low to high.

    Attributes
    ----------
    predicted, observed : array
        Mean ``q`` and share observed, of each bin.
    counts : array
        Entries of each bin, seen or not.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import calibration, row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> calibration(row_column(seen), seen, bins=2).predicted.round(2)
    array([0.23, 0.41])
    """

    @property
    def n_entries(self) -> NDArray[np.int64]:
        """Entries of each bin, seen or not."""
        return self.counts


def calibration(model: Missingness, observations: Observations, bins: int = 10) -> Calibration:
    """Compare ``q`` with the shares of observed entries, over all entries by tiles.

    On the mask the model was fitted to this shows misfit, and on another draw of it also overfit.

    Parameters
    ----------
    model : Missingness
        A fitted :class:`Propensity`, or any model with ``rho_at``.
    observations : Observations
        The mask to compare with, of the same shape.
    bins : int, default=10
        Most bins, each with about the same number of entries; those with equal ``q`` share one.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import calibration, row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> calibration(row_column(seen), seen, bins=2).observed.round(2)
    array([0.21, 0.43])
    """
    _check(model, observations)
    bins = check_count("bins", bins)
    entries, predicted = np.zeros(N_FINE_BINS, dtype=np.int64), np.zeros(N_FINE_BINS)
    for q in _tiles(model, observations.shape):
        places = _fine_bins(q)
        entries += np.bincount(places, minlength=N_FINE_BINS)
        predicted += np.bincount(places, q.reshape(-1), minlength=N_FINE_BINS)
    seen = np.bincount(_fine_bins(_at_observed(model, observations)), minlength=N_FINE_BINS)
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
    """Return the mean of ``-log P(entry is seen or not as it is)`` over all entries: compare models on another mask.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import log_loss, row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> round(log_loss(row_column(seen), seen), 2)
    0.59
    """
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

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import inverse_weights, row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> round(float(inverse_weights(row_column(seen), seen).mean()), 6)
    3.125
    """
    _check(model, observations)
    weights = 1.0 / _at_observed(model, observations)
    if normalised:
        weights *= observations.shape[0] * observations.shape[1] / np.sum(weights)
    return np.asarray(weights)


def effective_sample_size(model: Missingness, observations: Observations) -> float:
    """Return ``(sum w)^2 / sum w^2`` for ``w = 1 / q`` at the observed entries (Kish 1965, "Survey sampling").

    So many entries, all of one weight, give a mean of the same variance.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import effective_sample_size, row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> effective_sample_size(row_column(seen), seen) <= seen.n_observed
    True
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
    height = max(1, TILE_CELLS // d2)
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


def _fine_bins(q: Floats) -> NDArray[np.int64]:
    """Return the place of each ``q`` on the fine grid of log-odds."""
    place = (logit(q.reshape(-1)) + MAX_LOG_ODDS) * (N_FINE_BINS / (2.0 * MAX_LOG_ODDS))
    return np.asarray(np.clip(place, 0, N_FINE_BINS - 1), dtype=np.int64)


def _check(model: Any, observations: Any) -> None:
    check_observations(observations)
    if not isinstance(model, Missingness):
        raise InvalidTypeError(
            f"model must be a model of the mask with rho_at; got {type(model).__name__}."
        )
    if isinstance(model, MaskModel):
        model.check_shape(observations)
