"""Every link, anchor, image, inclusion and reference by name in the manual leads somewhere; nothing is fetched."""

import importlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
)
PAGES = [page for page in PAGES if not {"_build", "api", "auto_examples"} & set(page.parts)]

FENCE = re.compile(r"^(```+|~~~+).*?^\1`*\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!\})`[^`\n]+`")
LINK = re.compile(r"(?<=\])\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"")
SHOWN = re.compile(r"^[:`]{3,}\{(?:figure|image|include|literalinclude)\} (\S+)", re.MULTILINE)
INCLUDED = re.compile(r"^```\{include\} (\S+)", re.MULTILINE)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r"\{(?:class|func|meth|mod|attr|data|exc)\}`~?([\w.]+)`")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
#: What a build of the manual makes.
BUILT = re.compile(r"auto_examples/|api/")


def text_of(page):
    return page.read_text(encoding="utf-8")


def anchors(page):
    """Return the anchors of a page, as MyST and code hosts make them from headings, those of inclusions too."""
    text = text_of(page)
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading).lower())
        found.add(plain.strip().replace(" ", "-"))
    found |= set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for target in INCLUDED.findall(text):
        found |= anchors(page.parent / target)
    return found


def problem(page, target):
    """Return what is wrong with a link, or None."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        known = parts.scheme in {"http", "https"} and re.fullmatch(
            r"[\w.-]+\.\w+(:\d+)?", parts.netloc
        )
        return None if known or parts.scheme == "mailto" else "is no address"
    if BUILT.match(parts.path):
        return None
    there = page if not parts.path else (page.parent / parts.path).resolve()
    if not there.exists():
        return "does not exist"
    if not there.is_relative_to(ROOT):
        return "is outside of the repository"
    if parts.fragment and (there.suffix != ".md" or parts.fragment not in anchors(there)):
        return "has no such heading"
    return None


def targets(text):
    """Return all that a page leads to or shows."""
    prose = CODE.sub("", FENCE.sub("", text))
    found = [first or second for first, second in LINK.findall(prose)]
    found += SHOWN.findall(text)
    for tree in TOCTREE.findall(text):
        entries = [
            line.strip() for line in tree.splitlines() if line.strip() and line[0] not in ":"
        ]
        found += [entry if BUILT.match(entry) else f"{entry}.md" for entry in entries]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    wrong = {target: problem(page, target) for target in targets(text_of(page))}
    assert not {target: reason for target, reason in wrong.items() if reason}


def test_nothing_waits_to_be_filled_in():
    waiting = [
        (page.name, line)
        for page in PAGES
        for line in re.findall(
            r"^[A-Z]+_[A-Z_]+$|\b(?:TODO|FIXME|XXX)\b", text_of(page), re.MULTILINE
        )
    ]
    assert not waiting


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_pages_are_names_of_the_library(page):
    for name in ROLE.findall(text_of(page)):
        if not name.startswith("tribit"):
            continue
        found = importlib.import_module("tribit")
        for part in name.split(".")[1:]:
            if not hasattr(found, part):
                found = importlib.import_module(f"{found.__name__}.{part}")
            else:
                found = getattr(found, part)


def test_examples_of_the_gallery_are_listed_and_named_as_they_are():
    names = {path.name for path in (ROOT / "examples").glob("plot_*.py")}
    assert names == set(re.findall(r"plot_\w+\.py", text_of(ROOT / "docs/_ext/gallery_order.py")))
    mentioned = {
        name for page in PAGES for name in re.findall(r"plot_\w+(?=\.(?:py|html))", text_of(page))
    }
    assert mentioned <= {Path(name).stem for name in names}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[a](quickstart.md)", None),
        ("[a](no-such-page.md)", "does not exist"),
        ("[a](quickstart.md#no-such-heading)", "has no such heading"),
        ("![a](_static/no-such-picture.png)", "does not exist"),
        ("[a](https:/semver.org)", "is no address"),
        ("```{include} measured/no-such-table.md\n```", "does not exist"),
        ("```{toctree}\n:hidden:\n\nno-such-page\n```", "does not exist"),
        ("[a](../../outside.md)", "does not exist"),
    ],
)
def test_the_test_sees_what_is_wrong(text, reason):
    (target,) = targets(text)
    assert problem(ROOT / "docs/index.md", target) == reason
