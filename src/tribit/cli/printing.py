"""Answers on standard output: JSON for programs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(found: Any) -> None:
    """Print JSON; a number that is not one is null."""
    from tribit.answers import plain  # noqa: PLC0415 - help should not wait

    typer.echo(json.dumps(plain(found), ensure_ascii=False, indent=2))
