"""Experiments 1 and 2 of the paper: a simulated matrix, completed under each mixture of the risks.

    min over X of  g_PN L_PN + g_PU L_PU + g_NU L_NU   in   K_max(alpha, alpha sqrt r)

The link, rho, alpha and r are known, as the paper assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Arithmetic, Objective
from tribit.data.observations import Observations
from tribit.metrics.entries import log_loss
from tribit.model.factors import Factors
from tribit.model.links import Link, Logistic, Probit
from tribit.model.risks import tri
from tribit.paper.experiments.gibbs import posterior_mean
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.protocols import (
    SCALINGS,
    START_VARIANCE,
    Pair,
    Stage,
    grow_columns,
    is_at_rest,
    iterate,
    minimise_in_balls,
    small_factors,
)
from tribit.paper.experiments.runner import Results, Study, Task
from tribit.paper.experiments.settings import WEIGHTS, Mixture, Settings
from tribit.simulate import low_rank_factors, observe, quantise
from tribit.solvers.loop import Stopping

Array = NDArray[np.floating[Any]]

#: Name of the error floor among the ways to complete the matrix.
FLOOR = "posterior mean"
#: Ways of the tuned protocol: the radius chosen on a validation set, and the best radius for the hidden matrix.
TUNED, BEST = "held-out radius", "best radius"
#: Ways of the solved protocol: k grown until X stops changing, k = r, the k between, and other starts on the first
#: simulated table.
SOLVED, NARROW, STAGE, START = "solved", "solved with k = r", "other k", "other start"
#: A fit of the first simulated table with alpha larger by this share, which changes results as rounding does.
NUDGED, NUDGE = "alpha nudged", 1e-7
#: The printed iteration with other steps and numbers of steps, a comparison of the solved protocol.
VARIED = "printed iteration, varied"
#: Number of starts on the first simulated table; the others use only the last k.
N_STARTS = 2
#: Number of simulated tables on which the iteration is varied.
N_VARIED_TRIALS = 2
#: Share of the observed entries in the validation set that chooses a radius.
HELD_OUT = 0.1
#: Type of the arithmetic; with float64 the errors agree to seven digits after hundreds of steps.
DTYPE = "float32"
#: The iteration ends when a step moves the factors by less than this share.
TOL = 3e-4


@dataclass(frozen=True)
class Sizes:
    """Numbers of steps, latent factors and radii of the three protocols, and of sweeps of the sampler.

    ``max_steps`` is that of the printed iteration, for each of its scalings. The solved protocol has ``columns`` in
    multiples of r, and varies the printed iteration by ``varied_steps``, seen after ``varied_iterations``. The
    ``radii`` of the tuned protocol are shares of the paper's alpha sqrt r; inside them no entry can pass alpha.
    """

    max_steps: tuple[int, int] = (1000, 400)
    columns: tuple[int, ...] = (1, 4, 16, 30)
    solved: Stopping = field(default=Stopping(max_iter=1500, tol=1e-3, interruptible=False))
    varied_steps: tuple[float, ...] = (3e-4, 3e-3)
    varied_iterations: tuple[int, ...] = (400, 2000)
    radii: tuple[float, ...] = (0.0125, 0.025, 0.035, 0.05, 0.07, 0.1, 0.2)
    tuned: Stopping = field(default=Stopping(max_iter=100, tol=1e-5))
    sweeps: int = 1500
    burn_in: int = 100


SIZES = Sizes()


@dataclass(frozen=True)
class Experiment:
    """The paper's parameters of a simulation, the steps of its iteration, and the sizes of all protocols.

    The paper gives no step. With these the iteration does not oscillate for any mixture when the whole matrix is
    scaled, and lowers the risk far when single rows are.
    """

    size: int
    link: Link
    steps: tuple[float, float]
    rank: int = 10
    alpha: float = 1.0
    rho: float = 0.85
    sizes: Sizes = SIZES

    @property
    def radius(self) -> float:
        """The paper's radius, alpha sqrt r."""
        return float(self.alpha * np.sqrt(self.rank))


EXPERIMENT_1 = Experiment(100, Probit(0.1), steps=(3e-4, 1e-3))
EXPERIMENT_2 = Experiment(300, Logistic(7.0), steps=(1e-3, 1e-3))


@dataclass(frozen=True)
class Simulation:
    """A hidden matrix M, the scale of its uniform factors, and its observations."""

    M: Array
    scale: float
    observations: Observations


@lru_cache(maxsize=4)
def simulate(experiment: Experiment, seed: int, trial: int) -> Simulation:
    """Simulate M, its quantisation and the observations; the same for every mixture of a trial."""
    draws = np.random.Generator(np.random.PCG64([seed, trial]))
    shape = experiment.size, experiment.size
    target = low_rank_factors(shape, experiment.rank, alpha=experiment.alpha, random_state=draws)
    M = target.dense()
    Y = quantise(M, experiment.link, random_state=draws)
    # Uniform on [-1, 1] before scaling: the largest of many entries is nearly the scale.
    scale = float(np.max(np.abs(target.U)) * np.max(np.abs(target.V)))
    return Simulation(M, scale, observe(Y, experiment.rho, random_state=draws))


