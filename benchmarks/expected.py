"""Expected likes and dislikes of ML-100k beside those that were held out, by tenths of the expectation.

Held out is one rating in eleven, or of the likes alone one like in eleven: the other ten grow by a tenth, which is the
horizon of the expectations. Cells outside the training set are in the order of the expectation and cut so that a tenth
of its sum is in each part.

    TRIBIT_DATA=FOLDER python -m benchmarks.expected
"""

import numpy as np

from benchmarks.data import FOLDER
from benchmarks.measure import print_table
from tribit import Observations, Recommender
from tribit.datasets import movielens100k

SEEDS = range(5)
PARTS = 10


def compare(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return the sums of both in each part, an array of shape (PARTS, 2)."""
    order = np.argsort(expected)
    share = np.cumsum(expected[order]) / expected.sum()
    part = np.minimum((share * PARTS).astype(int), PARTS - 1)
    sums = [np.bincount(part, each[order], PARTS) for each in (expected, found)]
    return np.column_stack(sums)


def measure(train: Observations, test: Observations) -> dict[str, np.ndarray]:
    """Return expected and held-out numbers of all unobserved cells, by part, and of the lists of ten."""
    recommender = Recommender(random_state=0).fit(train)
    after = test.to_sparse().toarray()
    found = {}
    for name, n in (("all cells", train.shape[1]), ("lists of ten", 10)):
        lists = recommender.recommend(n=n, level=None)
        held_out = after[np.repeat(np.arange(len(lists)), lists.lengths), lists.positions.values]
        for label, expected in (("likes", lists.likes), ("dislikes", lists.dislikes)):
            if expected is not None:
                sign = 1 if label == "likes" else -1
                found[f"{label}, {name}"] = compare(expected.values, held_out == sign)
    return found


def main() -> None:
    """Print the ratio of held-out to expected numbers."""
    if not FOLDER:
        print(
            "\nExpected likes: skipped, they need MovieLens-100k (TRIBIT_DATA=folder with ml-100k)."
        )
        return
    ratings = movielens100k(f"{FOLDER}/ml-100k").observations()
    likes_alone = ratings.take(np.flatnonzero(ratings.labels > 0))
    figures: dict[str, list[np.ndarray]] = {}
    for seed in SEEDS:
        for data, start in ((ratings, ""), (likes_alone, "likes alone: ")):
            for name, sums in measure(*data.split(1 / 11, random_state=seed)).items():
                figures.setdefault(start + name, []).append(sums)
    rows = []
    for name, each in figures.items():
        sums = np.array(each)
        whole = sums[..., 1].sum(axis=1) / sums[..., 0].sum(axis=1)
        parts = sums[..., 1].sum(axis=0) / sums[..., 0].sum(axis=0)
        mean = sums.sum(axis=1).mean(axis=0)
        rows.append(
            (
                name,
                *(f"{value:.0f}" for value in mean),
                f"{whole.min():.2f} to {whole.max():.2f}",
                " ".join(f"{value:.2f}" for value in parts),
            )
        )
    print_table(
        "Expected likes and dislikes of ML-100k, splits 0-4",
        ("", "expected", "held out", "held out / expected, of a split", "by tenths, all splits"),
        rows,
    )


if __name__ == "__main__":
    main()
