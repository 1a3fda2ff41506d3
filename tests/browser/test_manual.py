"""The built manual in a browser: nothing wider than its page, and searches that lead to the right page.

It is read from ``docs/_build/html`` (``make docs``), or from the folder in ``TRIBIT_MANUAL``.
"""

import os
import runpy
import time
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
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


@pytest.mark.timeout(300)
def test_a_search_leads_to_its_page_first(show):
    searches = runpy.run_path(DOCS / "conf.py")["searches"]
    first = {}
    for query in searches:
        browser = show(MANUAL / "search.html")
        browser.get(f"{(MANUAL / 'search.html').as_uri()}?q={query.replace(' ', '+')}")
        for _ in range(100):
            links = browser.find_elements("css selector", "#search-results ul.search li a")
            if links:
                break
            time.sleep(0.05)
        name = links[0].get_attribute("href") if links else ""
        first[query] = name.rpartition("/")[2].partition(".html")[0]
    assert first == searches
