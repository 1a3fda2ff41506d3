"""Errors and warnings in one sentence: the fault, its place and the remedy; a user's own words in them.

A sentence mentions a parameter by :func:`parameter`, so that it can be shown in the words of Python (``rank``,
``gammas=(0, 1, 0)``) and in those of the command line (``--rank``, ``--gammas 0 1 0``).

>>> error = InvalidInputError(f"{parameter('rank')} must be at least 1; got 0.")
>>> error.parameter, str(error)
('rank', 'rank must be at least 1; got 0.')
>>> error.args[0].for_command_line(lambda name, value: f"--{name}")
'--rank must be at least 1; got 0.'
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

__all__ = [
    "InvalidInputError",
    "InvalidTypeError",
    "OutOfMemoryError",
    "TribitError",
    "TribitWarning",
    "UnboundedRiskWarning",
    "UnknownIdError",
    "UnknownIdWarning",
    "UnknownRhoWarning",
    "either",
    "listed",
    "parameter",
    "printable",
    "quoted",
    "warn",
    "where_possible",
    "with_mentions",
]

#: A mention: the parameter's name, the words of Python, and what the command line writes after the option. The
#: characters are for private use, which :func:`printable` escapes in the words of a user.
_CLAUSE = "\ue003"
_MENTION = re.compile("\ue000([^\ue001]*)\ue001([^\ue001]*)\ue001([^\ue002]*)\ue002")

#: Beginnings of the file names of this package, and of those of the interpreter's import system.
_IMPORTING = "<frozen importlib"
_WITHIN = (f"{Path(__file__).parent}{os.sep}", _IMPORTING)


def parameter(name: str, value: object = ...) -> str:
    """Return the mention of a parameter, with a value where one is given, for the text of an error or warning."""
    if value is ...:
        return _mention(name, name, "")
    return _mention(name, f"{name}={value!r}", _option_value(value))


def either(python: str, command_line: str = "") -> str:
    """Return the mention of a phrase that Python and the command line write differently."""
    return _mention("", python, command_line)


def where_possible(clause: str, name: str, value: object) -> str:
    """Return a clause about a parameter, which a command without such an option leaves out.

    ``{}`` in the clause is the mention of the parameter with the value.
    """
    typed = f"{_option_value(value)}{_CLAUSE}{clause}"
    return _mention(name, clause.format(f"{name}={value!r}"), typed)


def with_mentions(text: str) -> str:
    """Return a text with its mentions, for use inside another text."""
    return text.marked if isinstance(text, Message) else text


def _mention(*parts: str) -> str:
    return "\ue000" + "\ue001".join(parts) + "\ue002"


def _option_value(value: object) -> str:
    """Return a value as it is typed after an option."""
    if isinstance(value, tuple):
        return " ".join(map(_option_value, value))
    words = {True: "yes", False: "no", None: "none"}
    return next((word for known, word in words.items() if value is known), str(value))


class Message(str):
    """A text for Python with mentions of parameters, which can be written for the command line too.

    Parameters
    ----------
    text : str
        The text, with mentions made by :func:`parameter` and :func:`either`.
    """

    marked: str

    def __new__(cls, text: str = "") -> Self:
        source = with_mentions(text)
        message = super().__new__(cls, _MENTION.sub(r"\2", source))
        message.marked = source
        return message

    def for_command_line(self, option: Callable[[str, str], str | None]) -> str:
        """Return the text in the words of the command line.

        Parameters
        ----------
        option : callable
            Returns how an option is written, given the name of the parameter and the value as it is typed ("" for
            none); None where there is no such option, and the words of Python stay.
        """

        def words(mention: re.Match[str]) -> str:
            name, python, typed = mention.groups()
            typed, _, clause = typed.partition(_CLAUSE)
            written = option(name, typed) if name else typed
            if clause:
                return "" if written is None else clause.format(written)
            return python if written is None else written

        return _MENTION.sub(words, self.marked)


class _WithMessage:
    """An error or warning whose only argument is a :class:`Message`."""

    args: tuple[Any, ...]

    def __init__(self, message: str = "") -> None:
        super().__init__(Message(message))  # type: ignore[call-arg]

    @property
    def parameter(self) -> str | None:
        """The parameter at fault: the one that the sentence opens with, if it opens with one."""
        opening = _MENTION.match(with_mentions(self.args[0]))
        return (opening and opening[1]) or None


class TribitError(_WithMessage, Exception):
    """Base of every error that tribit raises on purpose.

    Examples
    --------
    >>> import tribit
    >>> try:
    ...     tribit.load("nothing.tribit")
    ... except tribit.TribitError as error:
    ...     print(type(error).__name__)
    InvalidInputError
    """


class InvalidInputError(TribitError, ValueError):
    """An invalid value (also a ``ValueError``).

    Examples
    --------
    >>> import tribit
    >>> try:
    ...     tribit.BinaryMatrixCompletion(rank=-1).fit([[1, -1], [-1, 1]])
    ... except ValueError as error:
    ...     print(type(error).__name__)
    InvalidInputError
    """


class UnknownIdError(InvalidInputError):
    """An id that the model was not fitted on.

    Examples
    --------
    >>> import tribit
    >>> ratings = tribit.Observations.from_frame(
    ...     {"user": ["ann", "ann", "bob"], "drink": ["tea", "milk", "tea"], "label": [1, -1, 1]},
    ...     row="user", column="drink", value="label",
    ... )
    >>> model = tribit.BinaryMatrixCompletion(search=False, random_state=0).fit(ratings)
    >>> try:
    ...     model.predict(["eve"], ["tea"])
    ... except tribit.UnknownIdError as error:
    ...     print(type(error).__name__)
    UnknownIdError
    """


class InvalidTypeError(TribitError, TypeError):
    """An object of an invalid type (also a ``TypeError``).

    Examples
    --------
    >>> import tribit
    >>> try:
    ...     tribit.BinaryMatrixCompletion(rank="two").fit([[1, -1], [-1, 1]])
    ... except TypeError as error:
    ...     print(type(error).__name__)
    InvalidTypeError
    """


class OutOfMemoryError(TribitError, MemoryError):
    """A device without free memory (also a ``MemoryError``).

    Examples
    --------
    >>> import tribit
    >>> issubclass(tribit.OutOfMemoryError, MemoryError)
    True
    """


class TribitWarning(_WithMessage, UserWarning):
    """Base of every warning about a user's input.

    Examples
    --------
    >>> import warnings
    >>> from tribit import TribitWarning
    >>> warnings.simplefilter("error", TribitWarning)  # warnings about the input are errors
    """


class UnboundedRiskWarning(TribitWarning):
    """The risk has no finite minimum with the bounds given; the fit stops at its iteration limit.

    Examples
    --------
    >>> import warnings
    >>> from tribit import UnboundedRiskWarning
    >>> warnings.simplefilter("error", UnboundedRiskWarning)
    """


class UnknownIdWarning(TribitWarning):
    """Ids that the model was not fitted on, and how they are answered.

    Examples
    --------
    >>> import warnings
    >>> from tribit import UnknownIdWarning
    >>> warnings.simplefilter("ignore", UnknownIdWarning)  # or pass unknown="skip"
    """


class UnknownRhoWarning(TribitWarning):
    """Only likes (or only dislikes) were observed and ``rho`` was not given: such data do not identify it.

    Examples
    --------
    >>> import warnings
    >>> from tribit import UnknownRhoWarning
    >>> warnings.simplefilter("error", UnknownRhoWarning)
    """


def warn(warning: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of tribit that led here, at any depth of calls inside the library."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_WITHIN):
        # The interpreter leaves its own frames of an import out of the count.
        level += not frame.f_code.co_filename.startswith(_IMPORTING)
        frame = frame.f_back
    warnings.warn(warning, category, stacklevel=level)


def warn_unconverged(message: str) -> None:
    """Warn that a fit stopped early, by scikit-learn's ConvergenceWarning."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - half a second

    warn(ConvergenceWarning(message))


