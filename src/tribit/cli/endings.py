"""Endings of a command that cannot go on: one sentence on standard error, and an exit code."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import typer

from tribit.errors import Message, TribitError, printable, quoted

INTERRUPTED = 130  #: the exit code of a command that Ctrl-C ended, as shells have it
#: Base of the errors that typer raises for wrong arguments, of which it exports only some subclasses.
UsageError = typer.BadParameter.__mro__[1]


class StoppedError(BaseException):
    """Ctrl-C where nothing is to be kept: no KeyboardInterrupt, at which a solver would keep the best so far."""


@contextmanager
def orderly_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block as errors do, so that half-written files are removed; a second one kills."""
    with (
        _handler(signal.SIGTERM, signal.SIG_DFL, _terminated),
        _handler(signal.SIGINT, signal.default_int_handler, _interrupted),
    ):
        yield


@contextmanager
def until_stopped() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block without an error: so a service ends."""
    try:
        yield
    except StoppedError:
        pass
    except SystemExit as ended:
        if ended.code != 128 + signal.SIGTERM:
            raise


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt inside, for a block that keeps what it has."""
    with _handler(signal.SIGINT, _interrupted, signal.default_int_handler):
        yield


def _terminated(number: int, _: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)


def _interrupted(number: int, _: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise StoppedError("every file is as it was.")


@contextmanager
def _handler(number: int, replaced: Any, handler: Any) -> Iterator[None]:
    """Handle a signal inside, if its handler is the one to be replaced: any other is somebody else's, with reasons."""
    main_thread = threading.current_thread() is threading.main_thread()  # no other may
    if not main_thread or signal.getsignal(number) != replaced:
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, replaced)


def tell(kind: str, message: str) -> None:
    """Write a message to standard error: one line with no control characters."""
    with suppress(OSError):  # then there is nowhere left to tell it
        typer.echo(f"{kind}: {printable(message)}", err=True)


@contextmanager
def told_notes() -> Iterator[None]:
    """Tell what the library finds out about a table while it reads it, one line each."""

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tell("Note", record.getMessage())

    logger, handler = logging.getLogger("tribit.data"), Teller()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def as_typed(shown: BaseException | str, command: Any) -> str:
    """Return an error, a warning or a message with the parameters that it mentions as options of a command."""
    message = shown.args[0] if isinstance(shown, BaseException) and shown.args else shown
    if not isinstance(message, Message):
        return str(shown)
    options = {each.name: each for each in command.get_params(typer.Context(command))}

    def written(name: str, value: str) -> str | None:
        option = options.get(name)
        if option is None or option.param_type_name != "option":
            return None
        if option.is_flag:
            return next(iter(option.secondary_opts if value == "no" else option.opts), None)
        return f"{option.opts[0]} {value}".rstrip()

    return message.for_command_line(written)


def ended_by(error: BaseException, command: Any) -> int:
    """Tell what ended a command and return its exit code; what nobody foresaw is raised again."""
    if isinstance(error, StoppedError):
        tell("Interrupted", str(error))
        return INTERRUPTED
    if isinstance(error, TribitError):
        message = as_typed(error, command)
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


def _usage(error: BaseException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{message}."
    usage = " ".join(context.get_usage().split())
    return f"{message} ({usage}; {context.command_path} --help says more)."


def _refusal(error: OSError) -> str:
    reason = error.strerror or str(error)
    # An error of a file names it; tribit's own writers have reported theirs.
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
