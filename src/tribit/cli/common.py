"""Parts that every command shares: the application, its console, options of tables of entries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from tribit.cli.values import size
from tribit.errors import printable

app = typer.Typer(
    name="tribit",
    help="Binary matrix completion from likes, dislikes and the unobserved entries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()

UnknownRefused = Annotated[
    Literal["error", "skip"],
    typer.Option("--unknown", help="Ids that the model was not fitted on: error or skip."),
]
MaxSize = Annotated[
    Any,
    typer.Option(
        "--max-size",
        parser=size,
        metavar="bytes",
        help="Most to read of the table when unpacked: 500M, 4G [200 times its size, from 32M to 4G].",
        show_default=False,
    ),
]
EscapeFormulas = Annotated[
    bool | None,
    typer.Option(
        "--escape-formulas/--no-escape-formulas",
        help="Put ' before ids that a spreadsheet would run; tribit does not know them again [no, and a warning].",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
ModelPath = Annotated[Path, typer.Argument(help="A model that tribit fit wrote.")]


def print_facts(facts: dict[str, str], out: Path | None = None) -> None:
    """Print names and facts in two columns: to standard error where standard output has the table, ``out`` being -."""
    width = max(map(len, facts))
    for name, fact in facts.items():
        typer.echo(f"{name:<{width}}  {printable(fact)}", err=str(out) == "-")
