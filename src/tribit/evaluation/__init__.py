"""Evaluation of fitted models on entries that they were not fitted on.

:func:`evaluate` has the measures of :mod:`tribit.metrics` with their errors, beside baselines; :func:`cross_validate`
holds out each entry once; :mod:`tribit.evaluation.ranking` measures lists.
"""

from tribit.evaluation.cross_validation import CrossValidation, cross_validate
from tribit.evaluation.held_out import evaluate
from tribit.evaluation.results import Baseline, Evaluation

__all__ = ["Baseline", "CrossValidation", "Evaluation", "cross_validate", "evaluate"]
