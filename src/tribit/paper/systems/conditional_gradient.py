"""Frank-Wolfe over the trace-norm ball: least loss of the observed entries with ``|X|_* <= radius``.

Jaggi and Sulovský (2010), A simple algorithm for nuclear norm regularized problems; Jaggi (2013), Revisiting
Frank-Wolfe: projection-free sparse convex optimization.

The gradient lives on the observed entries alone, so it is a sparse matrix ``G``. Over the ball the linear function
``<S, G>`` is least at ``S = -radius u v'``, the top singular pair of ``G``; and by convexity no point of the ball is
lower than the objective at ``X`` by more than the duality gap ``<X - S, G> = <X, G> + radius sigma_1(G)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_choice, check_count, check_positive
from tribit.data.measurements import Measurements, as_measurements
from tribit.data.observations import Observations, as_observations
from tribit.errors import warn
from tribit.model.factors import Factors
from tribit.model.links import Link, as_link
from tribit.paper.systems.base import Linear, ObservedEntries, System, lower_to_sum
from tribit.paper.systems.singular_values import top_singular_pairs
from tribit.solvers.loop import Callback, SolverResult, Step, Stopping, run

Array = NDArray[np.floating[Any]]

LOSSES = ("squared", "likelihood")
#: Singular values below this share of the largest are rounding.
ROUNDING_SHARE = 1e-12


@dataclass(eq=False, repr=False)
class ConditionalGradientCompletion(System):
    """Complete a matrix by the least loss of its observed entries in the trace-norm ball.

    Minimises over X

        sum over observed entries of (x_ij - a_ij)^2, or of l(x_ij, a_ij) = -log P(a_ij | x_ij)

    subject to ``|X|_* <= radius``, by rank-one steps from ``X = 0`` (Jaggi and Sulovský 2010, Jaggi 2013). X is kept
    as factors and no dense matrix is made. The problem is convex, and the duality gap bounds how far the answer is
    from its minimum: ``objective_ - gap_ <= minimum <= objective_``.

    Parameters
    ----------
    radius : float or None, default=None
        Bound on the sum of singular values of X. A matrix of rank r with entries within [-alpha, alpha] has at most
        ``alpha sqrt(r d1 d2)``. With few observed entries a far smaller radius predicts better: compare radii on a
        validation set. None: ``sqrt(d1 d2) / 3``, a third of the norm of a matrix of signs of rank one.
    loss : {"squared", "likelihood"}, default="squared"
        Squared errors, of any real values, or minus the log-likelihood of likes and dislikes.
    link : str or Link, default="logistic"
        How an entry becomes a probability, with ``loss="likelihood"``. Squared errors of labels -1 and +1 estimate
        the mean label, so there ``P(like) = (1 + x) / 2``.
    tol : float, default=1e-3
        Stop when the duality gap is at most this share of the loss of ``X = 0``.
    max_iter : int, default=200
        Largest number of rank-one steps.
    max_time : float or None, default=None
        Largest number of seconds.
    corrections : int, default=8
        Projected-gradient steps after each rank-one step, in the row and column spaces found so far. The plain method
        (0) needs many times more rank-one steps, and the factors have as many columns.
    callback : callable or None, default=None
        Called with a :class:`~tribit.Iteration` after each rank-one step, whose ``decrease`` is the duality gap;
        returning True stops the fit.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V with ``X = U V'``; the squared norm of column k of either is the k-th singular value of X.
    objective_ : float
        The loss at X.
    radius_ : float
        The radius that was used.
    gap_ : float
        Upper bound on ``objective_`` minus the minimum.
    n_iter_, converged_, stop_reason_, history_ :
        As in :class:`~tribit.paper.systems.AlternatingLeastSquares`, for rank-one steps and the duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems.conditional_gradient import ConditionalGradientCompletion
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = ConditionalGradientCompletion(radius=4.0).fit(A)
    >>> model.predict([0, 3], [2, 3])
    array([-1,  1], dtype=int8)
    """

    radius: float | None = None
    _: KW_ONLY
    loss: str = "squared"
    link: Any = "logistic"
    tol: float = 1e-3
    max_iter: int = 200
    max_time: float | None = None
    corrections: int = 8
    callback: Callback | None = None

    def _fit(self, data: Measurements | Observations) -> None:
        solver = FrankWolfe(self.corrections)
        stopping = Stopping(self.max_iter, self.tol, self.max_time, self.callback)
        loss: SummedLoss = (
            LikelihoodLoss(as_link(self.link), data.labels)
            if isinstance(data, Observations)
            else SquaredLoss(data.values)
        )
        entries = ObservedEntries(data.rows, data.columns, data.shape)
        size = float(np.sqrt(data.shape[0] * data.shape[1]))
        self.radius_ = check_positive("radius", size / 3.0 if self.radius is None else self.radius)
        result = solver.minimise(loss, entries, self.radius_, stopping)
        self._set_scores(result.solver.factors, data)
        self.objective_, self.gap_ = result.solver.objective, result.gap
        self.n_iter_, self.converged_ = result.solver.n_iter, result.solver.converged
        self.stop_reason_, self.history_ = result.solver.stop_reason, result.solver.history
        if not self.converged_:
            warn(
                f"The fit stopped with a duality gap of {self.gap_:.3g} at an objective of {self.objective_:.6g} "
                f"({self.stop_reason_}): raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _read(self, X: object) -> Measurements | Observations:
        check_choice("loss", self.loss, LOSSES)
        as_link(self.link)  # checked with the squared loss too
        if self.loss == "squared":
            return as_measurements(X)
        return as_observations(_as_labels(X) if isinstance(X, Measurements) else X, self.reading_)

    def _link(self) -> Link:
        return Linear() if self.loss == "squared" else as_link(self.link)


def _as_labels(measurements: Measurements) -> Observations:
    """Return values of +1 and -1 as likes and dislikes."""
    return Observations.from_pairs(
        measurements.rows,
        measurements.columns,
        measurements.values,
        shape=measurements.shape,
        row_ids=measurements.row_ids,
        column_ids=measurements.column_ids,
    )


@dataclass(frozen=True)
class SquaredLoss:
    """``sum (x - a)^2`` over the measured values ``a``."""

    values: Array

    def value(self, x: Array) -> float:  # noqa: D102
        return float(np.sum((x - self.values) ** 2))

    def first(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(2.0 * (x - self.values))

    def second(self, x: Array) -> Array:  # noqa: D102
        return np.full_like(x, 2.0)


@dataclass(frozen=True)
class LikelihoodLoss:
    """``sum l(x, y)`` over labels ``y``: minus the log-likelihood of likes and dislikes under a link."""

    link: Link
    labels: NDArray[np.integer[Any]]

    def value(self, x: Array) -> float:  # noqa: D102
        return float(np.sum(self._each(self.link.loss, x)))

    def first(self, x: Array) -> Array:  # noqa: D102
        return self._each(self.link.first, x)

    def second(self, x: Array) -> Array:  # noqa: D102
        return self._each(self.link.second, x)

    def _each(self, function: Callable[..., Any], x: Array) -> Array:
        # Evaluates both labels everywhere, which is faster than to index the likes.
        return np.asarray(np.where(self.labels > 0, function(x, 1), function(x, -1)))


#: A convex loss of the observed entries, with its first two derivatives in each of them.
SummedLoss: TypeAlias = SquaredLoss | LikelihoodLoss


@dataclass(frozen=True)
class FrankWolfe:
    """Rank-one steps towards the top singular pair of the gradient, each by exact line search.

    Plain steps lower the objective only as ``1 / iterations``, so each is followed by ``corrections``
    projected-gradient steps in the row and column spaces found so far: there ``X = P B Q'`` with small ``B``, and the
    ball is ``|B|_* <= radius``. They never raise the objective or leave the ball.

    Parameters
    ----------
    corrections : int, default=8
        Corrective steps after each rank-one step; 0 for the plain method.
    pairs : int, default=5
        Number of singular pairs of the gradient that extend the spaces of the corrections.
    """

    corrections: int = 8
    pairs: int = 5

    def __post_init__(self) -> None:
        check_count("corrections", self.corrections, 0)
        check_count("pairs", self.pairs, 1)

    @single_threaded_blas()
    def minimise(
        self, loss: SummedLoss, entries: ObservedEntries, radius: float, stopping: Stopping
    ) -> BallResult:
        """Return the least loss over ``|X|_* <= radius``, from ``X = 0``.

        ``stopping.tol`` is relative to the loss at ``X = 0``: the fit ends once the duality gap is at most that.
        """
        radius = check_positive("radius", radius)
        empty = Factors.of(np.zeros((entries.shape[0], 0)), np.zeros((entries.shape[1], 0)))

        def value(factors: Factors) -> float:
            return loss.value(entries.of_product(factors.row_factors, factors.column_factors))

        def advance(factors: Factors) -> Step:
            return self._advance(factors, loss, entries, radius, stopping.tol * size)

        size = value(empty)
        result = run(advance, empty, value, stopping, size)
        bounds = [iteration.objective - iteration.decrease for iteration in result.history]
        lower = max(bounds, default=-np.inf)
        return BallResult(result, max(result.objective - lower, 0.0))

    def _advance(
        self,
        factors: Factors,
        loss: SummedLoss,
        entries: ObservedEntries,
        radius: float,
        gap_tol: float,
    ) -> Step:
        U, V = factors.row_factors, factors.column_factors
        x = entries.of_product(U, V)
        first = loss.first(x)
        objective = loss.value(x)
        if not first.any():
            return Step(factors, objective, 0.0, factors)
        n_pairs = self.pairs if self.corrections else 1
        left, sizes, right = top_singular_pairs(entries.matrix(first), n_pairs, exact=1)
        gap = max(float(np.vdot(x, first)) + radius * float(sizes[0]), 0.0)
        if gap <= gap_tol:
            return Step(factors, objective, gap, factors, certain=True)
        # The step to S = -radius u v' keeps (1 - step) X, a convex combination: inside the ball.
        towards = -radius * left[entries.rows, 0] * right[entries.columns, 0] - x
        step = line_search(loss, x, towards)
        x = x + step * towards
        U = np.hstack([(1.0 - step) * U, -step * radius * left[:, :1]])
        V = np.hstack([V, right[:, :1]])
        P = np.linalg.qr(np.hstack([U, left[:, 1:]]))[0]
        Q = np.linalg.qr(np.hstack([V, right[:, 1:]]))[0]
        B = (P.T @ U) @ (V.T @ Q)
        B, x = correct(B, x, _Spaces(P, Q, entries), loss, radius, self.corrections)
        stuck = loss.value(x) >= objective
        moved = factors if stuck else _balance_factors(P, B, Q)
        return Step(factors, objective, gap, moved, stuck, certain=True)


@dataclass(frozen=True)
class BallResult:
    """The last iterate of the solver, and its largest distance from the minimum."""

    solver: SolverResult
    gap: float


@dataclass(frozen=True)
class _Spaces:
    """Orthonormal bases of a row and a column space: ``X = P B Q'``."""

    P: Array
    Q: Array
    entries: ObservedEntries

    def values(self, B: Array) -> Array:
        """Return the observed entries of ``P B Q'``."""
        return self.entries.of_product(self.P @ B, self.Q)

    def gradient(self, first: Array) -> Array:
        """Return the gradient in B, ``P' G Q``."""
        return np.asarray(self.P.T @ (self.entries.matrix(first) @ self.Q))


