"""The result of a fit in a file: models and features in the header, arrays and ids as tensors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axes, distinct_ids
from tribit.data.features import KINDS, FeatureEncoder, GroupEncoder
from tribit.errors import Message, with_mentions
from tribit.model.calibration import calibrator_from
from tribit.model.factors import Factors
from tribit.model.features import Activity, FeatureMap, FeatureRegression, FeatureRegressions
from tribit.model.fitted import Fitted, Member
from tribit.model.risks import check_rho
from tribit.model.spec import ModelSpec
from tribit.storage.file_format import (
    COUNT,
    FLOATS,
    NUMBER,
    OBJECT,
    POSITIVE,
    TEXT,
    Field,
    Tensor,
    Tensors,
    check_fields,
    parsed_json,
)

Schema = dict[str, Tensor]
SIDES = ("row", "column")
#: Arrays of factors, in the order of :attr:`tribit.model.factors.Factors.arrays`.
ARRAYS = ("row_factors", "column_factors", "row_intercepts", "column_intercepts")
#: Prefix of the names of a calibrator's arrays.
CALIBRATOR = "calibrator:"
CALIBRATORS: dict[str | None, Schema] = {
    None: {},
    "identity": {},
    "platt": {f"{CALIBRATOR}line": Tensor(("F64",), (2,))},
    "beta": {f"{CALIBRATOR}beta": Tensor(("F64",), (3,))},
    "isotonic": {
        f"{CALIBRATOR}places": Tensor(("F64",), ("points",)),
        f"{CALIBRATOR}probabilities": Tensor(("F64",), ("points",)),
    },
}

#: Tensors of the ids of rows and of columns, where there are any.
IDS = {
    "row_ids_": Tensor(("U8",), ("bytes of row ids",)),
    "column_ids_": Tensor(("U8",), ("bytes of column ids",)),
}

#: Kinds of NumPy arrays whose values JSON gives back as they were, and the types of these.
ID_TYPES: dict[str, type] = {"i": int, "u": int, "f": float, "U": str}
#: Types that an array of objects may hold.
OBJECT_TYPES = {str, int, float}
#: Bytes of an array of text per byte of the file, above which ids of very different lengths become objects.
MAX_TEXT_PADDING = 16


def _are_groups(value: object) -> bool:
    return type(value) is list and all(type(group) is dict for group in value)


def _are_knots(levels: list[Any]) -> bool:
    rising = all(map(NUMBER.holds, levels)) and all(low < high for low, high in pairwise(levels))
    return rising and len(levels) > 1


TWO_POSITIVE = Field(
    "two positive numbers",
    lambda value: type(value) is list and len(value) == 2 and all(map(POSITIVE.holds, value)),
)
TYPICAL = Field(
    f"{TWO_POSITIVE.words}, or null", lambda value: value is None or TWO_POSITIVE.holds(value)
)
ENCODERS = Field(
    "two lists of objects, or nulls",
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
FITTED = {
    "members": Field(
        "a list of objects, at least one",
        lambda value: type(value) is list and bool(value) and _are_groups(value),
    ),
    "calibrator": Field(
        f"one of {', '.join(name for name in CALIBRATORS if name)}, or null",
        lambda value: type(value) in (str, type(None)) and value in CALIBRATORS,
    ),
    "meaning": TEXT,
    "typical": TYPICAL,
    "encoders": ENCODERS,
}
MEMBER = {
    "spec": OBJECT,
    "intercept": NUMBER,
    "own_rank": COUNT,
    "weight": POSITIVE,
    "mean_totals": TWO_POSITIVE,
}


def fitted_header(fitted: Fitted) -> dict[str, Any]:
    """Return the part of the header that describes a fit."""
    maps = fitted.members[0].maps
    activities = next(
        (each.maps for each in fitted.members if each.maps[0].activity is not None), None
    )
    return {
        "members": [
            {
                "spec": json.loads(_storable_spec(each.spec).to_json()),
                "intercept": float(each.unknowns.intercept),
                "own_rank": each.own_rank,
                "weight": each.weight,
                "mean_totals": list(each.mean_totals),
            }
            for each in fitted.members
        ],
        "calibrator": None if fitted.calibrator is None else fitted.calibrator.name,
        "meaning": with_mentions(fitted.meaning),
        "typical": None
        if activities is None
        else [float(each.activity.typical) for each in activities if each.activity is not None],
        "encoders": [
            None
            if each.encoder is None
            else [_group_header(group) for group in each.encoder.groups]
            for each in maps
        ],
    }


def check_fitted_header(header: Any) -> None:
    """Refuse a description with a field that is wrong, missing or unknown."""
    check_fields(header, FITTED)
    for member in header["members"]:
        check_fields(member, MEMBER)
    for side in header["encoders"]:
        for group in side or ():
            check_fields(group, GROUP)
            if len(group["means"]) != len(group["levels"]):
                raise ValueError(
                    f"means must be {len(group['levels'])} numbers, one for each level"
                )
            if group["kind"] == "quantity" and not _are_knots(group["levels"]):
                raise ValueError(
                    "levels of a quantity must be two finite numbers or more that rise"
                )


def fitted_schema(
    header: Mapping[str, Any],
) -> tuple[Schema, Schema, Callable[[Mapping[str, int]], None]]:
    """Return the tensors that a file must and may hold, and a check of the sizes that they turn out to have."""
    specs = [_spec(each["spec"]) for each in header["members"]]
    widths = [sum(len(group["levels"]) for group in side or ()) for side in header["encoders"]]
    needed: Schema = dict(CALIBRATORS[header["calibrator"]])
    optional: Schema = {}
    if header["typical"] is not None:
        needed["row popularity"] = Tensor(("F64",), ("columns",))
        needed["column popularity"] = Tensor(("F64",), ("rows",))
    for number, spec in enumerate(specs):
        if spec.implicit_features and header["typical"] is None:
            raise ValueError("implicit features need typical, the activity of a row and a column")
        needed |= _factor_schema(number, "unknowns", shared=spec.shares_unknowns)
        if spec.shares_unknowns:
            needed |= _factor_schema(number, "factors", shared=False)
        for side, width in zip(SIDES, widths, strict=True):
            if width:
                shape = 1 + width, _map_width(number)
                optional[f"member {number}:cold {side}s"] = Tensor(("F64",), shape)
    for side, other, width in zip(SIDES, SIDES[::-1], widths, strict=True):
        if width:
            optional[f"{side} slopes:features"] = Tensor(FLOATS, (f"{side}s", 1 + width))
            optional[f"{side} slopes:own"] = Tensor(FLOATS, (f"{other}s", 1 + width))

    def check_sizes(sizes: Mapping[str, int]) -> None:
        shape = sizes["rows"], sizes["columns"]
        if not all(shape):
            raise ValueError("row_factors must have a row, and column_factors too")
        for number, (spec, described) in enumerate(zip(specs, header["members"], strict=True)):
            _check_parts(sizes, number, spec, widths)
            rank = sizes[f"rank of member {number}"]
            own = described["own_rank"]
            if own > rank:
                raise ValueError(f"own_rank of member {number} must be at most {rank}, its columns")
            # A solver that lets the rank grow may have found fewer columns to be enough.
            if own > spec.rank:
                raise ValueError(f"rank of member {number} must be at least {own}, its columns")
            if rank > own + min(shape):
                most = f"at most {own + min(shape)} columns, those of its regression included"
                raise ValueError(f"member {number} must have {most}")
            if sizes.get(_map_width(number), rank + 1) != rank + 1:
                raise ValueError(
                    f"the maps of member {number} must have {rank + 1} columns, one for each latent factor and one for "
                    "the bias"
                )
            spec.check_shape(shape)

    return needed, optional, check_sizes


def fitted_tensors(fitted: Fitted) -> Tensors:
    """Return the arrays of a fit as a file holds them."""
    found: Tensors = {}
    for number, member in enumerate(fitted.members):
        kinds = {"unknowns": member.unknowns}
        if member.spec.shares_unknowns:
            kinds["factors"] = member.factors
        for kind, factors in kinds.items():
            for name, array in zip(ARRAYS, factors.arrays, strict=True):
                found[f"member {number}:{kind} {name}"] = np.ascontiguousarray(array)
        for side, each in zip(SIDES, member.maps, strict=True):
            if each.activity is not None:
                found[f"{side} popularity"] = np.ascontiguousarray(each.activity.popularity)
            if each.cold_start is not None:
                found[f"member {number}:cold {side}s"] = np.ascontiguousarray(each.cold_start)
    for side, slopes in zip(SIDES, fitted.feature_regressions, strict=True):
        if slopes is not None:
            found[f"{side} slopes:features"] = np.ascontiguousarray(slopes.features)
            found[f"{side} slopes:own"] = np.ascontiguousarray(slopes.own)
    if fitted.calibrator is not None:
        found |= {CALIBRATOR + name: each for name, each in fitted.calibrator.arrays().items()}
    return found


def fitted_from(
    header: Mapping[str, Any], tensors: Tensors, axes_of: Callable[[tuple[int, int]], Axes]
) -> Fitted:
    """Return the result of a fit; a ValueError where the arrays do not fit one another."""
    members = tuple(_member(n, header, tensors) for n in range(len(header["members"])))
    calibrator = None
    if header["calibrator"] is not None:
        arrays = {name.removeprefix(CALIBRATOR): tensor for name, tensor in tensors.items()}
        calibrator = calibrator_from(header["calibrator"], arrays, members[0].spec.link)
    return Fitted(
        axes_of(members[0].shape),
        members,
        _slopes(tensors),
        calibrator,
        Message(header["meaning"]),
    )


def check_scores(fitted: Fitted) -> None:
    """Refuse factors that are not finite, and factors so large that no probability comes of them."""
    arrays = [
        array
        for member in fitted.members
        for factors in (member.unknowns, member.factors)
        for array in (*factors.arrays, np.array([factors.intercept]))
    ]
    arrays += [
        array
        for each in fitted.feature_regressions
        if each is not None
        for array in (each.features, each.own)
    ]
    if len({array.dtype for array in arrays if array.ndim == 2}) > 1:
        raise ValueError("the dtypes of the factors do not agree")
    if not all(math.isfinite(_largest(array)) for array in arrays):
        raise ValueError("the factors hold NaN or infinity")
    _check_maps(fitted)
    factors = fitted.scores.factors
    U, V, a, c = (_largest(array) for array in factors.arrays)
    reach = U * V * factors.rank + abs(factors.intercept) + a + c
    try:
        with np.errstate(over="raise", invalid="raise"):
            ends = fitted.scores.probability(np.array([-reach, reach]))
    except FloatingPointError:
        ends = np.array([np.nan])
    if not (math.isfinite(reach) and np.isfinite(ends).all()):
        raise ValueError("its factors are too large to predict with")


def _check_maps(fitted: Fitted) -> None:
    """Refuse maps from features to factors that are not finite, and popularities that are no shares."""
    for each in (each for member in fitted.members for each in member.maps):
        if each.cold_start is not None and not math.isfinite(_largest(each.cold_start)):
            raise ValueError("the maps of features hold NaN or infinity")
        shares = 0.0 if each.activity is None else each.activity.popularity
        if not np.all((shares >= 0.0) & (shares <= 1.0)):  # NaN is neither
            raise ValueError("popularity must be shares, from 0 to 1")


def _map_width(number: int) -> str:
    """Return the word for the width of a member's maps from features to factors."""
    return f"columns of the maps of member {number}"


