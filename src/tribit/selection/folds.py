"""Folds of a search, which hold out entries and not rows, and models adapted to the density of a fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tribit.backends.layout import share_layouts
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.metrics.entries import Array
from tribit.model.factors import Factors
from tribit.model.risks import Integers, Missingness
from tribit.model.spec import ModelSpec
from tribit.randomness import balanced_fold_numbers
from tribit.selection.significance import MIN_HELD_OUT_PER_CLASS

#: Weights of entries, or a function of entries that returns theirs.
Weights: TypeAlias = Array | Callable[[Observations], Array]

#: Number of entries from which tenths are held out in the place of fifths, with early stopping of the fits.
TENTHS_FROM = 40_000
#: Number of parts of a smaller table, which all are held out by turns; the most folds of a larger one, and the number
#: of held-out entries that ends their number.
N_PARTS, MAX_FOLDS, ENOUGH_HELD_OUT = 5, 5, 30_000
#: Number of held-out entries on which stages compare candidates: their folds come first.
MIN_HELD_OUT_OF_STAGES = 4_000
#: Most entries that are held out: with so many, the standard error of the difference of two models of one family is
#: below ``MIN_RELATIVE_GAIN`` of the score.
MAX_HELD_OUT = 50_000
#: Number of held-out entries of positive-only data to reach with tenths, and the most folds: the unobserved cells are
#: all there, without noise. A fit to nine tenths orders cells nearly as well as one to all: on 24 simulated tables
#: with 2,200 likes the best pairs, with a fifth of the expected likes, have 1.16 times as many held-out ones, and 1.37
#: times with fifths.
MIN_HELD_OUT_ALONE, MAX_FOLDS_ALONE = 1_000, 3


@dataclass
class Fold:
    """Training entries, held-out entries with their weights, and the last factors of each family for warm starts."""

    train: Observations
    held_out: Observations
    weights: Array
    share: float  #: training entries as a share of the observed ones
    seed: int
    ends: dict[str, Factors] = field(default_factory=dict)
    penalty_share: float = (
        1.0  #: penalties that suit the fold, as a share of those of the full data
    )


def make_folds(
    observations: Observations, weights: Weights | None, draws: np.random.Generator
) -> list[Fold]:
    """Return the folds; the weights are those of all observed entries, or a function of entries, 1 by default."""
    n = observations.n_observed
    # Where one label was observed alone it is the one that must be held out.
    rarer = min(observations.n_likes, observations.n_dislikes) or n
    tenths = n >= TENTHS_FROM and rarer >= 10 * MIN_HELD_OUT_PER_CLASS
    # Fewer parts where one more would leave too few of a rare label held out.
    parts = max(10, min(n // MAX_HELD_OUT, rarer // MIN_HELD_OUT_PER_CLASS)) if tenths else N_PARTS
    used = min(MAX_FOLDS, -(-ENOUGH_HELD_OUT * parts // n)) if tenths else N_PARTS
    if not (observations.n_likes and observations.n_dislikes):
        parts, used = 10, min(MAX_FOLDS_ALONE, -(-MIN_HELD_OUT_ALONE * 10 // n))
    if isinstance(observations, RemoteObservations):
        if parts == 10 and not (observations.n_likes and observations.n_dislikes):
            parts = max(parts, n // MAX_HELD_OUT)  # held-out entries come to this machine
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


def n_first_folds(folds: list[Fold]) -> int:
    """Return the number of folds on which stages compare candidates; finalists are fitted on the others too."""
    held_out = np.cumsum([fold.held_out.n_observed for fold in folds])
    rarer = np.cumsum([min(fold.held_out.n_likes, fold.held_out.n_dislikes) for fold in folds])
    enough = (held_out >= MIN_HELD_OUT_OF_STAGES) & (rarer >= MIN_HELD_OUT_PER_CLASS)
    return int(np.argmax(enough)) + 1 if enough.any() else len(folds)


def _remote_folds(
    observations: RemoteObservations,
    parts: int,
    used: int,
    draws: np.random.Generator,
    weights: Weights | None,
) -> list[Fold]:
    """Return folds of entries on other machines; held-out entries come to this machine."""
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
    """Return the weights of entries, times their own."""
    own = entries.weights_or_ones
    if weights is None:
        return own
    return own * (weights(entries) if callable(weights) else weights)


#: Penalties of factors and of features, which scale with the size of the data. Those of intercepts, which depend on the
#: entries of one row or column alone, do not.
PENALTIES = ("l2", "l2_implicit", "l2_side")


@dataclass(frozen=True)
class _ThinnedMask:
    """A model of the mask when only a share of the observed entries is kept."""

    whole: Missingness
    share: float

    def rho_at(self, rows: Integers, columns: Integers) -> Array:
        """Return ``1 - share (1 - rho)``."""
        return np.asarray(1.0 - self.share * (1.0 - self.whole.rho_at(rows, columns)))


def spec_for_fold(settings: ModelSpec, share: float, penalty_share: float = 1.0) -> ModelSpec:
    """Return settings for a fold, in which a share of the observed entries is seen: its ``rho``, and its mixture.

    In a row subsample ``penalty_share`` scales the penalties (:func:`tribit.selection.row_subsample.penalty_share`).
    """
    rho = settings.rho
    if isinstance(rho, Missingness):
        rho = _ThinnedMask(rho, share)
    elif rho:  # with 0 the label is that of having been observed, in a fold as in the whole
        rho = 1.0 - share * (1.0 - rho)
    penalties = {
        name: penalty_share * value
        for name in PENALTIES
        if (value := getattr(settings, name)) is not None
    }
    return replace(settings, rho=rho, gammas=thin_mixture(settings.gammas, share), **penalties)


def thin_mixture(gammas: tuple[float, float, float], share: float) -> tuple[float, float, float]:
    """Return the mixture that imputes as much where a ``share`` of the observed entries is left as ``gammas`` does.

    With ``h = g_PU + g_NU`` the odds of imputation are ``t / (1 - t) = h / (1 - h) / density``, so that the odds of h
    must shrink as the density does.

    Examples
    --------
    >>> from tribit.selection.gammas import mixture
    >>> from tribit.selection.folds import thin_mixture
    >>> whole, part = mixture(0.3, 0.05, 0.6), mixture(0.3, 0.04, 0.6)
    >>> max(abs(a - b) for a, b in zip(thin_mixture(whole, 0.8), part)) < 1e-12
    True
    """
    g_pn, g_pu, g_nu = gammas
    whole = g_pn + share * (g_pu + g_nu)
    return g_pn / whole, share * g_pu / whole, share * g_nu / whole
