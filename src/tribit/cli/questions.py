"""Commands that use a fitted model: ``tribit predict``, ``tribit evaluate``, ``tribit recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribit.cli.common import (
    ColumnName,
    DuplicatesOption,
    EscapeFormulas,
    LikeAt,
    MaxSize,
    ModelPath,
    RowName,
    SkipUnknown,
    ValueName,
    app,
    print_facts,
    skipped,
)


@app.command(epilog="Example: tribit predict model.tribit pairs.csv -o scores.csv")
def predict(
    model: ModelPath,
    pairs: Annotated[Path, typer.Argument(help="Table with the model's row and column ids.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Table to write (.csv, .tsv, .gz, .parquet).")
    ],
    row: RowName = None,
    column: ColumnName = None,
    skip_unknown: SkipUnknown = False,
    max_size: MaxSize = None,
    escape_formulas: EscapeFormulas = None,
) -> None:
    """Write the probability of a like and the predicted sign for each pair of ids."""
    from tribit.workflows import predict_file  # noqa: PLC0415

    done = predict_file(
        model,
        pairs,
        out,
        row=row,
        column=column,
        skip_unknown=skip_unknown,
        max_size=max_size,
        escape_formulas=escape_formulas,
    )
    print_facts({"predictions": str(out), "pairs": f"{done.n_pairs}{skipped(done.n_skipped)}"})


@app.command(epilog="Example: tribit evaluate model.tribit test.csv")
def evaluate(
    model: ModelPath,
    test: Annotated[Path, typer.Argument(help="Table of observed entries, not used in the fit.")],
    row: RowName = None,
    column: ColumnName = None,
    value: ValueName = None,
    like_at: LikeAt = None,
    duplicates: DuplicatesOption = "error",
    skip_unknown: SkipUnknown = False,
    max_size: MaxSize = None,
) -> None:
    """Compare a model with observed entries: sign error, log-loss, AUC."""
    from tribit.workflows import evaluate_file  # noqa: PLC0415

    result = evaluate_file(
        model,
        test,
        row=row,
        column=column,
        value=value,
        like_at=like_at,
        duplicates=duplicates,
        skip_unknown=skip_unknown,
        max_size=max_size,
    )
    print_facts(
        {
            "entries": f"{result.n_entries}{skipped(result.n_skipped)}",
            **result.facts(),
        }
    )


@app.command(
    epilog="Example: tribit recommend model.tribit ratings.csv -o lists.csv --avoid-dislikes 1.5"
)
def recommend(
    model: ModelPath,
    seen: Annotated[
        Path, typer.Argument(help="Table of observed entries, such as the model was fitted on.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Table to write (.csv, .tsv, .gz, .parquet).")
    ],
    n: Annotated[int, typer.Option("-n", help="Length of each list, at most every column.")] = 10,
    avoid_dislikes: Annotated[
        float, typer.Option(help="How many likes to give up to avoid a dislike.")
    ] = 1.0,
    only: Annotated[
        list[str] | None, typer.Option("--for", help="A row id; may be repeated [every row].")
    ] = None,
    ranker: Annotated[
        bool, typer.Option(help="Rank by exposure too: which columns a row will observe.")
    ] = True,
    row: RowName = None,
    column: ColumnName = None,
    value: ValueName = None,
    like_at: LikeAt = None,
    duplicates: DuplicatesOption = "error",
    skip_unknown: SkipUnknown = False,
    max_size: MaxSize = None,
    escape_formulas: EscapeFormulas = None,
) -> None:
    """Write the best columns for each row, none of which it has seen."""
    from tribit.workflows import recommend_file  # noqa: PLC0415

    done = recommend_file(
        model,
        seen,
        out,
        n=n,
        avoid_dislikes=avoid_dislikes,
        only=only or None,
        ranker=ranker,
        row=row,
        column=column,
        value=value,
        like_at=like_at,
        duplicates=duplicates,
        skip_unknown=skip_unknown,
        max_size=max_size,
        escape_formulas=escape_formulas,
    )
    print_facts(
        {
            "lists": str(out),
            "rows": str(done.n_rows),
            "columns listed": str(done.n_pairs),
            "entries seen": f"{done.n_seen}{skipped(done.n_skipped)}",
        }
    )
