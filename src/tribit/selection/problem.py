"""From the parameters of a model (gammas, radius, l2, ...) to an objective, its constraints and initial factors.

    min over U, V (and intercepts)   g_PN L_PN + g_PU L_PU + g_NU L_NU  +  l2 / 2 (|U|^2 + |V|^2)
                                     +  l2_intercept / 2 (|a|^2 + |c|^2)
    subject to                       |X|_max <= radius  (or |X|_* <= radius),   |U V'|_inf <= alpha

PN alone is bounded below for any X. A mixture is not, unless ``rho = 0``: PU rewards an observed like by
``rho / (1 - rho)`` times the log-odds, without limit. Where unobserved entries count, a radius or an alpha is therefore
needed, and it bounds the intercepts too. Features (:mod:`tribit.model.features`) tie rows to one another, so that no
row can be projected on its own: with them the objective has a smooth bound (:mod:`tribit.backends.soft_bounds`) and
the solver no constraint. Initial factors are spectral, or a warm start from a fit of the same or a simpler family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tribit.backends import Arithmetic, uses_estimates
from tribit.backends.objective import Objective
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.errors import (
    InvalidInputError,
    InvalidTypeError,
    UnboundedRiskWarning,
    UnknownRhoWarning,
    parameter,
    warn,
)
from tribit.model.constraints import Constraint, Rank
from tribit.model.factors import Array, Factors
from tribit.model.fitted import imputation_of
from tribit.model.links import Link
from tribit.model.risks import Imputation, Missingness, Risk
from tribit.model.spec import ModelSpec
from tribit.propensity.model import MaskModel
from tribit.solvers.start import spectral_start

#: Probability of either label above which a fit has separated the labels and estimated nothing.
SEPARATED_AT = 1 - 1e-9


@dataclass(frozen=True)
class Problem:
    """An objective, the constraints on its factors, its initial factors, and the values chosen on the way."""

    objective: Objective
    constraints: list[Constraint]
    begin: Callable[[], Factors] = field(repr=False)
    rho: float | Missingness
    radius: float | None

    @cached_property
    def start(self) -> Factors:
        """Initial factors of a cold start, made when they are first asked for."""
        return self.begin()

    @property
    def risk(self) -> Risk:
        """The risk: weights of each kind of entry."""
        return self.objective.risk

    @property
    def unknown_sizes(self) -> tuple[int, int]:
        """Numbers of rows of the two factors among the unknowns: those of the matrix, and of features."""
        return self.objective.unknown_sizes

    def factors(self, unknowns: Factors) -> Factors:
        """Return the factors of the matrix, which implicit features add to the unknowns."""
        return self.objective.factors(unknowns)


def make_problem(
    observations: Observations,
    spec: ModelSpec,
    *,
    arithmetic: Arithmetic,
    generator: np.random.Generator,
    side: SideFeatures | None = None,
) -> Problem:
    """Return the problem of a model on some observations: its objective, its constraints and its initial factors."""
    spec.check_shape(observations.shape)
    spec = spec.with_default_radius()
    risk = spec.risk(
        _rho(spec.rho, observations),
        _imputation(spec.imputed, observations),
    )
    risk = observations.knowing(risk)
    if spec.uses_unobserved:
        _check_learnable(observations, risk)
        warn_if_rho_unknown(observations, spec.rho)
    else:
        bounded = spec.radius is not None or spec.alpha is not None
        _warn_if_unbounded(observations, spec.intercept, spec.l2, bounded=bounded)
    # Where nothing is sampled nothing is drawn for it, and what else is drawn stays the same.
    sampled = uses_estimates(arithmetic.backend, risk, observations, arithmetic.device)
    arithmetic = replace(
        arithmetic,
        backend="sampled" if sampled else "exact",
        seed=int(generator.integers(2**32)) if sampled else 0,
    )
    objective = Objective.of(spec, observations, risk, side=side, arithmetic=arithmetic)
    level = _like_level(observations, spec.link, spec.rho) if spec.intercept else 0.0

    def begin() -> Factors:
        start = spectral_start(objective, spec.sets(), spec.rank, level, generator)
        return objective.unknowns(
            start if spec.uses_unobserved else _quiet_unseen(start, observations)
        )

    return Problem(objective, spec.constraints(), begin, risk.rho, spec.radius)


def _rho(rho: object, observations: Observations) -> Any:
    """Return ``rho``, by default the share of entries that are unobserved."""
    if rho is None or (isinstance(rho, str) and rho == "constant"):
        return 1.0 - observations.density
    if isinstance(rho, str):
        raise InvalidInputError(
            f"{parameter('rho', rho)} names a model of the mask: fit it first, with tribit.propensity.fit_propensity."
        )
    if isinstance(rho, MaskModel):
        rho.check_shape(observations)
    return rho


def _imputation(imputed: object, observations: Observations) -> Imputation | None:
    """Return the imputation by a fitted model."""
    if imputed is None:
        return None
    try:
        found = imputation_of(imputed)
    except InvalidTypeError:
        raise InvalidTypeError(
            f"imputed must be a fitted model or None; got {type(imputed).__name__}."
        ) from None
    assert found is not None
    found.check_shape(observations.shape)
    return found


def _warn_if_unbounded(
    observations: Observations, intercept: bool, l2: float, *, bounded: bool
) -> None:
    """Warn where likes alone (or dislikes alone) leave PN with no finite minimum."""
    if observations.n_likes and observations.n_dislikes:
        return
    if not intercept and (l2 or bounded):
        return
    what = "likes" if observations.n_likes else "dislikes"
    warn(
        UnboundedRiskWarning(
            f"Only {what} were observed, so the PN risk has no minimum and the fit stops at its "
            f"iteration limit or tolerance: leave out {parameter('gammas')} to compare them with unseen cells, or pass "
            f"{parameter('intercept', False)} with a {parameter('radius')}, an {parameter('alpha')} or "
            f"{parameter('l2')} > 0."
        ),
    )


def warn_if_ran_off(spec: ModelSpec, observations: Observations, factors: Factors) -> None:
    """Warn where factors without a penalty or a bound separate the labels, so that PN has no minimum."""
    if spec.uses_unobserved or spec.l2 or spec.radius is not None or spec.alpha is not None:
        return
    if observations.is_remote:  # a pass over all entries for a warning alone
        return
    x = np.abs(factors.at(observations.rows, observations.columns))
    bound = spec.link.level(SEPARATED_AT)
    if not np.any(x > bound):
        return
    warn(
        UnboundedRiskWarning(
            f"{np.mean(x > bound):.1%} of the observed entries are fitted with a probability within "
            f"{1 - SEPARATED_AT:.0g} of 0 or 1 (|x| up to {x.max():.4g}): with {parameter('l2', 0)} the PN risk "
            f"has no minimum, and the fit stops where {parameter('tol')} sees no more gain; "
            f"pass {parameter('l2')} > 0 or a {parameter('radius')}."
        ),
    )


def _like_level(
    observations: Observations, link: Link, rho: float | str | Missingness | None
) -> float:
    """Return ``x`` at which a like is as frequent as the observations suggest.

    Among likes and dislikes that is their share. Likes alone (PU data) say ``P(like) = P(observed) / (1 - rho)``,
    or nothing where ``rho`` is not given; dislikes alone the mirror image.
    """
    likes, dislikes = observations.n_likes, observations.n_dislikes
    if likes and dislikes:
        return link.level(observations.base_rate)
    if rho is None or isinstance(rho, str | Missingness):
        return link.level(0.5)
    share = float(np.clip(observations.density / (1.0 - rho), 0.01, 0.99))
    return link.level(share if likes else 1.0 - share)


def _check_learnable(observations: Observations, risk: Risk) -> None:
    """Refuse PU without likes and NU without dislikes: the risk is then the same for any observed entries."""
    for weight, count, name, what in (
        (risk.pu, observations.n_likes, "PU", "likes"),
        (risk.nu, observations.n_dislikes, "NU", "dislikes"),
    ):
        if weight == 1.0 and not count:
            raise InvalidInputError(
                f"The {name} risk learns from {what}, and none were observed: give another risk weight in "
                f"{parameter('gammas')}."
            )


def warn_if_rho_unknown(observations: Observations, rho: object) -> None:
    """Warn where only one sign was observed and a ``rho`` of the mask alone would pass for knowledge."""
    if (rho is None or isinstance(rho, str)) and not (
        observations.n_likes and observations.n_dislikes
    ):
        what = "likes" if observations.n_likes else "dislikes"
        warn(
            UnknownRhoWarning(
                f"Only {what} were observed, so the data cannot tell how many more there are: pass "
                f"{parameter('rho')}, the probability that one of the {what} goes unobserved (now "
                f"{1 - observations.density:.3g}, as if every entry were one)."
            ),
        )


def _quiet_unseen(factors: Factors, observations: Observations) -> Factors:
    """Set the factors of rows and columns without entries to 0: PN would leave them at their random start."""
    U, V = factors.row_factors.copy(), factors.column_factors.copy()
    rows, columns = observations.counts
    U[rows == 0] = 0.0
    V[columns == 0] = 0.0
    return Factors.of(U, V, factors.intercept)


#: Scale of the latent factors that a warm start adds, relative to those of a cold start: smaller, to keep the fit.
NEW_FACTOR_SCALE = 0.3
#: Root mean square of ``U V'`` below which factors count as 0, as a share of the ``x`` of odds of three to one.
VANISHED_SHARE = 0.01


def warm_start(problem: Problem, settings: ModelSpec, ends: dict[str, Factors]) -> Factors:
    """Return a warm start: from the last fit of this family, else of a simpler one, else the problem's own factors."""
    if settings.has_unbounded_risk:
        # A fit without a ball would start far outside of it.
        families: tuple[str, ...] = (settings.family, "mixture")
    else:
        families = (settings.family, "implicit features", "factors", "intercepts")
    unit = problem.objective.link.level(0.75)
    for family in families:
        if (end := ends.get(family)) is None:
            continue
        end = _unknowns(problem, family, end)
        if end is None:
            continue
        end = _without_vanished_factors(problem, end, unit)
        wide = end if end.rank == settings.rank else _with_rank(end, problem.start)
        return _project_start(problem, wide)
    return problem.start


def _unknowns(problem: Problem, family: str, end: Factors) -> Factors | None:
    """Return unknowns of the problem from those of a family; None where it cannot have them.

    Parts of features that the family lacks are 0; side features come last among the parts.
    """
    if family in ("factors", "intercepts", "mixture"):
        return problem.objective.unknowns(end)
    wanted = problem.unknown_sizes
    given = end.row_factors.shape[0], end.column_factors.shape[0]
    if given == wanted:
        return end
    if given[0] > wanted[0] or given[1] > wanted[1]:
        return None
    return Factors(
        _pad_rows(end.row_factors, wanted[0]),
        _pad_rows(end.column_factors, wanted[1]),
        end.intercept,
        _pad_rows(end.row_intercepts, wanted[0]),
        _pad_rows(end.column_intercepts, wanted[1]),
    )


def _pad_rows(part: Array, size: int) -> Array:
    return np.concatenate([part, np.zeros((size - part.shape[0], *part.shape[1:]))])


def _without_vanished_factors(problem: Problem, end: Factors, unit: float) -> Factors:
    """Return the end without its factors where a large penalty made them vanish: gradients near 0 are tiny.

    The factors of the matrix decide: under implicit features the own part of each row may be small beside the shared.
    """
    whole = problem.factors(end)
    U, V = whole.row_factors, whole.column_factors
    square = float(np.sum((U.T @ U) * (V.T @ V))) / (U.shape[0] * V.shape[0])
    if square >= (VANISHED_SHARE * unit) ** 2:
        return end
    return end.truncate(0)


