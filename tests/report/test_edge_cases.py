"""Reports of edge cases: tiny tables, one label, one row, no factors; and ids that are markup."""

import json
import re

import numpy as np
import pytest
from jinja2 import UndefinedError

from report_models import NASTY, Parsed, bundle, draw, fixed, named
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender
from tribit.report import make_report
from tribit.report.page import SECTIONS, rounded_values, templates
from tribit.report.wording import MAX_NAME_LENGTH, name_of


def test_likes_alone():
    likes = draw((30, 25))
    likes = likes.take(np.flatnonzero(likes.labels > 0))
    # With factors, so that there is a map.
    model = BinaryMatrixCompletion(rank=2, random_state=0)
    recommender = Recommender(model, random_state=0).fit(likes)
    report = make_report(recommender)
    words = Parsed(report.html).words
    assert "All of them are likes" in words
    assert f"unseen pairs, is {100 * report.evaluation.unseen.auc:.1f}%;" in words
    assert "Not for distinguishing likes from dislikes" in words
    assert recommender.model_.search_.meaning in words
    assert report.facts["calibration"] is None
    unseen = report.evaluation.unseen
    assert report.facts["tenths"] == unseen.tenths
    assert "Expected and held-out likes" in words
    assert f"{unseen.tenths[0][0]:.1f}" in words
    assert "P(seen and liked)" in words
    assert "P(like)" not in words
    facts = report.evaluation.facts()
    expected = sum(each for each, _ in unseen.tenths)
    assert facts["likes held out, and expected"] == f"{unseen.n_entries}, {expected:.1f}"
    assert len(facts["their ratio, by tenths"].split()) == 10
    assert report.facts["trade_off"] is None
    assert report.facts["columns"]["shares"] is None


@pytest.mark.parametrize(
    "matrix",
    [
        [[1, -1], [1, 1]],
        [[1, -1, 1, 1, -1, 1]],
        [[1], [-1], [1], [1], [-1]],
        np.ones((4, 3)),
        -np.ones((4, 3)),
        np.sign(np.random.default_rng(10).standard_normal((9, 7))),
    ],
    ids=["2 x 2", "one row", "one column", "full likes", "full dislikes", "full"],
)
@pytest.mark.filterwarnings(
    "error:.*is empty:tribit.TribitWarning", "error:.*are empty:tribit.TribitWarning"
)
def test_tiny_tables(matrix):
    recommender = Recommender(random_state=0).fit(np.array(matrix, dtype=float))
    report = make_report(recommender)
    parsed = Parsed(report.html)
    assert parsed.tags.count("section") == 10
    assert parsed.data["data"]["rows"] == len(matrix)
    assert not {"nan", "None", "nan%"} & set(re.findall(r"[\w%]+", parsed.words))


@pytest.mark.parametrize(
    ("labels", "match"), [([1], "fitted on 1 entry,"), ([1, -1], "fitted on 2 entries, too few")]
)
def test_too_few_to_hold_one_out(labels, match):
    seen = Observations(np.zeros(len(labels), int), np.arange(len(labels)), labels, (2, 3))
    recommender = Recommender(random_state=0).fit(seen)
    with pytest.raises(InvalidInputError, match=match):
        make_report(recommender)
    report = make_report(recommender, Observations([1], [1], [1], (2, 3)))
    assert report.evaluation.n_entries == 1


def test_effects_alone_have_no_map():
    report = make_report(bundle(draw((12, 10)), rank=0))
    assert report.facts["columns"] is None
    assert "There is no map" in Parsed(report.html).words


def test_no_ranker_says_so():
    seen = draw((20, 15))
    recommender = Recommender(bundle(seen).model, ranker=False, random_state=0).fit(seen)
    words = Parsed(make_report(recommender).html).words
    assert "There is no trade-off:" in words
    assert "there is no ranker" in words


