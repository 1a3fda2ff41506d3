"""Growth of the cost of a sweep with rows, columns, entries and rank, each doubled in turn, and the hardware's limit.

``python -m benchmarks.growth`` prints the tables of the manual. Times are CPU seconds of one thread, the smallest of a
few iterations in two rounds in which the tables take turns, because other processes only add time.

The limit of an iteration is its operations over the rate of a matrix product, or its bytes over the bandwidth of
memory, whichever is longer: each array is read or written once in a pass, and factors are in the caches.
"""

import os
import time
import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import skewed
from benchmarks.measure import machine, median_seconds, print_table
from tribit import BinaryMatrixCompletion, Observations
from tribit.backends.compiled import VARIABLE

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


def operations_and_bytes(kind: str) -> tuple[float, float]:
    """Return the floating-point operations of an iteration on the base table, and the bytes that it moves."""
    rows, columns, entries, rank = BASE.values()
    # x = P Q' with biases, the free columns of a row, and those of a block of features with the biases beside.
    m, free, wide = rank + 2, rank + 1, rank + 1
    of_link = 10  # an exponential and a few products
    factors = 4 * (rows + columns) * m
    index, weights, number = 4, 8, 4
    if kind == "PN sweep":
        # Both sides: x, gradient and half of the curvature at each entry, x after the step, and a solve for each row.
        of_entry = 2 * m + 2 * free + free * (free + 1) + 2 * m + 2 * of_link
        work = 2 * entries * of_entry + (rows + columns) * free**3 / 3
        return work, 2 * (entries * (index + weights) + factors)
    if kind == "mixture sweep":
        # Both sides: x and gradient at each cell.
        cells = rows * columns
        return 2 * cells * (2 * m + 2 * free + of_link), 2 * (entries * (index + weights) + factors)
    # x and the gradients of both sides; two masks and their transposes; six pairs of stored vectors.
    work = entries * (6 * m + of_link + 4 * 2 * wide)
    moved = entries * (index + weights + 2 * number + 2 * index + number + 4 * (index + number))
    unknowns = 2 * (rows + columns) * wide
    return work + 4 * 6 * unknowns, moved + 4 * 2 * 6 * unknowns + 6 * factors


def rates() -> tuple[float, float]:
    """Return the operations of a matrix product in single precision and the bytes of a sum, each per second."""
    draws = np.random.default_rng(0)
    A, B = (draws.standard_normal((1500, 1500), dtype=np.float32) for _ in range(2))
    x, y = (draws.standard_normal(2**25, dtype=np.float32) for _ in range(2))
    out = np.empty_like(x)
    with threadpool_limits(1):
        product = median_seconds({"": lambda: A @ B}, 7)[""]
        total = median_seconds({"": lambda: np.add(x, y, out=out)}, 7)[""]
    return 2 * 1500**3 / product, 3 * x.nbytes / total


def print_limits() -> None:
    """Print one row for each kind of iteration: seconds with and without the kernels, work, and the limit."""
    flops, bandwidth = rates()
    seen = skewed((BASE["rows"], BASE["columns"]), BASE["entries"])
    before, found = os.environ.get(VARIABLE), []
    for kind, (options, _) in KINDS.items():
        taken = []
        for compiled in ("0", "1"):
            os.environ[VARIABLE] = compiled
            taken.append(min(iteration_seconds(seen, BASE["rank"], options) for _ in range(ROUNDS)))
        work, moved = operations_and_bytes(kind)
        by_work, by_memory = work / flops, moved / bandwidth
        least = max(by_work, by_memory)
        found.append(
            [kind, *(f"{each:.3f} s" for each in taken), f"{work / 1e9:.2f}", f"{moved / 2**20:.0f}",
             f"{least:.3f} s ({'operations' if by_work > by_memory else 'bytes'})",
             f"{taken[1] / least:.1f}"]
        )  # fmt: skip
    os.environ.pop(VARIABLE)
    if before is not None:
        os.environ[VARIABLE] = before
    print_table(
        f"The same table beside the hardware: {flops / 1e9:.0f} Gflop/s in a product, {bandwidth / 1e9:.1f} GB/s "
        "in a sum, one thread",
        ("iteration", "NumPy", "compiled", "Gflop", "MB moved", "limit", "compiled / limit"),
        found,
    )


def main() -> None:
    """Print the tables."""
    print(machine())
    rows, columns, entries, rank = BASE.values()
    print_table(
        f"CPU seconds of an iteration, {rows} x {columns}, {entries} entries, rank {rank}; and how many times as long "
        "it takes with one of them doubled (expected)",
        ("iteration", "base", *(f"{name} x 2" for name in BASE)),
        growth(iteration_seconds),
    )
    print_limits()


if __name__ == "__main__":
    main()
