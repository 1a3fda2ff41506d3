"""Propensity models: estimates of ``q_ij = P(entry (i, j) is observed)``.

    logit q_ij = b                                  constant
    logit q_ij = b + a_i + c_j                      row_column
    logit q_ij = b + a_i + c_j + u_i . v_j          low_rank

each fitted to the mask, all d1 x d2 entries of it, by penalised maximum likelihood. The mask is a binary matrix that is
fully seen, so no label and no dense array enters. A fitted :class:`Propensity` is a
:class:`~tribit.Missingness`: pass it, or its name, as ``rho``. With ``1 / q_ij`` in its corrections PU and NU
stay unbiased where the mask is not uniform (Schnabel, Swaminathan, Singh, Chandak and Joachims 2016, "Recommendations
as treatments: debiasing learning and evaluation"), as long as an entry's being observed does not depend on its label
once ``q_ij`` is known. The last model has parameters enough to follow the draws of its own mask, so
:func:`cross_fitted` gives each observed entry the propensity of a fit without it: the name "low-rank" stands for that.
"""

from __future__ import annotations

from typing import Any

from tribit.data.observations import Observations
from tribit.errors import InvalidTypeError, parameter
from tribit.propensity.cross_fitted import (
    FOLDS,
    CrossFittedPropensity,
    HashedPropensity,
    cross_fitted,
)
from tribit.propensity.fits import RANK, low_rank, row_column
from tribit.propensity.model import (
    Calibration,
    Propensity,
    calibration,
    constant,
    effective_sample_size,
    inverse_weights,
    log_loss,
)
from tribit.randomness import RandomState

__all__ = [
    "NAMES",
    "Calibration",
    "CrossFittedPropensity",
    "HashedPropensity",
    "Propensity",
    "calibration",
    "constant",
    "cross_fitted",
    "effective_sample_size",
    "fit_propensity",
    "inverse_weights",
    "log_loss",
    "low_rank",
    "row_column",
]

#: Names of the propensity models that ``rho`` takes.
NAMES = ("constant", "row-column", "low-rank")


def fit_propensity(
    name: object,
    observations: Observations,
    *,
    n_jobs: int | None = None,
    random_state: RandomState = None,
    backend: str = "auto",
) -> Propensity | CrossFittedPropensity | HashedPropensity:
    """Fit the model of that name (one of :data:`NAMES`) with its default options; a small mask has a smaller rank.

    "low-rank" is :func:`cross_fitted`: ``q`` is wanted at the entries that were observed, and there the plain
    :func:`low_rank` is too sure.
    """
    if name == "constant":
        return constant(observations)
    if name == "row-column":
        return row_column(observations)
    if name == "low-rank":
        options: dict[str, Any] = {
            "n_jobs": n_jobs,
            "random_state": random_state,
            "backend": backend,
        }
        rank = min(RANK, *observations.shape)
        folds = min(FOLDS, observations.n_observed)
        if folds < 2:  # one entry: nothing is left without it
            return low_rank(observations, rank=rank, **options)
        return cross_fitted(observations, folds=folds, rank=rank, **options)
    raise unknown_name_error(name)


def unknown_name_error(name: object) -> InvalidTypeError:
    """Return the error for a name that no model has."""
    names = ", ".join(map(repr, NAMES))
    return InvalidTypeError(
        f"{parameter('rho')} must be a number in [0, 1) or a model with rho_at, or the name of one ({names}); got "
        f"{name!r}."
    )
