"""Sums over all entries on a device: kernels for the logistic link in float32, tiles of plain PyTorch elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from tribit.backends.cuda.kernels import launches
from tribit.backends.cuda.losses import DeviceLoss, expected_labels
from tribit.model.links import Link

Tensor: TypeAlias = torch.Tensor
#: Numbers of a tile of plain PyTorch: large enough to fill a GPU, small beside its memory.
TILE = 2**26


@dataclass(frozen=True, eq=False)
class Imputed:
    """Factors of an imputed model in one orientation, and its link."""

    P: Tensor
    Q: Tensor
    link: Link


@dataclass(frozen=True, eq=False)
class DenseSums:
    """The sums of a pass, without units: values of rows in float64, first derivatives times q, the mean of ``t^2``."""

    values: Tensor | None
    sums: Tensor
    slack: float


def dense_pass(
    loss: DeviceLoss,
    P: Tensor,
    Q: Tensor,
    imputed: Imputed | None,
    *,
    value: bool,
    squares: bool = False,
) -> DenseSums:
    """Return the dense term of every row of P against all of Q; values have their constant, and no linear part."""
    if has_kernel(loss, P, imputed):
        from tribit.backends.cuda.dense_kernels import first  # noqa: PLC0415

        return DenseSums(*first(P, Q, loss.scale, value=value, squares=squares))
    values = torch.zeros(P.shape[0], dtype=torch.float64, device=P.device) if value else None
    sums = torch.empty_like(P)
    slack = 0.0
    for start, stop in tiles(P.shape[0], Q.shape[0]):
        z, expected = tile(loss, P, Q, imputed, start, stop)
        found = loss.dense(z, expected, value=value, second=False)
        sums[start:stop] = found.first @ Q
        if values is not None and found.value is not None:
            values[start:stop] = found.value.sum(1, dtype=torch.float64)
        if squares:
            t = found.first if expected is None else found.first + expected
            slack += float(torch.sum(t * t, dtype=torch.float64))
    if values is not None:
        values += loss.value_constant * Q.shape[0]
    return DenseSums(values, sums, slack / (P.shape[0] * Q.shape[0]))


class DenseCurvatures:
    """``sum_j second_ij q_j q_j'`` of runs of rows under the dense term, in its first columns and without units."""

    def __init__(
        self, loss: DeviceLoss, P: Tensor, Q: Tensor, free: int, imputed: Imputed | None
    ) -> None:
        self.loss, self.P, self.Q, self.free, self.imputed = loss, P, Q, free, imputed
        self.kernel = None
        if loss.fused and P.dtype == torch.float32 and launches(P):
            from tribit.backends.cuda.dense_kernels import Curvatures  # noqa: PLC0415

            # Under the logistic link what is imputed does not bend.
            self.kernel = Curvatures(P, Q, free, loss.scale)
            return
        q = Q[:, :free]
        self.products = (q[:, :, None] * q[:, None, :]).reshape(Q.shape[0], -1)

    def of(self, start: int, stop: int) -> Tensor:
        """Return the matrices of a run of rows."""
        if self.kernel is not None:
            return self.kernel.of(start, stop)
        found = torch.empty((stop - start, self.free**2), dtype=self.P.dtype, device=self.P.device)
        for first, last in tiles(stop - start, self.Q.shape[0]):
            z, expected = tile(self.loss, self.P, self.Q, self.imputed, start + first, start + last)
            second = self.loss.dense(z, expected, value=False, second=True).second
            assert second is not None
            found[first:last] = second @ self.products
        return found.view(stop - start, self.free, self.free)


def tile(
    loss: DeviceLoss, P: Tensor, Q: Tensor, imputed: Imputed | None, start: int, stop: int
) -> tuple[Tensor, Tensor | None]:
    """Return ``z`` of a run of rows at every column, and the expected labels where a model imputes them."""
    z = (P[start:stop] * loss.scale) @ Q.T
    if imputed is None:
        return z, None
    return z, expected_labels(imputed.P[start:stop], imputed.Q, imputed.link)


def tiles(n: int, width: int) -> list[tuple[int, int]]:
    """Return runs of rows whose tiles are small enough."""
    step = max(1, TILE // max(width, 1))
    return [(start, min(start + step, n)) for start in range(0, n, step)]


def has_kernel(loss: DeviceLoss, P: Tensor, imputed: Imputed | None) -> bool:
    """Return whether a kernel does the pass."""
    return loss.fused and imputed is None and P.dtype == torch.float32 and launches(P)


def largest(P: Tensor, Q: Tensor) -> float:
    """Return ``max |P Q'|``."""
    found = 0.0
    for start, stop in tiles(P.shape[0], Q.shape[0]):
        found = max(found, float((P[start:stop] @ Q.T).abs().max()))
    return found
