"""Folds of a search: parts of the observed entries that are held out, of entries and not of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tribit.backends.layout import share_layouts
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.metrics.entries import Array
from tribit.model.factors import Factors
from tribit.randomness import balanced_fold_numbers
from tribit.selection.significance import ENOUGH_RARE

#: Weights of entries, or a function of entries that returns theirs.
Weights: TypeAlias = Array | Callable[[Observations], Array]

#: Number of entries from which a single tenth is held out; below it the number of held-out entries to reach with fifths
#: in turn, the number of parts, and the most folds, which bounds the time.
MANY, ENOUGH, FIFTHS, MOST_FOLDS = 40_000, 2_500, 5, 3
#: Most entries that are held out: with so many the standard error of a difference of log-losses that models of one
#: family have is below LEAST_GAIN of the score.
MOST_HELD_OUT = 50_000
#: Number of entries of one label alone from which tenths are held out, and how many to reach: what such a label stands
#: against is known without noise, and the best ridges of a fuller table are nearer to those of the whole.
MANY_ALONE, ENOUGH_ALONE = 3_000, 1_000


@dataclass
class Fold:
    """Training entries, held-out entries with their weights, and the last factors of each family for warm starts."""

    train: Observations
    held_out: Observations
    weights: Array
    share: float  #: training entries as a share of the observed ones
    seed: int
    ends: dict[str, Factors] = field(default_factory=dict)
    ridge_share: float = 1.0  #: ridges that suit the fold, as a share of those of the whole table


def make_folds(
    observations: Observations, weights: Weights | None, draws: np.random.Generator
) -> list[Fold]:
    """Return the folds; the weights are those of all observed entries, or a function of entries, 1 by default."""
    n = observations.n_observed
    # Where one label was observed alone it is the one that must be held out.
    rarer = min(observations.n_likes, observations.n_dislikes) or n
    once = n >= MANY and rarer >= 10 * ENOUGH_RARE
    # Fewer parts where one more would leave too few of a rare label held out.
    parts = max(10, min(n // MOST_HELD_OUT, rarer // ENOUGH_RARE)) if once else FIFTHS
    needed = max(-(-ENOUGH * FIFTHS // n), 1)
    used = 1 if once else min(MOST_FOLDS, needed)
    if not (observations.n_likes and observations.n_dislikes) and n >= MANY_ALONE:
        parts, used = 10, min(MOST_FOLDS, -(-ENOUGH_ALONE * 10 // n))
    # A rare label must be among what is held out, or nothing can be said of it.
    while not once and used < FIFTHS and used * rarer < ENOUGH_RARE * FIFTHS:
        used += 1
    if isinstance(observations, RemoteObservations):
        if parts == 10 and not (observations.n_likes and observations.n_dislikes):
            parts = max(parts, n // MOST_HELD_OUT)  # what is held out comes to this machine
        return _remote_folds(observations, parts, used, draws, weights)
    weights = _weights_of(observations, weights)
    number = balanced_fold_numbers(observations.labels > 0, parts, draws)
    folds = [
        Fold(
            *observations.hold_out(number == part),
            weights[number == part],
            float(np.mean(number != part)),
            int(draws.integers(2**32)),
        )
        for part in range(used)
    ]
    for fold in folds:
        share_layouts(fold.train)
    return folds


def _remote_folds(
    observations: RemoteObservations,
    parts: int,
    used: int,
    draws: np.random.Generator,
    weights: Weights | None,
) -> list[Fold]:
    """Return folds of entries on other machines; what is held out comes here."""
    n = observations.n_observed
    folds = [
        Fold(
            train,
            held_out,
            _weights_of(held_out, weights),
            len(train) / n,
            int(draws.integers(2**32)),
        )
        for train, held_out in observations.hashed_folds(parts, used, int(draws.integers(2**32)))
    ]
    for fold in folds:
        share_layouts(fold.train)
    return folds


def _weights_of(entries: Observations, weights: Weights | None) -> Array:
    """Return the weights of entries."""
    if weights is None:
        return np.ones(len(entries))
    return weights(entries) if callable(weights) else weights
