"""Rows and columns of a fit that have features and no entries: maps and slopes are learned, and give their answers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.data.side_features import Group, SideFeatures
from tribit.errors import TribitWarning, warn
from tribit.folding.cold import cold_map, folds, slopes_of
from tribit.folding.half import Half, bare_rows
from tribit.folding.new_rows import halves_of, set_halves
from tribit.folding.slopes import MOST, dense, own_slopes
from tribit.model.features import side_design
from tribit.model.slopes import Slopes

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion

Array = NDArray[np.floating[Any]]

#: Most entries on a cluster that come to this machine for the maps. Each has the factors that it meets beside it: with
#: 32 of them in single precision these are 280 MB, as much as the factors of a million rows in double precision.
MOST_HERE = 2_000_000


def with_cold_maps(
    model: BinaryMatrixCompletion,
    observations: Observations,
    side: SideFeatures,
    draws: np.random.Generator,
    max_time: float | None = None,
) -> None:
    """Give a fitted model the maps from features to factors, and rows and columns without entries their factors.

    Raises
    ------
    TimeoutError
        After ``max_time`` seconds; the model is as it was then.
    """
    if isinstance(observations, RemoteObservations):
        if len(observations) > MOST_HERE:
            warn(
                TribitWarning(
                    f"No map from features to factors was learned, as the cluster has {len(observations)} entries and "
                    f"{MOST_HERE} at most come to this machine for it: rows and columns without entries have no more "
                    "than what their features add to factors; fit on one machine to have it."
                ),
            )
            return
        observations = observations.here()
    end = np.inf if max_time is None else time.perf_counter() + max_time

    def check_time() -> None:
        if time.perf_counter() > end:
            raise TimeoutError

    halves = halves_of(model)
    slopes: list[Slopes | None] = [None, None]
    for number, groups in enumerate(side):
        if groups:
            entries = observations.transpose() if number else observations
            turned = [each.transposed for each in halves] if number else halves
            turned, slopes[number] = _of_one_side(turned, entries, groups, draws, check_time)
            halves = [each.transposed for each in turned] if number else turned
    set_halves(model, halves, (slopes[0], slopes[1]))


def _of_one_side(
    halves: list[Half],
    entries: Observations,
    groups: tuple[Group, ...],
    draws: np.random.Generator,
    check_time: Any,
) -> tuple[list[Half], Slopes | None]:
    """Return each fit with its map and with the rows that it answers, and the slopes of their mean."""
    number = folds(entries, draws)
    if number is None:
        return halves, None
    design = side_design(groups, entries.shape[0])
    maps = [cold_map(half, entries, design, number, check_time) for half in halves]
    found = [
        _answered(half, each.Z, entries, groups) for half, each in zip(halves, maps, strict=True)
    ]
    if design.n_parts - design.size > MOST:
        return found, None
    check_time()
    G = dense(design)
    own = own_slopes(
        entries,
        G,
        number,
        np.mean([each.trials for each in maps], axis=0),
        np.mean(
            [slopes_of(each.Z, half.factors) for half, each in zip(halves, maps, strict=True)],
            axis=0,
        ),
        halves[0].spec.link,
        halves[0].n_jobs,
    )
    if own is None:
        return found, None
    dtype = halves[0].factors.row_factors.dtype
    features = np.where(bare_rows(entries, groups)[:, None], G, 0.0)
    return found, Slopes(features.astype(dtype), own.astype(dtype))


def _answered(half: Half, Z: Array, entries: Observations, groups: tuple[Group, ...]) -> Half:
    """Return a fit with its map, and rows without entries where the map puts them."""
    half = replace(half, maps=(replace(half.maps[0], cold=Z), half.maps[1]))
    U, a = half.factors.row_factors, half.factors.row_intercepts
    own, own_a = half.unknowns.row_factors[: len(U)], half.unknowns.row_intercepts[: len(U)]
    bare = np.flatnonzero(bare_rows(entries, groups))
    found = half.answered_by_features((U, a), entries, groups)
    return half.moved(bare, (found[0][bare], found[1][bare]), ((U - own)[bare], (a - own_a)[bare]))
