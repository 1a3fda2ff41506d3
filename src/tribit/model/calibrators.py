"""Calibrators: from the score ``x`` of an entry to a probability of a like that held-out labels agree with.

A calibrator is called with ``x`` and never decreases in it, so that order and lists stay as they are. It is a few
arrays (:meth:`arrays`), from which :func:`calibrator_from` makes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_field, check_positive
from tribit.errors import InvalidInputError
from tribit.model.links import Link, Logistic

Array = NDArray[np.floating[Any]]


class Calibrator(Protocol):
    """A map from ``x`` to the probability of a like that never decreases."""

    name: ClassVar[str]

    def __call__(self, x: Array) -> Array:
        """Return the probability of a like at each ``x``."""
        ...

    def arrays(self) -> dict[str, Array]:
        """Return what :func:`calibrator_from` needs beside the link."""
        ...


@dataclass(frozen=True)
class Identity:
    """``P(like) = f(x)``: the model's own probability.

    Parameters
    ----------
    link : Link
        ``f``.
    """

    link: Link = field(default=Logistic())
    name: ClassVar[str] = "identity"

    def __call__(self, x: Array) -> Array:
        """Return ``f(x)``."""
        return self.link.probability(np.asarray(x, dtype=np.float64))

    def arrays(self) -> dict[str, Array]:
        """Return nothing: the link is all there is."""
        return {}

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], link: Link) -> Self:  # noqa: ARG003
        """Make the calibrator again."""
        return cls(link)


@dataclass(frozen=True)
class Platt:
    """``P(like) = f(slope x + offset)``; see :func:`platt`.

    Parameters
    ----------
    slope : float
        Above 0. Above 1 where the model is underconfident, below 1 where it is overconfident.
    offset : float
        Added to every ``x``.
    link : Link
        ``f``.
    """

    slope: float
    offset: float
    link: Link = field(default=Logistic())
    name: ClassVar[str] = "platt"

    def __post_init__(self) -> None:
        check_field(self, "slope", check_positive)
        if not np.isfinite(self.offset):
            raise InvalidInputError(f"offset must be a finite number; got {self.offset!r}.")

    def __call__(self, x: Array) -> Array:
        """Return ``f(slope x + offset)``."""
        return self.link.probability(self.slope * np.asarray(x, dtype=np.float64) + self.offset)

    def arrays(self) -> dict[str, Array]:
        """Return slope and offset."""
        return {"line": np.array([self.slope, self.offset])}

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], link: Link) -> Self:
        """Make the calibrator again."""
        slope, offset = np.asarray(arrays["line"], dtype=np.float64)
        return cls(float(slope), float(offset), link)


@dataclass(frozen=True, eq=False)
class Isotonic:
    """A line through given points that never falls, level outside them; see :func:`isotonic`.

    Parameters
    ----------
    places : array
        ``x`` of the points, rising.
    probabilities : array
        Probability of a like at each, never falling, inside (0, 1).
    """

    places: Array
    probabilities: Array
    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        x, p = (np.asarray(part, dtype=np.float64) for part in (self.places, self.probabilities))
        with np.errstate(over="ignore", invalid="ignore"):
            rising = x.ndim == 1 and x.shape == p.shape and x.size > 0 and np.all(np.diff(x) > 0)
            # NaN fails every comparison, so it is caught by asking for what must hold.
            rising = rising and x[-1] - x[0] < np.inf and abs(x[0]) < np.inf
            rising = rising and np.all(np.diff(p) >= 0) and p[0] > 0.0 and p[-1] < 1.0
        if not rising:
            raise InvalidInputError(
                "places must rise and be finite, and probabilities, one for each, never fall and stay inside (0, 1): "
                "fit them with isotonic."
            )
        for name, values in (("places", x), ("probabilities", p)):
            values = values.copy()
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __call__(self, x: Array) -> Array:
        """Return the height of the line at each ``x``."""
        return np.interp(np.asarray(x, dtype=np.float64), self.places, self.probabilities)

    def arrays(self) -> dict[str, Array]:
        """Return the points."""
        return {"places": self.places, "probabilities": self.probabilities}

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], link: Link) -> Self:  # noqa: ARG003
        """Make the calibrator again."""
        return cls(arrays["places"], arrays["probabilities"])


#: Kinds of calibrators, by name.
_KINDS: dict[str, Any] = {kind.name: kind for kind in (Identity, Platt, Isotonic)}


def calibrator_from(name: str, arrays: Mapping[str, Array], link: Link) -> Calibrator:
    """Return the calibrator of that name from its arrays, and the link of the model it belongs to."""
    if name not in _KINDS:
        raise InvalidInputError(f"There is no calibrator {name!r}; use one of {', '.join(_KINDS)}.")
    try:
        made: Calibrator = _KINDS[name].restored(arrays, link)
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The arrays of the {name} calibrator are damaged ({error}); calibrate again."
        ) from None
    return made
