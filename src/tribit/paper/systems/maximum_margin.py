"""Maximum-margin matrix factorisation: signs on the right side of a margin, with the least trace norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.checks import check_field, check_not_negative, check_positive
from tribit.data.observations import Observations
from tribit.model.factors import Factors
from tribit.model.links import Label, Link, Logistic
from tribit.model.risks import pn
from tribit.paper.systems.base import System, check_rank
from tribit.randomness import generator
from tribit.solvers.lbfgs import LBFGS
from tribit.solvers.loop import Iteration, SolverResult, Stopping
from tribit.solvers.start import spectral_start

Array = NDArray[np.floating[Any]]


#: The probability of a like, from the margin: the odds are ``exp(h(-x) - h(x))``, which is ``exp(2 x)`` where
#: ``|x| <= 1`` and the hinge is not rounded.
MARGIN = Logistic(2.0)
#: Ratio of two widths of the rounded kink, one fitted from the other.
WIDTH_RATIO = 0.1
#: Deviation of the noise on factors before the next width, about a share of their size.
PERTURBATION = 0.01


@dataclass(frozen=True)
class Hinge(Link):
    """``l(x, y) = max(0, 1 - y x)`` with its kink rounded over ``1 - smoothing <= y x <= 1``.

    There it is ``(1 - y x)^2 / (2 smoothing)``, and for smaller ``y x`` it is ``1 - y x - smoothing / 2``: below the
    hinge by at most ``smoothing / 2``. It is a loss to minimise and no likelihood; ``f`` is that of :data:`MARGIN`.

    Parameters
    ----------
    smoothing : float, default=1.0
        The width of the rounding.
    """

    smoothing: float = 1.0

    def __post_init__(self) -> None:
        check_field(self, "smoothing", check_positive)

    def probability(self, x: Array) -> Array:  # noqa: D102
        return MARGIN.probability(x)

    def loss(self, x: Array, y: Label) -> Array:  # noqa: D102
        short = np.maximum(1.0 - y * x, 0.0)
        inside = np.minimum(short, self.smoothing)
        return np.asarray(short - inside + inside**2 / (2.0 * self.smoothing))

    def first(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray(-y * np.clip((1.0 - y * x) / self.smoothing, 0.0, 1.0))

    def second(self, x: Array, y: Label) -> Array:  # noqa: D102
        short = 1.0 - y * x
        return np.where((short > 0.0) & (short <= self.smoothing), 1.0 / self.smoothing, 0.0)


@dataclass(eq=False, repr=False)
class MaximumMarginFactorization(System):
    """Separate likes from dislikes by a margin, with the least sum of singular values.

    Minimises over X of at most the given rank

        sum over observed entries of h(y_ij x_ij)  +  l2 |X|_*

    with the hinge ``h(z) = max(0, 1 - z)``: Srebro, Rennie and Jaakkola (2005), "Maximum-margin matrix factorization".
    As in Rennie and Srebro (2005), "Fast maximum margin matrix factorization for collaborative prediction", the kink
    of h is rounded and the trace norm is the least ``(|U|^2 + |V|^2) / 2`` over ``X = U V'``, which makes the objective
    smooth. There are no thresholds between ratings and no intercepts.

    Parameters
    ----------
    l2 : float, default=5.0
        Weight of the trace norm, their ``1 / C``. From the largest singular value of the observed labels on, X is 0.
    rank : int, default=10
        Number of latent factors. With the smaller side of the matrix they represent every X, and the minimum found is
        usually that of the convex problem.
    smoothing : float, default=0.001
        The width over which the kink is rounded, reached from 1 in steps of a tenth, each from the minimum of the one
        before. The objective is below that of the hinge by at most ``smoothing / 2`` for each observed entry. 1 is the
        smooth hinge of Rennie and Srebro, and another problem.
    max_iter : int, default=1000
        Most iterations of L-BFGS for each width.
    tol : float, default=1e-5
        Stop when iterations gain at most this share of the loss of ``X = 0``.
    like_at : float or None, default=None
        Read a matrix as ratings: from ``like_at`` up a like, below a dislike.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the small random part of the start.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V.
    objective_ : float
        The loss plus ``l2 / 2 (|U|^2 + |V|^2)`` at the solution.
    n_iter_, converged_, stop_reason_, history_ :
        As in :class:`AlternatingLeastSquares`.

    Notes
    -----
    The problem is about signs. ``predict_proba`` is ``1 / (1 + exp(-2 x))``, an order by margins; nothing in the
    objective calibrates it.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems import MaximumMarginFactorization
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = MaximumMarginFactorization(l2=0.5, rank=2, random_state=0).fit(A)
    >>> model.predict([0, 3], [2, 3])
    array([-1,  1], dtype=int8)
    """

    l2: float = 5.0
    _: KW_ONLY
    rank: int = 10
    smoothing: float = 1e-3
    max_iter: int = 1000
    tol: float = 1e-5
    like_at: float | None = None
    random_state: Any = None

    def _fit(self, observations: Observations) -> None:
        rank = check_rank("rank", self.rank, min(observations.shape))
        stopping, draws = Stopping(self.max_iter, self.tol), generator(self.random_state)
        l2 = check_not_negative("l2", self.l2)
        first, *narrower = [
            Objective(observations, hinge, pn(), l2=l2) for hinge in _narrowing(self.smoothing)
        ]
        start = spectral_start(first, [], rank, 0.0, draws)
        result = LBFGS().minimise(first, [], start, stopping, draws)
        for objective in narrower:
            before = result
            start = _perturbed(before.factors, draws)
            result = LBFGS().minimise(objective, [], start, stopping, draws)
            result = replace(
                result,
                n_iter=before.n_iter + result.n_iter,
                history=[*before.history, *_after(before, result.history)],
            )
        self._store_result(result, observations)

    def _link(self) -> Link:
        return MARGIN


def _narrowing(smoothing: float) -> list[Hinge]:
    """Return hinges whose kink is rounded less and less, from 1 to the width, or that width alone."""
    least = Hinge(smoothing)
    widths = [1.0]
    while WIDTH_RATIO * widths[-1] > least.smoothing * (1.0 + 1e-9):
        widths.append(WIDTH_RATIO * widths[-1])
    return [Hinge(width) for width in widths if width > least.smoothing] + [least]


def _perturbed(factors: Factors, draws: np.random.Generator) -> Factors:
    """Return factors with a little noise: a column that vanished is a saddle of the next problem."""
    scale = PERTURBATION * float(np.sqrt(np.mean(factors.row_factors**2)) + 1.0)
    U, V = factors.row_factors, factors.column_factors
    return Factors.of(
        U + scale * draws.standard_normal(U.shape), V + scale * draws.standard_normal(V.shape)
    )


def _after(before: SolverResult, history: Sequence[Iteration]) -> Iterator[Iteration]:
    """Yield iterations with the numbers and times that follow those before."""
    seconds = before.history[-1].seconds if before.history else 0.0
    for each in history:
        yield replace(
            each,
            iteration=before.n_iter + each.iteration,
            seconds=(seconds or 0.0) + (each.seconds or 0.0),
        )
