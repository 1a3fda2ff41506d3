"""Models on disk: one safetensors file, parameters as JSON in its header, nothing that is executed."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

from tribit import __version__
from tribit.completion import BinaryMatrixCompletion
from tribit.errors import InvalidInputError
from tribit.factors import Factors
from tribit.files import atomic_path
from tribit.links import LINKS, Link, as_link
from tribit.selection.settle import is_auto
from tribit.solvers import SOLVERS, Iteration, as_solver
from tribit.uncertainty.calibrators import Calibrator, calibrator_from

FORMAT = 2
#: Parameters that are not part of what was fitted, or are live objects.
NOT_KEPT = ("callback", "imputed", "random_state", "verbose", "n_jobs")
REGISTRIES = {"link": LINKS, "solver": SOLVERS}
FITTED = (
    "n_iter_",
    "converged_",
    "stop_reason_",
    "objective_",
    "gammas_",
    "rank_",
    "radius_",
    "alpha_",
    "l2_",
    "l2_intercept_",
    "mask_features_",
    "l2_mask_",
    "n_features_in_",
    "intercept_",
    "names_",
)
ARRAYS = ("row_factors_", "column_factors_", "row_intercepts_", "column_intercepts_")
#: Kinds of NumPy arrays whose values JSON gives back as they were.
KINDS = "iufUb"
#: Before the names of a calibrator's arrays.
CALIBRATOR = "calibrator:"


def save(model: BinaryMatrixCompletion, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, all of it or nothing.

    Kept: the factors, intercepts and ids, what the fit reported, and every parameter but ``callback``,
    ``imputed``, ``random_state``, ``verbose`` and ``n_jobs``.
    """
    check_is_fitted(model)
    parameters = {
        name: _encoded(name, value)
        for name, value in model.get_params(deep=False).items()
        if name not in NOT_KEPT
    }
    header = {
        "format": FORMAT,
        "version": __version__,
        "parameters": parameters,
        "fitted": {name: _plain(getattr(model, name)) for name in FITTED},
        "calibrator": None if model.calibration_ is None else model.calibration_.name,
        "rho": model.rho_ if isinstance(model.rho_, float) else None,
    }
    tensors: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(model, name)) for name in ARRAYS
    }
    tensors["history"] = np.array(
        [dataclasses.astuple(entry) for entry in model.history_], dtype=np.float64
    ).reshape(-1, 4)
    if model.calibration_ is not None:
        for name, array in model.calibration_.arrays().items():
            tensors[CALIBRATOR + name] = array
    for name in ("row_ids_", "column_ids_"):
        ids = getattr(model, name)
        if ids is not None:
            tensors[name] = _packed_ids(ids, name)
    with atomic_path(path) as temporary:
        # Not save_file, which puts a file of its own, readable by its owner only, in the place of this one.
        temporary.write_bytes(to_bytes(tensors, metadata={"tribit": json.dumps(header)}))


