"""The objective of a model with implicit features: a risk at the factors that its parts combine to."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.backends.threads import single_threaded_blas
from tribit.data.observations import Observations
from tribit.model.constraints import Ridge
from tribit.model.factors import Factors
from tribit.model.features import ImplicitFeatures
from tribit.model.risks import Risk
from tribit.model.spec import ModelSpec

Array = NDArray[np.floating[Any]]

#: Default ``l2_implicit`` as a multiple of ``l2``.
IMPLICIT_SHARE = 1.7


class FeaturedObjective:
    """A risk at the factors that parts combine to, with a ridge on the parts.

        F(p, z, q, w, ...) = L(U, V, a, c, b) + l2 / 2 (|p|^2 + |q|^2) + l2_implicit / 2 (|z|^2 + |w|^2)
                             + l2_intercept / 2 (|a_p|^2 + |c_q|^2) + l2_implicit / 2 (|a_z|^2 + |c_w|^2)

    where ``a_p`` and ``a_z`` are the row intercepts of rows and of features, and ``c_q`` and ``c_w`` the column's.

    Parameters
    ----------
    objective : Objective
        The risk L; its own ridge weights are those of p, q and the intercepts.
    features : ImplicitFeatures
        How parts combine.
    l2_implicit : float
        Weight of the ridge on the parts of the features.
    """

    #: Whether rows share unknowns.
    implicit_features = True

    def __init__(
        self, objective: Objective, features: ImplicitFeatures, l2_implicit: float
    ) -> None:
        self.objective, self.features = objective, features
        self.ridge = Ridge(l2_implicit)
        self.size, self.shape = objective.size, objective.shape

    @property
    def plain(self) -> Objective:
        """The objective in the factors of the matrix, without what features add."""
        return self.objective

    def factors(self, unknowns: Factors) -> Factors:
        """Return the factors of the matrix, which the parts combine to."""
        return self.features.combine(unknowns)

    def unknowns(self, factors: Factors) -> Factors:
        """Return parts that combine to these factors of the matrix, with the parts of the features at 0."""
        return self.features.begin(factors)

    def in_float64(self) -> FeaturedObjective:
        """Return the same objective in float64 arithmetic."""
        return FeaturedObjective(self.objective.in_float64(), self.features, self.ridge.l2)

    def value(self, parts: Factors) -> float:
        """Return F."""
        with single_threaded_blas():
            risk = self.objective.risk_value(self.features.combine(parts))
        return risk + self._penalty(parts)

    def gradient(self, parts: Factors) -> tuple[float, Factors]:
        """Return F and its gradient in the parts."""
        risk, gradient = self.objective.risk_gradient(self.features.combine(parts))
        total = self.features.pull_back(gradient).plus(1.0, self._weighted(parts))
        return risk + self._penalty(parts), total

    def normalise_intercepts(self, parts: Factors) -> Factors:
        """Return the parts as they are: their intercepts have no mean that could move without changing X."""
        return parts

    def scales(self, parts: Factors) -> Factors:
        """Return the curvature of F in each unknown, roughly; see :meth:`Objective.scales`."""
        squares = ImplicitFeatures(self.features.rows.power(2), self.features.columns.power(2))
        risk = squares.pull_back(self.objective.curvatures(self.features.combine(parts)))
        ones = Factors(*(np.ones_like(part) for part in dataclasses.astuple(parts)))
        return risk.plus(1.0, self._weighted(ones))

    def _split(self, parts: Factors) -> tuple[list[Array], list[Array], list[Array]]:
        """Return the parts with ridge l2, with l2_intercept and with l2_implicit."""
        d1, d2 = self.shape
        own = [parts.row_factors[:d1], parts.column_factors[:d2]]
        intercepts = [parts.row_intercepts[:d1], parts.column_intercepts[:d2]]
        mask = [
            parts.row_factors[d1:],
            parts.column_factors[d2:],
            parts.row_intercepts[d1:],
            parts.column_intercepts[d2:],
        ]
        return own, intercepts, mask

    def _penalty(self, parts: Factors) -> float:
        own, intercepts, mask = self._split(parts)
        return (
            self.objective.ridge.value(*own)
            + self.objective.intercept_ridge.value(*intercepts)
            + self.ridge.value(*mask)
        )

    def _weighted(self, parts: Factors) -> Factors:
        """Return the gradient of the penalty: each part times its weight."""
        d1, d2 = self.shape
        l2, l2_intercept = self.objective.ridge.l2, self.objective.intercept_ridge.l2

        def by_part(first: float, size: int, array: Array) -> Array:
            weights = np.full(array.shape[0], self.ridge.l2)
            weights[:size] = first
            return np.asarray(array * (weights if array.ndim == 1 else weights[:, None]))

        return Factors(
            by_part(l2, d1, parts.row_factors),
            by_part(l2, d2, parts.column_factors),
            0.0,
            by_part(l2_intercept, d1, parts.row_intercepts),
            by_part(l2_intercept, d2, parts.column_intercepts),
        )


def objective_of(
    spec: ModelSpec,
    observations: Observations,
    risk: Risk,
    *,
    dtype: str = "float64",
    n_jobs: int | None = 1,
) -> Objective | FeaturedObjective:
    """Return what a model minimises on some observations, in its unknowns; ``risk`` is that of the model.

    Parameters
    ----------
    spec : ModelSpec
        The model; complete (:meth:`~tribit.model.spec.ModelSpec.completed`).
    observations, risk, dtype, n_jobs
        As in :class:`~tribit.Objective`.
    """
    plain = Objective.of(spec, observations, risk, dtype=dtype, n_jobs=n_jobs)
    if not spec.implicit_features:
        return plain
    l2_implicit = IMPLICIT_SHARE * spec.l2 if spec.l2_implicit is None else spec.l2_implicit
    return FeaturedObjective(plain, ImplicitFeatures.of(observations), l2_implicit)
