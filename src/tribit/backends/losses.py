"""Weighted losses: the link and the risk's weights, put into the shape a blocked pass can apply in place.

On every entry the risk has the *dense* term ``nu l(x, +1) + pu l(x, -1)``, which needs no data, and on an
observed entry the *correction* ``plus l(x, +1) + minus l(x, -1)``. A loss evaluates both on ``z = scale x``
and leaves affine parts to closed sums, so that a tile is read and written as few times as possible:

    value      =  unit * (value_out + value_constant) + value_linear * z
    d / dx     =  unit * slope * first_out + first_constant
    d2 / dx2   =  unit * slope**2 * second_out

A *bounded* loss knows upper bounds of the curvature: of the dense term, the same for every entry, and of each
correction. They make quadratic models that are nowhere below the risk and that need no pass of their own.

Where a model imputes every entry (:func:`tribit.model.risks.doubly_robust`) the dense term is
``(pu + nu) [f0 l(x, +1) + (1 - f0) l(x, -1)]``, and the expected label ``expected = 2 f0 - 1`` comes with the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.model.links import Label, Link, Logistic, Probit, hazards
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]
Weight: TypeAlias = float | Array


class WeightedLoss(Protocol):
    """Interface of a link under given weights, as a backend uses it; see the module's formulae."""

    scale: float
    unit: float
    slope: float
    value_constant: float
    value_linear: float
    first_constant: float
    has_bounds: bool
    dense_bound: float
    needs_predictor: bool

    def apply(
        self,
        z: Array,
        value: Array | None,
        second: Array | None,
        spare: Array,
        expected: Array | None = None,
    ) -> None:
        """Overwrite ``z`` by ``first_out``; fill ``value`` and ``second`` where given."""
        ...

    def weights(self, plus: Array, minus: Array) -> tuple[Array, Array]:
        """Return the correction weights in the shape that ``correct`` and ``correct_value`` take them."""
        ...

    def correct(self, z: Array, a: Array, b: Array, second: bool) -> tuple[Array, Array | None]:
        """Return the corrections of ``first_out`` and (if requested) ``second_out`` at observed entries."""
        ...

    def correct_in_tile(
        self, first: Array, z: Array | None, a: Array, b: Array, second: bool
    ) -> tuple[Array, Array | None]:
        """Return the corrected ``first_out`` of observed entries, given its dense part, and the rest alike.

        ``z`` is there where the loss ``needs_predictor``.
        """
        ...

    def correct_value(self, z: Array, a: Array, b: Array) -> Array:
        """Return the whole correction ``plus l(x, +1) + minus l(x, -1)``, in float64."""
        ...

    def correct_bound(self, plus: Array, minus: Array) -> Array:
        """Return upper bounds of the curvature ``d2 / dx2`` of the corrections."""
        ...

    def slack(self, first: Array, expected: Array | None = None) -> float:
        """Return the sum over entries of ``1 - curvature / bound``, or a quick estimate, from ``first_out``."""
        ...


