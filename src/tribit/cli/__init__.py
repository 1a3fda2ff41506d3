"""The command line; each command calls one public function and prints the result."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from tribit import __version__

# Each module registers its commands with @app.command, in the order of the help.
from tribit.cli import commands, studies  # noqa: F401  # isort: skip
from tribit.cli.common import app
from tribit.cli.exits import (
    StoppedError,
    data_notes,
    exit_code,
    in_options,
    orderly_signals,
    print_message,
    stage_lines,
)

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

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:
        print_message("Warning", in_options(message, command))

    try:
        with warnings.catch_warnings(), orderly_signals(), data_notes(), stage_lines():
            # A warning is one line too, without the place in the library that raised it.
            warnings.showwarning = show_warning
            status = every.main(args=given or ["--help"], prog_name="tribit", standalone_mode=False)
        if not given:
            status = 2  # help without --help
    except (Exception, StoppedError) as error:  # one place decides which of them are a sentence
        status = exit_code(error, command)
    sys.exit(status)
