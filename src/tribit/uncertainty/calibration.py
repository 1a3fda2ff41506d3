"""Calibration of a fitted model on held-out entries, and the weights of these entries for the cells of interest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_between, check_choice
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.calibration import (
    CALIBRATORS,
    Beta,
    Calibrator,
    Identity,
    Isotonic,
    Platt,
    beta,
    calibration_losses,
    calibrator_from,
    check_method,
    cross_fit_probabilities,
    identity,
    isotonic,
    platt,
)
from tribit.model.risks import Missingness
from tribit.model.scores import HasScores, PlacedEntries, Scores, as_scores, read_entries
from tribit.propensity.model import MaskModel, observed_probability
from tribit.randomness import RandomState

__all__ = [
    "CALIBRATORS",
    "Beta",
    "Calibrator",
    "Identity",
    "Isotonic",
    "Platt",
    "beta",
    "calibrate",
    "calibration_losses",
    "calibrator_from",
    "cross_fit_probabilities",
    "identity",
    "isotonic",
    "platt",
]

if TYPE_CHECKING:
    from tribit.model.risks import Missingness

Floats = NDArray[np.floating[Any]]
Places = NDArray[np.int64]
Target = Literal["observed", "all", "unobserved"]

#: Kinds of cells for which results may hold.
TARGETS = ("observed", "all", "unobserved")


def resolve_target(target: Any, propensity: Missingness | None) -> Target:
    """Return the target: by default all cells with a model of the mask, and observed cells without."""
    if propensity is not None and not isinstance(propensity, Missingness):
        raise InvalidTypeError(
            f"propensity must be a model of the mask with rho_at, such as tribit.propensity.low_rank(observations); "
            f"got {type(propensity).__name__}."
        )
    if target is None:
        return "observed" if propensity is None else "all"
    check_choice("target", target, TARGETS)
    if target != "observed" and propensity is None:
        raise InvalidInputError(
            f"target={target!r} needs to know why entries were observed: pass propensity, a model of the mask such as "
            "tribit.propensity.low_rank(observations)."
        )
    chosen: Target = target
    return chosen


def target_weights(
    target: Target, propensity: Missingness | None, rows: Places, columns: Places
) -> Floats:
    """Return the density ratio of target cells to observed ones, up to a factor.

    Entries are observed with probability ``q``. The weight is 1 for observed cells, ``1 / q`` for all cells, and
    ``(1 - q) / q`` for unobserved cells.
    """
    if target == "observed" or propensity is None:
        return np.ones(rows.size)
    q = observed_probability(propensity, rows, columns)
    return np.asarray(1.0 / q if target == "all" else (1.0 - q) / q)


def weigh_held_out(
    shape: tuple[int, int], entries: PlacedEntries, target: object, propensity: Missingness | None
) -> tuple[Target, Floats]:
    """Return the target and the weights of held-out entries; raise an error for an impossible combination."""
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
            "Every held-out entry has the probability q = 1 of being observed, so that none represents unobserved "
            "cells: use target='observed'."
        )
    return aim, weights


def check_level(level: object) -> float:
    """Return a coverage inside (0, 1) as a float; raise an error for others."""
    return check_between("level", level, 0.0, 1.0, ends="()", meaning="the share to be covered")


def calibrate(
    model: HasScores | Scores,
    held_out: object,
    *,
    method: str = "auto",
    propensity: Missingness | None = None,
    target: Target | None = None,
    folds: int = 5,
    random_state: RandomState = None,
) -> Calibrator:
    """Fit a map from ``x`` to the probability of a like on held-out entries.

        argmin over calibrators   - sum_t w_t log P(label_t | x_t),     w_t = 1, or 1 / q_t for all cells

    times the weight of the entry, where it has one.

    Parameters
    ----------
    model : fitted model or Scores
        A fitted model.
    held_out : Observations, sparse matrix or array
        Entries that neither the fit nor the search has used, matched by id where both have ids.
    method : {"auto", "identity", "platt", "beta", "isotonic"}, default="auto"
        "auto" chooses the one with the least cross-validated log-loss on the held-out entries, including "identity",
        the model's own probabilities.
    propensity : Missingness, optional
        A model of the mask (:mod:`tribit.propensity`).
    target : {"observed", "all", "unobserved"}, optional
        Cells for which probabilities are calibrated: observed ones, all (weights ``1 / q``), or unobserved ones
        (weights ``(1 - q) / q``). By default "all" with a propensity and "observed" without.
    folds : int, default=5
        Folds of the cross-validation of "auto".
    random_state : int, Generator, RandomState or None
        Assigns the folds.

    Returns
    -------
    Calibrator
        Call it with ``model.decision_function(rows, columns)``.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.simulate import tables
    >>> from tribit.uncertainty import calibrate
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> train, held_out = ratings.split(0.2, random_state=0)
    >>> model = BinaryMatrixCompletion(search=False, rank=3, random_state=0).fit(train)
    >>> calibrate(model, held_out, random_state=0).name
    'beta'
    """
    if method != "auto":
        check_method(method)
    scores = as_scores(model)
    entries = scores.place_entries(read_entries(model, held_out))
    _, weights = weigh_held_out(scores.shape, entries, target, propensity)
    weights = weights * entries.weights_or_ones
    x, link = scores.x(entries.rows, entries.columns), scores.link
    if method == "auto":
        losses = calibration_losses(
            x, entries.labels, weights, link=link, folds=folds, random_state=random_state
        )
        method = min(losses, key=losses.__getitem__)
    return CALIBRATORS[method](x, entries.labels, weights, link=link)
