"""A fit of entries whose weights halve with age, with a half-life that is given or chosen on the latest entries."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from tribit.completion.fitting import fit, refit
from tribit.data.decay import Decay
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, parameter, warn
from tribit.model.fitted import Fitted
from tribit.model.spec import AUTO, is_auto
from tribit.randomness import generator
from tribit.selection.half_life import HalfLife, choose_half_life
from tribit.selection.record import FitRecord
from tribit.solvers.loop import INTERRUPTED

if TYPE_CHECKING:
    from tribit.completion.estimator import BinaryMatrixCompletion


def fit_with_half_life(
    model: BinaryMatrixCompletion,
    observations: Observations,
    row_features: object,
    column_features: object,
) -> tuple[Fitted, FitRecord]:
    """Return the result of a fit and its record; see the parameter ``half_life`` of the estimator.

    A fit with a chosen half-life is the fit with that half-life given, its search included.
    """
    given = model.half_life
    tables = row_features, column_features
    if given is not None and not is_auto(given):
        if observations.times is None:
            raise InvalidInputError(
                f"{parameter('half_life', given)} is about the age of entries, and these have no times; pass "
                f"{parameter('time')}, the name of their column."
            )
        return _fit_with(
            HalfLife(Decay.of(observations, float(given))), model, observations, tables
        )
    fitted, record = fit(model, observations, *tables)
    if given is None or not model.search or observations.times is None:
        return fitted, record
    if record.stop_reason == INTERRUPTED:
        return fitted, record
    found = _choose(model, observations, fitted, record)
    if found.stop_reason == INTERRUPTED:
        warn(
            "Interrupted while half-lives were compared; the fit without one is kept.",
            RuntimeWarning,
        )
        record = replace(record, converged=False, stop_reason=INTERRUPTED)
    if found.decay is None:
        return fitted, replace(record, half_life=found)
    return _fit_with(found, model, observations, tables)


def _fit_with(
    found: HalfLife,
    model: BinaryMatrixCompletion,
    observations: Observations,
    tables: tuple[object, object],
) -> tuple[Fitted, FitRecord]:
    assert found.decay is not None
    fitted, record = fit(model, found.decay.weigh(observations), *tables)
    return fitted, replace(record, half_life=found)


def _choose(
    model: BinaryMatrixCompletion, observations: Observations, fitted: Fitted, record: FitRecord
) -> HalfLife:
    """Return the half-life that the latest entries favour, for the model that a fit has chosen."""
    done = copy(model)
    done.fitted_, done.record_ = fitted, record
    draws = generator(model.random_state)
    seed = int(draws.integers(2**32))

    def again(entries: Observations) -> Fitted:
        return refit(done, entries, seed, AUTO, model.imputed, interruptible=False)

    return choose_half_life(
        observations,
        again,
        scoring=model.scoring,
        max_time=model.max_time,
        random_state=draws,
    )
