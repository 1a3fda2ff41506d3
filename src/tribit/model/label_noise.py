"""Learning from labels that were flipped at known rates.

    l~(x, y) = [(1 - rate_{-y}) l(x, y) - rate_y l(x, -y)] / (1 - rate_plus - rate_minus)

has ``E l~(x, noisy y) = l(x, y)`` over the noise, for any loss ``l`` and any ``x`` (Natarajan, Dhillon, Ravikumar and
Tewari 2013, "Learning with noisy labels"). In PU learning every entry that is not an observed like is a noisy dislike,
``LabelNoise(rate_plus=rho)``; NU learning is its mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.links import Label
from tribit.randomness import RandomState, generator

__all__ = ["LabelNoise"]

Floats = NDArray[np.floating[Any]]


class EntryLoss(Protocol):
    """A loss ``l(x, y)`` of an entry and its derivatives in ``x``: any :class:`~tribit.Link` is one."""

    def loss(self, x: Floats, y: Label) -> Floats:
        """Return ``l(x, y)`` for ``y`` the number +1 or -1."""
        ...

    def first(self, x: Floats, y: Label) -> Floats:
        """Return the derivative of ``l(x, y)`` in ``x``."""
        ...

    def second(self, x: Floats, y: Label) -> Floats:
        """Return the second derivative of ``l(x, y)`` in ``x``."""
        ...


@dataclass(frozen=True)
class LabelNoise:
    """Independent flips of labels, at rates that depend on the true label.

    Parameters
    ----------
    rate_plus, rate_minus : float or array
        ``P(noisy -1 | true +1)`` and ``P(noisy +1 | true -1)``: at least 0, with a sum below 1. Arrays have one
        rate for each entry.

    Examples
    --------
    >>> LabelNoise(rate_plus=0.5).weights
    array([[ 2., -1.],
           [ 0.,  1.]])
    """

    rate_plus: float | Floats = 0.0
    rate_minus: float | Floats = 0.0

    def __post_init__(self) -> None:
        for name in ("rate_plus", "rate_minus"):
            object.__setattr__(self, name, _as_rate(name, getattr(self, name)))
        try:
            total = np.add(self.rate_plus, self.rate_minus)
        except ValueError:
            raise InvalidInputError(
                f"rate_plus has the shape {np.shape(self.rate_plus)} and rate_minus {np.shape(self.rate_minus)}: "
                "give both one rate for each entry, or one number."
            ) from None
        if not np.all(total < 1.0):
            raise InvalidInputError(
                f"rate_plus + rate_minus must be below 1, or the labels say nothing; got {np.max(total):g}."
            )

    @property
    def contrast(self) -> Floats:
        """``1 / (1 - rate_plus - rate_minus)``, the ratio of ``l~(x, +1) - l~(x, -1)`` to ``l(x, +1) - l(x, -1)``."""
        return np.asarray(1.0 / (1.0 - self.rate_plus - self.rate_minus))

    @property
    def weights(self) -> Floats:
        """Weights of ``l(x, +1)`` and ``l(x, -1)`` (second axis) for the noisy labels +1 and -1 (first axis).

        Each pair sums to 1. The axes of arrays of rates come last.
        """
        plus, minus = np.broadcast_arrays(self.rate_plus, self.rate_minus)
        # Not -plus, which makes -0 of a rate of 0.
        table = np.array([[1.0 - minus, 0.0 - plus], [0.0 - minus, 1.0 - plus]])
        return np.asarray(table / (1.0 - plus - minus))

    def loss(self, link: EntryLoss, x: ArrayLike, y: ArrayLike) -> Floats:
        """Return ``l~(x, y)`` for noisy labels ``y``, +1 or -1."""
        return self._corrected_term(link.loss, x, y)

    def first(self, link: EntryLoss, x: ArrayLike, y: ArrayLike) -> Floats:
        """Return the derivative of ``l~(x, y)`` in ``x``."""
        return self._corrected_term(link.first, x, y)

    def second(self, link: EntryLoss, x: ArrayLike, y: ArrayLike) -> Floats:
        """Return the second derivative of ``l~(x, y)`` in ``x``; it may be negative."""
        return self._corrected_term(link.second, x, y)

    def flip(self, labels: ArrayLike, *, random_state: RandomState = None) -> NDArray[np.int8]:
        """Return the noisy labels of true ones.

        Parameters
        ----------
        labels : array of {-1, +1}
            The true labels, of the shape of the rates where these are arrays.
        random_state : int, Generator, RandomState or None
            As in :func:`tribit.randomness.generator`.
        """
        likes = _is_like(labels)
        rates = np.shape(np.add(self.rate_plus, self.rate_minus))
        if _broadcast_shape(rates=rates, labels=likes.shape) != likes.shape:
            raise InvalidInputError(
                f"There are rates of the shape {rates} and labels of the shape {likes.shape}: give one label for "
                "each rate."
            )
        flipped = generator(random_state).random(likes.shape) < np.where(
            likes, self.rate_plus, self.rate_minus
        )
        return np.where(likes ^ flipped, 1, -1).astype(np.int8)

    def _corrected_term(
        self, term: Callable[[Floats, Any], Floats], x: ArrayLike, y: ArrayLike
    ) -> Floats:
        at = np.asarray(x)
        if at.dtype.kind != "f":
            at = at.astype(np.float64)
        likes = _is_like(y)
        table = self.weights
        _broadcast_shape(rates=table.shape[2:], x=at.shape, y=likes.shape)
        plus = np.where(likes, table[0, 0], table[1, 0])
        minus = np.where(likes, table[0, 1], table[1, 1])
        return np.asarray(plus * term(at, 1) + minus * term(at, -1))


def _as_rate(name: str, rate: object) -> float | Floats:
    """Return a rate as a float, or an array of rates in float64; raise an error for others."""
    values = np.asarray(rate)
    if values.dtype.kind not in "iuf":
        raise InvalidTypeError(f"{name} must be a number or an array of numbers; got {rate!r}.")
    # Comparisons with NaN are false, so that the condition must hold, not its negation.
    if not np.all((values >= 0.0) & (values < 1.0)):
        raise InvalidInputError(
            f"{name}, a probability of a flip, must be in [0, 1); got {rate!r}."
        )
    return float(values) if values.ndim == 0 else values.astype(np.float64, copy=False)


def _broadcast_shape(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the broadcast shape of arrays, or raise an error with their shapes."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InvalidInputError(
            f"These shapes do not fit together: {given}; give each one value for each entry, or one number."
        ) from None


def _is_like(labels: ArrayLike) -> NDArray[np.bool_]:
    """Return where labels are +1; raise an error for labels other than +1 and -1."""
    given = np.asarray(labels)
    likes = given == 1
    if given.dtype.kind not in "iuf" or not np.all(likes | (given == -1)):
        raise InvalidInputError("Labels must be +1 or -1 alone; leave out what was not observed.")
    return np.asarray(likes)
