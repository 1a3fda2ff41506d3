"""Commands that ask a saved recommender: one for each entry of ``QUESTIONS``, its options from the fields.

A command is parse, read, change, answer, write.
"""

from __future__ import annotations

from dataclasses import MISSING
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribit.cli.common import EscapeFormulas, ModelPath, app, print_facts
from tribit.cli.printing import Json, print_json
from tribit.cli.table_options import TableCommand
from tribit.cli.values import check_out, number_or_word, options_from
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


class QuestionCommand(TableCommand):
    """A command with the options of a question, of the changes before it and of tables, made when first asked for."""

    entry: Entry
    _fields: tuple[str, ...] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options and arguments."""
        if not self._fields:
            made = question_options(self.entry.load())
            place = 1 + [each.name for each in self.params].index("model")
            self.params[place:place] = made
            self._fields = tuple(each.name for each in made)
        return super().get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Call the command with the values of the question beside its own."""
        ctx.meta["values"] = {name: ctx.params.pop(name) for name in self._fields}
        return super().invoke(ctx)


def question_options(question: Any) -> list[Any]:
    """Return the options of a question, and of the changes before it."""
    from tribit.questions.base import fields_of  # noqa: PLC0415 - help should not wait

    found = list(fields_of(question))
    if question.after_changes:
        found += fields_of(Entry(CHANGE, "", "").load())
    return options_from([each for each in map(_option, found) if each is not None])


def _option(of: Field) -> Parameter | None:
    """Return a field as typer reads it; None where the command line does not offer it."""
    from tribit.questions.base import OMIT  # noqa: PLC0415
    from tribit.questions.kinds import IDS, kind_of  # noqa: PLC0415

    default, about, kind = of.default_of("command"), of.about, kind_of(of.hint)
    if default is OMIT:
        return None
    hint: Any = of.types[0]
    told: dict[str, Any] = {"help": about.help}
    if kind is not None:
        hint = Path if kind is not IDS else str if about.argument else list[str]
        default = default if default is MISSING else None
        hint = hint if default is MISSING else hint | None
    elif type(None) in of.types:
        hint, told = Any, {**told, "parser": number_or_word, "metavar": "number|none"}
    flags = () if not about.flag else (about.flag,)
    shown: Any = typer.Argument(**told) if about.argument else typer.Option(*flags, **told)
    return Parameter(
        of.name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if default is MISSING else default,
        annotation=Annotated[hint, shown],
    )


def _register(name: str, entry: Entry) -> None:
    """Add the command of a question."""
    command = type("Command", (QuestionCommand,), {"entry": entry})

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
        values, rules = context.meta["values"], dict(context.obj)
        paths = (each for each in values.values() if isinstance(each, Path))
        check_out(out, model, *paths)
        answer = asked(name, model, values, rules)
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
    from tribit.recommender import Recommender  # noqa: PLC0415

    question, recommender = QUESTIONS[name].load(), Recommender.load(model)
    given = {
        each.name: _read(each, values[each.name], recommender, rules)
        for each in fields_of(question)
        if each.default_of("command") is not OMIT and each.name in values
    }
    if question.after_changes:
        incorporate = Entry(CHANGE, "", "").load()
        change = incorporate(
            **{
                each.name: _read(each, values.get(each.name), recommender, rules)
                for each in fields_of(incorporate)
            }
        )
        if "rows" in given and given["rows"] is None:
            given["rows"] = change.rows(recommender)
        if "exclude_seen" in given and recommender.seen_ is None and change.entries is not None:
            given["exclude_seen"] = given["exclude_seen"] or change.entries
        recommender = change.apply(recommender)
    known = {
        each.name: each.default_of("command")
        for each in fields_of(question)
        if each.default_of("command") not in (OMIT, MISSING)
    }
    known |= {name: value for name, value in given.items() if value is not None}
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
    _register(_name, _entry)
