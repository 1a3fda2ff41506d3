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
        typer.echo(f"Error: {_spoken(str(error))}", err=True)
        status = 2
    sys.exit(status)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"Warning: {_spoken(str(message))}", err=True)


#: The library's words for what has another name on the command line.
WORDS = {
    "like_at= (for pairs: Observations.from_ratings)": "--like-at",
    "like_at=": "--like-at",
    "like_at": "--like-at",
    "value=": "--value",
    "duplicates='first', 'last' or 'majority' (for a matrix: Observations.from_pairs)": (
        "--duplicates first, last or majority"
    ),
    "intercept=False": "--no-intercept",
    "solver='projected_gradient'": "--solver projected_gradient",
    "(gammas)": "(--gammas)",
    "pass rho,": "pass --rho,",
    "(data=)": "(--data)",
    "pass its place as path=": "pass its place with --data",
    "pass path=": "pass its place with --data",
}


def _spoken(message: str) -> str:
    """Return a message in the words of the command line."""
    for word, option in WORDS.items():
        message = message.replace(word, option)
    return message
