"""Measures of a test set by period: of the calendar, or periods with about equal numbers of entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.times import Calendar, period_numbers
from tribit.metrics.entries import METRICS, Array, Curve, interval, measure_entries, standard_error
from tribit.model.scores import PlacedEntries
from tribit.nouns import Nouns

if TYPE_CHECKING:
    from tribit.evaluation.held_out import Evaluation

__all__ = ["Period", "measure_periods", "period_table"]


@dataclass(frozen=True)
class Period:
    """The measures of the test entries of a period.

    Attributes
    ----------
    first, last : str
        Dates of the first and the last of these entries.
    n_entries, n_rows : int
        Numbers of entries and of rows that have any.
    base_rate : float
        Share of likes.
    measures : mapping of str to float or None
        Measures by name (:data:`tribit.metrics.entries.METRICS`); None where one of the labels is missing.
    intervals : mapping of str to (float, float)
        Confidence intervals, clustered by row.

    Examples
    --------
    >>> from tribit.evaluation.periods import Period
    >>> Period("2026-01-01", "2026-01-31", 120, 17, 0.6, {"log_loss": 0.51}).n_rows
    17
    """

    first: str
    last: str
    n_entries: int
    n_rows: int
    base_rate: float
    measures: Mapping[str, float | None] = field(hash=False)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)


def measure_periods(
    test: PlacedEntries, x: Array, curve: Curve, by: Calendar | int, level: float
) -> tuple[Period, ...]:
    """Return the measures of each period that has test entries, which have times, in the order of time."""
    assert test.times is not None
    numbers = period_numbers(test.times, by)
    found = []
    for number in np.unique(numbers):
        here = numbers == number
        part, scores = test.take(here), x[here]
        measures, influences = measure_entries(curve, scores, part.labels, part.weights)
        errors = {name: standard_error(each, part.rows) for name, each in influences.items()}
        intervals = {
            name: interval(value, error, level, np.inf if name == "log_loss" else 1.0)
            for name, error in errors.items()
            if error and (value := measures[name]) is not None
        }
        days = np.datetime_as_string(np.sort(test.times[here])[[0, -1]], unit="D").tolist()
        likes = float(np.average(part.labels > 0, weights=part.weights))
        n_rows = int(np.unique(part.rows).size)
        found.append(Period(days[0], days[1], part.labels.size, n_rows, likes, measures, intervals))
    return tuple(found)


def period_table(periods: Sequence[Period], nouns: Nouns | None = None) -> dict[str, AnyArray]:
    """Return a table with a line for each period.

    Examples
    --------
    >>> from tribit.evaluation.periods import Period, period_table
    >>> period = Period("2026-01-01", "2026-01-31", 120, 17, 0.6, {"log_loss": 0.51})
    >>> list(period_table([period]))
    ['first', 'last', 'entries', 'rows', 'base rate', 'log-loss']
    """
    columns = {
        "first": np.array([each.first for each in periods], dtype=object),
        "last": np.array([each.last for each in periods], dtype=object),
        "entries": np.array([each.n_entries for each in periods]),
        (nouns or Nouns()).rows: np.array([each.n_rows for each in periods]),
        "base rate": np.array([each.base_rate for each in periods]),
    }
    for name, metric in METRICS.items():
        values = [each.measures.get(name) for each in periods]
        if any(value is not None for value in values):
            columns[metric.title] = np.array(
                [np.nan if value is None else value for value in values]
            )
    return columns


def measure_table(evaluation: Evaluation) -> dict[str, AnyArray]:
    """Return measures in long form, those of all entries first, then those of each period."""
    whole: Mapping[str, float | None] = evaluation.measures()
    parts = [("", "", whole, evaluation.intervals)]
    parts += [(each.first, each.last, each.measures, each.intervals) for each in evaluation.periods]
    records = [
        (first, last, name, value, *intervals.get(name, (np.nan, np.nan)))
        for first, last, measures, intervals in parts
        for name, value in measures.items()
        if value is not None
    ]
    names = ("first", "last", "measure", "value", "lower", "upper")
    kinds = (object, object, object, float, float, float)
    columns = zip(*records, strict=True)
    found = {
        name: np.array(values, dtype=kind)
        for name, kind, values in zip(names, kinds, columns, strict=True)
    }
    return found if evaluation.periods else {name: found[name] for name in names[2:]}
