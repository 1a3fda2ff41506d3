"""Copies of fitted models with other parts, for tests that choose these themselves."""

from copy import copy
from dataclasses import replace


def with_parts(model, **parts):
    """Return a copy of a model with other parts of the result of its fit, such as ``calibrator``."""
    return model.with_fitted(replace(model.fitted_, **parts))


def with_factors(model, **parts):
    """Return a copy of a model of one fit with other factors or intercepts."""
    if not hasattr(model, "fitted_"):  # a system of the paper or a baseline
        again = copy(model)
        again.scores_ = replace(model.scores_, factors=replace(model.scores_.factors, **parts))
        return again
    (member,) = model.fitted_.members
    return with_parts(model, members=(replace(member, factors=replace(member.factors, **parts)),))


def with_spec(model, **values):
    """Return a copy of a model of one fit that was fitted, so it says, with other hyperparameters."""
    (member,) = model.fitted_.members
    return with_parts(model, members=(replace(member, spec=replace(member.spec, **values)),))
