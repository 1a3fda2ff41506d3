"""Commands that ask a saved recommender: one for each entry of ``QUESTIONS``, its options from the fields.

A command is parse, read, change, answer, write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribit.cli.common import EscapeFormulas, ModelPath, app, print_facts
from tribit.cli.options import LazyCommand, given_rules, later_reading, question_options
from tribit.cli.printing import Json, print_json
from tribit.cli.values import check_out
from tribit.questions import QUESTIONS, Entry

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="File to write (.csv, .tsv, .gz, .jsonl, .parquet, - for CSV on standard output; export: .npz, .parquet).",
    ),
]
#: Place of the changes that may come before a question.
CHANGE = "tribit.questions.changes:Incorporate"


def register(name: str, entry: Entry) -> None:
    """Add a question under a name, and its command to the command line."""
    QUESTIONS[name] = entry
    _add_command(name, entry)


def _add_command(name: str, entry: Entry) -> None:
    groups = {
        "question": lambda: question_options(entry.load()),
        "change": lambda: (
            question_options(Entry(CHANGE, "", "").load()) if entry.load().after_changes else []
        ),
        # A question that no change comes before reads no table.
        "rules": lambda: later_reading() if entry.load().after_changes else [],
    }
    command = type("QuestionCommand", (LazyCommand,), {"groups": groups})

    @app.command(name, cls=command, help=entry.help, epilog=f"Example: tribit {entry.example}")
    def ask(
        context: typer.Context,
        model: ModelPath,
        out: Out = None,
        escape_formulas: EscapeFormulas = None,
        as_json: Json = False,
    ) -> None:
        from tribit.cli.asking import asked  # noqa: PLC0415 - help should not wait

        if as_json and out is not None:
            raise typer.BadParameter("--json prints, and --out writes; pass one of them.")
        values = context.obj["question"] | context.obj["change"]
        rules, max_size = given_rules(context)
        paths = (each for each in values.values() if isinstance(each, Path))
        check_out(out, model, *paths)
        answer = asked(name, model, values, rules | {"max_size": max_size})
        answer.check()
        if as_json:
            print_json(answer.to_dict())
        elif out is None:
            typer.echo(answer.text())
        else:
            answer.write(out, escape_formulas=escape_formulas)
            print_facts({"file": str(out), **answer.facts()}, out)


for _name, _entry in QUESTIONS.items():
    _add_command(_name, _entry)
