"""Gain of the mask: ``make bench-unobserved DATA=folder`` prints the tables of docs/unobserved.md.

Training entries alone are read: of Experiment 2 the first draw, of MovieLens-100k split 0, of the Senate's votes nine
tenths, of Coat the items that users chose themselves.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Link, Logistic, Observations, __version__
from tribit.datasets import coat, movielens100k, senate
from tribit.paper.experiments.synthetic import EXPERIMENT_2, simulate
from tribit.propensity import (
    CrossFittedPropensity,
    Propensity,
    cross_fitted,
    effective_sample_size,
    low_rank,
    row_column,
)
from tribit.selection import Search

SEED = 0
FOLDS = 5
FAMILIES = ("intercepts", "factors", "implicit features", "mixture")
Mask = Propensity | CrossFittedPropensity


def share_imputed(weight: float, density: float) -> float:
    """Return ``t = h / (h + q (1 - h))``, the share of a mixture that is imputed: h its weight on PU and NU."""
    return weight / (weight + density * (1.0 - weight))


def all_data() -> dict[str, tuple[Observations, Link, str]]:
    """Return the training entries at hand, with link and target."""
    found: dict[str, tuple[Observations, Link, str]] = {
        "Experiment 2": (simulate(EXPERIMENT_2, 0, 0).observations, EXPERIMENT_2.link, "observed")
    }
    folder = Path(FOLDER)
    if FOLDER and (folder / "ml-100k").is_dir():
        train = movielens100k(folder / "ml-100k").split(SEED).train
        found["ML-100k"] = train, Logistic(), "observed"
    if FOLDER and (folder / "senate").is_dir():
        train, _ = senate(folder / "senate").split(0.1, random_state=SEED)
        found["Senate"] = train, Logistic(), "observed"
    if FOLDER and (folder / "coat").is_dir():
        found["Coat"] = coat_train(), Logistic(), "observed"
        found["Coat, every cell alike"] = coat_train(), Logistic(), "all"
    return found


def coat_train() -> Observations:
    """Return the items that Coat's users chose themselves."""
    return coat(Path(FOLDER) / "coat").train.observations()


def searches() -> dict[str, tuple[Search, float]]:
    """Return the result of the search on each data set, and the density there."""
    found = {}
    for name, (train, link, target) in all_data().items():
        model = BinaryMatrixCompletion(link=link, target=target, n_jobs=1, random_state=SEED)
        found[name] = model.fit(train).search_, train.density
    return found


def families(found: dict[str, tuple[Search, float]]) -> None:
    """Print the best held-out log-loss of each model family."""
    rows = []
    for name, (search, density) in found.items():
        best = search.families()
        cells = [f"{best[f].score:.4f}" if f in best else "not tried" for f in FAMILIES]
        if "mixture" in best:
            imputed = share_imputed(1 - best["mixture"].settings.gammas[0], density)
            cells[-1] += f" (imputes {imputed:.0%})"
        assert search.best is not None
        rows.append((name, f"{density:.1%}", *cells, search.best.settings.family))
    print_table(
        "Held-out log-loss by model family, as print(model.search_) says it",
        ("data", "observed", *FAMILIES, "chosen"),
        rows,
    )


def quintiles(mask: Mask, seen: Observations) -> np.ndarray:
    """Return the share of likes in each fifth of the observed entries, by rising ``q``."""
    order = np.argsort(mask.probability_at(seen.rows, seen.columns), kind="stable")
    return np.array([np.mean(seen.labels[part] > 0) for part in np.array_split(order, 5)])


def masks(seen: Observations) -> dict[str, Mask]:
    """Return the models of a mask that are compared."""
    return {
        "row-column": row_column(seen),
        "low rank, fitted and used on the same mask": low_rank(seen, random_state=SEED),
        "low rank, cross-fitted": cross_fitted(seen, random_state=SEED),
    }


