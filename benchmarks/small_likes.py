"""Small sparse tables of likes: our default beside tuned implicit-feedback ALS and EASE, both in NumPy here.

Simulated tables have the sizes and densities of tables of drugs and the proteins that they bind: columns come in
families, and a row takes a share of one family or two. The others are cut from public data, thinned to 1 to 3% likes.
A tenth (or a fifth) of the likes is held out and ranked among all unobserved entries. Both peers choose their
hyperparameters on a tenth of the training likes, by average precision.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.data import FOLDER
from benchmarks.measure import print_table
from tribit import BinaryMatrixCompletion, Observations
from tribit.datasets import coat, movielens100k, senate
from tribit.metrics.entries import area_under_curve
from tribit.metrics.full_ranking import average_precision

Matrix = NDArray[np.float64]

#: Seeds of the report; the constants of the search were chosen on seeds from 10 up.
SEEDS = range(3)
HELD_OUT = (0.1, 0.2)
#: Grid of the ALS: ranks, weights of a like beside 1 of any other entry, penalties.
RANKS, ALPHAS, RIDGES = (8, 32, 64), (2.0, 8.0, 32.0), (0.3, 1.0, 3.0, 10.0)
SWEEPS = 10
#: Penalties of EASE.
EASE_RIDGES = tuple(2.0**power for power in range(-2, 9))


def families(shape: tuple[int, int], n_families: int, kept: float, seed: int) -> Matrix:
    """Return likes of rows of one kind each, most of them the columns of a family or of a part of it.

    A row has each column of its kind with probability ``kept`` and few others. Sizes are heavy-tailed.
    """
    draws = np.random.default_rng(seed)
    popular = draws.lognormal(0.0, 1.0, n_families)
    family = draws.choice(n_families, shape[1], p=popular / popular.sum())
    kinds = []
    for number in range(n_families):
        members = np.flatnonzero(family == number)
        for _ in range(1 + members.size // 4):
            kinds.append(members[draws.random(members.size) < draws.choice([0.3, 0.6, 1.0])])
    weights = draws.lognormal(0.0, 1.0, len(kinds))
    chance = np.full(shape, 3e-4)
    for row in chance:
        for kind in draws.choice(
            len(kinds), 1 + (draws.random() < 0.15), p=weights / weights.sum()
        ):
            row[kinds[kind]] = kept
    return (draws.random(shape) < chance).astype(np.float64)


def blocks(shape: tuple[int, int], n_blocks: int, within: float, seed: int) -> Matrix:
    """Return likes within blocks of rows and columns, each with probability ``within``, and rarely elsewhere."""
    draws = np.random.default_rng(seed)
    rows, columns = (draws.integers(n_blocks, size=size) for size in shape)
    chance = np.where(rows[:, None] == columns, within, 0.002)
    return (draws.random(shape) < chance).astype(np.float64)


def tastes(shape: tuple[int, int], n_likes: int, rank: int, seed: int) -> Matrix:
    """Return likes of a logistic low-rank model with popular columns."""
    draws = np.random.default_rng(seed)
    x = draws.standard_normal((shape[0], rank)) @ draws.standard_normal((rank, shape[1]))
    x = 1.5 * x + draws.standard_normal(shape[1]) + draws.logistic(size=shape)
    return (x >= np.partition(x.ravel(), -n_likes)[-n_likes]).astype(np.float64)


def _thinned(liked: NDArray[Any], n_likes: int, draws: np.random.Generator) -> Matrix:
    """Return at most so many of the likes, without rows and columns that have none."""
    places = np.flatnonzero(liked)
    found = np.zeros(liked.size)
    found[draws.permutation(places)[:n_likes]] = 1.0
    found = found.reshape(liked.shape)
    return found[found.any(axis=1)][:, found.any(axis=0)]


def _corner(ratings: Observations, rows: int, columns: int, n_likes: int, seed: int) -> Matrix:
    """Return likes of the rows and columns with most likes, thinned."""
    liked = np.asarray(ratings.to_sparse().toarray() > 0)
    liked = liked[:, np.argsort(-liked.sum(axis=0), kind="stable")[:columns]]
    liked = liked[np.argsort(-liked.sum(axis=1), kind="stable")[:rows]]
    return _thinned(liked, n_likes, np.random.default_rng(seed))


def _pairs(path: str, delimiter: str, places: tuple[int, int, int]) -> Observations:
    """Return entries of a file with a header: row, column and value at the given places."""
    table = np.loadtxt(Path(FOLDER) / path, delimiter=delimiter, skiprows=1)
    row, column = (np.unique(table[:, place], return_inverse=True)[1] for place in places[:2])
    kept = np.flatnonzero(table[:, places[2]] > 0)
    kept = kept[np.unique(row[kept] * (column.max() + 1) + column[kept], return_index=True)[1]]
    ones = np.ones(kept.size, dtype=np.int8)
    return Observations.from_pairs(row[kept], column[kept], ones)


def tables(seed: int) -> dict[str, Matrix]:
    """Return the tables: simulated ones drawn with a seed, and cuts of the data that are there, thinned with it."""
    found = {
        "families, 95 x 223": families((223, 95), 30, 0.93, seed).T,
        "families, 204 x 210": families((210, 204), 40, 0.97, seed),
        "families, 445 x 664": families((445, 664), 150, 0.97, seed),
        "blocks, 300 x 400": blocks((300, 400), 30, 0.7, seed),
        "tastes, 200 x 300": tastes((200, 300), 1500, 4, seed),
    }
    folder = Path(FOLDER)
    if not FOLDER:
        return found
    if (folder / "coat").is_dir():
        found["coat"] = _corner(coat(f"{FOLDER}/coat").train.observations(), 290, 300, 2600, seed)
    if (folder / "bitcoin-alpha").is_dir():
        links = _pairs("bitcoin-alpha/soc-sign-bitcoinalpha.csv", ",", (0, 1, 2))
        found["bitcoin-alpha"] = _corner(links, 445, 600, 5000, seed)
    if (folder / "polis-vtaiwan").is_dir():
        votes = _pairs("polis-vtaiwan/votes.csv", ",", (2, 1, 3))
        found["polis-vtaiwan"] = _corner(votes, 400, 197, 1600, seed)
    if (folder / "senate").is_dir():
        found["senate"] = _corner(senate(f"{FOLDER}/senate"), 145, 600, 2600, seed)
    if (folder / "ml-100k").is_dir():
        ratings = movielens100k(f"{FOLDER}/ml-100k").observations()
        found["ml-100k, 200 x 300"] = _corner(ratings, 200, 300, 1200, seed)
        found["ml-100k, 445 x 664"] = _corner(ratings, 445, 664, 6000, seed)
    return found


def split(liked: Matrix, share: float, seed: int) -> tuple[Matrix, Matrix]:
    """Return the table without a share of its likes, and these."""
    places = np.flatnonzero(liked)
    away = np.random.default_rng(seed).permutation(places)[: round(share * places.size)]
    held_out = np.zeros(liked.size)
    held_out[away] = 1.0
    held_out = held_out.reshape(liked.shape)
    return liked - held_out, held_out


def measured(x: Matrix, train: Matrix, held_out: Matrix) -> tuple[float, float]:
    """Return average precision and AUC of held-out likes among all entries that are not in ``train``."""
    scores, place = np.unique(x[train == 0], return_inverse=True)
    found = held_out[train == 0] > 0
    liked, others = (np.bincount(place[part], minlength=scores.size) for part in (found, ~found))
    return average_precision(liked, others), area_under_curve(liked, others)


def als(train: Matrix, rank: int, alpha: float, ridge: float) -> Matrix:
    """Return scores of the minimum of ``sum (1 + alpha a_ij) (a_ij - u_i v_j)^2 + ridge (|U|^2 + |V|^2)``.

    Hu, Koren and Volinsky 2008, "Collaborative filtering for implicit feedback datasets"; by alternating least squares.
    """
    draws = np.random.default_rng(0)
    U, V = (draws.normal(0.0, 0.1, (size, rank)) for size in train.shape)
    rows, columns = csr_array(train), csr_array(train.T)
    for _ in range(SWEEPS):
        U = _half_sweep(rows, V, alpha, ridge)
        V = _half_sweep(columns, U, alpha, ridge)
    return np.asarray(U @ V.T)


def _half_sweep(A: csr_array, V: Matrix, alpha: float, ridge: float) -> Matrix:
    k = V.shape[1]
    products = (V[:, :, None] * V[:, None, :]).reshape(-1, k * k)
    curvature = V.T @ V + ridge * np.eye(k) + alpha * (A @ products).reshape(-1, k, k)
    return np.linalg.solve(curvature, (1.0 + alpha) * (A @ V)[:, :, None])[:, :, 0]


def ease(train: Matrix, ridge: float) -> Matrix:
    """Return scores of the regression of every column on all others (Steck 2019), by rows."""
    P = np.linalg.inv(train.T @ train + ridge * np.eye(train.shape[1]))
    B = -P / np.diagonal(P)
    np.fill_diagonal(B, 0.0)
    return np.asarray(train @ B)


def tuned_als(train: Matrix) -> Matrix:
    """Return scores of the ALS with the rank, alpha and penalty of the best average precision on a tenth."""
    fitted, held_out = split(train, 0.1, 1)
    grid = product(RANKS, ALPHAS, RIDGES)
    return als(train, *max(grid, key=lambda each: measured(als(fitted, *each), fitted, held_out)))


def tuned_ease(train: Matrix) -> Matrix:
    """Return scores of EASE, by rows or by columns, with the penalty of the best average precision on a tenth."""
    fitted, held_out = split(train, 0.1, 1)

    def scores(A: Matrix, turned: bool, ridge: float) -> Matrix:
        return ease(A.T, ridge).T if turned else ease(A, ridge)

    grid = product((False, True), EASE_RIDGES)
    return scores(
        train, *max(grid, key=lambda each: measured(scores(fitted, *each), fitted, held_out))
    )


def ours(train: Matrix) -> Matrix:
    """Return scores of the default."""
    seen = Observations.from_matrix(train.astype(int), zeros="unobserved")
    return np.asarray(BinaryMatrixCompletion(n_jobs=1, random_state=0).fit(seen).complete("score"))


METHODS = {"ours": ours, "tuned ALS": tuned_als, "tuned EASE": tuned_ease}


def main() -> None:
    """Print average precision and AUC, means over seeds, of every table and method."""
    for share in HELD_OUT:
        found: dict[str, list[list[float]]] = {}
        sizes: dict[str, str] = {}
        for seed in SEEDS:
            for name, liked in tables(seed).items():
                train, held_out = split(liked, share, seed)
                sizes[name] = f"{liked.shape[0]} x {liked.shape[1]}, {liked.mean():.1%}"
                values: list[float] = []
                for method in METHODS.values():
                    began = time.process_time()
                    scores = method(train)
                    spent = time.process_time() - began
                    values += [*measured(scores, train, held_out), spent]
                found.setdefault(name, []).append(values)
        rows = [
            (name, sizes[name], *(f"{value:.3f}" for value in np.mean(values, axis=0)))
            for name, values in found.items()
        ]
        means = np.mean([np.mean(values, axis=0) for values in found.values()], axis=0)
        rows.append(("mean", "", *(f"{value:.3f}" for value in means)))
        heads = [f"{name}: {each}" for name in METHODS for each in ("AP", "AUC", "CPU s")]
        print_table(
            f"Small tables of likes: {share:.0%} of them among all unseen entries, seeds {SEEDS[0]} to {SEEDS[-1]}",
            ("table", "size, likes", *heads),
            rows,
        )


if __name__ == "__main__":
    main()
