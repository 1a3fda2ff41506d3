"""Time to quality beside other libraries: ``make bench-peers DATA=folder``, in an environment of its own.

Every system is fitted to the same training entries with the same number of threads, each run in a process of its own,
with growing numbers of iterations: a curve of quality over time. Settings of the peers, and of tribit's fits without a
search, were chosen on the validation part by the grids below (``--tune``; for 1M entries a smaller grid for tribit,
cmfrec and ALS, and the settings of 100k for the others; for 20M those that tribit's search had found for tribit, three
penalties for cmfrec, and the settings of 1M for the others: ``peers.json``). Scores become probabilities by one Platt
calibration on the validation part for every system, tribit's too, as most peers have no probabilities; log-loss and
error rate are those of the test part. "search and fit" is tribit without arguments: it has chosen its settings by
itself, on training entries, within the time that is shown.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit

from benchmarks.data import FOLDER, exposed
from benchmarks.measure import machine, peak_megabytes, print_table
from tribit import BinaryMatrixCompletion, Observations
from tribit.model.calibration import platt

THREADS = 2
#: Name of the system that others are compared with: tribit with its settings given, as they have theirs.
OURS = "tribit, one fit"
#: Seconds that one run may take.
TIMEOUT_SECONDS = 300
PICTURE = Path("docs/measured/peers.png")
#: The points of the picture, from which ``--draw`` makes it again.
POINTS = PICTURE.with_suffix(".json")
Array = np.ndarray
#: Scores of entries at rows and columns.
Scores = Callable[[Array, Array], Array]


#: Shapes and numbers of entries of simulated tables.
SIZES = {
    "100k": ((943, 1682), 100_000),
    "1M": ((6040, 3706), 1_000_209),
    "20M": ((138_493, 26_744), 20_000_000),
}
#: Where the largest table is kept for all runs: simulating it takes minutes.
KEPT = "TRIBIT_PEERS_TABLE"


def keep_table(path: str) -> None:
    """Simulate the largest table and save it."""
    seen = exposed(*SIZES["20M"])
    places = (each.astype(np.int32) for each in (seen.rows, seen.columns))
    np.savez(path, *places, seen.labels)


def tables(name: str) -> tuple[Observations, Observations, Observations]:
    """Return training, validation and test entries: 90, 5 and 5 in 100."""
    if name == "100k" and FOLDER:
        users, items, ratings, _ = np.loadtxt(f"{FOLDER}/ml-100k/u.data", dtype=np.int64).T
        whole = Observations.from_ratings(
            users - 1, items - 1, ratings, like_at=4, shape=(943, 1682)
        )
    elif name == "20M":
        with np.load(os.environ[KEPT]) as table:
            whole = Observations.from_pairs(*table.values(), shape=SIZES[name][0])
    else:
        whole = exposed(*SIZES[name])
    part = np.random.default_rng(0).random(whole.n_observed)
    rest, test = whole.hold_out(part < 0.05)
    part = part[part >= 0.05]
    train, validation = rest.hold_out(part < 0.1)
    return train, validation, test


def matrix(seen: Observations, *, likes_alone: bool = False) -> csr_matrix:
    """Return labels +1 and -1, or 1 for likes alone, in single precision."""
    kept = seen.labels > 0 if likes_alone else slice(None)
    data = seen.labels[kept].astype(np.float32)
    return csr_matrix((data, (seen.rows[kept], seen.columns[kept])), shape=seen.shape)


def of_factors(U: Array, V: Array) -> Scores:
    """Return the scores ``u_i . v_j``."""
    return lambda rows, columns: np.einsum("ij,ij->i", U[rows], V[columns])


def one_hot(rows: Array, columns: Array, shape: tuple[int, int]) -> csr_matrix:
    """Return an indicator of the user and one of the item of each entry."""
    n = rows.size
    places = np.column_stack([rows, shape[0] + columns]).ravel()
    return csr_matrix((np.ones(2 * n), places, 2 * np.arange(n + 1)), shape=(n, sum(shape)))


def log_odds(p: Array) -> Array:
    """Return the log-odds of probabilities, bounded."""
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(p / (1 - p))


def responses(seen: Observations, least: int) -> tuple[Array, Array]:
    """Return a dense table of 1, 0 and -1 (missing), and the items kept: those with ``least`` labels (0 to 2).

    Item response packages take dense tables, and no item without labels, or with both if they ask for two.
    """
    dense = np.full(seen.shape, -1)
    dense[seen.rows, seen.columns] = seen.labels > 0
    n_labels = sum(np.any(dense == label, axis=0).astype(int) for label in (0, 1))
    items = np.flatnonzero(n_labels >= least)
    return dense[:, items], items


def of_items(values: Array, items: Array, n_items: int, missing: float) -> Array:
    """Return a parameter of every item, given that of some."""
    found = np.full(n_items, missing)
    found[items] = values
    return found


def rasch(seen: Observations, iterations: int, l2: float) -> Scores:
    """Rasch model: logistic regression of scikit-learn on indicators of users and items, with a ridge."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / l2, max_iter=iterations, tol=1e-6)
    model.fit(one_hot(seen.rows, seen.columns, seen.shape), seen.labels > 0)
    effects = model.coef_[0]
    return lambda rows, columns: effects[rows] + effects[seen.shape[0] + columns]


