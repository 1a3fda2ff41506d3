"""Cells that are asked, and values of lists: worth, coverage and log-loss of designs, replayed on whole tables.

    TRIBIT_DATA=FOLDER python -m benchmarks.asking --draws 40

A quarter of the rows is new and the others are whole. New rows are asked a share of their cells, those by gain one at
a time. A worth is how many cells drawn with equal probabilities one asked cell is worth, by the mean squared error and,
squared, by the mean absolute error. Tables of language models (``benchmark-scores``) have the means; ratings of Coat
have the values of lists, whose truth is estimated from its randomly shown items.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit

from benchmarks.data import FOLDER
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Observations
from tribit.estimates import Plan, estimate_list_values, simulate_asking
from tribit.estimates.gains import GOALS

LEVELS = 0.9, 0.95
SHARES = 0.05, 0.1
NEW_SHARE = 0.25
#: Rows of a table with one draw for each ``ROWS_PER_DRAW`` of another.
ROWS_PER_DRAW = 80
LIST_LENGTH = 10
#: Square root of 2 / pi: the mean absolute value of a normal variable.
NORMAL_MEAN = np.sqrt(2 / np.pi)


def tables() -> Iterator[tuple[str, np.ndarray]]:
    """Return the names and the labels of tables that are seen as a whole; a simulated one without data."""
    folder = Path(FOLDER) / "benchmark-scores"
    if FOLDER and folder.is_dir():
        for name in ("commonsense", "ifeval"):
            yield name, 2 * np.loadtxt(folder / f"{name}.csv", delimiter=",").astype(int) - 1
        return
    rng = np.random.default_rng(0)
    x = 1.5 * rng.normal(size=(120, 1)) - rng.normal(0, 1.5, 300)
    x = x + 0.5 * rng.normal(size=(120, 2)) @ rng.normal(size=(2, 300))
    yield "simulated", np.where(rng.random(x.shape) < expit(x), 1, -1)


def draws_of(y: np.ndarray, draws: int) -> Iterator[tuple[int, Observations, np.ndarray]]:
    """Return seeds, the table, and new rows."""
    table = Observations.from_matrix(y)
    for seed in range(max(1, round(draws * ROWS_PER_DRAW / max(len(y), ROWS_PER_DRAW)))):
        rows = np.random.default_rng(seed).permutation(len(y))[: round(NEW_SHARE * len(y))]
        yield seed, table, rows


def means(title: str, draws: int, designs: list[str]) -> None:
    """Print the worth and the coverage of designs for means."""
    records = []
    for name, y in tables():
        for share in SHARES:
            n_cells = round(share * y.shape[1])
            for design in designs:
                for guarantee in ("row", "rows"):
                    found = []
                    for seed, table, rows in draws_of(y, draws):
                        # One cell of each row at a time, while they are chosen by gain.
                        plan = Plan(n_cells * rows.size, batch=rows.size, design=design)
                        if design in ("pps", "random"):
                            plan = Plan(n_cells * rows.size, design=design)
                        options = {"guarantee": guarantee, "level": LEVELS[0], "random_state": seed}
                        found.append(simulate_asking(table, plan, rows=rows, **options))
                    records.append((name, f"{share:.0%}", design, guarantee, *_measures(found)))
    heads = "table", "asked", "design", "guarantee", "worth", "by mean error", "90%", "95%", "width"
    print_table(title, heads, records)


def _measures(found: list) -> tuple[str, ...]:
    errors = np.concatenate([each.errors for each in found])
    plain = np.concatenate([each.plain_variance for each in found])
    by_mean = (NORMAL_MEAN * np.sqrt(plain).mean() / np.abs(errors).mean()) ** 2
    covers = []
    for level in LEVELS:
        at_level = [each.at_level(level) for each in found]
        covers.append(np.concatenate([each.covers for each in at_level]).mean())
    width = np.mean([np.mean(each.means.upper - each.means.lower) for each in found])
    worth = plain.mean() / np.mean(errors**2)
    return (f"{worth:.2f}", f"{by_mean:.2f}", *(f"{each:.3f}" for each in covers), f"{width:.3f}")


def log_losses(title: str, draws: int) -> None:
    """Print the mean log-loss over all cells of new rows by the cells that were asked; an asked cell has none."""
    GOALS["uncertain"] = lambda posterior: posterior.curvatures  # most uncertain first
    plans = {
        "random cells": {"design": "random"},
        "most uncertain first": {"design": "greedy", "goal": "uncertain"},
        "goal log_loss": {"design": "greedy", "goal": "log_loss"},
    }
    records = []
    for name, y in tables():
        for share in SHARES:
            n_cells, losses = round(share * y.shape[1]), []
            for options in plans.values():
                losses.append([])
                for seed, table, rows in draws_of(y, draws):
                    plan = Plan(n_cells * rows.size, batch=rows.size, **options)
                    found = simulate_asking(table, plan, rows=rows, random_state=seed)
                    losses[-1].append(found.log_loss)
            away = np.array(losses[:2]) - losses[2]
            error = (
                away.std(axis=1, ddof=1) / np.sqrt(away.shape[1]) if away.shape[1] > 1 else [0, 0]
            )
            shown = [f"{np.mean(each):.4f}" for each in losses]
            beaten = [
                f"{each:.4f} ± {spread:.4f}"
                for each, spread in zip(away.mean(axis=1), error, strict=True)
            ]
            records.append((name, f"{share:.0%}", *shown, *beaten))
    print_table(title, ("table", "asked", *plans, "gain on random", "gain on uncertain"), records)


def simulated_lists(seed: int, *, selected: bool) -> tuple:
    """Return labels of all cells, a mask of labels, its probabilities, and the lists of two systems."""
    rng = np.random.default_rng(seed)
    n, m = 80, 60
    x = 0.3 + rng.normal(0, 0.7, (n, 1)) + rng.normal(0, 0.8, m)
    x = x + 0.8 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, m))
    y = np.where(rng.random((n, m)) < expit(x), 1, -1)
    popular = rng.normal(0, 1, m)
    q = expit(-1.6 + 0.7 * rng.normal(size=(n, 1)) + popular) if selected else np.full((n, m), 0.2)
    lists = {}
    for name, noise in (("good", 0.5), ("poor", 3.0)):
        order = np.argsort(-(x + noise * rng.normal(size=x.shape) + 0.5 * popular), axis=1)
        lists[name] = np.repeat(np.arange(n), LIST_LENGTH), order[:, :LIST_LENGTH].ravel()
    return y, rng.random((n, m)) < q, q, lists


def values(title: str, n_tables: int) -> None:
    """Print the coverage of values of lists over simulated tables."""
    records = []
    for how in ("uniform", "q given", "modelled"):
        covers, apart, errors, plain = [], [], [], []
        for seed in range(n_tables):
            y, mask, chances, lists = simulated_lists(seed, selected=how != "uniform")
            i, j = np.nonzero(mask)
            labels = Observations(i, j, y[i, j], y.shape)
            q = chances if how == "q given" else how
            found = estimate_list_values(lists, labels, q=q, random_state=seed)
            truth = np.array([(y[cells] > 0).mean() for cells in lists.values()])
            covers.append((found.lower <= truth) & (truth <= found.upper))
            low, high = (found.compared[side][0] for side in ("lower", "upper"))
            apart.append(low <= truth[0] - truth[1] <= high)
            errors.append(found.value - truth)
            plain.append(found.plain - truth)
        shares = [f"{each:.3f}" for each in (*np.mean(covers, axis=0), np.mean(apart))]
        sizes = [f"{np.sqrt(np.mean(np.square(each))):.4f}" for each in (errors, plain)]
        records.append((how, *shares, f"{np.mean(errors):+.4f}", *sizes))
    heads = "labels", "good lists", "poor lists", "difference", "mean error", "RMSE", "plain RMSE"
    print_table(title, heads, records)


def coat(title: str) -> None:
    """Print values of lists on Coat beside their truth by its randomly shown items.

    Lists are made from half of the self-selected ratings. Half of the randomly shown items evaluate them, and the other
    half is the truth; or the other self-selected ratings do, which depend on the label.
    """
    chosen, random = (
        np.loadtxt(Path(FOLDER) / "coat" / f"{name}.ascii", dtype=int) for name in ("train", "test")
    )
    rated, shown = (
        Observations.from_ratings(*np.nonzero(each), each[each > 0], like_at=4, shape=each.shape)
        for each in (chosen, random)
    )
    records = []
    for how, q in (("random", "uniform"), ("self-selected", "modelled")):
        found = []
        for seed in range(10):
            fit, others = rated.split(0.5, random_state=seed)
            # Of an item that was both chosen and shown, the fit has the rating.
            others, apart = (
                each.take(np.flatnonzero(~fit.observed_at(each.rows, each.columns)))
                for each in (others, shown)
            )
            labels, rest = apart.split(0.5, random_state=seed)
            labels, truth = (labels, rest) if how == "random" else (others, apart)
            for system, cells in lists_of(fit):
                value = estimate_list_values(
                    {system: cells}, labels, fit=fit, q=q, random_state=seed
                )
                found.append((system, value, truth_of(cells, labels, truth)))
        for system in dict.fromkeys(name for name, *_ in found):
            here = [(value, truth) for name, value, truth in found if name == system]
            value, plain, half = (
                np.array([getattr(each, name)[0] for each, _ in here])
                for name in ("value", "plain", "upper")
            )
            error = (half - np.array([each.lower[0] for each, _ in here])) / (2 * 1.96)
            truth, of_truth = np.transpose([each for _, each in here])
            distance = (value - truth) / np.hypot(error, of_truth)
            means = (value, error, plain, truth, of_truth)
            within = f"{np.sum(np.abs(distance) <= 2)} of {distance.size}"
            records.append((how, system, *(f"{each.mean():.3f}" for each in means), within))
    heads = ("labels", "lists", "value", "s.e.", "plain", "truth", "s.e. of truth", "within 2 s.e.")
    print_table(title, heads, records)


def lists_of(fit: Observations) -> Iterator[tuple[str, tuple]]:
    """Return the cells of the lists of each system, without those of the fit."""
    known = fit.to_sparse().toarray() != 0
    for system, scores in systems(fit):
        order = np.argsort(np.where(known, np.inf, -scores), axis=1, kind="stable")
        yield (
            system,
            (np.repeat(np.arange(len(order)), LIST_LENGTH), order[:, :LIST_LENGTH].ravel()),
        )


def systems(fit: Observations) -> Iterator[tuple[str, np.ndarray]]:
    """Return the scores of all cells by popularity and by a model."""
    labels = fit.to_sparse().toarray()
    likes = (labels > 0).sum(axis=0)
    yield "popularity", np.broadcast_to(likes.astype(float), labels.shape)
    model = BinaryMatrixCompletion((1, 0, 0), rank=2, l2=3.0, search=False, random_state=0).fit(fit)
    yield "model", model.complete()


def truth_of(cells: tuple, labels: Observations, random: Observations) -> tuple[float, float]:
    """Return the value of lists and its standard error: by their labels, and by randomly shown items elsewhere."""
    known, shown = (each.to_sparse().toarray()[cells] for each in (labels, random))
    rest = np.mean(known == 0)
    like = shown[(known == 0) & (shown != 0)] > 0
    error = rest * np.sqrt(like.mean() * (1 - like.mean()) / like.size)
    return float(np.sum(known > 0) / known.size + rest * like.mean()), float(error)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40, help="draws of new rows of a small table")
    parser.add_argument("--tables", type=int, default=400, help="simulated tables with lists")
    parser.add_argument("--designs", nargs="+", default=["mixed", "pps", "random"])
    parser.add_argument("--only", choices=("means", "log_loss", "value", "coat"))
    given = parser.parse_args()
    began = time.perf_counter()
    parts = {
        "means": lambda: means("Means of new rows", given.draws, given.designs),
        "log_loss": lambda: log_losses("Log-loss of all cells of new rows", given.draws),
        "value": lambda: values(f"Values of lists, {given.tables} simulated tables", given.tables),
        "coat": lambda: coat("Values of lists on Coat"),
    }
    for name, show in parts.items():
        if given.only in (None, name) and (name != "coat" or FOLDER):
            show()
    print(f"{machine()}, {time.perf_counter() - began:.0f} seconds.")


if __name__ == "__main__":
    main()
