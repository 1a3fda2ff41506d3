"""Theorems on matrix completion: upper bounds of errors, and the constants and norms in their statements.

A theorem of the literature is a function that checks its numeric assumptions and returns a :class:`Bound`. The
absolute constants, which the papers leave unknown, are arguments: with the default 1 a bound shows how the error
scales, not its size. The statements follow the section on existing methods of Hayashi, Sakai and Sugiyama (2018),
*Binary matrix completion using unobserved entries*; docstrings note its misprints.

The bounds of mixtures of the three risks (:func:`tri_bound`) are our own, proved in the manual with explicit constants.
"""

from tribit.model.risks import t_max
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
from tribit.paper.theory.guarantees import (
    GROTHENDIECK,
    TriBound,
    first_order_price,
    mask_deviation,
    optimality_gap,
    tri_bound,
)
from tribit.paper.theory.mixtures import (
    MixtureCoordinates,
    MixtureProblem,
    mixture_coordinates,
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
    "GROTHENDIECK",
    "Bound",
    "LinkConstants",
    "MaxNormInterval",
    "MixtureCoordinates",
    "MixtureProblem",
    "TriBound",
    "cai_zhou_least_squares_bound",
    "cai_zhou_one_bit_bound",
    "candes_plan_bound",
    "closed_form_constants",
    "davenport_bound",
    "first_order_price",
    "hsieh_bound",
    "limiting_probability",
    "link_constants",
    "mask_deviation",
    "max_norm",
    "max_norm_bound",
    "max_norm_interval",
    "mean_weights",
    "mixture_coordinates",
    "nuclear_norm",
    "numeric_constants",
    "optimality_gap",
    "probit_upper_bounds",
    "relative_error",
    "sign_twin",
    "t_max",
    "tri_bound",
    "weighted_frobenius",
]
