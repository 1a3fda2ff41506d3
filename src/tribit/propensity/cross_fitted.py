"""Cross-fitted propensities: each observed entry has that of a model that was not fitted on it.

    q_ij = K / (K - 1) q^(k)_ij     where (i, j) is observed, in the k-th of K random folds of the observed entries
    q_ij = mean over k of the same  elsewhere

with ``q^(k)`` the low-rank model fitted to the mask without its k-th fold (``K / (K - 1)`` makes up for the fold that
was left out). A model of many parameters overfits its mask: it gives the observed entries too large a ``q``, so that
their weights ``1 / q`` sum to less than the number of entries. Cross-fitting removes that bias (Chernozhukov,
Chetverikov, Demirer, Duflo, Hansen, Newey and Robins 2018, "Double/debiased machine learning for treatment and
structural parameters"). Entries on a cluster are assigned to folds by a hash of row and column.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_whole
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.propensity.fits import low_rank
from tribit.propensity.model import (
    MaskModel,
    Propensity,
    check_observations,
    check_pairs,
    resolve_floor,
)
from tribit.randomness import RandomState, generator, hashed_fold_numbers

Floats = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class FoldModels(MaskModel):
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

    def normalise(self, observations: Observations) -> Self:
        """Return the model scaled so that the weights ``1 / q`` of the observed entries sum to the number of entries.

        They do on average, were ``q`` the truth.
        """
        factor = self.inverse_share(observations)
        return replace(
            self,
            models=tuple(replace(model, scale=model.scale * factor) for model in self.models),
        )


@dataclass(frozen=True, eq=False)
class HashedPropensity(FoldModels):
    """``q_ij`` from the one of K models of the mask that was fitted without the fold of (i, j), given by a hash.

    Made by :func:`~tribit.propensity.cross_fitted` of entries on a cluster: it holds no entry. Where (i, j) was not
    observed no model was fitted on it, and any serves; the mean of all, which
    :class:`~tribit.propensity.CrossFittedPropensity` has there, would need to know which entries were.

    Parameters
    ----------
    models : tuple of Propensity
        As there.
    seed : int
        That of the hash (:func:`tribit.randomness.hashed_fold_numbers`).

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import HashedPropensity, row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> HashedPropensity((row_column(seen),), seed=0).probability_at([0], [0]).shape
    (1,)
    """

    seed: int

    def probability_at(self, rows: object, columns: object) -> Floats:
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


#: Default number of parts: each model is fitted on four fifths of the mask, at five times the cost.
FOLDS = 5


@dataclass(frozen=True, eq=False)
class CrossFittedPropensity(FoldModels):
    """``q_ij`` from K models of the mask, at each observed entry from the one that was fitted without it.

    Made by :func:`cross_fitted`. It is a :class:`~tribit.model.risks.Missingness`.

    Parameters
    ----------
    models : tuple of Propensity
        One for each part, fitted to the observed entries outside it and scaled up by ``K / (K - 1)``.
    rows, columns : array
        The observed entries, sorted by row, then column.
    parts : array
        The part of each of them, from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import cross_fitted
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> len(cross_fitted(seen, random_state=0).models)  # one for each fold
    5
    """

    rows: Places = field(repr=False)
    columns: Places = field(repr=False)
    parts: Places = field(repr=False)

    def probability_at(self, rows: object, columns: object) -> Floats:
        """Return ``q`` at the given positions (from 0)."""
        i, j = check_pairs(rows, columns, self.shape)
        part = self._part_of(i, j)
        q = np.empty(i.size)
        unseen = np.flatnonzero(part < 0)
        q[unseen] = self._mean(
            [model.probability_at(i[unseen], j[unseen]) for model in self.models]
        )
        self._fill(q, part, i, j)
        return q

    def probability_of_rows(self, rows: slice) -> Floats:
        """Return ``q`` for a run of rows against every column: a tile of the matrix that is never stored."""
        start, stop, _ = rows.indices(self.shape[0])
        tiles = [model.probability_of_rows(rows) for model in self.models]
        q = self._mean(tiles)
        here = slice(*np.searchsorted(self.rows, [start, stop]))
        i, j, part = self.rows[here] - start, self.columns[here], self.parts[here]
        for number, tile in enumerate(tiles):
            mine = part == number
            q[i[mine], j[mine]] = tile[i[mine], j[mine]]
        return q

    def _part_of(self, i: Places, j: Places) -> Places:
        """Return the part of each entry, -1 for one that is not observed."""
        width = self.shape[1]
        seen = self.rows.astype(np.int64) * width + self.columns
        asked = i.astype(np.int64) * width + j
        place = np.minimum(np.searchsorted(seen, asked), seen.size - 1)
        return np.where(seen[place] == asked, self.parts[place].astype(np.int64), -1)

    @staticmethod
    def _mean(each: list[Floats]) -> Floats:
        return np.asarray(sum(each[1:], each[0]) / len(each))


def cross_fitted(
    observations: Observations,
    *,
    folds: int = FOLDS,
    floor: float | None = None,
    random_state: RandomState = None,
    **options: Any,
) -> CrossFittedPropensity | HashedPropensity:
    """Fit ``logit q_ij = b + a_i + c_j + u_i' v_j`` to the mask ``folds`` times, each time without a part of it.

    Minimises what :func:`low_rank` minimises on each of the remaining masks, and takes ``q`` at an observed entry from
    the fit that left it out.

    Parameters
    ----------
    observations : Observations
        The observed entries; the labels do not matter.
    folds : int, default=5
        Number of parts, from 2 to the number of observed entries; so many fits.
    floor : float or None, default=None
        Smallest probability; None for a tenth of the share that is observed.
    random_state : int, Generator, RandomState or None
        Draws the parts and the first factors.
    **options
        ``rank``, ``l2``, ``max_iter``, ``tol``, ``n_jobs`` and ``backend``, as in :func:`low_rank`.

    Returns
    -------
    CrossFittedPropensity
        Where every entry is observed, ``q = 1``. Of entries on a cluster a :class:`HashedPropensity`, whose parts are
        by a hash of row and column.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import cross_fitted
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> mask = cross_fitted(seen, random_state=0)
    >>> mask.probability_at(seen.rows, seen.columns).shape == seen.labels.shape
    True
    """
    check_observations(observations)
    _check_folds(folds, observations.n_observed)
    lowest = resolve_floor(floor, observations)
    draws = generator(random_state)
    size = observations.n_observed
    if size == observations.shape[0] * observations.shape[1]:
        kept = {name: options[name] for name in ("rank", "l2") if name in options}
        whole = low_rank(observations, floor=lowest, random_state=draws, **kept)
        if observations.is_remote:
            return HashedPropensity((whole,), 0)
        parts = np.zeros(size, dtype=np.int64)
        return CrossFittedPropensity((whole,), observations.rows, observations.columns, parts)
    parts_or_seed = observations.draw_folds(folds, draws)
    models = []
    for part in range(folds):
        outside = observations.without_fold(folds, part, parts_or_seed)
        scale = size / outside.n_observed
        model = low_rank(outside, floor=lowest / scale, random_state=draws, **options)
        models.append(replace(model, scale=scale))
    if isinstance(parts_or_seed, int):
        return HashedPropensity(tuple(models), parts_or_seed)
    return CrossFittedPropensity(
        tuple(models), observations.rows, observations.columns, parts_or_seed
    )


def _check_folds(folds: Any, n_observed: int) -> None:
    check_whole("folds", folds)
    if not 2 <= folds <= n_observed:
        raise InvalidInputError(
            f"folds must be from 2 to {n_observed}, the number of observed entries; got {folds}."
        )