def girth_one_parameter(seen: Observations, iterations: int) -> Scores:
    """One-parameter model of girth by marginal maximum likelihood, with abilities by their posterior means."""
    import girth

    table, items = responses(seen, least=2)
    data = girth.tag_missing_data(table.T.copy(), [0, 1])
    found = girth.onepl_mml(data, options={"max_iteration": iterations})
    slopes = np.broadcast_to(found["Discrimination"], items.size)
    ability = girth.ability_eap(data, found["Difficulty"], slopes)
    slope = of_items(slopes, items, seen.shape[1], float(slopes[0]))
    difficulty = of_items(found["Difficulty"], items, seen.shape[1], 0.0)
    return lambda rows, columns: slope[columns] * (ability[rows] - difficulty[columns])


def mirt_em(seen: Observations, iterations: int, model: str) -> Scores:
    """One- or two-parameter model of mirt by EM, with abilities by their posterior means."""
    import mirt

    table, items = responses(seen, least=1)
    fitted = mirt.fit_mirt(table, model=model, max_iter=iterations, compute_standard_errors=False)
    ability = np.asarray(mirt.fscores(fitted, table).theta).ravel()
    scores = np.zeros(seen.shape)
    scores[:, items] = log_odds(np.asarray(mirt.probtrace(fitted.model, ability)))
    return lambda rows, columns: scores[rows, columns]


def py_irt(seen: Observations, iterations: int) -> Scores:
    """One-parameter model of py-irt by variational inference."""
    import torch
    from ordered_set import OrderedSet
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    torch.set_num_threads(THREADS)
    named: dict[str, Any] = {}
    places = []
    for name, given in (("subject", seen.rows), ("item", seen.columns)):
        own, own_places = np.unique(given, return_inverse=True)
        ids = [str(each) for each in own]
        named |= {
            f"{name}_ids": OrderedSet(ids),
            f"{name}_id_to_ix": {each: place for place, each in enumerate(ids)},
            f"ix_to_{name}_id": dict(enumerate(ids)),
            f"observation_{name}s": own_places.tolist(),
        }
        places.append(own)
    data = Dataset(
        **named,
        observations=(seen.labels > 0).astype(float).tolist(),
        training_example=[True] * seen.n_observed,
    )
    config = IrtConfig(
        model_type="1pl",
        priors="hierarchical",
        epochs=iterations,
        deterministic=True,
        seed=0,
        log_every=iterations,
    )
    trainer = IrtModelTrainer(config=config, data_path=Path(), dataset=data, verbose=False)
    trainer.train(device="cpu")
    ability, difficulty = (
        of_items(trainer.best_params[name], own, size, 0.0)
        for name, own, size in zip(("ability", "diff"), places, seen.shape, strict=True)
    )
    return lambda rows, columns: ability[rows] - difficulty[columns]


def tribit_search(seen: Observations, **_: Any) -> Scores:
    """Fit without arguments."""
    model = BinaryMatrixCompletion(n_jobs=THREADS, random_state=0).fit(seen)
    return model.decision_function


