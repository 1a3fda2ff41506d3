"""Facts of a page by section: all that it shows, as plain values without markup.

A section is a template and a function that returns its facts, or None where the model or the data lack them. The facts
of recommendations are in :mod:`tribit.report.lists` and :mod:`tribit.report.reasons`.

A map has the first two principal components (Pearson 1901) of the columns, or of the rows. Columns are vectors of their
scores over the rows, without biases, as in :mod:`tribit.uncertainty.positions`. No other plane preserves more of the
squared distances between columns.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axis, Positions
from tribit.data.observations import Observations
from tribit.evaluation.held_out import Evaluation
from tribit.explain.neighbours import similar
from tribit.metrics.entries import interval, reliability, standard_error
from tribit.model.scores import Scores, probability_name
from tribit.nouns import Nouns
from tribit.plots import imputed_shares, simplex_view
from tribit.report.accuracy import accuracy_facts
from tribit.report.card import card_facts
from tribit.report.lists import trade_off_facts
from tribit.report.outliers import unusual_facts
from tribit.report.reasons import example_facts, lookup_facts
from tribit.report.trial import LEVEL, Trial
from tribit.report.wording import (
    baseline_name,
    describe_data,
    describe_limits,
    describe_lists,
    describe_quality,
    describe_search,
    hyperparameter_terms,
    measure_terms,
    name_of,
    named_measures,
    names_at,
)
from tribit.selection.record import Candidate, Search
from tribit.uncertainty.positions import principal_axes, signs

if TYPE_CHECKING:
    from tribit.recommender import Recommender

Facts: TypeAlias = dict[str, Any]
Counts: TypeAlias = NDArray[np.int64]
Array: TypeAlias = NDArray[np.floating[Any]]

#: Histograms have a bar for each number of entries up to this range, else bars of equal width if the longest row is at
#: most this many times as long as the shortest, else bars of doubling width.
MAX_SINGLE_BARS, N_EQUAL_BARS, MAX_EQUAL_RATIO = 16, 12, 8
#: Number of points of the popularity curves.
N_POPULARITY_POINTS = 41
#: Minimum number of entries in a bin of the reliability curve: the standard error of a share of 20 is about a tenth.
MIN_IN_BIN = 20
#: Maximum number of candidates in the charts; a search tries some tens.
MAX_CANDIDATES = 400
#: Maximum number of points of a map, those with the most entries: browsers draw 1,200 without delay.
MAX_POINTS = 1200
#: Maximum number of rows (and columns) that can be found by name, those with the most entries: with their neighbours
#: 10,000 take some 800 kB.
MAX_NAMES = 10_000
#: Number of names at each end of an axis of a map, and how many with the most entries they are chosen from.
N_AT_ENDS, MAX_AT_ENDS = 3, 100
#: Number of neighbours that a click lists.
N_NEIGHBOURS = 6


def page_facts(
    recommender: Recommender,
    trial: Trial,
    found: Evaluation,
    title: str | None,
    model_file: str | os.PathLike[str] | None = None,
    against: Facts | None = None,
) -> Facts:
    """Return the facts of all sections."""
    model, seen = recommender.model_, recommender.seen_
    words = Nouns.of(recommender.reading_)
    table = None if seen is None else table_facts(seen)
    search = None if model.search_ is None else search_facts(model.search_)
    opening = [
        describe_data(table, model.shape_, words),
        *describe_quality(found, words),
        describe_lists(found, words),
        describe_search(model.search_, model.spec_),
    ]
    accuracy = accuracy_facts(trial)
    # Of the same entries: those with unknown ids are in the evaluation alone.
    same = accuracy is not None and len(trial.held_out) == found.n_entries
    beside = accuracy["baselines"] if accuracy is not None and same else {}
    ranked = trial.ranker is not None
    limits = describe_limits(table, found, model, words, ranked=ranked)
    return {
        "card": card_facts(recommender, found, limits, model_file),
        "title": "Model report" if title is None else title,
        "model_file": "MODEL" if model_file is None else name_of(Path(model_file).name),
        "words": words.to_json(),
        "model": str(model.spec_),
        "event": probability_name(model.fitted_.meaning),
        "opening": [text for text in opening if text],
        "notes": trial.notes,
        "measures": measures_facts(found, words, beside),
        "list_measures": measures_facts(found, words, of_lists=True),
        "terms": {
            "measures": measure_terms(found, named_measures(found, words), words),
            "hyperparameters": hyperparameter_terms(model.spec_, words),
        },
        "beside": beside_facts(found, words),
        "kept": kept_facts(recommender.evaluation_, words),
        "data": table,
        "calibration": reliability_facts(trial),
        "accuracy": accuracy,
        "against": against,
        "tenths": () if found.unseen is None else found.unseen.tenths,
        "trade_off": trade_off_facts(trial),
        "search": search,
        "columns": map_facts(model.scores_, seen, "columns"),
        "rows": map_facts(model.scores_, seen, "rows"),
        "unusual": unusual_facts(trial, seen),
        "examples": example_facts(recommender),
        "lookup": lookup_facts(recommender),
        "limits": limits,
    }


def measures_facts(
    found: Evaluation,
    words: Nouns,
    beside: Mapping[str, Mapping[str, float]] | None = None,
    *,
    of_lists: bool = False,
) -> Facts:
    """Return measures of test entries or of lists: those of the model, with intervals, and those of the baselines.

    ``beside`` has further measures of baselines.
    """
    titles, baselines = named_measures(found, words), found.baselines
    names = [
        name
        for name, value in found.measures().items()
        if name.startswith("lists_") == of_lists
        and name != "accuracy"
        and value is not None
        and math.isfinite(value)
        and found.is_informative(name)
    ]
    theirs = {
        baseline_name(title, words): {**(beside or {}).get(title, {}), **baseline.measures}
        for title, baseline in baselines.items()
        if not baseline.measures.keys().isdisjoint(names)
    }
    rows = [
        {
            "title": titles[name],
            "value": found.measures()[name],
            "interval": found.intervals.get(name),
            "baselines": [each.get(name) for each in theirs.values()],
        }
        for name in names
    ]
    has_intervals = any(each["interval"] for each in rows)
    return {
        "level": found.level,
        "baselines": list(theirs),
        "rows": rows,
        "intervals": has_intervals,
    }


def kept_facts(found: Evaluation | None, words: Nouns) -> Facts | None:
    """Return the measures on the entries that the fit held out; None if it held out none."""
    if found is None:
        return None
    return {
        "texts": describe_quality(found, words),
        "measures": measures_facts(found, words),
        "list_measures": measures_facts(found, words, of_lists=True),
    }


def beside_facts(found: Evaluation, words: Nouns) -> Facts | None:
    """Return one measure of the model and of the baselines; None without baselines.

    The measure is the error rate, or the AUC among unseen cells where one label alone was observed.
    """
    name = "error_rate" if found.unseen is None else "unseen_auc"
    value = found.measures()[name]
    if not found.baselines or value is None or not math.isfinite(value):
        return None
    low, high = found.intervals.get(name, (None, None))
    bars = [{"name": "the model", "value": value, "low": low, "high": high}]
    bars += [
        {"name": baseline_name(title, words), "value": baseline.measures[name]}
        for title, baseline in reversed([*found.baselines.items()])
        if name in baseline.measures
    ]
    measure = named_measures(found, words)[name]
    return {"measure": measure, "lower_is_better": name == "error_rate", "bars": bars}


def table_facts(seen: Observations) -> Facts:
    """Return counts, histograms of the entries of rows and columns, and the concentration of entries."""
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
    """Return numbers of rows by their number of entries; bars double in width where numbers vary widely."""
    least, most = int(counts.min()), int(counts.max())
    if most - least < MAX_SINGLE_BARS:
        edges = np.arange(least, most + 2)
    elif most <= MAX_EQUAL_RATIO * least:
        width = -(-(most - least + 1) // N_EQUAL_BARS)
        edges = np.arange(least, most + width + 1, width)
    else:
        edges = np.append(0, 2 ** np.arange(most.bit_length() + 1))
    n, _ = np.histogram(counts, np.append(edges[:-1], edges[-1] - 0.5))
    labels = [
        str(low) if high - low == 1 else f"{low}\N{EN DASH}{high - 1}"
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    first = int(np.flatnonzero(n)[0])  # leading empty bars are dropped
    return {"labels": labels[first:], "counts": n[first:].tolist()}


def popularity(counts: Counts) -> dict[str, list[float]]:
    """Return the share of all entries in shares of the columns, most popular first."""
    total = np.append(0, np.cumsum(np.sort(counts)[::-1])) / max(int(counts.sum()), 1)
    shares = np.linspace(0.0, 1.0, N_POPULARITY_POINTS)
    return {
        "of": shares.tolist(),
        "entries": np.interp(shares * counts.size, np.arange(counts.size + 1), total).tolist(),
    }


def head_share(counts: Counts) -> float:
    """Return the share of all entries in the most popular tenth of the columns."""
    n = max(1, counts.size // 10)
    return float(np.sort(counts)[::-1][:n].sum() / max(int(counts.sum()), 1))


def reliability_facts(trial: Trial, *, bins: int = 10) -> Facts | None:
    """Return predicted and observed shares of likes in bins, with clustered intervals; None for one label alone."""
    rows, _, labels = trial.places
    if labels.min() == labels.max():
        return None
    bins = max(1, min(bins, labels.size // MIN_IN_BIN))
    likely = np.asarray(trial.probabilities, dtype=np.float64)
    curve = reliability(likely, labels, bins=bins)
    # Bins have increasing probabilities, so that each is a range of the sorted entries.
    order = np.argsort(likely, kind="stable")
    ends = np.cumsum(curve.counts)
    ranges = []
    for start, end, share in zip(ends - curve.counts, ends, curve.observed, strict=True):
        some = order[start:end]
        influence = ((labels[some] > 0) - share) / some.size
        error = standard_error(influence, rows[some])
        # With a standard error of 0, as where all are likes, a normal interval would be a point.
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
    """Return the candidates of a search; None if it tried none."""
    if search.best is None:
        return None
    candidates = search.candidates[-MAX_CANDIDATES:]
    mixtures = _candidates_on_simplex(candidates)
    shares = {id(each): imputed_shares(each, search.density) for each in mixtures}
    most = max((1.0 - signs for signs, _, _ in shares.values()), default=0.0)

    def candidate_facts(each: Candidate) -> Facts:
        return {
            "family": each.settings.family,
            "score": each.score,
            "settings": str(each.settings),
            "chosen": each is search.best,
            "shares": shares.get(id(each)),
        }

    best = sorted(search.families().values(), key=lambda each: each.score)
    return {
        "measure": search.measure.replace("_", "-"),
        "n_held_out": search.n_held_out,
        "n_candidates": len(search.candidates),
        "chosen": str(search.best.settings),
        "families": [candidate_facts(each) for each in best],
        "candidates": [candidate_facts(each) for each in candidates],
        "view": simplex_view(most) if mixtures else None,
        "stack": None if search.stack is None else str(search.stack),
    }


def _candidates_on_simplex(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the mixtures and the best other candidate; none where all candidates have the same weights."""
    if len({each.settings.gammas for each in candidates}) < 2:
        return []
    mixed = [each for each in candidates if each.settings.uses_unobserved]
    unmixed = [each for each in candidates if not each.settings.uses_unobserved]
    return [*mixed, *([min(unmixed, key=lambda each: each.score)] if unmixed else [])]


