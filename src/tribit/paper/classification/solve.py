"""Minimise a classification risk over the coefficients of a basis.

    min_w  sum_i plus_i l(g_i, +1) + minus_i l(g_i, -1) + l2 / 2 |w without its last|^2,   g = F w

The last column of ``F`` is 1: the intercept is not penalised. Since ``l(g, +1) - l(g, -1) = -g``, the sum is
``sum_i (plus_i + minus_i) l(g_i, -1) - plus_i g_i``: convex, because ``plus + minus`` is never below 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize

from tribit.backends.threads import single_threaded_blas
from tribit.errors import InvalidInputError
from tribit.model.risks import Risk
from tribit.paper.classification.risks import (
    Array,
    Labels,
    Loss,
    Squared,
    empirical_risk,
    estimated_parts,
    example_weights,
)

#: Widths of the rounded kink of max(0, z), from wide to narrow; the last bounds the error in the risk.
ROUNDING_WIDTHS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)

Function = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, eq=False)
class RiskProblem:
    """Data and parameters of the objective."""

    features: Array
    labels: Labels
    mixture: Risk
    prior: float
    loss: Loss
    l2: float
    nonnegative: bool = False

    @property
    def ridge(self) -> Array:
        """The penalty of each coefficient: none for the intercept."""
        ridge = np.full(self.features.shape[1], self.l2)
        ridge[-1] = 0.0
        return ridge

    def value(self, coefficients: Array) -> float:
        """Return the objective, with the exact max(0, .) where ``nonnegative``."""
        risk = empirical_risk(
            self.features @ coefficients,
            self.labels,
            self.mixture,
            prior=self.prior,
            loss=self.loss,
            nonnegative=self.nonnegative,
        )
        return risk + 0.5 * float(self.ridge @ coefficients**2)


@dataclass(frozen=True, eq=False)
class RiskMinimum:
    """The coefficients, their objective, and the solver's iterations and convergence."""

    coefficients: Array
    objective: float
    n_iter: int
    converged: bool


@single_threaded_blas()
def minimise(
    problem: RiskProblem, *, max_iter: int, tol: float, start: Array | None = None
) -> RiskMinimum:
    """Return the minimiser: one linear system for the squared loss, else L-BFGS to a gradient of ``tol``.

    The non-negative risk of Kiryo et al. (2017) has ``max(0, z)`` for each estimated part ``z``, so that it is at
    least the convex risk. A minimiser of the convex risk without a negative part is a global minimiser of both.
    Otherwise L-BFGS continues on ``(z + sqrt(z^2 + 4 m^2)) / 2``, above ``max(0, z)`` by at most ``m``, for decreasing
    ``m``; the visited point of lowest objective is a local minimum to within the last ``m``.
    """
    plain = replace(problem, nonnegative=False)
    if isinstance(problem.loss, Squared):
        solution = _linear_system(plain)
    else:
        solution = _descend(plain, convex_objective(plain), start, max_iter, tol)
    if problem.nonnegative and _smallest_part(problem, solution.coefficients) < 0.0:
        solution = _descend_rounded(problem, solution, max_iter, tol)
    return solution


def convex_objective(problem: RiskProblem) -> Function:
    """Return the objective and its gradient, written so that no two large terms cancel."""
    plus, minus = example_weights(problem.labels, problem.mixture, problem.prior)
    both, F, ridge = plus + minus, problem.features, problem.ridge

    def objective(w: Array) -> tuple[float, Array]:
        g = F @ w
        value = both @ problem.loss.loss(g, -1) - plus @ g + 0.5 * (ridge @ w**2)
        return float(value), F.T @ (both * problem.loss.first(g, -1) - plus) + ridge * w

    return objective


def rounded_objective(problem: RiskProblem, width: float) -> Function:
    """Return the non-negative objective with its kinks rounded, and its gradient."""
    plain = convex_objective(problem)
    parts = estimated_parts(problem.labels, problem.mixture, problem.prior)
    F, loss = problem.features, problem.loss

    def objective(w: Array) -> tuple[float, Array]:
        value, gradient = plain(w)
        g = F @ w
        for weight, plus, minus in parts:
            z = float(plus @ loss.loss(g, 1) + minus @ loss.loss(g, -1))
            root = float(np.hypot(z, 2.0 * width))
            value += weight * 0.5 * (root - z)  # max(0, z) - z
            slope = weight * 0.5 * (z / root - 1.0)
            gradient = gradient + F.T @ (
                slope * (plus * loss.first(g, 1) + minus * loss.first(g, -1))
            )
        return value, gradient

    return objective


def _linear_system(problem: RiskProblem) -> RiskMinimum:
    plus, minus = example_weights(problem.labels, problem.mixture, problem.prior)
    half, F = (plus + minus) / 2.0, problem.features
    # The derivative in g of (plus + minus) (1 + g)^2 / 4 - plus g is half (1 + g) - plus.
    with np.errstate(over="ignore", invalid="ignore"):
        left = (F.T * half) @ F + np.diag(problem.ridge)
        right = F.T @ (plus - half)
    try:
        w = scipy.linalg.solve(left, right, assume_a="pos")
    except (scipy.linalg.LinAlgError, ValueError):
        raise InvalidInputError(
            "The linear system of the squared loss is singular to working precision; raise l2, or bring "
            "the features to a like scale (say by StandardScaler)."
        ) from None
    return RiskMinimum(w, problem.value(w), 1, True)


def _descend(
    problem: RiskProblem, function: Function, start: Array | None, max_iter: int, tol: float
) -> RiskMinimum:
    first = np.zeros(problem.features.shape[1]) if start is None else start
    result: Any = scipy.optimize.minimize(
        function,
        first,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": max_iter,
            "maxfun": 20 * max_iter,
            "gtol": tol,
            "ftol": 1e-15,
            "maxcor": 20,
        },
    )
    w = np.asarray(result.x)
    if not np.all(np.isfinite(w)) or not np.isfinite(result.fun):
        raise InvalidInputError(
            "The risk is not finite along the way; bring the features to a like scale (say by StandardScaler)."
        )
    # The line search also fails where rounding hides further descent.
    done = bool(result.success) or float(np.max(np.abs(result.jac))) <= 100.0 * tol
    return RiskMinimum(w, problem.value(w), max(int(result.nit), 1), done)


def _descend_rounded(
    problem: RiskProblem, first: RiskMinimum, max_iter: int, tol: float
) -> RiskMinimum:
    best = replace(first, objective=problem.value(first.coefficients))
    w, n_iter, converged = first.coefficients, first.n_iter, True
    for width in ROUNDING_WIDTHS:
        step = _descend(problem, rounded_objective(problem, width), w, max_iter, tol)
        w, n_iter, converged = step.coefficients, n_iter + step.n_iter, step.converged
        if step.objective < best.objective:
            best = step
    return replace(best, n_iter=n_iter, converged=converged)


def _smallest_part(problem: RiskProblem, w: Array) -> float:
    g = problem.features @ w
    likes, dislikes = problem.loss.loss(g, 1), problem.loss.loss(g, -1)
    parts = estimated_parts(problem.labels, problem.mixture, problem.prior)
    return min((float(plus @ likes + minus @ dislikes) for _, plus, minus in parts), default=0.0)
