"""Measures of a fitted model on a test set, with confidence intervals, and baselines beside them.

base rate                 P(like) = (likes + 1) / (entries + 2), the same everywhere; weights are added up
row and column biases     x_ij = b + a_i + c_j,  argmin of the logistic risk + 1 / 2 (|a|^2 + |c|^2)
popularity                lists of the columns with the most training likes, of the same rows by the same rules
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tribit import completion
from tribit.answers import Answer, skipped_remark, text_table
from tribit.checks import check_between, check_choice, check_count
from tribit.data.axis import AnyArray
from tribit.data.observations import Observations
from tribit.data.times import Calendar
from tribit.display import html_facts
from tribit.errors import InvalidInputError, UnknownIdWarning, parameter, warn
from tribit.evaluation.periods import Period, measure_periods, measure_table, period_table
from tribit.evaluation.ranking import RankingReport, by_popularity, ranking_report
from tribit.metrics.entries import (
    METRICS,
    ByProbability,
    calibration_error,
    interval,
    known_probabilities,
    measure_entries,
    ndcg_of_rows,
    standard_error,
)
from tribit.metrics.full_ranking import UnseenReport, unseen_report
from tribit.model.scores import HasScores, PlacedEntries, Scores, as_scores, read_entries
from tribit.nouns import Nouns, with_article
from tribit.storage.file_format import value_from

if TYPE_CHECKING:
    from tribit.ranking.scores import Ranker

__all__ = ["Baseline", "Evaluation", "evaluate", "evaluate_by_time", "fit_biases"]

#: Maximum number of rows for which lists are made, evenly spaced among those with a test like. The standard error of
#: the mean NDCG is then below .005, as the NDCG of a row has a standard deviation of .3.
MAX_LISTS = 5000
#: Penalty of the biases. Of 1/4, 1/2, 1, 2, 4 and 8 it has the lowest log-loss on held-out tenths of MovieLens-100k,
#: of Coat's training entries and of the Senate's votes (seeds 10 to 12); the minimum is flat.
L2_OF_BIASES = 1.0
#: Names of the baselines.
BASE_RATE, BIASES, POPULARITY = "base rate", "row and column biases", "popularity"
#: Titles of the measures of lists, without their length.
LIST_TITLES = {
    "ndcg": "NDCG",
    "precision": "precision",
    "recall": "recall",
    "dislikes_per_like": "dislikes per like",
    "coverage": "coverage",
    "novelty": "novelty",
    "popularity": "popularity percentile",
}
#: Titles of the measures among unseen cells.
UNSEEN_TITLES = {
    "unseen_auc": "AUC among unseen cells",
    "unseen_average_precision": "average precision among unseen cells",
}


@dataclass(frozen=True)
class Baseline:
    """A simple model on the same entries.

    Attributes
    ----------
    measures : mapping of str to float or None
        Measures by name: those of :data:`METRICS`, those of lists, or those among unseen cells.
    differences : mapping of str to (float, float)
        Measure of the model minus that of the baseline, with its standard error, paired by entry.

    Examples
    --------
    >>> from tribit.evaluation.held_out import Baseline
    >>> Baseline({"auc": 0.5}).measures["auc"]
    0.5
    """

    measures: Mapping[str, float | None] = field(hash=False)
    differences: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, repr=False)
class Evaluation(Answer):
    """Measures over the observed entries of a test set.

    Attributes
    ----------
    n_entries : int
        Number of test entries.
    accuracy, error_rate : float
        Shares of correct and of wrong labels.
    log_loss : float
        Mean of ``-log P(the observed label)``.
    auc : float or None
        Probability that a like is ranked above a dislike; None where only one of the two was observed.
    n_skipped : int
        Number of entries with unknown ids that were left out.
    n_unknown : int
        Number of entries with an unknown id, which are predicted from the known row or column alone. They are in no
        measure of lists and among unseen cells.
    further : mapping of str to float or None
        Measures that were added to :data:`METRICS`, by name.
    n_rows : int
        Number of rows with a test entry.
    weight : float or None
        Sum of the weights of the test entries, where they have any. Measures over entries, base rate and biases are
        weighted; those of lists, of the order within rows and among unseen cells count each entry once.
    calibration_error : float or None
        Mean distance between probabilities and observed shares of likes
        (:func:`tribit.metrics.entries.calibration_error`); None where only one label was observed.
    ndcg : float or None
        Mean over rows of the NDCG of their test entries, ordered by score (:mod:`tribit.metrics.entries`); None
        where no row has both labels.
    intervals : mapping of str to (float, float)
        Confidence intervals of measures by name, clustered by row (:mod:`tribit.metrics.entries`).
    level : float
        Level of the intervals.
    lists : RankingReport or None
        Measures of the top-N lists of unseen columns for rows with a test like; None unless ``seen`` was given.
    ranked : bool
        Whether a ranker ordered the lists. Ordered by P(like) alone, lists ignore exposure and find few likes.
    unseen : UnseenReport or None
        Ranks of test likes among all unseen cells, where ``seen`` was given and one label alone was observed.
    baselines : mapping of str to Baseline
        Simple models, fitted on ``seen`` and measured on the same entries.
    nouns : Nouns
        Nouns for a row and a column in texts.
    periods : tuple of Period
        Measures by period, of :func:`evaluate_by_time`.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations, evaluate
    >>> table = [[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]]
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(table)
    >>> found = evaluate(model, Observations.from_pairs([0, 1], [2, 1], [1, -1], shape=(4, 4)))
    >>> found.n_entries, found.accuracy
    (2, 1.0)
    """

    n_entries: int
    accuracy: float
    error_rate: float
    log_loss: float
    auc: float | None
    n_skipped: int = 0
    n_unknown: int = 0
    further: Mapping[str, float | None] = field(default_factory=dict, hash=False)
    n_rows: int = 0
    weight: float | None = None
    calibration_error: float | None = None
    ndcg: float | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    level: float = 0.95
    lists: RankingReport | None = None
    ranked: bool = False
    unseen: UnseenReport | None = None
    baselines: Mapping[str, Baseline] = field(default_factory=dict, hash=False)
    nouns: Nouns = field(default=Nouns(), compare=False)
    periods: tuple[Period, ...] = ()

    def measures(self) -> dict[str, float | None]:
        """Return all measures by name: of entries, of rows, of lists and among unseen cells."""
        found = {name: getattr(self, name, self.further.get(name)) for name in METRICS}
        found |= {"calibration_error": self.calibration_error, "ndcg": self.ndcg}
        return found | list_measures(self.lists) | unseen_measures(self.unseen)

    def titles(self) -> dict[str, str]:
        """Return the title of each measure."""
        n = 0 if self.lists is None else self.lists.n
        return {
            **{name: metric.title for name, metric in METRICS.items()},
            "calibration_error": "calibration error",
            "ndcg": f"NDCG of {with_article(self.nouns.row)}'s entries",
            **{f"lists_{name}": f"{title}@{n}" for name, title in LIST_TITLES.items()},
            **UNSEEN_TITLES,
        }

    def table(self) -> dict[str, AnyArray]:
        """Return the columns of a table: measure, value and the ends of its confidence interval, also by period."""
        return measure_table(self)

    def facts(self) -> dict[str, str]:
        """Return formatted measures by title, those of lists beside popularity, then the other baselines."""
        titles, found = self.titles(), self.measures()
        popular = self.measures_of(POPULARITY)
        facts = {}
        for name, value in found.items():
            if not self.is_informative(name):
                continue
            if value is not None:
                facts[titles[name]] = f"{value:.4f}{self._error(name)}{beside(popular.get(name))}"
            elif name in METRICS:
                facts[titles[name]] = "only one label"
        if self.unseen is not None and (tenths := self.unseen.tenths):
            total = sum(expected for expected, _ in tenths)
            ratios = [f"{found / expected:.2f}" for expected, found in tenths if expected]
            facts["likes held out, and expected"] = f"{self.unseen.n_entries}, {total:.1f}"
            facts["their ratio, by tenths"] = " ".join(ratios)
        for name, baseline in self.baselines.items():
            if name == POPULARITY:
                continue
            shown = (
                f"{titles[measure]} {value:.4f}"
                for measure, value in baseline.measures.items()
                if value is not None
            )
            title = self.nouns.biases if name == BIASES else name
            facts[f"baseline: {title}"] = ", ".join(shown)
        return facts

    def measures_of(self, baseline: str) -> Mapping[str, float | None]:
        """Return the measures of a baseline; none if there is no such baseline."""
        return self.baselines[baseline].measures if baseline in self.baselines else {}

    def is_informative(self, name: str) -> bool:
        """Return whether a measure is of use: with one label alone only ranks among unseen cells are."""
        if self.unseen is None or name in UNSEEN_TITLES:
            return True
        return name.startswith("lists_") and name != "lists_dislikes_per_like"

    def _error(self, name: str) -> str:
        low, high = self.intervals.get(name, (None, None))
        return "" if low is None else f" ({low:.4f} to {high:.4f})"

    def to_dict(self) -> dict[str, Any]:
        """Return the measures and all that belongs to them as plain values for JSON."""
        values = asdict(self)
        del values["nouns"]  # words of texts, which follow from the table
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the evaluation of plain values, as a file has them; a ValueError where they are of none."""
        found: Self = value_from(cls, {**values, "nouns": asdict(Nouns())}, "evaluation")
        return found

    def text(self, most: int | None = None) -> str:
        """Return a line for each measure, and one for each period."""
        facts = self.facts()
        width = max(len(title) for title in facts)
        lines = [f"  {title:<{width}}  {fact}" for title, fact in facts.items()]
        if self.periods:
            lines += ["", text_table(period_table(self.periods, self.nouns), most)]
        return "\n".join([self.title(), *lines])

    def _repr_html_(self) -> str:
        """Return the measures and the baselines for a notebook."""
        return html_facts(self.title(), self.facts())

    def title(self) -> str:
        """Return the size of the test set, and the meaning of the intervals."""
        notes = [] if self.weight is None else [f"weight {self.weight:g}"]
        notes += (
            [f"{100 * self.level:g}% intervals, clustered by {self.nouns.row}"]
            if self.intervals
            else []
        )
        notes += [self.order_of_lists()] if self.order_of_lists() else []
        about = f" ({'; '.join(notes)})" if notes else ""
        entries, rows = ("entry", "entries"), (self.nouns.row, self.nouns.rows)
        sizes = [
            f"{n} {words[n != 1]}" for n, words in ((self.n_entries, entries), (self.n_rows, rows))
        ]
        return f"{' of '.join(sizes)}{about}{self.unknown_remark()}"

    def order_of_lists(self) -> str:
        """Return a remark on lists that are ordered without a ranker; "" for all others."""
        # One label alone is ranked by what it identifies, exposure included.
        by_like = self.lists is not None and not self.ranked and self.unseen is None
        return "lists by P(like) alone" if by_like else ""

    def unknown_remark(self) -> str:
        """Return a remark on the numbers of entries with unknown ids."""
        about = f"; {self.n_unknown} with unknown ids" if self.n_unknown else ""
        return f"{about}{skipped_remark(self.n_skipped)}"


