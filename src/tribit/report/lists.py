"""Recommendations of a report: the trade-off between likes found and dislikes shown, and explained examples."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.data.axis import Positions
from tribit.errors import InvalidInputError, TribitWarning
from tribit.evaluation.ranking import by_popularity, ranking_report
from tribit.ranking.lists import recommend
from tribit.ranking.scores import Ranker
from tribit.report.wording import name_of, names_at

if TYPE_CHECKING:
    from tribit.recommender import Recommender
    from tribit.report.trial import Trial

#: Weights ``avoid_dislikes`` of the slider: 1 is the default, and beyond 8 lists hardly change.
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
#: Length of the lists, and of the lists of the examples.
N, N_EXAMPLE = 10, 5
#: Maximum number of rows with lists, evenly spaced among those with a test like. The mean number of likes found in
#: 1,000 lists has a standard error of some 4%.
MAX_ROWS = 1000
#: Number of rows whose lists follow the slider.
N_SHOWN_ROWS = 3
#: Maximum number of cells whose rates of likes and dislikes are cached between weights: 134 MB.
MAX_CACHED_CELLS = 2**23
#: Number of columns of an example with an explanation.
N_EXPLAINED = 3
#: Quantiles of the number of entries at which rows are examples.
EXAMPLE_QUANTILES = (0.25, 0.5, 0.9)
#: Maximum number of entries of an explanation that raise and that lower the probability, and the minimum change: the
#: page would show a smaller one as 0.
MAX_RAISING, MAX_LOWERING, MIN_CHANGE = 2, 1, 0.0005
#: Maximum number of entries of a row with explanations: 3,000 take a second, and time is quadratic.
MAX_EXPLAINED_ENTRIES = 3000


def trade_off_facts(trial: Trial) -> dict[str, Any] | None:
    """Return measures and lists for each weight; None without a ranker, a test like or a dislike.

    Without a ranker the order of a list does not depend on the weight.
    """
    rows, _, labels = trial.places
    if trial.ranker is None or trial.train is None or not trial.train.n_dislikes:
        return None
    if not (labels > 0).any():
        return None
    users = np.unique(rows[labels > 0])
    if users.size > MAX_ROWS:
        users = users[np.linspace(0, users.size - 1, MAX_ROWS).astype(int)]
    held_out = trial.held_out.take(np.flatnonzero(np.isin(rows, users)))
    shown_rows = _rows_to_show(trial, users)
    ranker = trial.ranker
    if users.size * trial.scores.shape[1] <= MAX_CACHED_CELLS:
        ranker = CachedRates(ranker)
    reports, lists = [], []
    for weight in WEIGHTS:
        options: dict[str, Any] = {"avoid_dislikes": weight, "ranker": ranker}
        reports.append(asdict(ranking_report(trial.scores, trial.train, held_out, N, **options)))
        lists.append(_labelled_lists(trial, shown_rows, options))
    return {
        "weights": list(WEIGHTS),
        "n": N,
        "rows": names_at(trial.scores.axes.rows, shown_rows),
        "reports": reports,
        "popularity": asdict(ranking_report(by_popularity(trial.train), trial.train, held_out, N)),
        "lists": lists,
    }


class CachedRates:
    """A ranker that caches its rates by block of rows: they do not depend on the weight."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker
        self.shape_ = ranker.shape_
        self.row_ids_, self.column_ids_ = ranker.row_ids_, ranker.column_ids_
        self._cache: dict[bytes, tuple[Any, Any]] = {}

    def log_rates(self, rows: Positions) -> tuple[Any, Any]:
        """Return the log-rates of the ranker."""
        key = rows.tobytes()
        if key not in self._cache:
            self._cache[key] = self.ranker.log_rates(rows)
        return self._cache[key]


