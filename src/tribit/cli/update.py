"""``tribit update``: a bundle that knows new entries too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribit.cli.common import ModelPath, app, print_facts
from tribit.cli.table_options import TableCommand


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
) -> None:
    """Write a model that knows new entries, rows and columns too, without a new fit."""
    from tribit.data.files import writable  # noqa: PLC0415 - help should not wait
    from tribit.recommender import Recommender  # noqa: PLC0415
    from tribit.workflows import update_file  # noqa: PLC0415

    writable(out)  # an unwritable path is refused before the work
    before = Recommender.load(model)
    after = update_file(model, file, out, **context.obj)
    shapes = (before.model_.shape_, after.model_.shape_)
    entries = [0 if each.seen_ is None else each.seen_.n_observed for each in (before, after)]
    print_facts(
        {
            "model": str(out),
            "rows": f"{shapes[1][0]} ({shapes[1][0] - shapes[0][0]} new)",
            "columns": f"{shapes[1][1]} ({shapes[1][1] - shapes[0][1]} new)",
            "entries": f"{entries[1]} ({entries[1] - entries[0]} new)",
        }
    )