def _storable_spec(spec: ModelSpec) -> ModelSpec:
    """Return a model as a file keeps it: without imputed values, and without a rho by entry."""
    rho = spec.rho if isinstance(spec.rho, float) else None
    return replace(spec, rho=rho, imputed=None)


def _spec(values: dict[str, Any]) -> ModelSpec:
    """Return a model that was written; its rho is a number or None."""
    spec = ModelSpec.from_json(json.dumps(values))
    if spec.rho is not None:
        check_rho(spec.rho)
    return spec


def _group_header(group: GroupEncoder) -> dict[str, Any]:
    values = {name: getattr(group, name) for name in GROUP}
    return {**values, "levels": list(group.levels), "means": list(group.means)}


def _factor_schema(number: int, kind: str, *, shared: bool) -> Schema:
    """Return the arrays of the factors or the unknowns of a member; ``shared`` with a part for each feature."""
    rows, columns = (
        (f"parts of rows of member {number}", f"parts of columns of member {number}")
        if shared
        else ("rows", "columns")
    )
    rank = f"rank of member {number}"
    shapes: Sequence[tuple[str, ...]] = ((rows, rank), (columns, rank), (rows,), (columns,))
    return {
        f"member {number}:{kind} {name}": Tensor(FLOATS, shape)
        for name, shape in zip(ARRAYS, shapes, strict=True)
    }


