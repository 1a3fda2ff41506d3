"""Cold start: rows and columns without entries have factors from their side features alone.

In a fit, rows with entries leave little for the coefficients of their features to explain. A row without entries has
only its features ``f_i = (1, features)``, and its factors are a linear map of them:

    Z = argmin  sum over observed entries of the loss at  x_ij = f_i' Z (v_j, 1) + c_j + b,  plus  l2 / 2 |Z|^2

The other side is fixed; own parts and implicit features are left out. Factors of the other side have seen the entries
that the map is fitted to, which would make it overconfident. Rows are therefore divided into folds, and the entries of
a fold meet factors that were solved for without them. Two held-out folds choose ``l2``.

A regression of each column on the features, shrunk towards the map, may add to it:

    d_j = argmin  sum over observed entries of column j of the loss at  x_ij = f_i' (C_j + d_j),  plus  d_j' R d_j / 2

with ``C_j`` the coefficients that the map gives column j. The same held-out folds choose R, and whether to use it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from tribit.backends.rows import solve_free_rows
from tribit.data.features import Group, SideFeatures
from tribit.data.observations import Observations
from tribit.data.weights import weights_at
from tribit.errors import TribitWarning, warn
from tribit.folding.new_rows import predicted_by_features
from tribit.folding.row_solver import RowSolver, bare_rows
from tribit.metrics.entries import losses
from tribit.model.design import Design
from tribit.model.factors import Factors
from tribit.model.features import FeatureRegression, mask_of, side_design
from tribit.model.fitted import Fitted, Member
from tribit.model.links import Label, Link
from tribit.model.risks import Risk
from tribit.selection.significance import mean_difference

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]

#: Folds of rows, and the held-out ones, which choose the ridges.
FOLDS, HELD_OUT = 5, (0, 1)
#: Ridge weights that are tried, in units of four times the link's curvature at 0. On ML-100k, seeds 10 to 13, the
#: regressions of cold items are best at 30 and those of cold users at 300 to 1000.
RIDGE_WEIGHTS = (1000.0, 300.0, 100.0, 30.0)
#: Standard errors, over held-out rows, by which a weaker ridge of the map must gain. With any gain at all cold users of
#: ML-100k (seeds 10 to 13) had 300 where 1000 is better by .001 to .003 of log-loss; for cold items 100 is best.
MIN_GAIN_IN_STANDARD_ERRORS = 2.0
#: Ridge weight of the map's constant, which only keeps it finite.
MAP_CONSTANT_RIDGE = 1e-3
#: Ridge weight of a regression's constant, the column's own level; from 3 to 30 the same data show no difference.
REGRESSION_CONSTANT_RIDGE = 10.0
#: Most features of a regression: its coefficients are a dense array with one number a column and feature.
MAX_REGRESSION_FEATURES = 200
#: Most entries of a cluster that are fetched for the maps. Each is stored with the factors that it meets: at rank 32 in
#: single precision 280 MB, as much as the factors of a million rows in double precision.
MAX_FETCHED_ENTRIES = 2_000_000
#: Most iterations of L-BFGS.
MAX_ITERATIONS = 60
#: Fewest likes, and fewest dislikes, with which a map is fitted.
MIN_ENTRIES_PER_LABEL = 20


def curvature_unit(link: Link) -> float:
    """Return four times the link's curvature at 0: the unit of ridge weights, 1 for the logistic link of scale 1."""
    return 4.0 * float(link.second(np.zeros(1), 1)[0])


