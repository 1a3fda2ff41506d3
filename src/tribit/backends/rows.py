"""The rows of one factor with the other fixed: one Newton step each, or each at the minimum of its own objective.

:func:`half_sweep` moves every row of a factor to the minimiser of a quadratic model of its objective. Alternating
Newton is two half-sweeps in turn; fold-in of new rows repeats half-sweeps with the columns fixed
(:mod:`tribit.folding`). :func:`solve_free_rows` minimises rows without bounds:

    p_i = argmin  sum over the entries j of row i of l(q_j' p + o_j, y_ij)  +  (p - c_i)' R (p - c_i) / 2

with R diagonal and positive; rows may have their own. A row with fewer entries than unknowns is solved in its dual
unknowns, ``p_i = c_i + R^-1 sum_j alpha_j q_j``, unless R is close to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tribit.backends.balls import (
    MIN_RIDGE_SHARE,
    RowProblem,
    lift,
    multiply_stacks,
    solve_ball_constrained_rows,
)
from tribit.backends.layout import Batch, RowLayout
from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.model.links import Label, Link

if TYPE_CHECKING:
    from tribit.backends.base import Backend, Panel
    from tribit.data.observations import Observations

Array = NDArray[np.floating[Any]]

#: Armijo constant of the rows' backtracking line searches, and their most halvings.
ARMIJO = 1e-4
MAX_HALVINGS = 12
#: Mean curvature, as a share of its bound, above which the bound serves as the curvature.
MIN_TIGHTNESS = 0.3


@dataclass
class RowState:
    """The warm start that a half-sweep leaves to the next one over the same rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    multipliers : array of shape (n_rows,)
        Those of the rows' balls.
    tightness : float
        Mean curvature as a share of its bound.

    Examples
    --------
    >>> from tribit.backends.rows import RowState
    >>> RowState(100).tightness
    1.0
    """

    n_rows: int
    multipliers: Array = field(init=False)
    tightness: float = 1.0

    def __post_init__(self) -> None:
        self.multipliers = np.zeros(self.n_rows)


class HalfSweep(NamedTuple):
    """The moved rows, their predicted gain, and the rows' total objective before the move.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Logistic, Observations, pn
    >>> from tribit.backends import make_backend
    >>> from tribit.backends.rows import RowProblem, RowState, half_sweep
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> backend = make_backend(seen, Logistic(), pn(), dtype="float64", n_jobs=1)
    >>> P, Q = np.zeros((2, 1)), np.array([[1.0], [-1.0], [-1.0]])
    >>> swept = half_sweep(backend, P, Q, RowProblem(1, l2=1.0), RowState(2), value=True)
    >>> swept.gain > 0
    True
    """

    P: Array
    gain: float
    value: float


def half_sweep(
    backend: Backend, P: Array, Q: Array, problem: RowProblem, state: RowState, *, value: bool
) -> HalfSweep:
    """Return ``P`` with every row moved to the minimiser of a quadratic model of its own objective, Q fixed.

    Where the bound of the curvature is tight the models use it: they lie above the objective, so that their minimisers
    need no line search. Otherwise they use the curvature itself, and each row has a backtracking line search on its own
    objective. The value is NaN unless requested, and ``state`` is updated.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Logistic, Observations, pn
    >>> from tribit.backends import make_backend
    >>> from tribit.backends.rows import RowProblem, RowState, half_sweep
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> backend = make_backend(seen, Logistic(), pn(), dtype="float64", n_jobs=1)
    >>> P, Q = np.zeros((2, 1)), np.array([[1.0], [-1.0], [-1.0]])
    >>> half_sweep(backend, P, Q, RowProblem(1, l2=1.0), RowState(2), value=True).P.shape
    (2, 1)
    """
    exact = not (backend.has_bounds and state.tightness >= MIN_TIGHTNESS)
    free = problem.free
    rounding = float(np.finfo(backend.dtype).eps)
    moved = P.copy()

    def move(panel: Panel) -> tuple[float, float, float]:
        here, own = P[panel.rows], problem.select(panel.rows)
        old = here[:, :free]
        model = panel.models(here.astype(backend.dtype), free, exact=exact, value=value or exact)
        values = model.values + own.penalty(here)
        gradients = model.gradients + own.ridge * own.deviation(here)
        minima = solve_ball_constrained_rows(
            gradients,
            model.curvatures,
            old,
            state.multipliers[panel.rows],
            own,
            rounding,
        )
        state.multipliers[panel.rows] = minima.multipliers
        new = here.copy()
        new[:, :free] = minima.minimisers
        if exact:
            # Differences below the rounding error of a row's sum decide nothing.
            noise = rounding * (np.abs(values) + backend.shape[1])
            new = _search(panel, own, here, new, values, gradients, noise, backend.dtype)
        moved[panel.rows] = new
        share = panel.height / P.shape[0]
        return float(np.sum(minima.gains)), float(np.sum(values)), share * model.tightness

    gains, values, tightness = zip(*backend.map_panels(move, Q), strict=True)
    state.tightness = float(sum(tightness))
    return HalfSweep(moved, float(sum(gains)), float(sum(values)))


def _search(
    panel: Panel,
    problem: RowProblem,
    here: Array,
    target: Array,
    values: Array,
    gradients: Array,
    noise: Array,
    dtype: np.dtype[Any],
) -> Array:
    """Backtrack each row's own step until its objective falls enough (Armijo); a row that never does stays."""
    free = gradients.shape[1]
    direction = target - here
    slope = np.minimum(np.einsum("ij,ij->i", gradients, direction[:, :free]), 0.0)
    step = np.ones(here.shape[0])
    for _ in range(MAX_HALVINGS):
        trial = here + step[:, None] * direction
        reached = panel.values(trial.astype(dtype))
        reached += problem.penalty(trial)
        # Written so that a NaN is a failure.
        failed = ~(reached <= values + ARMIJO * step * slope + noise) & (step > 0)
        if not failed.any():
            return trial
        step[failed] *= 0.5
    step[failed] = 0.0
    return np.asarray(here + step[:, None] * direction)


