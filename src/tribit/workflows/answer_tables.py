"""Tables of answers: the headings of their id columns, and files that they must not overwrite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tribit.data.files import check_different
from tribit.data.headings import NAMES
from tribit.errors import InvalidInputError
from tribit.quoting import quoted
from tribit.workflows.bundles import PathLike, reading_of

#: Standard input and output.
STREAM = "-"


def id_headings(bundle: Any, rules: Any) -> tuple[str, str]:
    """Return the names of the id columns to write."""
    reading = reading_of(bundle, **rules)
    return headings((reading.row, reading.column))


def headings(names: Sequence[str | None]) -> tuple[str, str]:
    """Return names of id columns to write; a number is no heading that a later command would know again."""
    row, column = (
        default if name is None or name.isdecimal() else name
        for name, default in zip(names, NAMES[:2], strict=False)
    )
    return row, column


def check_headings(names: tuple[str, str], answers: Iterable[str]) -> None:
    """Refuse the heading of an id column that is that of an answer."""
    if clash := set(names) & set(answers):
        raise InvalidInputError(
            f"The id column {quoted(clash.pop())} has the name of an answer ({', '.join(answers)}); rename it."
        )


def check_out(out: PathLike | None, *sources: PathLike | None) -> None:
    """Refuse to write over a file that is read; a stream is none."""
    for source in sources:
        if out is not None and source is not None and STREAM not in (str(source), str(out)):
            check_different(source, out)
