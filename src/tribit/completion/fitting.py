"""The fit of the estimator: the search over "auto" hyperparameters and the refit on all data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tribit.backends.cuda.device import check_device, memory_named, usable_device
from tribit.backends.layout import sharing_layouts
from tribit.backends.threads import count_jobs, single_threaded_blas
from tribit.data import features
from tribit.data.observations import Observations
from tribit.errors import Message, parameter, warn_unconverged
from tribit.model.fitted import LIKE, Fitted
from tribit.model.links import as_link
from tribit.model.spec import ModelSpec, is_auto
from tribit.progress import progress
from tribit.randomness import generator
from tribit.selection.problem import warn_if_ran_off
from tribit.selection.record import FitRecord, Search
from tribit.selection.refit import (
    Fits,
    calibrate_horizon,
    fit_calibrator,
    fit_members,
    member_specs,
    member_weights,
)
from tribit.selection.search import search_hyperparameters
from tribit.selection.space import with_fitted_rho
from tribit.selection.trials import default_solver, options_of
from tribit.solvers import Solver, SolverResult, Stopping, as_solver
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
    row_features: object,
    column_features: object,
) -> tuple[Fitted, FitRecord]:
    """Return the result of a fit with the parameters of an estimator, and how it was found."""
    draws = generator(model.random_state)
    asked = None if is_auto(model.solver) else as_solver(model.solver)
    device = _device(model, observations)
    # Around all of it: beside another fit BLAS is limited between the solvers too.
    with single_threaded_blas(), memory_named(), sharing_layouts(observations):
        encoders, side = features.fit_side_features(
            observations.axes, row_features, column_features
        )
        spec, search = search_hyperparameters(model, observations, asked, draws, side, device)
        spec = with_fitted_rho(spec, observations, model, draws)
        # One Ctrl-C ends the search or the refit early; a second one is an error.
        interrupted = search is not None and search.interrupted
        specs = member_specs(spec, search)
        solvers = _solvers(specs, asked)
        most = solvers[0].max_iter if model.max_iter is None else model.max_iter
        with progress("fitting", most, model.callback, shown=bool(model.verbose)) as callback:
            stopping = Stopping(
                most, model.tol, model.max_time, callback, interruptible=not interrupted
            )
            options = options_of(model, side, device)
            fits = fit_members(
                specs, observations, search, solvers, stopping, options, draws, model.max_iter
            )
        weights = member_weights(search, len(fits.found))
        members = fits.members(observations, encoders, model.dtype, weights)
        meaning = LIKE if search is None else search.meaning
        calibrator = fit_calibrator(model, search, len(members))
        fitted = Fitted(observations.axes, members, (None, None), calibrator, meaning)
        if search is not None and search.at_risk is not None:
            fitted = replace(
                fitted, horizon=calibrate_horizon(search.at_risk, fitted, observations)
            )
        interrupted |= fits.ended == INTERRUPTED
        record = _record(fits, search, model.dtype, interrupted=interrupted)
    if side is not None and not spec.uses_unobserved:
        fitted, ended = _with_cold_start(
            fitted, observations, side, draws, model, interrupted=interrupted
        )
        if ended is not None:
            record = replace(record, converged=False, stop_reason=ended)
    warn_if_ran_off(spec, observations, fitted.factors)
    _warn_if_unfinished(fits.results[0], most, model.tol)
    return fitted, record


def refit(
    model: BinaryMatrixCompletion,
    observations: Observations,
    random_state: Any,
    rho: object,
    imputed: object,
    *,
    interruptible: bool = True,
) -> Fitted:
    """Return the model fitted to other entries; see the method of the estimator."""
    rho = requested_rho(model) if is_auto(rho) else rho
    fitted, search = model.fitted_, model.search_
    specs = [each.spec for each in fitted.members]
    draws = generator(random_state)
    first = replace(specs[0], rho=rho, side_features=False, imputed=imputed)
    rho = with_fitted_rho(first, observations, model, draws).rho
    specs = [replace(spec, rho=rho, side_features=False, imputed=imputed) for spec in specs]
    asked = None if is_auto(model.solver) else as_solver(model.solver)
    solvers = _solvers(specs, asked)
    most = solvers[0].max_iter if model.max_iter is None else model.max_iter
    with single_threaded_blas():
        fits = fit_members(
            specs,
            observations,
            None if search is None else replace(search, ends={}),
            solvers,
            Stopping(most, model.tol, model.max_time, None, interruptible=interruptible),
            options_of(model),
            draws,
            model.max_iter,
        )
    weights = [each.weight for each in fitted.members[: len(fits.found)]]
    members = fits.members(observations, (None, None), model.dtype, weights)
    return Fitted(
        observations.axes,
        members,
        (None, None),
        fitted.calibrator,
        fitted.meaning,
        horizon=fitted.horizon,
    )


def _solvers(specs: Sequence[ModelSpec], asked: Solver | None) -> list[Solver]:
    """Return the solver of each model: the one that was asked for, or the first that can fit it."""
    return [default_solver(spec) if asked is None else asked for spec in specs]


def requested_rho(model: BinaryMatrixCompletion) -> Any:
    """Return ``rho`` as the parameter of a fit to other entries."""
    if not is_auto(model.rho):
        return model.rho
    if model.fitted_.rho == 0.0:  # chosen if one label was observed
        return 0.0
    return "low-rank" if model.target == "all" or model.inverse_power else None


def _record(fits: Fits, search: Search | None, dtype: str, *, interrupted: bool) -> FitRecord:
    result = fits.results[0]
    objective = fits.objective.in_float64().value_on_new_sample(
        result.factors.astype(dtype).astype("float64")
    )
    return FitRecord(
        n_iter=result.n_iter,
        converged=all(each.converged for each in fits.results) and not interrupted,
        stop_reason=INTERRUPTED if interrupted else result.stop_reason,
        objective=objective,
        history=tuple(result.history),
        backend="sampled" if fits.objective.estimates else "exact",
        found=search,
    )


def _device(model: BinaryMatrixCompletion, observations: Observations) -> str:
    """Return the device of the fit."""
    if observations.is_remote:
        return check_device(model.device)  # each worker has a device of its own
    return usable_device(model.device, observations.n_observed, as_link(model.link))


def _with_cold_start(
    fitted: Fitted,
    observations: Observations,
    side: features.SideFeatures,
    draws: Any,
    model: BinaryMatrixCompletion,
    *,
    interrupted: bool,
) -> tuple[Fitted, str | None]:
    """Return the fit with cold-start factors from features for rows and columns without entries.

    If it took too long or was interrupted, the stop reason follows and the factors are left out.
    """
    from tribit.folding.cold_start import with_cold_maps  # noqa: PLC0415 - features are rare

    try:
        n_jobs = count_jobs(model.n_jobs)
        return with_cold_maps(fitted, observations, side, draws, n_jobs, model.max_time), None
    except TimeoutError:
        return fitted, OUT_OF_TIME
    except KeyboardInterrupt:  # the first one keeps the fit
        if interrupted:
            raise
        return fitted, INTERRUPTED


def _warn_if_unfinished(result: SolverResult, most: int, tol: float) -> None:
    if result.stop_reason in (DIVERGED, NO_DESCENT, ABOVE_MINIMUM) and not result.converged:
        warn_unconverged(f"The fit stopped before it converged: {result.stop_reason}.")
    if result.stop_reason == OUT_OF_ITERATIONS:
        warn_unconverged(
            Message(
                f"The fit stopped after {parameter('max_iter', most)} iterations, before "
                f"{parameter('tol', float(tol))} was reached: raise {parameter('max_iter')} or {parameter('tol')}."
            )
        )
