"""Binary matrix completion that uses likes, dislikes and the unobserved entries.

>>> from tribit import BinaryMatrixCompletion
>>> model = BinaryMatrixCompletion(rank=1, random_state=0).fit([[1, 0, -1], [0, -1, 1]])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion
    from tribit.constraints import EntryBound, MaxNorm, Rank, Ridge, TraceNorm, Unconstrained
    from tribit.errors import (
        InvalidInputError,
        InvalidTypeError,
        TribitError,
        TribitWarning,
        UnboundedRiskWarning,
        UnknownRhoWarning,
    )
    from tribit.links import Link, Logistic, Probit
    from tribit.metrics import Evaluation, evaluate
    from tribit.objective import Objective
    from tribit.observations import Observations
    from tribit.risks import Missingness, Risk, doubly_robust, nu, pn, pnu, pu, punu, tri
    from tribit.solvers import LBFGS, Iteration, Newton, ProjectedGradient, SolverResult
    from tribit.storage import load, save

# Where each public name lives. They are imported when first used: scikit-learn alone takes most of a second.
_HOMES = {
    "completion": ("BinaryMatrixCompletion",),
    "constraints": ("EntryBound", "MaxNorm", "Rank", "Ridge", "TraceNorm", "Unconstrained"),
    "errors": (
        "InvalidInputError",
        "InvalidTypeError",
        "TribitError",
        "TribitWarning",
        "UnboundedRiskWarning",
        "UnknownRhoWarning",
    ),
    "links": ("Link", "Logistic", "Probit"),
    "metrics": ("Evaluation", "evaluate"),
    "objective": ("Objective",),
    "observations": ("Observations",),
    "risks": ("Missingness", "Risk", "doubly_robust", "nu", "pn", "pnu", "pu", "punu", "tri"),
    "solvers": ("LBFGS", "Iteration", "Newton", "ProjectedGradient", "SolverResult"),
    "storage": ("load", "save"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "LBFGS",
    "BinaryMatrixCompletion",
    "EntryBound",
    "Evaluation",
    "InvalidInputError",
    "InvalidTypeError",
    "Iteration",
    "Link",
    "Logistic",
    "MaxNorm",
    "Missingness",
    "Newton",
    "Objective",
    "Observations",
    "Probit",
    "ProjectedGradient",
    "Rank",
    "Ridge",
    "Risk",
    "SolverResult",
    "TraceNorm",
    "TribitError",
    "TribitWarning",
    "UnboundedRiskWarning",
    "Unconstrained",
    "UnknownRhoWarning",
    "doubly_robust",
    "evaluate",
    "load",
    "nu",
    "pn",
    "pnu",
    "pu",
    "punu",
    "save",
    "tri",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tribit' has no attribute {name!r}")
    value = getattr(import_module(f"tribit.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
