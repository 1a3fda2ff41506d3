"""Models in files, with their parameters as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import reprlib
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tribit import storage
from tribit.backends import check_dtype
from tribit.completion.estimator import BinaryMatrixCompletion, check_options
from tribit.data.reading import Reading
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.model.links import LINKS
from tribit.model.risks import Missingness
from tribit.model.spec import CHOOSABLE, ModelSpec, is_auto
from tribit.solvers import SOLVERS, as_solver
from tribit.storage.contents import Contents
from tribit.storage.file_format import DAMAGE_ERRORS, reason_of

__all__ = ["contents_of", "load", "model_of", "save"]

#: Parameters that do not determine the fit, or are live objects.
NOT_SAVED = (
    "callback",
    "imputed",
    "random_state",
    "verbose",
    "n_jobs",
    "backend",
    "device",
)
#: Parameters that are whole numbers; all other numbers are floats.
WHOLE_NUMBERS = ("rank", "max_iter", "n_candidates", "members")
REGISTRIES = {"link": LINKS, "solver": SOLVERS}


def save(model: BinaryMatrixCompletion, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, all of it or nothing; equal fits give equal bytes.

    Kept: the result of the fit with ids and features, the records of fit and search but for their times, the models
    without ``imputed`` and a ``rho`` by entry, and every parameter but ``callback``, ``imputed``, ``random_state``,
    ``verbose``, ``n_jobs``, ``backend`` and ``device``.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tribit
    >>> model = tribit.BinaryMatrixCompletion(search=False, random_state=0).fit([[1, -1], [-1, 1]])
    >>> path = Path("model.tribit")
    >>> tribit.save(model, path)
    >>> tribit.load(path).shape_
    (2, 2)
    """
    check_is_fitted(model)
    storage.write(path, contents_of(model))
    warn_of_rho(model)


def load(path: str | os.PathLike[str]) -> BinaryMatrixCompletion:
    """Read a model that :meth:`BinaryMatrixCompletion.save` wrote, or the model of a saved recommender.

    The file is checked before memory is allocated. ``history_`` and ``search_`` have no times: ``seconds`` is None.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a tribit model, of another format, or too large for the memory.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tribit
    >>> model = tribit.BinaryMatrixCompletion(search=False, random_state=0).fit([[1, -1], [-1, 1]])
    >>> path = Path("model.tribit")
    >>> model.save(path)
    >>> tribit.load(path).predict([0, 1], [1, 1])
    array([-1, -1], dtype=int8)
    """
    return storage.read(path, model_of)


def contents_of(model: BinaryMatrixCompletion) -> Contents:
    """Return the contents of a model's file."""
    try:
        check_parameters(model)
    except DAMAGE_ERRORS as error:
        raise InvalidInputError(
            f"The model cannot be saved, as its parameters were changed ({reason_of(error)}); fit it again."
        ) from None
    return Contents(
        parameters_to_json(model),
        model.fitted_,
        model.record_,
        reading=model.reading_.to_json(),
    )


def model_of(contents: Contents) -> BinaryMatrixCompletion:
    """Return the model of a file's contents, with its parameters checked."""
    model = BinaryMatrixCompletion(
        **parameters_from_json(contents.parameters, BinaryMatrixCompletion())
    )
    model.fitted_, model.record_ = contents.fitted, contents.record
    model.reading_ = Reading.from_json(contents.reading or {"like_at": model.like_at})
    summary = contents.summary or {}
    if {"likes", "dislikes"} <= summary.keys():
        model.counts_ = {name: int(summary[name]) for name in ("likes", "dislikes")}
    check_parameters(model)
    return model


def warn_of_rho(model: BinaryMatrixCompletion) -> None:
    """Warn that the file does not keep the model of the mask that was fitted for a name."""
    # Then rho is a name: a model as a parameter is refused above.
    if isinstance(model.rho_, Missingness) and not is_auto(model.rho):
        warn(
            TribitWarning(
                f"The file keeps {parameter('rho', model.rho)} but not the model fitted for it (rho_), which "
                "predictions do not need; fit it again with tribit.propensity where you do."
            )
        )


def parameters_to_json(model: BinaryMatrixCompletion) -> dict[str, Any]:
    """Return the parameters of a file as values for JSON."""
    return {name: _to_json(name, getattr(model, name)) for name in _saved_names(model)}


def parameters_from_json(values: dict[str, Any], model: BinaryMatrixCompletion) -> dict[str, Any]:
    """Return parameters from values of JSON; ``model`` has their names."""
    known = _saved_names(model)
    for name in values:
        if name not in known:
            raise ValueError(f"the parameter {reprlib.repr(name)} is unknown")
    return {name: _from_json(name, value) for name, value in values.items()}


def _saved_names(model: BinaryMatrixCompletion) -> tuple[str, ...]:
    return tuple(name for name in model.get_params() if name not in NOT_SAVED)


def _to_json(name: str, value: Any) -> Any:
    """Return a parameter as a value for JSON; a registered link or solver as its name and options."""
    for registered, kind in REGISTRIES.get(name, {}).items():
        if type(value) is kind:
            options = {key: _as_python(option) for key, option in dataclasses.asdict(value).items()}
            return {"name": registered, **options}
    written = _as_python(value)
    if type(written) is int and name not in WHOLE_NUMBERS:
        written = float(written)  # 1 and 1.0 are the same fit, and give the same bytes
    elif name == "gammas" and isinstance(written, list):
        written = [float(weight) for weight in written]
    try:
        json.dumps(written)
    except TypeError:
        raise InvalidInputError(
            f"The parameter {name}={value!r} cannot be saved: a model file holds names and numbers, no code. "
            "Pass a name or a number there, or keep the factors yourself."
        ) from None
    return written


def _from_json(name: str, value: object) -> Any:
    """Return a parameter from a value of JSON."""
    if isinstance(value, dict):
        options = dict(value)
        try:
            return REGISTRIES[name][options.pop("name")](**options)
        except DAMAGE_ERRORS as error:
            raise ValueError(f"the parameter {name}: {reason_of(error)}") from None
    return tuple(value) if isinstance(value, list) else value


def _as_python(value: object) -> Any:
    """Return NumPy numbers as Python's, and tuples and arrays as lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [_as_python(item) for item in value] if isinstance(value, tuple | list) else value


def check_parameters(model: BinaryMatrixCompletion) -> None:
    """Refuse parameters that a fit would refuse; those that are "auto" have the chosen values."""
    check_options(model)
    if not is_auto(model.solver):
        as_solver(model.solver)
    model.check_reused()
    chosen = {
        name: getattr(model, f"{name}_")
        for name in CHOOSABLE
        if name != "rho" and is_auto(getattr(model, name))
    }
    check_dtype(model.dtype)
    ModelSpec.of(model, **chosen).check_shape(model.shape_)
