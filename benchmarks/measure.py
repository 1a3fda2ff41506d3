"""Timing on a noisy machine (peers take turns, medians are compared), peak memory, and tables."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from tribit.paper.experiments.journal import processor


def median_seconds(
    runs: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each run; they take turns, after one round to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            began = clock()
            run()
            if turn:
                seconds[name].append(clock() - began)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def peak_megabytes() -> float:
    """Return the peak memory of this process; getrusage of a child would start from its parent's peak."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def print_table(title: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(list(header)))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def machine() -> str:
    """Return the processor, its cores and the versions of Python and NumPy in one line."""
    return f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"