def beside(popular: float | None) -> str:
    """Return the measure of lists by popularity as text that follows that of the model; "" if there is none."""
    return "" if popular is None else f"; by popularity {popular:.4f}"


def list_measures(report: RankingReport | None) -> dict[str, float | None]:
    """Return the measures of lists by name; none without a report."""
    if report is None:
        return {}
    return {f"lists_{name}": getattr(report, name) for name in LIST_TITLES}


def unseen_measures(report: UnseenReport | None) -> dict[str, float | None]:
    """Return the measures among unseen cells by name; none without a report."""
    if report is None:
        return {}
    return {"unseen_auc": report.auc, "unseen_average_precision": report.average_precision}


def evaluate(
    model: HasScores | Scores,
    X: object,
    seen: object = None,
    *,
    level: float = 0.95,
    n: int = 10,
    ranker: Ranker | None = None,
    avoid_dislikes: float = 1.0,
    unknown: str = "popularity",
) -> Evaluation:
    """Measure a fitted model on a test set: entries that it was not fitted on.

    Parameters
    ----------
    model : BinaryMatrixCompletion or another system
        A fitted model.
    X : Observations, sparse matrix or array
        The test set, matched by id where the model was fitted on ids, else by position.
    seen : Observations, sparse matrix or array, optional
        The training entries. Two baselines are fitted on them, the base rate and row and column biases, and top-N
        lists are made of unseen columns. Where ``seen`` and X have one label alone, X is ranked among all other cells.
    level : float, default=0.95
        Level of the confidence intervals. They are clustered by row and condition on the fitted model
        (:mod:`tribit.metrics.entries`).
    n : int, default=10
        Length of the lists.
    ranker, avoid_dislikes
        For the lists, as in :meth:`tribit.factor_model.FactorModel.recommend`.

    unknown : {"popularity", "skip", "error"}, default="popularity"
        Treatment of entries with ids that the model was not fitted on: "popularity" predicts them from the biases of
        the known row or column, with a warning; "skip" leaves them out. Both are counted. Systems other than
        BinaryMatrixCompletion refuse them ("error").

    Returns
    -------
    Evaluation
        Prints as a table.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations, evaluate
    >>> from tribit.simulate import tables
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> train, test = ratings.split(0.2, random_state=0)
    >>> model = BinaryMatrixCompletion(search=False, rank=3, random_state=0).fit(train)
    >>> round(evaluate(model, test, seen=train).auc, 2)
    0.71
    """
    scores = as_scores(model)
    level = check_between("level", level, 0.0, 1.0, ends="()")
    n = check_count("n", n)
    test, n_unknown, n_skipped = _placed_test(scores, read_entries(model, X), unknown)
    rows, labels, weights = test.rows, test.labels, test.weights
    x, curve = scores.x_of(test), scores.curve
    measures, influences = measure_entries(curve, x, labels, weights)
    errors = {name: standard_error(influence, rows) for name, influence in influences.items()}
    by_row = ndcg_of_rows(rows, x, labels)
    ndcg = float(np.mean(by_row)) if by_row.size else None
    if by_row.size > 1:
        errors["ndcg"] = float(np.std(by_row, ddof=1) / np.sqrt(by_row.size))
    intervals = {
        name: interval(value, error, level, np.inf if name == "log_loss" else 1.0)
        for name, error in errors.items()
        # With a standard error of 0, as where all labels are correct, a normal interval would be a point.
        if error and (value := ndcg if name == "ndcg" else measures[name]) is not None
    }
    own = {part.name for part in fields(Evaluation)}
    known: dict[str, Any] = {name: value for name, value in measures.items() if name in own}
    both = bool(labels.size) and labels.min() != labels.max()
    found = Evaluation(
        n_entries=labels.size,
        **known,
        further={name: value for name, value in measures.items() if name not in own},
        n_rows=int(np.unique(rows).size),
        calibration_error=calibration_error(curve.probability(x), labels, weights=weights)
        if both
        else None,
        ndcg=ndcg,
        intervals=intervals,
        level=level,
        ranked=ranker is not None,
        n_unknown=n_unknown,
        n_skipped=n_skipped,
        weight=None if weights is None else float(weights.sum()),
        nouns=Nouns.of(getattr(model, "reading_", None)),
    )
    if seen is None:
        return found
    in_lists = test.take(test.known(scores.shape))
    training = scores.place_entries(read_entries(model, seen))
    train = training.observations(scores.axes)
    lists, baselines, held_out = None, {}, None
    if in_lists.labels.size:
        held_out = _rows_with_lists(in_lists.observations(scores.axes), train)
    if held_out is not None:
        options: dict[str, Any] = {"ranker": ranker, "avoid_dislikes": avoid_dislikes}
        lists = ranking_report(scores, train, held_out, n, **options)
        popular = ranking_report(by_popularity(train), train, held_out, n)
        baselines[POPULARITY] = Baseline(list_measures(popular))
    biases = fit_biases(train).scores_
    if np.unique(np.concatenate([train.labels, labels])).size < 2:
        baseline = Baseline(unseen_measures(unseen_report(biases, training, in_lists)))
        report = unseen_report(scores, training, in_lists)
        return replace(found, lists=lists, unseen=report, baselines={BIASES: baseline, **baselines})
    of_entries = {}
    for name, baseline_curve, baseline_x in (
        (BASE_RATE, *base_rate_scores(train, labels.size)),
        (BIASES, biases.curve, biases.x_of(test)),
    ):
        theirs, their_influences = measure_entries(baseline_curve, baseline_x, labels, weights)
        differences = {}
        for measure, influence in their_influences.items():
            error = standard_error(influences[measure] - influence, rows)
            if error is not None:
                difference = float(measures[measure]) - float(theirs[measure])  # type: ignore[arg-type]
                differences[measure] = (difference, error)
        theirs.pop("accuracy")
        of_entries[name] = Baseline(theirs, differences)
    return replace(found, lists=lists, baselines=of_entries | baselines)


