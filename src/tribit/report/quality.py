"""Quality of the model of a report: measures with intervals, baselines beside them, and the reliability curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from tribit.evaluation import Evaluation, evaluate
from tribit.metrics.clustered import interval, standard_error
from tribit.metrics.reliability import reliability
from tribit.report.sentences import EFFECTS
from tribit.report.trial import Trial
from tribit.report.wording import Wording

#: Level of the intervals of a report.
LEVEL = 0.95
#: Least entries in a bin of the reliability curve: a share of 20 is known to about a tenth.
LEAST_IN_BIN = 20


def evaluation_of(trial: Trial) -> Evaluation:
    """Return the measures of the held-out entries."""
    return evaluate(trial.scores, trial.held_out, trial.train, ranker=trial.ranker, level=LEVEL)


def beside_facts(found: Evaluation, words: Wording) -> dict[str, Any] | None:
    """Return the model beside the baselines by one measure; None without baselines.

    It is the sign error, or the AUC among unseen cells where one label alone was observed.
    """
    name = "sign_error" if found.unseen is None else "unseen_auc"
    value = found.measures()[name]
    if not found.baselines or value is None or not np.isfinite(value):
        return None
    low, high = found.intervals.get(name, (None, None))
    bars = [{"name": "the model", "value": value, "low": low, "high": high}]
    for title, baseline in reversed(list(found.baselines.items())):
        shown = words.effects if title == EFFECTS else title
        bars.append({"name": shown, "value": baseline.measures[name]})
    return {"measure": found.titles()[name], "less_is_better": name == "sign_error", "bars": bars}


def reliability_facts(trial: Trial, *, bins: int = 10) -> dict[str, Any] | None:
    """Return predicted and observed shares of likes in bins, with intervals over rows; None for one label alone."""
    rows, _, labels = trial.places
    if labels.min() == labels.max():
        return None
    bins = max(1, min(bins, labels.size // LEAST_IN_BIN))
    likely = np.asarray(trial.probabilities, dtype=np.float64)
    curve = reliability(likely, labels, bins=bins)
    # Bins are of rising probability: in the order of the probabilities they follow one another.
    order = np.argsort(likely, kind="stable")
    ends = np.cumsum(curve.counts)
    ranges = []
    for start, end, share in zip(ends - curve.counts, ends, curve.observed, strict=True):
        some = order[start:end]
        influence = ((labels[some] > 0) - share) / some.size
        error = standard_error(influence, rows[some])
        # Without an error, as where all are likes, a normal interval would be a point.
        ranges.append(interval(float(share), error, LEVEL, 1.0) if error else (None, None))
    return {
        "predicted": curve.predicted.tolist(),
        "observed": curve.observed.tolist(),
        "counts": curve.counts.tolist(),
        "low": [low for low, _ in ranges],
        "high": [high for _, high in ranges],
        "error": curve.error,
    }
