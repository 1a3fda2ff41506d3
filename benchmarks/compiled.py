"""Compiled kernels beside the same sums by NumPy, in one run: sweeps and gradients.

``python -m benchmarks.compiled search`` has search and fit with the defaults instead, on one thread.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.data import exposed, skewed
from benchmarks.measure import print_table
from tribit import (
    Arithmetic,
    BinaryMatrixCompletion,
    Logistic,
    Objective,
    Observations,
    Risk,
    evaluate,
    pn,
)
from tribit.backends.balls import RowProblem
from tribit.backends.compiled import VARIABLE
from tribit.backends.rows import RowState
from tribit.backends.threads import single_threaded_blas
from tribit.model.factors import Factors
from tribit.model.spec import ModelSpec

SHAPE, ENTRIES = (17_311, 26_744), 2_200_000
HEADER = ("work", "k", "NumPy", "compiled", "NumPy / compiled")
HEADER += tuple(f"{each}, 2 threads" for each in HEADER[2:])


def main(repeats: int = 7) -> None:
    """Print CPU seconds on one thread, and wall-clock seconds on two."""
    if find_spec("numba") is None:
        print('\nCompiled kernels are not installed: pip install "tribit[fast]"')
        return
    seen = skewed(SHAPE, ENTRIES)
    rows = []
    for name, work in WORKS.items():
        for k in (16, 32):
            cells = []
            for n_jobs, clock in ((1, time.process_time), (2, time.perf_counter)):
                runs = {}
                for wanted in ("0", "1"):
                    os.environ[VARIABLE] = wanted
                    runs[wanted] = work(seen, k, n_jobs)
                plain, fast = taken(runs["0"], runs["1"], clock, repeats)
                cells += [f"{plain:.3f}", f"{fast:.3f}", f"{plain / fast:.1f}"]
            rows.append((name, k, *cells))
    os.environ.pop(VARIABLE)
    print_table(
        f"Compiled kernels: CPU seconds of one thread, and seconds of two; {SHAPE[0]} x {SHAPE[1]}, {ENTRIES} observed",
        HEADER,
        rows,
    )


def taken(
    plain: Callable[[], object],
    fast: Callable[[], object],
    clock: Callable[[], float],
    repeats: int,
) -> list[float]:
    """Return the median seconds of both; they take turns, after one round to compile and warm up."""
    seconds: tuple[list[float], list[float]] = [], []
    with single_threaded_blas():
        for turn in range(repeats + 1):
            for run, found in zip((plain, fast), seconds, strict=True):
                began = clock()
                run()
                if turn:
                    found.append(clock() - began)
    return [statistics.median(each) for each in seconds]


def drawn(sizes: tuple[int, int], k: int) -> Factors:
    draws = np.random.default_rng(0)
    factors = [0.2 * draws.standard_normal((size, k)) for size in sizes]
    return Factors.of(*factors)


def sweep(
    seen: Observations, k: int, n_jobs: int, risk: Risk | None = None
) -> Callable[[], object]:
    risk = pn() if risk is None else risk
    objective = Objective(
        seen,
        Logistic(),
        risk,
        arithmetic=Arithmetic(dtype="float32", n_jobs=n_jobs),
        intercept=True,
    )
    factors, problem = drawn(seen.shape, k), RowProblem(k, True, 10.0, 1.0)
    P, Q = objective.product(factors)
    # Transposed, the columns of the two intercepts change places.
    swapped = [*range(k), k + 1, k]
    rows, columns = objective.backend, objective.backend.transposed

    def run() -> None:
        rows.half_sweep(P, Q, problem, RowState(seen.shape[0]))
        columns.half_sweep(Q[:, swapped], P[:, swapped], problem, RowState(seen.shape[1]))

    return run


def gradient(seen: Observations, k: int, n_jobs: int) -> Callable[[], object]:
    objective = Objective(
        seen,
        Logistic(),
        pn(),
        arithmetic=Arithmetic(dtype="float32", n_jobs=n_jobs),
        intercept=True,
    )
    factors = drawn(seen.shape, k)
    return lambda: objective.gradient(factors)


def featured(seen: Observations, k: int, n_jobs: int) -> tuple[Any, Factors]:
    """Return an objective with implicit features, and some unknowns."""
    spec = ModelSpec(rank=k, l2=10.0, l2_intercept=3.0, l2_implicit=20.0, implicit_features=True)
    objective = Objective.of(
        spec.with_default_radius(),
        seen,
        pn(),
        arithmetic=Arithmetic(dtype="float32", n_jobs=n_jobs),
    )
    return objective, drawn(objective.unknown_sizes, k)


def with_features(seen: Observations, k: int, n_jobs: int) -> Callable[[], object]:
    objective, factors = featured(seen, k, n_jobs)
    return lambda: objective.gradient(factors)


def search() -> None:
    """Print CPU seconds of search and fit on a million simulated entries, and the log-loss of a tenth of them."""
    train, test = exposed((6040, 3706), 1_000_209).split(0.1, random_state=0)
    rows = []
    for name, wanted in (("compiled, first", "1"), ("NumPy", "0"), ("compiled", "1")):
        os.environ[VARIABLE] = wanted
        began = time.process_time()
        model = BinaryMatrixCompletion(n_jobs=1, random_state=0).fit(train)
        spent = time.process_time() - began
        rows.append((name, f"{spent:.1f}", f"{evaluate(model, test).log_loss:.4f}"))
    print_table("Search and fit, one thread", ("kernels", "CPU seconds", "log-loss"), rows)


WORKS = {
    "PN sweep": sweep,
    "value and gradient": gradient,
    "the same with implicit features": with_features,
}

if __name__ == "__main__":
    (search if sys.argv[1:] == ["search"] else main)()
