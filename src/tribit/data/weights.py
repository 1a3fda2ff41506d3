"""Weights of observed entries: checks, scales of a column of weights, and their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.data.axis import AnyArray, Where, first_true
from tribit.errors import InvalidInputError, InvalidTypeError, either, parameter, quoted

Floats: TypeAlias = npt.NDArray[np.float64]
#: Scale of a column of weights: the numbers as they are, or ``log(1 + number)``, for counts.
WeightScale: TypeAlias = Literal["linear", "log1p"]
#: Largest weight, and the inverse of the smallest that the largest weight may be.
MAX_WEIGHT = 1e12
SCALES: dict[str, Callable[[Floats], Floats]] = {"linear": lambda w: w, "log1p": np.log1p}


def check_weights(weights: Any, n: int, where: Where, scale: str = "linear") -> Floats:
    """Return one weight for each of n entries: finite numbers of at least 0, of which some are above 0."""
    try:
        given = np.asarray(weights)
    except ValueError:  # lists of different lengths
        raise InvalidTypeError(
            f"weights must be numbers, one for each entry; got {type(weights).__name__}."
        ) from None
    if given.dtype.kind not in "biufO":
        raise InvalidTypeError(f"weights must be numbers; got the dtype {given.dtype}.")
    numbers = _as_floats(given, where)
    if numbers.shape != (n,):
        raise InvalidInputError(
            f"weights has the shape {numbers.shape} for {n} entries; pass one weight for each."
        )
    if (wrong := first_true(~(np.isfinite(numbers) & (numbers >= 0.0)))) is not None:
        raise InvalidInputError(
            f"{where(wrong)}: the weight {numbers[wrong]:g} is not a finite number of at least 0; correct it, or "
            "leave the entry out."
        )
    if n and not numbers.any():
        raise InvalidInputError(
            "Every weight is 0, and an entry of weight 0 is left out; give at least one a larger weight."
        )
    # Sums of squares must be finite in float32.
    if n and not 1.0 / MAX_WEIGHT <= (largest := float(numbers.max())) <= MAX_WEIGHT:
        raise InvalidInputError(
            f"{where(int(np.argmax(numbers)))}: the largest weight is {largest:g}; divide all weights by their mean."
        )
    return np.asarray(SCALES[scale](numbers))


def _as_floats(given: AnyArray, where: Where) -> Floats:
    """Return an array as floating-point numbers, and name the first that is none."""
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        for place, each in enumerate(given.ravel().tolist()):
            try:
                float(each)
            except (TypeError, ValueError, OverflowError):
                raise InvalidTypeError(
                    f"{where(place)}: the weight {quoted(each)} is no number; correct it, or leave the entry out."
                ) from None
        raise


def check_scale_is_used(scale: str, *, weighted: bool) -> None:
    """Refuse a scale of weights where there are none."""
    if scale != "linear" and not weighted:
        raise InvalidInputError(
            f"{parameter('weight_scale', scale)} is the scale of weights, and there are none; pass "
            f"{parameter('weight')}, the name of their column{either(', or weights', '')}."
        )


def refuse_weights_on_cluster(weights: object) -> None:
    """Refuse weights of entries on the workers of a cluster."""
    if weights is not None:
        raise InvalidInputError(
            "Workers of a cluster sum entries without weights: leave out the weights, or fit without a client."
        )


def unless_equal_to_one(weights: Floats | None) -> Floats | None:
    """Return the weights, or None where each is 1."""
    return None if weights is None or (weights == 1.0).all() else weights


def weights_at(weights: Floats | None, chosen: AnyArray | slice) -> Floats | None:
    """Return the weights of some entries; None without weights."""
    return None if weights is None else weights[chosen]


def weights_or_ones(weights: Floats | None, n: int) -> Floats:
    """Return the weight of each of n entries, 1 without weights."""
    return np.ones(n) if weights is None else weights
