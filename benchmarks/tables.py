"""Log-loss of the defaults on six tables of signs, and its range over seeds: ``python -m benchmarks.tables``.

Splits 0 to 2 of each table, on 90% of its entries (a fifth of the cells of a whole table); search and fit with
``random_state`` 0 to 3. Beside it are the biases, the single best model (``members=1``), and every penalty without the
number of entries (``l2_power=0``). Choices of the search were made on splits from 10 on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import FOLDER
from benchmarks.measure import print_table
from tribit import BinaryMatrixCompletion, Observations
from tribit.evaluation.held_out import evaluate

Integers = NDArray[np.int64]
#: Splits that are reported, and seeds of the search.
SPLITS, SEEDS = range(3), range(4)
#: Log-loss to reach, and range over seeds.
GOALS = {
    "senate": (0.339, 0.003),
    "polis-vtaiwan": (0.342, 0.0015),
    "bitcoin-alpha": (0.116, 0.002),
    "commonsense": (0.281, 0.0015),
    "ifeval": (0.364, 0.001),
    "ml-100k": (0.519, 0.0007),
}
#: Share of the cells of a whole table that is observed, and number of the others that are test cells.
SEEN, N_TEST = 0.2, 20_000


def entries(
    rows: Integers, columns: Integers, signs: Integers, *, square: bool = False
) -> tuple[NDArray[Any], tuple[int, int]]:
    """Return the first sign of each pair, by row and column, with positions in the place of ids."""
    kept = signs != 0
    rows, columns, signs = rows[kept], columns[kept], np.sign(signs[kept])
    if square:  # one set of nodes on both sides
        nodes = np.unique(np.concatenate([rows, columns]))
        rows, columns = (np.searchsorted(nodes, side) for side in (rows, columns))
        shape = nodes.size, nodes.size
    else:
        (row_ids, rows), (column_ids, columns) = (
            np.unique(side, return_inverse=True) for side in (rows, columns)
        )
        shape = row_ids.size, column_ids.size
    _, first = np.unique(rows * shape[1] + columns, return_index=True)
    return np.column_stack([rows, columns, signs])[first], shape


def movielens(folder: Path) -> tuple[NDArray[Any], tuple[int, int]]:
    """Return ratings of MovieLens-100k: from 4 stars on a like."""
    table = np.loadtxt(folder / "u.data", dtype=np.int64)
    return entries(table[:, 0], table[:, 1], np.where(table[:, 2] >= 4, 1, -1))


def senate(folder: Path) -> tuple[NDArray[Any], tuple[int, int]]:
    """Return the votes of senators."""
    table = np.loadtxt(folder / "senate1to10.txt", dtype=np.int64)[1:]
    return entries(table[:, 0], table[:, 1], table[:, 2])


def bitcoin_alpha(folder: Path) -> tuple[NDArray[Any], tuple[int, int]]:
    """Return signed trust between users."""
    table = np.loadtxt(folder / "soc-sign-bitcoinalpha.csv", delimiter=",", skiprows=1)
    table = table[:, :3].astype(np.int64)
    return entries(table[:, 0], table[:, 1], table[:, 2], square=True)


def vtaiwan(folder: Path) -> tuple[NDArray[Any], tuple[int, int]]:
    """Return opinions on statements: the last vote of a person counts, a pass is left out."""
    table = np.loadtxt(folder / "votes.csv", delimiter=",", skiprows=1, dtype=np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")][::-1]
    _, last = np.unique(table[:, 2] * 10_000 + table[:, 1], return_index=True)
    return entries(table[last, 2], table[last, 1], table[last, 3])


PARTLY_SEEN = {
    "senate": senate,
    "polis-vtaiwan": vtaiwan,
    "bitcoin-alpha": bitcoin_alpha,
    "ml-100k": movielens,
}


def load(name: str) -> Callable[[int], tuple[Observations, Observations]]:
    """Return a function of a split: its training and its test entries."""
    assert FOLDER is not None
    if name in PARTLY_SEEN:
        found, shape = PARTLY_SEEN[name](Path(FOLDER) / name)

        def split(seed: int) -> tuple[Observations, Observations]:
            order = np.random.default_rng(seed).permutation(len(found))
            # The validation part of peers stands between test and training part.
            n_test, n_held_out = round(0.1 * len(found)), round(0.15 * len(found))
            train = np.concatenate([order[n_held_out:], order[n_test:n_held_out]])
            return observations(found[train], shape), observations(found[order[:n_test]], shape)

        return split
    labels = np.loadtxt(Path(FOLDER) / f"benchmark-scores/{name}.csv", delimiter=",", dtype=int)

    def draw(seed: int) -> tuple[Observations, Observations]:
        seen = np.random.default_rng(seed).random(labels.shape) < SEEN
        train, test = (
            np.column_stack([*np.nonzero(cells), 2 * labels[cells] - 1]) for cells in (seen, ~seen)
        )
        test = test[np.random.default_rng(seed).permutation(len(test))[:N_TEST]]
        return observations(train, labels.shape), observations(test, labels.shape)

    return draw


def observations(found: NDArray[Any], shape: tuple[int, int]) -> Observations:
    """Return rows, columns and signs as observations."""
    return Observations.from_pairs(found[:, 0], found[:, 1], found[:, 2], shape=shape)


def losses(
    splits: list[tuple[Observations, Observations]], seed: int, **parameters: Any
) -> Iterator[tuple[float, float, int]]:
    """Yield test log-loss, CPU seconds and members for each split."""
    for train, test in splits:
        began = time.process_time()
        model = BinaryMatrixCompletion(n_jobs=1, random_state=seed, **parameters).fit(train)
        spent = time.process_time() - began
        yield evaluate(model, test).log_loss, spent, model.n_members_


def main(names: list[str]) -> None:
    """Print a row for each table."""
    rows = []
    for name in names or GOALS:
        splits = [load(name)(seed) for seed in SPLITS]
        found = np.array([list(losses(splits, seed)) for seed in SEEDS])  # seeds, splits, 3
        loss = found[:, :, 0]
        error = loss.mean(axis=0).std(ddof=1) / np.sqrt(len(SPLITS))
        spread = np.mean(loss.max(axis=0) - loss.min(axis=0))
        ways = ({"rank": 0}, {"members": 1}, {"l2_power": 0.0})
        others = [np.mean([each[0] for each in losses(splits, 0, **way)]) for way in ways]
        goal, least = GOALS[name]
        rows.append(
            (
                name,
                f"{splits[0][0].n_observed:,}",
                *(f"{each:.4f}" for each in others),
                f"{loss.mean():.4f} ± {error:.4f}",
                f"{goal:.4f}",
                f"{spread:.4f}",
                f"{least:.4f}",
                f"{found[:, :, 2].mean():.1f}",
                f"{found[:, :, 1].mean():.1f}",
            )
        )
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print_table(
        "Log-loss on six tables, mean of splits 0 to 2 and of four seeds",
        (
            "table",
            "entries",
            "biases",
            "members=1",
            "l2_power=0",
            "default",
            "goal",
            "range over seeds",
            "goal",
            "members",
            "CPU seconds",
        ),
        rows,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