def fit_feature_regression(
    entries: Observations,
    G: Array,
    number: Places,
    trials: Sequence[Array],
    centre: Array,
    link: Link,
    n_jobs: int,
) -> Array | None:
    """Return ``d_j`` of each column; None where it does not lower the loss of held-out entries.

    Parameters
    ----------
    entries : Observations
        The entries of the fit.
    G : array of shape (n_rows, 1 + n_features)
        ``f_i``.
    number : array of int
        The fold of each entry.
    trials : sequence of array of shape (n_columns, 1 + n_features)
        ``C_j`` without each of the folds ``HELD_OUT``.
    centre : array of shape (n_columns, 1 + n_features)
        ``C_j`` of the fit to all entries.
    """
    parts = [
        (entries.select(number != fold).transpose(), entries.select(number == fold), trial)
        for fold, trial in zip(HELD_OUT, trials, strict=True)
    ]
    unit = curvature_unit(link)
    nothing = np.zeros(G.shape[0])

    def solve(part: Observations, at: Array, weight: float) -> Array:
        ridge = np.full(G.shape[1], unit * weight)
        ridge[0] = unit * REGRESSION_CONSTANT_RIDGE
        return solve_free_rows(part, G, nothing, at, ridge, link, n_jobs)

    def loss(weight: float) -> float:
        total = 0.0
        for rest, test, trial in parts:
            C = solve(rest, trial, weight) if np.isfinite(weight) else trial
            x = np.einsum("ij,ij->i", G[test.rows], C[test.columns])
            total += float(np.average(losses(link, x, test.labels), weights=test.weights))
        return total

    best, least = None, loss(np.inf)
    for weight in RIDGE_WEIGHTS:
        found = loss(weight)
        if found < least:
            best, least = weight, found
        elif best is not None:
            break
    if best is None:
        return None
    return np.asarray(solve(entries.transpose(), centre, best) - centre)


class ColdMap(NamedTuple):
    """Z, and ``C_j`` of each column (:func:`column_coefficients`) without the rows of each held-out fold."""

    Z: Array
    trials: tuple[Array, ...]


def column_coefficients(Z: Array, factors: Factors) -> Array:
    """Return ``C_j`` of each column, the coefficients of ``x_ij = f_i' C_j`` that follow from the map."""
    C = factors.column_factors @ Z[:, :-1].T + Z[:, -1]
    C[:, 0] += factors.intercept + factors.column_intercepts
    return np.asarray(C)


def assign_folds(entries: Observations, draws: np.random.Generator) -> Places | None:
    """Return the fold of each entry, one for all entries of a row; None on little data."""
    seen = np.unique(entries.rows)
    if min(entries.n_likes, entries.n_dislikes) < MIN_ENTRIES_PER_LABEL or seen.size < FOLDS:
        return None
    fold = np.zeros(entries.shape[0], dtype=np.int64)
    fold[draws.permutation(seen)] = np.arange(seen.size) % FOLDS
    return np.asarray(fold[entries.rows])


def fit_cold_map(
    solver: RowSolver,
    entries: Observations,
    design: Design,
    number: Places,
    check_time: Callable[[], None] = lambda: None,
) -> ColdMap:
    """Return Z, with a row for each feature and a column for each latent factor and the intercept.

    Parameters
    ----------
    solver : RowSolver
        The fitted model; its rows have the features.
    entries : Observations
        The entries of the fit.
    design : Design
        The side features of the rows.
    number : array of int
        The fold of each entry (:func:`assign_folds`).
    check_time : callable
        Called repeatedly; raises an error when time is over.
    """
    against, offsets, without = _cross_fit_factors(solver, entries, number, check_time)
    link = solver.member.spec.link
    unit = curvature_unit(link)

    def fit(chosen: NDArray[np.bool_], l2: float, start: Array | None) -> Array:
        part = entries.select(chosen)
        return _fit_map(link, part, design, against[chosen], offsets[chosen], l2, start, check_time)

    kept = entries.select(np.isin(number, HELD_OUT))
    counts = np.bincount(kept.rows, kept.weights, minlength=design.size)
    tested = np.flatnonzero(counts)
    best, least = RIDGE_WEIGHTS[0], np.zeros(tested.size)
    maps: list[Array | None] = [None] * len(HELD_OUT)
    best_maps: list[Array] = []
    for weight in RIDGE_WEIGHTS:
        maps, row_losses = list(maps), np.zeros(design.size)
        for place, part in enumerate(HELD_OUT):
            test = number == part
            maps[place] = Z = fit(~test, unit * weight, maps[place])
            here = entries.select(test)
            x = offsets[test] + np.einsum("ij,ij->i", design.predict(Z)[here.rows], against[test])
            lost = losses(link, x, here.labels) * here.weights_or_ones
            row_losses += np.bincount(here.rows, lost, minlength=design.size)
        found = row_losses[tested] / counts[tested]
        if best_maps:
            gain, error = mean_difference(least, found, counts[tested].astype(np.float64))
            if not gain > MIN_GAIN_IN_STANDARD_ERRORS * error:
                break
        best, least, best_maps = weight, found, [Z for Z in maps if Z is not None]
    Z = fit(np.ones(number.size, dtype=bool), unit * best, best_maps[0])
    trials = tuple(column_coefficients(Z, each) for Z, each in zip(best_maps, without, strict=True))
    return ColdMap(Z, trials)


