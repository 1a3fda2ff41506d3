"""Commands that ask a saved recommender: one for each entry of ``QUESTIONS``, its options from the fields.

A command is parse, read, change, answer, write.
"""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribit.cli.common import EscapeFormulas, ModelPath, app, print_facts
from tribit.cli.options import LazyCommand, given_rules, later_reading, question_options
from tribit.cli.printing import Json, print_json
from tribit.cli.values import check_out
from tribit.questions import QUESTIONS, Entry

if TYPE_CHECKING:
    from tribit.questions.base import Field
    from tribit.recommender import Recommender

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


def asked(name: str, model: Path, values: dict[str, Any], rules: dict[str, Any]) -> Any:
    """Return the answer of a saved recommender, after the changes that were asked for.

    ``values`` are those of the options of the command, and ``rules`` say how tables differ from that of the fit.
    """
    from tribit.questions.base import OMIT, fields_of  # noqa: PLC0415
    from tribit.questions.kinds import kind_of  # noqa: PLC0415
    from tribit.recommender import Recommender  # noqa: PLC0415

    question = QUESTIONS[name].load()
    asked_for = [
        each
        for each in fields_of(question)
        if each.default_of("command") is not OMIT and each.name in values
    ]
    for each in asked_for:
        if kind_of(each.hint) is None:
            each.check(values[each.name])  # a wrong option is refused before the work
    recommender = Recommender.load(model)
    given = {each.name: _read(each, values[each.name], recommender, rules) for each in asked_for}
    if question.after_changes:
        incorporate = Entry(CHANGE, "", "").load()
        change = incorporate(
            **{
                each.name: _read(each, values.get(each.name), recommender, rules)
                for each in fields_of(incorporate)
            }
        )
        if "rows" in given and given["rows"] is None and given.get("columns") is None:
            given["rows"] = change.rows(recommender)
        if "exclude_seen" in given and recommender.seen_ is None and change.entries is not None:
            given["exclude_seen"] = given["exclude_seen"] or change.entries
        recommender = change.apply(recommender)
    known = {
        each.name: each.default_of("command")
        for each in fields_of(question)
        if each.default_of("command") not in (OMIT, MISSING)
    }
    known |= {
        each.name: given[each.name]
        for each in asked_for
        # No ids or table is the default; of a plain value it is what was typed: none.
        if given[each.name] is not None or kind_of(each.hint) is None
    }
    return question(**known).answer(recommender)


def _read(of: Field, value: Any, recommender: Recommender, rules: dict[str, Any]) -> Any:
    """Return what was typed as the question takes it: ids as texts, paths as records or tables."""
    from tribit.questions import kinds  # noqa: PLC0415

    kind = kinds.kind_of(of.hint)
    if value is None or kind is None:
        return value
    if kind is kinds.IDS:
        texts = (value,) if isinstance(value, str) else tuple(value)
        return kinds.Texts(texts) if texts else None
    options = dict(rules)
    max_size = options.pop("max_size", None)
    if kind is kinds.TABLE:
        return kinds.features_from(value, max_size)
    reading = kinds.reading_of(recommender, **options)
    read = reading.pairs if kind is kinds.PAIRS else reading.records
    return read(value, max_size=max_size)


for _name, _entry in QUESTIONS.items():
    _add_command(_name, _entry)
