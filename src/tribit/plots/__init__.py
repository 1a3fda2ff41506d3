"""Pictures. They need matplotlib, which the extra ``tribit[plot]`` brings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.data.files import writable
from tribit.errors import InvalidInputError, marked
from tribit.plots.canvas import empty_figure, pyplot_for_files
from tribit.plots.simplex import VIEWS, imputed_shares

if TYPE_CHECKING:
    from tribit.selection import Search

__all__ = ["search"]

#: Kinds of models in the picture of a search, each with its mark and colour.
FAMILIES = {
    "intercepts": ("P", "0.55"),
    "factors": ("o", "tab:blue"),
    "implicit features": ("s", "tab:green"),
    "mixture": ("D", "tab:orange"),
    "mixture with implicit features": ("X", "tab:red"),
}
#: Inches of the picture of a search, and the share of its width that the simplex has.
PAGE, SIDE = (8.4, 3.6), 0.235


def search(found: Search) -> Any:
    """Draw every candidate of a search: its score in the order of trying, and its mixture on the simplex.

    A mixture imputes the share ``t = h / (h + density (1 - h))`` of its labels, with ``h = g_PU + g_NU``
    (:func:`tribit.selection.mixtures.mixture`): in a sparse matrix a small h is much. So the axes are

        1 - t  observed signs,    t g_PU / h  imputed as dislikes,    t g_NU / h  imputed as likes,

    on which equal steps change a fit alike, and of it only as much is shown, from the PN corner down, as holds all
    that was tried. Candidates without imputation lie on the corner; the best of them is drawn.

    Parameters
    ----------
    found : Search
        ``search_`` of a fitted model.

    Returns
    -------
    matplotlib.figure.Figure
        With ``savefig``; no window is opened.
    """
    if found.best is None:
        raise InvalidInputError(
            f"There is no candidate to draw, as the search tried none: {marked(found.stop_reason)}."
        )
    with empty_figure(*PAGE) as figure:
        _draw_scores(figure.add_axes((0.085, 0.14, 0.42, 0.66)), found)
        _draw_mixtures(figure, found)
        figure.legend(loc="upper left", bbox_to_anchor=(0.08, 1.0), ncols=3)
    return figure


def _draw_scores(axis: Any, found: Search) -> None:
    """Draw the scores in order; what is far above the best of every kind is put on the upper edge."""
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
    """Draw what was imputed, on the part of the simplex that holds it."""
    unmixed = [c for c in found.candidates if not c.settings.mixed]
    shown = [c for c in found.candidates if c.settings.mixed]
    if unmixed:
        shown = [min(unmixed, key=lambda candidate: candidate.score), *shown]
    # The same mixture in other balls is the same point: the best is drawn last.
    shown.sort(key=lambda candidate: -candidate.score)
    points = np.array([imputed_shares(candidate, found.density) for candidate in shown])
    most = float(np.max(1.0 - points[:, 0]))
    # Where nothing was imputed, all of the simplex is shown empty.
    part = next(view for view in VIEWS if view >= min(1.2 * most, 1.0)) if most else 1.0
    tall = SIDE * PAGE[0] / PAGE[1] * 0.75**0.5
    axis = figure.add_axes((0.64, 0.3, SIDE, tall), projection="ternary")
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


def check_picture(path: str | os.PathLike[str]) -> None:
    """Say why a picture cannot be drawn or written there, before the work whose picture it is."""
    if Path(path).suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidInputError(
            f"{os.fspath(path)!r} must end in .png, .pdf or .svg to say what kind of picture it is."
        )
    writable(path)
    pyplot_for_files()