def _cross_fit_factors(
    solver: RowSolver, entries: Observations, number: Places, check_time: Callable[[], None]
) -> tuple[Array, Array, list[Factors]]:
    """Return ``(v_j, 1)`` and ``b + c_j`` for each entry, solved without the rows of its fold.

    The third value has the factors without each held-out fold.
    """
    factors = solver.member.factors
    k, dtype = factors.rank, factors.column_factors.dtype
    against, offsets = np.empty((number.size, k + 1), dtype=dtype), np.empty(number.size)
    columns = RowSolver(solver.member.transposed, solver.risk, solver.n_jobs)
    everywhere = np.arange(columns.member.shape[0])
    without = []
    for part in range(FOLDS):
        check_time()
        met = number == part
        rest = entries.select(~met).transpose()
        shared = _shared_without(columns.member, entries, rest)
        found = columns.solve(rest, shared)
        again = columns.member.with_rows_at(everywhere, found, shared).factors
        j = entries.columns[met]
        against[met, :k], against[met, k] = again.row_factors[j], 1.0
        offsets[met] = again.intercept + again.row_intercepts[j]
        if part in HELD_OUT:
            without.append(again.transposed)
    return against, offsets, without


def _shared_without(
    columns: Member, entries: Observations, rest: Observations
) -> tuple[Array, Array]:
    """Return the contribution of features to the columns, implicit ones from the remaining entries."""
    side = columns.fitted_side_terms(entries.transpose())
    implicit = columns.implicit_terms(mask_of(rest))
    return implicit[0] + side[0], implicit[1] + side[1]


def _fit_map(
    link: Any,
    entries: Observations,
    design: Design,
    against: Array,
    offsets: Array,
    l2: float,
    start: Array | None,
    check_time: Callable[[], None] = lambda: None,
) -> Array:
    """Return ``argmin_Z``, by L-BFGS."""
    shape = 1 + design.n_coefficients - design.size, against.shape[1]
    ridge = np.full((shape[0], 1), l2)
    ridge[0] = MAP_CONSTANT_RIDGE
    rows, weights = entries.rows, entries.weights
    labelled: list[tuple[Label, Places]] = [
        (label, np.flatnonzero(entries.labels == label)) for label in (1, -1)
    ]
    # Entries are sorted by rows, so that sums over the entries of a row are sums of runs.
    runs = np.arange(rows.size), np.searchsorted(rows, np.arange(design.size + 1))

    def value_and_gradient(z: Array) -> tuple[float, Array]:
        check_time()
        Z = z.reshape(shape)
        met = design.predict(Z).astype(against.dtype)
        x = offsets + np.einsum("ij,ij->i", met[rows], against)
        loss, slope = 0.0, np.empty_like(x, dtype=against.dtype)
        for label, here in labelled:
            own = weights_at(weights, here)
            lost, slope[here] = link.loss(x[here], label), link.first(x[here], label)
            loss += float(np.sum(lost if own is None else lost * own))
            slope[here] *= 1.0 if own is None else own
        of_rows = sp.csr_array((slope, *runs), shape=(design.size, rows.size)) @ against
        shared = (block.transposed_times(of_rows) for block in design.blocks)
        gradient = np.vstack([np.sum(of_rows, axis=0), *shared]) + ridge * Z
        return loss + 0.5 * float(np.sum(ridge * Z**2)), gradient.ravel()

    first = np.zeros(shape) if start is None else start
    function: Callable[..., Any] = value_and_gradient
    found = minimize(
        function,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_ITERATIONS, "ftol": 1e-6},
    )
    return np.asarray(found.x.reshape(shape))


