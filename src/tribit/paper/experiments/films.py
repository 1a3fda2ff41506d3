"""Experiment 3 of the paper: the signs of MovieLens ratings, under each mixture of the risks.

A trial is a split of the ratings: a twentieth each for validation and test. As in the paper, PN alone chooses alpha
and r on the validation part, and the mixtures share them. The alpha = 1 and r = 10 of the other experiments are run as
well, because the gain of a mixture over PN depends on alpha. The solved protocol has only these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Arithmetic, Objective
from tribit.data.observations import Observations
from tribit.datasets import movielens100k
from tribit.datasets.ratings import Ratings, Split
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.risks import tri
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.protocols import (
    Array,
    Pair,
    Settled,
    grow_columns,
    is_at_rest,
    iterate,
    minimise_in_balls,
    small_factors,
)
from tribit.paper.experiments.runner import Results, Study, Task
from tribit.paper.experiments.settings import HALF, INSIDE, PN, WEIGHTS, Mixture, Settings
from tribit.solvers.loop import Stopping

LINK = Logistic(1.0)
#: Ways to choose alpha, r and the number of latent factors k.
CHOSEN, SAME, TUNED = "alpha and r chosen by PN", "alpha = 1 and r = 10", "radius chosen"
SOLVED, NARROW = "solved, alpha = 1 and r = 10, k = 40", "solved, alpha = 1 and r = 10, k = 10"
WAYS = (CHOSEN, SAME, SOLVED, NARROW, TUNED)
#: Mixtures of the solved protocol: PN, the middles of the edges, and one inside.
COARSE = (PN, HALF, (0.5, 0.5, 0.0), (0.5, 0.0, 0.5), INSIDE)
#: Thresholds that turn an estimate into signs: the mean of X, as in the paper, or 0.
MEAN, ZERO = "mean(X)", "0"
#: Part and threshold of the errors that choose a step, alpha, r or radius.
JUDGE = ("validation", MEAN)
#: Type of the arithmetic, enough for five digits of an error rate.
DTYPE = "float32"
OVERALL = "all"


#: Factors by which alpha and the step grow beyond their grids while the largest is the best, and the most of each.
ALPHA_FACTOR, MAX_ALPHA = 2.0, 64.0
STEP_FACTOR, MAX_LONG_STEP = 10**0.5, 1.0


@dataclass(frozen=True)
class Grid:
    """Values of alpha and r among which PN chooses, and the steps tried with them; both are widened at their ends."""

    alphas: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    ranks: tuple[int, ...] = (2, 5, 10)
    steps: tuple[float, ...] = (1e-2, 3e-3, 1e-3)


#: The grid, and whether it is the quick one.
GRIDS = {False: Grid(), True: Grid((2.0, 8.0), (10,), (1e-2, 3e-3))}


@dataclass(frozen=True)
class Sizes:
    """Numbers of steps, latent factors and radii of the three protocols; solved and tuned have r = 10."""

    max_steps: int = 300
    tol: float = 1e-3
    columns: tuple[int, ...] = (10, 40)
    solved: Stopping = field(default=Stopping(max_iter=300, tol=1e-3, interruptible=False))
    radii: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
    tuned: Stopping = field(default=Stopping(max_iter=60, tol=1e-4))


SIZES = Sizes()


@lru_cache(maxsize=1)
def ratings_of(data: Path | None) -> Ratings:
    """Return the ratings in a folder, read once."""
    return movielens100k(data)


@lru_cache(maxsize=2)
def load_split(data: Path | None, split: int) -> Split:
    """Return a split of the ratings, a twentieth each for test and validation."""
    ratings = ratings_of(data)
    if len(ratings) < 20:
        raise InvalidInputError(
            f"{len(ratings)} ratings are too few for the paper's split into training, validation and test."
        )
    held_out = len(ratings) // 20
    return ratings.split(split, test=held_out, validation=held_out)


def fingerprint(ratings: Ratings) -> str:
    """Return a hash of users, items and ratings, the same for any order of the file."""
    order = np.lexsort((ratings.items, ratings.users))
    whole = hashlib.sha256()
    for values in (ratings.users, ratings.items, ratings.ratings):
        whole.update(np.ascontiguousarray(values[order]).tobytes())
    return whole.hexdigest()[:16]


@lru_cache(maxsize=1)
def stars(data: Path | None) -> NDArray[np.int8]:
    """Return the dense table of ratings, for lookups of single cells."""
    ratings = ratings_of(data)
    table = np.zeros(ratings.shape, dtype=np.int8)
    users = np.searchsorted(np.asarray(ratings.user_ids), ratings.users)
    items = np.searchsorted(np.asarray(ratings.item_ids), ratings.items)
    table[users, items] = ratings.ratings
    return table


@dataclass(frozen=True)
class Fit:
    """An estimate of one split, and the choices behind it."""

    U: Array
    V: Array
    choices: Row


@dataclass(frozen=True)
class Trial:
    """A split of the ratings, the way to choose hyperparameters, and the mixture of the risks."""

    data: Path | None
    split: int
    way: str
    mixture: Mixture

    @property
    def parts(self) -> Split:
        """The entries of training, validation and test."""
        return load_split(self.data, self.split)

    def objective(self) -> Objective:
        """Return the risk on the training entries."""
        train = self.parts.train
        risk = tri(*self.mixture, rho=1.0 - train.density)
        return Objective(train, LINK, risk, arithmetic=Arithmetic(DTYPE))

    def start(self, size: float, rank: int) -> Pair:
        """Return small random factors, the same for every mixture of a split."""
        draws = np.random.Generator(np.random.PCG64([self.split, 1]))
        scale = float(np.sqrt(0.1 * size) / rank**0.25)
        return small_factors(self.parts.train.shape, rank, scale, draws)

    def best_of(self, fits: list[Fit], rested: Callable[[Fit], bool] | None = None) -> list[Row]:
        """Return each fit's validation error, and all errors of the best fit, with ``at_rest`` where asked for."""
        judged = [self.validation_row(fit) for fit in fits]
        best = int(np.argmin([row["error"] for row in judged]))
        others = [row | {"chosen": False} for place, row in enumerate(judged) if place != best]
        fit = fits[best]
        if rested is not None:
            fit = replace(fit, choices=fit.choices | {"at_rest": rested(fit)})
        return others + list(self.every_row(fit))

    def validation_row(self, fit: Fit) -> Row:
        """Return the error by which fits are chosen."""
        name, cut = JUDGE
        wrong = _wrong_labels(getattr(self.parts, name), fit, cut)
        return self._row(fit, name, cut, OVERALL, wrong)

    def every_row(self, fit: Fit) -> Iterable[Row]:
        """Yield the errors of a chosen fit by part, threshold and rating."""
        for name in ("validation", "test"):
            entries = getattr(self.parts, name)
            given = stars(self.data)[entries.rows, entries.columns]
            for cut in (MEAN, ZERO):
                wrong = _wrong_labels(entries, fit, cut)
                yield self._row(fit, name, cut, OVERALL, wrong) | {"chosen": True}
                for rating in range(1, 6):
                    those = wrong[given == rating]
                    if those.size:
                        yield self._row(fit, name, cut, str(rating), those) | {"chosen": True}

    def _row(self, fit: Fit, part: str, cut: str, rating: str, wrong: NDArray[np.bool_]) -> Row:
        return (
            {"split": self.split, "way": self.way}
            | dict(zip(WEIGHTS, self.mixture, strict=True))
            | fit.choices
            | {"part": part, "cut": cut, "rating": rating, "entries": int(wrong.size)}
            | {"error": float(np.mean(wrong))}
        )


