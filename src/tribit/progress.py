"""Progress bars for long computations, on a terminal only; a user's own callback is still called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from tribit.solvers.loop import Callback, Iteration

#: Number of candidates at which the bar of a search is full; few searches try more.
USUAL_CANDIDATES = 30


@contextmanager
def progress(
    title: str, most: int, callback: Callback | None, *, shown: bool
) -> Iterator[Callback | None]:
    """Yield a callback that advances a bar of at most ``most`` iterations and then calls the user's own."""
    counts = "{task.completed}/{task.total}  objective {task.fields[objective]}"
    with _bar(counts, shown=shown) as bar:
        if bar is None:
            yield callback
            return
        task = bar.add_task(title, total=most, objective="")

        def both(iteration: Iteration) -> Any:
            bar.update(task, completed=iteration.iteration, objective=f"{iteration.objective:.6g}")
            return callback(iteration) if callback is not None else None

        yield both


@contextmanager
def candidates_bar(*, shown: bool) -> Iterator[Callable[[Any], None] | None]:
    """Yield a function to call with each candidate of a search; None without a terminal."""
    # Without the remaining time, as the number of candidates is not known in advance.
    counts = "{task.completed} tried  best {task.fields[best]}"
    with _bar(counts, shown=shown, time_left=False) as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("searching", total=USUAL_CANDIDATES, best="")
        lowest = float("inf")

        def callback(candidate: Any) -> None:
            nonlocal lowest
            lowest = min(lowest, candidate.score)
            bar.update(task, advance=1, best=f"{lowest:.5g}")

        yield callback


@contextmanager
def steps_bar(title: str, total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of ``total`` steps; it does nothing without a terminal."""
    with _bar("{task.completed}/{task.total}", shown=shown) as bar:
        if bar is None:
            yield lambda: None
            return
        task = bar.add_task(title, total=total)
        yield lambda: bar.update(task, advance=1)


@contextmanager
def _bar(counts: str, *, shown: bool, time_left: bool = True) -> Iterator[Progress | None]:
    """Yield a bar with counts; None if it is not to be shown or there is no terminal."""
    if not shown:
        yield None
        return
    import rich.console  # noqa: PLC0415 - only for a bar that is shown
    import rich.progress  # noqa: PLC0415

    console = rich.console.Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    text = rich.progress.TextColumn
    columns = [text("{task.description}"), rich.progress.BarColumn(), text(counts)]
    times = [rich.progress.TimeElapsedColumn(), rich.progress.TimeRemainingColumn()]
    columns += times if time_left else times[:1]
    with rich.progress.Progress(*columns, console=console, transient=True) as bar:
        yield bar
