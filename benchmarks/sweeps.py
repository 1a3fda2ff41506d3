"""One iteration over a large table beside other libraries, on two threads: a part of ``make bench-peers``.

A sweep moves every row and every column once. Those of implicit and of cmfrec are alternating least squares, by
Cholesky factorisations or by three steps of conjugate gradients; a sweep of tribit is Newton's method on the logistic
loss, with a line search for each row. All systems take turns in one process.
"""

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from benchmarks.compiled import ENTRIES, SHAPE, featured, sweep
from benchmarks.data import skewed
from benchmarks.measure import print_table
from benchmarks.peers import THREADS, matrix
from tribit import Observations, tri
from tribit.backends.compiled import VARIABLE
from tribit.backends.threads import single_threaded_blas
from tribit.solvers import LBFGS, Stopping

#: Returns the seconds of one iteration.
Timed = Callable[[], float]
#: Iterations of a peer that are counted, after as many as its preparations need.
COUNTED, BEFORE = 5, 2


def main(repeats: int = 5) -> None:
    """Print wall-clock seconds: peers and tribit on the observed signs, and what has no peer."""
    seen = skewed(SHAPE, ENTRIES)
    size = f"{SHAPE[0]} x {SHAPE[1]}, {ENTRIES} observed, {THREADS} threads, wall-clock seconds"
    systems = {name: make for name, make in SWEEPS.items() if find_spec(name.split(",")[0])}
    beside, alone = [], []
    for k in (16, 32):
        taken = medians({name: make(seen, k) for name, make in systems.items()}, repeats)
        ours = taken["tribit, compiled"]
        beside.append((k, *(f"{each:.3f} ({each / ours:.1f})" for each in taken.values())))
        alone.append((k, *(f"{each:.3f}" for each in medians(without_peers(seen, k), 3).values())))
    title = f"One sweep, and in brackets over that of the compiled kernels: {size}"
    print_table(title, ("k", *systems), beside)
    header = ("k", "mixture, sweep", "its tiles alone", "L-BFGS iteration with implicit features")
    print_table(f"What has no peer: {size}", header, alone)


def medians(runs: dict[str, Timed], repeats: int) -> dict[str, float]:
    """Return the median of each; they take turns, after one round to compile and warm up."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    with single_threaded_blas():
        for turn in range(repeats + 1):
            for name, run in runs.items():
                seconds = run()
                if turn:
                    found[name].append(seconds)
    return {name: statistics.median(each) for name, each in found.items()}


def implicit_als(seen: Observations, k: int, *, cg: bool) -> Timed:
    from implicit.als import AlternatingLeastSquares

    table = matrix(seen)
    table.data[:] = 1.0

    def run() -> float:
        seconds: list[float] = []
        model = AlternatingLeastSquares(
            factors=k,
            regularization=10.0,
            iterations=BEFORE + COUNTED,
            num_threads=THREADS,
            random_state=0,
            use_cg=cg,
        )
        model.fit(table, show_progress=False, callback=lambda *told: seconds.append(told[1]))
        return statistics.median(seconds[BEFORE:])

    return run


def cmfrec_als(seen: Observations, k: int, *, cg: bool) -> Timed:
    from cmfrec import CMF

    table = matrix(seen).tocoo()

    def fit(iterations: int) -> float:
        model = CMF(
            k=k,
            lambda_=10.0,
            niter=iterations,
            nthreads=THREADS,
            random_state=0,
            verbose=False,
            use_cg=cg,
            finalize_chol=False,
        )
        began = time.perf_counter()
        model.fit(table)
        return time.perf_counter() - began

    return lambda: (fit(BEFORE + COUNTED) - fit(BEFORE)) / COUNTED


def timed(run: Callable[[], object]) -> Timed:
    def seconds() -> float:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    return seconds


def newton(seen: Observations, k: int, *, compiled: str) -> Timed:
    os.environ[VARIABLE] = compiled
    return timed(sweep(seen, k, THREADS))


def lbfgs(seen: Observations, k: int) -> Timed:
    """Return the median iteration of a fit, after the first ones."""
    os.environ[VARIABLE] = "1"
    objective, start = featured(seen, k, THREADS)

    def run() -> float:
        stopping, draws = Stopping(tol=0.0, max_iter=25), np.random.default_rng(0)
        history = LBFGS().minimise(objective, [], start, stopping, draws).history
        ends = [each.seconds for each in history[-15:]]
        return statistics.median(np.diff(ends))

    return run


#: Systems on the observed entries alone.
SWEEPS: dict[str, Callable[[Observations, int], Timed]] = {
    "implicit, Cholesky": partial(implicit_als, cg=False),
    "implicit, CG": partial(implicit_als, cg=True),
    "cmfrec, Cholesky": partial(cmfrec_als, cg=False),
    "cmfrec, CG": partial(cmfrec_als, cg=True),
    "tribit, NumPy": partial(newton, compiled="0"),
    "tribit, compiled": partial(newton, compiled="1"),
}


def without_peers(seen: Observations, k: int) -> dict[str, Timed]:
    few, _ = seen.hold_out(np.random.default_rng(0).random(seen.n_observed) < 0.999)
    mixture = tri(0.8, 0.1, 0.1, 1.0 - seen.density)
    return {
        "mixture": timed(sweep(seen, k, THREADS, mixture)),
        "tiles": timed(sweep(few, k, THREADS, mixture)),
        "L-BFGS": lbfgs(seen, k),
    }


if __name__ == "__main__":
    main()
