"""Fits of an average in a file: their models and intercepts in the header, their arrays as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.model.factors import Factors
from tribit.storage.schema import member_tensors


def described_members(
    specs: Sequence[dict[str, Any]], members: Sequence[Factors]
) -> list[dict[str, Any]] | None:
    """Return what the header says of each fit; None of one alone, which the rest of the header describes."""
    if len(specs) == 1:
        return None
    return [
        {"spec": spec, "intercept": float(member.intercept)}
        for spec, member in zip(specs, members, strict=True)
    ]


def named_arrays(unknowns: Factors, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return the four arrays of some unknowns, by names."""
    pairs = zip(names, unknowns.arrays, strict=True)
    return {name: np.ascontiguousarray(part) for name, part in pairs}


def read_members(
    described: Sequence[Mapping[str, Any]], tensors: Mapping[str, NDArray[Any]], *, parts: bool
) -> tuple[Factors, ...]:
    """Return the unknowns of each fit."""
    found = []
    for number, member in enumerate(described):
        U, V, a, c = (tensors[name] for name in member_tensors(number, parts=parts))
        found.append(Factors(U, V, float(member["intercept"]), a, c))
    return tuple(found)
