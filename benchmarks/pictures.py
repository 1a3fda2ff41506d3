"""The pictures of the manual that need data: ``make pictures DATA=folder`` writes them to docs/_static.

No default is chosen by these figures. The lists are those of ``benchmarks.lists``, on the splits 0 to 4; everything
else uses training entries alone (see ``benchmarks.unobserved``).
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks import lists
from benchmarks.data import FOLDER
from benchmarks.unobserved import SEED, all_data, coat_train, quintiles, searches
from tribit import plots
from tribit.backends import Arithmetic
from tribit.plots import STYLE
from tribit.propensity import cross_fitted
from tribit.selection import Candidate, Options, Search
from tribit.selection.folds import make_folds
from tribit.selection.stages import PENALTY_SHARES
from tribit.selection.trials import Trials

STATIC = Path(__file__).resolve().parent.parent / "docs" / "_static"
WIDTH, DPI = 8.0, 110
#: Splits and weights of the trade-off.
SPLITS = range(5)
WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.5, 1.7, 2.0)
BLUE, GREEN, ORANGE, RED, GREY = "tab:blue", "tab:green", "tab:orange", "tab:red", "0.45"
#: Bars end there, in percent.
CUT = 5.0


@contextmanager
def page(name: str, height: float, columns: int) -> Iterator[Any]:
    """Yield axes beside one another, and write the picture when the block succeeds."""
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield np.atleast_1d(figure.subplots(1, columns))
        write(figure, name)


def write(figure: Figure, name: str) -> None:
    """Write a picture, the same bytes for the same picture."""
    path = STATIC / name
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    print(f"{path}, {path.stat().st_size // 1024} kB")


def the_mask(found: dict[str, tuple[Search, float]]) -> None:
    """Draw the relation of the mask to likes, and the gain of its features and mixtures bring."""
    with page("mask.png", 3.0, 2) as (left, right):
        shares = quintiles(cross_fitted(coat_train(), random_state=SEED), coat_train())
        bars = left.bar(range(1, 6), 100 * shares, color=GREEN, width=0.7)
        left.bar_label(bars, fmt="%.0f")
        left.set_xlabel("fifth of the observed entries, by rising q")
        left.set_ylabel("likes, %")
        left.set_title("Coat: people look at what they like")
        names = list(found)
        for shift, family, colour in ((-0.2, "implicit features", GREEN), (0.2, "mixture", ORANGE)):
            for place, name in enumerate(names):
                best = found[name][0].families()
                if family not in best:
                    right.text(place + shift, 0.1, "not\ntried", ha="center", fontsize=7)
                    continue
                change = 100 * (best[family].score / best["factors"].score - 1)
                label = family if place == 0 else None
                # What is far behind would leave no room for the rest: its bar is cut, its number says how far.
                shown = float(np.clip(change, -CUT, CUT))
                bar = right.bar(place + shift, shown, 0.36, color=colour, label=label)
                right.bar_label(bar, [f"{change:+.2f}"], fontsize=7)
        right.axhline(0, color="black", linewidth=0.6)
        words = [name.replace(", ", ",\n").replace("Experiment", "Exp.") for name in names]
        right.set_xticks(range(len(names)), words, fontsize=7)
        right.margins(y=0.15)
        right.set_ylabel("held-out log-loss against\nfactors alone, %")
        right.set_title("below 0: better than factors alone")
        right.legend()


def the_lists() -> None:
    """Draw likes found against dislikes shown, with the published points of other software."""
    figures, _ = lists.measure(SPLITS, WEIGHTS)
    ndcg, dislikes = figures.mean(axis=0).T
    peers = [
        (name.strip(" ,"), float(x), float(y))
        for goal in lists.GOALS
        for name, x, y in re.findall(r"([A-Za-z ]+) (\.\d+) / (\.\d+)", goal.peers)
    ]
    with page("lists.png", 4.0, 1) as (axis,):
        axis.plot(dislikes, ndcg, "o-", color=BLUE)
        for weight, x, y in zip(WEIGHTS, dislikes, ndcg, strict=True):
            axis.annotate(
                f"{weight:g}", (x, y), (-4, 5), textcoords="offset points", ha="right", color=BLUE
            )
        middle = WEIGHTS.index(1.0)  # above the curve there is nothing but room
        axis.annotate(
            "tribit: numbers are avoid_dislikes",
            (dislikes[middle], ndcg[middle]),
            (-24, 14),
            textcoords="offset points",
            ha="right",
            color=BLUE,
            fontweight="bold",
        )
        for name, y, x in peers:
            axis.plot(x, y, "s", color=GREY)
            offset = {"iALS": (6, 1), "EASE": (6, -8)}.get(name, (6, -3))
            axis.annotate(name, (x, y), offset, textcoords="offset points", color=GREY)
        axis.set_xlabel("dislikes shown for each like shown (fewer, to the left, are better)")
        axis.set_ylabel("NDCG@10 of held-out likes (more is better)")
        axis.set_title("Lists of ten films, MovieLens-100k: what other software reaches in grey")


def the_path(found: dict[str, tuple[Search, float]]) -> None:
    """Draw held-out log-loss over the ridge of the factors: the candidates of the search and the rest of the grid."""
    data = all_data()
    names = [name for name in ("ML-100k", "Senate", "Coat") if name in data]
    with page("ridge-path.png", 2.9, len(names)) as axes:
        for axis, name in zip(axes, names, strict=True):
            search, train = found[name][0], data[name][0]
            tried = [c for c in search.candidates if c.settings.family == "factors"]
            tried = [c for c in tried if c.settings.rank == tried[0].settings.rank]
            whole = full_path(train, search, tried[0])
            axis.plot(
                *whole.T, "o--", color=GREY, markerfacecolor="white", label="not tried", zorder=1
            )
            l2 = [c.settings.l2 for c in tried]
            scores = [c.score for c in tried]
            axis.plot(l2, scores, "o", color=BLUE, label="tried, from right to left")
            best = int(np.argmin(scores))
            axis.plot(l2[best], scores[best], "*", color=RED, markersize=13, label="least")
            level = search.families()["intercepts"].score
            axis.axhline(level, color="0.7", label="intercepts alone")
            # What overfits worst is out of the frame: the turn is what matters.
            top = max(1.15 * scores[best], 1.03 * level)
            axis.set_ylim(0.98 * scores[best], top)
            axis.set_xlim(0.75 * np.min(whole[whole[:, 1] < top, 0]), 1.15 * np.max(whole[:, 0]))
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xlabel("l2")
            axis.set_title(name)
        axes[0].set_ylabel("held-out log-loss")
        axes[0].legend(fontsize=7, loc="upper right")


def full_path(train: Any, search: Search, first: Candidate) -> np.ndarray:
    """Return ridge and score of every point of the path, on the folds of the search."""
    folds = make_folds(train, None, np.random.Generator(np.random.PCG64(SEED)))
    trials = Trials(
        folds,
        Options(Arithmetic("float32", 1, "auto")),
        scoring="log_loss",
        most=None,
        deadline=None,
    )
    trials.score(search.families()["intercepts"].settings)
    largest = first.settings.l2 / PENALTY_SHARES[0]
    settings = [replace(first.settings, l2=share * largest) for share in PENALTY_SHARES]
    return np.array([(s.l2, trials.score(s).score) for s in settings])


def main(*names: str) -> None:
    """Draw every picture, or those that are named: mask, path, search, lists."""
    missing = [x for x in ("ml-100k", "senate", "coat") if not (Path(FOLDER) / x).is_dir()]
    if not FOLDER or missing:
        sys.exit("make pictures DATA=folder: it must hold ml-100k, senate and coat.")
    wanted = set(names or ("mask", "path", "search", "lists"))
    if wanted - {"lists"}:
        found = searches()
        drawings = {
            "mask": lambda: the_mask(found),
            "path": lambda: the_path(found),
            "search": lambda: write(plots.search(found["Coat"][0]), "search.png"),
        }
        for name in drawings.keys() & wanted:
            drawings[name]()
    if "lists" in wanted:
        the_lists()


if __name__ == "__main__":
    main(*sys.argv[1:])