def evaluate_by_time(
    model: HasScores | Scores,
    X: object,
    by: Calendar | int = "month",
    *,
    level: float = 0.95,
    unknown: str = "popularity",
) -> Evaluation:
    """Measure a fitted model on a test set with times, as a whole and by period.

    Parameters
    ----------
    model : BinaryMatrixCompletion or another system
        A fitted model.
    X : Observations or data frame
        The test set, with times.
    by : {"day", "week", "month", "quarter", "year"} or int, default="month"
        The period, or the number of periods with about equal numbers of entries.
    level, unknown
        As in :func:`evaluate`.

    Returns
    -------
    Evaluation
        With ``periods``; prints as two tables.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.evaluation import evaluate_by_time
    >>> table = [[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]]
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(table)
    >>> test = Observations([0, 1], [2, 1], [1, -1], (4, 4), times=["2026-01-20", "2026-02-03"])
    >>> [each.first for each in evaluate_by_time(model, test).periods]
    ['2026-01-20', '2026-02-03']
    """
    given = read_entries(model, X)
    given.require_times(f"{parameter('by', by)} is about the times of the test entries")
    found = evaluate(model, given, level=level, unknown=unknown)
    return replace(found, periods=periods_of(as_scores(model), given, by, level, unknown))


def periods_of(
    scores: Scores, given: Observations, by: Calendar | int, level: float, unknown: str
) -> tuple[Period, ...]:
    """Return the measures of a test set with times by period."""
    placed = scores.place_entries(given, unknown)
    if unknown == "skip":
        placed = placed.take(placed.known(scores.shape))
    return measure_periods(placed, scores.x_of(placed), scores.curve, by, level)


