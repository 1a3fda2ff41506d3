"""The fit of the estimator: a search where something is "auto", the last fits, and what is kept of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from tribit.backends.cuda.device import check_device, memory_named, usable_device
from tribit.backends.layout import sharing_layouts
from tribit.backends.threads import single_threaded_blas
from tribit.data import side_features
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.errors import Message, parameter, warn
from tribit.model.features import feature_maps
from tribit.model.links import as_link
from tribit.model.spec import is_auto
from tribit.progress import progress
from tribit.randomness import generator
from tribit.selection.averages import member_specs
from tribit.selection.last_fit import fit_members
from tribit.selection.problem import warn_if_ran_off
from tribit.selection.resolve import calibrated, options_of, resolve
from tribit.selection.trials import default_solver
from tribit.solvers import SolverResult, Stopping, as_solver
from tribit.solvers.loop import (
    ABOVE_MINIMUM,
    DIVERGED,
    INTERRUPTED,
    NO_DESCENT,
    OUT_OF_ITERATIONS,
    OUT_OF_TIME,
)

if TYPE_CHECKING:
    from tribit.completion.estimator import BinaryMatrixCompletion


def fit(
    model: BinaryMatrixCompletion,
    observations: Observations,
    row_features: Any,
    column_features: Any,
) -> None:
    """Set every fitted attribute of the model."""
    draws = generator(model.random_state)
    asked = None if is_auto(model.solver) else as_solver(model.solver)
    device = _device(model, observations)
    # All of it, not the solver alone: beside another fit BLAS is limited between the solvers too.
    with single_threaded_blas(), memory_named(), sharing_layouts(observations):
        encoders, side = side_features.learned(observations.axes, row_features, column_features)
        spec, search = resolve(model, observations, asked, draws, side, device)
        solver = default_solver(spec) if asked is None else asked
        # Ctrl-C once ends the search or the last fit early; twice it is an error.
        interrupted = search is not None and search.interrupted
        most = solver.max_iter if model.max_iter is None else model.max_iter
        specs = member_specs(spec, search, model.n_fits, observations.shape)
        with progress("fitting", most, model.callback, shown=bool(model.verbose)) as callback:
            stopping = Stopping(
                most, model.tol, model.max_time, callback, interruptible=not interrupted
            )
            options = options_of(model, side, device)
            fits = fit_members(specs, observations, search, asked, stopping, options, draws)
        problem, result = fits.problems[0], fits.results[0]
        factors = fits.factors(model.dtype)
        model._set_fitted(factors, observations)
        model.objective_ = problem.objective.in_float64().elsewhere(
            result.factors.astype(model.dtype).astype("float64")
        )
        model.backend_ = "sampled" if problem.objective.estimates else "exact"
        model.search_, model.calibration_ = search, calibrated(model, search)
    model._set_members(fits.specs, fits.unknowns(model.dtype))
    model.member_factors_ = fits.member_factors(model.dtype)
    model.n_iter_, model.history_ = result.n_iter, result.history
    interrupted |= fits.ended == INTERRUPTED
    model.converged_ = all(each.converged for each in fits.results) and not interrupted
    model.stop_reason_ = INTERRUPTED if interrupted else result.stop_reason
    model.feature_maps_ = tuple(feature_maps(each, observations, encoders) for each in fits.specs)
    if side is not None and not spec.mixed:
        _learn_without_entries(model, observations, side, draws, interrupted=interrupted)
    model.risk_ = problem.risk
    warn_if_ran_off(spec, observations, factors)
    _warn_if_unfinished(result, most, model.tol)


def _device(model: BinaryMatrixCompletion, observations: Observations) -> str:
    """Return where to compute."""
    if isinstance(observations, RemoteObservations):
        return check_device(model.device)  # each worker looks for a GPU of its own
    return usable_device(model.device, observations.n_observed, as_link(model.link))


def _learn_without_entries(
    model: BinaryMatrixCompletion,
    observations: Observations,
    side: side_features.SideFeatures,
    draws: Any,
    *,
    interrupted: bool,
) -> None:
    """Learn from features how rows and columns without entries are predicted, if there is time for it."""
    from tribit.folding import with_cold_maps  # noqa: PLC0415 - features are rare

    try:
        with_cold_maps(model, observations, side, draws, model.max_time)
    except TimeoutError:
        model.converged_, model.stop_reason_ = False, OUT_OF_TIME
    except KeyboardInterrupt:  # what was fitted is kept, once
        if interrupted:
            raise
        model.converged_, model.stop_reason_ = False, INTERRUPTED


def _warn_if_unfinished(result: SolverResult, most: int, tol: float) -> None:
    if result.stop_reason in (DIVERGED, NO_DESCENT, ABOVE_MINIMUM) and not result.converged:
        warn(f"The fit stopped before it converged: {result.stop_reason}.", ConvergenceWarning)
    if result.stop_reason == OUT_OF_ITERATIONS:
        warn(
            ConvergenceWarning(
                Message(
                    f"The fit stopped after {parameter('max_iter', most)} iterations, before "
                    f"{parameter('tol', float(tol))} was reached: raise {parameter('max_iter')} or "
                    f"{parameter('tol')}."
                )
            ),
        )
