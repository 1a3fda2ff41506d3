"""Values of options that are a number or a word: from what was typed to what the library takes."""

from __future__ import annotations

from typing import Any

import typer

#: How such a value is shown in the help.
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
        raise typer.BadParameter(f"{text!r} is neither a whole number nor auto.") from None


def yes_no_or_auto(text: Any) -> Any:
    """Return True, False or "auto"."""
    known = {"yes": True, "no": False, "auto": "auto"}
    if not isinstance(text, str):
        return text
    if text not in known:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(known)}.")
    return known[text]
