"""How well a model predicts observed entries: signs, probabilities, order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError

if TYPE_CHECKING:
    from tribit.factor_model import FactorModel


@dataclass(frozen=True)
class Evaluation:
    """Measures over the observed entries of a test set.

    Attributes
    ----------
    n_entries : int
        How many entries were predicted.
    accuracy, sign_error : float
        Shares of the signs that were predicted right and wrong.
    log_loss : float
        Mean of ``-log P(the observed label)``.
    auc : float or None
        Probability that a like is ranked above a dislike; None where only one of the two was observed.
    n_skipped : int
        How many entries of a file were left out because the model does not know their ids.
    """

    n_entries: int
    accuracy: float
    sign_error: float
    log_loss: float
    auc: float | None
    n_skipped: int = 0


def evaluate(model: FactorModel, X: Any) -> Evaluation:
    """Compare a fitted model with observed entries, none of which it should have been fitted on.

    Parameters
    ----------
    model : BinaryMatrixCompletion or another system
        A fitted model.
    X : Observations, sparse matrix or array
        The entries to predict. Ids, where both have them, are matched by id; else rows and columns by position.

    Returns
    -------
    Evaluation
    """
    check_is_fitted(model)
    observations = as_observations(X, like_at=getattr(model, "like_at", None))
    rows, columns = _pairs(model, observations)
    x = model.decision_function(rows, columns)
    likes = observations.labels > 0
    losses = _losses(model, x, likes)
    wrong = float(np.mean((model._probability(x) >= 0.5) != likes))
    both = likes.any() and not likes.all()
    return Evaluation(
        n_entries=observations.n_observed,
        accuracy=1.0 - wrong,
        sign_error=wrong,
        log_loss=float(np.mean(losses)),
        auc=float(roc_auc_score(likes, x)) if both else None,
    )


def _losses(model: FactorModel, x: Any, likes: Any) -> Any:
    """Return ``-log P(label)``: by the link, which is exact far out, unless the model is calibrated."""
    if getattr(model, "calibration_", None) is None:
        link = model._link()
        return np.where(likes, link.loss(x, 1), link.loss(x, -1))
    p = model._probability(x)
    return -np.log(np.maximum(np.where(likes, p, 1.0 - p), np.finfo(np.float64).tiny))


def _pairs(model: FactorModel, observations: Observations) -> tuple[Any, Any]:
    """Return the rows and columns of the observed entries as the model names them."""
    shape = model.row_factors_.shape[0], model.column_factors_.shape[0]
    if observations.row_ids is None and observations.shape != shape:
        raise InvalidInputError(
            f"The test entries are {observations.shape[0]} x {observations.shape[1]} and the model {shape[0]} x "
            f"{shape[1]}: without ids rows and columns are matched by position, so hold out entries "
            "(Observations.split or folds), not rows."
        )
    sides = []
    for axis, ids, known, places in (
        ("row", observations.row_ids, model.row_ids_, observations.rows),
        ("column", observations.column_ids, model.column_ids_, observations.columns),
    ):
        if ids is None and known is not None:
            raise InvalidInputError(
                f"The model was fitted on {axis} ids but the test entries have none: read them with the same ids "
                "(Observations.from_frame, or row_ids= and column_ids=)."
            )
        sides.append(places if ids is None or known is None else ids[places])
    return sides[0], sides[1]
