"""Losses of a decision, and risks: the weight of a positive, an unlabelled and a negative example.

With the class prior ``t = P(y = +1)``, averages ``E_P``, ``E_N``, ``E_U`` over the positive, negative and
unlabelled examples, and a loss ``l(g, y)``,

    R_PN = t E_P[l(g, +1)] + (1 - t) E_N[l(g, -1)]
    R_PU = t E_P[l(g, +1) - l(g, -1)] + E_U[l(g, -1)]
    R_NU = (1 - t) E_N[l(g, -1) - l(g, +1)] + E_U[l(g, +1)]

all estimate the same ``E[l(g, y)]`` (du Plessis, Niu and Sugiyama, 2014, "Analysis of learning from positive and
unlabeled data"; Niu et al., 2016, "Theoretical comparisons of positive-unlabeled learning against
positive-negative learning"), so every mixture ``pn R_PN + pu R_PU + nu R_NU`` with weights of sum 1 does
(Sakai et al., 2017, "Semi-supervised classification based on classification from positive and unlabeled data"). A
mixture is a :class:`tribit.model.risks.Risk`; its ``rho`` is not used.

Both surrogate losses have ``l(g, +1) - l(g, -1) = -g``, so that the PU and NU risks, which subtract one from the other
on the labelled examples, are convex in ``g`` (du Plessis, Niu and Sugiyama, 2015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError
from tribit.model import risks
from tribit.model.links import Label, Logistic
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]
Labels = NDArray[np.integer[Any]]


class HasLoss(Protocol):
    """Anything with a loss, differentiable or not."""

    def loss(self, x: Array, y: Label) -> Array:
        """Return ``l(x, y)`` elementwise."""
        ...


class Loss(HasLoss, Protocol):
    """A smooth loss, its derivative in ``g``, and the probability of +1 at its minimiser."""

    def first(self, x: Array, y: Label) -> Array:
        """Return the derivative of ``l(x, y)`` in ``x``."""
        ...

    def probability(self, x: Array) -> Array:
        """Return ``P(y = +1)`` where ``x`` is the decision of least expected loss."""
        ...


@dataclass(frozen=True)
class Squared:
    """``l(g, y) = (1 - y g)^2 / 4``; its minimiser is ``g = 2 P(y = +1) - 1``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.classification import Squared
    >>> Squared().loss(np.array([1.0, -1.0]), np.array([1, 1]))
    array([0., 1.])
    """

    def loss(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray((1.0 - y * x) ** 2 / 4.0)

    def first(self, x: Array, y: Label) -> Array:  # noqa: D102
        return np.asarray(-y * (1.0 - y * x) / 2.0)

    def probability(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(np.clip((1.0 + x) / 2.0, 0.0, 1.0))


@dataclass(frozen=True)
class ZeroOne:
    """``l(g, y) = 1`` where the predicted sign is not ``y``, else 0; the sign of 0 is -1.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.classification import ZeroOne
    >>> ZeroOne().loss(np.array([0.3, -0.2]), np.array([1, 1]))
    array([0., 1.])
    """

    def loss(self, x: Array, y: Label) -> Array:
        """Return the loss; it has no useful derivative."""
        return np.asarray(np.where(x > 0, 1, -1) != y, dtype=np.float64)


#: The surrogates by name; the logistic loss is that of the link of the same name.
LOSSES: dict[str, Loss] = {"squared": Squared(), "logistic": Logistic()}


def as_loss(name: object) -> Loss:
    """Return the loss of that name."""
    if not isinstance(name, str) or name not in LOSSES:
        raise InvalidInputError(f"There is no loss {name!r}; use one of {', '.join(LOSSES)}.")
    return LOSSES[name]


#: The label of each row of the table of weights.
POSITIVE, UNLABELLED, NEGATIVE = KINDS = (1, 0, -1)
KIND_NAMES = {POSITIVE: "positive", UNLABELLED: "unlabelled", NEGATIVE: "negative"}
#: Each risk by name, from its one parameter (eta of "pnu", gamma of "punu", unused by the others).
MIXTURES: dict[str, Callable[[float], Risk]] = {
    "pn": lambda _: risks.pn(),
    "pu": lambda _: risks.pu(0.0),
    "nu": lambda _: risks.nu(0.0),
    "punu": lambda gamma: risks.punu(gamma, 0.0),
    "pnu": lambda eta: risks.pnu(eta, 0.0),
}
#: The labels that a risk needs.
NEEDED_KINDS: dict[str, tuple[int, ...]] = {
    "pn": (POSITIVE, NEGATIVE),
    "pu": (POSITIVE, UNLABELLED),
    "nu": (NEGATIVE, UNLABELLED),
    "punu": KINDS,
    "pnu": KINDS,
}


def table(mixture: Risk, prior: float) -> Array:
    """Return the 3 x 2 table of the weights of ``E[l(g, +1)]`` and ``E[l(g, -1)]`` over P, U and N."""
    other = 1.0 - prior
    return np.array(
        [
            [prior * (mixture.pn + mixture.pu), -prior * mixture.pu],
            [mixture.nu, mixture.pu],
            [-other * mixture.nu, other * (mixture.pn + mixture.nu)],
        ]
    )


def example_weights(labels: Labels, mixture: Risk, prior: float) -> tuple[Array, Array]:
    """Return ``(plus, minus)``: the risk is the sum of ``plus_i l(g_i, +1) + minus_i l(g_i, -1)``."""
    weights = np.zeros((labels.size, 2))
    for kind, row in zip(KINDS, table(mixture, prior), strict=True):
        chosen = labels == kind
        n_chosen = int(np.count_nonzero(chosen))
        if n_chosen == 0 and np.any(row != 0.0):
            raise InvalidInputError(
                f"No label is {kind} ({KIND_NAMES[kind]} class), which this risk averages over; "
                "add such examples or choose another risk."
            )
        weights[chosen] = row / max(n_chosen, 1)
    return weights[:, 0], weights[:, 1]


def estimated_parts(
    labels: Labels, mixture: Risk, prior: float
) -> list[tuple[float, Array, Array]]:
    """Return the parts that Kiryo et al. (2017) keep from going below 0, each as ``(weight, plus, minus)``.

    ``E_U[l(g, -1)] - t E_P[l(g, -1)]`` estimates ``(1 - t) E_N[l(g, -1)]`` in R_PU, and its mirror image
    ``E_U[l(g, +1)] - (1 - t) E_N[l(g, +1)]`` estimates ``t E_P[l(g, +1)]`` in R_NU.
    """
    zeros: Array = np.zeros(labels.size)
    parts: list[tuple[float, Array, Array]] = []
    if mixture.pu > 0.0:
        parts.append((mixture.pu, zeros, example_weights(labels, risks.pu(0.0), prior)[1]))
    if mixture.nu > 0.0:
        parts.append((mixture.nu, example_weights(labels, risks.nu(0.0), prior)[0], zeros))
    return parts


def empirical_risk(
    decisions: Array,
    labels: Labels,
    mixture: Risk,
    *,
    prior: float,
    loss: HasLoss,
    nonnegative: bool = False,
) -> float:
    """Return ``pn R_PN + pu R_PU + nu R_NU`` of the decisions.

    Parameters
    ----------
    decisions : array of shape (n_examples,)
        ``g`` at each example.
    labels : array of {-1, 0, +1}
        0 for an unlabelled example.
    mixture : Risk
        Such as ``tribit.pnu(0.5, rho=0)``; its ``rho`` is not used.
    prior : float
        ``P(y = +1)``, inside (0, 1).
    loss : Loss
        Such as ``LOSSES["squared"]`` or ``ZeroOne()``.
    nonnegative : bool, default=False
        Whether to raise each of :func:`estimated_parts` to 0 where it is below.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import pn
    >>> from tribit.paper.classification import ZeroOne, empirical_risk
    >>> decisions, labels = np.array([1.0, -1.0, 1.0]), np.array([1, -1, -1])
    >>> empirical_risk(decisions, labels, pn(), prior=0.5, loss=ZeroOne())
    0.25
    """
    if not 0.0 < prior < 1.0:
        raise InvalidInputError(
            f"prior, the share of positives, must be above 0 and below 1; got {prior!r}."
        )
    plus, minus = example_weights(labels, mixture, prior)
    likes, dislikes = loss.loss(decisions, 1), loss.loss(decisions, -1)
    total = float(plus @ likes + minus @ dislikes)
    if nonnegative:
        for weight, plus, minus in estimated_parts(labels, mixture, prior):
            total += weight * max(0.0, -float(plus @ likes + minus @ dislikes))
        # Rounding alone must not leave a sum of non-negative terms below 0.
        total = max(total, 0.0)
    return total
