"""Costs of one partition on one core and of the scheduler's tasks, and the sums for a table on a cluster.

``python -m benchmarks.cluster`` prints the tables of the manual. A partition has the width and the density of the
table that is sized, and is measured without a cluster: CPU seconds, medians. Tasks and bytes are measured on a
scheduler with two workers on this machine.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from benchmarks.data import skewed
from benchmarks.measure import machine, print_table
from tribit import Logistic
from tribit.backends.balls import RowProblem, solve_ball_constrained_rows
from tribit.backends.threads import single_threaded_blas
from tribit.cluster import backend, observations, parts
from tribit.metrics.full_ranking import count_part
from tribit.model.risks import pn, tri

#: The table that is sized, and the columns of its factors.
ROWS, COLUMNS, ENTRIES, RANK = 10**8, 10**6, 10**10, 32
#: Entries of the partition that is measured, and of each on paper: nothing is said of other sizes.
PART_ENTRIES = observations.PARTITION_ENTRIES
PROBLEM = RowProblem(RANK, True, 5.0, 3.0)
#: Bytes of a column's curvature, value and gradient, and the columns of a block.
PACKED = PROBLEM.free * (PROBLEM.free + 1) // 2 * 4
MODEL = PACKED + 8 * (PROBLEM.free + 1)
WIDTH = backend.BLOCK_BYTES // PACKED // backend.BLOCK_MULTIPLE * backend.BLOCK_MULTIPLE
#: Cells of the dense term that are measured.
DENSE = (1024, 40_000)
#: The cluster on paper: machines, threads of each, and the bytes each sends in a second (25 Gbit).
MACHINES, THREADS, NETWORK = 100, 16, 25e9 / 8


def cpu(run: Callable[[], object], repeats: int = 3) -> float:
    """Return the median CPU seconds of a call, after one to warm up."""
    run()
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def drawn(entries: int) -> tuple[parts.Partition, np.ndarray, np.ndarray]:
    """Return a partition with so many entries, and factors of its rows and of all columns."""
    rows = entries // (ENTRIES // ROWS)
    part = parts.Partition(skewed((rows, COLUMNS), entries), np.arange(rows), rows)
    draws = np.random.default_rng(0)
    P, Q = (draws.normal(size=(n, RANK + 2)).astype(np.float32) for n in (rows, COLUMNS))
    return part, P, Q


def partition_costs() -> dict[str, float]:
    """Return CPU seconds of each pass for each entry, of all columns of the partition, and of a row's solve."""
    part, P, Q = drawn(PART_ENTRIES)
    began = time.process_time()
    held = parts.PartBackend(part, Logistic(), pn(), "float32")
    costs = {"make": time.process_time() - began}
    costs["gradient"] = cpu(lambda: parts.gradient(held, P, Q, value=True))
    moving = {"problem": PROBLEM, "tightness": 1.0, "value": True}
    start = P.astype(np.float64), np.zeros(P.shape[0])
    costs["rows"] = cpu(lambda: parts.half_sweep(held, *start, Q, **moving))
    costs = {name: seconds / PART_ENTRIES for name, seconds in costs.items()}
    # Not for each entry: what a column costs hardly depends on how many entries it has.
    costs["columns"] = column_cost(held, P, Q)
    free = PROBLEM.free
    draws = np.random.default_rng(0)
    S = draws.normal(size=(4096, free, free))
    S = S @ S.transpose(0, 2, 1)
    given = draws.normal(size=(4096, free)), S, draws.normal(size=(4096, free)), np.zeros(4096)
    costs["solve"] = cpu(lambda: solve_ball_constrained_rows(*given, PROBLEM, 1e-7)) / 4096
    return costs


