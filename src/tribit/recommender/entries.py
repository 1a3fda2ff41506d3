"""Entries of a recommender: those that lists leave out, those that were fitted, and their propensity model."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from tribit import propensity
from tribit.completion import BinaryMatrixCompletion
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError, InvalidTypeError, either
from tribit.folding.positions import placed
from tribit.model.spec import is_auto


def entries_to_leave_out(model: BinaryMatrixCompletion, given: Any) -> Observations:
    """Return the given entries in the rows and columns of the model, those that it knows."""
    if given is None:
        raise InvalidTypeError(
            "exclude_seen is None; pass True, False or the entries to leave out."
        )
    entries = as_observations(given, like_at=model.like_at)
    rows, columns = model._axes.places(entries, "exclude_seen has")
    here = np.flatnonzero((rows >= 0) & (columns >= 0))
    return placed(entries.take(here), rows[here], columns[here], *model._axes)


def n_fitted(model: BinaryMatrixCompletion, given: Observations, seen: Observations) -> int:
    """Return how many entries were part of the fit."""
    rows, columns = model._axes.places(given, "the test entries have")
    here = (rows >= 0) & (columns >= 0)
    return int(np.count_nonzero(seen.to_sparse()[rows[here], columns[here]]))


def no_entries(reason: str, *, again: bool) -> InvalidInputError:
    """Return the error of a file without entries, which are needed for a reason; ``again`` where only a fit helps."""
    fit = either(
        "fit a Recommender with keep_seen=True", "fit it with tribit fit, and without --no-seen"
    )
    given = either(
        "pass exclude_seen=False or the entries to leave out", "name the table of what was seen"
    )
    return InvalidInputError(
        f"The file keeps no entries, and {reason}: {fit if again else f'{given}, or {fit}'}."
    )


def with_rho(model: BinaryMatrixCompletion, seen: Observations | None) -> BinaryMatrixCompletion:
    """Return the model with its model of why entries are missing, which a file does not keep: fitted again."""
    if model.rho_ is not None or seen is None or not model.spec_.mixed:
        return model
    name = "low-rank" if is_auto(model.rho) else model.rho
    again = copy(model)
    again.rho_ = propensity.fitted(
        name, seen, n_jobs=model.n_jobs, random_state=0, backend=model.backend
    )
    return again
