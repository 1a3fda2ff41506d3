"""Laplace approximation of a fitted model: a normal posterior of each entry, around the row and column solutions.

With the columns fixed, row ``i`` has a normal posterior around its solution (Laplace's approximation; MacKay 1992, "A
practical Bayesian framework for backpropagation networks"), and so has each column with the rows fixed. With both
independent, the entry ``x_ij = u_i' v_j + b + a_i + c_j`` has exactly the variance

    [v_j; 1]' S_i [v_j; 1]  +  [u_i; 1]' T_j [u_i; 1]  +  tr(S_i T_j)

with ``S_i``, ``T_j`` the covariances of the row and the column (the trace over the factors alone). The trace matters
where the ridge has shrunk a factor to 0: there the first two terms vanish.

The mean probability, ``E f(x + sd e)`` with ``e`` standard normal, is ``Phi(x / sqrt(sigma^2 + sd^2))`` for the probit
link. The logistic distribution is a mixture of normal ones, ``N(0, (2 K)^2)`` with ``K`` of Kolmogorov's distribution
(Andrews and Mallows 1974, "Scale mixtures of normal distributions"), so that the logistic link has the same formula
averaged over ``K``: a smooth integral, accurate with a few fixed nodes for any ``sd``.

A ridge shrinks every entry towards the mean. An interval around the fitted ``x`` is therefore biased, and under too
strong a ridge too narrow. :class:`Adjustment` corrects both by a parametric bootstrap of the pivot (Efron 1979,
"Bootstrap methods: another look at the jackknife"): its centre is fitted to held-out labels, and its width is the
quantile of the errors of refits to labels simulated from the posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from tribit.backends.objective import Arithmetic, Objective
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_choice, check_count
from tribit.data.observations import Observations, as_observations
from tribit.data.rules import TableRules
from tribit.errors import InvalidInputError
from tribit.model.calibration import Platt, platt
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted, HasFitted, as_fitted
from tribit.model.links import Link, Logistic, Probit, draw_labels
from tribit.model.scores import PlacedEntries, read_entries
from tribit.model.spec import ModelSpec
from tribit.randomness import RandomState, generator
from tribit.uncertainty.calibration import check_level, weigh_held_out
from tribit.uncertainty.row_covariances import BLOCK, RowPosterior, row_covariances

if TYPE_CHECKING:
    from tribit.model.links import Link
    from tribit.model.risks import Missingness
    from tribit.randomness import RandomState
    from tribit.uncertainty.calibration import Target

Array = NDArray[np.floating[Any]]

#: Numbers of nodes for the logistic link and for links without a formula, and the range of K.
LOGISTIC_NODES, HERMITE_NODES, K_RANGE = 24, 64, (0.2, 3.2)


def mean_probability(link: Link, x: Array, deviation: Array) -> Array:
    """Return ``E f(x + deviation e)``: ``f(x)`` shrunk towards 1/2 by the uncertainty of ``x``.

    Parameters
    ----------
    link : Link
        ``f``. The error is below 1e-6 for the logistic link and 0 for the probit link. Others use 64 nodes, which
        suffice while ``deviation`` is not much wider than the link.
    x, deviation : array of equal shapes
        Means and standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Logistic
    >>> from tribit.uncertainty import mean_probability
    >>> mean_probability(Logistic(), np.array([2.0, 2.0]), np.array([0.0, 2.0])).round(2)
    array([0.88, 0.78])
    """
    x, deviation = np.asarray(x, dtype=np.float64), np.asarray(deviation, dtype=np.float64)
    if isinstance(link, Probit):
        return np.asarray(ndtr(x / np.hypot(link.sigma, deviation)))
    if isinstance(link, Logistic):
        widths, weights = _kolmogorov()
        terms = (
            w * ndtr(x / np.hypot(width / link.scale, deviation))
            for width, w in zip(widths, weights, strict=True)
        )
    else:
        nodes, weights = _hermite()
        terms = (
            w * link.probability(x + node * deviation)
            for node, w in zip(nodes, weights, strict=True)
        )
    return np.asarray(np.clip(sum(terms, np.zeros(x.shape)), 0.0, 1.0))


@cache
def _kolmogorov() -> tuple[list[float], list[float]]:
    """Return standard deviations and weights of the normal mixture for the logistic distribution."""
    nodes, weights = np.polynomial.legendre.leggauss(LOGISTIC_NODES)
    low, high = K_RANGE
    K = low + (high - low) * (nodes + 1) / 2
    j = np.arange(1, 41)[:, None]
    density = 8 * K * np.sum((-1.0) ** (j - 1) * j**2 * np.exp(-2 * j**2 * K**2), axis=0)
    masses = weights * np.maximum(density, 0.0)
    return (2 * K).tolist(), (masses / masses.sum()).tolist()


@cache
def _hermite() -> tuple[list[float], list[float]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
    return nodes.tolist(), (weights / weights.sum()).tolist()


#: Most cells at which the errors of a refit are computed.
MAX_PIVOT_CELLS = 20_000


@dataclass(frozen=True, eq=False)
class Adjustment:
    """``x -> slope x + offset``, ``deviation -> slope deviation``, and the quantiles of errors over deviations.

    Parameters
    ----------
    slope, offset : float
        Coefficients of the new centre.
    pivots : array or None
        ``|centre - truth| / deviation`` of simulated entries; None for the normal distribution.

    Examples
    --------
    >>> from tribit.uncertainty import Adjustment
    >>> Adjustment(slope=1.5).offset
    0.0
    """

    slope: float = 1.0
    offset: float = 0.0
    pivots: Array | None = field(default=None, repr=False)

    def apply(self, x: Array, deviation: Array) -> tuple[Array, Array]:
        """Return the adjusted centre and deviation."""
        return self.slope * x + self.offset, self.slope * deviation

    def multiplier(self, level: float) -> float:
        """Return the half-width of the interval of a ``level``, in deviations."""
        if self.pivots is None:
            return float(ndtri((1.0 + level) / 2.0))
        return float(np.quantile(self.pivots, level))


def adjust(
    posterior: Posterior,
    held_out: PlacedEntries,
    weights: Array,
    *,
    everywhere: bool,
    n_refits: int,
    random_state: RandomState,
) -> Adjustment:
    """Return the adjustment of a posterior; see :meth:`Posterior.with_adjustment`.

    ``weights`` are those of the held-out entries for the centre. The width holds for all cells with ``everywhere``,
    else for cells like the held-out ones.
    """
    n_refits = check_count("n_refits", n_refits)
    draws = generator(random_state)
    link = posterior.fitted.spec.link
    line = _fit_line(posterior, held_out, held_out.labels, weights, link)
    seen = posterior.observations
    pivots = []
    for _ in range(n_refits):
        factors = posterior.sample_factors(draws)

        def truth(i: Any, j: Any, factors: Any = factors) -> Array:
            return np.asarray(line.slope * factors.at(i, j) + line.offset)

        labels = draw_labels(truth(seen.rows, seen.columns), link, draws)
        again = posterior.refit_to(labels, int(draws.integers(2**31)))
        labels = draw_labels(truth(held_out.rows, held_out.columns), link, draws)
        new = _fit_line(again, held_out, labels, weights, link)
        i, j = _sample_cells(held_out, seen.shape, everywhere, draws)
        x, deviation = again.centre_and_deviation(i, j)
        pivots.append(np.abs(new.slope * x + new.offset - truth(i, j)) / (new.slope * deviation))
    return Adjustment(line.slope, line.offset, np.sort(np.concatenate(pivots)))


def _fit_line(
    posterior: Posterior, entries: PlacedEntries, labels: Any, weights: Array, link: Link
) -> Platt:
    x = posterior.fitted.scores.x(entries.rows, entries.columns)
    return platt(x, labels, weights, link=link)


def _sample_cells(
    held_out: PlacedEntries, shape: tuple[int, int], everywhere: bool, draws: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions of a uniform sample of all cells, or of the held-out entries."""
    if everywhere:
        return draws.integers(shape[0], size=MAX_PIVOT_CELLS), draws.integers(
            shape[1], size=MAX_PIVOT_CELLS
        )
    if held_out.rows.size <= MAX_PIVOT_CELLS:
        return held_out.rows, held_out.columns
    chosen = draws.choice(held_out.rows.size, MAX_PIVOT_CELLS, replace=False)
    return held_out.rows[chosen], held_out.columns[chosen]


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
        Intended share of entries inside.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.uncertainty import Intervals
    >>> Intervals(np.array([0.2, 0.4]), np.array([0.6, 0.9]), 0.9).covers(np.array([0.5, 0.95]))
    array([ True, False])
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
        The entries of the fit, by the model's positions.
    rows, columns : RowPosterior
        Its rows and columns with their covariances.
    adjustment : Adjustment
        Correction of centre and width (:meth:`with_adjustment`); none by default.
    refit : callable or None
        Function from observations and a seed to the result of a new fit, for :meth:`with_adjustment`.
    reading : TableRules or None
        The rules for reading held-out entries that are a matrix.
    n_jobs : int or None
        Threads.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.uncertainty import laplace
    >>> seen = Observations.from_matrix([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(seen)
    >>> laplace(model, seen).interval([0], [2], level=0.9).lower.shape
    (1,)
    """

    fitted: Fitted = field(repr=False)
    observations: Observations
    rows: RowPosterior = field(repr=False)
    columns: RowPosterior = field(repr=False)
    adjustment: Adjustment = field(default=Adjustment())
    refit: Refit | None = field(default=None, repr=False)
    reading: TableRules | None = None
    n_jobs: int | None = 1

    def deviation(self, rows: object, columns: object) -> Array:
        """Return the standard deviation of ``x`` for pairs of rows and columns, as in ``predict``."""
        return self.centre_and_deviation(*self.fitted.axes.pairs(rows, columns))[1]

    def interval(
        self,
        rows: object,
        columns: object,
        *,
        level: float = 0.9,
        what: Literal["probability", "score"] = "probability",
    ) -> Intervals:
        """Return the central interval of ``P(like) = f(x)``, or of ``x``, for pairs of rows and columns.

        Parameters
        ----------
        rows, columns : array-like of equal length, or single values
            Ids where the model was fitted on ids, else positions from 0.
        level : float, default=0.9
            Posterior probability of the interval.
        what : {"probability", "score"}, default="probability"
            The quantity of the interval: ``P(like)``, or ``x``, whose ends the link maps to those of ``P(like)``.
        """
        check_choice("what", what, ("probability", "score"))
        z = self.adjustment.multiplier(check_level(level))
        x, deviation = self.centre_and_deviation(*self.fitted.axes.pairs(rows, columns))
        ends = x - z * deviation, x + z * deviation
        if what == "probability":
            link = self.fitted.spec.link
            ends = link.probability(ends[0]), link.probability(ends[1])
        return Intervals(*ends, float(level))

    def predict_proba(self, rows: object, columns: object) -> Array:
        """Return ``E f(x)`` over the posterior of ``x``, which is less extreme than ``f`` at its mean.

        After :meth:`with_adjustment` it is ``f(slope x + offset)``, calibrated on held-out labels.
        """
        x, deviation = self.centre_and_deviation(*self.fitted.axes.pairs(rows, columns))
        if self.adjustment.pivots is not None:
            return self.fitted.spec.link.probability(x)
        return mean_probability(self.fitted.spec.link, x, deviation)

    def with_adjustment(
        self,
        held_out: object,
        *,
        propensity: Missingness | None = None,
        target: Target | None = None,
        n_refits: int = 3,
        random_state: RandomState = None,
    ) -> Posterior:
        """Return the posterior with its centre fitted to held-out labels and its width to refits on simulated ones.

        It takes ``n_refits`` fits of the model.

        Parameters
        ----------
        held_out : Observations, sparse matrix or array
            Entries that the model was not fitted on.
        propensity, target
            Cells for which the intervals hold, as in :func:`~tribit.uncertainty.calibrate`.
        n_refits : int, default=3
            Number of simulations. More reduce the variance of the width.
        random_state : int, Generator, RandomState or None
            Seed of the simulated labels.
        """
        entries = self.fitted.scores.place_entries(as_observations(held_out, self.reading))
        aim, weights = weigh_held_out(self.fitted.shape, entries, target, propensity)
        weights = weights * entries.weights_or_ones
        adjustment = adjust(
            self,
            entries,
            weights,
            everywhere=aim != "observed",
            n_refits=n_refits,
            random_state=random_state,
        )
        return replace(self, adjustment=adjustment)

    def sample_factors(self, draws: np.random.Generator) -> Factors:
        """Return a sample of the factors from the posterior, rows and columns independently."""
        factors = self.fitted.factors.astype("float64")
        k, free = factors.rank, self.rows.vectors.shape[1]
        sides = []
        for side, own, intercepts in (
            (self.rows, factors.row_factors, factors.row_intercepts),
            (self.columns, factors.column_factors, factors.column_intercepts),
        ):
            sample = side.sample(np.column_stack([own, intercepts])[:, :free], draws)
            sides.append((sample[:, :k], sample[:, k] if free > k else intercepts))
        (U, a), (V, c) = sides
        return Factors(U, V, factors.intercept, a, c)

    def refit_to(self, labels: NDArray[np.int8], random_state: int) -> Posterior:
        """Return the posterior of the same model after a refit to other labels of the same entries."""
        seen = self.observations
        relabelled = Observations.from_pairs(
            seen.rows, seen.columns, labels, weights=seen.weights, shape=seen.shape
        )
        if self.refit is None:
            raise InvalidInputError(
                "The posterior has no estimator to refit: pass laplace a fitted BinaryMatrixCompletion instead of its "
                "Fitted."
            )
        if self.fitted.spec.side_features:
            raise InvalidInputError(
                "The model has side features, which a fit does not store, and cannot be refitted without them: fit it "
                "with side_features=False."
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
    rows: RowPosterior, columns: RowPosterior, k: int, i: NDArray[np.int64], j: NDArray[np.int64]
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


def laplace(model: HasFitted | Fitted, X: object) -> Posterior:
    """Return a normal approximation of every entry around a fitted model.

    Parameters
    ----------
    model : BinaryMatrixCompletion or Fitted
        A fitted model. Its ridge (``l2 > 0``) or its ball is the prior, which rows without entries need. For a stack
        (``members``) the posterior is that of the first member, centred there. The one intercept ``b`` and
        the terms of implicit features are fixed.
    X : Observations, sparse matrix or array
        The entries of the fit, matched by id where both have ids.

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
    entries = fitted.scores.place_entries(read_entries(model, X))
    observations = Observations.from_pairs(
        entries.rows, entries.columns, entries.labels, weights=entries.weights, shape=fitted.shape
    )
    found = _posterior(fitted, observations, getattr(model, "n_jobs", 1))
    if isinstance(model, Fitted):
        return found
    again: Any = model

    def refit(relabelled: Observations, random_state: int) -> Fitted:
        # The mask and its model do not change.
        kept = {"rho": fitted.rho, "imputed": fitted.spec.imputed}
        return again.refit(relabelled, random_state, **kept)  # type: ignore[no-any-return]

    return replace(found, refit=refit, reading=getattr(model, "reading_", None))


def _posterior(fitted: Fitted, observations: Observations, n_jobs: int | None) -> Posterior:
    fitted = first_member(fitted)
    spec, risk = fitted.spec, fitted.risk()
    radius = check_prior(spec)
    objective = Objective.of(
        spec.without_features,
        observations,
        risk,
        arithmetic=Arithmetic(n_jobs=n_jobs),
        mean_totals=fitted.members[0].mean_totals,
    )
    factors = fitted.factors.astype("float64")
    weights = *observations.risk_weights(risk), observations.weights_or_ones
    seen = observations.rows, observations.columns
    with single_threaded_blas():
        rows = row_covariances(objective, factors, (*seen, *weights), radius)
        columns = row_covariances(
            objective, factors.transposed, (*seen[::-1], *weights), radius, transposed=True
        )
    return Posterior(fitted, observations, rows, columns, n_jobs=n_jobs)


def first_member(fitted: Fitted) -> Fitted:
    """Return the first member as a fit of its own: a weighted mean is at no minimum, whose curvature it needs."""
    return fitted if len(fitted.members) == 1 else fitted.member(0)


def check_prior(spec: ModelSpec) -> float | None:
    """Return the radius of the ball of each row, if any; raise an error for a model without ridge or ball."""
    radius = spec.row_radius if np.isfinite(spec.row_radius) else None
    least = spec.l2 if spec.l2_intercept is None else spec.l2_intercept
    if (not spec.l2 and radius is None) or (
        spec.intercept and not least and not np.isfinite(spec.intercept_bound)
    ):
        raise InvalidInputError(
            "A model without a ridge has no prior, and rows without entries have infinite variance: fit with l2 > 0."
        )
    return radius
