"""Checks of a whole model, before it is written and after it was read: tensors as the header says, finite numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.archive.parts import part_tensors
from tribit.storage.features import cold_tensors, feature_tensors, widths
from tribit.storage.schema import FACTORS, check_tensors
from tribit.storage.searches import SEARCH_TENSOR

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion


def check_all_tensors(header: dict[str, Any], specs: Any, described: Any) -> None:
    """Refuse tensors that are not what the header says."""
    features = header["features"]
    needed = feature_tensors(features, specs) | part_tensors(header["bundle"], described)
    optional = cold_tensors(features, specs) | SEARCH_TENSOR
    check_tensors(header, specs, described, needed, optional, widths(features))


def check_numbers(model: BinaryMatrixCompletion, history: NDArray[Any]) -> None:
    """Refuse factors and a history that are not finite, and factors so large that no probability comes of them."""
    sizes = {name: _largest(getattr(model, name)) for name in FACTORS}
    parts = dataclasses.astuple(model.unknowns_)
    largest = float(np.max([0.0, *(_largest(np.asarray(part)) for part in parts)]))
    pairs = [
        (_largest(each.features), _largest(each.own), each.own.shape[1])
        for each in model.slopes_
        if each is not None
    ]
    sloped = float(sum(math.prod(pair) for pair in pairs))
    checked = {"history": _largest(history), "unknowns_": largest, "slopes_": sloped}
    for name, size in {**sizes, **checked}.items():
        if not math.isfinite(size):
            raise ValueError(f"{name} holds NaN or infinity")
    if not np.array_equal(history[:, 0], np.arange(1, len(history) + 1)):
        raise ValueError("history must count its iterations from 1")
    U, V, a, c = (sizes[name] for name in FACTORS)
    reach = U * V * model.row_factors_.shape[1] + abs(model.intercept_) + a + c + sloped
    try:
        with np.errstate(over="raise", invalid="raise"):
            ends = model._probability(np.array([-reach, reach]))
    except FloatingPointError:
        ends = np.array([np.nan])
    if not (math.isfinite(reach) and np.isfinite(ends).all()):
        raise ValueError("its factors are too large to predict with")


def _largest(array: NDArray[Any]) -> float:
    """Return the largest absolute value, without an array of them; NaN if there is one."""
    if not array.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        return max(float(array.max()), -float(array.min()))
