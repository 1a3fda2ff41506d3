"""Requests that are wrong, too large or too slow: one sentence, and the service goes on."""

import asyncio
import json
import re
import threading
from dataclasses import dataclass

import pytest
from markupsafe import escape
from pydantic import ValidationError

from service_parts import client_of, fitted
from tribit.data.reading import Reading
from tribit.questions import Entry
from tribit.questions.base import OMIT, option
from tribit.questions.kinds import Ids, Texts
from tribit.questions.predict import Predict
from tribit.questions.recommend import Recommend
from tribit.serve.app import Service, create_app
from tribit.serve.requests import RefusedError, Threads, error_response
from tribit.serve.schemas import NEUTRAL, Endpoint, endpoints
from tribit.serve.settings import ServiceSettings

#: Headers of a body in JSON.
JSON = {"Content-Type": "application/json"}


def refused(answer, status, words):
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    sentence = answer.json()["error"]
    assert words in sentence
    assert "Traceback" not in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("{", 400, "not JSON"),
        ("", 400, "not JSON"),
        ('{"rows": ["\\ud800"]}', 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        ("[" * 10**5, 400, "not JSON"),
        ("[]", 422, "an object"),
        ("{}", 422, "Pass rows, or the entries of new rows"),
        ('{"rows": []}', 422, "rows: list should have at least 1 item"),
        ('{"rows": "r3"}', 422, "rows: "),
        ('{"rows": [null]}', 422, "rows.0: "),
        ('{"rows": [true]}', 422, "rows.0: "),
        ('{"rows": [1.5]}', 422, "rows.0: "),
        ('{"rows": [' + "9" * 4000 + "]}", 422, "rows.0: "),
        ('{"rows": ["' + "r" * 1001 + '"]}', 422, "at most 1000 characters"),
        ('{"rows": ["r3"], "n": 0}', 422, "n: "),
        ('{"rows": ["r3"], "n": 1.5}', 422, "n: "),
        ('{"rows": ["r3"], "n": 1001}', 413, "more than 1000"),
        ('{"rows": ["r3"], "avoid_dislikes": -1}', 422, "avoid_dislikes: "),
        ('{"rows": ["r3"], "avoid_dislikes": NaN}', 422, "avoid_dislikes: "),
        ('{"rows": ["r3"], "avoid_dislikes": 1e999}', 422, "avoid_dislikes: "),
        ('{"rows": ["r3"], "level": 1}', 422, "level: "),
        ('{"rows": ["r3"], "avoid": 1}', 422, "avoid: extra inputs"),
        ('{"rows": ["r3"], "unknown": "no"}', 422, "unknown: "),
        ('{"rows": ["r3"], "entries": []}', 422, "not both"),
    ],
)
def test_bad_bodies(client, body, status, words):
    refused(client.post("/recommend", content=body, headers=JSON), status, words)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/recommend", 422, "Pass rows"),
        ("/recommend?row=r3&n=x", 422, "n: "),
        ("/recommend?row=r3&m=3", 422, "m: extra inputs"),
        ("/recommend?row=r3&user=r4", 422, "'row' under two names"),
        ("/recommend?movie=r3", 422, "movie: extra inputs"),
        ("/recommend?user=nobody&unknown=error", 404, "not fitted on the user 'nobody'"),
        ("/recommend?row=%ff", 400, "not UTF-8"),
        ("/elsewhere", 404, "no endpoint '/elsewhere'"),
        ("/predict?row=r3&column=c1", 405, "does not accept 'GET'"),
        ("/explain?row=r3&column=c1", 405, "does not accept 'GET'"),
    ],
)
def test_bad_queries(client, path, status, words):
    refused(client.get(path), status, words)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (
            "/explain",
            {"row": "nobody", "column": "c1", "unknown": "error"},
            404,
            "not fitted on the user 'nobody'",
        ),
        (
            "/explain",
            {"row": "r1", "column": "nothing", "unknown": "error"},
            404,
            "not fitted on the item 'nothing'",
        ),
        ("/explain", {"row": "r1"}, 422, "Pass a column"),
        ("/explain", {"row": ["r1"], "column": "c1"}, 422, "row: "),
        ("/predict", {}, 422, "either pairs, as in"),
        ("/predict", {"pairs": [{"row": "r1"}]}, 422, "pairs.0.item: field required"),
        ("/similar", {"columns": ["nothing"]}, 404, "not fitted on the item 'nothing'"),
        ("/similar", {}, 422, "either rows or columns"),
    ],
)
def test_bad_questions(client, path, body, status, words):
    refused(client.post(path, json=body), status, words)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"entries": [{"column": "c1"}]}, 422, "either a label"),
        ({"entries": [{"column": "c1", "label": 1, "value": 4}]}, 422, "either a label"),
        ({"entries": [{"column": "c1", "label": 0}]}, 422, "entries.0.label: "),
        ({"entries": [{"column": "c1", "label": 1}] * 2}, 422, "'c1' is in two entries"),
        ({"entries": [{"row": "r3", "column": "c1", "label": 1}]}, 422, "The row 'r3' is not new"),
        ({"entries": [], "columns": ["nothing"]}, 404, "not fitted on the item 'nothing'"),
    ],
)
def test_bad_entries(client, body, status, words):
    refused(client.post("/predict", json=body), status, words)


