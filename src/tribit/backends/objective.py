"""The objective: a risk at ``X = U V' + intercepts``, plus a ridge penalty on the unknowns.

    F(U, V, a, c, b) = sum_ij [c_plus(A_ij) l(x_ij, +1) + c_minus(A_ij) l(x_ij, -1)]
                       + l2 / 2 (|U|^2 + |V|^2) + l2_intercept / 2 (|a|^2 + |c|^2)

The global intercept ``b`` is not penalised. With ``l2_power`` the factors of rows and columns with more entries have
a larger penalty (:mod:`tribit.backends.penalty`). Where unobserved entries count, F can be unbounded below in the
intercepts: then ``b`` keeps its initial value, and row and column intercepts stay within ``intercept_bound``.

The factors are a linear map of the unknowns, the design (:mod:`tribit.model.features`). A plain model has the
identity: its unknowns are the factors. With features of rows and columns ``U = p + S z`` and ``V = q + T w``,
intercepts alike, and

    F(p, z, q, w, ...) = L(U, V, a, c, b) + l2 / 2 (|p|^2 + |q|^2) + l2_intercept / 2 (|a_p|^2 + |c_q|^2)
                         + sum over blocks of features of l2_block / 2 (|z|^2 + |w|^2 + |a_z|^2 + |c_w|^2)
                         + B(U, V, a, c)

where ``a_p`` and ``a_z`` are the row intercepts of rows and of features, and ``c_q`` and ``c_w`` the column's. A model
with a ball has the soft bounds B (:mod:`tribit.backends.soft_bounds`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import add_in_place, full_beside, is_numpy, namespace
from tribit.backends import Arithmetic, make_backend
from tribit.backends.base import Backend, masks
from tribit.backends.layout import make_once
from tribit.backends.penalty import Penalty, relative_l2
from tribit.backends.preconditioner import (
    Deflated,
    Diagonal,
    Preconditioner,
    diagonal_hessian_of_risk,
    one_column,
)
from tribit.backends.soft_bounds import SoftBounds
from tribit.backends.threads import count_jobs, single_threaded_blas
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.model.constraints import Ridge
from tribit.model.design import Design
from tribit.model.factors import Factors
from tribit.model.features import (
    Features,
    activities,
    implicit_blocks,
    mean_total,
    side_block,
)
from tribit.model.links import Link
from tribit.model.risks import Risk
from tribit.model.spec import ModelSpec

Array = NDArray[np.floating[Any]]


class Smooth(ABC):
    """A differentiable function of factors; the defaults are those of one without intercepts and features."""

    #: Whether rows share unknowns.
    shares_unknowns: bool = False
    #: Whether intercepts are unknowns, their largest absolute value, and the ridge on those of rows and columns.
    intercept: bool = False
    intercept_bound: float = np.inf
    intercept_ridge: Ridge = Ridge(0.0)
    #: A typical second derivative of the loss of one entry.
    curvature: float = 1.0
    #: The entries that count (:class:`~tribit.data.entries.Entries`).
    observations: Any

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The shape of X."""

    @property
    @abstractmethod
    def size(self) -> float:
        """Scale of the objective, to which ``tol`` is relative."""

    @abstractmethod
    def value(self, factors: Factors) -> float:
        """Return F."""

    @abstractmethod
    def gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:
        """Return F and its gradient, laid out as the factors are."""

    def in_float64(self) -> Self:
        """Return the same objective in float64 arithmetic."""
        return self

    def entry_counts(self) -> tuple[Array, Array]:
        """Return the number of entries that count in each row and in each column."""
        rows, columns = self.observations.totals
        return rows.astype(np.float64), columns.astype(np.float64)


#: Defaults of ``l2_implicit`` and ``l2_side`` as multiples of ``l2``.
IMPLICIT_SHARE = 1.7
SIDE_SHARE = 1.0


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
    # The side features are stored with the designs: their id is a valid key only while they live.
    _, designs = make_once(
        observations,
        ("designs", place, floor, id(known)),
        lambda: (known, _designs(observations, floor, known, backend)),
    )
    implicit = IMPLICIT_SHARE * spec.l2 if spec.l2_implicit is None else spec.l2_implicit
    first = [] if floor is None else [implicit]
    ridges = [[*first, *([side_ridge(spec)] * (len(each.blocks) - len(first)))] for each in designs]
    rows, columns = (each.with_ridges(own) for each, own in zip(designs, ridges, strict=True))
    if backend is None:
        return Features(rows, columns)
    return backend.features(rows, columns, implicit=floor is not None)


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
        if backend is None:
            made = implicit_blocks(observations, known, 0.0, masks(observations))
        else:
            made = backend.implicit_blocks(observations, known, 0.0)
        for found, block in zip(blocks, made, strict=True):
            found.append(block)
    if side is not None:
        for found, groups in zip(blocks, side, strict=True):
            own = [side_block(group, 0.0) for group in groups or ()]
            found.extend(own if backend is None else map(backend.block_to_device, own))
    rows, columns = (
        Design(size, tuple(found)) for size, found in zip(observations.shape, blocks, strict=True)
    )
    return rows, columns


