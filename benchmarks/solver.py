"""Newton's method against the best-tuned fixed step of the paper's algorithm, on the same kernel."""

import numpy as np

from benchmarks.data import movielens
from benchmarks.measure import interleaved, print_table
from tribit import Logistic, MaxNorm, Newton, Objective, ProjectedGradient, tri
from tribit.factors import Factors
from tribit.solvers import Stopping

SETTINGS = (((0.6, 0.2, 0.2), 2.0), ((1.0, 0.0, 0.0), 2.0), ((0.9, 0.1, 0.0), 4.0))
GAP, RANK = 1e-3, 10
STEPS = tuple(0.004 * 1.2**power for power in range(15))


def main(repeats: int = 5, most: int = 600) -> None:
    """Print how many passes and seconds each needs from the same start to a relative gap of 1e-3."""
    name, seen = movielens()
    rows = []
    for gammas, radius in SETTINGS:
        risk = tri(*gammas, 1.0 - seen.density)
        objective = Objective(seen, Logistic(), risk, dtype="float32", n_jobs=1)
        ball = MaxNorm(radius)
        start = Factors.of(*ball.start(seen.shape, RANK, np.random.default_rng(0)))
        goal = _goal(objective, ball, start)
        step, passes = _best_step(objective, ball, start, goal, most)

        sweeps = _iterations(Newton(), objective, ball, start, goal, 100)

        def newton(objective=objective, ball=ball, start=start, sweeps=sweeps) -> None:
            stopping = Stopping(sweeps, 0.0)
            Newton().minimise(objective, [ball], start, stopping, np.random.default_rng(0))

        def fixed(objective=objective, start=start, ball=ball, step=step, passes=passes) -> None:
            # The passes alone, without the value of the objective, which a fixed step can do without.
            factors = start
            for _ in range(passes):
                _, gradient = objective.gradient(factors, value=False)
                moved = factors.plus(-step, gradient)
                factors = Factors.of(*ball.project(moved.row_factors, moved.column_factors))

        times = interleaved({"newton": newton, "fixed": fixed}, repeats)
        rows.append(
            (
                gammas,
                f"{radius:g}",
                f"{step:.4f}",
                passes,
                f"{1e3 * times['fixed']:.0f}",
                sweeps,
                f"{1e3 * times['newton']:.0f}",
                f"{times['fixed'] / times['newton']:.1f}",
            )
        )
    header = (
        "gammas",
        "radius",
        "best fixed step",
        "its passes",
        "its ms",
        "newton sweeps",
        "newton ms",
        "fixed / newton",
    )
    print_table(
        f"To a relative gap of {GAP:g} on {name}, k = {RANK}, float32, one core", header, rows
    )


def _goal(objective: Objective, ball: MaxNorm, start: Factors) -> float:
    """Return the objective at which the gap is small: 1e-3 above the lowest value of a long run."""
    generator = np.random.default_rng(0)
    result = Newton().minimise(objective, [ball], start, Stopping(400, 1e-8), generator)
    return result.objective + GAP * abs(result.objective)


def _iterations(solver, objective, ball, start, goal, most) -> int:
    """Return the iterations until the objective is below the goal, or ``most`` if it never is."""
    stopping = Stopping(most, 0.0, callback=lambda entry: entry.objective <= goal)
    result = solver.minimise(objective, [ball], start, stopping, np.random.default_rng(0))
    # An entry holds the objective where its iteration began.
    return result.n_iter - 1 if result.history[-1].objective <= goal else most


def _best_step(objective, ball, start, goal, most) -> tuple[float, int]:
    """Return the fixed step that needs the fewest passes, over a fine grid."""
    best = (0.0, most)
    for step in STEPS:
        passes = _iterations(ProjectedGradient(step=step), objective, ball, start, goal, best[1])
        if passes < best[1]:
            best = (step, passes)
    return best


if __name__ == "__main__":
    main()
