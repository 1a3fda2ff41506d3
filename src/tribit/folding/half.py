"""One fit of a model with the side that changes as its rows: how rows are added and solved for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends import make_backend
from tribit.backends.free_rows import free_rows
from tribit.backends.rows import RowProblem, RowState
from tribit.backends.threads import single_threaded_blas
from tribit.data.axis import Axes, Axis, Positions
from tribit.data.longer_axis import longer
from tribit.data.observations import Observations
from tribit.data.side_features import Group
from tribit.folding.cold import mapped
from tribit.model.constraints import clip_rows
from tribit.model.factors import Factors
from tribit.model.features import FeatureMap, mask_of, side_design
from tribit.model.risks import Risk
from tribit.model.spec import ModelSpec

Array = NDArray[np.floating[Any]]
#: Factors and intercepts of some rows.
Pair = tuple[Array, Array]

#: Most half-sweeps of rows with the other side fixed, and the share of the objective below which one gains nothing:
#: rows are convex problems, on which Newton's method takes fewer than ten.
HALF_SWEEPS, TOLERANCE = 50, 1e-12


@dataclass(frozen=True)
class ByColumn:
    """The probability that an entry of a new row is unobserved: that of its column, over the rows of the fit."""

    by_row: Array
    by_column: Array

    def rho_at(self, rows: Any, columns: Any) -> Array:
        """Return it, for any row."""
        shape = np.broadcast_shapes(np.shape(rows), np.shape(columns))
        known = self.by_column.size
        # Of a column that came after the fit nothing is known but the mean of the others.
        by_column = np.append(self.by_column, self.by_column.mean())
        return np.broadcast_to(by_column[np.minimum(columns, known)], shape)


@dataclass(frozen=True)
class Half:
    """A model with the side that changes as its rows: the columns' side is transposed."""

    unknowns: Factors
    factors: Factors
    maps: tuple[FeatureMap, FeatureMap]
    axes: Axes
    spec: ModelSpec
    risk: Risk
    n_jobs: int

    @property
    def transposed(self) -> Half:
        """The same fit with the columns as the side that changes."""
        return replace(
            self,
            unknowns=self.unknowns.transposed,
            factors=self.factors.transposed,
            maps=self.maps[::-1],
            axes=Axes(self.axes.columns, self.axes.rows),  # each with its own name, for errors
            risk=_transposed(self.risk),
        )

    def shared(self, design: Any) -> Pair:
        """Return what features add to rows with such features, to their factors and intercepts."""
        n = self.axes.rows.size
        return (
            design.shared(self.unknowns.row_factors[n:]),
            design.shared(self.unknowns.row_intercepts[n:]),
        )

    def shared_by_activity(self, mask: sp.csr_array) -> Pair:
        """Return what implicit features add to the rows of a mask, to their factors and intercepts."""
        n = self.axes.rows.size
        z, a = self.unknowns.row_factors[n:], self.unknowns.row_intercepts[n:]
        activity = self.maps[0].activity
        if activity is None:
            return np.zeros((mask.shape[0], z.shape[1])), np.zeros(mask.shape[0])
        block = activity.block(mask, 0.0)
        return block.times(z[: block.width]), block.times(a[: block.width])

    def shared_by_side(self, axis: Axis, table: Any) -> Pair:
        """Return what side features add to new rows, to their factors and intercepts."""
        width = 0 if self.maps[0].activity is None else self.axes.columns.size
        side = replace(self.maps[0], activity=None).design(
            sp.csr_array((axis.size, self.axes.columns.size)), axis, table
        )
        first = self.axes.rows.size + width
        return (
            side.shared(self.unknowns.row_factors[first:]),
            side.shared(self.unknowns.row_intercepts[first:]),
        )

    def left_by_side(self, entries: Observations) -> Pair:
        """Return what side features added to the rows of the fit: their factors less all other parts."""
        n = self.axes.rows.size
        factors, intercepts = self.shared_by_activity(mask_of(entries))
        return (
            self.factors.row_factors - self.unknowns.row_factors[:n] - factors,
            self.factors.row_intercepts - self.unknowns.row_intercepts[:n] - intercepts,
        )

    def answered_by_features(
        self, found: Pair, entries: Observations, groups: tuple[Group, ...]
    ) -> Pair:
        """Return factors and intercepts, those of rows with features and no entries by :mod:`tribit.folding.cold`."""
        cold = self.maps[0].cold
        if cold is None:
            return found
        bare = bare_rows(entries, groups)
        U, a = (each.copy() for each in found)
        mapped_rows = mapped(side_design(groups, bare.size), cold)[bare]
        U[bare], a[bare] = mapped_rows[:, :-1], mapped_rows[:, -1]
        return U, a

    def moved(self, places: Positions, found: Pair, shared: Pair) -> Half:
        """Return the model with other factors and intercepts of some rows; own parts are what features do not add."""
        rows, row_intercepts = self.factors.row_factors.copy(), self.factors.row_intercepts.copy()
        own, own_intercepts = (
            self.unknowns.row_factors.copy(),
            self.unknowns.row_intercepts.copy(),
        )
        rows[places], row_intercepts[places] = found
        own[places], own_intercepts[places] = found[0] - shared[0], found[1] - shared[1]
        return replace(
            self,
            unknowns=replace(self.unknowns, row_factors=own, row_intercepts=own_intercepts),
            factors=replace(self.factors, row_factors=rows, row_intercepts=row_intercepts),
        )

    def extended(self, axis: Axis, found: Pair, shared: Pair) -> Half:
        """Return the model with new rows of such factors and intercepts."""
        n, m = self.axes.rows.size, axis.size
        U, a = self.factors.row_factors, self.factors.row_intercepts
        unknowns, maps = self.unknowns, self.maps
        own = replace(
            unknowns,
            row_factors=_inserted(unknowns.row_factors, n, found[0] - shared[0]),
            row_intercepts=_inserted(unknowns.row_intercepts, n, found[1] - shared[1]),
        )
        if maps[1].activity is not None:  # the columns have a part for each row, 0 for new ones
            d2 = self.axes.columns.size
            own = replace(
                own,
                column_factors=_inserted(own.column_factors, d2 + n, np.zeros((m, U.shape[1]))),
                column_intercepts=_inserted(own.column_intercepts, d2 + n, np.zeros(m)),
            )
        return replace(
            self,
            unknowns=own,
            factors=replace(
                self.factors,
                row_factors=_inserted(U, n, found[0]),
                row_intercepts=_inserted(a, n, found[1]),
            ),
            maps=(maps[0], maps[1].beside(m)),
            axes=self.axes._replace(rows=longer(self.axes.rows, axis)),
        )

    def solved(self, places: Positions, entries: Observations, shared: Pair) -> Half:
        """Return the model with some rows at the minimiser of their own objective, given all entries of these."""
        return self.moved(places, self.minimisers(entries, shared), shared)

    def minimisers(
        self, entries: Observations, shared: Pair, scales: tuple[float, float] = (1.0, 1.0)
    ) -> Pair:
        """Return factors and intercepts of rows at the minimiser of their own objective, given all entries of these.

        ``scales`` are factors of the ridge on factors and on intercepts.
        """
        k = self.factors.rank
        s, t = shared
        problem = self.row_problem(shared, scales)
        if problem.free and self.is_unbounded(problem):
            return self._newton(problem, entries, t)
        # A part of their own without entries is 0, in a mixture too: what was not seen of nobody tells nothing.
        n = entries.shape[0]
        known = entries.counts[0] > 0
        P = np.hstack([s, t[:, None], np.ones((n, 1))])
        # Half-sweeps start inside the bounds, which the sums of shared parts need not keep.
        if np.isfinite(problem.norm):
            P[known, :k] = clip_rows(P[known, :k], problem.norm)
        P[known, k] = np.clip(P[known, k], -problem.bound, problem.bound)
        if known.any() and problem.free:
            P[known] = self._minimised(P, problem, entries, known)
        return P[:, :k], P[:, k]

    def row_problem(self, shared: Pair, scales: tuple[float, float] = (1.0, 1.0)) -> RowProblem:
        """Return ridge and bounds of rows, with what features add to them as the centre of the ridge."""
        spec, k = self.spec, self.factors.rank
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
        )

    def is_unbounded(self, problem: RowProblem) -> bool:
        """Return whether rows are free, and have a sum over observed entries alone and a ridge."""
        bounds = np.isfinite(problem.norm) or (problem.intercept and np.isfinite(problem.bound))
        return bool(not bounds and not self.spec.mixed and np.all(problem.ridge > 0.0))

    def _newton(self, problem: RowProblem, entries: Observations, t: Array) -> Pair:
        """Return the rows that have no bounds, in the arithmetic of the fit."""
        k, V = problem.k, self.factors.column_factors
        Q = np.hstack([V, np.ones((V.shape[0], 1), dtype=V.dtype)])[:, : problem.free]
        offsets = self.factors.intercept + self.factors.column_intercepts
        if not problem.intercept:  # what features add to the intercepts of the rows is 0 then
            t = np.zeros_like(t)
        assert problem.centre is not None
        P = free_rows(
            entries, Q, offsets, problem.centre, problem.ridge, self.spec.link, self.n_jobs
        )
        return P[:, :k], P[:, k] if problem.intercept else t

    def _minimised(
        self, P: Array, problem: RowProblem, entries: Observations, known: NDArray[np.bool_]
    ) -> Array:
        """Return the rows that have entries, by half-sweeps with the columns fixed."""
        backend = make_backend(
            entries, self.spec.link, self.risk, dtype="float64", n_jobs=self.n_jobs
        )
        Q = self.factors.augmented()[1].astype(np.float64)
        state = RowState(P.shape[0])
        with single_threaded_blas():
            for _ in range(HALF_SWEEPS):
                half = backend.half_sweep(P, Q, problem, state)
                P = half.P
                if half.gain <= TOLERANCE * max(abs(half.value), 1.0):
                    break
        return P[known]


def _transposed(risk: Risk) -> Risk:
    if isinstance(risk.rho, ByColumn):
        return replace(risk, rho=ByColumn(risk.rho.by_column, risk.rho.by_row))
    return risk


def _inserted(parts: Array, place: int, new: Array) -> Array:
    """Return the parts with new ones at a place, of the same type."""
    return np.concatenate([parts[:place], new.astype(parts.dtype), parts[place:]])


def bare_rows(entries: Observations, groups: tuple[Group, ...]) -> NDArray[np.bool_]:
    """Return which rows have features and no entries."""
    known = np.any([group.known for group in groups], axis=0)
    return np.asarray(known & (entries.counts[0] == 0))
