"""Who may ask: trusted hosts, the token, and bodies that a page of another site cannot send."""

import stat

import pytest

from service_parts import client_of
from tribit import InvalidInputError
from tribit.serve import access
from tribit.serve.settings import ServiceSettings, digest_of_token, host_of, read_token

TOKEN = "0123456789abcdef-secret"
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("allowed", "host", "known"),
    [
        ((), "localhost", True),
        ((), "LOCALHOST:8000", True),
        ((), "127.0.0.1:1", True),
        ((), "[::1]:8000", True),
        ((), "evil.example", False),
        ((), "evil.example:8000", False),
        ((), "localhost.evil.example", False),
        ((), "127.0.0.1.evil.example", False),
        ((), "localhost@evil.example", False),
        ((), "localhost:80:80", False),
        ((), "192.0.2.1", False),
        ((), "", False),
        (("models.example.org",), "Models.Example.org:443", True),
        (("models.example.org",), "example.org", False),
        (("models.example.org",), "localhost", True),
        (("192.0.2.1",), "192.0.2.1:8000", True),
        (("192.0.2.1",), "192.0.2.2:8000", False),
        # All addresses of the machine: a name can be that of an attacker, an address cannot.
        (("0.0.0.0",), "192.0.2.7:8000", True),
        (("::",), "[2001:db8::7]:8000", True),
        (("0.0.0.0",), "evil.example", False),
        (("*",), "anything.example", True),
        (("*",), "two words", False),
    ],
)
def test_hosts(allowed, host, known):
    assert ServiceSettings("x", hosts=allowed).trusts(host) is known


def test_requests_for_other_hosts_are_refused(recommenders):
    client = client_of(recommenders[0], hosts=("models.example.org",))
    for path in ("/", "/docs", "/health", "/metrics", "/recommend?row=r3", "/nothing"):
        answer = client.get(path, headers={"Host": "evil.example"})
        assert answer.status_code == 421
        assert "'evil.example'" in answer.json()["error"]
        assert "--allow-host" in answer.json()["error"]
    assert client.get("/recommend?row=r3", headers={"Host": "models.example.org"}).is_success
    for several in ([("Host", "localhost"), ("Host", "evil.example")], [("Host", "")]):
        assert client.get("/health", headers=several).status_code == 421
    text = client.get("/metrics").text
    assert 'tribit_requests_total{endpoint="other",status="421"} 8.0' in text


@pytest.mark.parametrize("name", ["http://a", "a:80", "a b", "", "a/b", "x,y"])
def test_hosts_that_are_none(name):
    with pytest.raises(InvalidInputError, match="allow_host must be a name without scheme"):
        ServiceSettings("x", hosts=(name,))
    assert host_of("a b") is None


def test_without_the_token_nothing_of_the_model_is_shown(recommenders):
    client = client_of(recommenders[0], token_digest=digest_of_token(TOKEN.encode()))
    wrong = [{}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"}]
    wrong += [{"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}]
    wrong += [{"Authorization": f"Bearer {TOKEN[:-1]}"}, {"Authorization": b"Bearer \xff"}]
    for headers in wrong:
        for path in ("/recommend?row=r3", "/metrics", "/nothing"):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert list(answer.json()) == ["error"]
        assert client.post("/predict", json={}, headers=headers).status_code == 401
        assert client.get("/health", headers=headers).json() == {"status": "ok"}
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.status_code == 200
        assert client.app.state.service.model.version not in page.text
        assert "40 users" not in page.text
    assert 'type="password"' in client.get("/").text
    assert client.get("/recommend?row=r3", headers=WITH_TOKEN).is_success
    assert client.get("/health", headers=WITH_TOKEN).json()["rows"] == 40


def test_tokens_are_compared_in_constant_time(recommenders, monkeypatch):
    """Digests of equal length are compared, by the function that takes the same time wherever they differ."""
    compared = []

    def compare(given, known):
        compared.append((given, known))
        return given == known

    monkeypatch.setattr(access.hmac, "compare_digest", compare)
    digest = digest_of_token(TOKEN.encode())
    client = client_of(recommenders[0], token_digest=digest)
    for headers in ({}, {"Authorization": "Bearer x"}, WITH_TOKEN):
        client.get("/metrics", headers=headers)
    assert [known for _, known in compared] == [digest] * 3
    assert {len(given) for given, _ in compared} == {len(digest)}


def test_the_page_has_no_box_for_a_token_that_is_not_needed(client):
    assert "password" not in client.get("/").text


def test_tokens_of_files(tmp_path, run, recommenders):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(stat.S_IRUSR)
    assert read_token(path) == digest_of_token(TOKEN.encode())
    assert TOKEN not in repr(ServiceSettings("x", token_digest=read_token(path)))
    for content in (
        "",
        "short",
        "x" * 15,
        "two words, and many",
        "ümlaut-ümlaut-ümlaut",
        "a" * 20 + "\nb",
    ):
        path.chmod(0o600)
        path.write_text(content, encoding="utf-8")
        code, _, err = run("serve", recommenders[0], "--port", 0, "--token-file", path)
        assert code == 2
        assert "must have one line of at least 16 visible" in err
    code, _, err = run("serve", recommenders[0], "--token-file", tmp_path / "nowhere")
    assert (code, "cannot be read (No such file or directory)" in err) == (2, True)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("application/vnd.api+json", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/json", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_a_body_is_declared_as_json(client, kind, status):
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.post("/recommend", content=b'{"rows": ["r3"]}', headers=headers)
    assert answer.status_code == status
    if status == 415:
        assert "Content-Type: application/json" in answer.json()["error"]


def test_answers_are_not_sniffed(client):
    for path in ("/", "/docs", "/nothing"):
        assert client.get(path).headers["x-content-type-options"] == "nosniff"
