"""The command line. Each command calls one public function and prints what it returns."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from tribit import __version__

# The registry of commands: each module registers its own with @app.command, in the order of the help.
from tribit.cli import fit, questions, update, report, serve, studies  # noqa: F401  # isort: skip
from tribit.cli.common import app
from tribit.cli.endings import StoppedError, as_typed, ended_by, orderly_signals, tell, told_notes

__all__ = ["app", "main"]


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
    every: Any = typer.main.get_command(app)
    command = every.commands.get(given[0], every) if given else every

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        tell("Warning", as_typed(message, command))

    try:
        with warnings.catch_warnings(), orderly_signals(), told_notes():
            # A warning is one line too, without the place in the library that raised it.
            warnings.showwarning = show_warning
            status = every.main(args=given or ["--help"], prog_name="tribit", standalone_mode=False)
        if not given:
            status = 2  # the help was not asked for
    except (Exception, StoppedError) as error:  # one place decides which of them are a sentence
        status = ended_by(error, command)
    sys.exit(status)
