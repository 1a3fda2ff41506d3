"""L-BFGS on all unknowns at once, for problems without constraints: rows may then share unknowns.

Byrd, Lu, Nocedal and Zhu (1995), "A limited memory algorithm for bound constrained optimization", without the bounds.
The first guess of the inverse curvature is diagonal, from the number of entries and the ridge of each unknown.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import add_scaled, dot, filled, is_numpy, namespace
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_count, check_field
from tribit.errors import parameter
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.solvers.loop import SolverResult, Step, Stopping, run
from tribit.solvers.refusals import check_kept

Vector = NDArray[np.float64]

#: Armijo constant of the backtracking line search, and its most halvings of a step.
ENOUGH = 1e-4
HALVINGS = 30
#: Least curvature of a pair, as a share of its lengths: below it the pair is rounding error.
CURVED = 1e-10
#: Iterations whose total gain is compared with ``tol``: the gain of a single one says little.
WINDOW = 10


class Preconditioned(Protocol):
    """A differentiable function of factors with a diagonal preconditioner, such as :class:`tribit.Objective`."""

    size: float

    def value(self, factors: Factors) -> float:
        """Return F."""
        ...

    def gradient(self, factors: Factors) -> tuple[float, Factors]:
        """Return F and its gradient."""
        ...

    def scales(self, factors: Factors) -> Factors:
        """Return a positive guess of the curvature in each unknown."""
        ...


@dataclass(frozen=True)
class LBFGS:
    """Limited-memory quasi-Newton method on all unknowns at once; it keeps no constraint.

    Parameters
    ----------
    memory : int, default=20
        Number of earlier steps it remembers.
    """

    memory: int = 20
    max_iter = 1000  #: where the user names no number
    any_arrays = True  #: whether unknowns may be arrays of a device

    def __post_init__(self) -> None:
        check_field(self, "memory", check_count)

    def refusal(self, model: Any, constraints: list[Constraint]) -> str | None:
        """Return why it cannot keep the problem: any constraint, also one on intercepts.

        Where rows share unknowns the objective has the bounds itself.
        """
        kept = [type(c).__name__ for c in constraints if c.restricts]
        shares = getattr(model, "shares_unknowns", False)
        if not shares and np.isfinite(getattr(model, "intercept_bound", np.inf)):
            kept.append("a bound on intercepts")
        if not kept:
            return None
        return (
            f"The lbfgs solver keeps no constraint and was given {kept[0]}: use {parameter('solver', 'newton')}, or "
            f"leave out {parameter('radius')} and {parameter('alpha')} and the weight on unobserved entries."
        )

    def minimise(
        self,
        objective: Any,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> SolverResult:
        """Return a local minimum of F, from ``start``."""
        check_kept(self, objective, constraints)
        with single_threaded_blas():
            memory = _Memory(objective, start, self.memory)
            return run(memory.advance, start, objective.value, stopping, objective.size)


class _Memory:
    """The last steps, what they did to the gradient, and the step they suggest."""

    def __init__(self, objective: Preconditioned, start: Factors, room: int) -> None:
        self.objective = objective
        scales = _flat(objective.scales(start))
        self.inverse = 1.0 / namespace(scales).clip(scales, 1e-12, None)
        self.pairs: deque[tuple[Vector, Vector, float]] = deque(maxlen=room)
        self.values: deque[float] = deque(maxlen=WINDOW)
        self.known: tuple[float, Vector] | None = None

    def advance(self, factors: Factors) -> Step:
        """Make one step, and remember what it taught."""
        value, gradient = self._at(factors) if self.known is None else self.known
        gained = self.values[0] - value if len(self.values) == WINDOW else np.inf
        self.values.append(value)
        x = _flat(factors)
        found, promised = self._step(factors, x, value, gradient)
        if found is None and self.pairs:
            # What is remembered of the curvature may be wrong by now: once more without it.
            self.pairs.clear()
            found, promised = self._step(factors, x, value, gradient)
        if found is None:
            return Step(factors, value, promised, factors, stuck=True)
        moved, self.known = found
        self._learn(_flat(moved) - x, self.known[1] - gradient)
        # What a step promises counts too: from the minimum itself there is nothing to wait for.
        return Step(factors, value, min(gained, WINDOW * promised), moved)

    def _step(
        self, factors: Factors, x: Vector, value: float, gradient: Vector
    ) -> tuple[tuple[Factors, tuple[float, Vector]] | None, float]:
        """Return where the step leads (None where none is low enough), and the first-order decrease."""
        direction = -self._times_inverse_curvature(gradient)
        slope = dot(gradient, direction)
        return self._search(factors, x, direction, value, slope), max(-slope, 0.0)

    def _at(self, factors: Factors) -> tuple[float, Vector]:
        value, gradient = self.objective.gradient(factors)
        return value, _flat(gradient)

    def _search(
        self, factors: Factors, x: Vector, direction: Vector, value: float, slope: float
    ) -> tuple[Factors, tuple[float, Vector]] | None:
        """Return the point of a backtracking line search (Armijo); None where no step is low enough."""
        step = 1.0
        noise = 1e-12 * abs(value)
        for _ in range(HALVINGS):
            moved = _shaped(x + step * direction, factors)
            reached = self._at(moved)
            # Written so that a NaN is a failure.
            if reached[0] <= value + ENOUGH * step * slope + noise:
                return moved, reached
            step *= 0.5
        return None

    def _learn(self, moved: Vector, turned: Vector) -> None:
        product = dot(moved, turned)
        if product > CURVED * float(np.sqrt(dot(moved, moved)) * np.sqrt(dot(turned, turned))):
            self.pairs.append((moved, turned, product))

    def _times_inverse_curvature(self, gradient: Vector) -> Vector:
        """Return the two-loop product of the remembered inverse curvature with the gradient."""
        d = namespace(gradient).asarray(gradient, copy=True)
        shares = []
        for moved, turned, product in reversed(self.pairs):
            share = dot(moved, d) / product
            add_scaled(d, -share, turned)
            shares.append(share)
        if self.pairs:
            _, turned, product = self.pairs[-1]
            d *= self.inverse * (product / dot(turned, self.inverse * turned))
        else:
            d *= self.inverse
        for (moved, turned, product), share in zip(self.pairs, reversed(shares), strict=True):
            add_scaled(d, share - dot(turned, d) / product, moved)
        return d


def _flat(factors: Factors) -> Vector:
    """Return all unknowns in one vector."""
    U, V = factors.row_factors, factors.column_factors
    xp = namespace(U)
    flat = xp.concat(
        [
            xp.reshape(U, (-1,)),
            xp.reshape(V, (-1,)),
            filled((1,), factors.intercept, U),
            factors.row_intercepts,
            factors.column_intercepts,
        ]
    )
    return flat.astype(np.float64) if is_numpy(flat) else flat


def _shaped(x: Vector, like: Factors) -> Factors:
    """Return the vector as factors of the same shapes."""
    (d1, k), d2 = like.row_factors.shape, like.column_factors.shape[0]
    ends = np.cumsum([0, d1 * k, d2 * k, 1, d1, d2]).tolist()
    U, V, b, a, c = (x[start:stop] for start, stop in pairwise(ends))
    return Factors(U.reshape((d1, k)), V.reshape((d2, k)), float(b[0]), a, c)
