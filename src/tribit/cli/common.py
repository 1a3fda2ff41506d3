"""The application, and the options, value parsers and output that its commands share."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tribit.errors import printable, quoted

app = typer.Typer(
    name="tribit",
    help="Binary matrix completion from likes, dislikes and the unobserved entries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: Name of standard input and output.
STREAM = "-"
#: Placeholder in the help for a number that may be chosen from the data.
NUMBER_OR_AUTO = "number|auto"


def number_or_word(text: object) -> Any:
    """Return a number, None for "none", or the word itself, which the library accepts or refuses."""
    if not isinstance(text, str):
        return text
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def whole_or_auto(text: object) -> Any:
    """Return a whole number, or "auto"."""
    if not isinstance(text, str) or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{quoted(text)} is neither a whole number nor auto.") from None


def share_or_count(text: object) -> Any:
    """Return a share (a number with a decimal point) or a count (a whole number)."""
    if not isinstance(text, str):
        return text
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise typer.BadParameter(
            f"{quoted(text)} is neither a share, such as 0.1, nor a count, such as 500."
        ) from None


def yes_no_or_auto(text: object) -> Any:
    """Return True, False or "auto"."""
    known = {"yes": True, "no": False, "auto": "auto"}
    if not isinstance(text, str):
        return text
    if text not in known:
        raise typer.BadParameter(f"{quoted(text)} is none of {', '.join(known)}.")
    return known[text]


def split_words(text: object) -> Any:
    """Return the words between commas."""
    return [word.strip() for word in text.split(",")] if isinstance(text, str) else text


def size(text: object) -> Any:
    """Return a number of bytes: digits, or with K, M, G or T that many times 1024."""
    if not isinstance(text, str):
        return text
    known = re.fullmatch(r"(\d{1,18})([KMGT]?)(i?B)?", text.strip(), re.ASCII | re.IGNORECASE)
    if known is None or not int(known[1]):
        raise typer.BadParameter(f"{quoted(text)} is no size in bytes, such as 500M or 4G.")
    return int(known[1]) * 1024 ** ["", "K", "M", "G", "T"].index(known[2].upper())


MaxSize = Annotated[
    Any,
    typer.Option(
        "--max-size",
        parser=size,
        metavar="bytes",
        help="Limit on the size of the unpacked table: 500M, 4G [200 times the file's size, from 32M to 4G].",
        show_default=False,
    ),
]
EscapeFormulas = Annotated[
    bool | None,
    typer.Option(
        "--escape-formulas/--no-escape-formulas",
        help="Put ' before ids that a spreadsheet would evaluate; tribit then reads other ids [no, with a warning].",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
ModelPath = Annotated[Path, typer.Argument(help="A model that tribit fit wrote.")]

ModelOrTable = Annotated[
    Path,
    typer.Argument(
        help="A model that tribit fit wrote; or a table of entries, read by the rules below."
    ),
]


def check_out(out: Any, *sources: Any) -> None:
    """Refuse to write over a file that is read, and a path that cannot be written; a stream is neither."""
    from tribit.data.files import check_different, writable  # noqa: PLC0415 - help should not wait

    if out is not None and str(out) != STREAM:
        writable(out)  # before the work
    for source in sources:
        if out is not None and source is not None and STREAM not in (str(source), str(out)):
            check_different(source, out)


def print_facts(facts: dict[str, str], out: Path | None = None) -> None:
    """Print names and facts in two columns: to standard error where standard output has the table, ``out`` being -."""
    width = max(map(len, facts))
    for name, fact in facts.items():
        typer.echo(f"{name:<{width}}  {printable(fact)}", err=str(out) == STREAM)


def print_json(found: object) -> None:
    """Print JSON, with null for infinite numbers and NaN."""
    from tribit.answers import as_json_values  # noqa: PLC0415 - help should not wait

    typer.echo(json.dumps(as_json_values(found), ensure_ascii=False, indent=2))
