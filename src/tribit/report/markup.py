"""Markup of a page, in which a user's words can only be text: every string is escaped unless it is :class:`Raw`."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

#: Elements that have no end.
VOID = frozenset({"input", "meta", "br"})
#: Characters that could end a script or begin a comment inside of one; the first two are lines to JavaScript.
UNSAFE_IN_SCRIPTS = {
    mark: f"\\u{ord(mark):04x}"
    for mark in ("\N{LINE SEPARATOR}", "\N{PARAGRAPH SEPARATOR}", *"<>&")
}
#: Significant digits of numbers in the data of the charts: a picture shows three.
DIGITS = 5


class Raw(str):
    """Markup that is written as it stands."""

    __slots__ = ()


def element(tag: str, *children: Any, **attributes: Any) -> Raw:
    """Return an element; children that are no markup are escaped, None and False attributes left out.

    An attribute's name has ``_`` for ``-``, and a last one where Python needs it: ``class_``, ``aria_label``.

    Examples
    --------
    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        words.append(name if value is True else f'{name}="{html.escape(str(value))}"')
    start = f"<{' '.join(words)}>"
    return Raw(start if tag in VOID else f"{start}{joined(children)}</{tag}>")


def joined(children: Iterable[Any]) -> Raw:
    """Return children one after the other; lists of them are opened, None is nothing."""
    parts = []
    for child in children:
        if isinstance(child, Raw):
            parts.append(str(child))
        elif isinstance(child, list | tuple):
            parts.append(str(joined(child)))
        elif child is not None:
            parts.append(html.escape(str(child)))
    return Raw("".join(parts))


def paragraphs(sentences: Sequence[Any], **attributes: Any) -> Raw:
    """Return one paragraph for each text."""
    return joined(element("p", text, **attributes) for text in sentences)


def name_of(text: Any) -> Raw:
    """Return a user's id, kept apart from the direction of the text around it."""
    return element("bdi", text)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Raw:
    """Return a table whose first cell of each row names it."""
    body = [
        element(
            "tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])
        )
        for row in rows
    ]
    top = element("tr", *(element("th", name, scope="col") for name in head))
    whole = element(
        "table",
        element("caption", caption),
        element("thead", top),
        element("tbody", *body),
    )
    return element("div", whole, class_="wide", tabindex="0", role="region", aria_label=caption)


def folded(title: str, *children: Any) -> Raw:
    """Return what opens when its title is asked for."""
    return element("details", element("summary", title), *children)


def chart(name: str, caption: Any, *beside: Any, alternative: Raw | None = None) -> Raw:
    """Return the place of a chart that the script of the page draws, with its caption and its numbers as a table."""
    place = element("div", class_="chart", id=f"chart-{name}")
    return element(
        "figure",
        place,
        *beside,
        element("figcaption", caption),
        None if alternative is None else folded("The numbers", alternative),
        id=f"figure-{name}",
    )


def script_data(values: Any) -> Raw:
    """Return values as JSON that can stand inside of a script element."""
    text = json.dumps(
        rounded_values(values), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    for mark, escaped in UNSAFE_IN_SCRIPTS.items():
        text = text.replace(mark, escaped)
    return Raw(text)


def rounded_values(values: Any) -> Any:
    """Return values as JSON has them: numbers rounded, None for what is none."""
    if isinstance(values, dict):
        return {str(name): rounded_values(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [rounded_values(value) for value in values]
    if hasattr(values, "tolist"):
        return rounded_values(values.tolist())
    if isinstance(values, float):
        return _rounded(values)
    return values


def _rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    # Shorter, and no -0 that differs from 0 by a bit of a sum.
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
