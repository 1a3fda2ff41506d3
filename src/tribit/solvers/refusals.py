"""Refusals: why a solver cannot keep a problem, asked before the work begins."""

from __future__ import annotations

from typing import Any

from tribit.errors import InvalidInputError, parameter
from tribit.model.constraints import Constraint


def refusal_of(solver: Any, model: Any, constraints: list[Constraint]) -> str | None:
    """Return the sentence in which a solver refuses a problem; None where it keeps it, or has no ``refusal`` to ask.

    Parameters
    ----------
    solver : Solver
        Its ``refusal(model, constraints)`` is asked.
    model : ModelSpec or objective
        Whatever has ``shares_unknowns``, ``intercept`` and ``intercept_bound``; an objective without them has none.
    constraints : list of Constraint
        The sets in which the factors must be.
    """
    ask = getattr(solver, "refusal", None)
    return None if ask is None else ask(model, constraints)


def check_kept(solver: Any, model: Any, constraints: list[Constraint]) -> None:
    """Raise what the solver says against the problem."""
    reason = refusal_of(solver, model, constraints)
    if reason is not None:
        raise InvalidInputError(reason)


def shared_unknowns(name: str, model: Any) -> str | None:
    """Return the refusal of a solver that moves rows one by one, where implicit features make rows share unknowns."""
    if not getattr(model, "shares_unknowns", False):
        return None
    return (
        f"{parameter('implicit_features', True)} makes rows share unknowns, and the {name} solver cannot move these: "
        f"use {parameter('solver', 'lbfgs')}."
    )
