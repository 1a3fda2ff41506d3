"""Commands that use a bundle: ask it (``tribit info``, ``predict``, ``recommend``, ...), or ``update`` it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tribit.cli.common import EscapeFormulas, ModelPath, UnknownRefused, app, print_facts, skipped
from tribit.cli.printing import Json, check_one_way, print_json, print_table
from tribit.cli.table_options import TableCommand

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Table to write (.csv, .tsv, .gz, .jsonl, .parquet, - for CSV on standard output).",
    ),
]
New = Annotated[
    Path | None,
    typer.Option("--new", help="Table of entries that came after the fit, such as new rows have."),
]
RowFeatures = Annotated[
    Path | None,
    typer.Option(
        "--row-features",
        help="Table of features of new rows, as that of the fit: with entries or without.",
    ),
]
ColumnFeatures = Annotated[
    Path | None,
    typer.Option("--column-features", help="Table of features of new columns, as that of the fit."),
]
Unknown = Annotated[
    Literal["answer", "skip", "error"],
    typer.Option(help="Ids that the model does not know: answer by what is known, skip or error."),
]


@app.command(epilog="Example: tribit info model.tribit")
def info(model: ModelPath, as_json: Json = False) -> None:
    """Say what a model is, what was chosen and why, on how much data, and how good it was there."""
    from tribit.recommender import Recommender  # noqa: PLC0415 - help should not wait

    bundle = Recommender.load(model)
    facts = {"file": str(model), **bundle.info()}
    if as_json:
        print_json({**facts, "summary": bundle.summary_})
    else:
        print_facts(facts)


@app.command(
    cls=TableCommand, epilog="Example: tribit predict model.tribit pairs.csv -o scores.csv"
)
def predict(
    context: typer.Context,
    model: ModelPath,
    pairs: Annotated[Path, typer.Argument(help="Table of row and column ids, or - for stdin.")],
    out: Out = None,
    new: New = None,
    row_features: RowFeatures = None,
    column_features: ColumnFeatures = None,
    unknown: Unknown = "answer",
    escape_formulas: EscapeFormulas = None,
    as_json: Json = False,
) -> None:
    """Write the probability of a like and the predicted sign for each pair of ids."""
    check_one_way(out, as_json=as_json)
    from tribit.workflows import predict_file  # noqa: PLC0415

    done = predict_file(
        model,
        pairs,
        out,
        new=new,
        row_features=row_features,
        column_features=column_features,
        unknown=unknown,
        escape_formulas=escape_formulas,
        **context.obj,
    )
    counts = f"{done.n_pairs}{skipped(done.n_skipped)}"
    if done.n_unknown:
        counts += f" ({done.n_unknown} with an unknown id: see basis)"
    _show(done.table, out, as_json, {"predictions": str(out), "pairs": counts})


@app.command(
    cls=TableCommand,
    epilog="Example: tribit recommend model.tribit --for alice -n 5",
)
def recommend(
    context: typer.Context,
    model: ModelPath,
    seen: Annotated[
        Path | None,
        typer.Argument(help="Table of entries to leave out, in the place of those of the fit."),
    ] = None,
    out: Out = None,
    n: Annotated[int, typer.Option("-n", help="Length of each list, at most every column.")] = 10,
    avoid_dislikes: Annotated[
        float, typer.Option(help="How many likes to give up to avoid a dislike.")
    ] = 1.0,
    only: Annotated[
        list[str] | None,
        typer.Option("--for", help="A row id; may be repeated [every row, or those that are new]."),
    ] = None,
    new: New = None,
    row_features: RowFeatures = None,
    column_features: ColumnFeatures = None,
    ranker: Annotated[
        bool, typer.Option(help="Rank by exposure too: which columns a row will observe.")
    ] = True,
    level: Annotated[
        float, typer.Option(help="Posterior probability of the intervals; 0 for no intervals.")
    ] = 0.9,
    unknown: UnknownRefused = "error",
    escape_formulas: EscapeFormulas = None,
    as_json: Json = False,
) -> None:
    """Write the best columns for each row, none of which it has seen."""
    check_one_way(out, as_json=as_json)
    from tribit.workflows import recommend_file  # noqa: PLC0415

    done = recommend_file(
        model,
        seen,
        out,
        n=n,
        avoid_dislikes=avoid_dislikes,
        only=only or None,
        new=new,
        row_features=row_features,
        column_features=column_features,
        ranker=ranker,
        level=level or None,
        unknown=unknown,
        escape_formulas=escape_formulas,
        **context.obj,
    )
    facts = {
        "lists": str(out),
        "rows": str(done.n_rows),
        "columns listed": f"{done.n_pairs}{skipped(done.n_skipped)}",
    }
    if done.n_unknown:
        facts["nothing known of"] = f"{done.n_unknown} rows, whose lists are the most popular"
    if done.dislikes_per_like is not None:
        facts["expected dislikes per like"] = f"{done.dislikes_per_like:.3f}"
    _show(done.table, out, as_json, facts)


@app.command(cls=TableCommand, epilog="Example: tribit evaluate model.tribit test.csv")
def evaluate(
    context: typer.Context,
    model: ModelPath,
    test: Annotated[Path, typer.Argument(help="Table of observed entries, not used in the fit.")],
    unknown: UnknownRefused = "error",
    as_json: Json = False,
) -> None:
    """Compare a model with observed entries, beside simple baselines: sign error, log-loss, AUC."""
    from tribit.workflows import evaluate_file  # noqa: PLC0415

    result = evaluate_file(model, test, unknown=unknown, **context.obj)
    if as_json:
        print_json(result.to_dict())
    else:
        entries = f"{result.n_entries}{skipped(result.n_skipped)}"
        about = {"in brackets": f"{100 * result.level:g}% confidence intervals, over rows"}
        print_facts({"entries": entries, **result.facts(), **(about if result.intervals else {})})


@app.command(epilog="Example: tribit explain model.tribit alice item7")
def explain(
    model: ModelPath,
    row: Annotated[str, typer.Argument(help="A row id.")],
    column: Annotated[str, typer.Argument(help="A column id.")],
    as_json: Json = False,
) -> None:
    """Say which entries of a row pulled the score of a column up or down."""
    from tribit.workflows import explain_ids  # noqa: PLC0415

    found, meaning = explain_ids(model, row, column)
    if as_json:
        print_json({**found.to_dict(), "meaning": meaning})
    else:
        typer.echo(str(found))
        if meaning is not None:
            typer.echo(f"Probabilities are of {meaning}.")


@app.command(epilog="Example: tribit similar model.tribit --column item7")
def similar(
    model: ModelPath,
    row: Annotated[str | None, typer.Option(help="A row id.")] = None,
    column: Annotated[str | None, typer.Option(help="A column id.")] = None,
    n: Annotated[int, typer.Option("-n", help="How many.")] = 10,
    as_json: Json = False,
) -> None:
    """List the rows or columns that are most alike to one: whose scores agree with its own."""
    from tribit.workflows import similar_ids  # noqa: PLC0415

    table = similar_ids(model, row=row, column=column, n=n)
    _show(table, None, as_json, {})


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
    row_features: RowFeatures = None,
    column_features: ColumnFeatures = None,
) -> None:
    """Write a model that knows new entries, rows and columns too, without a new fit."""
    from tribit.data.files import writable  # noqa: PLC0415 - help should not wait
    from tribit.recommender import Recommender  # noqa: PLC0415
    from tribit.workflows import update_file  # noqa: PLC0415

    writable(out)  # an unwritable path is refused before the work
    before = Recommender.load(model)
    after = update_file(
        model,
        file,
        out,
        row_features=row_features,
        column_features=column_features,
        **context.obj,
    )
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


def _show(table: dict[str, Any], out: Path | None, as_json: bool, facts: dict[str, str]) -> None:
    """Print a table that was written nowhere, else what was written."""
    if as_json:
        print_json([dict(zip(table, record, strict=True)) for record in _records(table)])
    elif out is None:
        print_table(table)
    else:
        print_facts(facts, out)


def _records(table: dict[str, Any]) -> Any:
    return zip(*(values.tolist() for values in table.values()), strict=True)
