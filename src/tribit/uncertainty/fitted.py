"""The objective of a fitted model, rebuilt from the model; and an unfitted copy of the model."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tribit.backends.objective import Objective
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.risks import Risk
from tribit.model.spec import CHOOSABLE, ModelSpec

if TYPE_CHECKING:
    from tribit.data.observations import Observations
    from tribit.factor_model import FactorModel


def unfitted(model: FactorModel, random_state: int) -> Any:
    """Return the same estimator to be fitted again, quietly; what was chosen from the data stays chosen."""
    again: Any = clone(model)
    known = again.get_params(deep=False)
    used = {name: _chosen(model, name) for name in CHOOSABLE if hasattr(model, f"{name}_")}
    used |= {"random_state": random_state, "callback": None, "verbose": 0}
    return again.set_params(**{name: value for name, value in used.items() if name in known})


def first_fit(model: Any) -> Any:
    """Return the model, or of an average the first of its fits as a model of its own, on the model's own probabilities.

    Only a fit is at the minimum of an objective, whose curvature says how sure it is.
    """
    if getattr(model, "n_fits_", 1) == 1:
        return model
    alone = copy(model)
    alone.n_fits, alone.calibration_ = 1, None
    alone._set_members(model.member_specs_[:1], model.members_[:1])
    alone._set_factors(model.member_factors_[0])
    alone.member_factors_, alone.feature_maps_ = model.member_factors_[:1], model.feature_maps_[:1]
    return alone


def fitted_objective(model: Any, observations: Observations) -> tuple[Objective, float | None]:
    """Return what the model minimised, in float64, and the radius of the ball of each row if it has one."""
    check_is_fitted(model)
    spec = getattr(model, "spec_", None)
    if not isinstance(spec, ModelSpec):
        raise InvalidTypeError(
            f"laplace needs a fitted BinaryMatrixCompletion; {type(model).__name__} has no spec_."
        )
    risk = fitted_risk(model, spec)
    radius = check_prior(spec)
    return Objective.of(spec, observations, risk, n_jobs=getattr(model, "n_jobs", 1)), radius


def check_prior(spec: ModelSpec) -> float | None:
    """Return the radius of the ball of each row, if there is one; something must keep unobserved rows finite."""
    radius = spec.row_radius if np.isfinite(spec.row_radius) else None
    least = spec.l2 if spec.l2_intercept is None else spec.l2_intercept
    if (not spec.l2 and radius is None) or (
        spec.intercept and not least and not np.isfinite(spec.intercept_bound)
    ):
        raise InvalidInputError(
            "A model without a ridge has no prior, and the variance of what was not observed is infinite: fit with "
            "l2 > 0."
        )
    return radius


def fitted_risk(model: Any, spec: ModelSpec) -> Risk:
    """Return the risk that the model minimised: its ``risk_`` where it keeps one, else from gammas and rho."""
    if isinstance(getattr(model, "risk_", None), Risk):
        kept: Risk = model.risk_
        return kept
    rho = getattr(model, "rho_", None)  # a user may give back what a file does not keep
    if rho is None and (spec.mixed or spec.inverse_power):
        raise InvalidInputError(
            "The model was read from a file, which does not keep rho_, the model of why entries are missing: set "
            "model.rho_ to the one it was fitted with."
        )
    return spec.risk(0.0 if rho is None else rho)


def _chosen(model: Any, name: str) -> Any:
    """Return the value of a parameter that was used in the fit."""
    return getattr(model, f"{name}_", getattr(model, name, None))
