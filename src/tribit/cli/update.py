"""``tribit update``: a saved recommender that knows new entries too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribit.cli.common import ModelPath, app, print_facts
from tribit.cli.options import TableCommand, given_rules
from tribit.cli.values import check_out


@app.command(
    cls=TableCommand,
    epilog="Example: tribit update model.tribit today.csv -o model.tribit",
)
def update(
    context: typer.Context,
    model: ModelPath,
    file: Annotated[
        Path, typer.Argument(help="Table of entries that came after the fit, or - for stdin.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write; it may be the same file.")
    ],
    row_features: Annotated[
        Path | None, typer.Option(help="Table of features of new rows, as that of the fit.")
    ] = None,
    column_features: Annotated[
        Path | None, typer.Option(help="Table of features of new columns, as that of the fit.")
    ] = None,
) -> None:
    """Write a model that knows new entries, rows and columns too, without a new fit."""
    from tribit.cli.asking import updated  # noqa: PLC0415 - help should not wait

    check_out(out, file, row_features, column_features)
    rules, max_size = given_rules(context)
    tables = row_features, column_features
    before, after = updated(model, file, out, tables, rules | {"max_size": max_size})
    (rows, columns), (old_rows, old_columns) = after.shape_, before.shape_
    new, old = (0 if each.seen_ is None else each.seen_.n_observed for each in (after, before))
    print_facts(
        {
            "model": str(out),
            "rows": f"{rows} ({rows - old_rows} new)",
            "columns": f"{columns} ({columns - old_columns} new)",
            "entries": f"{new} ({new - old} new)",
        }
    )