#: Greatest number of characters of a user's text; a longer one is shortened in the middle, as paths differ at the end.
MAX_LENGTH = 120
HEAD_LENGTH, TAIL_LENGTH = 80, 30
#: Number of names of a list that a message shows; the others are counted.
MAX_NAMES = 10


def printable(text: str) -> str:
    r"""Return the text with escapes for the characters that a terminal does not print.

    Examples
    --------
    >>> print(printable("red \x1b[31m\n"))
    red \x1b[31m\n
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def quoted(value: object) -> str:
    """Return a value as Python writes it: on one line, a long one shortened.

    Examples
    --------
    >>> quoted("user 3")
    "'user 3'"
    >>> len(quoted("u" * 10**6)) < 150
    True
    """
    # Shorten first: the repr of a gigabyte is a gigabyte too.
    if isinstance(value, str):
        return repr(_shorten_text(value))
    if isinstance(value, int) and value.bit_length() > MAX_LENGTH:
        # Python refuses to write an integer of more than 4,300 digits.
        return f"a whole number of {value.bit_length()} bits"
    return _shorten_text(printable(repr(value)))


def listed(names: Sequence[Any]) -> str:
    """Return the first names and the number of the others.

    Examples
    --------
    >>> listed(["user", "item", "stars"])
    'user, item, stars'
    >>> listed(range(10**6))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 999990 more'
    """
    # Shorten again: an escape is longer than its control character.
    shown = ", ".join(
        _shorten_text(printable(_shorten_text(str(name)))) for name in islice(names, MAX_NAMES)
    )
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _shorten_text(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[:HEAD_LENGTH]}...{text[-TAIL_LENGTH:]}"
