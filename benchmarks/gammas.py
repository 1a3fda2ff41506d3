"""Suggested weights of the risks beside PN, a grid in t and the paper's best: ``python -m benchmarks.gammas``.

Experiments 1 and 2 of the paper in balls of five radii, and real tables (TRIBIT_DATA). Every fit has a ball and no
other penalty of the factors, so that only the mixture can make up for a ball that is too loose.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Logistic, Observations, Probit
from tribit.datasets import coat, senate
from tribit.evaluation.held_out import evaluate
from tribit.model.links import Link
from tribit.paper.experiments.claims import HOLDS, paired_verdict
from tribit.paper.theory import relative_error
from tribit.selection import suggest_gammas
from tribit.selection.gammas import mixture
from tribit.simulate import low_rank_target, observe, quantise

#: Weights of imputation of the grid.
GRID = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
RANK, RHO, ALPHA = 10, 0.85, 1.0
#: Radii, as shares of the paper's alpha sqrt r.
SHARES = (1.0, 0.3, 0.2, 0.1, 0.05)
#: Probabilities that the balls of the real tables let an entry reach.
LEVELS = (0.99, 0.9)
#: Mixtures that the paper found best, in its Figs. 2 and 3 (and Fig. 4, whose best point it does not state).
PAPERS = {"1": (0.9, 0.1, 0.0), "2": (0.3, 0.3, 0.4)}
COMMON = {
    "l2": 0.0,
    "implicit_features": False,
    "calibration": None,
    "n_jobs": 1,
    "random_state": 0,
}


@dataclass(frozen=True)
class Errors:
    """Errors of one table: without imputation, at the suggestion, over the grid, and at the paper's best mixture."""

    suggested: float
    grid: tuple[float, ...]
    papers: float
    t: float


def measure(
    model: BinaryMatrixCompletion,
    seen: Observations,
    error: Callable[[BinaryMatrixCompletion], float],
    papers: tuple[float, float, float],
) -> Errors:
    """Return the errors of a model on one table, with the weights of the risks replaced."""
    found = suggest_gammas(model, seen)
    density = seen.density if model.rho in (None, "auto") else 1.0 - model.rho

    def at(gammas: tuple[float, float, float]) -> float:
        return error(BinaryMatrixCompletion(**model.get_params() | {"gammas": gammas}).fit(seen))

    grid = tuple(at(mixture(t, density, seen.base_rate)) for t in GRID)
    suggested = grid[0] if found.t == 0.0 else at(found.gammas)
    return Errors(suggested, grid, at(papers), found.t)


def experiment(name: str, share: float, seed: int) -> Errors:
    """Return the errors in a ball, of the paper's radius times a share, on one simulated table."""
    side, link = {"1": (100, Probit(0.1)), "2": (200, Logistic(7.0))}[name]
    M = low_rank_target((side, side), RANK, alpha=ALPHA, random_state=seed)
    labels = quantise(M, link, random_state=seed + 100)
    seen = observe(labels, RHO, random_state=seed + 200)
    radius = float(share * ALPHA * np.sqrt(RANK))
    model = BinaryMatrixCompletion(
        link=link,
        rho=RHO,
        rank=RANK,
        radius=radius,
        alpha=ALPHA if radius > ALPHA else None,
        intercept=False,
        max_iter=700,
        **COMMON,
    )
    return measure(model, seen, lambda fit: relative_error(fit.complete("score"), M), PAPERS[name])


def real(parts: tuple[Observations, Observations], level: float) -> Errors:
    """Return the log-losses of the test entries of a split in a ball."""
    train, test = parts
    link: Link = Logistic()
    model = BinaryMatrixCompletion(
        rank=RANK, radius=link.level(level), l2_intercept=1.0, max_iter=100, **COMMON
    )
    return measure(model, train, lambda fit: evaluate(fit, test).log_loss, PAPERS["2"])


def tables(folder: Path) -> Iterator[tuple[str, int, Callable[[int], tuple]]]:
    """Yield the name, the number of splits and the splits of each table that the folder has."""
    if (folder / "senate").is_dir():
        yield "Senate", 10, lambda seed: senate(folder).split(0.1, random_state=seed)
    if (folder / "coat").is_dir():
        train = coat(folder).train.observations()
        yield "Coat, self-selected", 10, lambda seed: train.split(0.1, random_state=seed)
        test = coat(folder).test.observations()
        yield (
            "Coat, random test items",
            10,
            lambda seed: (train.split(0.1, random_state=seed)[0], test),
        )


def row(name: str, place: str, found: list[Errors]) -> tuple[str, ...]:
    """Return a row: mean errors, the mean t, and paired tests of the suggestion."""
    grid = np.array([each.grid for each in found])
    suggested, papers = (
        np.array([getattr(each, n) for each in found]) for n in ("suggested", "papers")
    )
    best = int(np.argmin(grid.mean(axis=0)))
    return (
        name,
        place,
        f"{np.mean([each.t for each in found]):.2f}",
        f"{suggested.mean():.4f}",
        f"{grid[:, 0].mean():.4f}",
        f"{grid[:, best].mean():.4f} (t = {GRID[best]:g})",
        f"{papers.mean():.4f}",
        *(test(suggested, other) for other in (grid[:, 0], grid[:, best], papers)),
    )


def test(these: np.ndarray, those: np.ndarray) -> str:
    """Return the mean difference and the p of a paired t-test; bold where the first is lower at 1%."""
    verdict, p = paired_verdict(these, those)
    words = f"{np.mean(these - those):+.4f}, p {p:.2g}"
    return f"**{words}**" if verdict == HOLDS else words


def main(draws: int, names: list[str]) -> None:
    """Print a row for each experiment and radius, and for each table and radius."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(machine())
    header = ("", "ball", "t", "suggested", "PN", "best of the grid", "the paper's best")
    tests = ("less PN", "less the best", "less the paper's")
    rows = (
        row(
            f"Experiment {name}",
            f"{share:g} of the paper's",
            [experiment(name, share, seed) for seed in range(draws)],
        )
        for name in names
        for share in SHARES
    )
    print_table(f"Relative error, {draws} draws", (*header, *tests), rows)
    if FOLDER:
        rows = [
            row(
                f"{name}, {n} splits",
                f"up to {level:g}",
                [real(split(seed), level) for seed in range(n)],
            )
            for name, count, split in tables(Path(FOLDER))
            for n in [min(count, draws)]
            for level in LEVELS
        ]
        print_table("Log-loss of test entries", (*header, *tests), rows)
    print("\nBold: the suggestion is lower by a paired t-test at 1%.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--experiments", nargs="*", default=["1", "2"])
    options = parser.parse_args()
    main(options.draws, options.experiments)