def load(path: str | os.PathLike[str]) -> BinaryMatrixCompletion:
    """Read a model that :meth:`BinaryMatrixCompletion.save` wrote.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a tribit model, or written by a later format.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):  # noqa: PTH113
        raise InvalidInputError(
            f"There is no model file {name!r}; write one with model.save(path)."
        )
    try:
        with safe_open(name, framework="numpy") as opened:
            header = json.loads((opened.metadata() or {}).get("tribit", "null"))
            tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{name!r} is not a readable tribit model ({error}); it may be cut short or another kind of file."
        ) from None
    if header is None:
        raise InvalidInputError(f"{name!r} is a safetensors file, but not a tribit model.")
    if not isinstance(header, dict):
        raise InvalidInputError(
            f"{name!r} is a damaged tribit model (its header is no object); fit it again."
        )
    if header.get("format") != FORMAT:
        raise InvalidInputError(
            f"{name!r} has model format {header.get('format')!r}, and tribit {__version__} reads format {FORMAT}; "
            f"it was written by tribit {header.get('version')}: use that version or fit again."
        )
    try:
        return _model(header, tensors)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise InvalidInputError(
            f"{name!r} is a damaged tribit model ({type(error).__name__}: {error}); fit it again."
        ) from None


def _model(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> BinaryMatrixCompletion:
    parameters = {name: _decoded(name, value) for name, value in header["parameters"].items()}
    model = BinaryMatrixCompletion(**parameters)
    for name in FITTED:
        setattr(model, name, header["fitted"][name])
    model.rho_, model.search_ = header["rho"], None
    model.calibration_ = _calibrator(header["calibrator"], tensors, as_link(model.link))
    model.gammas_ = tuple(model.gammas_)
    if model.names_ is not None:
        row, column, value = model.names_
        model.names_ = (row, column, value)
    as_link(model.link)
    if not is_auto(model.solver):
        as_solver(model.solver)
    if not isinstance(model.intercept_, int | float) or not np.isfinite(model.intercept_):
        raise ValueError("the intercept is not a finite number")
    U, V, a, c = (tensors[name] for name in ARRAYS)
    if (
        U.ndim != 2
        or U.shape[1:] != V.shape[1:]
        or a.shape != U.shape[:1]
        or c.shape != V.shape[:1]
    ):
        raise ValueError("the shapes of the factors do not agree")
    if not all(np.isfinite(array).all() for array in (U, V, a, c)):
        raise ValueError("the factors hold NaN or infinity")
    model._set_factors(Factors(U, V, model.intercept_, a, c))
    model.history_ = [Iteration(int(row[0]), *map(float, row[1:])) for row in tensors["history"]]
    model.row_ids_ = _unpacked_ids(tensors.get("row_ids_"), U.shape[0])
    model.column_ids_ = _unpacked_ids(tensors.get("column_ids_"), V.shape[0])
    return model


def _calibrator(
    name: str | None, tensors: dict[str, NDArray[Any]], link: Link
) -> Calibrator | None:
    if name is None:
        return None
    marked = (key for key in tensors if key.startswith(CALIBRATOR))
    return calibrator_from(
        name, {key.removeprefix(CALIBRATOR): tensors[key] for key in marked}, link
    )


def _encoded(name: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it; a registered link or solver as its name and options."""
    for registered, kind in REGISTRIES.get(name, {}).items():
        if type(value) is kind:
            options = {key: _plain(option) for key, option in dataclasses.asdict(value).items()}
            return {"name": registered, **options}
    plain = _plain(value)
    try:
        json.dumps(plain)
    except TypeError:
        raise InvalidInputError(
            f"The parameter {name}={value!r} cannot be saved: a model file holds names and numbers, no code. "
            "Pass a name or a number there, or keep the factors yourself."
        ) from None
    return plain


def _decoded(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        options = dict(value)
        return REGISTRIES[name][options.pop("name")](**options)
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return NumPy numbers as Python's, and tuples and arrays as lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _packed_ids(ids: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Return ids as the bytes of a JSON list, with their kind, so that 1 and "1" stay different."""
    values = ids.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        odd = next(v for v in values if not isinstance(v, str | int | float | bool))
        raise InvalidInputError(
            f"{name.strip('_')} holds {odd!r}, a {type(odd).__name__}, and a model file holds only text and numbers: "
            "fit with such ids instead."
        )
    text = json.dumps({"dtype": ids.dtype.str if ids.dtype.kind in KINDS else "O", "ids": values})
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _unpacked_ids(packed: NDArray[np.uint8] | None, size: int) -> NDArray[Any] | None:
    if packed is None:
        return None
    stored = json.loads(packed.tobytes().decode())
    if stored["dtype"] == "O":
        ids = np.empty(len(stored["ids"]), dtype=object)
        ids[:] = stored["ids"]
    else:
        ids = np.array(stored["ids"], dtype=np.dtype(stored["dtype"]))
    if ids.shape != (size,):
        raise ValueError(f"{ids.size} ids for {size} rows or columns")
    return ids
