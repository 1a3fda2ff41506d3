"""The facts of a page, by section: everything that it shows, as plain values, before any markup.

A section is a function that returns its facts, None where the model or the data do not have them, and a template. Those
of recommendations are in :mod:`tribit.report.lists`, those of maps in :mod:`tribit.report.maps`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axis, Positions
from tribit.data.observations import Observations
from tribit.evaluation import Evaluation
from tribit.metrics.entries import interval, losses, reliability, standard_error
from tribit.plots import imputed_shares, simplex_view
from tribit.report import sentences
from tribit.report.lists import example_facts, trade_off
from tribit.report.maps import map_facts
from tribit.report.trial import LEVEL, Trial
from tribit.report.wording import Wording, a, names_at
from tribit.selection.record import Candidate, Search

if TYPE_CHECKING:
    from tribit.recommender import Recommender

Facts: TypeAlias = dict[str, Any]
Counts: TypeAlias = NDArray[np.int64]

#: Most different numbers of entries for which each has a bar of its own; and the number of bars of equal width where
#: the longest row is at most so many times as long as the shortest. Beyond, widths double.
SINGLE_BARS, EQUAL_BARS, SAME_SCALE = 16, 12, 8
#: Points of the popularity curves.
POINTS = 41
#: Least entries in a bin of the reliability curve: a share of 20 is known to about a tenth.
MIN_IN_BIN = 20
#: Most candidates that are drawn; a search tries some tens.
MOST_CANDIDATES = 400
#: Rows (and columns) in each table of outliers; entries with which a mean is shrunk towards that of all, so that a row
#: of so many counts half; and the least entries of a row that is listed.
MOST_OUTLIERS, PRIOR, MIN_ENTRIES = 5, 5.0, 3


def page_facts(
    recommender: Recommender, trial: Trial, found: Evaluation, title: str | None
) -> Facts:
    """Return the facts of every section."""
    model, seen = recommender.model_, recommender.seen_
    words = Wording.of(recommender.reading_)
    table = None if seen is None else table_facts(seen)
    search = None if model.search_ is None else search_facts(model.search_)
    opening = [
        sentences.of_data(table, model.shape_, words),
        *sentences.of_quality(found, words),
        sentences.of_lists(found, words),
        sentences.of_search(search, model.spec_),
    ]
    ranked = trial.ranker is not None
    return {
        "title": "Model report" if title is None else title,
        "words": words.to_json(),
        "model": str(model.spec_),
        "opening": [text for text in opening if text],
        "notes": trial.notes,
        "measures": measures_facts(found, words),
        "beside": beside_facts(found, words),
        "data": table,
        "calibration": reliability_facts(trial),
        "trade_off": trade_off(trial),
        "search": search,
        "columns": map_facts(model.scores_, seen, "columns"),
        "rows": map_facts(model.scores_, seen, "rows"),
        "unusual": unusual_facts(trial, seen),
        "examples": example_facts(recommender),
        "limits": sentences.limits(table, found, model, words, ranked=ranked),
    }


def measures_facts(found: Evaluation, words: Wording) -> Facts:
    """Return each measure with its interval, and the same of the baselines."""
    titles = _titles(found, words)
    rows = [
        {
            "title": titles[name],
            "value": value,
            "interval": found.intervals.get(name),
            "baselines": [each.measures.get(name) for each in found.baselines.values()],
        }
        for name, value in found.measures().items()
        if name != "accuracy"
        and value is not None
        and math.isfinite(value)
        and found.is_informative(name)
    ]
    names = [sentences.baseline_name(name, words) for name in found.baselines]
    has_intervals = any(each["interval"] for each in rows)
    return {"level": found.level, "baselines": names, "rows": rows, "intervals": has_intervals}


def beside_facts(found: Evaluation, words: Wording) -> Facts | None:
    """Return the model beside the baselines by one measure; None without baselines.

    It is the error rate, or the AUC among unseen cells where one label alone was observed.
    """
    name = "sign_error" if found.unseen is None else "unseen_auc"
    value = found.measures()[name]
    if not found.baselines or value is None or not math.isfinite(value):
        return None
    low, high = found.intervals.get(name, (None, None))
    bars = [{"name": "the model", "value": value, "low": low, "high": high}]
    bars += [
        {"name": sentences.baseline_name(title, words), "value": baseline.measures[name]}
        for title, baseline in reversed([*found.baselines.items()])
    ]
    measure = _titles(found, words)[name]
    return {"measure": measure, "less_is_better": name == "sign_error", "bars": bars}


def _titles(found: Evaluation, words: Wording) -> dict[str, str]:
    titles = found.titles() | {"sign_error": "error rate"}
    return {name: title.replace("a row's", f"{a(words.row)}'s") for name, title in titles.items()}


def table_facts(seen: Observations) -> Facts:
    """Return counts, histograms of entries a row and a column, and how unevenly entries are spread."""
    counts = dict(zip(("row", "column"), seen.counts, strict=True))
    return {
        "rows": seen.shape[0],
        "columns": seen.shape[1],
        "likes": seen.n_likes,
        "dislikes": seen.n_dislikes,
        "density": seen.density,
        "median": {side: float(np.median(each)) for side, each in counts.items()},
        "empty": {side: int(np.count_nonzero(each == 0)) for side, each in counts.items()},
        "histograms": {side: histogram(each) for side, each in counts.items()},
        "popularity": {side: popularity(each) for side, each in counts.items()},
        "head": {side: head_share(each) for side, each in counts.items()},
    }


def histogram(counts: Counts) -> dict[str, list[Any]]:
    """Return how many rows have 0, 1, 2 to 3, 4 to 7, ... entries; without doubling where lengths are similar."""
    least, most = int(counts.min()), int(counts.max())
    if most - least < SINGLE_BARS:
        edges = np.arange(least, most + 2)
    elif most <= SAME_SCALE * least:
        width = -(-(most - least + 1) // EQUAL_BARS)
        edges = np.arange(least, most + width + 1, width)
    else:
        edges = np.append(0, 2 ** np.arange(most.bit_length() + 1))
    n, _ = np.histogram(counts, np.append(edges[:-1], edges[-1] - 0.5))
    labels = [
        str(low) if high - low == 1 else f"{low}\N{EN DASH}{high - 1}"
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    first = int(np.flatnonzero(n)[0])  # empty bars before it are left out
    return {"labels": labels[first:], "counts": n[first:].tolist()}


def popularity(counts: Counts) -> dict[str, list[float]]:
    """Return, for shares of the columns, those with the most entries first, their share of all entries."""
    total = np.append(0, np.cumsum(np.sort(counts)[::-1])) / max(int(counts.sum()), 1)
    shares = np.linspace(0.0, 1.0, POINTS)
    return {
        "of": shares.tolist(),
        "entries": np.interp(shares * counts.size, np.arange(counts.size + 1), total).tolist(),
    }


def head_share(counts: Counts) -> float:
    """Return the share of the entries that the tenth of the columns with the most have."""
    n = max(1, counts.size // 10)
    return float(np.sort(counts)[::-1][:n].sum() / max(int(counts.sum()), 1))


def reliability_facts(trial: Trial, *, bins: int = 10) -> Facts | None:
    """Return predicted and observed shares of likes in bins, with intervals over rows; None for one label alone."""
    rows, _, labels = trial.places
    if labels.min() == labels.max():
        return None
    bins = max(1, min(bins, labels.size // MIN_IN_BIN))
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


def search_facts(search: Search) -> Facts | None:
    """Return the candidates as the charts need them; None where nothing was searched."""
    if search.best is None:
        return None
    candidates = search.candidates[-MOST_CANDIDATES:]
    drawn = _on_the_simplex(candidates)
    shares = {id(each): imputed_shares(each, search.density) for each in drawn}
    most = max((1.0 - signs for signs, _, _ in shares.values()), default=0.0)

    def described(each: Candidate) -> Facts:
        return {
            "family": each.settings.family,
            "score": each.score,
            "settings": str(each.settings),
            "chosen": each is search.best,
            "shares": shares.get(id(each)),
        }

    best = sorted(search.families().values(), key=lambda each: each.score)
    average = search.average
    if average is not None:  # without seconds, so that a page has the same bytes on any machine
        members = tuple(replace(each, seconds=None) for each in average.members)
        average = replace(average, members=members)
    return {
        "measure": search.measure.replace("_", "-"),
        "n_held_out": search.n_held_out,
        "n_candidates": len(search.candidates),
        "chosen": str(search.best.settings),
        "families": [described(each) for each in best],
        "candidates": [described(each) for each in candidates],
        # The part of the simplex, from its corner of observed signs, that holds every mixture.
        "view": simplex_view(most) if drawn else None,
        "average": None if average is None else str(average),
    }


def _on_the_simplex(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the mixtures, and the best without any; none where all candidates have the same weights."""
    if len({each.settings.gammas for each in candidates}) < 2:
        return []
    mixed = [each for each in candidates if each.settings.uses_unobserved]
    unmixed = [each for each in candidates if not each.settings.uses_unobserved]
    return [*mixed, *([min(unmixed, key=lambda each: each.score)] if unmixed else [])]


