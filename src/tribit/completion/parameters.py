"""Parameters of the estimator: checks of those that are no part of the model, and their form in a file."""

from __future__ import annotations

import dataclasses
import json
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit import propensity
from tribit.backends import SUMS
from tribit.backends.arithmetic import check_dtype
from tribit.checks import check_choice, check_count, check_switch
from tribit.data.ingest import check_like_at
from tribit.errors import InvalidInputError
from tribit.metrics.entries import SCORINGS
from tribit.model.calibrator_fits import CALIBRATORS
from tribit.model.links import LINKS
from tribit.model.spec import AUTO, CHOOSABLE, ModelSpec, is_auto
from tribit.solvers import SOLVERS, Stopping, as_solver
from tribit.storage.fields import DAMAGE, reason_of

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion

#: Parameters that are not part of what was fitted, or are live objects.
NOT_KEPT = (
    "callback",
    "imputed",
    "random_state",
    "verbose",
    "n_jobs",
    "backend",
    "device",
)
#: Parameters that are whole numbers; all other numbers are floats.
COUNTS = ("rank", "max_iter", "n_candidates", "n_fits")
REGISTRIES = {"link": LINKS, "solver": SOLVERS}
#: The entries that predictions may be for.
TARGETS = ("observed", "all")


#: The entries that predictions may be for.
TARGETS = ("observed", "all")


def _parameter(default: Any, help: str, check: Any = None, command: Any = None) -> Any:  # noqa: A002
    """Return a field with its check, its help text and the default of the command line where that is another."""
    return field(default=default, metadata={"help": help, "check": check, "command": command})


def _choice(known: Iterable[str]) -> Callable[[str, Any], str]:
    return lambda name, value: check_choice(name, value, tuple(known))


@dataclass(frozen=True)
class FitOptions:
    """Parameters of the estimator that are no part of the model; the options of ``tribit fit`` beside those of it."""

    target: str = _parameter(
        "observed",
        "Predictions are for cells like the observed ones, or for all alike: observed, all.",
        _choice(TARGETS),
    )
    scoring: str = _parameter(
        "log_loss", "Measure to choose by: log_loss, error or auc.", _choice(SCORINGS)
    )
    search: bool = _parameter(
        True, "Whether to search for what is auto, which has its default otherwise.", check_switch
    )
    n_candidates: int | None = _parameter(None, "Most settings to try.", check_count)
    calibration: str | None = _parameter(
        AUTO,
        "Calibration: auto, platt, isotonic or none.",
        _choice((*CALIBRATORS, AUTO)),
    )
    n_fits: int | str = _parameter(
        AUTO,
        "Fits to average, of different ranks.",
        lambda name, value: value if is_auto(value) else check_count(name, value),
    )
    solver: Any = _parameter(AUTO, "newton, lbfgs, augmented_lagrangian or projected_gradient.")
    max_iter: int | None = _parameter(None, "Most iterations.")
    max_time: float | None = _parameter(None, "Most seconds.")
    tol: float = _parameter(
        1e-4, "Stop when the predicted decrease is below this share of the objective."
    )
    dtype: str = _parameter("float32", "float32 or float64.")
    n_jobs: int | None = _parameter(None, "Threads; -1 for every core.", command=-1)
    backend: str = _parameter(AUTO, "Sums over all cells: auto, exact or sampled.", _choice(SUMS))
    device: str = _parameter("cpu", "Where to compute: cpu, cuda (a GPU) or auto.")
    random_state: Any = _parameter(None, "Seed of the initial factors.", command=0)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, check = getattr(self, each.name), each.metadata["check"]
            if check is not None and not (value is None and "None" in str(each.type)):
                check(each.name, value)


def check_options(estimator: BinaryMatrixCompletion) -> None:
    """Refuse a wrong value of a parameter that is no part of the model, before a search that may take minutes."""
    FitOptions(**{each.name: getattr(estimator, each.name) for each in fields(FitOptions)})
    most = 1 if estimator.max_iter is None else estimator.max_iter
    Stopping(most, estimator.tol, estimator.max_time, estimator.callback)


def encoded(model: BinaryMatrixCompletion) -> dict[str, Any]:
    """Return the parameters that a file keeps, as JSON can hold them."""
    return {name: _encoded(name, getattr(model, name)) for name in _kept(model)}


def decoded(values: dict[str, Any], model: BinaryMatrixCompletion) -> dict[str, Any]:
    """Return parameters from what JSON holds of them; ``model`` knows their names."""
    known = _kept(model)
    for name in values:
        if name not in known:
            raise ValueError(f"the parameter {reprlib.repr(name)} is unknown")
    return {name: _decoded(name, value) for name, value in values.items()}


def _kept(model: BinaryMatrixCompletion) -> tuple[str, ...]:
    return tuple(name for name in model.get_params() if name not in NOT_KEPT)


def _encoded(name: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it; a registered link or solver as its name and options."""
    for registered, kind in REGISTRIES.get(name, {}).items():
        if type(value) is kind:
            options = {key: as_python(option) for key, option in dataclasses.asdict(value).items()}
            return {"name": registered, **options}
    written = as_python(value)
    if type(written) is int and name not in COUNTS:
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


def _decoded(name: str, value: Any) -> Any:
    """Return a parameter from what JSON holds of it."""
    if isinstance(value, dict):
        options = dict(value)
        try:
            return REGISTRIES[name][options.pop("name")](**options)
        except DAMAGE as error:
            raise ValueError(f"the parameter {name}: {reason_of(error)}") from None
    return tuple(value) if isinstance(value, list) else value


def as_python(value: Any) -> Any:
    """Return NumPy numbers as Python's, and tuples and arrays as lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [as_python(item) for item in value] if isinstance(value, tuple | list) else value


def check_parameters(model: BinaryMatrixCompletion) -> None:
    """Refuse parameters that no fit would take; what is "auto" is what was chosen."""
    check_options(model)
    if not is_auto(model.solver):
        as_solver(model.solver)
    if model.like_at is not None:
        check_like_at(model.like_at)
    if isinstance(model.rho, str) and model.rho not in (*propensity.NAMES, AUTO):
        raise propensity.unknown(model.rho)
    chosen = {
        name: getattr(model, f"{name}_")
        for name in CHOOSABLE
        if name != "rho" and is_auto(getattr(model, name))
    }
    check_dtype(model.dtype)
    ModelSpec.of(model, **chosen).check_shape(model.shape_)
