"""Bounds of the theorems and measured errors: ``python -m benchmarks.theory --out docs/_static``.

The target is the case kindest to the theorems: a matrix of rank 1 whose entries are all +alpha or -alpha. Its max-norm
is alpha, so that the sets of the theorems are as small as they can be, and a matrix of zeros has relative error 1.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Logistic, Observations, Probit, UnboundedRiskWarning
from tribit.paper.systems import PUMatrixCompletion
from tribit.paper.theory import (
    Bound,
    cai_zhou_least_squares_bound,
    cai_zhou_one_bit_bound,
    candes_plan_bound,
    davenport_bound,
    hsieh_bound,
    nuclear_norm,
    relative_error,
    weighted_frobenius,
)
from tribit.plots import check_picture
from tribit.simulate import (
    all_at_once,
    likes_only,
    low_rank_target,
    observe,
    observe_cells,
    quantise,
)

SIDE, ALPHA, RANK, DRAWS = 200, 1.0, 1, 3
LINK = Logistic(1.5)  # about the scale at which alpha L beta / alpha^2 is least
NUMBERS = (1000, 2000, 4000, 8000, 16000, 28000, 40000)
RHOS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
SHAPE = (SIDE, SIDE)


class Curve:
    """A line of a panel: its name, its values and whether a theorem or a measurement gave them."""

    def __init__(self, name: str, values: Sequence[float], *, measured: bool = False) -> None:
        self.name, self.values, self.measured = name, np.asarray(values), measured

    def touching(self, others: Iterable["Curve"]) -> float:
        """Return the least number whose product with this curve is nowhere below another one."""
        return max(float(np.max(other.values / self.values)) for other in others)


def target(seed: int) -> np.ndarray:
    """Return signs of rank 1, times alpha."""
    return ALPHA * np.sign(low_rank_target(SHAPE, RANK, random_state=seed))


def over_numbers() -> tuple[list[Curve], list[Curve]]:
    """Return the bounds and the measured errors over n: both signs are seen."""
    common = {"rank": RANK, "alpha": ALPHA, "link": LINK}
    bounds = [
        _bounds("Davenport et al. 2014", lambda n: davenport_bound(SHAPE, n, **common), NUMBERS),
        _bounds("Cai and Zhou 2013", lambda n: cai_zhou_one_bit_bound(SHAPE, n, **common), NUMBERS),
    ]

    def error(n: int, seed: int) -> float:
        M = target(seed)
        cells = all_at_once(SHAPE, n, random_state=seed + 100)
        seen = observe_cells(M, LINK, cells, random_state=seed + 200)
        return relative_error(fitted(seen, (1, 0, 0), None).complete("score"), M)

    return bounds, [_measure("measured, max-norm ball", error, NUMBERS)]


def over_rhos() -> tuple[list[Curve], list[Curve]]:
    """Return the bound and the measured errors over rho: likes alone are seen, probabilities are estimated."""
    P = LINK.probability(target(0))
    t, norm = nuclear_norm(P), weighted_frobenius(P)
    bounds = [
        _bounds(
            "Hsieh et al. 2015", lambda rho: hsieh_bound(SHAPE, rho=rho, trace_norm=t), RHOS, norm
        )
    ]

    def likes(rho: float, seed: int) -> tuple[np.ndarray, Observations]:
        M = target(seed)
        Y = quantise(M, LINK, random_state=seed + 100)
        return LINK.probability(M), likes_only(observe(Y, rho, random_state=seed + 200))

    def squared(rho: float, seed: int) -> float:
        P, seen = likes(rho, seed)
        model = PUMatrixCompletion(
            rho=rho, loss="squared", box=True, radius=nuclear_norm(P), rank=20, random_state=0
        )
        return relative_error(model.fit(seen).complete("score"), P)

    def logistic(rho: float, seed: int) -> float:
        P, seen = likes(rho, seed)
        return relative_error(fitted(seen, (0, 1, 0), rho).complete("probability"), P)

    return bounds, [
        _measure("measured, the theorem's estimator", squared, RHOS),
        _measure("measured, logistic PU", logistic, RHOS),
    ]


def fitted(
    seen: Observations, gammas: tuple[int, int, int], rho: float | None
) -> BinaryMatrixCompletion:
    """Return the estimate in the max-norm ball of radius ``alpha sqrt(rank)``; its entries are within alpha too."""
    model = BinaryMatrixCompletion(
        gammas,
        rho=rho,
        link=LINK,
        rank=4,
        radius=ALPHA * np.sqrt(RANK),
        l2=0.0,
        intercept=False,
        n_jobs=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        # The ball bounds the risk, and a hundred sweeps are close enough for a picture.
        warnings.simplefilter("ignore", UnboundedRiskWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(seen)


def _bounds(
    name: str, bound: Callable[[float], Bound], points: Sequence[float], norm: float = ALPHA
) -> Curve:
    return Curve(name, [bound(point).relative_error(norm) for point in points])


def _measure(name: str, error: Callable[[float, int], float], points: Sequence[float]) -> Curve:
    means = [np.mean([error(point, seed) for seed in range(DRAWS)]) for point in points]
    return Curve(name, means, measured=True)


def picture(path: Path, panels: dict[str, tuple]) -> None:
    """Draw two panels; lines differ in dashes and markers, not only in colour."""
    check_picture(path)
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10.5, 4.2))
    for axis, (title, (label, points, bounds, measured, trivial)) in zip(
        axes, panels.items(), strict=True
    ):
        for bound, dash in zip(bounds, ("-", "--"), strict=False):
            axis.plot(points, bound.values, dash, color="0", label=f"{bound.name}, constant 1")
            scale = bound.touching(measured)
            axis.plot(
                points, scale * bound.values, dash, color="0.6", label=f"the same times {scale:.2f}"
            )
        for curve, marker in zip(measured, ("o", "s"), strict=False):
            axis.plot(points, curve.values, marker + ":", color="0.25", label=curve.name, mfc="w")
        axis.axhline(trivial, color="0.8", lw=5, zorder=0, label="no data at all")
        axis.set(title=title, xlabel=label, ylabel="relative error", yscale="log")
        axis.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
        axis.set_yticks([], minor=True)
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_xscale("log")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def settings_table() -> None:
    """Print every bound, constants 1, in four settings: the pictures', two of the paper, one huge."""
    rows = []
    for name, side, rank, link, rho in (
        ("the pictures, n = 28000", SIDE, RANK, LINK, 0.3),
        ("experiment 1, probit 0.1", 100, 10, Probit(0.1), 0.85),
        ("experiment 2, logistic scale 7", 300, 10, Logistic(7.0), 0.85),
        ("10^6 x 10^6, rank 10, logistic scale 1", 10**6, 10, Logistic(1.0), 0.9),
    ):
        shape, n = (side, side), round((1 - rho) * side**2)
        noise = 0.1
        bounds = (
            candes_plan_bound(shape, n, noise * np.sqrt(n), alpha=1.0),
            cai_zhou_least_squares_bound(shape, n, rank=rank, alpha=1.0, sigma=noise),
            davenport_bound(shape, n, rank=rank, alpha=1.0, link=link),
            cai_zhou_one_bit_bound(shape, n, rank=rank, alpha=1.0, link=link),
            hsieh_bound(shape, rho=rho, trace_norm=np.sqrt(rank) * side),
        )
        rows.append(
            (name, *(f"{b.mean_square:.3g}{' (vacuous)' if b.vacuous else ''}" for b in bounds))
        )
    header = ("setting", "Candès-Plan", "Cai-Zhou 2016", "Davenport", "Cai-Zhou 2013", "Hsieh")
    print_table("Bounds of the mean square, alpha 1, constants 1, noise 0.1", header, rows)


def main(out: Path) -> None:
    """Print the tables and draw the picture."""
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    print(machine())
    settings_table()
    numbers, rhos = over_numbers(), over_rhos()
    for title, points, (bounds, measured) in (("n", NUMBERS, numbers), ("rho", RHOS, rhos)):
        curves = bounds + measured
        print_table(
            f"Relative error over {title}, {SIDE} x {SIDE}, mean of {DRAWS} draws",
            (title, *(curve.name for curve in curves)),
            zip(points, *([f"{v:.3f}" for v in curve.values] for curve in curves), strict=True),
        )
    P = LINK.probability(target(0))
    picture(
        out / "theory-bounds.png",
        {
            "likes and dislikes seen": ("entries seen, n", NUMBERS, *numbers, 1.0),
            "likes alone seen": (
                "share of likes not seen, rho",
                RHOS,
                *rhos,
                relative_error(np.full(SHAPE, 0.5), P),
            ),
        },
    )
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/_static"))
    main(parser.parse_args().out)
