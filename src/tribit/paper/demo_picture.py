"""The picture of the demonstration."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tribit.data.files import atomic_path
from tribit.paper.demo import DemoResult
from tribit.plots import check_picture
from tribit.plots.canvas import pyplot_for_files

#: Rows and columns shown of a matrix: a corner, so that single entries can be told apart.
CORNER = 60


def plot_demo(result: DemoResult, path: str | os.PathLike[str]) -> None:
    """Draw the target, what was seen of it, the completion, and the error of each risk over the radius."""
    check_picture(path)
    pyplot = pyplot_for_files()
    figure, axes = pyplot.subplots(1, 4, figsize=(13, 3.4), width_ratios=(1, 1, 1, 1.35))
    corner = slice(0, CORNER), slice(0, CORNER)
    # Each picture has its own scale: completions are shrunk, and it is the pattern that matters.
    for axis, matrix, title in (
        (axes[0], result.target, "hidden matrix"),
        (axes[1], result.observations.to_sparse()[:CORNER, :CORNER].toarray(), "what was seen"),
        (axes[2], result.completed, "completed"),
    ):
        shown = np.asarray(matrix, dtype=float)[corner]
        size = 1.0 if title == "what was seen" else 2.5 * float(np.std(shown))
        axis.imshow(shown, cmap="RdBu", vmin=-size, vmax=size, interpolation="nearest")
        axis.set_title(title)
        axis.set_xticks([])
        axis.set_yticks([])
    styles = {"PN": ("o--", "observed signs alone (PN)"), "mixture": ("s-", "mixture of all three")}
    for risk, (style, label) in styles.items():
        fits = [fit for fit in result.fits if fit.risk == risk]
        color = "0.45" if risk == "PN" else "tab:blue"
        axes[3].plot(
            [f.radius for f in fits],
            [f.recovery_error for f in fits],
            style,
            color=color,
            label=label,
        )
    axes[3].axhline(1.0, color="0.8", zorder=0)
    axes[3].set_xscale("log")
    ticks = sorted({fit.radius for fit in result.fits})
    axes[3].set_xticks(ticks, [f"{tick:.2f}" for tick in ticks])
    axes[3].set_xticks([], minor=True)
    axes[3].set_xlabel("radius of the max-norm ball")
    axes[3].set_ylabel("recovery error")
    axes[3].legend(frameon=False)
    figure.tight_layout()
    try:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=Path(path).suffix[1:].lower(), dpi=110)
    finally:
        pyplot.close(figure)
