"""One fit of a model with the side that changes as its rows: how rows are added and solved for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends import make_backend
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
        return np.broadcast_to(self.by_column[columns], shape)


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

    def shared(self, design: Any) -> tuple[Array, Array]:
        """Return what features add to rows with such features, to their factors and intercepts."""
        n = self.axes.rows.size
        return (
            design.shared(self.unknowns.row_factors[n:]),
            design.shared(self.unknowns.row_intercepts[n:]),
        )

    def shared_by_activity(self, mask: sp.csr_array) -> tuple[Array, Array]:
        """Return what implicit features add to the rows of a mask, to their factors and intercepts."""
        n = self.axes.rows.size
        z, a = self.unknowns.row_factors[n:], self.unknowns.row_intercepts[n:]
        activity = self.maps[0].activity
        if activity is None:
            return np.zeros((mask.shape[0], z.shape[1])), np.zeros(mask.shape[0])
        block = activity.block(mask, 0.0)
        return block.times(z[: block.width]), block.times(a[: block.width])

    def shared_by_side(self, axis: Axis, table: Any) -> tuple[Array, Array]:
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

    def left_by_side(self, entries: Observations) -> tuple[Array, Array]:
        """Return what side features added to the rows of the fit: their factors less all other parts."""
        n = self.axes.rows.size
        factors, intercepts = self.shared_by_activity(mask_of(entries))
        return (
            self.factors.row_factors - self.unknowns.row_factors[:n] - factors,
            self.factors.row_intercepts - self.unknowns.row_intercepts[:n] - intercepts,
        )

    def answered_by_features(
        self, places: Positions, entries: Observations, groups: tuple[Group, ...]
    ) -> Half:
        """Return the fit with rows that have features and no entries where :mod:`tribit.folding.cold` puts them."""
        cold = self.maps[0].cold
        if cold is None:
            return self
        known = np.any([group.known for group in groups], axis=0)
        bare = known & (np.bincount(entries.rows, minlength=places.size) == 0)
        found = mapped(side_design(groups, places.size), cold)[bare]
        return self._moved(places[bare], found[:, :-1], found[:, -1])

    def _moved(self, places: Positions, U: Array, a: Array) -> Half:
        """Return the model with other factors and intercepts of some rows, their own parts as these need."""
        rows, row_intercepts = self.factors.row_factors.copy(), self.factors.row_intercepts.copy()
        own, own_intercepts = (
            self.unknowns.row_factors.copy(),
            self.unknowns.row_intercepts.copy(),
        )
        own[places] += U - rows[places]
        own_intercepts[places] += a - row_intercepts[places]
        rows[places], row_intercepts[places] = U, a
        return replace(
            self,
            unknowns=replace(self.unknowns, row_factors=own, row_intercepts=own_intercepts),
            factors=replace(self.factors, row_factors=rows, row_intercepts=row_intercepts),
        )

    def extended(self, axis: Axis, shared: tuple[Array, Array]) -> Half:
        """Return the model with rows that have no part of their own yet."""
        n, m = self.axes.rows.size, axis.size
        U, a = self.factors.row_factors, self.factors.row_intercepts
        unknowns, maps = self.unknowns, self.maps
        own = replace(
            unknowns,
            row_factors=_inserted(unknowns.row_factors, n, m),
            row_intercepts=_inserted(unknowns.row_intercepts, n, m),
        )
        if maps[1].activity is not None:  # the columns have a part for each row, 0 for new ones
            d2 = self.axes.columns.size
            own = replace(
                own,
                column_factors=_inserted(own.column_factors, d2 + n, m),
                column_intercepts=_inserted(own.column_intercepts, d2 + n, m),
            )
        return replace(
            self,
            unknowns=own,
            factors=replace(
                self.factors,
                row_factors=np.concatenate([U, shared[0]]),
                row_intercepts=np.concatenate([a, shared[1]]),
            ),
            maps=(maps[0], maps[1].beside(m)),
            axes=self.axes._replace(rows=longer(self.axes.rows, axis)),
        )

    def solved(self, places: Positions, entries: Observations, shared: tuple[Array, Array]) -> Half:
        """Return the model with some rows at the minimiser of their own objective, given all entries of these."""
        spec, k = self.spec, self.factors.rank
        l2_intercept = spec.l2 if spec.l2_intercept is None else spec.l2_intercept
        s, t = shared
        problem = RowProblem(
            k,
            spec.intercept,
            spec.l2,
            l2_intercept,
            float(np.sqrt(spec.row_radius)),
            spec.intercept_bound,
            np.hstack([s, t[:, None]])[:, : k + spec.intercept],
        )
        # A part of their own without entries is 0, in a mixture too: what was not seen of nobody tells nothing.
        known = np.bincount(entries.rows, minlength=places.size) > 0
        P = np.hstack([s, t[:, None], np.ones((places.size, 1))])
        # Half-sweeps start inside the bounds, which the sums of shared parts need not keep.
        if np.isfinite(problem.norm):
            P[known, :k] = clip_rows(P[known, :k], problem.norm)
        P[known, k] = np.clip(P[known, k], -problem.bound, problem.bound)
        if known.any() and problem.free:
            P[known] = self._minimised(P, problem, entries, known)
        own, intercepts = self.unknowns.row_factors.copy(), self.unknowns.row_intercepts.copy()
        U, a = self.factors.row_factors.copy(), self.factors.row_intercepts.copy()
        own[places], intercepts[places], U[places], a[places] = 0.0, 0.0, s, t
        at_centre = replace(
            self,
            unknowns=replace(self.unknowns, row_factors=own, row_intercepts=intercepts),
            factors=replace(self.factors, row_factors=U, row_intercepts=a),
        )
        return at_centre._moved(places, P[:, :k], P[:, k])

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


def _inserted(parts: Array, place: int, n: int) -> Array:
    """Return the parts with n rows of zeros at a place."""
    zeros = np.zeros((n, *parts.shape[1:]), dtype=parts.dtype)
    return np.concatenate([parts[:place], zeros, parts[place:]])
