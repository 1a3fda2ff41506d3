"""Figures: of a search and of means, and the style, files and checks that all figures share.

They need the extra ``tribit[plot]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from tribit.checks import check_between
from tribit.data.files import atomic_path, writable
from tribit.errors import InvalidInputError, with_mentions

if TYPE_CHECKING:
    from tribit.estimates import Means
    from tribit.selection import Candidate, Search

__all__ = ["means", "ranks", "search", "sensitivity"]

#: Width of a page's text in inches: a figure of this width is printed at its own size.
WIDTH = 5.5
#: A colour map of rising lightness, which reads the same in grey and with colour blindness.
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
    "pdf.fonttype": 42,  # text stays text, as journals require
}
#: Dates and versions are left out, so that equal figures are equal files.
METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
#: Marker and colour of each model family in the picture of a search.
FAMILIES = {
    "intercepts": ("P", "0.55"),
    "factors": ("o", "tab:blue"),
    "implicit features": ("s", "tab:green"),
    "mixture": ("D", "tab:orange"),
    "mixture with implicit features": ("X", "tab:red"),
}
#: Size of the picture of a search in inches, and the width of its simplex as a share of the page.
PAGE_INCHES, SIMPLEX_WIDTH = (8.4, 3.6), 0.235
#: Part of the simplex that a picture shows, from the PN corner: the smallest that holds every mixture.
SIMPLEX_VIEWS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
#: Colours of means whose limits are drawn over the odds ratio.
CURVE_COLOURS = tuple(
    f"tab:{name}"
    for name in (
        "blue",
        "orange",
        "green",
        "red",
        "purple",
        "brown",
        "pink",
        "gray",
        "olive",
        "cyan",
    )
)
#: Inches of a mean in a picture, inches around all of them, and most means of a picture.
INCHES_OF_MEAN, INCHES_AROUND, MOST_MEANS = 0.2, 0.8, 100
#: Height of the picture of a sensitivity in inches.
CURVE_INCHES = 3.2


def means(found: Means, *, axis: Any = None) -> Any:
    """Draw means with their intervals, largest first (a forest plot), and the plain shares beside them.

    Parameters
    ----------
    found : Means
        Answer of :meth:`tribit.Recommender.means` or :func:`tribit.estimates.estimate_means`; with at most 100 means.
    axis : matplotlib.axes.Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure of the axes. No window is opened; ``savefig`` writes it.

    Examples
    --------
    >>> from tribit import Observations, plots
    >>> from tribit.estimates import estimate_means
    >>> seen = Observations.from_matrix([[1, 1, -1, 0], [1, 0, -1, -1], [1, 1, 1, 0]])
    >>> plots.means(estimate_means(seen, random_state=0)).savefig("means.png")  # doctest: +SKIP
    """
    order = _largest_last(found)
    with _axes(axis, INCHES_AROUND + INCHES_OF_MEAN * len(found)) as axes:
        places = _name_lines(axes, found.ids[order], f"mean, interval at {found.level:.0%}")
        mean, low, high = (each[order] for each in (found.mean, found.lower, found.upper))
        axes.hlines(places, low, high, color="tab:blue")
        axes.plot(mean, places, "o", color="tab:blue", label="estimate")
        hollow = {"markerfacecolor": "none", "color": "0.5"}
        axes.plot(found.plain[order], places, "o", label="share of seen cells", **hollow)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
    return axes.figure


def ranks(found: Means, *, axis: Any = None) -> Any:
    """Draw the best and the worst rank of each mean: all true ranks are between them at once.

    Parameters
    ----------
    found : Means
        Means of single rows or groups, at most 100.
    axis : matplotlib.axes.Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure of the axes. No window is opened; ``savefig`` writes it.

    Examples
    --------
    >>> from tribit import Observations, plots
    >>> from tribit.estimates import estimate_means
    >>> seen = Observations.from_matrix([[1, 1, -1, 0], [1, 0, -1, -1], [1, 1, 1, 0]])
    >>> plots.ranks(estimate_means(seen, random_state=0)).savefig("ranks.png")  # doctest: +SKIP
    """
    order, limits = _largest_last(found), found.ranks()
    with _axes(axis, INCHES_AROUND + INCHES_OF_MEAN * len(found)) as axes:
        label = f"ranks, all at once at {found.level:.0%}"
        places = _name_lines(axes, found.ids[order], label)
        best, worst = (limits[name][order] for name in ("rank_lower", "rank_upper"))
        axes.hlines(places, best, worst, color="tab:blue", linewidth=3)
        axes.plot(len(order) - places, places, "o", color="0.15")
        axes.set_xlim(0.5, len(order) + 0.5)
    return axes.figure


def sensitivity(
    found: Means, *, odds_ratio: float = 4.0, threshold: float | None = None, axis: Any = None
) -> Any:
    """Draw the limits of means over the odds ratio of being seen between the labels.

    Parameters
    ----------
    found : Means
        At most ten means.
    odds_ratio : float, default=4
        Right end of the axis, above 1.
    threshold : float, optional
        A value that is marked, and where limits reach it.
    axis : matplotlib.axes.Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure of the axes. No window is opened; ``savefig`` writes it.

    Examples
    --------
    >>> from tribit import Observations, plots
    >>> from tribit.estimates import estimate_means
    >>> seen = Observations.from_matrix([[1, 1, -1, 0], [1, 0, -1, -1], [1, 1, 1, 0]])
    >>> plots.sensitivity(estimate_means(seen, random_state=0)).savefig("curve.png")  # doctest: +SKIP
    """
    most = len(CURVE_COLOURS)
    check_some(range(len(found)), "means")
    if len(found) > most:
        raise InvalidInputError(
            f"A picture has the limits of at most {most} means; choose some of {len(found)}."
        )
    ratios = np.geomspace(1, check_between("odds_ratio", odds_ratio, 1, np.inf, ends="()"), 41)
    limits = [found.sensitivity(ratio) for ratio in ratios]
    with _axes(axis, CURVE_INCHES) as axes:
        for place, (name, colour) in enumerate(zip(found.ids, CURVE_COLOURS, strict=False)):
            low, high = (np.array([each[side][place] for each in limits]) for side in limits[0])
            axes.fill_between(ratios, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(ratios, low, color=colour, label=str(name))
            axes.plot(ratios, high, color=colour)
        if threshold is not None:
            axes.axhline(threshold, color="0.4", linestyle="--")
            turns = found.turns_at(threshold)
            inside = turns[(turns > 1) & (turns < ratios[-1])]
            axes.plot(inside, np.full(inside.size, threshold), "o", color="0.15")
        axes.set_xscale("log", base=2)
        axes.set(xlim=(1, ratios[-1]), ylim=(0, 1), xlabel="odds ratio of being seen, +1 to -1")
        axes.set_ylabel(f"limits at {found.level:.0%}")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, borderaxespad=0)
    return axes.figure


def _largest_last(found: Means) -> Any:
    """Return the order of the means of a picture, whose first is at the bottom."""
    check_some(range(len(found)), "means")
    if len(found) > MOST_MEANS:
        raise InvalidInputError(
            f"A picture has at most {MOST_MEANS} means; choose some of {len(found)}, such as those of a few rows."
        )
    return np.argsort(found.mean, kind="stable")


@contextmanager
def _axes(axis: Any, height: float) -> Iterator[Any]:
    """Yield axes to draw into: those that are given, or of a new figure."""
    if axis is not None:
        yield axis
        return
    with empty_figure(WIDTH, height, layout="constrained") as figure:
        yield figure.subplots()


def _name_lines(axis: Any, ids: Any, label: str) -> Any:
    """Label the axes of a picture with a line for each id, and return the heights of the lines."""
    places = np.arange(len(ids))
    axis.set_yticks(places, [str(each) for each in ids])
    axis.set(xlabel=label, ylim=(-0.7, len(ids) - 0.3))
    axis.grid(axis="x", color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    return places


def search(found: Search) -> Any:
    """Draw the score of each candidate of a search, in order, and its mixture on the simplex.

    A mixture imputes the share ``t = h / (h + density (1 - h))`` of its labels, with ``h = g_PU + g_NU``
    (:func:`tribit.selection.gammas.mixture`). A small h has a large effect in a sparse
    matrix. So the axes are

        1 - t  observed signs,    t g_PU / h  imputed as dislikes,    t g_NU / h  imputed as likes,

    on which equal steps change a fit by similar amounts. The picture shows the part of the simplex, from the PN corner,
    that holds all candidates. Candidates without imputation lie on the corner; only the best one is shown.

    Parameters
    ----------
    found : Search
        ``search_`` of a fitted model.

    Returns
    -------
    matplotlib.figure.Figure
        No window is opened; ``savefig`` writes it.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations, plots
    >>> from tribit.simulate import tables
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> model = BinaryMatrixCompletion(n_candidates=3, random_state=0).fit(ratings)
    >>> plots.search(model.search_).savefig("search.png")  # doctest: +SKIP
    """
    if found.best is None:
        raise InvalidInputError(
            f"There is no candidate to draw, as the search tried none: {with_mentions(found.stop_reason)}."
        )
    with empty_figure(*PAGE_INCHES) as figure:
        _draw_scores(figure.add_axes((0.085, 0.14, 0.42, 0.66)), found)
        _draw_mixtures(figure, found)
        figure.legend(loc="upper left", bbox_to_anchor=(0.08, 1.0), ncols=3)
    return figure


def imputed_shares(candidate: Candidate, density: float) -> tuple[float, float, float]:
    """Return the shares of observed signs, imputed dislikes and imputed likes in a fit."""
    g_pn, g_pu, g_nu = candidate.settings.gammas
    total = g_pu + g_nu + density * g_pn
    return density * g_pn / total, g_pu / total, g_nu / total


def simplex_view(most_imputed: float) -> float:
    """Return the smallest view of the simplex that holds mixtures up to an imputed share."""
    return next(view for view in SIMPLEX_VIEWS if view >= min(1.2 * most_imputed, 1.0))


def _draw_scores(axis: Any, found: Search) -> None:
    """Draw the scores in order; scores far above the best of each family are arrows on the upper edge."""
    best = [candidate.score for candidate in found.families().values()]
    room = max(max(best) - min(best), 1e-3 * abs(min(best)))
    top = max(best) + 0.6 * room
    for family, (mark, colour) in FAMILIES.items():
        places = [n for n, c in enumerate(found.candidates) if c.settings.family == family]
        scores = np.array([found.candidates[n].score for n in places])
        if not places:
            continue
        axis.plot(np.array(places) + 1, scores, mark, color=colour, label=family, alpha=0.9)
        above = np.array(places)[scores > top] + 1
        axis.plot(above, np.full(above.size, top), "^", color=colour, clip_on=False, markersize=6)
    assert found.best is not None
    chosen = next(n for n, c in enumerate(found.candidates, start=1) if c is found.best)
    _star(axis.scatter, [chosen], [found.best.score], label="chosen")
    axis.set_ylim(min(best) - 0.15 * room, top)
    axis.set_xlabel("candidates in the order of trying (arrows: above the frame)")
    axis.set_ylabel(f"{found.scoring.replace('_', '-')}, held-out entries")
    axis.xaxis.get_major_locator().set_params(integer=True)


def _draw_mixtures(figure: Any, found: Search) -> None:
    """Draw the mixtures on the smallest part of the simplex that holds them."""
    unmixed = [c for c in found.candidates if not c.settings.uses_unobserved]
    shown = [c for c in found.candidates if c.settings.uses_unobserved]
    if unmixed:
        shown = [min(unmixed, key=lambda candidate: candidate.score), *shown]
    # Candidates of equal mixture and different radius coincide: the best one is drawn last.
    shown.sort(key=lambda candidate: -candidate.score)
    points = np.array([imputed_shares(candidate, found.density) for candidate in shown])
    most_imputed = float(np.max(1.0 - points[:, 0]))
    # Without imputation all of the simplex is shown.
    part = simplex_view(most_imputed) if most_imputed else 1.0
    height = SIMPLEX_WIDTH * PAGE_INCHES[0] / PAGE_INCHES[1] * 0.75**0.5
    axis = figure.add_axes((0.64, 0.3, SIMPLEX_WIDTH, height), projection="ternary")
    axis.set_ternary_lim(1.0 - part, 1.0, 0.0, part, 0.0, part)
    scores = np.array([candidate.score for candidate in shown])
    dots = axis.scatter(
        *points.T, c=scores, cmap="cividis", s=34, edgecolors="black", linewidths=0.5, zorder=3
    )
    dots.set_clip_on(False)
    assert found.best is not None
    _star(
        axis.scatter,
        *([share] for share in imputed_shares(found.best, found.density)),
        clip_on=False,
    )
    axis.grid(color="0.85")
    for corner, side, name in zip(
        "tlr",
        (axis.taxis, axis.laxis, axis.raxis),
        ("observed signs (PN)", "imputed\ndislikes", "imputed\nlikes"),
        strict=True,
    ):
        getattr(axis, f"set_{corner}label")(name, labelpad=9.0)
        side.set_label_rotation_mode("horizontal")
        side.set_major_locator(_ticks(3))
        side.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    if len(shown) > 1:
        bar = figure.colorbar(
            dots, cax=figure.add_axes((0.655, 0.11, 0.205, 0.03)), orientation="horizontal"
        )
        bar.ax.xaxis.set_major_locator(_ticks(3))
        bar.ax.tick_params(labelsize=7)
        bar.ax.xaxis.get_major_formatter().set_useOffset(False)
    else:
        figure.text(0.7575, 0.11, "no mixture was tried", ha="center", fontsize=8)


def _star(scatter: Any, *place: Any, **options: Any) -> None:
    scatter(*place, marker="*", s=150, color="tab:red", edgecolors="white", zorder=5, **options)


def _ticks(most: int) -> Any:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    return MaxNLocator(most, steps=[1, 2, 2.5, 5, 10])


def check_pictures() -> None:
    """Refuse to start without the libraries that draw figures."""
    try:
        import matplotlib  # noqa: F401, PLC0415
        import mpltern  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise InvalidInputError(
            'The figures need matplotlib and mpltern: install them with pip install "tribit[plot]".'
        ) from None


def picture_paths(stem: Path) -> list[Path]:
    """Return the paths of a figure, one for each file format."""
    # with_suffix would replace the "5" of "rho-0.5".
    return [stem.with_name(f"{stem.name}.{kind}") for kind in METADATA]


FigureLayout: TypeAlias = Literal["constrained"] | None


@contextmanager
def empty_figure(width: float, height: float, *, layout: FigureLayout = None) -> Iterator[Any]:
    """Yield an empty figure in the shared style; mpltern draws its triangles."""
    check_pictures()
    from matplotlib import style  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    # A figure without pyplot needs no display. The defaults come first: a user's matplotlibrc must not
    # change the figures.
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
    """Put the legend above the axes, in the fewest rows that fit, of similar length."""
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


def check_finite(what: str, numbers: object) -> None:
    """Refuse to draw NaN and infinities."""
    if not np.isfinite(np.asarray(numbers, dtype=float)).all():
        raise InvalidInputError(
            f"{what} must have finite numbers to be drawn; leave out what has none."
        )


def pyplot_for_files() -> Any:
    """Return matplotlib's pyplot, which draws to files only."""
    try:
        import matplotlib  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InvalidInputError(
            'Pictures need matplotlib: install it with pip install "tribit[plot]".'
        ) from None
    matplotlib.use("Agg")  # files only, whatever display there is
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no picture can be written, before the work starts."""
    if Path(path).suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidInputError(
            f"{os.fspath(path)!r} must end in .png, .pdf or .svg, the formats of a picture."
        )
    writable(path)
    pyplot_for_files()