class LogisticLoss:
    """With ``z = s x / 2`` and ``t = tanh z`` everything is one ``tanh`` in place.

    ``l(x, y)' = s (t - y) / 2``, ``l(x, y)'' = s^2 (1 - t^2) / 4`` and
    ``l(x, y) = log 2 + |z| - log(1 + |t|) - y z``: bounded terms only, so nothing overflows.
    """

    has_bounds = True

    def __init__(self, link: Logistic, pu: float, nu: float, *, imputed: bool = False) -> None:
        weight = pu + nu
        #: Where entries are imputed the tile holds ``t - expected``, and t is made again at the observed ones.
        self.needs_predictor = imputed
        pu, nu = (0.0, 0.0) if imputed else (pu, nu)  # the expected labels take their place
        self.scale = link.scale / 2.0
        self.unit = weight or 1.0  # without a dense term corrections are in units of 1
        self.slope = link.scale / 2.0
        self.value_constant = np.log(2.0)
        self.value_linear = pu - nu
        self.first_constant = (pu - nu) * link.scale / 2.0
        self.dense_bound = weight * self.slope**2

    def apply(
        self,
        z: Array,
        value: Array | None,
        second: Array | None,
        spare: Array,
        expected: Array | None = None,
    ) -> None:
        """Overwrite ``z`` by ``t - expected``; value ``|z| - log(1 + |t|) - expected z``, second ``1 - t^2``."""
        if value is not None:
            np.abs(z, out=value)
            if expected is not None:
                value -= np.multiply(expected, z, out=spare)
        np.tanh(z, out=z)
        if value is not None:
            np.abs(z, out=spare)
            spare += 1
            value -= np.log(spare, out=spare)
        if second is not None:
            np.multiply(z, z, out=second)
            np.subtract(1, second, out=second)
        if expected is not None:
            z -= expected

    def weights(self, plus: Array, minus: Array) -> tuple[Array, Array]:
        """Return the even and the odd part, ``(plus + minus) / unit`` and ``(plus - minus) / unit``."""
        return (plus + minus) / self.unit, (plus - minus) / self.unit

    def correct(self, z: Array, a: Array, b: Array, second: bool) -> tuple[Array, Array | None]:
        """Return ``a t - b`` and ``a (1 - t^2)``."""
        t = np.tanh(z)
        first = a * t
        first -= b
        return first, (a * (1 - t * t) if second else None)

    def correct_in_tile(
        self, first: Array, z: Array | None, a: Array, b: Array, second: bool
    ) -> tuple[Array, Array | None]:
        """Return ``t + a t - b`` and ``a (1 - t^2)``: the tile holds t already, unless labels are imputed."""
        if self.needs_predictor and z is not None:
            add, bend = self.correct(z, a, b, second)
            return first + add, bend
        corrected = first * (1 + a)
        corrected -= b
        return corrected, (a * (1 - first * first) if second else None)

    def correct_value(self, z: Array, a: Array, b: Array) -> Array:
        """Return ``unit (a log(2 cosh z) - b z)``."""
        size = np.abs(z)
        # log(2 cosh z) = |z| + log 2 - log(1 + tanh |z|): NumPy has vector instructions for these, not for log1p.
        even = np.tanh(size)
        even += 1
        np.log(even, out=even)
        np.subtract(size, even, out=even)
        even += z.dtype.type(np.log(2.0))
        return np.asarray(a * even - b * z, dtype=np.float64) * self.unit

    def correct_bound(self, plus: Array, minus: Array) -> Array:
        """Return ``(plus + minus) s^2 / 4``: the odd part has no curvature at all."""
        return np.maximum(plus + minus, 0.0) * self.slope**2

    def slack(self, first: Array, expected: Array | None = None) -> float:
        """Return the sum of ``t^2``."""
        t = first if expected is None else first + expected.reshape(-1)
        return float(np.dot(t, t))  # not t @ t, which keeps the interpreter's lock


