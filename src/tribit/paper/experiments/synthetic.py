"""Experiments 1 and 2 of the paper: a drawn matrix, completed under each mixture of the risks.

    min over X of  g_PN L_PN + g_PU L_PU + g_NU L_NU   in   K_max(alpha, alpha sqrt r)

Everything about the draw is known, as the paper assumes: the link, rho, alpha and r.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.data.observations import Observations
from tribit.metrics.entries import log_loss
from tribit.model.constraints import MaxNorm
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import tri
from tribit.paper.experiments.drawn import Experiment, draw
from tribit.paper.experiments.gibbs import posterior_mean
from tribit.paper.experiments.iteration import SCALINGS, is_at_rest, iterate
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.runner import Results, Study, Task
from tribit.paper.experiments.settings import WEIGHTS, Mixture, Settings
from tribit.paper.experiments.solved import SMALL, Stage, grown
from tribit.solvers import Newton
from tribit.solvers.loop import Stopping

Array = NDArray[np.floating[Any]]
Pair = tuple[Array, Array]

#: Name of the floor among the ways to complete.
FLOOR = "posterior mean"
#: The ways of the tuned protocol: the radius chosen on held-out entries, and the best one for the hidden matrix.
TUNED, TOLD = "held-out radius", "best radius"
#: The ways of the solved protocol: k grown until X stops changing, k = r, the other k on the way, and what other
#: starts reach on the first draw.
SOLVED, NARROW, STAGE, START = "solved", "solved with k = r", "other k", "other start"
#: The printed iteration with other steps and numbers of steps, which the solved protocol shows beside it.
VARIED = "printed iteration, varied"
#: Numbers of columns, in multiples of r.
GROWTH = (1, 4, 16, 30)
#: Number of starts on the first draw; the others go straight to the last number of columns.
STARTS = 2
SOLVED_STOPPING = Stopping(max_iter=1500, tol=1e-3, interruptible=False)
#: Steps of the varied iteration, after how many it is looked at, and on how many draws.
VARIED_STEPS, VARIED_ITERATIONS, VARIED_TRIALS = (3e-4, 3e-3), (400, 2000), 3
#: Radii of the tuned protocol, as shares of the paper's alpha sqrt r; inside them no entry can pass alpha.
RADII = (0.0125, 0.025, 0.035, 0.05, 0.07, 0.1, 0.2)
#: Share of the observed entries on which a radius is chosen.
HELD_OUT = 0.1
#: The float of the tiles; in float64 the errors agree to seven digits after hundreds of steps.
DTYPE = "float32"
#: The iteration ends when a step moves the factors by less than this share.
TOL = 3e-4
#: Most steps of the iteration.
MOST = {"whole": 1000, "rows": 400}


def synthetic_study(
    name: str,
    experiment: Experiment,
    mixtures: Sequence[Mixture],
    settings: Settings,
    *,
    varied: Sequence[Mixture],
) -> Study:
    """Return the tasks of a figure: every mixture on every draw, and the posterior mean of every draw.

    ``varied`` are the mixtures for which the solved protocol also varies the printed iteration.
    """
    fit = {"paper": fit_paper, "solved": fit_solved, "tuned": fit_tuned}[settings.protocol]
    steps = experiment.steps if settings.step is None else (settings.step, settings.step)
    solved = settings.protocol == "solved"

    def tasks(_: Results) -> list[Task]:
        found = []
        for trial in range(settings.n_trials):
            where = (experiment, settings.seed, trial)
            found.append(Task(f"{trial} {FLOOR}", fit_posterior, where))
            found += [
                Task(f"{trial} {_named(mixture)}", fit, (*where, mixture, steps))
                for mixture in mixtures
            ]
        if solved:
            found += [
                Task(
                    f"{trial} {_named(mixture)} step {step:g}",
                    fit_varied,
                    (experiment, settings.seed, trial, mixture, (step,)),
                )
                for trial in range(min(VARIED_TRIALS, settings.n_trials))
                for mixture in varied
                for step in VARIED_STEPS
            ]
        return found

    parameters = settings.described() | {
        "size": experiment.size,
        "rank": experiment.rank,
        "alpha": experiment.alpha,
        "rho": experiment.rho,
        "link": repr(experiment.link),
        "step": dict(zip(SCALINGS, steps, strict=True)) if settings.protocol == "paper" else None,
        "mixtures": [list(mixture) for mixture in mixtures],
    }
    return Study(name, parameters, (tasks,), n_tasks=len(tasks({})))


def fit_paper(
    experiment: Experiment, seed: int, trial: int, mixture: Mixture, steps: Sequence[float]
) -> list[Row]:
    """Iterate as the paper does, cutting entries in either way; from the same small random start."""
    drawn = draw(experiment, seed, trial)
    objective = _objective(drawn.observations, experiment, mixture, experiment.rho)
    start = _small_start(experiment, seed, trial)
    rows = []
    for scaling, step in zip(SCALINGS, steps, strict=True):
        options: dict[str, Any] = {
            "radius": experiment.radius,
            "alpha": experiment.alpha,
            "step": step,
            "scaling": scaling,
        }
        settled = iterate(objective, start, **options, max_iter=MOST[scaling], tol=TOL)
        rows.append(
            _row(trial, scaling, mixture, drawn.M, settled.U @ settled.V.T)
            | {
                "radius": experiment.radius,
                "step": step,
                "risk": objective.value(settled.factors),
                "iterations": settled.n_iter,
                "at_rest": is_at_rest(objective, settled, **options),
            }
        )
    return rows


def fit_solved(
    experiment: Experiment, seed: int, trial: int, mixture: Mixture, _: Sequence[float]
) -> list[Row]:
    """Solve the stated problem with growing k, and on the first draw from other starts with the last k."""
    drawn = draw(experiment, seed, trial)
    objective = _objective(drawn.observations, experiment, mixture, experiment.rho)
    columns = tuple(experiment.rank * share for share in GROWTH)
    stages: list[tuple[str, int, Stage]] = []
    for start in range(STARTS if trial == 0 else 1):
        found = grown(
            objective,
            columns if start == 0 else (stages[-1][2].columns,),
            radius=experiment.radius,
            alpha=experiment.alpha,
            stopping=SOLVED_STOPPING,
            generator=np.random.Generator(np.random.PCG64([seed, trial, 4, start])),
        )
        ways = [START] if start else [NARROW, *[STAGE] * (len(found) - 2), SOLVED]
        stages += [(way, start, stage) for way, stage in zip(ways, found, strict=True)]
    return [
        _row(trial, way, mixture, drawn.M, stage.dense())
        | {
            "radius": experiment.radius,
            "risk": stage.risk,
            "iterations": stage.iterations,
            "converged": stage.converged,
            "columns": stage.columns,
            "change": stage.change,
            "start": start,
        }
        for way, start, stage in stages
    ]


def fit_varied(
    experiment: Experiment, seed: int, trial: int, mixture: Mixture, steps: Sequence[float]
) -> list[Row]:
    """Iterate as the paper does with other steps, and look at the error after several numbers of them."""
    drawn = draw(experiment, seed, trial)
    objective = _objective(drawn.observations, experiment, mixture, experiment.rho)
    rows = []
    for scaling in SCALINGS:
        for step in steps:
            pair, done = _small_start(experiment, seed, trial), 0
            for count in VARIED_ITERATIONS:
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
                    _row(trial, VARIED, mixture, drawn.M, settled.U @ settled.V.T)
                    | {
                        "scaling": scaling,
                        "radius": experiment.radius,
                        "step": step,
                        "risk": objective.value(settled.factors),
                        "iterations": count,
                    }
                )
    return rows


def fit_tuned(
    experiment: Experiment, seed: int, trial: int, mixture: Mixture, _: Sequence[float]
) -> list[Row]:
    """Choose the radius along a path of balls: on held-out entries, and, to compare, by the hidden matrix itself."""
    drawn = draw(experiment, seed, trial)
    seen = drawn.observations
    draws = np.random.Generator(np.random.PCG64([seed, trial, 2]))
    train, held_out = seen.split(HELD_OUT, random_state=draws)
    start = Factors.of(*_small_start(experiment, seed, trial))
    objective = _objective(train, experiment, mixture, 1 - (1 - experiment.rho) * (1 - HELD_OUT))
    losses = [
        _mean_loss(experiment.link, factors, held_out)
        for factors in _path(objective, experiment, start)
    ]
    objective = _objective(seen, experiment, mixture, experiment.rho)
    path = list(_path(objective, experiment, start))
    rows = [
        _row(trial, TUNED, mixture, drawn.M, factors.row_factors @ factors.column_factors.T)
        | {
            "radius": share * experiment.radius,
            "risk": objective.value(factors),
            "held_out_loss": loss,
        }
        for share, factors, loss in zip(RADII, path, losses, strict=True)
    ]
    told = min(rows, key=lambda row: row["relative_error"])
    return [rows[int(np.argmin(losses))], told | {"way": TOLD}]


def fit_posterior(experiment: Experiment, seed: int, trial: int) -> list[Row]:
    """Return the error of the posterior mean under the prior of the draw, which no estimate beats on average."""
    drawn = draw(experiment, seed, trial)
    X = posterior_mean(
        drawn.observations,
        experiment.link,
        rank=experiment.rank,
        scale=drawn.scale,
        random_state=np.random.Generator(np.random.PCG64([seed, trial, 3])),
    )
    return [_row(trial, FLOOR, None, drawn.M, X)]


def _objective(
    seen: Observations, experiment: Experiment, mixture: Mixture, rho: float
) -> Objective:
    return Objective(seen, experiment.link, tri(*mixture, rho=rho), dtype=DTYPE)


def _small_start(experiment: Experiment, seed: int, trial: int) -> Pair:
    draws = np.random.Generator(np.random.PCG64([seed, trial, 1]))
    shape = experiment.size, experiment.rank
    scale = np.sqrt(experiment.alpha) * (SMALL / experiment.rank) ** 0.25
    return draws.standard_normal(shape) * scale, draws.standard_normal(shape) * scale


def _path(objective: Objective, experiment: Experiment, start: Factors) -> Iterator[Factors]:
    """Yield the minimiser in each ball, the last one being the warm start of the next."""
    factors = start
    stopping = Stopping(max_iter=100, tol=1e-5)
    nothing = np.random.Generator(np.random.PCG64(0))  # the solver draws none
    for share in RADII:
        ball = MaxNorm(share * experiment.radius)
        inside = Factors.of(*ball.project(factors.row_factors, factors.column_factors))
        factors = Newton().minimise(objective, [ball], inside, stopping, nothing).factors
        yield factors


def _mean_loss(link: Link, factors: Factors, entries: Observations) -> float:
    x = factors.at(entries.rows, entries.columns)
    return log_loss(link, x, entries.labels)


def _row(trial: int, way: str, mixture: Mixture | None, M: Array, X: Array) -> Row:
    weights = mixture or (None, None, None)
    return (
        {"trial": trial, "way": way}
        | dict(zip(WEIGHTS, weights, strict=True))
        | {"relative_error": float(np.linalg.norm(X - M) / np.linalg.norm(M))}
    )


def _named(mixture: Mixture) -> str:
    return " ".join(f"{weight:g}" for weight in mixture)
