"""A progress bar for long fits: on a terminal only, and never in the way of a user's own callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from tribit.solvers.loop import Callback, Iteration

#: Number of candidates at which the bar of a search is full: few searches try more.
CANDIDATES = 30


@contextmanager
def progress(
    what: str, most: int, callback: Callback | None, *, shown: bool
) -> Iterator[Callback | None]:
    """Yield a callback that moves a bar of at most ``most`` iterations and then calls the user's own."""
    counts = "{task.completed}/{task.total}  objective {task.fields[objective]}"
    with _bar(counts, shown=shown) as bar:
        if bar is None:
            yield callback
            return
        task = bar.add_task(what, total=most, objective="")

        def both(iteration: Iteration) -> Any:
            bar.update(task, completed=iteration.iteration, objective=f"{iteration.objective:.6g}")
            return callback(iteration) if callback is not None else None

        yield both


@contextmanager
def candidates_bar(*, shown: bool) -> Iterator[Callable[[Any], None] | None]:
    """Yield a function that is called with each candidate of a search; None where there is no terminal."""
    # Without the time that is left: how many candidates there will be is a guess.
    counts = "{task.completed} tried  best {task.fields[best]}"
    with _bar(counts, shown=shown, time_left=False) as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("choosing", total=CANDIDATES, best="")
        lowest = float("inf")

        def callback(candidate: Any) -> None:
            nonlocal lowest
            lowest = min(lowest, candidate.score)
            bar.update(task, advance=1, best=f"{lowest:.5g}")

        yield callback


@contextmanager
def steps_bar(what: str, total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of ``total`` steps; it does nothing where there is no terminal."""
    with _bar("{task.completed}/{task.total}", shown=shown) as bar:
        if bar is None:
            yield lambda: None
            return
        task = bar.add_task(what, total=total)
        yield lambda: bar.update(task, advance=1)


@contextmanager
def _bar(counts: str, *, shown: bool, time_left: bool = True) -> Iterator[Progress | None]:
    """Yield a bar with some counts beside it; None where it is not to be shown or there is no terminal."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield None
        return
    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn(counts)]
    times = [TimeElapsedColumn(), TimeRemainingColumn()]
    shown_times = times if time_left else times[:1]
    with Progress(*columns, *shown_times, console=console, transient=True) as bar:
        yield bar
