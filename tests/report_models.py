"""Small bundles that reports are made of, and what a page holds."""

import json
import re
from html.parser import HTMLParser

import numpy as np

from tribit import BinaryMatrixCompletion, Observations, Recommender

#: Ids that would break a page if one of them entered it as markup.
NASTY = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\"quotes' & &amp; <b>",
    "שלום עולם",
    "turn \N{RIGHT-TO-LEFT OVERRIDE}around",
    "<!--",
    "]]>",
    "line\nbreak\x00nul",
    "\N{LINE SEPARATOR}",
    "x" * 5000,
    "lone \ud800 surrogate",
    "javascript:alert(3)",
)


def draw(shape=(60, 40), density=0.4, seed=10, rank=2):
    """Return likes and dislikes of a low-rank matrix with ids."""
    rng = np.random.default_rng(seed)
    x = 1.6 * rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    i, j = np.nonzero(rng.random(shape) < density)
    labels = np.where(rng.random(i.size) < 1 / (1 + np.exp(-x[i, j])), 1, -1)
    rows = [f"person {k}" for k in range(shape[0])]
    columns = [f"film {k}" for k in range(shape[1])]
    return Observations(i, j, labels, shape, rows, columns)


def named(observations, names):
    """Return observations whose first rows and columns have other names."""
    ids = [list(axis.ids) for axis in observations.axes]
    for each in ids:
        each[: len(names)] = names
    return Observations(
        observations.rows, observations.columns, observations.labels, observations.shape, *ids
    )


def fixed(**options):
    """Return a model without a search, of a known rank."""
    given = {
        "rank": 2,
        "l2": 1.0,
        "l2_intercept": 1.0,
        "search": False,
        "n_jobs": 1,
        "random_state": 0,
    }
    return BinaryMatrixCompletion((1, 0, 0), **(given | options))


def bundle(observations, **options):
    """Return a fitted recommender, without a search."""
    return Recommender(fixed(**options), random_state=0).fit(observations)


class Parsed(HTMLParser):
    """Elements of a page, its text, and the data of its charts."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.attributes = [], [], []
        self.scripts, self._script = [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._script = dict(attrs) if tag == "script" else None

    def handle_endtag(self, tag):  # noqa: ARG002
        self._script = None

    def handle_data(self, data):
        if self._script is None:
            self.text.append(data)
        else:
            self.scripts.append((self._script, data))

    @property
    def data(self):
        return json.loads(next(text for given, text in self.scripts if "id" in given))

    @property
    def words(self):
        return re.sub(r"\s+", " ", " ".join(self.text))