def test_reasons_are_of_one_row(client):
    entries = [{"row": row, "column": "c1", "label": 1} for row in ("a", "b")]
    answer = client.post("/explain", json={"entries": entries, "column": "c2"})
    refused(answer, 422, "to 2 new rows")


def test_ratings_need_a_model_of_ratings(tmp_path):
    recommender = fitted()
    recommender.reading_ = Reading()
    recommender.save(tmp_path / "m.tribit")
    body = {"entries": [{"column": "c1", "value": 4}]}
    refused(client_of(tmp_path / "m.tribit").post("/recommend", json=body), 422, "send labels")


def test_limits(recommenders):
    client = client_of(
        recommenders[0], max_body=400, max_pairs=9, max_rows=3, max_entries=1, max_n=4
    )
    pair = {"row": "r1", "column": "c1"}
    entry = {"column": "c1", "label": 1}
    assert client.post("/predict", json={"pairs": [pair] * 9}).status_code == 200
    refused(client.post("/predict", json={"pairs": [pair] * 10}), 413, "more than 9 pairs")
    assert client.post("/recommend", json={"rows": ["r1"] * 3, "n": 3}).status_code == 200
    refused(client.post("/recommend", json={"rows": ["r1"] * 3, "n": 4}), 413, "12 columns in all")
    refused(client.post("/recommend", json={"rows": ["r1"] * 4}), 413, "4 rows are more than 3")
    refused(client.post("/recommend", json={"rows": ["r1"], "n": 5}), 413, "more than 4")
    two = [entry, {"column": "c2", "label": 1}]
    refused(client.post("/recommend", json={"entries": two}), 413, "2 entries are more than 1")
    refused(client.post("/predict", json={"entries": []}), 413, "25 columns in all lists")
    assert client.post("/predict", json={"entries": [], "columns": ["c1"]}).status_code == 200
    refused(client.post("/similar", json={"rows": ["r1"] * 3, "n": 4}), 413, "12 columns in all")
    refused(client.post("/explain", json={"row": "r1", "column": "c1", "n": 5}), 413, "more than 4")
    large = client.post("/recommend", content=b" " * 401, headers=JSON)
    refused(large, 413, "more than 400 bytes")
    assert large.headers["connection"] == "close"
    chunks = (b" " * 100 for _ in range(5))  # without a length
    refused(client.post("/recommend", content=chunks, headers=JSON), 413, "more than 400 bytes")
    refused(client.get("/recommend?row=" + "r" * 400), 414, "more than 400 bytes")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        # One megabyte each: objects, keys, lists and strings in the place of a few thousand pairs.
        (b'{"pairs": [' + b"{}," * 340_000 + b"{}]}", 413, "more than 10000 objects"),
        (b'{"pairs": [{}' + b" , {}" * 200_000 + b"]}", 413, "more than 10000 objects"),
        (b'{"pairs": [' + b"[]," * 340_000 + b"[]]}", 413, "more than 10000 objects"),
        (b"{" + b",".join(b'"%x":1' % n for n in range(90_000)) + b"}", 413, "objects"),
        (b'{"pairs":[{' + b",".join(b'"%x":1' % n for n in range(90_000)) + b"}]}", 413, "objects"),
        (b'{"columns": [' + b'"",' * 300_000 + b'""]}', 413, "There are more than 10000 "),
        (b'{"columns": [' + b"null," * 150_000 + b"null]}", 422, "columns.0: "),
        (b'{"pairs": [' + b"1," * 400_000 + b"1]}", 422, "pairs.0: "),
        (b"{" + b",".join(b'"%x":1' % n for n in range(40_000)) + b"}", 422, "has 40000 errors"),
        (b"{" + b",".join(b'"%x":1' % n for n in range(3000)) + b"}", 422, "has 3000 errors"),
    ],
)
def test_large_wrong_bodies_fail_at_the_first_error(client, body, status, words):
    answer = client.post("/predict", content=body, headers=JSON)
    refused(answer, status, words)
    assert len(answer.content) < 300