def _placed_test(
    scores: Scores, given: Observations, unknown: str
) -> tuple[PlacedEntries, int, int]:
    """Return test entries by positions, and the numbers of those with unknown ids that are kept and left out."""
    check_choice("unknown", unknown, ("popularity", "skip", "error"))
    test = scores.place_entries(given, unknown)
    is_known = test.known(scores.shape)
    n = int(np.count_nonzero(~is_known))
    if not n:
        return test, 0, 0
    if not (is_known.any() if unknown == "skip" else _knows_any(test, scores.shape)):
        raise InvalidInputError(
            "No test entry has an id that the model was fitted on; check that the test set has the same ids."
        )
    if unknown == "skip":
        return test.take(is_known), 0, n
    warn(
        UnknownIdWarning(
            f"{n} of the {is_known.size} test entries have an id that the model was not fitted on: they are predicted "
            f"from the other side alone, and are in no list ({parameter('unknown', 'skip')} leaves them out, "
            f"{parameter('unknown', 'error')} refuses them)."
        )
    )
    return test, n, 0


def _knows_any(test: PlacedEntries, shape: tuple[int, int]) -> bool:
    return bool((test.rows < shape[0]).any() or (test.columns < shape[1]).any())


def _rows_with_lists(held_out: Observations, train: Observations) -> Observations | None:
    """Return the test entries of at most ``MAX_LISTS`` rows with a test like; None without a like."""
    if both := int(np.count_nonzero(train.observed_at(held_out.rows, held_out.columns))):
        raise InvalidInputError(
            f"{both} of the test entries are also in seen: pass entries that the model was not fitted on "
            "(Observations.split) as X, and the training entries as seen."
        )
    users = np.unique(held_out.rows[held_out.labels > 0])
    if not users.size:
        return None
    if users.size > MAX_LISTS:
        users = users[np.linspace(0, users.size - 1, MAX_LISTS).astype(int)]
        held_out = held_out.take(np.flatnonzero(np.isin(held_out.rows, users)))
    return held_out


def base_rate_scores(train: Observations, n: int) -> tuple[ByProbability, np.ndarray]:
    """Return the constant base rate as a curve, and scores of n entries."""
    likes, dislikes = train.label_totals
    rate = (likes + 1.0) / (likes + dislikes + 2.0)
    return known_probabilities(np.full(n, rate)), np.zeros(n)


def fit_biases(train: Observations) -> completion.BinaryMatrixCompletion:
    """Fit row and column biases to the labels; with one label alone, to whether an entry was observed."""
    gammas = (float(train.n_likes > 0 and train.n_dislikes > 0), 0.0, 0.0)
    if not gammas[0]:
        gammas = (0.0, 1.0, 0.0) if train.n_likes else (0.0, 0.0, 1.0)
    return completion.BinaryMatrixCompletion(
        gammas,
        rho=0.0,
        rank=0,
        radius=None,
        l2=L2_OF_BIASES,
        l2_intercept=L2_OF_BIASES,
        implicit_features=False,
        side_features=False,
        calibration=None,
        members=1,
        dtype="float64",
        n_jobs=1,
        random_state=0,
    ).fit(train)
