"""Triton kernels over the observed entries: one program for each segment of a row, partial sums added in their order.

A program gathers rows of Q for some entries of its segment at a time. The columns of the factors are read as a run of a
power of two and a shorter rest, so that 32 factors with two columns of intercepts do not cost as much as 64. No program
adds to what another one wrote: the bits are the same in every run.
"""

from __future__ import annotations

import os
from typing import TypeAlias

import torch
import triton
import triton.language as tl

from tribit.backends.cuda.layout import DeviceLayout

Tensor: TypeAlias = torch.Tensor
#: Entries that a program reads at once; measured on an H200 with 20M entries and 34 columns.
ENTRIES = 32
#: Most columns of the factors for which a program keeps a whole block of curvature in registers.
MOST_COLUMNS = 128
#: Whether kernels are run by Triton's interpreter, which needs no GPU.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def launches(tensor: Tensor) -> bool:
    """Return whether kernels can work on a tensor."""
    return bool(tensor.is_cuda or INTERPRETED)


@triton.jit
def tanh(z):
    """Return ``tanh z`` by an exponential that overflows nowhere."""
    e = tl.exp(-2.0 * tl.abs(z))
    t = (1.0 - e) / (1.0 + e)
    return tl.where(z < 0, -t, t)


@triton.jit
def _gather_columns(Q, j, inside, K: tl.constexpr, FIRST: tl.constexpr, WIDTH: tl.constexpr):
    """Return columns FIRST to FIRST + WIDTH of some rows of Q, 0 beyond the last column."""
    k = FIRST + tl.arange(0, WIDTH)
    return tl.load(
        Q + j.to(tl.int64)[:, None] * K + k[None, :],
        mask=inside[:, None] & (k < K)[None, :],
        other=0.0,
    )


@triton.jit
def _predictors_kernel(
    P, Q, starts, stops, owners, columns, out,
    K: tl.constexpr, MAIN: tl.constexpr, REST: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0)
    start, stop, row = tl.load(starts + s), tl.load(stops + s), tl.load(owners + s)
    main = tl.arange(0, MAIN)
    p = tl.load(P + row * K + main)
    for at in range(start, stop, ENTRIES):
        e = at + tl.arange(0, ENTRIES)
        inside = e < stop
        j = tl.load(columns + e, mask=inside, other=0)
        x = tl.sum(_gather_columns(Q, j, inside, K, 0, MAIN) * p[None, :], 1)
        if REST > 0:
            rest = MAIN + tl.arange(0, REST)
            p_rest = tl.load(P + row * K + rest, mask=rest < K, other=0.0)
            x += tl.sum(_gather_columns(Q, j, inside, K, MAIN, REST) * p_rest[None, :], 1)
        tl.store(out + e, x, mask=inside)


@triton.jit
def _sums_kernel(
    values, Q, starts, stops, columns, out,
    K: tl.constexpr, MAIN: tl.constexpr, REST: tl.constexpr, ENTRIES: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0)
    start, stop = tl.load(starts + s), tl.load(stops + s)
    total = tl.zeros([ENTRIES, MAIN], dtype=Q.dtype.element_ty)
    if REST > 0:
        total_rest = tl.zeros([ENTRIES, REST], dtype=Q.dtype.element_ty)
    for at in range(start, stop, ENTRIES):
        e = at + tl.arange(0, ENTRIES)
        inside = e < stop
        j = tl.load(columns + e, mask=inside, other=0)
        q = _gather_columns(Q, j, inside, K, 0, MAIN)
        if VALUES:
            v = tl.load(values + e, mask=inside, other=0.0)
            q *= v[:, None]
        total += q
        if REST > 0:
            r = _gather_columns(Q, j, inside, K, MAIN, REST)
            if VALUES:
                r *= v[:, None]
            total_rest += r
    place = s.to(tl.int64) * K
    main = tl.arange(0, MAIN)
    tl.store(out + place + main, tl.sum(total, 0))
    if REST > 0:
        rest = MAIN + tl.arange(0, REST)
        tl.store(out + place + rest, tl.sum(total_rest, 0), mask=rest < K)


