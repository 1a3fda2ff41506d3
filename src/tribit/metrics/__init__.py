"""Held-out measures: of entries, of lists and of calibration."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tribit.metrics.evaluation import Evaluation as Evaluation
    from tribit.metrics.evaluation import evaluate as evaluate

__all__ = ["Evaluation", "evaluate"]


def __getattr__(name: str) -> Any:
    # When it is asked for: an evaluation makes lists and fits baselines, and models import the measures of entries.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tribit.metrics import evaluation  # noqa: PLC0415

    return getattr(evaluation, name)
