"""Hot reload of a replaced file during requests, and the metrics of it."""

import asyncio
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from service_parts import client_of, replace_file
from tribit import Recommender
from tribit.serve import hot_reload
from tribit.serve.app import create_app
from tribit.serve.counters import LATENCY_BINS, Counters
from tribit.serve.hot_reload import POLL_SECONDS, VERSION_DIGITS, HotReload
from tribit.serve.settings import ServiceSettings


def versions(client):
    health = client.get("/health").json()
    return health["model"], health["status"], health["problem"]


def test_a_new_file_is_loaded(model_path, recommenders):
    client = client_of(model_path)
    model = client.app.state.service.model
    before, status, problem = versions(client)
    assert (status, problem) == ("ok", None)
    first = client.get("/recommend?row=r3&n=3").json()
    assert model.check() is False
    replace_file(model_path, recommenders[1].read_bytes())
    assert model.check() is True
    after, status, _ = versions(client)
    assert (after != before, status) == (True, "ok")
    found = client.get("/recommend?row=r3&n=3").json()
    assert found["model"] == after
    # The list of the old model is not kept.
    assert found["lists"] != first["lists"]
    replace_file(model_path, recommenders[0].read_bytes())
    assert model.check() is True
    assert client.get("/recommend?row=r3&n=3").json() == first
    assert "tribit_model_swaps_total 2.0\n" in client.get("/metrics").text


def test_a_damaged_file_keeps_the_old_model(model_path, recommenders, caplog):
    client = client_of(model_path)
    model = client.app.state.service.model
    first = client.get("/recommend?row=r3").json()
    whole = recommenders[1].read_bytes()
    for number, damaged in enumerate((whole[:-100], b"", b"no model at all", whole[:7]), 1):
        replace_file(model_path, damaged)
        assert model.check() is False
        version, status, problem = versions(client)
        assert (version, status) == (first["model"], "stale")
        assert "could not be loaded" in problem
        assert "Traceback" not in problem
        assert client.get("/recommend?row=r3").json() == first
        text = client.get("/metrics").text
        assert f"tribit_model_load_failures_total {number}.0\n" in text
        assert "tribit_model_stale 1.0\n" in text
        assert model.check() is False  # and is not tried again and again
        assert f"tribit_model_load_failures_total {number}.0\n" in client.get("/metrics").text
    assert "old model stays loaded" in caplog.text
    replace_file(model_path, whole)
    assert model.check() is True
    assert versions(client)[1:] == ("ok", None)
    assert "tribit_model_stale 0.0\n" in client.get("/metrics").text


def test_a_file_that_is_gone_is_told(model_path):
    client = client_of(model_path)
    content = model_path.read_bytes()
    model_path.unlink()
    model = client.app.state.service.model
    assert model.check() is False
    assert "does not exist any more" in versions(client)[2]
    assert client.get("/recommend?row=r3").status_code == 200
    replace_file(model_path, content)
    assert model.check() is True
    assert versions(client)[1:] == ("ok", None)


def test_the_version_is_that_of_the_bytes_that_were_loaded(model_path, recommenders, monkeypatch):
    """The file is replaced between reading it and naming its version."""
    first, second = (path.read_bytes() for path in recommenders)
    expected = Recommender.load(recommenders[0]).model_.fitted_.members[0].factors.row_factors
    real = hot_reload.storage.read

    def read(path, *args, **kwargs):
        found = real(path, *args, **kwargs)
        replace_file(path, second)
        return found

    monkeypatch.setattr(hot_reload.storage, "read", read)
    model = HotReload(model_path, Counters())
    assert model.version == hashlib.sha256(first).hexdigest()[:VERSION_DIGITS]
    factors = model.served.recommender.model_.fitted_.members[0].factors.row_factors
    np.testing.assert_array_equal(factors, expected)
    assert model.check() is True  # it has noticed the other file
    assert model.version == hashlib.sha256(second).hexdigest()[:VERSION_DIGITS]


@pytest.mark.parametrize("damage", [b"", b"no model", None])
def test_a_worker_without_a_model_waits_for_the_next_file(model_path, monkeypatch, caplog, damage):
    """As when a worker is started again while the file is damaged or missing: one sentence, whatever the time."""
    monkeypatch.setattr(hot_reload, "POLL_SECONDS", 0.01)
    good = model_path.read_bytes()
    if damage is None:
        model_path.unlink()
    else:
        replace_file(model_path, damage)
    model = HotReload(model_path, Counters(), may_wait=True)
    assert not model.is_loaded
    assert [model.check() for _ in range(3)] == [False] * 3
    assert len(caplog.records) == 1
    assert "A worker waits for a new file" in caplog.text
    assert "Traceback" not in caplog.text
    replace_file(model_path, good)
    asyncio.run(model.wait())
    assert (model.is_loaded, model.problem, model.status) == (True, None, "ok")
    assert "tribit_model_swaps_total 0.0" in model.counters.text().decode()


