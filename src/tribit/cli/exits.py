"""Signals, messages on standard error, and exit codes."""

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

#: Exit code after Ctrl-C, as in shells.
INTERRUPTED = 130
#: Base of the errors that typer raises for wrong arguments, of which it exports only some subclasses.
UsageError = typer.BadParameter.__mro__[1]


class StoppedError(BaseException):
    """Ctrl-C in a command that keeps no partial result; a KeyboardInterrupt would make a solver keep one."""


@contextmanager
def orderly_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block as errors do, so that half-written files are removed; a second one kills."""
    with (
        _handler(signal.SIGTERM, signal.SIG_DFL, _on_sigterm),
        _handler(signal.SIGINT, signal.default_int_handler, _on_sigint),
    ):
        try:
            yield
        except RuntimeError as error:
            # Python 3.11 wraps what is raised while a class is made, as it is where a module is imported.
            if isinstance(error.__cause__, SystemExit | StoppedError):
                raise error.__cause__ from None
            raise


@contextmanager
def until_stopped() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block, a running service, without an error."""
    try:
        yield
    except StoppedError:
        pass
    except SystemExit as ended:
        if ended.code != 128 + signal.SIGTERM:
            raise


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt inside, for a block that keeps a partial result."""
    with _handler(signal.SIGINT, _on_sigint, signal.default_int_handler):
        yield


def _on_sigterm(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)


def _on_sigint(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise StoppedError("no file was changed.")


@contextmanager
def _handler(number: int, replaced: object, handler: Any) -> Iterator[None]:
    """Handle a signal inside, unless another program has put a handler of its own there."""
    main_thread = threading.current_thread() is threading.main_thread()  # Python allows no other
    if not main_thread or signal.getsignal(number) != replaced:
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, replaced)


def print_message(kind: str, message: str) -> None:
    """Write a message to standard error: one line with no control characters."""
    with suppress(OSError):  # standard error is closed
        typer.echo(f"{kind}: {printable(message)}", err=True)


@contextmanager
def data_notes() -> Iterator[None]:
    """Print the library's notes on a table while it is read, one line each."""

    class NoteHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print_message("Note", record.getMessage())

    with _at_info("tribit.data", NoteHandler()):
        yield


#: Seconds after which a stage has a line where there is no bar: the result of a short one comes soon.
SECONDS_WITHOUT_LINE = 5.0


@contextmanager
def stage_lines() -> Iterator[None]:
    """Print a line for each long stage of a computation where standard error is no terminal, which has a bar."""

    class LineHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            about = record.__dict__
            if about.get("shown") and about.get("seconds", 0.0) >= SECONDS_WITHOUT_LINE:
                print_message("Progress", record.getMessage())

    if _is_terminal(sys.stderr):
        yield
        return
    with _at_info("tribit.progress", LineHandler()):
        yield


def _is_terminal(stream: TextIO | None) -> bool:
    with suppress(ValueError):  # it is closed
        return stream is not None and stream.isatty()
    return False


@contextmanager
def _at_info(name: str, handler: logging.Handler) -> Iterator[None]:
    """Add a handler to a logger and let it log at the level INFO."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def in_options(shown: BaseException | str, command: Any) -> str:
    """Return the text of an error, warning or message, with parameters written as options of a command."""
    message = shown.args[0] if isinstance(shown, BaseException) and shown.args else shown
    if not isinstance(message, Message):
        return str(shown)
    options = {each.name: each for each in command.get_params(typer.Context(command))}

    def write_option(name: str, value: str) -> str | None:
        option = options.get(name)
        if option is None or option.param_type_name != "option":
            return None
        if option.is_flag:
            return next(iter(option.secondary_opts if value == "no" else option.opts), None)
        return f"{option.opts[0]} {value}".rstrip()

    return message.for_command_line(write_option)


def exit_code(error: BaseException, command: object) -> int:
    """Print the message of an error that ended a command and return the exit code; raise an unforeseen error again."""
    if isinstance(error, StoppedError):
        print_message("Interrupted", str(error))
        return INTERRUPTED
    if isinstance(error, TribitError):
        message = in_options(error, command)
    elif isinstance(error, UsageError):
        message = _usage_message(error)
    elif isinstance(error, MemoryError):
        message = (
            "There is not enough memory; request less at once, or use a machine with more memory."
        )
    elif isinstance(error, OSError):
        message = _system_message(error)
    else:
        raise error
    print_message("Error", message)
    return 2


def _usage_message(error: BaseException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{message}."
    usage = " ".join(context.get_usage().split())
    return f"{message} ({usage}; see {context.command_path} --help)."


def _system_message(error: OSError) -> str:
    reason = error.strerror or str(error)
    # An error of a file names it; tribit's own writers have reported theirs.
    if _is_stuck(sys.stdout) or (error.errno == errno.ENOSPC and error.filename is None):
        return f"Standard output could not be written ({reason}); make room, or send it elsewhere."
    where = "" if error.filename is None else f" ({quoted(error.filename)})"
    return f"The system says: {reason}{where}; check paths, permissions and free space."


def _is_stuck(stream: TextIO) -> bool:
    """Return whether a stream cannot write its buffer; drop the buffer then, which Python would try again at exit."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return True
    return False
