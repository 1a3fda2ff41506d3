"""Load of ``tribit serve``: requests/s as fast as they go, latencies at a fixed rate, with bad clients among good ones.

The client is this process: one event loop with connections that are kept open, on the same cores as the service. Good
clients ask ``/recommend`` for a random row. Bad ones send broken JSON, bodies that are too large, unknown
ids, and bodies that stop half-way; each of their answers must be the error that it deserves. The service keeps
lists that were asked for before; under "no list kept" clients ask for new weights of dislikes,
so that each list is computed.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.data import movielens
from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Recommender

#: A model of the kind that the search chooses for MovieLens-100k; its values play no part in speed.
SETTINGS = {
    "rank": 40,
    "l2": 11.0,
    "l2_intercept": 1.0,
    "implicit_features": True,
    "l2_implicit": 26.0,
}
#: Header with a host that the service knows.
HOST = "Host: localhost\r\n"
#: Open connections of good clients.
CONNECTIONS = 16
#: Bytes that a service with its default limits refuses.
TOO_LARGE = 2**20 + 1
#: Statuses that each kind of bad client may see.
DESERVED = {"broken JSON": {400}, "huge body": {413}, "unknown id": {200}, "slow sender": {408}}


class Load:
    """Answers of one run: seconds of the good clients, statuses of all."""

    def __init__(self, port: int, n_rows: int) -> None:
        self.port, self.n_rows = port, n_rows
        self.seconds: list[float] = []
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.errors = 0
        self.draws = np.random.default_rng(0)

    async def good(self, until: float, rate: float | None, fresh: bool, start: float) -> None:
        """Ask on one connection until the time is over, so often a second, or without a pause for None.

        At a fixed rate the time of an answer counts from when it was due: one that has to wait for the connection is
        late, whatever the cause.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        due = start
        try:
            while (now := time.perf_counter()) < until:
                if rate is not None:
                    due += 1 / rate
                    if due > now:
                        await asyncio.sleep(due - now)
                began = time.perf_counter() if rate is None else due
                query = f"row={self.draws.integers(self.n_rows)}"
                if fresh:
                    query += f"&avoid_dislikes={self.draws.random()}"
                writer.write(f"GET /recommend?{query} HTTP/1.1\r\n{HOST}\r\n\r\n".encode())
                status, body = await answer(reader)
                self.seconds.append(time.perf_counter() - began)
                self.statuses["good", status] += 1
                self.errors += status != 200 or not body.startswith(b'{"lists":[{')
        except (OSError, asyncio.IncompleteReadError):
            self.errors += 1
        finally:
            writer.close()

    async def bad(self, kind: str, until: float) -> None:
        """Send bad requests, each on a connection of its own, ten a second."""
        bodies = {
            "broken JSON": b'{"rows": [',
            "huge body": b" " * TOO_LARGE,
            "unknown id": b'{"rows": ["nobody knows me"]}',
            "slow sender": b'{"rows"',
        }
        while time.perf_counter() < until:
            body = bodies[kind]
            length = len(body) + (100 if kind == "slow sender" else 0)
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(post(body, length))
                status, _ = await answer(reader)
                self.statuses[kind, status] += 1
                self.errors += status not in DESERVED[kind]
            except (OSError, asyncio.IncompleteReadError):
                # The service closed the connection while the rest of a huge body was on its way.
                self.statuses[kind, 0] += 1
                self.errors += kind != "huge body"
            finally:
                writer.close()
            await asyncio.sleep(0.1)


def post(body: bytes, length: int | None = None) -> bytes:
    """Return a question in JSON, of which a length is announced."""
    head = f"POST /recommend HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n"
    return (
        f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body
    )


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return status and body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1]) if length else 0)
    return int(head[9:12]), body


async def run(
    port: int, n_rows: int, seconds: float, *, rate: float | None, fresh: bool, bad: bool
) -> Load:
    """Return the answers of so many seconds; ``rate`` is that of all good clients together."""
    load = Load(port, n_rows)
    start = time.perf_counter()
    until = start + seconds
    each = None if rate is None else rate / CONNECTIONS
    # Clients that all begin at once would ask together for ever.
    offsets = np.arange(CONNECTIONS) / (rate or 1.0)
    tasks = [load.good(until, each, fresh, start + float(offset)) for offset in offsets]
    tasks += [load.bad(kind, until) for kind in DESERVED] if bad else []
    await asyncio.gather(*tasks)
    return load


def saved(folder: Path) -> tuple[str, Path, int]:
    """Return the name of the data, the file of a recommender fitted on them, and the number of rows."""
    name, seen = movielens()
    model = BinaryMatrixCompletion((1, 0, 0), **SETTINGS, members=1, random_state=0)
    path = folder / "model.tribit"
    Recommender(model, random_state=0).fit(seen).save(path)
    return name, path, seen.shape[0]


def started(path: Path, workers: int) -> tuple[subprocess.Popen[str], int]:
    """Return a service of its own process and its port, when it answers."""
    command = [sys.executable, "-m", "tribit", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--workers", str(workers)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    port = int(re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())[1])
    for _ in range(600):
        try:
            asyncio.run(_ready(port))
            return process, port
        except OSError:
            time.sleep(0.1)
    raise SystemExit("The service does not answer.")


async def _ready(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /health HTTP/1.1\r\n{HOST}\r\n".encode())
    status, body = await answer(reader)
    writer.close()
    assert (status, json.loads(body)["status"]) == (200, "ok")


def main() -> None:
    """Print one table of all loads, measured one after the other on one service."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each load")
    parser.add_argument("--rate", type=float, default=500.0, help="requests/s of the fixed loads")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        name, path, n_rows = saved(Path(folder))
        process, port = started(path, given.workers)
        try:
            loads = {
                "first load, lists new and kept": {"rate": None, "fresh": False, "bad": False},
                "as fast as it goes": {"rate": None, "fresh": False, "bad": False},
                "as fast as it goes, bad clients": {"rate": None, "fresh": False, "bad": True},
                f"{given.rate:g}/s": {"rate": given.rate, "fresh": False, "bad": False},
                f"{given.rate:g}/s, bad clients": {"rate": given.rate, "fresh": False, "bad": True},
                "no list kept, as fast as it goes": {"rate": None, "fresh": True, "bad": False},
                f"no list kept, {given.rate:g}/s": {
                    "rate": given.rate,
                    "fresh": True,
                    "bad": False,
                },
            }
            rows, bad = [], Counter()
            for title, options in loads.items():
                found = asyncio.run(run(port, n_rows, given.seconds, **options))
                rows.append((title, *figures(found, given.seconds)))
                bad += Counter({key: n for key, n in found.statuses.items() if key[0] != "good"})
        finally:
            process.terminate()
            process.wait()
    title = f"tribit serve, {name}, {given.workers} worker(s), {CONNECTIONS} connections, client on the same cores"
    print(f"{machine()}, load average {os.getloadavg()[0]:.1f}")
    print_table(title, ("load", "requests/s", "p50, ms", "p99, ms", "errors"), rows)
    answers = sorted(f"{kind} {status or 'closed'}: {n}" for (kind, status), n in bad.items())
    print(f"\nAnswers to bad clients: {'; '.join(answers)}.")


def figures(load: Load, seconds: float) -> tuple[str, ...]:
    """Return requests/s, median and 99th percentile in milliseconds, and errors."""
    p50, p99 = np.percentile(load.seconds, [50, 99]) * 1e3
    return f"{len(load.seconds) / seconds:.0f}", f"{p50:.1f}", f"{p99:.1f}", str(load.errors)


if __name__ == "__main__":
    main()
