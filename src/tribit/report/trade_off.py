"""Likes found against dislikes shown, over the weight ``avoid_dislikes`` of the lists."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from tribit.data.axis import Positions
from tribit.evaluation.ranking import ranking_report
from tribit.ranking.lists import recommend
from tribit.ranking.scores import Ranker
from tribit.report.names import names_at
from tribit.report.trial import Trial

#: Weights of the slider: the default 1 among them, and up to where lists change little any more.
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
#: Length of the lists.
N = 10
#: Most rows whose lists are made, evenly spaced among those with a held-out like: lists are made once for each weight,
#: and of 1,000 the mean number of likes found is known to some 4%.
MOST_ROWS = 1000
#: Rows whose lists the page shows.
EXAMPLES = 3
#: Most rates that are remembered from one weight to the next, of likes and of dislikes: 134 MB.
MOST_REMEMBERED = 2**23


def trade_off(trial: Trial) -> dict[str, Any] | None:
    """Return the measures and some lists for each weight; None without a ranker, a like to find or a dislike to avoid.

    Without a ranker the order of a list does not depend on the weight.
    """
    rows, _, labels = trial.places
    if trial.ranker is None or trial.train is None or not (labels > 0).any():
        return None
    if not trial.train.n_dislikes:
        return None
    users = np.unique(rows[labels > 0])
    if users.size > MOST_ROWS:
        users = users[np.linspace(0, users.size - 1, MOST_ROWS).astype(int)]
    held_out = trial.held_out.take(np.flatnonzero(np.isin(rows, users)))
    examples = _examples(trial, users)
    ranker = trial.ranker
    if users.size * trial.scores.shape[1] <= MOST_REMEMBERED:
        ranker = RememberedRates(ranker)
    reports, lists = [], []
    for weight in WEIGHTS:
        options: dict[str, Any] = {"avoid_dislikes": weight, "ranker": ranker}
        reports.append(asdict(ranking_report(trial.scores, trial.train, held_out, N, **options)))
        lists.append(_lists(trial, examples, options))
    return {
        "weights": list(WEIGHTS),
        "n": N,
        "rows": names_at(trial.scores.axes.rows, examples),
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


def _examples(trial: Trial, users: Positions) -> Positions:
    """Return the rows with most held-out entries, those with a like and a dislike among them first."""
    rows, _, labels = trial.places
    likes, dislikes = (
        np.bincount(rows[labels * sign > 0], minlength=trial.scores.shape[0])[users]
        for sign in (1, -1)
    )
    order = np.lexsort((users, -(likes + dislikes), -np.minimum(np.minimum(likes, dislikes), 1)))
    return users[order[:EXAMPLES]]


def _lists(trial: Trial, examples: Positions, options: dict[str, Any]) -> list[list[list[Any]]]:
    """Return, for each row, the columns of its list, each with its probability and its held-out label, 0 for none."""
    axes = trial.scores.axes
    found = recommend(
        trial.scores, axes.rows.names(examples), N, exclude_seen=trial.train, **options
    )
    truth = trial.held_out.to_sparse()
    lists = []
    for row, positions in zip(examples, found.positions, strict=True):
        kept = positions[positions >= 0]
        places = np.full(kept.size, row), kept
        probabilities = trial.scores.probability(trial.scores.x(*places)).tolist()
        each = zip(names_at(axes.columns, kept), probabilities, truth[places].tolist(), strict=True)
        lists.append([list(column) for column in each])
    return lists
