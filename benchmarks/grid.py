"""The search against the full grid: ``make bench-search DATA=folder``.

Every mixture of the 66-point simplex in each of 6 balls, at rank 10, is fitted on the same folds as the candidates of
the search, and on all training entries; so is the choice of the search. Printed are the held-out scores, those on a
test part that neither has seen, and the costs. The grid comes with two ridges: none, and the weights that the search
found best for factors under PN.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Link, Logistic, Observations, __version__
from tribit.backends import Arithmetic
from tribit.datasets import coat, movielens100k, senate
from tribit.metrics.entries import log_loss
from tribit.model.spec import ModelSpec
from tribit.paper.experiments.settings import simplex
from tribit.paper.experiments.synthetic import EXPERIMENT_2, simulate
from tribit.selection import Options
from tribit.selection.folds import Fold, make_folds
from tribit.selection.trials import fit_from
from tribit.solvers import Stopping

#: Probabilities an entry may reach: the six radii, in units of the link.
REACHES = (0.55, 0.62, 0.75, 0.9, 0.97, 0.997)
PARTS = 10
SEED = 0
REPEATS = 3  #: of what is timed; medians are printed


@dataclass(frozen=True)
class Data:
    """Training entries, test entries, the link, and the hidden matrix where it is known."""

    name: str
    train: Observations
    test: Observations
    link: Link
    hidden: Any = None


def all_data() -> Iterator[Data]:
    """Yield the data at hand."""
    drawn = simulate(EXPERIMENT_2, 0, 0)
    train, test = drawn.observations.split(0.1, random_state=SEED)
    yield Data("Experiment 2", train, test, EXPERIMENT_2.link, drawn.M)
    folder = Path(FOLDER)
    if FOLDER and (folder / "ml-100k").is_dir():
        split = movielens100k(folder / "ml-100k").split(SEED)
        yield Data("ML-100k", split.train, split.test, Logistic())
    if FOLDER and (folder / "senate").is_dir():
        train, test = senate(folder / "senate").split(0.1, random_state=SEED)
        yield Data("Senate", train, test, Logistic())
    if FOLDER and (folder / "coat").is_dir():
        both = coat(folder / "coat")
        yield Data("Coat", both.train.observations(), both.test.observations(), Logistic())


def grid(link: Link, l2: float, l2_intercept: float | None) -> list[ModelSpec]:
    """Return the 66 x 6 points."""
    return [
        ModelSpec(
            link=link,
            gammas=mixture,
            radius=link.level(reach),
            l2=l2,
            l2_intercept=l2_intercept,
            rank=10,
        )
        for mixture in simplex(PARTS)
        for reach in REACHES
    ]


def measured(data: Data, folds: list[Fold], settings: ModelSpec) -> tuple[float, float, float]:
    """Return the held-out score over the folds, the score on the test part, and the seconds of that last fit."""
    options = Options(Arithmetic("float32", 1, "auto"))
    losses, weights = [], []
    for fold in folds:
        generator = np.random.default_rng(fold.seed)
        factors, _ = fit_from(fold.train, settings, options, {}, generator, Stopping(300, 1e-4))
        seen = fold.held_out
        losses.append(
            log_loss(data.link, factors.at(seen.rows, seen.columns), seen.labels, fold.weights)
        )
        weights.append(float(np.sum(fold.weights)))
    began = time.process_time()
    factors, _ = fit_from(
        data.train, settings, options, {}, np.random.default_rng(SEED), Stopping(300, 1e-4)
    )
    spent = time.process_time() - began
    return float(np.average(losses, weights=weights)), final(data, factors), spent


def final(data: Data, factors: Any) -> float:
    """Return the relative error where the truth is known, else the log-loss of the test part."""
    if data.hidden is not None:
        P, Q = factors.product_factors()
        return float(np.linalg.norm(P @ Q.T - data.hidden) / np.linalg.norm(data.hidden))
    x = factors.at(data.test.rows, data.test.columns)
    return log_loss(data.link, x, data.test.labels, np.ones(x.size))


def compare(data: Data, workers: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table for one data set."""
    spent = []
    for _ in range(REPEATS + 1):  # the first to warm up
        began = time.process_time()
        model = BinaryMatrixCompletion(
            link=data.link, random_state=SEED, n_jobs=1, calibration=None
        ).fit(data.train)
        spent.append(time.process_time() - began)
    search = model.search_
    assert search is not None
    assert search.best is not None
    # The folds of the search: its first draws.
    folds = make_folds(data.train, None, np.random.Generator(np.random.PCG64(SEED)))
    runs = [measured(data, folds, search.best.settings) for _ in range(REPEATS)]
    chosen, single = runs[0], float(np.median([seconds for _, _, seconds in runs]))
    plain = search.families()["factors"].settings
    measure = "relative error" if data.hidden is not None else "test log-loss"
    yield (
        data.name,
        f"search ({search.best.settings.family}, {len(search.candidates)} candidates)",
        f"{chosen[0]:.4f}",
        f"{measure} {final(data, model._factors()):.4f}",
        f"{np.median(spent[1:]) / single:.1f} ({np.median(spent[1:]):.1f} s)",
    )
    for name, ridge in (
        ("no ridge", (0.0, None)),
        ("ridge of the search", (plain.l2, plain.l2_intercept)),
    ):
        points = grid(data.link, *ridge)
        with ProcessPoolExecutor(workers) as pool:
            found = np.array(
                list(
                    pool.map(
                        measured, [data] * len(points), [folds] * len(points), points, chunksize=4
                    )
                )
            )
        best, lucky = int(np.argmin(found[:, 0])), int(np.argmin(found[:, 1]))
        weights = " ".join(f"{weight:.1f}" for weight in points[best].gammas)
        yield (
            "",
            f"grid, {name}: best held-out ({weights}; radius {points[best].radius:.2f})",
            f"{found[best, 0]:.4f}",
            f"{measure} {found[best, 1]:.4f} (best of all, seen there: {found[lucky, 1]:.4f})",
            f"{found[:, 2].sum() / single:.0f}",
        )


def main() -> None:
    """Print the table."""
    print(f"tribit {__version__}, {machine()}")
    rows = [row for data in all_data() for row in compare(data, os.cpu_count() or 1)]
    print_table(
        "The search against 66 mixtures x 6 radii",
        (
            "data",
            "way",
            "held-out log-loss",
            "on what neither saw",
            "cost, in single fits as chosen",
        ),
        rows,
    )


if __name__ == "__main__":
    main()
