"""Recommendations of a report: likes found against dislikes shown over ``avoid_dislikes``, and explained examples."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.data.axis import Positions
from tribit.errors import InvalidInputError
from tribit.evaluation.ranking import ranking_report
from tribit.ranking.lists import recommend
from tribit.ranking.scores import Ranker
from tribit.report.trial import Trial
from tribit.report.wording import names_at, shown

if TYPE_CHECKING:
    from tribit.recommender import Recommender

#: Weights of the slider: the default 1 among them, and up to where lists change little any more.
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
#: Length of the lists, and of those of the examples.
N, N_EXAMPLE = 10, 5
#: Most rows whose lists are made, evenly spaced among those with a test like: lists are made once for each weight,
#: and of 1,000 the mean number of likes found is known to some 4%.
MOST_ROWS = 1000
#: Rows whose lists follow the slider.
SHOWN_ROWS = 3
#: Most rates that are remembered from one weight to the next, of likes and of dislikes: 134 MB.
MOST_REMEMBERED = 2**23
#: Columns of an example that are given reasons.
EXPLAINED = 3
#: Examples are the rows at these quantiles of the number of entries.
QUANTILES = (0.25, 0.5, 0.9)
#: Most entries that raise a probability, and that lower it; and the least change for which one is named: below, the
#: page would show 0.
MOST_FOR, MOST_AGAINST, MIN_CHANGE = 2, 1, 0.0005
#: Most entries of a row that is explained: one of 3,000 takes a second of one core, and the time grows with the square.
MOST_ENTRIES = 3000


def trade_off(trial: Trial) -> dict[str, Any] | None:
    """Return the measures and some lists for each weight; None without a ranker, a like to find or a dislike to avoid.

    Without a ranker the order of a list does not depend on the weight.
    """
    rows, _, labels = trial.places
    if trial.ranker is None or trial.train is None or not trial.train.n_dislikes:
        return None
    if not (labels > 0).any():
        return None
    users = np.unique(rows[labels > 0])
    if users.size > MOST_ROWS:
        users = users[np.linspace(0, users.size - 1, MOST_ROWS).astype(int)]
    held_out = trial.held_out.take(np.flatnonzero(np.isin(rows, users)))
    shown_rows = _shown_rows(trial, users)
    ranker = trial.ranker
    if users.size * trial.scores.shape[1] <= MOST_REMEMBERED:
        ranker = RememberedRates(ranker)
    reports, lists = [], []
    for weight in WEIGHTS:
        options: dict[str, Any] = {"avoid_dislikes": weight, "ranker": ranker}
        reports.append(asdict(ranking_report(trial.scores, trial.train, held_out, N, **options)))
        lists.append(_lists(trial, shown_rows, options))
    return {
        "weights": list(WEIGHTS),
        "n": N,
        "rows": names_at(trial.scores.axes.rows, shown_rows),
        "reports": reports,
        "lists": lists,
    }


class RememberedRates:
    """A ranker whose rates, which do not depend on the weight, are computed once for each block of rows."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker
        self.shape_ = ranker.shape_
        self.row_ids_, self.column_ids_ = ranker.row_ids_, ranker.column_ids_
        self._known: dict[bytes, tuple[Any, Any]] = {}

    def log_rates(self, rows: Positions) -> tuple[Any, Any]:
        """Return those of the ranker."""
        key = rows.tobytes()
        if key not in self._known:
            self._known[key] = self.ranker.log_rates(rows)
        return self._known[key]


def _shown_rows(trial: Trial, users: Positions) -> Positions:
    """Return the rows with most test entries, those with a like and a dislike among them first."""
    rows, _, labels = trial.places
    likes, dislikes = (
        np.bincount(rows[labels * sign > 0], minlength=trial.scores.shape[0])[users]
        for sign in (1, -1)
    )
    order = np.lexsort((users, -(likes + dislikes), -np.minimum(np.minimum(likes, dislikes), 1)))
    return users[order[:SHOWN_ROWS]]


def _lists(trial: Trial, shown_rows: Positions, options: dict[str, Any]) -> list[list[list[Any]]]:
    """Return, for each row, the columns of its list, each with its probability and its test label, 0 for none."""
    axes = trial.scores.axes
    found = recommend(
        trial.scores, axes.rows.names(shown_rows), N, exclude_seen=trial.train, **options
    )
    truth = trial.held_out.to_sparse()
    lists = []
    for row, positions in zip(shown_rows, found.positions, strict=True):
        kept = positions[positions >= 0]
        places = np.full(kept.size, row), kept
        probabilities = trial.scores.probability(trial.scores.x(*places)).tolist()
        each = zip(names_at(axes.columns, kept), probabilities, truth[places].tolist(), strict=True)
        lists.append([list(column) for column in each])
    return lists


def example_facts(recommender: Recommender) -> list[dict[str, Any]]:
    """Return the lists of a few rows, with reasons where the model can give them; none without entries."""
    seen = recommender.seen_
    if seen is None:
        return []
    axes = recommender.model_.axes_
    counts = seen.counts[0]
    places = _example_rows(counts)
    lists = recommender.recommend(axes.rows.names(places), N_EXAMPLE)
    lower, upper = (np.full(lists.positions.shape, np.nan) for _ in range(2))
    if (ends := lists.intervals) is not None:
        lower[lists.is_listed], upper[lists.is_listed] = ends.lower, ends.upper
    found = []
    for i, (row, name) in enumerate(zip(places, names_at(axes.rows, places), strict=True)):
        kept = lists.positions[i][lists.is_listed[i]]
        explained = EXPLAINED if counts[row] <= MOST_ENTRIES else 0
        columns = [
            {
                "name": title,
                "probability": float(lists.probabilities[i, k]),  # type: ignore[index]
                "lower": float(lower[i, k]),
                "upper": float(upper[i, k]),
                "reasons": _reasons(recommender, row, column) if k < explained else None,
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
    """Return distinct rows of few, of some and of many entries, from those that have any and lack some."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    places = [int(share * (order.size - 1)) for share in QUANTILES]
    return order[sorted(set(places))]


def _reasons(recommender: Recommender, row: int, column: int) -> list[dict[str, Any]] | None:
    """Return the entries that raise a probability most, and that lower it; None where the model cannot explain it."""
    axes = recommender.model_.axes_
    ids = (axis.names(np.array([at]))[0] for axis, at in zip(axes, (row, column), strict=True))
    try:
        entries = recommender.explain(*ids).entries
    except InvalidInputError:
        return None  # such as a mixture with imputed probabilities
    strong = [each for each in entries if abs(each.probability_change) >= MIN_CHANGE]
    kept = [each for each in strong if each.contribution > 0][:MOST_FOR]
    kept += [each for each in strong if each.contribution < 0][:MOST_AGAINST]
    without_ids = axes.columns.ids is None
    return [
        {
            "name": f"column {each.column}" if without_ids else shown(each.column),
            "label": each.label,
            "contribution": each.contribution,
            "change": each.probability_change,
        }
        for each in kept
    ]
