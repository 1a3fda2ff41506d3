"""Options that say how a later table differs from that of the fit, the same for every command that reads one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from tribit.cli.common import ColumnName, Duplicates, LikeAt, MaxSize, RowName, ValueName
from tribit.cli.values import parameters_of, words


def _option(text: str, *names: str, **about: Any) -> Any:
    return typer.Option(*names, help=f"{text} [as in the fit].", show_default=False, **about)


class TableCommand(TyperCommand):
    """A command with the options of a table after its own; ``context.obj`` has those that were given."""

    _table: tuple[str, ...] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options and arguments."""
        if not self._table:
            names = {each.name for each in self.params}
            flags = {opt for each in self.params for opt in each.opts}
            made = [
                each
                for each in _table_options()
                if each.name not in names and not flags & set(each.opts)
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
        like: Annotated[
            Any, _option("Values that are a like", parser=words, metavar="words")
        ] = None,
        dislike: Annotated[
            Any, _option("Values that are a dislike", parser=words, metavar="words")
        ] = None,
        delimiter: Annotated[str | None, _option("Delimiter of a text")] = None,
        decimal: Annotated[str | None, _option("Decimal mark of values: . or ,")] = None,
        encoding: Annotated[str | None, _option("Encoding of a text")] = None,
        format: Annotated[str | None, _option("Format: csv, jsonl, mtx")] = None,  # noqa: A002
        missing: Annotated[
            Literal["error", "skip"] | None,
            _option("Records without an id or a value: error or skip"),
        ] = None,
        layout: Annotated[
            Literal["long", "wide"] | None,
            _option("An entry or a row in each record: long or wide"),
        ] = None,
        zeros: Annotated[
            Literal["seen", "unseen"] | None, _option("What a 0 is: seen or unseen")
        ] = None,
        duplicates: Annotated[
            Duplicates | None, _option("Pairs with two labels: error, first, last or majority")
        ] = None,
        max_size: MaxSize = None,
    ) -> None:
        """Take them all."""

    return parameters_of(options)
