"""Losses of a decision ``g`` against a label ``y``.

Both surrogates have ``l(g, +1) - l(g, -1) = -g``, so that the PU and NU risks, which subtract one from the other
on the labelled examples, are convex in ``g`` (du Plessis, Niu and Sugiyama, 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError
from tribit.model.links import Label, Logistic

Array = NDArray[np.floating[Any]]


class Loss(Protocol):
    """A smooth loss, its derivative in ``g``, and the probability of +1 that its minimiser stands for."""

    def loss(self, x: Array, y: Label) -> Array:
        """Return ``l(x, y)`` elementwise."""
        ...

    def first(self, x: Array, y: Label) -> Array:
        """Return the derivative of ``l(x, y)`` in ``x``."""
        ...

    def probability(self, x: Array) -> Array:
        """Return ``P(y = +1)`` where ``x`` is the decision of least expected loss."""
        ...


@dataclass(frozen=True)
class Squared:
    """``l(g, y) = (1 - y g)^2 / 4``; its minimiser is ``g = 2 P(y = +1) - 1``."""

    def loss(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray((1.0 - y * x) ** 2 / 4.0)

    def first(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray(-y * (1.0 - y * x) / 2.0)

    def probability(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(np.clip((1.0 + x) / 2.0, 0.0, 1.0))


@dataclass(frozen=True)
class ZeroOne:
    """``l(g, y) = 1`` where the predicted sign is not ``y``, else 0; the sign of 0 is -1."""

    def loss(self, x: Array, y: Label) -> Array:
        """Return the loss; it has no useful derivative."""
        return np.asarray(np.where(x > 0, 1, -1) != y, dtype=np.float64)


#: The surrogates by name; the logistic loss is that of the link of the same name.
LOSSES: dict[str, Loss] = {"squared": Squared(), "logistic": Logistic()}


def as_loss(name: Any) -> Loss:
    """Return the loss of that name."""
    if not isinstance(name, str) or name not in LOSSES:
        raise InvalidInputError(f"There is no loss {name!r}; use one of {', '.join(LOSSES)}.")
    return LOSSES[name]
