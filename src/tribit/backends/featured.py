"""The objective of a model with features of rows and columns: a risk at the factors that its parts combine to."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import is_numpy, like, namespace
from tribit.backends.base import Backend
from tribit.backends.layout import masks, shared
from tribit.backends.objective import Objective
from tribit.backends.preconditioner import Deflated, one_column
from tribit.backends.soft_bounds import SoftBounds
from tribit.backends.threads import single_threaded_blas
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.model.design import Design
from tribit.model.factors import Factors
from tribit.model.features import Features, activities, implicit_blocks, side_block
from tribit.model.risks import Risk
from tribit.model.spec import ModelSpec

Array = NDArray[np.floating[Any]]

#: Defaults of ``l2_implicit`` and ``l2_side`` as multiples of ``l2``.
IMPLICIT_SHARE = 1.7
SIDE_SHARE = 1.0


class FeaturedObjective:
    """A risk at the factors that parts combine to, with a ridge on the parts.

        F(p, z, q, w, ...) = L(U, V, a, c, b) + l2 / 2 (|p|^2 + |q|^2) + l2_intercept / 2 (|a_p|^2 + |c_q|^2)
                             + sum over blocks of features of l2_block / 2 (|z|^2 + |w|^2 + |a_z|^2 + |c_w|^2)
                             + B(U, V, a, c)

    where ``a_p`` and ``a_z`` are the row intercepts of rows and of features, and ``c_q`` and ``c_w`` the column's. B
    (:mod:`~tribit.backends.soft_bounds`) is there in a model with a ball. Where the intercepts are bounded ``b`` is no
    unknown, as in :class:`~tribit.Objective`.

    Parameters
    ----------
    objective : Objective
        The risk L; its own ridge weights are those of p, q and the intercepts.
    features : Features
        How parts combine, where the backend of the risk works, and the ridge weights of the parts that features share.
    bounds : SoftBounds, optional
        The penalty B; 0 where it is left out.
    """

    #: Whether rows share unknowns.
    shares_unknowns = True

    def __init__(
        self, objective: Objective, features: Features, bounds: SoftBounds | None = None
    ) -> None:
        self.objective, self.features, self.bounds = objective, features, bounds
        self.size, self.shape = objective.size, objective.shape
        #: Numbers of rows of the two factors among the unknowns.
        self.unknown_sizes = features.rows.n_parts, features.columns.n_parts
        l2, l2_intercept = objective.ridge.l2, objective.intercept_ridge.l2
        rows, columns = features.rows, features.columns
        self._ridge = Factors(
            rows.ridge(l2)[:, None],
            columns.ridge(l2)[:, None],
            0.0,
            rows.ridge(l2_intercept),
            columns.ridge(l2_intercept),
        )

    @property
    def plain(self) -> Objective:
        """The objective in the factors of the matrix, without what features add."""
        return self.objective

    def placed(self, unknowns: Factors) -> Factors:
        """Return the unknowns where the backend works; see :meth:`Objective.placed`."""
        return self.objective.placed(unknowns)

    def factors(self, unknowns: Factors) -> Factors:
        """Return the factors of the matrix, which the parts combine to."""
        found = self.features.combine(self.placed(unknowns))
        return found.to_numpy() if is_numpy(unknowns.row_factors) else found

    def unknowns(self, factors: Factors) -> Factors:
        """Return parts that combine to these factors of the matrix, with the parts of the features at 0."""
        return self.features.begin(factors)

    def in_float64(self) -> FeaturedObjective:
        """Return the same objective in float64 arithmetic."""
        return FeaturedObjective(self.objective.in_float64(), self.features, self.bounds)

    @property
    def estimates(self) -> bool:
        """Whether sums over all entries are estimates from a sample."""
        return self.objective.estimates

    def staged(self, parts: Factors) -> FeaturedObjective:
        """Return the same objective made ready for unknowns near these; see :meth:`Objective.staged`."""
        plain = self.objective.staged(self.features.combine(parts))
        return FeaturedObjective(plain, self.features, self.bounds)

    def enlarged(self) -> FeaturedObjective | None:
        """Return the same objective with a larger sample; see :meth:`Objective.enlarged`."""
        plain = self.objective.enlarged()
        return None if plain is None else FeaturedObjective(plain, self.features, self.bounds)

    def elsewhere(self, parts: Factors) -> float:
        """Return F as another sample estimates it; see :meth:`Objective.elsewhere`."""
        if not self.estimates:
            return self.value(parts)
        factors, plain = self.features.combine(parts), self.objective
        return self.value(parts) + plain.elsewhere(factors) - plain.value(factors)

    def value(self, parts: Factors) -> float:
        """Return F."""
        parts = self.placed(parts)
        factors = self.features.combine(parts.astype(self.objective.backend.dtype))
        with single_threaded_blas():
            risk = self.objective.risk_value(factors)
        if self.bounds is not None:
            risk += self.bounds.value(factors)
        return risk + 0.5 * parts.dot(self._weighted(parts))

    def gradient(self, parts: Factors) -> tuple[float, Factors]:
        """Return F and its gradient in the parts."""
        placed = self.placed(parts)
        if placed is not parts:  # a solver that knows NumPy's arrays alone
            value, found = self.gradient(placed)
            return value, found.to_numpy()
        # In the type of the backend, which rounds the factors in any case: half the memory traffic in single precision.
        kind = self.objective.backend.dtype
        factors = self.features.combine(parts.astype(kind))
        risk, gradient = self.objective.risk_gradient(factors)
        if self.bounds is not None:
            risk += self.bounds.value(factors)
            gradient = gradient.plus(1.0, self.bounds.gradient(factors))
        if np.isfinite(self.objective.intercept_bound):
            gradient = dataclasses.replace(gradient, intercept=0.0)
        total = self._weighted(parts)
        penalty = 0.5 * parts.dot(total)
        pulled = self.features.pull_back(gradient.astype(kind))
        # In place: the arrays are as long as all unknowns, and new.
        for sums, more in zip(total.arrays, pulled.arrays, strict=True):
            sums += more
        return float(risk + penalty), dataclasses.replace(total, intercept=pulled.intercept)

    def normalise_intercepts(self, parts: Factors) -> Factors:
        """Return the parts as they are: their intercepts have no mean that could move without changing X."""
        return parts

    def scales(self, parts: Factors) -> Factors:
        """Return the curvature of F in each unknown, roughly; see :meth:`Objective.scales`."""
        factors = self.features.combine(parts)
        curvatures = self.objective.curvatures(factors)
        if self.bounds is not None:
            curvatures = curvatures.plus(1.0, self.bounds.curvatures(factors))
        risk = self.features.pull_back_squares(curvatures)
        ones = parts.mapped(namespace(parts.row_factors).ones_like)
        return risk.plus(1.0, self._weighted(ones))

    def preconditioner(self, parts: Factors) -> Deflated:
        """Return a first guess of the inverse curvature of F in all unknowns together."""
        factors, seen = self.features.combine(parts), self.objective.observations
        ridge = self._ridge_beside(parts)
        if self.bounds is not None:
            bent = one_column(self.bounds.curvatures(factors))
            ridge = ridge.plus(1.0, self.features.pull_back_squares(bent))
        curvatures = self.objective.curvatures(factors)
        kind = self.objective.backend.dtype
        return Deflated.of(parts, self.features, factors, curvatures, ridge, seen.counts, kind)

    def _weighted(self, parts: Factors) -> Factors:
        """Return the gradient of the penalty: each part times its weight."""
        pairs = zip(parts.arrays, self._ridge_beside(parts).arrays, strict=True)
        U, V, a, c = (part * ridge for part, ridge in pairs)
        return Factors(U, V, 0.0, a, c)

    def _ridge_beside(self, parts: Factors) -> Factors:
        """Return the weight of each part, where the parts are."""
        if not is_numpy(parts.row_factors) and is_numpy(self._ridge.row_factors):
            self._ridge = self._ridge.mapped(lambda each: like(each, parts.row_factors))
        return self._ridge


def objective_of(
    spec: ModelSpec,
    observations: Observations,
    risk: Risk,
    *,
    side: SideFeatures | None = None,
    dtype: str = "float64",
    n_jobs: int | None = 1,
    backend: str = "exact",
    seed: int = 0,
    device: str = "cpu",
) -> Objective | FeaturedObjective:
    """Return what a model minimises on some observations, in its unknowns; ``risk`` is that of the model.

    Parameters
    ----------
    spec : ModelSpec
        The model; complete (:meth:`~tribit.model.spec.ModelSpec.completed`).
    side : SideFeatures, optional
        What is known of rows and columns, for a model with side features.
    observations, risk, dtype, n_jobs, backend, seed, device
        As in :class:`~tribit.Objective`.
    """
    plain = Objective.of(
        spec,
        observations,
        risk,
        dtype=dtype,
        n_jobs=n_jobs,
        backend=backend,
        seed=seed,
        device=device,
    )
    features = features_of(spec, observations, side, plain.backend)
    if features is None:
        return plain
    return FeaturedObjective(plain, features, SoftBounds.of(spec, observations, risk))


def features_of(
    spec: ModelSpec,
    observations: Observations,
    side: SideFeatures | None,
    backend: Backend | None = None,
) -> Features | None:
    """Return the features of a model on some observations, where a backend works; None where it has none."""
    if not (spec.implicit_features or spec.side_features):
        return None
    floor = spec.activity_floor if spec.implicit_features else None
    known = side if spec.side_features else None
    place = "cpu" if backend is None else backend.device
    # The features are kept beside what is made of them: their id stands for them as long as they live.
    _, designs = shared(
        observations,
        ("designs", place, floor, id(known)),
        lambda: (known, _designs(observations, floor, known, backend)),
    )
    implicit = IMPLICIT_SHARE * spec.l2 if spec.l2_implicit is None else spec.l2_implicit
    first = [] if floor is None else [implicit]
    ridges = [[*first, *([side_ridge(spec)] * (len(each.blocks) - len(first)))] for each in designs]
    rows, columns = (each.with_ridges(own) for each, own in zip(designs, ridges, strict=True))
    if isinstance(observations, RemoteObservations) and floor is not None:
        remote: Features = observations.features(rows, columns)
        return remote
    return Features(rows, columns)


def _designs(
    observations: Observations,
    floor: tuple[float, float] | None,
    side: SideFeatures | None,
    backend: Backend | None,
) -> tuple[Design, Design]:
    """Return the features of rows and of columns, implicit ones first; without ridges."""
    blocks: tuple[list[Any], list[Any]] = ([], [])
    if floor is not None:
        known = activities(observations, floor)
        if isinstance(observations, RemoteObservations):
            made = observations.implicit_blocks(known)
        elif backend is None:
            made = implicit_blocks(observations, known, 0.0, masks(observations))
        else:
            made = backend.implicit_blocks(observations, known, 0.0)
        for found, block in zip(blocks, made, strict=True):
            found.append(block)
    if side is not None:
        for found, groups in zip(blocks, side, strict=True):
            own = [side_block(group, 0.0) for group in groups or ()]
            found.extend(own if backend is None else map(backend.placed_block, own))
    rows, columns = (
        Design(size, tuple(found)) for size, found in zip(observations.shape, blocks, strict=True)
    )
    return rows, columns


def side_ridge(spec: ModelSpec) -> float:
    """Return the weight of the ridge on the parts of side features."""
    return SIDE_SHARE * spec.l2 if spec.l2_side is None else spec.l2_side
