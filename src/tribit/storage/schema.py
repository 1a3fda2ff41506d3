"""Schema of a model file: its fields and tensors, as conditions of :mod:`tribit.archive.fields`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tribit.archive.fields import (
    COUNT,
    FLOATS,
    NUMBER,
    OBJECT,
    SIZE,
    SWITCH,
    TEXT,
    Field,
    Tensor,
    check_fields,
    check_places,
)
from tribit.archive.ids import IDS
from tribit.model.spec import ModelSpec

#: The format that is written and read.
FORMAT = 8
#: Columns of the history: the iteration, its objective and the decrease.
HISTORY_COLUMNS = 3
#: Prefix of the names of a calibrator's arrays.
CALIBRATOR = "calibrator:"

MEMBERS = Field(
    "a list of two objects or more",
    lambda value: (
        type(value) is list and len(value) > 1 and all(type(each) is dict for each in value)
    ),
)

#: Results of a fit.
FITTED = {
    "n_iter_": COUNT,
    "converged_": SWITCH,
    "stop_reason_": TEXT,
    "objective_": NUMBER,
    "n_features_in_": SIZE,
    "intercept_": NUMBER,
}
FACTORS = {
    "row_factors_": Tensor(FLOATS, ("rows", "rank")),
    "column_factors_": Tensor(FLOATS, ("n_features_in_", "rank")),
    "row_intercepts_": Tensor(FLOATS, ("rows",)),
    "column_intercepts_": Tensor(FLOATS, ("n_features_in_",)),
}
#: Parts of features: one for each row of the matrix, each implicit and each side feature.
PARTS = {
    "row_parts_": Tensor(FLOATS, ("parts of rows", "rank")),
    "column_parts_": Tensor(FLOATS, ("parts of columns", "rank")),
    "row_intercept_parts_": Tensor(FLOATS, ("parts of rows",)),
    "column_intercept_parts_": Tensor(FLOATS, ("parts of columns",)),
}
#: Arrays of each fit of an average: its unknowns, which are the factors or the parts that they are made of.
MEMBER = ("row_factors", "column_factors", "row_intercepts", "column_intercepts")
MEMBER_FIELDS = {"spec": OBJECT, "intercept": NUMBER}
CALIBRATORS = {
    None: {},
    "identity": {},
    "platt": {f"{CALIBRATOR}line": Tensor(("F64",), (2,))},
    "isotonic": {
        f"{CALIBRATOR}places": Tensor(("F64",), ("points",)),
        f"{CALIBRATOR}probabilities": Tensor(("F64",), ("points",)),
    },
}
HEADER = {
    "format": Field(f"{FORMAT}", lambda value: type(value) is int and value == FORMAT),
    "version": TEXT,
    "parameters": OBJECT,
    "fitted": OBJECT,
    "spec": OBJECT,
    "members": MEMBERS.or_none(),
    "features": OBJECT.or_none(),
    "bundle": OBJECT.or_none(),
    "calibrator": Field(
        f"one of {', '.join(name for name in CALIBRATORS if name)}, or null",
        lambda value: type(value) in (str, type(None)) and value in CALIBRATORS,
    ),
}


def check_header(header: Mapping[str, Any]) -> None:
    """Refuse a header with a field that is wrong, missing or unknown."""
    check_fields(header, HEADER)
    check_fields(header["fitted"], FITTED)
    for member in header["members"] or ():
        check_fields(member, MEMBER_FIELDS)


def member_tensors(number: int, *, parts: bool) -> dict[str, Tensor]:
    """Return the arrays of one fit of an average, in the order of ``MEMBER``; ``parts`` with features."""
    rows, columns = ("parts of rows", "parts of columns") if parts else ("rows", "n_features_in_")
    rank = f"columns of member {number}"
    shapes: tuple[tuple[str, ...], ...] = ((rows, rank), (columns, rank), (rows,), (columns,))
    return {
        f"member {number}:{name}": Tensor(FLOATS, shape)
        for name, shape in zip(MEMBER, shapes, strict=True)
    }


def check_tensors(
    header: Mapping[str, Any],
    specs: Sequence[ModelSpec],
    described: Mapping[str, tuple[str, tuple[int, ...]]],
    further: Mapping[str, Tensor],
    optional: Mapping[str, Tensor],
    widths: tuple[int, int],
) -> None:
    """Refuse tensors (a dtype and a shape by name) that are missing or unknown, or whose shapes do not agree.

    ``specs`` are the models of all fits, most often of one; ``further`` and ``optional`` are the tensors of features
    that a file must and may hold, and ``widths`` the numbers of side features.
    """
    spec = specs[0]
    history = Tensor(("F64",), ("n_iter_", HISTORY_COLUMNS))
    needed = {**FACTORS, "history": history, **CALIBRATORS[header["calibrator"]]}
    members: dict[str, Tensor] = {}
    if len(specs) > 1:
        for number in range(len(specs)):
            members |= member_tensors(number, parts=spec.shares_unknowns)
    elif spec.shares_unknowns:
        needed |= PARTS
    needed |= {**members, **further}
    sizes = {name: header["fitted"][name] for name in ("n_iter_", "n_features_in_")}
    check_places(described, needed, {**optional, **IDS}, sizes)
    if not sizes["rows"]:
        raise ValueError("row_factors_ must have a row")
    shape = sizes["rows"], sizes["n_features_in_"]
    for side, size, other, width in zip(("row", "column"), shape, shape[::-1], widths, strict=True):
        wanted = size + other * spec.implicit_features + width * spec.side_features
        if sizes.get(f"parts of {side}s", wanted) != wanted:
            raise ValueError(
                f"{side}_parts_ must have {wanted} rows: one for each {side}, each implicit and each side feature"
            )
    # A solver that lets the rank grow may have found fewer columns to be enough.
    if len(specs) == 1 and sizes["rank"] > spec.rank:
        raise ValueError(f"rank must be at least {sizes['rank']}, the columns of the factors")
    columns = [sizes[f"columns of member {number}"] for number in range(len(specs)) if members]
    if members and sum(columns) != sizes["rank"]:
        raise ValueError(f"rank must be {sum(columns)}, the columns of all members")
    for number, (each, size) in enumerate(zip(specs, columns, strict=bool(members))):
        if size > each.rank:
            raise ValueError(f"rank of member {number} must be at least {size}, its columns")
    for each in specs:
        each.check_shape((sizes["rows"], sizes["n_features_in_"]))
    named = {**FACTORS, **PARTS, **members}
    if len({described[name][0] for name in named if name in described}) > 1:
        raise ValueError("the dtypes of the factors do not agree")
