"""The half-life of entries, chosen on the latest of them.

    w_ij = scale 2^(-age_ij / h),     scale such that the mean weight stays the same

The chosen model is refitted to the entries before the latest tenth, without a half-life and with h the time that these
entries span, a half of it, a quarter, ...; each refit is scored on the latest tenth. A half-life is used if its loss is
clearly smaller than without one, by the standard error of the paired difference, clustered by row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_positive
from tribit.data.decay import Decay
from tribit.data.observations import Observations
from tribit.data.times import DAY, latest_mask
from tribit.errors import InvalidTypeError, parameter, quoted
from tribit.metrics.entries import ENTRY_LOSSES, Array, losses, standard_error
from tribit.model.fitted import Fitted
from tribit.model.spec import AUTO, Auto, is_auto
from tribit.randomness import RandomState, generator
from tribit.selection.significance import MIN_RELATIVE_GAIN, one_sided
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME

#: Share of the entries that is held out: the latest.
LATEST_SHARE = 0.1
#: Least number of entries of which a tenth is held out.
MIN_ENTRIES = 1000
#: Halvings in a row without a smaller loss after which no shorter half-life is tried, and the most half-lives.
MAX_FAILURES, MAX_HALF_LIVES = 2, 8
#: Standard errors by which a half-life must win. With one, a half-life that does not help was used on one of five
#: splits of MovieLens-100k and on one of 16 simulated tables without a drift; with two on none. On tables with a weak
#: drift one would gain more (``python -m benchmarks.half_life threshold``).
STANDARD_ERRORS = 2.0
#: Most entries that are compared: of a larger table those of a random sample of rows. A refit of so many takes seconds.
MAX_ENTRIES = 1_000_000
#: Most rows whose later likes are ranked, evenly spaced, and cells of a block of scores.
MAX_RANKED_ROWS, BLOCK_CELLS = 5_000, 2**22
DONE = "shorter half-lives have larger losses"
TOO_FEW = "there are too few entries, or too few of one label among the latest"
ONE_TIME = "all entries have the same time"


@dataclass(frozen=True)
class HalfLifeTrial:
    """A half-life with its score on the latest entries.

    Attributes
    ----------
    half_life : float or None
        In days; None for equal weights.
    score : float
        Mean loss of the latest entries.
    gain, error : float
        Score without a half-life less this one, and its standard error.

    Examples
    --------
    >>> from tribit.selection.half_life import HalfLifeTrial
    >>> HalfLifeTrial(90.0, 0.51, 0.02, 0.004).is_clear
    True
    """

    half_life: float | None
    score: float
    gain: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the loss is clearly smaller than without a half-life."""
        least = MIN_RELATIVE_GAIN * abs(self.score + self.gain)
        return self.gain > max(STANDARD_ERRORS * self.error, least)


@dataclass(frozen=True)
class HalfLife:
    """The half-life of a fit, and how it was chosen.

    Attributes
    ----------
    decay : Decay or None
        The weights of the fit; None for equal weights.
    trials : tuple of HalfLifeTrial
        The half-lives that were compared, first none; empty where one was given.
    n_latest : int
        Number of latest entries that they were scored on.
    stop_reason : str
        Why no others were compared.

    Examples
    --------
    >>> from tribit.selection.half_life import HalfLife, HalfLifeTrial
    >>> print(HalfLife(None, (HalfLifeTrial(None, 0.5, 0, 0), HalfLifeTrial(90, 0.502, -0.002, 0.001)), 400))
    none: loss on the latest 400 entries .5000, with 90 days .5020 ± .0010
    """

    decay: Decay | None = None
    trials: tuple[HalfLifeTrial, ...] = ()
    n_latest: int = 0
    stop_reason: str = ""

    @property
    def best(self) -> HalfLifeTrial | None:
        """The half-life with the smallest loss, clearly smaller or not; None where none was compared."""
        return min(self.trials[1:], key=lambda each: each.score, default=None)

    def __str__(self) -> str:
        days = "none" if self.decay is None else f"{self.decay.half_life:.4g} days"
        best = self.best
        if best is None:
            return f"{days} ({self.stop_reason})" if self.stop_reason else days
        without, score, error = (
            f"{value:.4f}".lstrip("0") for value in (self.trials[0].score, best.score, best.error)
        )
        return (
            f"{days}: loss on the latest {self.n_latest} entries {without}, with {best.half_life:.4g} days {score} "
            f"± {error}"
        )


def check_half_life(name: str, value: object) -> float | Auto:
    """Return a half-life in days, or "auto"."""
    if is_auto(value):
        return AUTO
    if isinstance(value, str) or value is None:
        raise InvalidTypeError(
            f"{parameter(name)} must be auto, none or a number of days; got {quoted(value)}."
        )
    return check_positive(name, value)


