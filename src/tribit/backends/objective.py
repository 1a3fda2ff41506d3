"""The objective: a risk at ``X = U V' + intercepts``, plus a ridge penalty.

    F(U, V, a, c, b) = sum_ij [c_plus(A_ij) l(x_ij, +1) + c_minus(A_ij) l(x_ij, -1)]
                       + l2 / 2 (|U|^2 + |V|^2) + l2_intercept / 2 (|a|^2 + |c|^2)

The one number ``b`` is not penalised. Where unobserved entries count, F can have no lower bound in the
intercepts: then ``b`` stays what it is at the start, and row and column intercepts within ``intercept_bound``.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import filled, is_numpy, namespace
from tribit.backends import Backend, make_backend
from tribit.backends.curvatures import risk_curvatures
from tribit.backends.preconditioner import Diagonal, Preconditioner
from tribit.backends.threads import count_jobs, single_threaded_blas
from tribit.checks import check_choice
from tribit.data.observations import Observations
from tribit.model.constraints import Ridge
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Risk
from tribit.model.spec import ModelSpec

Array = NDArray[np.floating[Any]]


def check_dtype(dtype: Any) -> str:
    """Return the name of a type of the arithmetic."""
    return check_choice("dtype", dtype, ("float32", "float64"))


class Objective:
    """Value and gradients of a penalised risk, through a backend.

    Parameters
    ----------
    observations : Observations
        What was seen.
    link : Link
        How an entry becomes a like.
    risk : Risk
        How much each kind of entry counts.
    l2 : float
        Weight of the ridge penalty on the factors.
    l2_intercept : float or None
        Weight of the ridge penalty on row and column intercepts; None for ``l2``.
    intercept : bool
        Whether the intercepts are unknowns (otherwise they stay 0).
    intercept_bound : float
        Largest absolute value of a row or column intercept. When finite, ``b`` is not an unknown either.
    dtype : {"float32", "float64"}
        Type of the arithmetic within a tile; sums over tiles are always float64.
    n_jobs : int or None
        Threads; ``None`` or -1 for every core. The result has the same bits for any number.
    backend : {"exact", "sampled", "auto"}, default="exact"
        Whether sums over all entries visit each or are estimated (:mod:`tribit.backends.sampled`); "auto" estimates
        them where there are too many.
    seed : int, default=0
        Draws the sample of an estimate.
    device : str
        Device of the arithmetic, one of those that ``BACKENDS`` has.
    """

    #: Whether rows share unknowns.
    shares_unknowns = False

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
        dtype: str = "float64",
        n_jobs: int | None = 1,
        backend: str = "exact",
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.observations, self.link, self.risk = observations, link, risk
        self.ridge, self.intercept = Ridge(l2), intercept
        self.intercept_ridge = self.ridge if l2_intercept is None else Ridge(l2_intercept)
        self.intercept_bound = intercept_bound
        self.backend: Backend = make_backend(
            observations,
            link,
            risk,
            dtype=dtype,
            n_jobs=count_jobs(n_jobs),
            device=device,
            backend=backend,
            seed=seed,
        )
        self.device = device

    @classmethod
    def of(
        cls,
        spec: ModelSpec,
        observations: Observations,
        risk: Risk,
        *,
        dtype: str = "float64",
        n_jobs: int | None = 1,
        backend: str = "exact",
        seed: int = 0,
        device: str = "cpu",
    ) -> Self:
        """Return what a model minimises, in the factors of the matrix: implicit features are left out."""
        return cls(
            observations,
            spec.link,
            risk,
            l2=spec.l2,
            l2_intercept=spec.l2_intercept,
            intercept=spec.intercept,
            intercept_bound=spec.intercept_bound,
            dtype=check_dtype(dtype),
            n_jobs=n_jobs,
            backend=backend,
            seed=seed,
            device=device,
        )

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

    def staged(self, factors: Factors) -> Self:
        """Return the same objective made ready for factors near these: where sums are estimates, with a new sample."""
        return self._with(self.backend.staged(*self.product(factors)))

    def enlarged(self) -> Self | None:
        """Return the same objective with a larger sample from the next stage on; None where there is none."""
        larger = self.backend.enlarged()
        return None if larger is None else self._with(larger)

    def elsewhere(self, factors: Factors) -> float:
        """Return F as another sample of the same size estimates it, one that nothing was fitted to; F where exact."""
        return self._with(self.backend.redrawn()).staged(factors).value(factors)

    def _with(self, backend: Backend) -> Self:
        if backend is self.backend:
            return self
        again = copy(self)
        again.backend = backend
        return again

    def placed(self, unknowns: Factors) -> Factors:
        """Return the unknowns where the backend works: on a device its own arrays, in the type of the arithmetic."""
        return self.backend.placed_factors(unknowns)

    @property
    def plain(self) -> Objective:
        """The objective in the factors of the matrix: this one."""
        return self

    def factors(self, unknowns: Factors) -> Factors:
        """Return the factors of the matrix: the unknowns themselves."""
        return unknowns

    def unknowns(self, factors: Factors) -> Factors:
        """Return unknowns that give these factors of the matrix."""
        return factors

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of X."""
        return self.observations.shape

    @property
    def unknown_sizes(self) -> tuple[int, int]:
        """Numbers of rows of the two factors among the unknowns: the shape of X."""
        return self.shape

    @cached_property
    def size(self) -> float:
        """The risk at ``X = 0``, corrections by ``1 / q`` left out: what ``tol`` is relative to."""
        zero = np.zeros(1)
        like, dislike = float(self.link.loss(zero, 1)[0]), float(self.link.loss(zero, -1)[0])
        entries = self.shape[0] * self.shape[1]
        seen = self.observations
        return entries * (self.risk.nu * like + self.risk.pu * dislike) + self.risk.pn * (
            seen.n_likes * like + seen.n_dislikes * dislike
        )

    def normalise_intercepts(self, factors: Factors) -> Factors:
        """Return the factors with intercepts clipped to their bound, or centred on 0 where they have none."""
        if not self.intercept:
            return factors
        if np.isfinite(self.intercept_bound):
            return factors.clipped_intercepts(self.intercept_bound)
        return factors.centred()

    def product(self, factors: Factors) -> tuple[Array, Array]:
        """Return P and Q with ``x = P Q'``; columns for intercepts only where there are any."""
        if self.intercept or factors.has_intercepts:
            return factors.augmented()
        return factors.row_factors, factors.column_factors

    def penalty(self, factors: Factors) -> float:
        """Return the ridge penalties of the factors and of row and column intercepts."""
        return self.ridge.value(
            factors.row_factors, factors.column_factors
        ) + self.intercept_ridge.value(factors.row_intercepts, factors.column_intercepts)

    def value(self, factors: Factors) -> float:
        """Return F."""
        return self.risk_value(factors) + self.penalty(factors)

    def risk_value(self, factors: Factors) -> float:
        """Return the risk alone, without the ridge."""
        with single_threaded_blas():
            return self.backend.value(*self.product(factors))

    def gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:
        """Return F (NaN unless ``value``) and its gradient, laid out as the factors are."""
        total, gradient = self.risk_gradient(factors, value=value)
        ridge, intercept_ridge = self.ridge.gradient, self.intercept_ridge.gradient
        return float(total + self.penalty(factors)), Factors(
            gradient.row_factors + ridge(factors.row_factors),
            gradient.column_factors + ridge(factors.column_factors),
            gradient.intercept,
            gradient.row_intercepts + intercept_ridge(factors.row_intercepts),
            gradient.column_intercepts + intercept_ridge(factors.column_intercepts),
        )

    def scales(self, factors: Factors) -> Factors:
        """Return the curvature of F in each unknown, roughly: it sets how fast a solver is, not where it ends."""
        risk = self.curvatures(factors)
        l2, l2_intercept = self.ridge.l2, self.intercept_ridge.l2
        return Factors(
            risk.row_factors + l2,
            risk.column_factors + l2,
            risk.intercept,
            risk.row_intercepts + l2_intercept,
            risk.column_intercepts + l2_intercept,
        )

    def preconditioner(self, factors: Factors) -> Preconditioner:
        """Return a first guess of the inverse curvature of F in all unknowns together."""
        return Diagonal(self.scales(factors), self.backend.dtype)

    def curvatures(self, factors: Factors) -> Factors:
        """Return the curvature of the risk in each unknown, roughly (:mod:`tribit.backends.curvatures`)."""
        return risk_curvatures(self.link, self.risk, self.observations, factors)

    def risk_gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:
        """Return the risk alone (NaN unless ``value``) and its gradient; numbers of a device are left there."""
        with single_threaded_blas():
            total, in_P, in_Q = self.backend.gradient(*self.product(factors), value=value)
        k = factors.rank
        if self.intercept:
            # P = [U, a, 1] and Q = [V, 1, b + c]: column k of in_P is dF/da, column k + 1 of in_Q is dF/dc.
            rows, columns = in_P[:, k], in_Q[:, k + 1]
        else:  # they are no unknowns, and stay
            rows, columns = (filled(F.shape[:1], 0.0, F) for F in (in_P, in_Q))
        whole = namespace(rows).sum(rows)
        one = float(whole) if is_numpy(rows) else whole
        return total, Factors(in_P[:, :k], in_Q[:, :k], one, rows, columns)
