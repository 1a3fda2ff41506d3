"""Bounds of mixtures and measured errors over draws: ``python -m benchmarks.guarantees``.

Every inequality of the page on guarantees is checked on each draw, with factor 1.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.measure import machine, print_table
from tribit import Logistic, Observations, Probit
from tribit.backends.objective import Objective
from tribit.model.constraints import EntryBound, MaxNorm
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import tri
from tribit.paper.theory import MixtureProblem, mask_deviation, optimality_gap, tri_bound
from tribit.selection.gammas import mixture
from tribit.solvers import Newton
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
from tribit.solvers.loop import Stopping

ALPHA = 1.0
CURVATURE, MASK = "curvature (6)", "mask (9)"


@dataclass(frozen=True)
class Case:
    """A hidden matrix of rank 1 with entries +-alpha, a mixture and a ball."""

    side: int
    link: Link
    rho: float
    t: float
    g: float
    radius: float
    delta: float = 0.05

    @property
    def problem(self) -> MixtureProblem:
        """The mixture, on the table."""
        gammas = mixture(self.t, 1.0 - self.rho, self.g)
        return MixtureProblem((self.side, self.side), gammas, self.rho, ALPHA, self.link)

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return M, and the labels with 0 for unobserved entries."""
        draws = np.random.default_rng(seed)
        signs = (np.where(draws.random(self.side) < 0.8, ALPHA, -ALPHA) for _ in "uv")
        M = np.outer(*signs) / ALPHA
        like = draws.random(M.shape) < self.link.probability(M)
        return M, np.where(draws.random(M.shape) < self.problem.q, np.where(like, 1, -1), 0)


def objective_of(case: Case, A: np.ndarray) -> Objective:
    """Return the mixture's risk."""
    return Objective(Observations.from_matrix(A), case.link, tri(*case.problem.gammas, case.rho))


def minimiser(case: Case, A: np.ndarray, rank: int | None = None, tol: float = 1e-8) -> Factors:
    """Return the minimiser in the ball among matrices of a rank; by default 24, or the number of rows and columns."""
    draws, ball = np.random.default_rng(0), MaxNorm(case.radius)
    start = Factors.of(*ball.start(A.shape, rank or min(2 * case.side, 24), draws))
    objective = objective_of(case, A)
    if case.radius <= ALPHA:  # the ball bounds the entries
        return Newton().minimise(objective, [ball], start, Stopping(500, tol), draws).factors
    solver = AugmentedLagrangian(case.link.curvature(ALPHA))
    limits = [ball, EntryBound(ALPHA)]
    return solver.minimise(objective, limits, start, Stopping(2000, tol), draws).factors