def _check_parts(
    sizes: Mapping[str, int], number: int, spec: ModelSpec, widths: Sequence[int]
) -> None:
    """Refuse unknowns that are not one for each row, each implicit and each side feature."""
    shape = sizes["rows"], sizes["columns"]
    for side, size, other, width in zip(SIDES, shape, shape[::-1], widths, strict=True):
        wanted = size + other * spec.implicit_features + width * spec.side_features
        if sizes.get(f"parts of {side}s of member {number}", wanted) != wanted:
            raise ValueError(
                f"the unknowns of member {number} must have {wanted} parts of {side}s: one for each {side}, each "
                "implicit and each side feature"
            )


def _member(number: int, header: Mapping[str, Any], tensors: Tensors) -> Member:
    described = header["members"][number]
    spec = _spec(described["spec"])
    intercept = float(described["intercept"])

    def factors(kind: str) -> Factors:
        U, V, a, c = (tensors[f"member {number}:{kind} {name}"] for name in ARRAYS)
        # The one intercept is that of the matrix: features add to rows and columns alone.
        return Factors(U, V, intercept, a, c)

    unknowns = factors("unknowns")
    rows, columns = (_map(number, side, header, tensors, spec) for side in (0, 1))
    return Member(
        spec,
        unknowns,
        factors("factors") if spec.shares_unknowns else unknowns,
        (rows, columns),
        described["own_rank"],
        float(described["weight"]),
        (float(described["mean_totals"][0]), float(described["mean_totals"][1])),
    )


