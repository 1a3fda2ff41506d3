"""Curves of Figs. 1 and 2: the error of Experiment 1 along one edge of the simplex or another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.pictures import Series, plot_curves
from tribit.paper.experiments.settings import Mixture
from tribit.paper.experiments.statistics import Errors, errors_by_mixture, markdown_table, spread
from tribit.paper.experiments.synthetic import FLOOR, MOST, NARROW, SOLVED, TOLD, TUNED

Array = NDArray[np.floating[Any]]

#: The ways of completing, in the words of legends and tables.
WAYS = {
    "whole": "as printed: whole matrix scaled",
    "rows": "single rows scaled: lower risk",
    SOLVED: "stated problem solved, k grown",
    NARROW: "stated problem solved, k = r",
    TUNED: "radius chosen on held-out entries",
    TOLD: "radius best for the hidden matrix",
}


def ways(rows: list[Row]) -> dict[str, Errors]:
    """Return the errors of each way that there is, by its words."""
    return {
        words: errors_by_mixture((row for row in rows if row["way"] == way), "relative_error")
        for way, words in WAYS.items()
        if any(row["way"] == way for row in rows)
    }


def floor(rows: list[Row]) -> Array:
    """Return the errors of the posterior mean, one for each trial."""
    return np.array([row["relative_error"] for row in rows if row["way"] == FLOOR])


def references(rows: list[Row]) -> dict[str, float]:
    """Return the lines to draw: what all zeros give, and the floor."""
    return {"all zeros": 1.0, FLOOR: float(floor(rows).mean())}


def series(rows: list[Row], place: Callable[[Mixture], float]) -> list[Series]:
    """Return a line for each way, mixtures where ``place`` puts them."""
    lines = []
    for words, errors in ways(rows).items():
        order = sorted(errors, key=place)
        lines.append(
            Series(
                words,
                np.array([place(mixture) for mixture in order]),
                np.array([errors[mixture].mean() for mixture in order]),
                np.array([errors[mixture].std(ddof=1) for mixture in order]),
            )
        )
    return lines


def draw_curves(
    rows: list[Row],
    stem: Path,
    name: str,
    place: Callable[[Mixture], float],
    ticks: Mapping[float, str],
) -> list[Path]:
    """Draw a line for each way over the parameter of that name, with what all zeros give and the floor."""
    return plot_curves(
        stem,
        series(rows, place),
        x_label=name,
        y_label="relative Frobenius error",
        references=references(rows),
        ticks=ticks,
    )


def curve_table(rows: list[Row], name: str, place: Callable[[Mixture], float]) -> str:
    """Return mean ± standard deviation of every way at every place, and the floor."""
    found = ways(rows)
    order = sorted(next(iter(found.values())), key=place)
    table = markdown_table(
        (name, *found),
        (
            (f"{place(mixture):g}", *(spread(errors[mixture]) for errors in found.values()))
            for mixture in order
        ),
    )
    return f"{table}\n\n{remarks(rows)}"


def remarks(rows: list[Row]) -> str:
    """Say what the floor is, how many fits came to rest, and how many radii are at an end of their grid."""
    texts = [f"Posterior mean under the true prior: {spread(floor(rows))}. All zeros: 1."]
    for way, words in WAYS.items():
        those = [row for row in rows if row["way"] == way]
        if those and "at_rest" in those[0]:
            rested = sum(row["at_rest"] for row in those)
            texts.append(
                f"At rest after at most {MOST[way]} steps, {words}: {rested} of {len(those)} fits (twice the steps "
                "change X by at most 1%)."
            )
        elif those and "held_out_loss" in those[0]:
            radii = [row["radius"] for row in those]
            ends = [radii.count(end) for end in (min(radii), max(radii))]
            texts.append(
                f"{words[0].upper()}{words[1:]}: the smallest that was chosen, {min(radii):.3g}, in {ends[0]} of "
                f"{len(those)} fits, the largest, {max(radii):.3g}, in {ends[1]}."
            )
    return "\n".join(texts)
