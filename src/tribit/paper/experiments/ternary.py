"""Heat maps over the simplex of mixtures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError
from tribit.paper.experiments.settings import Mixture, simplex
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

#: The names of the three risks, in the order of a mixture's weights: top, left and right corner.
CORNERS = ("PN", "PU", "NU")
#: Points across a digit, at the font size of the numbers in a triangle and below its colour bar.
DIGIT_POINTS = 5.0
#: Largest distance, in weights, from a place to the nearest mixture at which colours and contours are interpolated.
MAX_GAP = 0.2
#: Position of the title, in heights of a triangle: mpltern's own, whose search takes half the time of a figure.
TITLE_HEIGHT = 1.13632


@dataclass(frozen=True)
class Triangle:
    """One heat map over the simplex: a value at each mixture.

    Attributes
    ----------
    title : str
        The words above.
    mixtures : ndarray of shape (n, 3)
        The weights of PN, PU and NU; each row sums to one.
    values : ndarray of shape (n,)
        The smaller the better.
    best : sequence of 3 floats, optional
        A mixture to mark besides that of the smallest value, such as the paper's own best.
    """

    title: str
    mixtures: Array
    values: Array
    best: Sequence[float] | None = None

    @classmethod
    def of_errors(
        cls, title: str, errors: Mapping[Mixture, Array], best: Sequence[float] | None = None
    ) -> Self:
        """Return the map of the mean error of each mixture."""
        means = np.array([values.mean() for values in errors.values()])
        return cls(title, np.array(list(errors)), means, best)

    @property
    def covers(self) -> bool:
        """Whether every place of the triangle is near a mixture, so that values between them are interpolated."""
        grid = np.array(simplex(10))
        distances = np.abs(grid[:, None] - self.mixtures).max(axis=2).min(axis=1)
        return bool(distances.max() <= MAX_GAP)

    def check(self) -> None:
        """Refuse values and mixtures that do not make a heat map."""
        what = f"The triangle {self.title!r}"
        count = len(self.values)
        if np.shape(self.values) != (count,) or np.shape(self.mixtures) != (count, 3):
            raise InvalidInputError(
                f"{what} must have three weights for each of its {count} values."
            )
        best = [] if self.best is None else [self.best]
        if any(len(weights) != 3 for weights in best):
            raise InvalidInputError(f"{what} must have three weights in its best mixture.")
        weights = np.asarray([*self.mixtures, *best], dtype=float)
        check_finite(what, weights)
        check_finite(what, self.values)
        if np.min(weights, initial=0.0) < -1e-9 or not np.allclose(weights.sum(axis=1), 1.0):
            raise InvalidInputError(
                f"{what} must have mixtures whose weights are at least zero and sum to one."
            )
        if np.linalg.matrix_rank(self.mixtures, tol=1e-6) < 3:
            raise InvalidInputError(
                f"{what} must have three mixtures or more that do not lie on one line."
            )


@dataclass(frozen=True)
class _Scale:
    """The values that the colours of one triangle span, and whether some lie above them."""

    lowest: float
    highest: float
    clipped: bool
    levels: Array


@dataclass(frozen=True)
class _Layout:
    """Positions of triangles on a page, in inches, so that panels and their bars line up."""

    width: float
    height: float
    cell: float
    columns: int
    heading: float
    note: str

    SIDE, TALL = 2.0, 3.0**0.5
    BELOW = 0.95
    LEGEND = 0.3
    LINE = 0.15

    @classmethod
    def of(cls, triangles: Sequence[Triangle], note: str) -> _Layout:
        """Make room for the longest title and for the note."""
        columns = min(2, len(triangles))
        width = WIDTH if columns > 1 else 0.6 * WIDTH
        note = textwrap.fill(note, int(16.0 * width))
        heading = 0.3 + cls.LINE * max(_heading(triangle).count("\n") + 1 for triangle in triangles)
        cell = heading + cls.TALL + cls.BELOW
        rows = -(-len(triangles) // columns)
        height = cls.LEGEND + cell * rows + cls.LINE * len(note.splitlines())
        return cls(width, height, cell, columns, heading, note)

    def axes(self, figure: Any, place: int) -> tuple[Any, Any]:
        """Return the axes of one triangle and of its colour bar."""
        row, column = divmod(place, self.columns)
        left = self.width / self.columns * (column + 0.5) - 0.5 * self.SIDE
        base = self.height - self.LEGEND - self.cell * row - self.heading - self.TALL
        page = np.asarray([self.width, self.height, self.width, self.height])
        triangle = figure.add_axes([left, base, self.SIDE, self.TALL] / page, projection="ternary")
        return triangle, figure.add_axes([left, base - 0.45, self.SIDE, 0.08] / page)


def plot_triangles(
    stem: Path, triangles: Sequence[Triangle], *, label: str, note: str = ""
) -> list[Path]:
    """Draw heat maps over the mixtures of the three risks, two beside one another.

    The colours stop at the 95th percentile if the largest value lies far above it. ``label`` names the values, ``note``
    is a remark below the figure, and the path is that of :func:`tribit.paper.experiments.pictures.plot_curves`.
    """
    check_some(triangles, "triangles")
    for triangle in triangles:
        triangle.check()
    layout = _Layout.of(triangles, note)
    with new_figure(stem, layout.width, layout.height) as figure:
        for place, triangle in enumerate(triangles):
            axis, bar = layout.axes(figure, place)
            _draw_triangle(figure, axis, bar, triangle, label)
        add_legend(figure, "upper center")
        figure.text(0.5, 0.06 / layout.height, layout.note, ha="center", va="bottom", fontsize=8.0)
    return picture_paths(stem)


def _draw_triangle(figure: Any, axis: Any, bar: object, triangle: Triangle, label: str) -> None:
    scale = _scale(triangle.values)
    mixtures, shown = triangle.mixtures.T, np.minimum(triangle.values, scale.highest)
    options = {"cmap": COLOURS, "vmin": scale.lowest, "vmax": scale.highest}
    dots = {"edgecolors": "black", "linewidths": 0.3, "clip_on": False, "zorder": 3}
    if triangle.covers:
        mesh = axis.tripcolor(*mixtures, shown, shading="gouraud", **options)
        axis.scatter(*mixtures, s=4.0, c="white", **dots)
        if not _flat(triangle.values):
            _draw_contours(axis, triangle, shown, scale)
    else:
        mesh = axis.scatter(*mixtures, s=50.0, c=shown, **options, **dots)
    figure.colorbar(
        mesh,
        cax=bar,
        orientation="horizontal",
        extend="max" if scale.clipped else "neither",
        label=label,
    ).set_ticks(scale.levels, labels=_thin_words(_level_words(scale.levels)))
    _draw_marks(axis, triangle)
    axis.set_title(_heading(triangle), y=TITLE_HEIGHT)
    _label_corners(axis)


def _draw_contours(axis: Any, triangle: Triangle, shown: Array, scale: _Scale) -> None:
    from matplotlib import colormaps  # noqa: PLC0415
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    share = (scale.levels - scale.lowest) / (scale.highest - scale.lowest)
    colours = colormaps[COLOURS](share)
    lines = axis.tricontour(
        *triangle.mixtures.T, shown, levels=scale.levels, colors=_inks(colours), linewidths=0.6
    )
    words = dict(zip(scale.levels, _level_words(scale.levels), strict=True))
    half = 0.5 * DIGIT_POINTS * max(map(len, words.values())) / (72.0 * _Layout.TALL)
    places = _label_places(axis, triangle, lines.get_paths(), half)
    texts = axis.clabel(lines, fmt=words, fontsize=8.0, manual=places)
    for text in texts:
        # The line's own colour around the number, so that no dot is mistaken for a part of it.
        level = list(words.values()).index(text.get_text())
        text.set_path_effects([withStroke(linewidth=2.0, foreground=colours[level])])
        text.set_zorder(4)


def _label_places(
    axis: Any, triangle: Triangle, paths: Any, half: float
) -> list[tuple[float, float]]:
    """Return the point of each contour line with the most room for its number, if there is enough.

    All distances are shares of the triangle's height, ``half`` the width of a number included.
    """
    marks = [triangle.mixtures[int(np.argmin(triangle.values))]]
    marks += [] if triangle.best is None else [np.asarray(triangle.best, dtype=float)]
    taken = [*axis.transProjection.transform(np.asarray(marks))]
    places = []
    for path in paths:
        for line in path.to_polygons(closed_only=False):
            # The weight of a risk is the distance from the side that is opposite its corner.
            inside = axis.transProjection.inverted().transform(line).min(axis=1) - half - 0.01
            apart = [np.linalg.norm(line - other, axis=1) - half - 0.06 for other in taken]
            room = np.min([inside, *apart], axis=0)
            if room.max() > 0:
                taken.append(line[room.argmax()])
                places.append((float(taken[-1][0]), float(taken[-1][1])))
    return places


def _draw_marks(axis: Any, triangle: Triangle) -> None:
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    if not _flat(triangle.values):
        axis.scatter(
            *triangle.mixtures[int(np.argmin(triangle.values)), :, np.newaxis],
            marker="*",
            s=110.0,
            color="tab:red",
            edgecolors="white",
            linewidths=0.8,
            clip_on=False,
            zorder=5,
            label="smallest value",
        )
    if triangle.best is not None:
        axis.scatter(
            *np.asarray(triangle.best, dtype=float)[:, np.newaxis],
            marker="o",
            s=110.0,
            facecolors="none",
            edgecolors="black",
            linewidths=1.1,
            clip_on=False,
            zorder=6,
            label="paper",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def _heading(triangle: Triangle) -> str:
    """Return the title, and below it the smallest value and where it is."""
    smallest = int(np.argmin(triangle.values))
    value, mixture = triangle.values[smallest], triangle.mixtures[smallest]
    where = "everywhere"
    if not _flat(triangle.values):
        # Rounded weights may be -0, which a zero added turns into 0.
        where = f"at ({', '.join(f'{weight:g}' for weight in np.round(mixture, 3) + 0.0)})"
    return f"{textwrap.fill(triangle.title, 40)}\n{value:.4g} {where}"


def _label_corners(axis: Any) -> None:
    for corner, side, name in zip(
        "tlr", (axis.taxis, axis.laxis, axis.raxis), CORNERS, strict=True
    ):
        getattr(axis, f"set_{corner}label")(name, labelpad=8.0)
        side.set_label_rotation_mode("horizontal")
        side.set_ticks([0.2, 0.4, 0.6, 0.8])


def _inks(colours: Any) -> Any:
    """Return black or white for each colour, whichever stands out from it."""
    light = colours[:, :3] @ (0.299, 0.587, 0.114) > 0.5
    return np.where(light, "black", "white")


def _flat(values: Array) -> bool:
    """Say whether values differ by no more than rounding."""
    return bool(np.ptp(values) <= 1e-9 * np.max(np.abs(values)))


def _scale(values: Array) -> _Scale:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    lowest, highest = float(np.min(values)), float(np.max(values))
    # A value that is there, not one between the bad corner's and the next.
    usual = float(np.percentile(values, 95, method="lower"))
    clipped = highest - usual > usual - lowest > 1e-9 * abs(highest)
    if clipped:
        highest = usual
    if _flat(values):
        # One value alone has no scale of its own; any around it will do.
        half = 0.1 * abs(highest) or 0.1
        lowest, highest = lowest - half, highest + half
    levels = np.asarray(MaxNLocator(7, steps=[1, 2, 5, 10]).tick_values(lowest, highest))
    return _Scale(lowest, highest, clipped, levels[(levels > lowest) & (levels < highest)])


def _level_words(levels: Array) -> list[str]:
    """Return levels as text with the fewest digits that keep them different."""
    digits = max(0, -int(np.floor(np.log10(np.min(np.diff(levels))) + 1e-9)))
    return [f"{level:.{digits}f}" for level in levels]


def _thin_words(words: list[str]) -> list[str]:
    """Blank as many words as it takes for the others to fit below the colour bar."""
    room = int(72.0 * _Layout.SIDE / (DIGIT_POINTS * max(map(len, words)) + 4.0))
    step = -(-len(words) // room)
    return [word if place % step == 0 else "" for place, word in enumerate(words)]
