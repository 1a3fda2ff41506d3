"""Initial factors: a warm start from the last fit of the same family, which saves most of the work along a path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tribit.model.constraints import Rank
from tribit.model.factors import Array, Factors
from tribit.model.spec import ModelSpec
from tribit.selection.problem import Problem

#: Scale of the columns that a warm start adds, relative to those of a cold start: smaller, to keep what was fitted.
NEW_COLUMNS = 0.3
#: Root mean square of ``U V'`` below which factors count as 0, as a share of the ``x`` of odds of three to one.
ASLEEP = 0.01


def start_of(problem: Problem, settings: ModelSpec, ends: dict[str, Factors]) -> Factors:
    """Return a warm start: from the last fit of this family, else of a simpler one, else the problem's own factors."""
    if settings.unbounded:
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
        end = _awake(problem, end, unit)
        wide = end if end.rank == settings.rank else _widened(end, problem.start)
        return _inside(problem, wide)
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
        _padded(end.row_factors, wanted[0]),
        _padded(end.column_factors, wanted[1]),
        end.intercept,
        _padded(end.row_intercepts, wanted[0]),
        _padded(end.column_intercepts, wanted[1]),
    )


def _padded(part: Array, size: int) -> Array:
    return np.concatenate([part, np.zeros((size - part.shape[0], *part.shape[1:]))])


def _awake(problem: Problem, end: Factors, unit: float) -> Factors:
    """Return the end without its factors where a large ridge made them vanish: near 0 hardly anything moves.

    The factors of the matrix decide: under implicit features the own part of each row may be small beside the shared.
    """
    whole = problem.factors(end)
    U, V = whole.row_factors, whole.column_factors
    square = float(np.sum((U.T @ U) * (V.T @ V))) / (U.shape[0] * V.shape[0])
    if square >= (ASLEEP * unit) ** 2:
        return end
    return end.narrowed(0)


def _inside(problem: Problem, factors: Factors) -> Factors:
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
        level = objective.link.level(seen.n_likes / seen.n_observed) if objective.intercept else 0.0
    factors = replace(factors, intercept=level)
    if objective.shares_unknowns:  # parts of intercepts, whose sums the objective bounds
        return factors
    return factors.clipped_intercepts(objective.intercept_bound)


def _widened(end: Factors, fresh: Factors) -> Factors:
    """Return ``end`` with as many columns as ``fresh``: new ones are small, of too many the leading ones stay."""
    if end.rank > fresh.rank:
        return _narrowed(end, fresh.rank)
    k = end.rank
    share = NEW_COLUMNS if k else 1.0
    sides = [
        np.hstack([old[:, :k], share * new[:, k:]])
        for old, new in (
            (end.row_factors, fresh.row_factors),
            (end.column_factors, fresh.column_factors),
        )
    ]
    return replace(end, row_factors=sides[0], column_factors=sides[1])


def _narrowed(end: Factors, rank: int) -> Factors:
    """Return the end with the leading singular vectors of ``U V'`` alone."""
    U, V = Rank(rank).project(end.row_factors, end.column_factors)
    return replace(end, row_factors=U, column_factors=V)
