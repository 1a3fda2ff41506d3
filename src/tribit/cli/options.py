"""Options from the fields of questions, of the model, of the fit, and of the rules for reading a table.

They are made when they are first needed: the library takes half a second to import, and ``--help`` should not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from tribit.cli.common import (
    NUMBER_OR_AUTO,
    MaxSize,
    number_or_word,
    split_words,
    whole_or_auto,
    yes_no_or_auto,
)
from tribit.errors import quoted

Parameters = list[Parameter]


#: Name of the words of the command, in the context of a command.
COMMAND = "tribit.command"


class LazyCommand(TyperCommand):
    """A command with groups of further options; ``context.obj`` has their values by group.

    ``context.meta[COMMAND]`` has the words of the command as they were typed.
    """

    groups: ClassVar[Mapping[str, Callable[[], Parameters]]] = MappingProxyType({})
    _made: Mapping[str, tuple[str, ...]] | None = None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options and arguments."""
        if self._made is None:
            self._made = {name: self._add(make()) for name, make in self.groups.items()}
        return super().get_params(ctx)

    def _add(self, parameters: Parameters) -> tuple[str, ...]:
        """Append options, without those whose names or flags the command has already."""
        names = {each.name for each in self.params}
        flags = {flag for each in self.params for flag in each.opts}
        made = [
            each
            for each in _typer_parameters(parameters)
            if each.name not in names and not flags & set(each.opts)
        ]
        self.params += made
        return tuple(each.name for each in made)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take several numbers as one word too: ``--gammas 0,1,0``."""
        several = {
            opt: each.nargs
            for each in self.get_params(ctx)
            for opt in each.opts
            if each.nargs > 1 and each.param_type_name == "option"
        }
        expanded: list[str] = []
        for argument in args:
            name, equals, value = argument.partition("=")
            if equals and name in several:
                expanded += [name, *_split_numbers(name, value, several[name])]
            elif expanded and expanded[-1] in several and "," in argument:
                expanded += _split_numbers(expanded[-1], argument, several[expanded[-1]])
            else:
                expanded.append(argument)
        ctx.meta[COMMAND] = ["tribit", ctx.info_name, *args]
        return super().parse_args(ctx, expanded)

    def invoke(self, ctx: Any) -> Any:
        """Call the command with its own options; those of the groups are in ``ctx.obj``."""
        ctx.obj = {
            group: {name: ctx.params.pop(name) for name in names}
            for group, names in (self._made or {}).items()
        }
        return super().invoke(ctx)


def _split_numbers(name: str, text: str, count: int) -> list[str]:
    numbers = text.split(",")
    if len(numbers) != count:
        raise typer.BadParameter(
            f"{name} takes {count} numbers, such as 1{',0' * (count - 1)}; got {quoted(text)}."
        )
    return numbers


def _typer_parameters(parameters: Parameters) -> list[Any]:
    """Return the parameters that typer makes from the signature of a function."""
    from tribit.questions.base import with_signature  # noqa: PLC0415

    def options() -> None:
        """Have the signature alone."""

    alone = typer.Typer(add_completion=False)
    alone.command()(with_signature(options, parameters, name="options"))
    made: Any = typer.main.get_command(alone)
    return list(made.params)


def _option(name: str, hint: object, default: object, shown: object) -> Parameter:
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if default is MISSING else default,
        annotation=Annotated[hint, shown],
    )


def model_options() -> Parameters:
    """Return the options of the model, in the order of its fields."""
    from tribit.model.spec import ModelSpec  # noqa: PLC0415

    hints = get_type_hints(ModelSpec)
    return [
        _model_option(each, hints[each.name])
        for each in fields(ModelSpec)
        if "help" in each.metadata
    ]


def _model_option(of: Field[Any], hint: Any) -> Parameter:
    """Return the option of a field: by its type, and by whether it may be chosen from the data."""
    chosen = of.metadata.get("choosable", False)
    default = of.metadata.get("default", "auto" if chosen else of.default)
    about: dict[str, Any] = {"help": of.metadata["help"]}
    kind: Any = str if isinstance(default, str) else hint
    if chosen and get_origin(hint) is tuple:
        # Several numbers or none of them: there is no option of several values that are one word.
        default, kind = None, hint | None
        about |= {"show_default": False, "callback": lambda value: value or "auto"}
    elif chosen:
        kind = Any
        parser = {int: whole_or_auto, bool: yes_no_or_auto}.get(hint, number_or_word)
        about |= {"parser": parser, "metavar": "yes|no|auto" if hint is bool else NUMBER_OR_AUTO}
        about |= {"show_default": "none"} if default is None else {}
    return _option(of.name, kind, default, typer.Option(**about))


def fit_options() -> Parameters:
    """Return the options of the fit, beside those of the model."""
    from tribit.completion.estimator import FitOptions  # noqa: PLC0415

    hints = get_type_hints(FitOptions)
    parsers = {
        "calibration": (number_or_word, "word"),
        "members": (whole_or_auto, NUMBER_OR_AUTO),
        "half_life": (number_or_word, "days|auto|none"),
    }
    found = []
    for each in fields(FitOptions):
        command = each.metadata["command"]
        default = each.default if command is None else command
        about: dict[str, Any] = {"help": each.metadata["help"]}
        hint = type(default) if isinstance(default, int | str) else hints[each.name]
        if each.name in parsers:
            hint = Any
            about |= dict(zip(("parser", "metavar"), parsers[each.name], strict=True))
        found.append(_option(each.name, hint, default, typer.Option(**about)))
    return found


def reading_options(*, later: bool = False) -> Parameters:
    """Return the rules for reading a table; a ``later`` table is read as that of the fit unless an option is given."""
    from tribit.data.reading import Reading  # noqa: PLC0415

    hints, found = get_type_hints(Reading), []
    for each in fields(Reading):
        if "help" not in each.metadata:
            continue
        text, hint, default = each.metadata["help"], hints[each.name], each.default
        about: dict[str, Any] = {"help": text, "show_default": default is not None}
        if later:
            first = text.split(" [")[0].rstrip(".")
            about, default = {"help": f"{first} [as in the fit].", "show_default": False}, None
            hint = hint if type(None) in get_args(hint) else hint | None
        if each.name in ("like", "dislike"):
            hint, about = Any, {**about, "parser": split_words, "metavar": "words"}
        found.append(_option(each.name, hint, default, typer.Option(**about)))
    max_size = Parameter("max_size", Parameter.KEYWORD_ONLY, default=None, annotation=MaxSize)
    return [*found, max_size]


def line_reading() -> Parameters:
    """Return the rules for reading the records, ids and times of a table of text, without its values."""
    rules = ("row", "column", "time", "delimiter", "encoding", "format", "max_size")
    return [each for each in reading_options() if each.name in rules]


def later_reading() -> Parameters:
    """Return the rules for reading a table after the fit."""
    return reading_options(later=True)


def question_options(question: object) -> Parameters:
    """Return the options that the command line offers for a question or a change."""
    from tribit.questions.base import fields_of  # noqa: PLC0415

    found = (_question_option(each) for each in fields_of(question))
    return [each for each in found if each is not None]


def _question_option(of: Any) -> Parameter | None:
    from tribit.questions.base import OMIT  # noqa: PLC0415
    from tribit.questions.kinds import IDS, kind_of  # noqa: PLC0415

    default, about, kind = of.default_of("command"), of.about, kind_of(of.hint)
    if default is OMIT:
        return None
    hint: Any = of.types[0]
    shown: dict[str, Any] = {"help": about.help}
    if kind is not None:
        hint = Path if kind is not IDS else str if about.argument else list[str]
        default = default if default is MISSING else None
        hint = hint if default is MISSING else hint | None
        if kind is IDS and not about.argument:
            shown["help"] += " Repeat it, or separate ids by commas and quote those that have one."
    elif of.types[0] is int and default is None:
        hint = hint | None
    elif type(None) in of.types:
        words = "word|number" if of.types[0] is str else "number|none"
        hint, shown = Any, {**shown, "parser": number_or_word, "metavar": words}
    flags = (about.flag,) if about.flag else ()
    made: Any = typer.Argument(**shown) if about.argument else typer.Option(*flags, **shown)
    return _option(of.name, hint, default, made)


class TableCommand(LazyCommand):
    """A command that reads a table after the fit; ``context.obj["rules"]`` has the rules that were given."""

    groups = MappingProxyType({"rules": later_reading})


def given_rules(context: typer.Context) -> dict[str, Any]:
    """Return the rules of reading that were given, the limit on bytes (``max_size``) among them."""
    return {name: value for name, value in context.obj["rules"].items() if value is not None}
