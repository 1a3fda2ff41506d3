"""How often intervals and sets hold the truth: ``TRIBIT_DATA=FOLDER python -m benchmarks.coverage``.

Intervals for hidden values on simulated matrices; probabilities and sets of labels on held-out
entries of MovieLens-100k; the same on Coat, whose test items are a random sample and whose training items were not.
Without the data only the first are printed. A number is the mean over the seeds, with its standard deviation.
"""

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Link, Logistic, Observations, Probit, evaluate
from tribit.datasets import coat, movielens100k
from tribit.metrics.entries import calibration_error
from tribit.propensity import low_rank, row_column
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import CALIBRATORS, calibrate, conformal, laplace

SEEDS = range(5)
DRAWS = range(20, 25)  # the method was chosen on others
LEVEL = 0.9
LOGISTIC = Logistic()


@dataclass(frozen=True)
class Setting:
    """A simulated matrix and its model; the ridge is chosen on held-out entries."""

    name: str
    shape: tuple[int, int] = (200, 150)
    true_rank: int = 3
    size: float = 1.0
    rho: float = 0.6
    link: Link = LOGISTIC
    rank: int = 5
    gammas: tuple[float, float, float] = (1.0, 0.0, 0.0)
    radius: float | None = None
    ridges: tuple[float, ...] = (1, 2, 3, 5, 7, 10, 14)
    uniform: bool = False

    def target(self, draws: np.random.Generator) -> np.ndarray:
        """Return M: normal factors and effects, or the uniform factors of the paper."""
        if self.uniform:
            return low_rank_target(self.shape, self.true_rank, alpha=self.size, random_state=draws)
        U, V = (draws.standard_normal((side, self.true_rank)) for side in self.shape)
        effects = [0.5 * draws.standard_normal(side) for side in self.shape]
        return self.size * (
            U @ V.T / np.sqrt(self.true_rank) + effects[0][:, None] + effects[1] + 0.3
        )

    def fit(self, seen: Observations, l2: float) -> BinaryMatrixCompletion:
        """Return the model of a ridge."""
        return BinaryMatrixCompletion(
            self.gammas,
            rho=None,
            link=self.link,
            rank=self.rank,
            radius=self.radius,
            l2=l2,
            l2_intercept=l2,
            implicit_features=False,
            l2_implicit=None,
            intercept=not self.uniform,
            dtype="float64",
            n_jobs=1,
            random_state=0,
        ).fit(seen)


SETTINGS = (
    Setting("200 x 150, rank 3, 40% seen"),
    Setting("the same, 10 factors fitted", rank=10),
    Setting("the same, 15% seen", rho=0.85),
    Setting("the same, entries 3 times as large", size=3.0),
    Setting("the same, probit link", link=Probit()),
    Setting("the same, mixture (.5, .25, .25)", gammas=(0.5, 0.25, 0.25), radius=3.0),
    Setting("500 x 400, rank 3, 20% seen", shape=(500, 400), rho=0.8),
    Setting(
        "the paper's experiment 2",
        shape=(300, 300),
        true_rank=10,
        rho=0.85,
        link=Logistic(7.0),
        rank=10,
        ridges=(5, 10, 20, 30, 40, 60),
        uniform=True,
    ),
)


def intervals(setting: Setting, seed: int) -> list[float]:
    """Return coverage and width of the intervals of x, as they are and adjusted, the error of x, and the ridge."""
    draws = np.random.default_rng(seed)
    M = setting.target(draws)
    seen = observe(quantise(M, setting.link, random_state=draws), setting.rho, random_state=draws)
    train, held_out = seen.split(0.1, random_state=draws)
    models = [setting.fit(train, l2) for l2 in setting.ridges]
    model = min(models, key=lambda fitted: evaluate(fitted, held_out).log_loss)
    plain = laplace(model, train)
    i, j = np.divmod(draws.choice(M.size, 20_000, replace=False), M.shape[1])
    found = []
    for posterior in (plain, plain.with_adjustment(held_out, random_state=seed)):
        each = posterior.interval(i, j, level=LEVEL, what="score")
        found += [float(each.covers(M[i, j]).mean()), float(each.width.mean())]
    error = np.sqrt(np.mean((model.decision_function(i, j) - M[i, j]) ** 2))
    return [*found, float(error), float(model.l2)]


def synthetic() -> None:
    """Print the table of intervals."""
    rows = []
    for setting in SETTINGS:
        values = np.array([intervals(setting, seed) for seed in DRAWS])
        rows.append((setting.name, *summary(values, (3, 2, 3, 2, 2, 1))))
    print_table(
        f"Intervals of x at level {LEVEL:g}, {len(DRAWS)} draws each",
        ("data", "Laplace: covers", "width", "adjusted: covers", "width", "error of x", "l2"),
        rows,
    )


Scores = dict[tuple[str, ...], list[float]]


