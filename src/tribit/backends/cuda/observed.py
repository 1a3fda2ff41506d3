"""Sums over the observed entries on a device: kernels where there is a GPU, plain PyTorch elsewhere.

Every function takes the factors as contiguous tensors of one type. The plain formulae are the reference of the kernels
and what runs on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from tribit.backends.cuda import kernels
from tribit.backends.cuda.kernels import MOST_COLUMNS, launches
from tribit.backends.cuda.layout import DeviceLayout
from tribit.backends.cuda.losses import DeviceLoss

Tensor: TypeAlias = torch.Tensor
#: Numbers of a temporary array of the plain formulae.
CHUNK = 2**24


@dataclass(eq=False)
class DeviceSide:
    """The observed entries of one orientation with their weights, in the order of the layout.

    Attributes
    ----------
    layout : DeviceLayout
        Where they are.
    a, b : tensor of shape (n_entries,)
        Their weights, as :meth:`tribit.backends.losses.WeightedLoss.weights` puts them.
    bounds : tensor of shape (n_entries,) or None
        Upper bounds of their part of the curvature.
    expected : tensor of shape (n_entries,) or None
        Their expected labels, where a model imputes every entry.
    """

    layout: DeviceLayout
    a: Tensor
    b: Tensor
    bounds: Tensor | None = None
    expected: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix in this orientation."""
        return self.layout.shape


def predictors(layout: DeviceLayout, P: Tensor, Q: Tensor) -> Tensor:
    """Return ``p_i . q_j`` at every entry."""
    if launches(P):
        return kernels.predictors(layout, P, Q)
    found = torch.empty(layout.n_entries, dtype=P.dtype, device=P.device)
    step = max(1, CHUNK // P.shape[1])
    for start in range(0, layout.n_entries, step):
        here = slice(start, start + step)
        found[here] = (P[layout.rows[here]] * Q[layout.columns[here]]).sum(1)
    return found


def row_sums(layout: DeviceLayout, values: Tensor | None, Q: Tensor) -> Tensor:
    """Return ``sum_j values_ij q_j`` of every row; each entry counts 1 where there are no values."""
    if launches(Q):
        return kernels.row_sums(layout, values, Q)
    if values is None:
        values = torch.ones(layout.n_entries, dtype=Q.dtype, device=Q.device)
    total = torch.zeros((layout.shape[0], Q.shape[1]), dtype=Q.dtype, device=Q.device)
    step = max(1, CHUNK // Q.shape[1])
    for start in range(0, layout.n_entries, step):
        here = slice(start, start + step)
        total.index_add_(0, layout.rows[here], values[here, None] * Q[layout.columns[here]])
    return total


def totals(layout: DeviceLayout, values: Tensor) -> Tensor:
    """Return the sum of the values of every row, in float64."""
    ones = torch.ones((layout.shape[1], 1), dtype=torch.float64, device=values.device)
    return row_sums(layout, values.double(), ones)[:, 0]


def blocks(layout: DeviceLayout, weights: Tensor, Q: Tensor, start: int, stop: int) -> Tensor:
    """Return ``sum_j w_ij q_j q_j'`` of the rows from ``start`` to ``stop``, in the order of rows."""
    if launches(Q) and Q.shape[1] <= MOST_COLUMNS and Q.dtype == torch.float32:
        return kernels.blocks(layout, weights, Q, start, stop)
    free = Q.shape[1]
    total = torch.zeros((stop - start, free, free), dtype=Q.dtype, device=Q.device)
    entries, _ = layout.part(start, stop)
    step = max(1, CHUNK // free**2)
    for first in range(entries.start, entries.stop, step):
        here = slice(first, min(first + step, entries.stop))
        q = Q[layout.columns[here]]
        outer = (weights[here, None] * q)[:, :, None] * q[:, None, :]
        total.index_add_(0, layout.rows[here] - start, outer)
    return total


def correction_sums(
    side: DeviceSide, loss: DeviceLoss, P: Tensor, Q: Tensor, *, value: bool
) -> tuple[Tensor | None, Tensor]:
    """Return the value of each row in float64 (None unless asked for) and ``sum_j first_ij q_j``, without units."""
    if loss.fused and launches(P):
        values, sums = kernels.logistic(side.layout, side.a, side.b, P * loss.scale, Q, value=value)
        return (None if values is None else values * loss.unit), sums
    z = predictors(side.layout, P, Q) * loss.scale
    found = loss.corrections(z, side.a, side.b, value=value, second=False)
    values = None if found.value is None else totals(side.layout, found.value)
    return values, row_sums(side.layout, found.first, Q)


def curvature_weights(
    side: DeviceSide, loss: DeviceLoss, P: Tensor, Q: Tensor, *, dense: bool
) -> Tensor:
    """Return the curvature of each entry, nowhere negative with the dense term, without units."""
    z = predictors(side.layout, P, Q) * loss.scale
    second = loss.corrections(z, side.a, side.b, value=False, second=True).second
    assert second is not None
    return loss.bent(z, second, side.expected) if dense else torch.clamp(second, min=0)
