"""A hundred million entries on one machine, by the command line: ``python -m benchmarks.huge [FOLDER]``.

A table of the shape of the Netflix prize (480,189 x 17,770) is simulated with self-selected entries
(:func:`benchmarks.data.exposed`, in blocks) and written as parquet. ``tribit fit`` and the top-10 lists of all rows
(``tribit recommend``) then run in processes of their own. The table is kept in FOLDER, for another run. There is no
ranker: with so many columns it solves a regression for each row. ``python -m benchmarks.huge FOLDER cluster`` fits
factors of given hyperparameters there and on a dask cluster of two workers with 6 GB each.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import machine, print_table

SHAPE, ENTRIES, RANK = (480_189, 17_770), 100_000_000, 6
#: No default was tuned on tables of this seed.
SEED = 10
#: Rows that are simulated at once, as a group of the file.
BLOCK = 20_000


def blocks(shape: tuple[int, int], count: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the entries of some rows at a time: each row chooses columns by taste and popularity."""
    rng = np.random.default_rng(seed)
    activity, popularity = rng.lognormal(0, 1, shape[0]), rng.normal(0, 1.5, shape[1])
    sizes = np.clip((count * activity / activity.sum()).round().astype(int), 5, shape[1] // 3)
    V = (rng.standard_normal((shape[1], RANK)) / np.sqrt(2)).astype(np.float32)
    good, popularity = rng.normal(0, 0.6, shape[1]), popularity.astype(np.float32)
    for start in range(0, shape[0], BLOCK):
        here = sizes[start : start + BLOCK]
        columns, scores = [], []
        for size in here:
            taste = V @ rng.standard_normal(RANK, dtype=np.float32)
            # The smallest of exponential variables over weights are a sample in proportion to the weights.
            drawn = rng.standard_exponential(shape[1], dtype=np.float32)
            keys = np.log(np.maximum(drawn, np.finfo(np.float32).tiny))
            chosen = np.argpartition(keys - taste - popularity, size)[:size]
            x = 0.6 * taste + 0.2 + rng.normal(0, 0.5) + good + 0.2 * popularity
            columns.append(np.sort(chosen))
            scores.append(x[columns[-1]])
        x = np.concatenate(scores)
        labels = np.where(rng.random(x.size) < 1 / (1 + np.exp(-x)), 1, -1).astype(np.int8)
        yield pa.record_batch(
            {
                "user": pa.array(
                    np.repeat(np.arange(start, start + here.size, dtype=np.int32), here)
                ),
                "item": pa.array(np.concatenate(columns).astype(np.int32)),
                "label": pa.array(labels),
            }
        )


def write(path: Path) -> None:
    """Write the table, under its name once it is complete."""
    part = path.with_suffix(".part")
    with pq.ParquetWriter(
        part, pa.schema({"user": pa.int32(), "item": pa.int32(), "label": pa.int8()})
    ) as writer:
        for batch in blocks(SHAPE, ENTRIES, SEED):
            writer.write_batch(batch)
    part.rename(path)


def run(command: list[str]) -> tuple[float, float, float, str]:
    """Return wall-clock and processor seconds, peak memory in GB, and the output of a command of tribit."""
    code = (
        "import resource, sys, runpy\n"
        "try:\n    runpy.run_module('tribit', run_name='__main__')\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print('USED', used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)\n"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"tribit {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    *_, processor, peak = done.stderr.rsplit("USED", 1)[-1].split()
    return seconds, float(processor), float(peak) / 2**20, done.stdout


#: One fit, cut short after a few sweeps, on one machine and on a cluster.
FIXED = {"rank": 10, "l2": 20.0, "l2_intercept": 10.0, "implicit_features": False, "gammas": (1, 0, 0),
         "search": False, "tol": 0.0, "max_iter": 3, "random_state": 0}  # fmt: skip
N_WORKERS, WORKER_MEMORY = 2, "6GB"


def split(table: Path, folder: Path) -> None:
    """Write each block of rows as a file of its own, which a worker reads."""
    folder.mkdir(exist_ok=True)
    with pq.ParquetFile(table) as file:
        for number in range(file.num_row_groups):
            pq.write_table(file.read_row_group(number), folder / f"{number:03}.parquet")


def fit_here(table: Path) -> None:
    """Fit on this machine, and print objective and iterations."""
    from tribit import BinaryMatrixCompletion
    from tribit.data.reading import observations_from_file

    seen = observations_from_file(table, row="user", column="item", value="label")
    report(BinaryMatrixCompletion(**FIXED).fit(seen))


def fit_on_workers(table: Path) -> None:
    """Fit on a cluster of two processes, and print objective and iterations."""
    from distributed import Client, LocalCluster

    from tribit import BinaryMatrixCompletion
    from tribit.cluster import from_parquet

    workers = {"n_workers": N_WORKERS, "threads_per_worker": 1, "memory_limit": WORKER_MEMORY}
    parts = table.with_suffix(".parts")
    with LocalCluster(**workers, dashboard_address=None) as cluster, Client(cluster) as client:
        seen = from_parquet(parts, client, row="user", column="item", value="label")
        report(BinaryMatrixCompletion(**FIXED).fit(seen, client=client))


def report(model: object) -> None:
    """Print what both fits are compared by."""
    print(
        "FIT", model.objective_, model.n_iter_, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    )


def compare(folder: Path) -> None:
    """Print a row for each place of the fit."""
    table = folder / "big.parquet"
    if not table.exists():
        write(table)
    if not table.with_suffix(".parts").exists():
        split(table, table.with_suffix(".parts"))
    rows, objectives = [], []
    for name, function in (("one machine", "fit_here"), ("two workers", "fit_on_workers")):
        code = (
            "from pathlib import Path\nfrom benchmarks import huge\n"
            f"if __name__ == '__main__':\n    huge.{function}(Path({str(table)!r}))\n"
        )
        began = time.perf_counter()
        with tempfile.NamedTemporaryFile(
            "w", suffix=".py"
        ) as script:  # workers are spawned from a file
            script.write(code)
            script.flush()
            done = subprocess.run(
                [sys.executable, script.name], capture_output=True, text=True, check=False,
                env=os.environ | {"PYTHONPATH": "."},
            )  # fmt: skip
        seconds = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
        objective, n_iter, peak = done.stdout.rsplit("FIT", 1)[-1].split()
        objectives.append(float(objective))
        rows.append(
            (name, f"{seconds / 60:.1f} min", f"{float(peak) / 2**20:.1f} GB", n_iter, objective)
        )
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print_table(
        f"One fit of rank {FIXED['rank']} on one machine, and on {N_WORKERS} workers of {WORKER_MEMORY} each",
        (
            "place",
            "wall clock, with reading",
            "peak memory of this process",
            "iterations",
            "objective",
        ),
        rows,
    )
    print(f"\nRelative difference of the objectives: {abs(objectives[1] / objectives[0] - 1):.1e}.")


def main(folder: Path) -> None:
    """Print a row for each command."""
    table, model, lists = (folder / name for name in ("big.parquet", "big.tribit", "lists.parquet"))
    if not table.exists():
        write(table)
    n = pq.ParquetFile(table).metadata.num_rows
    commands = {
        "search and fit": [
            "fit", str(table), "-o", str(model), "--row", "user", "--column", "item",
            "--value", "label", "--ranker", "no", "--random-state", "0",
        ],
        "top-10 lists of all rows": ["recommend", str(model), "-o", str(lists)],
    }  # fmt: skip
    rows, printed = [], ""
    for name, command in commands.items():
        seconds, processor, peak, output = run(command)
        printed = printed or output
        rows.append(
            (name, f"{seconds / 60:.1f} min", f"{processor / 60:.1f} min", f"{peak:.1f} GB")
        )
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print(machine())
    print_table(
        f"{SHAPE[0]:,} x {SHAPE[1]:,}, {n:,} entries of {table.stat().st_size / 2**20:.0f} MB of parquet",
        ("command", "wall clock", "processor time", "peak memory"),
        rows,
    )
    print(f"\n```text\n{printed.strip().replace(str(folder) + '/', '')}\n```")


if __name__ == "__main__":
    if sys.argv[2:] == ["cluster"]:
        compare(Path(sys.argv[1]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