def with_cold_maps(
    fitted: Fitted,
    observations: Observations,
    side: SideFeatures,
    draws: np.random.Generator,
    n_jobs: int,
    max_time: float | None = None,
) -> Fitted:
    """Return a fit with maps from features to factors for rows and columns without entries.

    Raises
    ------
    TimeoutError
        After ``max_time`` seconds.
    """
    seen = observations.here_if_few(MAX_FETCHED_ENTRIES)
    if seen is None:
        warn(
            TribitWarning(
                f"No map from features to factors was learned, as the cluster has {len(observations)} entries, "
                f"more than the {MAX_FETCHED_ENTRIES} that one machine fetches: rows and columns without entries have "
                "only what their features add to factors; fit on one machine to have it."
            ),
        )
        return fitted
    end = np.inf if max_time is None else time.perf_counter() + max_time

    def check_time() -> None:
        if time.perf_counter() > end:
            raise TimeoutError

    regressions: list[FeatureRegression | None] = [None, None]
    for number, groups in enumerate(side):
        if groups:
            entries = seen.transpose() if number else seen
            turned = fitted.transposed if number else fitted
            turned, regressions[number] = _fit_one_side(
                turned, entries, groups, draws, n_jobs, check_time
            )
            fitted = turned.transposed if number else turned
    return replace(fitted, feature_regressions=(regressions[0], regressions[1]))


def _fit_one_side(
    fitted: Fitted,
    entries: Observations,
    groups: tuple[Group, ...],
    draws: np.random.Generator,
    n_jobs: int,
    check_time: Any,
) -> tuple[Fitted, FeatureRegression | None]:
    """Return a fit with its maps and the factors of rows without entries, and the regression of the mean."""
    number = assign_folds(entries, draws)
    if number is None:
        return fitted, None
    design = side_design(groups, entries.shape[0])
    members, risk = fitted.members, Risk(1.0, 0.0, 0.0)  # side features exist under PN alone
    maps = [
        fit_cold_map(RowSolver(each, risk, n_jobs), entries, design, number, check_time)
        for each in members
    ]
    found = replace(
        fitted,
        members=tuple(
            _with_map(member, each.Z, entries, groups)
            for member, each in zip(members, maps, strict=True)
        ),
    )
    if design.n_coefficients - design.size > MAX_REGRESSION_FEATURES:
        return found, None
    check_time()
    G = design.dense()
    own = fit_feature_regression(
        entries,
        G,
        number,
        np.mean([each.trials for each in maps], axis=0),
        np.mean(
            [
                column_coefficients(each.Z, member.factors)
                for member, each in zip(members, maps, strict=True)
            ],
            axis=0,
        ),
        fitted.spec.link,
        n_jobs,
    )
    if own is None:
        return found, None
    dtype = members[0].factors.row_factors.dtype
    features = np.where(bare_rows(entries, groups)[:, None], G, 0.0)
    return found, FeatureRegression(features.astype(dtype), own.astype(dtype))


def _with_map(member: Member, Z: Array, entries: Observations, groups: tuple[Group, ...]) -> Member:
    """Return a member with its map, and with the predicted factors of rows without entries."""
    member = replace(member, maps=(replace(member.maps[0], cold_start=Z), member.maps[1]))
    U, a = member.factors.row_factors, member.factors.row_intercepts
    own, own_a = member.unknowns.row_factors[: len(U)], member.unknowns.row_intercepts[: len(U)]
    bare = np.flatnonzero(bare_rows(entries, groups))
    found = predicted_by_features(member, (U, a), entries, groups)
    return member.with_rows_at(
        bare, (found[0][bare], found[1][bare]), ((U - own)[bare], (a - own_a)[bare])
    )
