"""Maximum likelihood of likes and dislikes under a bound on entries and a norm instead of the rank."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from tribit.backends.objective import Objective
from tribit.checks import check_positive
from tribit.data.observations import Observations
from tribit.model.constraints import Constraint, EntryBound, MaxNorm, TraceNorm
from tribit.model.links import as_link
from tribit.model.risks import pn
from tribit.paper.systems.base import System, check_rank
from tribit.randomness import generator
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
from tribit.solvers.loop import Stopping
from tribit.solvers.start import spectral_start

#: Default number of latent factors beyond ``rank``.
SPARE_COLUMNS = 5
#: Smallest curvature of an entry passed to a solver, for flat links.
MIN_CURVATURE = 1e-6


@dataclass(eq=False, repr=False)
class _BoundedLikelihood(System):
    """The likelihood inside the ball of a subclass and within alpha."""

    alpha: float = 1.0
    _: KW_ONLY
    rank: int = 2
    n_columns: int | None = None
    link: Any = "logistic"
    max_iter: int = 2000
    tol: float = 5e-3
    like_at: float | None = None
    random_state: Any = None

    def _ball(self, alpha: float, shape: tuple[int, int], rank: int) -> MaxNorm | TraceNorm:
        raise NotImplementedError

    def _fit(self, observations: Observations) -> None:
        alpha = check_positive("alpha", self.alpha)
        rank = check_rank("rank", self.rank, min(observations.shape))
        ball = self._ball(alpha, observations.shape, rank)
        self.radius_ = ball.radius
        most = sum(observations.shape)
        wanted = min(rank + SPARE_COLUMNS, most) if self.n_columns is None else self.n_columns
        columns = check_rank("n_columns", wanted, most)
        link, draws = as_link(self.link), generator(self.random_state)
        stopping = Stopping(self.max_iter, self.tol)
        constraints: list[Constraint] = [ball, EntryBound(alpha)]
        objective = Objective(observations, link, pn())
        start = spectral_start(objective, constraints, columns, 0.0, draws)
        solver = AugmentedLagrangian(max(link.curvature(alpha), MIN_CURVATURE))
        found = solver.minimise(objective, constraints, start, stopping, draws)
        self._store_result(found, observations)


@dataclass(eq=False, repr=False)
class TraceNormLikelihood(_BoundedLikelihood):
    """Minimise ``-sum over observed entries of log P(A_ij | x_ij)`` over the trace-norm set ``K_*(alpha, r)``.

    The set has ``|X|_inf <= alpha`` and ``|X|_* <= alpha sqrt(r d1 d2)``.
    Davenport, Plan, van den Berg and Wootters (2014), "1-bit matrix completion". Every matrix of rank r with entries
    up to alpha is inside. Solved in factor form by :class:`tribit.solvers.AugmentedLagrangian`: the bound on
    entries is kept exactly. There are no intercepts.

    Parameters
    ----------
    alpha : float, default=1.0
        Largest absolute value of an entry of X.
    rank : int, default=2
        The r of the bound.
    n_columns : int or None, default=None
        Number of latent factors; None for ``rank + 5``. With ``n_rows + n_columns`` they represent every X in the
        ball and the problem is convex.
    link : str or Link, default="logistic"
        "logistic", "probit" or a :class:`~tribit.Link`.
    max_iter : int, default=2000
        Most gradient steps.
    tol : float, default=5e-3
        Stop when the bounds of the minimum from above and below differ by at most this share of the likelihood at
        ``X = 0`` and a step gains a ten-thousandth of that.
    like_at : float or None, default=None
        Read a matrix as ratings: from ``like_at`` up a like, below a dislike.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the start.

    Attributes
    ----------
    row_factors_, column_factors_ : array
        U and V with ``X = U V'``, inside every bound.
    radius_ : float
        The radius of the ball.
    objective_ : float
        The negative log-likelihood at the solution.
    n_iter_, converged_, stop_reason_, history_ :
        As in :class:`AlternatingLeastSquares`.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems import TraceNormLikelihood
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = TraceNormLikelihood(alpha=2.0, rank=1, random_state=0).fit(A)
    >>> model.predict_proba([0, 3], [2, 3]).round(2), model.radius_
    (array([0.12, 0.88]), 8.0)
    """

    def _ball(self, alpha: float, shape: tuple[int, int], rank: int) -> TraceNorm:
        return TraceNorm(alpha * float(np.sqrt(rank * shape[0] * shape[1])))


@dataclass(eq=False, repr=False)
class MaxNormLikelihood(_BoundedLikelihood):
    """Minimise ``-sum over observed entries of log P(A_ij | x_ij)`` over ``|X|_inf <= alpha, |X|_max <= R``.

    Cai and Zhou (2013), "A max-norm constrained minimization approach to 1-bit matrix completion", where entries may
    be observed with unequal probabilities. Every matrix of rank r with entries up to alpha is inside for
    ``R = alpha sqrt(r)``. Solved in factor form by :class:`tribit.solvers.AugmentedLagrangian`: the bound on
    entries is kept exactly. There are no intercepts.

    Parameters
    ----------
    alpha : float, default=1.0
        Largest absolute value of an entry of X.
    radius : float or None, default=None
        R; None for ``alpha sqrt(rank)``. At most alpha, the ball implies the bound on entries.
    rank : int, default=2
        The r of the default radius.
    n_columns, link, max_iter, tol, like_at, random_state :
        As in :class:`TraceNormLikelihood`.

    Attributes
    ----------
    row_factors_, column_factors_, radius_, objective_, n_iter_, converged_, stop_reason_, history_ :
        As in :class:`TraceNormLikelihood`.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems import MaxNormLikelihood
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = MaxNormLikelihood(alpha=2.0, rank=1, random_state=0).fit(A)
    >>> model.predict([0, 3], [2, 3])
    array([-1,  1], dtype=int8)
    """

    radius: float | None = field(default=None, kw_only=True)

    def _ball(self, alpha: float, shape: tuple[int, int], rank: int) -> MaxNorm:  # noqa: ARG002
        if self.radius is None:
            return MaxNorm(alpha * float(np.sqrt(rank)))
        return MaxNorm(check_positive("radius", self.radius))