def tribit_fit(
    seen: Observations, iterations: int, rank: int, l2: float, l2_implicit: float
) -> Scores:
    """Fit with settings that are given."""
    model = BinaryMatrixCompletion(
        (1, 0, 0),
        rank=rank,
        l2=l2,
        l2_intercept=1.0,
        implicit_features=True,
        l2_implicit=l2_implicit,
        calibration=None,
        n_jobs=THREADS,
        random_state=0,
        max_iter=iterations,
    ).fit(seen)
    return model.decision_function


def implicit_als(seen: Observations, iterations: int, rank: int, l2: float, alpha: float) -> Scores:
    """Alternating least squares of implicit: likes have confidence, all else is a weak dislike."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=rank,
        regularization=l2,
        alpha=alpha,
        iterations=iterations,
        num_threads=THREADS,
        random_state=0,
    )
    model.fit(matrix(seen, likes_alone=True), show_progress=False)
    return of_factors(np.asarray(model.user_factors), np.asarray(model.item_factors))


def implicit_lmf(seen: Observations, iterations: int, rank: int, l2: float) -> Scores:
    """Logistic matrix factorisation of implicit, on likes."""
    from implicit.lmf import LogisticMatrixFactorization

    model = LogisticMatrixFactorization(
        factors=rank, regularization=l2, iterations=iterations, num_threads=THREADS, random_state=0
    )
    model.fit(matrix(seen, likes_alone=True), show_progress=False)
    return of_factors(np.asarray(model.user_factors), np.asarray(model.item_factors))


def cmfrec_cmf(seen: Observations, iterations: int, rank: int, l2: float) -> Scores:
    """Least squares of cmfrec on the labels, with user and item effects."""
    from cmfrec import CMF

    model = CMF(
        k=rank, lambda_=l2, niter=iterations, nthreads=THREADS, random_state=0, verbose=False
    )
    model.fit(matrix(seen).tocoo())
    return model.predict


def my_fm(seen: Observations, iterations: int, rank: int) -> Scores:
    """Factorisation machine of myFM (Gibbs sampling, probit), users and items alone."""
    from myfm import MyFMClassifier

    model = MyFMClassifier(rank=rank, random_seed=0)
    groups = np.repeat([0, 1], seen.shape)
    model.fit(
        one_hot(seen.rows, seen.columns, seen.shape),
        seen.labels > 0,
        n_iter=iterations,
        n_kept_samples=max(iterations // 2, 1),
        group_shapes=list(np.bincount(groups)),
    )

    def scores(rows: Array, columns: Array) -> Array:
        return log_odds(model.predict_proba(one_hot(rows, columns, seen.shape)))

    return scores


def light_fm(seen: Observations, iterations: int, rank: int, l2: float) -> Scores:
    """Stochastic gradients of LightFM on the logistic loss."""
    from lightfm import LightFM

    model = LightFM(
        no_components=rank, loss="logistic", user_alpha=l2, item_alpha=l2, random_state=0
    )
    model.fit(matrix(seen).tocoo(), epochs=iterations, num_threads=THREADS)
    return lambda rows, columns: model.predict(rows.astype(np.int32), columns.astype(np.int32))


def plain_gradient(
    seen: Observations, iterations: int, rank: int, radius: float, step: float
) -> Scores:
    """Projected gradient of the paper on PN in plain NumPy: a fixed step, rows brought back to their balls."""
    draws = np.random.default_rng(0)
    U = draws.standard_normal((seen.shape[0], rank)) * 0.1
    V = draws.standard_normal((seen.shape[1], rank)) * 0.1
    rows, columns, labels = seen.rows, seen.columns, seen.labels
    for _ in range(iterations):
        slopes = -labels * expit(-labels * np.einsum("ij,ij->i", U[rows], V[columns]))
        G = csr_matrix((slopes, (rows, columns)), shape=seen.shape)
        U, V = U - step * (G @ V), V - step * (G.T @ U)
        for F in (U, V):
            F *= np.minimum(1.0, np.sqrt(radius) / np.maximum(np.linalg.norm(F, axis=1), 1e-12))[
                :, None
            ]
    return of_factors(U, V)


#: System, numbers of iterations of its curve, and the grid of its settings for ``--tune``.
SYSTEMS: dict[str, tuple[Callable[..., Scores], tuple[int, ...], dict[str, tuple[Any, ...]]]] = {
    "tribit, search and fit": (tribit_search, (1,), {}),
    OURS: (
        tribit_fit,
        (3, 6, 12, 25, 50, 100),
        {"rank": (10, 40), "l2": (5.0, 10.0, 40.0), "l2_implicit": (30.0, 70.0)},
    ),
    "Rasch, scikit-learn": (rasch, (1, 3, 10, 30, 100), {"l2": (0.3, 1.0, 3.0, 10.0)}),
    "girth, 1PL": (girth_one_parameter, (1, 2, 5, 10), {}),
    "mirt": (mirt_em, (3, 10, 30, 100), {"model": ("1PL", "2PL")}),
    "py-irt, 1PL": (py_irt, (10, 30, 100, 300), {}),
    "cmfrec": (cmfrec_cmf, (1, 2, 4, 8, 16), {"rank": (5, 10, 40), "l2": (3.0, 10.0, 30.0)}),
    "myFM": (my_fm, (10, 30, 100, 300), {"rank": (5, 10)}),
    "LightFM": (light_fm, (1, 3, 10, 30), {"rank": (5, 20), "l2": (0.0, 1e-5, 1e-4)}),
    "implicit ALS": (
        implicit_als,
        (1, 3, 10, 20),
        {"rank": (5, 20), "l2": (1.0, 30.0), "alpha": (1.0, 10.0)},
    ),
    "implicit LMF": (implicit_lmf, (3, 10, 30, 100), {"rank": (5, 20), "l2": (0.6, 5.0)}),
    "projected gradient, plain NumPy": (
        plain_gradient,
        (30, 100, 300, 1000),
        {"rank": (5, 10), "radius": (1.0, 2.0, 4.0), "step": (0.003, 0.01)},
    ),
}
#: Best settings on the validation part (``python -m benchmarks.peers --tune 100k``).
CHOSEN: dict[str, dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("peers.json").read_text()
)


def run(system: str, table: str, iterations: int, settings: dict[str, Any]) -> None:
    """Fit one system and print seconds, peak memory and quality as JSON."""
    train, validation, test = tables(table)
    fit = SYSTEMS[system][0]
    began, spent = time.perf_counter(), time.process_time()
    scores = fit(train, iterations=iterations, **settings)
    took, spent = time.perf_counter() - began, time.process_time() - spent
    peak = peak_megabytes()
    curve = platt(scores(validation.rows, validation.columns), validation.labels)
    found = {"seconds": took, "cpu": spent, "peak": peak, "iterations": iterations}
    for name, part in (("validation", validation), ("", test)):
        p = np.clip(curve(scores(part.rows, part.columns)), 1e-9, 1 - 1e-9)
        right = np.where(part.labels > 0, p, 1 - p)
        found[f"{name}log_loss"] = float(-np.mean(np.log(right)))
        found[f"{name}error"] = float(np.mean(right < 0.5))
    print(json.dumps(found))


def measured(
    system: str, table: str, iterations: int, settings: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the output of a run in a separate process; None where the system is missing or takes too long."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.peers", "--run", system, table]
    command += [str(iterations), json.dumps(settings)]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # implicit asks for BLAS of one thread beside its own threads; the others bring their own.
    threads["OMP_NUM_THREADS"] = str(THREADS)
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            env=os.environ | threads,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        if "ModuleNotFoundError" not in done.stderr:
            print(system, done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tune(table: str) -> None:
    """Choose the settings of each system on the validation part, with the second largest number of iterations."""
    chosen = dict(CHOSEN.get(table, {}))
    for system, (_, iterations, grid) in SYSTEMS.items():
        tried = []
        for values in itertools.product(*grid.values()) if grid else ():
            settings = dict(zip(grid, values, strict=True))
            found = measured(system, table, iterations[-2], settings)
            if found is not None:
                tried.append((found["validationlog_loss"], settings))
                print(system, settings, f"{tried[-1][0]:.4f}", file=sys.stderr, flush=True)
        if tried:
            chosen[system] = min(tried, key=lambda each: each[0])[1]
    CHOSEN[table] = chosen
    text = json.dumps(CHOSEN, indent=1, sort_keys=True)
    Path(__file__).with_name("peers.json").write_text(text + "\n")


#: Systems that take a dense table, and are compared on the small one alone.
SMALL = ("girth, 1PL", "mirt", "py-irt, 1PL")
#: Greatest numbers of iterations on the largest table: with more a run takes minutes.
MAX_ITERATIONS = {"cmfrec": 8, "implicit ALS": 10, "implicit LMF": 30}


def main() -> None:
    """Print a table for each size, and draw the curves."""
    print(machine())
    # The first fits compile, and keep what they compiled.
    measured("tribit, search and fit", "100k", 1, {})
    curves: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for table in SIZES:
        curves[table] = {}
        for system, (_, iterations, grid) in SYSTEMS.items():
            settings = CHOSEN.get(table, {}).get(system, {})
            if (grid and not settings) or (table != "100k" and system in SMALL):
                continue
            most = MAX_ITERATIONS.get(system, np.inf) if table == "20M" else np.inf
            runs = (measured(system, table, n, settings) for n in iterations if n <= most)
            points = [point for point in runs if point is not None]
            if points:
                curves[table][system] = points
        _print(table, curves[table])
    POINTS.write_text(json.dumps(curves, indent=0) + "\n")
    _draw(curves)


def _print(table: str, curves: dict[str, list[dict[str, Any]]]) -> None:
    """Print each system at its best point, when it was within 1% of its log-loss, and when tribit had that log-loss."""
    title = "ML-100k" if table == "100k" and FOLDER else f"{table}, drawn"
    rows = []
    for system, points in curves.items():
        best = min(points, key=lambda point: point["validationlog_loss"])
        near = next(p for p in points if p["log_loss"] <= 1.01 * best["log_loss"])
        cells = f"{best['log_loss']:.4f}", f"{100 * best['error']:.1f}%"
        times = f"{best['seconds']:.1f}", f"{best['cpu']:.1f}", f"{near['seconds']:.1f}"
        theirs, ours = (
            next((p["seconds"] for p in curve if p["log_loss"] <= best["log_loss"]), None)
            for curve in (points, curves.get(OURS, []))
        )
        same = "-" if ours is None else f"{theirs:.1f} / {ours:.1f} = {theirs / ours:.1f}"
        rows.append((system, *cells, *times, same, f"{best['peak']:.0f} MB"))
    header = ("system", "log-loss", "error", "seconds", "CPU", "seconds to within 1%")
    header += ("seconds to that log-loss / those of tribit, one fit", "peak")
    print_table(f"{title}, {THREADS} threads", header, rows)


def _draw(curves: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Draw log-loss over seconds, one curve a system."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(curves), figsize=(15, 4.4), layout="constrained")
    names = list(SYSTEMS)
    for panel, (table, found) in zip(panels, curves.items(), strict=True):
        for system, points in found.items():
            x, y = zip(*((p["seconds"], p["log_loss"]) for p in points), strict=True)
            ours = system.startswith("tribit")
            number = names.index(system)
            style = {"color": f"C{number % 10}", "ls": "--" if number > 9 else "-", "ms": 4}
            panel.plot(x, y, marker="o", label=system, lw=2.5 if ours else 1.2, **style)
        panel.set(xscale="log", xlabel="seconds, 2 threads", title=f"{table} ratings")
        panel.xaxis.set_minor_formatter("")
    panels[0].set_ylabel("log-loss of test entries")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", metavar="TABLE", choices=SIZES)
    parser.add_argument("--run", nargs=4, metavar=("SYSTEM", "TABLE", "ITERATIONS", "SETTINGS"))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--draw", action="store_true")
    asked = parser.parse_args()
    if asked.keep:
        keep_table(os.environ[KEPT])
    elif asked.draw:
        _draw(json.loads(POINTS.read_text()))
    elif asked.run:
        run(asked.run[0], asked.run[1], int(asked.run[2]), json.loads(asked.run[3]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            if KEPT not in os.environ and asked.tune in (None, "20M"):
                os.environ[KEPT] = f"{folder}/table.npz"
                subprocess.run([sys.executable, "-m", "benchmarks.peers", "--keep"], check=True)
            if asked.tune:
                tune(asked.tune)
            else:
                main()
