"""Weighted losses on a device: :mod:`tribit.backends.losses` for tensors.

A device loss has the constants of NumPy's loss (``scale``, ``unit``, ``slope`` and the closed sums) and three functions
of ``z = scale x``, elementwise and nothing in place: of an observed entry, of the dense term, and of the probability.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import torch

from tribit.backends.losses import LogisticLoss, ProbitLoss, WeightedLoss
from tribit.errors import InvalidInputError, parameter
from tribit.model.links import Link, Logistic, Probit

Tensor: TypeAlias = torch.Tensor
#: Curvature of the probit's loss far out, where the formula cancels: a series from this ``-z`` on (as in model/links).
FAR = {torch.float32: 15.0, torch.float64: 100.0}


class Terms(NamedTuple):
    """Value, first and second derivative, in the units of a loss; None where not requested."""

    value: Tensor | None
    first: Tensor
    second: Tensor | None


class DeviceLoss:
    """A weighted loss for tensors; see the subclasses for the formulae."""

    fused = False  #: whether kernels know its formulae

    def __init__(self, loss: Any) -> None:
        self.scale, self.unit, self.slope = loss.scale, loss.unit, loss.slope
        self.value_constant, self.value_linear = loss.value_constant, loss.value_linear
        self.first_constant = loss.first_constant
        self.has_bounds, self.dense_bound = loss.has_bounds, loss.dense_bound

    def dense(self, z: Tensor, expected: Tensor | None, *, value: bool, second: bool) -> Terms:
        """Return the terms of every entry; ``expected`` labels where a model imputes them."""
        raise NotImplementedError

    def corrections(self, z: Tensor, a: Tensor, b: Tensor, *, value: bool, second: bool) -> Terms:
        """Return the corrections of observed entries, the value in float64 and not in units."""
        raise NotImplementedError

    def bent(self, z: Tensor, second: Tensor, expected: Tensor | None) -> Tensor:
        """Return the correction of the dense term's curvature at observed entries.

        ``max(dense + correction, 0) - dense``: only a curvature that is nowhere negative keeps each row's model convex.
        """
        dense = self.dense(z, expected, value=False, second=True).second
        assert dense is not None
        return torch.clamp(dense + second, min=0) - dense

    def tightness(self, slack: float) -> float:
        """Return curvature over bound, given the mean of ``t^2`` over all entries where the loss has a t."""
        raise NotImplementedError


class LogisticTensors(DeviceLoss):
    """``t = tanh z``; ``log(2 cosh z) - y z`` and its derivatives, as :class:`tribit.backends.losses.LogisticLoss`."""

    fused = True

    def dense(self, z: Tensor, expected: Tensor | None, *, value: bool, second: bool) -> Terms:
        """Return ``log cosh z - expected z``, ``t - expected`` and ``1 - t^2``."""
        t = torch.tanh(z)
        found = None
        if value:
            found = _log_two_cosh(z) - math.log(2.0)
            if expected is not None:
                found -= expected * z
        return Terms(found, t if expected is None else t - expected, 1 - t * t if second else None)

    def corrections(self, z: Tensor, a: Tensor, b: Tensor, *, value: bool, second: bool) -> Terms:
        """Return ``unit (a log(2 cosh z) - b z)``, ``a t - b`` and ``a (1 - t^2)``."""
        t = torch.tanh(z)
        found = None
        if value:
            found = (a * _log_two_cosh(z) - b * z).double() * self.unit
        return Terms(found, a * t - b, a * (1 - t * t) if second else None)

    def tightness(self, slack: float) -> float:
        """Return ``1 - mean t^2``."""
        return 1.0 - slack


class ProbitTensors(DeviceLoss):
    """``-log Phi(y x / sigma)`` and its derivatives."""

    def __init__(self, loss: ProbitLoss) -> None:
        super().__init__(loss)
        self.pu, self.nu, self.sigma = loss.pu, loss.nu, loss.sigma

    def dense(self, z: Tensor, expected: Tensor | None, *, value: bool, second: bool) -> Terms:
        """Return ``nu l(x, +1) + pu l(x, -1)`` and its derivatives."""
        nu, pu = self.nu, self.pu
        if expected is not None:
            half = 0.5 * (pu + nu)
            return self._weighted_terms(
                z, half * (1 + expected), half * (1 - expected), value, second
            )
        return self._weighted_terms(z, nu, pu, value, second)

    def corrections(self, z: Tensor, a: Tensor, b: Tensor, *, value: bool, second: bool) -> Terms:
        """Return ``a l(x, +1) + b l(x, -1)`` and its derivatives."""
        found = self._weighted_terms(z, a, b, False, second)
        if not value:
            return found
        wide = z.double()
        losses = a.double() * self._loss(wide, 1) + b.double() * self._loss(wide, -1)
        return found._replace(value=losses)

    def tightness(self, slack: float) -> float:  # noqa: ARG002 - a quick estimate, as on the CPU
        """Return a half: ``l(x, +1)'' + l(x, -1)''`` is from 1 to 4 / pi, the bound 2."""
        return 0.5

    def _weighted_terms(self, z: Tensor, plus: Any, minus: Any, value: bool, second: bool) -> Terms:
        x = z / self.sigma
        like, dislike = _hazard(x), _hazard(-x)
        first = (minus * dislike - plus * like) / self.sigma
        losses = plus * self._loss(z, 1) + minus * self._loss(z, -1) if value else None
        bend = None
        if second:
            bend = plus * _bend(x, like) + minus * _bend(-x, dislike)
            bend = bend / self.sigma**2
        return Terms(losses, first, bend)

    def _loss(self, z: Tensor, y: int) -> Tensor:
        return -torch.special.log_ndtr((y / self.sigma) * z)


def _log_two_cosh(z: Tensor) -> Tensor:
    """Return ``log(2 cosh z)``, which overflows nowhere."""
    size = torch.abs(z)
    return size + torch.log1p(torch.exp(-2 * size))


def _hazard(x: Tensor) -> Tensor:
    """Return ``phi(x) / Phi(x)``."""
    return math.sqrt(2 / math.pi) / torch.special.erfcx(-math.sqrt(0.5) * x)


def _bend(x: Tensor, hazard: Tensor) -> Tensor:
    """Return ``h (h + x)``: the bracket cancels for x << 0, where its series is ``(1 - 2 / x^2 + 10 / x^4) / |x|``."""
    far = x < -FAR[x.dtype]
    safe = torch.where(far, x, -torch.ones_like(x))
    tail = (1 - 2 / safe**2 + 10 / safe**4) / -safe
    return hazard * torch.where(far, tail, hazard + x)


def device_loss(loss: WeightedLoss) -> DeviceLoss:
    """Return the form for tensors; a link of a user's own is NumPy's and has none."""
    if isinstance(loss, LogisticLoss):
        return LogisticTensors(loss)
    if isinstance(loss, ProbitLoss):
        return ProbitTensors(loss)
    raise InvalidInputError(
        f"{parameter('device', 'cuda')} computes the logistic and the probit link, and this one is a link of your own: "
        f"use {parameter('device', 'cpu')}."
    )


def expected_labels(P: Tensor, Q: Tensor, link: Link) -> Tensor:
    """Return ``2 f0 - 1`` of a tile of an imputed model, in the type of its factors."""
    x = P @ Q.T
    if isinstance(link, Logistic):
        return torch.tanh(x * (0.5 * link.scale))
    assert isinstance(link, Probit)
    return 2 * torch.special.ndtr(x / link.sigma) - 1
