"""Progress of long computations: a bar on a terminal, a line in a notebook, else a line for each stage.

Every stage is also logged by the logger ``tribit.progress`` at the level INFO, with the attributes ``shown`` (whether
progress was asked for) and ``seconds``. A user's own callback is still called.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

    from tribit.solvers.loop import Callback, Iteration

#: Number of candidates at which the bar of a search is full; few searches try more.
USUAL_CANDIDATES = 30
#: Seconds between the lines of a stage where there is neither a terminal nor a notebook.
SECONDS_BETWEEN_LINES = 30.0
#: Seconds between the changes of the line in a notebook.
SECONDS_BETWEEN_CHANGES = 0.2

#: Function of the number of steps and of a remark on the last one.
Advance: TypeAlias = Callable[[int, str], None]
#: Function that shows a stage as it is.
Show: TypeAlias = Callable[[], None]

logger = logging.getLogger(__name__)


@contextmanager
def progress(
    title: str, most: int, callback: Callback | None, *, shown: bool
) -> Iterator[Callback | None]:
    """Yield a callback that shows one of at most ``most`` iterations and then calls the user's own."""
    with _stage(_Stage(title, "iterations", most), shown=shown) as advance:
        if advance is None:
            yield callback
            return

        def both(iteration: Iteration) -> Any:
            advance(iteration.iteration, f"objective {iteration.objective:.6g}")
            return callback(iteration) if callback is not None else None

        yield both


@contextmanager
def candidates_bar(*, shown: bool) -> Iterator[Callable[[Any], None] | None]:
    """Yield a function to call with each candidate of a search; None if no progress is shown."""
    stage = _Stage("searching", "candidates", USUAL_CANDIDATES, has_end=False)
    with _stage(stage, shown=shown) as advance:
        if advance is None:
            yield None
            return
        lowest = float("inf")

        def callback(candidate: Any) -> None:
            nonlocal lowest
            lowest = min(lowest, candidate.score)
            advance(stage.done + 1, f"lowest score {lowest:.5g}")

        yield callback


@contextmanager
def steps_bar(title: str, total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of ``total`` steps; it does nothing if no progress is shown."""
    stage = _Stage(title, "steps", total)
    with _stage(stage, shown=shown) as advance:
        yield (lambda: None) if advance is None else (lambda: advance(stage.done + 1, ""))


@dataclass
class _Stage:
    """A stage of a computation: its title, its steps so far, and a remark on the last one."""

    title: str
    unit: str
    total: int
    has_end: bool = True
    done: int = 0
    remark: str = ""
    began: float = field(default_factory=time.perf_counter)

    def __str__(self) -> str:
        remark = f", {self.remark}" if self.remark else ""
        seconds = time.perf_counter() - self.began
        unit = self.unit.removesuffix("s") if self.done == 1 else self.unit
        return f"{self.title}: {self.done} {unit}{remark} ({seconds:.1f} s)"


@contextmanager
def _stage(stage: _Stage, *, shown: bool) -> Iterator[Advance | None]:
    """Yield a function that shows the progress of a stage where it is wanted; None if no progress is shown."""
    logged = logger.isEnabledFor(logging.INFO) and logger.hasHandlers()
    if not (shown or logged):
        yield None
        return

    def log(line: str) -> None:
        about = {"shown": shown, "seconds": time.perf_counter() - stage.began}
        logger.info(line, extra=about)

    view = _view(stage) if shown else None
    with _in_lines(stage, log if logged else _print) if view is None else view as show:

        def advance(done: int, remark: str) -> None:
            stage.done, stage.remark = done, remark
            show()

        yield advance
    if logged and view is not None:
        log(str(stage))


def _view(stage: _Stage) -> AbstractContextManager[Show] | None:
    """Return the view of a terminal or of a notebook; None elsewhere."""
    import rich.console  # noqa: PLC0415 - only for progress that is shown

    console = rich.console.Console(stderr=True)
    if console.is_terminal:
        return _on_terminal(stage, console)
    return _in_notebook(stage) if console.is_jupyter else None


@contextmanager
def _on_terminal(stage: _Stage, console: Console) -> Iterator[Show]:
    """Show a bar, which goes when the stage is done."""
    import rich.progress  # noqa: PLC0415

    text = rich.progress.TextColumn
    counts = "{task.completed}/{task.total}" if stage.has_end else "{task.completed}"
    columns = [text("{task.description}"), rich.progress.BarColumn()]
    columns.append(text(f"{counts} {stage.unit}  {{task.fields[remark]}}"))
    times = [rich.progress.TimeElapsedColumn(), rich.progress.TimeRemainingColumn()]
    columns += times if stage.has_end else times[:1]
    with rich.progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(stage.title, total=stage.total, remark="")
        yield lambda: bar.update(task, completed=stage.done, remark=stage.remark)


@contextmanager
def _in_notebook(stage: _Stage) -> Iterator[Show]:
    """Show one line that changes."""
    from IPython.display import display  # type: ignore[import-not-found]  # noqa: PLC0415 - a notebook has it

    def content() -> dict[str, str]:
        return {"text/plain": str(stage)}

    line = display(content(), raw=True, display_id=True)
    changed = time.perf_counter()

    def show() -> None:
        nonlocal changed
        if time.perf_counter() - changed >= SECONDS_BETWEEN_CHANGES:
            line.update(content(), raw=True)
            changed = time.perf_counter()

    yield show
    line.update(content(), raw=True)


@contextmanager
def _in_lines(stage: _Stage, write: Callable[[str], None]) -> Iterator[Show]:
    """Write a line now and then, and one at the end."""
    written = time.perf_counter()

    def show() -> None:
        nonlocal written
        if time.perf_counter() - written >= SECONDS_BETWEEN_LINES:
            write(f"{stage}, not done yet")
            written = time.perf_counter()

    yield show
    write(str(stage))


def _print(line: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # it is closed
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