class GenericLoss:
    """Any link, through its own loss and derivatives."""

    has_bounds = False
    dense_bound = np.inf
    needs_predictor = True

    def __init__(self, link: Link, pu: float, nu: float) -> None:
        self.link, self.pu, self.nu = link, pu, nu
        self.scale = self.unit = self.slope = 1.0
        self.value_constant = self.value_linear = self.first_constant = 0.0

    def apply(
        self,
        z: Array,
        value: Array | None,
        second: Array | None,
        spare: Array,  # noqa: ARG002
        expected: Array | None = None,
    ) -> None:
        """Fill value, second and (last, over ``z``) first with ``nu l(x, +1) + pu l(x, -1)``."""
        pu, nu = self._shares(expected)
        if value is not None:
            value[...] = self._weighted_sum(self.link.loss, z, pu, nu)
        if second is not None:
            second[...] = self._weighted_sum(self.link.second, z, pu, nu)
        z[...] = self._first(z, pu, nu)

    def _shares(self, expected: Array | None) -> tuple[Weight, Weight]:
        """Return the weights of a dislike and of a like: two numbers, or two for each entry of a tile."""
        if expected is None:
            return self.pu, self.nu
        half = 0.5 * (self.pu + self.nu)
        return half * (1 - expected), half * (1 + expected)

    def _first(self, z: Array, pu: Weight, nu: Weight) -> Array:
        return self._weighted_sum(self.link.first, z, pu, nu)

    @staticmethod
    def _weighted_sum(
        term: Callable[[Array, Label], Array], z: Array, pu: Weight, nu: Weight
    ) -> Array:
        """Return ``nu term(x, +1) + pu term(x, -1)``; a term without weight is not computed."""
        if not np.any(pu):
            return nu * term(z, 1)
        return nu * term(z, 1) + pu * term(z, -1) if np.any(nu) else pu * term(z, -1)

    def weights(self, plus: Array, minus: Array) -> tuple[Array, Array]:
        """Return the weights as they are."""
        return plus, minus

    def correct(self, z: Array, a: Array, b: Array, second: bool) -> tuple[Array, Array | None]:
        """Return ``a l'(x, +1) + b l'(x, -1)`` and, if requested, the second derivatives alike."""
        first = a * self.link.first(z, 1) + b * self.link.first(z, -1)
        if not second:
            return first, None
        return first, a * self.link.second(z, 1) + b * self.link.second(z, -1)

    def correct_in_tile(
        self, first: Array, z: Array | None, a: Array, b: Array, second: bool
    ) -> tuple[Array, Array | None]:
        """Return ``first`` plus the corrections, and the second derivatives of these."""
        if z is None:
            raise TypeError("this loss needs the predictor")
        add, bend = self.correct(z, a, b, second)
        return first + add, bend

    def correct_value(self, z: Array, a: Array, b: Array) -> Array:
        """Return ``a l(x, +1) + b l(x, -1)``."""
        x = z.astype(np.float64)
        return np.asarray(a * self.link.loss(x, 1) + b * self.link.loss(x, -1))

    def correct_bound(self, plus: Array, minus: Array) -> Array:
        """Return infinity: there is no bound."""
        return np.full(np.broadcast(plus, minus).shape, np.inf)

    def slack(self, first: Array, expected: Array | None = None) -> float:  # noqa: ARG002
        """Return the number of entries: no bound is tight."""
        return float(first.size)


class ProbitLoss(GenericLoss):
    """``0 < l(x, y)'' < 1 / sigma^2``: the same formulae as any link's, and bounds."""

    has_bounds = True

    def __init__(self, link: Probit, pu: float, nu: float) -> None:
        super().__init__(link, pu, nu)
        self.sigma = link.sigma
        self.most = 1.0 / link.sigma**2
        self.dense_bound = (pu + nu) * self.most

    def _first(self, z: Array, pu: Weight, nu: Weight) -> Array:
        """Return the same as any link's, both labels from one error function."""
        if not (np.any(pu) and np.any(nu)):
            return super()._first(z, pu, nu)
        like, dislike = hazards(z * z.dtype.type(1.0 / self.sigma))
        like *= -nu / self.sigma
        dislike *= pu / self.sigma
        return like + dislike

    def correct_bound(self, plus: Array, minus: Array) -> Array:
        """Return the positive weights over ``sigma^2``; a negative one only takes curvature away."""
        return (np.maximum(plus, 0.0) + np.maximum(minus, 0.0)) * self.most

    def slack(self, first: Array, expected: Array | None = None) -> float:  # noqa: ARG002
        """Return half the number of entries: ``l(x, +1)'' + l(x, -1)''`` is from 1 to 4 / pi, the bound 2."""
        return 0.5 * first.size


def make_loss(link: Link, risk: Risk) -> WeightedLoss:
    """Return the fastest loss for a link under a risk's weights."""
    if type(link) is Logistic:
        return LogisticLoss(link, risk.pu, risk.nu, imputed=risk.imputed is not None)
    if type(link) is Probit:
        return ProbitLoss(link, risk.pu, risk.nu)
    return GenericLoss(link, risk.pu, risk.nu)
