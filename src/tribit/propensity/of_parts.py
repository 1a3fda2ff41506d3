"""Models of the mask that were each fitted without a part of it, and the part of an entry by a hash."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.data.observations import Observations
from tribit.propensity.model import MaskModel, Propensity, check_pairs
from tribit.randomness import hashed_fold_numbers

Floats = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class OfParts(MaskModel):
    """Base of ``q_ij`` from K models of the mask, each fitted without one of K parts of the observed entries.

    Parameters
    ----------
    models : tuple of Propensity
        One for each part, fitted to the observed entries outside it and scaled up by ``K / (K - 1)``.
    """

    models: tuple[Propensity, ...]

    @property
    def name(self) -> str:
        """Name of the model, as ``rho`` takes it."""
        return self.models[0].name

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the mask."""
        return self.models[0].shape

    def _fill(self, q: Floats, part: Places, i: Places, j: Places) -> None:
        """Fill in ``q`` at the entries of each part, from the model that was fitted without it."""
        for number, model in enumerate(self.models):
            mine = np.flatnonzero(part == number)
            q[mine] = model.probability_at(i[mine], j[mine])

    def with_floor(self, floor: float) -> Self:
        """Return the same models with another smallest probability."""
        return replace(
            self, models=tuple(model.with_floor(floor / model.scale) for model in self.models)
        )

    def normalised(self, observations: Observations) -> Self:
        """Return the model scaled so that the weights ``1 / q`` of the observed entries sum to the number of entries.

        They do on average, were ``q`` the truth.
        """
        factor = self._inverse_share(observations)
        return replace(
            self,
            models=tuple(replace(model, scale=model.scale * factor) for model in self.models),
        )


@dataclass(frozen=True, eq=False)
class HashedPropensity(OfParts):
    """``q_ij`` from the one of K models of the mask that was fitted without the part of (i, j), which a hash tells.

    Made by :func:`~tribit.propensity.cross_fitted` of entries on a cluster: it holds no entry. Where (i, j) was not
    observed no model was fitted on it, and any serves; the mean of all, which
    :class:`~tribit.propensity.CrossFittedPropensity` has there, would need to know which entries were.

    Parameters
    ----------
    models : tuple of Propensity
        As there.
    seed : int
        That of the hash (:func:`tribit.randomness.hashed_fold_numbers`).
    """

    seed: int

    def probability_at(self, rows: Any, columns: Any) -> Floats:
        """Return ``q`` at the given positions (from 0)."""
        i, j = check_pairs(rows, columns, self.shape)
        part = hashed_fold_numbers(i, j, len(self.models), self.seed)
        q = np.empty(i.size)
        self._fill(q, part, i, j)
        return q

    def probability_of_rows(self, rows: slice) -> Floats:
        """Return ``q`` for a run of rows against every column: a tile of the matrix that is never stored."""
        start, stop, _ = rows.indices(self.shape[0])
        i, j = np.meshgrid(np.arange(start, stop), np.arange(self.shape[1]), indexing="ij")
        return self.probability_at(i.ravel(), j.ravel()).reshape(i.shape)
