"""The other systems of the paper by name in ``SYSTEMS``: scikit-learn estimators with the methods of tribit's own.

All take the inputs of :class:`tribit.BinaryMatrixCompletion`; least-squares methods also take real values.
"""

from tribit.completion import BinaryMatrixCompletion
from tribit.factor_model import FactorModel
from tribit.paper.systems.base import Linear
from tribit.paper.systems.conditional_gradient import ConditionalGradientCompletion
from tribit.paper.systems.least_squares import AlternatingLeastSquares, MaxNormLeastSquares
from tribit.paper.systems.likelihood import MaxNormLikelihood, TraceNormLikelihood
from tribit.paper.systems.maximum_margin import MaximumMarginFactorization
from tribit.paper.systems.minimum_rank import MinimumRankCompletion
from tribit.paper.systems.nuclear_norm import NuclearNormCompletion
from tribit.paper.systems.positive_unlabelled import PUMatrixCompletion
from tribit.paper.systems.singular_values import UniversalSingularValueThresholding

__all__ = [
    "SYSTEMS",
    "AlternatingLeastSquares",
    "ConditionalGradientCompletion",
    "Linear",
    "MaxNormLeastSquares",
    "MaxNormLikelihood",
    "MaximumMarginFactorization",
    "MinimumRankCompletion",
    "NuclearNormCompletion",
    "PUMatrixCompletion",
    "TraceNormLikelihood",
    "UniversalSingularValueThresholding",
]

#: Every system by its name, the proposal first.
SYSTEMS: dict[str, type[FactorModel]] = {
    "tribit": BinaryMatrixCompletion,
    "alternating-least-squares": AlternatingLeastSquares,
    "minimum-rank": MinimumRankCompletion,
    "nuclear-norm": NuclearNormCompletion,
    "max-norm-least-squares": MaxNormLeastSquares,
    "singular-value-thresholding": UniversalSingularValueThresholding,
    "conditional-gradient": ConditionalGradientCompletion,
    "maximum-margin": MaximumMarginFactorization,
    "trace-norm-likelihood": TraceNormLikelihood,
    "max-norm-likelihood": MaxNormLikelihood,
    "pu": PUMatrixCompletion,
}
