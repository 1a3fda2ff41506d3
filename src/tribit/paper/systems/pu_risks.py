"""The PU risk and its two biased relatives; each is a table of weights ``(c_plus, c_minus)`` of an entry.

    kind of entry   pu                  pu_without_dislikes   biased_pu
    like            (1 / q, -rho / q)   (1 / q, -rho / q)     ((1 + rho) / q, 0)
    unobserved      (0, 1)              (0, 1)                (0, 1)
    dislike         (0, 1)              (0, 0)                (0, 1)

with ``q = 1 - rho``. Only the first has the mean of ``sum l(x, y)`` over all true labels y; what the others estimate is
in :func:`tribit.paper.theory.limiting_probability`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tribit.model.risks import Floats, Integers, Missingness, Risk, pu


class _WithoutDislikes(Risk):
    """The PU risk with weight 0 on observed dislikes."""

    def table(self) -> Floats:
        found = super().table()
        found[2] = 0.0
        return found

    def observed_weights(
        self, labels: Integers, rows: Integers, columns: Integers
    ) -> tuple[Floats, Floats]:
        plus, minus = super().observed_weights(labels, rows, columns)
        return plus, np.where(labels > 0, minus, -1.0)


class _Biased(Risk):
    """Likes that weigh ``(1 + rho) / (1 - rho)`` dislikes, with no correction."""

    def table(self) -> Floats:
        found = super().table()
        found[0] = 2.0 * found[0, 0] - 1.0, 0.0
        return found

    def observed_weights(
        self, labels: Integers, rows: Integers, columns: Integers
    ) -> tuple[Floats, Floats]:
        inverse, _ = super().observed_weights(labels, rows, columns)
        like = labels > 0
        return np.where(like, 2.0 * inverse - 1.0, 0.0), np.where(like, -1.0, 0.0)


def pu_without_dislikes(rho: float | Missingness) -> Risk:
    """Return the PU risk with the loss 0 at observed dislikes: the first modification of Hayashi et al., L'.

    Its mean is ``sum [f l(x, +1) + rho (1 - f) l(x, -1)]`` with f the probability of a like: dislikes count ``rho``
    times too little. At ``rho = 0`` it knows no dislike at all.
    """
    return _WithoutDislikes(0.0, 1.0, 0.0, rho)


def biased_pu(rho: float | Missingness) -> Risk:
    """Return the weighted risk of "biased matrix completion" (Hsieh, Natarajan and Dhillon 2015).

    They weigh likes by ``(1 + rho) / 2`` and all other entries, as dislikes, by ``(1 - rho) / 2``; here both weights
    are divided by the latter. Its 0-1 loss has the mean of that of the true labels, up to a factor and a constant, so
    that it is for signs: ``Y = 1[M > threshold]`` without noise.
    """
    return _Biased(0.0, 1.0, 0.0, rho)


#: The risks of :class:`tribit.paper.systems.PUMatrixCompletion` by name, the unbiased one first.
PU_RISKS: dict[str, Callable[[Any], Risk]] = {
    "unbiased": pu,
    "biased": biased_pu,
    "without-dislikes": pu_without_dislikes,
}
