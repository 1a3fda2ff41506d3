"""New rows and columns for a fitted model, without a new fit.

With the columns fixed a row is a convex problem of its own,

    u_i, a_i = argmin  sum over the entries of row i of the risk  +  l2 / 2 |u_i - s_i|^2 + l2_intercept / 2 (a_i - t_i)^2

with ``s_i`` and ``t_i`` what the row's features add (0 without any), inside the ball of the model where it has one:
the problem that a fit solves for each of its rows, by the same half-sweeps. A row of the fit that is folded in again
has the same factors. A row without entries has ``u_i = s_i``.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit.backends import make_backend
from tribit.backends.rows import RowProblem, RowState
from tribit.backends.threads import count_jobs, single_threaded_blas
from tribit.checks import check_choice
from tribit.cold import cold_map, design_of
from tribit.data.axis import Axes, Axis, Positions, first_true, named
from tribit.data.ingest import Checked
from tribit.data.observations import Observations, as_observations
from tribit.data.side_features import Group, SideFeatures
from tribit.errors import InvalidInputError, TribitWarning, parameter
from tribit.model.factors import Factors
from tribit.model.features import FeatureMap, mask_of
from tribit.model.risks import Missingness, Risk
from tribit.model.spec import ModelSpec

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion

Array = NDArray[np.floating[Any]]

#: Most half-sweeps of rows with the other side fixed, and the share of the objective below which one gains nothing:
#: rows are convex problems, on which Newton's method takes fewer than ten.
HALF_SWEEPS, TOLERANCE = 50, 1e-12
#: Rows that the mean of a model of the mask is taken over: the rho of a new row, by column.
SAMPLED = 1000
AXES = ("rows", "columns")


@dataclass(frozen=True)
class _ByColumn:
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
        return replace(
            self,
            unknowns=self.unknowns.transposed,
            factors=self.factors.transposed,
            maps=self.maps[::-1],
            axes=self.axes.transposed(),
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
        """Return the model with the rows that have no entries, but features, where :mod:`tribit.cold` puts them."""
        cold = self.maps[0].cold
        if cold is None:
            return self
        known = np.any([group.known for group in groups], axis=0)
        bare = known & (np.bincount(entries.rows, minlength=places.size) == 0)
        found = design_of(groups, places.size)[bare] @ cold
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
        ids = self.axes.rows.ids
        together = None if ids is None or axis.ids is None else _joined(ids, axis.ids)
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
            axes=self.axes._replace(rows=Axis(self.axes.rows.name, n + m, together)),
        )

    def solved(
        self, places: Positions, entries: Observations, shared: tuple[Array, Array]
    ) -> Half:
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


def fold_in(
    model: BinaryMatrixCompletion, X: Any, *, axis: str = "rows", features: Any = None
) -> Any:
    """Return a copy of a fitted model with the rows (or columns) of ``X`` added; see the model's own method."""
    check_is_fitted(model)
    check_choice("axis", axis, AXES)
    given = as_observations(X, like_at=model.like_at)
    half = half_of(model)
    if axis == "columns":
        half, given = half.transposed, given.transpose()
    ours, new = half.axes, given.axes.rows
    _check_new(ours.rows, new)
    columns = ours.columns.match(
        given.axes.columns, "the entries have", f"pass entries of the same {ours.columns.name}s"
    )
    if (lost := first_true(columns[given.columns] < 0)) is not None:
        name = named(given.axes.columns.ids, given.columns[lost])
        raise InvalidInputError(
            f"The {ours.columns.name} {name} is unknown to the model: add it with "
            f"fold_in(..., axis={AXES[axis == 'rows']!r}), or use update."
        )
    entries = _placed(given, given.rows, columns[given.columns], new, ours.columns)
    shared = half.shared(half.maps[0].design(mask_of(entries), new, features))
    _say_what_is_unknown(half, entries, features)
    places = ours.rows.size + np.arange(new.size)
    solved = half.extended(new, shared).solved(places, entries, shared)
    solved = solved.answered_by_features(places, entries, half.maps[0].groups(new, features))
    return _model_of(model, solved if axis == "rows" else solved.transposed)


