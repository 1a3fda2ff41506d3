"""Calibrate a fitted model on held-out entries, by the calibrator that these entries themselves prefer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tribit.model.calibrator_fits import CALIBRATORS, calibration_losses, check_method
from tribit.model.calibrators import Calibrator
from tribit.model.scores import HasScores, Scores, as_scores, read_entries
from tribit.randomness import RandomState
from tribit.uncertainty.held_out import Target, weigh

if TYPE_CHECKING:
    from tribit.model.risks import Missingness


def calibrate(
    model: HasScores | Scores,
    held_out: Any,
    *,
    method: str = "auto",
    propensity: Missingness | None = None,
    target: Target | None = None,
    folds: int = 5,
    random_state: RandomState = None,
) -> Calibrator:
    """Fit a map from ``x`` to the probability of a like to held-out entries.

        argmin over calibrators   - sum_t w_t log P(label_t | x_t),     w_t = 1, or 1 / q_t for every cell alike

    Parameters
    ----------
    model : fitted model or Scores
        A fitted model.
    held_out : Observations, sparse matrix or array
        Entries it was not fitted on, and not chosen by either. Matched by id where both have ids.
    method : {"auto", "identity", "platt", "isotonic"}, default="auto"
        "auto" takes the one with the least cross-validated log-loss within the held-out entries, "identity" (the
        model as it is) among them.
    propensity : Missingness, optional
        A model of the mask (:mod:`tribit.propensity`).
    target : {"observed", "all", "unobserved"}, optional
        Which cells the probabilities should be right for: cells like the observed ones, every cell alike (weights
        ``1 / q``), or those that were not observed (``(1 - q) / q``). By default "all" with a propensity and
        "observed" without.
    folds : int, default=5
        Parts of the cross-validation of "auto".
    random_state : int, Generator, RandomState or None
        Draws the folds.

    Returns
    -------
    Calibrator
        Call it with ``model.decision_function(rows, columns)``.
    """
    if method != "auto":
        check_method(method)
    scores = as_scores(model)
    entries = scores.observed(read_entries(model, held_out))
    _, weights = weigh(scores.shape, entries, target, propensity)
    x, link = scores.x(entries.rows, entries.columns), scores.link
    if method == "auto":
        losses = calibration_losses(
            x, entries.labels, weights, link=link, folds=folds, random_state=random_state
        )
        method = min(losses, key=losses.__getitem__)
    return CALIBRATORS[method](x, entries.labels, weights, link=link)