@pytest.mark.parametrize(
    "body",
    [
        b'{"pairs": [' + b"{}," * 5000 + b"{}]}",
        b'{"entries": [' + b'{"column": 1.5},' * 5000 + b"1]}",
    ],
)
def test_validation_ends_at_the_first_wrong_item(body):
    with pytest.raises(ValidationError) as caught:
        endpoints(NEUTRAL)["/predict"].read_json(body)
    assert caught.value.error_count() <= 2


@pytest.mark.parametrize(("n", "is_large"), [(10, False), (6000, True)])
def test_large_bodies_are_parsed_outside_of_the_event_loop(client, monkeypatch, n, is_large):
    threads = []
    real = Endpoint.read_json

    def read_json(self, body):
        threads.append(threading.current_thread().name)
        return real(self, body)

    monkeypatch.setattr(Endpoint, "read_json", read_json)
    # Brackets in ids count in no limit that a request of this size meets.
    pairs = [{"row": "{a},{b}", "column": f"c{k % 25}"} for k in range(n)]
    answer = client.post("/predict", json={"pairs": pairs})
    assert answer.status_code == 200
    assert len(answer.json()["predictions"]) == n
    assert [name.startswith("tribit-serve") for name in threads] == [is_large]


def test_a_query_with_too_many_fields(recommenders):
    client = client_of(recommenders[0], max_pairs=20, max_rows=20, max_entries=20)
    refused(client.get("/recommend?" + "&".join(["row=r1"] * 21)), 413, "more than 20 fields")
    assert client.get("/recommend?n=1&" + "&".join(["row=r1"] * 19)).status_code == 200


HEADERS = [(b"host", b"localhost"), (b"content-type", b"application/json")]


