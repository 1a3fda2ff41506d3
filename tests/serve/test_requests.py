"""Requests that are wrong, too large or too slow: one sentence, and the service goes on."""

import asyncio
import json

import pytest

from tribit.serve import handling
from tribit.serve.app import Service, create_app
from tribit.serve.handling import RefusedError, Threads
from tribit.serve.settings import ServiceSettings


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
        ("{", 400, "no JSON"),
        ("", 400, "no JSON"),
        ('{"rows": ["\\ud800"]}', 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        ("[" * 10**5, 400, "no JSON"),
        ("[]", 422, "an object"),
        ("{}", 422, "rows: field required"),
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
    ],
)
def test_bad_bodies(client, body, status, words):
    refused(client.post("/recommend", content=body), status, words)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/recommend", 422, "rows: field required"),
        ("/recommend?row=r3&n=x", 422, "n: "),
        ("/recommend?row=r3&m=3", 422, "m: extra inputs"),
        ("/recommend?row=%ff", 400, "no UTF-8"),
        ("/predict?row=r3&row=r4&column=c1", 422, "2 times row= and 1 times column="),
        ("/explain?row=nobody&column=c1", 404, "'nobody' is not one the model was fitted on"),
        ("/explain?row=r1&column=nothing", 404, "'nothing' is not one"),
        ("/explain?row=r1", 422, "column: field required"),
        ("/elsewhere", 404, "nothing at '/elsewhere'"),
        ("/fold-in", 405, "does not take 'GET'"),
    ],
)
def test_bad_queries(client, path, status, words):
    refused(client.get(path), status, words)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"entries": [{"column": "c1"}]}, 422, "either a label"),
        ({"entries": [{"column": "c1", "label": 1, "value": 4}]}, 422, "either a label"),
        ({"entries": [{"column": "c1", "label": 0}]}, 422, "entries.0.label: "),
        ({"entries": [{"column": "c1", "label": 1}] * 2}, 422, "'c1' is in two entries"),
        ({"entries": [], "columns": ["nothing"]}, 404, "'nothing' is not one"),
    ],
)
def test_bad_entries(client, body, status, words):
    refused(client.post("/fold-in", json=body), status, words)


def test_limits(client_of, bundles):
    client = client_of(bundles[0], max_body=400, max_pairs=9, max_rows=3, max_entries=1, max_n=4)
    pair = {"row": "r1", "column": "c1"}
    entry = {"column": "c1", "label": 1}
    assert client.post("/predict", json={"pairs": [pair] * 9}).status_code == 200
    refused(client.post("/predict", json={"pairs": [pair] * 10}), 413, "10 pairs are more than 9")
    assert client.post("/recommend", json={"rows": ["r1"] * 3, "n": 3}).status_code == 200
    refused(client.post("/recommend", json={"rows": ["r1"] * 3, "n": 4}), 413, "12 columns in all")
    refused(client.post("/recommend", json={"rows": ["r1"] * 4}), 413, "4 rows are more than 3")
    refused(client.post("/recommend", json={"rows": ["r1"], "n": 5}), 413, "more than 4")
    two = [entry, {"column": "c2", "label": 1}]
    refused(client.post("/fold-in", json={"entries": two}), 413, "2 entries are more than 1")
    large = client.post("/recommend", content=b" " * 401)
    refused(large, 413, "more than 400 bytes")
    assert large.headers["connection"] == "close"
    chunks = (b" " * 100 for _ in range(5))  # without a length
    refused(client.post("/recommend", content=chunks), 413, "more than 400 bytes")
    refused(client.get("/recommend?row=" + "r" * 400), 414, "more than 400 bytes")


def asgi(app, receive, path="/recommend"):
    """Return status and body of a POST whose body comes as a test says."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": [], "root_path": "", "scheme": "http"}
    scope |= {"http_version": "1.1", "client": ("x", 1), "server": ("x", 1), "app": app}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_slow_sender_is_not_waited_for(bundles):
    app = create_app(ServiceSettings(str(bundles[0]), body_seconds=0.05))

    async def never():
        await asyncio.sleep(60)

    status, body = asgi(app, never)
    assert status == 408
    assert "did not come in 0.05 s" in body["error"]


def test_a_sender_that_goes_away(bundles):
    app = create_app(ServiceSettings(str(bundles[0])))

    async def gone():
        return {"type": "http.disconnect"}

    assert asgi(app, gone)[0] == 400


def test_what_nobody_foresaw_is_no_traceback(client_of, bundles, monkeypatch, caplog):
    client = client_of(bundles[0])

    def broken(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr(type(client.app.state.service.served), "predictions", broken)
    answer = client.get("/predict?row=r1&column=c1")
    refused(answer, 500, "its log says why")
    assert "secret" not in answer.text
    assert "secret" in caplog.text
    assert 'endpoint="/predict",status="500"} 1' in client.get("/metrics").text


def test_too_many_long_requests_are_sent_away(monkeypatch):
    monkeypatch.setattr(handling, "WAITING", 1)

    async def both():
        threads = Threads()
        first = asyncio.create_task(threads.run(lambda: 1))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="Too many long requests"):
            await threads.run(lambda: 2)
        assert await first == 1
        assert await threads.run(lambda: 3) == 3

    asyncio.run(both())
    assert handling.error_answer(503, "Busy.").headers["retry-after"] == "1"


def test_the_pages_describe_what_is_taken(client):
    pages = client.get("/openapi.json").json()
    assert set(pages["paths"]) == {
        *("/predict", "/recommend", "/explain", "/fold-in", "/health", "/metrics")
    }
    schemas = pages["components"]["schemas"]

    def references(value):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"].rpartition("/")[2]
            for each in value.values():
                yield from references(each)
        elif isinstance(value, list):
            for each in value:
                yield from references(each)

    assert set(references(pages)) <= set(schemas)
    query = pages["paths"]["/recommend"]["get"]["parameters"]
    assert {each["name"]: each["required"] for each in query}["row"]
    assert client.get("/docs").status_code == 200


def test_the_examples_of_the_pages_are_requests(client):
    pages = client.get("/openapi.json").json()
    for path in ("/predict", "/recommend", "/fold-in"):
        schema = pages["paths"][path]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ]
        example = pages["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["examples"][0]
        # Their ids are not those of the model here; what is wrong may be that alone.
        assert client.post(path, json=example).status_code in {200, 404}


def test_settings_are_checked_and_travel(bundles, monkeypatch):
    settings = ServiceSettings(str(bundles[0]), max_rows=7)
    monkeypatch.setenv("TRIBIT_SERVE_SETTINGS", "")
    settings.to_environment()
    assert ServiceSettings.from_environment() == settings
    with pytest.raises(ValueError, match="max_n must be a whole number, at least 1"):
        ServiceSettings("x", max_n=0)
    with pytest.raises(ValueError, match="There is no model file"):
        Service(ServiceSettings("nowhere.tribit"))
