"""Held-out measures: of entries, of lists and of calibration."""

from tribit.metrics.entries import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
