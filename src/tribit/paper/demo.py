"""The demonstration: a simulated table, completed from a tenth of it, and lists from the completion.

Row i and column j have an angle each, and

    P(like) = f(TASTE cos(d_ij)),    P(seen) = f(LEVEL + a_i + c_j + EXPOSURE cos(d_ij - SHIFT)),    d_ij their distance

with ``f`` the logistic function: exposure follows taste without being equal to it, and differs between users and
between items. So observed entries inform about tastes, and a list of likely next items has likes and dislikes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from tribit.completion.estimator import BinaryMatrixCompletion
from tribit.data.files import atomic_path
from tribit.data.observations import Observations
from tribit.data.reading import Reading
from tribit.evaluation.held_out import fit_biases
from tribit.evaluation.ranking import RankingReport, by_popularity, ranking_report
from tribit.model.links import Logistic
from tribit.plots import METADATA, STYLE, check_picture, pyplot_for_files
from tribit.randomness import RandomState, generator
from tribit.recommender import Recommender
from tribit.solvers.loop import INTERRUPTED

Array = NDArray[np.floating[Any]]

#: Large enough for lists of ten, small enough for three fits, two of them with a search, in some ten seconds.
SHAPE = (300, 200)
#: Amplitudes of taste and exposure, the angle between them, and the level that leaves a tenth of the cells seen.
#: Selected among nine settings (seeds 10 to 12) so that the three fits and the weights of lists differ visibly. If
#: exposure hardly follows taste the default gains little over observed labels alone.
TASTE, EXPOSURE, SHIFT, LEVEL = 3.0, 2.0, 1.0, -2.8
#: Deviations of the activity of rows and of the popularity of columns, in log-odds of being seen.
ACTIVITY, POPULARITY = 0.5, 0.7
#: Share of the observed entries in the test set of the lists.
LATER_SHARE = 0.25
LIST_LENGTH = 10  #: of a list
#: Values of ``avoid_dislikes``; 1 is the default of lists.
WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0)
#: Nouns for a row and a column on the page of the demonstration.
NOUNS = ("user", "item")
BIASES, SIGNS, DEFAULT = "user and item biases", "observed labels alone", "tribit's default"
#: Red for dislikes, blue for likes, white in the middle: readable for the colour-blind.
COLOURS = "RdBu"
BLUE, GREY = "tab:blue", "0.35"


@dataclass(frozen=True)
class DemoFit:
    """One fit: the errors of its signs and of its probabilities on cells that it has not seen."""

    name: str
    error_rate: float
    probability_error: float
    seconds: float


@dataclass(frozen=True)
class DemoLists:
    """Lists of ten in one order: likes found and dislikes shown among later entries, for each hundred lists."""

    name: str
    avoid_dislikes: float | None
    likes: float
    dislikes: float


@dataclass(frozen=True)
class DemoResult:
    """The true probabilities, the entries, the completion, errors of each fit, lists, and the recommender."""

    probability: Array
    seen: Observations
    later: Observations
    completed: Array
    fits: list[DemoFit]
    lists: list[DemoLists]
    least_error: float
    recommender: Recommender

    def summary(self) -> str:
        """Return a description of the simulated table."""
        n_rows, n_columns = self.seen.shape
        n_seen, n_later = self.seen.n_observed, self.later.n_observed
        return (
            f"Simulated table of {n_rows} users and {n_columns} items with known probabilities of a like. "
            f"{n_seen} entries ({100 * self.seen.density:.0f}%) are observed; {n_later} more are the "
            f"test set of the lists.\n"
            "Errors are on unobserved entries: the error rate of labels, which is "
            f"{100 * self.least_error:.1f}% for the true probabilities, and the RMSE of the probabilities."
        )


def run_demo(*, random_state: RandomState = 0, shown: bool = True) -> DemoResult:
    """Simulate a table, complete it in three ways, and rank lists in several."""
    probability, signs, seen, later = simulate_table(random_state)
    unseen = np.ones(signs.shape, dtype=bool)
    unseen[seen.rows, seen.columns] = False
    fits: list[DemoFit] = []
    found: Any = None
    for name, fit in _track_fits(shown):
        began = time.perf_counter()
        found = fit(seen)
        seconds = time.perf_counter() - began
        model = getattr(found, "model_", found)
        if model.stop_reason_ == INTERRUPTED:
            raise KeyboardInterrupt  # a fit keeps its last iterate; a demonstration stops
        completed = np.asarray(model.complete(), dtype=float)
        wrong = (completed >= 0.5)[unseen] != (signs > 0)[unseen]
        distance = np.sqrt(np.mean((completed - probability)[unseen] ** 2))
        fits.append(DemoFit(name, float(np.mean(wrong)), float(distance), seconds))
    return DemoResult(
        probability=probability,
        seen=seen,
        later=later,
        completed=completed,
        fits=fits,
        lists=rank_lists(found, seen, later),
        least_error=float(np.mean((probability >= 0.5)[unseen] != (signs > 0)[unseen])),
        recommender=found,
    )


def simulate_table(
    random_state: RandomState,
) -> tuple[Array, NDArray[np.int8], Observations, Observations]:
    """Return P(like) and the sign of every cell, the observed entries, and the later ones.

    Rows and columns are sorted by their angles, so that neighbours in a picture are similar.
    """
    draws = generator(random_state)
    rows, columns = (np.sort(draws.uniform(0, 2 * np.pi, n)) for n in SHAPE)
    distance = rows[:, None] - columns
    link = Logistic()
    probability = link.probability(TASTE * np.cos(distance))
    signs = np.where(draws.random(SHAPE) < probability, 1, -1).astype(np.int8)
    effects = ACTIVITY * draws.standard_normal((SHAPE[0], 1))
    effects = effects + POPULARITY * draws.standard_normal(SHAPE[1])
    exposure = link.probability(LEVEL + effects + EXPOSURE * np.cos(distance - SHIFT))
    i, j = np.nonzero(draws.random(SHAPE) < exposure)
    users, items = ([f"{noun} {k}" for k in range(n)] for noun, n in zip(NOUNS, SHAPE, strict=True))
    observed = Observations(i, j, signs[i, j], SHAPE, users, items)
    seen, later = observed.split(LATER_SHARE, random_state=draws)
    return probability, signs, seen, later


def rank_lists(found: Recommender, seen: Observations, later: Observations) -> list[DemoLists]:
    """Return likes found and dislikes shown by lists ranked by popularity, by P(like), and by both rates."""
    popular = ranking_report(by_popularity(seen), seen, later, LIST_LENGTH)
    lists = [
        _rates_of_lists("most popular", None, popular),
        _rates_of_lists(
            "P(like) alone", None, ranking_report(found.model_, seen, later, LIST_LENGTH)
        ),
    ]
    for weight in WEIGHTS:
        report = ranking_report(
            found.model_, seen, later, LIST_LENGTH, ranker=found.ranker_, avoid_dislikes=weight
        )
        lists.append(_rates_of_lists(DEFAULT, weight, report))
    return lists


def _rates_of_lists(name: str, weight: float | None, report: RankingReport) -> DemoLists:
    each = 100.0 / report.n_users
    return DemoLists(name, weight, each * report.likes_shown, each * report.dislikes_shown)


def _signs_alone(seen: Observations) -> BinaryMatrixCompletion:
    """Return the fit of the PN risk with factors, tuned as the default is, but without implicit features."""
    return BinaryMatrixCompletion((1, 0, 0), implicit_features=False, random_state=0).fit(seen)


def _default(seen: Observations) -> Recommender:
    found = Recommender(random_state=0).fit(seen)
    found.reading_ = Reading(row=NOUNS[0], column=NOUNS[1])  # as for a table read from a file
    return found


#: The default comes last: its completion and its lists are shown.
FITS: dict[str, Callable[[Observations], Any]] = {
    BIASES: fit_biases,
    SIGNS: _signs_alone,
    DEFAULT: _default,
}


def _track_fits(shown: bool) -> Iterator[tuple[str, Callable[[Observations], Any]]]:
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        # Versions of rich before 15 end a disabled bar with an empty line.
        yield from FITS.items()
        return
    yield from track(FITS.items(), "completing the table", console=console, transient=True)


def plot_demo(result: DemoResult, path: str | os.PathLike[str]) -> None:
    """Draw the truth, the seen cells, the completion on the same scale, and likes against dislikes of the lists.

    Examples
    --------
    >>> from tribit.paper.demo import plot_demo, run_demo
    >>> plot_demo(run_demo(), "demo.png")  # doctest: +SKIP
    """
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
    """Draw three tables side by side on one scale, with its bar."""
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    labels = np.full(result.seen.shape, np.nan)
    labels[result.seen.rows, result.seen.columns] = result.seen.labels > 0
    share = f"{100 * result.seen.density:.0f}%"
    titles = (
        "hidden: probability of a like",
        f"observed: {share} of the entries",
        "completed by tribit",
    )
    for axis, table, title in zip(
        axes, (result.probability, labels, result.completed), titles, strict=True
    ):
        axis.set_facecolor("0.93")  # unobserved cells
        image = axis.imshow(
            table, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        axis.set_title(title)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_xlabel(f"{table.shape[1]} items, sorted by taste")
    axes[0].set_ylabel(f"{labels.shape[0]} users, sorted by taste")
    bar = figure.colorbar(image, ax=axes, aspect=25, pad=0.01)
    bar.set_label("probability of a like\n(observed: likes blue, dislikes red)")


def _draw_errors(axis: Any, result: DemoResult) -> None:
    """Draw the error rates on unobserved entries, with that of the true probabilities."""
    names = [fit.name for fit in result.fits]
    errors = [100 * fit.error_rate for fit in result.fits]
    colours = [BLUE if fit.name == DEFAULT else "0.75" for fit in result.fits]
    bars = axis.barh(names, errors, color=colours, height=0.6)
    axis.bar_label(bars, fmt="%.1f", padding=3)
    least = 100 * result.least_error
    axis.axvline(least, color="black", linewidth=0.8, linestyle="--")
    axis.annotate(
        f"true probabilities: {least:.1f}",
        (least, 1.0),
        (3, 2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        fontsize=8,
    )
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15 * max(errors))
    axis.set_xlabel("error rate on unobserved entries, %")


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
    axis.set_xlabel(f"dislikes shown in a hundred lists of {LIST_LENGTH} (fewer are better)")
    axis.set_ylabel("likes found (more are better)")
