"""``tribit serve`` as a process: it answers on its port, loads new models and ends when it is told to."""

import asyncio
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from service_parts import replace_file


def test_a_missing_extra_is_one_sentence(run, recommenders, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "uvicorn" else real(name)
    )
    code, out, err = run("serve", recommenders[0])
    assert (code, out) == (2, "")
    assert err == (
        'Error: The service needs uvicorn, which is not installed; run pip install "tribit[serve]".\n'
    )


def test_the_library_and_the_help_import_no_server():
    code = "import sys, tribit.cli, tribit.recommender; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    for name in ("uvicorn", "starlette", "pydantic", "prometheus_client", "tribit.serve"):
        assert name not in modules


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_arguments(run, recommenders, tmp_path, workers):
    code, _, err = run("serve", tmp_path / "none.tribit", "--port", 0, "--workers", workers)
    assert code == 2
    assert "There is no model file" in err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run("serve", recommenders[0], "--port", port, "--workers", workers)
    assert code == 2
    assert f"port {port} (Address already in use); choose another --port or --host" in err
    code, _, err = run("serve", recommenders[0], "--max-n", 0)
    assert code == 2
    assert "--max-n must be a whole number, at least 1" in err


class Served:
    """A service in a process of its own."""

    def __init__(self, path, *options):
        command = [sys.executable, "-m", "tribit", "serve", str(path), "--port", "0", *options]
        self.folder = path.parent  # where several workers keep their numbers
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(self.folder)},
        )
        said = self.process.stdout.readline()
        self.address = re.search(r"http://127\.0\.0\.1:\d+", said)[0]

    def get(self, path):
        """Return an answer, when the port is open."""
        for _ in range(300):
            try:
                return httpx.get(self.address + path, timeout=30)
            except httpx.TransportError:
                assert self.process.poll() is None, self.process.stderr.read()
                time.sleep(0.1)
        raise AssertionError("The service does not answer.")

    def wait_for(self, workers):
        """Return when each of several workers has answered: one that starts later would load what is there then."""
        for _ in range(300):
            self.get("/health")
            # Each worker writes the seconds of its requests to a file of its own.
            if len(list(self.folder.glob("*/histogram_*.db"))) == workers:
                return
            time.sleep(0.1)
        raise AssertionError("A worker has not answered.")

    def ended_by(self, number):
        """Return exit code and standard error after a signal."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@pytest.mark.parametrize(
    ("workers", "number"),
    [
        (1, signal.SIGTERM),
        (1, signal.SIGINT),
        pytest.param(2, signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_process_answers_swaps_and_ends(model_path, recommenders, library, workers, number):
    served = Served(model_path, "--workers", str(workers))
    try:
        found = served.get("/recommend?row=r3&n=4").json()
        expected = library.recommend(["r3"], 4).columns[0].tolist()
        assert [item["item"] for item in found["lists"][0]["items"]] == expected
        if workers > 1:
            served.wait_for(workers)
        replace_file(model_path, recommenders[1].read_bytes())
        swapped = 0
        for _ in range(300):
            text = served.get("/metrics").text
            swapped = int(re.search(r"^tribit_model_swaps_total (\d+)\.0$", text, re.MULTILINE)[1])
            if swapped == workers:
                break
            time.sleep(0.1)
        assert swapped == workers
        assert served.get("/recommend?row=r3&n=4").json()["model"] != found["model"]
        code, err = served.ended_by(number)
    finally:
        served.process.kill()
    assert (code, err) == (0, "")


@pytest.mark.slow
def test_a_worker_that_is_started_again_waits_for_a_good_file(model_path, recommenders):
    """A worker is killed while the file is damaged: no request fails, and both load the next file."""
    served = Served(model_path, "--workers", "2")
    try:
        before = served.get("/health").json()["model"]
        served.wait_for(2)
        replace_file(model_path, b"damaged")
        os.kill(workers_of(served.process.pid)[0], signal.SIGKILL)
        time.sleep(5)  # the supervisor starts it again, and it polls several times
        for _ in range(50):
            health = served.get("/health").json()
            assert (health["status"], health["model"]) == ("stale", before)
        assert len(workers_of(served.process.pid)) == 2
        replace_file(model_path, recommenders[1].read_bytes())
        found = set()
        for _ in range(300):
            found = {served.get("/health").json()["model"] for _ in range(10)}
            if before not in found:
                break
            time.sleep(0.1)
        assert len(found - {before}) == len(found) == 1
        code, err = served.ended_by(signal.SIGTERM)
    finally:
        served.process.kill()
    assert code == 0
    assert err.count("A worker waits for a new file") == 1
    assert err.count("could not be loaded") == 2  # one sentence of each worker
    assert "Traceback" not in err


@pytest.mark.slow
def test_bad_clients_cost_no_answer_and_no_memory(model_path):
    """The attacks of the benchmark for twenty seconds, beside honest clients."""
    from benchmarks import serve_attacks

    served = Served(model_path)
    try:
        served.get("/health")
        port = int(served.address.rpartition(":")[2])
        asyncio.run(serve_attacks.honest(port, 40, 5.0, 200.0, 50))
        sizes, loads = [], []
        with serve_attacks.attacked(port, 20.0) as found:
            for _ in range(4):
                loads.append(asyncio.run(serve_attacks.honest(port, 40, 5.0, 200.0, 50)))
                sizes.append(serve_attacks.memory(served.process.pid))
        text = served.get("/metrics").text
        code, err = served.ended_by(signal.SIGTERM)
    finally:
        served.process.kill()
    assert sum(load.errors for load in loads) == 0
    assert {kind for kind, _ in found} == set(serve_attacks.KINDS)
    assert max(status for _, status in found) < 500
    assert 'status="5' not in text
    assert max(sizes) < 1.1 * sizes[0]
    assert (code, err) == (0, "")


def workers_of(parent):
    """Return the ids of the processes of a service that load models: children that run multiprocessing's spawn."""
    found = subprocess.run(
        ["ps", "--ppid", str(parent), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(maxsplit=1) for line in found.stdout.splitlines()]
    return [int(pid) for pid, args in lines if "spawn_main" in args]
