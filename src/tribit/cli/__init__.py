"""The command line. Each command calls one public function and prints what it returns."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from tribit import __version__
from tribit.cli.common import app
from tribit.cli.endings import ended_by, tell
from tribit.cli.fit import fit
from tribit.cli.questions import evaluate, predict, recommend
from tribit.cli.studies import compare, demo, reproduce

__all__ = [
    "app",
    "compare",
    "demo",
    "evaluate",
    "fit",
    "main",
    "predict",
    "recommend",
    "reproduce",
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tribit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Binary matrix completion from likes, dislikes and the unobserved entries."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one sentence and exit code 2, never a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with warnings.catch_warnings(), _ends_in_order():
            # A warning is one line too, without the place in the library that raised it.
            warnings.showwarning = _show_warning
            status: Any = app(args=given or ["--help"], prog_name="tribit", standalone_mode=False)
        if not given:
            status = 2  # the help was not asked for
    except Exception as error:  # one place decides which of them are a sentence
        status = ended_by(error)
    sys.exit(status)


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Let SIGTERM end the block as an exception would, so that half-written files are removed; a second one kills."""

    def end(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        sys.exit(128 + number)

    # Only the main thread may, and a handler of somebody else's (or that the signal is ignored) has its reasons.
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    tell("Warning", str(message))