def gradient_at(case: Case, A: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return the gradient of the risk divided by kappa in X."""
    problem, seen, like = case.problem, A != 0, A > 0
    m = problem.imputed(X)
    return problem.slope(X) * (problem.link.probability(X) - m - seen * (like - m) / problem.q)


def check_draw(case: Case, seed: int) -> dict[str, tuple[float, float]]:
    """Return both sides of each inequality: the first must be at most the second."""
    problem, (M, A) = case.problem, case.draw(seed)
    factors = minimiser(case, A)
    U, V = factors.row_factors, factors.column_factors
    X = U @ V.T
    D, E = X - M, problem.gradient_noise(M, A)
    gap = optimality_gap(gradient_at(case, A, X), U, V, case.radius)
    error, beta = float(np.mean(D**2)), case.link.beta_alpha(ALPHA)
    likes = case.link.probability(M)
    divergence = sum(
        share * (case.link.loss(X, y) - case.link.loss(M, y))
        for share, y in ((likes, 1), (1 - likes, -1))
    )
    factor = 2.0 if isinstance(case.link, Logistic) else 4.0
    common = {"radius": case.radius, "delta": case.delta}
    prior, seen, drawn = (
        tri_bound(problem, **common, **given).bounds
        for given in ({"M": M}, {"A": A}, {"A": A, "M": M, "gap": gap})
    )
    # The bound of the gap is loose where alpha binds too: there (6) is checked up to rounding.
    slack = gap if case.radius <= ALPHA else 1e-6 * problem.cells
    ranked = minimiser(case, A, rank=1)
    found = ranked.row_factors @ ranked.column_factors.T
    objective = objective_of(case, A)
    at_m = objective.value(Factors.of(M, np.eye(case.side)))
    lower = objective.value(ranked) <= at_m
    fast = tri_bound(problem, rank=2, A=A, M=M, delta=case.delta).bounds["theorem 3"]
    return {
        CURVATURE: (
            float(np.sum(problem.entry_weights(A) * D**2)),
            problem.inverse_curvature * (float(np.sum(E * D)) + slack),
        ),
        "divergence (4)": (float(np.max(D**2 - factor * beta * divergence)), 1e-9),
        MASK: (
            float(np.mean((1.0 - (A != 0) / problem.q) * D**2)),
            mask_deviation(problem, case.radius, A),
        ),
        "theorem 1": (error, prior["theorem 1"].value),
        "theorem 2": (error, prior["theorem 2"].value),
        "theorem 2, mask seen": (error, seen["theorem 2"].value),
        "theorem 2, realised": (error, drawn["theorem 2"].value),
        "theorem 3": (float(np.mean((found - M) ** 2)) if lower else 0.0, fast.value),
    }


def cases(sides: tuple[int, ...]) -> Iterator[Case]:
    """Yield the cases: sides, links, densities, mixtures and balls; with the probit up to ``t_max``."""
    for side, link, rho, (t, g), radius in itertools.product(
        sides,
        (Logistic(1.5), Logistic(4.0), Probit(0.8)),
        (0.4, 0.8),
        ((0.0, 0.5), (0.2, 0.5), (0.6, 0.3), (1.0, 0.5), (1.0, 0.0)),
        (1.0, 2.0),
    ):
        case = Case(side, link, rho, t, g, radius)
        if t <= case.problem.t_max:
            yield case


def main(sides: tuple[int, ...], draws: int) -> None:
    """Print a row for each case of the largest side: the error beside the bounds, and the checks that failed."""
    began, total, failed = time.perf_counter(), 0, 0
    print(machine())
    rows, ratios = [], []
    for case in cases(sides):
        found = [check_draw(case, seed) for seed in range(draws)]
        wrong = sum(left > right for draw in found for left, right in draw.values())
        total, failed = total + len(found), failed + wrong
        ratios += [right / left for draw in found for left, right in [draw[MASK]] if left > 0]
        mean = {
            name: np.mean([draw[name] for draw in found], axis=0)
            for name in ("theorem 1", "theorem 2", "theorem 2, realised", "theorem 3", CURVATURE)
        }
        if case.side < max(sides):
            continue
        rows.append(
            (
                *(case.side, case.link, case.rho, case.t, case.g, case.radius),
                f"{mean['theorem 2'][0]:.3f}",
                *(f"{right:.3g}" for name, (_, right) in mean.items() if name != CURVATURE),
                f"{mean[CURVATURE][1] / mean[CURVATURE][0]:.2f}",
                wrong,
            )
        )
    header = "side, link, rho, t, g, R, error, Theorem 1, Theorem 2, Theorem 2 realised, Theorem 3 realised"
    print_table(
        f"Bounds of the mean square error (constants explicit, delta 0.05) and errors, {draws} draw(s) each",
        (*header.split(", "), "(6): right / left", "violations"),
        rows,
    )
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    print(
        f"\nBound (9) over the mask's deviation, where that is positive: median {middle:.0f}, from {low:.0f} to "
        f"{high:.0f} in eight of ten draws."
    )
    print(
        f"\n{total} draws, eight inequalities each: {failed} violated. {time.perf_counter() - began:.0f} s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[8, 16, 40, 80])
    parser.add_argument("--draws", type=int, default=1)
    options = parser.parse_args()
    main(tuple(options.sides), options.draws)
