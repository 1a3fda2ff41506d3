"""Designs of models on observations: the features of rows and of columns with their ridges, where a backend works."""

from __future__ import annotations

from typing import Any

from tribit.backends.base import Backend
from tribit.backends.layout import masks, shared
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.model.design import Design
from tribit.model.features import Features, activities, implicit_blocks, side_block
from tribit.model.spec import ModelSpec

#: Defaults of ``l2_implicit`` and ``l2_side`` as multiples of ``l2``.
IMPLICIT_SHARE = 1.7
SIDE_SHARE = 1.0


def features_of(
    spec: ModelSpec,
    observations: Observations,
    side: SideFeatures | None,
    backend: Backend | None = None,
) -> Features | None:
    """Return the features of a model on some observations, where a backend works; None where it has none."""
    if not (spec.implicit_features or spec.side_features):
        return None
    floor = spec.activity_floor if spec.implicit_features else None
    known = side if spec.side_features else None
    place = "cpu" if backend is None else backend.device
    # The features are kept beside what is made of them: their id stands for them as long as they live.
    _, designs = shared(
        observations,
        ("designs", place, floor, id(known)),
        lambda: (known, _designs(observations, floor, known, backend)),
    )
    implicit = IMPLICIT_SHARE * spec.l2 if spec.l2_implicit is None else spec.l2_implicit
    first = [] if floor is None else [implicit]
    ridges = [[*first, *([side_ridge(spec)] * (len(each.blocks) - len(first)))] for each in designs]
    rows, columns = (each.with_ridges(own) for each, own in zip(designs, ridges, strict=True))
    if backend is None:
        return Features(rows, columns)
    return backend.features(rows, columns, implicit=floor is not None)


def _designs(
    observations: Observations,
    floor: tuple[float, float] | None,
    side: SideFeatures | None,
    backend: Backend | None,
) -> tuple[Design, Design]:
    """Return the features of rows and of columns, implicit ones first; without ridges."""
    blocks: tuple[list[Any], list[Any]] = ([], [])
    if floor is not None:
        known = activities(observations, floor)
        if backend is None:
            made = implicit_blocks(observations, known, 0.0, masks(observations))
        else:
            made = backend.implicit_blocks(observations, known, 0.0)
        for found, block in zip(blocks, made, strict=True):
            found.append(block)
    if side is not None:
        for found, groups in zip(blocks, side, strict=True):
            own = [side_block(group, 0.0) for group in groups or ()]
            found.extend(own if backend is None else map(backend.placed_block, own))
    rows, columns = (
        Design(size, tuple(found)) for size, found in zip(observations.shape, blocks, strict=True)
    )
    return rows, columns


def side_ridge(spec: ModelSpec) -> float:
    """Return the weight of the ridge on the parts of side features."""
    return SIDE_SHARE * spec.l2 if spec.l2_side is None else spec.l2_side
