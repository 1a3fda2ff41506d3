"""Answers on standard output: aligned tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tribit.quoting import printable

#: Most characters of a cell that is printed; files and JSON have all of them.
WIDEST = 60
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def check_one_way(out: Any, *, as_json: bool) -> None:
    """Refuse JSON on standard output beside a file, or beside a table there."""
    if as_json and out is not None:
        raise typer.BadParameter("--json prints, and --out writes; pass one of them.")


def print_json(found: Any) -> None:
    """Print JSON; a number that is not one is null."""
    typer.echo(json.dumps(_plain(found), ensure_ascii=False, indent=2))


def print_table(table: Mapping[str, Any]) -> None:
    """Print columns of equal length under their names, numbers to four digits."""
    columns = [
        [printable(name), *(_cell(value) for value in values.tolist())]
        for name, values in table.items()
    ]
    widths = [max(map(len, column)) for column in columns]
    right = [values.dtype.kind in "iuf" for values in table.values()]
    for line in zip(*columns, strict=True):
        cells = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        )
        typer.echo("  ".join(cells).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    text = printable(str(value))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def _plain(value: Any) -> Any:
    """Return what JSON can hold: NumPy's numbers as Python's, none that is infinite or NaN."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
