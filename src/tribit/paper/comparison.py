"""``tribit compare``: test error and fitting time of every system on the same data."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tribit.backends.threads import count_jobs
from tribit.checks import check_count
from tribit.completion import BinaryMatrixCompletion
from tribit.data.observations import Observations
from tribit.datasets import coat, movielens100k, senate
from tribit.errors import InvalidInputError, TribitError, parameter
from tribit.evaluation.held_out import evaluate
from tribit.factor_model import FactorModel
from tribit.model.links import Logistic
from tribit.paper.experiments.claims import markdown_table
from tribit.paper.experiments.journal import (
    VERSIONS,
    Journal,
    Row,
    results_folder,
    write_csv,
    write_text,
)
from tribit.paper.experiments.runner import Pool, Results, Study, Task, progress_bar
from tribit.paper.experiments.settings import PN
from tribit.paper.systems import SYSTEMS
from tribit.paper.systems.cmfrec import CollectiveFactorization, has_cmfrec
from tribit.simulate import low_rank_target, observe, quantise

__all__ = ["COMPARABLE", "DATA", "GRIDS", "Compared", "compare", "compare_all"]


#: The training and the test entries.
Parts: TypeAlias = tuple[Observations, Observations]
#: Share of the Senate's votes and of the unobserved synthetic entries in the test set, and of the training entries in
#: the validation set.
HELD_OUT = 0.1
#: Hyperparameters among which each system chooses.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "tribit": [{}],  # tunes itself
    "alternating-least-squares": [
        {"rank": rank, "l2": l2} for rank in (3, 10) for l2 in (1.0, 4.0)
    ],
    "minimum-rank": [{"budget_share": share} for share in (0.7, 0.8, 0.9)],
    "nuclear-norm": [{"budget_share": share} for share in (0.7, 0.8, 0.9)],
    "max-norm-least-squares": [{"radius": radius} for radius in (0.5, 1.0, 2.0)],
    "singular-value-thresholding": [{}],
    "conditional-gradient": [{"loss": "squared"}, {"loss": "likelihood"}],
    "maximum-margin": [{"l2": l2} for l2 in (5.0, 8.0, 12.0, 18.0, 27.0)],
    "trace-norm-likelihood": [
        {"alpha": alpha, "rank": rank} for alpha in (1.0, 3.0) for rank in (1, 5)
    ],
    "max-norm-likelihood": [{"alpha": alpha, "radius": alpha} for alpha in (0.5, 1.0, 2.0)],
    "pu": [{"loss": "likelihood"}, {"loss": "squared"}],
    "rasch": [{"l2_intercept": l2} for l2 in (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)],
    "logistic-factorization": [
        {"rank": rank, "l2": l2, "l2_intercept": b}
        for rank in (3, 10)
        for l2 in (3.0, 5.0, 8.0, 12.0, 18.0)
        for b in (0.3, 3.0, 30.0)
    ],
    "cmfrec": [{"rank": rank, "l2": l2} for rank in (3, 10) for l2 in (3.0, 6.0, 10.0, 20.0)],
}
#: Models of other fields beside the paper's systems: likelihoods of the observed labels with tuned ridges (the Rasch
#: model has biases of rows and columns alone), and a package's least squares with biases.
PEERS: dict[str, Callable[..., FactorModel]] = {
    "rasch": partial(BinaryMatrixCompletion, PN, rank=0, search=False, calibration=None),
    "logistic-factorization": partial(BinaryMatrixCompletion, PN, search=False, calibration=None),
    "cmfrec": CollectiveFactorization,
}
#: Everything that can be compared.
COMPARABLE: dict[str, Callable[..., FactorModel]] = {**SYSTEMS, **PEERS}


@dataclass(frozen=True)
class Compared:
    """One system on one data set.

    Attributes
    ----------
    system, data : str
        Names, as in ``COMPARABLE`` and ``DATA``.
    parameters : str
        Hyperparameters chosen on the validation set.
    error_rate, log_loss : float or None
        On the test entries; None where the fit failed.
    auc : float or None
        Probability that a like is ranked above a dislike.
    seconds : float
        CPU time of the refit with the chosen hyperparameters, on one core; of search and refit for ``tribit``.
    failure : str
        The error message of a fit that failed; empty otherwise.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.paper.comparison import compare
    >>> from tribit.simulate import low_rank_target, observe, quantise
    >>> M = low_rank_target((40, 30), 1, alpha=4.0, random_state=0)
    >>> labels = quantise(M, Logistic(), random_state=1)
    >>> train, test = observe(labels, 0.4, random_state=2).split(0.2, random_state=3)
    >>> compare(train, test, systems=["singular-value-thresholding"])[0].error_rate < 0.5
    True
    """

    system: str
    data: str
    parameters: str
    error_rate: float | None
    log_loss: float | None
    auc: float | None
    seconds: float
    failure: str = ""


def compare(
    train: Observations,
    test: Observations,
    *,
    systems: Iterable[str] | None = None,
    data: str = "",
    random_state: int = 0,
) -> list[Compared]:
    """Fit systems on ``train``, each with hyperparameters chosen on a validation set, and predict ``test``.

    The hyperparameters of :data:`GRIDS` with the smallest log-loss on a tenth of the training entries are refitted on
    all of them.

    Parameters
    ----------
    train, test : Observations
        Likes and dislikes of one matrix, none in both.
    systems : iterable of str, optional
        Names in :data:`COMPARABLE`; by default all whose package is installed.
    data : str
        Name of the data.
    random_state : int
        Seed of the validation set and of the systems.

    Returns
    -------
    list of Compared
        In the order of the systems.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.simulate import low_rank_target, observe, quantise
    >>> Y = quantise(low_rank_target((60, 50), 2, alpha=4.0, random_state=0), Logistic(), random_state=1)
    >>> train, test = observe(Y, 0.3, random_state=2).split(0.2, random_state=3)
    >>> [result.system for result in compare(train, test, systems=["alternating-least-squares"])]
    ['alternating-least-squares']
    """
    return [
        _compare_system(name, data, train, test, random_state) for name in check_systems(systems)
    ]


def check_systems(systems: Iterable[str] | None) -> list[str]:
    """Return the names of systems, by default all whose package is installed; refuse an unknown name."""
    if systems is None:
        return [name for name in COMPARABLE if name != "cmfrec" or has_cmfrec()]
    names = list(systems)
    for name in names:
        if name not in COMPARABLE:
            raise InvalidInputError(
                f"{parameter('systems')} must be some of {', '.join(COMPARABLE)}; got {name!r}."
            )
    return names


def _compare_system(
    name: str, data: str, train: Observations, test: Observations, random_state: int
) -> Compared:
    began = time.process_time()
    try:
        chosen = _choose(name, train, random_state)
        began = time.process_time()
        model = _fit_system(name, chosen, train, random_state)
    except TribitError as error:
        seconds = time.process_time() - began
        return Compared(name, data, "", None, None, None, seconds, str(error))
    seconds = time.process_time() - began
    found = evaluate(model, test)
    words = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
    search = getattr(model, "search_", None)
    if search is not None and search.best is not None:
        words = str(search.best.settings)
    return Compared(name, data, words, found.error_rate, found.log_loss, found.auc, seconds)


def _choose(name: str, train: Observations, random_state: int) -> dict[str, Any]:
    grid = GRIDS[name]
    if len(grid) == 1:
        return grid[0]
    part, held_out = train.split(HELD_OUT, random_state=random_state)
    losses = [
        evaluate(_fit_system(name, setting, part, random_state), held_out).log_loss
        for setting in grid
    ]
    return grid[int(np.argmin(losses))]


def _fit_system(
    name: str, setting: dict[str, Any], train: Observations, random_state: int
) -> FactorModel:
    model = COMPARABLE[name](**setting)
    # Some systems need the unobserved share; times are on one core.
    common = {"rho": 1.0 - train.density, "random_state": random_state, "n_jobs": 1}
    model.set_params(**{key: value for key, value in common.items() if key in model.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # early stops show in the test error
        model.fit(train)
    return model


def compare_all(
    path: Path | None = None,
    *,
    on: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    out: str | os.PathLike[str] = "comparison",
    n_jobs: int = 1,
    seed: int = 0,
    shown: bool = True,
) -> tuple[list[Compared], list[Path]]:
    """Compare systems on several data sets, saving each result in ``out`` at once.

    Parameters
    ----------
    path : path, optional
        Folder with ``ml-100k``, ``senate`` and ``coat``; synthetic data only by default.
    on : sequence of str, optional
        Names in :data:`DATA`; by default those in the folder.
    systems : sequence of str, optional
        Names in :data:`COMPARABLE`; by default all whose package is installed.
    out : path
        Folder of ``comparison.csv``, ``comparison.md`` and the journal that continues a stopped run.
    n_jobs : int
        Processes; each fit has one core.
    seed : int
        Seed of simulations, splits and starts.
    shown : bool
        Whether a terminal shows a progress bar.

    Returns
    -------
    results, files
        The results, and the files written.

    Examples
    --------
    >>> from tribit.paper.comparison import compare_all
    >>> results = compare_all("data", on=["synthetic"], systems=["tribit"])  # doctest: +SKIP
    """
    names = present_data(path) if on is None else list(on)
    place = None if path is None else Path(path).resolve()
    study = comparison_study(names, check_systems(systems), place, check_count("seed", seed, 0))
    where = results_folder(out)
    with (
        Pool(count_jobs(n_jobs)) as pool,
        progress_bar(shown=shown) as begin,
        Journal(study.journal_path(where), study.header) as journal,
    ):
        rows = pool.finish(study, journal, begin("comparing", study.n_tasks))
    results = [Compared(**row) for row in rows]
    files = [where / "comparison.csv", where / "comparison.md"]
    write_csv(files[0], rows, {"seed": seed} | VERSIONS)
    write_text(files[1], comparison_table(results))
    return results, files


def comparison_table(results: Sequence[Compared]) -> str:
    """Return the error rate, AUC and seconds of every system on every data set, in Markdown."""
    data = list(dict.fromkeys(result.data for result in results))
    found = {(result.system, result.data): result for result in results}
    systems = list(dict.fromkeys(result.system for result in results))
    return markdown_table(
        ("system", *data),
        ((system, *(_cell(found[system, name]) for name in data)) for system in systems),
    )


def _cell(result: Compared) -> str:
    if result.error_rate is None:
        return "-"
    auc = "-" if result.auc is None else f"{result.auc:.3f}"
    return f"{result.error_rate:.4f} / {auc} / {result.seconds:.2f} s"


def comparison_study(
    data: Sequence[str], systems: Sequence[str], folder: Path | None, seed: int
) -> Study:
    """Return a task for every system on every data set; a missing data set is refused."""
    for name in data:
        load_data(name, folder, seed)

    def tasks(_: Results) -> list[Task]:
        return [
            Task(f"{name} {system}", compare_one, (name, system, folder, seed))
            for name in data
            for system in systems
        ]

    parameters: dict[str, Any] = {"seed": seed, "data": list(data), "systems": list(systems)}
    return Study("compare", parameters, (tasks,), n_tasks=len(data) * len(systems))


def compare_one(name: str, system: str, folder: Path | None, seed: int) -> list[Row]:
    """Fit one system on one data set."""
    train, test = load_data(name, folder, seed)
    return [asdict(_compare_system(system, name, train, test, seed))]


@lru_cache(maxsize=4)
def load_data(name: str, folder: Path | None, seed: int) -> Parts:
    """Return the training and test entries of a data set."""
    if name not in DATA:
        raise InvalidInputError(
            f"{parameter('on')} must be some of {', '.join(DATA)}; got {name!r}."
        )
    return DATA[name](folder, seed)


def present_data(folder: Path | None) -> list[str]:
    """Return the names of the data that a folder has; without one the synthetic data alone."""
    if folder is None:
        return ["synthetic"]
    if not Path(folder).is_dir():
        raise InvalidInputError(
            f"There is no folder {str(folder)!r}; pass the folder of ml-100k, senate and coat ({parameter('path')})."
        )
    return ["synthetic", *(name for name in list(DATA)[1:] if (Path(folder) / name).exists())]


def _synthetic(_: Path | None, seed: int) -> Parts:
    draws = np.random.Generator(np.random.PCG64([seed, 4]))
    M = low_rank_target((300, 300), 5, alpha=1.0, random_state=draws)
    Y = quantise(M, Logistic(7.0), random_state=draws)
    seen = observe(Y, 0.7, random_state=draws)
    hidden = np.ones(Y.shape, dtype=bool)
    hidden[seen.rows, seen.columns] = False
    rows, columns = np.nonzero(hidden & (draws.random(Y.shape) < HELD_OUT))
    return seen, Observations.from_pairs(rows, columns, Y[rows, columns], shape=Y.shape)


def _films(folder: Path | None, seed: int) -> Parts:
    part = movielens100k(folder).split(seed)
    return part.train, part.test


def _votes(folder: Path | None, seed: int) -> Parts:
    return senate(_require_folder(folder)).split(HELD_OUT, random_state=seed)


def _coats(folder: Path | None, _: int) -> Parts:
    parts = coat(_require_folder(folder))
    return parts.train.observations(), parts.test.observations()


def _require_folder(folder: Path | None) -> Path:
    if folder is None:
        raise InvalidInputError(
            f"These data cannot be downloaded; pass their folder ({parameter('path')})."
        )
    return folder


#: Data of the comparison: synthetic, ratings, votes, and ratings of random items.
DATA: dict[str, Callable[[Path | None, int], Parts]] = {
    "synthetic": _synthetic,
    "ml-100k": _films,
    "senate": _votes,
    "coat": _coats,
}
