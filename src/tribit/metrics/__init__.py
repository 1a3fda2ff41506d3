"""How good answers are: of entries, of lists and of probabilities, on what a model has not seen."""

from tribit.metrics.entries import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
