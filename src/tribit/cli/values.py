"""Values of options, from what was typed to what the library takes, and options that are made when asked for."""

from __future__ import annotations

import re
from typing import Any

import typer

from tribit.errors import quoted

#: Placeholder of such a value in the help.
VALUE = "number|auto"


def number_or_word(text: Any) -> Any:
    """Return a number, None for "none", or the word itself, which the library knows or refuses."""
    if not isinstance(text, str):
        return text
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def whole_or_auto(text: Any) -> Any:
    """Return a whole number, or "auto"."""
    if not isinstance(text, str) or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{quoted(text)} is neither a whole number nor auto.") from None


def words(text: Any) -> Any:
    """Return the words between commas."""
    return [word.strip() for word in text.split(",")] if isinstance(text, str) else text


def size(text: Any) -> Any:
    """Return a number of bytes: digits, or with K, M, G or T that many times 1024."""
    if not isinstance(text, str):
        return text
    known = re.fullmatch(r"(\d{1,18})([KMGT]?)(i?B)?", text.strip(), re.ASCII | re.IGNORECASE)
    if known is None or not int(known[1]):
        raise typer.BadParameter(f"{quoted(text)} is no size in bytes, such as 500M or 4G.")
    return int(known[1]) * 1024 ** ["", "K", "M", "G", "T"].index(known[2].upper())


def yes_no_or_auto(text: Any) -> Any:
    """Return True, False or "auto"."""
    known = {"yes": True, "no": False, "auto": "auto"}
    if not isinstance(text, str):
        return text
    if text not in known:
        raise typer.BadParameter(f"{quoted(text)} is none of {', '.join(known)}.")
    return known[text]


#: Name of standard input and output.
STREAM = "-"


def check_out(out: Any, *sources: Any) -> None:
    """Refuse to write over a file that is read, and a path that cannot be written; a stream is neither."""
    from tribit.data.files import check_different, writable  # noqa: PLC0415 - help should not wait

    if out is not None and str(out) != STREAM:
        writable(out)  # before the work
    for source in sources:
        if out is not None and source is not None and STREAM not in (str(source), str(out)):
            check_different(source, out)