def side_ridge(spec: ModelSpec) -> float:
    """Return the weight of the ridge on the parts of side features."""
    return SIDE_SHARE * spec.l2 if spec.l2_side is None else spec.l2_side


__all__ = ["Arithmetic", "Objective"]


class Objective(Smooth):
    """Value and gradients of a penalised risk in the unknowns of a model, through a backend.

    Parameters
    ----------
    observations : Observations
        The observed entries.
    link : Link
        The link of an entry's probability of a like.
    risk : Risk
        The weights of likes, dislikes and unobserved entries.
    l2 : float
        Weight of the ridge penalty on the factors.
    l2_intercept : float or None
        Weight of the ridge penalty on row and column intercepts; None for ``l2``.
    intercept : bool
        Whether the intercepts are unknowns (otherwise they stay 0).
    intercept_bound : float
        Largest absolute value of a row or column intercept. When finite, ``b`` is not an unknown either.
    arithmetic : Arithmetic
        Type, threads, device, and whether sums over all entries are exact.

    Attributes
    ----------
    penalty : Penalty
        The ridge of the unknowns.
    features : Features
        The design: how unknowns combine to factors. The identity, unless :meth:`with_features` gives another.
    shares_unknowns : bool
        Whether rows share unknowns through features.
    bounds : SoftBounds or None
        The penalty B.

    Examples
    --------
    >>> from tribit import Logistic, Objective, Observations, pn
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> Objective(seen, Logistic(), pn(), l2=1.0).shape
    (2, 3)
    """

    observations: Observations

    def __init__(
        self,
        observations: Observations,
        link: Link,
        risk: Risk,
        *,
        l2: float = 0.0,
        l2_intercept: float | None = None,
        intercept: bool = False,
        intercept_bound: float = np.inf,
        arithmetic: Arithmetic = Arithmetic(),  # noqa: B008 - frozen
    ) -> None:
        self.observations, self.link, self.risk = observations, link, risk
        self.ridge, self.intercept = Ridge(l2), intercept
        self.intercept_ridge = self.ridge if l2_intercept is None else Ridge(l2_intercept)
        self.intercept_bound = intercept_bound
        self.curvature = float(link.second(np.zeros(1), 1)[0])
        self.backend: Backend = make_backend(
            observations,
            link,
            risk,
            dtype=arithmetic.dtype,
            n_jobs=count_jobs(arithmetic.n_jobs),
            device=arithmetic.device,
            backend=arithmetic.backend,
            seed=arithmetic.seed,
        )
        self.device = arithmetic.device
        self.shares_unknowns = False
        self.features = Features.identity(observations.shape)
        self.penalty = Penalty(self.ridge, self.intercept_ridge, self.features)
        self.bounds: SoftBounds | None = None

    @classmethod
    def of(
        cls,
        spec: ModelSpec,
        observations: Observations,
        risk: Risk,
        *,
        side: SideFeatures | None = None,
        arithmetic: Arithmetic = Arithmetic(),  # noqa: B008 - frozen
        mean_totals: tuple[float, float] | None = None,
    ) -> Self:
        """Return the objective of a model on some observations, in its unknowns.

        Parameters
        ----------
        spec : ModelSpec
            The model; complete (:meth:`~tribit.model.spec.ModelSpec.with_default_radius`).
        observations : Observations
            The observed entries.
        risk : Risk
            That of the model.
        side : SideFeatures, optional
            Features of rows and columns, for a model with side features.
        arithmetic : Arithmetic
            Type, threads, device, and whether sums over all entries are exact.
        mean_totals : (float, float), optional
            Those of the fit (:class:`~tribit.model.fitted.Member`); by default those of the observations.
        """
        plain = cls(
            observations,
            spec.link,
            risk,
            l2=spec.l2,
            l2_intercept=spec.l2_intercept,
            intercept=spec.intercept,
            intercept_bound=spec.intercept_bound,
            arithmetic=arithmetic,
        )
        totals = observations.totals
        rows, columns = (
            relative_l2(spec.l2_power, each, mean)
            for each, mean in zip(totals, mean_totals or map(mean_total, totals), strict=True)
        )
        plain.penalty = replace(plain.penalty, relative=(rows, columns))
        features = features_of(spec, observations, side, plain.backend)
        if features is None:
            return plain
        return plain.with_features(features, SoftBounds.of(spec, observations, risk))

    def with_features(self, features: Features, bounds: SoftBounds | None = None) -> Self:
        """Return the objective with a design instead of the identity, so that rows share unknowns.

        Parameters
        ----------
        features : Features
            How unknowns combine, where the backend works, and the ridge weights of those that features share.
        bounds : SoftBounds, optional
            The penalty B; 0 where it is left out.
        """
        again = copy(self)
        again.shares_unknowns, again.features, again.bounds = True, features, bounds
        again.penalty = replace(self.penalty, features=features, shared=True)
        return again

    def in_float64(self) -> Self:
        """Return the same objective in float64 arithmetic: the numbers that are reported."""
        if self.backend.dtype == np.float64:
            return self
        again = self.backend.astype("float64") or make_backend(
            self.observations,
            self.link,
            self.risk,
            dtype="float64",
            n_jobs=self.backend.n_jobs,
            device=self.device,
        )
        return self._with(again)

    @property
    def estimates(self) -> bool:
        """Whether sums over all entries are estimates from a sample."""
        return self.backend.estimates

    def refit_control_variates(self, unknowns: Factors) -> Self:
        """Return the same objective with control variates and a sample fitted near these unknowns."""
        return self._with(
            self.backend.refit_control_variates(*self.product(self.factors(unknowns)))
        )

    def double_sample(self) -> Self | None:
        """Return the same objective with a larger sample from the next stage on; None where there is none."""
        larger = self.backend.double_sample()
        return None if larger is None else self._with(larger)

    def value_on_new_sample(self, unknowns: Factors) -> float:
        """Return F estimated from an independent sample of the same size; F itself where sums are exact."""
        if not self.estimates:
            return self.value(unknowns)
        return self._with(self.backend.resample()).refit_control_variates(unknowns).value(unknowns)

    def _with(self, backend: Backend) -> Self:
        if backend is self.backend:
            return self
        again = copy(self)
        again.backend = backend
        return again

    def to_device(self, unknowns: Factors) -> Factors:
        """Return the unknowns on the backend's device, there in the type of the arithmetic."""
        return self.backend.factors_to_device(unknowns)

    def factors(self, unknowns: Factors) -> Factors:
        """Return the factors of the matrix that the unknowns combine to."""
        found = self.features.combine(self._beside_features(unknowns))
        return found.to_numpy() if is_numpy(unknowns.row_factors) else found

    def unknowns(self, factors: Factors) -> Factors:
        """Return unknowns that combine to these factors of the matrix, with those of features at 0."""
        return self.features.initial_coefficients(factors)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of X."""
        return self.observations.shape

    @property
    def unknown_sizes(self) -> tuple[int, int]:
        """Numbers of rows of the two factors among the unknowns: the shape of X, and a row for each feature."""
        return self.features.rows.n_coefficients, self.features.columns.n_coefficients

    @cached_property
    def size(self) -> float:
        """The risk at ``X = 0`` without corrections by ``1 / q``: the scale of ``tol``."""
        zero = np.zeros(1)
        like, dislike = float(self.link.loss(zero, 1)[0]), float(self.link.loss(zero, -1)[0])
        cells, (likes, dislikes) = self.observations.n_cells, self.observations.label_totals
        return cells * (self.risk.nu * like + self.risk.pu * dislike) + self.risk.pn * (
            likes * like + dislikes * dislike
        )

    def entry_counts(self) -> tuple[Array, Array]:
        """Return the number of entries that count in each row and in each column: all, or those observed."""
        if self.risk.unobserved_weight > 0:
            d1, d2 = self.shape
            return np.full(d1, float(d2)), np.full(d2, float(d1))
        return super().entry_counts()

    def normalise_intercepts(self, unknowns: Factors) -> Factors:
        """Return the unknowns with intercepts clipped to their bound, or centred on 0 where they have none.

        With features they stay: the intercepts have no mean that could move without changing X.
        """
        if self.shares_unknowns or not self.intercept:
            return unknowns
        if np.isfinite(self.intercept_bound):
            return unknowns.clip_intercepts(self.intercept_bound)
        return unknowns.centre_intercepts()

    def product(self, factors: Factors) -> tuple[Array, Array]:
        """Return P and Q with ``x = P Q'``; columns for intercepts only where there are any."""
        if self.intercept or factors.has_intercepts:
            return factors.product_factors()
        return factors.row_factors, factors.column_factors

    def value(self, unknowns: Factors) -> float:
        """Return F."""
        unknowns = self._beside_features(unknowns)
        factors = self.features.combine(self._in_backend_type(unknowns))
        risk = self.risk_value(factors)
        if self.bounds is not None:
            risk += self.bounds.value(factors)
        return risk + self.penalty.value(unknowns)

    def risk_value(self, factors: Factors) -> float:
        """Return the risk alone at factors of the matrix, without the ridge."""
        with single_threaded_blas():
            return self.backend.value(*self.product(factors))

    def gradient(self, unknowns: Factors, *, value: bool = True) -> tuple[float, Factors]:
        """Return F (NaN unless ``value``) and its gradient, laid out as the unknowns are."""
        here = self._beside_features(unknowns)
        if here is not unknowns:  # a solver that knows NumPy's arrays alone
            total, found = self.gradient(here, value=value)
            return total, found.to_numpy()
        factors = self.features.combine(self._in_backend_type(unknowns))
        risk, gradient = self.risk_gradient(factors, value=value)
        if self.bounds is not None:
            risk += self.bounds.value(factors)
            gradient = gradient.plus(1.0, self.bounds.gradient(factors))
        if np.isfinite(self.intercept_bound):
            gradient = replace(gradient, intercept=0.0)
        weighted = self.penalty.gradient(unknowns)
        uniform = self.penalty.is_uniform
        penalty = self.penalty.value(unknowns) if uniform else 0.5 * unknowns.dot(weighted)
        pulled = self.features.pull_back(self._in_backend_type(gradient))
        U, V, a, c = map(add_in_place, weighted.arrays, pulled.arrays)
        return float(risk + penalty), Factors(U, V, pulled.intercept, a, c)

    def scales(self, unknowns: Factors) -> Factors:
        """Return the approximate curvature of F in each unknown, which changes a solver's speed, not its result."""
        factors = self.features.combine(unknowns)
        curvatures = self.curvatures(factors)
        if self.bounds is not None:
            curvatures = curvatures.plus(1.0, self.bounds.curvatures(factors))
        risk = self.features.pull_back_squares(curvatures)
        return risk.plus(1.0, self.penalty.weights(unknowns))

    def preconditioner(self, unknowns: Factors) -> Preconditioner:
        """Return an approximate inverse curvature of F in all unknowns together."""
        kind = self.backend.dtype
        if not self.shares_unknowns:
            return Diagonal(self.scales(unknowns), kind)
        factors, counts = self.features.combine(unknowns), self.observations.counts
        ridge = self.penalty.weights(unknowns)
        if self.bounds is not None:
            bent = one_column(self.bounds.curvatures(factors))
            ridge = ridge.plus(1.0, self.features.pull_back_squares(bent))
        curvatures = self.curvatures(factors)
        return Deflated.of(unknowns, self.features, factors, curvatures, ridge, counts, kind)

    def curvatures(self, factors: Factors) -> Factors:
        """Return the curvature of the risk in each factor, roughly (:mod:`tribit.backends.preconditioner`)."""
        return diagonal_hessian_of_risk(self.link, self.risk, self.observations, factors)

    def risk_gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:
        """Return the risk alone (NaN unless ``value``) and its gradient in the factors; a device keeps its numbers."""
        with single_threaded_blas():
            total, in_P, in_Q = self.backend.gradient(*self.product(factors), value=value)
        k = factors.rank
        if self.intercept:
            # P = [U, a, 1] and Q = [V, 1, b + c]: column k of in_P is dF/da, column k + 1 of in_Q is dF/dc.
            rows, columns = in_P[:, k], in_Q[:, k + 1]
        else:  # they are no unknowns, and stay
            rows, columns = (full_beside(F.shape[:1], 0.0, F) for F in (in_P, in_Q))
        whole = namespace(rows).sum(rows)
        one = float(whole) if is_numpy(rows) else whole
        return total, Factors(in_P[:, :k], in_Q[:, :k], one, rows, columns)

    def _beside_features(self, unknowns: Factors) -> Factors:
        """Return the unknowns on the device of the features; without features the backend moves them itself."""
        return self.to_device(unknowns) if self.shares_unknowns else unknowns

    def _in_backend_type(self, given: Factors) -> Factors:
        """Return numbers in the type of the backend, which rounds the factors in any case.

        A product with features takes half the memory traffic in single precision so; the identity rounds nothing.
        """
        return given.astype(self.backend.dtype) if self.shares_unknowns else given
