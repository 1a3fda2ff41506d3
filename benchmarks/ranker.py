"""The fit of a CandidateRanker against one of EASE, which has one regression, a given ridge and no dislikes.

``python -m benchmarks.ranker`` has seconds on all cores, and ``python -m benchmarks.ranker cpu`` processor seconds of
one thread, with OPENBLAS_NUM_THREADS=1 in the environment: these also hold on a busy machine.
"""

import pickle
import sys
import time

import numpy as np
import scipy.sparse as sp

from benchmarks.data import exposed
from benchmarks.measure import median_seconds, print_table
from tribit import Observations
from tribit.ranking import CandidateRanker

SHAPE, COUNT = (6040, 3706), 1_000_000
#: Ridge of EASE: that which the ranker chooses for the likes of these entries, to two digits.
EASE_L2 = 1500.0


def ease(seen: Observations) -> np.ndarray:
    """Return the weights of EASE (Steck 2019) on the likes: one inverse, as in its paper."""
    liked = seen.labels > 0
    F = sp.csr_array(
        (np.ones(liked.sum()), (seen.rows[liked], seen.columns[liked])), shape=seen.shape
    )
    G = (F.T @ F).toarray()
    G[np.diag_indices_from(G)] += EASE_L2
    P = np.linalg.inv(G)
    B = P / -P.diagonal()
    np.fill_diagonal(B, 0.0)
    return B


def main(repeats: int = 2, *, by_processor: bool = False) -> None:
    """Print the seconds of a fit and of EASE, and of the first list of a loaded ranker without tables."""
    seen = exposed(SHAPE, COUNT)
    ranker = CandidateRanker(random_state=0, n_jobs=1 if by_processor else None)
    times = median_seconds(
        {"EASE": lambda: ease(seen), "ours": lambda: ranker.fit(seen)},
        repeats,
        time.process_time if by_processor else time.perf_counter,
    )
    tables = 2 * SHAPE[1] ** 2 * 8
    kept = pickle.dumps(ranker)  # without tables, as after loading
    loaded = pickle.loads(kept)
    began = time.perf_counter()
    loaded.recommend([0], 10, exclude_seen=seen)
    one = time.perf_counter() - began
    print_table(
        f"A ranker for lists, {SHAPE[0]} x {SHAPE[1]}, {len(seen)} observed",
        (
            "EASE, s",
            "tribit, s",
            "tribit / EASE",
            "first list after loading, s",
            "kept, MB",
            "two tables, MB",
        ),
        [
            (
                f"{times['EASE']:.1f}",
                f"{times['ours']:.1f}",
                f"{times['ours'] / times['EASE']:.1f}",
                f"{one:.2f}",
                f"{len(kept) / 2**20:.0f}",
                f"{tables / 2**20:.0f}",
            )
        ],
    )


if __name__ == "__main__":
    main(repeats=5 if sys.argv[1:] == ["cpu"] else 2, by_processor=sys.argv[1:] == ["cpu"])
