"""Stacking: non-negative weights of several fits that maximise the likelihood of held-out labels.

    max over w >= 0, c   sum_t  a_t log P(label_t | w_1 x_1t + ... + w_m x_mt + c)

over held-out entries t of weight ``a_t``, with ``x_it`` the score of the i-th candidate by a fit that has not seen the
entry (Wolpert 1992, "Stacked generalization"; Breiman 1996, "Stacked regressions"). Model families err in different
places: a few members are better than any of them, and the result depends less on the split than the choice of one.

A sum of factor models is a factor model (:meth:`tribit.model.factors.Factors.mean_of`), so that everything after the
fit works with a stack as with one fit. Members are added one by one as long as the log-likelihood gains a few nats
(:data:`MIN_GAIN_IN_NATS`): each has a weight that is fitted to the same entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from tribit.metrics.entries import Array, Labels
from tribit.model.links import Link

#: Gain of the log-likelihood, in nats, for which a further member or a more complex model family is used. The optimism
#: of a fitted weight is one nat (Akaike 1974); the best of some thirty candidates gains up to six by chance: so much it
#: was on three of 20 tables of noise with 480 to 19,000 entries.
MIN_GAIN_IN_NATS = 8.0
#: Share of the loss that a further member must gain, as it costs a refit.
MIN_RELATIVE_GAIN = 3e-4
#: Candidates that are fitted beside the members so far, of those with the largest predicted gains.
N_TRIED = 3
#: Iterations of Newton's method, and the decrease of the mean loss below which it ends.
MAX_ITERATIONS, TOLERANCE = 50, 1e-9
#: Ridge of the normal equations, as a share of the largest curvature: members may be nearly equal.
RIDGE = 1e-9
#: Least curvature of that: far out, where every entry is certain, there is none.
MIN_CURVATURE = 1e-3


@dataclass(frozen=True, eq=False)
class Weighting:
    """Weights of candidates, the offset beside them, and the mean loss.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.model.links import Logistic
    >>> from tribit.selection.stacking import fit_weights
    >>> x = np.array([[2.0, 1.0, 1.0, -1.0, -1.0, -2.0], [1.0, -1.0, 1.0, -1.0, 1.0, 0.0]])
    >>> fit_weights(x, np.array([1, 1, -1, 1, -1, -1]), np.ones(6), Logistic()).weights.round(2)
    array([0.76, 0.  ])
    """

    weights: Array
    offset: float
    loss: float

    @property
    def shares(self) -> Array:
        """The weights divided by their sum; equal ones where all are 0."""
        total = float(self.weights.sum())
        return self.weights / total if total else np.full(self.weights.size, 1 / self.weights.size)


@dataclass(frozen=True, eq=False)
class _Entries:
    """Held-out entries: scores of candidates, labels, relative weights, and the size of a sample with even weights."""

    x: Array
    labels: Labels
    weights: Array
    link: Link

    @property
    def size(self) -> float:
        """The number of entries of even weight with as much information."""
        return float(1.0 / np.sum(self.weights**2))

    def derivatives(self, z: Array) -> tuple[float, Array, Array]:
        """Return the mean loss at scores, and its weighted first and second derivatives by entry."""
        parts = []
        for function in (self.link.loss, self.link.first, self.link.second):
            parts.append(np.where(self.labels > 0, function(z, 1), function(z, -1)) * self.weights)
        return float(parts[0].sum()), parts[1], parts[2]


def fit_weights(
    x: Array, labels: Labels, weights: NDArray[Any], link: Link, start: Array | None = None
) -> Weighting:
    """Return the weights of the candidates: the minimum over ``w >= 0`` and c, by Newton's method.

    Parameters
    ----------
    x : array of shape (m, n)
        Scores of m candidates at n held-out entries.
    labels, weights : array of shape (n,)
        The entries.
    link : Link
        The curve of the likelihood.
    start : array of shape (m,), optional
        First weights; equal ones with sum 1 by default.
    """
    entries = _Entries(np.asarray(x, dtype=np.float64), labels, weights / np.sum(weights), link)
    m = len(entries.x)
    design = np.vstack([entries.x, np.ones(labels.size)])
    unknowns = np.append(np.full(m, 1.0 / m) if start is None else start, 0.0)
    loss, first, second = entries.derivatives(unknowns @ design)
    for _ in range(MAX_ITERATIONS):
        gradient = design @ first
        step = _quadratic_minimum(unknowns, gradient, _curvature(design, second)) - unknowns
        length, before = 1.0, loss
        # Until the step is lost in rounding: where hardly an entry is uncertain, steps are far too long at first.
        while np.any(np.abs((moved := unknowns + length * step) - unknowns) > 0.0):
            found, *derivatives = entries.derivatives(moved @ design)
            if found <= loss + 1e-4 * length * float(gradient @ step):
                unknowns, loss, (first, second) = moved, found, derivatives
                break
            length /= 2.0
        if before - loss < TOLERANCE:
            break
    return Weighting(unknowns[:m], float(unknowns[m]), loss)


def _curvature(design: Array, second: Array) -> Array:
    """Return the second derivatives of the mean loss, with a small ridge."""
    found = np.asarray((design * np.maximum(second, 0.0)) @ design.T)
    found[np.diag_indices_from(found)] += RIDGE * max(float(np.trace(found)), MIN_CURVATURE)
    return found


def _quadratic_minimum(at: Array, gradient: Array, curvature: Array) -> Array:
    """Return the minimum over ``w >= 0`` and c of the quadratic model at a point.

    c is free and eliminated; the rest is a problem of non-negative least squares, of which all bounds are active that
    are so at its minimum. A Newton step that is cut off at the bounds instead may increase the loss, however short.
    """
    across, own = curvature[:-1, -1], curvature[-1, -1]
    rest = curvature[:-1, :-1] - np.outer(across, across) / own
    slopes = gradient[:-1] - across * (gradient[-1] / own) - rest @ at[:-1]
    root = np.linalg.cholesky(rest)
    w = nnls(root.T, -np.linalg.solve(root, slopes))[0]
    return np.append(w, at[-1] - (gradient[-1] + across @ (w - at[:-1])) / own)


def select_members(
    x: Array,
    labels: Labels,
    weights: NDArray[Any],
    link: Link,
    *,
    most: int,
    first: int | None = None,
    min_gain: float = MIN_GAIN_IN_NATS,
) -> list[int]:
    """Return the places of the candidates to stack, in the order in which they were added: forward selection.

    Parameters
    ----------
    x, labels, weights, link : array, array, array, Link
        As for :func:`fit_weights`.
    most : int
        The greatest number of members.
    first : int, optional
        The first member; by default the one with the smallest loss.
    min_gain : float
        Gain of the log-likelihood that a further member needs, in nats.
    """
    entries = _Entries(np.asarray(x, dtype=np.float64), labels, weights / np.sum(weights), link)

    def fitted(members: Sequence[int], start: Array | None = None) -> Weighting:
        return fit_weights(entries.x[list(members)], labels, weights, link, start)

    if first is None:
        losses = [fitted([place]).loss for place in range(len(entries.x))]
        first = int(np.argmin(losses))
    chosen, found = [first], fitted([first])
    while len(chosen) < most:
        gains = _predicted_gains(entries, chosen, found)
        tried = [place for place in np.argsort(-gains)[:N_TRIED] if gains[place] > 0.0]
        if not tried:
            break
        start = np.append(found.weights, 0.0)
        results = [fitted([*chosen, int(place)], start) for place in tried]
        best = int(np.argmin([each.loss for each in results]))
        gain = found.loss - results[best].loss
        if gain < max(min_gain / entries.size, MIN_RELATIVE_GAIN * found.loss):
            break
        chosen, found = [*chosen, int(tried[best])], results[best]
    return chosen


def _predicted_gains(entries: _Entries, chosen: Sequence[int], found: Weighting) -> Array:
    """Return the decrease of the loss that each candidate promises beside the chosen: that of one Newton step.

    ``g^2 / (2 h)``, with h the curvature in the direction of the candidate after the chosen ones have followed; 0 where
    its weight would be negative.
    """
    members = np.vstack([entries.x[list(chosen)], np.ones(entries.labels.size)])
    _, first, second = entries.derivatives(np.append(found.weights, found.offset) @ members)
    slopes = entries.x @ first
    own = _curvature(members, second)
    cross = (entries.x * second) @ members.T
    left = np.einsum("ij,ij->i", entries.x * second, entries.x)
    left -= np.einsum("ij,ij->i", cross, np.linalg.solve(own, cross.T).T)
    gains = np.where(slopes < 0.0, slopes**2 / (2.0 * np.maximum(left, np.finfo(float).tiny)), 0.0)
    gains[list(chosen)] = 0.0
    gains[left <= 1e-9 * np.abs(left).max(initial=0.0)] = 0.0
    return gains
