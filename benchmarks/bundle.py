"""Size of a saved recommender of a million entries, and time and memory of ``tribit recommend`` for one row."""

import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.data import skewed
from benchmarks.measure import print_table
from tribit import BinaryMatrixCompletion, Observations, Recommender

SHAPE, COUNT = (6040, 3706), 1_000_000
#: The model family that the search chooses for such tables; the values do not change size or speed.
SETTINGS = {
    "rank": 40,
    "l2": 20.0,
    "l2_intercept": 5.0,
    "implicit_features": True,
    "l2_implicit": 30.0,
}
REPEATS = 5
#: Runs the command line in a process and prints its seconds and its peak memory in MB; imports included.
RUN = """
import sys, time
from benchmarks.measure import peak_megabytes
began = time.perf_counter()
from tribit.cli import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write(f"{time.perf_counter() - began:.2f} {peak_megabytes():.0f}")
"""


def simulate_seen() -> Observations:
    """Return entries of skewed popularity with text ids, as from a file."""
    seen = skewed(SHAPE, COUNT)
    return Observations.from_pairs(
        seen.rows,
        seen.columns,
        seen.labels,
        shape=seen.shape,
        row_ids=[f"user{n}" for n in range(SHAPE[0])],
        column_ids=[f"item{n}" for n in range(SHAPE[1])],
    )


def main() -> None:
    """Print the table."""
    seen = simulate_seen()
    model = BinaryMatrixCompletion((1, 0, 0), **SETTINGS, members=1, max_iter=30, random_state=0)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thirty iterations are not meant to converge
        recommender = Recommender(model, random_state=0).fit(seen)
    fitted = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.tribit"
        recommender.save(path)
        size = path.stat().st_size / 2**20
        command = [sys.executable, "-c", RUN, "recommend", str(path), "--for", "user17"]
        runs = [
            subprocess.run(command, check=True, capture_output=True, text=True).stderr.split()
            for _ in range(REPEATS)
        ]
    seconds, peak = (statistics.median(float(run[place]) for run in runs) for place in (0, 1))
    print_table(
        f"One list from a bundle, {SHAPE[0]} x {SHAPE[1]}, {COUNT} observed, k = 40",
        ("fit, s", "bundle, MB", "tribit recommend --for, s with start-up", "peak memory, MB"),
        [(f"{fitted:.1f}", f"{size:.1f}", f"{seconds:.2f}", f"{peak:.0f}")],
    )


if __name__ == "__main__":
    main()
