"""Models written to files and read from them."""

from __future__ import annotations

import os

from sklearn.utils.validation import check_is_fitted

from tribit import storage
from tribit.completion.estimator import BinaryMatrixCompletion
from tribit.completion.parameters import check_parameters, decoded, encoded
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.model.risks import Missingness
from tribit.model.spec import is_auto
from tribit.storage import Contents
from tribit.storage.fields import DAMAGE, reason_of

__all__ = ["contents_of", "load", "model_of", "save"]


def save(model: BinaryMatrixCompletion, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, all of it or nothing; equal fits give equal bytes.

    Kept: the result of the fit with ids and features, the records of fit and search but for their times, the models
    without ``imputed`` and a ``rho`` by entry, and every parameter but ``callback``, ``imputed``, ``random_state``,
    ``verbose``, ``n_jobs``, ``backend`` and ``device``.
    """
    check_is_fitted(model)
    storage.write(path, contents_of(model))
    warn_of_rho(model)


def load(path: str | os.PathLike[str]) -> BinaryMatrixCompletion:
    """Read a model that :meth:`BinaryMatrixCompletion.save` wrote, or the model of a saved recommender.

    The file is checked before memory is taken for it. ``history_`` and ``search_`` are without
    times: ``seconds`` is None.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a tribit model, of another format, or too large for the memory.
    """
    return storage.read(path, model_of)


def contents_of(model: BinaryMatrixCompletion) -> Contents:
    """Return the content of a model's file."""
    try:
        check_parameters(model)
    except DAMAGE as error:
        raise InvalidInputError(
            f"The model cannot be saved, as no file may hold it ({reason_of(error)}); fit it again."
        ) from None
    return Contents(encoded(model), model.fitted_, model.record_)


def model_of(contents: Contents) -> BinaryMatrixCompletion:
    """Return the model of a file's content, its parameters checked."""
    model = BinaryMatrixCompletion(**decoded(contents.parameters, BinaryMatrixCompletion()))
    model.fitted_, model.record_ = contents.fitted, contents.record
    check_parameters(model)
    return model


def warn_of_rho(model: BinaryMatrixCompletion) -> None:
    """Warn of a model of the mask that was fitted for a name, as a file does not keep it."""
    # Here rho is a name: a model that was passed in is refused as a parameter.
    if isinstance(model.rho_, Missingness) and not is_auto(model.rho):
        warn(
            TribitWarning(
                f"The file keeps {parameter('rho', model.rho)} but not the model fitted for it (rho_), which "
                "predictions do not need; fit it again with tribit.propensity where you do."
            )
        )
