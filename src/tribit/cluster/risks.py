"""The risk of a whole matrix at some of its rows, with its model of the mask, imputed labels and mean weight."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.layout import latest
from tribit.data.axis import Positions
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.model.risks import Imputation, Missingness, Risk

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class MeanWeighted(Risk):
    """A risk whose weights ``(1 / q_ij)^inverse_power`` have a known mean over all observed entries of the matrix.

    Parameters
    ----------
    mean : float, default=1.0
        The mean, by which the weights are divided; no partition has all entries to take it over.
    """

    mean: float = 1.0

    def _inverse_weights(self, rho: Array) -> Array | float:
        if not self.inverse_power or not rho.shape:
            return 1.0
        return np.asarray((1.0 - rho) ** -self.inverse_power / self.mean)


@dataclass(frozen=True)
class _InverseWeights:
    """``(1 / q_ij)^power`` at entries."""

    rho: Missingness
    power: float

    def __call__(self, entries: Observations, _: Any = None) -> Array:
        return np.asarray((1.0 - self.rho.rho_at(entries.rows, entries.columns)) ** -self.power)


@dataclass(frozen=True)
class _RowsOf(Missingness):
    """A model of the mask of the whole, at the rows of a part, or at its columns where it is transposed."""

    model: Missingness
    rows: Positions
    first: int = 0
    transposed: bool = False

    def rho_at(self, rows: Any, columns: Any) -> Array:
        """Return ``P(entry is unobserved)``."""
        if self.transposed:
            rows, columns = columns, rows + self.first
        return self.model.rho_at(self.rows[rows], columns)


def with_mean_weight(risk: Risk, observations: RemoteObservations) -> Risk:
    """Return a risk that knows the mean of its weights where it has any that differ: one pass over the entries."""
    if isinstance(risk, MeanWeighted) or not risk.inverse_power:
        return risk
    if not isinstance(risk.rho, Missingness):  # all weights are 1
        return risk
    weights = _InverseWeights(risk.rho, risk.inverse_power)
    mean = latest(
        observations,
        "mean weight",
        (risk.rho, risk.inverse_power),
        lambda: float(np.sum(observations.sums(weights)[0])) / len(observations),
    )
    return MeanWeighted(**{each.name: getattr(risk, each.name) for each in fields(Risk)}, mean=mean)


def at_rows(risk: Risk, rows: Positions) -> Risk:
    """Return a risk of the whole matrix as that of some of its rows."""
    if isinstance(risk.rho, Missingness):
        risk = replace(risk, rho=_RowsOf(risk.rho, rows))
    return replace(risk, imputed=_imputed(risk, rows, slice(None)))


def transposed_at(risk: Risk, rows: Positions, columns: slice) -> Risk:
    """Return a risk of the whole matrix as that of the transpose of some rows and a run of columns."""
    if isinstance(risk.rho, Missingness):
        risk = replace(risk, rho=_RowsOf(risk.rho, rows, columns.start, transposed=True))
    found = _imputed(risk, rows, columns)
    if found is not None:
        found = replace(found, factors=found.factors.transposed)
    return replace(risk, imputed=found)


def _imputed(risk: Risk, rows: Positions, columns: slice) -> Imputation | None:
    """Return what is imputed in some rows and columns."""
    if risk.imputed is None:
        return None
    whole = risk.imputed.factors
    return replace(
        risk.imputed,
        factors=replace(
            whole,
            row_factors=whole.row_factors[rows],
            row_intercepts=whole.row_intercepts[rows],
            column_factors=whole.column_factors[columns],
            column_intercepts=whole.column_intercepts[columns],
        ),
    )