def synthetic_study(
    name: str,
    experiment: Experiment,
    mixtures: Sequence[Mixture],
    settings: Settings,
    *,
    varied: Sequence[Mixture],
) -> Study:
    """Return the tasks of a figure: every mixture and the posterior mean on every simulated table.

    ``varied`` are the mixtures for which the effect of rounding is measured, and for which the solved protocol also
    varies the printed iteration.
    """
    fit = _fit_by(settings.protocol)
    steps = experiment.steps if settings.step is None else (settings.step, settings.step)
    solved = settings.protocol == "solved"

    def tasks(_: Results) -> list[Task]:
        found = []
        for trial in range(settings.n_trials):
            where = (experiment, settings.seed, trial)
            found.append(Task(f"{trial} {FLOOR}", fit_posterior, (Trial(*where),)))
            found += [
                Task(f"{trial} {_mixture_key(mixture)}", fit, (Trial(*where, mixture), steps))
                for mixture in mixtures
            ]
        nudged = replace(experiment, alpha=experiment.alpha * (1.0 + NUDGE))
        found += [
            Task(
                f"0 {_mixture_key(mixture)} nudged",
                fit_nudged,
                (Trial(nudged, settings.seed, 0, mixture), settings.protocol, steps),
            )
            for mixture in varied
        ]
        if solved:
            found += [
                Task(
                    f"{trial} {_mixture_key(mixture)} step {step:g}",
                    fit_varied,
                    (Trial(experiment, settings.seed, trial, mixture), (step,)),
                )
                for trial in range(min(N_VARIED_TRIALS, settings.n_trials))
                for mixture in varied
                for step in experiment.sizes.varied_steps
            ]
        return found

    parameters = settings.to_dict() | {
        "size": experiment.size,
        "rank": experiment.rank,
        "alpha": experiment.alpha,
        "rho": experiment.rho,
        "link": repr(experiment.link),
        "step": dict(zip(SCALINGS, steps, strict=True)) if settings.protocol == "paper" else None,
        "mixtures": [list(mixture) for mixture in mixtures],
    }
    return Study(name, parameters, (tasks,), n_tasks=len(tasks({})))


@dataclass(frozen=True)
class Trial:
    """One simulated table of an experiment, and the mixture under which it is completed (None for the floor)."""

    experiment: Experiment
    seed: int
    number: int
    mixture: Mixture | None = None

    @property
    def simulation(self) -> Simulation:
        """The table."""
        return simulate(self.experiment, self.seed, self.number)

    def generator(self, *purpose: int) -> np.random.Generator:
        """Return a generator for one purpose, the same for all mixtures of a trial."""
        return np.random.Generator(np.random.PCG64([self.seed, self.number, *purpose]))

    def start(self) -> Pair:
        """Return small random factors."""
        shape, rank = (self.experiment.size, self.experiment.size), self.experiment.rank
        scale = np.sqrt(self.experiment.alpha) * (START_VARIANCE / rank) ** 0.25
        return small_factors(shape, rank, scale, self.generator(1))

    def objective(self, seen: Observations | None = None, rho: float | None = None) -> Objective:
        """Return the risk of the mixture on the observed entries, or on some of them with their own rho."""
        seen = self.simulation.observations if seen is None else seen
        assert self.mixture is not None
        risk = tri(*self.mixture, rho=self.experiment.rho if rho is None else rho)
        return Objective(seen, self.experiment.link, risk, arithmetic=Arithmetic(DTYPE))

    def row(self, way: str, X: Array, **found: object) -> Row:
        """Return a row of results with the relative error of X."""
        M = self.simulation.M
        weights = self.mixture or (None, None, None)
        return (
            {"trial": self.number, "way": way}
            | dict(zip(WEIGHTS, weights, strict=True))
            | {"relative_error": float(np.linalg.norm(X - M) / np.linalg.norm(M))}
            | found
        )


def fit_paper(trial: Trial, steps: Sequence[float]) -> list[Row]:
    """Run the paper's iteration with each scaling, from the same small random start."""
    experiment = trial.experiment
    objective, start = trial.objective(), trial.start()
    rows = []
    for scaling, step, most in zip(SCALINGS, steps, experiment.sizes.max_steps, strict=True):
        options: dict[str, Any] = {
            "radius": experiment.radius,
            "alpha": experiment.alpha,
            "step": step,
            "scaling": scaling,
        }
        settled = iterate(objective, start, **options, max_iter=most, tol=TOL)
        rows.append(
            trial.row(
                scaling,
                settled.U @ settled.V.T,
                radius=experiment.radius,
                step=step,
                risk=objective.value(settled.factors),
                iterations=settled.n_iter,
                at_rest=is_at_rest(objective, settled, **options),
            )
        )
    return rows


