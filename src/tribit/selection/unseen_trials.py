"""Trials where one label was observed alone: held-out entries against all unseen cells.

Candidates of one kind are compared by the order of the cells (:func:`order_losses`), kinds of models by probabilities
that a line in the log-odds calibrates, as it does after the last fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tribit.metrics.entries import SCORINGS, Array, ByProbability, Labels, losses
from tribit.metrics.unseen import Positions, against_unseen
from tribit.model.calibrator_fits import isotonic, platt
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Missingness
from tribit.model.spec import ModelSpec
from tribit.selection.folds import Fold
from tribit.selection.judgement import is_clear
from tribit.selection.record import Candidate, HeldOut
from tribit.selection.regression import with_regression
from tribit.selection.trials import Trials

#: Rounds of the calibration weights, which settle in a few, and the least ``1 - p``: no cell is sure to be a like.
ROUNDS, LEAST_LEFT = 5, 0.05


@dataclass(frozen=True, eq=False)
class Regression:
    """Weight of the regression that is added to a candidate, with the score and the held-out entries of the two."""

    weight: float
    score: float
    held_out: HeldOut


class UnseenTrials(Trials):
    """Trials in which held-out entries of one label stand against all unseen cells."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: Factors of each candidate, one for each fold, and its held-out entries beside all unseen cells.
        self.fits: dict[Candidate, list[Factors]] = {}
        self.held_out: dict[Candidate, HeldOut] = {}
        #: Weight of the regression that is added to the chosen candidate, and its score; None without.
        self.regression: Regression | None = None

    @property
    def calibrates(self) -> bool:
        """Whether scores are those of calibrated probabilities: they are of the order of cells."""
        return False

    def watched(self, fold: Fold) -> None:
        """Return None: held-out entries of one label alone prefer whatever is larger."""

    def _keep(self, candidate: Candidate, kept: Any) -> None:
        self.fits[candidate], self.held_out[candidate] = kept

    def regressed(self, best: Candidate, parts: list[Factors], weight: float) -> Regression:
        """Return the score of a candidate with the regression added, and the held-out scores behind it."""
        found = [
            with_regression(factors, part, weight)
            for factors, part in zip(self.fits[best], parts, strict=True)
        ]
        total, _, (_, held_out) = self._measured(best.settings, found)
        return Regression(weight, total, held_out)

    def _measured(
        self, settings: ModelSpec, found: list[Factors]
    ) -> tuple[float, tuple[float, ...], tuple[list[Factors], HeldOut]]:
        """Return the score of fits, one for each fold, and the held-out scores behind it."""
        judged = [
            self._judged(fold, settings, factors)
            for fold, factors in zip(self.folds, found, strict=True)
        ]
        scores, entries = zip(*judged, strict=True)
        total = float(np.average(scores, weights=[float(np.sum(each[2])) for each in entries]))
        x, labels, weights = (np.concatenate(part) for part in zip(*entries, strict=True))
        return total, tuple(scores), (found, (x, labels, weights))

    def _judged(
        self, fold: Fold, settings: ModelSpec, factors: Factors
    ) -> tuple[float, tuple[Array, Labels, Array]]:
        """Return the score of calibrated probabilities, and the scores behind it."""
        link = settings.link
        x, labels, weights = against_unseen(
            factors,
            fold.train,
            fold.held_out,
            unit=link.level(0.75),
            transform=_Observed(settings.rho, link, bool(fold.held_out.labels[0] > 0))
            if settings.unbounded
            else None,
        )
        if self.scoring == "log_loss":
            lost = order_losses(x, labels, weights)
            score = float(np.average(lost, weights=weights))
        else:
            score = SCORINGS[self.scoring](link, x, labels, weights)
        return score, (x, labels, weights)

    def calibration_entries(self, members: Sequence[Candidate]) -> HeldOut:
        """Return the held-out scores of the first member, weighted to calibrate what a fit gives the probability of.

        Of a cell that is a like with probability p, a share s of likes being in the training part, the fit estimates
        ``t = s p``. Among the cells that the training part lacks it is held out at odds ``(1 - s) p / (1 - p)``, which
        the weight ``s / (1 - s) (1 - p) / (1 - s p)`` turns into those of t; p is that of the round before.
        """
        best = members[0]
        entries = self.held_out[best] if self.regression is None else self.regression.held_out
        x, labels, weights = entries
        label, share = self.folds[0].held_out.labels[0], self.folds[0].share
        held_out = labels == label
        scale = np.ones(x.size)
        for _ in range(ROUNDS):
            line = platt(x, labels, scale * weights, link=best.settings.link, counts=True)
            t = line(x) if label > 0 else 1.0 - line(x)
            shrunk = np.maximum(1.0 - t / share, LEAST_LEFT) / (1.0 - np.minimum(t, share))
            scale = np.where(held_out, share / (1.0 - share) * shrunk, 1.0)
        return x, labels, scale * weights

    def ahead(self, rich: Candidate, simple: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer the first to the second, both calibrated by a line.

        The line (Platt) has two parameters: where there is nothing to learn its slope is near 0, and a richer model is
        no better than intercepts.
        """
        if self.scoring != "log_loss":
            return rich.score < simple.score
        link = rich.settings.link
        own, other = (_line_losses(*self.held_out[each], link) for each in (rich, simple))
        return self._gains(own, other, self.held_out[rich], self.held_out[simple])

    def gains_by(self, added: Regression, best: Candidate) -> bool:
        """Return whether the held-out entries clearly prefer a candidate with the regression to the same without."""
        if self.scoring != "log_loss":
            return added.score < best.score
        entries = added.held_out, self.held_out[best]
        own, other = (order_losses(*each) for each in entries)
        return self._gains(own, other, *entries)

    def _gains(self, own: Array, other: Array, entries: HeldOut, others: HeldOut) -> bool:
        """Return whether a gain is clear: its error is that of the held-out entries, as all unseen cells are there."""
        label = self.folds[0].held_out.labels[0]
        gains = other[others[1] == label] - own[entries[1] == label]
        error = float(np.std(gains) * np.sqrt(gains.size) / np.sum(entries[2]))
        score = float(np.average(other, weights=others[2]))
        gain = score - float(np.average(own, weights=entries[2]))
        return is_clear(gain, error, gains.size, score)


def _line_losses(x: Array, labels: Labels, weights: Array, link: Link) -> Array:
    """Return the losses of scores that are calibrated by a line in the log-odds."""
    return losses(ByProbability(platt(x, labels, weights, link=link, counts=True)), x, labels)


def order_losses(x: Array, labels: Labels, weights: Array) -> Array:
    """Return the losses of scores that are calibrated by the line that never falls, cross-fitted.

    Held-out entries are halved by turns: the line of one half is judged on the other, with half of each bin of unseen
    cells in both. So the order counts and no more: among the cells ranked first there are always likes that nobody has
    seen yet, which hold down their probabilities, and a straight line in the log-odds would bend the order to that.
    """
    # The label of the bins is that of the last entry.
    held_out = labels != labels[-1]
    half = np.where(held_out, np.cumsum(held_out) % 2, -1)
    shares = np.where(held_out, 1.0, 0.5) * weights
    lost = np.zeros(x.size)
    for part in (0, 1):
        train = half != part
        line = isotonic(x[train], labels[train], shares[train])
        found = losses(ByProbability(line), x, labels)
        lost += np.where(held_out, half == part, 0.5) * found
    return lost


@dataclass(frozen=True)
class _Observed:
    """The log-odds of being observed, ``(1 - rho) f(x)``, in the scale of the link; of dislikes the mirror image."""

    rho: Any
    link: Link
    liked: bool

    def __call__(self, x: Array, rows: Positions) -> Array:
        rho, link = self.rho, self.link
        if isinstance(rho, Missingness):
            i, j = np.meshgrid(rows, np.arange(x.shape[1]), indexing="ij")
            q = 1.0 - rho.rho_at(i.ravel(), j.ravel()).reshape(i.shape)
        else:
            q = np.asarray(1.0 if rho is None else 1.0 - rho)
        p = np.clip(q * link.probability(x if self.liked else -x), 1e-12, 1.0 - 1e-12)
        z = np.log(p) - np.log1p(-p)
        return np.asarray((z if self.liked else -z) * (link.level(0.75) / np.log(3.0)))
