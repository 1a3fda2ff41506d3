"""Models and bundles on disk: one safetensors file, parameters as JSON in its header, nothing that is executed."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import reprlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

from tribit import __version__
from tribit._moved import PARAMETERS as RENAMED
from tribit.completion import BinaryMatrixCompletion
from tribit.data.axis import Axes
from tribit.data.files import atomic_path, checked_path
from tribit.errors import InvalidInputError, TribitWarning, either, parameter, warn
from tribit.model.calibrators import calibrator_from
from tribit.model.factors import Factors
from tribit.model.links import as_link
from tribit.model.risks import Missingness, check_rho
from tribit.model.spec import ModelSpec, is_auto
from tribit.quoting import quoted
from tribit.solvers import Iteration
from tribit.storage.features import (
    check_features,
    cold_tensors,
    described_features,
    feature_arrays,
    feature_tensors,
    read_maps,
    read_member_factors,
    read_slopes,
    slopes_arrays,
    widths,
)
from tribit.storage.ids import packed_ids, unpacked_ids
from tribit.storage.members import described_members, named_arrays, read_members
from tribit.storage.parameters import (
    DAMAGE,
    KEPT,
    check_parameters,
    decoded,
    encoded,
    plain,
    reason_of,
)
from tribit.storage.parts import Parts, check_bundle, part_tensors, read_parts
from tribit.storage.schema import (
    CALIBRATOR,
    CHOSEN,
    FACTORS,
    FITTED,
    HISTORY_COLUMNS,
    IDS,
    PARTS,
    TEXT,
    WITH_BUNDLE,
    WITH_MEMBERS,
    WITH_SPEC,
    check_header,
    check_tensors,
    member_tensors,
)
from tribit.storage.searches import SEARCH, SEARCH_TENSOR, packed_search, unpacked_search
from tribit.storage.tensor_file import DTYPES, Place, parsed_json, read_description, read_tensors

__all__ = ["load", "save"]

FORMAT = max(HISTORY_COLUMNS)
#: Values of the fields that earlier formats lack: theirs were the implicit features of SVD++, without side features.
OLDER = {"activity_floor": (0.0, 0.0), "side_features": False, "l2_side": None}
Tensors = dict[str, NDArray[Any]]


def save(
    model: BinaryMatrixCompletion, path: str | os.PathLike[str], parts: Parts | None = None
) -> None:
    """Write a fitted model to one file, all of it or nothing; equal fits give equal bytes.

    Kept: the factors, intercepts and ids, the unknowns of each fit of an average, what the fit and the search reported
    but for their times, the model (``spec_``) without ``imputed`` and a ``rho`` by entry, and every parameter but
    ``callback``, ``imputed``, ``random_state``, ``verbose``, ``n_jobs``, ``backend`` and ``device``. With ``parts`` the
    file is a bundle (:class:`tribit.Recommender`).
    """
    check_is_fitted(model)
    header = {
        "format": FORMAT,
        "version": __version__,
        "parameters": {name: encoded(name, getattr(model, name)) for name in KEPT},
        "fitted": {name: plain(getattr(model, name)) for name in FITTED},
        "calibrator": None if model.calibration_ is None else model.calibration_.name,
    }
    tensors = _tensors(model) | (Parts() if parts is None else parts).tensors()
    rho = model.rho_ if isinstance(model.rho_, float) else None
    specs = [
        replace(spec, rho=rho, imputed=None) for spec in (model.spec_, *model.member_specs_[1:])
    ]
    try:
        written = [json.loads(spec.to_json()) for spec in specs]
        header["spec"] = written[0]
        header["members"] = described_members(written, model.members_)
        header["features"] = described_features(model.feature_maps_)
        header["bundle"] = None if parts is None else parts.described()
        check_header(header)
        check_features(header["features"])
        check_bundle(header["bundle"])
        described = {name: (_name(t.dtype), t.shape) for name, t in tensors.items()}
        _check_tensors(header, specs, described)
        check_parameters(model)
        _check_numbers(model, tensors["history"])
    except DAMAGE as error:
        raise InvalidInputError(
            f"The model cannot be saved, as no file may hold it ({reason_of(error)}); fit it again."
        ) from None
    with atomic_path(path) as temporary:
        # Not save_file, which puts a file of its own, readable by its owner only, in the place of this one.
        temporary.write_bytes(to_bytes(tensors, metadata={"tribit": json.dumps(header)}))
    # Here rho is a name: a model that was passed in is refused above.
    if isinstance(model.rho_, Missingness) and not is_auto(model.rho):
        warn(
            TribitWarning(
                f"The file keeps {parameter('rho', model.rho)} but not the model fitted for it (rho_), which "
                "predictions do not need; fit it again with tribit.propensity where you do."
            )
        )


def load(path: str | os.PathLike[str]) -> BinaryMatrixCompletion:
    """Read a model that :meth:`BinaryMatrixCompletion.save` wrote, or the model of a bundle.

    All that the file says of itself is checked before memory is taken for it. ``history_`` and ``search_`` are without
    times: ``seconds`` is None.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a tribit model, written by a later format, or too large for the memory.
    """
    return load_bundle(path)[0]


def load_bundle(path: str | os.PathLike[str]) -> tuple[BinaryMatrixCompletion, Parts]:
    """Read a model and what else its file holds (:class:`tribit.storage.parts.Parts`)."""
    source = checked_path(path)
    name = quoted(os.fspath(path))
    if not source.is_file():
        raise InvalidInputError(
            f"There is no model file {name}; write one with "
            f"{either('model.save(path)', 'tribit fit')}."
        )
    try:
        with source.open("rb") as file:
            try:
                metadata, places = read_description(file)
                header = parsed_json(str(metadata.get("tribit", "null")).encode())
            except (OSError, ValueError) as error:
                raise InvalidInputError(
                    f"{name} is not a readable tribit model ({reason_of(error)}); it may be cut short or another kind "
                    "of file."
                ) from None
            _check_format(header, name)
            try:
                check_header(header)
                check_features(header.get("features"))
                check_bundle(header.get("bundle"))
                model = _unfitted(header)
                tensors = _read(file, header, model.member_specs_, places)
                _fitted(model, header, tensors)
                return model, read_parts(header.get("bundle"), tensors, model._axes)
            except DAMAGE as error:
                raise InvalidInputError(
                    f"{name} is a damaged tribit model ({reason_of(error)}); fit it again."
                ) from None
    except OSError as error:
        raise InvalidInputError(
            f"{name} cannot be read ({error.strerror or error}); check its permissions and its disk."
        ) from None
    except MemoryError:
        raise InvalidInputError(
            f"{name} needs more memory than there is ({source.stat().st_size} bytes in the file); free some, or load "
            "it on a larger machine."
        ) from None


def _check_format(header: Any, name: str) -> None:
    if header is None:
        raise InvalidInputError(f"{name} is a safetensors file, but not a tribit model.")
    if not isinstance(header, dict):
        raise InvalidInputError(
            f"{name} is a damaged tribit model (its header is no object); fit it again."
        )
    number, version = header.get("format"), header.get("version")
    if type(number) is not int or number not in HISTORY_COLUMNS:
        by = reprlib.repr(version).strip("'") if TEXT.holds(version) else "another version"
        raise InvalidInputError(
            f"{name} has model format {reprlib.repr(number)}, and tribit {__version__} reads formats "
            f"{', '.join(map(str, HISTORY_COLUMNS))}; it was written by tribit {by}: use that version or fit again."
        )


def _read(
    file: Any, header: dict[str, Any], specs: tuple[ModelSpec, ...], places: dict[str, Place]
) -> Tensors:
    """Return the tensors, after all of them were found to be what the header says."""
    described = {name: (place.dtype, place.shape) for name, place in places.items()}
    _check_tensors(header, specs, described)
    return read_tensors(file, places)


def _check_tensors(header: dict[str, Any], specs: Any, described: Any) -> None:
    """Refuse tensors that are not what the header says."""
    features = header.get("features")
    needed = feature_tensors(features, specs) | part_tensors(header.get("bundle"), described)
    optional = cold_tensors(features, specs)
    if header["format"] >= WITH_BUNDLE:
        optional |= SEARCH_TENSOR
    check_tensors(header, specs, described, needed, optional, widths(features))


def _unfitted(header: dict[str, Any]) -> BinaryMatrixCompletion:
    """Return the estimator of the parameters, with the spec that was fitted."""
    with_spec = header["format"] >= WITH_SPEC
    names = {name: name for name in KEPT if with_spec or name not in RENAMED.values()}
    names |= {} if with_spec else RENAMED
    for name in header["parameters"]:
        if name not in names:
            raise ValueError(f"the parameter {reprlib.repr(name)} is unknown")
    model = BinaryMatrixCompletion(
        **{names[name]: decoded(name, value) for name, value in header["parameters"].items()}
    )
    specs: tuple[ModelSpec, ...] = ()
    if with_spec:
        older = {} if header["format"] >= WITH_MEMBERS else OLDER
        spec = _spec({**older, **header["spec"]})
        specs = tuple(_spec(member["spec"]) for member in header.get("members") or ())
        if specs and specs[0] != spec:
            raise ValueError("the first member must have the spec of the model")
        if len({(each.implicit_features, each.side_features) for each in specs}) > 1:
            raise ValueError("either all members have features of a kind or none")
    else:
        chosen = {name.removesuffix("_"): header["fitted"][name] for name in CHOSEN}
        chosen = {RENAMED.get(name, name): value for name, value in chosen.items()}
        spec = ModelSpec.of(model, **OLDER, **chosen, rho=header["rho"])
    model._set_spec(spec)
    model.member_specs_ = specs or (spec,)
    model.n_fits_ = len(model.member_specs_)
    return model


def _spec(values: dict[str, Any]) -> ModelSpec:
    """Return a model that was written; its rho is a number or None."""
    spec = ModelSpec.from_json(json.dumps(values))
    if spec.rho is not None:
        check_rho(spec.rho)
    return spec


def _fitted(
    model: BinaryMatrixCompletion, header: dict[str, Any], tensors: Tensors
) -> BinaryMatrixCompletion:
    """Return the model with what its fit found."""
    for name in FITTED:
        setattr(model, name, header["fitted"][name])
    if model.names_ is not None:
        row, column, value = model.names_
        model.names_ = (row, column, value)
    model.calibration_ = None
    model.search_ = unpacked_search(tensors[SEARCH]) if SEARCH in tensors else None
    U, V, a, c = (tensors[name] for name in FACTORS)
    model._set_factors(Factors(U, V, model.intercept_, a, c))
    shape = U.shape[0], V.shape[0]
    ids = (
        unpacked_ids(tensors[name], size, name) if name in tensors else None
        for name, size in zip(IDS, shape, strict=True)
    )
    model._set_axes(Axes.of(shape, *ids))
    check_parameters(model)
    model.unknowns_ = model._factors()
    shares = model.spec_.shares_unknowns
    if shares:
        model.unknowns_ = None
        if PARTS.keys() <= tensors.keys():
            p, q, of_rows, of_columns = (tensors[name] for name in PARTS)
            # The one intercept is that of the matrix: features add to rows and columns alone.
            model.unknowns_ = Factors(p, q, model.intercept_, of_rows, of_columns)
    model.members_ = () if model.unknowns_ is None else (model.unknowns_,)
    if header.get("members"):
        members = read_members(header["members"], tensors, parts=shares)
        model._set_members(model.member_specs_, members)
    model.member_factors_ = read_member_factors(model._factors(), model.members_, tensors)
    model.feature_maps_ = read_maps(header.get("features"), tensors, model.member_specs_)
    model._set_slopes(read_slopes(tensors))
    if header["calibrator"] is not None:
        arrays = {name.removeprefix(CALIBRATOR): tensor for name, tensor in tensors.items()}
        model.calibration_ = calibrator_from(header["calibrator"], arrays, as_link(model.link))
    _check_numbers(model, tensors["history"])
    model.history_ = [
        Iteration(int(row[0]), float(row[1]), float(row[2]), None) for row in tensors["history"]
    ]
    return model


def _tensors(model: BinaryMatrixCompletion) -> Tensors:
    """Return every array of a model as the file holds it."""
    tensors: Tensors = {name: np.ascontiguousarray(getattr(model, name)) for name in FACTORS}
    if model.n_fits_ > 1:
        for number, member in enumerate(model.members_):
            names = member_tensors(number, parts=model.spec_.shares_unknowns)
            tensors |= named_arrays(member, names)
    elif model.spec_.shares_unknowns and model.unknowns_ is not None:
        tensors |= named_arrays(model.unknowns_, PARTS)
    tensors |= feature_arrays(model.feature_maps_, model.member_factors_)
    tensors |= slopes_arrays(model.slopes_)
    # Without the seconds, which would make equal fits different files.
    rows = [(entry.iteration, entry.objective, entry.decrease) for entry in model.history_]
    tensors["history"] = np.array(rows, dtype=np.float64).reshape(-1, HISTORY_COLUMNS[FORMAT])
    if model.calibration_ is not None:
        for name, array in model.calibration_.arrays().items():
            tensors[CALIBRATOR + name] = array
    if model.search_ is not None:
        tensors[SEARCH] = packed_search(model.search_)
    for name in IDS:
        ids = getattr(model, name)
        if ids is not None:
            tensors[name] = packed_ids(ids, name)
    return tensors


def _check_numbers(model: BinaryMatrixCompletion, history: NDArray[Any]) -> None:
    """Refuse factors and a history that are not finite, and factors so large that no probability comes of them."""
    sizes = {name: _largest(getattr(model, name)) for name in FACTORS}
    unknowns = model.unknowns_
    parts = () if unknowns is None else dataclasses.astuple(unknowns)
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


def _name(dtype: np.dtype[Any]) -> str:
    """Return a dtype in the words of a file."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype))
