"""Recommendations with reasons: examples of a few rows, and the lists of any row that the page can hold."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axis, Positions
from tribit.errors import InvalidInputError, TribitWarning
from tribit.explain.contributions import RowEntries, entry_effects
from tribit.report.wording import names_at

if TYPE_CHECKING:
    from tribit.recommender import Recommender

#: Length of the lists that can be looked up, and of those of the examples.
N, N_EXAMPLE = 10, 5
#: Quantiles of the number of entries at which rows are examples.
EXAMPLE_QUANTILES = (0.25, 0.5, 0.9)
#: Maximum number of reasons that raise and that lower a probability, and the minimum change: the page would show a
#: smaller one as 0.
MAX_RAISING, MAX_LOWERING, MIN_CHANGE = 2, 1, 0.0005
#: Maximum number of rows whose lists can be looked up: with names and reasons they take some 400 bytes each.
MAX_LOOKUP_ROWS = 3000
#: Maximum number of entries of a row with reasons: 3,000 take a second, and time is quadratic.
MAX_EXPLAINED_ENTRIES = 3000
#: Maximum number of pairs of an entry and a score for all reasons, some ten seconds: the row is solved without each
#: entry, with a sum over its other entries or, where the loss has unobserved entries, over all columns.
MAX_PAIRS, MAX_PAIRS_UNOBSERVED = 2**25, 2**24


class Reasons:
    """Effects of the entries of rows on probabilities, as :func:`tribit.explain.explain` defines them."""

    def __init__(self, recommender: Recommender) -> None:
        model = recommender.with_rho().model_
        seen = recommender.require_entries("reasons name entries")
        self.fitted, self.scores, self.n_jobs = model.fitted_, model.scores_, model.n_jobs
        order = np.lexsort((seen.columns, seen.rows))
        self.columns, self.labels = seen.columns[order], seen.labels[order]
        self.weights = None if seen.weights is None else seen.weights[order]
        self.starts = np.append(0, np.cumsum(seen.counts[0]))

    def of(self, row: int, at: Positions) -> tuple[RowEntries, NDArray[np.float64]] | None:
        """Return the entries of a row and their effects, of shape (n_entries, n_columns); None if there are none.

        An effect is the probability less that without the entry.
        """
        here = slice(self.starts[row], self.starts[row + 1])
        n = here.stop - here.start
        if not 0 < n <= MAX_EXPLAINED_ENTRIES or not at.size:
            return None
        weights = None if self.weights is None else self.weights[here]
        entries = RowEntries(row, self.columns[here], self.labels[here], weights)
        try:
            effects, _ = entry_effects(self.fitted, entries, at, n_jobs=self.n_jobs)
        except InvalidInputError:
            return None  # such as a mixture with imputed probabilities
        x = self.scores.x(np.full(at.size, row), at)
        changes = self.scores.probability(x) - self.scores.probability(x - effects)
        return entries, np.asarray(changes, dtype=np.float64)

    def pairs(self, row_entries: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Return the number of pairs for the reasons of rows with these numbers of entries, and the maximum of all."""
        if any(each.spec.uses_unobserved for each in self.fitted.members):
            return row_entries * self.scores.shape[1], MAX_PAIRS_UNOBSERVED
        return row_entries**2, MAX_PAIRS


def strongest(changes: NDArray[np.float64]) -> tuple[Positions, Positions]:
    """Return the places of the changes that raise a probability most, and of those that lower it most."""
    order = np.argsort(-changes, kind="stable")
    raising = order[:MAX_RAISING]
    lowering = order[::-1][:MAX_LOWERING]
    return raising[changes[raising] >= MIN_CHANGE], lowering[changes[lowering] <= -MIN_CHANGE]


