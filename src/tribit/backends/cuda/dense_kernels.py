"""Triton kernels over all entries under the logistic link: a tile of X is made, used and forgotten on the chip.

A program has a block of rows of P and passes over all of Q. Products are those of half-precision numbers, summed in
float32: ``z`` from P and Q split into a half-precision number and what it leaves (three products, an error near that of
float32), and ``tanh(z) Q`` from rounded ``t`` and Q, whose errors are as often up as down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
import triton
import triton.language as tl

from tribit.backends.cuda.kernels import tanh

Tensor: TypeAlias = torch.Tensor
#: Rows of P and of Q in a tile; measured on an H200 with 138,493 x 26,744 entries and 34 columns.
HEIGHT, WIDTH = 128, 64
#: Largest number of a factor after scaling. Half precision ends at 65504 and loses digits below 6e-5: in between, what
#: a split leaves of a number keeps its digits, and so do products of two columns.
LARGEST = 16.0
#: Columns of products of factors that a program sums at once, for the curvature.
CHUNK = 128


@triton.jit
def _times(x, y):
    return x * y


@triton.jit
def _tanh(z, FAST: tl.constexpr):
    """Return ``tanh z``: by the GPU's own instruction, right to 11 bits as half precision is, or by an exponential."""
    if FAST:
        return tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [z], dtype=tl.float32, is_pure=True, pack=1
        )
    return tanh(z)


@triton.jit
def _tile(p, p_low, Q, Q_low, place, scale):
    """Return a tile of Q and ``z``, the product of both splits but for that of the two small parts."""
    q, q_low = tl.load(Q + place), tl.load(Q_low + place)
    z = tl.dot(p, tl.trans(q))
    z = tl.dot(p_low, tl.trans(q), z)
    z = tl.dot(p, tl.trans(q_low), z) * scale
    return q, z


