"""Comparison of a page: a second model on the same test entries, or the same model on a second test set.

Differences are the second minus the first. Their intervals are clustered by row (:mod:`tribit.evaluation.differences`)
and condition on the fitted models.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tribit.data.axis import Positions
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, InvalidTypeError, either
from tribit.evaluation.differences import Measured, difference, mean_of, measured_entries
from tribit.evaluation.held_out import Evaluation
from tribit.evaluation.ranking import labels_of_lists, ndcg_of_lists
from tribit.model.scores import PlacedEntries, Scores
from tribit.nouns import Nouns, with_noun
from tribit.ranking.best_columns import best_columns
from tribit.ranking.rate_ranker import fit_ranker
from tribit.ranking.scores import Ranker, model_score
from tribit.report.card import describe_like, describe_table
from tribit.report.outliers import outliers
from tribit.report.trial import LEVEL, Trial, trial_on
from tribit.report.wording import name_of, named_measures, names_at, percent, with_sign

if TYPE_CHECKING:
    from tribit.randomness import RandomState
    from tribit.recommender import Recommender

Facts = dict[str, Any]
Array = NDArray[np.floating[Any]]

#: Length of the lists, and the maximum number of rows with lists, evenly spaced among those with a test like.
N, MAX_ROWS = 10, 1000
#: Number of entries with the largest differences of the predictions.
N_ENTRIES = 10
#: Measures of probabilities: those of models with different meanings of the probability are not comparable.
OF_PROBABILITIES = frozenset({"error_rate", "log_loss", "calibration_error", "accuracy"})
#: Measures by the direction in which they are better, those of the first sentence first.
BETTER = {
    "log_loss": -1,
    "auc": 1,
    "lists_ndcg": 1,
    "error_rate": -1,
    "calibration_error": -1,
    "ndcg": 1,
    "lists_recall": 1,
}
#: Titles of the measures that an evaluation does not have.
TITLES = {
    "lists_ndcg": f"NDCG@{N} of lists",
    "lists_recall": f"recall@{N} of lists",
    "base_rate": "share of likes",
    "predicted": "mean probability of a like",
}


class Lists(NamedTuple):
    """Top-N lists of rows with a test like.

    Attributes
    ----------
    users : array of shape (n_users,)
        Positions of the rows in the first model.
    n_likes : array of shape (n_users,)
        Number of test likes of each row.
    shown : array of shape (n_users, N)
        Positions of the columns, -1 where columns ran out.
    labels : array of shape (n_users, N)
        Test labels, 0 for none.
    """

    users: Positions
    n_likes: Positions
    shown: Positions
    labels: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Side:
    """A model and its test entries.

    Attributes
    ----------
    scores : Scores
        Scores of the model.
    ranker : Ranker or None
        Its ranker.
    train : Observations or None
        Training entries, which lists leave out.
    entries : PlacedEntries
        The test entries at positions of this model.
    clusters : array of shape (n_entries,)
        Their rows at positions of the first model.
    """

    scores: Scores
    ranker: Ranker | None
    train: Observations | None
    entries: PlacedEntries
    clusters: Positions

    @cached_property
    def x(self) -> Array:
        """Scores of the test entries."""
        return self.scores.x_of(self.entries)

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """Probability at each test entry."""
        return np.asarray(self.scores.probability(self.x), dtype=np.float64)

    @cached_property
    def lists(self) -> Lists | None:
        """Lists of unseen columns; None without training entries or a test like."""
        rows, columns, labels = self.entries[:3]
        likes = labels > 0
        if self.train is None or not likes.any():
            return None
        users, at, n_likes = np.unique(rows[likes], return_index=True, return_counts=True)
        clusters = self.clusters[likes][at]
        order = np.argsort(clusters)  # the same rows of two models in the same order
        order = order[np.linspace(0, order.size - 1, min(order.size, MAX_ROWS)).astype(int)]
        users, n_likes = users[order], n_likes[order]
        n_columns = self.scores.shape[1]
        score = model_score(self.scores, self.ranker, 1.0)
        seen = self.scores.axes.mask(self.train, "the training entries have")
        shown, _ = best_columns(score, users, n_columns, min(N, n_columns), seen)
        found = labels_of_lists(shown, users, (rows, columns), labels, n_columns)
        return Lists(clusters[order], n_likes, shown, found)

    def shares(self) -> dict[str, Measured]:
        """Return the observed and the predicted share of likes."""
        liked, weights = np.asarray(self.entries.labels > 0, np.float64), self.entries.weights
        return {
            "base_rate": mean_of(liked, self.clusters, weights),
            "predicted": mean_of(self.probabilities, self.clusters, weights),
        }

    def measures(self) -> dict[str, Measured]:
        """Return the measures of the entries and of the lists by name."""
        found, labels, weights = {}, self.entries.labels, self.entries.weights
        if labels.min() != labels.max():
            curve = self.scores.curve
            found = measured_entries(curve, self.x, self.clusters, labels, weights)
            del found["accuracy"]  # the error rate has it
        if (lists := self.lists) is not None:
            hits = np.count_nonzero(lists.labels > 0, axis=1)
            gains = ndcg_of_lists(lists.labels, lists.n_likes)
            found["lists_ndcg"] = mean_of(gains, lists.users)
            found["lists_recall"] = mean_of(hits / lists.n_likes, lists.users)
        return found


def against_facts(
    recommender: Recommender,
    trial: Trial,
    against: object,
    evaluation: Evaluation,
    random_state: RandomState,
) -> Facts | None:
    """Return the comparison with another model, or with a second test set of the same model; None without one.

    ``against`` is a recommender or the path of one, or entries; ``evaluation`` is that of the trial.
    """
    from tribit.recommender import Recommender  # noqa: PLC0415

    if against is None:
        return None
    words, name = Nouns.of(recommender.reading_), None
    if isinstance(against, str | os.PathLike):
        name = name_of(Path(against).name)
        against = Recommender.load(against)
    if isinstance(against, Recommender):
        found = _of_models(recommender, trial, against, words, random_state)
    elif hasattr(against, "fit"):
        raise InvalidTypeError(
            f"against is of type {type(against).__name__}; pass a tribit.Recommender, the file of one, or the entries "
            "of a second test set."
        )
    else:
        found = _of_test_sets(recommender, trial, against, words)
    sides = found.pop("sides")
    measures = [each.measures() for each in sides]
    if found["specs"] is None:
        measures = [each.shares() | known for each, known in zip(sides, measures, strict=True)]
    titles = named_measures(evaluation, words) | TITLES
    rows = _differences(measures[0], measures[1], titles)
    if not found["comparable"]:
        rows = [each for each in rows if each["name"] not in OF_PROBABILITIES]
    return found | {
        "name": name,
        "measures": rows,
        "level": LEVEL,
        "texts": [_verdict(rows, found), *found["texts"]],
    }


def _of_models(
    recommender: Recommender,
    trial: Trial,
    other: Recommender,
    words: Nouns,
    random_state: RandomState,
) -> Facts:
    """Return the comparison of two models on the test entries that both know."""
    first, second = common_entries(trial, other, random_state)
    n = first.clusters.size
    texts = []
    if n_left_out := len(trial.test) - n:
        texts.append(
            f"{with_noun(n_left_out, 'test entry')} with an id that a model does not know were left out."
        )
    if trial.held_out_here:
        texts.append(
            "Both models were refitted without the held-out entries, with the same hyperparameters."
            if second.train is not other.seen_
            else "The other model was fitted without the held-out entries, and is compared as it is."
        )
    likes = [_like_of(each) for each in (recommender, other)]
    if likes[0] != likes[1]:
        texts.append("The models differ in what a like is: the labels are those of this model.")
    meanings = [each.model_.fitted_.meaning for each in (recommender, other)]
    comparable = meanings[0] == meanings[1]
    if not comparable:
        texts.append(
            "Their probabilities are those of different events, so that only rankings are compared."
        )
    return {
        "sides": (first, second),
        "first": "this model",
        "second": "other model",
        "subject": "The other model",
        "where": f"on the {with_noun(n, 'test entry')} that both models know",
        "comparable": comparable,
        "texts": texts,
        "differing": _most_different(first, second) if comparable else None,
        "lists": _overlap(first, second),
        "specs": _settings(recommender, other, words),
    }


def _of_test_sets(recommender: Recommender, trial: Trial, entries: object, words: Nouns) -> Facts:
    """Return the comparison of two test sets of one model."""
    given = trial_on(recommender, entries, trial.unknown)
    first, second = (
        Side(
            trial.scores,
            trial.ranker,
            trial.train,
            place_own_entries(each.held_out),
            each.held_out.rows,
        )
        for each in (trial, given)
    )
    sizes = [
        f"{with_noun(each.clusters.size, 'entry')} of {with_noun(np.unique(each.clusters).size, words.row)}"
        for each in (first, second)
    ]
    texts = [f"The first test set has {sizes[0]}, the second {sizes[1]}."]
    if n := len(given.test) - len(given.held_out):
        texts.append(
            f"{percent(n / len(given.test))} of the second test set have an id that the model was not fitted on, and "
            "were left out."
        )
    return {
        "sides": (first, second),
        "first": "first test set",
        "second": "second test set",
        "subject": "The model",
        "where": "on the second test set than on the first",
        "comparable": True,
        "texts": texts,
        "differing": None,
        "lists": None,
        "specs": None,
    }


def common_entries(
    trial: Trial, other: Recommender, random_state: RandomState
) -> tuple[Side, Side]:
    """Return two models on the test entries that both know, neither of them fitted on these."""
    scores = other.model_.scores_
    for axis, its in zip(trial.scores.axes, scores.axes, strict=True):
        if (axis.ids is None) != (its.ids is None):
            raise InvalidInputError(
                f"One of the two models knows {axis.name}s by ids, and the other by position: compare models of the "
                "same ids."
            )
        if axis.ids is None and axis.size != its.size:
            raise InvalidInputError(
                f"The models have {axis.size} and {its.size} {axis.name}s without ids: compare models of the same "
                "matrix."
            )
    theirs = scores.place_entries(trial.held_out, "skip")
    known = theirs.known(scores.shape)
    if not known.any():
        raise InvalidInputError(
            "The other model knows the ids of no test entry: compare models of the same ids."
        )
    ours, theirs = place_own_entries(trial.held_out).take(known), theirs.take(known)
    train, ranker = other.seen_, other.ranker_
    if trial.held_out_here and train is None:
        raise InvalidInputError(
            "The other model keeps no entries, so that it cannot be refitted without the held-out ones: give entries "
            f"that neither model was fitted on ({either('test=', '--test FILE')})."
        )
    if train is not None:
        n = train.shape[1]
        is_held_out = np.isin(train.rows * n + train.columns, theirs.rows * n + theirs.columns)
        if is_held_out.any() and not trial.held_out_here:
            raise InvalidInputError(
                f"{np.count_nonzero(is_held_out)} of the {known.sum()} test entries were training entries of the other "
                "model, which biases the comparison: give entries that neither model was fitted on."
            )
        if is_held_out.any():
            train, _ = train.hold_out(is_held_out)
            scores = other.model_.refit(train, random_state).scores
            if ranker is not None:
                device = other.model_.device
                ranker = fit_ranker(train, device=device, random_state=random_state)
    first = Side(trial.scores, trial.ranker, trial.train, ours, ours.rows)
    return first, Side(scores, ranker, train, theirs, ours.rows)


def place_own_entries(entries: Observations) -> PlacedEntries:
    """Return entries in the rows and columns of a model by positions."""
    return PlacedEntries(entries.rows, entries.columns, entries.labels, entries.weights)


def _differences(
    first: Mapping[str, Measured], second: Mapping[str, Measured], titles: Mapping[str, str]
) -> list[Facts]:
    """Return a row for each measure of both sides, with the difference, its interval and a verdict."""
    z = float(ndtri(0.5 + 0.5 * LEVEL))
    found = []
    for name, mine in first.items():
        if name not in second:
            continue
        value, error = difference(mine, second[name])
        ends = (value - z * error, value + z * error) if error else None
        better = value * BETTER.get(name, 0)
        chance = None if ends is None else bool(ends[0] <= 0 <= ends[1])
        found.append(
            {
                "name": name,
                "title": titles.get(name, name),
                "first": mine.value,
                "second": second[name].value,
                "difference": value,
                "interval": ends,
                "better": None if better == 0 else bool(better > 0),
                "chance": chance,
            }
        )
    return found


def _verdict(rows: list[Facts], found: Facts) -> str:
    """Return a sentence on the first measure with an interval."""
    known = {each["name"]: each for each in rows if each["interval"] is not None}
    leading = next((known[name] for name in BETTER if name in known), None)
    if rows and not any(each["difference"] for each in rows):
        return "There is no difference in any measure."
    if leading is None:
        return "Too few rows are compared for the interval of a difference."
    low, high = (with_sign(end, 4) for end in leading["interval"])
    numbers = (
        f"(difference of the {leading['title']} {with_sign(leading['difference'], 4)}, {100 * LEVEL:g}% interval "
        f"{low} to {high})"
    )
    verdict = "better" if leading["better"] else "worse"
    luck = "could be luck" if leading["chance"] else "is unlikely to be luck"
    return f"{found['subject']} is {verdict} {found['where']} {numbers}. The difference {luck}."


def _most_different(first: Side, second: Side) -> Facts:
    """Return the test entries, rows and columns whose probabilities differ most."""
    gap = np.abs(second.probabilities - first.probabilities)
    order = np.argsort(-gap, kind="stable")[:N_ENTRIES]
    order = order[gap[order] > 0]
    axes = first.scores.axes
    names = (names_at(axis, at[order]) for axis, at in zip(axes, first.entries[:2], strict=True))
    entries = [
        {"row": row, "column": column, "label": label, "first": mine, "second": theirs}
        for row, column, label, mine, theirs in zip(
            *names,
            first.entries.labels[order].tolist(),
            first.probabilities[order].tolist(),
            second.probabilities[order].tolist(),
            strict=True,
        )
    ]
    sides = {
        side: [
            {"name": name, "n": n, "gap": total / n}
            for name, n, total in outliers(axis, places, gap, np.positive)
        ]
        for side, axis, places in zip(("rows", "columns"), axes, first.entries[:2], strict=True)
    }
    return {"entries": entries, "sides": sides}


def _overlap(first: Side, second: Side) -> Facts | None:
    """Return the number of common columns in the lists of both models; None without lists."""
    ours, theirs = first.lists, second.lists
    if ours is None or theirs is None:
        return None
    # Position of each column of the second model in the first, -1 for one that it does not know.
    axes = first.scores.axes.columns, second.scores.axes.columns
    places = np.append(
        axes[0].match(axes[1], "the other model has", "compare models of the same ids"), -1
    )
    shown = places[theirs.shown]
    shared = np.array(
        [
            np.intersect1d(mine[mine >= 0], other[other >= 0]).size
            for mine, other in zip(ours.shown, shown, strict=True)
        ]
    )
    same_first = float(np.mean((ours.shown[:, 0] == shown[:, 0]) & (shown[:, 0] >= 0)))
    return {
        "n": N,
        "rows": shared.size,
        "shared": float(np.mean(shared)),
        "same_first": same_first,
        "counts": np.bincount(shared, minlength=N + 1).tolist(),
    }


def _settings(recommender: Recommender, other: Recommender, words: Nouns) -> list[Facts]:
    """Return the data and the hyperparameters in which two models differ."""
    sides: list[dict[str, str]] = []
    for each in (recommender, other):
        model = each.model_
        files = each.summary_.get("origin", {}).get("files", [])
        settings = {
            "data": describe_table(each, words, files),
            "a like is": _like_of(each),
            "ranker": "no" if each.ranker_ is None else "yes",
            "stacked fits": str(len(model.fitted_.members)),
        }
        unused = () if model.spec_.uses_unobserved else ("rho",)
        settings |= {
            part.name: _as_text(getattr(model.spec_, part.name))
            for part in fields(model.spec_)
            if part.name not in unused
        }
        sides.append(settings)
    return [
        {"name": name, "first": mine, "second": sides[1].get(name, mine)}
        for name, mine in sides[0].items()
        if mine != sides[1].get(name, mine)
    ]


def _like_of(recommender: Recommender) -> str:
    found = recommender.summary_
    alone = not found.get("dislikes", 1) and found.get("likes", 1) > 0
    return describe_like(recommender.reading_, Nouns.of(recommender.reading_), alone=alone)


def _as_text(value: object) -> str:
    """Return the value of a hyperparameter as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return ", ".join(map(_as_text, value))
    return name_of(value)