def test_large_tables_are_sampled():
    rng = np.random.default_rng(10)
    shape, n = (1300, 1400), 6000
    cells = rng.choice(shape[0] * shape[1], n, replace=False)
    ids = [
        [f"{side} {k} {'long name ' * 20}" for k in range(size)]
        for side, size in zip("rc", shape, strict=True)
    ]
    seen = Observations(cells // shape[1], cells % shape[1], rng.choice([-1, 1], n), shape, *ids)
    recommender = Recommender(fixed(rank=2, max_iter=5, tol=0.1), ranker=False).fit(seen)
    report = make_report(recommender)
    for side, of in (("rows", 1300), ("columns", 1400)):
        assert (report.facts[side]["drawn"], report.facts[side]["searched"]) == (1200, of)
    counts = np.bincount(seen.columns, minlength=shape[1])
    assert report.facts["columns"]["counts"][:1200].min() >= np.sort(counts)[-1200]
    assert report.size < 1.5e6


@pytest.fixture(scope="module")
def nasty():
    seen = named(draw((20, 16), density=0.6), NASTY)
    return make_report(bundle(seen), title="<script>alert(4)</script>")


def test_a_users_words_are_text(nasty):
    harmless = make_report(bundle(draw((20, 16), density=0.6)))
    odd, plain_page = Parsed(nasty.html), Parsed(harmless.html)
    assert odd.tags == plain_page.tags
    assert [name for name, _ in odd.attributes] == [name for name, _ in plain_page.attributes]
    assert odd.tags.count("script") == 2
    assert "<script>alert" not in nasty.html.lower()
    assert "<img" not in nasty.html
    for mark in ("\x00", "\N{RIGHT-TO-LEFT OVERRIDE}", "\ud800", "\N{LINE SEPARATOR}"):
        assert mark not in nasty.html
    nasty.html.encode("utf-8")
    assert max(len(name) for name in odd.data["columns"]["names"]) <= MAX_NAME_LENGTH
    assert "</script><script>alert(1)</script>" in odd.data["columns"]["names"]
    assert "שלום עולם" in odd.data["columns"]["names"]


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(nasty):
    parsed = Parsed(nasty.html)
    policy = next(value for name, value in parsed.attributes if "default-src" in str(value))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not {"src", "action", "onclick", "style"} & {name for name, _ in parsed.attributes}
    links = [value for name, value in parsed.attributes if name == "href"]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", nasty.html)
    assert not {"link", "iframe", "object", "img"} & set(parsed.tags)


def test_contents_point_to_sections_and_every_chart_has_words(nasty):
    parsed = Parsed(nasty.html)
    ids = [value for name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in parsed.attributes:
        if name == "href":
            assert value[1:] in ids
        if name in ("for", "aria-labelledby", "aria-describedby", "list"):
            assert value in ids
    assert parsed.tags.count("figure") == parsed.tags.count("figcaption") > 5
    assert {"main", "nav", "header", "footer", "h1"} <= set(parsed.tags)


def test_templates_escape_all_but_themselves():
    environment = templates()

    def rendered(source, **values):
        return environment.from_string('{% import "macros.html" as macros %}' + source).render(
            values
        )

    assert (
        rendered('<p title="{{ x }}">{{ x }}</p>', x='"<') == '<p title="&#34;&lt;">&#34;&lt;</p>'
    )
    for source in (
        "{{ macros.row(x, [x]) }}",
        "{{ macros.row(x, [x], id=true) }}",
        "{{ macros.chart(x, x) }}",
        "{{ macros.chart(x, x, x) }}",
        "{% call macros.table(x, [x]) %}{{ x }}{% endcall %}",
        "{% set caption %}{{ x }}{% endset %}{{ macros.chart('name', caption) }}",
        "{{ x|with_article }}{{ 2|with_noun(x) }}{{ '%s of %s'|format(x, x) }}{{ x ~ x|capitalize }}",
    ):
        page = rendered(source, x="<script>&\"'")
        assert "script&gt;&amp;&#34;&#39;" in page
        assert "<script" not in page
    with pytest.raises(UndefinedError):
        rendered("{{ x }}")


def test_data_of_the_charts_cannot_end_their_script():
    page = (
        templates()
        .from_string("{{ x|tojson }}")
        .render(x={"</script>": ["<!--", "&", "\N{LINE SEPARATOR}"]})
    )
    assert not set("<>&\N{LINE SEPARATOR}") & set(page)
    assert json.loads(page) == {"</script>": ["<!--", "&", "\N{LINE SEPARATOR}"]}
    assert rounded_values({"a": np.array([np.nan, 1.0, 0.123456789])}) == {"a": [None, 1, 0.12346]}


def test_names_are_cut_and_printable():
    assert name_of("plain") == "plain"
    assert name_of("a\nb") == r"a\nb"
    assert len(name_of("\x00" * 5000)) <= MAX_NAME_LENGTH


def test_each_section_has_a_template_with_its_heading(nasty):
    shown = [name for name in SECTIONS if f'<h2 id="{name}-title">' in nasty.html]
    assert shown == [name for name in SECTIONS if name != "against"]
    ids = [value for name, value in Parsed(nasty.html).attributes if name == "aria-labelledby"]
    assert ids == [f"{name}-title" for name in shown]