@triton.jit
def _logistic_kernel(
    P, Q, starts, stops, owners, columns, a, b, out, values,
    K: tl.constexpr, MAIN: tl.constexpr, REST: tl.constexpr, ENTRIES: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0)
    start, stop, row = tl.load(starts + s), tl.load(stops + s), tl.load(owners + s)
    main = tl.arange(0, MAIN)
    p = tl.load(P + row * K + main)
    total = tl.zeros([ENTRIES, MAIN], dtype=P.dtype.element_ty)
    if REST > 0:
        rest = MAIN + tl.arange(0, REST)
        p_rest = tl.load(P + row * K + rest, mask=rest < K, other=0.0)
        total_rest = tl.zeros([ENTRIES, REST], dtype=P.dtype.element_ty)
    lost = tl.zeros([ENTRIES], dtype=tl.float64)
    for at in range(start, stop, ENTRIES):
        e = at + tl.arange(0, ENTRIES)
        inside = e < stop
        j = tl.load(columns + e, mask=inside, other=0)
        even = tl.load(a + e, mask=inside, other=0.0)
        odd = tl.load(b + e, mask=inside, other=0.0)
        q = _gather_columns(Q, j, inside, K, 0, MAIN)
        z = tl.sum(q * p[None, :], 1)
        if REST > 0:
            r = _gather_columns(Q, j, inside, K, MAIN, REST)
            z += tl.sum(r * p_rest[None, :], 1)
        first = even * tanh(z) - odd
        total += first[:, None] * q
        if REST > 0:
            total_rest += first[:, None] * r
        if VALUE:
            size = tl.abs(z)
            lost += (even * (size + tl.log(1.0 + tl.exp(-2.0 * size))) - odd * z).to(tl.float64)
    place = s.to(tl.int64) * K
    tl.store(out + place + main, tl.sum(total, 0))
    if REST > 0:
        tl.store(out + place + rest, tl.sum(total_rest, 0), mask=rest < K)
    if VALUE:
        tl.store(values + s, tl.sum(lost, 0))


