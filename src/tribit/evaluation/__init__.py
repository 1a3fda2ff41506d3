"""Evaluation of models on entries that they were not fitted on.

:func:`evaluate` computes the measures of :mod:`tribit.metrics` on a test set, with confidence intervals and baselines.
:func:`cross_validate` holds out each entry once. :mod:`tribit.evaluation.ranking` measures top-N lists.
"""

from tribit.evaluation.cross_validation import CrossValidation, cross_validate
from tribit.evaluation.held_out import Baseline, Evaluation, evaluate

__all__ = ["Baseline", "CrossValidation", "Evaluation", "cross_validate", "evaluate"]
