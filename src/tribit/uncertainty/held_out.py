"""Held-out entries as a fitted model knows them, and how much each counts for the cells one cares about."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_between, check_choice
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.risks import Missingness
from tribit.model.scores import PlacedEntries
from tribit.propensity.model import MaskModel, observed_probability

Floats = NDArray[np.floating[Any]]
Places = NDArray[np.int64]
Target = Literal["observed", "all", "unobserved"]

#: Kinds of cells that an answer may be for.
TARGETS = ("observed", "all", "unobserved")


def resolve_target(target: Any, propensity: Missingness | None) -> Target:
    """Return the target: by default every cell alike with a model of the mask, else cells like the observed."""
    if propensity is not None and not isinstance(propensity, Missingness):
        raise InvalidTypeError(
            f"propensity must be a model of the mask with rho_at, such as tribit.propensity.fits(observations); "
            f"got {type(propensity).__name__}."
        )
    if target is None:
        return "observed" if propensity is None else "all"
    check_choice("target", target, TARGETS)
    if target != "observed" and propensity is None:
        raise InvalidInputError(
            f"target={target!r} needs to know why entries were observed: pass propensity, a model of the mask such as "
            "tribit.propensity.fits(observations)."
        )
    chosen: Target = target
    return chosen


def target_weights(
    target: Target, propensity: Missingness | None, rows: Places, columns: Places
) -> Floats:
    """Return how much likelier a target cell is than an observed one, up to a factor.

    Observed entries come with probability ``q``. So the weight is 1 for cells like them, ``1 / q`` for all cells
    alike and ``(1 - q) / q`` for the cells that were not observed.
    """
    if target == "observed" or propensity is None:
        return np.ones(rows.size)
    q = observed_probability(propensity, rows, columns)
    return np.asarray(1.0 / q if target == "all" else (1.0 - q) / q)


def weigh(
    shape: tuple[int, int], entries: PlacedEntries, target: Any, propensity: Missingness | None
) -> tuple[Target, Floats]:
    """Return the target and the weights of held-out entries for it, or say what does not go together."""
    aim = resolve_target(target, propensity)
    if isinstance(propensity, MaskModel) and propensity.shape != shape:
        mask, own = propensity.shape, shape
        raise InvalidInputError(
            f"The model of the mask is {mask[0]} x {mask[1]} and the fitted model {own[0]} x {own[1]}: fit both on "
            "observations of the same shape."
        )
    weights = target_weights(aim, propensity, entries.rows, entries.columns)
    if not weights.any():
        raise InvalidInputError(
            "Every held-out entry was observed for sure (q = 1), so none tells of those that were not: use "
            "target='observed'."
        )
    return aim, weights


def check_level(level: Any) -> float:
    """Return a coverage inside (0, 1) as a float, or say that it is not one."""
    return check_between("level", level, 0.0, 1.0, ends="()", meaning="the share to be covered")
