"""One exact gradient of the mixture over every entry, against the plain formula and the bare products."""

import numpy as np
from scipy.special import expit

from benchmarks.data import skewed
from benchmarks.measure import median_seconds, print_table
from tribit import Arithmetic, Logistic, Objective, Observations, tri
from tribit.backends import tiles
from tribit.backends.threads import single_threaded_blas

SHAPE, COUNT = (6040, 3706), 1_000_209


def main(repeats: int = 7) -> None:
    """Print the time of a gradient for k = 10 and 32, one core each."""
    seen = skewed(SHAPE, COUNT)
    entries = SHAPE[0] * SHAPE[1]
    rows = []
    for k in (10, 32):
        times = _times(seen, k, repeats)
        cells = [f"{1e9 * times[name] / entries:.2f}" for name in ("plain", "bare", "ours")]
        rows.append(
            (
                k,
                *cells,
                f"{times['plain'] / times['ours']:.1f}",
                f"{times['ours'] / times['bare']:.2f}",
            )
        )
    print_table(
        f"Gradient of the mixture, {SHAPE[0]} x {SHAPE[1]}, {COUNT} observed, float32, one core",
        (
            "k",
            "plain NumPy formula, ns an entry",
            "three bare products of the tiles",
            "tribit",
            "plain / tribit",
            "tribit / bare",
        ),
        rows,
    )


def _times(seen: Observations, k: int, repeats: int) -> dict[str, float]:
    rng = np.random.default_rng(1)
    U = (rng.standard_normal((SHAPE[0], k)) / k**0.5).astype(np.float32)
    V = (rng.standard_normal((SHAPE[1], k)) / k**0.5).astype(np.float32)
    risk = tri(0.6, 0.2, 0.2, 1.0 - seen.density)
    backend = Objective(
        seen, Logistic(), risk, arithmetic=Arithmetic(dtype="float32", n_jobs=1)
    ).backend
    table = risk.table().astype(np.float32)
    A = seen.to_sparse().toarray()
    plus, minus = table[1 - A, 0], table[1 - A, 1]
    runs = {
        "plain": lambda: _plain(U, V, plus, minus),
        "bare": lambda: _bare(U, V),
        "ours": lambda: backend.gradient(U, V, value=False),
    }
    _, in_U, in_V = runs["ours"]()
    expected = _plain(U.astype(np.float64), V.astype(np.float64), plus, minus)
    for ours, theirs in zip((in_U, in_V), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4 * np.abs(theirs).max())
    with single_threaded_blas():
        return median_seconds(runs, repeats)


def _plain(U: np.ndarray, V: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> tuple:
    """Return the gradient by the formula of the paper, the weights of each entry laid out beforehand."""
    X = U @ V.T
    G = minus * expit(X) - plus * expit(-X)
    return G @ V, G.T @ U


def _bare(U: np.ndarray, V: np.ndarray) -> None:
    """Do the three products of each tile and nothing else."""
    height, width = tiles.HEIGHT, tiles.WIDTH
    store = np.empty(height * width, dtype=U.dtype)
    in_U, in_V = np.zeros(U.shape), np.zeros(V.shape)
    for i in range(0, U.shape[0], height):
        P = U[i : i + height]
        for j in range(0, V.shape[0], width):
            Q = V[j : j + width]
            tile = store[: P.shape[0] * Q.shape[0]].reshape(P.shape[0], Q.shape[0])
            np.matmul(P, Q.T, out=tile)
            in_U[i : i + height] += tile @ Q
            in_V[j : j + width] += tile.T @ P


if __name__ == "__main__":
    main()
