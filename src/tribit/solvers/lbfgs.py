"""L-BFGS on all unknowns at once, for problems without constraints: rows may then share unknowns.

Byrd, Lu, Nocedal and Zhu (1995), "A limited memory algorithm for bound constrained optimization", without the bounds.
The initial inverse curvature is the objective's preconditioner (:mod:`tribit.backends.preconditioner`). A direction is
a combination of the gradient and of the pairs in memory, with weights from inner products alone (Chen, Wang and Zhou
2014, "Large-scale L-BFGS using MapReduce"). It takes two passes over the memory: one for products with the new
vectors, one for the combination.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tribit.arrays import dot, dots, full_beside, is_numpy, match_device, namespace, to_numpy
from tribit.backends.base import Backend
from tribit.backends.preconditioner import Preconditioner
from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.checks import check_count, check_field
from tribit.errors import parameter
from tribit.model.constraints import Constraint
from tribit.model.factors import Factors
from tribit.solvers.base import Solver, StatedProblem
from tribit.solvers.loop import SolverResult, Step, Stopping, run

Vector = NDArray[np.floating[Any]]

#: Unknowns in a block, within which products are summed in the type of the unknowns; over blocks, in float64.
BLOCK = 2**12
#: Unknowns in one item of a pass, as threads share it. NumPy lets the interpreter's lock go where a product has more
#: than 500 results, as those of a vector with four pairs have in 64 blocks: with 3 million unknowns and six pairs the
#: products took 4.9 ms on two threads so, and 7.7 ms in items of half the size, in which threads wait for one another.
SPAN = 64 * BLOCK
#: Least curvature of a pair, as a share of its lengths: below it the pair is rounding error.
MIN_PAIR_CURVATURE = 1e-10


class LimitedMemory:
    """Pairs ``(s, y)`` of steps and changes of the gradient, in coordinates where the first guess of curvature is 1.

    Parameters
    ----------
    room : int
        Number of pairs; a new one takes the place of the oldest.
    size : int
        Number of unknowns.
    dtype : dtype
        Of the numbers remembered, in arrays of NumPy: those of the objective's arithmetic are no more exact.
    n_jobs : int
        Threads of a pass; the numbers do not depend on it.
    beside : array, optional
        A vector of unknowns on a device: pairs are stored there too, in its type.
    """

    def __init__(
        self, room: int, size: int, dtype: DTypeLike, n_jobs: int, beside: Vector | None = None
    ) -> None:
        self.room, self.n_jobs, self.dtype = room, n_jobs, dtype
        # The step and the change of a pair stand together, in whole blocks; pages never written take no memory.
        whole = -(-size // BLOCK) * BLOCK
        if beside is None or is_numpy(beside):
            self.vectors = np.zeros((2 * room, whole), dtype=dtype)
        else:
            self.vectors = full_beside((2 * room, whole), 0.0, beside)
        self.size = size
        self.products = np.zeros((2 * room, 2 * room))
        self.spans = [slice(start, start + SPAN) for start in range(0, whole, SPAN)]
        #: places of the pairs, from the oldest to the newest; those whose products are not known yet
        self.places: list[int] = []
        self.new: list[int] = []

    def clear(self) -> None:
        """Forget all pairs."""
        self.places, self.new = [], []

    def add(self, step: Vector, change: Vector) -> None:
        """Store a pair, unless its curvature is not positive."""
        product, of_step, of_change = dots((step, change), (step, step), (change, change))
        if not product > MIN_PAIR_CURVATURE * float(np.sqrt(of_step) * np.sqrt(of_change)):
            return
        full = len(self.places) == self.room
        place = self.places.pop(0) if full else len(self.places)
        self.places.append(place)
        self.new = [*(each for each in self.new if each != place), place]
        self.vectors[2 * place, : self.size] = step
        self.vectors[2 * place + 1, : self.size] = change

    def direction(self, gradient: Vector) -> Vector:
        """Return the direction of descent: minus the approximate inverse curvature times the gradient."""
        if not self.places:
            return -gradient
        n = len(self.places)
        places = np.array(self.places)
        used = np.concatenate([2 * places, 2 * places + 1])
        with_gradient = self._update(gradient)[used]
        # Inner products of the steps, the changes and the gradient; the weight of each in the direction.
        inner = np.zeros((2 * n, 2 * n + 1))
        inner[:, :-1] = self.products[np.ix_(used, used)]
        inner[:, -1] = with_gradient
        weights = np.zeros(2 * n + 1)
        weights[-1] = 1.0
        curvatures = np.diag(inner[:n, n:])
        shares = np.zeros(n)
        for i in reversed(range(n)):
            shares[i] = inner[i] @ weights / curvatures[i]
            weights[n + i] -= shares[i]
        weights *= curvatures[-1] / inner[2 * n - 1, 2 * n - 1]
        for i in range(n):
            weights[i] += shares[i] - inner[n + i] @ weights / curvatures[i]
        in_order = np.empty(2 * n)
        in_order[used] = weights[:-1]
        return self._combine(-in_order, -weights[-1], gradient)

    def _update(self, gradient: Vector) -> Vector:
        """Store the products of the new pairs with all pairs; return those of the gradient."""
        fresh = np.array([2 * place + i for place in self.new for i in (0, 1)], dtype=np.intp)
        held = slice(0, 2 * len(self.places))
        total: Vector = self._products(held, fresh, gradient)
        self.products[held, fresh] = total[:, :-1]
        self.products[fresh, held] = total[:, :-1].T
        self.new = []
        last: Vector = total[:, -1]
        return last

    def _products(self, held: slice, fresh: NDArray[np.intp], gradient: Vector) -> Vector:
        """Return the inner products of the stored vectors with some of them and with the gradient."""
        if not is_numpy(gradient):
            return self._device_products(held, fresh, gradient)
        kind = self.vectors.dtype

        def run(span: slice) -> Vector:
            kept = _in_blocks(self.vectors[held, span]).swapaxes(0, 1)
            last = gradient[span].astype(kind, copy=False)
            if last.size % BLOCK:  # the last one
                last = np.pad(last, (0, -last.size % BLOCK))
            columns = [self.vectors[place, span] for place in fresh.tolist()] + [last]
            # One vector after the other: BLAS takes twice as long for a product of narrow matrices.
            parts = [
                np.sum(kept @ _in_blocks(each)[:, :, None], axis=0, dtype=np.float64)
                for each in columns
            ]
            return np.hstack(parts)

        total: Vector = np.zeros((held.stop, fresh.size + 1))
        for part in ordered_map(run, self.spans, self.n_jobs):
            total += part
        return total

    def _device_products(self, held: slice, fresh: NDArray[np.intp], gradient: Vector) -> Vector:
        """Return the same on a device: one product of matrices for each block, summed in float64."""
        xp = namespace(gradient)
        against = full_beside((fresh.size + 1, self.vectors.shape[1]), 0.0, gradient)
        for i, place in enumerate(fresh.tolist()):
            against[i] = self.vectors[place]
        against[-1, : self.size] = gradient
        left, right = (
            xp.reshape(each, (each.shape[0], -1, BLOCK)) for each in (self.vectors[held], against)
        )
        parts = xp.matmul(xp.permute_dims(left, (1, 0, 2)), xp.permute_dims(right, (1, 2, 0)))
        found: Vector = to_numpy(xp.sum(parts, axis=0, dtype=xp.float64))
        return found

    def _combine(self, weights: Vector, weight: float, gradient: Vector) -> Vector:
        """Return a combination of the stored vectors and the gradient."""
        if not is_numpy(gradient):
            found = match_device(weights, gradient) @ self.vectors[: weights.size]
            return found[: self.size] + weight * gradient
        found = np.empty_like(gradient)
        rounded = weights.astype(self.vectors.dtype)

        def run(span: slice) -> None:
            here = found[span]
            np.matmul(rounded, self.vectors[: weights.size, span][:, : here.size], out=here)
            here += weight * gradient[span]

        for _ in ordered_map(run, self.spans, self.n_jobs):
            pass
        return found


def _in_blocks(vectors: Vector) -> Vector:
    """Return vectors of whole blocks with their last axis cut into these."""
    return vectors.reshape((*vectors.shape[:-1], -1, BLOCK))


#: Armijo constant of the backtracking line search, and its most halvings of a step.
ARMIJO = 1e-4
MAX_HALVINGS = 30
#: Iterations whose total gain is compared with ``tol``: the gain of a single one varies too much.
GAIN_WINDOW = 10
#: Steps before the preconditioner is renewed, their growth factor, and the relative decrease of F since the last
#: renewal below which it is kept: a warm start has a good one. On a synthetic table of 20 million entries, k = 32, fits
#: took 671 iterations without renewals and 290 with them, to the same F within 2e-4. A growth factor of 2, a first
#: renewal after 6 or 15 steps, or three times the decrease took 336 to 354.
REFRESH_STEPS, REFRESH_GROWTH, REFRESH_DECREASE = 10, 3, 1e-3

#: The factors after a step, the step in the preconditioner's coordinates, and F with its gradient there.
Found = tuple[Factors, Vector, tuple[float, Vector]]


class Preconditioned(StatedProblem, Protocol):
    """A differentiable function of factors with a preconditioner, such as :class:`tribit.Objective`."""

    @property
    def size(self) -> float:
        """The number of entries that the sum is over."""
        ...

    @property
    def backend(self) -> Backend:
        """The backend, whose type and threads are those of the arithmetic."""
        ...

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
        Number of stored steps. 10 took as many iterations: 290 and 285 on a synthetic table of 20 million entries, 293
        and 286 on one of 250,000 with a weak penalty.

    Examples
    --------
    >>> from tribit import LBFGS, BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, solver=LBFGS(memory=3), random_state=0)
    >>> model.fit([[1, -1], [-1, 1]]).converged_
    True
    """

    memory: int = 6
    max_iter = 1000
    any_arrays = True
    searches_features = True

    def __post_init__(self) -> None:
        check_field(self, "memory", check_count)

    def refusal(self, model: StatedProblem, constraints: list[Constraint]) -> str | None:
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
        objective: Preconditioned,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> SolverResult:
        """Return a local minimum of F, from ``start``."""
        self.check_supported(objective, constraints)
        with single_threaded_blas():
            iterations = _Iterations(objective, start, self.memory)
            return run(iterations.advance, start, objective.value, stopping, objective.size)


