"""Minimisers of many small quadratic problems at once on a device: :mod:`tribit.backends.balls` for tensors.

p_i = argmin  g_i' (p - p0_i) + (p - p0_i)' H_i (p - p0_i) / 2   subject to  |p[:k]| <= norm
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch

from tribit.backends.balls import DONE_SHARE, MULTIPLIER_STEPS, RADIUS_RATIO, RowProblem

Tensor: TypeAlias = torch.Tensor
#: Least number that is divided by: the length of a row may be 0.
TINY = 1e-30


class Minima(NamedTuple):
    """The minimisers, the predicted gains (at least 0), and the balls' multipliers."""

    minimisers: Tensor
    gains: Tensor
    multipliers: Tensor


def solve_ball_constrained_rows(
    gradient: Tensor,
    curvatures: Tensor,
    current: Tensor,
    multipliers: Tensor,
    problem: RowProblem,
    ridge: Tensor,
    rounding: float,
) -> Minima:
    """Return the minimisers, one a row, as :func:`tribit.backends.balls.solve_ball_constrained_rows` does.

    ``ridge`` is the problem's for these rows, on the device. ``curvatures`` are overwritten.
    """
    H = curvatures
    diagonal = H.diagonal(dim1=1, dim2=2)
    # Keeps a direction that is flat, or made flat by rounding, solvable: p then moves little along it.
    lift = 4.0 * rounding * diagonal.sum(1, keepdim=True) + 1e-12
    diagonal += ridge + lift
    if not problem.has_bounds:
        step = -torch.cholesky_solve(gradient[:, :, None], _cholesky(H))[:, :, 0]
        gains = -0.5 * (gradient * step).sum(1)
        good = gains >= 0.0  # false where it is no number
        step = torch.where(good[:, None], step, 0.0)
        return Minima(current + step, torch.where(good, gains, 0.0), multipliers)
    return _constrained_minima(gradient, H, current, multipliers, problem)


def _constrained_minima(
    g: Tensor, H: Tensor, p0: Tensor, multipliers: Tensor, problem: RowProblem
) -> Minima:
    """Return the minimisers inside the balls; the intercept, outside of them, is eliminated first."""
    k, norm, bound = problem.k, problem.norm, problem.bound
    target = torch.einsum("nab,nb->na", H, p0) - g
    if H.shape[1] == k:
        p, found = _in_balls(H, target, multipliers, norm)
    else:
        pivot, cross = H[:, k, k], H[:, :k, k]
        reduced = H[:, :k, :k] - cross[:, :, None] * (cross / pivot[:, None])[:, None, :]
        rest = target[:, :k] - cross * (target[:, k] / pivot)[:, None]
        p, found = _in_balls(reduced, rest, multipliers, norm)
        last = (target[:, k] - (cross * p).sum(1)) / pivot
        over = torch.nonzero(last.abs() > bound)[:, 0]
        if over.numel():
            # The minimum over the rest is convex in the last coordinate, so that it belongs at the bound it crossed.
            last[over] = torch.sign(last[over]) * bound
            p[over], found[over] = _in_balls(
                H[over, :k, :k],
                target[over, :k] - cross[over] * last[over, None],
                multipliers[over],
                norm,
            )
        p = torch.cat([p, last[:, None]], 1)
    d = p - p0
    bent = torch.einsum("nab,nb->na", H, d)
    gains = -(d * (g + 0.5 * bent)).sum(1)
    # A multiplier that is still inexact can promise a loss; such a row stays. So does one that is not a number.
    good = gains >= 0.0
    return Minima(torch.where(good[:, None], p, p0), torch.where(good, gains, 0.0), found)


def _in_balls(H: Tensor, target: Tensor, multipliers: Tensor, norm: float) -> tuple[Tensor, Tensor]:
    """Return ``argmin p' H p / 2 - target' p`` subject to ``|p| <= norm``, and the multipliers.

    Newton's method for ``1 / |p(t)| = 1 / norm`` (More and Sorensen 1983), as in :mod:`tribit.backends.balls`.
    """
    t, p = multipliers.clone(), torch.empty_like(target)
    rest = torch.arange(H.shape[0], device=H.device)
    for _ in range(MULTIPLIER_STEPS):
        shifted = H if rest.numel() == H.shape[0] else H[rest]
        shifted = shifted + torch.diag_embed(t[rest, None].expand(-1, H.shape[1]))
        L = _cholesky(shifted)
        half = torch.linalg.solve_triangular(L, target[rest, :, None], upper=False)
        q = torch.linalg.solve_triangular(L.mT, half, upper=True)
        length = torch.sqrt((q * q).sum((1, 2)))
        inside = (t[rest] == 0.0) & (length <= norm)
        on_sphere = (length <= norm * RADIUS_RATIO) & (length >= norm / RADIUS_RATIO)
        shrink = torch.where(inside, 1.0, norm / torch.clamp(length, min=TINY))
        p[rest] = q[:, :, 0] * shrink[:, None]
        if bool(inside.all()):
            break
        bent = torch.linalg.solve_triangular(L, q, upper=False)
        slope = torch.clamp((bent * bent).sum((1, 2)), min=TINY)
        change = torch.where(inside, 0.0, length**2 * (length / norm - 1.0) / slope)
        t[rest] = torch.clamp(t[rest] + change, min=0.0)
        # Newton's method may step to t = 0 from a first guess that was too large; then p(0) decides.
        done = inside | on_sphere
        if float(done.double().mean()) >= DONE_SHARE:
            break
        rest = rest[~done]
    return p, t


def _cholesky(H: Tensor) -> Tensor:
    """Return L with ``L L' = H`` for each problem; a matrix that rounding made indefinite is lifted."""
    L, failed = torch.linalg.cholesky_ex(H)
    lift = 1e-7
    while bool(failed.any()):
        if not bool(torch.isfinite(H).all()):
            return torch.full_like(H, float("nan"))  # a row that is not a number stays where it is
        odd = torch.nonzero(failed)[:, 0]
        part = H[odd]
        scale = lift * part.diagonal(dim1=1, dim2=2).sum(1) + lift
        eye = torch.eye(H.shape[1], dtype=H.dtype, device=H.device)
        L[odd], again = torch.linalg.cholesky_ex(part + scale[:, None, None] * eye)
        failed = torch.zeros_like(failed)
        failed[odd] = again
        lift *= 10.0
    return L
