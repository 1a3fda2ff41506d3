"""What a fitted model minimised, told from the model itself; and the same model again, not yet fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tribit.backends.objective import Objective
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.risks import Risk, check_gammas
from tribit.model.spec import CHOOSABLE
from tribit.selection.problem import _intercept_bound

if TYPE_CHECKING:
    from tribit.data.observations import Observations
    from tribit.factor_model import FactorModel


def unfitted(model: FactorModel, random_state: int) -> Any:
    """Return the same estimator to be fitted again, quietly; what was chosen from the data stays chosen."""
    again: Any = clone(model)
    known = again.get_params(deep=False)
    used = {name: _chosen(model, name) for name in CHOOSABLE if hasattr(model, f"{name}_")}
    if getattr(model, "imputed", None) is not None:
        used["imputed"] = model.imputed  # clone has made it unfitted too
    used |= {"random_state": random_state, "callback": None, "verbose": 0}
    return again.set_params(**{name: value for name, value in used.items() if name in known})


def objective_of(model: Any, observations: Observations) -> tuple[Objective, float | None]:
    """Return what the model minimised, in float64, and the radius of the ball of each row if it has one."""
    check_is_fitted(model)
    missing = [
        name for name in ("gammas", "l2", "intercept", "radius_") if not hasattr(model, name)
    ]
    if missing:
        raise InvalidTypeError(
            f"laplace needs a fitted BinaryMatrixCompletion; {type(model).__name__} has no {missing[0]}."
        )
    # What was chosen from the data, where it was: an estimator may be told "auto".
    l2, l2_intercept = _chosen(model, "l2"), _chosen(model, "l2_intercept")
    link, intercept = model._link(), bool(model.intercept)
    risk = _risk(model)
    radius = model.radius_ if getattr(model, "norm", "max") == "max" else None
    bound = _intercept_bound(link, risk.unobserved > 0, radius, _chosen(model, "alpha"))
    least = l2 if l2_intercept is None else l2_intercept
    if (not l2 and radius is None) or (intercept and not least and not np.isfinite(bound)):
        raise InvalidInputError(
            "A model without a ridge has no prior, and the variance of what was not observed is infinite: fit with "
            "l2 > 0."
        )
    objective = Objective(
        observations,
        link,
        risk,
        l2=l2,
        l2_intercept=l2_intercept,
        intercept=intercept,
        intercept_bound=bound,
        dtype="float64",
        n_jobs=getattr(model, "n_jobs", 1),
    )
    return objective, radius


def _risk(model: Any) -> Risk:
    """Return the risk that the model minimised: its ``risk_`` where it keeps one, else from gammas and rho."""
    if isinstance(getattr(model, "risk_", None), Risk):
        kept: Risk = model.risk_
        return kept
    weights, rho = check_gammas(_chosen(model, "gammas")), getattr(model, "rho_", None)
    if rho is None and weights[0] < 1.0:
        raise InvalidInputError(
            "The model was read from a file, which does not keep rho_, the model of why entries are missing: set "
            "model.rho_ to the one it was fitted with."
        )
    return Risk(*weights, 0.0 if rho is None else rho)


def _chosen(model: Any, name: str) -> Any:
    """Return the value of a parameter that was used in the fit."""
    return getattr(model, f"{name}_", getattr(model, name, None))
