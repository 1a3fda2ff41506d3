"""Newton's method against the best-tuned fixed step of the paper's algorithm, on the same backend.

The paper's algorithm runs from a small random start, as in the paper, and once more from the start that tribit
computes. The fixed step is the best of a fine grid, and its passes are timed without the values of the objective,
which it can do without. Newton's time includes its start and its values.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.data import movielens
from benchmarks.measure import median_seconds, print_table
from tribit import Arithmetic, Logistic, MaxNorm, Newton, Objective, ProjectedGradient, tri
from tribit.model.factors import Factors
from tribit.solvers import Stopping
from tribit.solvers.start import spectral_start

SETTINGS = (((0.6, 0.2, 0.2), 2.0), ((1.0, 0.0, 0.0), 2.0), ((0.9, 0.1, 0.0), 4.0))
GAP, RANK, MOST = 1e-3, 10, 600
STEPS = tuple(0.004 * 1.2**power for power in range(15))
HEADER = (
    "gammas",
    "radius",
    "fixed step, random start: passes",
    "ms",
    "fixed step, our start: passes",
    "ms",
    "newton: sweeps",
    "ms",
    "random start / newton",
    "our start / newton",
)


def main(repeats: int = 7) -> None:
    """Print passes and milliseconds to a relative gap of 1e-3, one core."""
    name, seen = movielens()
    rows = []
    for gammas, radius in SETTINGS:
        risk = tri(*gammas, 1.0 - seen.density)
        arithmetic = Arithmetic("float32")
        race = Race(Objective(seen, Logistic(), risk, arithmetic=arithmetic), MaxNorm(radius))
        times = median_seconds(race.runs, repeats)
        fixed, same, newton = (times[run] for run in ("random", "ours", "newton"))
        rows.append(
            (
                gammas,
                f"{radius:g}",
                _told(race.counts["random"]),
                f"{1e3 * fixed:.0f}",
                _told(race.counts["ours"]),
                f"{1e3 * same:.0f}",
                race.counts["newton"],
                f"{1e3 * newton:.0f}",
                f"{fixed / newton:.1f}",
                f"{same / newton:.1f}",
            )
        )
    print_table(
        f"To a relative gap of {GAP:g} on {name}, k = {RANK}, float32, one core", HEADER, rows
    )


def _told(passes: int) -> str:
    """Return a number of passes, or that so many were not enough: then the peer's time is too short."""
    return str(passes) if passes < MOST else f"not in {MOST}"


class Race:
    """The three runs of one setting, each with the number of iterations it needs."""

    def __init__(self, objective: Objective, ball: MaxNorm) -> None:
        self.objective, self.ball = objective, ball
        random = Factors.of(*ball.start(objective.shape, RANK, np.random.default_rng(0)))
        starts = {"random": random, "ours": self.our_start()}
        long = Newton().minimise(
            objective, [ball], starts["ours"], Stopping(400, 1e-8), np.random.default_rng(0)
        )
        self.goal = long.objective + GAP * abs(long.objective)
        self.counts = {"newton": self.iterations(Newton(), starts["ours"], 100)}
        self.runs: dict[str, Callable[[], object]] = {"newton": self.newton}
        for name, start in starts.items():
            step, self.counts[name] = self.best_step(start)
            self.runs[name] = self.descent(start, step, self.counts[name])

    def our_start(self) -> Factors:
        """Return the start of a fit."""
        return spectral_start(self.objective, [self.ball], RANK, 0.0, np.random.default_rng(0))

    def newton(self) -> None:
        """Run Newton's method, its start included."""
        stopping = Stopping(self.counts["newton"], 0.0)
        Newton().minimise(
            self.objective, [self.ball], self.our_start(), stopping, np.random.default_rng(0)
        )

    def descent(self, start: Factors, step: float, passes: int) -> Callable[[], None]:
        """Return a run of the paper's algorithm: so many gradients, steps and projections."""

        def run() -> None:
            factors = start
            for _ in range(passes):
                _, gradient = self.objective.gradient(factors, value=False)
                moved = factors.plus(-step, gradient)
                factors = Factors.of(*self.ball.project(moved.row_factors, moved.column_factors))

        return run

    def best_step(self, start: Factors) -> tuple[float, int]:
        """Return the fixed step of the grid that needs the fewest passes."""
        best = (STEPS[0], MOST)
        for step in STEPS:
            passes = self.iterations(ProjectedGradient(step=step), start, best[1])
            if passes < best[1]:
                best = (step, passes)
        return best

    def iterations(self, solver: Newton | ProjectedGradient, start: Factors, most: int) -> int:
        """Return the iterations until the objective is below the goal, or ``most`` if it never is."""
        stopping = Stopping(most, 0.0, callback=lambda entry: entry.objective <= self.goal)
        draws = np.random.default_rng(0)
        result = solver.minimise(self.objective, [self.ball], start, stopping, draws)
        # An entry holds the objective where its iteration began.
        return result.n_iter - 1 if result.history[-1].objective <= self.goal else most


if __name__ == "__main__":
    main()
