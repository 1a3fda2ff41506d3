"""Copies of estimators to be fitted again, in which a fitted estimator that is a parameter stays fitted."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from sklearn.base import clone

Estimator = TypeVar("Estimator")


def clone_keeping(estimator: Estimator, *names: str) -> Estimator:
    """Return an unfitted copy with the same parameters, those of the given names as they are.

    scikit-learn's ``clone`` makes estimators among the parameters unfitted, and what an objective takes from a fitted
    model would be lost. An estimator calls this from ``__sklearn_clone__``.
    """
    given: dict[str, Any] = estimator.get_params(deep=False)  # type: ignore[attr-defined]
    copies = {
        name: value if name in names else clone(value, safe=False) for name, value in given.items()
    }
    again = type(estimator)(**copies)
    if hasattr(estimator, "_metadata_request"):  # as clone does
        again._metadata_request = deepcopy(estimator._metadata_request)  # type: ignore[attr-defined]
    return again