@triton.jit
def _blocks_kernel(
    weights, Q, starts, stops, columns, out, first,
    K: tl.constexpr, WIDTH: tl.constexpr, ENTRIES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    s = first + tl.program_id(0)
    start, stop = tl.load(starts + s), tl.load(stops + s)
    total = tl.zeros([WIDTH, WIDTH], dtype=tl.float32)
    for at in range(start, stop, ENTRIES):
        e = at + tl.arange(0, ENTRIES)
        inside = e < stop
        j = tl.load(columns + e, mask=inside, other=0)
        w = tl.load(weights + e, mask=inside, other=0.0)
        q = _gather_columns(Q, j, inside, K, 0, WIDTH)
        total = tl.dot(tl.trans(q * w[:, None]), q, total, input_precision=PRECISION)
    k = tl.arange(0, WIDTH)
    place = tl.program_id(0).to(tl.int64) * K * K
    inside = (k < K)[:, None] & (k < K)[None, :]
    tl.store(out + place + k[:, None] * K + k[None, :], total, mask=inside)


@triton.jit
def _reduced_kernel(
    parts, segments, out, first_row, first_part, WIDTH, BLOCK: tl.constexpr
):  # fmt: skip
    i, block = tl.program_id(0), tl.program_id(1)
    start, stop = tl.load(segments + first_row + i), tl.load(segments + first_row + i + 1)
    k = block * BLOCK + tl.arange(0, BLOCK)
    inside = k < WIDTH
    total = tl.zeros([BLOCK], dtype=parts.dtype.element_ty)
    here = parts + (start - first_part) * WIDTH + k
    for _ in range(start, stop):
        total += tl.load(here, mask=inside, other=0.0)
        here += WIDTH
    tl.store(out + i.to(tl.int64) * WIDTH + k, total, mask=inside)


def _cut(K: int) -> dict[str, int]:
    """Return the widths in which K columns are read: the largest power of two, and one that holds the rest."""
    main = 1 << (K.bit_length() - 1)
    return {"K": K, "MAIN": main, "REST": triton.next_power_of_2(K - main) if main < K else 0}


def predictors(layout: DeviceLayout, P: Tensor, Q: Tensor) -> Tensor:
    """Return ``p_i . q_j`` at every entry."""
    found = torch.empty(layout.n_entries, dtype=P.dtype, device=P.device)
    if layout.owners.numel():
        _predictors_kernel[(layout.owners.numel(),)](
            P, Q, layout.starts, layout.stops, layout.owners, layout.columns, found,
            **_cut(P.shape[1]), ENTRIES=ENTRIES, num_warps=_warps(P.shape[1]),
        )  # fmt: skip
    return found


def row_sums(layout: DeviceLayout, values: Tensor | None, Q: Tensor) -> Tensor:
    """Return ``sum_j values_ij q_j`` of every row; each entry counts 1 where there are no values."""
    n, K = layout.owners.numel(), Q.shape[1]
    if K % 2 and K > 1:
        # Rows of an odd number of float32 numbers are read one number at a time.
        return row_sums(layout, values, torch.nn.functional.pad(Q, (0, 1)))[:, :K]
    parts = torch.empty((n, K), dtype=Q.dtype, device=Q.device)
    if n:
        given = Q if values is None else values
        _sums_kernel[(n,)](
            given, Q, layout.starts, layout.stops, layout.columns, parts,
            **_cut(K), ENTRIES=ENTRIES, VALUES=values is not None, num_warps=_warps(K),
        )  # fmt: skip
    return _sum_parts(parts, layout, 0, layout.shape[0])


def logistic(
    layout: DeviceLayout, a: Tensor, b: Tensor, P: Tensor, Q: Tensor, *, value: bool
) -> tuple[Tensor | None, Tensor]:
    """Return ``sum_j a log(2 cosh z) - b z`` in float64 (None unless asked for) and ``sum_j (a tanh z - b) q_j``.

    Here ``z = p . q``.
    """
    n, K = layout.owners.numel(), Q.shape[1]
    parts = torch.empty((n, K), dtype=Q.dtype, device=Q.device)
    lost = torch.empty((n if value else 1, 1), dtype=torch.float64, device=Q.device)
    if n:
        _logistic_kernel[(n,)](
            P, Q, layout.starts, layout.stops, layout.owners, layout.columns, a, b, parts, lost,
            **_cut(K), ENTRIES=ENTRIES, VALUE=value, num_warps=_warps(K),
        )  # fmt: skip
    rows = layout.shape[0]
    values = _sum_parts(lost, layout, 0, rows)[:, 0] if value else None
    return values, _sum_parts(parts, layout, 0, rows)


def blocks(layout: DeviceLayout, weights: Tensor, Q: Tensor, start: int, stop: int) -> Tensor:
    """Return ``sum_j w_ij q_j q_j'`` of the rows from ``start`` to ``stop``, its products in tf32 for float32."""
    K = Q.shape[1]
    _, here = layout.part(start, stop)
    n = here.stop - here.start
    parts = torch.empty((n, K, K), dtype=torch.float32, device=Q.device)
    if n:
        width = max(16, triton.next_power_of_2(K))
        _blocks_kernel[(n,)](
            weights, Q, layout.starts, layout.stops, layout.columns, parts, here.start,
            K=K, WIDTH=width, ENTRIES=ENTRIES, PRECISION="tf32", num_warps=4 if width <= 64 else 8,
        )  # fmt: skip
    return _sum_parts(parts.view(n, K * K), layout, start, stop).view(-1, K, K).to(Q.dtype)


def _sum_parts(parts: Tensor, layout: DeviceLayout, start: int, stop: int) -> Tensor:
    """Return the sums of the parts of each row from ``start`` to ``stop``; 0 for a row without entries."""
    width = parts.shape[1]
    found = torch.empty((stop - start, width), dtype=parts.dtype, device=parts.device)
    block = min(1024, triton.next_power_of_2(width))
    first = int(layout.segments[start]) if start else 0
    grid = (stop - start, triton.cdiv(width, block))
    _reduced_kernel[grid](
        parts, layout.segments, found, start, first, width, BLOCK=block, num_warps=_warps(block)
    )
    return found


def _warps(width: int) -> int:
    return 1 if width <= 64 else 4
