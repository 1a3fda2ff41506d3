"""Curves over one parameter, and dots by rating."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError
from tribit.plots import (
    COLOURS,
    WIDTH,
    add_legend,
    check_finite,
    check_some,
    new_figure,
    picture_paths,
)

Array = NDArray[np.floating[Any]]

#: The lightest colour for a line on white paper, as a share of the colour map.
MAX_LIGHTNESS = 0.75
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)))


@dataclass(frozen=True)
class Series:
    """One line of a plot: mean and standard deviation at each x."""

    label: str
    x: Array
    mean: Array
    deviation: Array

    @classmethod
    def of_errors(
        cls,
        label: str,
        errors: Mapping[tuple[float, float, float], Array],
        place: Callable[[tuple[float, float, float]], float],
    ) -> Self:
        """Return the line of the errors of each mixture, at its place on the x axis."""
        order = sorted(errors, key=place)
        return cls(
            label,
            np.array([place(mixture) for mixture in order]),
            np.array([errors[mixture].mean() for mixture in order]),
            np.array([errors[mixture].std(ddof=1) for mixture in order]),
        )


def plot_curves(
    stem: Path,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    references: Mapping[str, float] = {},
    ticks: Mapping[float, str] | None = None,
) -> list[Path]:
    """Draw lines with error bars.

    ``stem`` is the path without ``.png`` and ``.pdf``, ``references`` are horizontal lines by their names, and
    ``ticks`` words below the numbers of the x axis.
    """
    check_some(series, "series")
    for line in series:
        _check_points(f"The series {line.label!r}", line.mean, line.deviation, len(line.x))
        check_finite(f"The series {line.label!r}", line.x)
    check_finite("The references", list(references.values()))
    with new_figure(stem, WIDTH, 3.0, layout="constrained") as figure:
        axis = figure.add_subplot()
        colours = _line_colours(len(series))
        for place, line in enumerate(series):
            axis.errorbar(
                line.x,
                line.mean,
                line.deviation,
                color=colours[place],
                marker=MARKERS[place % len(MARKERS)],
                linestyle=DASHES[place % len(DASHES)],
                label=line.label,
                **_bars(colours[place]),
            )
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        if ticks:
            _write_below(axis, ticks)
        add_legend(figure)
        _draw_references(figure, axis, references)
    return picture_paths(stem)


def plot_ratings(
    stem: Path,
    ratings: Sequence[str],
    methods: Mapping[str, tuple[Array, Array]],
    *,
    y_label: str,
    published: Mapping[str, tuple[Array, Array]] = {},
    note: str = "",
) -> list[Path]:
    """Draw a dot with an error bar for each rating and method, side by side.

    ``methods`` has the mean and the standard deviation at each rating by the method's name (filled dots), ``published``
    those of the paper (hollow dots). ``note`` is a line below the axis.
    """
    check_some(ratings, "ratings")
    check_some([*methods, *published], "methods")
    for name, (mean, deviation) in [*methods.items(), *published.items()]:
        _check_points(f"The method {name!r}", mean, deviation, len(ratings))
    names = list(dict.fromkeys([*methods, *published]))
    columns = [
        (place, f"{name}{suffix}", filled, *group[name])
        for place, name in enumerate(names)
        for group, suffix, filled in ((methods, "", True), (published, " (published)", False))
        if name in group
    ]
    with new_figure(stem, WIDTH, 2.8, layout="constrained") as figure:
        axis = figure.add_subplot()
        colours = _line_colours(len(names))
        # The dots of a rating stay clear of the next rating, whatever their number.
        step = min(0.16, 0.8 / len(columns))
        for column, (place, label, filled, mean, deviation) in enumerate(columns):
            axis.errorbar(
                np.arange(len(ratings)) + step * (column - (len(columns) - 1) / 2),
                mean,
                deviation,
                color=colours[place],
                marker=MARKERS[place % len(MARKERS)],
                linestyle="none",
                label=label,
                **_bars(colours[place] if filled else "white"),
            )
        for place in range(1, len(ratings)):
            axis.axvline(place - 0.5, color="0.85", linewidth=0.6, zorder=0)
        axis.set_xticks(range(len(ratings)), ratings)
        axis.tick_params(axis="x", length=0)
        axis.set_xlim(-0.5, len(ratings) - 0.5)
        axis.set_xlabel(f"rating\n{note}" if note else "rating")
        axis.set_ylabel(y_label)
        add_legend(figure)
    return picture_paths(stem)


def _line_colours(count: int) -> Any:
    from matplotlib import colormaps  # noqa: PLC0415

    return colormaps[COLOURS](np.linspace(0.0, MAX_LIGHTNESS, count))


def _bars(fill: object) -> dict[str, Any]:
    return {"markerfacecolor": fill, "elinewidth": 0.8, "capsize": 2.0, "capthick": 0.8}


def _write_below(axis: Any, words: Mapping[float, str]) -> None:
    # Minor ticks are a second row, which the axis label then keeps clear of.
    axis.set_xticks(list(words), list(words.values()), minor=True)
    axis.xaxis.remove_overlapping_locs = False
    axis.tick_params(axis="x", which="minor", length=0, pad=15)


def _draw_references(figure: Any, axis: Any, references: Mapping[str, float]) -> None:
    for value in references.values():
        axis.axhline(value, color="0.55", linewidth=0.7, zorder=0)
    figure.draw_without_rendering()  # before this, the axes have no place on the page
    heights = [
        float(axis.transData.transform((0.0, value))[1]) * 72 / figure.dpi
        for value in references.values()
    ]
    for (name, value), height, clear in zip(
        references.items(), heights, _keep_apart(heights, 10.0), strict=True
    ):
        axis.annotate(
            name,
            (1.0, value),
            (10.0, clear - height),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            verticalalignment="center",
            color="0.35",
            fontsize=8.0,
            arrowprops={
                "arrowstyle": "-",
                "color": "0.55",
                "linewidth": 0.7,
                "shrinkA": 1.0,
                "shrinkB": 0.0,
            },
        )


def _keep_apart(places: Sequence[float], gap: float) -> list[float]:
    """Move places as little as needed to keep ``gap`` between them, in the same order.

    Examples
    --------
    >>> _keep_apart([0.0, 4.0, 30.0], 10.0)
    [-3.0, 7.0, 30.0]
    """
    order = np.argsort(places, kind="stable")
    # Less the gaps below it, each place must be at least the one before: places that are not are pooled to their mean.
    pools: list[list[float]] = []
    for rank, index in enumerate(order):
        pools.append([places[index] - gap * rank])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    risen = [float(np.mean(pool)) for pool in pools for _ in pool]
    moved = [0.0] * len(places)
    for rank, index in enumerate(order):
        moved[index] = risen[rank] + gap * rank
    return moved


def _check_points(what: str, mean: Array, deviation: Array, count: int) -> None:
    if np.shape(mean) != (count,) or np.shape(deviation) != (count,):
        raise InvalidInputError(
            f"{what} must have one mean and one deviation at each of its {count} places."
        )
    check_finite(what, [mean, deviation])
    if np.min(deviation, initial=0.0) < 0:
        raise InvalidInputError(f"{what} has a negative deviation; none can be below zero.")
