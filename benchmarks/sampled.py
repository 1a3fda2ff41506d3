"""Fits to a sample of all entries beside exact ones: ``python -m benchmarks.sampled [ROWS COLUMNS ENTRIES]``.

Both fits have the same hyperparameters, tables are simulated (``benchmarks.data.skewed``), and the exact objective is
compared at both ends. Seconds are CPU seconds of one thread for each iteration. ``python -m benchmarks.sampled
twice`` has sampled fits alone, of as many entries in twice as many columns.
"""

import sys
import time
from statistics import median
from typing import Any

from benchmarks.data import skewed
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Observations
from tribit.backends import Arithmetic
from tribit.selection.problem import make_problem

#: Simulated tables by default; 20,000 x 20,000 with 2,000,000 entries takes some ten minutes.
SIZES = ((2000, 2000, 60_000), (6000, 6000, 300_000))
#: Fits without a search: a mixture in a ball, and likes alone.
FITS: dict[str, dict[str, Any]] = {
    "mixture": {"gammas": (0.6, 0.2, 0.2), "rank": 10, "radius": 2.0, "l2": 1.0},
    "likes alone": {"gammas": (0.0, 1.0, 0.0), "rho": 0.0, "rank": 16, "l2": 3.0},
}

#: Tables, each also with twice the columns, the iterations of their fits and how often these are made, in turns.
DOUBLED = ((20_000, 20_000, 2_000_000), (20_000, 20_000, 400_000))
ITERATIONS, TURNS = 12, 3


def fit_and_time(seen: Observations, backend: str, **settings: Any) -> tuple[Any, float]:
    """Return a model and the processor seconds of an iteration."""
    model = BinaryMatrixCompletion(
        **settings,
        l2_intercept=1.0,
        implicit_features=False,
        calibration=None,
        backend=backend,
        n_jobs=1,
        random_state=0,
    )
    began = time.process_time()
    model.fit(seen)
    return model, (time.process_time() - began) / model.n_iter_


def main(sizes: tuple[tuple[int, int, int], ...] = SIZES) -> None:
    """Print one row for each table and fit."""
    print(machine())
    rows = []
    for d1, d2, count in sizes:
        whole = skewed((d1, d2), count, seed=10)
        for name, settings in FITS.items():
            likes = whole.labels > 0
            seen = whole.hold_out(~likes)[0] if name == "likes alone" else whole
            exact, each = fit_and_time(seen, "exact", **settings)
            sampled, fewer = fit_and_time(seen, "sampled", **settings)
            objective = make_problem(
                seen,
                exact.spec_,
                arithmetic=Arithmetic(dtype="float64", n_jobs=1, backend="exact"),
                generator=None,
            ).objective
            least = objective.value(exact.unknowns_)
            gap = (objective.value(sampled.unknowns_) - least) / abs(least)
            sizes_of = f"{d1} x {d2}, {seen.n_observed}"
            rows.append((sizes_of, name, f"{100 * gap:+.3f}%", f"{each:.2f}", f"{fewer:.2f}"))
    print_table(
        "Exact objective of a sampled fit over that of the exact fit, and CPU seconds an iteration",
        ("table, entries", "fit", "gap", "exact", "sampled"),
        rows,
    )


def twice() -> None:
    """Print CPU seconds of an iteration of sampled mixtures over twice the columns."""
    print(machine())
    rows = []
    for d1, d2, count in DOUBLED:
        tables = [skewed((d1, width), count, seed=10) for width in (d2, 2 * d2)]
        settings = {**FITS["mixture"], "max_iter": ITERATIONS}
        turns = [
            [fit_and_time(seen, "sampled", **settings)[1] for seen in tables] for _ in range(TURNS)
        ]
        narrow, wide = (median(turn[i] for turn in turns) for i in range(2))
        sizes_of = f"{d1} x {d2}, {count}"
        rows.append(
            (sizes_of, f"{narrow:.2f}", f"{wide:.2f}", f"{100 * (wide / narrow - 1):+.0f}%")
        )
    print_table(
        f"Sampled mixture, CPU seconds an iteration, medians of {TURNS}",
        ("table, entries", "as it is", "twice the columns", "more"),
        rows,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["twice"]:
        twice()
    else:
        given = tuple(map(int, sys.argv[1:4]))
        main((given,) if len(given) == 3 else SIZES)  # type: ignore[arg-type]