def example_facts(recommender: Recommender) -> list[dict[str, Any]]:
    """Return lists of a few rows with reasons; none if the model keeps no entries."""
    seen = recommender.seen_
    if seen is None:
        return []
    axes, counts, reasons = recommender.axes_, seen.counts[0], Reasons(recommender)
    places = _example_rows(counts)
    lists = _lists(recommender, places, N_EXAMPLE, 0.9)
    none = np.full(lists.positions.values.size, np.nan)
    ends = (
        [none, none] if lists.intervals is None else [lists.intervals.lower, lists.intervals.upper]
    )
    lower, upper = map(lists.positions.with_values, ends)
    likes = np.bincount(seen.rows[seen.labels > 0], minlength=counts.size)
    found = []
    for i, (row, name) in enumerate(zip(places.tolist(), names_at(axes.rows, places), strict=True)):
        kept = lists.positions[i]
        why = reasons.of(row, kept)
        columns = [
            {
                "name": title,
                "probability": float(lists.probabilities[i, k]),
                "lower": float(lower[i, k]),
                "upper": float(upper[i, k]),
                "reasons": None
                if why is None
                else _reason_facts(axes.columns, why[0], why[1][:, k]),
            }
            for k, title in enumerate(names_at(axes.columns, kept))
        ]
        of_row = {"likes": int(likes[row]), "dislikes": int(counts[row] - likes[row])}
        found.append({"row": name, **of_row, "columns": columns})
    return found


def _lists(recommender: Recommender, places: Positions, n: int, level: float | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TribitWarning)  # nobody asked for these rows
        return recommender.recommend(recommender.axes_.rows.names(places), n, level=level)


def _reason_facts(
    axis: Axis, entries: RowEntries, changes: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return the entries with the largest effects on a probability."""
    kept = np.concatenate(strongest(changes))
    names = names_at(axis, entries.columns[kept])
    return [
        {"name": name, "label": int(entries.labels[place]), "change": float(changes[place])}
        for name, place in zip(names, kept.tolist(), strict=True)
    ]


def _example_rows(counts: Positions) -> Positions:
    """Return distinct rows with an entry at the quantiles of the number of entries."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    places = [int(share * (order.size - 1)) for share in EXAMPLE_QUANTILES]
    return np.asarray(order[sorted(set(places))])


def lookup_facts(recommender: Recommender) -> dict[str, Any] | None:
    """Return the lists of rows with the reasons that raise each probability; None if the model keeps no entries.

    Of many rows those that are evenly spaced by their number of entries are held. A reason is the number of a name and
    the change of the probability in percentage points; for a disliked column it is -1 minus the number.
    """
    seen = recommender.seen_
    if seen is None:
        return None
    axes, counts, reasons = recommender.axes_, seen.counts[0], Reasons(recommender)
    places = np.sort(_spread(np.argsort(counts, kind="stable"), MAX_LOOKUP_ROWS))
    lists = _lists(recommender, places, N, None)
    pairs, most = reasons.pairs(counts[places])
    n = places.size if pairs.sum() <= most else int(places.size * most / pairs.sum())
    explained = set(_spread(np.argsort(counts[places], kind="stable"), n).tolist())
    numbers: dict[int, int] = {}

    def number(column: int) -> int:
        return numbers.setdefault(column, len(numbers))

    def raising(entries: RowEntries, changes: NDArray[np.float64]) -> list[list[float]]:
        found = []
        for e in strongest(changes)[0].tolist():
            name = number(int(entries.columns[e]))
            found.append([name if entries.labels[e] > 0 else -1 - name, round(100 * changes[e], 1)])
        return found

    why: list[list[list[list[float]]] | None] = []
    for i, row in enumerate(places.tolist()):
        of_row = reasons.of(row, lists.positions[i]) if i in explained else None
        why.append(None if of_row is None else [raising(of_row[0], each) for each in of_row[1].T])
    columns = [[number(j) for j in each.tolist()] for each in lists.positions]
    likes = np.bincount(seen.rows[seen.labels > 0], minlength=counts.size)[places]
    return {
        "n": N,
        "of": axes.rows.size,
        "explained": sum(each is not None for each in why),
        "rows": names_at(axes.rows, places),
        "likes": likes,
        "dislikes": counts[places] - likes,
        "names": names_at(axes.columns, np.array([*numbers], dtype=np.int64)),
        "columns": columns,
        "probabilities": [np.round(each, 3) for each in lists.probabilities],
        "reasons": why,
    }


def _spread(order: Positions, n: int) -> Positions:
    """Return at most n of some positions, evenly spaced."""
    if n >= order.size:
        return order
    return np.asarray(order[np.linspace(0, order.size - 1, max(n, 0)).astype(int)])
