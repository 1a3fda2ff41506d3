"""HTML of tables and facts for a notebook, bounded and escaped, and objects that print as a summary, without arrays."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tribit.errors import printable

__all__ = [
    "MAX_CELL_WIDTH",
    "MAX_HTML_COLUMNS",
    "ShowsFit",
    "Summarised",
    "cell_text",
    "html_facts",
    "html_table",
    "html_text",
]

#: Greatest width of a printed cell, in characters; files and JSON have all of them.
MAX_CELL_WIDTH = 60
#: Greatest number of columns of a table in a notebook.
MAX_HTML_COLUMNS = 20


class Summarised:
    """An object that prints as a few facts."""

    __slots__ = ()

    def facts(self) -> dict[str, str]:
        """Return names and facts, none of them long."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}: {fact}" for name, fact in self.facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        """Return the facts for a notebook."""
        return html_facts(type(self).__name__, self.facts())


class ShowsFit:
    """An estimator that a notebook shows as facts on its fit; before the fit as scikit-learn's diagram."""

    def _html_of_fit(self) -> str | None:
        """Return the facts as HTML; None before the fit."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        found = self._html_of_fit()
        shown: Any = super()
        return str(shown._repr_html_()) if found is None else found

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        del options
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def cell_text(value: object) -> str:
    """Return a value of a table in one short line, numbers to four digits."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    text = printable(str(value))
    return text if len(text) <= MAX_CELL_WIDTH else f"{text[: MAX_CELL_WIDTH - 3]}..."


def html_table(table: Mapping[str, Iterable[Any]], size: int) -> str:
    """Return the records of a table, and how many there are in all if it has fewer of them."""
    names = list(table)[:MAX_HTML_COLUMNS]
    records = list(zip(*(table[name] for name in names), strict=True))
    head = "".join(f"<th>{html.escape(cell_text(name))}</th>" for name in names)
    body = "".join(f"<tr>{_cells(record)}</tr>" for record in records)
    left_out = [f"{size} records"] if size > len(records) else []
    left_out += [f"{len(table)} columns"] if len(table) > len(names) else []
    more = f"<p>... {', '.join(left_out)}</p>" if left_out else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def html_facts(title: str, facts: Mapping[str, str]) -> str:
    """Return names and facts under a title."""
    rows = "".join(
        f'<tr><th style="text-align: left">{html.escape(printable(name))}</th>'
        f'<td style="text-align: left">{html.escape(printable(fact))}</td></tr>'
        for name, fact in facts.items()
    )
    return f"<table><caption>{html.escape(printable(title))}</caption><tbody>{rows}</tbody></table>"


def html_text(text: str) -> str:
    """Return lines of text, in a paragraph for each."""
    return "".join(f"<p>{html.escape(printable(line))}</p>" for line in text.splitlines())


def _cells(record: Sequence[Any]) -> str:
    return "".join(f"<td>{html.escape(cell_text(value))}</td>" for value in record)
