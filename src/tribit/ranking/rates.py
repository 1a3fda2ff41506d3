"""Rates of likes and dislikes of each cell: its features, and the log-linear model of the rates.

    max over t   sum over events of x't - sum over cells at risk of w exp(x't) - ridge / 2 |t_1..t_k|^2

is the likelihood of a Poisson process with rate exp(x't), where x_0 = 1 and the intercept t_0 bears no penalty
(McCullagh and Nelder 1989, "Generalized linear models", chapter 6). It is concave. Events enter by their sum alone, and
thinning them moves t_0 only. The features of a cell are computed as if the cell were unobserved.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.data.axis import Positions
from tribit.model.binary_matrices import TOLERANCE, BinaryRows
from tribit.model.calibration import Isotonic
from tribit.model.ease import Ease, row_blocks
from tribit.model.horizon import HORIZON, AtRisk, fit_horizon

__all__ = ["MAX_LOG_RATE", "CellFeatures", "fit_rates", "indicators", "log_linear"]


Array = NDArray[np.float64]
#: Floor of the scores before their logarithm, as a share of the mean of the column, and how many entries are added to
#: those of a column there, as a share of the mean number.
FLOOR_SHARE, SMOOTHING_SHARE = 0.1, 0.1
#: Largest logarithm of a rate, far from overflow in sums and products.
MAX_LOG_RATE = 300.0


@dataclass(frozen=True, eq=False)
class CellFeatures:
    """Regressions that were fitted on some rows, and the rows to predict, which may be others.

    Attributes
    ----------
    likes, mask : Ease
        Every column on all others, of the likes and of the mask.
    liked, seen : sparse array
        The 0/1 matrices of the rows to predict.
    n_fitted : int
        How many of these, the first, are the rows of the fit.
    """

    likes: Ease
    mask: Ease
    liked: sp.csr_array
    seen: sp.csr_array
    n_fitted: int

    @classmethod
    def fit(
        cls,
        labels: sp.csr_array,
        regress: Callable[[tuple[int, sp.csr_array]], Ease],
        n_jobs: int,
    ) -> CellFeatures:
        """Return the features of the rows of a fit; ``regress`` is called with 0 and the likes, 1 and the mask."""
        liked, seen = indicators(labels)
        with single_threaded_blas():
            likes, mask = ordered_map(regress, enumerate((liked, seen)), n_jobs)
        return cls(likes, mask, liked, seen, labels.shape[0])

    @cached_property
    def popularity(self) -> tuple[Array, Array]:
        """Numbers of likes and of entries of each column in the rows of the fit."""
        likes, entries = (
            np.bincount(F.indices, minlength=F.shape[1]).astype(np.float64)
            for F in (self.likes.F, self.mask.F)
        )
        return likes, entries

    def of(self, rows: Positions, n_jobs: int = 1, tolerance: float = TOLERANCE) -> Array:
        """Return the four features of some rows, an array of shape (4, n_rows, n_columns).

        ``log(max(s, 0) + floor)`` of the likes and of the mask, ``log(1 + n_j)`` and ``log(1 + n_i)``. The floor is a
        share of the column's mean, so that a row with few or no entries has the order of popularity.
        """
        fitted = rows < self.n_fitted
        asked = (
            (self.likes, BinaryRows.of(self.liked, rows)),
            (self.mask, BinaryRows.of(self.seen, rows)),
        )
        features = np.empty((4, rows.size, self.seen.shape[1]))

        def scores(part: tuple[Ease, BinaryRows]) -> Array:
            return part[0].scores(part[1], fitted, tolerance)

        # Sums of rows of tables that are there need no BLAS, and its guard takes longer than one row.
        tabled = self.likes.has_table and self.mask.has_table
        with nullcontext() if tabled else single_threaded_blas():
            found = ordered_map(scores, asked, n_jobs)
            for feature, score, (_, ones), floors in zip(
                features, found, asked, self._floors, strict=False
            ):
                feature[:] = floors[0]
                _put_at_entries(feature, ones, floors[1], fitted)
                feature += np.maximum(score, 0.0, out=score)
                np.log(feature, out=feature)
        own = asked[1][1]
        features[2] = self._log_counts[0]
        _put_at_entries(features[2], own, self._log_counts[1], fitted)
        activity = self._activity(rows)
        features[3] = np.log1p(activity)[:, None]
        features[3, own.rows, own.columns] = np.log1p(activity[own.rows] - 1.0)
        return features

    @cached_property
    def _floors(self) -> tuple[Array, Array]:
        """Floors of the scores of likes and of the mask, each for :func:`_counts_by_membership` counts."""
        likes, entries = (
            (_counts_by_membership(counts) + SMOOTHING_SHARE * counts.mean())
            * (FLOOR_SHARE / self.mask.F.shape[0])
            for counts in self.popularity
        )
        return likes, entries

    @cached_property
    def _log_counts(self) -> Array:
        """``log(1 + n_j)`` for :func:`_counts_by_membership` counts."""
        return np.log1p(_counts_by_membership(self.popularity[1]))

    @cached_property
    def _lengths(self) -> tuple[Array, float, float]:
        """Numbers of entries of the rows to predict, and the range of those of the fit."""
        counts, known = (np.diff(F.indptr).astype(np.float64) for F in (self.seen, self.mask.F))
        return counts, float(known.min()), float(known.max())

    def _activity(self, rows: Positions) -> Array:
        """Return how many entries rows have; of rows that were not fitted, within the range of those that were.

        The rates say nothing of others, and where all rows of a fit are of nearly one length, its coefficient is large.
        """
        counts, least, most = self._lengths
        asked: Array = counts[rows]
        return np.where(rows < self.n_fitted, asked, np.clip(asked, least, most))


def _counts_by_membership(counts: Array) -> Array:
    """Return the counts of columns in a row that has no entry there, and in one whose own entry they hold.

    The count of a column has the rows of the fit: an entry of another row is not in it.
    """
    return np.stack([counts, np.maximum(counts - 1.0, 0.0)])


def _put_at_entries(
    feature: Array, ones: BinaryRows, values: Array, fitted: NDArray[np.bool_]
) -> None:
    """Put the values of columns where rows of the fit have entries."""
    kept = fitted[ones.rows]
    columns = ones.columns[kept]
    feature[ones.rows[kept], columns] = values[columns]


def indicators(labels: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the 0/1 matrices of likes and of observed entries."""
    liked, seen = (_where(labels, chosen) for chosen in (labels.data > 0, labels.data != 0))
    return liked, seen