def test_an_application_that_waits_starts_with_its_model(model_path, monkeypatch):
    """A signal ends a process that waits; afterwards signals are handled as before."""
    monkeypatch.setattr(hot_reload, "POLL_SECONDS", 0.01)
    good = model_path.read_bytes()
    replace_file(model_path, good[:100])
    app = create_app(ServiceSettings(str(model_path)), may_wait=True)
    handler = signal.getsignal(signal.SIGTERM)

    async def start():
        async with app.router.lifespan_context(app):
            return app.state.service.model.is_loaded

    async def both():
        starting = asyncio.create_task(start())
        await asyncio.sleep(0.05)
        assert not starting.done()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        replace_file(model_path, good)
        return await starting

    assert asyncio.run(both())
    assert signal.getsignal(signal.SIGTERM) == handler


def test_the_same_file_again_ends_a_problem(model_path):
    model = HotReload(model_path, Counters())
    kept = model_path.with_suffix(".kept")
    os.rename(model_path, kept)  # noqa: PTH104
    model.check()
    assert model.problem is not None
    os.rename(kept, model_path)  # noqa: PTH104
    model.check()
    assert model.problem is None


def test_the_application_looks_by_itself(model_path, recommenders):
    with client_of(model_path) as client:
        before = versions(client)[0]
        replace_file(model_path, recommenders[1].read_bytes())
        waited = threading.Event()
        for _ in range(100):
            if versions(client)[0] != before:
                break
            waited.wait(POLL_SECONDS / 5)
        assert versions(client)[0] != before


def test_threads_see_one_model_at_a_time(model_path, recommenders):
    """Each answer is wholly that of the version it names, while models are swapped under the requests."""
    client = client_of(model_path)
    service = client.app.state.service
    rows = [f"r{n}" for n in range(40)]
    expected = {}
    for path in recommenders:
        replace_file(model_path, path.read_bytes())
        service.model.check()
        body = client.post("/recommend", json={"rows": rows, "n": 5}).json()
        expected[body["model"]] = {each["user"]: each["items"] for each in body["lists"]}
    assert len(expected) == 2
    stop, wrong = threading.Event(), []

    def ask(seed):
        draws = np.random.default_rng(seed)
        served_rows = draws.permutation(rows).tolist()
        while not stop.is_set():
            try:
                answer = client.post("/recommend", json={"rows": served_rows[:7], "n": 5}).json()
                right = expected[answer["model"]]
                if any(each["items"] != right[each["user"]] for each in answer["lists"]):
                    wrong.append(answer["model"])
            except Exception as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    swaps = 0
    for turn in range(6):
        replace_file(model_path, recommenders[turn % 2].read_bytes())
        swaps += service.model.check()
    stop.set()
    for thread in threads:
        thread.join()
    assert swaps == 6
    assert wrong == []


WORKER = """
import sys
from tribit.serve.counters import Counters
counters = Counters()
for endpoint, status, seconds in {requests}:
    counters.count(endpoint, status, seconds)
counters.swaps.inc()
sys.stdout.write(counters.text().decode())
"""


def test_counts_of_several_workers_are_summed(tmp_path):
    """Each worker has a process of its own; the second one sees the counts of the first, which has ended."""
    requests = [
        [("/recommend", 200, 0.0007)],
        [("/recommend", 200, 0.03), ("/recommend", 422, 99.0), ("other", 404, 0.0)],
    ]
    for some in requests:
        code = [sys.executable, "-c", WORKER.format(requests=some)]
        env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        text = subprocess.run(code, env=env, capture_output=True, text=True, check=True).stdout
    assert 'tribit_requests_total{endpoint="/recommend",status="200"} 2.0\n' in text
    assert 'tribit_requests_total{endpoint="/recommend",status="422"} 1.0\n' in text
    assert 'tribit_requests_total{endpoint="other",status="404"} 1.0\n' in text
    counts = re.findall(r'_bucket\{endpoint="/recommend",le="[^"]+"\} (\d+)', text)
    assert list(map(int, counts)) == [(b >= 0.0007) + (b >= 0.03) for b in LATENCY_BINS] + [3]
    total = re.search(r'tribit_request_seconds_sum\{endpoint="/recommend"\} (\S+)', text)[1]
    assert float(total) == pytest.approx(99.0307)
    assert "tribit_model_swaps_total 2.0\n" in text


def test_unknown_paths_are_counted_together(model_path):
    client = client_of(model_path)
    client.get("/made-up")
    text = client.get("/metrics").text
    assert 'tribit_requests_total{endpoint="other",status="404"} 1.0\n' in text
    assert "made-up" not in text
    version = client.get("/health").json()["model"]
    assert f'tribit_model_info{{version="{version}"}} 1.0\n' in text
    loaded = re.search(r"^tribit_model_loaded_timestamp_seconds (\S+)$", text, re.MULTILINE)[1]
    assert abs(float(loaded) - time.time()) < 3600