def unusual_facts(trial: Trial, seen: Observations | None) -> Facts:
    """Return, for rows and columns, those with the highest log-loss and the most one-sided ones."""
    rows, columns, labels = trial.places
    found: Facts = {"worst": {}, "one_sided": {}}
    loss = losses(trial.scores.curve, trial.x, labels)
    sides = zip(("rows", "columns"), trial.scores.axes, (rows, columns), strict=True)
    for side, axis, places in sides:
        if axis.size < 2:
            continue
        if labels.min() != labels.max():
            found["worst"][side] = worst(axis, places, loss)
        if seen is not None and seen.n_likes and seen.n_dislikes:
            theirs = seen.rows if side == "rows" else seen.columns
            found["one_sided"][side] = one_sided(axis, theirs, seen.labels)
    return found


def worst(axis: Axis, places: Positions, loss: NDArray[Any]) -> list[Facts]:
    """Return the rows whose mean loss, shrunk towards that of all, is furthest above it."""
    outliers = _outliers(axis, places, np.asarray(loss, dtype=np.float64), np.positive)
    return [{"name": name, "n": n, "loss": total / n} for name, n, total in outliers]


def one_sided(axis: Axis, places: Positions, labels: NDArray[np.int8]) -> list[Facts]:
    """Return the rows whose share of likes, shrunk towards that of all, is furthest from it."""
    outliers = _outliers(axis, places, (labels > 0).astype(np.float64), np.abs)
    return [{"name": name, "n": n, "likes": int(total)} for name, n, total in outliers]


def _outliers(
    axis: Axis, places: Positions, values: NDArray[np.float64], size: np.ufunc
) -> Iterator[tuple[str, int, float]]:
    """Yield name, number of entries and sum of values of the rows whose shrunk means differ most from that of all."""
    counts = np.bincount(places, minlength=axis.size)
    sums = np.bincount(places, values, minlength=axis.size)
    excess = size(sums - float(np.mean(values)) * counts) / (counts + PRIOR)
    excess = np.where(counts >= MIN_ENTRIES, excess, 0.0)
    order = np.argsort(-excess, kind="stable")[:MOST_OUTLIERS]
    order = order[excess[order] > 0]
    yield from zip(names_at(axis, order), counts[order].tolist(), sums[order].tolist(), strict=True)
