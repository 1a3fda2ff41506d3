"""Features in a file: what new rows and columns need, in the header and as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.archive.fields import FLOATS, NUMBER, POSITIVE, TEXT, Field, Tensor, check_fields
from tribit.data.side_features import KINDS, FeatureEncoder, GroupEncoder
from tribit.model.factors import Factors
from tribit.model.features import Activity, FeatureMap
from tribit.model.slopes import BothSlopes, Slopes
from tribit.model.spec import ModelSpec

Tensors = dict[str, NDArray[Any]]
Maps = tuple[FeatureMap, FeatureMap]
SIDES = ("row", "column")


def _are_groups(value: Any) -> bool:
    return type(value) is list and all(type(group) is dict for group in value)


TYPICAL = Field(
    "two positive numbers, or null",
    lambda value: (
        value is None
        or (type(value) is list and len(value) == 2 and all(map(POSITIVE.holds, value)))
    ),
)
ENCODERS = Field(
    "two lists of objects, each of which may be null",
    lambda value: (
        type(value) is list
        and len(value) == 2
        and all(side is None or _are_groups(side) for side in value)
    ),
)
#: A knot, a category or a tag.
LEVEL = Field(
    "text, a number or a truth value", lambda value: type(value) in (str, bool, int, float)
)
GROUP = {
    "name": TEXT,
    "kind": Field(f"one of {', '.join(KINDS)}", lambda value: value in KINDS),
    "levels": Field(
        "a list of levels", lambda value: type(value) is list and all(map(LEVEL.holds, value))
    ),
    "means": Field(
        "a list of finite numbers",
        lambda value: type(value) is list and all(map(NUMBER.holds, value)),
    ),
    "scale": POSITIVE,
}


def described_features(maps: Sequence[Maps]) -> dict[str, Any] | None:
    """Return what the header says of the features of a model; None of one without any."""
    if not maps or all(each.activity is None and each.encoder is None for each in maps[0]):
        return None
    typical = [None if each.activity is None else float(each.activity.typical) for each in maps[0]]
    return {
        "typical": None if None in typical else typical,
        "encoders": [
            None if each.encoder is None else [_described(group) for group in each.encoder.groups]
            for each in maps[0]
        ],
    }


def _described(group: GroupEncoder) -> dict[str, Any]:
    values = {name: getattr(group, name) for name in GROUP}
    return {**values, "levels": list(group.levels), "means": list(group.means)}


def check_features(features: Any) -> None:
    """Refuse a description of features with a field that is wrong, missing or unknown."""
    if features is None:
        return
    check_fields(features, {"typical": TYPICAL, "encoders": ENCODERS})
    for side in features["encoders"]:
        for group in side or ():
            check_fields(group, GROUP)
            if len(group["means"]) != len(group["levels"]):
                raise ValueError(
                    f"means must be {len(group['levels'])} numbers, one for each level"
                )


def widths(features: Any) -> tuple[int, int]:
    """Return how many side features rows and columns have."""
    if features is None:
        return 0, 0
    rows, columns = (
        sum(len(group["levels"]) for group in side or ()) for side in features["encoders"]
    )
    return rows, columns


def feature_tensors(features: Any, specs: Sequence[ModelSpec]) -> dict[str, Tensor]:
    """Return the tensors of features that a file must hold."""
    found: dict[str, Tensor] = {}
    if specs[0].implicit_features and (features is None or features["typical"] is None):
        raise ValueError("implicit features need typical, the activity of a row and a column")
    if features is None:
        return found
    if features["typical"] is not None:
        found |= {
            "row_popularity_": Tensor(("F64",), ("n_features_in_",)),
            "column_popularity_": Tensor(("F64",), ("rows",)),
        }
    if len(specs) > 1 and specs[0].shares_unknowns:
        for number in range(len(specs)):
            found |= {
                f"member {number}:combined row_intercepts": Tensor(FLOATS, ("rows",)),
                f"member {number}:combined column_intercepts": Tensor(FLOATS, ("n_features_in_",)),
            }
    return found


def cold_tensors(features: Any, specs: Sequence[ModelSpec]) -> dict[str, Tensor]:
    """Return the tensors that a file may hold: maps from side features to factors, and slopes on side features."""
    found = {}
    sizes = "rows", "n_features_in_"
    for place, (side, width) in enumerate(zip(SIDES, widths(features), strict=True)):
        if not width:
            continue
        for number in range(len(specs)):
            shape = 1 + width, f"factors and intercept of member {number}"
            found[f"member {number}:cold {side}s"] = Tensor(("F64",), shape)
        found[f"{side} slopes:features"] = Tensor(FLOATS, (sizes[place], 1 + width))
        found[f"{side} slopes:own"] = Tensor(FLOATS, (sizes[1 - place], 1 + width))
    return found


def slopes_arrays(slopes: BothSlopes) -> Tensors:
    """Return the arrays of slopes on side features."""
    return {
        f"{side} slopes:{name}": np.ascontiguousarray(getattr(each, name))
        for side, each in zip(SIDES, slopes, strict=True)
        if each is not None
        for name in ("features", "own")
    }


def read_slopes(tensors: Mapping[str, NDArray[Any]]) -> BothSlopes:
    """Return the slopes on side features."""
    rows, columns = (
        Slopes(tensors[f"{side} slopes:features"], tensors[f"{side} slopes:own"])
        if any(name.startswith(f"{side} slopes:") for name in tensors)
        else None
        for side in SIDES
    )
    return rows, columns


def feature_arrays(maps: Sequence[Maps], members: Sequence[Factors]) -> Tensors:
    """Return the arrays of features; ``members`` are the factors of each fit."""
    found: Tensors = {}
    if not maps:
        return found
    for side, each in zip(SIDES, maps[0], strict=True):
        if each.activity is not None:
            found[f"{side}_popularity_"] = np.ascontiguousarray(each.activity.popularity)
    for number, pair in enumerate(maps):
        for side, each in zip(SIDES, pair, strict=True):
            if each.cold is not None:
                found[f"member {number}:cold {side}s"] = np.ascontiguousarray(each.cold)
    shared = any(each.activity is not None or each.shared for each in maps[0])
    if len(members) > 1 and shared:
        for number, factors in enumerate(members):
            found[f"member {number}:combined row_intercepts"] = factors.row_intercepts
            found[f"member {number}:combined column_intercepts"] = factors.column_intercepts
    return found


def read_maps(
    features: Any, tensors: Mapping[str, NDArray[Any]], specs: Sequence[ModelSpec]
) -> tuple[Maps, ...]:
    """Return how the features of each fit are made."""
    found = []
    for number, spec in enumerate(specs):
        pair = []
        for place, side in enumerate(SIDES):
            activity, encoder = None, None
            if features is not None and features["typical"] is not None:
                typical = float(features["typical"][place])
                floor = spec.activity_floor[place] * typical
                activity = Activity(tensors[f"{side}_popularity_"], typical, floor)
            if features is not None and features["encoders"][place] is not None:
                encoder = FeatureEncoder(
                    tuple(
                        GroupEncoder(
                            **{
                                **each,
                                "levels": tuple(each["levels"]),
                                "means": tuple(each["means"]),
                            }
                        )
                        for each in features["encoders"][place]
                    )
                )
            cold = tensors.get(f"member {number}:cold {side}s")
            pair.append(FeatureMap(activity, encoder, spec.side_features, cold))
        found.append((pair[0], pair[1]))
    return tuple(found)


def read_member_factors(
    whole: Factors, members: Sequence[Factors], tensors: Mapping[str, NDArray[Any]]
) -> tuple[Factors, ...]:
    """Return the factors of each fit: their columns of the mean, and the intercepts that are kept of each."""
    if len(members) <= 1:
        return (whole,)
    scale, at, found = np.sqrt(len(members)), 0, []
    for number, member in enumerate(members):
        name = f"member {number}:combined"
        columns = slice(at, at + member.rank)
        at += member.rank
        found.append(
            Factors(
                whole.row_factors[:, columns] * whole.row_factors.dtype.type(scale),
                whole.column_factors[:, columns] * whole.column_factors.dtype.type(scale),
                member.intercept,
                tensors.get(f"{name} row_intercepts", member.row_intercepts),
                tensors.get(f"{name} column_intercepts", member.column_intercepts),
            )
        )
    return tuple(found)