@triton.jit
def _first_kernel(
    P, P_low, Q, Q_low, out, values, squares, n_blocks, scale,
    K: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr, SQUARES: tl.constexpr,
    FAST: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    k = tl.arange(0, K)
    at = i.to(tl.int64)[:, None] * K + k[None, :]
    p, p_low = tl.load(P + at), tl.load(P_low + at)
    total = tl.zeros([HEIGHT, K], dtype=tl.float32)
    lost = tl.zeros([HEIGHT], dtype=tl.float64)
    square = tl.zeros([HEIGHT], dtype=tl.float32)
    for block in range(n_blocks):
        j = block * WIDTH + tl.arange(0, WIDTH)
        q, z = _tile(p, p_low, Q, Q_low, j[:, None] * K + k[None, :], scale)
        t = _tanh(z, FAST)
        total = tl.dot(t.to(tl.float16), q, total)
        if SQUARES:
            square += tl.sum(t * t, 1)
        if VALUE:
            # log(2 cosh z) = |z| - log(1/2 + |t| / 2): the logarithm of a product, one for each row of a tile. It is at
            # least 2^-WIDTH.
            product = tl.reduce(0.5 + 0.5 * tl.abs(t), 1, _times)
            lost += (tl.sum(tl.abs(z), 1) - tl.log(product)).to(tl.float64)
    tl.store(out + at, total)
    if VALUE:
        tl.store(values + i, lost)
    if SQUARES:
        tl.store(squares + i, square)


@triton.jit
def _second_kernel(
    P, P_low, Q, Q_low, products, out, n_blocks, scale, first_row, n_products,
    K: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    local = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    i = first_row + local
    k = tl.arange(0, K)
    c = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    at = i.to(tl.int64)[:, None] * K + k[None, :]
    p, p_low = tl.load(P + at), tl.load(P_low + at)
    total = tl.zeros([HEIGHT, CHUNK], dtype=tl.float32)
    for block in range(n_blocks):
        j = block * WIDTH + tl.arange(0, WIDTH)
        _, z = _tile(p, p_low, Q, Q_low, j[:, None] * K + k[None, :], scale)
        t = _tanh(z, FAST)
        second = 1.0 - t * t
        both = tl.load(products + j.to(tl.int64)[:, None] * n_products + c[None, :])
        total = tl.dot(second.to(tl.float16), both, total)
    tl.store(out + local.to(tl.int64)[:, None] * n_products + c[None, :], total)


@dataclass(frozen=True, eq=False)
class HalfPrecision:
    """A factor in half precision, scaled and padded with zeros, and the remainder."""

    high: Tensor
    low: Tensor
    scale: float
    size: int

    @classmethod
    def of(cls, F: Tensor, multiple: int) -> HalfPrecision:
        """Return the split of a factor; its rows become a multiple of some number, its columns a power of two."""
        n, K = F.shape
        largest = float(F.abs().max()) if F.numel() else 0.0
        scale = LARGEST / largest if largest > 0.0 else 1.0
        wide = max(16, triton.next_power_of_2(K))
        padded = torch.zeros((-(-n // multiple) * multiple, wide), dtype=F.dtype, device=F.device)
        torch.mul(F, scale, out=padded[:n, :K])
        high = padded.half()
        return cls(high, (padded - high).half(), scale, n)


def first(
    P: Tensor, Q: Tensor, scale: float, *, value: bool, squares: bool
) -> tuple[Tensor | None, Tensor, float]:
    """Return sums over the columns of ``log(2 cosh z)`` (None unless asked for) and of ``tanh(z) q``.

    Here ``z = scale p . q``. The third is the mean of ``tanh(z)^2`` over all entries, NaN unless ``squares``.
    """
    left, right = HalfPrecision.of(P, HEIGHT), HalfPrecision.of(Q, WIDTH)
    rows, K = left.high.shape
    sums = torch.empty((rows, K), dtype=torch.float32, device=P.device)
    lost = torch.empty(rows, dtype=torch.float64, device=P.device)
    square = torch.empty(rows, dtype=torch.float32, device=P.device)
    blocks = right.high.shape[0] // WIDTH
    _first_kernel[(rows // HEIGHT,)](
        left.high, left.low, right.high, right.low, sums, lost, square, blocks,
        scale / (left.scale * right.scale),
        K=K, HEIGHT=HEIGHT, WIDTH=WIDTH, VALUE=value, SQUARES=squares, FAST=P.is_cuda,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    n, (m, width) = left.size, Q.shape
    mean = float(square[:n].double().sum()) / max(n * m, 1) if squares else float("nan")
    # What was added to fill the last tile has z = 0.
    spare = (right.high.shape[0] - m) * 0.6931471805599453
    values = lost[:n] - spare if value else None
    return values, sums[:n, :width] / right.scale, mean


class Curvatures:
    """``sum_j (1 - tanh(z_ij)^2) q_j q_j'`` of runs of rows, from values derived once from P and Q."""

    def __init__(self, P: Tensor, Q: Tensor, free: int, scale: float) -> None:
        self.left, self.right = HalfPrecision.of(P, HEIGHT), HalfPrecision.of(Q, WIDTH)
        self.scale = scale / (self.left.scale * self.right.scale)
        self.pairs = torch.triu_indices(free, free, device=Q.device)
        self.free = free
        width = -(-self.pairs.shape[1] // CHUNK) * CHUNK
        q = Q * self.right.scale
        self.products = torch.zeros(
            (self.right.high.shape[0], width), dtype=torch.float16, device=Q.device
        )
        a, b = self.pairs
        self.products[: Q.shape[0], : a.numel()] = (q[:, a] * q[:, b]).half()

    def of(self, start: int, stop: int) -> Tensor:
        """Return the matrices of the rows from ``start``, a multiple of ``HEIGHT``, to ``stop``."""
        blocks = -(-(stop - start) // HEIGHT)
        width = self.products.shape[1]
        packed = torch.empty(
            (blocks * HEIGHT, width), dtype=torch.float32, device=self.pairs.device
        )
        _second_kernel[(blocks, width // CHUNK)](
            self.left.high, self.left.low, self.right.high, self.right.low, self.products, packed,
            self.right.high.shape[0] // WIDTH, self.scale, start, width,
            K=self.left.high.shape[1], HEIGHT=HEIGHT, WIDTH=WIDTH, CHUNK=CHUNK, FAST=packed.is_cuda,
            num_warps=8, num_stages=2,
        )  # fmt: skip
        full = torch.empty((stop - start, self.free, self.free), device=packed.device)
        a, b = self.pairs
        found = packed[: stop - start, : a.numel()] / self.right.scale**2
        full[:, a, b] = found
        full[:, b, a] = found
        return full
