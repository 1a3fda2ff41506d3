"""Models that take the place of others while requests come, and the numbers that tell of it."""

import os
import re
import threading

import numpy as np

from service_parts import replace_file
from tribit.serve.counters import BINS, Counters
from tribit.serve.watched import INTERVAL, WatchedModel


def versions(client):
    health = client.get("/health").json()
    return health["model"], health["status"], health["problem"]


def test_a_new_file_is_loaded(client_of, model_path, bundles):
    client = client_of(model_path)
    watched = client.app.state.service.watched
    before, status, problem = versions(client)
    assert (status, problem) == ("ok", None)
    first = client.get("/recommend?row=r3&n=3").json()
    assert watched.check() is False
    replace_file(model_path, bundles[1].read_bytes())
    assert watched.check() is True
    after, status, _ = versions(client)
    assert (after != before, status) == (True, "ok")
    found = client.get("/recommend?row=r3&n=3").json()
    assert found["model"] == after
    # The list of the old model is not kept.
    assert found["lists"] != first["lists"]
    replace_file(model_path, bundles[0].read_bytes())
    assert watched.check() is True
    assert client.get("/recommend?row=r3&n=3").json() == first
    assert "tribit_model_swaps_total 2\n" in client.get("/metrics").text


def test_a_damaged_file_keeps_the_old_model(client_of, model_path, bundles, caplog):
    client = client_of(model_path)
    watched = client.app.state.service.watched
    first = client.get("/recommend?row=r3").json()
    whole = bundles[1].read_bytes()
    for number, damaged in enumerate((whole[:-100], b"", b"no model at all", whole[:7]), 1):
        replace_file(model_path, damaged)
        assert watched.check() is False
        version, status, problem = versions(client)
        assert (version, status) == (first["model"], "stale")
        assert "could not be loaded" in problem
        assert "Traceback" not in problem
        assert client.get("/recommend?row=r3").json() == first
        text = client.get("/metrics").text
        assert f"tribit_model_load_failures_total {number}\n" in text
        assert "tribit_model_stale 1\n" in text
        assert watched.check() is False  # and is not tried again and again
        assert f"tribit_model_load_failures_total {number}\n" in client.get("/metrics").text
    assert "old model goes on" in caplog.text
    replace_file(model_path, whole)
    assert watched.check() is True
    assert versions(client)[1:] == ("ok", None)
    assert "tribit_model_stale 0\n" in client.get("/metrics").text


def test_a_file_that_is_gone_is_told(client_of, model_path):
    client = client_of(model_path)
    content = model_path.read_bytes()
    model_path.unlink()
    watched = client.app.state.service.watched
    assert watched.check() is False
    assert "not there any more" in versions(client)[2]
    assert client.get("/recommend?row=r3").status_code == 200
    replace_file(model_path, content)
    assert watched.check() is True
    assert versions(client)[1:] == ("ok", None)


def test_the_same_file_again_ends_a_problem(model_path):
    watched = WatchedModel(model_path, Counters())
    kept = model_path.with_suffix(".kept")
    os.rename(model_path, kept)  # noqa: PTH104
    watched.check()
    assert watched.problem is not None
    os.rename(kept, model_path)  # noqa: PTH104
    watched.check()
    assert watched.problem is None


def test_the_application_looks_by_itself(client_of, model_path, bundles):
    with client_of(model_path) as client:
        before = versions(client)[0]
        replace_file(model_path, bundles[1].read_bytes())
        waited = threading.Event()
        for _ in range(100):
            if versions(client)[0] != before:
                break
            waited.wait(INTERVAL / 5)
        assert versions(client)[0] != before


def test_threads_see_one_model_at_a_time(client_of, model_path, bundles):
    """Each answer is wholly that of the version it names, while models are swapped under the requests."""
    client = client_of(model_path)
    service = client.app.state.service
    rows = [f"r{n}" for n in range(40)]
    expected = {}
    for path in bundles:
        replace_file(model_path, path.read_bytes())
        service.watched.check()
        body = client.post("/recommend", json={"rows": rows, "n": 5}).json()
        expected[body["model"]] = {each["row"]: each["items"] for each in body["lists"]}
    assert len(expected) == 2
    stop, wrong = threading.Event(), []

    def ask(seed):
        draws = np.random.default_rng(seed)
        served_rows = draws.permutation(rows).tolist()
        while not stop.is_set():
            try:
                answer = client.post("/recommend", json={"rows": served_rows[:7], "n": 5}).json()
                right = expected[answer["model"]]
                if any(each["items"] != right[each["row"]] for each in answer["lists"]):
                    wrong.append(answer["model"])
            except Exception as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    swaps = 0
    for turn in range(6):
        replace_file(model_path, bundles[turn % 2].read_bytes())
        swaps += service.watched.check()
    stop.set()
    for thread in threads:
        thread.join()
    assert swaps == 6
    assert wrong == []


def test_counts_of_several_workers_are_summed(tmp_path, monkeypatch):
    workers = []
    for pid in (11, 12):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        workers.append(Counters(tmp_path))
    workers[0].answered("/recommend", 200, 0.0007)
    workers[1].answered("/recommend", 200, 0.03)
    workers[1].answered("/recommend", 422, 99.0)
    workers[1].answered("/made-up", 418, 0.0)
    workers[0].swapped()
    (tmp_path / "worker-13.counts").write_bytes(b"")
    for worker in workers:
        text = worker.text("abc", 12.0, None)
        assert 'tribit_requests_total{endpoint="/recommend",status="200"} 2\n' in text
        assert 'tribit_requests_total{endpoint="/recommend",status="422"} 1\n' in text
        assert 'tribit_requests_total{endpoint="other",status="500"} 1\n' in text
        assert "made-up" not in text
        counts = re.findall(r'_bucket\{endpoint="/recommend",le="[^"]+"\} (\d+)', text)
        assert list(map(int, counts)) == [(b >= 0.0007) + (b >= 0.03) for b in BINS] + [3]
        assert 'tribit_request_seconds_sum{endpoint="/recommend"} 99.030700\n' in text
        assert 'tribit_model_info{version="abc"} 1\n' in text
        assert "tribit_model_swaps_total 1\n" in text
