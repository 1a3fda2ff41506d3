"""Headings of a text whose columns are given by number, which else would be taken for its first record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tribit.data.delimited import are_places
from tribit.data.sources import TextColumn
from tribit.data.words import MISSING, Values, as_number, compared

#: Names of the columns of cells that had none: of a wide table or a matrix; and those that lists and predictions have
#: where the columns of the fit were given by number.
NAMES = ("row", "column", "value")
#: Usual headings of columns of ids, without case, underscores and "id".
USUAL = frozenset(
    {"row", "column", "user", "item", "movie", "film", "book", "song", "artist", "track"}
    | {"customer", "client", "person", "product", "thing", "article"}
)


def resolved(
    names: tuple[str, str, str | None], first: Sequence[str]
) -> tuple[str, str, str | None]:
    """Return the columns of a file that tribit wrote, by name where they were given by number; of others as they are.

    Lists have the rows' ids first, wherever the table of the fit had them.
    """
    value = names[2]
    if not are_places([name for name in names if name is not None]):
        return names
    if not set(NAMES[:2]) <= set(first) or (value is not None and int(value) >= len(first)):
        return names
    return NAMES[0], NAMES[1], None if value is None else first[int(value)]


def is_heading(
    rows: TextColumn, columns: TextColumn, values: Values | None, words: set[str]
) -> bool:
    """Return whether the first record of a text is its heading.

    Its value is no number, no given word and not missing where the next one is a number or such a word; without values
    both ids are usual headings, and no other record has them.
    """
    if rows.size < 2:
        return False
    if values is None:
        return all(_usual(ids[0]) and ids.counts[0] == 1 for ids in (rows, columns))
    first, rest = values.texts[0], values._replace(texts=values.texts.take(np.arange(1, rows.size)))

    def is_value(text: str) -> bool:
        known = as_number(text, values.decimal) is not None
        return compared(text, values.decimal) in words if words else known

    if first in MISSING or as_number(first, values.decimal) is not None or is_value(first):
        return False
    return is_value(rest.texts[0]) or (not words and rest.pair() is not None)


def _usual(text: str) -> bool:
    plain = text.casefold().replace("_", "").replace(" ", "").removesuffix("id")
    return plain.removesuffix("s") in USUAL
