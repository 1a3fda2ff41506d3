"""The page with a search box, and its content security policy."""

import base64
import hashlib
import re

import pytest

from service_parts import client_of, fitted
from tribit.data.reading import Reading


def hash_of(page, tag):
    content = re.search(f"<{tag}>(.*?)</{tag}>", page.text, re.DOTALL)[1]
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@pytest.mark.parametrize(("path", "tags"), [("/", ["style", "script"]), ("/docs", ["style"])])
def test_a_page_runs_nothing_else(client, path, tags):
    page = client.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in tags:
        assert f"{tag}-src 'sha256-{hash_of(page, tag)}'" in policy
    assert not re.search(r"https?://(?!127)|innerHTML|\son\w+=|\sstyle=|url\(", page.text)


def test_the_page_speaks_of_the_columns_of_the_table(client):
    page = client.get("/").text
    assert "40 users and 25 items" in page
    assert "User id <input" in page
    assert 'href="docs"' in page
    assert 'href="./"' in client.get("/docs").text


@pytest.mark.parametrize(
    ("heading", "noun"), [(None, "Row id"), ("<b>", "Row id"), ("user_id", "User id")]
)
def test_headings_of_any_kind(tmp_path, heading, noun):
    recommender = fitted()
    recommender.reading_ = Reading(row=heading, column="item", layout="long")
    recommender.save(tmp_path / "m.tribit")
    client = client_of(tmp_path / "m.tribit")
    page = client.get("/").text
    assert noun in page
    assert "<b>" not in page
    name = heading or "row"
    assert client.get("/recommend", params={name: "r3"}).status_code == 200


def test_a_model_without_entries_has_no_reasons(tmp_path):
    fitted(keep_seen=False).save(tmp_path / "m.tribit")
    page = client_of(tmp_path / "m.tribit").get("/").text
    assert 'data-entries="no"' in page
    assert "there are no reasons" in page
