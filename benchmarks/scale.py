"""CPU seconds and peak memory of each stage over the size of a table, each in a process of its own.

Tables are simulated with the margins of real ones (``benchmarks.data.skewed``). ``python -m benchmarks.scale`` prints
the table of the manual; ``python -m benchmarks.scale STAGE ROWS COLUMNS ENTRIES`` measures one stage.
"""

import subprocess
import sys
import time

from benchmarks.measure import machine, peak_megabytes, print_table

STAGES = ("read", "one fit", "ranker", "lists", "search and fit")
#: MovieLens-100k, MovieLens-1M, a table with many columns, and a signed graph, which has no lists.
SIZES = {
    (943, 1682, 100_000): STAGES,
    (6040, 3706, 1_000_000): STAGES,
    (40_000, 20_000, 1_000_000): STAGES,
    (131_308, 131_308, 880_000): ("read", "one fit", "search and fit"),
}
#: Limit of a stage; a longer one is printed as such.
TIMEOUT_SECONDS = 400
#: Number of rows with lists.
ROWS = 1000


def measure(stage: str, rows: int, columns: int, entries: int) -> None:
    """Print the CPU seconds of a stage, and the peak memory of the process with the data."""
    from benchmarks.data import skewed
    from tribit import BinaryMatrixCompletion
    from tribit.ranking import CandidateRanker

    seen = skewed((rows, columns), entries)
    fixed = {"l2": 8.0, "l2_intercept": 3.0, "calibration": None, "random_state": 0, "n_jobs": 1}
    plain = BinaryMatrixCompletion((1, 0, 0), rank=10, implicit_features=False, **fixed)
    if stage == "lists":
        model, ranker = plain.fit(seen), CandidateRanker(random_state=0, n_jobs=1).fit(seen)
    began = time.process_time()
    match stage:
        case "read":
            pass
        case "one fit":
            plain.fit(seen)
        case "search and fit":
            BinaryMatrixCompletion(random_state=0, n_jobs=1).fit(seen)
        case "ranker":
            CandidateRanker(random_state=0, n_jobs=1).fit(seen)
        case "lists":
            model.recommend(range(ROWS if rows > ROWS else rows), exclude_seen=seen, ranker=ranker)
    seconds = time.process_time() - began
    print(f"{seconds:.1f} {peak_megabytes():.0f}")


def measure_in_process(stage: str, size: tuple[int, int, int]) -> str:
    """Return seconds and memory of a stage as a cell of the table."""
    run = [sys.executable, "-m", "benchmarks.scale", stage, *map(str, size)]
    try:
        done = subprocess.run(
            run, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"over {TIMEOUT_SECONDS} s"
    seconds, peak = done.stdout.split()
    return f"{peak} MB" if stage == "read" else f"{seconds} s, {peak} MB"


def main() -> None:
    """Print one row for each size."""
    print(machine())
    rows = [
        (
            f"{size[0]} x {size[1]}, {size[2]}",
            *(measure_in_process(stage, size) if stage in asked else "" for stage in STAGES),
        )
        for size, asked in SIZES.items()
    ]
    print_table(
        "CPU seconds of one core and peak memory of the process, by stage",
        ("rows x columns, entries", "data alone", *STAGES[1:]),
        rows,
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(sys.argv[1], *map(int, sys.argv[2:5]))
    else:
        main()
