"""Parameters of the estimator that are no part of the model: their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribit.backends import SUMS
from tribit.checks import check_choice, check_count
from tribit.metrics.entries import SCORINGS
from tribit.model.calibrator_fits import CALIBRATORS
from tribit.model.spec import AUTO, is_auto
from tribit.solvers import Stopping

if TYPE_CHECKING:
    from tribit.completion.estimator import BinaryMatrixCompletion

#: The entries that predictions may be for.
TARGETS = ("observed", "all")


def check_options(estimator: BinaryMatrixCompletion) -> None:
    """Refuse a wrong value of a parameter that is no part of the model, before a search that may take minutes."""
    calibrations = (*CALIBRATORS, AUTO)
    words = (
        ("target", TARGETS),
        ("scoring", tuple(SCORINGS)),
        ("calibration", calibrations),
        ("backend", SUMS),
    )
    for name, known in words:
        value = getattr(estimator, name)
        if name != "calibration" or value is not None:
            check_choice(name, value, known)
    if estimator.n_candidates is not None:
        check_count("n_candidates", estimator.n_candidates)
    if not is_auto(estimator.n_fits):
        check_count("n_fits", estimator.n_fits)
    most = 1 if estimator.max_iter is None else estimator.max_iter
    Stopping(most, estimator.tol, estimator.max_time, estimator.callback)
