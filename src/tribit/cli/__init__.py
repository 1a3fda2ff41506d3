"""The command line. Each command calls one public function and prints what it returns."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from tribit import __version__
from tribit.cli.common import app
from tribit.cli.fit import fit
from tribit.cli.questions import evaluate, predict, recommend
from tribit.cli.studies import compare, demo, reproduce
from tribit.cli.words import spoken
from tribit.errors import TribitError

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
    try:
        with warnings.catch_warnings():
            # A warning is one line too, without the place in the library that raised it.
            warnings.showwarning = _show_warning
            status: Any = app(args=arguments, standalone_mode=True)
    except TribitError as error:
        typer.echo(f"Error: {spoken(str(error))}", err=True)
        status = 2
    sys.exit(status)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"Warning: {spoken(str(message))}", err=True)
