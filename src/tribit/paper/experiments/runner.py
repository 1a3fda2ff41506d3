"""Run the tasks of a study in a pool of processes and save each result at once.

A task depends only on its arguments, BLAS has one thread, and rows are in the order of the tasks. So the table does not
depend on the number of processes or on interruptions.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Self, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from threadpoolctl import threadpool_limits

from tribit.errors import TribitError
from tribit.paper.experiments.journal import VERSIONS, Journal, Row

#: Finished tasks, by their keys.
Results: TypeAlias = dict[str, list[Row]]


@dataclass(frozen=True)
class Task:
    """One unit of work: ``function(*arguments)`` returns rows, the same in every process."""

    key: str
    function: Callable[..., list[Row]]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Study:
    """A name, the parameters behind every number, and stages of tasks.

    A stage is a function from the results of earlier stages to tasks.
    """

    name: str
    parameters: dict[str, Any]
    stages: tuple[Callable[[Results], list[Task]], ...]
    #: Number of tasks in all, for the progress bar.
    n_tasks: int = field(kw_only=True)

    @property
    def header(self) -> dict[str, Any]:
        """The first line of the study's journal."""
        return {"study": self.name} | VERSIONS | self.parameters

    def journal_path(self, folder: Path) -> Path:
        """Return the path of the study's journal in a folder of results."""
        return folder / "journal" / f"{self.name}.jsonl"

    def rows(self, results: Results) -> list[Row] | None:
        """Return all rows in the order of the tasks, None while a task is unfinished."""
        rows: list[Row] = []
        for stage in self.stages:
            for task in stage(results):
                if task.key not in results:
                    return None
                rows += results[task.key]
        return rows


class Pool:
    """Worker processes that several studies share; they end with this process, even if it is killed."""

    def __init__(self, n_jobs: int) -> None:
        # Spawned: a forked process has the locks of its libraries but not their threads.
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(n_jobs, context, _begin_worker)

    def finish(self, study: Study, journal: Journal, advance: Callable[[], Any]) -> list[Row]:
        """Do the tasks that the journal lacks and return the rows of all tasks."""
        try:
            for stage in study.stages:
                tasks = stage(journal.rows)
                futures = {
                    self._executor.submit(task.function, *task.arguments): task.key
                    for task in tasks
                    if task.key not in journal.rows
                }
                for _ in range(len(tasks) - len(futures)):
                    advance()
                for done in as_completed(futures):
                    journal.add(futures[done], done.result())
                    advance()
        except BrokenProcessPool:
            raise TribitError(
                "A worker process died, perhaps for lack of memory: run the same command with fewer jobs to continue; "
                "a script must call this under if __name__ == '__main__'."
            ) from None
        rows = study.rows(journal.rows)
        assert rows is not None
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers, even within a task: the journal has all finished tasks."""
        processes = list((self._executor._processes or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _begin_worker() -> None:
    # Ctrl-C reaches every process of the terminal; the main process stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[Callable[[str, int], Callable[[], None]]]:
    """Yield a function that starts a bar and returns its advance; nothing is shown outside a terminal."""
    console = Console(stderr=True)
    hidden = not (shown and console.is_terminal)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=hidden,
    )

    def begin(name: str, total: int) -> Callable[[], None]:
        task = bar.add_task(name, total=total)
        return lambda: bar.advance(task)

    # Versions of rich before 15 end a disabled bar with an empty line.
    with nullcontext() if hidden else bar:
        yield begin