def _project_start(problem: Problem, factors: Factors) -> Factors:
    """Bring a start that was inside other constraints, such as a wider ball, inside the problem's own."""
    U, V = factors.row_factors, factors.column_factors
    for constraint in problem.constraints:
        U, V = constraint.project(U, V)
    factors = replace(factors, row_factors=U, column_factors=V)
    objective = problem.objective
    if not np.isfinite(objective.intercept_bound):
        return factors
    # Then the one intercept is no unknown: it is the level of these observations, not of those before.
    seen = objective.observations
    if not (seen.n_likes and seen.n_dislikes):
        level = problem.start.intercept  # what rho says of likes alone
    else:
        level = objective.link.level(seen.base_rate) if objective.intercept else 0.0
    factors = replace(factors, intercept=level)
    if objective.shares_unknowns:  # parts of intercepts, whose sums the objective bounds
        return factors
    return factors.clip_intercepts(objective.intercept_bound)


def _with_rank(end: Factors, fresh: Factors) -> Factors:
    """Return ``end`` at the rank of ``fresh``: new latent factors are small; of too many the leading ones stay."""
    if end.rank > fresh.rank:
        return _leading_factors(end, fresh.rank)
    k = end.rank
    share = NEW_FACTOR_SCALE if k else 1.0
    sides = [
        np.hstack([old[:, :k], share * new[:, k:]])
        for old, new in (
            (end.row_factors, fresh.row_factors),
            (end.column_factors, fresh.column_factors),
        )
    ]
    return replace(end, row_factors=sides[0], column_factors=sides[1])


def _leading_factors(end: Factors, rank: int) -> Factors:
    """Return the end with the leading singular vectors of ``U V'`` alone."""
    U, V = Rank(rank).project(end.row_factors, end.column_factors)
    return replace(end, row_factors=U, column_factors=V)