def films_study(
    settings: Settings, mixtures: Sequence[Mixture], data: Path | None, *, along_t: bool = False
) -> Study:
    """Return the tasks of Fig. 4 and Table 1, which share every fit; along t, those of mixtures with alpha = 1."""
    ratings = movielens100k(data)
    load_split(data, settings.seed)  # refuses too few ratings here, not in a worker
    trials = range(settings.n_trials)
    steps = GRIDS[settings.quick].steps if settings.step is None else (settings.step,)

    def select(_: Results) -> list[Task]:
        arguments = [(data, settings.seed + trial, settings.quick, steps) for trial in trials]
        return [
            Task(f"select {trial}", select_by_pn, given)
            for trial, given in zip(trials, arguments, strict=True)
        ]

    def mix(results: Results) -> list[Task]:
        tasks = []
        for trial in trials:
            found = [] if along_t else results[f"select {trial}"]
            for way, alpha, rank in _ways(found):
                tasks += [
                    Task(
                        f"{trial} {way} {mixture}",
                        fit_paper,
                        (Trial(data, settings.seed + trial, way, mixture), alpha, rank, steps),
                    )
                    for mixture in mixtures
                ]
        return tasks

    tuned = settings.protocol == "tuned"
    fit, way = (fit_tuned, TUNED) if tuned else (fit_solved, SOLVED)

    def alone(_: Results) -> list[Task]:
        return [
            Task(f"{trial} {mixture}", fit, (Trial(data, settings.seed + trial, way, mixture),))
            for trial in trials
            for mixture in mixtures
        ]

    parameters = settings.to_dict() | {
        "data": fingerprint(ratings),
        "step": list(steps) if settings.protocol == "paper" else None,
        "mixtures": [list(mixture) for mixture in mixtures],
    }
    name, count = "movielens-t" if along_t else "movielens", settings.n_trials * len(mixtures)
    if settings.protocol != "paper":
        return Study(name, parameters, (alone,), n_tasks=count)
    if along_t:
        return Study(name, parameters, (mix,), n_tasks=count)
    return Study(name, parameters, (select, mix), n_tasks=settings.n_trials + 2 * count)


