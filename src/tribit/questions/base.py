"""Questions and changes: one class for each, from which the method, the command and the endpoint follow.

A field of a question is an option: its default, help text and rules are read by the checks here, by the command line
(:mod:`tribit.cli.commands`) and by the service (:mod:`tribit.serve.schemas`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, cached_property
from inspect import Parameter, Signature, cleandoc
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from tribit.checks import (
    check_between,
    check_choice,
    check_count,
    check_fitted,
    check_not_negative,
    check_switch,
)
from tribit.errors import InvalidTypeError

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

__all__ = ["OMIT", "Change", "Field", "Question", "asks", "changes", "option", "with_signature"]

A = TypeVar("A")
P = ParamSpec("P")
Made = TypeVar("Made", bound=Callable[..., Any])
Changed = TypeVar("Changed", bound="FittedRecommender")

#: Default of the command line or the service: the same as in Python.
SAME: Any = object()
#: Default of the command line or the service for an option that it does not have.
OMIT: Any = object()


@dataclass(frozen=True)
class Option:
    """The metadata of an option: its help, its name and defaults in each face, and its rules."""

    help: str
    flag: str = ""
    argument: bool = False
    command: Any = SAME
    serve: Any = SAME
    rules: Mapping[str, Any] = field(default_factory=dict)


def option(
    default: object,
    help: str,  # noqa: A002 - as in typer
    *,
    flag: str = "",
    argument: bool = False,
    command: object = SAME,
    serve: object = SAME,
    **rules: object,
) -> Any:
    """Return a field of a question.

    Parameters
    ----------
    default : object
        Default in Python; ``dataclasses.MISSING`` for none.
    help : str
        One sentence.
    flag : str
        Name on the command line, if it is not the name of the field.
    argument : bool
        Whether it is a positional argument of the command.
    command, serve : object
        Default on the command line and over HTTP, if it differs; :data:`OMIT` to leave the option out.
    **rules
        ``ge``, ``gt``, ``lt`` (numbers) or ``choices``.

    Examples
    --------
    >>> from tribit.questions.base import option
    >>> option(10, "length of a list").default
    10
    """
    about = Option(help, flag, argument, command, serve, rules)
    return field(default=default, metadata={"option": about})


@dataclass(frozen=True)
class Field:
    """A field of a question with its resolved type."""

    name: str
    hint: Any
    default: Any
    about: Option

    def default_of(self, face: str) -> Any:
        """Return the default for "command" or "serve"; :data:`OMIT` if the option is left out there."""
        default = getattr(self.about, face)
        return self.default if default is SAME else default

    @cached_property
    def types(self) -> tuple[Any, ...]:
        """The type, or the members of a union."""
        union = get_origin(self.hint) in (Union, UnionType)
        return get_args(self.hint) if union else (self.hint,)

    def check(self, value: object) -> Any:
        """Return a value that satisfies the rules, in the type that the arithmetic needs."""
        rules, types = self.about.rules, self.types
        if value is None and type(None) in types:
            return None
        if "choices" in rules:
            return check_choice(self.name, value, rules["choices"])
        if types[0] is bool:
            return check_switch(self.name, value)
        if types[0] is int:
            return check_count(self.name, value, rules.get("ge", 1))
        if types[0] is float and rules.keys() >= {"gt", "lt"}:
            return check_between(self.name, value, rules["gt"], rules["lt"], ends="()")
        if types[0] is float and rules.get("ge"):
            return check_between(self.name, value, rules["ge"], float("inf"))
        if types[0] is float:
            return check_not_negative(self.name, value)
        return value


@cache
def fields_of(question: Any) -> tuple[Field, ...]:
    """Return the fields of a question or a change, in the order of its signature."""
    hints = get_type_hints(question, include_extras=True)
    return tuple(
        Field(each.name, hints[each.name], each.default, each.metadata["option"])
        for each in fields(question)
    )


class _Checked:
    """Fields are checked by their rules when the object is made."""

    def __post_init__(self) -> None:
        question: Any = type(self)
        for each in fields_of(question):
            object.__setattr__(self, each.name, each.check(getattr(self, each.name)))


class Question(_Checked, ABC, Generic[A]):
    """A question to a fitted recommender.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> from tribit.questions.predict import Predict
    >>> recommender = Recommender(random_state=0).fit([[1, 1, 0], [1, 0, -1], [0, -1, 1]])
    >>> type(recommender.predictions(([0], [2]))).__name__
    'Predictions'
    """

    #: Whether the command takes new entries and features, which are changes before the question.
    after_changes: ClassVar[bool] = True

    @classmethod
    def sources(cls, model: Path, values: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        """Return the file of the recommender, and the values of the options, as the command was given them."""
        return model, values

    @abstractmethod
    def answer(self, recommender: FittedRecommender) -> A:
        """Return the answer."""


class Change(_Checked, ABC):
    """A change of a fitted recommender, made in a copy.

    Examples
    --------
    >>> from tribit import Recommender
    >>> recommender = Recommender(random_state=0).fit([[1, 1, 0], [1, 0, -1], [0, -1, 1]])
    >>> recommender.fold_in([[1, 0, -1]]).shape_  # asked of the recommender, answered by a copy
    (4, 3)
    """

    @abstractmethod
    def apply(self, recommender: Changed) -> Changed:
        """Return the changed copy."""


def asks(
    question: Callable[P, Question[A]], name: str = ""
) -> Callable[Concatenate[FittedRecommender, P], A]:
    """Return the method of a recommender that asks a question, named like the question by default.

    Examples
    --------
    >>> from tribit.questions.base import asks
    >>> from tribit.questions.predict import Predict
    >>> asks(Predict, "chances").__name__
    'chances'
    """

    def method(self: FittedRecommender, /, *args: P.args, **kwargs: P.kwargs) -> A:
        check_fitted(self)
        _check_call(asked, args, kwargs)
        return question(*args, **kwargs).answer(self)

    asked = _as_method(method, question, name)
    return asked


def changes(
    change: Callable[P, Change], name: str = ""
) -> Callable[Concatenate[Changed, P], Changed]:
    """Return the method of a recommender that makes a change.

    Examples
    --------
    >>> from tribit.questions.base import changes
    >>> from tribit.questions.changes import FoldIn
    >>> changes(FoldIn, "add_rows").__name__
    'add_rows'
    """

    def method(self: Changed, /, *args: P.args, **kwargs: P.kwargs) -> Changed:
        check_fitted(self)
        _check_call(asked, args, kwargs)
        return change(*args, **kwargs).apply(self)

    asked = _as_method(method, change, name)
    return asked


def _check_call(method: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that a method does not take, with its name and its parameters."""
    own = method.__signature__.replace(parameters=[*method.__signature__.parameters.values()][1:])
    try:
        own.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidTypeError(f"{method.__name__}(): {error}; its parameters are {own}.") from None


