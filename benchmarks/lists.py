"""Top-10 lists of MovieLens-100k: likes found and dislikes shown, ours beside published figures.

Held out are the validation and the test part of a split together; the candidates are all entries outside the training
set; users with a held-out like count. The weights of dislikes were chosen on the splits 10 to 14, by

    python -m benchmarks.lists 10 11 12 13 14

which prints the whole trade-off; without arguments the splits 0 to 4 are measured at those weights.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.data import FOLDER
from benchmarks.measure import print_table
from tribit import BinaryMatrixCompletion, Observations
from tribit.datasets import movielens100k
from tribit.evaluation.ranking import ranking_report
from tribit.ranking import CandidateRanker

SEEDS = range(5)
LENGTH = 10
#: For the trade-off.
WEIGHTS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 2.0)


@dataclass(frozen=True)
class Goal:
    """A point of the trade-off: a weight, the figures to reach there, and the best of other software nearby."""

    avoid_dislikes: float
    ndcg: float
    dislikes_per_like: float
    peers: str


GOALS = (
    Goal(0.6, 0.33, 0.25, "iALS .324 / .251, SLIM .320 / .247, EASE .317 / .246"),
    Goal(1.3, 0.30, 0.20, "blend of two libraries .297 / .200"),
    Goal(1.7, 0.28, 0.18, "blend of two libraries .279 / .182"),
)


def measure(seeds: Iterable[int], weights: Sequence[float]) -> tuple[np.ndarray, float]:
    """Return NDCG@10 and dislikes per like for each split and weight, and the mean seconds of a fit."""
    ratings = movielens100k(f"{FOLDER}/ml-100k")
    found, spent = [], 0.0
    for seed in seeds:
        split = ratings.split(seed)
        held_out = together(split.validation, split.test)
        began = time.perf_counter()
        judge = BinaryMatrixCompletion(random_state=0, n_jobs=1).fit(split.train)
        ranker = CandidateRanker(random_state=0).fit(split.train)
        spent += time.perf_counter() - began
        reports = [
            ranking_report(
                judge, split.train, held_out, LENGTH, avoid_dislikes=weight, ranker=ranker
            )
            for weight in weights
        ]
        found.append([(report.ndcg, report.dislikes_per_like) for report in reports])
    return np.array(found), spent / len(found)


def together(first: Observations, second: Observations) -> Observations:
    """Return the entries of two disjoint parts of a matrix."""
    return Observations.from_pairs(
        np.concatenate([first.rows, second.rows]),
        np.concatenate([first.columns, second.columns]),
        np.concatenate([first.labels, second.labels]),
        shape=first.shape,
        row_ids=first.row_ids,
        column_ids=first.column_ids,
    )


def print_trade_off(seeds: Sequence[int]) -> None:
    """Print what each weight brings, to choose weights by."""
    figures, _ = measure(seeds, WEIGHTS)
    rows = [
        (f"{weight:.1f}", *(f"{x:.4f}" for x in figures[:, place].mean(axis=0)))
        for place, weight in enumerate(WEIGHTS)
    ]
    names = ", ".join(map(str, seeds))
    print_table(
        f"Trade-off on splits {names}", ("avoid_dislikes", "NDCG@10", "dislikes per like"), rows
    )


def main() -> None:
    """Print one line for each goal."""
    if not FOLDER:
        print("\nLists: skipped, they need MovieLens-100k (DATA=folder with ml-100k).")
        return
    figures, seconds = measure(SEEDS, [goal.avoid_dislikes for goal in GOALS])
    rows = []
    for place, goal in enumerate(GOALS):
        (ndcg, dislikes), spread = (
            figures[:, place].mean(axis=0),
            figures[:, place].std(axis=0, ddof=1),
        )
        reached = ndcg >= goal.ndcg and dislikes <= goal.dislikes_per_like
        rows.append(
            (
                f"{goal.ndcg:.2f} / {goal.dislikes_per_like:.2f}",
                f"{goal.avoid_dislikes:.1f}",
                f"{ndcg:.4f} ± {spread[0]:.3f}",
                f"{dislikes:.4f} ± {spread[1]:.3f}",
                "reached" if reached else "missed",
                goal.peers,
            )
        )
    print_table(
        f"Top-10 lists of ML-100k, splits 0-4 (mean ± deviation of a split; {seconds:.0f} s a fit)",
        ("goal", "avoid_dislikes", "NDCG@10", "dislikes per like", "", "other software"),
        rows,
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        print_trade_off([int(seed) for seed in sys.argv[1:]])
    else:
        main()