def column_cost(held: parts.PartBackend, P: np.ndarray, Q: np.ndarray) -> float:
    """Return CPU seconds of models and values of all columns of the partition, from some of their blocks."""
    options = {"free": PROBLEM.free, "exact": True, "value": True}
    taken = []
    for start in range(0, COLUMNS - WIDTH, COLUMNS // 4):
        columns = start, start + WIDTH
        Q_block = Q[start : start + WIDTH]

        def both(columns=columns, Q_block=Q_block):
            parts.column_models(held, P, Q_block, columns=columns, **options)
            parts.column_values(held, P, Q_block, columns=columns)

        taken.append(cpu(both, 1))
    return statistics.mean(taken) * COLUMNS / WIDTH


def dense_cost() -> float:
    """Return CPU seconds of a gradient of the mixture for each 10^9 cells."""
    seen = skewed(DENSE, DENSE[0] * 100)
    part = parts.Partition(seen, np.arange(DENSE[0]), DENSE[0])
    held = parts.PartBackend(part, Logistic(), tri(0.6, 0.2, 0.2, 0.99), "float32")
    draws = np.random.default_rng(0)
    P, Q = (0.1 * draws.normal(size=(size, RANK)).astype(np.float32) for size in DENSE)
    return cpu(lambda: parts.gradient(held, P, Q, value=True)) * 1e9 / (DENSE[0] * DENSE[1])


def unseen_cost() -> float:
    """Return CPU seconds of the scores of unseen cells in bins, for each 10^9 cells: a candidate of likes alone."""
    seen = skewed(DENSE, DENSE[0] * 100)
    part = parts.Partition(seen, np.arange(DENSE[0]), DENSE[0])
    draws = np.random.default_rng(0)
    P, Q = (0.1 * draws.normal(size=(size, RANK)).astype(np.float32) for size in DENSE)
    hidden = sp.csr_array(DENSE)
    options = {"Q": Q, "scale": np.float32(500.0), "transform": None}

    def run():
        return parts.applied(part, P, hidden, to=count_part, **options)

    return cpu(run) * 1e9 / (DENSE[0] * DENSE[1])


def _nothing(number: int) -> int:
    return number


def _array(megabytes: int) -> np.ndarray:
    return np.zeros(megabytes * 2**17)


def _bytes(array: np.ndarray) -> int:
    return array.nbytes


def scheduler_costs() -> tuple[float, float]:
    """Return seconds of a task that does nothing, and of a byte from one worker to another, on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        workers = sorted(client.scheduler_info()["workers"])
        n = 2000
        client.gather(client.map(_nothing, range(10), pure=False))
        began = time.perf_counter()
        client.gather(client.map(_nothing, range(n), pure=False))
        task = (time.perf_counter() - began) / n
        taken = []
        for _ in range(3):
            held = client.submit(_array, 128, workers=workers[0], pure=False)
            client.gather(client.submit(_bytes, held, workers=workers[0], pure=False))
            began = time.perf_counter()
            client.gather(client.submit(_bytes, held, workers=workers[1], pure=False))
            taken.append((time.perf_counter() - began) / (128 * 2**20))
    return task, statistics.median(taken)


def main() -> None:
    """Print the measurements, and the sizing that follows from them."""
    with single_threaded_blas():
        costs, dense, unseen = partition_costs(), dense_cost(), unseen_cost()
    task, byte = scheduler_costs()
    print(machine())
    print_table(
        f"A partition with {COLUMNS} columns, {PART_ENTRIES} entries, k = {RANK}, float32, one core",
        ("what", "CPU seconds"),
        (
            ("make the backend, a million entries", f"{1e6 * costs['make']:.2f}"),
            ("gradient, a million entries", f"{1e6 * costs['gradient']:.2f}"),
            ("half-sweep over rows, a million entries", f"{1e6 * costs['rows']:.2f}"),
            ("models and values of all columns, the partition", f"{costs['columns']:.1f}"),
            ("one solve of a row or column", f"{costs['solve']:.1e}"),
            ("gradient of a mixture, 10^9 cells", f"{dense:.1f}"),
            ("scores of unseen cells in bins, 10^9 cells", f"{unseen:.1f}"),
            ("a task that does nothing (two workers here, wall time)", f"{task:.1e}"),
            ("a gigabyte from worker to worker (here, wall time)", f"{byte * 1e9:.1f}"),
        ),
    )
    n = ENTRIES // PART_ENTRIES
    P, Q = ROWS * (RANK + 2) * 4, COLUMNS * (RANK + 2) * 4
    tree = 1 / 7  # additions for each leaf of a tree with 8 branches
    blocks = -(-COLUMNS // WIDTH)
    # In each: core seconds, tasks, bytes that workers send one another, bytes through the driver, its own seconds.
    # P travels in float32 to gradients and columns, and in float64 to rows that move and back from both.
    passes = {
        "gradient": (costs["gradient"] * ENTRIES, n * (3 + tree), n * 2 * Q, 3 * P, 0.0),
        "half-sweep over rows": (costs["rows"] * ENTRIES, n, MACHINES * Q, 4 * P, 0.0),
        "half-sweep over columns": (
            costs["columns"] * n,
            n * (1 + blocks * (2 + 2 * tree)),
            n * COLUMNS * MODEL,
            P + COLUMNS * MODEL,
            COLUMNS * costs["solve"],
        ),
        "gradient of a mixture": (
            dense * 1e-9 * ROWS * COLUMNS,
            n * (3 + tree),
            n * 2 * Q,
            3 * P,
            0.0,
        ),
    }
    print_table(
        f"On paper: 10^8 x 10^6, 10^10 entries, k = {RANK}, {n} partitions, {MACHINES} machines of {THREADS} threads, "
        "25 Gbit/s between workers; the driver at the rate measured here",
        (
            "pass",
            "work, s",
            "tasks, s",
            "between workers",
            "through the driver",
            "driver's work, s",
        ),
        (
            (
                name,
                f"{work / (MACHINES * THREADS):.0f}",
                f"{task * tasks:.0f}",
                f"{sent / MACHINES / 1e9:.1f} GB each, {sent / MACHINES / NETWORK:.1f} s",
                f"{driver / 1e9:.0f} GB, {driver * byte:.0f} s",
                f"{own:.0f}",
            )
            for name, (work, tasks, sent, driver, own) in passes.items()
        ),
    )


if __name__ == "__main__":
    main()