def probabilities(model: BinaryMatrixCompletion, train, held_out, test, seed: int, **aim) -> Scores:
    """Return log-loss and calibration error on the test part, for every calibrator and for the posterior mean."""
    x, like = model.decision_function(*pairs(model, test)), test.labels > 0
    answers = {
        method: calibrate(model, held_out, method=method, random_state=seed, **aim)(x)
        for method in ("auto", *CALIBRATORS)
    }
    answers["none; mean over Laplace"] = laplace(model, train).predict_proba(*pairs(model, test))
    return {
        (name,): [
            float(-np.mean(np.log(np.where(like, p, 1 - p)))),
            calibration_error(p, test.labels),
        ]
        for name, p in answers.items()
    }


def sets(model: BinaryMatrixCompletion, held_out, test, **aim) -> Scores:
    """Return coverage of all, of likes and of dislikes, mean size and share of single labels."""
    found = {}
    for by_label in (False, True):
        for level in (0.8, 0.9, 0.95):
            made = conformal(model, held_out, by_label=by_label, **aim).sets(
                *pairs(model, test), level=level
            )
            held, like = made.covers(test.labels), test.labels > 0
            shares = held, held[like], held[~like], made.size, made.size == 1
            found["by label" if by_label else "all", f"{level:g}"] = [
                float(share.mean()) for share in shares
            ]
    return found


def pairs(model: BinaryMatrixCompletion, seen: Observations) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of observed entries by id where there are ids."""
    rows, columns = seen.rows, seen.columns
    return (
        rows if model.row_ids_ is None else seen.row_ids[rows],
        columns if model.column_ids_ is None else seen.column_ids[columns],
    )


def movielens(folder: Path) -> None:
    """Print the tables of MovieLens: probabilities and sets fitted on validation, measured on the test part."""
    data = movielens100k(folder / "ml-100k")
    # The ridge by the validation part of another split: that of these seeds is for calibration alone.
    other = data.split(10)
    ridge = best_ridge(other.train, other.validation)

    def measured(seed: int) -> tuple[Scores, Scores]:
        split = data.split(seed)
        model = plain_model(ridge).fit(split.train)
        return (
            probabilities(model, split.train, split.validation, split.test, seed),
            sets(model, split.validation, split.test),
        )

    tables(f"MovieLens-100k, held-out entries (l2 = {ridge:g})", [measured(s) for s in SEEDS])


def coats(folder: Path) -> None:
    """Print the tables of Coat: fitted on self-chosen items, measured on random items."""
    data = coat(folder / "coat")
    train, test = data.train.observations(), data.test.observations()
    fit, validation = train.split(0.2, random_state=10)
    ridge = best_ridge(fit, validation)
    masks = {
        "1": {},
        "1 / q, row-column": {"propensity": row_column(train)},
        "1 / q, low-rank": {"propensity": low_rank(train, random_state=0)},
    }

    def measured(aim: dict) -> Callable[[int], tuple[Scores, Scores]]:
        def run(seed: int) -> tuple[Scores, Scores]:
            kept, held_out = train.split(0.2, random_state=seed)
            model = plain_model(ridge).fit(kept)
            return (
                probabilities(model, kept, held_out, test, seed, **aim),
                sets(model, held_out, test, **aim),
            )

        return run

    for weight, aim in masks.items():
        found = [measured(aim)(seed) for seed in SEEDS]
        tables(f"Coat, random items, weights {weight} (l2 = {ridge:g})", found)


def plain_model(l2: float) -> BinaryMatrixCompletion:
    """Return the model from observed signs alone."""
    return BinaryMatrixCompletion(
        (1, 0, 0),
        rho=None,
        rank=10,
        radius=None,
        l2=l2,
        l2_intercept=l2,
        implicit_features=False,
        l2_implicit=None,
        n_jobs=1,
        random_state=0,
    )


def best_ridge(train: Observations, validation: Observations) -> float:
    """Return the ridge with the least held-out log-loss."""
    return min(
        (3.0, 5.0, 8.0, 12.0),
        key=lambda l2: evaluate(plain_model(l2).fit(train), validation).log_loss,
    )


def tables(title: str, found: list[tuple[Scores, Scores]]) -> None:
    """Print the means over the seeds: one table of probabilities, one of sets."""
    for part, what, header, digits in (
        (0, "probabilities", ("calibrator", "log-loss", "calibration error"), (4, 4)),
        (
            1,
            "sets of labels",
            ("level for", "level", "covers", "likes", "dislikes", "mean size", "single"),
            (3, 3, 3, 3, 3),
        ),
    ):
        rows = [
            (*key, *summary(np.array([one[part][key] for one in found]), digits))
            for key in found[0][part]
        ]
        print_table(f"{title}: {what}", header, rows)


def summary(values: np.ndarray, digits: Iterable[int]) -> list[str]:
    """Return mean and standard deviation of each column."""
    return [
        f"{mean:.{d}f} ± {deviation:.{d}f}"
        for mean, deviation, d in zip(values.mean(axis=0), values.std(axis=0), digits, strict=True)
    ]


def main() -> None:
    """Print every table."""
    began = time.perf_counter()
    print(machine())
    warnings.simplefilter("ignore", ConvergenceWarning)
    synthetic()
    if FOLDER:
        movielens(Path(FOLDER))
        coats(Path(FOLDER))
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
