"""Half-lives of entries: ``make bench-time DATA=folder``, on MovieLens-100k and on opinions that change.

Each model is fitted to earlier entries and tested on later ones: on a tenth of the ratings after the first 60, 70, 80
and 90%, on the last ten ratings of each user, and on the last tenth of simulated opinions
(:func:`tribit.simulate.tables.opinions`), whose members turn by an angle in two years. Half-lives of the table are
those of the training entries, relative to the time that these span; "auto" is the default. The number of standard
errors by which a half-life must win was compared by ``python -m benchmarks.half_life threshold``, on other seeds and
one fixed model.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Observations, __version__, evaluate
from tribit.data.reading import observations_from_file
from tribit.data.times import DAY
from tribit.evaluation import evaluate_by_time
from tribit.simulate import tables

#: Half-lives that are given, as shares of the time of the training entries.
SHARES = (1.0, 0.25)
SEEDS = (0, 1, 2)
TURNS = {"0": 0.0, "45": np.pi / 4, "90": np.pi / 2, "180": np.pi}
HEADER = ("test set", "training days", "none", "1 span", "1/4 span", "auto", "half-life of auto")


def fitted(train: Observations, half_life: float | str | None) -> BinaryMatrixCompletion:
    """Fit the default model with a half-life."""
    return BinaryMatrixCompletion(half_life=half_life, random_state=0).fit(train)


def losses_of(train: Observations, test: Observations) -> tuple[list[float], float, float | None]:
    """Return the test log-loss without a half-life, with those of SHARES and with "auto", the span and the choice."""
    times = train.require_times("a benchmark")
    span = float((times.max() - times.min()) / DAY)
    models = [fitted(train, each) for each in (None, *(share * span for share in SHARES), "auto")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown users are predicted from the item alone
        found = [evaluate(model, test).log_loss for model in models]
    return found, span, models[-1].half_life_


def row_of(name: str, train: Observations, test: Observations) -> tuple[object, ...]:
    """Return a row of the table of ratings."""
    losses, span, chosen = losses_of(train, test)
    days = "none" if chosen is None else f"{chosen:.0f} days"
    return name, f"{span:.0f}", *(f"{loss:.4f}" for loss in losses), days


def ratings() -> None:
    """Print the tables of MovieLens-100k."""
    seen = observations_from_file(
        Path(FOLDER) / "ml-100k" / "u.data",
        row="0",
        column="1",
        value="2",
        time="3",
        like_at=4,
        delimiter="tab",
    )
    rows = []
    for share in (0.6, 0.7, 0.8, 0.9):
        later = seen.split(1.0 - share, by="time")
        train, rest = later
        n = round(0.1 * len(seen))
        test = rest if len(rest) <= 1.05 * n else rest.split(len(rest) - n, by="time")[0]
        rows.append(row_of(f"tenth after the first {share:.0%}", train, test))
    rows.append(row_of("last 10 of each user", *seen.split(by="time", last=10, random_state=0)))
    print_table("ML-100k by time, test log-loss with half-lives", HEADER, rows)

    train, test = seen.split(0.3, by="time")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evaluate_by_time(fitted(train, "auto"), test, "month")
    header = ("first", "last", "entries", "users", "base rate", "error %", "log-loss", "AUC")
    months = [
        (
            *(each.first, each.last, each.n_entries, each.n_rows, f"{each.base_rate:.3f}"),
            *(f"{100 * each.measures['error_rate']:.1f}", f"{each.measures['log_loss']:.4f}"),
            f"{each.measures['auc']:.3f}",
        )
        for each in found.periods
    ]
    print_table("ML-100k, the last 30% by month, fitted to the first 70%", header, months)


def simulated(turn: float, seed: int) -> tuple[Observations, Observations]:
    """Return simulated opinions, split by time."""
    frame = tables.opinions(200, 100, turn=turn, random_state=seed)
    seen = Observations.from_frame(
        frame, row="member", column="statement", value="opinion", time="time"
    )
    return seen.split(0.1, by="time")


def threshold() -> None:
    """Print the mean gain of test log-loss, and the number of tables, by the standard errors that a gain must pass."""
    fixed = {"gammas": (1, 0, 0), "rank": 4, "l2": 3.0, "l2_intercept": 1.0}
    fixed |= {"implicit_features": False, "calibration": None, "random_state": 0}
    limits, rows = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5), []
    for degrees in (0, 30, 45, 60):
        ratios, gains = [], []
        for seed in range(10, 26):
            train, test = simulated(np.pi * degrees / 180, seed)
            best = BinaryMatrixCompletion(**fixed).fit(train).record_.half_life.best
            losses = [
                evaluate(BinaryMatrixCompletion(**fixed, half_life=each).fit(train), test).log_loss
                for each in (None, best.half_life)
            ]
            ratios.append(best.gain / best.error)
            gains.append(losses[0] - losses[1])
        passed = [np.array(ratios) > limit for limit in limits]
        rows.append((degrees, *(f"{np.mean(gains * p):.4f} ({p.sum()} of 16)" for p in passed)))
    print_table("Gain of test log-loss by standard errors", ("degrees", *map(str, limits)), rows)


def opinions() -> None:
    """Print the table of simulated opinions."""
    rows = []
    for degrees, turn in TURNS.items():
        found = []
        for seed in SEEDS:
            found.append(losses_of(*simulated(turn, seed)))
        means = np.mean([losses for losses, _, _ in found], axis=0)
        chosen = ", ".join("none" if days is None else f"{days:.0f}" for _, _, days in found)
        rows.append((degrees, f"{found[0][1]:.0f}", *(f"{loss:.4f}" for loss in means), chosen))
    header = ("degrees in two years", *HEADER[1:-1], "half-lives of auto, days")
    print_table("Simulated opinions, mean test log-loss of seeds 0, 1, 2", header, rows)


def main() -> None:
    """Print all tables."""
    print(f"tribit {__version__}. {machine()}\n")
    if sys.argv[1:] == ["threshold"]:
        threshold()
        return
    if FOLDER:
        ratings()
    opinions()


if __name__ == "__main__":
    main()
