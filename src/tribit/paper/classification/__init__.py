"""Classification from positive, negative and unlabelled examples, with estimates of class prior and label frequency."""

from tribit.paper.classification.classifier import RiskClassifier
from tribit.paper.classification.matrices import matrix_class_prior, matrix_label_frequency
from tribit.paper.classification.priors import class_prior, label_frequency, prior_divergences
from tribit.paper.classification.risks import LOSSES, Squared, ZeroOne, empirical_risk

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
