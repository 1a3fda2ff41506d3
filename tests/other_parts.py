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


def stacked(models, weights=None):
    """Return a copy of the first model whose members are those of all, with such weights; equal ones by default."""
    weights = [1.0] * len(models) if weights is None else weights
    members = tuple(
        replace(member, weight=weight)
        for model, weight in zip(models, weights, strict=True)
        for member in model.fitted_.members
    )
    return with_parts(models[0], members=members)
