"""Options of the model: one for each field of :class:`tribit.model.spec.ModelSpec` that has a help text."""

from __future__ import annotations

from dataclasses import Field, fields
from inspect import Parameter
from typing import Annotated, Any, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from tribit.cli.values import VALUE, number_or_word, options_from, whole_or_auto, yes_no_or_auto
from tribit.quoting import quoted


class FitCommand(TyperCommand):
    """A command with the options of the model before ``--link-scale``; ``context.obj`` has their values.

    They are made when they are first asked for: the model takes half a second to import.
    """

    _model: tuple[str, ...] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options and arguments."""
        if not self._model:
            made = model_options()
            place = [each.name for each in self.params].index("link_scale")
            self.params[place:place] = made
            self._model = tuple(each.name for each in made)
        return super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take several numbers as one word too: ``--gammas 0,1,0``."""
        several = {
            opt: each.nargs for each in self.get_params(ctx) for opt in each.opts if each.nargs > 1
        }
        taken: list[str] = []
        for argument in args:
            name, equals, value = argument.partition("=")
            if equals and name in several:
                taken += [name, *_separate(name, value, several[name])]
            elif taken and taken[-1] in several and "," in argument:
                taken += _separate(taken[-1], argument, several[taken[-1]])
            else:
                taken.append(argument)
        return super().parse_args(ctx, taken)

    def invoke(self, ctx: Any) -> Any:
        """Call the command with the options of its own."""
        ctx.obj = {name: ctx.params.pop(name) for name in self._model}
        return super().invoke(ctx)


def _separate(name: str, text: str, count: int) -> list[str]:
    numbers = text.split(",")
    if len(numbers) != count:
        raise typer.BadParameter(
            f"{name} takes {count} numbers, such as 1{',0' * (count - 1)}; got {quoted(text)}."
        )
    return numbers


def model_options() -> list[Any]:
    """Return the options of the model, in the order of its fields."""
    from tribit.model.spec import ModelSpec  # noqa: PLC0415 - help should not wait

    hints = get_type_hints(ModelSpec)
    return options_from(
        [_option(each, hints[each.name]) for each in fields(ModelSpec) if "help" in each.metadata]
    )


def _option(of: Field[Any], hint: Any) -> Parameter:
    """Return a field as typer reads an option: by its type, and by whether it may be chosen from the data."""
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
        about |= {"parser": parser, "metavar": "yes|no|auto" if hint is bool else VALUE}
        about |= {"show_default": "none"} if default is None else {}
    annotation = Annotated[kind, typer.Option(**about)]
    return Parameter(of.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
