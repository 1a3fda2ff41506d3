"""Base class of results: a table that can be printed, converted to a data frame or JSON, and written to a file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tribit.data.axis import AnyArray
from tribit.data.tables import finite_or_none, write_table
from tribit.display import cell_text, html_table
from tribit.errors import InvalidInputError, printable, quoted

__all__ = ["Answer", "as_json_values", "check_headings", "skipped_remark", "text_table", "with_ids"]

#: Greatest number of records that are printed.
MAX_PRINTED_RECORDS = 60


class Answer(ABC):
    """Base class of results.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> answer = Recommender(random_state=0).fit(A).predictions(([0, 1], [2, 2]))
    >>> answer.to_dict()[0]["column"]
    2
    >>> answer.to_frame().shape
    (2, 5)
    """

    @abstractmethod
    def table(self) -> dict[str, AnyArray]:
        """Return the result as columns of equal length, by name."""

    def facts(self) -> dict[str, str]:
        """Return a summary, which the command line prints when the table is written to a file."""
        return {}

    def to_dict(self) -> Any:
        """Return the result as plain values for JSON; by default a mapping for each record."""
        table = {name: values.tolist() for name, values in self.table().items()}
        return [
            dict(zip(table, record, strict=True)) for record in zip(*table.values(), strict=True)
        ]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        return pandas().DataFrame(self.table())

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        escape_formulas: bool | None = None,
        verbose: int = 0,  # noqa: ARG002 - for answers that are written in blocks
    ) -> None:
        """Write the table to a file, in the format of its name (:func:`tribit.data.tables.write_blocks`).

        ``verbose=1`` shows a progress bar on a terminal if the table is written in blocks.
        """
        write_table(path, self.table(), escape_formulas=escape_formulas)

    def check(self) -> None:  # noqa: B027 - most answers are never empty
        """Refuse an empty answer, for the command line."""

    def shown_table(self, most: int) -> dict[str, AnyArray]:  # noqa: ARG002 - for tables that are computed in parts
        """Return at least the first ``most`` records of the table, for a notebook."""
        return self.table()

    def text(self, most: int | None = None) -> str:
        """Return the answer for a terminal, with at most ``most`` records."""
        return text_table(self.table(), most)

    def __str__(self) -> str:
        return self.text(MAX_PRINTED_RECORDS)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        table = self.shown_table(MAX_PRINTED_RECORDS)
        size = max((len(values) for values in table.values()), default=0)
        shown = {name: values[:MAX_PRINTED_RECORDS].tolist() for name, values in table.items()}
        return html_table(shown, size)


def pandas(what: str = "to_frame", advice: str = ", or use table() or to_dict()") -> Any:
    """Return the module pandas, which is no requirement; the error names the method that needs it."""
    try:
        import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise InvalidInputError(
            f"{what} needs pandas, which is not installed; install it{advice}."
        ) from None
    return pd


def text_table(table: Mapping[str, AnyArray], most: int | None = None) -> str:
    """Return a table as aligned text, with numbers to four digits."""
    size = max((len(values) for values in table.values()), default=0)
    columns = [
        [printable(name), *(cell_text(value) for value in values[:most].tolist())]
        for name, values in table.items()
    ]
    widths = [max(map(len, column)) for column in columns]
    right = [values.dtype.kind in "iuf" for values in table.values()]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in zip(*columns, strict=True)
    ]
    if most is not None and size > most:
        lines.append(f"... {size} records")
    return "\n".join(lines)


def with_ids(
    names: tuple[str, str], ids: tuple[AnyArray, AnyArray], columns: dict[str, AnyArray]
) -> dict[str, AnyArray]:
    """Return a table that begins with two columns of ids, whose headings must differ from the others."""
    check_headings(names, columns)
    return {**dict(zip(names, ids, strict=True)), **columns}


def check_headings(names: Iterable[str], columns: Collection[str]) -> None:
    """Refuse headings of id columns that an answer has for its own columns."""
    if clash := sorted(set(names) & set(columns)):
        raise InvalidInputError(
            f"The id column {quoted(clash[0])} has the name of a column of the answer "
            f"({', '.join(columns)}); rename it."
        )


def skipped_remark(count: int) -> str:
    """Return a remark on the number of records that were left out."""
    return f" ({count} with unknown ids left out)" if count else ""


def as_json_values(value: object, write: Callable[[Any], Any] = finite_or_none) -> Any:
    """Return a value for JSON: arrays as lists, and NumPy's numbers as Python's.

    ``write`` is applied to single values; by default infinite numbers and NaN are None.
    """
    if isinstance(value, Mapping):
        return {str(name): as_json_values(each, write) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_values(each, write) for each in value]
    return as_json_values(value.tolist(), write) if hasattr(value, "tolist") else write(value)
