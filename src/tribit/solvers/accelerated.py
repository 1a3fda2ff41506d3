"""Accelerated projected gradient on both factors, each row with a step scaled by its number of entries.

Momentum with backtracking and restarts: O'Donoghue and Candes (2015), "Adaptive restart for accelerated gradient
schemes". A step's length is shared, and each row divides it by a scale of its own, the curvature there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.model.factors import Factors
from tribit.solvers.loop import Step

Array = NDArray[np.floating[Any]]
Pair = tuple[Array, Array]
Projection = Callable[[Array, Array, Array, Array], Pair]

HALVINGS = 60  #: most steps of a backtracking line search
ROUNDING = 1e-13  #: share of a value that its rounding may be


class Scaled(Protocol):
    """Interface of the function that a step minimises: its value, its gradients and the curvature of each row."""

    def value(self, factors: Factors) -> float:
        """Return the value."""
        ...

    def gradient(self, factors: Factors) -> tuple[float, Factors]:
        """Return the value and the gradient, laid out as the factors are."""
        ...

    def scales(self, factors: Factors) -> Scales:
        """Return a positive scale for each row of U and of V, and for the intercepts."""
        ...


class Scales(NamedTuple):
    """The curvature of each unknown, roughly; an infinite one leaves the unknown where it is."""

    rows: Array
    columns: Array
    intercept: float = np.inf
    row_intercepts: Array | float = np.inf
    column_intercepts: Array | float = np.inf


class Accelerated:
    """Accelerated projected gradient on all unknowns, each row in its own scale; the value never rises.

    Parameters
    ----------
    target : Scaled
        The function.
    project : callable
        Brings U and V into their set, given the scales of rows and columns.
    start : Factors
        The first point.
    intercept_bound : float
        Largest absolute value of a row or column intercept.
    """

    def __init__(
        self, target: Scaled, project: Projection, start: Factors, intercept_bound: float = np.inf
    ) -> None:
        self.target, self.project, self.intercept_bound = target, project, intercept_bound
        self.length, self.momentum = 1.0, 1.0  # a step's length is relative to the inverse scales
        self.before: Factors | None = None
        self.begin(start)

    def begin(self, factors: Factors) -> None:
        """Begin a round: other multipliers, other scales, no momentum (kept, it makes multipliers swing)."""
        self.scales = self.target.scales(factors)
        self.known: float | None = None
        self.momentum = 1.0

    def advance(self, factors: Factors) -> Step:
        """Make one step: from beyond the last move, or from the point itself where that would raise the value."""
        value = self.target.value(factors) if self.known is None else self.known
        grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self.momentum**2))
        reach = (self.momentum - 1.0) / grown
        if self.before is not None and reach > 0.0:
            base = factors.plus(reach, factors.minus(self.before))
            trial = self._step(base)
            if trial is not None and trial[1] <= value:
                moved, self.known, decrease = trial
                # The move turns back on the momentum: start gathering it anew.
                turned = self._inner(base.minus(moved), moved.minus(factors)) > 0.0
                self.before, self.momentum = factors, 1.0 if turned else grown
                return Step(factors, value, decrease, moved, certain=True)
            self.momentum, grown = 1.0, 0.5 * (1.0 + np.sqrt(5.0))
        trial = self._step(factors)
        if trial is None or trial[1] > value:
            return Step(factors, value, 0.0, factors, stuck=True)
        moved, self.known, decrease = trial
        self.before, self.momentum = factors, grown
        return Step(factors, value, decrease, moved, certain=True)

    def _step(self, base: Factors) -> tuple[Factors, float, float] | None:
        """Return where a step from ``base`` leads, the value there and the decrease; None where every step fails."""
        value, gradient = self.target.gradient(base)
        scales = self.scales
        self.length *= 1.2  # steps may also grow
        for _ in range(HALVINGS):
            U = base.row_factors - gradient.row_factors * (self.length / scales.rows)[:, None]
            V = (
                base.column_factors
                - gradient.column_factors * (self.length / scales.columns)[:, None]
            )
            U, V = self.project(U, V, scales.rows, scales.columns)
            moved = Factors(
                U,
                V,
                base.intercept - self.length / scales.intercept * gradient.intercept,
                base.row_intercepts - self.length / scales.row_intercepts * gradient.row_intercepts,
                base.column_intercepts
                - self.length / scales.column_intercepts * gradient.column_intercepts,
            ).clip_intercepts(self.intercept_bound)
            move = moved.minus(base)
            model = self._inner(move, move) / self.length
            linear = gradient.dot(move)
            reached = self.target.value(moved)
            # Written so that a NaN is a failure.
            if reached <= value + linear + 0.5 * model + ROUNDING * abs(value):
                return moved, reached, model
            self.length *= 0.5
        self.length = 1.0  # halved again and again, round by round, it would become 0
        return None

    def _inner(self, a: Factors, b: Factors) -> float:
        """Return the inner product in which each row counts by its scale."""
        scales = self.scales
        total = float(
            np.einsum("ij,ij,i->", a.row_factors, b.row_factors, scales.rows)
            + np.einsum("ij,ij,i->", a.column_factors, b.column_factors, scales.columns)
        )
        if np.isfinite(scales.intercept):
            total += a.intercept * b.intercept * scales.intercept
        if np.all(np.isfinite(scales.row_intercepts)):
            total += float(np.sum(a.row_intercepts * b.row_intercepts * scales.row_intercepts))
            total += float(
                np.sum(a.column_intercepts * b.column_intercepts * scales.column_intercepts)
            )
        return total
