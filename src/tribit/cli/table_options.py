"""Options that say how a later table differs from that of the fit, the same for every command that reads one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tribit.cli.common import (
    ColumnName,
    Decimal,
    Delimiter,
    Dislike,
    Encoding,
    FileFormat,
    Like,
    LikeAt,
    MaxSize,
    RowName,
    ValueName,
)

#: Options of later tables: what was guessed or told in the fit is remembered.
Missing = Annotated[
    str | None,
    typer.Option("--missing", help="Records without id or value: error or skip [as in the fit]."),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        "--duplicates",
        help="Pairs with two labels: error, first, last or majority [as in the fit].",
    ),
]


class TableCommand(TyperCommand):
    """A command with the options of a table after its own; ``context.obj`` has those that were given."""

    _table: tuple[str, ...] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options and arguments."""
        if not self._table:
            made = [
                each for each in _table_options() if each.name not in {p.name for p in self.params}
            ]
            self.params += made
            self._table = tuple(each.name for each in made)
        return super().get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Call the command with the options of its own."""
        given = {name: ctx.params.pop(name) for name in self._table}
        ctx.obj = {name: value for name, value in given.items() if value is not None}
        return super().invoke(ctx)


def _table_options() -> list[Any]:
    def options(
        row: RowName = None,
        column: ColumnName = None,
        value: ValueName = None,
        like_at: LikeAt = None,
        like: Like = None,
        dislike: Dislike = None,
        delimiter: Delimiter = None,
        decimal: Decimal = None,
        encoding: Encoding = None,
        file_format: FileFormat = None,
        missing: Missing = None,
        duplicates: Duplicates = None,
        max_size: MaxSize = None,
    ) -> None:
        """Take them all."""

    alone = typer.Typer(add_completion=False)
    alone.command()(options)
    made: Any = typer.main.get_command(alone)
    return list(made.params)
