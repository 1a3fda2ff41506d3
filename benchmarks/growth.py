"""Growth of the cost of a sweep with rows, columns, entries and rank, each doubled in turn.

``python -m benchmarks.growth`` prints the table of the manual. Times are CPU seconds of one thread, the smallest of a
few iterations in two rounds in which the tables take turns, because other processes only add time.
"""

import time
import warnings
from collections.abc import Callable
from itertools import pairwise

from benchmarks.data import skewed
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Observations

#: Rows, columns, entries and rank of the table from which each is doubled.
BASE = {"rows": 10_000, "columns": 5_000, "entries": 500_000, "rank": 16}
#: Iterations of a fit (the first few of L-BFGS may take a second step), and rounds.
ITERATIONS, ROUNDS = 3, 2
FIXED = {"l2": 8.0, "l2_intercept": 3.0, "calibration": None, "random_state": 0, "n_jobs": 1}
#: Kinds of iterations, and how often more they are expected to cost with twice the rows, columns, entries and rank.
#: PN: entries x rank^2 for the curvatures, (rows + columns) x rank^3 for the solves. A mixture: cells, and cells x rank
#: for the products, beside what PN has. L-BFGS: entries x rank, and (rows + columns) x rank for what it remembers.
KINDS: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "PN sweep": (
        {"gammas": (1, 0, 0), "implicit_features": False},
        {"rows": "1-2", "columns": "1-2", "entries": "1-2", "rank": "1-4"},
    ),
    "mixture sweep": (
        {"gammas": (0.8, 0.1, 0.1), "radius": 4.0, "implicit_features": False, "backend": "exact"},
        {"rows": "2", "columns": "2", "entries": "1", "rank": "1-4"},
    ),
    "L-BFGS iteration, implicit features": (
        {"gammas": (1, 0, 0), "implicit_features": True, "l2_implicit": 20.0},
        {"rows": "1-2", "columns": "1-2", "entries": "1-2", "rank": "1-2"},
    ),
}


def iteration_seconds(seen: Observations, rank: int, options: dict[str, object]) -> float:
    """Return the least CPU seconds of an iteration of a fit."""
    marks: list[float] = []
    model = BinaryMatrixCompletion(
        rank=rank,
        max_iter=ITERATIONS,
        tol=0.0,
        callback=lambda _: marks.append(time.process_time()),
        **FIXED,
        **options,  # type: ignore[arg-type]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few iterations are not meant to converge
        model.fit(seen)
    return min(after - before for before, after in pairwise(marks))


def double_size(name: str | None) -> dict[str, int]:
    """Return the sizes of the base, one of them twice as large."""
    return {key: size * (2 if key == name else 1) for key, size in BASE.items()}


def growth(measure: Callable[[Observations, int, dict[str, object]], float]) -> list[list[str]]:
    """Return one row for each kind of iteration: seconds on the base, and the ratio with each size doubled."""
    least: dict[tuple[str, str | None], float] = {}
    for _ in range(ROUNDS):
        for name in (None, *BASE):
            sizes = double_size(name)
            seen = skewed((sizes["rows"], sizes["columns"]), sizes["entries"])
            for kind, (options, _) in KINDS.items():
                found = measure(seen, sizes["rank"], options)
                least[kind, name] = min(found, least.get((kind, name), found))
    return [
        [kind, f"{least[kind, None]:.2f} s"]
        + [f"{least[kind, name] / least[kind, None]:.2f} ({expected[name]})" for name in BASE]
        for kind, (_, expected) in KINDS.items()
    ]


def main() -> None:
    """Print the table."""
    print(machine())
    rows, columns, entries, rank = BASE.values()
    print_table(
        f"CPU seconds of an iteration, {rows} x {columns}, {entries} entries, rank {rank}; and how many times as long "
        "it takes with one of them doubled (expected)",
        ("iteration", "base", *(f"{name} x 2" for name in BASE)),
        growth(iteration_seconds),
    )


if __name__ == "__main__":
    main()
