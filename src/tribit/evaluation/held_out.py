"""Measures of a model on entries that it was not fitted on, their errors, and baselines beside them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from tribit.checks import check_between, check_count
from tribit.data.axis import Axes, Positions
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.evaluation.baselines import effects_model, majority
from tribit.evaluation.ranking import RankingReport, ranking_report
from tribit.evaluation.results import Baseline, Evaluation, among_unseen
from tribit.metrics.entries import (
    INFLUENCES,
    METRICS,
    Curve,
    calibration_error,
    interval,
    ndcg_of_rows,
    standard_error,
)
from tribit.metrics.full_ranking import unseen_report
from tribit.model.scores import HasScores, PlacedEntries, Scores, as_scores, read_entries

if TYPE_CHECKING:
    from tribit.ranking.scores import Ranker

__all__ = ["evaluate"]

#: Most rows whose lists are made, evenly spaced among those that have a held-out like: enough for an error of the mean
#: below .005 (the NDCG of a row varies by .3), and lists are most of the work in large matrices.
MOST_LISTS = 5000


def evaluate(
    model: HasScores | Scores,
    X: Any,
    seen: Any = None,
    *,
    level: float = 0.95,
    n: int = 10,
    ranker: Ranker | None = None,
    avoid_dislikes: float = 1.0,
) -> Evaluation:
    """Compare a fitted model with observed entries, none of which it should have been fitted on.

    Parameters
    ----------
    model : BinaryMatrixCompletion or another system
        A fitted model.
    X : Observations, sparse matrix or array
        The entries to predict, matched by id where the model was fitted on ids, else by position.
    seen : Observations, sparse matrix or array, optional
        What the model was fitted on. Baselines are then fitted on it, the share of likes and row and column effects,
        and lists are made of what was not seen; where it and X have one label alone, X is ranked among all other cells.
    level : float, default=0.95
        Level of the confidence intervals, which are over rows and take the model as given
        (:mod:`tribit.metrics.entries`).
    n : int, default=10
        Length of the lists.
    ranker, avoid_dislikes
        For the lists, as in :meth:`tribit.factor_model.FactorModel.recommend`.

    Returns
    -------
    Evaluation
        Printed, a table.
    """
    scores = as_scores(model)
    rows, columns, labels = scores.observed(read_entries(model, X))
    level = check_between("level", level, 0.0, 1.0, ends="()")
    n = check_count("n", n)
    x, curve = scores.x(rows, columns), scores.curve
    measured, influences = _measured(curve, x, labels)
    errors = {name: standard_error(influence, rows) for name, influence in influences.items()}
    by_row = ndcg_of_rows(rows, x, labels)
    ndcg = float(np.mean(by_row)) if by_row.size else None
    if by_row.size > 1:
        measured["ndcg"] = ndcg
        errors["ndcg"] = float(np.std(by_row, ddof=1) / np.sqrt(by_row.size))
    intervals = {
        name: interval(value, error, level, np.inf if name == "log_loss" else 1.0)
        for name, error in errors.items()
        # Without an error, as where all signs are right, a normal interval would be a point.
        if error and (value := measured[name]) is not None
    }
    measured.pop("ndcg", None)
    beside: dict[str, Any] = {}
    if seen is not None:
        beside = _beside(
            scores,
            _Test(rows, columns, labels, measured, influences),
            scores.observed(read_entries(model, seen)),
            n,
            ranker,
            avoid_dislikes,
        )
    own = {part.name for part in fields(Evaluation)}
    known: dict[str, Any] = {name: value for name, value in measured.items() if name in own}
    further = {name: value for name, value in measured.items() if name not in own}
    both = bool(labels.size) and labels.min() != labels.max()
    return Evaluation(
        n_entries=labels.size,
        **known,
        further=further,
        n_rows=int(np.unique(rows).size),
        calibration_error=calibration_error(curve.probability(x), labels) if both else None,
        ndcg=ndcg,
        intervals=intervals,
        level=level,
        ranked=ranker is not None,
        **beside,
    )


@dataclass(frozen=True)
class _Test:
    """The test entries, and what the model reached on them."""

    rows: Positions
    columns: Positions
    labels: Any
    measured: dict[str, float | None]
    influences: dict[str, Any]


def _measured(curve: Curve, x: Any, labels: Any) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Return every registered measure, and the influences of entries on those that have a formula for them."""
    found = {name: metric.measure(curve, x, labels, None) for name, metric in METRICS.items()}
    influences = {
        name: influence
        for name, of in INFLUENCES.items()
        if name in found and (influence := of(curve, x, labels)) is not None
    }
    return found, influences


def _beside(
    scores: Scores, test: _Test, seen: PlacedEntries, n: int, ranker: Any, avoid_dislikes: float
) -> dict[str, Any]:
    """Return baselines, lists and ranks among unseen cells."""
    i, j, known = seen
    mask = csr_array((np.ones(i.size, dtype=bool), (i, j)), shape=scores.shape)
    if both := int(np.count_nonzero(mask[test.rows, test.columns])):
        raise InvalidInputError(
            f"{both} of the entries to predict are among the seen ones: pass entries that the model was not fitted on "
            "(Observations.split), and what it was fitted on as seen."
        )
    hidden = PlacedEntries(test.rows, test.columns, test.labels)
    train, held_out = (_observations(scores.axes, part) for part in (seen, hidden))
    lists = _lists(scores, train, held_out, n, ranker, avoid_dislikes)
    effects = effects_model(train).scores_
    if np.unique(np.concatenate([known, test.labels])).size < 2:
        report = unseen_report(scores, seen, hidden)
        of_effects = among_unseen(unseen_report(effects, seen, hidden))
        return {
            "lists": lists,
            "unseen": report,
            "baselines": {"row and column effects": Baseline(of_effects)},
        }
    baselines = {}
    for name, (curve, x) in {
        "share of likes": majority(train, test.labels.size),
        "row and column effects": (effects.curve, effects.x(test.rows, test.columns)),
    }.items():
        measured, influences = _measured(curve, x, test.labels)
        differences = {}
        for measure, influence in influences.items():
            error = standard_error(test.influences[measure] - influence, test.rows)
            if error is not None:
                ours, theirs = test.measured[measure], measured[measure]
                differences[measure] = (float(ours) - float(theirs), error)  # type: ignore[arg-type]
        kept = {key: value for key, value in measured.items() if key != "accuracy"}
        baselines[name] = Baseline(kept, differences)
    return {"lists": lists, "baselines": baselines}


def _lists(
    scores: Scores, train: Observations, held_out: Observations, n: int, ranker: Any, w: float
) -> RankingReport | None:
    """Return the measures of lists, of some of the rows where there are very many; None without a like to find."""
    users = np.unique(held_out.rows[held_out.labels > 0])
    if not users.size:
        return None
    if users.size > MOST_LISTS:
        users = users[np.linspace(0, users.size - 1, MOST_LISTS).astype(int)]
        held_out = held_out.take(np.flatnonzero(np.isin(held_out.rows, users)))
    return ranking_report(scores, train, held_out, n, ranker=ranker, avoid_dislikes=w)


def _observations(axes: Axes, entries: PlacedEntries) -> Observations:
    """Return entries at the positions of a model as observations with its ids."""
    return Observations(*entries, axes.shape, axes.rows.ids, axes.columns.ids)
