"""The errors tribit raises on purpose: one sentence that says what, where and what to do.

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
    "UnknownRhoWarning",
    "either",
    "listed",
    "marked",
    "parameter",
    "printable",
    "quoted",
    "warn",
]

#: A mention: the parameter's name, the words of Python, and what the command line writes after the option. The
#: characters are for private use, which :func:`printable` escapes in the words of a user.
_MENTION = re.compile("\ue000([^\ue001]*)\ue001([^\ue001]*)\ue001([^\ue002]*)\ue002")

#: Beginnings of the file names of this package, and of those of the interpreter's import system.
_IMPORTING = "<frozen importlib"
_WITHIN = (f"{Path(__file__).parent}{os.sep}", _IMPORTING)


def parameter(name: str, value: Any = ...) -> str:
    """Return the mention of a parameter, with a value where one is given, for the text of an error or warning."""
    if value is ...:
        return _mention(name, name, "")
    return _mention(name, f"{name}={value!r}", _typed(value))


def either(python: str, command_line: str = "") -> str:
    """Return the mention of what has other words in Python than on the command line."""
    return _mention("", python, command_line)


def marked(text: str) -> str:
    """Return a text with its mentions, to be made part of another."""
    return text.marked if isinstance(text, Message) else text


def _mention(*parts: str) -> str:
    return "\ue000" + "\ue001".join(parts) + "\ue002"


def _typed(value: Any) -> str:
    """Return a value as it is typed after an option."""
    if isinstance(value, tuple):
        return " ".join(map(_typed, value))
    words = {True: "yes", False: "no", None: "none"}
    return next((word for known, word in words.items() if value is known), str(value))


class Message(str):
    """A text in the words of Python, which knows the parameters that it mentions.

    Parameters
    ----------
    text : str
        The text, with mentions made by :func:`parameter` and :func:`either`.
    """

    marked: str

    def __new__(cls, text: str = "") -> Self:
        source = marked(text)
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
            written = option(name, typed) if name else typed
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
        opening = _MENTION.match(marked(self.args[0]))
        return (opening and opening[1]) or None


class TribitError(_WithMessage, Exception):
    """Base of every error that tribit raises on purpose."""


class InvalidInputError(TribitError, ValueError):
    """A value that tribit cannot use (also a ``ValueError``)."""


class UnknownIdError(InvalidInputError):
    """An id that a model does not know, where it has to."""


class InvalidTypeError(TribitError, TypeError):
    """An object of a kind that tribit cannot use (also a ``TypeError``)."""


class OutOfMemoryError(TribitError, MemoryError):
    """A device whose memory is used up (also a ``MemoryError``)."""


class TribitWarning(_WithMessage, UserWarning):
    """Base of the warnings about what was asked for."""


class UnboundedRiskWarning(TribitWarning):
    """The risk has no finite minimum with the bounds given; the fit stops at its iteration limit."""


class UnknownRhoWarning(TribitWarning):
    """Only likes (or only dislikes) were observed and ``rho`` was not given, which such data cannot tell."""


def warn(warning: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of tribit that led here, however deep in the library the reason was found."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_WITHIN):
        # The interpreter leaves its own frames of an import out of the count.
        level += not frame.f_code.co_filename.startswith(_IMPORTING)
        frame = frame.f_back
    warnings.warn(warning, category, stacklevel=level)


#: Longer words are cut in the middle: paths tell most at their ends.
LONGEST = 120
HEAD, TAIL = 80, 30
#: Names of a list that a message shows; the others are counted.
SHOWN = 10


def printable(text: str) -> str:
    r"""Return the text with all that a terminal would not print as it stands written as an escape.

    Examples
    --------
    >>> print(printable("red \x1b[31m\n"))
    red \x1b[31m\n
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def quoted(value: Any) -> str:
    """Return a value as Python writes it, on one line and cut where it is long.

    Examples
    --------
    >>> quoted("user 3")
    "'user 3'"
    >>> len(quoted("u" * 10**6)) < 150
    True
    """
    # Cut first: what is written of a gigabyte is a gigabyte too.
    if isinstance(value, str):
        return repr(_cut(value))
    if (
        isinstance(value, int) and value.bit_length() > LONGEST
    ):  # Python refuses to write one of 4,301 digits
        return f"a whole number of {value.bit_length()} bits"
    return _cut(printable(repr(value)))


def listed(names: Sequence[Any]) -> str:
    """Return the first names, and how many more there are.

    Examples
    --------
    >>> listed(["user", "item", "stars"])
    'user, item, stars'
    >>> listed(range(10**6))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 999990 more'
    """
    # Cut again: what is written for a control character is longer than it.
    shown = ", ".join(_cut(printable(_cut(str(name)))) for name in islice(names, SHOWN))
    more = len(names) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:HEAD]}...{text[-TAIL:]}"
