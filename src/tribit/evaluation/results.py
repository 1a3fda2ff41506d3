"""The result of :func:`tribit.evaluate`: measures, their intervals, and baselines beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tribit.answers import Answer
from tribit.data.axis import AnyArray
from tribit.evaluation.ranking import RankingReport
from tribit.metrics.entries import METRICS
from tribit.metrics.full_ranking import UnseenReport

__all__ = ["Baseline", "Evaluation"]

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


@dataclass(frozen=True, repr=False)
class Evaluation(Answer):
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
        Mean distance of probabilities from shares of likes (:func:`tribit.metrics.entries.calibration_error`);
        None where only one label was observed.
    ndcg : float or None
        Mean over rows of the NDCG of their test entries, ordered by score (:mod:`tribit.metrics.entries`); None
        where no row has both labels.
    intervals : mapping of str to (float, float)
        Confidence intervals of measures by name, over rows (:mod:`tribit.metrics.entries`).
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
        return found | among_unseen(self.unseen)

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

    def table(self) -> dict[str, AnyArray]:
        """Return the measures as columns of a table, with the ends of their confidence intervals."""
        known = {name: value for name, value in self.measures().items() if value is not None}
        ends = [self.intervals.get(name, (np.nan, np.nan)) for name in known]
        return {
            "measure": np.array(list(known), dtype=object),
            "value": np.array(list(known.values())),
            "lower": np.array([low for low, _ in ends]),
            "upper": np.array([high for _, high in ends]),
        }

    def facts(self) -> dict[str, str]:
        """Return every measure as a report shows it, by its title, and the baselines."""
        titles, found = self.titles(), self.measures()
        facts = {}
        for name, value in found.items():
            if not self.tells(name):
                continue
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

    def tells(self, name: str) -> bool:
        """Return whether a measure says something: signs and losses of one label alone do not."""
        return self.unseen is None or name in (*UNSEEN, "lists_ndcg")

    def _error(self, name: str) -> str:
        low, high = self.intervals.get(name, (None, None))
        return "" if low is None else f" ({low:.4f} to {high:.4f})"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return asdict(self)

    def text(self, most: int | None = None) -> str:
        """Return the measures by title."""
        del most
        facts = self.facts()
        width = max(len(title) for title in facts)
        about = f" ({100 * self.level:g}% intervals over rows)" if self.intervals else ""
        head = f"{self.n_entries} entries of {self.n_rows} rows{about}"
        return "\n".join([head, *(f"  {title:<{width}}  {fact}" for title, fact in facts.items())])


def among_unseen(report: UnseenReport | None) -> dict[str, float | None]:
    """Return what was measured among unseen cells, by name."""
    if report is None:
        return {}
    return {"unseen_auc": report.auc, "unseen_average_precision": report.average_precision}