def choose_half_life(
    observations: Observations,
    refit: Callable[[Observations], Fitted],
    *,
    scoring: str = "log_loss",
    max_time: float | None = None,
    random_state: RandomState = None,
) -> HalfLife:
    """Compare half-lives on the latest entries and return the choice.

    Parameters
    ----------
    observations : Observations
        The entries, with times.
    refit : callable
        Fits the chosen model to other entries.
    scoring : {"log_loss", "error", "auc"}
        The measure of the search; an AUC is no mean of losses and is replaced by the log-loss. For one label alone the
        loss is the share of unseen columns that are ranked above a held-out entry of their row.
    max_time : float, optional
        No further half-life is compared after so many seconds.
    random_state : int, Generator, RandomState or None
        Seed of the rows of a large table that are compared.
    """
    began = time.perf_counter()
    compared = _some_rows(observations, random_state)
    times = compared.require_times("A half-life is chosen on the latest entries")
    if (times == times[0]).all():
        return HalfLife(stop_reason=ONE_TIME)
    mask = latest_mask(times, max(1, round(LATEST_SHARE * len(compared))))
    train, test = compared.hold_out(mask)
    one_label = not (observations.n_likes and observations.n_dislikes)
    if len(compared) < MIN_ENTRIES or (not one_label and one_sided(test.labels)):
        return HalfLife(stop_reason=TOO_FEW)
    if one_label:
        rows = np.unique(test.rows)
        chosen = rows[np.linspace(0, rows.size - 1, min(rows.size, MAX_RANKED_ROWS)).astype(int)]
        test = test.select(np.isin(test.rows, chosen))
    loss_of = ENTRY_LOSSES.get(scoring, losses)

    def losses_with(half_life: float | None) -> Array:
        decayed = (
            train.with_times(None) if half_life is None else Decay.of(train, half_life).weigh(train)
        )
        scores = refit(decayed).scores
        if one_label:
            return rank_losses(scores, train, test)
        return loss_of(scores.curve, scores.x(test.rows, test.columns), test.labels)

    trials: list[HalfLifeTrial] = []
    half_life = float((train.require_times("").max() - train.require_times("").min()) / DAY)
    failures, reason = 0, DONE
    try:
        without = losses_with(None)
        trials.append(_trial(None, without, without, test))
        while half_life > 0 and len(trials) <= MAX_HALF_LIVES and failures < MAX_FAILURES:
            if max_time is not None and time.perf_counter() - began > max_time:
                reason = OUT_OF_TIME
                break
            best = min(each.score for each in trials)
            trials.append(_trial(half_life, losses_with(half_life), without, test))
            failures = 0 if trials[-1].score < best else failures + 1
            half_life /= 2.0
    except KeyboardInterrupt:
        reason = INTERRUPTED
    found = HalfLife(None, tuple(trials), len(test), reason)
    best_trial = found.best
    if reason == INTERRUPTED or best_trial is None or not best_trial.is_clear:
        return found
    assert best_trial.half_life is not None  # none is the first trial
    decay = Decay.of(observations, best_trial.half_life)
    return HalfLife(decay, found.trials, found.n_latest, found.stop_reason)


def _some_rows(observations: Observations, random_state: RandomState) -> Observations:
    """Return the entries of a random sample of rows with about ``MAX_ENTRIES`` of them; all of a smaller table."""
    if len(observations) <= MAX_ENTRIES:
        return observations
    order = generator(random_state).permutation(observations.shape[0])
    n_rows = int(np.searchsorted(np.cumsum(observations.counts[0][order]), MAX_ENTRIES)) + 1
    among = np.zeros(observations.shape[0], dtype=bool)
    among[order[:n_rows]] = True
    return observations.select(among[observations.rows])


def _trial(
    half_life: float | None, found: Array, without: Array, test: Observations
) -> HalfLifeTrial:
    share = test.weights_or_ones / test.weights_or_ones.sum()
    difference = without - found
    gain = float(share @ difference)
    error = standard_error(share * (difference - gain), test.rows)
    score = float(share @ found)
    # Of one row alone no error is known, and no gain is clear.
    return HalfLifeTrial(half_life, score, gain, abs(gain) if error is None else error)


def rank_losses(scores: object, train: Observations, test: Observations) -> NDArray[np.float64]:
    """Return, for each held-out entry, the share of the unseen columns of its row that are ranked above it.

    Ties count half. The sign of the scores is that of the label.
    """
    sign = float(test.labels[0])
    found = np.zeros(len(test))
    rows = np.unique(test.rows)
    n_columns = test.shape[1]
    step = max(1, BLOCK_CELLS // n_columns)
    starts = np.searchsorted(test.rows, np.append(rows, test.shape[0]))
    seen = [(part.rows, part.columns) for part in (train, test)]
    for first in range(0, rows.size, step):
        some = rows[first : first + step]
        block = sign * scores.block(some, slice(None))  # type: ignore[attr-defined]
        own = block.copy()
        for at, columns in seen:
            here = np.isin(at, some)
            block[np.searchsorted(some, at[here]), columns[here]] = np.nan
        for place, _ in enumerate(some):
            entries = slice(starts[first + place], starts[first + place + 1])
            x = own[place, test.columns[entries]]
            unseen = np.sort(block[place][~np.isnan(block[place])])
            below, up_to = (np.searchsorted(unseen, x, side) for side in ("left", "right"))
            found[entries] = 1.0 - (below + up_to) / 2.0 / max(unseen.size, 1)
    return found
