"""Peak memory of a fit whose dense matrix would take gigabytes, in a process of its own."""

import subprocess
import sys

from benchmarks.measure import peak_megabytes, print_table

SHAPE, COUNT = (40_000, 20_000), 1_000_000


def fit() -> None:
    """Fit the mixture for three sweeps and print the process's peak memory, imports and data included."""
    import time
    import warnings

    from benchmarks.data import skewed
    from tribit import BinaryMatrixCompletion

    seen = skewed(SHAPE, COUNT)
    began = time.perf_counter()
    model = BinaryMatrixCompletion(
        (0.6, 0.2, 0.2),
        rank=10,
        radius=2.0,
        l2=1.0,
        l2_intercept=1.0,
        implicit_features=False,
        calibration=None,  # no search: all hyperparameters are given
        max_iter=3,
        tol=0.0,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three sweeps are not meant to converge
        model.fit(seen)
    seconds = time.perf_counter() - began
    print(f"{peak_megabytes():.0f} {model.n_iter_} {seconds:.1f}")


def main() -> None:
    """Print the peak beside the size of the dense matrix."""
    run = [sys.executable, "-c", "from benchmarks.memory import fit; fit()"]
    answer = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    peak, sweeps, seconds = answer.split()
    dense = SHAPE[0] * SHAPE[1] * 4 / 2**20
    print_table(
        f"Peak memory of a fit, {SHAPE[0]} x {SHAPE[1]}, {COUNT} observed, k = 10, mixture",
        ("dense float32 matrix, MB", "tribit, whole process, MB", "sweeps", "seconds"),
        [(f"{dense:.0f}", peak, sweeps, seconds)],
    )


if __name__ == "__main__":
    main()
