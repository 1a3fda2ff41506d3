"""Means of partly seen tables: coverage and width of their intervals, and their errors beside those of the plain share.

    TRIBIT_DATA=FOLDER python -m benchmarks.estimates --draws 200

Cells of whole tables are hidden, so that every mean is known: evaluations of language models (``benchmark-scores``),
and the votes of senators (``senate``) and of participants of a poll (``polis-vtaiwan``), whose means are over the votes
that they cast. Each draw hides other cells. A worth is the mean square error of the plain share of seen cells over that
of the estimate. Rows with fewer than four seen cells are left out.

Prediction-powered inference is that of the package ``ppi-python``, with the predictions of our estimates; without the
package its columns are empty.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.special import expit, logit, ndtri

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import Observations
from tribit.datasets import senate
from tribit.estimates import estimate_means
from tribit.estimates.item_response import fit_items

try:
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
except ImportError:
    ppi_mean_ci = None

LEVELS = 0.9, 0.95
SHARES = 0.05, 0.1, 0.2
MIN_SEEN = 4
#: Fewest votes of a row, so that a share of them can be hidden.
MIN_VOTES = 80
FOLDS = 5
BANDS = 0.0, 0.5, 0.75, 0.9, 1.0
#: Odds ratio of being seen between +1 and -1, and those at which limits are computed.
ODDS_RATIO, ALLOWED = 2.0, (1.0, 2.0, 4.0)

Limits = dict[float, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Table:
    """A table of labels 1 and 0, and the cells that the means are of."""

    name: str
    y: np.ndarray
    population: np.ndarray


@dataclass(frozen=True)
class Draw:
    """Seen cells of a table."""

    table: Table
    mask: np.ndarray
    seed: int
    q: np.ndarray | None = None

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows that are partly seen, with cells enough."""
        size, seen = self.table.population.sum(axis=1), self.mask.sum(axis=1)
        return np.flatnonzero((seen >= MIN_SEEN) & (seen < size))

    @cached_property
    def is_whole(self) -> np.ndarray:
        """Whether a row is seen as a whole."""
        return (self.mask == self.table.population).all(axis=1)

    @cached_property
    def seen(self) -> Observations:
        """The seen cells."""
        i, j = np.nonzero(self.mask)
        return Observations(i, j, 2 * self.table.y[i, j] - 1, self.mask.shape)

    def mean(self, values: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """Return the mean over some cells of the judged rows."""
        y, cells = values[self.rows], cells[self.rows]
        return (y * cells).sum(axis=1) / cells.sum(axis=1)

    @cached_property
    def truth(self) -> np.ndarray:
        """The means of the judged rows."""
        return self.mean(self.table.y, self.table.population)

    @cached_property
    def plain(self) -> np.ndarray:
        """The shares of their seen cells."""
        return self.mean(self.table.y, self.mask)

    @cached_property
    def predictions(self) -> np.ndarray:
        """Predictions of all cells by other rows; that of a seen cell leaves its label out."""
        labels, p = self.seen.to_sparse(), np.full(self.mask.shape, 0.5)
        draws = np.random.default_rng(self.seed)
        folds = 1 if self.is_whole.sum() > self.rows.size else FOLDS
        for part in np.array_split(draws.permutation(self.rows), folds):
            others = np.setdiff1d(np.arange(len(p)), part)
            items = fit_items(labels[others], 2, draws)
            p[part] = items.predict(items.abilities(labels[part]), labels[part])
        return p

    def completed(self, p: np.ndarray) -> np.ndarray:
        """Return the means with unseen labels predicted."""
        return self.mean(np.where(self.mask, self.table.y, p), self.table.population)


@dataclass(frozen=True)
class Estimate:
    """Means of the judged rows, with limits for each level if there are any."""

    mean: np.ndarray
    limits: Limits = field(default_factory=dict)


def wilson(draw: Draw) -> Estimate:
    """Return the plain share with Wilson's interval and finite-population correction."""
    share, n = draw.plain, draw.mask[draw.rows].sum(axis=1)
    cells = draw.table.population[draw.rows].sum(axis=1)
    limits = {}
    for level in LEVELS:
        c = quantile(level) ** 2 * (cells - n) / ((cells - 1) * n)
        middle, half = (
            (share + c / 2) / (1 + c),
            np.sqrt(c * share * (1 - share) + c * c / 4) / (1 + c),
        )
        low, high = share * n / cells, (share * n + cells - n) / cells
        limits[level] = np.maximum(middle - half, low), np.minimum(middle + half, high)
    return Estimate(share, limits)


def completed(draw: Draw) -> Estimate:
    """Return the completed rows; they have no interval."""
    return Estimate(draw.completed(draw.predictions))


def rasch(draw: Draw, steps: int = 30) -> Estimate:
    """Return rows completed by a Rasch model with normal priors, and intervals by the error of the abilities."""
    y, mask = draw.table.y, draw.mask
    ability, easiness = np.zeros((len(y), 1)), np.zeros(y.shape[1])
    spread, level = 1.0, logit(y[mask].mean())
    for _ in range(steps):
        for axis in (1, 0):
            p = expit(level + ability + easiness)
            slope = np.where(mask, y - p, 0).sum(axis=axis)
            curvature = np.where(mask, p * (1 - p), 0).sum(axis=axis)
            if axis:
                precision = curvature[:, None] + 1 / spread
                ability += (slope[:, None] - ability / spread) / precision
                spread = float(np.mean(ability**2 + 1 / precision))
            else:
                easiness += (slope - easiness) / (curvature + 1)
    p = expit(level + ability + easiness)
    unseen = draw.table.population & ~mask
    noise = np.where(unseen, p * (1 - p), 0).sum(axis=1)
    variance = noise**2 / precision[:, 0] + noise
    error = np.sqrt(variance)[draw.rows] / draw.table.population[draw.rows].sum(axis=1)
    found = draw.completed(p)
    z = {level: quantile(level) for level in LEVELS}
    return Estimate(
        found, {level: (found - z[level] * error, found + z[level] * error) for level in LEVELS}
    )


def powered(draw: Draw) -> Estimate | None:
    """Return the estimates of prediction-powered inference with its own weight of the predictions; None without it."""
    if ppi_mean_ci is None:
        return None
    mean, limits = [], {level: ([], []) for level in LEVELS}
    for row in draw.rows:
        mask, p = draw.mask[row], draw.predictions[row]
        unseen = draw.table.population[row] & ~mask
        given = draw.table.y[row][mask].astype(float), p[mask], p[unseen]
        mean.append(float(ppi_mean_pointestimate(*given)[0]))
        for level in LEVELS:
            for to, limit in zip(limits[level], ppi_mean_ci(*given, alpha=1 - level), strict=True):
                to.append(float(limit[0]))
    return Estimate(
        np.array(mean), {level: tuple(map(np.array, pair)) for level, pair in limits.items()}
    )


def ours(draw: Draw, guarantee: str = "row", q: np.ndarray | str = "uniform") -> Estimate:
    """Return our estimates."""
    found = estimate_means(
        draw.seen,
        weights=draw.table.population.astype(float),
        guarantee=guarantee,
        q=q,
        random_state=draw.seed,
    )
    of = {level: found.at_level(level) for level in LEVELS}
    return Estimate(
        found.mean[draw.rows],
        {level: (each.lower[draw.rows], each.upper[draw.rows]) for level, each in of.items()},
    )


def whole_rows(draw: Draw) -> Estimate | None:
    """Return our estimates calibrated on whole rows, if these are enough."""
    return ours(draw, "rows") if draw.is_whole.sum() >= 40 else None


METHODS: dict[str, Callable[[Draw], Estimate | None]] = {
    "plain, Wilson": wilson,
    "completed row": completed,
    "Rasch": rasch,
    "PPI": powered,
    "row": ours,
    "rows": whole_rows,
}


def between(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return whether values are in an interval that is open at its end, but for 1."""
    return (values >= low) & ((values < high) | (high == 1.0))


#: A name, and which records of the results are meant: bands of the truth, and of the number of seen cells.
PARTS: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
    *(
        (
            f"{low:g} to {high:g}",
            partial(lambda found, low, high: between(found[:, 1], low, high), low=low, high=high),
        )
        for low, high in pairwise(BANDS)
    ),
    ("4 to 19 seen", lambda found: found[:, 2] < 20),
    ("20 to 49", lambda found: between(found[:, 2], 20, 50)),
    ("50 and more", lambda found: found[:, 2] >= 50),
]
#: Columns of the summary of a method.
HEADINGS = "method", "worth", "covers 90%, 95%", "width / Wilson's"


class Results:
    """Errors, widths and hits of the methods over draws: of each judged row, with the number of its draw."""

    def __init__(self) -> None:
        self.parts: dict[str, list[np.ndarray]] = {}

    def add(self, draw: Draw, name: str, found: Estimate | None) -> None:
        """Keep what a method has found for a draw."""
        if found is None:
            return
        columns = [np.full(draw.rows.size, draw.seed), draw.truth, draw.mask[draw.rows].sum(axis=1)]
        columns += [(draw.plain - draw.truth) ** 2, (found.mean - draw.truth) ** 2]
        for low, high in found.limits.values():
            hits = (low <= draw.truth + 1e-9) & (draw.truth <= high + 1e-9)
            columns += [hits, high - low]
        self.parts.setdefault(name, []).append(np.column_stack(columns))

    def of(self, name: str) -> np.ndarray | None:
        """Return the records of a method: draw, truth, seen, errors of plain and ours, hits and widths by level."""
        return np.concatenate(self.parts[name]) if name in self.parts else None

    def worth(self, name: str) -> str:
        """Return the worth with its standard error over draws."""
        if (found := self.of(name)) is None:
            return ""
        number, place = np.unique(found[:, 0], return_inverse=True)
        plain, own = (np.bincount(place, found[:, each]) for each in (3, 4))
        worth = plain.sum() / own.sum()
        error = np.sqrt(np.sum((plain - worth * own) ** 2)) / own.sum()
        return f"{worth:.2f} ± {error:.2f}" if number.size > 1 else f"{worth:.2f}"

    def coverage(self, name: str, keep: Callable[[np.ndarray], np.ndarray] | None = None) -> str:
        """Return the coverage of both levels, and the standard error of the first, over the records that are kept."""
        found = self.of(name)
        if found is not None and keep is not None:
            found = found[keep(found)]
        if found is None or found.shape[1] < 9 or len(found) < 50:
            return ""
        _, place, size = np.unique(found[:, 0], return_inverse=True, return_counts=True)
        share = found[:, 5].mean()
        error = np.sqrt(np.sum((np.bincount(place, found[:, 5]) - share * size) ** 2)) / len(found)
        return f"{decimal(share)} ± {decimal(error)}, {decimal(found[:, 7].mean())}"

    def width(self, name: str, beside: str = "plain, Wilson") -> str:
        """Return the ratio of mean widths at the first level."""
        found, other = self.of(name), self.of(beside)
        if found is None or other is None or found.shape[1] < 9:
            return ""
        return f"{found[:, 6].mean() / other[:, 6].mean():.2f}"

    def summary(self, name: str) -> tuple[str, str, str]:
        """Return worth, coverage and width of a method."""
        return self.worth(name), self.coverage(name), self.width(name)


def decimal(value: float) -> str:
    """Return a share with three digits and no zero before the point."""
    return f"{value:.3f}".lstrip("0") if value < 1 else f"{value:.3f}"


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval."""
    return float(ndtri((1 + level) / 2))


def uniform_draws(table: Table, share: float, draws: int, *, history: bool) -> Iterator[Draw]:
    """Yield draws with a share of the cells seen; with a history only a quarter of the rows is partly seen."""
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        mask = table.population & (rng.random(table.y.shape) < share)
        if history:
            whole = rng.permutation(len(mask))[len(mask) // 4 :]
            mask[whole] = table.population[whole]
        yield Draw(table, mask, seed)


def measure(
    draws: Iterator[Draw], methods: dict[str, Callable[[Draw], Estimate | None]]
) -> Results:
    """Return what the methods find for the draws."""
    results = Results()
    for draw in draws:
        for name, method in methods.items():
            results.add(draw, name, method(draw))
    return results


def uniform(table: Table, draws: int) -> None:
    """Print the tables of uniformly drawn cells of a data set."""
    settings = {
        (f"{share:.0%}", "whole" if history else "partly seen"): measure(
            uniform_draws(table, share, draws, history=history), METHODS
        )
        for history in (True, False)
        for share in SHARES
    }
    print_table(
        f"{table.name}: uniformly drawn cells ({draws} draws)",
        ("seen", "other rows", *HEADINGS),
        [
            (*key, name, *results.summary(name))
            for key, results in settings.items()
            for name in METHODS
            if results.of(name) is not None
        ],
    )
    print_table(
        f"{table.name}: coverage at 90% ± standard error, and at 95%, by the row's own mean and its seen cells",
        ("seen", "other rows", "interval", *(name for name, _ in PARTS)),
        [
            (*key, name, *(results.coverage(name, keep) for _, keep in PARTS))
            for key, results in settings.items()
            for name in ("plain, Wilson", "row", "rows")
            if results.of(name) is not None
        ],
    )


def unusual(table: Table, draws: int) -> None:
    """Print the table of rows unlike all others: coins, and rows whose labels are flipped."""
    names = ["plain, Wilson", "completed row", "row", "rows"]
    methods = {name: METHODS[name] for name in names}
    records = []
    for kind in ("coins of rate 0.3", "flipped labels"):
        results = Results()
        for draw in uniform_draws(table, 0.1, draws, history=True):
            y, new = table.y.copy(), ~draw.is_whole
            if kind == "flipped labels":
                y[new] = 1 - y[new]
            else:
                rng = np.random.default_rng((draw.seed, 1))
                y[new] = rng.random(y[new].shape) < 0.3
            changed = Draw(Table(table.name, y, table.population), draw.mask, draw.seed)
            for name, method in methods.items():
                results.add(changed, name, method(changed))
        records += [(kind, name, *results.summary(name)) for name in names]
    print_table(
        f"Rows unlike all others: the new quarter of {table.name}, 10% seen, the others whole ({draws} draws)",
        ("new rows", *HEADINGS),
        records,
    )


def selected_draws(table: Table, draws: int) -> Iterator[Draw]:
    """Yield draws in which columns with many +1 are seen more often: q from 0.02 to 0.5 by row and column."""
    easy = logit(np.clip(table.y.mean(axis=0), 0.02, 0.98))
    easy = (easy - easy.mean()) / easy.std()
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        n, m = table.y.shape
        x = -2.2 + 0.7 * rng.normal(size=(n, 1)) + easy + 0.3 * rng.normal(size=m)
        q = np.clip(expit(x), 0.02, 0.5)
        yield Draw(table, rng.random((n, m)) < q, seed, q)


def self_selected(table: Table, draws: int) -> None:
    """Print the table of self-selected cells: rows with 20 seen and 15 effective cells."""
    methods: dict[str, Callable[[Draw], Estimate]] = {
        "plain, Wilson": wilson,
        "completed row": completed,
        "row, q given": lambda draw: ours(draw, q=draw.q),
        'row, selection="modelled"': lambda draw: ours(draw, q="modelled"),
    }
    results = Results()
    for draw in selected_draws(table, draws):
        w = np.where(draw.mask, 1 / draw.q, 0)
        effective = w.sum(axis=1) ** 2 / (w**2).sum(axis=1)
        enough = (draw.mask.sum(axis=1) >= 20) & (effective >= 15)
        for name, method in methods.items():
            results.add(*judged(draw, method(draw), enough[draw.rows], name))
    print_table(
        f"{table.name}: self-selected cells, q from 0.02 to 0.5 by row and column ({draws} draws)",
        HEADINGS,
        [(name, *results.summary(name)) for name in methods],
    )


def judged(draw: Draw, found: Estimate, keep: np.ndarray, name: str) -> tuple[Draw, str, Estimate]:
    """Return the draw and the estimate of some of its judged rows."""
    fewer = Draw(draw.table, draw.mask, draw.seed, draw.q)
    fewer.__dict__["rows"] = draw.rows[keep]
    limits = {level: (low[keep], high[keep]) for level, (low, high) in found.limits.items()}
    return fewer, name, Estimate(found.mean[keep], limits)


def label_decides(table: Table, draws: int) -> None:
    """Print the table of cells that are seen by their labels: new rows, whose +1 have twice the odds of being seen."""
    results = Results()
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        odds = 0.1 / 0.9 * ODDS_RATIO ** (table.y - 0.8)
        mask = rng.random(table.y.shape) < odds / (1 + odds)
        mask[rng.permutation(len(mask))[len(mask) // 4 :]] = True
        draw = Draw(table, mask, seed)
        results.add(draw, "plain, Wilson", wilson(draw))
        means = estimate_means(draw.seen, random_state=seed)
        of = {level: means.at_level(level) for level in LEVELS}
        for ratio in ALLOWED:
            limits = {
                level: tuple(limit[draw.rows] for limit in each.sensitivity(ratio).values())
                for level, each in of.items()
            }
            results.add(draw, f"sensitivity={ratio:g}", Estimate(means.mean[draw.rows], limits))
        sides = means.unseen.sides(means.mean, (means.lower, means.upper))(ODDS_RATIO)
        alone = sides.mean_low[draw.rows], sides.mean_high[draw.rows]
        results.add(
            draw,
            f"bounds at {ODDS_RATIO:g} alone",
            Estimate(means.mean[draw.rows], dict.fromkeys(LEVELS, alone)),
        )
    print_table(
        f"{table.name}: +1 are seen with {ODDS_RATIO:g} times the odds, about 10% seen, three quarters of the rows "
        f"whole ({draws} draws)",
        HEADINGS,
        [(name, *results.summary(name)) for name in results.parts],
    )


def evaluations(name: str) -> Table:
    """Return an evaluation of language models, whole."""
    path = Path(FOLDER) / "benchmark-scores" / f"{name}.csv"
    y = np.loadtxt(path, delimiter=",").astype(np.int64)
    return Table(name, y, np.ones(y.shape, dtype=bool))


def votes(name: str) -> Table:
    """Return the votes of rows that cast at least ``MIN_VOTES``."""
    folder = Path(FOLDER) / name
    if name == "senate":
        found = senate(folder).to_sparse().toarray()
    else:
        time_of, column, row, vote = np.loadtxt(
            folder / "votes.csv", delimiter=",", skiprows=1, dtype=np.int64
        ).T
        order = np.argsort(time_of, kind="stable")
        found = np.zeros((row.max() + 1, column.max() + 1), dtype=np.int64)
        for each in order:  # a later vote replaces an earlier one
            found[row[each], column[each]] = vote[each]
    found = found[(found != 0).sum(axis=1) >= MIN_VOTES]
    found = found[:, (found != 0).any(axis=0)]
    return Table(name, (found > 0).astype(np.int64), found != 0)


#: Parts of the benchmark, in the order of their tables.
KINDS: dict[str, Callable[[Table, int], None]] = {
    "uniform": uniform,
    "unusual": unusual,
    "self-selected": self_selected,
    "sensitivity": label_decides,
}
#: Tables that are whole, and tables of votes, which are drawn uniformly only.
WHOLE, VOTES = ("commonsense", "ifeval"), ("senate", "polis-vtaiwan")


def main() -> None:
    """Print the tables of the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--tables", nargs="+", choices=WHOLE + VOTES, default=WHOLE + VOTES)
    parser.add_argument("--parts", nargs="+", choices=KINDS, default=tuple(KINDS))
    given = parser.parse_args()
    if not FOLDER:
        print(
            "Estimates: skipped, they need benchmark-scores, senate and polis-vtaiwan (TRIBIT_DATA)."
        )
        return
    began = time.process_time()
    warnings.simplefilter("ignore", RuntimeWarning)  # of ppi-python, in rows whose labels are equal
    print(machine())
    for kind in given.parts:
        for name in given.tables:
            if name in WHOLE:
                KINDS[kind](evaluations(name), given.draws)
            elif kind == "uniform":
                uniform(votes(name), given.draws)
    print(f"\n{time.process_time() - began:.0f} seconds of CPU time")


if __name__ == "__main__":
    main()
