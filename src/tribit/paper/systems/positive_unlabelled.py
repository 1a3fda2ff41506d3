"""PU matrix completion: a matrix from some of its likes alone."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from tribit.backends.objective import Arithmetic, Objective
from tribit.checks import check_choice, check_not_negative, check_positive
from tribit.completion.estimator import BinaryMatrixCompletion
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.constraints import Constraint, EntryBound, MaxNorm, TraceNorm
from tribit.model.links import Link, as_link
from tribit.model.spec import DEFAULT_BOUND_PROBABILITY
from tribit.paper.systems.base import Linear, System
from tribit.paper.systems.likelihood import MIN_CURVATURE
from tribit.paper.systems.pu_risks import (
    BOX,
    PU_RISKS,
    SquaredUnlabelled,
    check_positive_rank,
    closed_form,
    inside_box,
    search_factors,
    select_likes,
)
from tribit.randomness import generator
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
from tribit.solvers.loop import SolverResult, Stopping
from tribit.solvers.start import spectral_start

LOSSES = ("likelihood", "squared")
NORMS = ("max", "trace")
#: Gap between the bounds of the minimum at which a fit ends, in multiples of ``tol``: the bounds meet slowly.
GAP_MULTIPLE = 100.0


@dataclass(eq=False, repr=False)
class PUMatrixCompletion(System):
    """Complete a matrix from likes alone, each observed with probability ``1 - rho``.

    Minimises over X of at most the given rank

        sum over observed likes of [l(x, +1) - rho l(x, -1)] / (1 - rho)  +  sum over the others of l(x, -1)

    which has the mean of ``sum l(x, y)`` over all true labels y (Hsieh, Natarajan and Dhillon 2015, "PU learning for
    matrix completion"). Two losses:

    - "likelihood": ``l(x, y) = -log P(y)`` with a link, subject to ``|X|_max <= radius`` or ``|X|_* <= radius``, and
      ``|X|_inf <= alpha``, plus ``l2 / 2 (|U|^2 + |V|^2)``. It has no minimum without a bound.
    - "squared": ``l(x, y) = (x - a)^2`` with a = 1 for a like and 0 for a dislike, so that x itself is the probability
      of a like, plus ``l2 |X|_*``, subject to ``|X|_* <= radius``. Up to a constant that is ``|X - C|^2`` with
      ``C = 1 / (1 - rho)`` at the likes and 0 elsewhere, and the minimum has a closed form: the leading
      singular values of C, shrunk. With ``box=True`` also subject to ``0 <= X <= 1``: the estimator of their theorem.

    Dislikes, where there are any, count as unobserved entries: the risk gives both the same weight, but for
    ``risk="without-dislikes"``. Two other risks,
    for comparison, are biased (:func:`tribit.paper.theory.limiting_probability`):

    - "biased" is the second estimator of Hsieh et al., biased matrix completion, for signs ``Y = 1[M > 1/2]`` without
      noise: ``sum over observed likes of (1 + rho) l(x, +1) + sum over the others of (1 - rho) l(x, -1)``, over
      ``1 - rho``.
    - "without-dislikes" is the first modification of Hayashi et al. (2018), L': observed dislikes have the loss 0.

    Parameters
    ----------
    rho : float or Missingness
        Probability that a like is unobserved, in [0, 1), or a model with one value for each entry. No default: likes
        alone do not identify it.
    loss : {"likelihood", "squared"}, default="likelihood"
        The loss of an entry.
    risk : {"unbiased", "biased", "without-dislikes"}, default="unbiased"
        The weights of entries, as above. With a risk other than "unbiased" the squared loss has no closed form, and the
        solver is the same as for ``alpha``.
    link : str or Link, default="logistic"
        How an entry becomes a probability under "likelihood"; "squared" has ``f(x) = x``.
    rank : int, default=10
        Number of latent factors.
    radius : float or None, default=None
        Radius of the ball of ``norm`` under "likelihood" and of the trace-norm ball under "squared" (None for no
        ball). None under "likelihood" is the bound of every X of this rank within alpha: ``alpha sqrt(rank)`` for the
        max-norm, ``alpha sqrt(rank d1 d2)`` for the trace norm, the paper's ``K_*(alpha, rank)``. Without alpha it
        is ``f^-1(0.75)`` for the max-norm, about 1.1 for the logistic link.
    norm : {"max", "trace"}, default="max"
        Norm of the ball under "likelihood"; "squared" always has the trace norm.
    alpha : float or None, default=None
        Bound on the entries, "likelihood" only. Where the max-norm ball does not imply it, and with any trace-norm
        ball, the solver is :class:`tribit.solvers.AugmentedLagrangian`, whose factors are float64.
    box : bool, default=False
        Keep every entry in [0, 1] under "squared": above exactly, below to 0.001. Without it probabilities are clipped.
        Where the closed form is not in the box already, the solver is the same as for alpha.
    l2 : float or None, default=None
        Weight of the ridge penalty on the factors, whose least value is ``l2 |X|_*``. None for 0, except under
        "squared" without a radius, where it removes the singular values of noise (see ``l2_``).
    max_iter : int or None, default=None
        Most iterations of "likelihood"; None for the solver's own number.
    tol : float, default=1e-5
        Stop when an iteration's first-order decrease is at most this share of the objective. The solver of ``alpha``
        and trace-norm balls stops at 100 times as much between bounds from above and below.
    like_at : float or None, default=None
        Read a matrix as ratings: from ``like_at`` up a like.
    dtype : {"float32", "float64"}, default="float32"
        Type of the arithmetic of "likelihood", and of its factors where Newton's method is used.
    n_jobs : int or None, default=None
        Threads of "likelihood"; None or -1 for every core. The result has the same bits for any number.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the start of the search for factors or singular vectors.

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
        Reason of the stop, and the objective by iteration; "likelihood" only.
    l2_ : float
        The ridge weight that was used.

    Examples
    --------
    >>> A = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0]]
    >>> model = PUMatrixCompletion(rho=0.2, loss="squared", rank=2, l2=0.1, random_state=0).fit(A)
    >>> model.predict([2, 4, 0], [0, 3, 3])
    array([ 1,  1, -1], dtype=int8)
    """

    _: KW_ONLY
    rho: Any = None
    loss: str = "likelihood"
    risk: str = "unbiased"
    link: Any = "logistic"
    rank: int = 10
    radius: float | None = None
    norm: str = "max"
    alpha: float | None = None
    box: bool = False
    l2: float | None = None
    max_iter: int | None = None
    tol: float = 1e-5
    like_at: float | None = None
    dtype: str = "float32"
    n_jobs: int | None = None
    random_state: Any = None

    def _fit(self, observations: Observations) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_choice("risk", self.risk, PU_RISKS)
        if self.rho is None:
            raise InvalidInputError(
                "Likes alone do not identify the share of unobserved likes: pass rho, the probability in [0, 1) that a "
                "like is unobserved."
            )
        check_choice("norm", self.norm, NORMS)
        if not isinstance(self.box, bool | np.bool_):
            raise InvalidTypeError(f"box must be True or False; got {self.box!r}.")
        if self.box and self.loss != "squared":
            raise InvalidInputError(
                "box=True keeps 0 <= X <= 1, where X are probabilities: pass loss='squared', or alpha instead of box."
            )
        likes = select_likes(observations)
        seen = observations if self.risk == "without-dislikes" else likes
        if self.loss == "squared":
            self._fit_squared(seen)
        elif self.risk != "unbiased" or not self._is_ball_enough():
            self._store_result(self._fit_bounded(seen), seen)
        else:
            self._fit_likelihood(likes)

    def _link(self) -> Link:
        return Linear(0.0, 1.0) if self.loss == "squared" else as_link(self.link)

    def _fit_likelihood(self, likes: Observations) -> None:
        """Minimise the PU risk, a corner of the simplex, without intercepts."""
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
        self._set_scores(model.scores_.factors, likes)
        self.objective_, self.n_iter_ = model.objective_, model.n_iter_
        self.converged_, self.radius_, self.l2_ = model.converged_, model.radius_, model.l2
        self.stop_reason_, self.history_ = model.stop_reason_, model.history_

    def _is_ball_enough(self) -> bool:
        """Return whether a max-norm ball keeps every bound, as Newton's method needs."""
        for name in ("radius", "alpha"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        inside = self.alpha is None or (self.radius is not None and self.radius <= self.alpha)
        return self.norm == "max" and inside

    def _fit_bounded(self, seen: Observations) -> SolverResult:
        """Minimise the risk inside a ball and within alpha."""
        rank = check_positive_rank(self.rank, seen.shape)
        self.radius_ = self._radius(rank, seen.shape)
        ball = MaxNorm(self.radius_) if self.norm == "max" else TraceNorm(self.radius_)
        constraints: list[Constraint] = [ball]
        if self.alpha is not None:
            constraints.append(EntryBound(self.alpha))
        self.l2_ = 0.0 if self.l2 is None else check_not_negative("l2", self.l2)
        link, draws = as_link(self.link), generator(self.random_state)
        risk = PU_RISKS[self.risk](self.rho)
        arithmetic = Arithmetic(self.dtype, self.n_jobs)
        objective = Objective(seen, link, risk, l2=self.l2_, arithmetic=arithmetic)
        start = spectral_start(objective, constraints, rank, 0.0, draws)
        # Without alpha the trace norm bounds entries, but few come near the bound.
        reach = link.level(0.99) if self.alpha is None else self.alpha
        solver = AugmentedLagrangian(max(link.curvature(reach), MIN_CURVATURE))
        return solver.minimise(objective, constraints, start, self._stopping_rule(), draws)

    def _radius(self, rank: int, shape: tuple[int, int]) -> float:
        """Return the radius, by default the bound of every X of this rank within alpha."""
        if self.radius is not None:
            return check_positive("radius", self.radius)
        if self.alpha is None and self.norm == "max":
            return as_link(self.link).level(DEFAULT_BOUND_PROBABILITY)
        if self.alpha is None:
            raise InvalidInputError("norm='trace' has no default radius: pass radius or alpha.")
        entries = shape[0] * shape[1] if self.norm == "trace" else 1
        return check_positive("alpha", self.alpha) * float(np.sqrt(min(rank, *shape) * entries))

    def _fit_squared(self, seen: Observations) -> None:
        """Shrink the leading singular values of C, and search from there if this is not the minimum."""
        if self.alpha is not None:
            raise InvalidInputError(
                "loss='squared' has no alpha: pass box=True to keep 0 <= X <= 1, or loss='likelihood'."
            )
        rank = check_positive_rank(self.rank, seen.shape)
        self.radius_ = None if self.radius is None else check_positive("radius", self.radius)
        radius = np.inf if self.radius_ is None else self.radius_
        stopping, draws = self._stopping_rule(), generator(self.random_state)
        plain = SquaredUnlabelled(seen, PU_RISKS[self.risk](self.rho))
        self.l2_ = self._ridge(plain)
        objective = replace(plain, l2=self.l2_)
        factors = closed_form(objective, rank, radius, draws)
        if objective.is_uneven or (self.box and not inside_box(factors)):
            box = BOX if self.box else (-np.inf, np.inf)
            found = search_factors(objective, factors, radius, stopping, draws, box)
            self._store_result(found, seen)
            return
        self._set_scores(factors, seen)
        self.objective_, self.n_iter_, self.converged_ = objective.value(factors), 1, True

    def _ridge(self, plain: SquaredUnlabelled) -> float:
        """Return l2, by default large enough to remove noise."""
        if self.l2 is not None:
            return check_not_negative("l2", self.l2)
        return plain.noise_ridge() if self.radius is None else 0.0

    def _stopping_rule(self) -> Stopping:
        """Return when the solver of bounds on entries stops."""
        most = AugmentedLagrangian.max_iter if self.max_iter is None else self.max_iter
        return Stopping(most, check_not_negative("tol", self.tol) * GAP_MULTIPLE)