def fit_solved(trial: Trial, _: Sequence[float]) -> list[Row]:
    """Solve the stated problem with growing k, and on the first simulated table from other starts with the last k."""
    experiment = trial.experiment
    objective = trial.objective()
    columns = tuple(experiment.rank * share for share in experiment.sizes.columns)
    stages: list[tuple[str, int, Stage]] = []
    for start in range(N_STARTS if trial.number == 0 else 1):
        found = grow_columns(
            objective,
            columns if start == 0 else (stages[-1][2].columns,),
            radius=experiment.radius,
            alpha=experiment.alpha,
            stopping=experiment.sizes.solved,
            generator=trial.generator(4, start),
        )
        ways = [START] if start else [NARROW, *[STAGE] * (len(found) - 2), SOLVED]
        stages += [(way, start, stage) for way, stage in zip(ways, found, strict=True)]
    return [
        trial.row(
            way,
            stage.dense(),
            radius=experiment.radius,
            risk=stage.risk,
            iterations=stage.iterations,
            converged=stage.converged,
            columns=stage.columns,
            change=stage.change,
            start=start,
        )
        for way, start, stage in stages
    ]


def fit_nudged(trial: Trial, protocol: str, steps: Sequence[float]) -> list[Row]:
    """Return the fits of a protocol on a problem that was changed in the last digit of alpha."""
    rows = _fit_by(protocol)(trial, steps)
    return [row | {"way": NUDGED, "of": row["way"]} for row in rows if not row.get("start")]


def fit_varied(trial: Trial, steps: Sequence[float]) -> list[Row]:
    """Run the paper's iteration with other steps, and return the error after several numbers of steps."""
    experiment = trial.experiment
    objective = trial.objective()
    rows = []
    for scaling in SCALINGS:
        for step in steps:
            pair, done = trial.start(), 0
            for count in experiment.sizes.varied_iterations:
                settled = iterate(
                    objective,
                    pair,
                    radius=experiment.radius,
                    alpha=experiment.alpha,
                    step=step,
                    scaling=scaling,
                    max_iter=count - done,
                    tol=0.0,
                )
                pair, done = (settled.U, settled.V), count
                rows.append(
                    trial.row(
                        VARIED,
                        settled.U @ settled.V.T,
                        scaling=scaling,
                        radius=experiment.radius,
                        step=step,
                        risk=objective.value(settled.factors),
                        iterations=count,
                    )
                )
    return rows


def fit_tuned(trial: Trial, _: Sequence[float]) -> list[Row]:
    """Choose the radius along a path of balls: on a validation set and, to compare, by the hidden matrix itself."""
    experiment = trial.experiment
    train, held_out = trial.simulation.observations.split(HELD_OUT, random_state=trial.generator(2))
    start = Factors.of(*trial.start())
    objective = trial.objective(train, 1 - (1 - experiment.rho) * (1 - HELD_OUT))
    losses = [
        _mean_loss(experiment.link, factors, held_out)
        for factors in _path(objective, experiment, start)
    ]
    objective = trial.objective()
    path = list(_path(objective, experiment, start))
    rows = [
        trial.row(
            TUNED,
            factors.row_factors @ factors.column_factors.T,
            radius=share * experiment.radius,
            risk=objective.value(factors),
            held_out_loss=loss,
        )
        for share, factors, loss in zip(experiment.sizes.radii, path, losses, strict=True)
    ]
    oracle = min(rows, key=lambda row: row["relative_error"])
    return [rows[int(np.argmin(losses))], oracle | {"way": BEST}]


def fit_posterior(trial: Trial) -> list[Row]:
    """Return the error of the posterior mean under the true prior, which no estimate beats on average."""
    experiment = trial.experiment
    X = posterior_mean(
        trial.simulation.observations,
        experiment.link,
        rank=experiment.rank,
        scale=trial.simulation.scale,
        sweeps=experiment.sizes.sweeps,
        burn_in=experiment.sizes.burn_in,
        random_state=trial.generator(3),
    )
    return [trial.row(FLOOR, X)]


def _fit_by(protocol: str) -> Callable[[Trial, Sequence[float]], list[Row]]:
    """Return the function of a protocol."""
    return {"paper": fit_paper, "solved": fit_solved, "tuned": fit_tuned}[protocol]


def _path(objective: Objective, experiment: Experiment, start: Factors) -> Iterator[Factors]:
    radii = [share * experiment.radius for share in experiment.sizes.radii]
    for result in minimise_in_balls(objective, radii, start, experiment.sizes.tuned):
        yield result.factors


def _mean_loss(link: Link, factors: Factors, entries: Observations) -> float:
    return log_loss(link, factors.at(entries.rows, entries.columns), entries.labels)


def _mixture_key(mixture: Mixture) -> str:
    return " ".join(f"{weight:g}" for weight in mixture)