def diagnostics(seen: Observations) -> None:
    """Print how far the weights of each model of Coat's mask can be trusted."""
    cells = seen.shape[0] * seen.shape[1]
    rows = []
    for name, mask in masks(seen).items():
        q = mask.probability_at(seen.rows, seen.columns)
        rows.append(
            (
                name,
                f"{np.sum(1 / q) / cells:.2f}",
                f"{effective_sample_size(mask, seen):.0f} of {seen.n_observed}",
                " ".join(f"{share:.2f}" for share in quintiles(mask, seen)),
            )
        )
    print_table(
        "Models of Coat's mask",
        ("model", "sum of 1/q over cells", "effective sample size", "likes by fifths of rising q"),
        rows,
    )


def risks(seen: Observations) -> None:
    """Print what each use of q brings on Coat, on held-out entries of the training part that weigh 1/q."""
    judge = cross_fitted(seen, random_state=SEED)
    losses: dict[str, list[float]] = {}
    for train, held_out in seen.folds(FOLDS, random_state=SEED):
        weights = 1.0 / judge.probability_at(held_out.rows, held_out.columns)
        for name, model in fits(train).items():
            x = model._factors().at(held_out.rows, held_out.columns)
            each = Logistic().loss(x * held_out.labels, 1)
            losses.setdefault(name, []).append(float(np.average(each, weights=weights)))
    first = np.array(losses["PN"])
    rows = []
    for name, values in losses.items():
        apart = np.array(values) - first
        error = np.std(apart, ddof=1) / np.sqrt(FOLDS)
        difference = f"{apart.mean():+.4f} +- {error:.4f}" if name != "PN" else ""
        rows.append((name, f"{np.mean(values):.4f}", difference))
    print_table(
        f"Uses of q on Coat: log-loss of held-out training entries that weigh 1/q, {FOLDS} folds",
        ("model", "log-loss", "difference to PN, with its standard error"),
        rows,
    )


def fits(train: Observations) -> dict[str, BinaryMatrixCompletion]:
    """Return the models of one fold; open hyperparameters are tuned for all cells alike."""

    def fit(gammas: Any, **parameters: Any) -> BinaryMatrixCompletion:
        model = BinaryMatrixCompletion(
            gammas, target="all", calibration=None, n_jobs=1, random_state=SEED, **parameters
        )
        return model.fit(train)

    pn = (1.0, 0.0, 0.0)
    plain = fit(pn, implicit_features=False)
    # The doubly robust risk sums over all cells, 1 / density times as many as PN: so must its ridge.
    ridge = {"l2": plain.l2_ / train.density, "l2_intercept": plain.l2_intercept_ / train.density}
    ways: dict[str, Callable[[], BinaryMatrixCompletion]] = {
        "PN": lambda: plain,
        "PN, inverse_power=0.5": lambda: fit(pn, implicit_features=False, inverse_power=0.5),
        "PN, inverse_power=1": lambda: fit(pn, implicit_features=False, inverse_power=1.0),
        "implicit features": lambda: fit(pn),
        "implicit features, inverse_power=0.5": lambda: fit(pn, inverse_power=0.5),
        "implicit features, inverse_power=1": lambda: fit(pn, inverse_power=1.0),
        "mixture (.99, .007, .003)": lambda: fit((0.99, 0.007, 0.003)),
        "mixture (.9, .07, .03)": lambda: fit((0.9, 0.07, 0.03)),
        "mixture (.99, .007, .003) with implicit features": lambda: fit(
            (0.99, 0.007, 0.003), implicit_features=True
        ),
        "mixture (.9, .07, .03) with implicit features": lambda: fit(
            (0.9, 0.07, 0.03), implicit_features=True
        ),
        "doubly robust, imputed=PN": lambda: fit(
            (0.0, 0.5, 0.5), imputed=plain, rank=10, radius=np.log(9.0), **ridge
        ),
    }
    return {name: way() for name, way in ways.items()}


def main() -> None:
    """Print every table that the data at hand allow."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"tribit {__version__}, {machine()}")
    families(searches())
    if FOLDER and (Path(FOLDER) / "coat").is_dir():
        diagnostics(coat_train())
        risks(coat_train())


if __name__ == "__main__":
    main()
