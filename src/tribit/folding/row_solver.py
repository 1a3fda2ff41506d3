"""Solutions of single rows: the minimum of their own objective, with the columns fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends import make_backend
from tribit.backends.balls import RowProblem
from tribit.backends.penalty import relative_l2
from tribit.backends.rows import RowState, solve_free_rows
from tribit.backends.threads import single_threaded_blas
from tribit.data.features import Group
from tribit.data.observations import Observations
from tribit.model.constraints import clip_rows
from tribit.model.fitted import Member, Pair
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]

#: Most half-sweeps with the other side fixed, and the decrease relative to the objective at which they stop. Newton's
#: method takes fewer than ten on these convex problems.
HALF_SWEEPS, TOLERANCE = 50, 1e-12


@dataclass(frozen=True)
class RowSolver:
    """The convex problem of each row, given one fitted model.

    Attributes
    ----------
    member : Member
        The model; its rows are solved for.
    risk : Risk
        The risk of the entries of these rows.
    n_jobs : int
        Threads.
    """

    member: Member
    risk: Risk
    n_jobs: int

    def solve(
        self, entries: Observations, shared: Pair, scales: tuple[float, float] = (1.0, 1.0)
    ) -> Pair:
        """Return the factors and intercepts that minimise the objectives of rows, given all their entries.

        ``scales`` multiply the ridge on factors and on intercepts.
        """
        k = self.member.factors.rank
        s, t = shared
        problem = self.row_problem(shared, entries.totals[0], scales)
        if problem.free and self.is_unbounded(problem):
            return self._solve_unbounded(problem, entries, t)
        # Rows without entries have an own part of 0, in a mixture too, which has no information on them.
        n = entries.shape[0]
        known = entries.counts[0] > 0
        P = np.hstack([s, t[:, None], np.ones((n, 1))])
        # Half-sweeps start inside the bounds, which the terms of features may exceed.
        if np.isfinite(problem.norm):
            P[known, :k] = clip_rows(P[known, :k], problem.norm)
        P[known, k] = np.clip(P[known, k], -problem.bound, problem.bound)
        if known.any() and problem.free:
            P[known] = self._run_half_sweeps(P, problem, entries, known)
        return P[:, :k], P[:, k]

    def row_problem(
        self,
        shared: Pair,
        totals: NDArray[np.number[Any]],
        scales: tuple[float, float] = (1.0, 1.0),
    ) -> RowProblem:
        """Return ridge and bounds of rows with so many entries, and the terms of features as their prior mean."""
        spec, k = self.member.spec, self.member.factors.rank
        l2_intercept = spec.l2 if spec.l2_intercept is None else spec.l2_intercept
        s, t = shared
        return RowProblem(
            k,
            spec.intercept,
            scales[0] * spec.l2,
            scales[1] * l2_intercept,
            float(np.sqrt(spec.row_radius)),
            spec.intercept_bound,
            np.hstack([s, t[:, None]])[:, : k + spec.intercept],
            relative_l2(spec.l2_power, totals, self.member.mean_totals[0]),
        )

    def is_unbounded(self, problem: RowProblem) -> bool:
        """Return whether rows have a ridge, no bounds, and a sum over observed entries alone."""
        return bool(
            not problem.has_bounds
            and not self.member.spec.uses_unobserved
            and np.all(problem.ridge > 0.0)
        )

    def _solve_unbounded(self, problem: RowProblem, entries: Observations, t: Array) -> Pair:
        """Return rows without bounds, by Newton's method in the dtype of the fit."""
        k, V = problem.k, self.member.factors.column_factors
        Q = np.hstack([V, np.ones((V.shape[0], 1), dtype=V.dtype)])[:, : problem.free]
        offsets = self.member.factors.intercept + self.member.factors.column_intercepts
        if not problem.intercept:  # features have no intercepts then
            t = np.zeros_like(t)
        assert problem.prior_mean is not None
        P = solve_free_rows(
            entries,
            Q,
            offsets,
            problem.prior_mean,
            problem.ridge,
            self.member.spec.link,
            self.n_jobs,
        )
        return P[:, :k], P[:, k] if problem.intercept else t

    def _run_half_sweeps(
        self, P: Array, problem: RowProblem, entries: Observations, known: NDArray[np.bool_]
    ) -> Array:
        """Return the rows with entries, by half-sweeps with the columns fixed."""
        backend = make_backend(
            entries, self.member.spec.link, self.risk, dtype="float64", n_jobs=self.n_jobs
        )
        Q = self.member.factors.product_factors()[1].astype(np.float64)
        state = RowState(P.shape[0])
        with single_threaded_blas():
            for _ in range(HALF_SWEEPS):
                half = backend.half_sweep(P, Q, problem, state)
                P = half.P
                if half.gain <= TOLERANCE * max(abs(half.value), 1.0):
                    break
        return P[known]


def bare_rows(entries: Observations, groups: tuple[Group, ...]) -> NDArray[np.bool_]:
    """Return whether each row has features and no entries."""
    known = np.any([group.known for group in groups], axis=0)
    return np.asarray(known & (entries.counts[0] == 0))