#: Most steps, and the gain of the last step as a share of a row's objective. Newton's method squares the error in each
#: step: the remaining error is below the rounding of single precision.
MAX_STEPS, MIN_RELATIVE_GAIN = 50, 1e-7


def solve_free_rows(
    entries: Observations,
    Q: Array,
    offsets: Array,
    centre: Array,
    ridge: Array,
    link: Link,
    n_jobs: int = 1,
) -> Array:
    """Return ``p_i`` of each row, in the type of Q; a row without entries is at its prior mean.

    Parameters
    ----------
    entries : Observations
        The labels, with their weights.
    Q, offsets : array of shape (n_columns, m), (n_columns,)
        ``q_j`` and ``o_j``.
    centre : array of shape (n_rows, m)
        ``c_i``.
    ridge : array of shape (m,) or (n_rows, m)
        The diagonal of R, above 0, or that of each row.
    """
    found = centre.astype(Q.dtype)
    layout = RowLayout(entries.rows, entries.columns, entries.shape)
    # One more label, and one more weight, stand for the padding.
    labels = np.append(entries.labels, 0)
    weights = None if entries.weights is None else np.append(entries.weights, 0).astype(Q.dtype)
    ridge, offsets = ridge.astype(Q.dtype), offsets.astype(Q.dtype)

    def move(batch: Batch) -> None:
        problem = _RowBatch(
            labels[batch.entries],
            Q[batch.columns],
            offsets[batch.columns],
            link,
            None if weights is None else weights[batch.entries],
        )
        narrow = batch.columns.shape[1] < Q.shape[1]
        own = ridge if ridge.ndim == 1 else ridge[batch.rows]
        minimised = (
            _minimise_by_entries if narrow and problem.is_steady(own) else _minimise_by_unknowns
        )
        found[batch.rows] = minimised(problem, found[batch.rows], own)

    with single_threaded_blas():
        for _ in ordered_map(move, [each for each in layout.batches if each.columns.size], n_jobs):
            pass
    return found


class _RowBatch:
    """Rows of similar length: the losses of their entries at ``x = o + step``, and the factors of their columns."""

    def __init__(
        self,
        labels: NDArray[np.int8],
        q: Array,
        offsets: Array,
        link: Link,
        weights: Array | None,
    ) -> None:
        self.likes, self.dislikes = (np.flatnonzero(labels == label) for label in (1, -1))
        self.q, self.offsets, self.link, self.weights = q, offsets, link, weights
        if self.likes.size + self.dislikes.size < labels.size:
            self.q *= (labels != 0)[:, :, None]

    def at(self, p: Array) -> Array:
        """Return x at the entries, given all of each row."""
        return np.asarray(_times(self.q, p) + self.offsets)

    def is_steady(self, ridge: Array) -> bool:
        """Return whether the ridge is well above the rounding error of the entries' curvature at ``x = 0``."""
        origin = np.zeros(1, dtype=self.q.dtype)
        second = max(float(self.link.second(origin, label)[0]) for label in (1, -1))
        largest = np.max(np.einsum("nla,nla->n", self.q, self.q), initial=0.0)
        if self.weights is not None:
            largest *= np.max(self.weights)
        return bool(np.min(ridge) >= MIN_RIDGE_SHARE * second * largest)

    def loss(self, x: Array) -> Array:
        """Return the sum over the entries of each row."""
        return np.asarray(np.sum(self._by_label(self.link.loss, x), axis=1))

    def first(self, x: Array) -> Array:
        """Return the first derivative at each entry."""
        return self._by_label(self.link.first, x)

    def second(self, x: Array) -> Array:
        """Return the second derivative at each entry; 0 where a link that is not convex has a negative one."""
        return np.maximum(self._by_label(self.link.second, x), 0)

    def _by_label(self, function: Callable[[Array, Label], Array], x: Array) -> Array:
        """Return a function of x and the label at each entry, times its weight, and 0 at the padding."""
        values = np.zeros_like(x)
        values.flat[self.likes] = function(x.take(self.likes), 1)
        values.flat[self.dislikes] = function(x.take(self.dislikes), -1)
        return values if self.weights is None else values * self.weights