def correct(
    B: Array, x: Array, spaces: _Spaces, loss: SummedLoss, radius: float, steps: int
) -> tuple[Array, Array]:
    """Lower the loss over ``|B|_* <= radius`` by spectral projected gradient steps with exact line search.

    Birgin, Martínez and Raydan (2000), Nonmonotone spectral projected gradient methods on convex sets. The line
    search is exact here, so that the loss never rises. Returns the new B and observed entries.
    """
    gradient = spaces.gradient(loss.first(x))
    curvature = float(np.max(loss.second(x), initial=0.0)) or 1.0
    for _ in range(steps):
        change = project_on_ball(B - gradient / curvature, radius) - B
        if -float(np.vdot(change, gradient)) <= 0.0:
            break
        towards = spaces.values(change)
        step = line_search(loss, x, towards)
        if step == 0.0:
            break
        B, x = B + step * change, x + step * towards
        last, gradient = gradient, spaces.gradient(loss.first(x))
        # Barzilai and Borwein's curvature along the step just taken.
        bend = float(np.vdot(gradient - last, change)) / (step * float(np.vdot(change, change)))
        curvature = bend if bend > 0.0 else curvature
    return B, x


def line_search(loss: SummedLoss, x: Array, towards: Array) -> float:
    """Return ``argmin loss(x + step towards)`` over ``0 <= step <= 1`` by Newton's method, kept in a bracket."""
    low, high, step = 0.0, 1.0, 1.0
    for _ in range(50):
        place = x + step * towards
        slope = float(np.vdot(towards, loss.first(place)))
        if slope <= 0.0 and step == 1.0:
            return 1.0
        low, high = (low, step) if slope > 0.0 else (step, high)
        bend = float(np.vdot(towards * towards, loss.second(place)))
        newton = step - slope / bend if bend > 0.0 else np.nan
        following = newton if low < newton < high else 0.5 * (low + high)
        # Newton's error squares: a change of 1e-6 leaves 1e-12.
        settled = abs(following - step) <= 1e-6 * following
        step = following
        if settled:
            break
    # Newton may end a rounding error beyond the minimum.
    return step if loss.value(x + step * towards) <= loss.value(x) else 0.0


def project_on_ball(B: Array, radius: float) -> Array:
    """Return ``argmin |B - B'|_F`` over ``|B'|_* <= radius``: singular values shrunk by one number, cut at 0."""
    left, sizes, right = np.linalg.svd(B, full_matrices=False)
    if float(np.sum(sizes)) <= radius:
        return B
    return np.asarray((left * lower_to_sum(sizes, radius)) @ right)


def _balance_factors(P: Array, B: Array, Q: Array) -> Factors:
    """Return factors of ``P B Q'`` that share its singular values; those that are rounding are dropped."""
    left, sizes, right = np.linalg.svd(B, full_matrices=False)
    kept = sizes > ROUNDING_SHARE * sizes[0]
    root = np.sqrt(sizes[kept])
    return Factors.of(P @ (left[:, kept] * root), Q @ (right[kept].T * root))