def with_signature(
    function: Made, parameters: Sequence[Parameter], *, name: str, doc: str | None = None
) -> Made:
    """Give a function the parameters that ``inspect`` and typer see, its name and its docstring.

    No other function sets a signature. Methods and commands get theirs from the fields of questions.
    """
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _as_method(method: Made, question: Any, name: str) -> Made:
    """Return a method with the signature of a question's constructor and a docstring of its fields."""
    positional = set(question.__match_args__)
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    lines = [cleandoc(question.__doc__ or ""), "", "Parameters", "----------"]
    for each in fields_of(question):
        kind = (
            Parameter.POSITIONAL_OR_KEYWORD if each.name in positional else Parameter.KEYWORD_ONLY
        )
        default = Parameter.empty if each.default is MISSING else each.default
        parameters.append(Parameter(each.name, kind, default=default))
        shown = "" if each.default is MISSING else f", default={each.default!r}"
        lines += [f"{each.name} : {_words(each)}{shown}", f"    {each.about.help}"]
    name = name or question.__name__.lower()
    return with_signature(method, parameters, name=name, doc="\n".join(lines) + "\n")


def _words(of: Field) -> str:
    """Return the type of a field in words."""
    if choices := of.about.rules.get("choices"):
        return f"{{{', '.join(map(repr, choices))}}}"
    names = ["None" if each is type(None) else _type_name(each) for each in of.types]
    return " or ".join(names)


def _type_name(hint: object) -> str:
    words = [each for each in getattr(hint, "__metadata__", ()) if hasattr(each, "words")]
    return str(words[0].words) if words else str(getattr(hint, "__name__", hint))
