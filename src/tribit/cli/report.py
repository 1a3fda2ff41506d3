"""``tribit report``: one page that shows what a model does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribit.cli.common import ModelPath, UnknownRefused, app, print_facts
from tribit.cli.options import TableCommand, given_rules
from tribit.cli.values import check_out


@app.command(
    cls=TableCommand, epilog="Example: tribit report model.tribit --test test.csv -o report.html"
)
def report(
    context: typer.Context,
    model: ModelPath,
    test: Annotated[
        Path | None,
        typer.Option(
            "--test", help="Table of observed entries, not used in the fit [some are held out]."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    random_state: Annotated[
        int, typer.Option(help="Seed of the entries that are held out, without a test.")
    ] = 0,
    unknown: UnknownRefused = "error",
) -> None:
    """Write one page, for any browser, on what a model does and how good it is."""
    from tribit.answers import skipped  # noqa: PLC0415 - help should not wait
    from tribit.cli.asking import reported  # noqa: PLC0415

    check_out(out, model, test)
    rules, max_size = given_rules(context)
    done, n_skipped = reported(
        model,
        out,
        test,
        rules | {"max_size": max_size, "unknown": unknown},
        title=title,
        random_state=random_state,
    )
    found = done.evaluation
    which = "held out for the report" if done.held_out_here else "of the test"
    facts = {
        "report": f"{out} ({done.size / 1000:.0f} kB)",
        "measured on": f"{found.n_entries} entries {which}{skipped(n_skipped)}",
    }
    if found.unseen is None:
        facts["sign error"] = f"{found.sign_error:.4f}"
    print_facts(facts)
