"""How good a model is on entries that it was not fitted on: measures, their errors, and baselines beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from tribit.checks import check_between, check_count
from tribit.data.axis import Axes, Positions
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.metrics.baselines import effects_model, majority
from tribit.metrics.clustered import INFLUENCES, interval, standard_error
from tribit.metrics.entries import METRICS, Curve
from tribit.metrics.ranking import RankingReport, ranking_report
from tribit.metrics.reliability import calibration_error
from tribit.metrics.unseen import UnseenReport, unseen_report
from tribit.metrics.within_rows import ndcg_of_rows

if TYPE_CHECKING:
    from tribit.factor_model import FactorModel
    from tribit.recommend.scores import Ranker

__all__ = ["Baseline", "Evaluation", "evaluate"]

#: Most rows whose lists are made, evenly spaced among those that have a held-out like: enough for an error of the mean
#: below .005 (the NDCG of a row varies by .3), and lists are most of the work in large matrices.
MOST_LISTS = 5000
#: Names of what is measured among unseen cells.
UNSEEN = {
    "unseen_auc": "AUC among unseen cells",
    "unseen_average_precision": "average precision among unseen cells",
}


@dataclass(frozen=True)
class Baseline:
    """A simple model on the same entries.

    Attributes
    ----------
    measures : mapping of str to float or None
        As of the model: those of :data:`METRICS`, or those among unseen cells.
    differences : mapping of str to (float, float)
        Measure of the model less that of the baseline, and the standard error of that, paired by entry.
    """

    measures: Mapping[str, float | None] = field(hash=False)
    differences: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Evaluation:
    """Measures over the observed entries of a test set.

    Attributes
    ----------
    n_entries : int
        How many entries were predicted.
    accuracy, sign_error : float
        Shares of the signs that were predicted right and wrong.
    log_loss : float
        Mean of ``-log P(the observed label)``.
    auc : float or None
        Probability that a like is ranked above a dislike; None where only one of the two was observed.
    n_skipped : int
        How many entries of a file were left out because the model does not know their ids.
    further : mapping of str to float or None
        Measures that were added to :data:`METRICS`, by name.
    n_rows : int
        How many rows have a test entry.
    calibration_error : float or None
        Mean distance of probabilities from shares of likes (:func:`tribit.metrics.reliability.calibration_error`);
        None where only one label was observed.
    ndcg : float or None
        Mean over rows of the NDCG of their test entries, ordered by score (:mod:`tribit.metrics.within_rows`); None
        where no row has both labels.
    intervals : mapping of str to (float, float)
        Confidence intervals of measures by name, over rows (:mod:`tribit.metrics.clustered`).
    level : float
        Their level.
    lists : RankingReport or None
        The best of all cells that were not seen, for rows with a test like; None unless ``seen`` was given.
    ranked : bool
        Whether a ranker ordered the lists, too: by P(like) alone they find little, as exposure plays no part.
    unseen : UnseenReport or None
        Test likes among all unseen cells, where ``seen`` was given and one label alone was observed.
    baselines : mapping of str to Baseline
        Simple models, fitted on ``seen``, on the same entries.
    """

    n_entries: int
    accuracy: float
    sign_error: float
    log_loss: float
    auc: float | None
    n_skipped: int = 0
    further: Mapping[str, float | None] = field(default_factory=dict, hash=False)
    n_rows: int = 0
    calibration_error: float | None = None
    ndcg: float | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    level: float = 0.95
    lists: RankingReport | None = None
    ranked: bool = False
    unseen: UnseenReport | None = None
    baselines: Mapping[str, Baseline] = field(default_factory=dict, hash=False)

    def measures(self) -> dict[str, float | None]:
        """Return every measure by name: of entries, of rows, of lists and among unseen cells."""
        found = {name: getattr(self, name, self.further.get(name)) for name in METRICS}
        found |= {"calibration_error": self.calibration_error, "ndcg": self.ndcg}
        if self.lists is not None:
            found |= {
                "lists_ndcg": self.lists.ndcg,
                "lists_dislikes_per_like": self.lists.dislikes_per_like,
            }
        return found | _among_unseen(self.unseen)

    def titles(self) -> dict[str, str]:
        """Return what a report calls each measure."""
        n = 0 if self.lists is None else self.lists.n
        order = "" if self.ranked else ", by P(like) alone"
        return {
            **{name: metric.title for name, metric in METRICS.items()},
            "calibration_error": "calibration error",
            "ndcg": "NDCG of a row's entries",
            "lists_ndcg": f"NDCG@{n} of lists{order}",
            "lists_dislikes_per_like": f"dislikes per like in lists of {n}",
            **UNSEEN,
        }

    def facts(self) -> dict[str, str]:
        """Return every measure as a report shows it, by its title, and the baselines."""
        titles, found = self.titles(), self.measures()
        if self.unseen is not None:  # signs and losses of one label alone say nothing
            found = {name: value for name, value in found.items() if name.startswith("unseen")}
        facts = {}
        for name, value in found.items():
            if value is not None:
                facts[titles[name]] = f"{value:.4f}{self._error(name)}"
            elif name in METRICS:
                facts[titles[name]] = "only one label"
        for name, baseline in self.baselines.items():
            shown = (
                f"{titles[measure]} {value:.4f}"
                for measure, value in baseline.measures.items()
                if value is not None
            )
            facts[f"beside: {name}"] = ", ".join(shown)
        return facts

    def _error(self, name: str) -> str:
        low, high = self.intervals.get(name, (None, None))
        return "" if low is None else f" ({low:.4f} to {high:.4f})"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        facts = self.facts()
        width = max(len(title) for title in facts)
        about = f" ({100 * self.level:g}% intervals over rows)" if self.intervals else ""
        head = f"{self.n_entries} entries of {self.n_rows} rows{about}"
        return "\n".join([head, *(f"  {title:<{width}}  {fact}" for title, fact in facts.items())])


def evaluate(
    model: FactorModel,
    X: Any,
    seen: Any = None,
    *,
    level: float = 0.95,
    n: int = 10,
    ranker: FactorModel | Ranker | None = None,
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
        (:mod:`tribit.metrics.clustered`).
    n : int, default=10
        Length of the lists.
    ranker, avoid_dislikes
        For the lists, as in :meth:`tribit.factor_model.FactorModel.recommend`.

    Returns
    -------
    Evaluation
        Printed, a table.
    """
    rows, columns, labels = model._observed(X)
    level = check_between("level", level, 0.0, 1.0, ends="()")
    n = check_count("n", n)
    x = model._decision(model._factors().at(rows, columns))
    curve = model._curve()
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
            model,
            _Test(rows, columns, labels, measured, influences),
            seen,
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
    model: FactorModel, test: _Test, seen: Any, n: int, ranker: Any, avoid_dislikes: float
) -> dict[str, Any]:
    """Return baselines, lists and ranks among unseen cells."""
    i, j, known = model._observed(seen)
    mask = csr_array((np.ones(i.size, dtype=bool), (i, j)), shape=model.shape_)
    if both := int(np.count_nonzero(mask[test.rows, test.columns])):
        raise InvalidInputError(
            f"{both} of the entries to predict are among the seen ones: pass entries that the model was not fitted on "
            "(Observations.split), and what it was fitted on as seen."
        )
    train, held_out = (
        _placed(model, *part) for part in ((i, j, known), (test.rows, test.columns, test.labels))
    )
    lists = _lists(model, train, held_out, n, ranker, avoid_dislikes)
    effects = effects_model(train)
    if np.unique(np.concatenate([known, test.labels])).size < 2:
        report = unseen_report(model, train, held_out)
        of_effects = _among_unseen(unseen_report(effects, train, held_out))
        return {
            "lists": lists,
            "unseen": report,
            "baselines": {"row and column effects": Baseline(of_effects)},
        }
    baselines = {}
    for name, (curve, x) in {
        "share of likes": majority(train, test.labels.size),
        "row and column effects": (
            effects._curve(),
            effects._factors().at(test.rows, test.columns),
        ),
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
    model: FactorModel, train: Observations, held_out: Observations, n: int, ranker: Any, w: float
) -> RankingReport | None:
    """Return the measures of lists, of some of the rows where there are very many; None without a like to find."""
    users = np.unique(held_out.rows[held_out.labels > 0])
    if not users.size:
        return None
    if users.size > MOST_LISTS:
        users = users[np.linspace(0, users.size - 1, MOST_LISTS).astype(int)]
        held_out = held_out.take(np.flatnonzero(np.isin(held_out.rows, users)))
    return ranking_report(model, train, held_out, n, ranker=ranker, avoid_dislikes=w)


def _placed(model: FactorModel, rows: Positions, columns: Positions, labels: Any) -> Observations:
    """Return entries in the rows and columns of the model, with its ids."""
    axes = Axes.of_model(model)
    return Observations(rows, columns, labels, axes.shape, axes.rows.ids, axes.columns.ids)


def _among_unseen(report: UnseenReport | None) -> dict[str, float | None]:
    if report is None:
        return {}
    return {"unseen_auc": report.auc, "unseen_average_precision": report.average_precision}