def update(
    model: BinaryMatrixCompletion,
    X: Any,
    seen: Any,
    *,
    row_features: Any = None,
    column_features: Any = None,
) -> Any:
    """Return a copy of a fitted model that knows new entries too; see the model's own method."""
    check_is_fitted(model)
    before, given = (as_observations(each, like_at=model.like_at) for each in (seen, X))
    half = half_of(model)
    old = half.axes.places(before, "the seen entries have", "pass what the model was fitted on")
    if any((side < 0).any() for side in old):
        raise InvalidInputError(
            "The seen entries have rows or columns that the model does not know; pass what it was fitted on."
        )
    # Before anything moves: side features themselves are not kept, but what they add to the rows of the fit is.
    added = [
        each.left_by_side(_placed(before, *places, *each.axes))
        for each, places in ((half, old), (half.transposed, old[::-1]))
    ]
    tables = row_features, column_features
    for side, theirs in enumerate(given.axes):
        half = half.transposed if side else half
        new = _new_of(half.axes.rows, theirs)
        nothing = sp.csr_array((new.size, half.axes.columns.size))
        shared = half.shared(half.maps[0].design(nothing, new, tables[side]))
        added[side] = _stacked(added[side], half.shared_by_side(new, tables[side]))
        half = half.extended(new, shared)
        half = half.transposed if side else half
    places = tuple(
        ours.match(theirs, "the new entries have", "give the same ids")[at]
        if ours.ids is not None
        else at
        for ours, theirs, at in zip(half.axes, given.axes, (given.rows, given.columns), strict=True)
    )
    entries = _merged(old, before.labels, places, given.labels, half.axes)
    for side in (0, 1, 0):
        touched = np.unique(places[side])
        turned, seen_now = (half.transposed, entries.transpose()) if side else (half, entries)
        some = _rows_of(seen_now, touched)
        shared = turned.shared_by_activity(mask_of(some))
        shared = tuple(part + side_part[touched] for part, side_part in zip(shared, added[side], strict=True))
        turned = turned.solved(touched, some, shared)
        half = turned.transposed if side else turned
    return _model_of(model, half)


def half_of(model: BinaryMatrixCompletion) -> Half:
    """Return a fitted model with its rows as the side that changes."""
    spec = model.spec_
    if model.unknowns_ is None:
        raise InvalidInputError(
            "The model comes from a file of tribit 0.1, which does not keep the parts of its implicit features: fit it "
            "again."
        )
    if spec.mixed and model.imputed is not None:
        raise InvalidInputError(
            "The model was fitted with imputed, which knows nothing of new rows and columns: fit it again."
        )
    maps = model.feature_maps_
    exact = (factors.astype("float64") for factors in (model.unknowns_, model._factors()))
    return Half(*exact, maps, model._axes, spec, _risk(model), count_jobs(model.n_jobs))


def _risk(model: BinaryMatrixCompletion) -> Risk:
    """Return the risk of new rows: a model of the mask, which does not know them, gives its mean by column."""
    spec = model.spec_
    if not spec.mixed:
        return Risk(1.0, 0.0, 0.0)
    if model.rho_ is None:
        raise InvalidInputError(
            f"The model was read from a file, which does not keep {parameter('rho')}_, the model of why entries are "
            "missing: set model.rho_ to the one it was fitted with."
        )
    if not isinstance(model.rho_, Missingness):
        return Risk(*spec.gammas, model.rho_)
    return Risk(*spec.gammas, _ByColumn(*_mean_rho(model.rho_, model.shape_)))