def _rows_to_show(trial: Trial, users: Positions) -> Positions:
    """Return the rows with most test entries; rows with both test labels come first."""
    rows, _, labels = trial.places
    likes, dislikes = (
        np.bincount(rows[labels * sign > 0], minlength=trial.scores.shape[0])[users]
        for sign in (1, -1)
    )
    order = np.lexsort((users, -(likes + dislikes), -np.minimum(np.minimum(likes, dislikes), 1)))
    return users[order[:N_SHOWN_ROWS]]


def _labelled_lists(
    trial: Trial, shown_rows: Positions, options: dict[str, Any]
) -> list[list[list[Any]]]:
    """Return the lists of rows: column, probability and test label (0 for none) at each place."""
    axes = trial.scores.axes
    found = recommend(
        trial.scores, axes.rows.names(shown_rows), N, exclude_seen=trial.train, **options
    )
    truth = trial.held_out.to_sparse()
    lists = []
    for row, kept in zip(shown_rows, found.positions, strict=True):
        places = np.full(kept.size, row), kept
        probabilities = trial.scores.probability(trial.scores.x(*places)).tolist()
        each = zip(names_at(axes.columns, kept), probabilities, truth[places].tolist(), strict=True)
        lists.append([list(column) for column in each])
    return lists


def example_facts(recommender: Recommender) -> list[dict[str, Any]]:
    """Return lists of a few rows with explanations; none if the model keeps no entries."""
    seen = recommender.seen_
    if seen is None:
        return []
    axes = recommender.model_.axes_
    counts = seen.counts[0]
    places = _example_rows(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TribitWarning)  # nobody asked for these rows
        lists = recommender.recommend(axes.rows.names(places), N_EXAMPLE)
    none = np.full(lists.positions.values.size, np.nan)
    ends = (
        [none, none] if lists.intervals is None else [lists.intervals.lower, lists.intervals.upper]
    )
    lower, upper = map(lists.positions.with_values, ends)
    found = []
    for i, (row, name) in enumerate(zip(places, names_at(axes.rows, places), strict=True)):
        kept = lists.positions[i]
        explained = N_EXPLAINED if counts[row] <= MAX_EXPLAINED_ENTRIES else 0
        columns = [
            {
                "name": title,
                "probability": float(lists.probabilities[i, k]),  # type: ignore[index]
                "lower": float(lower[i, k]),
                "upper": float(upper[i, k]),
                "reasons": _explain_entries(recommender, row, column) if k < explained else None,
            }
            for k, (column, title) in enumerate(
                zip(kept, names_at(axes.columns, kept), strict=True)
            )
        ]
        likes = int(np.count_nonzero(seen.labels[seen.rows == row] > 0))
        dislikes = int(counts[row]) - likes
        found.append({"row": name, "likes": likes, "dislikes": dislikes, "columns": columns})
    return found


def _example_rows(counts: Positions) -> Positions:
    """Return distinct rows with an entry at the quantiles of the number of entries."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    places = [int(share * (order.size - 1)) for share in EXAMPLE_QUANTILES]
    return order[sorted(set(places))]


def _explain_entries(
    recommender: Recommender, row: int, column: int
) -> list[dict[str, Any]] | None:
    """Return the entries with the largest effects on a probability; None if the model cannot explain it."""
    axes = recommender.model_.axes_
    ids = (axis.names(np.array([at]))[0] for axis, at in zip(axes, (row, column), strict=True))
    try:
        entries = recommender.explain(*ids).entries
    except InvalidInputError:
        return None  # such as a mixture with imputed probabilities
    strong = [each for each in entries if abs(each.probability_change) >= MIN_CHANGE]
    kept = [each for each in strong if each.contribution > 0][:MAX_RAISING]
    kept += [each for each in strong if each.contribution < 0][:MAX_LOWERING]
    without_ids = axes.columns.ids is None
    return [
        {
            "name": f"column {each.column}" if without_ids else name_of(each.column),
            "label": each.label,
            "contribution": each.contribution,
            "change": each.probability_change,
        }
        for each in kept
    ]