class _Iterations:
    """The iterations: gradients in the preconditioner's coordinates, and the memory of the last steps."""

    def __init__(self, objective: Preconditioned, start: Factors, room: int) -> None:
        self.objective, self.like = objective, start
        self.preconditioner = objective.preconditioner(start)
        backend = objective.backend
        x = start.flat()
        self.memory = LimitedMemory(room, x.shape[0], backend.dtype, backend.n_jobs, beside=x)
        self.values: deque[float] = deque(maxlen=GAIN_WINDOW)
        self.known: tuple[float, Vector] | None = None
        self.steps, self.due, self.made_at = 0, REFRESH_STEPS, np.inf

    def advance(self, factors: Factors) -> Step:
        """Make one step and store its pair."""
        if self.steps == self.due:
            self._refresh(factors)
        self.steps += 1
        value, gradient = self._at(factors) if self.known is None else self.known
        if self.steps == 1:
            self.made_at = value
        gained = self.values[0] - value if len(self.values) == GAIN_WINDOW else np.inf
        self.values.append(value)
        x = factors.flat()
        found, promised = self._step(x, value, gradient)
        if found is None and self.memory.places:
            # The stored curvature may be out of date: try again without it.
            self.memory.clear()
            found, promised = self._step(x, value, gradient)
        if found is None:
            return Step(factors, value, promised, factors, stuck=True)
        moved, step, self.known = found
        self.memory.add(step, self.known[1] - gradient)
        # The first-order decrease counts too: at the minimum itself there is no window to wait for.
        return Step(factors, value, min(gained, GAIN_WINDOW * promised), moved)

    def _refresh(self, factors: Factors) -> None:
        """Renew the preconditioner at the present unknowns; the memory, in the old coordinates, is cleared."""
        self.due *= REFRESH_GROWTH
        if self.known is None or self.made_at - self.known[0] <= REFRESH_DECREASE * abs(
            self.known[0]
        ):
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
        for _ in range(MAX_HALVINGS):
            moved = self.like.from_flat(x + length * ahead)
            reached = self._at(moved)
            # Written so that a NaN is a failure.
            if reached[0] <= value + ARMIJO * length * slope + noise:
                step = direction if length == 1.0 else length * direction
                return (moved, step, reached), promised
            length *= 0.5
        return None, promised
