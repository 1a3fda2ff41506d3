"""Theorems on matrix completion: upper bounds of errors, and the constants and norms in their statements.

A theorem is a function that checks its numeric assumptions and returns a :class:`Bound`. The absolute constants, which
the papers leave unknown, are arguments: with the default 1 a bound shows how the error scales, not its size. The
statements follow the section on existing methods of Hayashi, Sakai and Sugiyama (2018), *Binary matrix completion
using unobserved entries*; docstrings note its misprints.
"""

from tribit.paper.theory.bounds import (
    GAUSSIAN_TAIL,
    Bound,
    cai_zhou_least_squares_bound,
    cai_zhou_one_bit_bound,
    candes_plan_bound,
    davenport_bound,
    hsieh_bound,
)
from tribit.paper.theory.constants import (
    LinkConstants,
    closed_form_constants,
    link_constants,
    numeric_constants,
    probit_upper_bounds,
)
from tribit.paper.theory.norms import (
    MaxNormInterval,
    max_norm,
    max_norm_bound,
    max_norm_interval,
    nuclear_norm,
    relative_error,
    weighted_frobenius,
)
from tribit.paper.theory.remarks import limiting_probability, mean_weights, sign_twin

__all__ = [
    "GAUSSIAN_TAIL",
    "Bound",
    "LinkConstants",
    "MaxNormInterval",
    "cai_zhou_least_squares_bound",
    "cai_zhou_one_bit_bound",
    "candes_plan_bound",
    "closed_form_constants",
    "davenport_bound",
    "hsieh_bound",
    "limiting_probability",
    "link_constants",
    "max_norm",
    "max_norm_bound",
    "max_norm_interval",
    "mean_weights",
    "nuclear_norm",
    "numeric_constants",
    "probit_upper_bounds",
    "relative_error",
    "sign_twin",
    "weighted_frobenius",
]
