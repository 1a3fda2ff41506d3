"""The page speaks of users and films where the table does."""

import re

import numpy as np
import pytest

from report_models import Parsed, bundle, draw
from tribit import BinaryMatrixCompletion, Recommender
from tribit.data.reading import Reading
from tribit.nouns import Nouns, noun, plural, with_article
from tribit.report import make_report


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("user", "user"),
        ("User_ID", "user"),
        ("movieId", "movie"),
        ("items", "item"),
        ("customer no", "customer"),
        ("product_category", "product category"),
        ("grid", "grid"),
        ("movies", None),  # of "movie", but "cities" are of "city"
        ("0", None),
        ("x", None),
        ("row", None),
        ("<b>user</b>", None),
        ("a heading that is a whole sentence", None),
        (None, None),
    ],
)
def test_nouns_of_headings(heading, expected):
    assert noun(heading) == expected


def test_plurals_and_articles():
    assert [plural(each) for each in ("user", "city", "day", "box", "person")] == [
        "users",
        "cities",
        "days",
        "boxes",
        "people",
    ]
    assert [with_article(each) for each in ("user", "item", "umbrella", "film")] == [
        "a user",
        "an item",
        "an umbrella",
        "a film",
    ]


@pytest.mark.parametrize(
    "reading",
    [None, Reading(), Reading(row="0", column="1"), Reading(row="user", column="users")],
    ids=str,
)
def test_without_two_nouns_they_are_rows_and_columns(reading):
    assert Nouns.of(reading) == Nouns("row", "column")


def test_a_page_uses_the_headings_of_the_table_everywhere():
    seen = draw((30, 20))
    fitted = bundle(seen)
    fitted.reading_ = Reading(row="user_id", column="film", value="stars")
    parsed = Parsed(make_report(fitted).html)
    said = [parsed.words.split("Skip to the summary")[1]]  # after the style
    said += [value for name, value in parsed.attributes if name in {"aria-label", "title"}]
    assert not [text for text in said if re.search(r"\b(rows?|columns?)\b", text)]
    for words in ("30 users and 20 films", "user and film biases", "Maps of films and users"):
        assert words in parsed.words
    assert parsed.data["words"] == {
        "row": "user",
        "rows": "users",
        "column": "film",
        "columns": "films",
    }


def test_every_measure_and_hyperparameter_of_a_page_is_explained():
    train, test = draw((40, 30), 0.5).split(0.3, random_state=0)
    likes = draw((30, 25))
    likes = likes.take(np.flatnonzero(likes.labels > 0))
    options = {"rank": 2, "l2": 1.0, "l2_intercept": 1.0, "search": False, "random_state": 0}
    of_likes = Recommender(BinaryMatrixCompletion((0, 1, 0), **options), random_state=0).fit(likes)
    for fitted, held_out in ((bundle(train), test), (of_likes, None)):
        facts = make_report(fitted, held_out).facts
        titles = {each["title"] for each in facts["measures"]["rows"]}
        assert titles
        assert titles | set(facts["measures"]["baselines"]) <= set(facts["terms"]["measures"])
        assert {"rank", "l2", "l2_intercept"} <= set(facts["terms"]["hyperparameters"])