def asgi(app, receive, path="/recommend"):
    """Return status and body of a POST whose body comes as a test says."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": HEADERS, "root_path": "", "scheme": "http"}
    scope |= {"http_version": "1.1", "client": ("x", 1), "server": ("x", 1), "app": app}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_slow_sender_is_not_waited_for(recommenders):
    app = create_app(ServiceSettings(str(recommenders[0]), body_seconds=0.05))

    async def never():
        await asyncio.sleep(60)

    status, body = asgi(app, never)
    assert status == 408
    assert "did not arrive within 0.05 s" in body["error"]


def test_a_sender_that_goes_away(recommenders):
    app = create_app(ServiceSettings(str(recommenders[0])))

    async def gone():
        return {"type": "http.disconnect"}

    assert asgi(app, gone)[0] == 400


def test_what_nobody_foresaw_is_no_traceback(recommenders, monkeypatch, caplog):
    client = client_of(recommenders[0])

    def broken(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr(Predict, "answer", broken)
    answer = client.post("/predict", json={"pairs": [{"row": "r1", "column": "c1"}]})
    refused(answer, 500, "its log has the reason")
    assert "secret" not in answer.text
    assert "secret" in caplog.text
    assert 'endpoint="/predict",status="500"} 1' in client.get("/metrics").text


def test_too_many_long_requests_are_refused():
    async def both():
        threads = Threads(max_pending=1)
        first = asyncio.create_task(threads.run(lambda: 1))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="Too many long requests"):
            await threads.run(lambda: 2)
        assert await first == 1
        assert await threads.run(lambda: 3) == 3

    asyncio.run(both())
    assert error_response(503, "Busy.").headers["retry-after"] == "1"


def test_a_schema_has_the_rules_of_the_question():
    endpoint = endpoints(NEUTRAL)["/recommend"]
    fields = endpoint.schema.model_json_schema()["properties"]
    assert {"rows", "n", "avoid_dislikes", "entries", "unknown"} <= set(fields)
    assert fields["n"]["minimum"] == 1
    assert fields["level"]["default"] is None
    assert fields["exclude_seen"]["type"] == "boolean"
    assert set(endpoint.query_names) >= {"row", "n", "exclude_seen"}
    assert not set(endpoint.query_names) & {"rows", "entries"}


@pytest.mark.parametrize("path", ["/predict", "/recommend", "/explain", "/similar"])
def test_an_example_is_a_valid_request(client, path):
    # Their ids are not those of the model here; nothing else may be wrong.
    assert client.post(path, json=endpoints(NEUTRAL)[path].entry.request).status_code in {200, 404}


def test_the_docs_page_has_every_field_and_loads_nothing(client):
    page = client.get("/docs")
    assert page.text.startswith("<!doctype html>")
    assert page.headers["content-type"].startswith("text/html")
    for endpoint in endpoints(NEUTRAL).values():
        for name, field in endpoint.fields.items():
            shown = {"rows": "user", "row": "user", "columns": "item", "column": "item"}
            assert f"<td>{shown.get(name, name)}</td>" in page.text
            assert escape(field.about.help) in page.text
    assert "curl http://127.0.0.1:8000/similar --json" in page.text
    assert not re.search(r"<script|<link|src=|url\(", page.text)
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_new_field_of_a_question_is_a_field_of_the_request(library):
    @dataclass(frozen=True, eq=False)
    class Wider(Recommend):
        among: Ids | None = option(None, "Only these columns.")  # noqa: RUF009
        share: float = option(0.5, "A share.", gt=0, lt=1)
        secret: int = option(1, "Not over HTTP.", serve=OMIT)

    class Question(Entry):
        def load(self):
            return Wider

    endpoint = Endpoint("wider", Question("", "", "", {"rows": ["r1"]}))
    asked = endpoint.make_question(endpoint.read_json(b'{"rows": ["r1"], "among": [3]}'), library)
    assert (asked.question.among, asked.question.share) == (Texts(("3",)), 0.5)
    for body in (b'{"rows": ["r1"], "secret": 2}', b'{"rows": ["r1"], "share": 1}'):
        with pytest.raises(ValidationError):
            endpoint.read_json(body)


def test_settings_are_checked_and_travel(recommenders, monkeypatch):
    settings = ServiceSettings(str(recommenders[0]), max_rows=7)
    monkeypatch.setenv("TRIBIT_SERVE_SETTINGS", "")
    settings.to_environment()
    assert ServiceSettings.from_environment() == settings
    with pytest.raises(ValueError, match="max_n must be a whole number, at least 1"):
        ServiceSettings("x", max_n=0)
    with pytest.raises(ValueError, match="There is no model file"):
        Service(ServiceSettings("nowhere.tribit"))
