"""Fits of the models of the mask by their names."""

from __future__ import annotations

from typing import Any

from tribit.data.observations import Observations
from tribit.propensity.cross_fitted import (
    FOLDS,
    CrossFittedPropensity,
    HashedPropensity,
    cross_fitted,
)
from tribit.propensity.fits import RANK, low_rank, row_column
from tribit.propensity.model import Propensity, constant
from tribit.propensity.names import unknown_name_error
from tribit.randomness import RandomState


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

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import fit_propensity
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> fit_propensity("row-column", seen).name
    'row-column'
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
