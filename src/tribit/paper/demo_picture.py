"""The picture of the demonstration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from tribit.data.files import atomic_path
from tribit.paper.demo import DEFAULT, LENGTH, DemoResult
from tribit.plots import check_picture
from tribit.plots.canvas import METADATA, STYLE, pyplot_for_files

#: Red for dislikes, blue for likes, white in the middle: told apart by the colour-blind, and light and dark in grey.
COLOURS = "RdBu"
BLUE, GREY = "tab:blue", "0.35"


def plot_demo(result: DemoResult, path: str | os.PathLike[str]) -> None:
    """Draw the truth, what was seen, the completion on the same scale, and likes against dislikes of the lists."""
    check_picture(path)
    pyplot = pyplot_for_files()
    kind = Path(path).suffix[1:].lower()
    with pyplot.style.context(["default", STYLE]):
        figure = pyplot.figure(figsize=(11, 6.6), layout="constrained")
        try:
            upper, lower = figure.subfigures(2, 1, height_ratios=(1.15, 1))
            _draw_tables(upper, result)
            errors, lists = lower.subplots(1, 2, width_ratios=(1, 1.25))
            _draw_errors(errors, result)
            _draw_lists(lists, result)
            with atomic_path(path) as temporary:
                figure.savefig(temporary, format=kind, dpi=110, metadata=METADATA.get(kind))
        finally:
            pyplot.close(figure)


def _draw_tables(figure: Any, result: DemoResult) -> None:
    """Draw three tables of one scale beside one another, with the bar that the outer two share."""
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    labels = np.full(result.seen.shape, np.nan)
    labels[result.seen.rows, result.seen.columns] = result.seen.labels > 0
    share = f"{100 * result.seen.density:.0f}%"
    titles = ("hidden: who would like what", f"seen: {share} of the cells", "completed by tribit")
    for axis, table, title in zip(
        axes, (result.probability, labels, result.completed), titles, strict=True
    ):
        axis.set_facecolor("0.93")  # cells that nobody has seen
        image = axis.imshow(
            table, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        axis.set_title(title)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_xlabel(f"{table.shape[1]} things, by their hidden angle")
    axes[0].set_ylabel(f"{labels.shape[0]} people, by theirs")
    bar = figure.colorbar(image, ax=axes, aspect=25, pad=0.01)
    bar.set_label("probability of a like\n(seen: liked blue, disliked red)")


def _draw_errors(axis: Any, result: DemoResult) -> None:
    """Draw wrong signs on unseen cells, from zero, with the least that anybody could reach."""
    names = [fit.name for fit in result.fits]
    errors = [100 * fit.sign_error for fit in result.fits]
    colours = [BLUE if fit.name == DEFAULT else "0.75" for fit in result.fits]
    bars = axis.barh(names, errors, color=colours, height=0.6)
    axis.bar_label(bars, fmt="%.1f", padding=3)
    least = 100 * result.least_error
    axis.axvline(least, color="black", linewidth=0.8, linestyle="--")
    axis.annotate(
        f"truth itself: {least:.1f}",
        (least, 1.0),
        (3, 2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        fontsize=8,
    )
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15 * max(errors))
    axis.set_xlabel("wrong signs on unseen cells, %")


def _draw_lists(axis: Any, result: DemoResult) -> None:
    """Draw the curve of ``avoid_dislikes`` and the two orders beside it, each with its name."""
    curve = [each for each in result.lists if each.avoid_dislikes is not None]
    others = [each for each in result.lists if each.avoid_dislikes is None]
    axis.plot([e.dislikes for e in curve], [e.likes for e in curve], "o-", color=BLUE)
    for each in curve:
        first = each is curve[0]  # the rightmost: its label has room below
        axis.annotate(
            f"avoid_dislikes = {each.avoid_dislikes:g}" if first else f"{each.avoid_dislikes:g}",
            (each.dislikes, each.likes),
            (5, -12) if first else (0, 7),
            textcoords="offset points",
            ha="left" if first else "center",
            color=BLUE,
        )
    for each in others:
        axis.plot(each.dislikes, each.likes, "s", color=GREY)
        axis.annotate(
            each.name, (each.dislikes, each.likes), (7, -3), textcoords="offset points", color=GREY
        )
    # From zero, with room on the right for the name of the last point.
    axis.set_xlim(0, 1.3 * max(each.dislikes for each in result.lists))
    axis.set_ylim(0, 1.2 * max(each.likes for each in result.lists))
    axis.set_xlabel(f"dislikes shown in a hundred lists of {LENGTH} (fewer are better)")
    axis.set_ylabel("likes found (more are better)")
