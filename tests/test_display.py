"""Objects in a notebook and at the prompt: short, escaped, and without arrays."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, Observations, Recommender, cross_validate
from tribit.display import Summarised, html_facts, html_table
from tribit.report import make_report, write_report

NASTY = "<script>alert(1)</script>"
#: Most characters of a repr and of a page.
MAX_TEXT, MAX_PAGE = 12_000, 20_000


def entries(draws):
    labels = draws.choice([-1, 0, 1], (400, 60))
    i, j = np.nonzero(labels)
    rows = [f"{NASTY}\x1b{n}" for n in range(400)]
    columns = [f"{NASTY}{'long ' * 200}{n}" for n in range(60)]
    return Observations(i, j, labels[i, j], labels.shape, rows, columns)


@pytest.fixture(scope="module")
def recommender():
    model = BinaryMatrixCompletion(n_candidates=3, members=1, random_state=0, n_jobs=1)
    return Recommender(model, random_state=0).fit(entries(np.random.default_rng(0)))


@pytest.fixture(scope="module")
def shown(recommender):
    """Return what a cell of a notebook may end in, by name."""
    seen, model = recommender.seen_, recommender.model_
    row, column = seen.row_ids[0], seen.column_ids[0]
    return {
        "observations": seen,
        "model": model,
        "recommender": recommender,
        "fitted": model.fitted_,
        "member": model.fitted_.members[0],
        "scores": model.scores_,
        "factors": model.scores_.factors,
        "axis": seen.axes.rows,
        "search": model.search_,
        "cross-validation": cross_validate(
            BinaryMatrixCompletion(rank=1, l2=1.0, search=False), seen, 2, random_state=0
        ),
        "report": make_report(recommender, title=NASTY),
        "lists": recommender.recommend(None, 10, level=None),
        "predictions": recommender.predictions((seen.row_ids, column)),
        "explanation": recommender.explain(row, column),
        "neighbours": recommender.similar(rows=seen.row_ids[:20]),
        "vectors": recommender.vectors(),
        "info": recommender.info(),
    }


NAMES = [
    *("observations", "model", "recommender", "fitted", "member", "scores", "factors", "axis"),
    *("search", "cross-validation", "report", "lists", "predictions", "explanation"),
    *("neighbours", "vectors", "info"),
]


class Tags(HTMLParser):
    """Tags of a page."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_starttag(self, tag, _):
        self.found.add(tag)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_a_short_page_without_markup_of_ids(shown, name):
    page = shown[name]._repr_html_()
    assert 0 < len(page) < MAX_PAGE
    assert Tags(page).found <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "a"}
    assert "\x1b" not in page


@pytest.mark.parametrize("name", NAMES)
def test_the_prompt_shows_a_short_text(shown, name):
    text = repr(shown[name])
    assert 0 < len(text) < MAX_TEXT
    assert "array(" not in text
    assert "\x1b" not in text


def test_every_object_is_tested(shown):
    assert list(shown) == NAMES


def test_a_fitted_estimator_shows_its_fit_and_one_before_the_fit_its_parameters(recommender):
    for fitted in (recommender, recommender.model_):
        bundle = fitted._repr_mimebundle_()
        assert bundle == {"text/plain": repr(fitted), "text/html": fitted._repr_html_()}
        assert "400 x 60" in bundle["text/html"]
        assert "sk-" in type(fitted)()._repr_html_()  # scikit-learn's diagram


def test_observations_show_what_was_read():
    frame = pd.DataFrame({"user": ["ann", "bo"], "film": ["Heat", "Ran"], "like": [1, 0]})
    facts = Observations.from_frame(frame, row="user", column="film", value="like").facts()
    assert facts["rows (user)"] == "2: ann, bo"
    assert facts["columns (film)"] == "2: Heat, Ran"
    assert (facts["likes"], facts["observed"]) == ("1", "2 of 4 (50.00%)")
    assert Observations.from_matrix([[1, 0], [-1, 1]]).facts()["read as"] == "0 is unobserved"


def test_a_report_shows_a_link(shown, recommender, tmp_path, monkeypatch):
    report = shown["report"]
    assert "not written: use write(path)" in repr(report)
    folder = tmp_path / "a & <b>"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    written = report.write(folder / "my report.html")
    assert written.path.read_text(encoding="utf-8") == report.html
    page = written._repr_html_()
    assert 'href="a%20%26%20%3Cb%3E/my%20report.html"' in page
    assert "<b>" not in page
    assert str(written.path) in repr(written)
    again = write_report(recommender, "page.html", title=NASTY)
    assert (again.path, again.html) == (Path("page.html"), report.html)


def test_an_explanation_shows_its_terms_and_ten_entries(shown):
    found = shown["explanation"]
    page = replace(found, names=("user", "film"))._repr_html_()
    assert {"user effect", "film effect", "labels of the user"} <= set(
        page.replace("<td>", "</td>").split("</td>")
    )
    n = len(found.entries)
    assert n > 10
    assert page.count("<tr>") == 1 + len(found.parts) + 1 + 10
    assert page.endswith(f"<p>... {n} records</p>")


def test_facts_and_tables_are_escaped():
    class Thing(Summarised):
        def facts(self):
            return {"<i>": "a & b"}

    assert repr(Thing()) == "Thing(<i>: a & b)"
    assert "&lt;i&gt;</th>" in Thing()._repr_html_()
    assert html_facts("<u>", {}).startswith("<table><caption>&lt;u&gt;")
    assert html_table({"<x>": ["<y>", 0.123456]}, 2).count("&lt;") == 2
