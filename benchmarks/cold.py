"""New users and items: ``make bench-cold DATA=folder``, our figures beside the best of other software.

Protocols on MovieLens-100k; a like is a rating of 4 or more, entries are sorted by (user, item), and a seed is that of
``numpy.random.default_rng``. Cold items (users): of those with five ratings or more a tenth, by permutation, is wholly
the test part and another tenth, for tuning, is not used. New users: 100 of those with 30 ratings or more, of each 5, 20
or all but 10 ratings given and 10 others to predict. The figures of other software are the best of about twelve
systems, tuned on validation parts. Choices here were made on seeds 10 to 17, such as by
``python -m benchmarks.cold 10 11 12``. New users are folded in with ``prior="new"``, and with the prior of the fit.
"""

import itertools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Observations, __version__, evaluate

SEEDS = (0, 1, 2)
SHAPE = 943, 1682
TEST = 10  #: ratings of each new user that are predicted
REPEATS = (
    5  #: fold-ins that are timed, of which the fastest counts: the machine may have other work
)

#: Protocol, its name, the best of other software, and the plain answer: error % / AUC / log-loss.
WITH_FEATURES = (
    (
        "cold items",
        "cold items; genres and year known",
        "33.4 / .727 / .607 (logistic regression of user x features)",
        "37.0 / .683 / .637 (user bias)",
    ),
    (
        "cold users",
        "cold users; demographics, genres and year known",
        "32.4 / .722 / .610 (myFM with bags of items and genres)",
        "33.5 / .717 / .614 (item bias)",
    ),
    ("warm", "usual split, all features", "26.45 / - / .527 (myFM with bags and features)", ""),
)
#: Ratings given of each new user, and the best of other software.
GIVEN = (
    (
        5,
        "5",
        "cmfrec 31.5 / .723 / .594, myFM refitted 31.6 / .732 / .595, biases 31.3 / .719 / .599",
    ),
    (20, "20", "myFM refitted 29.5 / .765 / .564, cmfrec 29.7 / .743 / .577"),
    (None, "all but 10", "cmfrec with implicit features 27.3 / .783 / .544"),
)

#: Forms of implicit features: none, as in SVD++, with a floor for the activity of both sides, of rows alone.
FORMS: dict[str, dict[str, Any]] = {
    "none": {"implicit_features": False, "l2": 9.0, "l2_intercept": 3.0},
    "SVD++": {"implicit_features": True, "activity_floor": (0, 0)},
    "floor of rows and columns": {"implicit_features": True, "activity_floor": (1, 1)},
    "floor of rows": {"implicit_features": True, "activity_floor": (1, 0)},
}

Positions = np.ndarray[Any, np.dtype[np.int64]]


class Data(NamedTuple):
    """Ratings sorted by (user, item), and features of users and items."""

    users: Positions
    items: Positions
    labels: np.ndarray[Any, np.dtype[np.int8]]
    of_users: Any
    of_items: Any

    def observed(self, places: Positions) -> Observations:
        """Return some entries of the whole matrix."""
        return Observations(
            self.users[places], self.items[places], self.labels[places], shape=SHAPE
        )


def read() -> Data:
    """Read ratings, demographics, genres and years."""
    folder = f"{FOLDER}/ml-100k"
    table = np.loadtxt(f"{folder}/u.data", dtype=np.int64)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    users = pd.read_csv(
        f"{folder}/u.user", sep="|", names=["id", "age", "gender", "occupation", "zip"]
    )
    items = pd.read_csv(f"{folder}/u.item", sep="|", header=None, encoding="latin-1")
    genres = items.iloc[:, -19:].to_numpy()
    of_items = pd.DataFrame(
        {
            "genres": [list(map(str, np.flatnonzero(row))) for row in genres],
            "year": pd.to_numeric(items[2].str[-4:], errors="coerce"),
        }
    )
    return Data(
        table[:, 0] - 1,
        table[:, 1] - 1,
        np.where(table[:, 2] >= 4, 1, -1).astype(np.int8),
        users[["age", "gender", "occupation"]],
        of_items,
    )


def usual(seed: int) -> tuple[Positions, Positions]:
    """Return the training and the test entries of the usual split."""
    order = np.random.default_rng(seed).permutation(100_000)
    return order[10_000:], order[:5_000]


def cold(side: Positions, seed: int) -> tuple[Positions, Positions]:
    """Return the training entries and those of users (or items) that are wholly held out."""
    eligible = np.flatnonzero(np.bincount(side) >= 5)
    order = np.random.default_rng(seed).permutation(eligible)
    k = round(0.1 * len(eligible))
    return np.flatnonzero(~np.isin(side, order[: 2 * k])), np.flatnonzero(np.isin(side, order[:k]))


def new_users(
    users: Positions, seed: int, given: int | None
) -> tuple[Positions, Positions, Positions]:
    """Return the entries of others, the given ones of 100 new users, and those to predict."""
    draws = np.random.default_rng(seed)
    order = draws.permutation(np.flatnonzero(np.bincount(users) >= 30))
    mine = {user: draws.permutation(np.flatnonzero(users == user)) for user in order[:200]}
    new = order[:100]
    stop = None if given is None else TEST + given
    known = np.concatenate([mine[user][TEST:stop] for user in new])
    test = np.concatenate([mine[user][:TEST] for user in new])
    return np.flatnonzero(~np.isin(users, new)), known, test


