"""The page: everything in one file, which fetches nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from tribit.report.markup import Raw, element, joined, script_data

#: Style and scripts of the page, in their order.
STYLE = ("report.css",)
SCRIPTS = ("charts.js", "sections.js", "maps.js")
CONTENTS = {
    "summary": "Summary",
    "data": "Data",
    "calibration": "Calibration",
    "trade-off": "Lists",
    "search": "Search",
    "maps": "Maps",
    "unusual": "Unusual",
    "examples": "Examples",
    "limits": "Not for",
}


def page(title: str, sections: list[Raw], data: Any, made_by: str) -> str:
    """Return the whole page.

    Parameters
    ----------
    title : str
        Its heading.
    sections : list of Raw
        In the order of ``CONTENTS``.
    data : dict
        Numbers and names of the charts.
    made_by : str
        The last line.
    """
    style, script = _asset(STYLE), _asset(SCRIPTS)
    # Whatever else should have slipped into the page, browsers run this script alone and fetch nothing.
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )
    links = [element("li", element("a", text, href=f"#{name}")) for name, text in CONTENTS.items()]
    body = element(
        "body",
        element("a", "Skip to the summary", href="#summary", class_="skip"),
        element("header", element("h1", title)),
        element("nav", element("ul", *links), aria_label="Contents"),
        element(
            "noscript", element("p", "The charts need JavaScript; their numbers are in tables.")
        ),
        element("main", *sections),
        element("footer", element("p", made_by)),
        element("div", id="hint", aria_hidden="true", hidden=True),
        element("script", script_data(data), type="application/json", id="report-data"),
        element("script", script),
    )
    whole = element("html", head, body, lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def _asset(names: tuple[str, ...]) -> Raw:
    """Return files of the package, one after the other."""
    folder = files("tribit.report") / "assets"
    return joined(Raw((folder / name).read_text(encoding="utf-8")) for name in names)


def _digest(text: str) -> str:
    """Return what a policy calls a script or style by."""
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(found).decode('ascii')}"
