"""L-BFGS on all unknowns at once, for problems without constraints: rows may then share unknowns.

Byrd, Lu, Nocedal and Zhu (1995), "A limited memory algorithm for bound constrained optimization", without the bounds.
The first guess of the inverse curvature is the objective's own (:mod:`tribit.backends.preconditioner`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import dot
from tribit.backends import Backend
from tribit.backends.preconditioner import Preconditioner
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_count, check_field
from tribit.errors import parameter
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.solvers.capabilities import Solver, Stated
from tribit.solvers.limited_memory import LimitedMemory
from tribit.solvers.loop import SolverResult, Step, Stopping, run

Vector = NDArray[np.floating[Any]]

#: Armijo constant of the backtracking line search, and its most halvings of a step.
ENOUGH = 1e-4
HALVINGS = 30
#: Iterations whose total gain is compared with ``tol``: the gain of a single one says little.
WINDOW = 10
#: Steps after which the preconditioner is made anew, ever three times as many, and the share of F by which F must have
#: fallen since it was made: a warm start has a good one. On a drawn table of 20 million entries, k = 32, fits took 671
#: iterations with that of the start alone, and 290 so, to the same F within 2e-4. Twice as many steps each time, the
#: first after 6 or 15, or three times the share of F, took 336 to 354.
REFRESHED, MORE, MOVED = 10, 3, 1e-3

#: The factors after a step, the step in the preconditioner's coordinates, and F with its gradient there.
Found = tuple[Factors, Vector, tuple[float, Vector]]


class Preconditioned(Protocol):
    """A differentiable function of factors with a preconditioner, such as :class:`tribit.Objective`."""

    size: float
    backend: Backend  #: its type and threads are those of the arithmetic

    def value(self, factors: Factors) -> float:
        """Return F."""
        ...

    def gradient(self, factors: Factors) -> tuple[float, Factors]:
        """Return F and its gradient."""
        ...

    def preconditioner(self, factors: Factors) -> Preconditioner:
        """Return a first guess of the inverse curvature."""
        ...


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory quasi-Newton method on all unknowns at once; it keeps no constraint.

    Parameters
    ----------
    memory : int, default=6
        Number of earlier steps it remembers. 10 took as many iterations: 290 and 285 on a drawn table of 20 million
        entries, 293 and 286 on one of 250,000 with a weak ridge.
    """

    memory: int = 6
    max_iter = 1000
    any_arrays = True
    searches_features = True

    def __post_init__(self) -> None:
        check_field(self, "memory", check_count)

    def refusal(self, model: Stated, constraints: list[Constraint]) -> str | None:
        """Return why it cannot keep the problem: any constraint, also one on intercepts.

        Where rows share unknowns the objective has the bounds itself.
        """
        kept = [type(c).__name__ for c in constraints if c.restricts]
        if not model.shares_unknowns and np.isfinite(model.intercept_bound):
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
        self.check_kept(objective, constraints)
        with single_threaded_blas():
            iterations = _Iterations(objective, start, self.memory)
            return run(iterations.advance, start, objective.value, stopping, objective.size)


class _Iterations:
    """The iterations: gradients in the preconditioner's coordinates, and the memory of what the last steps did."""

    def __init__(self, objective: Preconditioned, start: Factors, room: int) -> None:
        self.objective, self.like = objective, start
        self.preconditioner = objective.preconditioner(start)
        backend = objective.backend
        x = start.flat()
        self.memory = LimitedMemory(room, x.shape[0], backend.dtype, backend.n_jobs, beside=x)
        self.values: deque[float] = deque(maxlen=WINDOW)
        self.known: tuple[float, Vector] | None = None
        self.steps, self.due, self.made_at = 0, REFRESHED, np.inf

    def advance(self, factors: Factors) -> Step:
        """Make one step, and remember what it taught."""
        if self.steps == self.due:
            self._refresh(factors)
        self.steps += 1
        value, gradient = self._at(factors) if self.known is None else self.known
        if self.steps == 1:
            self.made_at = value
        gained = self.values[0] - value if len(self.values) == WINDOW else np.inf
        self.values.append(value)
        x = factors.flat()
        found, promised = self._step(x, value, gradient)
        if found is None and self.memory.places:
            # What is remembered of the curvature may be wrong by now: once more without it.
            self.memory.clear()
            found, promised = self._step(x, value, gradient)
        if found is None:
            return Step(factors, value, promised, factors, stuck=True)
        moved, step, self.known = found
        self.memory.add(step, self.known[1] - gradient)
        # What a step promises counts too: from the minimum itself there is nothing to wait for.
        return Step(factors, value, min(gained, WINDOW * promised), moved)

    def _refresh(self, factors: Factors) -> None:
        """Make the preconditioner for where the unknowns are by now; what is remembered is in the old coordinates."""
        self.due *= MORE
        if self.known is None or self.made_at - self.known[0] <= MOVED * abs(self.known[0]):
            return
        self.preconditioner, self.made_at = self.objective.preconditioner(factors), self.known[0]
        self.memory.clear()
        self.known = None

    def _at(self, factors: Factors) -> tuple[float, Vector]:
        """Return F and its gradient in the preconditioner's coordinates."""
        value, gradient = self.objective.gradient(factors)
        return value, self.preconditioner.times(gradient.flat(self.memory.dtype))

    def _step(self, x: Vector, value: float, gradient: Vector) -> tuple[Found | None, float]:
        """Return where a backtracking line search (Armijo) leads, and the first-order decrease.

        None where no step is low enough.
        """
        direction = self.memory.direction(gradient)
        slope = dot(gradient, direction)
        promised = max(-slope, 0.0)
        ahead = self.preconditioner.transposed_times(direction)
        length, noise = 1.0, 1e-12 * abs(value)
        for _ in range(HALVINGS):
            moved = self.like.unflatten(x + length * ahead)
            reached = self._at(moved)
            # Written so that a NaN is a failure.
            if reached[0] <= value + ENOUGH * length * slope + noise:
                step = direction if length == 1.0 else length * direction
                return (moved, step, reached), promised
            length *= 0.5
        return None, promised