def select_by_pn(data: Path | None, split: int, quick: bool, steps: Sequence[float]) -> list[Row]:
    """Fit PN for every alpha, r and step; return the validation error of each.

    While the largest alpha is the best, twice as large ones follow.
    """
    trial = Trial(data, split, CHOSEN, PN)
    objective = trial.objective()
    rows: list[Row] = []
    alphas = list(GRIDS[quick].alphas)
    for alpha in alphas:
        for rank in GRIDS[quick].ranks:
            for fit in _paper_fits(trial, objective, alpha, rank, steps):
                rows.append(trial.validation_row(fit) | {"chosen": False})
        at_end = alpha == alphas[-1] and _best(rows)["alpha"] == alpha
        if at_end and alpha * ALPHA_FACTOR <= MAX_ALPHA:
            alphas.append(alpha * ALPHA_FACTOR)
    return rows


def fit_paper(trial: Trial, alpha: float, rank: int, steps: Sequence[float]) -> list[Row]:
    """Run the paper's iteration with each step; return the one that is best on the validation part."""
    objective = trial.objective()
    fits = list(_paper_fits(trial, objective, alpha, rank, steps))

    def is_rested(fit: Fit) -> bool:
        options = {name: fit.choices[name] for name in ("radius", "alpha", "step")}
        return is_at_rest(objective, Settled(fit.U, fit.V, fit.choices["iterations"]), **options)

    return trial.best_of(fits, is_rested)


def fit_solved(trial: Trial) -> list[Row]:
    """Solve the stated problem with alpha = 1 and r = 10 for each number of latent factors."""
    rank = SIZES.columns[0]
    bounds = {"alpha": 1.0, "radius": float(np.sqrt(rank))}
    stages = grow_columns(
        trial.objective(),
        SIZES.columns,
        **bounds,
        stopping=SIZES.solved,
        generator=np.random.Generator(np.random.PCG64([trial.split, 2])),
    )
    rows: list[Row] = []
    for way, stage in ((NARROW, stages[0]), (SOLVED, stages[-1])):
        choices = bounds | {
            "rank": rank,
            "columns": stage.columns,
            "risk": stage.risk,
            "iterations": stage.iterations,
            "converged": stage.converged,
            "change": stage.change,
        }
        fit = Fit(stage.factors.row_factors, stage.factors.column_factors, choices)
        rows += replace(trial, way=way).every_row(fit)
    return rows


def fit_tuned(trial: Trial) -> list[Row]:
    """Minimise inside growing max-norm balls, each from the last; return the best on the validation part."""
    start = Factors.of(*trial.start(SIZES.radii[0], 10))
    fits = []
    found = minimise_in_balls(trial.objective(), SIZES.radii, start, SIZES.tuned)
    for radius, result in zip(SIZES.radii, found, strict=True):
        choices = {"radius": radius, "rank": 10, "iterations": result.n_iter}
        factors = result.factors
        fits.append(Fit(factors.row_factors, factors.column_factors, choices))
    return trial.best_of(fits)


def _best(rows: list[Row]) -> Row:
    return min(rows, key=lambda row: row["error"])


def _ways(selection: list[Row]) -> list[tuple[str, float, int]]:
    same = (SAME, 1.0, 10)
    if not selection:
        return [same]
    best = _best(selection)
    return [(CHOSEN, best["alpha"], best["rank"]), same]


def _paper_fits(
    trial: Trial, objective: Objective, alpha: float, rank: int, steps: Sequence[float]
) -> Iterable[Fit]:
    """Yield a fit for each step, and while the longest of several is the best, for longer ones."""
    start = trial.start(min(alpha, 1.0), rank)
    radius = float(alpha * np.sqrt(rank))
    longest, errors = max(steps), {}
    queue = list(steps)
    for step in queue:
        settled = iterate(
            objective,
            start,
            radius=radius,
            alpha=alpha,
            step=step,
            max_iter=SIZES.max_steps,
            tol=SIZES.tol,
        )
        choices = {
            "alpha": alpha,
            "rank": rank,
            "radius": radius,
            "step": step,
            "iterations": settled.n_iter,
        }
        fit = Fit(settled.U, settled.V, choices)
        yield fit
        errors[step] = trial.validation_row(fit)["error"]
        longest = max(longest, step)
        at_end = (
            len(steps) > 1 and step == queue[-1] and min(errors, key=errors.__getitem__) == longest
        )
        if at_end and longest * STEP_FACTOR <= MAX_LONG_STEP:
            queue.append(longest * STEP_FACTOR)


def _wrong_labels(entries: Observations, fit: Fit, cut: str) -> NDArray[np.bool_]:
    x = np.einsum("tk,tk->t", fit.U[entries.rows], fit.V[entries.columns])
    # The mean of X over all entries, from the sums of the factors alone.
    mean = float(fit.U.mean(axis=0) @ fit.V.mean(axis=0))
    return np.asarray((x >= (mean if cut == MEAN else 0.0)) != (entries.labels > 0))
