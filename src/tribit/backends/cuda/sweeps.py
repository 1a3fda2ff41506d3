"""The half-sweep on a device: every row of P moves to the minimiser of a quadratic model of its own objective, Q fixed.

The algorithm is that of :func:`tribit.backends.rows.half_sweep`; here one pass serves all rows, and curvatures are made
for runs of rows that fit the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from tribit.backends.balls import RowProblem
from tribit.backends.cuda.balls import solve_ball_constrained_rows
from tribit.backends.rows import (
    ARMIJO,
    MAX_HALVINGS,
    MIN_TIGHTNESS,
    HalfSweep,
    RowState,
)

if TYPE_CHECKING:
    from tribit.backends.cuda.backends import DeviceBackend

Tensor: TypeAlias = torch.Tensor
#: Numbers of the curvatures of a run of rows, and the multiple of rows that kernels work on.
NUMBERS, MULTIPLE = 2**27, 128


@dataclass(frozen=True, eq=False)
class DeviceProblem:
    """The penalty of the rows as tensors: see :class:`tribit.backends.rows.RowProblem`."""

    free: int
    ridge: Tensor
    prior_mean: Tensor | None

    @classmethod
    def of(cls, problem: RowProblem, beside: Tensor) -> DeviceProblem:
        """Return it on the device of the factors."""

        def tensor(array: Any) -> Tensor:
            return torch.as_tensor(array, dtype=beside.dtype, device=beside.device)

        prior_mean = None if problem.prior_mean is None else tensor(problem.prior_mean)
        return cls(problem.free, tensor(problem.ridge), prior_mean)

    def penalty(self, P: Tensor) -> Tensor:
        """Return the ridge of each row."""
        squares = self.deviation(P) ** 2
        own = squares @ self.ridge if self.ridge.ndim == 1 else (squares * self.ridge).sum(1)
        return 0.5 * own.double()

    def deviation(self, P: Tensor) -> Tensor:
        """Return how far the rows are from their prior means."""
        here = P[:, : self.free]
        return here if self.prior_mean is None else here - self.prior_mean


def half_sweep(
    backend: DeviceBackend,
    P: Tensor,
    Q: Tensor,
    problem: RowProblem,
    state: RowState,
    *,
    value: bool,
) -> HalfSweep:
    """Return ``P`` with every row moved; see :func:`tribit.backends.rows.half_sweep`."""
    exact = not (backend.has_bounds and state.tightness >= MIN_TIGHTNESS)
    free, own = problem.free, DeviceProblem.of(problem, P)
    rows = backend.rows(P, Q, free, exact=exact, value=value or exact)
    values = None if rows.values is None else rows.values + own.penalty(P)
    gradients = rows.gradients + own.ridge * own.deviation(P)
    guesses = torch.as_tensor(state.multipliers, dtype=P.dtype, device=P.device)
    moved, gains, multipliers = P.clone(), 0.0, torch.empty_like(guesses)
    step = max(MULTIPLE, NUMBERS // free**2 // MULTIPLE * MULTIPLE)
    for start in range(0, P.shape[0], step):
        here = slice(start, min(start + step, P.shape[0]))
        minima = solve_ball_constrained_rows(
            gradients[here],
            rows.curvatures(here.start, here.stop),
            P[here, :free],
            guesses[here],
            problem,
            own.ridge if own.ridge.ndim == 1 else own.ridge[here],
            backend.rounding,
        )
        moved[here, :free], multipliers[here] = minima.minimisers, minima.multipliers
        gains += float(minima.gains.sum(dtype=torch.float64))
    state.multipliers, state.tightness = multipliers, rows.tightness
    if exact:
        assert values is not None
        # Differences below the rounding error of a row's sum decide nothing.
        noise = backend.rounding * (values.abs() + backend.shape[1])
        moved = _backtrack(backend, own, P, moved, Q, values, gradients, noise)
    total = float("nan") if values is None else float(values.sum())
    return HalfSweep(moved, gains, total)


def _backtrack(
    backend: DeviceBackend,
    problem: DeviceProblem,
    here: Tensor,
    target: Tensor,
    Q: Tensor,
    values: Tensor,
    gradients: Tensor,
    noise: Tensor,
) -> Tensor:
    """Backtrack each row's own step until its objective falls enough (Armijo); a row that never does stays."""
    direction = target - here
    slope = torch.clamp((gradients * direction[:, : problem.free]).sum(1), max=0.0).double()
    step = torch.ones(here.shape[0], dtype=here.dtype, device=here.device)
    for _ in range(MAX_HALVINGS):
        trial = here + step[:, None] * direction
        reached = backend.row_values(trial, Q) + problem.penalty(trial)
        # Written so that a NaN is a failure.
        failed = ~(reached <= values + ARMIJO * step * slope + noise) & (step > 0)
        if not bool(failed.any()):
            return trial
        step = torch.where(failed, 0.5 * step, step)
    step = torch.where(failed, 0.0, step)
    return here + step[:, None] * direction
