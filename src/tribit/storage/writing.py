"""A fitted model, or a bundle, written to one file."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

from tribit import __version__
from tribit.archive.fields import DAMAGE, reason_of
from tribit.archive.ids import id_tensors
from tribit.archive.parts import Parts, check_bundle
from tribit.archive.tensor_file import DTYPES
from tribit.data.files import atomic_path
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.model.risks import Missingness
from tribit.model.spec import is_auto
from tribit.storage.checks import check_all_tensors, check_numbers
from tribit.storage.features import (
    check_features,
    described_features,
    feature_arrays,
    slopes_arrays,
)
from tribit.storage.members import described_members, named_arrays
from tribit.storage.parameters import as_python, check_parameters, encoded, kept
from tribit.storage.schema import (
    CALIBRATOR,
    FACTORS,
    FITTED,
    FORMAT,
    HISTORY_COLUMNS,
    PARTS,
    check_header,
    member_tensors,
)
from tribit.storage.searches import SEARCH, packed_search

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion

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
        "parameters": {name: encoded(name, getattr(model, name)) for name in kept(model)},
        "fitted": {name: as_python(getattr(model, name)) for name in FITTED},
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
        check_all_tensors(header, specs, described)
        check_parameters(model)
        check_numbers(model, tensors["history"])
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


def _tensors(model: BinaryMatrixCompletion) -> Tensors:
    """Return every array of a model as the file holds it."""
    tensors: Tensors = {name: np.ascontiguousarray(getattr(model, name)) for name in FACTORS}
    if model.n_fits_ > 1:
        for number, member in enumerate(model.members_):
            names = member_tensors(number, parts=model.spec_.shares_unknowns)
            tensors |= named_arrays(member, names)
    elif model.spec_.shares_unknowns:
        tensors |= named_arrays(model.unknowns_, PARTS)
    tensors |= feature_arrays(model.feature_maps_, model.member_factors_)
    tensors |= slopes_arrays(model.slopes_)
    # Without the seconds, which would make equal fits different files.
    rows = [(entry.iteration, entry.objective, entry.decrease) for entry in model.history_]
    tensors["history"] = np.array(rows, dtype=np.float64).reshape(-1, HISTORY_COLUMNS)
    if model.calibration_ is not None:
        for name, array in model.calibration_.arrays().items():
            tensors[CALIBRATOR + name] = array
    if model.search_ is not None:
        tensors[SEARCH] = packed_search(model.search_)
    return tensors | id_tensors(model._axes)


def _name(dtype: np.dtype[Any]) -> str:
    """Return a dtype in the words of a file."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype))
