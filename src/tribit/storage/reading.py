"""A model, or a bundle, read from a file."""

from __future__ import annotations

import json
import os
import reprlib
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tribit import __version__
from tribit.archive.fields import DAMAGE, TEXT, reason_of
from tribit.archive.ids import read_axes
from tribit.archive.parts import Parts, check_bundle, read_parts
from tribit.archive.tensor_file import Place, parsed_json, read_description, read_tensors
from tribit.data.files import checked_path
from tribit.errors import InvalidInputError, either
from tribit.model.calibrators import calibrator_from
from tribit.model.factors import Factors
from tribit.model.links import as_link
from tribit.model.risks import check_rho
from tribit.model.spec import ModelSpec
from tribit.quoting import quoted
from tribit.solvers import Iteration
from tribit.storage.checks import check_all_tensors, check_numbers
from tribit.storage.features import check_features, read_maps, read_member_factors, read_slopes
from tribit.storage.members import read_members
from tribit.storage.parameters import check_parameters, decoded, kept
from tribit.storage.schema import (
    CALIBRATOR,
    FACTORS,
    FITTED,
    FORMAT,
    PARTS,
    check_header,
)
from tribit.storage.searches import SEARCH, unpacked_search

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion

Tensors = dict[str, NDArray[Any]]


def read_bundle(
    path: str | os.PathLike[str], estimator: type[BinaryMatrixCompletion]
) -> tuple[BinaryMatrixCompletion, Parts]:
    """Read a model, which is made by ``estimator``, and what else its file holds."""
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
                check_features(header["features"])
                check_bundle(header["bundle"])
                model = _unfitted(header, estimator)
                tensors = _read(file, header, model.member_specs_, places)
                _fitted(model, header, tensors)
                return model, read_parts(header["bundle"], tensors, model._axes)
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
    if type(number) is not int or number != FORMAT:
        by = reprlib.repr(version).strip("'") if TEXT.holds(version) else "another version"
        raise InvalidInputError(
            f"{name} has model format {reprlib.repr(number)}, and tribit {__version__} reads format {FORMAT} alone; it "
            f"was written by tribit {by}: fit it again."
        )


def _read(
    file: Any, header: dict[str, Any], specs: tuple[ModelSpec, ...], places: dict[str, Place]
) -> Tensors:
    """Return the tensors, after all of them were found to be what the header says."""
    described = {name: (place.dtype, place.shape) for name, place in places.items()}
    check_all_tensors(header, specs, described)
    return read_tensors(file, places)


def _unfitted(
    header: dict[str, Any], estimator: type[BinaryMatrixCompletion]
) -> BinaryMatrixCompletion:
    """Return the estimator of the parameters, with the spec that was fitted."""
    names = kept(estimator())
    for name in header["parameters"]:
        if name not in names:
            raise ValueError(f"the parameter {reprlib.repr(name)} is unknown")
    model = estimator(
        **{name: decoded(name, value) for name, value in header["parameters"].items()}
    )
    spec = _spec(header["spec"])
    specs = tuple(_spec(member["spec"]) for member in header["members"] or ())
    if specs and specs[0] != spec:
        raise ValueError("the first member must have the spec of the model")
    if len({(each.implicit_features, each.side_features) for each in specs}) > 1:
        raise ValueError("either all members have features of a kind or none")
    model._set_spec(spec)
    model.member_specs_ = specs or (spec,)
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
    model.calibration_ = None
    model.search_ = unpacked_search(tensors[SEARCH]) if SEARCH in tensors else None
    U, V, a, c = (tensors[name] for name in FACTORS)
    model._set_factors(Factors(U, V, model.intercept_, a, c))
    model._set_axes(read_axes(tensors, (U.shape[0], V.shape[0])))
    check_parameters(model)
    shares = model.spec_.shares_unknowns
    if header["members"]:
        members = read_members(header["members"], tensors, parts=shares)
    elif shares:
        p, q, of_rows, of_columns = (tensors[name] for name in PARTS)
        # The one intercept is that of the matrix: features add to rows and columns alone.
        members = (Factors(p, q, model.intercept_, of_rows, of_columns),)
    else:
        members = (model._factors(),)
    model._set_members(model.member_specs_, members)
    model.member_factors_ = read_member_factors(model._factors(), model.members_, tensors)
    model.feature_maps_ = read_maps(header["features"], tensors, model.member_specs_)
    model._set_slopes(read_slopes(tensors))
    if header["calibrator"] is not None:
        arrays = {name.removeprefix(CALIBRATOR): tensor for name, tensor in tensors.items()}
        model.calibration_ = calibrator_from(header["calibrator"], arrays, as_link(model.link))
    check_numbers(model, tensors["history"])
    model.history_ = [
        Iteration(int(row[0]), float(row[1]), float(row[2]), None) for row in tensors["history"]
    ]
    return model
