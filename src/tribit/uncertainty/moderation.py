"""The probability of a like when ``x`` itself is not known for sure: ``E f(x + sd e)``, ``e`` standard normal.

For the probit link it is ``Phi(x / sqrt(sigma^2 + sd^2))``. The logistic distribution is a mixture of normal ones,
``N(0, (2 K)^2)`` with ``K`` of Kolmogorov's distribution (Andrews and Mallows 1974, "Scale mixtures of normal
distributions"), so for the logistic link it is the same formula averaged over ``K``: a smooth integral in one variable,
for which a few fixed nodes do whatever ``sd`` is. MacKay's (1992, "The evidence framework applied to classification
networks") shortcut ``f(x / sqrt(1 + pi sd^2 / 8))`` puts one node in the place of all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tribit.model.links import Link, Logistic, Probit

Array = NDArray[np.floating[Any]]

#: Nodes for the logistic link and for links of which nothing is known, and the range outside which K never falls.
NODES, HERMITE, RANGE = 24, 64, (0.2, 3.2)


def moderated(link: Link, x: Array, deviation: Array) -> Array:
    """Return ``E f(x + deviation e)``: ``f(x)`` drawn towards 1/2, the more the less is known of ``x``.

    Parameters
    ----------
    link : Link
        ``f``. The error is below 1e-6 for the logistic link, none for the probit one; for others the integral has
        64 nodes, which does while ``deviation`` is not much wider than the link.
    x, deviation : array of equal shapes
        Means and standard deviations.
    """
    x, deviation = np.asarray(x, dtype=np.float64), np.asarray(deviation, dtype=np.float64)
    if isinstance(link, Probit):
        return np.asarray(ndtr(x / np.hypot(link.sigma, deviation)))
    if isinstance(link, Logistic):
        widths, weights = _kolmogorov()
        terms = (
            w * ndtr(x / np.hypot(width / link.scale, deviation))
            for width, w in zip(widths, weights, strict=True)
        )
    else:
        nodes, weights = _hermite()
        terms = (
            w * link.probability(x + node * deviation)
            for node, w in zip(nodes, weights, strict=True)
        )
    return np.asarray(np.clip(sum(terms, np.zeros(x.shape)), 0.0, 1.0))


@cache
def _kolmogorov() -> tuple[list[float], list[float]]:
    """Return standard deviations and weights of normal distributions that mix to the logistic one."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    low, high = RANGE
    K = low + (high - low) * (nodes + 1) / 2
    j = np.arange(1, 41)[:, None]
    density = 8 * K * np.sum((-1.0) ** (j - 1) * j**2 * np.exp(-2 * j**2 * K**2), axis=0)
    masses = weights * np.maximum(density, 0.0)
    return (2 * K).tolist(), (masses / masses.sum()).tolist()


@cache
def _hermite() -> tuple[list[float], list[float]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE)
    return nodes.tolist(), (weights / weights.sum()).tolist()
