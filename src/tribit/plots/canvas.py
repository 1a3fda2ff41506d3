"""Parts that the figures of the experiments share: a page, a legend, files as PNG and PDF, checks of numbers.

They need the extra ``tribit[plot]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from tribit.data.files import atomic_path, writable
from tribit.errors import InvalidInputError

#: Inches across the text of a page, so that a figure is printed at the size it is drawn.
WIDTH = 5.5
#: Dark to light without a turn, so that it reads the same in grey and to colour-blind eyes.
COLOURS = "cividis"
STYLE = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "figure.dpi": 150.0,
    "pdf.fonttype": 42,  # letters stay letters, which journals ask for
}
#: Dates and versions are left out, so that equal figures are equal files.
METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def check_pictures() -> None:
    """Say that a library is missing, before the work whose pictures it would draw."""
    try:
        import matplotlib  # noqa: F401, PLC0415
        import mpltern  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise InvalidInputError(
            'The figures need matplotlib and mpltern: install them with pip install "tribit[plot]".'
        ) from None


def picture_paths(stem: Path) -> list[Path]:
    """Return where a figure is written, for each kind of file."""
    # Not with_suffix, which would take the "5" of "rho-0.5" for one.
    return [stem.with_name(f"{stem.name}.{kind}") for kind in METADATA]


FigureLayout: TypeAlias = Literal["constrained"] | None


@contextmanager
def empty_figure(width: float, height: float, *, layout: FigureLayout = None) -> Iterator[Any]:
    """Yield an empty figure, to be drawn in the style of the figures; mpltern draws its triangles."""
    check_pictures()
    from matplotlib import style  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    # A figure of its own, without pyplot, needs no display; and the defaults come first, so that
    # a reader's own settings do not change the figures.
    with style.context(["default", STYLE]):
        yield Figure(figsize=(width, height), layout=layout)


@contextmanager
def new_figure(
    stem: Path, width: float, height: float, *, layout: FigureLayout = None
) -> Iterator[Any]:
    """Yield an empty figure, and write it when the block succeeds."""
    check_pictures()
    for path in picture_paths(stem):
        writable(path)
    with empty_figure(width, height, layout=layout) as figure:
        yield figure
        for path in picture_paths(stem):
            kind = path.suffix[1:]
            with atomic_path(path) as temporary:
                figure.savefig(temporary, format=kind, dpi=150, metadata=METADATA[kind])


def add_legend(figure: Any, place: str = "outside upper center") -> None:
    """Put the legend above the axes, in as few rows as fit, each of like length."""
    pairs = [zip(*axis.get_legend_handles_labels(), strict=True) for axis in figure.axes]
    handles = {label: handle for pair in pairs for handle, label in pair}
    for rows in range(1, len(handles) + 1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            loc=place,
            ncols=-(-len(handles) // rows),
            borderaxespad=0.2,
        )
        if legend.get_window_extent().width < figure.bbox.width or rows == len(handles):
            return
        legend.remove()


def check_some(things: Sequence[Any], name: str) -> None:
    """Refuse to draw nothing."""
    if not things:
        raise InvalidInputError(f"A figure needs some {name}, and none were given.")


def check_finite(what: str, numbers: Any) -> None:
    """Refuse to draw what is not a number."""
    if not np.isfinite(np.asarray(numbers, dtype=float)).all():
        raise InvalidInputError(
            f"{what} must have finite numbers to be drawn; leave out what has none."
        )


def pyplot_for_files() -> Any:
    """Return matplotlib's pyplot, drawing to files; say how to get it where it is missing."""
    try:
        import matplotlib  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InvalidInputError(
            'Pictures need matplotlib: install it with pip install "tribit[plot]".'
        ) from None
    matplotlib.use("Agg")  # files only, whatever display there is
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot
