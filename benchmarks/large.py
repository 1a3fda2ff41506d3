"""The shape of MovieLens-20M on the CPU: a mixture sweep, an L-BFGS iteration, search and fit; CPU seconds and memory.

``python -m benchmarks.large`` simulates the table once, in minutes and in a separate process with more memory than the
stages, and measures each stage in another: the peak is that of Python, the libraries, the table and the fit.
``python -m benchmarks.large FILE STAGE`` measures one stage on a saved table.
"""

import subprocess
import sys
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine, peak_megabytes, print_table

SHAPE, ENTRIES = (138_493, 26_744), 20_000_000
#: No default was tuned on tables of this seed.
SEED = 10
FIXED = {"calibration": None, "tol": 0.0, "random_state": 0}
MIXTURE = {
    "gammas": (0.8, 0.1, 0.1),
    "rank": 16,
    "radius": 4.0,
    "l2": 1.0,
    "l2_intercept": 1.0,
    "implicit_features": False,
    "backend": "exact",
    "max_iter": 2,
}
FEATURES = {
    "gammas": (1, 0, 0),
    "rank": 32,
    "l2": 12.0,
    "l2_intercept": 1.5,
    "implicit_features": True,
    "l2_implicit": 30.0,
    "activity_floor": (1.0, 1.0),
    "max_iter": 4,
}
#: Stages: an iteration of a fit, or all of it.
STAGES: dict[str, tuple[dict[str, Any], bool]] = {
    "exact mixture sweep, rank 16": (FIXED | MIXTURE, True),
    "L-BFGS iteration, implicit features, rank 32": (FIXED | FEATURES, True),
    "search and fit": ({"random_state": 0}, False),
}


def draw(path: str) -> None:
    """Simulate the table and save it."""
    from benchmarks.data import exposed

    seen = exposed(SHAPE, ENTRIES, seed=SEED)
    np.savez(
        path,
        rows=seen.rows.astype(np.int32),
        columns=seen.columns.astype(np.int32),
        labels=seen.labels,
    )


def measure(path: str, stage: str) -> None:
    """Print the CPU seconds of a stage, of all threads together, and the peak memory of the process."""
    from tribit import BinaryMatrixCompletion, Observations

    options, one = STAGES[stage]
    with np.load(path) as table:
        seen = Observations.from_pairs(*(table[name] for name in table.files), shape=SHAPE)
    began, marks = time.perf_counter(), [time.process_time()]

    def mark(_: Any = None) -> None:
        marks.append(time.process_time())

    model = BinaryMatrixCompletion(**options, callback=mark if one else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations are not meant to converge
        model.fit(seen)
    if one:  # what comes before the first is the start
        seconds = min(after - before for before, after in pairwise(marks[1:]))
    else:
        seconds = time.process_time() - marks[0]
        clock = time.perf_counter() - began
        end = f"{model.n_iter_} iterations of the last fit; {clock:.0f} s by the clock"
        print(model.search_, end, sep="\n", file=sys.stderr)
    peak = peak_megabytes()
    print(f"{seconds:.1f} {peak:.0f}")


def main() -> None:
    """Print one row for each stage."""
    print(machine())
    command = [sys.executable, "-m", "benchmarks.large"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "table.npz")
        subprocess.run([*command, path], check=True)
        for stage in STAGES:
            run = [*command, path, stage]
            answer = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds, peak = answer.split()
            rows.append((stage, f"{seconds} s", f"{peak} MB"))
    print_table(
        f"{SHAPE[0]:,} x {SHAPE[1]:,}, {ENTRIES:,} seen, drawn; every core",
        ("stage", "CPU seconds of all threads", "peak memory of the process"),
        rows,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            main()
        case [file]:
            draw(file)
        case [file, stage]:
            measure(file, stage)
