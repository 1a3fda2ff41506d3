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
            axes=self.axes._replace(rows=_longer(self.axes.rows, axis)),
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
    halves = halves_of(model)
    if axis == "columns":
        halves, given = [each.transposed for each in halves], given.transpose()
    ours, new = halves[0].axes, given.axes.rows
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
    _say_what_is_unknown(halves[0], entries, features)
    groups = halves[0].maps[0].groups(new, features)
    solved = [_with_rows(half, new, entries, features, groups) for half in halves]
    return _model_of(model, solved if axis == "rows" else [each.transposed for each in solved])


def _with_rows(
    half: Half, new: Axis, entries: Observations, features: Any, groups: tuple[Group, ...]
) -> Half:
    """Return one fit with new rows."""
    shared = half.shared(half.maps[0].design(mask_of(entries), new, features))
    places = half.axes.rows.size + np.arange(new.size)
    solved = half.extended(new, shared).solved(places, entries, shared)
    return solved.answered_by_features(places, entries, groups)


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
    halves = halves_of(model)
    ours = halves[0].axes
    old = ours.places(before, "the seen entries have", "pass what the model was fitted on")
    if any((side < 0).any() for side in old):
        raise InvalidInputError(
            "The seen entries have rows or columns that the model does not know; pass what it was fitted on."
        )
    new = [_new_of(axis, theirs) for axis, theirs in zip(ours, given.axes, strict=True)]
    axes = Axes(*(_longer(axis, more) for axis, more in zip(ours, new, strict=True)))
    places = tuple(
        axis.match(theirs, "the new entries have", "give the same ids")[at]
        if axis.ids is not None
        else at
        for axis, theirs, at in zip(axes, given.axes, (given.rows, given.columns), strict=True)
    )
    entries = _merged(old, before.labels, places, given.labels, axes)
    touched = [np.unique(side) for side in places]
    earlier = _placed(before, *old, *ours)
    tables = row_features, column_features
    return _model_of(
        model, [_updated(half, entries, earlier, new, touched, tables) for half in halves]
    )


def _updated(
    half: Half,
    entries: Observations,
    earlier: Observations,
    new: list[Axis],
    touched: list[Positions],
    tables: tuple[Any, Any],
) -> Half:
    """Return one fit with the touched rows and columns solved for again, new ones among them."""
    added = []
    # Before anything moves: side features themselves are not kept, but what they add to the rows of the fit is.
    for side, seen in enumerate((earlier, earlier.transpose())):
        turned = half.transposed if side else half
        by_side = turned.left_by_side(seen), turned.shared_by_side(new[side], tables[side])
        added.append([np.concatenate(pair) for pair in zip(*by_side, strict=True)])
    for side in (0, 1):
        turned = half.transposed if side else half
        nothing = sp.csr_array((new[side].size, turned.axes.columns.size))
        shared = turned.shared(turned.maps[0].design(nothing, new[side], tables[side]))
        turned = turned.extended(new[side], shared)
        half = turned.transposed if side else turned
    for side in (0, 1, 0):
        turned, seen = (half.transposed, entries.transpose()) if side else (half, entries)
        some = _rows_of(seen, touched[side])
        implicit = turned.shared_by_activity(mask_of(some))
        factors, intercepts = (
            part + by_side[touched[side]]
            for part, by_side in zip(implicit, added[side], strict=True)
        )
        turned = turned.solved(touched[side], some, (factors, intercepts))
        half = turned.transposed if side else turned
    return half


def halves_of(model: BinaryMatrixCompletion) -> list[Half]:
    """Return each fit of a model, with its rows as the side that changes."""
    specs = model.member_specs_
    complete = model.members_ and model.feature_maps_
    if not complete or (specs[0].implicit_features and model.feature_maps_[0][0].activity is None):
        raise InvalidInputError(
            "The model comes from a file of an earlier tribit, which does not keep all parts of its implicit features: "
            "fit it again."
        )
    if specs[0].mixed and model.imputed is not None:
        raise InvalidInputError(
            "The model was fitted with imputed, which knows nothing of new rows and columns: fit it again."
        )
    n_jobs = count_jobs(model.n_jobs)
    return [
        Half(
            unknowns.astype("float64"),
            factors.astype("float64"),
            maps,
            model._axes,
            spec,
            _risk(model, spec),
            n_jobs,
        )
        for unknowns, factors, maps, spec in zip(
            model.members_, model.member_factors_, model.feature_maps_, specs, strict=True
        )
    ]


def _risk(model: BinaryMatrixCompletion, spec: ModelSpec) -> Risk:
    """Return the risk of new rows: a model of the mask, which does not know them, gives its mean by column."""
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


def _model_of(model: BinaryMatrixCompletion, halves: list[Half]) -> Any:
    """Return a copy of a model with other factors."""
    again = copy(model)
    _set_halves(again, halves)
    return again


def _set_halves(model: BinaryMatrixCompletion, halves: list[Half]) -> None:
    model.member_factors_ = tuple(each.factors.astype(model.dtype) for each in halves)
    model._set_factors(Factors.mean_of(model.member_factors_))
    members = tuple(each.unknowns.astype(model.dtype) for each in halves)
    model._set_members(model.member_specs_, members)
    model.feature_maps_ = tuple(each.maps for each in halves)
    model._set_axes(halves[0].axes)


def with_cold_maps(
    model: BinaryMatrixCompletion,
    observations: Observations,
    side: SideFeatures,
    draws: np.random.Generator,
) -> None:
    """Give a fitted model the maps from features to factors, and rows and columns without entries their factors."""
    _set_halves(
        model, [_with_cold_maps(half, observations, side, draws) for half in halves_of(model)]
    )


def _with_cold_maps(
    half: Half, observations: Observations, side: SideFeatures, draws: np.random.Generator
) -> Half:
    """Return one fit with its maps, and with the rows and columns that these answer."""
    for number, groups in enumerate(side):
        if not groups:
            continue
        turned, entries = (
            (half.transposed, observations.transpose()) if number else (half, observations)
        )
        Z = cold_map(turned, entries, design_of(groups, entries.shape[0]), draws)
        turned = replace(turned, maps=(replace(turned.maps[0], cold=Z), turned.maps[1]))
        turned = turned.answered_by_features(np.arange(entries.shape[0]), entries, groups)
        half = turned.transposed if number else turned
    return half


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
    return Observations._trusted(Checked(rows[order], columns[order], entries.labels[order], axes))


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


def _longer(axis: Axis, more: Axis) -> Axis:
    """Return an axis with further rows; ids are objects where their types differ: NumPy would make 1 and "1" one id."""
    size, ids, new = axis.size + more.size, axis.ids, more.ids
    if ids is None or new is None:
        return Axis(axis.name, size, ids if not more.size else None)
    if ids.dtype.kind != new.dtype.kind:
        ids, new = ids.astype(object), new.astype(object)
    return Axis(axis.name, size, np.concatenate([ids, new]))


def _inserted(parts: Array, place: int, n: int) -> Array:
    """Return the parts with n rows of zeros at a place."""
    zeros = np.zeros((n, *parts.shape[1:]), dtype=parts.dtype)
    return np.concatenate([parts[:place], zeros, parts[place:]])