def _mean_rho(rho: Missingness, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return the mean of rho by row and by column, over rows or columns that are evenly spaced."""
    rows, columns = (np.arange(size) for size in shape)
    some_rows, some_columns = (np.unique(np.linspace(0, n - 1, SAMPLED).astype(int)) for n in shape)
    by_row = np.mean([rho.rho_at(rows, np.full(rows.size, j)) for j in some_columns], axis=0)
    by_column = np.mean([rho.rho_at(np.full(columns.size, i), columns) for i in some_rows], axis=0)
    return by_row, by_column


def _transposed(risk: Risk) -> Risk:
    if isinstance(risk.rho, _ByColumn):
        return replace(risk, rho=_ByColumn(risk.rho.by_column, risk.rho.by_row))
    return risk


def _model_of(model: BinaryMatrixCompletion, half: Half) -> Any:
    """Return a copy of a model with other factors."""
    again = copy(model)
    _set_half(again, half)
    return again


def _set_half(model: BinaryMatrixCompletion, half: Half) -> None:
    model._set_factors(half.factors.astype(model.dtype))
    model.unknowns_, model.feature_maps_ = half.unknowns.astype(model.dtype), half.maps
    model._set_axes(half.axes)


def with_cold_maps(
    model: BinaryMatrixCompletion,
    observations: Observations,
    side: SideFeatures,
    draws: np.random.Generator,
) -> None:
    """Give a fitted model the maps from features to factors, and rows and columns without entries their factors."""
    half = half_of(model)
    for number, groups in enumerate(side):
        if not groups:
            continue
        turned, entries = (half.transposed, observations.transpose()) if number else (half, observations)
        Z = cold_map(turned, entries, design_of(groups, entries.shape[0]), draws)
        maps = replace(turned.maps[0], cold=Z), turned.maps[1]
        places = np.arange(entries.shape[0])
        turned = replace(turned, maps=maps).answered_by_features(places, entries, groups)
        half = turned.transposed if number else turned
    _set_half(model, half)


def _check_new(ours: Axis, new: Axis) -> None:
    """Refuse rows that the model knows already, and rows without ids beside rows with them."""
    if (ours.ids is None) != (new.ids is None):
        raise InvalidInputError(
            f"The model's {ours.name}s have {'no ids' if ours.ids is None else 'ids'} and the new ones have "
            f"{'some' if ours.ids is None else 'none'}: give both of the same kind."
        )
    if ours.ids is None:
        return
    places = ours.match(new, "the entries have", "give new ids")
    if (again := first_true(places >= 0)) is not None:
        raise InvalidInputError(
            f"The model knows the {ours.name} {named(new.ids, again)} already: add entries to it with update."
        )


def _new_of(ours: Axis, theirs: Axis) -> Axis:
    """Return the rows there that are not here; without ids those beyond the last one here."""
    if ours.ids is None or theirs.ids is None:
        if ours.ids is not theirs.ids:
            _check_new(ours, theirs)
        return Axis(ours.name, max(theirs.size - ours.size, 0))
    new = ours.match(theirs, "the new entries have", "give the same ids") < 0
    return Axis(ours.name, int(np.count_nonzero(new)), theirs.ids[new])


def _say_what_is_unknown(half: Half, entries: Observations, features: Any) -> None:
    """Warn of rows of which nothing is known: they are answered by the effects of the columns alone."""
    if features is not None and half.maps[0].encoder is not None:
        return
    counts = np.bincount(entries.rows, minlength=entries.shape[0])
    bare = np.flatnonzero(counts == 0)
    if not bare.size:
        return
    axis = entries.axes.rows
    warnings.warn(
        TribitWarning(
            f"Nothing is known of {bare.size} of the new {axis.name}s, such as {named(axis.ids, bare[0])}: no entry and "
            "no features. Their predictions are the effects of the "
            f"{half.axes.columns.name}s alone, the same for each of them."
        ),
        stacklevel=4,
    )


def _placed(
    entries: Observations, rows: Positions, columns: Positions, of_rows: Axis, of_columns: Axis
) -> Observations:
    """Return entries at other positions, in another matrix."""
    order = np.lexsort((columns, rows))
    axes = Axes(of_rows, of_columns)
    return Observations._trusted(
        Checked(rows[order], columns[order], entries.labels[order], axes)
    )


def _merged(
    old: tuple[Positions, Positions],
    old_labels: NDArray[np.int8],
    new: tuple[Positions, ...],
    new_labels: NDArray[np.int8],
    axes: Axes,
) -> Observations:
    """Return all entries; of one that is in both the new label counts."""
    rows, columns = (np.concatenate(pair) for pair in zip(new, old, strict=True))
    labels = np.concatenate([new_labels, old_labels])
    # The first of equal ones is kept, and new ones come first.
    _, first = np.unique(rows * axes.columns.size + columns, return_index=True)
    return Observations._trusted(Checked(rows[first], columns[first], labels[first], axes))


def _rows_of(entries: Observations, places: Positions) -> Observations:
    """Return the entries of some rows, as a matrix of these rows."""
    number = np.full(entries.shape[0], -1)
    number[places] = np.arange(places.size)
    here = number[entries.rows] >= 0
    axes = Axes(Axis(entries.axes.rows.name, places.size), entries.axes.columns)
    return Observations._trusted(
        Checked(number[entries.rows[here]], entries.columns[here], entries.labels[here], axes)
    )


def _stacked(above: tuple[Array, Array], below: tuple[Array, Array]) -> tuple[Array, Array]:
    factors, intercepts = (np.concatenate(pair) for pair in zip(above, below, strict=True))
    return factors, intercepts


def _joined(ids: Any, more: Any) -> Any:
    """Return ids of both, as objects where their types differ: NumPy would make 1 and "1" the same id."""
    if ids.dtype.kind != more.dtype.kind:
        ids, more = ids.astype(object), more.astype(object)
    return np.concatenate([ids, more])


def _inserted(parts: Array, place: int, n: int) -> Array:
    """Return the parts with n rows of zeros at a place."""
    zeros = np.zeros((n, *parts.shape[1:]), dtype=parts.dtype)
    return np.concatenate([parts[:place], zeros, parts[place:]])
