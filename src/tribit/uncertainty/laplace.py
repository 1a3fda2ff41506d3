"""Laplace approximation of a fitted model: a normal posterior of each entry, around the row and column solutions.

With the columns fixed, row ``i`` has a normal posterior around its solution (Laplace's approximation; MacKay 1992, "A
practical Bayesian framework for backpropagation networks"), and so has each column with the rows fixed. Taking the two
as independent, the entry ``x_ij = u_i' v_j + b + a_i + c_j`` has exactly the variance

    [v_j; 1]' S_i [v_j; 1]  +  [u_i; 1]' T_j [u_i; 1]  +  tr(S_i T_j)

with ``S_i``, ``T_j`` the covariances of the row and the column (the trace over the factors alone). The trace matters
where the penalty has switched a factor off: there ``u`` and ``v`` are 0, and the first two terms would be too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Arithmetic, Objective
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_choice
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted, HasFitted, as_fitted
from tribit.model.scores import read_entries
from tribit.model.spec import ModelSpec
from tribit.uncertainty.adjustment import Adjustment, adjust
from tribit.uncertainty.held_out import check_level, weigh
from tribit.uncertainty.moderation import moderated
from tribit.uncertainty.side import BLOCK, Side, normal_side

if TYPE_CHECKING:
    from tribit.model.risks import Missingness
    from tribit.randomness import RandomState
    from tribit.uncertainty.held_out import Target

Array = NDArray[np.floating[Any]]
#: Function from observations and a seed to the result of a fit with the same parameters.
Refit: TypeAlias = Callable[[Observations, int], Fitted]


@dataclass(frozen=True, eq=False)
class Intervals:
    """An interval for each of some entries.

    Attributes
    ----------
    lower, upper : array of shape (n_pairs,)
        Its ends.
    level : float
        The share of entries that are meant to lie inside.
    """

    lower: Array
    upper: Array
    level: float

    @property
    def width(self) -> Array:
        """``upper - lower``."""
        return self.upper - self.lower

    def covers(self, values: Any) -> NDArray[np.bool_]:
        """Return whether each value lies in its interval."""
        return np.asarray((self.lower <= values) & (values <= self.upper))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Gaussian approximation of the posterior of a fitted model's entries; made by :func:`laplace`.

    Parameters
    ----------
    fitted : Fitted
        The result of the fit.
    observations : Observations
        What it was fitted on, by the model's positions.
    rows, columns : Side
        Its rows and columns with their covariances.
    adjustment : Adjustment
        A change of centre and width (:meth:`adjusted`); by default none.
    refit : callable or None
        Function from observations and a seed to the result of a new fit, for :meth:`adjusted`.
    like_at : float or None
        The smallest rating that is a like, for held-out entries that are a matrix of ratings.
    n_jobs : int or None
        Threads.
    """

    fitted: Fitted = field(repr=False)
    observations: Observations
    rows: Side = field(repr=False)
    columns: Side = field(repr=False)
    adjustment: Adjustment = field(default=Adjustment())
    refit: Refit | None = field(default=None, repr=False)
    like_at: float | None = None
    n_jobs: int | None = 1

    def deviation(self, rows: Any, columns: Any) -> Array:
        """Return the standard deviation of ``x`` for pairs of rows and columns, given as to ``predict``."""
        return self.centre_and_deviation(*self.fitted.axes.pairs(rows, columns))[1]

    def interval(
        self,
        rows: Any,
        columns: Any,
        *,
        level: float = 0.9,
        what: Literal["probability", "decision"] = "probability",
    ) -> Intervals:
        """Return the central interval of ``P(like) = f(x)``, or of ``x``, for pairs of rows and columns.

        Parameters
        ----------
        rows, columns : array-like of equal length, or single values
            Ids where the model was fitted on ids, else positions from 0.
        level : float, default=0.9
            Posterior probability of the interval.
        what : {"probability", "decision"}, default="probability"
            Whether the interval is one of ``P(like)`` or of ``x``: the link maps one's ends to the other's.
        """
        check_choice("what", what, ("probability", "decision"))
        z = self.adjustment.multiplier(check_level(level))
        x, deviation = self.centre_and_deviation(*self.fitted.axes.pairs(rows, columns))
        ends = x - z * deviation, x + z * deviation
        if what == "probability":
            link = self.fitted.spec.link
            ends = link.probability(ends[0]), link.probability(ends[1])
        return Intervals(*ends, float(level))

    def predict_proba(self, rows: Any, columns: Any) -> Array:
        """Return ``E f(x)`` over the posterior of ``x``: less extreme than ``f`` at its mean where little is known.

        After :meth:`adjusted` it is ``f(slope x + offset)``, which held-out labels have moderated already.
        """
        x, deviation = self.centre_and_deviation(*self.fitted.axes.pairs(rows, columns))
        if self.adjustment.pivots is not None:
            return self.fitted.spec.link.probability(x)
        return moderated(self.fitted.spec.link, x, deviation)

    def adjusted(
        self,
        held_out: Any,
        *,
        propensity: Missingness | None = None,
        target: Target | None = None,
        n_refits: int = 3,
        random_state: RandomState = None,
    ) -> Posterior:
        """Return the posterior with its centre set by held-out labels and its width by refits to simulated ones.

        See :func:`~tribit.uncertainty.adjustment.adjust`. It costs ``n_refits`` fits of the model.

        Parameters
        ----------
        held_out : Observations, sparse matrix or array
            Entries that the model was not fitted on.
        propensity, target
            Which cells the intervals should be right for, as in :func:`~tribit.uncertainty.calibrate`.
        n_refits : int, default=3
            How often the whole is simulated. More make the width less a matter of chance.
        random_state : int, Generator, RandomState or None
            Draws the simulated labels.
        """
        entries = self.fitted.scores.observed(as_observations(held_out, self.like_at))
        aim, weights = weigh(self.fitted.shape, entries, target, propensity)
        adjustment = adjust(
            self,
            entries,
            weights,
            everywhere=aim != "observed",
            n_refits=n_refits,
            random_state=random_state,
        )
        return replace(self, adjustment=adjustment)

    def draw(self, draws: np.random.Generator) -> Factors:
        """Return factors drawn from the posterior, rows and columns independently."""
        factors = self.fitted.factors.astype("float64")
        k, free = factors.rank, self.rows.vectors.shape[1]
        sides = []
        for side, own, intercepts in (
            (self.rows, factors.row_factors, factors.row_intercepts),
            (self.columns, factors.column_factors, factors.column_intercepts),
        ):
            drawn = side.draw(np.column_stack([own, intercepts])[:, :free], draws)
            sides.append((drawn[:, :k], drawn[:, k] if free > k else intercepts))
        (U, a), (V, c) = sides
        return Factors(U, V, factors.intercept, a, c)

    def refitted(self, labels: NDArray[np.int8], random_state: int) -> Posterior:
        """Return the posterior of the same model, fitted to other labels of the same observed entries."""
        seen = self.observations
        relabelled = Observations.from_pairs(seen.rows, seen.columns, labels, shape=seen.shape)
        if self.refit is None:
            raise InvalidInputError(
                "The posterior is that of a fit without its estimator, which alone can fit again: pass "
                "laplace a fitted BinaryMatrixCompletion."
            )
        if self.fitted.spec.side_features:
            raise InvalidInputError(
                "The model has side features, which a fit does not keep, and cannot be fitted again without them: fit "
                "it with side_features=False."
            )
        again = _posterior(self.refit(relabelled, random_state), relabelled, self.n_jobs)
        return replace(again, refit=self.refit)

    def centre_and_deviation(
        self, i: NDArray[np.int64], j: NDArray[np.int64]
    ) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of ``x`` at positions."""
        variance = variances(self.rows, self.columns, self.fitted.factors.rank, i, j)
        return self.adjustment.apply(self.fitted.scores.x(i, j), np.sqrt(variance))


def variances(
    rows: Side, columns: Side, k: int, i: NDArray[np.int64], j: NDArray[np.int64]
) -> Array:
    """Return the variance of ``x`` at positions of two sides with ``k`` factors each, as above."""
    found = np.empty(i.size)
    step = max(1, BLOCK // rows.vectors.shape[1] ** 2)
    for start in range(0, i.size, step):
        here = slice(start, start + step)
        S, T = rows.covariances(i[here]), columns.covariances(j[here])
        p, q = rows.vectors[i[here]], columns.vectors[j[here]]
        row = np.einsum("na,nab,nb->n", q, S, q)
        column = np.einsum("na,nab,nb->n", p, T, p)
        found[here] = row + column + np.einsum("nab,nab->n", S[:, :k, :k], T[:, :k, :k])
    return found


def laplace(model: HasFitted | Fitted, X: Any) -> Posterior:
    """Return a normal approximation of every entry around a fitted model.

    Parameters
    ----------
    model : BinaryMatrixCompletion or Fitted
        A fitted model. Its ridge (``l2 > 0``) or its ball is the prior: something must keep rows finite of which
        nothing was observed. Of an average of several fits (``n_fits``) it is the posterior around the first of them,
        whose centre is that fit and not the average. The one intercept ``b``, and the sums that implicit features add
        to the factors, are taken as known.
    X : Observations, sparse matrix or array
        The entries it was fitted on. Matched by id where both have ids.

    Returns
    -------
    Posterior
        With ``(n_rows + n_columns) (rank + 1) (rank + 2) / 2`` numbers of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = BinaryMatrixCompletion(rank=1, l2=0.5, random_state=0).fit(A)
    >>> found = laplace(model, A).interval([0, 3], [2, 3], level=0.5)
    >>> bool(np.all(found.lower < model.predict_proba([0, 3], [2, 3])))
    True
    """
    fitted = as_fitted(model, "laplace")
    entries = fitted.scores.observed(read_entries(model, X))
    observations = Observations.from_pairs(*entries, shape=fitted.shape)
    found = _posterior(fitted, observations, getattr(model, "n_jobs", 1))
    if isinstance(model, Fitted):
        return found
    again: Any = model

    def refit(relabelled: Observations, random_state: int) -> Fitted:
        # The mask is the same, and so is its model.
        kept = {"rho": fitted.rho, "imputed": fitted.spec.imputed}
        return again.refit(relabelled, random_state, **kept)  # type: ignore[no-any-return]

    return replace(found, refit=refit, like_at=getattr(model, "like_at", None))


def _posterior(fitted: Fitted, observations: Observations, n_jobs: int | None) -> Posterior:
    fitted = first_member(fitted)
    spec, risk = fitted.spec, fitted.risk()
    radius = check_prior(spec)
    objective = Objective.of(
        spec.without_features, observations, risk, arithmetic=Arithmetic(n_jobs=n_jobs)
    )
    factors = fitted.factors.astype("float64")
    plus, minus = risk.observed_weights(
        observations.labels, observations.rows, observations.columns
    )
    seen = observations.rows, observations.columns
    with single_threaded_blas():
        rows = normal_side(objective, objective.backend, factors, (*seen, plus, minus), radius)
        columns = normal_side(
            objective,
            objective.backend.transposed,
            factors.transposed,
            (*seen[::-1], plus, minus),
            radius,
        )
    return Posterior(fitted, observations, rows, columns, n_jobs=n_jobs)


def first_member(fitted: Fitted) -> Fitted:
    """Return the fit, or of an average the first of its members as a fit of its own.

    Only a member is at the minimum of an objective, whose curvature gives the covariance.
    """
    return fitted if len(fitted.members) == 1 else fitted.member(0)


def check_prior(spec: ModelSpec) -> float | None:
    """Return the radius of the ball of each row, if there is one; something must keep unobserved rows finite."""
    radius = spec.row_radius if np.isfinite(spec.row_radius) else None
    least = spec.l2 if spec.l2_intercept is None else spec.l2_intercept
    if (not spec.l2 and radius is None) or (
        spec.intercept and not least and not np.isfinite(spec.intercept_bound)
    ):
        raise InvalidInputError(
            "A model without a ridge has no prior, and the variance of what was not observed is infinite: fit with "
            "l2 > 0."
        )
    return radius
