"""Seconds and memory that are printed before and now, and never compared."""

import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
from tests.pins.imports import BinaryMatrixCompletion, Observations, Recommender
from tests.pins.tables import exposed_table, named

ROOT = Path(__file__).parents[2]
SHAPE = (1000, 500)
FIXED = {"gammas": (1, 0, 0), "rank": 8, "l2": 5.0, "l2_intercept": 1.0, "n_jobs": 1}
FIXED |= {"implicit_features": True, "l2_implicit": 10.0, "random_state": 0}
#: Prints the peak memory, in MiB, of a fit at which tiles and features are larger than what the imports take.
MID_SIZE_FIT = """
from pathlib import Path
from tests.pins.imports import BinaryMatrixCompletion
from tests.pins.tables import sparse_table
seen = sparse_table((8000, 3000), count=300_000)
options = {"gammas": (0.6, 0.2, 0.2), "rank": 10, "radius": 2.0, "l2": 1.0, "l2_intercept": 1.0}
BinaryMatrixCompletion(**options, rho="constant", implicit_features=False, members=1, max_iter=5,
                       n_jobs=1, random_state=0).fit(seen)
# Of this process alone: the peak that getrusage tells begins with that of the process that started it.
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024)
"""


@cache
def fitted() -> Recommender:
    """Return a recommender of 1000 rows with ids."""
    seen = exposed_table(SHAPE, count=40_000, ids=True)
    return Recommender(BinaryMatrixCompletion(**FIXED), random_state=0).fit(seen)


def seconds_to_fold_in(n: int, repeats: int) -> float:
    """Return the least seconds in which a model folds in n rows of 20 entries each."""
    rng = np.random.default_rng(1)
    columns = np.concatenate([rng.choice(SHAPE[1], 20, replace=False) for _ in range(n)])
    rows, labels = np.repeat(np.arange(n), 20), rng.choice([-1, 1], 20 * n)
    ids = [f"new{k}" for k in range(n)], named(SHAPE)[1]
    given = Observations.from_pairs(
        rows, columns, labels, shape=(n, SHAPE[1]), row_ids=ids[0], column_ids=ids[1]
    )
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        fitted().model_.fold_in(given, prior="new")
        found.append(time.perf_counter() - start)
    return min(found)


def seconds_of_a_list() -> float:
    """Return the least seconds of ``tribit recommend model --for u7``, with the start of Python."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tribit"
        fitted().save(path)
        command = [sys.executable, "-m", "tribit", "recommend", str(path), "--for", "u7", "--json"]
        found = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            found.append(time.perf_counter() - start)
    return min(found)


def peak_memory() -> float:
    """Return the peak memory of a fit in a process of its own, in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", MID_SIZE_FIT],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TRIBIT_COMPILED": "0"},
    )
    return float(done.stdout)


TIMINGS = {
    "fold-in of 1 row": ("s", lambda: seconds_to_fold_in(1, 5)),
    "fold-in of 10,000 rows": ("s", lambda: seconds_to_fold_in(10_000, 2)),
    "a list of one user on the command line": ("s", seconds_of_a_list),
    "peak memory of a fit": ("MiB", peak_memory),
}