def _where(labels: sp.csr_array, chosen: NDArray[np.bool_]) -> sp.csr_array:
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))[chosen]
    ones = np.ones(rows.size)
    return sp.csr_array((ones, (rows, labels.indices[chosen])), shape=labels.shape)


#: Most Newton steps, most backtracking steps of each line search, and the gain, as a share of the events, that ends it.
MAX_STEPS, MAX_HALVINGS, MIN_GAIN = 100, 60, 1e-12
#: Least number of unobserved cells that are sampled, if the matrix has as many; more where more entries are observed.
MIN_AT_RISK_CELLS = 2**17
#: Ridge on coefficients of standardised features: it only matters where there are a handful of likes.
RIDGE = 1.0
#: Tolerance of the features from which coefficients are estimated: their own error is about 1e-2.
FEATURE_TOLERANCE = 1e-6


def fit_rates(
    cells: CellFeatures,
    labels: sp.csr_array,
    rows: Positions,
    draws: np.random.Generator,
    n_jobs: int,
) -> tuple[Array, Isotonic]:
    """Return the coefficients of the log-rates of likes and of dislikes, an array of shape (2, 5), and a calibrator.

    Estimated on the given rows: their observed entries are the events, and a sample of their unobserved cells is the
    risk set. The calibrator maps the log-rate of entries to the probability of one within the horizon.
    """
    n_observed = labels[rows].nnz
    n_unobserved = rows.size * labels.shape[1] - n_observed
    share = min(1.0, max(n_observed, MIN_AT_RISK_CELLS) / max(n_unobserved, 1))
    kept, kinds = [], []
    for block in row_blocks(rows, labels.shape[1]):
        kind = labels[block].toarray()
        chosen = (kind != 0) | (draws.random(kind.shape) < share)
        kept.append(cells.of(block, n_jobs, FEATURE_TOLERANCE)[:, chosen].T)
        kinds.append(kind[chosen])
    x, kind = np.concatenate(kept), np.concatenate(kinds)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale < 1e-6] = 1.0  # what is the same everywhere, but for rounding, has no effect
    x = np.column_stack([np.ones(len(x)), (x - centre) / scale])
    # A full matrix has no candidates; its rates are shares of all entries, and finite.
    is_at_risk = kind == 0 if n_unobserved else np.ones(kind.size, dtype=bool)
    at_risk = x[is_at_risk]
    found, log_rate = [], np.full(kind.size, -np.inf)
    for label in (1, -1):
        events = x[kind == label].sum(axis=0)
        t = np.zeros(x.shape[1])
        if events[0]:
            t = log_linear(events, at_risk, np.full(len(at_risk), 1 / share), RIDGE)
            np.logaddexp(log_rate, x @ t, out=log_rate)
            t[1:] /= scale
            t[0] -= t[1:] @ centre
        else:
            t[0] = -np.inf
        found.append(t)
    log_rate = np.minimum(log_rate, MAX_LOG_RATE)
    sample = AtRisk(log_rate, HORIZON * (kind != 0), is_at_risk / share, HORIZON * np.exp(log_rate))
    return np.array(found), fit_horizon(sample)


def log_linear(events: Array, at_risk: Array, weights: Array, ridge: float) -> Array:
    """Return the coefficients ``t`` that maximise the above, by Newton's method.

    ``events`` is the sum of ``x`` over the events, at least one; ``at_risk`` has a row ``x`` for each
    cell at risk, and ``weights`` how many cells it stands for. With a ridge above 0 there is one maximum.
    """
    penalty = np.full(events.size, ridge)
    penalty[0] = 0.0
    t = np.zeros(events.size)
    t[0] = np.log(events[0] / weights.sum())

    def value(t: Array) -> float:
        with np.errstate(
            over="ignore"
        ):  # too long a step: the value is -inf and the line search backtracks
            rates = weights @ np.exp(at_risk @ t)
        return float(events @ t - rates - 0.5 * penalty @ t**2)

    now = value(t)
    for _ in range(MAX_STEPS):
        rates = weights * np.exp(at_risk @ t)
        gradient = events - at_risk.T @ rates - penalty * t
        step = np.linalg.solve((at_risk.T * rates) @ at_risk + np.diag(penalty), gradient)
        gain = float(gradient @ step)
        if gain <= MIN_GAIN * events[0]:
            break
        for _ in range(MAX_HALVINGS):
            after = value(t + step)
            if after >= now + 1e-4 * gain:
                break
            step, gain = step / 2, gain / 2
        else:
            break  # as far as rounding allows
        t, now = t + step, after
    return t
