"""PU matrix completion: learn a matrix from some of its likes alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from tribit.baselines.likelihood import _curvature
from tribit.baselines.linear import Linear
from tribit.baselines.squared import set_result
from tribit.completion import BinaryMatrixCompletion
from tribit.constraints import (
    Constraint,
    EntryBound,
    MaxNorm,
    TraceNorm,
    check_not_negative,
    check_positive,
)
from tribit.errors import InvalidInputError
from tribit.factor_model import FactorModel
from tribit.factors import Factors
from tribit.kernels.common import single_threaded_blas
from tribit.links import Link, as_link
from tribit.objective import Objective
from tribit.observations import Observations, as_observations
from tribit.randomness import generator
from tribit.risks import pu
from tribit.solvers.bounded import AugmentedLagrangian
from tribit.solvers.loop import SolverResult, Stopping
from tribit.start import spectral_start

Array = NDArray[np.floating[Any]]

LOSSES = ("likelihood", "squared")
NORMS = ("max", "trace")
#: A bound from below and above leave this many times ``tol``: they meet more slowly than Newton's steps shrink.
BOUNDED = 100.0


class PUMatrixCompletion(FactorModel):
    """Complete a matrix of which some likes were observed, each with probability ``1 - rho``, and nothing else.

    Minimises over X of at most the given rank

        sum over observed likes of [l(x, +1) - rho l(x, -1)] / (1 - rho)  +  sum over the others of l(x, -1)

    which has the mean of ``sum l(x, y)`` over all true labels y (Hsieh, Natarajan and Dhillon 2015, "PU learning for
    matrix completion"). Two losses:

    - "likelihood": ``l(x, y) = -log P(y)`` with a link, subject to ``|X|_max <= radius`` or ``|X|_* <= radius``, and
      ``|X|_inf <= alpha``, plus ``l2 / 2 (|U|^2 + |V|^2)``. It has no minimum without a bound.
    - "squared": ``l(x, y) = (x - a)^2`` with a = 1 for a like and 0 for a dislike, so that x itself is the probability
      of a like, plus ``l2 |X|_*``, subject to ``|X|_* <= radius``. Up to a constant that is ``|X - C|^2`` with
      ``C = 1 / (1 - rho)`` at the likes and 0 elsewhere, and the minimum has a closed form: the leading
      singular values of C, shrunk. The bound ``0 <= X <= 1`` of their theorem is left out; probabilities are clipped.

    Dislikes, where there are any, count as unobserved entries: the risk gives both the same weight.

    Parameters
    ----------
    rho : float or Missingness
        Probability that a like is unobserved, in [0, 1), or a model with one value for each entry. It has no default:
        likes alone do not tell it.
    loss : {"likelihood", "squared"}, default="likelihood"
        The loss of an entry.
    link : str or Link, default="logistic"
        How an entry becomes a probability under "likelihood"; "squared" has ``f(x) = x``.
    rank : int, default=10
        Number of columns of U and V.
    radius : float or None, default=None
        Radius of the ball of ``norm`` under "likelihood" and of the trace-norm ball under "squared" (None for no
        ball). None under "likelihood" is what every X of the rank within alpha has at most: ``alpha sqrt(rank)`` for
        the max-norm, ``alpha sqrt(rank d1 d2)`` for the trace norm, the paper's ``K_*(alpha, rank)``. Where alpha is
        None too it is ``f^-1(0.75)`` for the max-norm, about 1.1 for the logistic link.
    norm : {"max", "trace"}, default="max"
        What the radius bounds under "likelihood"; "squared" has the trace norm always.
    alpha : float or None, default=None
        Bound on the entries, "likelihood" only. Where the max-norm ball does not imply it, and with any trace-norm
        ball, the solver is :class:`tribit.solvers.bounded.AugmentedLagrangian`, in float64.
    l2 : float or None, default=None
        Weight of the ridge penalty on the factors, whose least value is ``l2 |X|_*``. None for 0, except under
        "squared" without a radius: there it takes away what a matrix of noise would have (see ``l2_``).
    max_iter : int or None, default=None
        Most iterations of "likelihood"; None for the solver's own number.
    tol : float, default=1e-5
        Stop when an iteration's first-order decrease is at most this share of the objective. The solver of ``alpha``
        and trace-norm balls stops at 100 times as much between bounds from above and below.
    like_at : float or None, default=None
        Read a matrix as ratings: from ``like_at`` up a like.
    dtype : {"float32", "float64"}, default="float32"
        Type of the arithmetic of "likelihood" and of its factors, where Newton's method is used.
    n_jobs : int or None, default=None
        Threads of "likelihood"; None or -1 for every core. The result has the same bits for any number.
    random_state : int, Generator, RandomState or None, default=None
        Draws where the search for factors, or for singular vectors, begins.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V.
    objective_ : float
        The objective at the solution.
    n_iter_ : int
        Iterations done; 1 for the closed form.
    converged_ : bool
        Whether ``tol`` was reached.
    radius_ : float or None
        The radius that was used.
    stop_reason_, history_ : str, list of Iteration
        Why the fit stopped and what was known after each iteration, "likelihood" only.
    l2_ : float
        The ridge weight that was used.

    Examples
    --------
    >>> A = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0]]
    >>> model = PUMatrixCompletion(rho=0.2, loss="squared", rank=2, l2=0.1, random_state=0).fit(A)
    >>> model.predict([2, 4, 0], [0, 3, 3])
    array([ 1,  1, -1], dtype=int8)
    """

    def __init__(
        self,
        *,
        rho: Any = None,
        loss: str = "likelihood",
        link: Any = "logistic",
        rank: int = 10,
        radius: float | None = None,
        norm: str = "max",
        alpha: float | None = None,
        l2: float | None = None,
        max_iter: int | None = None,
        tol: float = 1e-5,
        like_at: float | None = None,
        dtype: str = "float32",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.rho = rho
        self.loss = loss
        self.link = link
        self.rank = rank
        self.radius = radius
        self.norm = norm
        self.alpha = alpha
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.like_at = like_at
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the model.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1); everything else counts as unobserved.
        y : ignored
            Present for scikit-learn's interface.

        Returns
        -------
        self
        """
        if not isinstance(self.loss, str) or self.loss not in LOSSES:
            raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}.")
        if self.rho is None:
            raise InvalidInputError(
                "Likes alone do not tell how many were missed: pass rho, the probability in [0, 1) that a like "
                "is unobserved."
            )
        if not isinstance(self.norm, str) or self.norm not in NORMS:
            raise InvalidInputError(f"norm must be one of {', '.join(NORMS)}; got {self.norm!r}.")
        likes = _likes_of(as_observations(X, like_at=self.like_at))
        if self.loss == "squared":
            self._fit_squared(likes)
        elif not self._implied():
            set_result(self, self._bounded(likes), likes)
        else:
            self._fit_likelihood(likes)
        return self

    def _link(self) -> Link:
        return Linear(0.0, 1.0) if self.loss == "squared" else as_link(self.link)

    def _fit_likelihood(self, likes: Observations) -> None:
        """Minimise the PU risk as one corner of the simplex, without intercepts."""
        model = BinaryMatrixCompletion(
            (0, 1, 0),
            rho=self.rho,
            link=self.link,
            rank=self.rank,
            radius=self.radius,
            alpha=self.alpha,
            l2=0.0 if self.l2 is None else self.l2,
            intercept=False,
            solver="newton",
            max_iter=self.max_iter,
            tol=self.tol,
            dtype=self.dtype,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        ).fit(likes)
        self._set_fitted(model._factors(), likes)
        self.objective_, self.n_iter_ = model.objective_, model.n_iter_
        self.converged_, self.radius_, self.l2_ = model.converged_, model.radius_, model.l2
        self.stop_reason_, self.history_ = model.stop_reason_, model.history_

    def _implied(self) -> bool:
        """Return whether a max-norm ball keeps every bound: Newton's method knows no other."""
        for name in ("radius", "alpha"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        inside = self.alpha is None or (self.radius is not None and self.radius <= self.alpha)
        return self.norm == "max" and inside

    def _bounded(self, likes: Observations) -> SolverResult:
        """Minimise the PU risk inside a ball and within alpha."""
        rank = _checked_rank(self.rank, likes.shape)
        self.radius_ = self._radius(rank, likes.shape)
        ball = MaxNorm(self.radius_) if self.norm == "max" else TraceNorm(self.radius_)
        constraints: list[Constraint] = [ball]
        if self.alpha is not None:
            constraints.append(EntryBound(self.alpha))
        self.l2_ = 0.0 if self.l2 is None else check_not_negative("l2", self.l2)
        link, draws = as_link(self.link), generator(self.random_state)
        most = AugmentedLagrangian.max_iter if self.max_iter is None else self.max_iter
        stopping = Stopping(most, self.tol * BOUNDED)
        objective = Objective(likes, link, pu(self.rho), l2=self.l2_, n_jobs=self.n_jobs)
        start = spectral_start(objective, constraints, rank, 0.0, draws)
        # Without alpha no entry goes beyond what the trace norm allows, but few come near.
        reach = link.level(0.99) if self.alpha is None else self.alpha
        solver = AugmentedLagrangian(_curvature(link, reach))
        return solver.minimise(objective, constraints, start, stopping, draws)

    def _radius(self, rank: int, shape: tuple[int, int]) -> float:
        """Return the radius, by default what every X of a rank and within alpha has at most."""
        if self.radius is not None:
            return float(self.radius)
        if self.alpha is None:
            raise InvalidInputError("norm='trace' has no default radius: pass radius or alpha.")
        entries = shape[0] * shape[1] if self.norm == "trace" else 1
        return float(self.alpha * np.sqrt(min(rank, *shape) * entries))

    def _fit_squared(self, likes: Observations) -> None:
        """Shrink the leading singular values of C; with them every rank-limited minimum is exact."""
        if self.alpha is not None:
            raise InvalidInputError(
                "loss='squared' keeps no bound on entries: leave alpha out, or pass loss='likelihood'."
            )
        rank = _checked_rank(self.rank, likes.shape)
        radius = np.inf if self.radius is None else check_positive("radius", self.radius)
        if self.l2 is not None:
            check_not_negative("l2", self.l2)
        # The weights of (x - 1)^2 and x^2 sum to 1, so that both squares are (x - the first weight)^2 and a constant.
        target, _ = pu(self.rho).observed_weights(likes.labels, likes.rows, likes.columns)
        C = csr_array((target, (likes.rows, likes.columns)), shape=likes.shape)
        self.l2_ = self._ridge(target, likes.shape)
        with single_threaded_blas():
            left, values, right = _leading_triplets(C, rank, generator(self.random_state))
        shrunk = _shrink(values, 0.5 * self.l2_, radius)
        root = np.zeros(rank)
        root[: shrunk.size] = np.sqrt(shrunk)
        U, V = (np.pad(side, [(0, 0), (0, rank - side.shape[1])]) * root for side in (left, right))
        self._set_fitted(Factors.of(U, V), likes)
        x = np.einsum("ij,ij->i", U[likes.rows], V[likes.columns])
        self.objective_ = float(
            shrunk @ shrunk + np.sum(target * (1.0 - 2.0 * x)) + self.l2_ * np.sum(shrunk)
        )
        self.n_iter_, self.converged_, self.radius_ = 1, True, self.radius

    def _ridge(self, target: Array, shape: tuple[int, int]) -> float:
        """Return l2, by default twice the largest singular value of noise with the variance of C's entries."""
        if self.l2 is not None or self.radius is not None:
            return float(self.l2 or 0.0)
        entries = shape[0] * shape[1]
        variance = float(target @ target) / entries - (float(np.sum(target)) / entries) ** 2
        return float(2.0 * np.sqrt(max(variance, 0.0)) * (np.sqrt(shape[0]) + np.sqrt(shape[1])))


def _likes_of(observations: Observations) -> Observations:
    """Return the likes alone."""
    likes = np.flatnonzero(observations.labels > 0)
    if not likes.size:
        raise InvalidInputError(
            f"PU matrix completion learns from likes, and none of the {observations.n_observed} observed entries is "
            "one: observe likes, or swap the signs to learn from dislikes."
        )
    return observations.take(likes)


def _checked_rank(rank: Any, shape: tuple[int, int]) -> int:
    whole = isinstance(rank, int | np.integer) and not isinstance(rank, bool)
    if not whole or not 1 <= rank <= max(shape):
        raise InvalidInputError(
            f"rank must be a whole number from 1 to {max(shape)}, the larger side of the {shape[0]} x {shape[1]} "
            f"matrix; got {rank!r}."
        )
    return int(rank)


def _leading_triplets(
    C: csr_array, rank: int, draws: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return the leading singular vectors and values of a sparse matrix, at most ``rank``, largest first."""
    least = min(C.shape)
    if 2 * rank >= least:  # the dense matrix is then no larger than four times the answer
        left, values, right = np.linalg.svd(C.toarray(), full_matrices=False)
    else:
        left, values, right = svds(C, k=rank, v0=draws.standard_normal(least))
        order = np.argsort(-values)
        left, values, right = left[:, order], values[order], right[order]
    # The sign of a pair is free: fixed here, so that the answer does not show where the search began.
    largest = np.argmax(np.abs(left), axis=0)
    signs = np.where(left[largest, np.arange(left.shape[1])] < 0, -1.0, 1.0)
    return (left * signs)[:, :rank], values[:rank], (right.T * signs)[:, :rank]


def _shrink(values: Array, threshold: float, radius: float) -> Array:
    """Return ``argmin |s - values|^2 / 2 + threshold sum(s)`` over ``s >= 0`` with ``sum(s) <= radius``."""
    kept = np.maximum(values - threshold, 0.0)
    if np.sum(kept) <= radius:
        return np.asarray(kept)
    # Lower all that stay positive by one amount (values fall): the largest amount that keeps each of the first m.
    excess = (np.cumsum(kept) - radius) / np.arange(1, kept.size + 1)
    m = int(np.flatnonzero(kept > excess)[-1])
    return np.asarray(np.maximum(kept - excess[m], 0.0))
