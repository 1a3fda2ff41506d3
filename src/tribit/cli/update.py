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
    from tribit.data.files import writable  # noqa: PLC0415 - help should not wait
    from tribit.questions.changes import Incorporate  # noqa: PLC0415
    from tribit.questions.kinds import features_from, reading_of  # noqa: PLC0415
    from tribit.recommender import Recommender  # noqa: PLC0415

    check_out(out, file, row_features, column_features)
    writable(out)  # an unwritable path is refused before the work
    before = Recommender.load(model)
    rules, max_size = given_rules(context)
    records = reading_of(before, **rules).records(file, max_size=max_size)
    tables = (features_from(path, max_size) for path in (row_features, column_features))
    after = Incorporate(records, *tables).apply(before)
    after.save(out)
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