def _ends(axis: Axis, along: NDArray[np.float64], order: Positions) -> dict[str, list[str]]:
    """Return the names at both ends of an axis of a map, of those with the most entries."""
    known = order[:MAX_AT_ENDS]
    known = known[np.argsort(along[known], kind="stable")]
    n = min(N_AT_ENDS, known.size // 2)
    return {"low": names_at(axis, known[:n]), "high": names_at(axis, known[::-1][:n])}


def map_facts(scores: Scores, seen: Observations | None, side: str) -> Facts | None:
    """Return the points of a map of rows or columns; None where scores differ by biases alone.

    Parameters
    ----------
    scores : Scores
        Scores of a fitted model.
    seen : Observations or None
        Training entries, for numbers of entries and shares of likes.
    side : {"rows", "columns"}
        Side of the table that the points stand for.
    """
    factors, axis = scores.factors.astype("float64"), scores.axes.columns
    if side == "rows":
        factors, axis = factors.transposed, scores.axes.rows
    if axis.size < 3:
        return None
    _, vectors, values = principal_axes(factors)
    if not values.size:
        return None
    points = np.zeros((axis.size, 2))
    n = min(2, values.size)
    points[:, :n] = vectors[:, :n] * signs(vectors[:, :n], axis) * values[:n]
    points /= np.max(np.abs(points))
    counts = likes = np.zeros(axis.size, dtype=np.int64)
    if seen is not None:
        places = seen.rows if side == "rows" else seen.columns
        counts = np.bincount(places, minlength=axis.size)
        likes = np.bincount(places[seen.labels > 0], minlength=axis.size)
    order = np.argsort(-counts, kind="stable")[:MAX_NAMES]
    searched = np.concatenate([np.sort(order[:MAX_POINTS]), np.sort(order[MAX_POINTS:])])
    near = similar(scores, n=N_NEIGHBOURS, seen=seen, **{side: axis.names(searched)})
    # Neighbours of those that are found may be none of them.
    listed = np.concatenate([searched, np.setdiff1d(near.positions, searched)])
    number = np.full(axis.size, -1, dtype=np.int64)
    number[listed] = np.arange(listed.size)
    both = seen is not None and seen.n_likes and seen.n_dislikes
    shares = (values[:n] ** 2 / np.sum(values**2)).tolist()
    return {
        "side": side,
        "kept": sum(shares),
        "axes": [
            {"share": share, **_ends(axis, points[:, k], order)} for k, share in enumerate(shares)
        ],
        "of": axis.size,
        "drawn": min(axis.size, MAX_POINTS),
        "searched": searched.size,
        "names": names_at(axis, listed),
        "x": np.round(points[listed, 0], 3),
        "y": np.round(points[listed, 1], 3),
        "counts": None if seen is None else counts[listed],
        "shares": np.round(likes[listed] / np.maximum(counts[listed], 1), 2) if both else None,
        "near": number[near.positions],
        "similarities": np.round(near.similarities, 2),
    }
