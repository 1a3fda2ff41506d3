"""Links: the probability of a like as a function of the hidden real entry ``x``, ``P(like) = f(x)``.

A link has the entry loss of the paper, ``l(x, +1) = -log f(x)`` and ``l(x, -1) = -log(1 - f(x))``, and its first two
derivatives in ``x``. All are accurate in the tails: they do not overflow, and no probability is rounded to 0 before its
logarithm.

To add a link, subclass :class:`Link` with its four abstract methods, and give it a name in ``LINKS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, expit, log_ndtr, ndtr

from tribit.checks import check_choice, check_field, check_positive
from tribit.errors import InvalidInputError, InvalidTypeError, parameter

__all__ = ["Link", "Logistic", "Probit", "as_link", "draw_labels"]

Array = NDArray[np.floating[Any]]
Label = Literal[1, -1]

#: Range of the scales of links. The curvature and the probit's loss in the tails are quadratic in the scale: some
#: powers of ten outside this range they vanish or overflow in single precision.
SCALES = (1e-15, 1e15)


class Link(ABC):
    """``P(like) = f(x)`` with the loss ``l(x, y)`` and its derivatives, elementwise on arrays.

    Every method keeps the dtype of a floating-point ``x``. ``y`` is the number +1 or -1.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Logistic
    >>> link = Logistic()
    >>> link.probability(np.array([-1.0, 0.0, 1.0])).round(2)
    array([0.27, 0.5 , 0.73])
    >>> link.loss(np.array([0.0]), np.array([1])).round(2)  # of a like at even odds
    array([0.69])
    """

    @abstractmethod
    def probability(self, x: Array) -> Array:
        """Return ``f(x)``, the probability of a like."""

    @abstractmethod
    def loss(self, x: Array, y: Label) -> Array:
        """Return ``l(x, +1) = -log f(x)`` or ``l(x, -1) = -log(1 - f(x))``."""

    @abstractmethod
    def first(self, x: Array, y: Label) -> Array:
        """Return the derivative of ``l(x, y)`` in ``x``."""

    @abstractmethod
    def second(self, x: Array, y: Label) -> Array:
        """Return the second derivative of ``l(x, y)`` in ``x``."""

    def log_odds(self, x: Array) -> Array:
        """Return ``log f(x) - log(1 - f(x))``."""
        return self.loss(x, -1) - self.loss(x, 1)

    def level(self, probability: float) -> float:
        """Return the ``x`` with ``f(x) = probability``, which must be inside (0, 1)."""
        if not 0.0 < probability < 1.0:
            raise InvalidInputError(
                f"No x has the probability {probability!r}: pass one above 0 and below 1."
            )
        size = 1.0
        while not self._at(-size) < probability < self._at(size):
            size *= 2.0
        from scipy.optimize import brentq  # noqa: PLC0415 - a tenth of a second, for fits alone

        return float(brentq(lambda x: self._at(x) - probability, -size, size, xtol=1e-12))

    def _at(self, x: float) -> float:
        return float(self.probability(np.array([x]))[0])

    def L_alpha(self, alpha: float) -> float:  # noqa: N802 - the paper's name
        """Return ``L_alpha = sup |f'| / (f (1 - f))`` over ``|x| <= alpha`` (the paper's constant)."""
        # f' = -l'(x, +1) f, hence |f'| / (f (1 - f)) = |l'(x, +1)| / (1 - f) = |l'_+| + |l'_-|.
        return supremum(
            lambda x: np.abs(self.first(x, 1)) + np.abs(self.first(x, -1)),
            check_positive("alpha", alpha),
        )

    def beta_alpha(self, alpha: float) -> float:
        """Return ``beta_alpha = sup f (1 - f) / f'^2`` over ``|x| <= alpha`` (the paper's constant)."""
        # f'^2 / (f (1 - f)) = (f' / f) (f' / (1 - f)), and both factors are first derivatives of l.
        with np.errstate(divide="ignore", over="ignore"):
            return supremum(
                lambda x: 1.0 / np.abs(self.first(x, 1) * self.first(x, -1)),
                check_positive("alpha", alpha),
            )

    def U_alpha(self, alpha: float) -> float:  # noqa: N802 - the paper's name
        """Return ``U_alpha = sup log(1 / (f (1 - f)))`` over ``|x| <= alpha`` (the paper's constant)."""
        return supremum(
            lambda x: self.loss(x, 1) + self.loss(x, -1), check_positive("alpha", alpha)
        )

    def curvature(self, alpha: float) -> float:
        """Return ``sup l''(x, y)`` over both labels and ``|x| <= alpha``: the largest curvature of one entry."""
        return supremum(
            lambda x: np.maximum(self.second(x, 1), self.second(x, -1)),
            check_positive("alpha", alpha),
        )


@dataclass(frozen=True)
class Logistic(Link):
    """``f(x) = 1 / (1 + exp(-scale x))``; ``l(x, +1) - l(x, -1) = -scale x`` exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Logistic
    >>> Logistic(scale=2.0).probability(np.array([-1.0, 0.0, 1.0])).round(2)
    array([0.12, 0.5 , 0.88])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_field(self, "scale", check_scale)

    def probability(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(expit(self.scale * x))

    def loss(self, x: Array, y: Label) -> Array:  # noqa: D102
        z = (-y * self.scale) * x
        return np.asarray(np.logaddexp(z, z.dtype.type(0)))

    def log_odds(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(self.scale * x)

    def first(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray((-y * self.scale) * expit((-y * self.scale) * x))

    def second(self, x: Array, y: Label) -> Array:  # noqa: ARG002, D102
        z = self.scale * x
        return np.asarray(self.scale**2 * expit(z) * expit(-z))


@dataclass(frozen=True)
class Probit(Link):
    """``f(x) = Phi(x / sigma)``, ``Phi`` the normal distribution function.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Probit
    >>> Probit(sigma=0.5).probability(np.array([-1.0, 0.0, 1.0])).round(2)
    array([0.02, 0.5 , 0.98])
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_field(self, "sigma", check_scale)

    def probability(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(ndtr(x / self.sigma))

    def loss(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray(-log_ndtr((y / self.sigma) * x))

    def first(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray((-y / self.sigma) * _hazard((y / self.sigma) * x))

    def second(self, x: Array, y: Label) -> Array:  # noqa: D102
        z = (y / self.sigma) * x
        hazard = _hazard(z)
        # h (h + z): the sum cancels for z << 0, where its series is 1/|z| (1 - 2/z^2 + ...).
        far = z < -(100.0 if z.dtype == np.float64 else 15.0)
        safe = np.where(far, z, -1)
        tail = (1 - 2 / safe**2 + 10 / safe**4) / -safe
        return np.asarray(hazard * np.where(far, tail, hazard + z) / self.sigma**2)


def _hazard(z: Array) -> Array:
    """Return ``phi(z) / Phi(z)`` by the scaled complementary error function, without 0 / 0 in the tails."""
    root = z.dtype.type(np.sqrt(0.5))
    # erfcx is infinite where Phi(z) is 1 and phi(z) 0 to machine precision: the quotient is 0, as it should be.
    return np.asarray(z.dtype.type(np.sqrt(2 / np.pi)) / erfcx(-root * z))


def hazards(z: Array) -> tuple[Array, Array]:
    """Return ``phi(z) / Phi(z)`` and ``phi(z) / Phi(-z)`` from one error function, their main cost."""
    kind = z.dtype.type
    size = np.abs(z)
    tail = erfcx(kind(np.sqrt(0.5)) * size)  # 2 Phi(-size) / exp(-size^2 / 2)
    bell = np.exp(kind(-0.5) * size * size)
    far = kind(np.sqrt(2 / np.pi)) / tail
    near = kind(np.sqrt(0.5 / np.pi)) * bell / (1 - kind(0.5) * bell * tail)
    return np.where(z > 0, near, far), np.where(z > 0, far, near)


def supremum(function: Callable[[Array], Array], alpha: float) -> float:
    """Return the largest value of a smooth function on ``[-alpha, alpha]``."""
    low, high = -alpha, alpha
    for _ in range(3):  # each grid lies between the neighbours of the best point of the one before
        grid = np.linspace(low, high, 2001)
        values = function(grid)
        if not np.all(np.isfinite(values)):
            return float("inf")
        best = int(np.argmax(values))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    return float(values[best])


def check_scale(name: str, value: object) -> float:
    """Return a scale as a float; losses up to ``|x| = 1000`` are finite, and curvatures positive, within ``SCALES``."""
    scale = check_positive(name, value)
    if not SCALES[0] <= scale <= SCALES[1]:
        raise InvalidInputError(
            f"{parameter(name)} must be from {SCALES[0]:g} to {SCALES[1]:g}, for which losses are finite; got "
            f"{value!r}."
        )
    return scale


def draw_labels(x: Array, link: Link, draws: np.random.Generator) -> NDArray[np.int8]:
    """Return independent labels: +1 with probability ``f(x)``, else -1.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Logistic
    >>> from tribit.model.links import draw_labels
    >>> draw_labels(np.array([-5.0, 0.0, 5.0]), Logistic(), np.random.default_rng(0))
    array([-1,  1,  1], dtype=int8)
    """
    return np.where(draws.random(x.shape) < link.probability(x), 1, -1).astype(np.int8)


LINKS: dict[str, type[Link]] = {"logistic": Logistic, "probit": Probit}


def as_link(link: str | Link) -> Link:
    """Return a link as it is, or the link of a name with its default scale.

    Examples
    --------
    >>> from tribit.model.links import as_link
    >>> as_link("probit")
    Probit(sigma=1.0)
    """
    if isinstance(link, Link):
        return link
    if not isinstance(link, str):
        raise InvalidTypeError(
            f"{parameter('link')} must be one of {', '.join(LINKS)} or a Link object; got {type(link).__name__}."
        )
    return LINKS[check_choice("link", link, LINKS)]()
