"""Classification of feature vectors from positive, negative and unlabelled examples, and the shares that it needs."""

from tribit.classification.classifier import RiskClassifier
from tribit.classification.losses import LOSSES, Squared, ZeroOne
from tribit.classification.matrices import matrix_class_prior, matrix_label_frequency
from tribit.classification.priors import class_prior, label_frequency, prior_divergences
from tribit.classification.weights import empirical_risk

__all__ = [
    "LOSSES",
    "RiskClassifier",
    "Squared",
    "ZeroOne",
    "class_prior",
    "empirical_risk",
    "label_frequency",
    "matrix_class_prior",
    "matrix_label_frequency",
    "prior_divergences",
]