def _minimise_by_unknowns(rows: _RowBatch, centre: Array, ridge: Array) -> Array:
    """Return the minimisers, by steps ``(R + Q' W Q)^-1`` of the gradient."""
    q, away = rows.q, np.zeros_like(centre)
    x = rows.at(centre)
    values = rows.loss(x)
    diagonal, rounding = np.arange(q.shape[2]), float(np.finfo(q.dtype).eps)
    for _ in range(MAX_STEPS):
        gradient = _times(q.transpose(0, 2, 1), rows.first(x)) + ridge * away
        # One array on both sides: the product is symmetric, and costs half.
        bent = q * np.sqrt(rows.second(x))[:, :, None]
        curvature = np.matmul(bent.transpose(0, 2, 1), bent)
        trace = np.trace(curvature, axis1=1, axis2=2)
        curvature[:, diagonal, diagonal] += ridge + lift(trace, rounding)[:, None]
        step = -np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        along, slope = _times(q, step), _dots(gradient, step)
        pulled = ridge * step
        t, new = _backtrack(rows, x, along, (ridge * away, away, step, pulled), values, slope)
        away, x = away + t * step, x + t * along
        if _near(slope, values):
            break
        values = new
    return np.asarray(centre + away)


def _minimise_by_entries(rows: _RowBatch, centre: Array, ridge: Array) -> Array:
    """Return the minimisers, by steps ``(I + W K)^-1`` of ``alpha + l'`` with ``K = Q R^-1 Q'``."""
    q, x = rows.q, rows.at(centre)
    K = np.matmul(q / ridge[..., None, :], q.transpose(0, 2, 1))
    identity = np.eye(K.shape[1], dtype=K.dtype)
    alpha, weighed = np.zeros_like(x), np.zeros_like(x)  # weighed: K alpha
    values = rows.loss(x)
    for _ in range(MAX_STEPS):
        gradient = alpha + rows.first(x)
        matrix = identity + rows.second(x)[:, :, None] * K
        step = -np.linalg.solve(matrix, gradient[:, :, None])[:, :, 0]
        along = _times(K, step)
        slope = _dots(gradient, along)
        t, new = _backtrack(rows, x, along, (weighed, alpha, step, along), values, slope)
        alpha, weighed, x = alpha + t * step, weighed + t * along, x + t * along
        if _near(slope, values):
            break
        values = new
    return np.asarray(centre + _times(q.transpose(0, 2, 1), alpha) / ridge)


def _backtrack(
    rows: _RowBatch,
    x: Array,
    along: Array,
    forms: tuple[Array, Array, Array, Array],
    values: Array,
    slope: Array,
) -> tuple[Array, Array]:
    """Return the length of each row's step, halved until its objective falls enough (Armijo), and the objective there.

    ``forms`` are R a, a, s and R s of a step from a to ``a + t s``: the ridge there is a polynomial in t.
    """
    pulled, away, step, step_pulled = forms
    constant, linear = 0.5 * _dots(pulled, away), _dots(pulled, step)
    square = 0.5 * _dots(step, step_pulled)
    # Differences below the rounding of a row's sum decide nothing.
    noise = 10 * np.finfo(values.dtype).eps * (1 + np.abs(values))
    t = np.ones_like(values)
    for _ in range(MAX_HALVINGS):
        new = rows.loss(x + t[:, None] * along) + constant + t * (linear + t * square)
        # Written so that a NaN is a failure.
        failed = ~(new <= values + ARMIJO * t * slope + noise)
        if not failed.any():
            return t[:, None], new
        t[failed] *= 0.5
    t[failed] = 0.0
    return t[:, None], np.where(failed, values, new)


def _dots(left: Array, right: Array) -> Array:
    """Return the inner product of each row of one with that of the other."""
    return np.asarray(np.einsum("ij,ij->i", left, right))


def _near(slope: Array, values: Array) -> bool:
    return bool(np.all(-0.5 * slope <= MIN_RELATIVE_GAIN * np.maximum(values, 1)))


def _times(matrices: Array, vectors: Array) -> Array:
    """Return the products of a stack of matrices with one vector each."""
    return multiply_stacks(matrices, vectors[:, :, None])[:, :, 0]