def _map(
    number: int, side: int, header: Mapping[str, Any], tensors: Tensors, spec: ModelSpec
) -> FeatureMap:
    """Return how the features of one side of a member are made."""
    activity, encoder, groups = None, None, header["encoders"][side]
    if spec.implicit_features:
        typical = float(header["typical"][side])
        floor = spec.activity_floor[side] * typical
        activity = Activity(tensors[f"{SIDES[side]} popularity"], typical, floor)
    if groups is not None:
        encoder = FeatureEncoder(
            tuple(
                GroupEncoder(
                    **{**each, "levels": tuple(each["levels"]), "means": tuple(each["means"])}
                )
                for each in groups
            )
        )
    cold = tensors.get(f"member {number}:cold {SIDES[side]}s")
    return FeatureMap(activity, encoder, spec.side_features, cold)


def _slopes(tensors: Mapping[str, NDArray[Any]]) -> FeatureRegressions:
    found: list[FeatureRegression | None] = []
    for side in SIDES:
        names = f"{side} slopes:features", f"{side} slopes:own"
        missing = [name for name in names if name not in tensors]
        if len(missing) == 1:
            raise ValueError(f"{missing[0]} is missing")
        found.append(None if missing else FeatureRegression(*(tensors[name] for name in names)))
    return found[0], found[1]


def _largest(array: NDArray[Any]) -> float:
    """Return the largest absolute value, without an array of them; NaN if there is one."""
    if not array.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        return max(float(array.max()), -float(array.min()))


# Ids: the bytes of a JSON list with its kind, so that 1 and "1" stay different


def id_tensors(axes: Axes) -> dict[str, NDArray[Any]]:
    """Return the ids of rows and columns as a file holds them."""
    return {
        name: packed_ids(axis.ids)
        for name, axis in zip(IDS, axes, strict=True)
        if axis.ids is not None
    }


def axes_from(tensors: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> Axes:
    """Return rows and columns, with the ids that the tensors hold."""
    ids = (
        unpacked_ids(tensors[name], size, name) if name in tensors else None
        for name, size in zip(IDS, shape, strict=True)
    )
    return Axes.of(shape, *ids)


def packed_ids(ids: NDArray[Any]) -> NDArray[np.uint8]:
    """Return ids as bytes; they are text or numbers (:func:`tribit.data.axis.check_ids`)."""
    values = ids.tolist()
    text = json.dumps(
        {"dtype": ids.dtype.str if ids.dtype.kind in ID_TYPES else "O", "ids": values}
    )
    return np.frombuffer(text.encode(), dtype=np.uint8)


def unpacked_ids(packed: NDArray[np.uint8], size: int, name: str) -> NDArray[Any]:
    """Return as many distinct ids as there are rows or columns; a ValueError where the bytes say otherwise.

    The ids decide the size of the array, not the width of text in the bytes.
    """
    try:
        stored = parsed_json(packed.tobytes())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not isinstance(stored, dict) or set(stored) != {"dtype", "ids"}:
        raise ValueError(f"{name} must be an object of dtype and ids")
    dtype, values = stored["dtype"], stored["ids"]
    if not isinstance(values, list) or len(values) != size:
        raise ValueError(f"{name} must be a list of {size} ids")
    return distinct_ids(_id_array(values, dtype, packed.size, name), name)


def _id_array(values: list[Any], dtype: Any, room: int, name: str) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if dtype == "O":
        if not kinds <= OBJECT_TYPES:
            raise ValueError(f"{name} holds an id that is neither text nor a number")
        return np.fromiter(values, dtype=object, count=len(values))
    match = re.fullmatch(r"([<>|])([iufU])([0-9]{1,10})", dtype) if isinstance(dtype, str) else None
    if match is None:
        raise ValueError(f"{name} has no dtype of ids")
    order, kind, width = match[1], match[2], int(match[3])
    if kinds != {ID_TYPES[kind]}:
        raise ValueError(f"{name} holds other values than its dtype {dtype!r}")
    if kind == "U":
        longest = max(1, *map(len, values))
        if longest > width:
            raise ValueError(f"{name} holds ids that its dtype {dtype!r} would cut short")
        if 4 * longest * len(values) > MAX_TEXT_PADDING * room:
            return np.fromiter(values, dtype=object, count=len(values))
        dtype = f"{order}U{longest}"
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=np.dtype(dtype))
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{name} does not have the dtype {dtype!r} ({error})") from None
    if array.tolist() != values:
        raise ValueError(f"{name} holds ids that its dtype {dtype!r} would change")
    return array
