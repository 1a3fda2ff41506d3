"""The built manual in a browser: nothing wider than its page, and searches that lead to the right page.

It is read from ``docs/_build/html`` (``make docs``), or from the folder in ``TRIBIT_MANUAL``.
"""

import os
import re
import runpy
import time
from pathlib import Path
from urllib.parse import quote_plus

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = runpy.run_path(DOCS / "conf.py")
MANUAL = Path(os.environ.get("TRIBIT_MANUAL", DOCS / "_build" / "html"))
#: Elements that reach over the right edge of the page without a box that scrolls or clips them, and code that is cut.
TOO_WIDE = """
const edge = document.documentElement.clientWidth + 1;
const boxed = element => {
  for (let each = element; each && each !== document.body; each = each.parentElement) {
    const style = getComputedStyle(each);
    if (each !== element && style.overflowX !== 'visible') return true;
    if (style.position === 'fixed' || style.visibility === 'hidden') return true;
  }
  return false;
};
const wide = [...document.querySelectorAll('body *')].filter(element => {
  const box = element.getBoundingClientRect();
  return box.width && box.right > edge && !boxed(element);
});
const cut = [...document.querySelectorAll('pre, h1, h2, h3')].filter(each => each.scrollWidth > each.clientWidth + 1);
return [...wide, ...cut].slice(0, 3).map(each => each.outerHTML.slice(0, 80));
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (MANUAL / "index.html").exists(), reason="the manual was not built"),
]


@pytest.fixture(autouse=True)
def forgotten_log(browser):
    """Leave no messages of these pages to other tests, which share the browser and read its log."""
    yield
    browser.get("about:blank")  # ends pending requests, whose errors would come later
    browser.get_log("browser")


def pages():
    return sorted(page for page in MANUAL.rglob("*.html") if "_static" not in page.parts)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [1300, 400])
def test_nothing_is_wider_than_its_page(show, width):
    assert len(pages()) > 100
    found = {page.name: show(page, width).execute_script(TOO_WIDE) for page in pages()}
    assert {name: wide for name, wide in found.items() if wide} == {}


def results(show, query):
    """Return the pages that a search finds, best first."""
    show(MANUAL / "search.html")
    browser = show(f"{(MANUAL / 'search.html').as_uri()}?q={quote_plus(query)}")
    for _ in range(100):
        summary = browser.find_elements("css selector", "#search-results .search-summary")
        if summary and re.search("found|did not match", summary[0].text):
            break
        time.sleep(0.05)
    links = browser.find_elements("css selector", "#search-results ul.search > li > a:first-child")
    addresses = [link.get_attribute("href") for link in links[:10]]
    return [each.rpartition("/")[2].partition(".html")[0] for each in addresses]


@pytest.mark.timeout(300)
def test_a_search_leads_to_its_page_first(show):
    searches = SETTINGS["searches"]
    assert {query: results(show, query)[:1] for query in searches} == {
        query: [page] for query, page in searches.items()
    }


@pytest.mark.timeout(300)
def test_questions_of_new_users_are_answered_in_two_clicks(show):
    """By the page itself, or by an answer in the FAQ with a link to the page, among the first three results."""
    answered = set(SETTINGS["questions"].values())
    linked = (DOCS / "faq.md").read_text(encoding="utf-8")
    assert [page for page in answered if f"({page}.md" not in linked] == []
    missed = {}
    for query, page in SETTINGS["questions"].items():
        found = results(show, query)[:3]
        if not {page, "faq"} & set(found):
            missed[query] = found
    assert missed == {}
