"""Fold-in of new rows, and updates with new entries; see :mod:`tribit.folding`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from tribit.backends.threads import count_jobs
from tribit.checks import check_choice
from tribit.data.axis import Axes, Axis, Positions, check_new, first_true, longer, quoted_id
from tribit.data.features import Group, table_axis
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.data.times import times_at
from tribit.data.weights import weights_at
from tribit.errors import (
    InvalidInputError,
    TribitWarning,
    UnknownIdError,
    UnknownIdWarning,
    parameter,
    quoted,
    warn,
    where_possible,
)
from tribit.folding.row_solver import RowSolver, bare_rows
from tribit.model.factors import Factors
from tribit.model.features import mask_of, side_design, with_feature_regressions
from tribit.model.fitted import Fitted, Member, Pair, update_feature_regressions
from tribit.model.risks import Risk
from tribit.model.scores import Scores


def new_axis(ours: Axis, theirs: Axis) -> Axis:
    """Return the axis of their rows that are not ours; without ids, of those beyond our last one."""
    if ours.ids is None or theirs.ids is None:
        if ours.ids is not theirs.ids:
            check_new(ours, theirs)
        return Axis(ours.name, max(theirs.size - ours.size, 0))
    new = ours.match(theirs, "the new entries have", "give the same ids") < 0
    return Axis(ours.name, int(np.count_nonzero(new)), theirs.ids[new])


def place_entries(
    entries: Observations, rows: Positions, columns: Positions, of_rows: Axis, of_columns: Axis
) -> Observations:
    """Return entries at other positions, as a matrix with these axes."""
    order = np.lexsort((columns, rows))
    axes = Axes(of_rows, of_columns)
    return Observations.from_checked(
        Checked(
            rows[order],
            columns[order],
            entries.labels[order],
            axes,
            weights=weights_at(entries.weights, order),
            times=times_at(entries.times, order),
        )
    )


def merge_entries(
    old: tuple[Positions, Positions],
    before: Observations,
    new: tuple[Positions, ...],
    given: Observations,
    axes: Axes,
) -> Observations:
    """Return old and new entries together, by their positions; a new label, weight and time replace the old ones.

    Times are kept where both have them.
    """
    rows, columns = (np.concatenate(pair) for pair in zip(new, old, strict=True))
    labels = np.concatenate([given.labels, before.labels])
    weights = None
    if given.weights is not None or before.weights is not None:
        weights = np.concatenate([given.weights_or_ones, before.weights_or_ones])
    times = None
    if given.times is not None and before.times is not None:
        times = np.concatenate([given.times, before.times])
    # The first of equal entries stays, and new ones come first.
    _, first = np.unique(rows * axes.columns.size + columns, return_index=True)
    merged = Checked(rows, columns, labels, axes, weights=weights, times=times)
    return Observations.from_checked(merged.at(first))


def select_rows(entries: Observations, places: Positions) -> Observations:
    """Return the entries of some rows, as a matrix of these rows alone."""
    counts = entries.counts[0]
    lengths, ends = counts[places], np.cumsum(counts)
    # Entries are in the order of their rows: those of each row follow its first one.
    first = ends[places] - lengths - (np.cumsum(lengths) - lengths)
    here = np.repeat(first, lengths) + np.arange(int(lengths.sum()))
    axes = Axes(Axis(entries.axes.rows.name, places.size), entries.axes.columns)
    return Observations.from_checked(
        Checked(
            np.repeat(np.arange(places.size), lengths),
            entries.columns[here],
            entries.labels[here],
            axes,
            weights=weights_at(entries.weights, here),
            times=times_at(entries.times, here),
        )
    )


def empty_observations(rows: Axis, columns: Axis) -> Observations:
    """Return a matrix without entries."""
    none = np.zeros(0, dtype=np.int64)
    return Observations.from_checked(
        Checked(none, none, np.zeros(0, dtype=np.int8), Axes(rows, columns))
    )


def combine_entries(
    old: Observations, given: Observations | None, axes: Axes, new: int | None = None
) -> Observations:
    """Return old and given entries in the axes of a model with both; a given label replaces an old one.

    Without ids, given entries have the model's positions, except on the axis ``new`` (0 for rows, 1 for columns), whose
    positions start after those of the old entries.
    """
    places = old.rows, old.columns
    if given is None:
        return place_entries(old, *places, *axes)
    theirs = []
    for number, (axis, before, side, at) in enumerate(
        zip(axes, old.axes, given.axes, (given.rows, given.columns), strict=True)
    ):
        if axis.ids is None:
            theirs.append(at + before.size if number == new else at)
        else:
            theirs.append(axis.match(side, "the new entries have", "give the same ids")[at])
    return merge_entries(places, old, tuple(theirs), given, axes)


AXES = ("rows", "columns")
#: Multiples of the ridge on factors and on biases. The columns have adapted to the entries of the rows of a fit, and
#: not to those of a later row: its factors need less shrinkage, and its bias, of large variance, more. Chosen on new
#: users of ML-100k, seeds 10 to 17: log-loss -.0025 +- .0006 with 5 entries given, -.0024 +- .0006 with 20, -.0010 +-
#: .0005 with all but 10.
PRIORS = {"fit": (1.0, 1.0), "new": (0.6, 1.5)}


def fold_in(
    fitted: Fitted,
    entries: Observations | None = None,
    *,
    axis: str = "rows",
    prior: str = "fit",
    row_features: object = None,
    column_features: object = None,
    n_jobs: int | None = None,
) -> Fitted:
    """Return a fit with new rows (or columns) added; see :meth:`tribit.BinaryMatrixCompletion.fold_in`.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.folding import fold_in
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> fold_in(model.fitted_, Observations.from_matrix([[1, -1]])).axes.shape
    (3, 2)
    """
    check_choice("axis", axis, AXES)
    check_choice("prior", prior, PRIORS)
    if axis == "columns":
        given = None if entries is None else entries.transpose()
        return _with_rows(
            fitted.transposed, given, (column_features, row_features), prior, n_jobs
        ).transposed
    return _with_rows(fitted, entries, (row_features, column_features), prior, n_jobs)


#: Source and advice of an error about entries of new rows that are not in the columns of the model.
SAME_COLUMNS = ("the entries have", "pass entries of the same matrix")


def entries_at_known(
    given: Observations, ours: Axes, unknown: str = "skip", axis: str = "rows"
) -> Observations:
    """Return the entries of new rows in known columns (of new columns in known rows).

    Others are left out with a warning, or an error if ``unknown`` is "error".
    """
    side = 1 - AXES.index(check_choice("axis", axis, AXES))
    check_choice("unknown", unknown, ("skip", "error"))
    known, theirs, at = ours[side], given.axes[side], (given.rows, given.columns)[side]
    lost = known.match(theirs, *SAME_COLUMNS)[at] < 0
    if (first := first_true(lost)) is None:
        return given
    stranger = theirs.names(at[first : first + 1]).tolist()[0]
    near = known.suggestion(stranger)
    advice = near or f"add it with fold_in(..., axis='{known.name}s'), or use update."
    if unknown == "error" or str(stranger) in known.by_text:  # an id of another type is a mistake
        raise UnknownIdError(
            f"The {known.name} {quoted(stranger)} is unknown to the model; {advice}"
        )
    n = int(np.count_nonzero(lost))
    warn(
        UnknownIdWarning(
            f"{n} of the {len(given)} entries {'has' if n == 1 else 'have'} a {known.name} that the model was not "
            f"fitted on, such as {quoted(stranger)}{near and f' ({near})'}: {'it is' if n == 1 else 'they are'} left "
            f"out{where_possible(' ({} refuses unknown ids)', 'unknown', 'error')}."
        )
    )
    here = np.flatnonzero(~lost)
    return given.take(here) if here.size else empty_observations(*given.axes)


def _with_rows(
    fitted: Fitted,
    given: Observations | None,
    tables: tuple[Any, Any],
    prior: str,
    n_jobs: int | None,
) -> Fitted:
    ours, (features, other) = fitted.axes, tables
    if other is not None:
        raise InvalidInputError(
            f"{ours.columns.name}_features do not apply to new {ours.rows.name}s: pass {ours.rows.name}_features."
        )
    _check_features(fitted, features)
    risks = fitted.row_risks()
    if given is None:
        given = empty_observations(table_axis(features, ours.rows), ours.columns)
    new = replace(given.axes.rows, name=ours.rows.name)
    check_new(ours.rows, new)
    given = entries_at_known(given, ours, "error")
    columns = ours.columns.match(given.axes.columns, *SAME_COLUMNS)
    entries = place_entries(given, given.rows, columns[given.columns], new, ours.columns)
    warn_of_unknown_rows(entries, features, ours.columns.name)
    groups = fitted.members[0].maps[0].groups(new, features)
    jobs = count_jobs(n_jobs)
    scales = PRIORS[prior]
    members = tuple(
        each.with_new_rows(
            *_solve_new_rows(RowSolver(each, risk, jobs), entries, features, groups, scales)
        )
        for each, risk in zip(fitted.members, risks, strict=True)
    )
    of_rows, of_columns = fitted.feature_regressions
    if of_rows is not None:
        bare = bare_rows(entries, groups)[:, None]
        of_rows = of_rows.with_rows(bare * side_design(groups, new.size).dense())
    if of_columns is not None:
        of_columns = of_columns.with_columns(new.size)
    axes = ours._replace(rows=longer(ours.rows, new))
    return replace(
        fitted.with_axes(axes), members=members, feature_regressions=(of_rows, of_columns)
    )


def _solve_new_rows(
    solver: RowSolver,
    entries: Observations,
    features: object,
    groups: tuple[Group, ...],
    scales: tuple[float, float],
) -> tuple[Pair, Pair]:
    """Return factors and biases of new rows, and the contribution of features to them."""
    member, new = solver.member, entries.axes.rows
    if features is None:  # no design of all columns
        shared = member.implicit_terms(mask_of(entries))
        return solver.solve(entries, shared, scales), shared
    shared = member.feature_terms(member.maps[0].design(mask_of(entries), new, features))
    found = solver.solve(entries, shared, scales)
    return predicted_by_features(member, found, entries, groups), shared


def predicted_by_features(
    member: Member, found: Pair, entries: Observations, groups: tuple[Group, ...]
) -> Pair:
    """Return factors and biases, those of rows with features and no entries by the map of a cold start."""
    cold = member.maps[0].cold_start
    if cold is None:
        return found
    bare = bare_rows(entries, groups)
    U, a = (each.copy() for each in found)
    mapped_rows = side_design(groups, bare.size).predict(cold)[bare]
    U[bare], a[bare] = mapped_rows[:, :-1], mapped_rows[:, -1]
    return U, a


def update(
    fitted: Fitted,
    given: Observations,
    before: Observations,
    *,
    row_features: object = None,
    column_features: object = None,
    n_jobs: int | None = None,
) -> Fitted:
    """Return a fit updated with new entries; see :meth:`tribit.BinaryMatrixCompletion.update`.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.folding import update
    >>> seen = Observations.from_matrix([[1, -1, 0], [-1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(seen)
    >>> later = Observations.from_pairs([0], [2], [1], shape=(2, 3))
    >>> update(model.fitted_, later, seen).axes.shape
    (2, 3)
    """
    risks = zip(fitted.row_risks(), fitted.transposed.row_risks(), strict=True)
    ours = fitted.axes
    old = ours.places(before, "the seen entries have", "pass the entries of the fit")
    if any((side < 0).any() for side in old):
        raise InvalidInputError(
            "The seen entries have rows or columns that the model does not know; pass the entries of the fit."
        )
    new = [new_axis(axis, theirs) for axis, theirs in zip(ours, given.axes, strict=True)]
    axes = Axes(*(longer(axis, more) for axis, more in zip(ours, new, strict=True)))
    places = tuple(
        axis.match(theirs, "the new entries have", "give the same ids")[at]
        if axis.ids is not None
        else at
        for axis, theirs, at in zip(axes, given.axes, (given.rows, given.columns), strict=True)
    )
    entries = merge_entries(old, before, places, given, axes)
    touched = [np.unique(side) for side in places]
    earlier = place_entries(before, *old, *ours)
    tables = row_features, column_features
    for turned, table in zip((fitted, fitted.transposed), tables, strict=True):
        _check_features(turned, table)
    jobs = count_jobs(n_jobs)
    members = tuple(
        _Update(pair, jobs, entries, new, touched).apply(each, earlier, tables)
        for each, pair in zip(fitted.members, risks, strict=True)
    )
    regressions = update_feature_regressions(fitted.feature_regressions, new, touched)
    return replace(fitted.with_axes(axes), members=members, feature_regressions=regressions)


@dataclass(frozen=True)
class _Update:
    """New rows and columns, those with new entries, and a member's risks of rows and of columns."""

    risks: tuple[Risk, Risk]
    n_jobs: int
    entries: Observations
    new: list[Axis]
    touched: list[Positions]

    def apply(self, member: Member, earlier: Observations, tables: tuple[Any, Any]) -> Member:
        """Return a member with the new rows and columns, and those with new entries, solved again."""
        added = []
        # First: side features are not stored, but their terms follow from the factors of the fit.
        for side, seen in enumerate((earlier, earlier.transpose())):
            turned = member.transposed if side else member
            by_side = (
                turned.fitted_side_terms(seen),
                turned.side_terms(self.new[side], tables[side]),
            )
            added.append([np.concatenate(pair) for pair in zip(*by_side, strict=True)])
        for side in (0, 1):
            turned = member.transposed if side else member
            nothing = sp.csr_array((self.new[side].size, turned.shape[1]))
            design = turned.maps[0].design(nothing, self.new[side], tables[side])
            shared = turned.feature_terms(design)
            turned = turned.with_new_rows(shared, shared)
            member = turned.transposed if side else turned
        for side in (0, 1, 0):
            turned = member.transposed if side else member
            seen = self.entries.transpose() if side else self.entries
            here = self.touched[side]
            some = select_rows(seen, here)
            implicit = turned.implicit_terms(mask_of(some))
            shared = (
                implicit[0] + added[side][0][here],
                implicit[1] + added[side][1][here],
            )
            solver = RowSolver(turned, self.risks[side], self.n_jobs)
            turned = turned.with_rows_at(here, solver.solve(some, shared), shared)
            member = turned.transposed if side else turned
        return member


def _check_features(fitted: Fitted, table: object) -> None:
    """Raise an error for features that the model does not use."""
    if table is not None and fitted.members[0].maps[0].encoder is None:
        name = fitted.axes.rows.name
        raise InvalidInputError(
            f"The model was fitted without {parameter(f'{name}_features')} and cannot use those of new {name}s: "
            "leave them out, or fit it with features."
        )


def warn_of_unknown_rows(entries: Observations, features: object, other: str) -> None:
    """Warn about rows without entries or features, which the biases of the columns alone predict."""
    if features is not None:
        return
    bare = np.flatnonzero(entries.counts[0] == 0)
    if not bare.size:
        return
    axis = entries.axes.rows
    warn(
        TribitWarning(
            f"{bare.size} of the new {axis.name}s, such as {quoted_id(axis.ids, bare[0])}, have no entries and no "
            f"features: their predictions are all the same, from the biases of the {other}s alone."
        ),
    )


def factors_of_new_rows(
    fitted: Fitted,
    given: Observations,
    features: object = None,
    *,
    prior: str = "new",
    n_jobs: int | None = None,
) -> Factors:
    """Return the factors with new rows alone, equal to those of :func:`fold_in`, at the cost of these rows."""
    _check_features(fitted, features)
    columns = fitted.axes.columns
    at = columns.match(given.axes.columns, *SAME_COLUMNS)
    entries = place_entries(given, given.rows, at[given.columns], given.axes.rows, columns)
    groups = (
        () if features is None else fitted.members[0].maps[0].groups(entries.axes.rows, features)
    )
    jobs = count_jobs(n_jobs)
    found = []
    for member, risk in zip(fitted.members, fitted.row_risks(), strict=True):
        solver = RowSolver(member, risk, jobs)
        (U, a), _ = _solve_new_rows(solver, entries, features, groups, PRIORS[prior])
        dtype = member.factors.row_factors.dtype
        found.append(
            replace(member.factors, row_factors=U.astype(dtype), row_intercepts=a.astype(dtype))
        )
    return Factors.mean_of(found, [each.weight for each in fitted.members])


def scores_of_new_rows(
    fitted: Fitted, entries: Observations, *, prior: str = "new", n_jobs: int | None = None
) -> Scores:
    """Return the scores of new rows alone, equal to those of :func:`fold_in`, at the cost of these rows."""
    mean = factors_of_new_rows(fitted, entries, prior=prior, n_jobs=n_jobs)
    rows, columns = fitted.feature_regressions
    n = entries.shape[0]
    regressions = (
        None if rows is None else replace(rows, features=np.zeros((n, rows.own.shape[1]))),
        None if columns is None else replace(columns, own=np.zeros((n, columns.own.shape[1]))),
    )
    return Scores(
        entries.axes,
        with_feature_regressions(mean, regressions),
        fitted.spec.link,
        fitted.calibrator,
        horizon=fitted.horizon,
    )