def measured(model: BinaryMatrixCompletion, test: Observations) -> tuple[float, float, float]:
    """Return error rate in percent, AUC and log-loss."""
    found = evaluate(model, test)
    return 100 * found.error_rate, found.auc or np.nan, found.log_loss


def fitted(observations: Observations, **features: Any) -> tuple[BinaryMatrixCompletion, float]:
    """Return a model with no arguments, and its processor time."""
    began = time.process_time()
    model = BinaryMatrixCompletion(n_jobs=1, random_state=0).fit(observations, **features)
    return model, time.process_time() - began


def choose_average(run: Callable[[int], Sequence[float]], seeds: Sequence[int]) -> Any:
    """Return the means over seeds."""
    return np.mean([run(seed) for seed in seeds], axis=0)


def written(values: Any) -> str:
    """Return error, AUC and log-loss in one cell."""
    return f"{values[0]:.1f} / {values[1]:.3f} / {values[2]:.3f}"


def main(seeds: Sequence[int]) -> None:
    """Print one row for each protocol."""
    warnings.simplefilter("ignore")
    data = read()

    def features(seed: int, kind: str) -> Any:
        known = {
            "cold items": {"column_features": data.of_items},
            "cold users": {"row_features": data.of_users, "column_features": data.of_items},
            "warm": {"row_features": data.of_users, "column_features": data.of_items},
        }[kind]
        if kind == "warm":
            train, test = usual(seed)
        else:
            train, test = cold(data.items if kind == "cold items" else data.users, seed)
        model, seconds = fitted(data.observed(train), **known)
        return *measured(model, data.observed(test)), seconds

    def folded(seed: int, given: int | None) -> Any:
        others, known, test = new_users(data.users, seed, given)
        new = np.unique(data.users[test])
        number = np.searchsorted(new, data.users)
        # Fold-in: a model that has never heard of the new users.
        train = data.observed(others)
        model, _ = fitted(train)
        entries = Observations(
            number[known], data.items[known], data.labels[known], shape=(new.size, SHAPE[1])
        )
        more, same = (model.fold_in(entries, prior=prior) for prior in ("new", "fit"))
        seconds = []
        for _ in range(REPEATS):
            began = time.process_time()
            model.fold_in(entries, prior="new")
            seconds.append(time.process_time() - began)
        asked = Observations(
            SHAPE[0] + number[test], data.items[test], data.labels[test], shape=more.shape_
        )
        refit, _ = fitted(data.observed(np.concatenate([others, known])))
        per_user = 1000 * min(seconds) / new.size
        scores = measured(more, asked), measured(same, asked), measured(refit, data.observed(test))
        return *itertools.chain(*scores), per_user

    rows = []
    for kind, name, peer, base in WITH_FEATURES:
        ours = choose_average(lambda seed, kind=kind: features(seed, kind), seeds)
        rows.append((name, written(ours), f"{ours[3]:.1f} s", peer, base))
    print_table(
        f"ML-100k, features, seeds {', '.join(map(str, seeds))}: error % / AUC / log-loss",
        ("protocol", "ours", "CPU", "best of other software", "plain"),
        rows,
    )
    rows = []
    for given, name, peer in GIVEN:
        ours = choose_average(lambda seed, given=given: folded(seed, given), seeds)
        cells = (written(ours[start:]) for start in (0, 3, 6))
        rows.append((name, *cells, f"{ours[9]:.2f}", peer))
    print_table(
        f"ML-100k, 100 new users, 10 ratings of each to predict, seeds {', '.join(map(str, seeds))}",
        (
            "given",
            "folded in, prior=new",
            "prior=fit",
            "refitted",
            "CPU ms a user",
            "best of other software",
        ),
        rows,
    )
    forms(data, seeds)


def forms(data: Data, seeds: Sequence[int]) -> None:
    """Print the gain of the forms of implicit features, by the number of ratings given; settings are fixed."""
    fixed = {"gammas": (1, 0, 0), "rank": 10, "l2": 11.4, "l2_intercept": 1.0, "l2_implicit": 25.8}
    rows = []
    for name, form in FORMS.items():
        cells = []
        for given in ("usual", 5, 20):
            found = []
            for seed in seeds:
                if given == "usual":
                    train, test = usual(seed)
                else:
                    others, known, test = new_users(data.users, seed, int(given))
                    train = np.concatenate([others, known])
                model = BinaryMatrixCompletion(
                    **{**fixed, **form}, calibration=None, members=1, n_jobs=1, random_state=0
                )
                found.append(measured(model.fit(data.observed(train)), data.observed(test)))
            cells.append(written(np.mean(found, axis=0)))
        rows.append((name, *cells))
    print_table(
        f"ML-100k, forms of implicit features at fixed ridges, rank 10, seeds {', '.join(map(str, seeds))}",
        ("features", "usual split", "5 given, refitted", "20 given, refitted"),
        rows,
    )


if __name__ == "__main__":
    print(f"tribit {__version__}. {machine()}\n")
    main(tuple(map(int, sys.argv[1:])) or SEEDS)
