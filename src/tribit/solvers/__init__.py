"""Solvers: algorithms that minimise an objective inside constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribit.checks import check_choice
from tribit.errors import InvalidTypeError, parameter
from tribit.registries import Entry, LazyRegistry, lazy_getattr
from tribit.solvers.base import Solver
from tribit.solvers.loop import Callback, Iteration, SolverResult, Stopping

if TYPE_CHECKING:
    from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
    from tribit.solvers.lbfgs import LBFGS
    from tribit.solvers.newton import Newton
    from tribit.solvers.projected_gradient import ProjectedGradient

__all__ = [
    "LBFGS",
    "SOLVERS",
    "AugmentedLagrangian",
    "Callback",
    "Iteration",
    "Newton",
    "ProjectedGradient",
    "Solver",
    "SolverResult",
    "Stopping",
    "as_solver",
]


#: Solvers by name, imported when they are used.
SOLVERS = LazyRegistry(
    {
        "newton": Entry("tribit.solvers.newton:Newton"),
        "lbfgs": Entry("tribit.solvers.lbfgs:LBFGS"),
        "augmented_lagrangian": Entry("tribit.solvers.augmented_lagrangian:AugmentedLagrangian"),
        "projected_gradient": Entry("tribit.solvers.projected_gradient:ProjectedGradient"),
    }
)
__getattr__ = lazy_getattr(
    __name__,
    LBFGS="tribit.solvers.lbfgs",
    AugmentedLagrangian="tribit.solvers.augmented_lagrangian",
    Newton="tribit.solvers.newton",
    ProjectedGradient="tribit.solvers.projected_gradient",
)


def as_solver(solver: object) -> Solver:
    """Return the solver itself, or the one of that name with its default options.

    Examples
    --------
    >>> from tribit.solvers import as_solver
    >>> as_solver("lbfgs")
    LBFGS(memory=6)
    """
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, SOLVERS)]()  # type: ignore[no-any-return]
    if not isinstance(solver, Solver):
        raise InvalidTypeError(
            f"{parameter('solver')} must be one of {', '.join(SOLVERS)} or a solver object; got "
            f"{type(solver).__name__}."
        )
    return solver
