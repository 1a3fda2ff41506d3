"""How a command ends that cannot go on: one sentence on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TextIO

import typer

from tribit.cli.words import spoken
from tribit.errors import TribitError
from tribit.quoting import printable, quoted

#: What typer raises where the words of a command cannot be used; it exports only some of its kinds.
UsageError = typer.BadParameter.__mro__[1]


def tell(kind: str, message: str) -> None:
    """Write a message to standard error: one line in the words of the command line, with no control characters."""
    with suppress(OSError):  # then there is nowhere left to tell it
        typer.echo(f"{kind}: {printable(spoken(message))}", err=True)


def ended_by(error: Exception) -> int:
    """Tell what ended a command and return its exit code; what nobody foresaw is raised again."""
    if isinstance(error, TribitError):
        message = str(error)
    elif isinstance(error, UsageError):
        message = _usage(error)
    elif isinstance(error, MemoryError):
        message = "There is not enough memory; ask for less at once, or use a machine with more."
    elif isinstance(error, OSError):
        message = _refusal(error)
    else:
        raise error
    tell("Error", message)
    return 2


def _usage(error: Exception) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{message}."
    usage = " ".join(context.get_usage().split())
    return f"{message} ({usage}; {context.command_path} --help says more)."


def _refusal(error: OSError) -> str:
    reason = error.strerror or str(error)
    # An error of a file names it; tribit's own writers have told theirs.
    if _is_stuck(sys.stdout) or (error.errno == errno.ENOSPC and error.filename is None):
        return f"Standard output could not be written ({reason}); make room, or send it elsewhere."
    where = "" if error.filename is None else f" ({quoted(error.filename)})"
    return f"The system says: {reason}{where}; check paths, permissions and free space."


def _is_stuck(stream: TextIO) -> bool:
    """Return whether a stream holds what it cannot write; it is dropped then, or Python would try again at its end."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return True
    return False
