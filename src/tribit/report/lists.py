"""Trade-off of a report between likes found and dislikes shown by its lists."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.data.axis import Positions
from tribit.evaluation.ranking import by_popularity, ranking_report
from tribit.ranking.lists import recommend
from tribit.ranking.scores import Ranker
from tribit.report.wording import names_at

if TYPE_CHECKING:
    from tribit.report.trial import Trial

#: Weights ``avoid_dislikes`` of the slider: 1 is the default, and beyond 8 lists hardly change.
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
#: Length of the lists.
N = 10
#: Maximum number of rows with lists, evenly spaced among those with a test like. The mean number of likes found in
#: 1,000 lists has a standard error of some 4%.
MAX_ROWS = 1000
#: Number of rows whose lists follow the slider.
N_SHOWN_ROWS = 3
#: Maximum number of cells whose rates of likes and dislikes are cached between weights: 134 MB.
MAX_CACHED_CELLS = 2**23


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
